// SPDX-License-Identifier: BSD-3-Clause
/*
 * A job without any failure: the report that each process writes at its end
 * (opal_common_adaptib_report) must not show a failure of connections or paths, although the
 * processes leave one after another.
 */
#include "check.h"

#include <unistd.h>

enum {
    LARGE = 300000,
    ROUNDS = 100
};

static void exchange(void)
{
    unsigned char *out = malloc(LARGE), *in = malloc(LARGE);
    for (int i = 0; i < ROUNDS; ++i) {
        const int bytes = i % 4 == 3 ? LARGE : 100;
        const int distance = 1 + i % (check_ranks - 1);
        const int to = (check_rank + distance) % check_ranks;
        const int from = (check_rank - distance + check_ranks) % check_ranks;
        MPI_Status status;
        fill(out, (size_t) bytes, key_of(check_rank, i, (size_t) bytes, 0));
        MPI_Sendrecv(out, bytes, MPI_BYTE, to, i, in, LARGE, MPI_BYTE, from, i, MPI_COMM_WORLD,
                     &status);
        CHECK_STATUS(&status, from, i, (size_t) bytes, "exchange");
        CHECK_BYTES(in, (size_t) bytes, key_of(from, i, (size_t) bytes, 0), "exchange");
    }
    free(in);
    free(out);
}

static void check_report(FILE *file)
{
    static char text[1 << 20];
    const long length = ftell(file);
    rewind(file);
    CHECK(length > 0 && length < (long) sizeof text, "the report has %ld bytes", length);
    CHECK(fread(text, 1, (size_t) length, file) == (size_t) length, "the report cannot be read");
    static const char *const bad[] = {"failed since", "suspect since", "is broken", " down: "};
    bool good = strstr(text, "broken 0\n") != NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        good = good && strstr(text, bad[i]) == NULL;
    }
    if (!good) {
        printf("FAILED report, rank %d: a failure is reported:\n%s\n", check_rank, text);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "report", 2);
    exchange();
    FILE *file = tmpfile();
    CHECK(file != NULL, "no temporary file");
    const int old = dup(2);
    CHECK(old >= 0 && dup2(fileno(file), 2) == 2, "stderr cannot be redirected");
    usleep(20000 * (unsigned) check_rank); /* makes the ranks leave one after another */
    MPI_Finalize();
    fflush(stderr);
    dup2(old, 2);
    fseek(file, 0, SEEK_END);
    check_report(file);
    fclose(file);
    if (check_rank == 0) {
        printf("report: ok\n");
    }
    return 0;
}
