// SPDX-License-Identifier: BSD-3-Clause
/*
 * The status of each call that returns one: source, tag, size and cancellation, and MPI_ERROR,
 * which calls that return one status leave as it was (MPI-4.0, 3.2.5), whether they succeed or
 * fail. A call that returns several statuses sets MPI_ERROR in all of them if it returns
 * MPI_ERR_IN_STATUS, and otherwise sets none, or all to MPI_SUCCESS.
 *
 * Each way to receive a message (`ways`) is tried with each kind of message (`kinds`). Even ranks
 * receive from the odd rank behind them. Arguments: threads|alone; then ob1, if a message of a
 * process to itself is not truncated (Open MPI 4.1.4, with any BTL).
 */
#include "check.h"

enum {
    MARK = MPI_ERR_DIMS, /* in MPI_ERROR before each call */
    ROOM = 200000,
    OTHERS_TAG = 1000 /* of messages that the partner sends for no receive to take */
};

/* A message and the receive that takes it. */
typedef struct {
    const char *name;
    size_t bytes;
    size_t room; /* less than bytes: truncated */
    bool any_source, any_tag, strided, synchronous;
} kind_t;

static const kind_t kinds[] = {
    {.name = "empty", .bytes = 0, .room = 0},
    {.name = "empty in a larger buffer", .bytes = 0, .room = 64},
    {.name = "short", .bytes = 8, .room = 8},
    {.name = "short from any source", .bytes = 8, .room = 100, .any_source = true},
    {.name = "short with any tag", .bytes = 24, .room = 24, .any_tag = true},
    {.name = "empty from any source with any tag", .any_source = true, .any_tag = true},
    {.name = "short and synchronous", .bytes = 40, .room = 64, .synchronous = true},
    {.name = "medium", .bytes = 5000, .room = 8000},
    {.name = "long", .bytes = 150000, .room = 150000},
    {.name = "long from any source with any tag",
     .bytes = 150000,
     .room = ROOM,
     .any_source = true,
     .any_tag = true},
    {.name = "strided", .bytes = 800, .room = 800, .strided = true},
    {.name = "strided from any source",
     .bytes = 8,
     .room = 80,
     .strided = true,
     .any_source = true},
    {.name = "strided and long", .bytes = 120000, .room = 120000, .strided = true},
    {.name = "short and truncated", .bytes = 16, .room = 8},
    {.name = "truncated to nothing", .bytes = 8, .room = 0},
    {.name = "truncated from any source", .bytes = 5000, .room = 16, .any_source = true},
    {.name = "long and truncated", .bytes = 150000, .room = 1000, .any_tag = true},
    {.name = "strided and truncated", .bytes = 800, .room = 80, .strided = true},
};

/* The processes of a communicator that exchange a message. */
typedef struct {
    const char *name;
    MPI_Comm comm;
    int partner; /* rank of the sender at the receiver, and of the receiver at the sender */
} place_t;

typedef struct {
    const kind_t *kind;
    const place_t *place;
    int tag;
    MPI_Datatype type;
    const char *way;
} trial_t;

static unsigned char buffer[2 * ROOM], to_send[2 * ROOM];
static MPI_Datatype strided; /* 8 bytes of 16 */

/* ------------------------------------------------------------------------------------------------
 * Checks */

static MPI_Status marked(void)
{
    MPI_Status status;
    memset(&status, 0x5a, sizeof status);
    status.MPI_ERROR = MARK;
    return status;
}

static bool is_truncated(const trial_t *t)
{
    return t->kind->bytes > t->kind->room;
}

static int class_of(int code)
{
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) {
        MPI_Error_class(code, &class);
    }
    return class;
}

static void describe(const trial_t *t, const char *call, char text[200])
{
    snprintf(text, 200, "%s of %s, %s, %s", call, t->way, t->kind->name, t->place->name);
}

/* Checks all but MPI_ERROR. A truncated message's size is not defined. */
static void check_fields(const trial_t *t, const char *call, const MPI_Status *status, bool taken)
{
    char what[200];
    int cancelled = -1, elements = -1;
    describe(t, call, what);
    if (taken && is_truncated(t)) {
        CHECK(status->MPI_SOURCE == t->place->partner && status->MPI_TAG == t->tag,
              "%s: source %d, tag %d", what, status->MPI_SOURCE, status->MPI_TAG);
    } else {
        CHECK_STATUS(status, t->place->partner, t->tag, t->kind->bytes, what);
        MPI_Get_count(status, t->type, &elements);
        CHECK(elements == (int) (t->kind->bytes / (t->kind->strided ? 8 : 1)), "%s: %d elements",
              what, elements);
    }
    MPI_Test_cancelled(status, &cancelled);
    CHECK(cancelled == 0, "%s: cancelled is %d", what, cancelled);
}

