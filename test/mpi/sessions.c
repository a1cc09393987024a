// SPDX-License-Identifier: BSD-3-Clause
/*
 * Sessions (MPI 4): communicators from groups, whose processes number them differently, since some
 * of them have made others before; messages, wildcards, collectives and duplicates in them; an
 * intercommunicator from groups; sessions one after the other, and several at once, beside the
 * world model or without it. Arguments: alone|world, sessions. Skipped where MPI has no sessions.
 */
#include "check.h"

/* Open MPI 5.0 has much of MPI 4, and calls itself MPI 3.1. */
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)

static void exchange(MPI_Comm comm, int round)
{
    int rank, ranks, in = -1, sum = -1, wanted = 0;
    MPI_Status status;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    int out = 1000 * round + rank;
    MPI_Sendrecv(&out, 1, MPI_INT, to, round, &in, 1, MPI_INT, round % 2 ? from : MPI_ANY_SOURCE,
                 round % 3 ? round : MPI_ANY_TAG, comm, &status);
    CHECK(in == 1000 * round + from && status.MPI_SOURCE == from && status.MPI_TAG == round,
          "round %d, %d ranks: %d from %d with tag %d", round, ranks, in, status.MPI_SOURCE,
          status.MPI_TAG);
    MPI_Allreduce(&out, &sum, 1, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < ranks; ++i) {
        wanted += 1000 * round + i;
    }
    CHECK(sum == wanted, "round %d, %d ranks: a sum of %d, expected %d", round, ranks, sum, wanted);
}

static MPI_Comm from_group(MPI_Group group, const char *what, int round)
{
    MPI_Comm comm;
    char tag[64];
    snprintf(tag, sizeof tag, "adaptib.%s.%d", what, round);
    const int rc =
        MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    CHECK(rc == MPI_SUCCESS, "no communicator from a group: %d", rc);
    return comm;
}

/* The odd or the even ranks. */
static MPI_Group half_of(MPI_Group group, int parity)
{
    MPI_Group half;
    int size;
    MPI_Group_size(group, &size);
    int range[1][3] = {{parity, size - 1, 2}};
    MPI_Group_range_incl(group, 1, range, &half);
    return half;
}

static void between_halves(MPI_Group group, int rank, int round)
{
    MPI_Group mine = half_of(group, rank % 2), others = half_of(group, 1 - rank % 2);
    MPI_Comm inter;
    int out = rank, in = -1, remote;
    char tag[64];
    snprintf(tag, sizeof tag, "adaptib.inter.%d", round);
    MPI_Intercomm_create_from_groups(mine, 0, others, 0, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL,
                                     &inter);
    MPI_Comm_remote_size(inter, &remote);
    if (rank / 2 < remote) { /* rank r of one half and rank r of the other one */
        MPI_Sendrecv(&out, 1, MPI_INT, rank / 2, 5, &in, 1, MPI_INT, rank / 2, 5, inter,
                     MPI_STATUS_IGNORE);
        CHECK(in == (rank ^ 1), "between groups: %d instead of %d", in, rank ^ 1);
    }
    MPI_Comm_free(&inter);
    MPI_Group_free(&mine);
    MPI_Group_free(&others);
}

static void run_session(int round)
{
    MPI_Session session, second;
    MPI_Group group, half;
    MPI_Comm of_half = MPI_COMM_NULL, all, again, copy;
    int rank;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &second);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Group_rank(group, &rank);
    check_rank = rank;
    MPI_Group_size(group, &check_ranks);
    half = half_of(group, 1);
    if (rank % 2 == 1) { /* takes a number that the even ranks give the next communicator */
        of_half = from_group(half, "half", round);
    }
    all = from_group(group, "all", round);
    again = from_group(group, "again", round);
    exchange(all, 1);
    if (of_half != MPI_COMM_NULL) {
        exchange(of_half, 2);
    }
    exchange(again, 3);
    MPI_Comm_dup(all, &copy);
    exchange(copy, 4);
    between_halves(group, rank, round);
    exchange(all, 5);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&again);
    MPI_Comm_free(&all);
    if (of_half != MPI_COMM_NULL) {
        MPI_Comm_free(&of_half);
    }
    MPI_Group_free(&half);
    MPI_Group_free(&group);
    MPI_Session_finalize(&second);
    MPI_Session_finalize(&session);
}

int main(int argc, char **argv)
{
    const bool world = argc > 1 && strcmp(argv[1], "world") == 0;
    const int sessions = argc > 2 ? atoi(argv[2]) : 10;
    check_name = "sessions";
    if (world) {
        MPI_Init(&argc, &argv);
    }
    for (int round = 0; round < sessions; ++round) {
        run_session(round);
        if (world) {
            exchange(MPI_COMM_WORLD, round);
        }
    }
    if (world) {
        MPI_Finalize();
    }
    if (check_rank == 0) {
        printf("sessions: ok\n");
    }
    return 0;
}

#else

int main(int argc, char **argv)
{
    return check_skip(&argc, &argv);
}

#endif
