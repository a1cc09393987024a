// SPDX-License-Identifier: BSD-3-Clause
/*
 * Canceled receives. A receive without a message ends as canceled and takes no message. A receive
 * that is already matched ends as if it had not been canceled. A receive ends in exactly one of
 * these ways even when its message arrives at that moment.
 */
#include "check.h"

enum {
    COUNT = 200
};

static const size_t sizes[] = {0, 8, 4096, 9000, 200000, 2000000};
enum {
    SIZES = sizeof sizes / sizeof sizes[0]
};

/* Cancels some of many posted receives, with and without wildcards; the other receives get the
 * messages. */
static void among_many(int to, int from)
{
    int values[COUNT];
    MPI_Request requests[COUNT];
    for (int i = 0; i < COUNT; ++i) {
        values[i] = -1;
        MPI_Irecv(&values[i], 1, MPI_INT, i % 5 == 0 ? MPI_ANY_SOURCE : from,
                  i % 7 == 0 ? MPI_ANY_TAG : 3, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = COUNT - 1; i >= 0; --i) {
        if (i % 3 == 0) {
            MPI_Status status;
            int flag = 0;
            MPI_Cancel(&requests[i]);
            MPI_Wait(&requests[i], &status);
            MPI_Test_cancelled(&status, &flag);
            CHECK(flag, "receive %d of %d was not cancelled", i, COUNT);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0, number = 0; i < COUNT; ++i) {
        if (i % 3 != 0) {
            MPI_Send(&number, 1, MPI_INT, to, 3, MPI_COMM_WORLD);
            ++number;
        }
    }
    for (int i = 0, number = 0; i < COUNT; ++i) {
        if (i % 3 != 0) {
            MPI_Status status;
            int flag = 1;
            MPI_Wait(&requests[i], &status);
            MPI_Test_cancelled(&status, &flag);
            CHECK(!flag && status.MPI_SOURCE == from, "receive %d: cancelled %d, source %d", i,
                  flag, status.MPI_SOURCE);
            CHECK(values[i] == number, "receive %d has message %d, expected %d", i, values[i],
                  number);
            ++number;
        } else {
            CHECK(values[i] == -1, "cancelled receive %d has message %d", i, values[i]);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Cancels a receive whose message has arrived, which is too late. */
static void too_late(int to, int from, size_t bytes)
{
    unsigned char *out = guarded_new(bytes, 0), *in = guarded_new(bytes, 0);
    MPI_Request receive, send;
    MPI_Status status;
    int flag = 1;
    fill(out, bytes, key_of(check_rank, 4, bytes, 0));
    MPI_Isend(out, (int) bytes, MPI_BYTE, to, 4, MPI_COMM_WORLD, &send);
    MPI_Probe(from, 4, MPI_COMM_WORLD, &status);
    MPI_Irecv(in, (int) bytes, MPI_BYTE, from, 4, MPI_COMM_WORLD, &receive);
    MPI_Cancel(&receive);
    MPI_Wait(&receive, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(!flag, "a matched receive of %zu bytes was cancelled", bytes);
    CHECK_STATUS(&status, from, 4, bytes, "too late");
    CHECK_BYTES(in, bytes, key_of(from, 4, bytes, 0), "too late");
    CHECK_GUARD(in, bytes, "too late");
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    guarded_free(out, 0);
    guarded_free(in, 0);
}

/* Cancels a receive while its message arrives: this receive gets the message, or the next one
 * does. */
static void about_now(int to, int from, size_t bytes, int delay)
{
    unsigned char *out = guarded_new(bytes, 0), *in = guarded_new(bytes, 0);
    MPI_Request receive, send;
    MPI_Status status;
    int flag = 0;
    fill(out, bytes, key_of(check_rank, 5, bytes, (uint64_t) delay));
    MPI_Irecv(in, (int) bytes, MPI_BYTE, from, 5, MPI_COMM_WORLD, &receive);
    MPI_Isend(out, (int) bytes, MPI_BYTE, to, 5, MPI_COMM_WORLD, &send);
    for (int i = 0; i < delay; ++i) {
        MPI_Iprobe(from, 999, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    MPI_Cancel(&receive);
    MPI_Wait(&receive, &status);
    MPI_Test_cancelled(&status, &flag);
    if (flag) {
        for (size_t i = 0; i < bytes; ++i) {
            CHECK(in[i] == CHECK_GUARD_VALUE, "a cancelled receive wrote byte %zu of %zu", i,
                  bytes);
        }
        MPI_Recv(in, (int) bytes, MPI_BYTE, from, 5, MPI_COMM_WORLD, &status);
    }
    CHECK_STATUS(&status, from, 5, bytes, "cancelled about now");
    CHECK_BYTES(in, bytes, key_of(from, 5, bytes, (uint64_t) delay), "cancelled about now");
    CHECK_GUARD(in, bytes, "cancelled about now");
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    guarded_free(out, 0);
    guarded_free(in, 0);
}

/* Cancels a send. Whether that succeeds is open, but both sides must see the same result. */
static void sends(int to, int from, size_t bytes)
{
    unsigned char *out = guarded_new(bytes, 0), *in = guarded_new(bytes, 0);
    MPI_Request send, verdict;
    MPI_Status status;
    int cancelled = 0, theirs = 0, flag;
    fill(out, bytes, key_of(check_rank, 6, bytes, 0));
    MPI_Isend(out, (int) bytes, MPI_BYTE, to, 6, MPI_COMM_WORLD, &send);
    MPI_Cancel(&send);
    /* A large send that is not canceled ends only when it is received. */
    MPI_Iprobe(from, 6, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    MPI_Test(&send, &flag, &status);
    if (flag) {
        MPI_Test_cancelled(&status, &cancelled);
    }
    MPI_Isend(&cancelled, 1, MPI_INT, to, 7, MPI_COMM_WORLD, &verdict);
    MPI_Recv(&theirs, 1, MPI_INT, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!theirs) {
        MPI_Recv(in, (int) bytes, MPI_BYTE, from, 6, MPI_COMM_WORLD, &status);
        CHECK_STATUS(&status, from, 6, bytes, "send cancelled too late");
        CHECK_BYTES(in, bytes, key_of(from, 6, bytes, 0), "send cancelled too late");
    }
    MPI_Wait(&verdict, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    guarded_free(out, 0);
    guarded_free(in, 0);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "cancel", 2);
    int to = (check_rank + 1) % check_ranks, from = (check_rank - 1 + check_ranks) % check_ranks;
    for (int round = 0; round < 10; ++round) {
        among_many(to, from);
        for (int i = 0; i < SIZES; ++i) {
            too_late(to, from, sizes[i]);
            MPI_Barrier(MPI_COMM_WORLD);
            about_now(to, from, sizes[i], round * round);
            MPI_Barrier(MPI_COMM_WORLD);
            sends(to, from, sizes[i]);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    check_end();
    return 0;
}
