// SPDX-License-Identifier: BSD-3-Clause
/*
 * Processes started by MPI_Comm_spawn: messages both ways between parents and children, eager and
 * large, collectives over the merged communicator, traffic among children, disconnecting, and all
 * of this again with new children. Arguments: rounds, children per round.
 */
#include "check.h"

#include <unistd.h>

static const size_t sizes[] = {0, 1, 100, 4096, 8193, 70000, 1000000};
enum {
    SIZES = sizeof sizes / sizeof sizes[0],
    ROOM = 1000000
};

/* The key names the sender: its rank, or 1000 + rank for a child. */
static void exchange(MPI_Comm other, bool child, int salt)
{
    int mine, theirs;
    MPI_Comm_rank(other, &mine);
    MPI_Comm_remote_size(other, &theirs);
    unsigned char *out = malloc(ROOM), *in = malloc(ROOM);
    MPI_Request *requests = malloc((size_t) theirs * sizeof *requests);
    for (int s = 0; s < SIZES; ++s) {
        int self = child ? 1000 + mine : mine, base = child ? 0 : 1000;
        fill(out, sizes[s], key_of(self, s, sizes[s], (uint64_t) salt));
        for (int i = 0; i < theirs; ++i) {
            MPI_Isend(out, (int) sizes[s], MPI_BYTE, i, s, other, &requests[i]);
        }
        for (int i = 0; i < theirs; ++i) {
            MPI_Status status;
            MPI_Recv(in, ROOM, MPI_BYTE, s % 2 ? MPI_ANY_SOURCE : i, s, other, &status);
            CHECK_STATUS(&status, status.MPI_SOURCE, s, sizes[s],
                         child ? "from parent" : "from child");
            CHECK_BYTES(in, sizes[s],
                        key_of(base + status.MPI_SOURCE, s, sizes[s], (uint64_t) salt),
                        child ? "from parent" : "from child");
        }
        MPI_Waitall(theirs, requests, MPI_STATUSES_IGNORE);
    }
    free(requests);
    free(out);
    free(in);
}

static void together(MPI_Comm other, bool child)
{
    MPI_Comm merged;
    int rank, size, sum = -1;
    MPI_Intercomm_merge(other, child, &merged);
    MPI_Comm_rank(merged, &rank);
    MPI_Comm_size(merged, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, merged);
    CHECK(sum == size * (size - 1) / 2, "Allreduce over %d merged ranks gave %d", size, sum);
    int *out = malloc((size_t) size * sizeof(int)), *in = malloc((size_t) size * sizeof(int));
    for (int i = 0; i < size; ++i) {
        out[i] = rank * 1000 + i;
    }
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, merged);
    for (int i = 0; i < size; ++i) {
        CHECK(in[i] == i * 1000 + rank, "Alltoall: element %d is %d, expected %d", i, in[i],
              i * 1000 + rank);
    }
    free(out);
    free(in);
    MPI_Comm_free(&merged);
}

static void be_a_child(MPI_Comm parent)
{
    int salt = -1, sum = -1;
    check_name = "spawn (child)";
    MPI_Bcast(&salt, 1, MPI_INT, 0, parent);
    exchange(parent, true, salt);
    MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == check_ranks * (check_ranks - 1) / 2, "Allreduce among the children gave %d", sum);
    together(parent, true);
    exchange(parent, true, salt + 1);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    check_begin(&argc, &argv, "spawn", 1);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        be_a_child(parent);
        return 0;
    }
    CHECK(argc == 3, "arguments: rounds, children per round");
    int rounds = atoi(argv[1]), children = atoi(argv[2]);
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(length > 0, "/proc/self/exe cannot be read");
    path[length] = '\0';
    for (int round = 0; round < rounds; ++round) {
        MPI_Comm child;
        int salt = round * 2, size;
        MPI_Comm_spawn(path, MPI_ARGV_NULL, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &child,
                       MPI_ERRCODES_IGNORE);
        MPI_Comm_remote_size(child, &size);
        CHECK(size == children, "%d children, expected %d", size, children);
        MPI_Bcast(&salt, 1, MPI_INT, check_rank == 0 ? MPI_ROOT : MPI_PROC_NULL, child);
        exchange(child, false, salt);
        together(child, false);
        exchange(child, false, salt + 1);
        MPI_Comm_disconnect(&child);
    }
    check_end();
    return 0;
}
