// SPDX-License-Identifier: BSD-3-Clause
/*
 * Collective operations, blocking and not; several non-blocking ones of a step are pending at the
 * same time, and a later step may finish them. Operators are such that their result does not depend
 * on the order in which MPI may apply them. Also the neighborhood collectives of topologies.
 */
#include "mpi_fuzz/fuzz.h"

enum {
    OPERATIONS_MAX = 4,
    PARTS_MAX = 64
};

typedef enum {
    BARRIER,
    BCAST,
    GATHER,
    SCATTER,
    ALLGATHER,
    ALLTOALL,
    REDUCE,
    ALLREDUCE,
    LAST_BETWEEN = ALLREDUCE, /* of those that intercommunicators take part in here */
    GATHERV,
    SCATTERV,
    ALLGATHERV,
    ALLTOALLV,
    ALLTOALLW,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    SCAN,
    EXSCAN,
    COLLECTIVES
} what;

static const char *const names[] = {
    "Barrier",    "Bcast",     "Gather",    "Scatter",        "Allgather",
    "Alltoall",   "Reduce",    "Allreduce", "Gatherv",        "Scatterv",
    "Allgatherv", "Alltoallv", "Alltoallw", "Reduce_scatter", "Reduce_scatter_block",
    "Scan",       "Exscan"};

typedef struct {
    what what;
    bool is_pending, in_place, own_operator;
    int root; /* as this rank passes it */
    bool at_root;
    side out, in;
    int parts, part; /* v: parts of these numbers of elements */
    int counts[PARTS_MAX], places[PARTS_MAX], out_counts[PARTS_MAX], out_places[PARTS_MAX];
    MPI_Datatype types[PARTS_MAX], type;
    MPI_Op op;
    MPI_Request request;
} collective;

typedef struct {
    int count;
    collective list[OPERATIONS_MAX];
} several;

/* -------------------------------------------------------------------------------------------------
 * Operators */

/* The product of 2 x 2 matrices, which is associative and not commutative */
static void multiply(void *in, void *in_out, int *length, MPI_Datatype *type)
{
    const unsigned *a = in;
    unsigned *b = in_out;
    (void) type;
    for (int i = 0; i < *length; ++i, a += 4, b += 4) {
        unsigned c[] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
                        a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
        memcpy(b, c, sizeof c);
    }
}

/* The type and the operator of a reduction; returns the bytes of one element. */
static size_t choose_operator(collective *c, uint64_t *random)
{
    const MPI_Op ops[] = {MPI_SUM,  MPI_PROD, MPI_MAX,  MPI_MIN,
                          MPI_BAND, MPI_BOR,  MPI_BXOR, MPI_LAND};
    const MPI_Datatype types[] = {MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED,
                                  MPI_UNSIGNED_LONG};
    c->own_operator = chance(random, 5);
    if (c->own_operator) {
        MPI_Type_contiguous(4, MPI_UNSIGNED, &c->type);
        MPI_Type_commit(&c->type);
        MPI_Op_create(multiply, 0, &c->op);
        return 16;
    }
    if (chance(random, 8)) {
        c->type = MPI_2INT;
        c->op = chance(random, 2) ? MPI_MAXLOC : MPI_MINLOC;
        return 8;
    }
    c->type = types[below(random, 4)];
    c->op = ops[below(random, 8)];
    int size;
    MPI_Type_size(c->type, &size);
    return (size_t) size;
}

/* -------------------------------------------------------------------------------------------------
 * Buffers */

static bool reduces(what w)
{
    return w == REDUCE || w == ALLREDUCE || w == REDUCE_SCATTER || w == REDUCE_SCATTER_BLOCK
           || w == SCAN || w == EXSCAN;
}

static void make_reduction(collective *c, const communicator *where, size_t bytes, uint64_t *random,
                           uint64_t *own)
{
    size_t size = choose_operator(c, random), whole = bytes / size + 1;
    int all = 0;
    for (int i = 0; i < where->sizes[0]; ++i) {
        c->counts[i] = c->what == REDUCE_SCATTER ? below(random, (int) whole) : (int) whole;
        all += c->counts[i];
    }
    c->part = (int) whole;
    if (c->what != REDUCE_SCATTER && c->what != REDUCE_SCATTER_BLOCK) {
        all = c->part;
    }
    side_make(&c->out, BASIC_BYTE, size * (size_t) all, true, own);
    side_make(&c->in, BASIC_BYTE, size * (size_t) all, true, own);
    side_fill(&c->out, *own);
    c->in_place = chance(random, 4) && !where->inter && (c->what != REDUCE || c->at_root);
    if (c->in_place) {
        side_fill(&c->in, *own);
    }
}

