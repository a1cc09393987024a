// SPDX-License-Identifier: BSD-3-Clause
/*
 * A stream of numbered messages from rank 0 to rank 1 while rails fail and come back: rank 1 checks
 * that each message arrives once, in order and whole, and prints how much arrived in each fifth of
 * a second. examples/failover runs it, pulls a rail, and draws the picture.
 *
 *   mpicc -O2 -o failover failover.c
 *   mpirun --mca mtl adaptib -np 2 ./failover [seconds]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    WORDS = 131072, /* of a message: 1 MiB */
    WINDOW = 4,     /* messages under way */
    PER_SECOND = 5  /* lines of output */
};

static uint64_t data[WINDOW][WORDS];

static void fill(uint64_t *words, uint64_t message)
{
    for (uint64_t i = 0; i < WORDS; ++i) {
        words[i] = message * 0x9e3779b97f4a7c15u + i;
    }
}

static long wrong_words(const uint64_t *words, uint64_t message)
{
    long wrong = 0;
    for (uint64_t i = 0; i < WORDS; ++i) {
        wrong += words[i] != message * 0x9e3779b97f4a7c15u + i;
    }
    return wrong;
}

/* Sends until the time is up; a message that begins with UINT64_MAX is the last one. */
static void send_all(double seconds)
{
    MPI_Request requests[WINDOW];
    double start = MPI_Wtime();
    for (int i = 0; i < WINDOW; ++i) {
        requests[i] = MPI_REQUEST_NULL;
    }
    for (uint64_t message = 0; MPI_Wtime() - start < seconds; ++message) {
        int slot = (int) (message % WINDOW);
        MPI_Wait(&requests[slot], MPI_STATUS_IGNORE);
        fill(data[slot], message);
        MPI_Isend(data[slot], WORDS, MPI_UINT64_T, 1, 0, MPI_COMM_WORLD, &requests[slot]);
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    data[0][0] = UINT64_MAX;
    MPI_Send(data[0], 1, MPI_UINT64_T, 1, 0, MPI_COMM_WORLD);
}

static long receive_all(uint64_t *messages)
{
    double start = MPI_Wtime(), since = start;
    long wrong = 0;
    for (uint64_t bytes = 0;; ++*messages) {
        int words = 0;
        MPI_Status status;
        MPI_Recv(data[0], WORDS, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_UINT64_T, &words);
        if (words == 1) {
            return wrong;
        }
        wrong += wrong_words(data[0], *messages);
        bytes += sizeof data[0];
        double now = MPI_Wtime();
        if (now - since >= 1.0 / PER_SECOND) {
            printf("%.2f s %.1f MB/s\n", now - start, 1e-6 * (double) bytes / (now - since));
            fflush(stdout);
            bytes = 0;
            since = now;
        }
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    long wrong = 0;
    uint64_t messages = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) {
        fprintf(stderr, "failover: needs two ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    printf("rank %d is process %d\n", rank, (int) getpid());
    fflush(stdout);
    if (rank == 0) {
        send_all(argc > 1 ? atof(argv[1]) : 9);
    } else {
        wrong = receive_all(&messages);
        printf("failover: %llu messages of 1 MiB, %ld words are wrong: %s\n",
               (unsigned long long) messages, wrong, wrong == 0 && messages > 0 ? "ok" : "WRONG");
    }
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
