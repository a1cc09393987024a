// SPDX-License-Identifier: BSD-3-Clause
/*
 * MPI_Wait, MPI_Waitall, MPI_Waitany and MPI_Waitsome by several threads at once, with null,
 * inactive, completed, generalized and failing requests among those that are still under way, and
 * with messages that come late. All statuses are as MPI says. Arguments: threads, rounds.
 */
#include "numbered_threads.h"

#include <stdatomic.h>
#include <unistd.h>

enum {
    LIMIT = 8,
    LONG = 200000,
    FEW = 12
};

static int threads, rounds, to, from;
static MPI_Comm comms[LIMIT];

/* An empty status: MPI_ANY_SOURCE, MPI_ANY_TAG, no bytes, not cancelled. */
static void check_empty(int line, const MPI_Status *status, const char *what)
{
    int cancelled = -1;
    MPI_Test_cancelled(status, &cancelled);
    check_status(line, status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, what);
    if (cancelled != 0) {
        check_fail(line, "%s: an empty status is cancelled", what);
    }
}

#define CHECK_EMPTY(status, what) check_empty(__LINE__, status, what)

/* Fills a status with what no call leaves there. */
static MPI_Status unset(void)
{
    MPI_Status status;
    memset(&status, 0x5a, sizeof status);
    status.MPI_ERROR = 4711;
    return status;
}

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

/* ------------------------------------------------------------------------------------------------
 * Generalized requests, which end by word of the program */

static int query(void *state, MPI_Status *status)
{
    MPI_Status_set_elements(status, MPI_BYTE, *(int *) state);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 77;
    status->MPI_TAG = 78;
    return MPI_SUCCESS;
}

static int release(void *state)
{
    *(int *) state = -1;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    (void) state;
    (void) complete;
    return MPI_SUCCESS;
}

static void *completes_later(void *request)
{
    usleep(20000);
    MPI_Grequest_complete(*(MPI_Request *) request);
    return NULL;
}

/* A generalized request that another thread completes while this one waits. */
static void generalized(MPI_Comm comm)
{
    for (int kind = 0; kind < 4; ++kind) {
        int bytes = 40 + kind, in = -1, out = kind, index = -1, ended = -1, indices[3];
        MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL}, copy;
        MPI_Status statuses[3] = {unset(), unset(), unset()};
        pthread_t thread;
        MPI_Grequest_start(query, release, cancel, &bytes, &requests[1]);
        copy = requests[1];
        CHECK(pthread_create(&thread, NULL, completes_later, &copy) == 0, "no thread");
        switch (kind) {
        case 0:
            MPI_Wait(&requests[1], &statuses[1]);
            break;
        case 1:
            MPI_Irecv(&in, 1, MPI_INT, from, 3, comm, &requests[2]);
            MPI_Send(&out, 1, MPI_INT, to, 3, comm);
            MPI_Waitall(3, requests, statuses);
            CHECK_EMPTY(&statuses[0], "null beside a generalized request");
            CHECK_STATUS(&statuses[2], from, 3, sizeof in, "beside a generalized request");
            CHECK(in == kind, "beside a generalized request: %d", in);
            break;
        case 2:
            MPI_Waitany(3, requests, &index, &statuses[1]);
            CHECK(index == 1, "generalized request: index %d", index);
            break;
        default:
            MPI_Waitsome(3, requests, &ended, indices, &statuses[1]);
            CHECK(ended == 1 && indices[0] == 1, "generalized request: %d ended", ended);
        }
        pthread_join(thread, NULL);
        CHECK_STATUS(&statuses[1], 77, 78, (size_t) (40 + kind), "generalized request");
        CHECK(requests[1] == MPI_REQUEST_NULL && bytes == -1, "generalized request not freed");
    }
}

/* ------------------------------------------------------------------------------------------------
 * Nothing to wait for */

static void nothing(MPI_Comm comm)
{
    int word = 0, index = 5, ended = 5, indices[3];
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[3] = {unset(), unset(), unset()};
    for (int kind = 0; kind < 2; ++kind) { /* null requests; then an inactive one among them */
        MPI_Wait(&requests[1], &statuses[0]);
        CHECK_EMPTY(&statuses[0], "Wait");
        statuses[0] = unset();
        MPI_Waitall(3, requests, statuses);
        for (int i = 0; i < 3; ++i) {
            CHECK_EMPTY(&statuses[i], "Waitall");
            statuses[i] = unset();
        }
        MPI_Waitany(3, requests, &index, &statuses[0]);
        CHECK(index == MPI_UNDEFINED, "Waitany of nothing: index %d", index);
        CHECK_EMPTY(&statuses[0], "Waitany");
        MPI_Waitsome(3, requests, &ended, indices, statuses);
        CHECK(ended == MPI_UNDEFINED, "Waitsome of nothing: %d ended", ended);
        if (kind == 0) {
            MPI_Recv_init(&word, 1, MPI_INT, from, 1, comm, &requests[1]);
        }
    }
    CHECK(requests[1] != MPI_REQUEST_NULL, "an inactive request is gone");
    MPI_Request_free(&requests[1]);
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    MPI_Waitany(0, NULL, &index, MPI_STATUS_IGNORE);
    CHECK(index == MPI_UNDEFINED, "Waitany of none: index %d", index);
    MPI_Waitsome(0, NULL, &ended, indices, MPI_STATUSES_IGNORE);
    CHECK(ended == MPI_UNDEFINED, "Waitsome of none: %d ended", ended);
}