/* A matrix of the numbers of elements that ranks send each other, which all ranks know */
static int part_of(uint64_t seed, int from, int to, int most)
{
    uint64_t random = seed_of(seed, (uint64_t) (from * 64 + to));
    return chance(&random, 4) ? 0 : below(&random, most + 1);
}

static int lay_parts(int *counts, int *places, int parts, uint64_t *own)
{
    int place = below(own, 3);
    for (int i = 0; i < parts; ++i) {
        places[i] = place;
        place += counts[i] + below(own, 3);
    }
    return place;
}

/* Buffers of int for operations whose parts have different lengths */
static void make_parts(collective *c, const communicator *where, uint64_t seed, int most,
                       uint64_t *own)
{
    c->parts = where->sizes[0];
    bool to_all = c->what == ALLTOALLV || c->what == ALLTOALLW;
    for (int i = 0; i < c->parts; ++i) {
        c->counts[i] = part_of(seed, i, to_all ? where->rank : 0, most);
        c->out_counts[i] = part_of(seed, where->rank, i, most);
        c->types[i] = MPI_INT;
    }
    if (c->what == SCATTERV) {
        memcpy(c->out_counts, c->counts, sizeof c->counts);
    }
    c->part = c->counts[where->rank];
    int out = lay_parts(c->out_counts, c->out_places, c->parts, own);
    int in = lay_parts(c->counts, c->places, c->parts, own);
    out = out > c->part ? out : c->part;
    in = in > c->part ? in : c->part;
    side_make(&c->out, BASIC_INT, (size_t) out, true, own);
    side_make(&c->in, BASIC_INT, (size_t) in, true, own);
    side_fill(&c->out, *own);
    if (c->what == ALLTOALLW) { /* displacements are in bytes there */
        for (int i = 0; i < c->parts; ++i) {
            c->places[i] *= 4;
            c->out_places[i] *= 4;
        }
    }
}

static void make_whole(collective *c, const communicator *where, int basic, size_t elements,
                       uint64_t *random, uint64_t *own)
{
    int remote = where->sizes[where->inter ? !where->group : 0];
    int out = c->what == SCATTER || c->what == ALLTOALL ? remote : 1;
    int in = c->what == GATHER || c->what == ALLGATHER || c->what == ALLTOALL ? remote : 1;
    /* Open MPI chooses algorithms by each rank's own count: nothing is 0 elements on each. */
    bool plain = chance(own, 2) || elements == 0;
    side_make_copies(&c->out, basic, elements, out, plain, own);
    side_make_copies(&c->in, basic, elements, in, plain, own);
    side_fill(&c->out, *own);
    c->in_place =
        chance(random, 4) && !where->inter
        && (c->what == ALLGATHER || c->what == ALLTOALL || (c->what == GATHER && c->at_root));
    if (c->in_place || (c->what == BCAST && c->at_root)) {
        side_fill(&c->in, *own);
    }
}

