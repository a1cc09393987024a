// SPDX-License-Identifier: BSD-3-Clause
/*
 * Threads of a process contact other processes for the first time, at the same time: each thread
 * exchanges messages with all others, in an order of its own. Argument: threads, 16 at most.
 */
#include "numbered_threads.h"

enum {
    BYTES = 64
};

static pthread_barrier_t start;

static void *contact_all(void *argument)
{
    const int tag = *(const int *) argument;
    unsigned char out[BYTES], in[BYTES];
    MPI_Status status;
    pthread_barrier_wait(&start);
    for (int i = 1; i < check_ranks; ++i) {
        const int distance = 1 + (i + tag) % (check_ranks - 1);
        const int to = (check_rank + distance) % check_ranks;
        const int from = (check_rank - distance + check_ranks) % check_ranks;
        fill(out, BYTES, key_of(check_rank, tag, BYTES, (uint64_t) to));
        MPI_Sendrecv(out, BYTES, MPI_BYTE, to, tag, in, BYTES, MPI_BYTE, from, tag, MPI_COMM_WORLD,
                     &status);
        CHECK_STATUS(&status, from, tag, BYTES, "first contact");
        CHECK_BYTES(in, BYTES, key_of(from, tag, BYTES, (uint64_t) check_rank), "first contact");
    }
    return NULL;
}

int main(int argc, char **argv)
{
    check_begin_threads(&argc, &argv, "first_contact_threads", 2, MPI_THREAD_MULTIPLE);
    CHECK(argc == 2, "argument: threads");
    const int threads = atoi(argv[1]);
    CHECK(threads > 0 && threads <= MOST_THREADS, "%d threads", threads);
    pthread_barrier_init(&start, NULL, (unsigned) threads);
    run_numbered(threads, contact_all);
    pthread_barrier_destroy(&start);
    check_end();
    return 0;
}
