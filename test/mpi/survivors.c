// SPDX-License-Identifier: BSD-3-Clause
/*
 * Survivors of failed processes, with the extensions of MPI for fault tolerance (Open MPI 5,
 * mpirun --with-ft ulfm): the last rank ends without MPI_Finalize, and the others go on.
 *
 *   iprobe     MPI_Iprobe and MPI_Improbe of the failed rank return MPI_ERR_PROC_FAILED (over
 *              pml/ob1 of Open MPI 5.0.7 they return success for ever)
 *   pending    MPI_Irecv from any source is interrupted, and goes on when the failure is
 *              acknowledged (over pml/ob1 of Open MPI 5.0.7 it keeps the error)
 *   receive    receives and probes that name the failed rank end with MPI_ERR_PROC_FAILED; one from
 *              any source does, too, until the failure is acknowledged; survivors still exchange
 *              messages over the same communicator
 *   send       sends to the failed rank end, long ones with that error; it fails amid long messages
 *   revoke     a communicator is revoked while its ranks wait for messages that never come
 *   shrink     a collective operation fails, its communicator is revoked and shrunk, and the next
 *              rank fails, until one is left
 *
 * Arguments: one of these; "finalize" if MPI_Finalize is to be called, in which Open MPI 5.0.7
 * sometimes waits for the failed rank, over any transport. The failed rank ends with status 0, so
 * that mpirun's status is that of the survivors.
 */
#include "check.h"

#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <unistd.h>

#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI

enum {
    TAG = 3,
    SMALL = 100,
    LARGE = 3000000
};

static int class_of(int rc)
{
    int class = MPI_SUCCESS;

    MPI_Error_class(rc, &class);
    return class;
}

static const char *name_of(int class)
{
    static char names[2][MPI_MAX_ERROR_STRING];
    static int used;
    char *name = names[used = !used];
    int length;

    MPI_Error_string(class, name, &length);
    return name;
}

#define CHECK_CLASS(rc, want, what)                                                                \
    CHECK(class_of(rc) == (want), "%s: %s, expected %s", what, name_of(class_of(rc)), name_of(want))

static int last_of(MPI_Comm comm)
{
    int ranks;

    MPI_Comm_size(comm, &ranks);
    return ranks - 1;
}

/* Ends the last rank of the communicator. */
static void last_fails(MPI_Comm comm)
{
    int rank;

    MPI_Comm_rank(comm, &rank);
    if (rank == last_of(comm)) {
        _exit(0);
    }
}

/* Each rank but the last `gone` exchanges a message of each size with the next one. */
static void exchange(MPI_Comm comm, int gone, int salt)
{
    static const size_t sizes[] = {0, 8, SMALL, 5000, 70000, LARGE};
    int rank;
    MPI_Comm_rank(comm, &rank);
    const int ranks = last_of(comm) + 1 - gone;
    const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    unsigned char *out = malloc(LARGE), *in = malloc(LARGE);

    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; ++s) {
        MPI_Request request;
        MPI_Status status;
        fill(out, sizes[s], key_of(rank, (int) s, sizes[s], (uint64_t) salt));
        MPI_Irecv(in, LARGE, MPI_BYTE, from, (int) s, comm, &request);
        CHECK_CLASS(MPI_Send(out, (int) sizes[s], MPI_BYTE, to, (int) s, comm), MPI_SUCCESS,
                    "a send to a survivor");
        CHECK_CLASS(MPI_Wait(&request, &status), MPI_SUCCESS, "a receive from a survivor");
        CHECK_STATUS(&status, from, (int) s, sizes[s], "a survivor's message");
        CHECK_BYTES(in, sizes[s], key_of(from, (int) s, sizes[s], (uint64_t) salt),
                    "a survivor's message");
    }
    free(out);
    free(in);
}

