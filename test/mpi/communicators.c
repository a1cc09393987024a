// SPDX-License-Identifier: BSD-3-Clause
/*
 * Many communicators, made and freed in loops with traffic. Messages stay within their
 * communicator although source and tag are the same; ranks are those of the communicator; a
 * communicator may be freed while its messages are under way; messages that nobody has received go
 * with it. Arguments: rounds (150 if absent).
 */
#include "check.h"

enum {
    TOGETHER = 24
};

static void separate(void)
{
    MPI_Comm comms[TOGETHER];
    MPI_Request requests[TOGETHER];
    int out[TOGETHER], to = (check_rank + 1) % check_ranks,
                       from = (check_rank - 1 + check_ranks) % check_ranks;
    for (int i = 0; i < TOGETHER; ++i) {
        MPI_Comm_dup(i ? comms[i / 2] : MPI_COMM_WORLD, &comms[i]);
    }
    for (int i = 0; i < TOGETHER; ++i) {
        out[i] = check_rank * 100 + i;
        MPI_Isend(&out[i], 1, MPI_INT, to, 1, comms[i], &requests[i]);
    }
    for (int i = TOGETHER - 1; i >= 0; --i) {
        int in = -1;
        MPI_Recv(&in, 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : from, i % 3 ? MPI_ANY_TAG : 1, comms[i],
                 MPI_STATUS_IGNORE);
        CHECK(in == from * 100 + i, "communicator %d of %d delivered %d, expected %d", i, TOGETHER,
              in, from * 100 + i);
    }
    MPI_Waitall(TOGETHER, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < TOGETHER; ++i) {
        MPI_Comm_free(&comms[i]);
    }
}

static void exchange(MPI_Comm comm, size_t bytes, int salt)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int to = (rank + 1) % size, from = (rank - 1 + size) % size;
    unsigned char *out = guarded_new(bytes, 0), *in = guarded_new(bytes, 0);
    MPI_Status status;
    fill(out, bytes, key_of(rank, 2, bytes, (uint64_t) salt));
    MPI_Sendrecv(out, (int) bytes, MPI_BYTE, to, 2, in, (int) bytes, MPI_BYTE, from, 2, comm,
                 &status);
    CHECK_STATUS(&status, from, 2, bytes, "on a new communicator");
    CHECK_BYTES(in, bytes, key_of(from, 2, bytes, (uint64_t) salt), "on a new communicator");
    CHECK_GUARD(in, bytes, "on a new communicator");
    guarded_free(out, 0);
    guarded_free(in, 0);
}

/* Messages that are under way when their communicator is freed still arrive. */
static void freed_early(int round)
{
    enum {
        COUNT = 6
    };
    MPI_Comm comm;
    MPI_Request requests[2 * COUNT];
    unsigned char *out[COUNT], *in[COUNT];
    int to = (check_rank + 1) % check_ranks, from = (check_rank - 1 + check_ranks) % check_ranks;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < COUNT; ++i) {
        size_t bytes = mixed_size((uint64_t) (round + i));
        out[i] = malloc(bytes + 1);
        in[i] = malloc(bytes + 1);
        fill(out[i], bytes, key_of(check_rank, i, bytes, (uint64_t) round));
        MPI_Irecv(in[i], (int) bytes, MPI_BYTE, from, i, comm, &requests[i]);
        MPI_Isend(out[i], (int) bytes, MPI_BYTE, to, i, comm, &requests[COUNT + i]);
    }
    MPI_Comm_free(&comm);
    MPI_Waitall(2 * COUNT, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COUNT; ++i) {
        size_t bytes = mixed_size((uint64_t) (round + i));
        CHECK_BYTES(in[i], bytes, key_of(from, i, bytes, (uint64_t) round),
                    "on a freed communicator");
        free(out[i]);
        free(in[i]);
    }
}

/* Messages that nobody receives do not reach the next communicator, which has the same number. */
static void reused_number(int round)
{
    MPI_Comm comms[2];
    int to = (check_rank + 1 + round % (check_ranks - 1)) % check_ranks, in = -1;
    int from = (2 * check_ranks - 1 - round % (check_ranks - 1) + check_rank) % check_ranks;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    for (int tag = 0; tag < 3; ++tag) {
        MPI_Send(&tag, 1, MPI_INT, to, tag, comms[0]);
    }
    MPI_Barrier(comms[0]);
    MPI_Comm_free(&comms[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    for (int tag = 0; tag < 3; ++tag) {
        const int sent = 1000 + round + tag;
        MPI_Status status;
        MPI_Send(&sent, 1, MPI_INT, to, tag, comms[1]);
        MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, tag, comms[1], &status);
        CHECK_STATUS(&status, from, tag, sizeof in, "on a communicator with a used number");
        CHECK(in == sent, "%d came where %d was sent: of the last communicator", in, sent);
    }
    MPI_Comm_free(&comms[1]);
}

static void parts(int round)
{
    MPI_Comm half, backwards, some;
    MPI_Group world, group;
    int sum = 0, members[1] = {round % check_ranks}, rank;
    MPI_Comm_split(MPI_COMM_WORLD, (check_rank + round) % 2 ? 1 : 0, check_rank, &half);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &backwards);
    MPI_Comm_rank(backwards, &rank);
    CHECK(rank == check_ranks - 1 - check_rank, "rank %d in the reversed communicator", rank);
    exchange(half, mixed_size((uint64_t) round), round);
    exchange(backwards, mixed_size((uint64_t) round + 1), round);
    MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, backwards);
    CHECK(sum == check_ranks * (check_ranks - 1) / 2, "Allreduce gave %d", sum);
    /* A communicator of all ranks but one, which does not take part in making it. */
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_excl(world, 1, members, &group);
    if (check_rank != members[0]) {
        MPI_Comm_create_group(MPI_COMM_WORLD, group, round, &some);
        exchange(some, 5000, round);
        MPI_Comm_free(&some);
    }
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    MPI_Comm_free(&half);
    MPI_Comm_free(&backwards);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "communicators", 2);
    int rounds = argc > 1 ? atoi(argv[1]) : 150;
    for (int round = 0; round < rounds; ++round) {
        MPI_Comm copy;
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        exchange(copy, mixed_size((uint64_t) round), round);
        MPI_Comm_free(&copy);
        freed_early(round);
        reused_number(round);
        if (round % 5 == 0) {
            separate();
            parts(round);
        }
    }
    check_end();
    return 0;
}
