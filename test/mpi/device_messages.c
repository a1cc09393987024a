// SPDX-License-Identifier: BSD-3-Clause
/*
 * Messages whose buffers lie in an accelerator's memory (device.h): every mode, blocking, not
 * blocking and persistent, contiguous and with gaps, posted before the message and after, matched
 * probes, collectives. One end or both are on the device.
 *
 * Argument "counted": checks Open MPI's copies. Each byte is copied once out of the device by its
 * sender, before the send ends, and once into the device by its receiver.
 *
 * Argument "registered": adapters reach the device's memory, so that contiguous bytes of long
 * messages are not copied there, and adaptib counts these messages.
 *
 * Argument "refused": as "counted", where the device does not hand its memory to adapters, and
 * adaptib counts that. Argument "unnumbered": as "counted", where allocations cannot be told apart.
 *
 * Arguments "surviving" and a number: as "registered", so many times while paths fail. Data may be
 * copied then, where adapters do not get through.
 */
#include "counters.h"

#include "device/device.h"

enum {
    TAG = 7,
    KINDS = 4, /* bit 0: the sender is on the device; bit 1: the receiver */
    WAYS = 6,
    GAP = 3 /* words from the start of a block of two to that of the next one */
};

static const size_t sizes[] = {0, 8, 104, 2048, 4096, 8192, 65544, 262144, 3000000};
static const size_t most_bytes = 3000000;
static const size_t buffered_bytes = 64000000; /* all buffered messages may be under way at once */

static const size_t most_eager = 65536; /* of any transport */

static bool counts;     /* Open MPI's copies */
static bool registered; /* adapters reach the device */
static counter_t direct, refused;

/* A buffer of either kind, with a guard before and behind. */
typedef struct {
    unsigned char *start;
    size_t bytes;
    bool device;
} buffer_t;

static const char *text(const char *what, int kind, size_t bytes)
{
    static char line[160];

    snprintf(line, sizeof line, "%s, %zu bytes, %s to %s", what, bytes,
             (kind & 1) != 0 ? "device" : "host", (kind & 2) != 0 ? "device" : "host");
    return line;
}

static void write_to(const buffer_t *buffer, size_t offset, const void *from, size_t bytes)
{
    if (buffer->device) {
        device_put(buffer->start + offset, from, bytes);
    } else {
        memcpy(buffer->start + offset, from, bytes);
    }
}

static unsigned char *read_whole(const buffer_t *buffer)
{
    const size_t whole = buffer->bytes + 2 * (size_t) CHECK_GUARD_BYTES;
    unsigned char *copy = malloc(whole);

    if (buffer->device) {
        device_get(copy, buffer->start - CHECK_GUARD_BYTES, whole);
    } else {
        memcpy(copy, buffer->start - CHECK_GUARD_BYTES, whole);
    }
    return copy;
}

static buffer_t buffer_new(size_t bytes, bool device)
{
    const size_t whole = bytes + 2 * (size_t) CHECK_GUARD_BYTES;
    const buffer_t all = {device ? device_new(whole) : malloc(whole), whole, device};
    unsigned char *guards = malloc(whole);

    CHECK(all.start != NULL, "no room for %zu bytes", whole);
    memset(guards, CHECK_GUARD_VALUE, whole);
    write_to(&all, 0, guards, whole);
    free(guards);
    return (buffer_t){all.start + CHECK_GUARD_BYTES, bytes, device};
}