/* Checks the result of a call that returns one status. `taken`: the call ends the receive, so it
 * reports a truncation. */
static void check_one(const trial_t *t, const char *call, int rc, const MPI_Status *status,
                      bool taken)
{
    char what[200];
    const int expected = taken && is_truncated(t) ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
    describe(t, call, what);
    CHECK(class_of(rc) == expected, "%s: error class %d, expected %d", what, class_of(rc),
          expected);
    CHECK(status->MPI_ERROR == MARK, "%s: MPI_ERROR became %d", what, status->MPI_ERROR);
    check_fields(t, call, status, taken);
}

/* Checks the result of a call that returns several statuses, of one of them. */
static void check_of_several(const trial_t *t, const char *call, int rc, const MPI_Status *status)
{
    char what[200];
    describe(t, call, what);
    if (is_truncated(t)) {
        CHECK(class_of(rc) == MPI_ERR_IN_STATUS, "%s: error class %d", what, class_of(rc));
        CHECK(class_of(status->MPI_ERROR) == MPI_ERR_TRUNCATE, "%s: MPI_ERROR is %d", what,
              status->MPI_ERROR);
    } else {
        CHECK(rc == MPI_SUCCESS, "%s: error class %d", what, class_of(rc));
        CHECK(status->MPI_ERROR == MPI_SUCCESS || status->MPI_ERROR == MARK, "%s: MPI_ERROR is %d",
              what, status->MPI_ERROR);
    }
    check_fields(t, call, status, true);
}

/* ------------------------------------------------------------------------------------------------
 * Ways to receive: each receives one message */

static int source_of(const trial_t *t)
{
    return t->kind->any_source ? MPI_ANY_SOURCE : t->place->partner;
}

static int tag_of(const trial_t *t)
{
    return t->kind->any_tag ? MPI_ANY_TAG : t->tag;
}

static int count_of(const trial_t *t, size_t bytes)
{
    return (int) (t->kind->strided ? bytes / 8 : bytes);
}

static MPI_Request start(const trial_t *t)
{
    MPI_Request request;
    MPI_Irecv(buffer, count_of(t, t->kind->room), t->type, source_of(t), tag_of(t), t->place->comm,
              &request);
    return request;
}

/* Whether a request that ended with an error is still there is up to MPI; Open MPI 4.1.4 frees it,
 * even a persistent one, where errors return. */
static void end(MPI_Request *request)
{
    if (*request != MPI_REQUEST_NULL) {
        MPI_Request_free(request);
    }
}

static void by_recv(const trial_t *t)
{
    MPI_Status status = marked();
    const int rc = MPI_Recv(buffer, count_of(t, t->kind->room), t->type, source_of(t), tag_of(t),
                            t->place->comm, &status);
    check_one(t, "MPI_Recv", rc, &status, true);
}

static void by_sendrecv(const trial_t *t)
{
    MPI_Status status = marked();
    const int rc =
        MPI_Sendrecv(to_send, 0, MPI_BYTE, MPI_PROC_NULL, 0, buffer, count_of(t, t->kind->room),
                     t->type, source_of(t), tag_of(t), t->place->comm, &status);
    check_one(t, "MPI_Sendrecv", rc, &status, true);
}

static void by_sendrecv_replace(const trial_t *t)
{
    MPI_Status status = marked();
    const int rc = MPI_Sendrecv_replace(buffer, count_of(t, t->kind->room), t->type, MPI_PROC_NULL,
                                        0, source_of(t), tag_of(t), t->place->comm, &status);
    check_one(t, "MPI_Sendrecv_replace", rc, &status, true);
}

static void by_wait(const trial_t *t)
{
    MPI_Status status = marked();
    MPI_Request request = start(t);
    const int rc = MPI_Wait(&request, &status);
    check_one(t, "MPI_Wait", rc, &status, true);
    end(&request);
}

static void by_test(const trial_t *t)
{
    MPI_Status status = marked();
    MPI_Request request = start(t);
    int done = 0, rc = MPI_SUCCESS;
    while (!done && rc == MPI_SUCCESS) {
        rc = MPI_Test(&request, &done, &status);
    }
    check_one(t, "MPI_Test", rc, &status, true);
    end(&request);
}

