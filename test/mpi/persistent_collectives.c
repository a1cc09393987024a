// SPDX-License-Identifier: BSD-3-Clause
/*
 * Persistent collectives (MPI 4; MPIX_*_init of Open MPI 4.1): several of them, on several
 * communicators, are started together, again and again, with new contents; blocking collectives and
 * messages run in between. Communicators: the world, the processes of a host (MPI_Comm_split_type),
 * and a ring (MPI_Dist_graph_create_adjacent). Argument: rounds. Skipped where MPI has none.
 */
#include "check.h"

/* Open MPI 5.0 has much of MPI 4, and calls itself MPI 3.1. */
#if MPI_VERSION < 4 && !(defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#include <mpi-ext.h>
#if defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
#define MPI_Barrier_init MPIX_Barrier_init
#define MPI_Bcast_init MPIX_Bcast_init
#define MPI_Allreduce_init MPIX_Allreduce_init
#define MPI_Reduce_init MPIX_Reduce_init
#define MPI_Scan_init MPIX_Scan_init
#define MPI_Allgather_init MPIX_Allgather_init
#define MPI_Gather_init MPIX_Gather_init
#define MPI_Scatter_init MPIX_Scatter_init
#define MPI_Alltoall_init MPIX_Alltoall_init
#define MPI_Neighbor_alltoall_init MPIX_Neighbor_alltoall_init
#define HAS_PERSISTENT_COLLECTIVES
#endif
#else
#define HAS_PERSISTENT_COLLECTIVES
#endif

#if defined(HAS_PERSISTENT_COLLECTIVES)

enum {
    CALLS = 10,
    MOST = 64, /* ranks */
    COUNT = 700
};

typedef struct {
    MPI_Comm comm;
    MPI_Request requests[CALLS];
    int rank, ranks, used;
    long bcast[COUNT], sum[COUNT], out[COUNT], reduced[COUNT], scanned[COUNT];
    long all[MOST], gathered[MOST], scattered, to_scatter[MOST], to[MOST], from[MOST];
    long neighbors[2], to_neighbors[2];
} collectives_t;

static void make(collectives_t *c, MPI_Comm comm, bool ring)
{
    MPI_Request *next = c->requests;
    c->comm = comm;
    MPI_Comm_rank(comm, &c->rank);
    MPI_Comm_size(comm, &c->ranks);
    CHECK(c->ranks <= MOST, "%d ranks", c->ranks);
    MPI_Barrier_init(comm, MPI_INFO_NULL, next++);
    MPI_Bcast_init(c->bcast, COUNT, MPI_LONG, c->ranks - 1, comm, MPI_INFO_NULL, next++);
    MPI_Allreduce_init(c->out, c->sum, COUNT, MPI_LONG, MPI_SUM, comm, MPI_INFO_NULL, next++);
    MPI_Reduce_init(c->out, c->reduced, COUNT, MPI_LONG, MPI_MAX, 0, comm, MPI_INFO_NULL, next++);
    MPI_Scan_init(c->out, c->scanned, COUNT, MPI_LONG, MPI_SUM, comm, MPI_INFO_NULL, next++);
    MPI_Allgather_init(c->out, 1, MPI_LONG, c->all, 1, MPI_LONG, comm, MPI_INFO_NULL, next++);
    MPI_Gather_init(c->out, 1, MPI_LONG, c->gathered, 1, MPI_LONG, 0, comm, MPI_INFO_NULL, next++);
    MPI_Scatter_init(c->to_scatter, 1, MPI_LONG, &c->scattered, 1, MPI_LONG, 0, comm, MPI_INFO_NULL,
                     next++);
    MPI_Alltoall_init(c->to, 1, MPI_LONG, c->from, 1, MPI_LONG, comm, MPI_INFO_NULL, next++);
    if (ring) {
        MPI_Neighbor_alltoall_init(c->to_neighbors, 1, MPI_LONG, c->neighbors, 1, MPI_LONG, comm,
                                   MPI_INFO_NULL, next++);
    }
    c->used = (int) (next - c->requests);
}

/* What rank `rank` contributes at place i. */
static long value(int round, int rank, int i)
{
    return 1000000L * round + 1000L * rank + i;
}

