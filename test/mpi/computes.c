// SPDX-License-Identifier: BSD-3-Clause
/*
 * Rank 1 computes for a long time without an MPI call while the other ranks wait for it. They have
 * to wait even if that takes longer than partition_timeout. Arguments: the subject of the wait, and
 * the seconds that rank 1 computes.
 *
 *   eager       an answer to the first message to rank 1
 *   rendezvous  the transfer of a large message for which rank 1 has posted the receive
 *   sixteen     an answer to many short messages, the last of which asks for a connection
 *   first       the acceptance of a first message that is longer than a datagram
 *   atomic      an atomic on rank 1's window
 *   lock        the lock that rank 1 holds on a window, its own or rank 0's
 */
#include "check.h"

#include <time.h>

enum {
    LARGE = 3000000,
    LONGER = 20000,
    SIXTEEN = 16,
    TAG = 5
};

static double seconds;

static void compute(void)
{
    struct timespec left = {(time_t) seconds, (long) (1e9 * (seconds - (double) (time_t) seconds))};
    while (nanosleep(&left, &left) != 0) {
    }
}

static void receive(unsigned char *in, int from, int tag, size_t bytes)
{
    MPI_Status status;
    MPI_Recv(in, (int) bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &status);
    CHECK_STATUS(&status, from, tag, bytes, "a message");
    CHECK_BYTES(in, bytes, key_of(from, tag, bytes, 0), "a message");
}

static void post(unsigned char *out, int to, int tag, size_t bytes)
{
    fill(out, bytes, key_of(check_rank, tag, bytes, 0));
    MPI_Send(out, (int) bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD);
}

/* Rank 1 receives `count` messages and answers. It computes after the last of them, or, with
 * `posted`, between posting the last receive and waiting for it. */
static void messages(int count, size_t bytes, bool posted)
{
    unsigned char *data = malloc(bytes + 1);
    if (check_rank == 0) {
        for (int i = 0; i < count; ++i) {
            post(data, 1, TAG, bytes);
        }
        receive(data, 1, TAG + 1, 8);
    } else if (check_rank == 1) {
        MPI_Request request;
        MPI_Status status;
        for (int i = 0; i + 1 < count; ++i) {
            receive(data, 0, TAG, bytes);
        }
        if (posted) {
            MPI_Irecv(data, (int) bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
            compute();
            MPI_Wait(&request, &status);
            CHECK_STATUS(&status, 0, TAG, bytes, "the message that was posted");
            CHECK_BYTES(data, bytes, key_of(0, TAG, bytes, 0), "the message that was posted");
        } else {
            receive(data, 0, TAG, bytes);
            compute();
        }
        post(data, 0, TAG + 1, 8);
    }
    free(data);
}

static void atomic(void)
{
    long word = 100, one = 1, old = -1;
    MPI_Win window;
    MPI_Win_create(&word, sizeof word, sizeof word, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 1, 0, MPI_SUM, window);
        MPI_Win_unlock(1, window);
        CHECK(old == 100, "the atomic found %ld", old);
    } else if (check_rank == 1) {
        compute();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(check_rank != 1 || word == 101, "the word is %ld", word);
    MPI_Win_free(&window);
}

/* Rank 1 computes while it holds the lock on the window of rank `target`; each other rank waits for
 * that lock and adds to the window. */
static void lock_at(int target, MPI_Win window, long *word)
{
    const long one = 1, first = 1000;
    MPI_Request request = MPI_REQUEST_NULL;

    *word = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
        MPI_Put(&first, 1, MPI_LONG, target, 0, 1, MPI_LONG, window);
        MPI_Win_flush(target, window);
        for (int to = 0; to < check_ranks; ++to) {
            if (to != 1) {
                MPI_Isend(NULL, 0, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &request);
                MPI_Request_free(&request);
            }
        }
        compute();
        MPI_Win_unlock(target, window);
    } else {
        long seen = -1;

        MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
        MPI_Get(&seen, 1, MPI_LONG, target, 0, 1, MPI_LONG, window);
        MPI_Accumulate(&one, 1, MPI_LONG, target, 0, 1, MPI_LONG, MPI_SUM, window);
        MPI_Win_unlock(target, window);
        CHECK(seen >= first && seen < first + check_ranks, "the word was %ld", seen);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, window);
    CHECK(check_rank != target || *word == first + check_ranks - 1, "the word is %ld", *word);
    MPI_Win_unlock(check_rank, window);
}

static void lock(void)
{
    long word;
    MPI_Win window;

    MPI_Win_create(&word, sizeof word, sizeof word, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (int target = 0; target < 2; ++target) {
        lock_at(target, window, &word);
    }
    MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "computes", 2);
    const char *what = argc > 1 ? argv[1] : "eager";
    seconds = argc > 2 ? atof(argv[2]) : 3;
    if (strcmp(what, "eager") == 0) {
        messages(1, 8, false);
    } else if (strcmp(what, "rendezvous") == 0) {
        messages(2, LARGE, true);
    } else if (strcmp(what, "sixteen") == 0) {
        messages(SIXTEEN + 1, 8, false);
    } else if (strcmp(what, "first") == 0) {
        messages(1, LONGER, true);
    } else if (strcmp(what, "atomic") == 0) {
        atomic();
    } else if (strcmp(what, "lock") == 0) {
        lock();
    } else {
        FAIL("there is no case \"%s\"", what);
    }
    check_end();
    return 0;
}
