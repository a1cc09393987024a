// SPDX-License-Identifier: BSD-3-Clause
/*
 * Random communicators. All ranks make the same choices; those of MPI_COMM_WORLD that are in no
 * group of the new communicator get MPI_COMM_NULL.
 */
#include "mpi_fuzz/fuzz.h"

enum {
    RANKS_MAX = 64,
    EDGES_MAX = 12
};

typedef enum {
    DUP,
    IDUP,
    DUP_WITH_INFO,
    SPLIT,
    SPLIT_TYPE,
    CREATE,
    CREATE_GROUP,
    OWN,
    INTER,
    MERGED,
    CART,
    CART_SUB,
    GRAPH,
    DIST_GRAPH,
    DIST_GRAPH_ADJACENT,
    COMMUNICATORS
} way;

static const char *const names[] = {
    "dup",    "idup",         "dup_with_info", "split",      "split_type",
    "create", "create_group", "self",          "inter",      "merged",
    "cart",   "cart_sub",     "graph",         "dist_graph", "dist_graph_adjacent"};

static MPI_Comm idup(MPI_Comm from)
{
    MPI_Comm comm;
    MPI_Request request;
    MPI_Comm_idup(from, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return comm;
}

static MPI_Comm dup_with_info(void)
{
    MPI_Comm comm;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_fuzz", "1");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Info_free(&info);
    return comm;
}

/* Parts of random sizes, in a random order of ranks; a rank may be in none. */
static MPI_Comm split(uint64_t *random)
{
    int color = 0, key = 0, colors = 1 + below(random, 3);
    for (int i = 0; i <= fuzz_rank; ++i) {
        color = below(random, colors);
        key = below(random, 5) - 2;
        color = chance(random, 8) && i > 0 ? MPI_UNDEFINED : color;
    }
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, color, key, &comm);
    return comm;
}

/* A random subset of two ranks or more, in a random order; returns its size. */
static int subset(int *ranks, uint64_t *random)
{
    for (int i = 0; i < fuzz_ranks; ++i) {
        int other = below(random, i + 1);
        ranks[i] = ranks[other];
        ranks[other] = i;
    }
    return 2 + below(random, fuzz_ranks - 1);
}

static MPI_Comm create(bool by_group, uint64_t *random)
{
    int ranks[RANKS_MAX], count = subset(ranks, random), mine;
    MPI_Group world, group;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, count, ranks, &group);
    MPI_Group_rank(group, &mine);
    if (!by_group) {
        MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
    } else if (mine != MPI_UNDEFINED) {
        MPI_Comm_create_group(MPI_COMM_WORLD, group, 17, &comm);
    }
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    return comm;
}

/* An intercommunicator of the lower and the upper ranks; its groups, or both merged */
static MPI_Comm intercommunicator(communicator *c, bool merge, uint64_t *random)
{
    int lower = 1 + below(random, fuzz_ranks - 1), tag = below(random, 1000);
    bool high_first = chance(random, 2);
    MPI_Comm part, inter, merged;
    c->group = fuzz_rank >= lower;
    MPI_Comm_split(MPI_COMM_WORLD, c->group, 0, &part);
    MPI_Intercomm_create(part, 0, MPI_COMM_WORLD, c->group ? 0 : lower, tag, &inter);
    MPI_Comm_free(&part);
    if (!merge) {
        c->inter = true;
        return inter;
    }
    MPI_Intercomm_merge(inter, (c->group == 1) != high_first, &merged);
    MPI_Comm_free(&inter);
    c->group = 0;
    return merged;
}

static MPI_Comm cart(bool part, uint64_t *random)
{
    int sizes[2] = {0, 0}, periods[2], kept[2];
    MPI_Comm comm, sub;
    for (int i = 0; i < 2; ++i) {
        periods[i] = below(random, 2);
        kept[i] = below(random, 2);
    }
    MPI_Dims_create(fuzz_ranks, 2, sizes);
    MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periods, below(random, 2), &comm);
    if (part) {
        MPI_Cart_sub(comm, kept, &sub);
        MPI_Comm_free(&comm);
        return sub;
    }
    return comm;
}

/* Which ranks are joined: each pair of ranks once or more, in a list that all ranks know. */
static int edges(int (*list)[2], int most, uint64_t *random)
{
    int count = below(random, most + 1);
    for (int i = 0; i < count; ++i) {
        list[i][0] = below(random, fuzz_ranks);
        list[i][1] = below(random, fuzz_ranks);
    }
    return count;
}

