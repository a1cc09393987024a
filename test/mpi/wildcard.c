// SPDX-License-Identifier: BSD-3-Clause
/*
 * ANY_SOURCE, ANY_TAG and both: order per source, order among posted receives, and no match with
 * the internal messages of collectives on the same communicator.
 */
#include "check.h"

enum {
    MESSAGES = 400,
    ROOM = 300000
};

/* Rank 0 receives from any source; the messages of each source arrive in sending order. */
static void any_of_all(bool any_tag)
{
    unsigned char *buffer = malloc(ROOM);
    int *next = calloc((size_t) check_ranks, sizeof *next);
    CHECK(buffer != NULL && next != NULL, "no memory");
    if (check_rank == 0) {
        for (int i = 0; i < MESSAGES * (check_ranks - 1); ++i) {
            MPI_Status status;
            MPI_Recv(buffer, ROOM, MPI_BYTE, MPI_ANY_SOURCE, any_tag ? MPI_ANY_TAG : 3,
                     MPI_COMM_WORLD, &status);
            int source = status.MPI_SOURCE;
            CHECK(source > 0 && source < check_ranks, "source %d", source);
            int number = next[source]++;
            int tag = any_tag ? number % 11 : 3;
            size_t bytes = mixed_size((uint64_t) (number + source));
            CHECK_STATUS(&status, source, tag, bytes, "ANY_SOURCE");
            CHECK_BYTES(buffer, bytes, key_of(source, tag, bytes, (uint64_t) number), "ANY_SOURCE");
        }
    } else {
        for (int i = 0; i < MESSAGES; ++i) {
            size_t bytes = mixed_size((uint64_t) (i + check_rank));
            int tag = any_tag ? i % 11 : 3;
            fill(buffer, bytes, key_of(check_rank, tag, bytes, (uint64_t) i));
            MPI_Send(buffer, (int) bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD);
        }
    }
    free(buffer);
    free(next);
}

/* Receives with and without wildcards match in posting order: message i goes to receive `taker[i]`,
 * the first of those left that it matches (-1: to none). */
