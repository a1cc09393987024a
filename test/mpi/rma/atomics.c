// SPDX-License-Identifier: BSD-3-Clause
/*
 * atomics: all actors accumulate on the same words at the same time. Each rank has three regions:
 *
 *   sums     one commutative operation. The final values are known, and each result includes at
 *            least all that its actor has added before.
 *   swapped  MPI_REPLACE and MPI_NO_OP. All bytes of a value are equal and name its writer, so a
 *            check detects a torn word. A word ends with the last value of one of its writers.
 *   claimed  MPI_Compare_and_swap from 0. One actor wins; all others get its value.
 *
 * The actions of an actor follow from the key, so each rank knows which actor may have written
 * which values.
 */
#include "mpi/rma/atomics.h"

/* ------------------------------------------------------------------------------------------------
 * Actions, and the model */

static action random_action(const atomics *a, int actor, rng *random)
{
    action x = {.region = (region_kind) random_below(random, REGIONS)};
    x.target = between(random, 0, stress_ranks - 1);
    x.first = between(random, 0, a->words - 1);
    int most = one_in(random, 4) ? a->words : 4;
    most = most < a->words - x.first ? most : a->words - x.first;
    x.count = between(random, 1, most);
    x.gets = one_in(random, 2);
    x.alone = one_in(random, 3);
    x.writes = !one_in(random, 3);
    x.requests = one_in(random, 4);
    uint64_t value = random_next(random);
    if (x.alone || x.region == CLAIMED) {
        x.count = 1;
    }
    if (x.region == SUMS) {
        x.value = a->sum->sums ? 1 + value % 50 : value;
    } else if (x.region == SWAPPED) {
        x.value = 1 + (uint64_t) (actor * values_of_each()) + value % (uint64_t) values_of_each();
    } else {
        x.value = (uint64_t) actor + 1;
    }
    if (!x.gets && !x.alone) {
        x.writes = true;
    }
    return x;
}

static bool is_left_out(const atomics *a, const action *x, int actor)
{
    bool own = x->target == rank_of(actor);
    size_t size = a->type[CLAIMED]->size;
    return x->region == CLAIMED
           && (!swap_works(&a->win, rank_of(actor), x->target, size)
               || (own && size == 8 && !long_swap_works(&a->win)));
}

static void follow(atomics *a, const action *x, int actor)
{
    const basic_type *type = a->type[x->region];
    uint64_t mask = type->size == 8 ? ~(uint64_t) 0 : ((uint64_t) 1 << (8 * type->size)) - 1;
    for (int i = x->first; i < x->first + x->count; ++i) {
        word_model *word = model_of(a, x->target, x->region, i);
        if (x->region == CLAIMED) {
            word->tried[actor] = true;
        } else if (x->writes && x->region == SUMS) {
            word->sum = combine(a->sum, type, word->sum, x->value & mask);
        } else if (x->writes) {
            word->written[x->value / 8] |= (unsigned char) (1 << x->value % 8);
            word->last[actor] = (unsigned char) x->value;
        }
    }
}