static void set(collectives_t *c, int round)
{
    for (int i = 0; i < COUNT; ++i) {
        c->out[i] = value(round, c->rank, i);
        c->bcast[i] = c->rank == c->ranks - 1 ? value(round, c->rank, i) : -1;
        c->sum[i] = c->reduced[i] = c->scanned[i] = -1;
    }
    for (int i = 0; i < c->ranks; ++i) {
        c->to[i] = c->to_scatter[i] = value(round, c->rank, i);
        c->all[i] = c->gathered[i] = c->from[i] = -1;
    }
    c->scattered = c->neighbors[0] = c->neighbors[1] = -1;
    c->to_neighbors[0] = value(round, c->rank, 500);
    c->to_neighbors[1] = value(round, c->rank, 501);
}

static void expect(const collectives_t *c, const char *what, int i, long got, long wanted)
{
    CHECK(got == wanted, "%s, %d ranks: number %d is %ld, expected %ld", what, c->ranks, i, got,
          wanted);
}

static void check(const collectives_t *c, int round, bool ring)
{
    const int n = c->ranks, last = n - 1;
    for (int i = 0; i < COUNT; ++i) {
        long sum = 0, scanned = 0;
        for (int rank = 0; rank < n; ++rank) {
            sum += value(round, rank, i);
            scanned += rank <= c->rank ? value(round, rank, i) : 0;
        }
        expect(c, "Bcast", i, c->bcast[i], value(round, last, i));
        expect(c, "Allreduce", i, c->sum[i], sum);
        expect(c, "Scan", i, c->scanned[i], scanned);
        expect(c, "Reduce", i, c->reduced[i], c->rank == 0 ? value(round, last, i) : -1);
    }
    for (int rank = 0; rank < n; ++rank) {
        expect(c, "Allgather", rank, c->all[rank], value(round, rank, 0));
        expect(c, "Gather", rank, c->gathered[rank], c->rank == 0 ? value(round, rank, 0) : -1);
        expect(c, "Alltoall", rank, c->from[rank], value(round, rank, c->rank));
    }
    expect(c, "Scatter", 0, c->scattered, value(round, 0, c->rank));
    if (ring) { /* each process sends its first word to the left, its second one to the right */
        expect(c, "Neighbor_alltoall", 0, c->neighbors[0],
               value(round, (c->rank + n - 1) % n, 501));
        expect(c, "Neighbor_alltoall", 1, c->neighbors[1], value(round, (c->rank + 1) % n, 500));
    }
}

/* Also while the collectives are under way. */
static void between(int round)
{
    int sum = 0, in = -1;
    const int to = (check_rank + 1) % check_ranks;
    const int from = (check_rank + check_ranks - 1) % check_ranks;
    MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == check_ranks * (check_ranks - 1) / 2, "a sum of %d", sum);
    MPI_Sendrecv(&round, 1, MPI_INT, to, 7, &in, 1, MPI_INT, from, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK(in == round, "%d instead of %d", in, round);
}

static MPI_Comm ring_of(MPI_Comm comm)
{
    const int neighbors[2] = {(check_rank + check_ranks - 1) % check_ranks,
                              (check_rank + 1) % check_ranks};
    const int weights[2] = {1, 1};
    MPI_Comm ring;
    MPI_Dist_graph_create_adjacent(comm, 2, neighbors, weights, 2, neighbors, weights,
                                   MPI_INFO_NULL, 0, &ring);
    return ring;
}

static void run(int rounds)
{
    enum {
        COMMS = 3
    };
    collectives_t *all = calloc(COMMS, sizeof *all);
    MPI_Comm host, ring = ring_of(MPI_COMM_WORLD);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    make(&all[0], MPI_COMM_WORLD, false);
    make(&all[1], host, false);
    make(&all[2], ring, true);
    for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < COMMS; ++i) {
            set(&all[i], round);
            MPI_Startall(all[i].used, all[i].requests);
        }
        if (round % 2) {
            between(round);
        }
        for (int i = COMMS - 1; i >= 0; --i) {
            MPI_Waitall(all[i].used, all[i].requests, MPI_STATUSES_IGNORE);
            check(&all[i], round, i == 2);
        }
    }
    for (int i = 0; i < COMMS; ++i) {
        for (int call = 0; call < all[i].used; ++call) {
            MPI_Request_free(&all[i].requests[call]);
        }
    }
    MPI_Comm_free(&ring);
    MPI_Comm_free(&host);
    free(all);
}

#else

static void run(int rounds)
{
    (void) rounds;
    MPI_Finalize();
    exit(CHECK_SKIPPED);
}

#endif

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "persistent_collectives", 3);
    run(argc > 1 ? atoi(argv[1]) : 50);
    check_end();
    return 0;
}
