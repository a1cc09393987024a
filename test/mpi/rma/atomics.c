// SPDX-License-Identifier: BSD-3-Clause
/*
 * atomics: accumulates of all actors on the same words at the same time. Three regions at each rank:
 *
 *   sums     one operation that commutes; the end is known, and whoever gets a word on the way finds at least what it
 *            has added itself
 *   swapped  MPI_REPLACE and MPI_NO_OP. All bytes of a value are the same and name its writer, so that a torn word
 *            is seen; in the end a word has the last value of one of its writers
 *   claimed  MPI_Compare_and_swap from 0: one wins, and all others are told who
 *
 * Actors follow from the key, so that each rank knows who may have written what.
 */
#include "mpi/rma/stress.h"

enum {
    WORDS_MAX =
        700, /* of a region: more than one atomic operation, and than one block of a page, takes */
    FIRST = 96,     /* the first region begins behind so many bytes */
    UNTOUCHED = 255 /* the value of a swapped word that nobody has written */
};

typedef enum {
    SUMS,
    SWAPPED,
    CLAIMED,
    REGIONS
} region_kind;

typedef struct {
    region_kind region;
    int target, first, count;
    bool gets, alone, writes, requests; /* alone: by MPI_Fetch_and_op */
    uint64_t value;                     /* of SUMS; else the byte or the word that is written */
} action;

/* What an operation returned, and what that may be. */
typedef struct outcome {
    struct outcome *next;
    action action;
    MPI_Request request;
    unsigned char *given, *got;
    uint64_t *
        own; /* SUMS: what each word had at least; SWAPPED: what this actor had written last, or 0 */
} outcome;

/* What is known of one word. */
typedef struct {
    uint64_t sum;
    unsigned char written[32];      /* SWAPPED: bit mask of values */
    unsigned char last[ACTORS_MAX]; /* SWAPPED: of each actor; 0: none */
    bool tried[ACTORS_MAX];         /* CLAIMED */
} word_model;

typedef struct {
    window win;
    session session;
    const basic_type *type[REGIONS];
    const operation *sum;
    int words, actions;
    uint64_t key;
    word_model *model; /* [target][region][word] */
    outcome *outcomes[THREADS_MAX];
} atomics;

static word_model *model_of(const atomics *a, int target, region_kind region, int word)
{
    return &a->model[(target * REGIONS + region) * a->words + word];
}

static size_t region_at(const atomics *a, region_kind region)
{
    return FIRST + (size_t) region * (size_t) ((a->words * 8 + 64 + 23) / 24 * 24);
}

/* The values of an actor: no other actor has them. 0 and UNTOUCHED are nobody's. */
static int values_of_each(void)
{
    return 254 / actors();
}

static int writer_of(int value)
{
    return (value - 1) / values_of_each();
}

/* ------------------------------------------------------------------------------------------------
 * What actors do */

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

/* The model as it is when all actors are done; before anybody begins. */
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
 * Doing it */

/* What this actor has made of each word so far. */
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

/* ------------------------------------------------------------------------------------------------
 * What must be */

/* All words of the region, one after another, of any rank. */
static void read_region(atomics *a, int target, region_kind region, unsigned char *words)
{
    MPI_Aint at = a->win.base[target] + (MPI_Aint) region_at(a, region) / a->win.unit[target];
    step("reading a region", target, region);
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, a->win.win);
    MPI_Get(words, a->words, a->type[region]->type, target, at, a->words, a->type[region]->type,
            a->win.win);
    MPI_Win_unlock(target, a->win.win);
}

static void fail_word(const atomics *a, const action *x, int word, const unsigned char *at,
                      const char *what, uint64_t wanted)
{
    const basic_type *type = a->type[x->region];
    FAIL(
        "%s of rank %d (%s, %s, %s), word %d: %s: 0x%lx (own or expected: 0x%lx; operation of %d words)",
        x->region == SUMS      ? "sums"
        : x->region == SWAPPED ? "swapped"
                               : "claimed",
        x->target, flavor_name(a->win.flavor), type->name, x->region == SUMS ? a->sum->name : "-",
        word, what, (unsigned long) number_at(type, at), (unsigned long) wanted, x->count);
}

/* Operations but SUM never take back what they did: doing once more what this actor did changes nothing. */
static void check_sum(const atomics *a, const action *x, int word, const unsigned char *at,
                      uint64_t own)
{
    const basic_type *type = a->type[SUMS];
    uint64_t got = number_at(type, at), most = model_of(a, x->target, SUMS, word)->sum;
    if (a->sum->op == MPI_BXOR) {
        return;
    }
    bool bad = a->sum->sums ? got < own || got > most
                            : combine(a->sum, type, got, own) != got
                                  || combine(a->sum, type, got, most) != most;
    if (bad) {
        fail_word(a, x, word, at, "an update is missing, or one too many", own);
    }
}

