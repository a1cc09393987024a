// SPDX-License-Identifier: BSD-3-Clause
/*
 * Measures the start of one job for benchmarks/startup, which reads rank 0's output: lines
 * `metric value`.
 *
 *   init      seconds in MPI_Init, maximum over the ranks
 *   first     seconds from the end of MPI_Init to the end of a barrier, maximum over the ranks
 *   resident  KiB of VmRSS of a rank once all initial connections are made, mean
 *   pinned    KiB of VmLck and VmPin, mean
 *   latency   microseconds of half an 8-byte ping-pong of ranks 0 and 1 over their connection, best
 *             of the batches; only in jobs of two ranks
 *
 * May touch: mpi.h, the C library.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "benchmarks/proc_value.h"

enum {
    WARM_UP = 2000, /* messages: far above connect_threshold */
    BATCH = 200,
    BATCHES = 200
};

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

static void ping_pong(int rank, int count)
{
    char byte[8] = "";

    for (int i = 0; i < count; ++i) {
        if (0 == rank) {
            MPI_Send(byte, sizeof(byte), MPI_CHAR, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(byte, sizeof(byte), MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(byte, sizeof(byte), MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(byte, sizeof(byte), MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        }
    }
}

static double latency(int rank)
{
    double best = 1;

    ping_pong(rank, WARM_UP);
    for (int batch = 0; batch < BATCHES; ++batch) {
        const double begin = seconds();
        ping_pong(rank, BATCH);
        const double each = (seconds() - begin) / BATCH / 2;
        best = each < best ? each : best;
    }
    return 1e6 * best;
}

static void tell(const char *metric, double mine, MPI_Op operation, int rank, int size)
{
    double all = 0;

    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, operation, 0, MPI_COMM_WORLD);
    if (0 == rank) {
        printf("%s %.9g\n", metric, MPI_SUM == operation ? all / size : all);
    }
}

int main(int argc, char **argv)
{
    const double begin = seconds();
    int rank;
    int size;

    MPI_Init(&argc, &argv);
    const double started = seconds();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    const double first = seconds();

    /* Gives the transport 0.2 s to finish the connections that it makes from the start. */
    while (seconds() - first < 0.2) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    const double resident = proc_value("/proc/self/status", "VmRSS");
    const double pinned =
        proc_value("/proc/self/status", "VmLck") + proc_value("/proc/self/status", "VmPin");

    tell("init", started - begin, MPI_MAX, rank, size);
    tell("first", first - started, MPI_MAX, rank, size);
    tell("resident", resident, MPI_SUM, rank, size);
    tell("pinned", pinned, MPI_SUM, rank, size);
    if (2 == size) {
        const double best = latency(rank);
        if (0 == rank) {
            printf("latency %.9g\n", best);
        }
    }
    MPI_Finalize();
    return 0;
}
