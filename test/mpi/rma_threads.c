// SPDX-License-Identifier: BSD-3-Clause
/*
 * One-sided operations by several threads on shared windows, in the manner of RMA-MT: each thread
 * of a rank has a part of the next rank's window, into which it puts blocks of 1 byte to 64 KiB,
 * gets them back after a flush and checks every byte; threads wait for their own operations
 * (flush_local, request-based operations) or for everybody's (one flush between two barriers). The
 * same goes on between fences, which one thread of each rank calls for all of them. All threads of
 * all ranks add to one counter, accumulate in words of the same rank and read what was there, and
 * those of all ranks but its owner swap one word by compare-and-swap; the sums are exact. At the
 * end the owner of a window checks what was put.
 * Arguments: threads, rounds, numbers of endpoints of the ranks (endpoints.h; default: as set).
 */
#include "endpoints.h"
#include "numbered_threads.h"

enum {
    LIMIT = 16,
    BLOCK = 65536,
    SIZES = 6,
    ADDS = 40,
    ACCUMULATES = 16,
    EPOCHS = 12, /* between fences */
    VECTOR = 16  /* words of an accumulate; osc/rdma of Open MPI 4.1.4 reads no more than 4 KiB */
};

/* The words of rank 0. Each is accessed by one kind of operation: osc/rdma of Open MPI 4.1.4 makes
 * compare-and-swap, single accumulates and those of several words atomic among themselves only. */
enum {
    COUNTER,
    SWAPPED,
    SUM,     /* MPI_Accumulate */
    OLD_SUM, /* MPI_Get_accumulate */
    MOST,    /* MPI_Fetch_and_op of MPI_MAX */
    SUMS,    /* MPI_Accumulate and MPI_Get_accumulate of VECTOR words */
    WORDS = SUMS + VECTOR
};

static const size_t kSizes[SIZES] = {1, 8, 100, 4096, 9000, BLOCK};

static int threads, rounds;
static unsigned char *memory; /* of window: a block for each thread */
static unsigned char *fenced; /* of fence_window: likewise, and behind them a word */
static int64_t *words;        /* of word_window */
static MPI_Win window, fence_window, word_window;
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
        MPI_Rput(out, count, MPI_BYTE, to, at, count, MPI_BYTE, window, &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        MPI_Win_flush(to, window);
        MPI_Rget(in, count, MPI_BYTE, to, at, count, MPI_BYTE, window, &requests[1]);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    } else {
        MPI_Put(out, count, MPI_BYTE, to, at, count, MPI_BYTE, window);
        MPI_Win_flush(to, window);
        memset(out, 0xee, bytes); /* the put does not need it any more */
        MPI_Get(in, count, MPI_BYTE, to, at, count, MPI_BYTE, window);
        if (round % 3 == 1) {
            MPI_Win_flush_local(to, window);
        } else {
            MPI_Win_flush_all(window);
        }
    }
    CHECK_BYTES(in, bytes, key(check_rank, thread, round), "what was put");
}

/* ------------------------------------------------------------------------------------------------
 * Words of rank 0 */

/* Adds 1 to rank 0's second word by compare-and-swap; `guess`: its value. */
static void swap(int64_t guess)
{
    for (;;) {
        const int64_t next = guess + 1;
        int64_t seen = -1;
        MPI_Compare_and_swap(&next, &guess, &seen, MPI_INT64_T, 0, SWAPPED, word_window);
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
        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, COUNTER, MPI_SUM, word_window);
        MPI_Win_flush(0, word_window);
        CHECK(old >= 0, "the counter was %lld", (long long) old);
        if (check_rank != 0) {
            swap(old);
        }
    }
}

/* A thread's number among those of all ranks, from 1. */
static int64_t number_of(int rank, int thread)
{
    return (int64_t) rank * threads + thread + 1;
}