static void posted_order(void)
{
    enum {
        COUNT = 8
    };
    static const int sources[COUNT] = {1, MPI_ANY_SOURCE, 1, MPI_ANY_SOURCE,
                                       1, MPI_ANY_SOURCE, 1, MPI_ANY_SOURCE};
    static const int tags[COUNT] = {MPI_ANY_TAG, 5, 5, MPI_ANY_TAG, 6, 6, MPI_ANY_TAG, 5};
    static const int sent[COUNT] = {5, 5, 6, 5, 6, 6, 5, 9};
    static const int taker[COUNT] = {0, 1, 3, 2, 4, 5, 6, -1};
    int values[COUNT];
    MPI_Request requests[COUNT];
    if (check_rank == 0) {
        for (int i = 0; i < COUNT; ++i) {
            values[i] = -1;
            MPI_Irecv(&values[i], 1, MPI_INT, sources[i], tags[i], MPI_COMM_WORLD, &requests[i]);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 1) {
        for (int i = 0; i < COUNT; ++i) {
            MPI_Send(&i, 1, MPI_INT, 0, sent[i], MPI_COMM_WORLD);
        }
        int last = 100;
        MPI_Send(&last, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
    }
    if (check_rank == 0) {
        MPI_Status statuses[COUNT];
        int rest = -1;
        MPI_Waitall(COUNT, requests, statuses);
        for (int i = 0; i < COUNT - 1; ++i) {
            CHECK(values[taker[i]] == i, "message %d (tag %d) expected in receive %d, which has %d",
                  i, sent[i], taker[i], values[taker[i]]);
            CHECK(statuses[taker[i]].MPI_TAG == sent[i] && statuses[taker[i]].MPI_SOURCE == 1,
                  "status of receive %d has source %d, tag %d", taker[i],
                  statuses[taker[i]].MPI_SOURCE, statuses[taker[i]].MPI_TAG);
        }
        CHECK(values[7] == 100, "receive 7 has message %d, expected 100", values[7]);
        MPI_Recv(&rest, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(rest == 7, "the message with tag 9 is %d, expected 7", rest);
    }
}

/* Unexpected messages: a receive, with or without wildcards, takes the earliest message that
 * matches it. */
static void unexpected_order(void)
{
    enum {
        COUNT = 30
    };
    if (check_rank == 1) {
        for (int i = 0; i < COUNT; ++i) {
            MPI_Send(&i, 1, MPI_INT, 0, 20 + i % 3, MPI_COMM_WORLD);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        bool taken[COUNT] = {false};
        for (int i = 0; i < COUNT; ++i) {
            int tag = i % 4 == 0 ? MPI_ANY_TAG : 20 + i % 3, value = -1, want = 0;
            while (want < COUNT && (taken[want] || (tag != MPI_ANY_TAG && 20 + want % 3 != tag))) {
                ++want;
            }
            if (want == COUNT) {
                tag = MPI_ANY_TAG;
                for (want = 0; taken[want];) {
                    ++want;
                }
            }
            MPI_Recv(&value, 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : 1, tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            CHECK(value == want, "receive %d with tag %d took message %d, expected %d", i, tag,
                  value, want);
            taken[want] = true;
        }
    }
}

/* The messages of a collective that rank 0 has not entered yet wait at rank 0; no wildcard sees
 * them. */
static void hidden_collectives(void)
{
    int mine = check_rank * 3 + 1, *all = malloc((size_t) check_ranks * sizeof(int));
    double end = MPI_Wtime() + 0.1;
    MPI_Barrier(MPI_COMM_WORLD);
    while (check_rank == 0 && MPI_Wtime() < end) {
        int flag = 0;
        MPI_Status status;
        MPI_Message message;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
        CHECK(!flag, "Iprobe found an internal message: source %d, tag %d", status.MPI_SOURCE,
              status.MPI_TAG);
        MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
        CHECK(!flag, "Improbe took an internal message: source %d, tag %d", status.MPI_SOURCE,
              status.MPI_TAG);
    }
    MPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < check_ranks && check_rank == 0; ++i) {
        CHECK(all[i] == i * 3 + 1, "Gather: element %d is %d, expected %d", i, all[i], i * 3 + 1);
    }
    free(all);
}

/* Wildcard receives wait while collectives run; then the messages for them arrive. */
static void posted_over_collectives(void)
{
    enum {
        COUNT = 16,
        WORDS = 3000
    };
    int(*in)[2] = malloc(COUNT * sizeof *in),
    *out = malloc((size_t) check_ranks * WORDS * sizeof(int)),
    *back = malloc((size_t) check_ranks * WORDS * sizeof(int));
    MPI_Request receives[COUNT], collectives[2];
    for (int i = 0; i < COUNT; ++i) {
        in[i][0] = in[i][1] = -1;
        MPI_Irecv(in[i], 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &receives[i]);
    }
    for (int round = 0; round < 20; ++round) {
        int sum = 0, word = check_rank == round % check_ranks ? round : -1, done = 1;
        for (int i = 0; i < check_ranks * WORDS; ++i) {
            out[i] = check_rank * 1000000 + i + round;
        }
        MPI_Ialltoall(out, WORDS, MPI_INT, back, WORDS, MPI_INT, MPI_COMM_WORLD, &collectives[0]);
        MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Ibcast(&word, 1, MPI_INT, round % check_ranks, MPI_COMM_WORLD, &collectives[1]);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Waitall(2, collectives, MPI_STATUSES_IGNORE);
        CHECK(sum == check_ranks * (check_ranks - 1) / 2, "Allreduce gave %d", sum);
        CHECK(word == round, "Ibcast gave %d, expected %d", word, round);
        for (int i = 0; i < check_ranks * WORDS; ++i) {
            int want = (i / WORDS) * 1000000 + check_rank * WORDS + i % WORDS + round;
            CHECK(back[i] == want, "Ialltoall: element %d is %d, expected %d", i, back[i], want);
        }
        MPI_Testall(COUNT, receives, &done, MPI_STATUSES_IGNORE);
        CHECK(!done, "the wildcard receives completed without a message to them");
    }
    MPI_Barrier(MPI_COMM_WORLD); /* no rank sends while another still tests its receives */
    for (int i = 0; i < COUNT; ++i) {
        int data[2] = {check_rank, i};
        MPI_Send(data, 2, MPI_INT, (check_rank + 1) % check_ranks, i, MPI_COMM_WORLD);
    }
    int source = (check_rank - 1 + check_ranks) % check_ranks;
    for (int i = 0; i < COUNT; ++i) {
        MPI_Status status;
        MPI_Wait(&receives[i], &status);
        CHECK_STATUS(&status, source, i, 2 * sizeof(int), "after collectives");
        CHECK(in[i][0] == source && in[i][1] == i, "receive %d has {%d, %d}, expected {%d, %d}", i,
              in[i][0], in[i][1], source, i);
    }
    free(in);
    free(out);
    free(back);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "wildcard", 2);
    any_of_all(false);
    MPI_Barrier(MPI_COMM_WORLD);
    any_of_all(true);
    MPI_Barrier(MPI_COMM_WORLD);
    posted_order();
    MPI_Barrier(MPI_COMM_WORLD);
    unexpected_order();
    for (int i = 0; i < 5; ++i) {
        hidden_collectives();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    posted_over_collectives();
    check_end();
    return 0;
}
