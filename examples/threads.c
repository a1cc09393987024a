// SPDX-License-Identifier: BSD-3-Clause
/*
 * Threads that all call MPI: each thread of a rank has a communicator of its own, on which it
 * passes messages around the ring of ranks, many at a time. A communicator for each thread lets
 * messages of one thread be matched without those of the others, and with several endpoints
 * (opal_common_adaptib_endpoints) lets threads send without waiting for each other at all.
 *
 *   mpicc -O2 -pthread -o threads threads.c
 *   mpirun --mca pml cm --mca mtl adaptib -np 2 ./threads [threads] [rounds]
 *   mpirun --mca pml cm --mca mtl adaptib --mca opal_common_adaptib_endpoints 4 -np 2 ./threads 4
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    WINDOW = 64, /* messages under way */
    WORDS = 16   /* of each message */
};

typedef struct {
    pthread_t thread;
    MPI_Comm comm;
    int number;
    long rounds;
    long wrong; /* words that arrived with another value */
} worker_t;

static long word(int rank, int thread, long round, int message, int i)
{
    return ((((long) rank * 64 + thread) * 1000003 + round) * WINDOW + message) * WORDS + i;
}

/* Sends WINDOW messages to the next rank and receives as many from the one before, each round. */
static void *circulate(void *argument)
{
    worker_t *me = argument;
    long sent[WINDOW][WORDS], got[WINDOW][WORDS];
    MPI_Request requests[2 * WINDOW];
    int rank, ranks;
    MPI_Comm_rank(me->comm, &rank);
    MPI_Comm_size(me->comm, &ranks);
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (long round = 0; round < me->rounds; ++round) {
        for (int m = 0; m < WINDOW; ++m) {
            MPI_Irecv(got[m], WORDS, MPI_LONG, before, m, me->comm, &requests[m]);
        }
        for (int m = 0; m < WINDOW; ++m) {
            for (int i = 0; i < WORDS; ++i) {
                sent[m][i] = word(rank, me->number, round, m, i);
            }
            MPI_Isend(sent[m], WORDS, MPI_LONG, next, m, me->comm, &requests[WINDOW + m]);
        }
        MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
        for (int m = 0; m < WINDOW; ++m) {
            for (int i = 0; i < WORDS; ++i) {
                me->wrong += got[m][i] != word(before, me->number, round, m, i);
            }
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, rank, ranks;
    long wrong = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int threads = argc > 1 ? atoi(argv[1]) : 4;
    const long rounds = argc > 2 ? atol(argv[2]) : 1000;
    if (provided < MPI_THREAD_MULTIPLE || threads < 1 || threads > 64 || rounds < 1) {
        fprintf(stderr, "threads: needs MPI_THREAD_MULTIPLE, and 1 to 64 threads\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }

    worker_t *workers = calloc((size_t) threads, sizeof *workers);
    for (int i = 0; i < threads; ++i) {
        workers[i].number = i;
        workers[i].rounds = rounds;
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int i = 0; i < threads; ++i) {
        pthread_create(&workers[i].thread, NULL, circulate, &workers[i]);
    }
    for (int i = 0; i < threads; ++i) {
        pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double took = MPI_Wtime() - begin;

    for (int i = 0; i < threads; ++i) {
        MPI_Comm_free(&workers[i].comm);
    }
    free(workers);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("threads: %d threads of each of %d ranks, %.2f million messages a second of a rank: "
               "%s\n",
               threads, ranks, 1e-6 * threads * (double) rounds * WINDOW / took,
               wrong == 0 ? "ok" : "WRONG");
    }
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
