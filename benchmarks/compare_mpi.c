// SPDX-License-Identifier: BSD-3-Clause
/*
 * Measures one transport for benchmarks/compare, which reads the output: a line
 * `metric size median best` for each metric and size, over the batches of this run. Times are in
 * microseconds, rates in million messages/s, bandwidths in MB/s (10^6 bytes).
 *
 *     compare_mpi PART [batch in microseconds [batches [metric,metric... [size,size...]]]]
 *
 *   line      two pinned processes without MPI: half a round trip of a cache line each way
 *   two       latency (half a ping-pong); rate of 8-byte messages, 64 in flight; bandwidth in one
 *             direction and in both (the sum), with up to 64 messages or 4 MiB, but at least 4
 *             messages in flight
 *   one       MPI_Put, MPI_Get, MPI_Fetch_and_op, each with its flush, in a window of
 *             MPI_Win_create and (*_allocate) in one of MPI_Win_allocate; the target waits in MPI
 *   long_two, long_one   the same from 4 KiB to 64 MiB, each size twice the one before
 *   depth     latency of 8 bytes while other receives are posted, or other messages unexpected, on
 *             both sides; the size is their number
 *   crowd     barrier and alltoall of all ranks, each block of the size given
 *   turns     parts of such a barrier and alltoall where ranks take turns on processors: turns of a
 *             rank (turns_*), duration of a turn (work_*), time between two turns (change_*)
 *
 * Each operation runs once with its payload checked before it is timed (data by its bytes, counters
 * by their sum). The batches of all metrics and sizes take turns, so that a disturbance of the
 * machine hits all alike; a batch is as many repetitions as fill its time. May touch: mpi.h,
 * the C library, test/mpi/check.h.
 */
#define _GNU_SOURCE
#include "mpi/check.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_ITEMS = 64,
    MAX_BATCHES = 1000,
    MAX_REPETITIONS = 1 << 20,
    WINDOW = 64,
    DEEP = 10000,
    TAG = 1,
    TAG_CHECK = 2,
    TAG_ACKNOWLEDGE = 3,
    TAG_OTHERS = 1000,
    LARGEST = 4 << 20,
    LONGEST = 64 << 20, /* of long_two and long_one */
    LONG_FROM = 4096,
    WARM_UP = 200,        /* repetitions */
    WARM_PIECE = 4 << 20, /* longer ones are moved in pieces */
    /* Least repetitions of a collective operation per batch: rank 0 may come last to one, find all
     * others waiting, and so measure too short a time. */
    LEAST_OF_ALL = 50
};

/* One metric at one size. `run` does `repetitions` repetitions and returns rank 0's seconds. */
struct item {
    const char *name;
    size_t size;
    double (*run)(const struct item *item, long repetitions);
    void (*verify)(const struct item *item);
    /* Work of a repetition in the metric's unit: divides times, multiplies rates. */
    double per_repetition;
    bool rate;
    long least; /* repetitions per batch */
    MPI_Win window;
    long repetitions;
    double samples[MAX_BATCHES];
};

static struct item items[MAX_ITEMS];
static int item_count;
static double batch_seconds = 2e-3;
static int batches = 15;
static size_t room = LARGEST;                               /* size of the buffers */
static const char *chosen_metrics = "", *chosen_sizes = ""; /* all if empty */
static unsigned char *out, *in;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

static unsigned char *pages(size_t bytes)
{
    unsigned char *memory = NULL;
    if (posix_memalign((void **) &memory, 4096, bytes) != 0) {
        FAIL("no memory for %zu bytes", bytes);
    }
    memset(memory, 0, bytes);
    return memory;
}

/* ------------------------------------------------------------------------------------------------
 * Batches and their median */