/* Accumulates in one word each; `last`: what the thread read in the last round. */
static void accumulate_words(int thread, int round, int64_t last[2])
{
    const int64_t mine = number_of(check_rank, thread), largest = mine * ACCUMULATES + round;
    int64_t old = -1, most = -1;
    MPI_Accumulate(&mine, 1, MPI_INT64_T, 0, SUM, 1, MPI_INT64_T, MPI_SUM, word_window);
    MPI_Get_accumulate(&mine, 1, MPI_INT64_T, &old, 1, MPI_INT64_T, 0, OLD_SUM, 1, MPI_INT64_T,
                       MPI_SUM, word_window);
    MPI_Fetch_and_op(&largest, &most, MPI_INT64_T, 0, MOST, MPI_MAX, word_window);
    MPI_Win_flush(0, word_window);
    CHECK(old >= last[0] + (round > 0 ? mine : 0), "the sum was %lld, after %lld", (long long) old,
          (long long) last[0]);
    CHECK(most >= last[1], "the largest number was %lld, after %lld", (long long) most,
          (long long) last[1]);
    last[0] = old;
    last[1] = most > largest ? most : largest;
}

/* Adds to several words twice, and reads what was there in between. */
static void accumulate_vector(int thread, int round, int64_t last[VECTOR])
{
    const int64_t mine = number_of(check_rank, thread);
    int64_t more[VECTOR], old[VECTOR];
    for (int i = 0; i < VECTOR; ++i) {
        more[i] = mine + i;
        old[i] = -1;
    }
    MPI_Accumulate(more, VECTOR, MPI_INT64_T, 0, SUMS, VECTOR, MPI_INT64_T, MPI_SUM, word_window);
    MPI_Win_flush(0, word_window);
    MPI_Get_accumulate(more, VECTOR, MPI_INT64_T, old, VECTOR, MPI_INT64_T, 0, SUMS, VECTOR,
                       MPI_INT64_T, MPI_SUM, word_window);
    MPI_Win_flush(0, word_window);
    for (int i = 0; i < VECTOR; ++i) {
        const int64_t least = last[i] + (round > 0 ? 2 : 1) * more[i];
        CHECK(old[i] >= least, "sum %d was %lld, at least %lld was added", i, (long long) old[i],
              (long long) least);
        last[i] = old[i];
    }
}

