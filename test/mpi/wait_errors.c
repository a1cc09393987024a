// SPDX-License-Identifier: BSD-3-Clause
/*
 * MPI_Waitall of a thread, for a receive that fails and another that is under way, where the error
 * comes before the call, at its beginning, or while the thread sleeps in it. The call returns
 * MPI_ERR_IN_STATUS; the other receive is pending, and ends later. The receives are of each kind:
 * contiguous, strided, persistent, of a matched probe. Argument: rounds.
 */
#include "check.h"

#include <pthread.h>

enum {
    FAILS = 1, /* tags */
    GOES_ON = 2
};

static int rounds;
static MPI_Comm comm;
static MPI_Datatype strided; /* 4 bytes of 6 */
static pthread_barrier_t both;
static const int out[8] = {77, 78, 79, 80, 81, 82, 83, 84};

static int class_of(int code)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    return class;
}

static void spin(double microseconds)
{
    const double end = MPI_Wtime() + 1e-6 * microseconds;
    while (MPI_Wtime() < end) {
    }
}

/* From the end of the barrier to the error, in microseconds: a thread polls for 100 before it
 * sleeps. */
static double delay(int round)
{
    static const double delays[] = {0, 5, 20, 60, 90, 100, 105, 110, 120, 200, 1000};
    return delays[(round / 4) % (int) (sizeof delays / sizeof delays[0])] + round % 7;
}

static void start(int round, int *in, int tag, MPI_Request *request)
{
    MPI_Message message;
    switch (round % 4) {
    case 0:
        MPI_Irecv(in, 1, MPI_INT, 0, tag, comm, request);
        break;
    case 1:
        MPI_Irecv(in, 1, strided, 0, tag, comm, request);
        break;
    case 2:
        MPI_Recv_init(in, 1, MPI_INT, 0, tag, comm, request);
        MPI_Start(request);
        break;
    default: /* the message is there */
        MPI_Mprobe(0, tag, comm, &message, MPI_STATUS_IGNORE);
        MPI_Imrecv(in, 1, strided, &message, request);
        break;
    }
}

static void check_failed(int round, int code, const MPI_Status *statuses, const int *in)
{
    CHECK(code == MPI_ERR_IN_STATUS, "round %d: error class %d", round, class_of(code));
    CHECK(class_of(statuses[0].MPI_ERROR) == MPI_ERR_TRUNCATE, "round %d: error %d of the receive",
          round, statuses[0].MPI_ERROR);
    CHECK(class_of(statuses[1].MPI_ERROR) == MPI_ERR_PENDING, "round %d: error %d of the other",
          round, statuses[1].MPI_ERROR);
    CHECK(in[2] == -1, "round %d: the other receive has data", round);
}

static void *wait_for_both(void *unused)
{
    (void) unused;
    for (int round = 0; round < rounds; ++round) {
        int in[4] = {-1, -1, -1, -1};
        MPI_Request requests[2];
        MPI_Status statuses[2];
        MPI_Irecv(&in[2], 1, MPI_INT, 0, GOES_ON, comm, &requests[1]);
        if (round % 4 != 3) {
            start(round, in, FAILS, &requests[0]);
        }
        pthread_barrier_wait(&both);
        if (round % 4 == 3) {
            start(round, in, FAILS, &requests[0]);
        }
        check_failed(round, MPI_Waitall(2, requests, statuses), statuses, in);
        if (requests[0] != MPI_REQUEST_NULL) {
            MPI_Request_free(&requests[0]);
        }
        pthread_barrier_wait(&both);
        MPI_Wait(&requests[1], &statuses[1]);
        CHECK_STATUS(&statuses[1], 0, GOES_ON, sizeof(int), "beside an error");
        CHECK(in[2] == 77, "round %d: %d instead of 77", round, in[2]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t waiter;
    check_begin_threads(&argc, &argv, "wait_errors", 1, MPI_THREAD_MULTIPLE);
    rounds = argc > 1 ? atoi(argv[1]) : 1000;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Type_vector(2, 1, 2, MPI_SHORT, &strided);
    MPI_Type_commit(&strided);
    pthread_barrier_init(&both, NULL, 2);
    CHECK(pthread_create(&waiter, NULL, wait_for_both, NULL) == 0, "no thread");
    for (int round = 0; round < rounds; ++round) {
        pthread_barrier_wait(&both);
        spin(delay(round));
        MPI_Send(out, 8, MPI_INT, 0, FAILS, comm);
        pthread_barrier_wait(&both);
        MPI_Send(out, 1, MPI_INT, 0, GOES_ON, comm);
    }
    pthread_join(waiter, NULL);
    pthread_barrier_destroy(&both);
    MPI_Type_free(&strided);
    MPI_Comm_free(&comm);
    check_end();
    return 0;
}
