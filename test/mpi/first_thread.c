// SPDX-License-Identifier: BSD-3-Clause
/*
 * The first thread of each process ends early, by pthread_exit; a second thread makes all MPI
 * calls, from MPI_Init to MPI_Finalize. The process still lives, and messages of all sizes go on.
 * Argument: seconds.
 */
#include "check.h"

#include <pthread.h>
#include <unistd.h>

enum {
    LARGE = 1000000
};

static int count;
static char **arguments;

static char state_of_the_first_thread(void)
{
    char text[1024] = "";
    FILE *file = fopen("/proc/self/stat", "r");
    CHECK(file != NULL, "/proc/self/stat cannot be opened");
    CHECK(fgets(text, sizeof text, file) != NULL, "/proc/self/stat cannot be read");
    fclose(file);
    const char *end = strrchr(text, ')');
    return end == NULL ? '?' : end[2];
}

static void exchange(unsigned char *out, unsigned char *in, int round)
{
    static const size_t sizes[] = {8, 2000, 100000, LARGE};
    const size_t bytes = sizes[round % 4];
    const int to = (check_rank + 1) % check_ranks;
    const int from = (check_rank - 1 + check_ranks) % check_ranks;
    MPI_Status status;
    fill(out, bytes, key_of(check_rank, 3, bytes, (uint64_t) round));
    MPI_Sendrecv(out, (int) bytes, MPI_BYTE, to, 3, in, LARGE, MPI_BYTE, from, 3, MPI_COMM_WORLD,
                 &status);
    CHECK_STATUS(&status, from, 3, bytes, "exchange");
    CHECK_BYTES(in, bytes, key_of(from, 3, bytes, (uint64_t) round), "exchange");
}

static void *run(void *unused)
{
    (void) unused;
    check_begin_threads(&count, &arguments, "first_thread", 2, MPI_THREAD_SINGLE);
    CHECK(count == 2, "argument: seconds");
    unsigned char *out = malloc(LARGE), *in = malloc(LARGE);
    while (state_of_the_first_thread() != 'Z') {
        usleep(1000);
    }
    const double seconds = atof(arguments[1]), begin = MPI_Wtime();
    int more = 1;
    for (int round = 0; more; ++round) {
        exchange(out, in, round);
        more = MPI_Wtime() - begin < seconds;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    free(in);
    free(out);
    check_end();
    exit(0);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    count = argc;
    arguments = argv;
    if (pthread_create(&thread, NULL, run, NULL) != 0) {
        return 1;
    }
    pthread_exit(NULL);
}
