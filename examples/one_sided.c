// SPDX-License-Identifier: BSD-3-Clause
/*
 * A histogram that is spread over all ranks: each rank draws numbers, and adds each to its bin by
 * MPI_Accumulate, whichever rank has that bin; nobody receives anything. At the end each rank reads
 * all bins by MPI_Get, and compares them with a count of the same numbers made by itself alone.
 *
 *   mpicc -O2 -o one_sided one_sided.c
 *   mpirun --mca mtl adaptib --mca btl adaptib,self --mca osc ^ucx -np 4 ./one_sided [numbers]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    BINS = 64, /* of each rank */
    FLUSH = 256
};

/* The n-th number of a rank: the same wherever it is computed (splitmix64). */
static uint64_t number(int rank, long n)
{
    uint64_t x = ((uint64_t) rank << 40) + (uint64_t) n + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void add_all(MPI_Win window, int rank, int ranks, long numbers)
{
    static const int64_t one = 1;
    for (long n = 0; n < numbers; ++n) {
        int bin = (int) (number(rank, n) % (uint64_t) (BINS * ranks));
        MPI_Accumulate(&one, 1, MPI_INT64_T, bin / BINS, bin % BINS, 1, MPI_INT64_T, MPI_SUM,
                       window);
        if (n % FLUSH == FLUSH - 1) {
            MPI_Win_flush_local_all(window);
        }
    }
}

/* Counts the bins that differ from what this rank alone finds. */
static long compare(MPI_Win window, int ranks, long numbers)
{
    size_t bins = (size_t) BINS * (size_t) ranks;
    int64_t *got = calloc(bins, sizeof(int64_t)), *want = calloc(bins, sizeof(int64_t));
    long different = 0;
    if (got == NULL || want == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int target = 0; target < ranks; ++target) {
        MPI_Get(got + (size_t) target * BINS, BINS, MPI_INT64_T, target, 0, BINS, MPI_INT64_T,
                window);
        MPI_Win_flush(target, window);
        for (long n = 0; n < numbers; ++n) {
            ++want[number(target, n) % bins];
        }
    }
    for (size_t bin = 0; bin < bins; ++bin) {
        different += got[bin] != want[bin];
    }
    free(got);
    free(want);
    return different;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int ranks, rank;
    long numbers = argc > 1 ? atol(argv[1]) : 20000;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    int64_t *bins;
    MPI_Win window;
    MPI_Win_allocate(BINS * sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &bins,
                     &window);
    for (int bin = 0; bin < BINS; ++bin) {
        bins[bin] = 0;
    }
    MPI_Win_lock_all(0, window);
    MPI_Win_sync(window);
    MPI_Barrier(MPI_COMM_WORLD);

    double start = MPI_Wtime();
    add_all(window, rank, ranks, numbers);
    for (int target = 0; target < ranks; ++target) {
        MPI_Win_flush(target, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - start;

    long different = compare(window, ranks, numbers), all = -1;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(window);
    MPI_Allreduce(&different, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("one_sided: %ld numbers of each of %d ranks in %.3f s, %ld bins differ: %s\n",
               numbers, ranks, seconds, all, all == 0 ? "ok" : "WRONG");
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    return all == 0 ? 0 : 1;
}
