// SPDX-License-Identifier: BSD-3-Clause
/*
 * One-sided operations by several threads on shared windows, in the manner of RMA-MT: each thread
 * of a rank has a part of the next rank's window, into which it puts blocks of 1 byte to 64 KiB,
 * gets them back after a flush and checks every byte; threads wait for their own operations
 * (flush_local, request-based operations) or for everybody's (one flush between two barriers). All
 * threads of all ranks add to one counter, and those of all but its owner swap one word by
 * compare-and-swap; the sums are exact. At the end the owner of a window checks what was put.
 * Arguments: threads, rounds.
 */
#include "check.h"

#include <pthread.h>

enum {
    LIMIT = 16,
    BLOCK = 65536,
    SIZES = 6,
    ADDS = 40
};

static const size_t kSizes[SIZES] = {1, 8, 100, 4096, 9000, BLOCK};

static int threads, rounds, target;
static unsigned char *memory; /* of window: a block for each thread */
static int64_t *words;        /* of word_window: a counter, a word to swap */
static MPI_Win window, word_window;
static pthread_barrier_t together;

static size_t size_of(int round)
{
    return kSizes[round % SIZES];
}

static MPI_Aint place_of(int thread)
{
    return (MPI_Aint) thread * BLOCK;
}

static uint64_t key(int rank, int thread, int round)
{
    return key_of(rank, thread, size_of(round), round);
}

/* Puts a block into the target's window and gets it back. */
static void put_and_get(int thread, int round, unsigned char *out, unsigned char *in)
{
    const size_t bytes = size_of(round);
    const int count = (int) bytes;
    const MPI_Aint at = place_of(thread);
    MPI_Request requests[2];
    fill(out, bytes, key(check_rank, thread, round));
    memset(in, 0, bytes);
    if (round % 3 == 0) {
        MPI_Rput(out, count, MPI_BYTE, target, at, count, MPI_BYTE, window, &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        MPI_Win_flush(target, window);
        MPI_Rget(in, count, MPI_BYTE, target, at, count, MPI_BYTE, window, &requests[1]);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    } else {
        MPI_Put(out, count, MPI_BYTE, target, at, count, MPI_BYTE, window);
        MPI_Win_flush(target, window);
        memset(out, 0xee, bytes); /* the put does not need it any more */
        MPI_Get(in, count, MPI_BYTE, target, at, count, MPI_BYTE, window);
        if (round % 3 == 1) {
            MPI_Win_flush_local(target, window);
        } else {
            MPI_Win_flush_all(window);
        }
    }
    CHECK_BYTES(in, bytes, key(check_rank, thread, round), "what was put");
}

/* Adds 1 to rank 0's second word by compare-and-swap; `guess`: its value. */
static void swap(int64_t guess)
{
    for (;;) {
        const int64_t next = guess + 1;
        int64_t seen = -1;
        MPI_Compare_and_swap(&next, &guess, &seen, MPI_INT64_T, 0, 1, word_window);
        MPI_Win_flush(0, word_window);
        if (seen == guess) {
            return;
        }
        guess = seen;
    }
}

/* Adds 1 to rank 0's counter and to its second word, ADDS times each. Rank 0 itself does not swap:
 * osc/rdma of Open MPI 4.1.4 does not make an owner's swap atomic with those of others. */
static void add(void)
{
    const int64_t one = 1;
    int64_t old;
    for (int i = 0; i < ADDS; ++i) {
        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 0, MPI_SUM, word_window);
        MPI_Win_flush(0, word_window);
        CHECK(old >= 0, "the counter was %lld", (long long) old);
        if (check_rank != 0) {
            swap(old);
        }
    }
}

/* One thread waits for the operations of all. */
static void put_all_flush_once(int thread, unsigned char *out)
{
    const size_t bytes = size_of(rounds);
    fill(out, bytes, key(check_rank, thread, rounds));
    MPI_Put(out, (int) bytes, MPI_BYTE, target, place_of(thread), (int) bytes, MPI_BYTE, window);
    pthread_barrier_wait(&together);
    if (thread == 0) {
        MPI_Win_flush_all(window);
    }
    pthread_barrier_wait(&together);
    memset(out, 0xdd, bytes);
}

static void *work(void *context)
{
    const int thread = *(int *) context;
    unsigned char *out = malloc(BLOCK), *in = malloc(BLOCK);
    for (int round = 0; round < rounds; ++round) {
        put_and_get(thread, round, out, in);
    }
    add();
    put_all_flush_once(thread, out);
    free(in);
    free(out);
    return NULL;
}

static void run_threads(void)
{
    pthread_t ids[LIMIT];
    int numbers[LIMIT];
    pthread_barrier_init(&together, NULL, (unsigned) threads);
    for (int i = 0; i < threads; ++i) {
        numbers[i] = i;
        CHECK(pthread_create(&ids[i], NULL, work, &numbers[i]) == 0, "no thread");
    }
    for (int i = 0; i < threads; ++i) {
        pthread_join(ids[i], NULL);
    }
    pthread_barrier_destroy(&together);
}

static void check_memory(void)
{
    const int from = (check_rank - 1 + check_ranks) % check_ranks;
    const int64_t all = (int64_t) check_ranks * threads * ADDS;
    const int64_t swaps = all - (int64_t) threads * ADDS;
    for (int i = 0; i < threads; ++i) {
        CHECK_BYTES(memory + place_of(i), size_of(rounds), key(from, i, rounds), "put in the end");
    }
    if (check_rank == 0) {
        CHECK(words[0] == all, "the counter is %lld, not %lld", (long long) words[0],
              (long long) all);
        CHECK(words[1] == swaps, "the swapped word is %lld, not %lld", (long long) words[1],
              (long long) swaps);
    }
}

int main(int argc, char **argv)
{
    check_begin_threads(&argc, &argv, "rma_threads", 1, MPI_THREAD_MULTIPLE);
    CHECK(argc == 3, "arguments: threads, rounds");
    threads = atoi(argv[1]);
    rounds = atoi(argv[2]);
    CHECK(threads > 0 && threads <= LIMIT, "%d threads", threads);
    target = (check_rank + 1) % check_ranks;
    /* Not MPI_Win_allocate, which gives the processes of a host memory that they share. */
    memory = malloc((size_t) threads * BLOCK);
    words = calloc(2, sizeof(int64_t));
    MPI_Win_create(memory, (MPI_Aint) threads * BLOCK, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_create(words, 2 * sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD,
                   &word_window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    MPI_Win_lock_all(0, word_window);
    run_threads();
    MPI_Win_unlock_all(word_window);
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, window);
    check_memory();
    MPI_Win_unlock(check_rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&word_window);
    MPI_Win_free(&window);
    free(words);
    free(memory);
    check_end();
    return 0;
}
