// SPDX-License-Identifier: BSD-3-Clause
/*
 * Partitioned communication (MPI 4; Open MPI 5): each rank sends to the next one, partition by
 * partition in a random order, and receives from the one before, which may cut the message in
 * another way. Short and long partitions, several messages between the same ranks at the same time,
 * each started several times with new contents; partitions that have arrived are looked at before
 * the others are ready. Argument: starts of each message.
 */
#include "check.h"

#if OMPI_MAJOR_VERSION >= 5

enum {
    MESSAGES = 4
};

typedef struct {
    int partitions; /* of the sender */
    int received;   /* partitions of the receiver */
    int bytes;      /* of the message */
} shape_t;

static const shape_t shapes[MESSAGES] = {
    {1, 1, 1000}, {8, 8, 4096}, {16, 4, 64000}, {6, 12, 3000000}};

typedef struct {
    shape_t shape;
    unsigned char *out;
    unsigned char *in;
    MPI_Request send;
    MPI_Request receive;
} message_t;

static uint64_t key(int sender, int tag, int start)
{
    return key_of(sender, tag, (size_t) shapes[tag].bytes, (uint64_t) start);
}

static void make(message_t *message, int tag)
{
    const int to = (check_rank + 1) % check_ranks;
    const int from = (check_rank + check_ranks - 1) % check_ranks;
    const shape_t shape = shapes[tag];

    message->shape = shape;
    message->out = guarded_new((size_t) shape.bytes, 0);
    message->in = guarded_new((size_t) shape.bytes, 0);
    MPI_Psend_init(message->out, shape.partitions, shape.bytes / shape.partitions, MPI_BYTE, to,
                   tag, MPI_COMM_WORLD, MPI_INFO_NULL, &message->send);
    MPI_Precv_init(message->in, shape.received, shape.bytes / shape.received, MPI_BYTE, from, tag,
                   MPI_COMM_WORLD, MPI_INFO_NULL, &message->receive);
}

static void start(message_t *message, int tag, int number)
{
    guarded_reset(message->in, (size_t) message->shape.bytes);
    fill(message->out, (size_t) message->shape.bytes, key(check_rank, tag, number));
    MPI_Start(&message->receive);
    MPI_Start(&message->send);
}

/* Marks the partitions ready in a random order. */
static void make_ready(message_t *message, uint64_t *random)
{
    int order[16], left = message->shape.partitions;

    for (int i = 0; i < left; ++i) {
        order[i] = i;
    }
    while (left > 0) {
        const int i = (int) random_below(random, (uint64_t) left);
        MPI_Pready(order[i], message->send);
        order[i] = order[--left];
    }
}

/* Looks at the receiver's partitions one by one as they arrive, in any order. Where the ends have
 * cut the message in different ways, MPI_Parrived of Open MPI 5.0.7 and 6.0rc2 tells too early,
 * over any transport. */
static void check_arrivals(message_t *message, int tag, int number)
{
    const int from = (check_rank + check_ranks - 1) % check_ranks;
    const int bytes = message->shape.bytes / message->shape.received;

    if (message->shape.partitions != message->shape.received) {
        return;
    }
    for (int part = 0; part < message->shape.received; ++part) {
        int arrived = 0;
        while (!arrived) {
            MPI_Parrived(message->receive, part, &arrived);
        }
        check_bytes_from(__LINE__, message->in + (size_t) part * (size_t) bytes,
                         (size_t) part * (size_t) bytes, (size_t) bytes, key(from, tag, number),
                         "a partition that has arrived");
    }
}

static void run(int starts)
{
    message_t messages[MESSAGES];
    uint64_t random = 77 + (uint64_t) check_rank;

    for (int i = 0; i < MESSAGES; ++i) {
        make(&messages[i], i);
    }
    for (int number = 0; number < starts; ++number) {
        for (int i = 0; i < MESSAGES; ++i) {
            start(&messages[i], i, number);
        }
        for (int i = MESSAGES - 1; i >= 0; --i) {
            make_ready(&messages[i], &random);
        }
        for (int i = 0; i < MESSAGES; ++i) {
            if (number % 2 == 0) {
                check_arrivals(&messages[i], i, number);
            }
            MPI_Wait(&messages[i].send, MPI_STATUS_IGNORE);
            MPI_Wait(&messages[i].receive, MPI_STATUS_IGNORE);
            CHECK_GUARD(messages[i].in, (size_t) shapes[i].bytes, "received");
            CHECK_BYTES(messages[i].in, (size_t) shapes[i].bytes,
                        key((check_rank + check_ranks - 1) % check_ranks, i, number), "received");
        }
    }
    for (int i = 0; i < MESSAGES; ++i) {
        MPI_Request_free(&messages[i].send);
        MPI_Request_free(&messages[i].receive);
        guarded_free(messages[i].out, 0);
        guarded_free(messages[i].in, 0);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "partitioned", 2);
    run(argc > 1 ? atoi(argv[1]) : 1);
    check_end();
    return 0;
}

#else

int main(int argc, char **argv)
{
    return check_skip(&argc, &argv);
}

#endif
