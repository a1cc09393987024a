// SPDX-License-Identifier: BSD-3-Clause
/*
 * Intercommunicators between the even and the odd ranks: messages both ways between all pairs, with
 * wildcards, collectives across the groups, duplicates, and merging.
 */
#include "check.h"

enum {
    ROOM = 300000
};

static void exchange(MPI_Comm inter, int tag, int salt)
{
    int mine, theirs;
    MPI_Comm_rank(inter, &mine);
    MPI_Comm_remote_size(inter, &theirs);
    unsigned char *out = malloc(ROOM), *in = malloc(ROOM);
    size_t bytes = mixed_size((uint64_t) salt);
    /* The key contains the sender's rank in MPI_COMM_WORLD, so the check notices a message of a
     * wrong process. */
    int other = check_rank % 2 == 0 ? 1 : 0;
    MPI_Request *requests = malloc((size_t) theirs * sizeof *requests);
    fill(out, bytes, key_of(check_rank, tag, bytes, (uint64_t) salt));
    for (int i = 0; i < theirs; ++i) {
        MPI_Isend(out, (int) bytes, MPI_BYTE, i, tag, inter, &requests[i]);
    }
    for (int i = 0; i < theirs; ++i) {
        MPI_Status status;
        if (salt % 2) {
            MPI_Recv(in, ROOM, MPI_BYTE, i, tag, inter, &status);
            CHECK(status.MPI_SOURCE == i, "source %d, expected %d", status.MPI_SOURCE, i);
        } else {
            MPI_Probe(MPI_ANY_SOURCE, tag, inter, &status);
            MPI_Recv(in, ROOM, MPI_BYTE, status.MPI_SOURCE, MPI_ANY_TAG, inter, &status);
        }
        CHECK_STATUS(&status, status.MPI_SOURCE, tag, bytes, "across");
        CHECK_BYTES(in, bytes, key_of(2 * status.MPI_SOURCE + other, tag, bytes, (uint64_t) salt),
                    "across");
    }
    MPI_Waitall(theirs, requests, MPI_STATUSES_IGNORE);
    free(requests);
    free(out);
    free(in);
}

static void collectives(MPI_Comm inter)
{
    int theirs, mine, sum = -1, want = 0, word = -1;
    MPI_Comm_remote_size(inter, &theirs);
    MPI_Comm_rank(inter, &mine);
    MPI_Barrier(inter);
    MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, inter);
    for (int i = 0; i < theirs; ++i) {
        want += 2 * i + (check_rank % 2 == 0 ? 1 : 0);
    }
    CHECK(sum == want, "Allreduce of the other group gave %d, expected %d", sum, want);
    if (check_rank % 2 == 0) {
        word = 4711;
        MPI_Bcast(&word, 1, MPI_INT, check_rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
    } else {
        MPI_Bcast(&word, 1, MPI_INT, 0, inter);
    }
    CHECK(word == 4711, "Bcast gave %d", word);
    int *all = malloc((size_t) theirs * sizeof(int));
    MPI_Allgather(&check_rank, 1, MPI_INT, all, 1, MPI_INT, inter);
    for (int i = 0; i < theirs; ++i) {
        CHECK(all[i] == 2 * i + (check_rank % 2 == 0 ? 1 : 0), "Allgather: element %d is %d", i,
              all[i]);
    }
    free(all);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "intercomm", 2);
    for (int round = 0; round < 6; ++round) {
        MPI_Comm half, inter, copy, merged;
        int size, rank, sum = 0;
        MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - check_rank % 2, 55, &inter);
        MPI_Comm_dup(inter, &copy);
        for (int i = 0; i < 12; ++i) {
            exchange(i % 3 ? inter : copy, 3 + i % 2, 12 * round + i);
        }
        collectives(inter);
        collectives(copy);
        MPI_Intercomm_merge(inter, check_rank % 2, &merged);
        MPI_Comm_size(merged, &size);
        MPI_Comm_rank(merged, &rank);
        CHECK(size == check_ranks, "the merged communicator has %d ranks, expected %d", size,
              check_ranks);
        int evens = (check_ranks + 1) / 2;
        int want = check_rank % 2 == 0 ? check_rank / 2 : evens + check_rank / 2;
        CHECK(rank == want, "rank %d in the merged communicator, expected %d", rank, want);
        MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, merged);
        CHECK(sum == check_ranks * (check_ranks - 1) / 2, "Allreduce over the merged gave %d", sum);
        int in = -1, next = (rank + 1) % size, last = (rank - 1 + size) % size;
        MPI_Sendrecv(&rank, 1, MPI_INT, next, 1, &in, 1, MPI_INT, last, 1, merged,
                     MPI_STATUS_IGNORE);
        CHECK(in == last, "over the merged communicator came %d, expected %d", in, last);
        MPI_Comm_free(&merged);
        MPI_Comm_free(&copy);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
    }
    check_end();
    return 0;
}
