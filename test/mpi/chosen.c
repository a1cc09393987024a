// SPDX-License-Identifier: BSD-3-Clause
/*
 * The lines of adaptib on standard error say what it carries, or that it was named and is not used:
 * one line of the job's first process, and none of the others. Arguments: what the line tells, or
 * silent; then, optionally, a word that is in the line.
 *   mtl, btl                  the component carries messages (parameter verbose)
 *   report                    the same in the report of each process
 *   mtl_unused, btl_unused    the component is named, and Open MPI has chosen another PML
 */
#include "check.h"

#include <unistd.h>

enum {
    ROOM = 1 << 16
};

static const struct {
    const char *what, *begin;
    int ranks; /* that write it; 0: all */
} lines[] = {
    {"mtl", "adaptib carries messages (MTL, under pml/cm); within the host: shm0", 1},
    {"btl", "adaptib carries messages and one-sided operations (BTL, under pml/ob1", 1},
    {"report", "  adaptib carries messages (MTL, under pml/cm); within the host: shm0", 0},
    {"mtl_unused", "adaptib: the MTL is named, but not used, since pml/", 1},
    {"btl_unused", "adaptib: the BTL is named, but not used, since pml/", 1},
};

static void exchange(void)
{
    int in = -1;
    const int to = (check_rank + 1) % check_ranks;
    const int from = (check_rank - 1 + check_ranks) % check_ranks;
    MPI_Sendrecv(&check_rank, 1, MPI_INT, to, 1, &in, 1, MPI_INT, from, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK(in == from, "%d instead of %d", in, from);
}

static bool has(const char *line, const char *word)
{
    return word == NULL || strstr(line, word) != NULL;
}

/* Counts the lines of adaptib, and those that begin with `begin` and have the word. */
static void count(FILE *file, const char *begin, const char *word, int *all, int *wanted)
{
    static char line[ROOM];
    rewind(file);
    while (fgets(line, sizeof line, file) != NULL) {
        const bool mine = strncmp(line, "adaptib", 7) == 0;
        const bool right = strncmp(line, begin, strlen(begin)) == 0 && has(line, word);
        *all += mine && strncmp(line, "adaptib report of", 17) != 0;
        *wanted += right;
        if (mine || right) {
            printf("rank %d: %s", check_rank, line);
        }
    }
}

int main(int argc, char **argv)
{
    FILE *file = tmpfile();
    const int old = dup(2);
    const char *begin = "adaptib", *word = argc > 2 ? argv[2] : NULL;
    int all = 0, wanted = 0, expected = 0, failed;
    if (argc > 1 && strcmp(argv[1], "btl_unused") == 0 && OMPI_MAJOR_VERSION >= 5) {
        return CHECK_SKIPPED; /* Open MPI 5 loads no BTL then */
    }
    if (argc < 2 || file == NULL || old < 0 || dup2(fileno(file), 2) != 2) {
        return 1;
    }
    check_begin(&argc, &argv, "chosen", 2);
    exchange();
    MPI_Finalize();
    fflush(stderr);
    dup2(old, 2);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; ++i) {
        if (strcmp(argv[1], lines[i].what) == 0) {
            begin = lines[i].begin;
            expected = lines[i].ranks == 0 || check_rank < lines[i].ranks;
        }
    }
    count(file, begin, word, &all, &wanted);
    failed = wanted != expected || all != (strcmp(argv[1], "report") == 0 ? 0 : expected);
    if (failed) {
        printf("FAILED chosen, rank %d: %d lines, %d of them as expected; expected %d\n",
               check_rank, all, wanted, expected);
    } else if (check_rank == 0) {
        printf("chosen: ok\n");
    }
    return failed;
}