/* Computes the model's final state, in which all actors are done, before the first one begins. */
static void follow_all(atomics *a)
{
    for (int actor = 0; actor < actors(); ++actor) {
        rng random = rng_of(a->key, (uint64_t) actor, 7);
        for (int i = 0; i < a->actions; ++i) {
            action x = random_action(a, actor, &random);
            if (!is_left_out(a, &x, actor)) {
                follow(a, &x, actor);
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Execution */

/* This actor's own contribution to each word so far. */
typedef struct {
    uint64_t *sums;
    unsigned char *last;
} own_words;

static outcome *new_outcome(const atomics *a, const action *x, own_words *own)
{
    const basic_type *type = a->type[x->region];
    outcome *o = calloc(1, sizeof *o);
    o->action = *x;
    o->request = MPI_REQUEST_NULL;
    o->given = calloc((size_t) x->count, 8);
    o->got = calloc((size_t) x->count, 8);
    o->own = calloc((size_t) x->count, sizeof *o->own);
    uint64_t mask = type->size == 8 ? ~(uint64_t) 0 : ((uint64_t) 1 << (8 * type->size)) - 1;
    for (int i = 0; i < x->count; ++i) {
        int word = x->target * a->words + x->first + i;
        unsigned char *at = o->given + (size_t) i * type->size;
        if (x->region == SWAPPED) {
            memset(at, (int) x->value, type->size);
            o->own[i] = own->last[word];
            own->last[word] = x->writes ? (unsigned char) x->value : own->last[word];
        } else {
            set_number(type, at, x->value & mask);
        }
        if (x->region == SUMS) {
            o->own[i] = own->sums[word];
            own->sums[word] = x->writes ? combine(a->sum, type, own->sums[word], x->value & mask)
                                        : own->sums[word];
        }
    }
    return o;
}

static void start_many(const atomics *a, outcome *o, MPI_Aint at, MPI_Op op, bool requests)
{
    const action *x = &o->action;
    MPI_Datatype type = a->type[x->region]->type;
    MPI_Win win = a->win.win;
    if (x->gets && requests) {
        MPI_Rget_accumulate(o->given, x->count, type, o->got, x->count, type, x->target, at,
                            x->count, type, op, win, &o->request);
    } else if (x->gets) {
        MPI_Get_accumulate(o->given, x->count, type, o->got, x->count, type, x->target, at,
                           x->count, type, op, win);
    } else if (requests) {
        MPI_Raccumulate(o->given, x->count, type, x->target, at, x->count, type, op, win,
                        &o->request);
    } else {
        MPI_Accumulate(o->given, x->count, type, x->target, at, x->count, type, op, win);
    }
}

static void start(const atomics *a, outcome *o, bool requests)
{
    static const uint64_t nothing = 0;
    const action *x = &o->action;
    const basic_type *type = a->type[x->region];
    size_t from = region_at(a, x->region) + (size_t) x->first * type->size;
    MPI_Aint at = a->win.base[x->target] + (MPI_Aint) from / a->win.unit[x->target];
    MPI_Op op = !x->writes ? MPI_NO_OP : x->region == SUMS ? a->sum->op : MPI_REPLACE;
    step(x->region == SUMS      ? "sums"
         : x->region == SWAPPED ? "swapped"
                                : "claimed",
         x->target, x->count);
    if (x->region == CLAIMED) {
        MPI_Compare_and_swap(o->given, &nothing, o->got, type->type, x->target, at, a->win.win);
    } else if (x->alone) {
        o->action.gets = true;
        MPI_Fetch_and_op(o->given, o->got, type->type, x->target, at, op, a->win.win);
    } else {
        start_many(a, o, at, op, requests && x->requests);
    }
}

static void act(atomics *a, const action *x, own_words *own, rng *pauses)
{
    MPI_Win win = a->win.win;
    sync_kind sync = a->session.sync;
    outcome *o = new_outcome(a, x, own);
    o->next = a->outcomes[stress_thread];
    a->outcomes[stress_thread] = o;
    if (sync == SYNC_LOCK) {
        MPI_Win_lock(MPI_LOCK_SHARED, x->target, 0, win);
    }
    start(a, o, sync != SYNC_FENCE);
    bool waits = sync == SYNC_LOCK || (sync == SYNC_LOCK_ALL && one_in(pauses, 2));
    if (waits && o->request != MPI_REQUEST_NULL) {
        MPI_Wait(&o->request, MPI_STATUS_IGNORE);
    }
    if (sync == SYNC_LOCK) {
        MPI_Win_unlock(x->target, win);
    } else if (waits) {
        step("MPI_Win_flush", x->target, 0);
        MPI_Win_flush(x->target, win);
    }
    if (one_in(pauses, 30)) {
        step("computing", 0, 0);
        compute_for(0.001);
    }
}

static void act_all(void *argument)
{
    atomics *a = argument;
    int actor = this_actor();
    rng random = rng_of(a->key, (uint64_t) actor, 7), pauses = rng_of(a->key, (uint64_t) actor, 8);
    size_t count = (size_t) (stress_ranks * a->words);
    own_words own = {calloc(count, sizeof *own.sums), calloc(count, 1)};
    for (size_t i = 0; i < count; ++i) {
        own.sums[i] = 1;
    }
    for (int i = 0; i < a->actions; ++i) {
        action x = random_action(a, actor, &random);
        if (!is_left_out(a, &x, actor)) {
            act(a, &x, &own, &pauses);
        }
    }
    for (outcome *o = a->outcomes[stress_thread]; o != NULL; o = o->next) {
        MPI_Wait(&o->request, MPI_STATUS_IGNORE);
    }
    free(own.sums);
    free(own.last);
}

/* ---------------------------------------------------------------------------------------------- */

static void clear(atomics *a)
{
    size_t words = (size_t) (stress_ranks * REGIONS * a->words);
    memset(a->model, 0, words * sizeof *a->model);
    window_own_begin(&a->win);
    for (int word = 0; word < a->words; ++word) {
        unsigned char *base = a->win.memory;
        size_t at = (size_t) word;
        set_number(a->type[SUMS], base + region_at(a, SUMS) + at * a->type[SUMS]->size, 1);
        memset(base + region_at(a, SWAPPED) + at * a->type[SWAPPED]->size, UNTOUCHED,
               a->type[SWAPPED]->size);
        set_number(a->type[CLAIMED], base + region_at(a, CLAIMED) + at * a->type[CLAIMED]->size, 0);
    }
    window_own_end(&a->win);
    for (int target = 0; target < stress_ranks; ++target) {
        for (int word = 0; word < a->words; ++word) {
            model_of(a, target, SUMS, word)->sum = 1;
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void make(atomics *a, rng *random)
{
    static const int words[] = {1, 3, 10, 40, WORDS_MAX};
    a->words = words[random_below(random, 5)];
    a->actions = between(random, 10, 60);
    do {
        a->sum = random_operation(random, basic_of_size(8, false));
    } while (!a->sum->commutes || a->sum->op == MPI_PROD || a->sum->op == MPI_REPLACE);
    a->type[SUMS] =
        basic_of_size((size_t) 1 << between(random, a->sum->sums ? 2 : 0, 3), !a->sum->sums);
    a->type[SWAPPED] = basic_of_size((size_t) 1 << between(random, 1, 3), true);
    a->type[CLAIMED] = basic_of_size((size_t) 1 << between(random, 0, 3), true);
    size_t bytes = region_at(a, REGIONS) + FIRST;
    /* The unit is the smallest word size, so that every word begins at a multiple of it. */
    int unit = 8;
    for (int region = 0; region < REGIONS; ++region) {
        int size = (int) a->type[region]->size;
        unit = size < unit ? size : unit;
    }
    window_make(&a->win, random_flavor(random), (bytes + 23) / 24 * 24, 0, unit, random);
}

void atomics_round(uint64_t key)
{
    rng random = rng_of(key, 6, 0);
    atomics a = {0};
    int phases = between(&random, 1, 3);
    make(&a, &random);
    a.model = calloc((size_t) (stress_ranks * REGIONS * a.words), sizeof *a.model);
    for (int phase = 0; phase < phases; ++phase) {
        static const sync_kind kinds[] = {SYNC_LOCK_ALL, SYNC_LOCK, SYNC_FENCE};
        uint64_t which = random_below(&random, 3);
        a.key = random_next(&random);
        a.session = (session){.win = &a.win, .thread = -1};
        a.session.sync = options.threads > 1 ? SYNC_LOCK_ALL : kinds[which];
        clear(&a);
        follow_all(&a);
        session_open(&a.session);
        run_actors(act_all, &a);
        session_close(&a.session);
        step("barrier behind the actions", 0, 0);
        MPI_Barrier(MPI_COMM_WORLD);
        atomics_check(&a);
        step("barrier behind the checks", 0, 0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(a.model);
    window_free(&a.win);
}
