// SPDX-License-Identifier: BSD-3-Clause
/*
 * Threads that communicate without waiting for each other: each has a communicator of its own, and
 * sends a token around the ranks, to which every rank adds its number. With as many endpoints as
 * threads, the communicators use different queues and locks (docs/threads.md).
 *
 *   mpicc -O2 -pthread -o threads threads.c
 *   mpirun --mca mtl adaptib --mca opal_common_adaptib_endpoints 4 -np 2 \
 *       ./threads [threads] [rounds]
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MOST = 64
};

typedef struct {
    MPI_Comm comm;
    long rounds;
    long wrong; /* tokens that had another value than they should have */
} work_t;

static void *run(void *context)
{
    work_t *work = context;
    int ranks, rank;
    MPI_Comm_size(work->comm, &ranks);
    MPI_Comm_rank(work->comm, &rank);
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    long each = (long) ranks * (ranks - 1) / 2; /* added in a round */
    for (long round = 0; round < work->rounds; ++round) {
        long token = round * each;
        if (rank == 0) {
            MPI_Send(&token, 1, MPI_LONG, next, 0, work->comm);
            MPI_Recv(&token, 1, MPI_LONG, last, 0, work->comm, MPI_STATUS_IGNORE);
            work->wrong += token != (round + 1) * each;
        } else {
            MPI_Recv(&token, 1, MPI_LONG, last, 0, work->comm, MPI_STATUS_IGNORE);
            token += rank;
            MPI_Send(&token, 1, MPI_LONG, next, 0, work->comm);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = MPI_THREAD_SINGLE, ranks, rank;
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    long rounds = argc > 2 ? atol(argv[2]) : 2000, wrong = 0, all = -1;
    pthread_t ids[MOST];
    work_t work[MOST];

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (provided < MPI_THREAD_MULTIPLE || threads < 1 || threads > MOST || ranks < 2) {
        fprintf(stderr, "threads: needs MPI_THREAD_MULTIPLE, two ranks, and 1 to %d threads\n",
                MOST);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; i < threads; ++i) {
        work[i] = (work_t){MPI_COMM_NULL, rounds, 0};
        MPI_Comm_dup(MPI_COMM_WORLD, &work[i].comm);
    }

    double start = MPI_Wtime();
    for (int i = 0; i < threads; ++i) {
        if (pthread_create(&ids[i], NULL, run, &work[i]) != 0) {
            fprintf(stderr, "threads: no thread %d\n", i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    for (int i = 0; i < threads; ++i) {
        pthread_join(ids[i], NULL);
        wrong += work[i].wrong;
    }
    double seconds = MPI_Wtime() - start;

    MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("threads: %d threads of %d ranks, %ld rounds in %.3f s, %ld tokens are wrong: %s\n",
               threads, ranks, rounds, seconds, all, all == 0 ? "ok" : "WRONG");
    }
    for (int i = 0; i < threads; ++i) {
        MPI_Comm_free(&work[i].comm);
    }
    MPI_Finalize();
    return all == 0 ? 0 : 1;
}
