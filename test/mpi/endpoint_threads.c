// SPDX-License-Identifier: BSD-3-Clause
/*
 * Threads and the endpoints of a process (the parameter `endpoints`): a thread that computes while
 * messages arrive at the endpoint that it used last, one thread over all endpoints in turn, threads
 * that end while others begin, messages of a process to itself, and errors beside other threads'
 * messages. Arguments: numbers of endpoints, then names of parts (endpoints.h).
 */
#include "endpoints.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------
 * Messages of a process to itself, over each endpoint */

static void *sends_to_itself(void *context)
{
    static const size_t sizes[] = {0, 1, 1000, 9000, LONG};
    const worker_t *worker = context;
    unsigned char *in = malloc(LONG), *out = malloc(LONG);
    for (int i = worker->number; i < COMMS; i += THREADS) {
        for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; ++size) {
            const size_t bytes = sizes[size];
            const uint64_t key = key_of(check_rank, i, bytes, size);
            MPI_Request request;
            MPI_Status status;
            fill(out, bytes, key);
            MPI_Sendrecv(out, (int) bytes, MPI_BYTE, check_rank, i, in, LONG, MPI_BYTE, check_rank,
                         i, comms[i], &status);
            CHECK_STATUS(&status, check_rank, i, bytes, "to itself");
            CHECK_BYTES(in, bytes, key, "to itself");
            memset(in, 0, bytes);
            MPI_Issend(out, (int) bytes, MPI_BYTE, check_rank, i, comms[i], &request);
            MPI_Recv(in, LONG, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[i], &status);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            CHECK_STATUS(&status, check_rank, i, bytes, "to itself, synchronously");
            CHECK_BYTES(in, bytes, key, "to itself, synchronously");
        }
    }
    free(in);
    free(out);
    return NULL;
}

static void itself(void)
{
    run_threads(sends_to_itself, NULL, MPI_COMM_NULL, NULL);
}

/* ------------------------------------------------------------------------------------------------
 * Errors that are returned: truncated messages, short and long, beside others */

static void *truncates(void *context)
{
    const MPI_Comm comm = ((const worker_t *) context)->comm;
    unsigned char *out = malloc(LONG), *in = guarded_new(100, 0);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int round = 0; round < ROUNDS; ++round) {
        const int bytes = round % 2 == 0 ? 101 + round : LONG;
        int class = -1;
        MPI_Request request;
        fill(out, (size_t) bytes, key_of(check_rank, 1, (size_t) bytes, 5));
        MPI_Isend(out, bytes, MPI_BYTE, to, 1, comm, &request);
        MPI_Error_class(MPI_Recv(in, 100, MPI_BYTE, from, 1, comm, MPI_STATUS_IGNORE), &class);
        CHECK(class == MPI_ERR_TRUNCATE, "error class %d instead of truncation", class);
        CHECK_GUARD(in, 100, "truncated");
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS, "a send that was truncated");
        around(comm, 2, mixed_size((uint64_t) round), 1);
    }
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
    guarded_free(in, 0);
    free(out);
    return NULL;
}

static void truncations(void)
{
    for (int first = 0; first < COMMS; first += THREADS) {
        run_threads(truncates, &comms[first], MPI_COMM_NULL, NULL);
    }
}

/* ------------------------------------------------------------------------------------------------
 * A thread that computes holds up no message: others make progress of its endpoint */

static atomic_int awake;
static MPI_Comm computing_comm;

static void *computes(void *unused)
{
    unsigned char *in = malloc(2 * (size_t) LONG);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    (void) unused;
    for (int i = 0; i < 200; ++i) { /* the endpoint's lock is this thread's now */
        around(computing_comm, 1, 8, (uint64_t) i);
    }
    MPI_Irecv(in, LONG, MPI_BYTE, from, 2, computing_comm, &requests[0]);
    MPI_Irecv(in + LONG, LONG, MPI_BYTE, from, 3, computing_comm, &requests[1]);
    usleep(700000);
    atomic_store(&awake, 1);
    MPI_Waitall(2, requests, statuses);
    CHECK_STATUS(&statuses[0], from, 2, LONG, "while computing");
    CHECK_STATUS(&statuses[1], from, 3, 100, "while computing");
    CHECK_BYTES(in, LONG, key_of(from, 2, LONG, 0), "while computing");
    CHECK_BYTES(in + LONG, 100, key_of(from, 3, 100, 0), "while computing");
    free(in);
    return NULL;
}

/* A thread of each rank computes; the other one sends to the next rank's, then waits for word that
 * the messages of this rank's have arrived. */