static void probes(MPI_Comm comm)
{
    const int failed = last_of(comm);
    MPI_Message message;

    CHECK_CLASS(MPI_Probe(failed, TAG, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED, "MPI_Probe");
    CHECK_CLASS(MPI_Mprobe(failed, TAG, comm, &message, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED,
                "MPI_Mprobe");
}

static void iprobe(MPI_Comm comm)
{
    const int failed = last_of(comm);
    const double end = MPI_Wtime() + 20;
    MPI_Message message;
    int rc = MPI_SUCCESS, flag = 0;

    MPI_Barrier(comm);
    last_fails(comm);
    while (rc == MPI_SUCCESS && MPI_Wtime() < end) {
        rc = MPI_Iprobe(failed, TAG, comm, &flag, MPI_STATUS_IGNORE);
    }
    CHECK_CLASS(rc, MPIX_ERR_PROC_FAILED, "MPI_Iprobe");
    CHECK_CLASS(MPI_Improbe(failed, TAG, comm, &flag, &message, MPI_STATUS_IGNORE),
                MPIX_ERR_PROC_FAILED, "MPI_Improbe");
    exchange(comm, 1, 4);
}

/* Exchanges a small message, received from any source. A rank sends when the next one is ready. */
static void from_any(MPI_Comm comm, MPI_Request *pending)
{
    const int ranks = last_of(comm);
    unsigned char in[SMALL], out[SMALL];
    MPI_Status status;
    int rank;

    MPI_Comm_rank(comm, &rank);
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Sendrecv(out, 0, MPI_BYTE, before, TAG + 2, in, 0, MPI_BYTE, next, TAG + 2, comm,
                 MPI_STATUS_IGNORE);
    fill(out, SMALL, key_of(rank, TAG, SMALL, 1));
    MPI_Send(out, SMALL, MPI_BYTE, next, TAG + 1, comm);
    if (pending != NULL) {
        CHECK_CLASS(MPI_Wait(pending, &status), MPI_SUCCESS, "MPI_Irecv after failure_ack");
    } else {
        CHECK_CLASS(MPI_Recv(in, SMALL, MPI_BYTE, MPI_ANY_SOURCE, TAG + 1, comm, &status),
                    MPI_SUCCESS, "MPI_Recv after failure_ack");
        CHECK_BYTES(in, SMALL, key_of(before, TAG, SMALL, 1), "the survivor's message");
    }
    CHECK_STATUS(&status, before, TAG + 1, SMALL, "the survivor's message");
}

static void any_source(MPI_Comm comm)
{
    unsigned char in[SMALL];
    const int rc = MPI_Recv(in, SMALL, MPI_BYTE, MPI_ANY_SOURCE, TAG + 1, comm, MPI_STATUS_IGNORE);

    CHECK(class_of(rc) == MPIX_ERR_PROC_FAILED || class_of(rc) == MPIX_ERR_PROC_FAILED_PENDING,
          "MPI_Recv from any source: %s", name_of(class_of(rc)));
    CHECK_CLASS(MPIX_Comm_failure_ack(comm), MPI_SUCCESS, "MPIX_Comm_failure_ack");
    from_any(comm, NULL);
}

static void pending(MPI_Comm comm)
{
    unsigned char in[SMALL];
    MPI_Request request;

    MPI_Barrier(comm);
    last_fails(comm);
    MPI_Irecv(in, SMALL, MPI_BYTE, MPI_ANY_SOURCE, TAG + 1, comm, &request);
    CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING,
                "MPI_Irecv from any source");
    CHECK(request != MPI_REQUEST_NULL, "the pending receive has ended");
    CHECK_CLASS(MPIX_Comm_failure_ack(comm), MPI_SUCCESS, "MPIX_Comm_failure_ack");
    from_any(comm, &request);
}

static void receive(MPI_Comm comm)
{
    const int failed = last_of(comm);
    unsigned char *in = malloc(LARGE);
    MPI_Request request[2];
    MPI_Status status[2];

    MPI_Barrier(comm);
    last_fails(comm);
    MPI_Irecv(in, SMALL, MPI_BYTE, failed, TAG, comm, &request[0]);
    MPI_Irecv(in + SMALL, LARGE - SMALL, MPI_BYTE, failed, TAG, comm, &request[1]);
    CHECK_CLASS(MPI_Waitall(2, request, status), MPI_ERR_IN_STATUS, "MPI_Waitall");
    CHECK_CLASS(status[0].MPI_ERROR, MPIX_ERR_PROC_FAILED, "MPI_Irecv");
    CHECK_CLASS(MPI_Recv(in, SMALL, MPI_BYTE, failed, TAG, comm, MPI_STATUS_IGNORE),
                MPIX_ERR_PROC_FAILED, "MPI_Recv after the failure");
    free(in);
    probes(comm);
    any_source(comm);
    exchange(comm, 1, 1);
}

static void send(MPI_Comm comm)
{
    const int failed = last_of(comm);
    unsigned char *out = calloc(1, LARGE);
    int rank, rc = MPI_SUCCESS;

    MPI_Comm_rank(comm, &rank);
    if (rank == failed) { /* takes some, and ends amid the others */
        for (int i = 0; i < 5; ++i) {
            MPI_Recv(out, LARGE, MPI_BYTE, MPI_ANY_SOURCE, TAG, comm, MPI_STATUS_IGNORE);
        }
        _exit(0);
    }
    for (int i = 0; i < 1000000 && rc == MPI_SUCCESS; ++i) {
        rc = MPI_Send(out, i % 3 == 0 ? SMALL : LARGE, MPI_BYTE, failed, TAG, comm);
    }
    CHECK_CLASS(rc, MPIX_ERR_PROC_FAILED, "MPI_Send");
    free(out);
    exchange(comm, 1, 2);
}

static void revoked(MPI_Comm comm)
{
    unsigned char in[SMALL];
    MPI_Comm copy;
    int rank, rc;

    MPI_Comm_dup(comm, &copy);
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    if (rank == 0) {
        progress_for(0.2, comm);
        CHECK_CLASS(MPIX_Comm_revoke(copy), MPI_SUCCESS, "MPIX_Comm_revoke");
    }
    rc = MPI_Recv(in, SMALL, MPI_BYTE, rank % 2 ? MPI_ANY_SOURCE : last_of(comm), TAG, copy,
                  MPI_STATUS_IGNORE);
    CHECK_CLASS(rc, MPIX_ERR_REVOKED, "MPI_Recv on a revoked communicator");
    CHECK_CLASS(MPI_Barrier(copy), MPIX_ERR_REVOKED, "MPI_Barrier on a revoked communicator");
    exchange(comm, 0, 3);
    MPI_Barrier(comm);
    MPI_Comm_free(&copy);
}

static void check_sum(MPI_Comm comm)
{
    const int ranks = last_of(comm) + 1;
    int64_t *values = malloc(100000 * sizeof *values), *sums = malloc(100000 * sizeof *sums);
    int rank;

    MPI_Comm_rank(comm, &rank);
    for (int i = 0; i < 100000; ++i) {
        values[i] = rank + i;
    }
    CHECK_CLASS(MPI_Allreduce(values, sums, 100000, MPI_INT64_T, MPI_SUM, comm), MPI_SUCCESS,
                "MPI_Allreduce after a shrink");
    for (int i = 0; i < 100000; ++i) {
        CHECK(sums[i] == (int64_t) ranks * i + ranks * (ranks - 1) / 2, "wrong sum %d", i);
    }
    free(values);
    free(sums);
}

static void shrink(MPI_Comm world)
{
    MPI_Comm comm, smaller;

    MPI_Comm_dup(world, &comm);
    while (last_of(comm) > 0) {
        int flag = 1, rc;
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        check_sum(comm);
        last_fails(comm);
        do {
            rc = MPI_Barrier(comm);
        } while (rc == MPI_SUCCESS);
        CHECK(class_of(rc) == MPIX_ERR_PROC_FAILED || class_of(rc) == MPIX_ERR_REVOKED,
              "MPI_Barrier: %s", name_of(class_of(rc)));
        MPIX_Comm_revoke(comm);
        CHECK_CLASS(MPIX_Comm_shrink(comm, &smaller), MPI_SUCCESS, "MPIX_Comm_shrink");
        CHECK(last_of(smaller) == last_of(comm) - 1, "%d ranks are left of %d",
              last_of(smaller) + 1, last_of(comm) + 1);
        CHECK_CLASS(MPIX_Comm_agree(smaller, &flag), MPI_SUCCESS, "MPIX_Comm_agree");
        MPI_Comm_free(&comm);
        comm = smaller;
    }
    check_sum(comm);
    MPI_Comm_free(&comm);
}

static const struct {
    const char *name;
    void (*run)(MPI_Comm comm);
} kinds[] = {{"iprobe", iprobe}, {"pending", pending}, {"receive", receive},
             {"send", send},     {"revoke", revoked},  {"shrink", shrink}};

/* Without MPI_Finalize, a rank ends when the others need nothing of it any more. */
static void end(bool finalize)
{
    if (finalize) {
        check_end();
        return;
    }
    progress_for(1, MPI_COMM_SELF);
    if (check_rank == 0) {
        printf("%s: ok\n", check_name);
        fflush(stdout);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "survivors", 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
        if (argc > 1 && strcmp(argv[1], kinds[i].name) == 0) {
            kinds[i].run(MPI_COMM_WORLD);
            end(argc > 2 && strcmp(argv[2], "finalize") == 0);
            return 0;
        }
    }
    FAIL("no kind of test \"%s\"", argc > 1 ? argv[1] : "");
}

#else

int main(int argc, char **argv)
{
    return check_skip(&argc, &argv);
}

#endif
