// SPDX-License-Identifier: BSD-3-Clause
/*
 * Buffered sends of several threads at once: MPI_Bsend, MPI_Ibsend, and persistent requests that
 * are started again and again with new contents, of contiguous and strided data. Each message is
 * sent before its receive is posted, and its buffer is overwritten as soon as the call has
 * returned. In between, the threads detach the program's buffer, and attach it again. At the end,
 * persistent requests whose messages find no buffer. Arguments: threads, rounds.
 */
#include "numbered_threads.h"

enum {
    LIMIT = 8,
    CALLS = 4,
    ROOM = 1 << 24
};

static const size_t sizes[] = {0, 8, 200, 4000, 9000, 150000};
enum {
    SIZES = sizeof sizes / sizeof sizes[0],
    MESSAGES = SIZES * CALLS
};

static int threads, rounds, to, from;
static MPI_Comm comms[LIMIT];
static MPI_Datatype strided; /* 8 bytes of 16 */
static void *attached;
static pthread_barrier_t all;

typedef struct {
    unsigned char *out, *in;
    MPI_Request request; /* persistent sends */
} message_t;

static bool is_persistent(int i)
{
    return i % CALLS >= 2;
}

static bool is_strided(int i)
{
    return i % 2 == 1;
}

static size_t extent_of(int i)
{
    return sizes[i / CALLS] * (is_strided(i) ? 2 : 1);
}

static int count_of(int i)
{
    return (int) (sizes[i / CALLS] / (is_strided(i) ? 8 : 1));
}

static MPI_Datatype type_of(int i)
{
    return is_strided(i) ? strided : MPI_BYTE;
}

static void send(message_t *message, int i, MPI_Comm comm)
{
    MPI_Request request;
    switch (i % CALLS) {
    case 0:
        MPI_Bsend(message->out, count_of(i), type_of(i), to, i, comm);
        break;
    case 1:
        MPI_Ibsend(message->out, count_of(i), type_of(i), to, i, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    default:
        MPI_Start(&message->request);
        MPI_Wait(&message->request, MPI_STATUS_IGNORE);
        break;
    }
    memset(message->out, 0xee, extent_of(i));
}

static uint64_t key(int rank, int i, int round)
{
    return key_of(rank, i, extent_of(i), (uint64_t) round);
}

/* Compares the parts of 8 bytes that a strided type has. */
static void check(const unsigned char *in, int i, int round)
{
    char what[80];
    snprintf(what, sizeof what, "round %d, number %d, %zu bytes", round, i, sizes[i / CALLS]);
    if (!is_strided(i)) {
        CHECK_BYTES(in, extent_of(i), key(from, i, round), what);
        return;
    }
    for (size_t at = 0; at < extent_of(i); at += 16) {
        check_bytes_from(__LINE__, in + at, at, 8, key(from, i, round), what);
    }
}

static void exchange(message_t *messages, MPI_Comm comm, int round)
{
    for (int i = 0; i < MESSAGES; ++i) {
        fill(messages[i].out, extent_of(i), key(check_rank, i, round));
        send(&messages[i], i, comm);
    }
    for (int i = MESSAGES - 1; i >= 0; --i) {
        MPI_Status status;
        memset(messages[i].in, 0, extent_of(i));
        MPI_Recv(messages[i].in, count_of(i), type_of(i), from, i, comm, &status);
        CHECK_STATUS(&status, from, i, sizes[i / CALLS], "buffered");
        check(messages[i].in, i, round);
    }
}

static void detach_and_attach(void)
{
    void *detached = NULL;
    int size = 0;
    MPI_Buffer_detach(&detached, &size);
    CHECK(detached == attached && size == ROOM, "detached %d bytes at %p", size, detached);
    MPI_Buffer_attach(attached, ROOM);
}

static void *sends(void *context)
{
    const int thread = *(int *) context;
    message_t messages[MESSAGES];
    for (int i = 0; i < MESSAGES; ++i) {
        messages[i].out = malloc(extent_of(i) + 1);
        messages[i].in = malloc(extent_of(i) + 1);
        if (is_persistent(i)) {
            MPI_Bsend_init(messages[i].out, count_of(i), type_of(i), to, i, comms[thread],
                           &messages[i].request);
        }
    }
    for (int round = 0; round < rounds; ++round) {
        exchange(messages, comms[thread], round);
        pthread_barrier_wait(&all);
        if (thread == 0 && round % 4 == 0) {
            detach_and_attach();
        }
        pthread_barrier_wait(&all);
    }
    for (int i = 0; i < MESSAGES; ++i) {
        if (is_persistent(i)) {
            MPI_Request_free(&messages[i].request);
        }
        free(messages[i].out);
        free(messages[i].in);
    }
    return NULL;
}

static int class_of(int code)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    return class;
}

/* Without a buffer of the program, a message has to be sent at once, or its start fails: the wait
 * then returns the error as well, or the request is inactive. */
static void without_buffer(MPI_Comm comm)
{
    static char bytes[1 << 20];
    MPI_Request requests[2];
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 2; ++i) {
        MPI_Bsend_init(bytes, sizeof bytes, MPI_BYTE, to, 100 + i, comm, &requests[i]);
    }
    const int rc = MPI_Start(&requests[0]);
    CHECK(class_of(rc) == MPI_ERR_BUFFER, "MPI_Start without a buffer: class %d", class_of(rc));
    MPI_Start(&requests[1]);
    for (int i = 0; i < 2; ++i) {
        const int waited = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        CHECK(waited == MPI_SUCCESS || class_of(waited) == MPI_ERR_BUFFER,
              "MPI_Wait without a buffer: class %d", class_of(waited));
        if (requests[i] != MPI_REQUEST_NULL) {
            MPI_Request_free(&requests[i]);
        }
    }
}

int main(int argc, char **argv)
{
    int size;
    check_begin_threads(&argc, &argv, "buffered", 2, MPI_THREAD_MULTIPLE);
    threads = argc > 1 ? atoi(argv[1]) : 1;
    rounds = argc > 2 ? atoi(argv[2]) : 40;
    CHECK(threads >= 1 && threads <= LIMIT, "%d threads", threads);
    to = (check_rank + 1) % check_ranks;
    from = (check_rank - 1 + check_ranks) % check_ranks;
    MPI_Type_vector(1, 8, 16, MPI_BYTE, &strided);
    MPI_Type_create_resized(strided, 0, 16, &strided);
    MPI_Type_commit(&strided);
    attached = malloc(ROOM);
    MPI_Buffer_attach(attached, ROOM);
    pthread_barrier_init(&all, NULL, (unsigned) threads);
    for (int i = 0; i < threads; ++i) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    }
    run_numbered(threads, sends);
    MPI_Buffer_detach(&attached, &size);
    free(attached);
    without_buffer(comms[0]);
    for (int i = 0; i < threads; ++i) {
        MPI_Comm_free(&comms[i]);
    }
    MPI_Type_free(&strided);
    check_end();
    return 0;
}