static void check_swapped(const atomics *a, const action *x, int word, const unsigned char *at,
                          int actor, uint64_t own)
{
    size_t size = a->type[SWAPPED]->size;
    const word_model *model = model_of(a, x->target, SWAPPED, word);
    for (size_t i = 1; i < size; ++i) {
        if (at[i] != at[0]) {
            fail_word(a, x, word, at, "a torn word", own);
        }
    }
    if (at[0] == UNTOUCHED ? own != 0 : !(model->written[at[0] / 8] >> at[0] % 8 & 1)) {
        fail_word(a, x, word, at, "a value that cannot be there", own);
    }
    if (at[0] != UNTOUCHED && writer_of(at[0]) == actor && at[0] != own) {
        fail_word(a, x, word, at, "an older value of this actor", own);
    }
}

static void check_outcome(const atomics *a, const outcome *o, int actor,
                          unsigned char *const *claimed)
{
    const action *x = &o->action;
    size_t size = a->type[x->region]->size;
    for (int i = 0; i < x->count && x->gets; ++i) {
        const unsigned char *at = o->got + (size_t) i * size;
        if (x->region == SUMS) {
            check_sum(a, x, x->first + i, at, o->own[i]);
        } else if (x->region == SWAPPED) {
            check_swapped(a, x, x->first + i, at, actor, o->own[i]);
        }
    }
    if (x->region == CLAIMED) {
        uint64_t old = number_at(a->type[CLAIMED], o->got);
        uint64_t end = number_at(a->type[CLAIMED], claimed[x->target] + (size_t) x->first * size);
        if (old == 0 ? end != (uint64_t) actor + 1 : end != old) {
            fail_word(a, x, x->first, o->got, "this came back, and in the end it is another", end);
        }
    }
}

static void check_outcomes(atomics *a)
{
    unsigned char *claimed[RANKS_MAX];
    for (int target = 0; target < stress_ranks; ++target) {
        claimed[target] = calloc((size_t) a->words, 8);
        read_region(a, target, CLAIMED, claimed[target]);
    }
    for (int thread = 0; thread < options.threads; ++thread) {
        while (a->outcomes[thread] != NULL) {
            outcome *o = a->outcomes[thread];
            a->outcomes[thread] = o->next;
            check_outcome(a, o, stress_rank * options.threads + thread, claimed);
            free(o->given);
            free(o->got);
            free(o->own);
            free(o);
        }
    }
    for (int target = 0; target < stress_ranks; ++target) {
        free(claimed[target]);
    }
}

static void check_final_word(const atomics *a, const action *x, int word, const unsigned char *at)
{
    const word_model *model = model_of(a, x->target, x->region, word);
    uint64_t number = number_at(a->type[x->region], at);
    if (x->region == SUMS && number != model->sum) {
        fail_word(a, x, word, at, "the end", model->sum);
    }
    if (x->region == SWAPPED) {
        bool any = false;
        for (int actor = 0; actor < actors(); ++actor) {
            any = any || model->last[actor] != 0;
        }
        check_swapped(a, x, word, at, -1, 0);
        if (any ? at[0] == UNTOUCHED || model->last[writer_of(at[0])] != at[0]
                : at[0] != UNTOUCHED) {
            fail_word(a, x, word, at, "the end, which is nobody's last value", 0);
        }
    }
    if (x->region == CLAIMED) {
        bool any = false;
        for (int actor = 0; actor < actors(); ++actor) {
            any = any || model->tried[actor];
        }
        if (any ? number == 0 || number > (uint64_t) actors() || !model->tried[number - 1]
                : number != 0) {
            fail_word(a, x, word, at, "the end, which is of nobody who tried", 0);
        }
    }
}

static void check_final(atomics *a)
{
    window_own_begin(&a->win);
    for (int region = 0; region < REGIONS; ++region) {
        action x = {.region = region, .target = stress_rank};
        size_t size = a->type[region]->size;
        const unsigned char *begin = a->win.memory + region_at(a, region);
        for (int word = 0; word < a->words; ++word) {
            check_final_word(a, &x, word, begin + (size_t) word * size);
        }
        const unsigned char *to = a->win.memory + region_at(a, region + 1);
        for (const unsigned char *at = begin + (size_t) a->words * size; at < to; ++at) {
            if (*at != CHECK_GUARD_VALUE) {
                FAIL("%s: a byte behind region %d is 0x%02x", flavor_name(a->win.flavor), region,
                     *at);
            }
        }
    }
    window_own_end(&a->win);
    window_check_guards(&a->win);
}

/* ------------------------------------------------------------------------------------------------ */

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
    /* Displacements count in units, and a word begins at a multiple of one. */
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
        check_outcomes(&a);
        check_final(&a);
        step("barrier behind the checks", 0, 0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(a.model);
    window_free(&a.win);
}