static struct item *add(const char *name, size_t size,
                        double (*run)(const struct item *, long repetitions),
                        void (*verify)(const struct item *), double per_repetition, bool rate)
{
    CHECK(item_count < MAX_ITEMS, "too many items");
    struct item *item = &items[item_count++];
    *item = (struct item){.name = name,
                          .size = size,
                          .run = run,
                          .verify = verify,
                          .per_repetition = per_repetition,
                          .rate = rate,
                          .least = 1,
                          .window = MPI_WIN_NULL};
    return item;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *) left, b = *(const double *) right;
    return (a > b) - (a < b);
}

/* Sorts the samples (seconds per repetition) and prints median and best in the item's unit. */
static void print_samples(const struct item *item, double *samples, int count)
{
    qsort(samples, (size_t) count, sizeof *samples, by_value);
    double median = samples[count / 2], best = samples[0];
    if (item->rate) {
        median = item->per_repetition / median;
        best = item->per_repetition / best;
    } else {
        median = 1e6 * median / item->per_repetition;
        best = 1e6 * best / item->per_repetition;
    }
    printf("%s %zu %.5g %.5g\n", item->name, item->size, median, best);
    fflush(stdout);
}

/* True if a comma-separated list contains the word, or is empty. */
static bool listed(const char *list, const char *word)
{
    const size_t length = strlen(word);
    const char *at = list;
    while (*at != '\0') {
        const size_t part = strcspn(at, ",");
        if (part == length && memcmp(at, word, length) == 0) {
            return true;
        }
        at += part + (at[part] == ',');
    }
    return *list == '\0';
}

/* Keeps only the chosen items. */
static void choose(void)
{
    int kept = 0;
    for (int i = 0; i < item_count; ++i) {
        char size[32];
        snprintf(size, sizeof size, "%zu", items[i].size);
        if (listed(chosen_metrics, items[i].name) && listed(chosen_sizes, size)) {
            items[kept++] = items[i];
        }
    }
    item_count = kept;
}

static double timed(const struct item *item, long repetitions)
{
    MPI_Barrier(MPI_COMM_WORLD);
    return item->run(item, repetitions);
}

/* Finds the number of repetitions that fill a batch, by longer and longer trials, which also warm
 * up. All ranks use rank 0's number. */
static void calibrate(struct item *item)
{
    long repetitions = 1;
    for (;;) {
        double seconds = timed(item, repetitions);
        double wanted = (double) repetitions * batch_seconds / (seconds > 1e-9 ? seconds : 1e-9);
        long next[2] = {wanted < (double) item->least ? item->least
                        : wanted > MAX_REPETITIONS    ? MAX_REPETITIONS
                                                      : (long) wanted,
                        seconds >= batch_seconds / 4 || repetitions >= MAX_REPETITIONS};
        MPI_Bcast(next, 2, MPI_LONG, 0, MPI_COMM_WORLD);
        if (next[1]) {
            item->repetitions = next[0];
            return;
        }
        repetitions = next[0] < 8 * repetitions ? next[0] : 8 * repetitions;
    }
}

/* Sends as many messages of that size as a transport needs to learn, and fewer very long ones. */
static void warm_up(struct item *item)
{
    size_t pieces = item->size / WARM_PIECE;
    (void) timed(item, pieces <= 1 ? WARM_UP : WARM_UP / (long) pieces);
}