/* ------------------------------------------------------------------------------------------------
 * Persistent, null and ordinary requests together */

/* Numbers 0, 3, 6 ... are null, 1, 4, 7 ... persistent, the rest ordinary receives. */
typedef struct {
    MPI_Request requests[FEW];
    int in[FEW];
    bool has_ended[FEW];
} mixture_t;

static bool is_null(int i)
{
    return i % 3 == 0;
}

static bool is_persistent(int i)
{
    return i % 3 == 1;
}

static void begin_mixture(mixture_t *mixture, MPI_Comm comm)
{
    for (int i = 0; i < FEW; ++i) {
        mixture->requests[i] = MPI_REQUEST_NULL;
        mixture->in[i] = -1;
        mixture->has_ended[i] = is_null(i);
        if (is_persistent(i)) {
            MPI_Recv_init(&mixture->in[i], 1, MPI_INT, from, i, comm, &mixture->requests[i]);
            MPI_Start(&mixture->requests[i]);
        } else if (!is_null(i)) {
            MPI_Irecv(&mixture->in[i], 1, MPI_INT, i % 2 ? from : MPI_ANY_SOURCE, i, comm,
                      &mixture->requests[i]);
        }
    }
}

/* Sends in another order than the receives', and some of the messages synchronously. */
static void send_mixture(MPI_Comm comm, int round, MPI_Request *sent, int *out)
{
    for (int j = 0; j < FEW; ++j) {
        const int i = (5 * j + round) % FEW;
        out[i] = 1000 * check_rank + 10 * i + round % 10;
        sent[j] = MPI_REQUEST_NULL;
        if (!is_null(i) && i % 2 == 0) {
            MPI_Issend(&out[i], 1, MPI_INT, to, i, comm, &sent[j]);
        } else if (!is_null(i)) {
            MPI_Isend(&out[i], 1, MPI_INT, to, i, comm, &sent[j]);
        }
    }
}

static void end_one(mixture_t *mixture, int i, const MPI_Status *status, int round)
{
    CHECK(i >= 0 && i < FEW && !mixture->has_ended[i], "request %d has ended twice", i);
    mixture->has_ended[i] = true;
    CHECK_STATUS(status, from, i, sizeof(int), "mixture");
    CHECK(mixture->in[i] == 1000 * from + 10 * i + round % 10, "mixture: number %d is %d", i,
          mixture->in[i]);
    CHECK((mixture->requests[i] == MPI_REQUEST_NULL) == !is_persistent(i),
          "request %d, %s, is %s after its end", i, is_persistent(i) ? "persistent" : "ordinary",
          is_persistent(i) ? "gone" : "there");
}

static void mixed(MPI_Comm comm, int round)
{
    mixture_t mixture;
    MPI_Request sent[FEW];
    MPI_Status statuses[FEW];
    int out[FEW], index, ended, indices[FEW], all = 0;
    begin_mixture(&mixture, comm);
    send_mixture(comm, round, sent, out);
    if (round % 3 == 0) {
        MPI_Waitall(FEW, mixture.requests, statuses);
        for (int i = 0; i < FEW; ++i) {
            if (is_null(i)) {
                CHECK_EMPTY(&statuses[i], "mixture");
            } else {
                end_one(&mixture, i, &statuses[i], round);
            }
        }
    }
    while (round % 3 == 1) {
        statuses[0] = unset();
        MPI_Waitany(FEW, mixture.requests, &index, &statuses[0]);
        if (index == MPI_UNDEFINED) {
            CHECK_EMPTY(&statuses[0], "at the end of a mixture");
            break;
        }
        end_one(&mixture, index, &statuses[0], round);
    }
    while (round % 3 == 2) {
        MPI_Waitsome(FEW, mixture.requests, &ended, indices, statuses);
        if (ended == MPI_UNDEFINED) {
            break;
        }
        CHECK(ended > 0 && ended <= FEW, "Waitsome: %d ended", ended);
        for (int i = 0; i < ended; ++i) {
            end_one(&mixture, indices[i], &statuses[i], round);
        }
    }
    for (int i = 0; i < FEW; ++i) {
        all += mixture.has_ended[i];
        if (is_persistent(i)) {
            MPI_Request_free(&mixture.requests[i]);
        }
    }
    CHECK(all == FEW, "%d of %d requests have ended", all, FEW);
    MPI_Waitall(FEW, sent, MPI_STATUSES_IGNORE);
}

