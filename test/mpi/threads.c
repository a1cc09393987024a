// SPDX-License-Identifier: BSD-3-Clause
/*
 * MPI_THREAD_MULTIPLE: several threads per rank send and receive at once, each on its own
 * communicator or all on one with a tag of its own each, blocking and non-blocking, with probes.
 * One more thread runs collectives meanwhile. Arguments: own|shared, threads, rounds.
 */
#include "check.h"

#include <pthread.h>

enum {
    ROOM = 262144,
    LIMIT = 16,
    WINDOW = 8
};

static int threads, rounds;
static MPI_Comm comms[LIMIT], collective_comm;

/* Exchanges WINDOW non-blocking messages to the next rank and from the one before. */
static void window(MPI_Comm comm, int thread, int round, unsigned char *out, unsigned char *in)
{
    int to = (check_rank + 1) % check_ranks, from = (check_rank - 1 + check_ranks) % check_ranks;
    MPI_Request requests[2 * WINDOW];
    for (int i = 0; i < WINDOW; ++i) {
        MPI_Irecv(in + i * 8192, 8192, MPI_BYTE, from, thread, comm, &requests[i]);
    }
    for (int i = 0; i < WINDOW; ++i) {
        size_t bytes = (size_t) (round * 131 + i * 1000) % 8193;
        fill(out + i * 8192, bytes,
             key_of(check_rank, thread, bytes, (uint64_t) (round * 100 + i)));
        MPI_Isend(out + i * 8192, (int) bytes, MPI_BYTE, to, thread, comm, &requests[WINDOW + i]);
    }
    MPI_Status statuses[2 * WINDOW];
    MPI_Waitall(2 * WINDOW, requests, statuses);
    for (int i = 0; i < WINDOW; ++i) {
        size_t bytes = (size_t) (round * 131 + i * 1000) % 8193;
        CHECK_STATUS(&statuses[i], from, thread, bytes, "window of a thread");
        CHECK_BYTES(in + i * 8192, bytes, key_of(from, thread, bytes, (uint64_t) (round * 100 + i)),
                    "window of a thread");
    }
}

static void *exchange(void *context)
{
    int thread = *(int *) context;
    MPI_Comm comm = comms[thread];
    int to = (check_rank + 1) % check_ranks, from = (check_rank - 1 + check_ranks) % check_ranks;
    unsigned char *out = malloc(ROOM), *in = malloc(ROOM);
    for (int round = 0; round < rounds; ++round) {
        size_t bytes = mixed_size((uint64_t) (round + thread * 1000));
        uint64_t salt = (uint64_t) round;
        MPI_Status status;
        MPI_Request request;
        fill(out, bytes, key_of(check_rank, thread, bytes, salt));
        if (round % 3 == 0) {
            MPI_Sendrecv(out, (int) bytes, MPI_BYTE, to, thread, in, ROOM, MPI_BYTE, from, thread,
                         comm, &status);
        } else if (round % 3 == 1) {
            MPI_Issend(out, (int) bytes, MPI_BYTE, to, thread, comm, &request);
            MPI_Probe(from, thread, comm, &status);
            CHECK_STATUS(&status, from, thread, bytes, "probe by a thread");
            MPI_Recv(in, ROOM, MPI_BYTE, from, thread, comm, &status);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            int flag = 0;
            MPI_Irecv(in, ROOM, MPI_BYTE, from, thread, comm, &request);
            MPI_Send(out, (int) bytes, MPI_BYTE, to, thread, comm);
            while (!flag) {
                MPI_Test(&request, &flag, &status);
            }
        }
        CHECK_STATUS(&status, from, thread, bytes, "by a thread");
        CHECK_BYTES(in, bytes, key_of(from, thread, bytes, salt), "by a thread");
        window(comm, thread, round, out, in);
    }
    free(out);
    free(in);
    return NULL;
}

static void *collectives(void *context)
{
    (void) context;
    for (int round = 0; round < rounds; ++round) {
        int sum = -1, word = check_rank == round % check_ranks ? round : -1;
        MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, collective_comm);
        CHECK(sum == check_ranks * (check_ranks - 1) / 2, "Allreduce by a thread gave %d", sum);
        MPI_Bcast(&word, 1, MPI_INT, round % check_ranks, collective_comm);
        CHECK(word == round, "Bcast by a thread gave %d, expected %d", word, round);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    check_begin_threads(&argc, &argv, "threads", 2, MPI_THREAD_MULTIPLE);
    CHECK(argc == 4, "arguments: own|shared, threads, rounds");
    bool own = strcmp(argv[1], "own") == 0;
    threads = atoi(argv[2]);
    rounds = atoi(argv[3]);
    CHECK(threads > 0 && threads < LIMIT, "%d threads", threads);
    pthread_t ids[LIMIT];
    int numbers[LIMIT];
    MPI_Comm_dup(MPI_COMM_WORLD, &collective_comm);
    for (int i = 0; i < threads; ++i) {
        comms[i] = MPI_COMM_WORLD;
        if (own) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        }
    }
    for (int i = 0; i < threads; ++i) {
        numbers[i] = i;
        CHECK(pthread_create(&ids[i], NULL, exchange, &numbers[i]) == 0, "no thread");
    }
    collectives(NULL);
    for (int i = 0; i < threads; ++i) {
        pthread_join(ids[i], NULL);
    }
    for (int i = 0; i < threads && own; ++i) {
        MPI_Comm_free(&comms[i]);
    }
    MPI_Comm_free(&collective_comm);
    check_end();
    return 0;
}
