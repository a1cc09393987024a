// SPDX-License-Identifier: BSD-3-Clause
/*
 * Uses of a request besides waiting for it: the program frees it while it is active, also in one
 * thread while another thread's progress completes it; it goes through a Fortran handle; its
 * communicator is freed before it; another request ends with an error. And types whose data is
 * contiguous but does not begin at the buffer's address, or is contiguous for one element only.
 * Arguments: threads|alone; then shortcut, if sends that complete at once must not have requests of
 * their own, or ob1, where a truncated message of a process to itself is no error (Open MPI 4.1.4,
 * with any BTL).
 */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

enum {
    GIVEN_UP = 40,
    RACES = 3000,
    REPEATED = 100000,
    SECONDS = 60
};

static int to, from;

/* Waits until a receive whose request is freed writes the byte. */
static void await_byte(const unsigned char *byte, unsigned char value, const char *what)
{
    const double end = MPI_Wtime() + SECONDS;
    while (*(const volatile unsigned char *) byte != value) {
        CHECK(MPI_Wtime() < end, "%s: nothing received within %d s", what, SECONDS);
        progress_for(1e-5, MPI_COMM_WORLD);
    }
}

/* A receive goes on after MPI_Request_free. */
static void given_up(void)
{
    unsigned char *in[GIVEN_UP], *out[GIVEN_UP];
    MPI_Request requests[GIVEN_UP];
    for (int i = 0; i < GIVEN_UP; ++i) {
        const size_t bytes = mixed_size((uint64_t) i);
        const uint64_t key = key_of(check_rank, i, bytes, 0);
        in[i] = guarded_new(bytes, 0);
        out[i] = malloc(bytes + 1);
        fill(out[i], bytes, key);
        MPI_Request request;
        MPI_Irecv(in[i], (int) bytes, MPI_BYTE, from, i, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
        CHECK(request == MPI_REQUEST_NULL, "request %d is there after it was freed", i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < GIVEN_UP; ++i) {
        MPI_Isend(out[i], (int) mixed_size((uint64_t) i), MPI_BYTE, to, i, MPI_COMM_WORLD,
                  &requests[i]);
    }
    for (int i = 0; i < GIVEN_UP; ++i) {
        const size_t bytes = mixed_size((uint64_t) i);
        const uint64_t key = key_of(from, i, bytes, 0);
        /* Waits for each byte, since they may arrive in any order. */
        for (size_t at = 0; at < bytes; ++at) {
            if (in[i][at] != byte_of(key, at)) {
                await_byte(&in[i][at], byte_of(key, at), "given up");
            }
        }
    }
    MPI_Waitall(GIVEN_UP, requests, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < GIVEN_UP; ++i) {
        CHECK_GUARD(in[i], mixed_size((uint64_t) i), "given up");
        guarded_free(in[i], 0);
        free(out[i]);
    }
}

/* Frees many active requests; their memory must be reused. */
static void given_up_often(void)
{
    struct rusage before, after;
    unsigned char in = 0, out = 1;
    for (int i = 0; i < REPEATED; ++i) {
        MPI_Request request;
        if (i == REPEATED / 10) {
            getrusage(RUSAGE_SELF, &before);
        }
        in = 0;
        MPI_Irecv(&in, 1, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_SELF, &request);
        MPI_Request_free(&request);
        MPI_Irecv(&in, 1, MPI_BYTE, 0, 1, MPI_COMM_SELF, &request);
        MPI_Request_free(&request);
        MPI_Send(&out, 1, MPI_BYTE, 0, 1, MPI_COMM_SELF);
        progress_for(1e-7, MPI_COMM_WORLD);
        await_byte(&in, 1, "given up often");
    }
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < 4096, "%d requests given up took %ld KiB", REPEATED,
          after.ru_maxrss - before.ru_maxrss);
}

/* One thread frees a receive request while another thread's progress completes it at about the same
 * time. */
static atomic_bool race_over;

static void *makes_progress(void *unused)
{
    (void) unused;
    while (!atomic_load(&race_over)) {
        progress_for(1e-6, MPI_COMM_WORLD);
    }
    return NULL;
}

static void given_up_in_a_race(void)
{
    static unsigned char in[RACES], out[RACES];
    pthread_t thread;
    atomic_store(&race_over, false);
    CHECK(pthread_create(&thread, NULL, makes_progress, NULL) == 0, "no thread");
    memset(in, 0, sizeof in);
    for (int i = 0; i < RACES; ++i) {
        MPI_Request request, sent;
        out[i] = (unsigned char) (1 + i % 255);
        MPI_Irecv(&in[i], 1, MPI_BYTE, from, 2, MPI_COMM_WORLD, &request);
        MPI_Isend(&out[i], 1, MPI_BYTE, to, 2, MPI_COMM_WORLD, &sent);
        for (volatile int spin = 0; spin < i % 500; ++spin) {
        }
        MPI_Request_free(&request);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
        await_byte(&in[i], (unsigned char) (1 + i % 255), "given up in a race");
    }
    atomic_store(&race_over, true);
    pthread_join(thread, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void fortran_handles(void)
{
    int value = -1, number = check_rank + 7;
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Fint handles[2];
    MPI_Irecv(&value, 1, MPI_INT, from, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&number, 1, MPI_INT, to, 3, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 2; ++i) {
        handles[i] = MPI_Request_c2f(requests[i]);
        CHECK(MPI_Request_f2c(handles[i]) == requests[i], "handle %d of request %d is another's",
              (int) handles[i], i);
    }
    CHECK(handles[0] != MPI_Request_c2f(MPI_REQUEST_NULL), "the handle of a null request");
    MPI_Wait(&requests[0], &status);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    CHECK_STATUS(&status, from, 3, sizeof(int), "with a handle");
    CHECK(value == from + 7, "value %d, expected %d", value, from + 7);
}

/* A new communicator must not get the number of a freed one on which a receive still waits. */
static void outlives_communicator(void)
{
    MPI_Comm first, second;
    MPI_Request early, late;
    int value = -1, other = -1;
    int sent[2] = {check_rank + 1000, check_rank + 2000};
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Irecv(&value, 1, MPI_INT, from, 4, first, &early);
    MPI_Irecv(&other, 1, MPI_INT, from, 4, first, &late);
    MPI_Cancel(&late);
    MPI_Request_free(&late);
    MPI_Isend(&sent[0], 1, MPI_INT, to, 4, first, &late);
    MPI_Comm_free(&first);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    MPI_Sendrecv(&sent[1], 1, MPI_INT, to, 4, &other, 1, MPI_INT, from, 4, second,
                 MPI_STATUS_IGNORE);
    CHECK(other == from + 2000, "on the new communicator %d, expected %d", other, from + 2000);
    MPI_Wait(&early, MPI_STATUS_IGNORE);
    CHECK(value == from + 1000, "on the freed communicator %d, expected %d", value, from + 1000);
    MPI_Wait(&late, MPI_STATUS_IGNORE);
    MPI_Comm_free(&second);
}

/* The error of one receive must not end another one, even if the other reuses the request of a
 * third receive that ended with an error. */
static void error_beside_another(void)
{
    const int out[2] = {77, 78};
    int in[2] = {-1, -1}, indices[2], ended = 0, class = -1, code = MPI_SUCCESS;
    MPI_Request requests[2], sent;
    MPI_Status statuses[2];
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Irecv(&in[0], 1, MPI_INT, 0, 1, comm, &requests[0]);
    MPI_Isend(out, 2, MPI_INT, 0, 1, comm, &sent);
    MPI_Error_class(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), &class);
    CHECK(class == MPI_ERR_TRUNCATE, "error class %d instead of truncation", class);
    MPI_Irecv(&in[0], 1, MPI_INT, 0, 2, comm, &requests[0]);
    MPI_Irecv(&in[1], 1, MPI_INT, 0, 3, comm, &requests[1]);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    MPI_Isend(out, 2, MPI_INT, 0, 3, comm, &sent);
    while (ended == 0) {
        code = MPI_Testsome(2, requests, &ended, indices, statuses);
    }
    CHECK(code == MPI_ERR_IN_STATUS && ended == 1 && indices[0] == 1
              && statuses[0].MPI_ERROR == MPI_ERR_TRUNCATE,
          "no error, or not of the second receive alone");
    CHECK(requests[0] != MPI_REQUEST_NULL, "a receive is gone with another's error");
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    MPI_Isend(out, 1, MPI_INT, 0, 2, comm, &sent);
    MPI_Wait(&requests[0], &statuses[0]);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    CHECK_STATUS(&statuses[0], 0, 2, sizeof(int), "beside an error");
    CHECK(in[0] == 77, "%d instead of 77 beside an error", in[0]);
    MPI_Comm_free(&comm);
}

/* Sends `count` elements of `type` from `out`, and receives as many of the same type into `in`. */
static void exchange(MPI_Datatype type, int count, int *out, int *in, size_t bytes, bool blocking)
{
    MPI_Request request;
    MPI_Status status;
    if (blocking) {
        MPI_Isend(out, count, type, to, 5, MPI_COMM_WORLD, &request);
        MPI_Recv(in, count, type, from, 5, MPI_COMM_WORLD, &status);
    } else {
        MPI_Irecv(in, count, type, from, 5, MPI_COMM_WORLD, &request);
        MPI_Send(out, count, type, to, 5, MPI_COMM_WORLD);
        MPI_Wait(&request, &status);
        CHECK_STATUS(&status, from, 5, bytes, "a type");
        return;
    }
    CHECK_STATUS(&status, from, 5, bytes, "a type");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Elements of three ints that begin 4 ints behind the buffer's address; an element's extent is 3
 * ints, or 8 with gaps. */
static void types(bool gaps, int count, bool blocking)
{
    int in[32], out[32], length = 3, place = 4 * (int) sizeof(int);
    MPI_Datatype block, type;
    MPI_Type_create_hindexed(1, &length, &(MPI_Aint){place}, MPI_INT, &block);
    MPI_Type_create_resized(block, place, (gaps ? 8 : 3) * (MPI_Aint) sizeof(int), &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < 32; ++i) {
        in[i] = -1;
        out[i] = 100 * check_rank + i;
    }
    exchange(type, count, out, in, (size_t) count * 3 * sizeof(int), blocking);
    for (int i = 0; i < 32; ++i) {
        const int element = i < 4 ? -1 : (i - 4) / (gaps ? 8 : 3);
        const bool covered = i >= 4 && element < count && (i - 4) % (gaps ? 8 : 3) < 3;
        const int expected = covered ? 100 * from + i : -1;
        CHECK(in[i] == expected, "%d elements, %s: number %d is %d, expected %d", count,
              gaps ? "with gaps" : "without gaps", i, in[i], expected);
    }
    MPI_Type_free(&block);
    MPI_Type_free(&type);
}

static void no_request_of_its_own(void)
{
    MPI_Request requests[2];
    int in[2], out[2] = {1, 2};
    for (int i = 0; i < 2; ++i) {
        MPI_Isend(&out[i], 1, MPI_INT, to, 6, MPI_COMM_WORLD, &requests[i]);
    }
    CHECK(requests[0] == requests[1], "sends that are done have requests of their own");
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; ++i) {
        MPI_Recv(&in[i], 1, MPI_INT, from, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(in[i] == out[i], "message %d is %d", i, in[i]);
    }
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    check_begin_threads(&argc, &argv, "requests", 2,
                        threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    to = (check_rank + 1) % check_ranks;
    from = (check_rank - 1 + check_ranks) % check_ranks;
    for (int round = 0; round < 5; ++round) {
        given_up();
        fortran_handles();
        outlives_communicator();
        if (argc < 3 || strcmp(argv[2], "ob1") != 0) {
            error_beside_another();
        }
        for (int kind = 0; kind < 16; ++kind) {
            types(kind & 1, kind / 4, kind & 2);
        }
    }
    given_up_often();
    if (argc > 2 && strcmp(argv[2], "shortcut") == 0) {
        no_request_of_its_own();
    }
    if (threads) {
        given_up_in_a_race();
    }
    check_end();
    return 0;
}