static void accumulate(int thread)
{
    int64_t last[2] = {0, 0}, vector[VECTOR] = {0};
    for (int round = 0; round < ACCUMULATES; ++round) {
        accumulate_words(thread, round, last);
        accumulate_vector(thread, round, vector);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Epochs of all threads together */

/* One thread waits for the operations of all. */
static void put_all_flush_once(int thread, unsigned char *out)
{
    const size_t bytes = size_of(rounds);
    fill(out, bytes, key(check_rank, thread, rounds));
    MPI_Put(out, (int) bytes, MPI_BYTE, to, place_of(thread), (int) bytes, MPI_BYTE, window);
    pthread_barrier_wait(&together);
    if (thread == 0) {
        MPI_Win_flush_all(window);
    }
    pthread_barrier_wait(&together);
    memset(out, 0xdd, bytes);
}

/* One thread ends the epoch of all, and begins the next one. */
static void fence(int thread, int assertion)
{
    pthread_barrier_wait(&together);
    if (thread == 0) {
        MPI_Win_fence(assertion, fence_window);
    }
    pthread_barrier_wait(&together);
}

/* Puts in one epoch and gets in the next, in which the owner of the memory checks it, too. */
static void put_and_get_fenced(int thread, int round, unsigned char *out, unsigned char *in)
{
    const size_t bytes = size_of(round);
    const int count = (int) bytes;
    const MPI_Aint at = place_of(thread);
    const int64_t one = 1;
    fill(out, bytes, key(check_rank, thread, round));
    memset(in, 0, bytes);
    MPI_Put(out, count, MPI_BYTE, to, at, count, MPI_BYTE, fence_window);
    MPI_Accumulate(&one, 1, MPI_INT64_T, to, place_of(threads), 1, MPI_INT64_T, MPI_SUM,
                   fence_window);
    fence(thread, 0);
    memset(out, 0xcc, bytes);
    MPI_Get(in, count, MPI_BYTE, to, at, count, MPI_BYTE, fence_window);
    CHECK_BYTES(fenced + at, bytes, key(from, thread, round), "put between fences");
    fence(thread, MPI_MODE_NOPUT);
    CHECK_BYTES(in, bytes, key(check_rank, thread, round), "got between fences");
}

static void work_fenced(int thread, unsigned char *out, unsigned char *in)
{
    fence(thread, MPI_MODE_NOPRECEDE);
    for (int round = 0; round < EPOCHS; ++round) {
        put_and_get_fenced(thread, round, out, in);
    }
    fence(thread, MPI_MODE_NOSUCCEED);
}

/* ------------------------------------------------------------------------------------------------
 * Threads */

static void *work(void *context)
{
    const int thread = *(int *) context;
    unsigned char *out = malloc(BLOCK), *in = malloc(BLOCK);
    for (int round = 0; round < rounds; ++round) {
        put_and_get(thread, round, out, in);
    }
    add();
    accumulate(thread);
    put_all_flush_once(thread, out);
    free(in);
    free(out);
    return NULL;
}

/* Another thread than the one before may be number 0 and so call the fences. */
static void *work_between_fences(void *context)
{
    unsigned char *out = malloc(BLOCK), *in = malloc(BLOCK);
    work_fenced(*(int *) context, out, in);
    free(in);
    free(out);
    return NULL;
}

static void run(void *(*of_thread)(void *) )
{
    pthread_barrier_init(&together, NULL, (unsigned) threads);
    run_numbered(threads, of_thread);
    pthread_barrier_destroy(&together);
}

/* ------------------------------------------------------------------------------------------------
 * Results */

static void check_word(int index, int64_t right, const char *what)
{
    CHECK(words[index] == right, "%s is %lld, not %lld", what, (long long) words[index],
          (long long) right);
}

static void check_words(void)
{
    const int64_t all = (int64_t) check_ranks * threads, adds = all * ADDS;
    const int64_t sum = all * (all + 1) / 2 * ACCUMULATES; /* of number_of() of all threads */
    check_word(COUNTER, adds, "the counter");
    check_word(SWAPPED, adds - (int64_t) threads * ADDS, "the swapped word");
    check_word(SUM, sum, "the sum");
    check_word(OLD_SUM, sum, "the sum that was read");
    check_word(MOST, all * ACCUMULATES + ACCUMULATES - 1, "the largest number");
    for (int i = 0; i < VECTOR; ++i) {
        check_word(SUMS + i, 2 * (sum + all * ACCUMULATES * i), "a sum of several");
    }
}

static void check_memory(void)
{
    int64_t count;
    for (int i = 0; i < threads; ++i) {
        CHECK_BYTES(memory + place_of(i), size_of(rounds), key(from, i, rounds), "put in the end");
    }
    memcpy(&count, fenced + place_of(threads), sizeof count);
    CHECK(count == (int64_t) threads * EPOCHS, "%lld accumulates between fences",
          (long long) count);
    if (check_rank == 0) {
        check_words();
    }
}

static void begin(int argc, char **argv)
{
    if (argc == 4) {
        endpoints_choose(argv[3], &argc, &argv, "rma_threads", 1);
    } else {
        check_begin_threads(&argc, &argv, "rma_threads", 1, MPI_THREAD_MULTIPLE);
        CHECK(argc == 3, "arguments: threads, rounds, numbers of endpoints");
        endpoints_neighbours();
    }
    threads = atoi(argv[1]);
    rounds = atoi(argv[2]);
    CHECK(threads > 0 && threads <= LIMIT, "%d threads", threads);
}

/* Not MPI_Win_allocate, which gives the processes of a host memory that they share. */
static void *make_window(size_t bytes, int unit, MPI_Win *made)
{
    void *base = calloc(1, bytes);
    MPI_Win_create(base, (MPI_Aint) bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, made);
    return base;
}

static void work_locked(void)
{
    MPI_Win_lock_all(0, window);
    MPI_Win_lock_all(0, word_window);
    run(work);
    MPI_Win_unlock_all(word_window);
    MPI_Win_unlock_all(window);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    memory = make_window((size_t) threads * BLOCK, 1, &window);
    fenced = make_window((size_t) threads * BLOCK + sizeof(int64_t), 1, &fence_window);
    words = make_window(WORDS * sizeof(int64_t), sizeof(int64_t), &word_window);
    MPI_Barrier(MPI_COMM_WORLD);
    work_locked();
    run(work_between_fences);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, window);
    check_memory();
    MPI_Win_unlock(check_rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&word_window);
    MPI_Win_free(&fence_window);
    MPI_Win_free(&window);
    free(words);
    free(fenced);
    free(memory);
    check_end();
    return 0;
}
