// SPDX-License-Identifier: BSD-3-Clause
/*
 * A histogram that is spread over all ranks: each rank draws numbers and adds each one to its bin,
 * wherever that lies, without a word from the bin's owner. Batches of bins go by MPI_Accumulate,
 * the rank that takes the next batch is found by MPI_Fetch_and_op, and at the end each rank reads
 * the whole histogram by MPI_Get. The result is compared with a sum over all ranks.
 *
 *   mpicc -O2 -o one_sided one_sided.c
 *   mpirun --mca pml ob1 --mca btl adaptib,self --mca osc rdma -np 4 ./one_sided [batches]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BINS = 256,  /* of each rank */
    DRAWS = 1000 /* of each batch */
};

/* A number that depends on the batch alone, so that it does not matter who draws it. */
static uint64_t draw(long batch, int i)
{
    uint64_t x = ((uint64_t) batch * DRAWS + (uint64_t) i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 31)) * UINT64_C(0xBF58476D1CE4E5B9);
    return x ^ (x >> 29);
}

/* Adds the numbers of a batch to a histogram of all bins. */
static void count(long batch, int bins, long *histogram)
{
    for (int i = 0; i < DRAWS; ++i) {
        ++histogram[draw(batch, i) % (uint64_t) bins];
    }
}

/* Takes batches until none are left; returns how many this rank has done. */
static long fill(MPI_Win counter, MPI_Win bins, int ranks, long batches)
{
    const long one = 1;
    long done = 0, batch;
    long *mine = malloc((size_t) ranks * BINS * sizeof(long));
    for (;; ++done) {
        MPI_Fetch_and_op(&one, &batch, MPI_LONG, 0, 0, MPI_SUM, counter);
        MPI_Win_flush(0, counter);
        if (batch >= batches) {
            free(mine);
            return done;
        }
        memset(mine, 0, (size_t) ranks * BINS * sizeof(long));
        count(batch, ranks * BINS, mine);
        for (int owner = 0; owner < ranks; ++owner) {
            MPI_Accumulate(mine + (size_t) owner * BINS, BINS, MPI_LONG, owner, 0, BINS, MPI_LONG,
                           MPI_SUM, bins);
        }
        MPI_Win_flush_all(bins); /* `mine` is used again */
    }
}

/* Returns 1 if the histogram is that of all batches, counted by this rank alone. */
static int right(const long *histogram, int bins, long batches)
{
    long *want = calloc((size_t) bins, sizeof(long));
    for (long batch = 0; batch < batches; ++batch) {
        count(batch, bins, want);
    }
    int same = memcmp(histogram, want, (size_t) bins * sizeof(long)) == 0;
    free(want);
    return same;
}

int main(int argc, char **argv)
{
    int rank, ranks, ok;
    long *bins_memory, *counter_memory, done, most;
    MPI_Win bins, counter;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const long batches = argc > 1 ? atol(argv[1]) : 200L * ranks;

    MPI_Win_allocate(BINS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &bins_memory,
                     &bins);
    MPI_Win_allocate(rank == 0 ? sizeof(long) : 0, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
                     &counter_memory, &counter);
    memset(bins_memory, 0, BINS * sizeof(long));
    if (rank == 0) {
        *counter_memory = 0;
    }
    MPI_Win_lock_all(0, bins);
    MPI_Win_lock_all(0, counter);
    MPI_Win_sync(bins);
    MPI_Win_sync(counter);
    MPI_Barrier(MPI_COMM_WORLD); /* all memory is zero */

    done = fill(counter, bins, ranks, batches);
    MPI_Barrier(MPI_COMM_WORLD); /* all batches are in the bins */

    long *histogram = malloc((size_t) ranks * BINS * sizeof(long));
    for (int owner = 0; owner < ranks; ++owner) {
        MPI_Get(histogram + (size_t) owner * BINS, BINS, MPI_LONG, owner, 0, BINS, MPI_LONG, bins);
    }
    MPI_Win_flush_all(bins);
    MPI_Win_unlock_all(counter);
    MPI_Win_unlock_all(bins);

    ok = right(histogram, ranks * BINS, batches);
    free(histogram);
    MPI_Allreduce(MPI_IN_PLACE, &ok, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&done, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("one_sided: %ld numbers in %d bins of %d ranks, at most %ld of %ld batches by one "
               "rank: %s\n",
               batches * DRAWS, ranks * BINS, ranks, most, batches, ok ? "ok" : "WRONG");
    }
    MPI_Win_free(&counter);
    MPI_Win_free(&bins);
    MPI_Finalize();
    return ok ? 0 : 1;
}
