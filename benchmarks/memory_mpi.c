// SPDX-License-Identifier: BSD-3-Clause
/*
 * Measures the memory that one job takes for short messages between all its ranks, for
 * benchmarks/memory, which reads rank 0's output: lines `metric value`.
 *
 *   shared    KiB of this host's shared memory that the messages have added
 *   address   KiB of a rank's address space afterwards, maximum
 *   resident  KiB of a rank's private resident memory afterwards, mean
 *   seconds   duration of the messages: every rank sends MESSAGES of BYTES bytes to each other
 *             rank, and receives as many
 *
 * May touch: mpi.h, the C library.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "benchmarks/proc_value.h"

enum {
    BYTES = 64,
    MESSAGES = 40 /* far above connect_threshold */
};

/* In each step every rank sends to one other rank. */
static void send_to_all(int rank, int ranks)
{
    char out[BYTES], in[BYTES];

    memset(out, rank, sizeof(out));
    for (int round = 0; round < MESSAGES; ++round) {
        for (int step = 1; step < ranks; ++step) {
            const int to = (rank + step) % ranks, from = (rank - step + ranks) % ranks;
            MPI_Sendrecv(out, BYTES, MPI_CHAR, to, 0, in, BYTES, MPI_CHAR, from, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            if (in[0] != (char) from || in[BYTES - 1] != (char) from) {
                fprintf(stderr, "memory_mpi: rank %d got wrong data from %d\n", rank, from);
                MPI_Abort(MPI_COMM_WORLD, 2);
            }
        }
    }
}

int main(int argc, char **argv)
{
    int rank = 0, ranks = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    const double before = proc_value("/proc/meminfo", "Shmem");
    MPI_Barrier(MPI_COMM_WORLD);

    double seconds = -MPI_Wtime();
    send_to_all(rank, ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    seconds += MPI_Wtime();

    const double shared = proc_value("/proc/meminfo", "Shmem") - before;
    const double address = proc_value("/proc/self/status", "VmSize");
    const double private = proc_value("/proc/self/status", "RssAnon");
    double most = 0, sum = 0;
    MPI_Reduce(&address, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&private, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (0 == rank) {
        printf("shared %.0f\naddress %.0f\nresident %.0f\nseconds %.6f\n", shared, most,
               sum / ranks, seconds);
    }
    MPI_Finalize();
    return 0;
}
