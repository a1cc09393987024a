// SPDX-License-Identifier: BSD-3-Clause
/*
 * Spawned processes: one or two that run this program with --child. They and those that spawned
 * them exchange messages between the groups, then in one group, and part. Chosen only if --only
 * names it: a step takes a second. Children write no log; they send back what they got.
 */
#include "mpi_fuzz/fuzz.h"

#include <unistd.h>

enum {
    TRADES_MAX = 12,
    CHILDREN_MAX = 2
};

typedef struct {
    MPI_Comm inter;
    uint64_t seed;
    int parents, children, rank;
    bool child;
} meeting;

typedef struct {
    int parent, child, basic;
    size_t elements;
    uint64_t seed;
} trade;

static trade trade_of(const meeting *m, int number)
{
    trade t;
    uint64_t random = t.seed = seed_of(m->seed, 100 + (uint64_t) number);
    t.parent = below(&random, m->parents);
    t.child = below(&random, m->children);
    t.basic = random_basic(&random);
    t.elements = random_elements(&random, t.basic, 300000);
    return t;
}

static void trade_side(side *b, const trade *t, int part)
{
    uint64_t random = seed_of(t->seed, (uint64_t) part);
    side_make(b, t->basic, t->elements, chance(&random, 2), &random);
}

/* A child's part of a trade: it sends the elements back that it receives, as MPI_Pack has them. */
static void give_back(const meeting *m, const trade *t, int number)
{
    side in;
    int bytes = 0, used = 0;
    trade_side(&in, t, 2);
    MPI_Recv(in.at, in.count, in.type, t->parent, number, m->inter, MPI_STATUS_IGNORE);
    MPI_Pack_size(in.count, in.type, m->inter, &bytes);
    void *packed = malloc((size_t) bytes + 1);
    MPI_Pack(in.at, in.count, in.type, packed, bytes, &used, m->inter);
    MPI_Send(packed, used, MPI_PACKED, t->parent, number, m->inter);
    free(packed);
    side_free(&in);
}

static void trade_all(const step *s, const meeting *m, int count)
{
    side out[TRADES_MAX], in[TRADES_MAX];
    MPI_Request requests[2 * TRADES_MAX];
    MPI_Status statuses[2 * TRADES_MAX];
    int errors[2 * TRADES_MAX], mine[TRADES_MAX], trades = 0;
    for (int i = 0; i < count; ++i) {
        trade t = trade_of(m, i);
        if (m->child && t.child == m->rank) {
            give_back(m, &t, i);
        }
        if (m->child || t.parent != m->rank) {
            continue;
        }
        trade_side(&out[trades], &t, 1);
        trade_side(&in[trades], &t, 3);
        side_fill(&out[trades], t.seed);
        log_words(s, "to child %d and back, tag %d: %s", t.child, i, out[trades].words);
        TRY(s, MPI_Irecv(in[trades].at, in[trades].count, in[trades].type, t.child, i, m->inter,
                         &requests[2 * trades]));
        TRY(s, MPI_Isend(out[trades].at, out[trades].count, out[trades].type, t.child, i, m->inter,
                         &requests[2 * trades + 1]));
        mine[trades++] = i;
    }
    if (m->child) {
        return;
    }
    uint64_t random = seed_of(m->seed, 50 + (uint64_t) m->rank);
    complete(s, requests, 2 * trades, statuses, errors, false, &random);
    for (int i = 0; i < trades; ++i) {
        char name[32];
        snprintf(name, sizeof name, "back %d", mine[i]);
        log_status(s, name, &statuses[2 * i], &in[i], errors[2 * i]);
        log_result(s, "%s: hash %016llx, send %d", name, (unsigned long long) side_hash(&in[i]),
                   errors[2 * i + 1]);
        side_free(&in[i]);
        side_free(&out[i]);
    }
}

/* Parents and children in one group: a shift, and a sum of what each rank has. */
static void merged(const step *s, const meeting *m)
{
    MPI_Comm all;
    int rank, ranks;
    MPI_Intercomm_merge(m->inter, m->child, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &ranks);
    uint64_t random = seed_of(m->seed, 2), hash = 0, sum = 0;
    int bytes = (int) (random_elements(&random, BASIC_LONG, 100000) * basic_bytes(BASIC_LONG));
    unsigned char *out = malloc((size_t) bytes + 1), *in = malloc((size_t) bytes + 1);
    fill(out, (size_t) bytes, key_of(rank, 1, (size_t) bytes, m->seed));
    MPI_Sendrecv(out, bytes, MPI_BYTE, (rank + 1) % ranks, 1, in, bytes, MPI_BYTE,
                 (rank + ranks - 1) % ranks, 1, all, MPI_STATUS_IGNORE);
    hash = hash_bytes(in, (size_t) bytes);
    MPI_Allreduce(&hash, &sum, 1, MPI_UINT64_T, MPI_SUM, all);
    if (!m->child) {
        log_result(s, "rank %d of %d: %016llx, all %016llx", rank, ranks, (unsigned long long) hash,
                   (unsigned long long) sum);
    }
    free(out);
    free(in);
    MPI_Comm_free(&all);
}

static void meet(const step *s, meeting *m)
{
    uint64_t random = seed_of(m->seed, 1);
    int count = 1 + below(&random, TRADES_MAX);
    bool first = chance(&random, 2);
    if (first) {
        merged(s, m);
    }
    trade_all(s, m, count);
    if (!first || chance(&random, 2)) {
        merged(s, m);
    }
    MPI_Comm_disconnect(&m->inter);
}

void spawned_start(step *s)
{
    uint64_t random = seed_of(s->seed, 1);
    char seed[32];
    char *arguments[] = {"--child", seed, NULL};
    int children = 1 + below(&random, CHILDREN_MAX), root = below(&random, s->where->sizes[0]);
    meeting m = {.seed = seed_of(s->seed, 2),
                 .parents = s->where->sizes[0],
                 .children = children,
                 .rank = s->where->rank};
    snprintf(seed, sizeof seed, "%llu", (unsigned long long) m.seed);
    log_words(s, "spawn %d by %d", children, root);
    if (TRY(s, MPI_Comm_spawn(fuzz_program, arguments, children, MPI_INFO_NULL, root,
                              s->where->comm, &m.inter, MPI_ERRCODES_IGNORE))
        == MPI_SUCCESS) {
        meet(s, &m);
    }
}

void spawned_child(const char *seed)
{
    meeting m = {.seed = strtoull(seed, NULL, 10), .child = true};
    alarm(fuzz_patience);
    MPI_Comm_get_parent(&m.inter);
    CHECK(m.inter != MPI_COMM_NULL, "--child is for spawned processes");
    MPI_Comm_remote_size(m.inter, &m.parents);
    MPI_Comm_size(m.inter, &m.children);
    MPI_Comm_rank(m.inter, &m.rank);
    meet(NULL, &m);
}