static void by_get_status(const trial_t *t)
{
    MPI_Status status = marked();
    MPI_Request request = start(t);
    int done = 0, rc = MPI_SUCCESS;
    while (!done && rc == MPI_SUCCESS) {
        rc = MPI_Request_get_status(request, &done, &status);
    }
    CHECK(status.MPI_ERROR == MARK, "MPI_Request_get_status: MPI_ERROR became %d",
          status.MPI_ERROR);
    check_fields(t, "MPI_Request_get_status", &status, true);
    status = marked();
    rc = MPI_Wait(&request, &status);
    check_one(t, "MPI_Wait after MPI_Request_get_status", rc, &status, true);
    end(&request);
}

static void by_waitany(const trial_t *t)
{
    MPI_Status status = marked();
    MPI_Request requests[3] = {MPI_REQUEST_NULL, start(t), MPI_REQUEST_NULL};
    int index = -1;
    const int rc = MPI_Waitany(3, requests, &index, &status);
    CHECK(index == 1, "MPI_Waitany: index %d", index);
    check_one(t, "MPI_Waitany", rc, &status, true);
    end(&requests[1]);
}

static void by_testany(const trial_t *t)
{
    MPI_Status status = marked();
    MPI_Request requests[2] = {MPI_REQUEST_NULL, start(t)};
    int index = -1, done = 0, rc = MPI_SUCCESS;
    while (!done && rc == MPI_SUCCESS) {
        rc = MPI_Testany(2, requests, &index, &done, &status);
    }
    CHECK(index == 1, "MPI_Testany: index %d", index);
    check_one(t, "MPI_Testany", rc, &status, true);
    end(&requests[1]);
}

static void by_waitall(const trial_t *t)
{
    MPI_Status statuses[2] = {marked(), marked()};
    MPI_Request requests[2] = {start(t), MPI_REQUEST_NULL};
    const int rc = MPI_Waitall(2, requests, statuses);
    check_of_several(t, "MPI_Waitall", rc, &statuses[0]);
    CHECK(statuses[1].MPI_SOURCE == MPI_ANY_SOURCE && statuses[1].MPI_TAG == MPI_ANY_TAG,
          "MPI_Waitall of a null request: source %d, tag %d", statuses[1].MPI_SOURCE,
          statuses[1].MPI_TAG);
    end(&requests[0]);
}

static void by_testall(const trial_t *t)
{
    MPI_Status status = marked();
    MPI_Request request = start(t);
    int done = 0, rc = MPI_SUCCESS;
    while (!done && rc == MPI_SUCCESS) {
        rc = MPI_Testall(1, &request, &done, &status);
    }
    check_of_several(t, "MPI_Testall", rc, &status);
    end(&request);
}

static void by_waitsome(const trial_t *t)
{
    MPI_Status statuses[2] = {marked(), marked()};
    MPI_Request requests[2] = {MPI_REQUEST_NULL, start(t)};
    int indices[2] = {-1, -1}, count = 0;
    const int rc = MPI_Waitsome(2, requests, &count, indices, statuses);
    CHECK(count == 1 && indices[0] == 1, "MPI_Waitsome: %d requests, the first is %d", count,
          indices[0]);
    check_of_several(t, "MPI_Waitsome", rc, &statuses[0]);
    end(&requests[1]);
}

static void by_testsome(const trial_t *t)
{
    MPI_Status status = marked();
    MPI_Request request = start(t);
    int index = -1, count = 0, rc = MPI_SUCCESS;
    while (count == 0 && rc == MPI_SUCCESS) {
        rc = MPI_Testsome(1, &request, &count, &index, &status);
    }
    check_of_several(t, "MPI_Testsome", rc, &status);
    end(&request);
}

static void by_persistent(const trial_t *t)
{
    MPI_Status status = marked();
    MPI_Request request;
    MPI_Recv_init(buffer, count_of(t, t->kind->room), t->type, source_of(t), tag_of(t),
                  t->place->comm, &request);
    MPI_Start(&request);
    const int rc = MPI_Wait(&request, &status);
    check_one(t, "MPI_Wait", rc, &status, true);
    /* MPI_ERROR of an empty status is MPI_SUCCESS; Open MPI leaves it as it was. */
    if (request != MPI_REQUEST_NULL) {
        status = marked();
        MPI_Wait(&request, &status);
        CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG
                  && (status.MPI_ERROR == MARK || status.MPI_ERROR == MPI_SUCCESS),
              "an inactive request: source %d, tag %d, error %d", status.MPI_SOURCE, status.MPI_TAG,
              status.MPI_ERROR);
    }
    end(&request);
}

