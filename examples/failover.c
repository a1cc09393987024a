// SPDX-License-Identifier: BSD-3-Clause
/*
 * Two ranks exchange long messages in both directions for some time. Rank 0 prints how much it has
 * received, every 100 ms: what is left of the bandwidth while a cable is out, and that no byte is
 * lost. examples/failover runs it in an emulated machine with two rails, and pulls cables.
 *
 *   mpicc -O2 -o failover failover.c
 *   mpirun --mca pml cm --mca mtl adaptib -np 2 ./failover [seconds] [bytes]
 *
 * Prints lines "SECONDS MB-PER-SECOND", and at the end whether all data was right.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    WINDOW = 4 /* messages under way in each direction */
};

static const double interval = 0.1; /* seconds */

static uint64_t word(int sender, long message, size_t i)
{
    return ((uint64_t) message * 2 + (uint64_t) sender) * UINT64_C(0x9E3779B97F4A7C15) + i;
}

static void fill(uint64_t *data, size_t words, int sender, long message)
{
    for (size_t i = 0; i < words; ++i) {
        data[i] = word(sender, message, i);
    }
}

static int as_filled(const uint64_t *data, size_t words, int sender, long message)
{
    for (size_t i = 0; i < words; ++i) {
        if (data[i] != word(sender, message, i)) {
            return 0;
        }
    }
    return 1;
}

/* Prints the rate of each interval that has passed since the last call. */
static void tell(double begin, double bytes)
{
    static double from = 0, before = 0;
    const double now = MPI_Wtime() - begin;
    if (now - from >= interval) {
        printf("%.2f %.2f\n", now, 1e-6 * (bytes - before) / (now - from));
        fflush(stdout);
        from = now;
        before = bytes;
    }
}

/* Exchanges messages for some seconds; returns the number of messages that were wrong. */
static long exchange(int rank, double seconds, size_t words)
{
    const int peer = 1 - rank;
    const double begin = MPI_Wtime();
    long wrong = 0, message = 0;
    int more = 1;
    uint64_t *sent = malloc(WINDOW * words * sizeof *sent);
    uint64_t *got = malloc(WINDOW * words * sizeof *got);
    while (more) {
        MPI_Request requests[2 * WINDOW];
        for (int m = 0; m < WINDOW; ++m) {
            MPI_Irecv(got + (size_t) m * words, (int) words, MPI_UINT64_T, peer, m, MPI_COMM_WORLD,
                      &requests[m]);
        }
        for (int m = 0; m < WINDOW; ++m) {
            fill(sent + (size_t) m * words, words, rank, message + m);
            MPI_Isend(sent + (size_t) m * words, (int) words, MPI_UINT64_T, peer, m, MPI_COMM_WORLD,
                      &requests[WINDOW + m]);
        }
        MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
        for (int m = 0; m < WINDOW; ++m) {
            wrong += !as_filled(got + (size_t) m * words, words, peer, message + m);
        }
        message += WINDOW;
        if (rank == 0) {
            tell(begin, (double) message * (double) words * sizeof *got);
            more = MPI_Wtime() - begin < seconds;
        }
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    free(sent);
    free(got);
    return wrong;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const double seconds = argc > 1 ? atof(argv[1]) : 2;
    const size_t words = (argc > 2 ? (size_t) atol(argv[2]) : 256 * 1024) / sizeof(uint64_t);
    if (ranks != 2 || seconds <= 0 || words == 0) {
        fprintf(stderr, "failover: needs 2 ranks, a time, and 8 bytes at least\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    long wrong = exchange(rank, seconds, words);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("failover: messages of %zu bytes for %g s: %s\n", words * sizeof(uint64_t), seconds,
               wrong == 0 ? "ok" : "WRONG");
    }
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