static void buffer_free(buffer_t *buffer)
{
    if (!buffer->device) {
        free(buffer->start - CHECK_GUARD_BYTES);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Layouts: bytes, or blocks of two words with a word between them */

static MPI_Datatype blocks_of(size_t bytes)
{
    MPI_Datatype blocks;

    MPI_Type_vector((int) (bytes / 16), 2, GAP, MPI_INT64_T, &blocks);
    MPI_Type_commit(&blocks);
    return blocks;
}

/* The bytes in memory of `bytes` bytes of data. */
static size_t span_of(size_t bytes, bool gaps)
{
    return gaps ? bytes / 16 * 8 * GAP : bytes;
}

static void put_stream(const buffer_t *buffer, size_t bytes, bool gaps, uint64_t key)
{
    unsigned char *stream = malloc(bytes + 8);

    fill(stream, bytes, key);
    if (!gaps) {
        write_to(buffer, 0, stream, bytes);
    }
    for (size_t i = 0; gaps && i < bytes / 16; ++i) {
        write_to(buffer, i * 8 * GAP, stream + 16 * i, 16);
    }
    free(stream);
}

static void check_stream(const buffer_t *buffer, size_t bytes, bool gaps, uint64_t key,
                         const char *what)
{
    unsigned char *whole = read_whole(buffer), *from = whole + CHECK_GUARD_BYTES;

    CHECK_GUARD(from, buffer->bytes, what);
    for (size_t i = 0; gaps && i < bytes / 16; ++i) {
        memmove(from + 16 * i, from + i * 8 * GAP, 16);
    }
    CHECK_BYTES(from, bytes, key, what);
    free(whole);
}

/* ------------------------------------------------------------------------------------------------
 * One message */

typedef struct {
    void *at;
    int count;
    MPI_Datatype type;
} data_t;

static void send_by(int way, const data_t *data, int to)
{
    MPI_Request request = MPI_REQUEST_NULL;

    switch (way) {
    case 0:
        MPI_Send(data->at, data->count, data->type, to, TAG, MPI_COMM_WORLD);
        break;
    case 1:
        MPI_Ssend(data->at, data->count, data->type, to, TAG, MPI_COMM_WORLD);
        break;
    case 2:
        MPI_Isend(data->at, data->count, data->type, to, TAG, MPI_COMM_WORLD, &request);
        break;
    case 3:
        MPI_Issend(data->at, data->count, data->type, to, TAG, MPI_COMM_WORLD, &request);
        break;
    case 4:
        CHECK(MPI_Bsend(data->at, data->count, data->type, to, TAG, MPI_COMM_WORLD) == MPI_SUCCESS,
              "MPI_Bsend failed");
        break;
    default:
        MPI_Send_init(data->at, data->count, data->type, to, TAG, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void receive_by(int way, const data_t *data, int from, MPI_Status *status)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message;

    switch (way) {
    case 0:
        MPI_Recv(data->at, data->count, data->type, from, TAG, MPI_COMM_WORLD, status);
        break;
    case 1:
        MPI_Recv(data->at, data->count, data->type, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                 status);
        break;
    case 2:
        MPI_Irecv(data->at, data->count, data->type, from, TAG, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, status);
        break;
    case 3:
        MPI_Mprobe(from, TAG, MPI_COMM_WORLD, &message, status);
        MPI_Mrecv(data->at, data->count, data->type, &message, status);
        break;
    case 4: /* the message is there before its receive */
        MPI_Probe(from, TAG, MPI_COMM_WORLD, status);
        MPI_Recv(data->at, data->count, data->type, from, TAG, MPI_COMM_WORLD, status);
        break;
    default:
        MPI_Recv_init(data->at, data->count, data->type, from, TAG, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        MPI_Wait(&request, status);
        MPI_Request_free(&request);
    }
}

/* Counts so far */
typedef struct {
    device_count_t copies;
    unsigned long long direct; /* ends of messages that adapters reached */
} counts_t;

static counts_t counts_now(void)
{
    return (counts_t){device_counted(), counter_now(&direct)};
}

static void check_counts(const counts_t *before, size_t out, size_t in, bool reached,
                         const char *what)
{
    const counts_t now = counts_now();

    CHECK(!counts
              || (now.copies.out - before->copies.out == out
                  && now.copies.in - before->copies.in == in),
          "%s: %zu bytes were copied out of the device and %zu into it, expected %zu and %zu", what,
          now.copies.out - before->copies.out, now.copies.in - before->copies.in, out, in);
    CHECK(!counts || now.direct - before->direct == reached,
          "%s: %llu messages are counted as reached by an adapter, expected %d", what,
          now.direct - before->direct, reached);
}

/* Bytes that are copied out of or into the device for a message; a buffered one has left it before
 * it goes its way. */
static size_t copied_bytes(bool sends, int way, size_t bytes, bool gaps)
{
    const bool buffered = sends && way == 4;

    return registered && !gaps && !buffered && bytes > most_eager ? 0 : bytes;
}

/* Rank 0 sends to the last rank, which may be itself. */
static void one_message(int way, int kind, size_t bytes, bool gaps)
{
    const bool sends = check_rank == 0, device = (kind & (sends ? 1 : 2)) != 0;
    const uint64_t key = key_of(0, way, bytes, (uint64_t) (kind + 8 * gaps));
    const char *what = text(gaps ? "with gaps" : "contiguous", kind, bytes);
    buffer_t buffer = buffer_new(span_of(bytes, gaps), device);
    data_t data = {buffer.start, gaps ? 1 : (int) bytes, gaps ? blocks_of(bytes) : MPI_BYTE};
    const counts_t before = counts_now();
    const size_t copied = device ? copied_bytes(sends, way, bytes, gaps) : 0;
    const bool reached = device && copied < bytes;
    MPI_Status status;

    if (sends) {
        put_stream(&buffer, bytes, gaps, key);
        send_by(way, &data, check_ranks - 1);
        check_counts(&before, copied, 0, reached, what);
    } else {
        receive_by(way, &data, 0, &status);
        CHECK_STATUS(&status, 0, TAG, bytes, what);
        check_counts(&before, 0, copied, reached, what);
        check_stream(&buffer, bytes, gaps, key, what);
    }
    if (gaps) {
        MPI_Type_free(&data.type);
    }
    buffer_free(&buffer);
    device_reset();
}

static void messages(void)
{
    if (check_rank != 0 && check_rank != check_ranks - 1) {
        return;
    }
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; ++s) {
        for (int i = 0; i < WAYS * KINDS; ++i) {
            one_message(i / KINDS, i % KINDS, sizes[s], false);
            if (sizes[s] >= 16) {
                one_message(i / KINDS, i % KINDS, sizes[s] / 16 * 16, true);
            }
        }
    }
}

/* All at the same time, so that messages wait for each other. */
static void crowd(void)
{
    enum {
        EACH = 24
    };
    buffer_t in[EACH], out[EACH];
    MPI_Request requests[2 * EACH];
    const int to = (check_rank + 1) % check_ranks,
              from = (check_rank + check_ranks - 1) % check_ranks;

    for (int i = 0; i < EACH; ++i) {
        const size_t bytes = sizes[(size_t) i % (sizeof sizes / sizeof sizes[0])];

        in[i] = buffer_new(bytes, i % 3 != 0);
        out[i] = buffer_new(bytes, i % 2 != 0);
        put_stream(&out[i], bytes, false, key_of(check_rank, i, bytes, 5));
        MPI_Irecv(in[i].start, (int) bytes, MPI_BYTE, from, i, MPI_COMM_WORLD, &requests[2 * i]);
        MPI_Isend(out[i].start, (int) bytes, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[2 * i + 1]);
    }
    MPI_Waitall(2 * EACH, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < EACH; ++i) {
        check_stream(&in[i], in[i].bytes, false, key_of(from, i, in[i].bytes, 5), "crowd");
        buffer_free(&in[i]);
        buffer_free(&out[i]);
    }
    device_reset();
}

/* A message that is longer than its receive: what fits arrives, and nothing behind it. */
static void too_long(size_t bytes)
{
    buffer_t buffer = buffer_new(check_rank == 0 ? bytes : bytes / 2, true);
    MPI_Status status;
    int rc = MPI_SUCCESS, class = MPI_SUCCESS;

    if (check_rank == 0) {
        put_stream(&buffer, bytes, false, key_of(0, 0, bytes, 9));
        MPI_Send(buffer.start, (int) bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    } else if (check_rank == 1) {
        rc = MPI_Recv(buffer.start, (int) bytes / 2, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
        MPI_Error_class(rc, &class);
        CHECK(class == MPI_ERR_TRUNCATE, "%zu bytes, half received: error class %d", bytes, class);
        check_stream(&buffer, bytes / 2, false, key_of(0, 0, bytes, 9), "truncated");
    }
    device_reset();
}

/* Without reductions, which Open MPI does on the device only with coll/accelerator. */
static void collectives(size_t bytes)
{
    buffer_t all = buffer_new(bytes * (size_t) check_ranks, true), mine = buffer_new(bytes, true);

    put_stream(&mine, bytes, false, key_of(check_rank, 1, bytes, 0));
    MPI_Allgather(mine.start, (int) bytes, MPI_BYTE, all.start, (int) bytes, MPI_BYTE,
                  MPI_COMM_WORLD);
    for (int rank = 0; rank < check_ranks; ++rank) {
        unsigned char *whole = read_whole(&all);
        CHECK_BYTES(whole + CHECK_GUARD_BYTES + bytes * (size_t) rank, bytes,
                    key_of(rank, 1, bytes, 0), "MPI_Allgather");
        free(whole);
    }
    MPI_Bcast(mine.start, (int) bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    check_stream(&mine, bytes, false, key_of(0, 1, bytes, 0), "MPI_Bcast");
    device_reset();
}

/* Everything, which ends together */
static void all(void)
{
    messages();
    MPI_Barrier(MPI_COMM_WORLD);
    crowd();
    for (size_t bytes = 16; bytes <= most_bytes; bytes *= 16) {
        too_long(bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        collectives(bytes);
    }
}

/* Counts of all messages together */
static void check_kind(const char *kind)
{
    CHECK(!registered || counter_now(&direct) > 0, "no adapter reached the device");
    CHECK(registered || counter_now(&direct) == 0, "adapters reached the device");
    CHECK(strcmp(kind, "refused") != 0 || counter_now(&refused) > 0, "no refusal was counted");
}

int main(int argc, char **argv)
{
    void *buffer;
    int provided = 0;

    if (!device_open()) { /* before MPI_Init, which knows no btl/sm in Open MPI 4.1 */
        return CHECK_SKIPPED;
    }
    check_begin(&argc, &argv, "device_messages", 2);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    direct = counter_begin("accelerator_direct");
    refused = counter_begin("accelerator_refused");
    const char *kind = argc > 1 ? argv[1] : "";
    const bool survives = strcmp(kind, "surviving") == 0;
    registered = survives || strcmp(kind, "registered") == 0;
    counts = argc > 1 && !survives;
    if (strcmp(kind, "unnumbered") == 0) {
        device_unnumber();
    }
    if (registered || strcmp(kind, "unnumbered") == 0) {
        device_export();
    }
    buffer = malloc(buffered_bytes);
    MPI_Buffer_attach(buffer, (int) buffered_bytes);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int left = survives && argc > 2 ? atoi(argv[2]) : 1; left > 0; --left) {
        all();
    }
    check_kind(kind);
    counter_end(&direct);
    counter_end(&refused);
    MPI_Buffer_detach(&buffer, &(int){0});
    free(buffer);
    MPI_T_finalize();
    check_end();
    return 0;
}