static MPI_Comm graph(uint64_t *random)
{
    int list[EDGES_MAX][2], count = edges(list, EDGES_MAX, random), index[RANKS_MAX], ends[32],
                            n = 0;
    for (int rank = 0; rank < fuzz_ranks; ++rank) {
        for (int i = 0; i < count; ++i) {
            if (list[i][0] == rank || list[i][1] == rank) {
                ends[n++] = list[i][list[i][0] == rank];
            }
        }
        index[rank] = n;
    }
    MPI_Comm comm;
    MPI_Graph_create(MPI_COMM_WORLD, fuzz_ranks, index, ends, 0, &comm);
    return comm;
}

static MPI_Comm dist_graph(bool adjacent, uint64_t *random)
{
    int list[EDGES_MAX][2], count = edges(list, EDGES_MAX, random), ins = 0, outs = 0;
    int in[EDGES_MAX], out[EDGES_MAX], weights[EDGES_MAX] = {0};
    for (int i = 0; i < count; ++i) {
        if (list[i][1] == fuzz_rank) {
            in[ins++] = list[i][0];
        }
        if (list[i][0] == fuzz_rank) {
            out[outs++] = list[i][1];
        }
    }
    MPI_Comm comm;
    if (adjacent) {
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, ins, in, weights, outs, out, weights,
                                       MPI_INFO_NULL, 0, &comm);
    } else {
        MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &fuzz_rank, &outs, out, weights, MPI_INFO_NULL, 0,
                              &comm);
    }
    return comm;
}

static MPI_Comm make(communicator *c, way how, uint64_t *random)
{
    MPI_Comm comm = MPI_COMM_NULL;
    switch (how) {
    case DUP:
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        return comm;
    case IDUP:
        return idup(MPI_COMM_WORLD);
    case DUP_WITH_INFO:
        return dup_with_info();
    case SPLIT:
        return split(random);
    case SPLIT_TYPE:
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -fuzz_rank, MPI_INFO_NULL, &comm);
        return comm;
    case CREATE:
    case CREATE_GROUP:
        return create(how == CREATE_GROUP, random);
    case OWN:
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
        return comm;
    case INTER:
    case MERGED:
        return intercommunicator(c, how == MERGED, random);
    case CART:
    case CART_SUB:
        return cart(how == CART_SUB, random);
    case GRAPH:
        return graph(random);
    default:
        return dist_graph(how == DIST_GRAPH_ADJACENT, random);
    }
}

void communicator_measure(communicator *c)
{
    int own, other;
    MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(c->comm, &c->rank);
    MPI_Comm_size(c->comm, &own);
    other = own;
    if (c->inter) {
        MPI_Comm_remote_size(c->comm, &other);
    }
    c->sizes[c->group] = own;
    c->sizes[!c->group] = other;
}

static void describe(communicator *c)
{
    if (c->comm == MPI_COMM_NULL) {
        return;
    }
    communicator_measure(c);
    int same;
    MPI_Comm_compare(c->comm, MPI_COMM_WORLD, &same);
    log_result(NULL, "%s: rank %d of %d and %d, like world %d", c->name, c->rank,
               c->sizes[c->group], c->sizes[!c->group], same);
}

void communicator_make(communicator *c, uint64_t seed, int need)
{
    uint64_t random = seed_of(seed, 0);
    way how;
    do {
        how = need == WITH_TOPOLOGY ? CART + (way) below(&random, COMMUNICATORS - CART)
                                    : (way) below(&random, COMMUNICATORS);
        /* The order of neighbors is open after MPI_Dist_graph_create. */
    } while ((need == ONE_GROUP && how == INTER) || (need == WITH_TOPOLOGY && how == DIST_GRAPH));
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%s", names[how]);
    c->part = how == SPLIT || how == CART_SUB || how == OWN;
    c->comm = make(c, how, &random);
    describe(c);
}

void communicator_copy(communicator *c, const communicator *from)
{
    *c = *from;
    if (from->comm != MPI_COMM_NULL) {
        MPI_Comm_dup(from->comm, &c->comm);
        MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
    }
}

void communicator_free(communicator *c)
{
    if (c->comm != MPI_COMM_NULL) {
        MPI_Comm_free(&c->comm);
    }
}
