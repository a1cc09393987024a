// SPDX-License-Identifier: BSD-3-Clause
/*
 * A parent repeatedly spawns a child, exchanges small and large messages with it, and disconnects.
 * After a child has ended, the parent has neither mappings of its memory nor file descriptors left.
 * Arguments: rounds, seconds for which the parent goes on in the end (1).
 */
#include "check.h"

#include <dirent.h>
#include <unistd.h>

enum {
    LARGE = 1000000,
    MESSAGES = 40, /* enough to make a connection */
    WARM_UP = 3
};

static int count_mappings(void)
{
    char line[4096];
    int count = 0;
    char own[32];
    snprintf(own, sizeof own, "-%ld ", (long) getpid());
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL, "/proc/self/maps cannot be opened");
    while (fgets(line, sizeof line, maps) != NULL) {
        count += strstr(line, "memfd:adaptib-") != NULL && strstr(line, own) == NULL
                 && strstr(line, "memfd:adaptib-counters") == NULL; /* its own */
    }
    fclose(maps);
    return count;
}

static int count_descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory != NULL, "/proc/self/fd cannot be opened");
    while (readdir(directory) != NULL) {
        ++count;
    }
    closedir(directory);
    return count;
}

static void exchange(MPI_Comm other)
{
    unsigned char *out = malloc(LARGE), *in = malloc(LARGE);
    for (int i = 0; i < MESSAGES; ++i) {
        const int bytes = i % 10 == 9 ? LARGE : 100;
        MPI_Status status;
        fill(out, (size_t) bytes, key_of(0, i, (size_t) bytes, 0));
        MPI_Sendrecv(out, bytes, MPI_BYTE, 0, i, in, LARGE, MPI_BYTE, 0, i, other, &status);
        CHECK_STATUS(&status, 0, i, (size_t) bytes, "exchange");
        CHECK_BYTES(in, (size_t) bytes, key_of(0, i, (size_t) bytes, 0), "exchange");
    }
    free(in);
    free(out);
}

/* Probes for messages, since the parent may notice the end of a child only while it does so. */
static void look_for_messages(double seconds)
{
    const double begin = MPI_Wtime();
    while (MPI_Wtime() - begin < seconds) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    check_begin(&argc, &argv, "spawn_many", 1);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        exchange(parent);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    CHECK(argc >= 2 && check_ranks == 1, "one rank; arguments: rounds, seconds");
    const int rounds = atoi(argv[1]);
    const double seconds = argc > 2 ? atof(argv[2]) : 1;
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(length > 0, "/proc/self/exe cannot be read");
    path[length] = '\0';
    int mappings = 0, descriptors = 0;
    for (int round = 0; round < rounds; ++round) {
        MPI_Comm child;
        MPI_Comm_spawn(path, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child,
                       MPI_ERRCODES_IGNORE);
        exchange(child);
        MPI_Comm_disconnect(&child);
        look_for_messages(round < WARM_UP ? 0.5 : 0.1);
        if (round < WARM_UP) {
            mappings = count_mappings();
            descriptors = count_descriptors();
        }
    }
    look_for_messages(seconds);
    printf("mappings %d, %d at the end; descriptors %d, %d at the end\n", mappings,
           count_mappings(), descriptors, count_descriptors());
    CHECK(count_mappings() <= mappings, "%d mappings, after %d rounds %d", mappings, rounds,
          count_mappings());
    CHECK(count_descriptors() <= descriptors, "%d descriptors, after %d rounds %d", descriptors,
          rounds, count_descriptors());
    CHECK(count_mappings() == 0, "%d mappings of others' segments", count_mappings());
    check_end();
    return 0;
}