/* ------------------------------------------------------------------------------------------------
 * Errors: the second of three receives is truncated */

static void begin_failing(MPI_Comm comm, size_t bytes, bool late, unsigned char *out,
                          unsigned char *in, MPI_Request *requests, MPI_Request *sent)
{
    fill(out, bytes, key_of(check_rank, 2, bytes, 1));
    for (int i = 0; i < 3; ++i) {
        MPI_Irecv(in + i * 64, 64, MPI_BYTE, from, i, comm, &requests[i]);
    }
    if (late && check_rank % 2 == 1) { /* the next rank's wait gives up looking by itself */
        usleep(3000);
    }
    for (int i = 0; i < 3; ++i) {
        MPI_Isend(out, i == 1 ? (int) bytes : 64, MPI_BYTE, to, i, comm, &sent[i]);
    }
}

static void failing(MPI_Comm comm, int kind, size_t bytes, bool late)
{
    unsigned char *out = malloc(LONG), *in = guarded_new(192, 0);
    MPI_Request requests[3], sent[3];
    MPI_Status statuses[3] = {unset(), unset(), unset()};
    int indices[3], ended = 0, index, code, failed = 0, all = 0;
    begin_failing(comm, bytes, late, out, in, requests, sent);
    if (kind == 0) {
        code = MPI_Wait(&requests[1], &statuses[1]);
        CHECK(class_of(code) == MPI_ERR_TRUNCATE, "Wait: error class %d", class_of(code));
        CHECK(requests[1] == MPI_REQUEST_NULL, "Wait: a request is there after its error");
        MPI_Waitall(3, requests, statuses);
        CHECK_EMPTY(&statuses[1], "after an error");
        CHECK_STATUS(&statuses[0], from, 0, 64, "beside an error");
        CHECK_STATUS(&statuses[2], from, 2, 64, "beside an error");
    } else if (kind == 1) {
        code = MPI_Waitall(3, requests, statuses);
        CHECK(code == MPI_ERR_IN_STATUS, "Waitall: code %d", code);
        CHECK(class_of(statuses[1].MPI_ERROR) == MPI_ERR_TRUNCATE, "Waitall: no truncation");
        for (int i = 0; i < 3; i += 2) { /* may not have ended */
            const int error = class_of(statuses[i].MPI_ERROR);
            CHECK(error == MPI_SUCCESS || error == MPI_ERR_PENDING, "Waitall: class %d", error);
            CHECK((error == MPI_SUCCESS) == (requests[i] == MPI_REQUEST_NULL),
                  "Waitall: request %d is %s, its error's class %d", i,
                  requests[i] == MPI_REQUEST_NULL ? "gone" : "there", error);
        }
        CHECK(requests[1] == MPI_REQUEST_NULL, "Waitall: a request is there after its error");
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    }
    for (; kind == 2 && all < 3; ++all) {
        code = MPI_Waitany(3, requests, &index, &statuses[0]);
        CHECK(index >= 0 && index < 3, "Waitany: index %d", index);
        CHECK(class_of(code) == (index == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS),
              "Waitany: class %d of number %d", class_of(code), index);
        CHECK(requests[index] == MPI_REQUEST_NULL, "Waitany: request %d is there", index);
    }
    while (kind == 3 && all < 3) {
        code = MPI_Waitsome(3, requests, &ended, indices, statuses);
        CHECK(ended > 0 && ended <= 3, "Waitsome: %d ended", ended);
        all += ended;
        for (int i = 0; i < ended; ++i) {
            if (indices[i] == 1) {
                CHECK(code == MPI_ERR_IN_STATUS, "Waitsome: code %d", code);
                CHECK(class_of(statuses[i].MPI_ERROR) == MPI_ERR_TRUNCATE, "Waitsome: class");
                ++failed;
            } else {
                CHECK(code == MPI_SUCCESS || statuses[i].MPI_ERROR == MPI_SUCCESS,
                      "Waitsome: error %d of number %d", statuses[i].MPI_ERROR, indices[i]);
            }
        }
    }
    CHECK(kind != 3 || failed == 1, "Waitsome: %d failed", failed);
    CHECK(MPI_Waitall(3, sent, MPI_STATUSES_IGNORE) == MPI_SUCCESS, "a send failed");
    CHECK_BYTES(in, 64, key_of(from, 2, bytes, 1), "beside an error");
    CHECK_BYTES(in + 128, 64, key_of(from, 2, bytes, 1), "beside an error");
    CHECK_GUARD(in, 192, "errors");
    guarded_free(in, 0);
    free(out);
}

