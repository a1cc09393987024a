// SPDX-License-Identifier: BSD-3-Clause
/*
 * One-sided operations whose own buffers lie in an accelerator's memory (device.h), on windows in
 * host memory: put, get, accumulate, fetch-and-op and compare-and-swap, with flush, with fence, and
 * as requests, short and long. A window in device memory is refused with an error, also where
 * memory is attached to a dynamic window; the process goes on.
 *
 * Argument "alone": device memory is used for buffers only.
 */
#include "check.h"

#include "device/device.h"

enum {
    WORD = 8
};

static const size_t sizes[] = {8, 64, 1000, 8192, 70000, 2500000};
static const size_t most_bytes = 2500000;

/* Puts from the device, and gets what was put back into the device, at the next rank. */
static void put_and_get(MPI_Win win, size_t bytes, int salt, bool requests)
{
    const int to = (check_rank + 1) % check_ranks;
    const uint64_t key = key_of(check_rank, salt, bytes, 0);
    unsigned char *host = guarded_new(bytes, 0), *out = device_new(bytes), *in = device_new(bytes);
    MPI_Request request;

    fill(host, bytes, key);
    device_put(out, host, bytes);
    guarded_reset(host, bytes);
    device_put(in, host, bytes);
    MPI_Win_lock_all(0, win);
    if (requests) {
        MPI_Rput(out, (int) bytes, MPI_BYTE, to, 0, (int) bytes, MPI_BYTE, win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Put(out, (int) bytes, MPI_BYTE, to, 0, (int) bytes, MPI_BYTE, win);
    }
    MPI_Win_flush(to, win);
    if (requests) {
        MPI_Rget(in, (int) bytes, MPI_BYTE, to, 0, (int) bytes, MPI_BYTE, win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Get(in, (int) bytes, MPI_BYTE, to, 0, (int) bytes, MPI_BYTE, win);
        MPI_Win_flush(to, win);
    }
    MPI_Win_unlock_all(win);
    device_get(host, in, bytes);
    CHECK_BYTES(host, bytes, key, requests ? "MPI_Rput, MPI_Rget" : "MPI_Put, MPI_Get");
    guarded_free(host, 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Several puts at once, seen by their target after a fence. */
static void fenced(MPI_Win win, const unsigned char *window, size_t bytes)
{
    enum {
        PUTS = 8
    };
    const int to = (check_rank + 1) % check_ranks;
    const int from = (check_rank + check_ranks - 1) % check_ranks;
    const size_t piece = bytes / PUTS;
    unsigned char *host = malloc(bytes), *out = device_new(bytes);

    fill(host, bytes, key_of(check_rank, 3, bytes, 0));
    device_put(out, host, bytes);
    MPI_Win_fence(0, win);
    for (size_t i = 0; i < PUTS; ++i) {
        MPI_Put(out + i * piece, (int) piece, MPI_BYTE, to, (MPI_Aint) (i * piece), (int) piece,
                MPI_BYTE, win);
    }
    MPI_Win_fence(0, win);
    CHECK_BYTES(window, PUTS * piece, key_of(from, 3, bytes, 0), "after a fence");
    MPI_Barrier(MPI_COMM_WORLD);
    free(host);
}

static int64_t word_at(const int64_t *device)
{
    int64_t value;

    device_get(&value, device, sizeof value);
    return value;
}

static int64_t *new_word(int64_t value)
{
    int64_t *word = device_new(sizeof value);

    device_put(word, &value, sizeof value);
    return word;
}

/* All ranks add to a word of rank 0, by two operations, then each swaps a word of its own. */
static void atomics(MPI_Win win, int64_t *window)
{
    int64_t *one = new_word(1), *two = new_word(2), *old = new_word(-1);
    int64_t *mine = new_word(check_rank), *next = new_word(1000 + check_rank);

    window[0] = 0;
    window[1] = check_rank;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    MPI_Fetch_and_op(one, old, MPI_INT64_T, 0, 0, MPI_SUM, win);
    MPI_Win_flush(0, win);
    CHECK(word_at(old) >= 0 && word_at(old) < 3L * check_ranks, "MPI_Fetch_and_op returned %lld",
          (long long) word_at(old));
    MPI_Accumulate(two, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, win);
    MPI_Win_flush(0, win);
    MPI_Compare_and_swap(next, mine, old, MPI_INT64_T, check_rank, WORD, win);
    MPI_Win_flush(check_rank, win);
    CHECK(word_at(old) == check_rank, "MPI_Compare_and_swap returned %lld",
          (long long) word_at(old));
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win);
    CHECK(check_rank != 0 || window[0] == 3L * check_ranks, "the sum is %lld, expected %d",
          (long long) window[0], 3 * check_ranks);
    CHECK(window[1] == 1000 + check_rank, "the swapped word is %lld", (long long) window[1]);
    MPI_Win_unlock(check_rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void operations(bool allocated)
{
    void *memory = allocated ? NULL : malloc(most_bytes);
    MPI_Win win;

    if (allocated) {
        MPI_Win_allocate((MPI_Aint) most_bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    } else {
        MPI_Win_create(memory, (MPI_Aint) most_bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    }
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; ++s) {
        put_and_get(win, sizes[s], 1, false);
        put_and_get(win, sizes[s], 2, true);
        fenced(win, memory, sizes[s]);
        device_reset();
    }
    atomics(win, memory);
    MPI_Win_free(&win);
    if (!allocated) {
        free(memory);
    }
    device_reset();
}

static void refused(void)
{
    void *memory = device_new(4096);
    MPI_Win win = MPI_WIN_NULL;
    int rc = MPI_Win_create(memory, 4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);

    CHECK(rc != MPI_SUCCESS, "a window in device memory was made");
    rc = MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    CHECK(rc == MPI_SUCCESS, "no dynamic window");
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    rc = MPI_Win_attach(win, memory, 4096);
    CHECK(rc != MPI_SUCCESS, "device memory was attached");
    MPI_Win_free(&win);
    device_reset();
}

int main(int argc, char **argv)
{
    const bool device = device_open();

    check_begin(&argc, &argv, "device_windows", 2);
    if (!device) {
        MPI_Finalize();
        return CHECK_SKIPPED;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    operations(false);
    operations(true);
    if (argc < 2 || strcmp(argv[1], "alone") != 0) {
        refused();
    }
    check_end();
    return 0;
}
