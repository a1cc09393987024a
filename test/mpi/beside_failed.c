// SPDX-License-Identifier: BSD-3-Clause
/*
 * Requests beside a receive that fails: sends that are under way, and persistent requests that were
 * never started. MPI_Waitall, MPI_Waitsome, MPI_Testsome and MPI_Testall report the receive's error
 * and leave the others as they are, though their memory had other contents before
 * (MALLOC_PERTURB_): their handles stay, and they complete later with their data. Arguments:
 * "threads", so that several threads may call; "started", to leave out those never started.
 */
#include "check.h"

enum {
    FAILS = 1, /* tags */
    INIT = 2,  /* of requests that are never started */
    SENDS = 3, /* and above: sends under way */

    KINDS = 3,
    UNDER_WAY = 2 * KINDS,
    NEVER_STARTED = 4,
    MOST = 1 + UNDER_WAY + NEVER_STARTED,
    INTS = 1 << 18 /* of a long message */
};

typedef enum {
    WAITALL,
    WAITSOME,
    TESTSOME,
    TESTALL,
    CALLS
} call_t;

static const char *const names[] = {"MPI_Waitall", "MPI_Waitsome", "MPI_Testsome", "MPI_Testall"};

static bool with_never_started = true;
static MPI_Comm comm;
static MPI_Datatype strided; /* INTS of 2 * INTS */
static int *out, *in;

static int class_of(int code)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    return class;
}

static int ints_of(int kind)
{
    return kind == 1 ? 1 : INTS;
}

static int stride_of(int kind)
{
    return kind == 2 ? 2 : 1;
}

static void start_sends(MPI_Request *requests)
{
    for (int i = 0; i < UNDER_WAY; ++i) {
        switch (i % KINDS) {
        case 0:
            MPI_Isend(out, INTS, MPI_INT, 0, SENDS + i, comm, &requests[i]);
            break;
        case 1:
            MPI_Issend(out, 1, MPI_INT, 0, SENDS + i, comm, &requests[i]);
            break;
        default:
            MPI_Isend(out, 1, strided, 0, SENDS + i, comm, &requests[i]);
            break;
        }
    }
}

static int make_persistent(MPI_Request *requests)
{
    if (!with_never_started) {
        return 0;
    }
    MPI_Send_init(out, 1, MPI_INT, 0, INIT, comm, &requests[0]);
    MPI_Ssend_init(out, 1, MPI_INT, 0, INIT, comm, &requests[1]);
    MPI_Bsend_init(out, 1, MPI_INT, 0, INIT, comm, &requests[2]);
    MPI_Recv_init(in, 1, MPI_INT, 0, INIT, comm, &requests[3]);
    return NEVER_STARTED;
}

static int call_for(call_t call, int count, MPI_Request *requests)
{
    MPI_Status statuses[MOST];
    int indices[MOST], ended = 0, code = MPI_SUCCESS;
    switch (call) {
    case WAITALL:
        return MPI_Waitall(count, requests, statuses);
    case WAITSOME:
        return MPI_Waitsome(count, requests, &ended, indices, statuses);
    default:
        while (code == MPI_SUCCESS && ended == 0) {
            code = call == TESTSOME ? MPI_Testsome(count, requests, &ended, indices, statuses)
                                    : MPI_Testall(count, requests, &ended, statuses);
        }
        return code;
    }
}

/* Makes the call for all requests, of which the first has failed. */
static void call_and_check(call_t call, int count, MPI_Request *requests)
{
    const int code = call_for(call, count, requests);
    CHECK(code == MPI_ERR_IN_STATUS, "%s: error class %d", names[call], class_of(code));
    CHECK(requests[0] == MPI_REQUEST_NULL, "%s leaves the failed receive", names[call]);
    for (int i = 1; i < count; ++i) {
        CHECK(requests[i] != MPI_REQUEST_NULL, "%s frees request %d, which has not failed",
              names[call], i);
    }
}

static void end_sends(MPI_Request *requests)
{
    for (int i = 0; i < UNDER_WAY; ++i) {
        const int kind = i % KINDS;
        memset(in, 0, INTS * sizeof(int));
        MPI_Recv(in, ints_of(kind), MPI_INT, 0, SENDS + i, comm, MPI_STATUS_IGNORE);
        for (int k = 0; k < ints_of(kind); ++k) {
            CHECK(in[k] == out[stride_of(kind) * k], "send %d: int %d is %d, expected %d", i, k,
                  in[k], out[stride_of(kind) * k]);
        }
        const int code = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        CHECK(code == MPI_SUCCESS, "send %d ends with error class %d", i, class_of(code));
    }
}

static void one_round(call_t call)
{
    MPI_Request requests[MOST];
    int room, count = 1;
    MPI_Irecv(&room, 1, MPI_INT, 0, FAILS, comm, &requests[0]);
    if (call != TESTALL) { /* it reports an error only if all are complete, or not active */
        start_sends(&requests[count]);
        count += UNDER_WAY;
    }
    const int persistent = make_persistent(&requests[count]);
    count += persistent;
    MPI_Send(out, 2, MPI_INT, 0, FAILS, comm);
    call_and_check(call, count, requests);
    for (int i = count - persistent; i < count; ++i) {
        MPI_Request_free(&requests[i]);
    }
    if (call != TESTALL) {
        end_sends(&requests[1]);
    }
}

int main(int argc, char **argv)
{
    bool threads = false;
    for (int i = 1; i < argc; ++i) {
        threads = threads || strcmp(argv[i], "threads") == 0;
        with_never_started = with_never_started && strcmp(argv[i], "started") != 0;
    }
    check_begin_threads(&argc, &argv, "beside_failed", 1,
                        threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    out = malloc(2 * INTS * sizeof(int));
    in = malloc(INTS * sizeof(int));
    CHECK(out != NULL && in != NULL, "no memory");
    for (int i = 0; i < 2 * INTS; ++i) {
        out[i] = i;
    }
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Type_vector(INTS, 1, 2, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    for (int call = WAITALL; call < CALLS; ++call) {
        one_round((call_t) call);
    }
    MPI_Type_free(&strided);
    MPI_Comm_free(&comm);
    free(in);
    free(out);
    check_end();
    return 0;
}