static void choose(collective *c, const step *s, int number)
{
    const communicator *where = s->where;
    uint64_t seed = seed_of(s->seed, 100 + (uint64_t) number), random = seed;
    memset(c, 0, sizeof *c);
    c->request = MPI_REQUEST_NULL;
    c->what = (what) below(&random, where->inter ? LAST_BETWEEN + 1 : COLLECTIVES);
    c->is_pending = chance(&random, 2);
    int group = where->inter ? below(&random, 2) : 0, root = below(&random, where->sizes[group]);
    c->at_root = root == where->rank && group == where->group;
    c->root = !where->inter           ? root
              : group != where->group ? root
                                      : (c->at_root ? MPI_ROOT : MPI_PROC_NULL);
    int basic = random_basic(&random);
    size_t elements = random_elements(&random, basic, 60000);
    uint64_t own = seed_of(seed, 60 + (uint64_t) (where->rank + 64 * where->group));
    if (reduces(c->what)) {
        make_reduction(c, where, elements * basic_bytes(basic), &random, &own);
    } else if (c->what > LAST_BETWEEN) {
        make_parts(c, where, seed, (int) (elements * basic_bytes(basic) / 4), &own);
    } else {
        make_whole(c, where, basic, elements, &random, &own);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Calls */

#define CALL(blocking, pending, ...)                                                               \
    (c->is_pending ? pending(__VA_ARGS__, &c->request) : blocking(__VA_ARGS__))

static int call_whole(collective *c, MPI_Comm comm)
{
    side *out = &c->out, *in = &c->in;
    const void *from = c->in_place ? MPI_IN_PLACE : out->at;
    switch (c->what) {
    case BARRIER:
        return CALL(MPI_Barrier, MPI_Ibarrier, comm);
    case BCAST:
        return CALL(MPI_Bcast, MPI_Ibcast, in->at, in->count, in->type, c->root, comm);
    case GATHER:
        return CALL(MPI_Gather, MPI_Igather, from, out->count, out->type, in->at, in->count,
                    in->type, c->root, comm);
    case SCATTER:
        return CALL(MPI_Scatter, MPI_Iscatter, out->at, out->count, out->type, in->at, in->count,
                    in->type, c->root, comm);
    case ALLGATHER:
        return CALL(MPI_Allgather, MPI_Iallgather, from, out->count, out->type, in->at, in->count,
                    in->type, comm);
    default:
        return CALL(MPI_Alltoall, MPI_Ialltoall, from, out->count, out->type, in->at, in->count,
                    in->type, comm);
    }
}

static int call_parts(collective *c, MPI_Comm comm)
{
    side *out = &c->out, *in = &c->in;
    switch (c->what) {
    case GATHERV:
        return CALL(MPI_Gatherv, MPI_Igatherv, out->at, c->part, MPI_INT, in->at, c->counts,
                    c->places, MPI_INT, c->root, comm);
    case SCATTERV:
        return CALL(MPI_Scatterv, MPI_Iscatterv, out->at, c->out_counts, c->out_places, MPI_INT,
                    in->at, c->part, MPI_INT, c->root, comm);
    case ALLGATHERV:
        return CALL(MPI_Allgatherv, MPI_Iallgatherv, out->at, c->part, MPI_INT, in->at, c->counts,
                    c->places, MPI_INT, comm);
    case ALLTOALLV:
        return CALL(MPI_Alltoallv, MPI_Ialltoallv, out->at, c->out_counts, c->out_places, MPI_INT,
                    in->at, c->counts, c->places, MPI_INT, comm);
    default:
        return CALL(MPI_Alltoallw, MPI_Ialltoallw, out->at, c->out_counts, c->out_places, c->types,
                    in->at, c->counts, c->places, c->types, comm);
    }
}

static int call_reduction(collective *c, MPI_Comm comm)
{
    const void *from = c->in_place ? MPI_IN_PLACE : c->out.at;
    void *to = c->in.at;
    switch (c->what) {
    case REDUCE:
        return CALL(MPI_Reduce, MPI_Ireduce, from, to, c->part, c->type, c->op, c->root, comm);
    case ALLREDUCE:
        return CALL(MPI_Allreduce, MPI_Iallreduce, from, to, c->part, c->type, c->op, comm);
    case REDUCE_SCATTER:
        return CALL(MPI_Reduce_scatter, MPI_Ireduce_scatter, from, to, c->counts, c->type, c->op,
                    comm);
    case REDUCE_SCATTER_BLOCK:
        return CALL(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, from, to, c->part, c->type,
                    c->op, comm);
    case SCAN:
        return CALL(MPI_Scan, MPI_Iscan, from, to, c->part, c->type, c->op, comm);
    default:
        return CALL(MPI_Exscan, MPI_Iexscan, from, to, c->part, c->type, c->op, comm);
    }
}

static void call(const step *s, collective *c)
{
    MPI_Comm comm = s->where->comm;
    log_words(s, "%s%s, root %d%s: %s", c->is_pending ? "I" : "", names[c->what], c->root,
              c->in_place ? ", in place" : "", c->in.words);
    int code = reduces(c->what)         ? call_reduction(c, comm)
               : c->what > LAST_BETWEEN ? call_parts(c, comm)
                                        : call_whole(c, comm);
    log_code(s, names[c->what], code);
}

void collectives_start(step *s)
{
    uint64_t random = seed_of(s->seed, 1);
    several *t = calloc(1, sizeof *t);
    s->state = t;
    t->count = 1 + below(&random, OPERATIONS_MAX);
    for (int i = 0; i < t->count; ++i) {
        choose(&t->list[i], s, i);
        call(s, &t->list[i]);
    }
}

/* Tells whether MPI says what is in the receive buffer: not after MPI_Exscan of the first rank, and
 * not behind the result of a reduction in place. */
static bool defined(const collective *c, const communicator *where)
{
    return !(c->what == EXSCAN && where->rank == 0)
           && !(c->in_place && (c->what == REDUCE_SCATTER || c->what == REDUCE_SCATTER_BLOCK));
}

void collectives_finish(step *s)
{
    several *t = s->state;
    uint64_t own = seed_of(s->seed, 60 + (uint64_t) s->where->rank);
    MPI_Request requests[OPERATIONS_MAX];
    MPI_Status statuses[OPERATIONS_MAX];
    int errors[OPERATIONS_MAX], count = 0;
    for (int i = 0; i < t->count; ++i) {
        if (t->list[i].request != MPI_REQUEST_NULL) {
            requests[count++] = t->list[i].request;
        }
    }
    complete(s, requests, count, statuses, errors, false, &own);
    for (int i = 0; i < count; ++i) {
        if (errors[i] != MPI_SUCCESS) {
            log_result(s, "error %d of request %d", errors[i], i);
        }
    }
    for (int i = 0; i < t->count; ++i) {
        collective *c = &t->list[i];
        log_result(s, "%s %d: hashes %016llx %016llx", names[c->what], i,
                   (unsigned long long) side_hash(&c->out),
                   (unsigned long long) (defined(c, s->where) ? side_hash(&c->in) : 0));
        if (c->own_operator) {
            MPI_Op_free(&c->op);
            MPI_Type_free(&c->type);
        }
        side_free(&c->out);
        side_free(&c->in);
    }
    free(t);
}

/* -------------------------------------------------------------------------------------------------
 * Neighborhoods */

static void neighbors_of(MPI_Comm comm, int *in, int *out)
{
    int topology, weighted, rank, dimensions;
    MPI_Topo_test(comm, &topology);
    if (topology == MPI_CART) {
        MPI_Cartdim_get(comm, &dimensions);
        *in = *out = 2 * dimensions;
    } else if (topology == MPI_GRAPH) {
        MPI_Comm_rank(comm, &rank);
        MPI_Graph_neighbors_count(comm, rank, in);
        *out = *in;
    } else {
        MPI_Dist_graph_neighbors_count(comm, in, out, &weighted);
    }
}

static void neighbor(step *s, int number, uint64_t *random)
{
    MPI_Comm comm = s->where->comm;
    int ins, outs, code, basic = random_basic(random);
    bool to_all = chance(random, 2), pending = chance(random, 2);
    size_t elements = random_elements(random, basic, 60000);
    uint64_t own = seed_of(s->seed, 1000 + (uint64_t) (number * 64 + s->where->rank));
    MPI_Request request = MPI_REQUEST_NULL;
    side out, in;
    bool plain = elements == 0;
    neighbors_of(comm, &ins, &outs);
    side_make_copies(&out, basic, elements, to_all ? outs : 1, plain || chance(&own, 2), &own);
    side_make_copies(&in, basic, elements, ins, plain || chance(&own, 2), &own);
    side_fill(&out, own);
    log_words(s, "%seighbor_%s, %d in, %d out: %s", pending ? "In" : "N",
              to_all ? "alltoall" : "allgather", ins, outs, out.words);
    if (to_all && pending) {
        code = MPI_Ineighbor_alltoall(out.at, out.count, out.type, in.at, in.count, in.type, comm,
                                      &request);
    } else if (to_all) {
        code = MPI_Neighbor_alltoall(out.at, out.count, out.type, in.at, in.count, in.type, comm);
    } else if (pending) {
        code = MPI_Ineighbor_allgather(out.at, out.count, out.type, in.at, in.count, in.type, comm,
                                       &request);
    } else {
        code = MPI_Neighbor_allgather(out.at, out.count, out.type, in.at, in.count, in.type, comm);
    }
    log_code(s, "neighbors", code);
    TRY(s, MPI_Wait(&request, MPI_STATUS_IGNORE));
    log_result(s, "neighbors: hashes %016llx %016llx", (unsigned long long) side_hash(&out),
               (unsigned long long) side_hash(&in));
    side_free(&out);
    side_free(&in);
}

void neighbors_start(step *s)
{
    uint64_t random = seed_of(s->seed, 1);
    int count = 1 + below(&random, 4);
    for (int i = 0; i < count; ++i) {
        neighbor(s, i, &random);
    }
}