/* ------------------------------------------------------------------------------------------------
 * Late messages: a thread waits for longer than it makes progress by itself */

static void late(MPI_Comm comm, int thread)
{
    int in[2] = {-1, -1}, out = 5, index = -1, ended = -1, indices[2];
    MPI_Request requests[2];
    MPI_Status status[2];
    MPI_Barrier(comm);
    MPI_Irecv(&in[0], 1, MPI_INT, from, 1, comm, &requests[0]);
    MPI_Irecv(&in[1], 1, MPI_INT, from, 2, comm, &requests[1]);
    if (check_rank % 2 == 0) {
        usleep(1200000);
        MPI_Send(&out, 1, MPI_INT, to, 2, comm);
        MPI_Send(&out, 1, MPI_INT, to, 1, comm);
    }
    switch (thread % 4) {
    case 0:
        MPI_Wait(&requests[1], &status[1]);
        break;
    case 1:
        MPI_Waitany(2, requests, &index, &status[1]);
        CHECK(index == 1 || index == 0, "late: index %d", index);
        break;
    case 2:
        MPI_Waitsome(2, requests, &ended, indices, status);
        CHECK(ended >= 1, "late: %d", ended);
        break;
    default:
        break;
    }
    if (check_rank % 2 != 0) {
        usleep(100000);
        MPI_Send(&out, 1, MPI_INT, to, 2, comm);
        MPI_Send(&out, 1, MPI_INT, to, 1, comm);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(in[0] == 5 && in[1] == 5, "late: %d and %d", in[0], in[1]);
}

/* ------------------------------------------------------------------------------------------------
 * Communicators whose receives one thread starts and another one waits for: freed, their numbers
 * are used again */

enum {
    COMMUNICATORS = 300,
    AT_ONCE = 3,
    NUMBERS = 64
};

static void *waits_for_all(void *requests)
{
    CHECK(MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS, "a receive failed");
    return NULL;
}

static void freed_by_another(void)
{
    int in[AT_ONCE];
    MPI_Request requests[AT_ONCE];
    MPI_Comm first, comm;
    pthread_t id;
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    const int number = MPI_Comm_c2f(first);
    MPI_Comm_free(&first);
    for (int round = 0; round < COMMUNICATORS; ++round) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        CHECK(MPI_Comm_c2f(comm) < number + NUMBERS, "the freed communicators are still there");
        for (int i = 0; i < AT_ONCE; ++i) {
            MPI_Irecv(&in[i], 1, MPI_INT, from, i, comm, &requests[i]);
        }
        CHECK(pthread_create(&id, NULL, waits_for_all, requests) == 0, "no thread");
        for (int i = 0; i < AT_ONCE; ++i) {
            MPI_Send(&round, 1, MPI_INT, to, i, comm);
        }
        pthread_join(id, NULL);
        CHECK(in[0] == round && in[AT_ONCE - 1] == round, "%d instead of %d", in[0], round);
        MPI_Comm_free(&comm);
    }
}

static void *waits(void *context)
{
    const int thread = *(int *) context;
    const MPI_Comm comm = comms[thread];
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int round = 0; round < rounds; ++round) {
        nothing(comm);
        mixed(comm, round + thread);
        failing(comm, (round + thread) % 4, round % 8 < 4 ? 65 : LONG, round % 16 > 7);
    }
    generalized(comm);
    late(comm, thread);
    return NULL;
}

int main(int argc, char **argv)
{
    check_begin_threads(&argc, &argv, "waits", 2, MPI_THREAD_MULTIPLE);
    CHECK(argc == 3, "arguments: threads, rounds");
    threads = atoi(argv[1]);
    rounds = atoi(argv[2]);
    CHECK(threads > 0 && threads <= LIMIT, "%d threads", threads);
    CHECK(check_ranks % 2 == 0, "needs an even number of ranks");
    to = (check_rank + 1) % check_ranks;
    from = (check_rank - 1 + check_ranks) % check_ranks;
    for (int i = 0; i < threads; ++i) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    }
    run_numbered(threads, waits);
    for (int i = 0; i < threads; ++i) {
        MPI_Comm_free(&comms[i]);
    }
    freed_by_another();
    check_end();
    return 0;
}