static void computing_on(MPI_Comm comm, MPI_Comm other)
{
    pthread_t thread;
    unsigned char *out = malloc(LONG);
    int word = 0;
    MPI_Request request;
    computing_comm = comm;
    atomic_store(&awake, 0);
    CHECK(pthread_create(&thread, NULL, computes, NULL) == 0, "no thread");
    fill(out, LONG, key_of(check_rank, 2, LONG, 0));
    MPI_Ssend(out, LONG, MPI_BYTE, to, 2, comm);
    fill(out, 100, key_of(check_rank, 3, 100, 0));
    MPI_Ssend(out, 100, MPI_BYTE, to, 3, comm);
    MPI_Isend(&word, 1, MPI_INT, to, 4, other, &request);
    MPI_Recv(&word, 1, MPI_INT, from, 4, other, MPI_STATUS_IGNORE);
    CHECK(!atomic_load(&awake), "messages to a thread that computes waited for it");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    pthread_join(thread, NULL);
    free(out);
}

static void computing(void)
{
    computing_on(comms[1], comms[0]);
    computing_on(comms[2], comms[3]);
    computing_on(comms[5], comms[5]);
}

/* ------------------------------------------------------------------------------------------------
 * One thread over all endpoints in turn */

static void turn(void)
{
    unsigned char in[COMMS][64], out[COMMS][64];
    MPI_Request requests[2 * COMMS];
    MPI_Status statuses[2 * COMMS];
    for (int round = 0; round < 40 * ROUNDS; ++round) {
        around(comms[round % COMMS], 1, (size_t) round % 100, (uint64_t) round);
        const uint64_t salt = (uint64_t) round;
        for (int i = 0; i < COMMS; ++i) {
            fill(out[i], 64, key_of(check_rank, i, 64, salt));
            MPI_Irecv(in[i], 64, MPI_BYTE, i % 2 ? MPI_ANY_SOURCE : from, i, comms[i],
                      &requests[i]);
        }
        for (int i = COMMS - 1; i >= 0; --i) {
            MPI_Isend(out[i], 64, MPI_BYTE, to, i, comms[i], &requests[COMMS + i]);
        }
        MPI_Waitall(2 * COMMS, requests, statuses);
        for (int i = 0; i < COMMS; ++i) {
            CHECK_STATUS(&statuses[i], from, i, 64, "in turn");
            CHECK_BYTES(in[i], 64, key_of(from, i, 64, salt), "in turn");
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Threads that end and others that begin: the requests that a thread kept go to later ones */

enum {
    GENERATIONS = 120, /* of THREADS threads */
    AT_ONCE = 100      /* receives of a thread, fewer than it keeps */
};

static void *lives_briefly(void *context)
{
    const worker_t *worker = context;
    MPI_Request requests[AT_ONCE + 1];
    MPI_Status statuses[AT_ONCE + 1];
    int in[AT_ONCE], out = check_rank;
    for (int i = 0; i < AT_ONCE; ++i) {
        MPI_Irecv(&in[i], 1, MPI_INT, from, worker->number, worker->comm, &requests[i]);
    }
    for (int i = 0; i < AT_ONCE; ++i) {
        MPI_Send(&out, 1, MPI_INT, to, worker->number, worker->comm);
    }
    MPI_Irecv(&out, 1, MPI_INT, MPI_PROC_NULL, 0, worker->comm, &requests[AT_ONCE]);
    MPI_Waitall(AT_ONCE + 1, requests, statuses);
    for (int i = 0; i < AT_ONCE; ++i) {
        CHECK_STATUS(&statuses[i], from, worker->number, sizeof(int), "by a brief thread");
        CHECK(in[i] == from, "by a brief thread: %d", in[i]);
    }
    return NULL;
}

/* Most memory that threads may leave behind. ThreadSanitizer's build sets another bound, since it
 * keeps a history of each thread. */
#ifndef MOST_LEFT_KIB
#define MOST_LEFT_KIB 8192
#endif

static void births(void)
{
    struct rusage before, after;
    for (int i = 0; i < GENERATIONS; ++i) {
        if (i == GENERATIONS / 4) {
            getrusage(RUSAGE_SELF, &before);
        }
        run_threads(lives_briefly, &comms[i % (COMMS - THREADS)], MPI_COMM_NULL, NULL);
    }
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < MOST_LEFT_KIB, "%d threads took %ld KiB",
          GENERATIONS * THREADS * 3 / 4, after.ru_maxrss - before.ru_maxrss);
}

/* A thread that goes on after MPI_Finalize, with the requests that it keeps. */
static atomic_int finalized;

static void *ends_late(void *context)
{
    lives_briefly(context);
    atomic_fetch_add(&finalized, 1); /* ready */
    while (atomic_load(&finalized) < 2) {
        usleep(1000);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const part_t parts[] = {{"itself", itself},
                                   {"truncations", truncations},
                                   {"computing", computing},
                                   {"turn", turn},
                                   {"births", births}};
    pthread_t late;
    worker_t worker = {0, MPI_COMM_WORLD};
    endpoints_begin(&argc, &argv, "endpoint_threads");
    run_parts(argc, argv, parts, (int) (sizeof parts / sizeof parts[0]));
    CHECK(pthread_create(&late, NULL, ends_late, &worker) == 0, "no thread");
    while (atomic_load(&finalized) < 1) {
        usleep(1000);
    }
    endpoints_end();
    atomic_fetch_add(&finalized, 1);
    pthread_join(late, NULL);
    return 0;
}