static void measure(bool learns)
{
    choose();
    for (int i = 0; i < item_count; ++i) {
        if (items[i].verify != NULL) {
            items[i].verify(&items[i]);
        }
        if (learns) {
            warm_up(&items[i]);
        }
        calibrate(&items[i]);
    }
    for (int batch = 0; batch < batches; ++batch) {
        for (int i = 0; i < item_count; ++i) {
            items[i].samples[batch] =
                timed(&items[i], items[i].repetitions) / (double) items[i].repetitions;
        }
    }
    if (check_rank == 0) {
        for (int i = 0; i < item_count; ++i) {
            print_samples(&items[i], items[i].samples, batches);
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * A cache line between two processes, without MPI */

static void pin(int core)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0) {
        perror("compare_mpi: sched_setaffinity");
        exit(1);
    }
}

static void line(void)
{
    struct lines {
        _Alignas(128) volatile uint64_t there;
        _Alignas(128) volatile uint64_t back;
    } *lines = mmap(NULL, sizeof *lines, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lines == MAP_FAILED) {
        perror("compare_mpi: mmap");
        exit(1);
    }
    const uint64_t repetitions = 10000;
    pid_t other = fork();
    if (other == -1) {
        perror("compare_mpi: fork");
        exit(1);
    }
    if (other == 0) {
        pin(1);
        for (uint64_t i = 1; i <= repetitions * (uint64_t) (batches + 1); ++i) {
            while (__atomic_load_n(&lines->there, __ATOMIC_ACQUIRE) != i) {
            }
            __atomic_store_n(&lines->back, i, __ATOMIC_RELEASE);
        }
        _exit(0);
    }
    pin(0);
    struct item *item = add("line", 64, NULL, NULL, 2, false);
    uint64_t i = 0;
    for (int batch = -1; batch < batches; ++batch) { /* batch -1 warms up */
        double start = now();
        for (uint64_t end = i + repetitions; i < end;) {
            __atomic_store_n(&lines->there, ++i, __ATOMIC_RELEASE);
            while (__atomic_load_n(&lines->back, __ATOMIC_ACQUIRE) != i) {
            }
        }
        if (batch >= 0) {
            item->samples[batch] = (now() - start) / (double) repetitions;
        }
    }
    int status = 0;
    waitpid(other, &status, 0);
    print_samples(item, item->samples, batches);
}

/* ------------------------------------------------------------------------------------------------
 * Two-sided */

static void verify_message(const struct item *item)
{
    MPI_Status status;
    const int size = (int) item->size;
    for (int i = 0; i < 40; ++i) { /* enough for the transport to set up connections */
        const int other = 1 - check_rank;
        fill(out, item->size, key_of(check_rank, TAG_CHECK, item->size, (uint64_t) i));
        memset(in, 0, item->size);
        MPI_Sendrecv(out, size, MPI_BYTE, other, TAG_CHECK, in, size, MPI_BYTE, other, TAG_CHECK,
                     MPI_COMM_WORLD, &status);
        CHECK_STATUS(&status, other, TAG_CHECK, item->size, item->name);
        CHECK_BYTES(in, item->size, key_of(other, TAG_CHECK, item->size, (uint64_t) i), item->name);
        if (item->size > 65536 && i >= 2) {
            return;
        }
    }
}

static double run_latency(const struct item *item, long repetitions)
{
    const int size = (int) item->size;
    const double start = now();
    if (check_rank == 0) {
        for (long i = 0; i < repetitions; ++i) {
            MPI_Send(out, size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
            MPI_Recv(in, size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    } else {
        for (long i = 0; i < repetitions; ++i) {
            MPI_Recv(in, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        }
    }
    return now() - start;
}

static int in_flight(size_t size)
{
    size_t count = LARGEST / size;
    return count > WINDOW ? WINDOW : count < 4 ? 4 : (int) count;
}

/* The buffer part of a message in flight; parts are disjoint as far as `room` suffices. */
static unsigned char *slot(unsigned char *buffer, const struct item *item, int index)
{
    return buffer + (size_t) index * item->size % room;
}

static double run_stream(const struct item *item, long repetitions)
{
    MPI_Request requests[WINDOW];
    const int size = (int) item->size, count = in_flight(item->size);
    const double start = now();
    for (long i = 0; i < repetitions; ++i) {
        for (int k = 0; k < count; ++k) {
            if (check_rank == 0) {
                MPI_Isend(slot(out, item, k), size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[k]);
            } else {
                MPI_Irecv(slot(in, item, k), size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[k]);
            }
        }
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        if (check_rank == 0) {
            MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG_ACKNOWLEDGE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_ACKNOWLEDGE, MPI_COMM_WORLD);
        }
    }
    return now() - start;
}

static double run_both_ways(const struct item *item, long repetitions)
{
    MPI_Request requests[2 * WINDOW];
    const int size = (int) item->size, count = in_flight(item->size), other = 1 - check_rank;
    const double start = now();
    for (long i = 0; i < repetitions; ++i) {
        for (int k = 0; k < count; ++k) {
            MPI_Irecv(slot(in, item, k), size, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &requests[k]);
        }
        for (int k = 0; k < count; ++k) {
            MPI_Isend(slot(out, item, k), size, MPI_BYTE, other, TAG, MPI_COMM_WORLD,
                      &requests[count + k]);
        }
        MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE);
        MPI_Sendrecv(NULL, 0, MPI_BYTE, other, TAG_ACKNOWLEDGE, NULL, 0, MPI_BYTE, other,
                     TAG_ACKNOWLEDGE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return now() - start;
}

static void add_streams(size_t size)
{
    const double megabytes = 1e-6 * (double) size * in_flight(size);
    add("bandwidth", size, run_stream, verify_message, megabytes, true);
    add("bidirectional", size, run_both_ways, verify_message, 2 * megabytes, true);
}

static void part_two(void)
{
    static const size_t sizes[] = {1,          8,       64,        256,       1024,
                                   4096,       8192,    16 * 1024, 32 * 1024, 64 * 1024,
                                   256 * 1024, 1 << 20, LARGEST};
    static const size_t wide[] = {4096, 16 * 1024, 64 * 1024, 256 * 1024, 1 << 20, LARGEST};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        add("latency", sizes[i], run_latency, verify_message, 2, false);
    }
    add("rate", 8, run_stream, verify_message, 1e-6 * WINDOW, true);
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; ++i) {
        add_streams(wide[i]);
    }
    measure(false);
}

static void part_long_two(void)
{
    for (size_t size = LONG_FROM; size <= LONGEST; size *= 2) {
        add("latency", size, run_latency, verify_message, 2, false);
        add_streams(size);
    }
    measure(true);
}

/* ------------------------------------------------------------------------------------------------
 * One-sided: rank 0 acts on rank 1's memory */

static void verify_put(const struct item *item)
{
    const uint64_t key = key_of(0, 10, item->size, 0);
    unsigned char *memory = NULL;
    int found = 0;
    MPI_Win_get_attr(item->window, MPI_WIN_BASE, &memory, &found);
    CHECK(found, "%s: the window has no base", item->name);
    if (check_rank == 0) {
        fill(out, item->size, key);
        MPI_Put(out, (int) item->size, MPI_BYTE, 1, 0, (int) item->size, MPI_BYTE, item->window);
        MPI_Win_flush(1, item->window);
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_sync(item->window);
        CHECK_BYTES(memory, item->size, key, item->name);
    }
}

static void verify_get(const struct item *item)
{
    const uint64_t key = key_of(1, 11, item->size, 0);
    unsigned char *memory = NULL;
    int found = 0;
    MPI_Win_get_attr(item->window, MPI_WIN_BASE, &memory, &found);
    CHECK(found, "%s: the window has no base", item->name);
    if (check_rank == 1) {
        fill(memory, item->size, key);
        MPI_Win_sync(item->window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        memset(in, 0, item->size);
        MPI_Get(in, (int) item->size, MPI_BYTE, 1, 0, (int) item->size, MPI_BYTE, item->window);
        MPI_Win_flush(1, item->window);
        CHECK_BYTES(in, item->size, key, item->name);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void verify_fetch(const struct item *item)
{
    const int64_t three = 3;
    if (check_rank == 0) {
        int64_t before = 0, first = 0;
        for (int i = 0; i < 100; ++i) {
            MPI_Fetch_and_op(&three, &before, MPI_INT64_T, 1, 0, MPI_SUM, item->window);
            MPI_Win_flush(1, item->window);
            first = i == 0 ? before : first;
            CHECK(before == first + i * three, "%s: addition %d found %lld, expected %lld",
                  item->name, i, (long long) before, (long long) (first + i * three));
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static double run_put(const struct item *item, long repetitions)
{
    double start = now(), seconds = 0;
    if (check_rank == 0) {
        for (long i = 0; i < repetitions; ++i) {
            MPI_Put(out, (int) item->size, MPI_BYTE, 1, 0, (int) item->size, MPI_BYTE,
                    item->window);
            MPI_Win_flush(1, item->window);
        }
        seconds = now() - start;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return seconds;
}

static double run_get(const struct item *item, long repetitions)
{
    double start = now(), seconds = 0;
    if (check_rank == 0) {
        for (long i = 0; i < repetitions; ++i) {
            MPI_Get(in, (int) item->size, MPI_BYTE, 1, 0, (int) item->size, MPI_BYTE, item->window);
            MPI_Win_flush(1, item->window);
        }
        seconds = now() - start;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return seconds;
}

static double run_fetch(const struct item *item, long repetitions)
{
    const int64_t one = 1;
    int64_t before = 0;
    double start = now(), seconds = 0;
    if (check_rank == 0) {
        for (long i = 0; i < repetitions; ++i) {
            MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 1, 0, MPI_SUM, item->window);
            MPI_Win_flush(1, item->window);
        }
        seconds = now() - start;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return seconds;
}

static void part_long_one(void)
{
    MPI_Win window;
    unsigned char *memory = pages(LONGEST);
    MPI_Win_create(memory, LONGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_lock_all(0, window);
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t size = LONG_FROM; size <= LONGEST; size *= 2) {
        add("put", size, run_put, verify_put, 1, false)->window = window;
        add("get", size, run_get, verify_get, 1, false)->window = window;
    }
    measure(true);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    free(memory);
}

static void part_one(void)
{
    static const size_t sizes[] = {8, 256, 4096, 65536, 1 << 20, LARGEST};
    MPI_Win created, allocated;
    unsigned char *memory = pages(LARGEST);
    void *base = NULL;
    MPI_Win_create(memory, LARGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &created);
    MPI_Win_allocate(LARGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &allocated);
    memset(base, 0, LARGEST);
    MPI_Win_lock_all(0, created);
    MPI_Win_lock_all(0, allocated);
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        add("put", sizes[i], run_put, verify_put, 1, false)->window = created;
        add("get", sizes[i], run_get, verify_get, 1, false)->window = created;
        add("put_allocate", sizes[i], run_put, verify_put, 1, false)->window = allocated;
        add("get_allocate", sizes[i], run_get, verify_get, 1, false)->window = allocated;
    }
    add("fetch_and_op", 8, run_fetch, verify_fetch, 1, false)->window = created;
    add("fetch_and_op_allocate", 8, run_fetch, verify_fetch, 1, false)->window = allocated;
    measure(false);
    MPI_Win_unlock_all(allocated);
    MPI_Win_unlock_all(created);
    MPI_Win_free(&allocated);
    MPI_Win_free(&created);
    free(memory);
}

/* ------------------------------------------------------------------------------------------------
 * Depth of the queues */

static double run_latency_of_8(const struct item *item, long repetitions)
{
    const struct item message = {.name = item->name, .size = 8};
    return run_latency(&message, repetitions);
}

static uint64_t value_of(int sender, int index)
{
    return mix((uint64_t) sender * DEEP + (uint64_t) index + 1);
}

static void depth_posted(int depth, uint64_t *values, MPI_Request *requests)
{
    const int other = 1 - check_rank;
    for (int i = 0; i < depth; ++i) {
        MPI_Irecv(&values[i], 1, MPI_UINT64_T, other, TAG_OTHERS + i, MPI_COMM_WORLD, &requests[i]);
    }
    item_count = 0;
    add("depth_posted", (size_t) depth, run_latency_of_8, NULL, 2, false);
    measure(false);
    for (int i = 0; i < depth; ++i) {
        uint64_t value = value_of(check_rank, i);
        MPI_Send(&value, 1, MPI_UINT64_T, other, TAG_OTHERS + i, MPI_COMM_WORLD);
    }
    MPI_Waitall(depth, requests, MPI_STATUSES_IGNORE);
}

static void depth_unexpected(int depth, uint64_t *values)
{
    const int other = 1 - check_rank;
    /* Sends in portions of 50, which the other side receives into its unexpected queue before the
     * next portion, so that no transport has to queue all of them at the sender. */
    for (int i = 0; i < depth; ++i) {
        uint64_t value = value_of(check_rank, i);
        MPI_Send(&value, 1, MPI_UINT64_T, other, TAG_OTHERS + i, MPI_COMM_WORLD);
        if (i % 50 == 49) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    item_count = 0;
    add("depth_unexpected", (size_t) depth, run_latency_of_8, NULL, 2, false);
    measure(false);
    for (int i = 0; i < depth; ++i) {
        MPI_Recv(&values[i], 1, MPI_UINT64_T, other, TAG_OTHERS + i, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    }
}

static void check_values(const char *what, int depth, uint64_t *values)
{
    for (int i = 0; i < depth; ++i) {
        CHECK(values[i] == value_of(1 - check_rank, i), "%s: wrong value in message %d of %d", what,
              i, depth);
        values[i] = 0;
    }
}

static void part_depth(void)
{
    static const int depths[] = {0, 100, DEEP};
    uint64_t *values = calloc(DEEP, sizeof *values);
    MPI_Request *requests = calloc(DEEP, sizeof *requests);
    CHECK(values != NULL && requests != NULL, "no memory");
    verify_message(&(struct item){.name = "depth", .size = 8});
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; ++i) {
        depth_posted(depths[i], values, requests);
        check_values("posted", depths[i], values);
        depth_unexpected(depths[i], values);
        check_values("unexpected", depths[i], values);
    }
    free(requests);
    free(values);
}

/* ------------------------------------------------------------------------------------------------
 * More ranks than cores */

static void verify_alltoall(const struct item *item)
{
    for (int i = 0; i < 20; ++i) {
        for (int rank = 0; rank < check_ranks; ++rank) {
            fill(out + (size_t) rank * item->size, item->size,
                 key_of(check_rank, rank, item->size, (uint64_t) i));
        }
        memset(in, 0, item->size * (size_t) check_ranks);
        MPI_Alltoall(out, (int) item->size, MPI_BYTE, in, (int) item->size, MPI_BYTE,
                     MPI_COMM_WORLD);
        for (int rank = 0; rank < check_ranks; ++rank) {
            CHECK_BYTES(in + (size_t) rank * item->size, item->size,
                        key_of(rank, check_rank, item->size, (uint64_t) i), item->name);
        }
    }
}

static double run_barrier(const struct item *item, long repetitions)
{
    (void) item;
    const double start = now();
    for (long i = 0; i < repetitions; ++i) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return now() - start;
}

static double run_alltoall(const struct item *item, long repetitions)
{
    const int size = (int) item->size;
    const double start = now();
    for (long i = 0; i < repetitions; ++i) {
        MPI_Alltoall(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
    }
    return now() - start;
}

static void part_crowd(void)
{
    static const size_t sizes[] = {8, 1024, 16384};
    CHECK((size_t) check_ranks * sizes[2] <= LARGEST, "too many ranks");
    add("barrier", 0, run_barrier, NULL, 1, false)->least = LEAST_OF_ALL;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        add("alltoall", sizes[i], run_alltoall, verify_alltoall, 1, false)->least = LEAST_OF_ALL;
    }
    measure(false);
}

/* ------------------------------------------------------------------------------------------------
 * Turns: Open MPI yields the processor by sched_yield, which this program overrides to count */

static bool turns_counted;
static long turns;
static double away; /* seconds between the end of a turn and the beginning of the next */

__attribute__((visibility("default"))) int sched_yield(void)
{
    const double start = turns_counted ? now() : 0;
    const int rc = (int) syscall(SYS_sched_yield);
    if (turns_counted) {
        ++turns;
        away += now() - start;
    }
    return rc;
}

/* Averages over the ranks for one batch. Processor time outside all ranks' turns counts as time
 * between two turns. */
static void sample_turns(const struct item *item, double *count, double *work, double *change)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const double used = processors < check_ranks ? (double) processors : check_ranks;
    MPI_Barrier(MPI_COMM_WORLD);
    turns = 0;
    away = 0;
    turns_counted = true;
    const double start = now();
    item->run(item, item->repetitions);
    const double seconds = now() - start;
    turns_counted = false;
    double sums[3] = {(double) turns, seconds - away, seconds};
    MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sums[0] > 0, "no rank gave its processor up: there are not more of them than processors");
    *count = sums[0] / check_ranks / (double) item->repetitions;
    *work = sums[1] / sums[0];
    *change = used * sums[2] / check_ranks / sums[0] - *work;
}

static void turns_of(const char *what, double (*run)(const struct item *, long repetitions))
{
    static const char *const values[] = {"turns", "work", "change"};
    struct item *made[3], *item = add(what, 8, run, NULL, 1, false);
    static char names[6][32];
    static int named;
    item->least = LEAST_OF_ALL;
    timed(item, 1000); /* warm-up: connects and touches the rings */
    calibrate(item);
    for (int i = 0; i < 3; ++i) {
        char *name = names[named++];
        snprintf(name, sizeof names[0], "%s_%s", values[i], what);
        /* print_samples converts seconds to microseconds; per_repetition 1e6 undoes that for the
         * number of turns. */
        made[i] = add(name, 0, NULL, NULL, i == 0 ? 1e6 : 1, false);
    }
    for (int batch = 0; batch < batches; ++batch) {
        sample_turns(item, &made[0]->samples[batch], &made[1]->samples[batch],
                     &made[2]->samples[batch]);
    }
    for (int i = 0; i < 3; ++i) {
        if (check_rank == 0 && listed(chosen_metrics, made[i]->name)) {
            print_samples(made[i], made[i]->samples, batches);
        }
    }
}

static void part_turns(void)
{
    turns_of("barrier", run_barrier);
    turns_of("alltoall", run_alltoall);
}

/* ---------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    if (argc > 2) {
        batch_seconds = 1e-6 * atof(argv[2]);
    }
    if (argc > 3) {
        batches = atoi(argv[3]);
    }
    if (argc > 4) {
        chosen_metrics = argv[4];
    }
    if (argc > 5) {
        chosen_sizes = argv[5];
    }
    if (batch_seconds <= 0 || batches < 1 || batches > MAX_BATCHES) {
        fprintf(stderr,
                "usage: compare_mpi PART [batch in microseconds [batches [metrics [sizes]]]]\n");
        return 2;
    }
    if (strcmp(part, "line") == 0) {
        line();
        return 0;
    }
    check_begin(&argc, &argv, "compare_mpi", 2);
    room = strncmp(part, "long", 4) == 0 ? LONGEST : LARGEST;
    out = pages(room);
    in = pages(room);
    if (strcmp(part, "crowd") == 0) {
        part_crowd();
    } else if (strcmp(part, "turns") == 0) {
        part_turns();
    } else {
        CHECK(check_ranks == 2, "part \"%s\" is for two ranks", part);
        if (strcmp(part, "two") == 0) {
            part_two();
        } else if (strcmp(part, "one") == 0) {
            part_one();
        } else if (strcmp(part, "long_two") == 0) {
            part_long_two();
        } else if (strcmp(part, "long_one") == 0) {
            part_long_one();
        } else if (strcmp(part, "depth") == 0) {
            part_depth();
        } else {
            FAIL("there is no part \"%s\"", part);
        }
    }
    free(in);
    free(out);
    check_end();
    return 0;
}