static void take(const trial_t *t, const MPI_Status *seen)
{
    const int rc = MPI_Recv(buffer, count_of(t, t->kind->room), t->type, seen->MPI_SOURCE,
                            seen->MPI_TAG, t->place->comm, MPI_STATUS_IGNORE);
    CHECK(class_of(rc) == (is_truncated(t) ? MPI_ERR_TRUNCATE : MPI_SUCCESS),
          "MPI_Recv after a probe: error class %d", class_of(rc));
}

static void by_probe(const trial_t *t)
{
    MPI_Status status = marked();
    const int rc = MPI_Probe(source_of(t), tag_of(t), t->place->comm, &status);
    check_one(t, "MPI_Probe", rc, &status, false);
    take(t, &status);
}

static void by_iprobe(const trial_t *t)
{
    MPI_Status status = marked();
    int found = 0, rc = MPI_SUCCESS;
    while (!found && rc == MPI_SUCCESS) {
        rc = MPI_Iprobe(source_of(t), tag_of(t), t->place->comm, &found, &status);
    }
    check_one(t, "MPI_Iprobe", rc, &status, false);
    take(t, &status);
}

static MPI_Message match(const trial_t *t, bool blocking)
{
    MPI_Status status = marked();
    MPI_Message message = MPI_MESSAGE_NULL;
    int found = 0, rc = MPI_SUCCESS;
    if (blocking) {
        rc = MPI_Mprobe(source_of(t), tag_of(t), t->place->comm, &message, &status);
    }
    while (!blocking && !found && rc == MPI_SUCCESS) {
        rc = MPI_Improbe(source_of(t), tag_of(t), t->place->comm, &found, &message, &status);
    }
    check_one(t, blocking ? "MPI_Mprobe" : "MPI_Improbe", rc, &status, false);
    return message;
}

static void by_mrecv(const trial_t *t)
{
    MPI_Status status = marked();
    MPI_Message message = match(t, true);
    const int rc = MPI_Mrecv(buffer, count_of(t, t->kind->room), t->type, &message, &status);
    check_one(t, "MPI_Mrecv", rc, &status, true);
}

static void by_imrecv(const trial_t *t)
{
    MPI_Status status = marked();
    MPI_Message message = match(t, false);
    MPI_Request request;
    MPI_Imrecv(buffer, count_of(t, t->kind->room), t->type, &message, &request);
    const int rc = MPI_Wait(&request, &status);
    check_one(t, "MPI_Wait for MPI_Imrecv", rc, &status, true);
    end(&request);
}

static const struct {
    const char *name;
    void (*receive)(const trial_t *t);
} ways[] = {
    {"MPI_Recv", by_recv},
    {"MPI_Sendrecv", by_sendrecv},
    {"MPI_Sendrecv_replace", by_sendrecv_replace},
    {"MPI_Irecv and MPI_Wait", by_wait},
    {"MPI_Irecv and MPI_Test", by_test},
    {"MPI_Irecv and MPI_Request_get_status", by_get_status},
    {"MPI_Irecv and MPI_Waitany", by_waitany},
    {"MPI_Irecv and MPI_Testany", by_testany},
    {"MPI_Irecv and MPI_Waitall", by_waitall},
    {"MPI_Irecv and MPI_Testall", by_testall},
    {"MPI_Irecv and MPI_Waitsome", by_waitsome},
    {"MPI_Irecv and MPI_Testsome", by_testsome},
    {"MPI_Recv_init", by_persistent},
    {"MPI_Probe", by_probe},
    {"MPI_Iprobe", by_iprobe},
    {"MPI_Mprobe and MPI_Mrecv", by_mrecv},
    {"MPI_Improbe and MPI_Imrecv", by_imrecv},
};

/* ------------------------------------------------------------------------------------------------
 * Trials */

