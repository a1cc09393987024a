// SPDX-License-Identifier: BSD-3-Clause
/*
 * A random graph of messages among all ranks, which all compute from the same seed: sizes from 0 to
 * 256 KiB, every send mode, contiguous and with gaps, received by posted and late receives, with
 * and without wildcards, by matched probes, in random order. Ranks wait for nothing but their
 * messages. Arguments: seed, number of batches (of 64 messages).
 *
 * Nothing can deadlock: a blocking send (Ssend, too) is used only for a message whose receive is
 * "early", that is, posted before its receiver's first blocking call of the batch; all other
 * sends are non-blocking, and started before the late receives.
 */
#include "check.h"

enum {
    BATCH = 64,
    LARGEST = 262144,
    FORMATS = 3
};

typedef enum {
    SEND,
    SSEND,
    ISEND,
    ISSEND,
    IBSEND
} way_t;
typedef enum {
    EARLY,
    LATE,
    LATE_ANY_SOURCE,
    LATE_PROBED
} taking_t;

typedef struct {
    int source, target, tag, send_format, receive_format;
    size_t bytes;
    way_t mode;
    taking_t taking;
} message_t;

typedef struct {
    unsigned char *buffer;
    MPI_Datatype type;
    size_t span;
    int count;
} side_t;

static uint64_t seed;
static int batch;

static size_t random_size(uint64_t *random)
{
    switch (random_below(random, 8)) {
    case 0:
        return 0;
    case 1:
    case 2:
    case 3:
        return random_below(random, 257);
    case 4:
    case 5:
        return random_below(random, 10000);
    case 6:
        return random_below(random, 70000);
    default:
        return random_below(random, LARGEST + 1);
    }
}

static message_t random_message(uint64_t *random, int number)
{
    message_t m;
    m.source = (int) random_below(random, (uint64_t) check_ranks);
    m.target = (int) random_below(random, (uint64_t) check_ranks);
    m.tag = number + BATCH * (batch % 100);
    m.bytes = random_size(random);
    m.send_format = (int) random_below(random, FORMATS);
    m.receive_format = (int) random_below(random, FORMATS);
    m.taking = (taking_t) random_below(random, 4);
    m.mode = (way_t) random_below(random, 5);
    if (m.taking != EARLY && (m.mode == SEND || m.mode == SSEND)) {
        m.mode = m.mode == SEND ? ISEND : ISSEND;
    }
    return m;
}

/* The place of the message's byte i in its buffer. Format 0: contiguous; 1: two bytes of every
 * three; 2: seven of every sixteen. */
static size_t place_of(int format, size_t i)
{
    return format == 0 ? i : format == 1 ? i / 2 * 3 + i % 2 : i / 7 * 16 + i % 7;
}

static side_t side_new(int format, size_t bytes)
{
    side_t side = {NULL, MPI_BYTE, bytes == 0 ? 0 : place_of(format, bytes - 1) + 1, (int) bytes};
    if (format != 0) {
        int block = format == 1 ? 2 : 7, stride = format == 1 ? 3 : 16;
        int lengths[2] = {1, (int) (bytes % (size_t) block)};
        MPI_Aint places[2] = {0, (MPI_Aint) (bytes / (size_t) block) * stride};
        MPI_Datatype blocks;
        MPI_Type_vector((int) (bytes / (size_t) block), block, stride, MPI_BYTE, &blocks);
        MPI_Datatype types[2] = {blocks, MPI_BYTE};
        MPI_Type_create_struct(2, lengths, places, types, &side.type);
        MPI_Type_commit(&side.type);
        MPI_Type_free(&blocks);
        side.count = 1;
    }
    side.buffer = guarded_new(side.span, 1);
    return side;
}

static void side_free(side_t *side)
{
    if (side->type != MPI_BYTE) {
        MPI_Type_free(&side->type);
    }
    guarded_free(side->buffer, 1);
}

static uint64_t message_key(const message_t *m)
{
    return key_of(m->source, m->tag, m->bytes, seed + (uint64_t) batch);
}

static side_t outgoing(const message_t *m)
{
    side_t side = side_new(m->send_format, m->bytes);
    for (size_t i = 0; i < m->bytes; ++i) {
        side.buffer[place_of(m->send_format, i)] = byte_of(message_key(m), i);
    }
    return side;
}

static void check_incoming(const message_t *m, const side_t *side, const MPI_Status *status)
{
    MPI_Count elements = -1;
    char what[160];
    snprintf(what, sizeof what,
             "seed %llu, batch %d, tag %d, %d to %d, %zu bytes, mode %d, taken %d, "
             "formats %d %d",
             (unsigned long long) seed, batch, m->tag, m->source, m->target, m->bytes,
             (int) m->mode, (int) m->taking, m->send_format, m->receive_format);
    MPI_Get_elements_x(status, side->type, &elements);
    CHECK(status->MPI_SOURCE == m->source && status->MPI_TAG == m->tag
              && (size_t) elements == m->bytes,
          "%s: status has source %d, tag %d, %lld bytes", what, status->MPI_SOURCE, status->MPI_TAG,
          (long long) elements);
    for (size_t i = 0; i < m->bytes; ++i) {
        size_t place = place_of(m->receive_format, i);
        CHECK(side->buffer[place] == byte_of(message_key(m), i),
              "%s: byte %zu is 0x%02x, expected 0x%02x", what, i, side->buffer[place],
              byte_of(message_key(m), i));
        side->buffer[place] = CHECK_GUARD_VALUE;
    }
    for (size_t i = 0; i < side->span; ++i) {
        CHECK(side->buffer[i] == CHECK_GUARD_VALUE, "%s: gap at %zu overwritten", what, i);
    }
    CHECK_GUARD(side->buffer, side->span, what);
}

