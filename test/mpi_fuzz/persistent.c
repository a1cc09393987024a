// SPDX-License-Identifier: BSD-3-Clause
/*
 * Persistent operations that are started again and again, with new contents each time: MPI_Start in
 * any order, or MPI_Startall. All ways of sends but the ready one.
 */
#include "mpi_fuzz/fuzz.h"

enum {
    PAIRS_MAX = 10,
    ROUNDS_MAX = 5
};

typedef struct {
    int group, source, target, tag, basic;
    size_t elements;
    uint64_t seed;
    bool sends, receives;
    side out, in;
} pair;

typedef struct {
    int pairs, count;
    pair list[PAIRS_MAX];
    MPI_Request requests[2 * PAIRS_MAX];
    pair *of[2 * PAIRS_MAX];
    bool receive[2 * PAIRS_MAX];
} repeated;

static void choose(pair *p, const step *s, int number)
{
    const communicator *c = s->where;
    uint64_t random = p->seed = seed_of(s->seed, 100 + (uint64_t) number);
    p->group = c->inter && chance(&random, 2);
    p->source = below(&random, c->sizes[p->group]);
    p->target = below(&random, c->sizes[c->inter ? !p->group : 0]);
    p->tag = (s->number * 2 + below(&random, 2)) % 32768;
    p->basic = random_basic(&random);
    p->elements = random_elements(&random, p->basic, 200000);
    p->sends = p->source == c->rank && (!c->inter || p->group == c->group);
    p->receives = p->target == c->rank && (!c->inter || p->group != c->group);
}

static void make_send(const step *s, repeated *t, pair *p)
{
    static int (*const inits[])(const void *, int, MPI_Datatype, int, int, MPI_Comm,
                                MPI_Request *) = {MPI_Send_init, MPI_Ssend_init, MPI_Bsend_init};
    uint64_t random = seed_of(p->seed, 1);
    int way = below(&random, 3);
    if (way == 2
        && (p->elements * basic_bytes(p->basic) > 16384 || s->lane > 0
            || fuzz_omits & BSEND_AGAIN)) {
        way = 0;
    }
    side_make(&p->out, p->basic, p->elements, chance(&random, 2), &random);
    log_words(s, "%csend_init to %d, tag %d: %s", " SB"[way], p -> target, p -> tag,
              p -> out.words);
    if (way == 2) {
        buffered_room(ROUNDS_MAX * (p->elements * basic_bytes(p->basic) + MPI_BSEND_OVERHEAD));
    }
    TRY(s, inits[way](p->out.at, p->out.count, p->out.type, p->target, p->tag, s->where->comm,
                      &t->requests[t->count]));
    t->of[t->count++] = p;
}

static void make_receive(const step *s, repeated *t, pair *p)
{
    uint64_t random = seed_of(p->seed, 2);
    side_make(&p->in, p->basic, p->elements, chance(&random, 2), &random);
    log_words(s, "Recv_init from %d, tag %d: %s", p->source, p->tag, p->in.words);
    TRY(s, MPI_Recv_init(p->in.at, p->in.count, p->in.type, p->source, p->tag, s->where->comm,
                         &t->requests[t->count]));
    t->receive[t->count] = true;
    t->of[t->count++] = p;
}

static void round_of(const step *s, repeated *t, int round, uint64_t *random)
{
    MPI_Status statuses[2 * PAIRS_MAX];
    int done = 0, code = MPI_SUCCESS;
    for (int i = 0; i < t->count; ++i) {
        pair *p = t->of[i];
        memset(&statuses[i], 0, sizeof statuses[i]);
        if (!t->receive[i]) {
            side_fill(&p->out, seed_of(p->seed, 10 + (uint64_t) round));
        }
    }
    /* MPI_Startall may start in any order: messages of one source and tag get one there. */
    for (int i = 0; i < t->count; ++i) {
        TRY(s, MPI_Start(&t->requests[i]));
    }
    done = chance(random, 2);
    if (done) {
        code = TRY(s, MPI_Waitall(t->count, t->requests, statuses));
    }
    while (!done && code == MPI_SUCCESS) {
        code = TRY(s, MPI_Testall(t->count, t->requests, &done, statuses));
    }
    for (int i = 0; i < t->count && code == MPI_ERR_IN_STATUS; ++i) {
        log_result(s, "request %d: error %d", i, error_class(statuses[i].MPI_ERROR));
    }
    for (int i = 0; i < t->count; ++i) {
        if (t->receive[i]) {
            char name[64];
            snprintf(name, sizeof name, "round %d, from %d tag %d", round, t->of[i]->source,
                     t->of[i]->tag);
            log_status(s, name, &statuses[i], &t->of[i]->in, MPI_SUCCESS);
            log_result(s, "%s: hash %016llx", name, (unsigned long long) side_hash(&t->of[i]->in));
        }
    }
}

void persistent_start(step *s)
{
    uint64_t random = seed_of(s->seed, 1);
    repeated *t = calloc(1, sizeof *t);
    t->pairs = 1 + below(&random, PAIRS_MAX);
    int rounds = 1 + below(&random, ROUNDS_MAX);
    for (int i = 0; i < t->pairs; ++i) {
        choose(&t->list[i], s, i);
        if (t->list[i].receives) {
            make_receive(s, t, &t->list[i]);
        }
        if (t->list[i].sends) {
            make_send(s, t, &t->list[i]);
        }
    }
    uint64_t own = seed_of(s->seed, 60 + (uint64_t) s->where->rank);
    for (int round = 0; round < rounds; ++round) {
        round_of(s, t, round, &own);
    }
    for (int i = 0; i < t->count; ++i) {
        TRY(s, MPI_Request_free(&t->requests[i]));
        side_free(t->receive[i] ? &t->of[i]->in : &t->of[i]->out);
    }
    free(t);
}