static void send_one(const trial_t *t)
{
    MPI_Status status = marked();
    MPI_Request request;
    const int count = count_of(t, t->kind->bytes);
    int cancelled = -1;
    if (t->kind->synchronous) {
        MPI_Issend(to_send, count, t->type, t->place->partner, t->tag, t->place->comm, &request);
    } else {
        MPI_Isend(to_send, count, t->type, t->place->partner, t->tag, t->place->comm, &request);
    }
    const int rc = MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(rc == MPI_SUCCESS && status.MPI_ERROR == MARK && cancelled == 0,
          "MPI_Wait for a send, %s: error class %d, MPI_ERROR %d, cancelled %d", t->kind->name,
          class_of(rc), status.MPI_ERROR, cancelled);
}

/* Between two processes: the message is there before the receive in every other trial. */
static void exchange(const place_t *place, bool receives, MPI_Comm both)
{
    int tag = 0;
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; ++way) {
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
            const trial_t trial = {.kind = &kinds[i],
                                   .place = place,
                                   .tag = ++tag % OTHERS_TAG,
                                   .type = kinds[i].strided ? strided : MPI_BYTE,
                                   .way = ways[way].name};
            if (receives) {
                if (tag % 2) {
                    progress_for(1e-4, both);
                }
                ways[way].receive(&trial);
            } else {
                send_one(&trial);
            }
            MPI_Barrier(both);
        }
    }
}

/* A process with itself: the message is on its way, or there, before the receive. */
static void with_itself(const place_t *place, bool truncates)
{
    int tag = 0;
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; ++way) {
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
            const trial_t trial = {.kind = &kinds[i],
                                   .place = place,
                                   .tag = ++tag % OTHERS_TAG,
                                   .type = kinds[i].strided ? strided : MPI_BYTE,
                                   .way = ways[way].name};
            MPI_Request request;
            if (!truncates && is_truncated(&trial)) {
                continue;
            }
            MPI_Isend(to_send, count_of(&trial, kinds[i].bytes), trial.type, place->partner,
                      trial.tag, place->comm, &request);
            ways[way].receive(&trial);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
}

static void check_nobody(const char *call, int rc, const MPI_Status *status)
{
    int count = -1, cancelled = -1;
    MPI_Get_count(status, MPI_BYTE, &count);
    MPI_Test_cancelled(status, &cancelled);
    CHECK(rc == MPI_SUCCESS && status->MPI_SOURCE == MPI_PROC_NULL && status->MPI_TAG == MPI_ANY_TAG
              && count == 0 && cancelled == 0,
          "%s of MPI_PROC_NULL: source %d, tag %d, %d bytes, cancelled %d", call,
          status->MPI_SOURCE, status->MPI_TAG, count, cancelled);
    CHECK(status->MPI_ERROR == MARK, "%s of MPI_PROC_NULL: MPI_ERROR became %d", call,
          status->MPI_ERROR);
}

static void nobody(MPI_Comm comm)
{
    MPI_Status status = marked();
    MPI_Message message;
    MPI_Request request;
    int flag = 0, index = -1, rc = MPI_Recv(buffer, 1, MPI_BYTE, MPI_PROC_NULL, 1, comm, &status);
    check_nobody("MPI_Recv", rc, &status);
    status = marked();
    rc = MPI_Sendrecv(to_send, 1, MPI_BYTE, MPI_PROC_NULL, 1, buffer, 1, MPI_BYTE, MPI_PROC_NULL, 1,
                      comm, &status);
    check_nobody("MPI_Sendrecv", rc, &status);
    status = marked();
    rc = MPI_Probe(MPI_PROC_NULL, 1, comm, &status);
    check_nobody("MPI_Probe", rc, &status);
    status = marked();
    rc = MPI_Iprobe(MPI_PROC_NULL, 1, comm, &flag, &status);
    check_nobody("MPI_Iprobe", rc, &status);
    status = marked();
    rc = MPI_Mprobe(MPI_PROC_NULL, 1, comm, &message, &status);
    check_nobody("MPI_Mprobe", rc, &status);
    status = marked();
    rc = MPI_Mrecv(buffer, 1, MPI_BYTE, &message, &status);
    check_nobody("MPI_Mrecv", rc, &status);
    status = marked();
    MPI_Irecv(buffer, 1, MPI_BYTE, MPI_PROC_NULL, 1, comm, &request);
    rc = MPI_Wait(&request, &status);
    check_nobody("MPI_Wait", rc, &status);
    status = marked();
    MPI_Irecv(buffer, 1, MPI_BYTE, MPI_PROC_NULL, 1, comm, &request);
    rc = MPI_Waitany(1, &request, &index, &status);
    check_nobody("MPI_Waitany", rc, &status);
    status = marked();
    MPI_Recv_init(buffer, 1, MPI_BYTE, MPI_PROC_NULL, 1, comm, &request);
    MPI_Start(&request);
    rc = MPI_Wait(&request, &status);
    check_nobody("MPI_Wait of a persistent receive", rc, &status);
    MPI_Request_free(&request);
}