static void start_send(const message_t *m, const side_t *side, MPI_Request *request)
{
    switch (m->mode) {
    case SEND:
        MPI_Send(side->buffer, side->count, side->type, m->target, m->tag, MPI_COMM_WORLD);
        break;
    case SSEND:
        MPI_Ssend(side->buffer, side->count, side->type, m->target, m->tag, MPI_COMM_WORLD);
        break;
    case ISEND:
        MPI_Isend(side->buffer, side->count, side->type, m->target, m->tag, MPI_COMM_WORLD,
                  request);
        break;
    case ISSEND:
        MPI_Issend(side->buffer, side->count, side->type, m->target, m->tag, MPI_COMM_WORLD,
                   request);
        break;
    default:
        MPI_Ibsend(side->buffer, side->count, side->type, m->target, m->tag, MPI_COMM_WORLD,
                   request);
        break;
    }
}

static void receive_late(const message_t *m)
{
    side_t side = side_new(m->receive_format, m->bytes);
    MPI_Status status;
    MPI_Message handle;
    switch (m->taking) {
    case LATE_ANY_SOURCE:
        MPI_Recv(side.buffer, side.count, side.type, MPI_ANY_SOURCE, m->tag, MPI_COMM_WORLD,
                 &status);
        break;
    case LATE_PROBED:
        MPI_Mprobe(MPI_ANY_SOURCE, m->tag, MPI_COMM_WORLD, &handle, &status);
        MPI_Mrecv(side.buffer, side.count, side.type, &handle, &status);
        break;
    default:
        MPI_Recv(side.buffer, side.count, side.type, m->source, m->tag, MPI_COMM_WORLD, &status);
        break;
    }
    check_incoming(m, &side, &status);
    side_free(&side);
}

static void shuffle(int *order, uint64_t *random)
{
    for (int i = 0; i < BATCH; ++i) {
        int j = (int) random_below(random, (uint64_t) i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

static void run_batch(const message_t *messages, uint64_t *local)
{
    side_t in[BATCH], out[BATCH];
    MPI_Request receives[BATCH], sends[BATCH];
    MPI_Status statuses[BATCH];
    int order[BATCH];
    shuffle(order, local);
    for (int i = 0; i < BATCH; ++i) {
        const message_t *m = &messages[order[i]];
        receives[order[i]] = sends[order[i]] = MPI_REQUEST_NULL;
        if (m->target == check_rank && m->taking == EARLY) {
            in[order[i]] = side_new(m->receive_format, m->bytes);
            MPI_Irecv(in[order[i]].buffer, in[order[i]].count, in[order[i]].type, m->source, m->tag,
                      MPI_COMM_WORLD, &receives[order[i]]);
        }
    }
    shuffle(order, local);
    for (int i = 0; i < BATCH; ++i) {
        if (messages[order[i]].source == check_rank) {
            out[order[i]] = outgoing(&messages[order[i]]);
            start_send(&messages[order[i]], &out[order[i]], &sends[order[i]]);
        }
    }
    shuffle(order, local);
    for (int i = 0; i < BATCH; ++i) {
        if (messages[order[i]].target == check_rank && messages[order[i]].taking != EARLY) {
            receive_late(&messages[order[i]]);
        }
    }
    MPI_Waitall(BATCH, receives, statuses);
    MPI_Waitall(BATCH, sends, MPI_STATUSES_IGNORE);
    for (int i = 0; i < BATCH; ++i) {
        if (messages[i].target == check_rank && messages[i].taking == EARLY) {
            check_incoming(&messages[i], &in[i], &statuses[i]);
            side_free(&in[i]);
        }
        if (messages[i].source == check_rank) {
            side_free(&out[i]);
        }
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "random_traffic", 1);
    CHECK(argc == 3, "arguments: seed, batches");
    seed = strtoull(argv[1], NULL, 0);
    int batches = atoi(argv[2]), size;
    uint64_t common = mix(seed) | 1, local = mix(seed + 1000 + (uint64_t) check_rank) | 1;
    /* Buffered sends of several batches may be under way. */
    int room = 64 * (LARGEST + MPI_BSEND_OVERHEAD) * 2;
    void *attached = malloc((size_t) room);
    MPI_Buffer_attach(attached, room);
    for (batch = 0; batch < batches; ++batch) {
        message_t messages[BATCH];
        for (int i = 0; i < BATCH; ++i) {
            messages[i] = random_message(&common, i);
        }
        run_batch(messages, &local);
    }
    MPI_Buffer_detach(&attached, &size);
    free(attached);
    check_end();
    return 0;
}
