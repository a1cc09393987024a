// SPDX-License-Identifier: BSD-3-Clause
/*
 * Ranks that so far exchanged messages only with their neighbor contact other ranks for the first
 * time late in the job: by a large synchronous send, by both at once, by a burst, into a wildcard
 * receive, through a probe, and on a new communicator. Arguments: first contact
 * (eager|large|burst|wildcard|communicator).
 */
#include "check.h"

enum {
    BURST = 400,
    NEIGHBOUR = 3000,
    LARGE = 1500000
};

/* Ranks 0 and 1, 2 and 3 … exchange many messages; an odd last rank sends to itself. */
static void talk_to_neighbour(void)
{
    int peer = check_rank ^ 1, in = -1;
    peer = peer < check_ranks ? peer : check_rank;
    for (int i = 0; i < NEIGHBOUR; ++i) {
        int out = check_rank * 10000 + i;
        MPI_Sendrecv(&out, 1, MPI_INT, peer, 1, &in, 1, MPI_INT, peer, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        CHECK(in == peer * 10000 + i, "the neighbour's message %d has %d", i, in);
    }
}

static void check_received(unsigned char *in, const MPI_Status *status, int from, int tag,
                           size_t bytes, const char *what)
{
    CHECK_STATUS(status, from, tag, bytes, what);
    CHECK_BYTES(in, bytes, key_of(from, tag, bytes, 0), what);
}

static void exchange(int to, int from, size_t bytes, bool wildcard, MPI_Comm comm)
{
    unsigned char *out = malloc(bytes + 1), *in = malloc(bytes + 1);
    MPI_Request requests[2];
    MPI_Status status;
    fill(out, bytes, key_of(check_rank, 2, bytes, 0));
    if (wildcard) {
        MPI_Irecv(in, (int) bytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[0]);
        MPI_Issend(out, (int) bytes, MPI_BYTE, to, 2, comm, &requests[1]);
    } else {
        MPI_Issend(out, (int) bytes, MPI_BYTE, to, 2, comm, &requests[1]);
        MPI_Probe(from, 2, comm, &status);
        check_status(__LINE__, &status, from, 2, bytes, "probe of a first message");
        MPI_Irecv(in, (int) bytes, MPI_BYTE, from, 2, comm, &requests[0]);
    }
    MPI_Wait(&requests[0], &status);
    check_received(in, &status, from, 2, bytes, "first message");
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    free(out);
    free(in);
}

/* The first contact is many messages at once, of all sizes; they keep their order. */
static void burst(int to, int from)
{
    unsigned char *out[BURST], *in = malloc(300000);
    MPI_Request requests[BURST];
    for (int i = 0; i < BURST; ++i) {
        size_t bytes = mixed_size((uint64_t) i);
        out[i] = malloc(bytes + 1);
        fill(out[i], bytes, key_of(check_rank, i % 2, bytes, 0));
        MPI_Isend(out[i], (int) bytes, MPI_BYTE, to, i % 2, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < BURST; ++i) {
        MPI_Status status;
        MPI_Recv(in, 300000, MPI_BYTE, from, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        check_received(in, &status, from, i % 2, mixed_size((uint64_t) i), "first burst");
    }
    MPI_Waitall(BURST, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < BURST; ++i) {
        free(out[i]);
    }
    free(in);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "late_contact", 2);
    CHECK(argc == 2, "arguments: eager|large|burst|wildcard|communicator");
    const char *kind = argv[1];
    talk_to_neighbour();
    /* Without a barrier, so that the ranks come here at different times. */
    for (int distance = check_ranks - 1; distance > 0; --distance) {
        int to = (check_rank + distance) % check_ranks;
        int from = (check_rank - distance + check_ranks) % check_ranks;
        if (strcmp(kind, "burst") == 0) {
            burst(to, from);
        } else if (strcmp(kind, "communicator") == 0) {
            MPI_Comm copy;
            MPI_Comm_dup(MPI_COMM_WORLD, &copy);
            exchange(to, from, LARGE / 3, false, copy);
            MPI_Comm_free(&copy);
        } else if (strcmp(kind, "wildcard") == 0) {
            exchange(to, from, distance % 2 ? 10 : LARGE, true, MPI_COMM_WORLD);
            MPI_Barrier(MPI_COMM_WORLD);
        } else {
            CHECK(strcmp(kind, "eager") == 0 || strcmp(kind, "large") == 0, "'%s' is unknown",
                  kind);
            exchange(to, from, strcmp(kind, "eager") == 0 ? 100 : LARGE, false, MPI_COMM_WORLD);
        }
        talk_to_neighbour();
    }
    check_end();
    return 0;
}