/* Receives that end without a message. */
static void cancelled_ones(MPI_Comm comm)
{
    for (int source = MPI_ANY_SOURCE; source <= 0; ++source) {
        for (int contiguous = 0; contiguous <= 1; ++contiguous) {
            MPI_Status status = marked();
            MPI_Request request;
            int cancelled = 0;
            if (source < 0 && source != MPI_ANY_SOURCE) { /* MPI_PROC_NULL */
                continue;
            }
            MPI_Irecv(buffer, 1, contiguous ? MPI_INT : strided, source, OTHERS_TAG + 1, comm,
                      &request);
            MPI_Cancel(&request);
            const int rc = MPI_Wait(&request, &status);
            MPI_Test_cancelled(&status, &cancelled);
            CHECK(rc == MPI_SUCCESS && cancelled && status.MPI_ERROR == MARK,
                  "a cancelled receive: error class %d, cancelled %d, MPI_ERROR %d", class_of(rc),
                  cancelled, status.MPI_ERROR);
        }
    }
}

/* Calls that find nothing leave the status alone. */
static void nothing(MPI_Comm comm)
{
    MPI_Status status = marked(), before;
    MPI_Request request;
    MPI_Message message = MPI_MESSAGE_NULL;
    int flag = 1;
    memcpy(&before, &status, sizeof before);
    MPI_Iprobe(MPI_ANY_SOURCE, OTHERS_TAG + 2, comm, &flag, &status);
    CHECK(!flag && memcmp(&before, &status, sizeof before) == 0, "MPI_Iprobe without a message");
    MPI_Improbe(MPI_ANY_SOURCE, OTHERS_TAG + 2, comm, &flag, &message, &status);
    CHECK(!flag && memcmp(&before, &status, sizeof before) == 0, "MPI_Improbe without a message");
    MPI_Irecv(buffer, 1, MPI_INT, MPI_ANY_SOURCE, OTHERS_TAG + 2, comm, &request);
    MPI_Test(&request, &flag, &status);
    CHECK(!flag && status.MPI_ERROR == MARK, "MPI_Test without a message");
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Wait(&request, &status);
    CHECK(request == MPI_REQUEST_NULL && status.MPI_SOURCE == MPI_ANY_SOURCE
              && status.MPI_TAG == MPI_ANY_TAG,
          "MPI_Wait for a null request: source %d, tag %d", status.MPI_SOURCE, status.MPI_TAG);
}

/* Rank 2n receives from 2n + 1; a rank without a partner waits. */
static void between_two(bool receives)
{
    MPI_Comm both, inter;
    const int pair = check_rank / 2;
    const bool alone = (check_rank ^ 1) >= check_ranks;
    MPI_Comm_split(MPI_COMM_WORLD, pair, check_rank, &both);
    MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN);
    if (!alone) {
        const place_t within = {"within a communicator", both, receives ? 1 : 0};
        MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, check_rank ^ 1, pair, &inter);
        MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
        const place_t between = {"between communicators", inter, 0};
        exchange(&within, receives, both);
        exchange(&between, receives, both);
        nobody(inter);
        cancelled_ones(inter);
        nothing(inter);
        MPI_Comm_free(&inter);
    }
    MPI_Comm_free(&both);
}

int main(int argc, char **argv)
{
    const bool threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    const bool self_truncates = argc < 3 || strcmp(argv[2], "ob1") != 0;
    MPI_Comm self;
    check_begin_threads(&argc, &argv, "statuses", 2,
                        threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    MPI_Type_vector(1, 8, 16, MPI_BYTE, &strided);
    MPI_Type_create_resized(strided, 0, 16, &strided);
    MPI_Type_commit(&strided);
    between_two(check_rank % 2 == 0);
    MPI_Comm_dup(MPI_COMM_SELF, &self);
    MPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
    const place_t itself = {"with itself", self, 0};
    with_itself(&itself, self_truncates);
    nobody(self);
    cancelled_ones(self);
    nothing(self);
    MPI_Comm_free(&self);
    MPI_Type_free(&strided);
    check_end();
    return 0;
}
