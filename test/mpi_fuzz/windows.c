// SPDX-License-Identifier: BSD-3-Clause
/*
 * One-sided operations: windows of MPI_Win_create, MPI_Win_allocate and MPI_Win_create_dynamic,
 * epochs of all kinds of synchronization, one after the other.
 *
 * Each origin has places of its own in the memory of each target, one for each operation of an
 * epoch, so their results do not depend on others; it reads what it stored in earlier epochs. All
 * origins add to common words, and draw numbers from a common word: the sum is known, and which
 * numbers were drawn, not by whom.
 */
#include "mpi_fuzz/fuzz.h"

enum {
    PLACES = 4, /* of an origin */
    EPOCHS_MAX = 5,
    COMMON = 256, /* bytes at the front of each window */
    WORDS = 16    /* of COMMON, that all add to; the word behind them is drawn from */
};

typedef enum {
    CREATE,
    ALLOCATE,
    DYNAMIC,
    FLAVORS
} flavor;

typedef enum {
    FENCE,
    LOCK,
    LOCK_ALL,
    POST_START,
    EPOCHS
} epoch;

typedef enum {
    PUT,
    GET,
    ACCUMULATE,
    GET_ACCUMULATE,
    FETCH_AND_OP,
    COMPARE_AND_SWAP,
    RPUT,
    RGET,
    LAST_OWN = RGET,
    ADD_COMMON,
    DRAW,
    OPERATIONS
} operation;

static const char *const flavor_names[] = {"create", "allocate", "dynamic"};
static const char *const epoch_names[] = {"fence", "lock", "lock_all", "post and start"};
static const char *const names[] = {"Put",
                                    "Get",
                                    "Accumulate",
                                    "Get_accumulate",
                                    "Fetch_and_op",
                                    "Compare_and_swap",
                                    "Rput",
                                    "Rget",
                                    "Accumulate of common words",
                                    "Fetch_and_op of the common word"};

typedef struct {
    const step *s;
    MPI_Win win;
    MPI_Aint addresses[64];
    flavor how;
    int unit, ranks, rank;
    size_t place, bytes; /* of one place; of a rank's memory */
    unsigned char *memory;
    int draws;
    uint64_t numbers[EPOCHS_MAX * PLACES]; /* that this rank drew */
} window;

/* An operation that is pending until its epoch ends */
typedef struct {
    operation what;
    int target, number;
    bool has_in;
    side out, in, there;
    MPI_Request request;
    uint64_t compare;
} access;

/* -------------------------------------------------------------------------------------------------
 * Windows */

static void win_make(window *w, uint64_t *random)
{
    MPI_Comm comm = w->s->where->comm;
    MPI_Aint address;
    w->how = (flavor) below(random, FLAVORS);
    w->place = (size_t) 8 << (3 + below(random, chance(random, 5) ? 11 : 8));
    w->unit = w->how == DYNAMIC || chance(random, 2) ? 1 : 8;
    w->bytes = COMMON + w->place * PLACES * (size_t) w->ranks;
    log_words(w->s, "window: %s, %zu bytes, unit %d", flavor_names[w->how], w->bytes, w->unit);
    if (w->how == ALLOCATE) {
        TRY(w->s, MPI_Win_allocate((MPI_Aint) w->bytes, w->unit, MPI_INFO_NULL, comm, &w->memory,
                                   &w->win));
    } else {
        TRY(w->s, MPI_Alloc_mem((MPI_Aint) w->bytes, MPI_INFO_NULL, &w->memory));
    }
    memset(w->memory, CHECK_GUARD_VALUE, w->bytes);
    memset(w->memory, 0, COMMON);
    if (w->how == CREATE) {
        TRY(w->s,
            MPI_Win_create(w->memory, (MPI_Aint) w->bytes, w->unit, MPI_INFO_NULL, comm, &w->win));
    } else if (w->how == DYNAMIC) {
        TRY(w->s, MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &w->win));
        TRY(w->s, MPI_Win_attach(w->win, w->memory, (MPI_Aint) w->bytes));
        MPI_Get_address(w->memory, &address);
        MPI_Allgather(&address, 1, MPI_AINT, w->addresses, 1, MPI_AINT, comm);
    }
    MPI_Win_set_errhandler(w->win, MPI_ERRORS_RETURN);
    MPI_Barrier(comm);
}

/* Hashes the memory in an epoch of its own, and frees the window. */
static void win_end(window *w)
{
    MPI_Barrier(w->s->where->comm);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w->rank, 0, w->win);
    log_result(w->s, "memory %016llx, common %016llx",
               (unsigned long long) hash_bytes(w->memory + COMMON, w->bytes - COMMON),
               (unsigned long long) hash_bytes(w->memory, COMMON));
    MPI_Win_unlock(w->rank, w->win);
    MPI_Barrier(w->s->where->comm);
    if (w->how == DYNAMIC) {
        TRY(w->s, MPI_Win_detach(w->win, w->memory));
    }
    TRY(w->s, MPI_Win_free(&w->win));
    if (w->how != ALLOCATE) {
        MPI_Free_mem(w->memory);
    }
}

/* The displacement of a byte of a target's memory */
static MPI_Aint at(const window *w, int target, size_t byte)
{
    return w->how == DYNAMIC ? w->addresses[target] + (MPI_Aint) byte : (MPI_Aint) byte / w->unit;
}

static size_t place_at(const window *w, int number)
{
    return COMMON + w->place * (size_t) (w->rank * PLACES + number % PLACES);
}

/* -------------------------------------------------------------------------------------------------
 * Operations */

/* The layout at the target, if it fits the place; plain otherwise. Sets *from to its displacement
 * within the place. */
static void lay_there(const window *w, access *a, int basic, size_t elements, size_t *from,
                      uint64_t *random)
{
    for (int plain = chance(random, 2);; plain = 1) {
        MPI_Aint first, end;
        side_make(&a->there, basic, elements, plain, random);
        side_bounds(&a->there, &first, &end);
        MPI_Aint unit = w->unit, front = first < 0 ? (-first + unit - 1) / unit * unit : 0;
        *from = (size_t) front;
        if (plain || front + end <= (MPI_Aint) w->place) {
            return;
        }
        side_free(&a->there);
    }
}

static void move(window *w, access *a, bool in_request, uint64_t *random)
{
    int basic = random_basic(random);
    /* Half of the place has room for elements with gaps of C's structures. */
    size_t elements = random_elements(random, basic, w->place / 2), from;
    bool put = a->what == PUT || a->what == RPUT;
    lay_there(w, a, basic, elements, &from, random);
    side_make(&a->out, basic, elements, chance(random, 2), random);
    if (put) {
        side_fill(&a->out, *random);
    }
    side *b = &a->out, *t = &a->there;
    MPI_Aint disp = at(w, a->target, place_at(w, a->number) + from);
    log_words(w->s, "%s%s, place %d of %d: %s, there %s", in_request ? "R" : "",
              put ? "put" : "get", a->number % PLACES, a->target, b->words, t->words);
    if (put && in_request) {
        TRY(w->s, MPI_Rput(b->at, b->count, b->type, a->target, disp, t->count, t->type, w->win,
                           &a->request));
    } else if (put) {
        TRY(w->s, MPI_Put(b->at, b->count, b->type, a->target, disp, t->count, t->type, w->win));
    } else if (in_request) {
        TRY(w->s, MPI_Rget(b->at, b->count, b->type, a->target, disp, t->count, t->type, w->win,
                           &a->request));
    } else {
        TRY(w->s, MPI_Get(b->at, b->count, b->type, a->target, disp, t->count, t->type, w->win));
    }
}

static void accumulate(window *w, access *a, bool in_request, uint64_t *random)
{
    const MPI_Op ops[] = {MPI_SUM, MPI_REPLACE, MPI_BXOR, MPI_MAX, MPI_NO_OP};
    bool gets = a->what == GET_ACCUMULATE;
    int op = below(random, gets ? 5 : 4);
    size_t most = w->place / 8, whole = gets && most > 500 ? 500 : most;
    size_t elements = 1 + random_below(random, whole);
    int n = (int) elements;
    side_make(&a->out, BASIC_LONG, elements, true, random);
    side_make(&a->in, BASIC_LONG, elements, true, random);
    side_fill(&a->out, *random);
    a->has_in = true;
    MPI_Aint disp = at(w, a->target, place_at(w, a->number));
    log_words(w->s, "%s%s, op %d, place %d of %d: %d long", in_request ? "R" : "", names[a->what],
              op, a->number % PLACES, a->target, n);
    if (gets && in_request) {
        TRY(w->s, MPI_Rget_accumulate(a->out.at, n, MPI_LONG, a->in.at, n, MPI_LONG, a->target,
                                      disp, n, MPI_LONG, ops[op], w->win, &a->request));
    } else if (gets) {
        TRY(w->s, MPI_Get_accumulate(a->out.at, n, MPI_LONG, a->in.at, n, MPI_LONG, a->target, disp,
                                     n, MPI_LONG, ops[op], w->win));
    } else if (in_request) {
        TRY(w->s, MPI_Raccumulate(a->out.at, n, MPI_LONG, a->target, disp, n, MPI_LONG, ops[op],
                                  w->win, &a->request));
    } else {
        TRY(w->s,
            MPI_Accumulate(a->out.at, n, MPI_LONG, a->target, disp, n, MPI_LONG, ops[op], w->win));
    }
}

/* One word: fetched, swapped, or drawn */
static void word(window *w, access *a, uint64_t *random)
{
    bool draws = a->what == DRAW, swaps = a->what == COMPARE_AND_SWAP;
    MPI_Datatype type = chance(random, 2) || draws ? MPI_LONG : MPI_INT;
    size_t byte =
        draws ? WORDS * 8 : place_at(w, a->number) + 8 * random_below(random, w->place / 8);
    MPI_Aint disp = at(w, a->target, byte);
    side_make(&a->out, BASIC_LONG, 1, true, random);
    side_make(&a->in, BASIC_LONG, 1, true, random);
    side_fill(&a->out, *random);
    a->has_in = true;
    log_words(w->s, "%s of %d, byte %zu", names[a->what], a->target, byte);
    if (swaps) { /* half of them meet what was there at first */
        a->compare = chance(random, 2) ? UINT64_C(0xA5A5A5A5A5A5A5A5) : 1;
        TRY(w->s,
            MPI_Compare_and_swap(a->out.at, &a->compare, a->in.at, type, a->target, disp, w->win));
        return;
    }
    if (draws) {
        memcpy(a->out.at, &(uint64_t){1}, 8);
    }
    MPI_Op op = draws || chance(random, 2) ? MPI_SUM : MPI_REPLACE;
    TRY(w->s, MPI_Fetch_and_op(a->out.at, a->in.at, type, a->target, disp, op, w->win));
}

static void add_common(window *w, access *a, uint64_t *random)
{
    size_t first = random_below(random, WORDS), elements = 1 + random_below(random, WORDS - first);
    side_make(&a->out, BASIC_LONG, elements, true, random);
    side_fill(&a->out, *random);
    log_words(w->s, "add to %zu common words of %d", elements, a->target);
    TRY(w->s,
        MPI_Accumulate(a->out.at, (int) elements, MPI_LONG, a->target, at(w, a->target, 8 * first),
                       (int) elements, MPI_LONG, MPI_SUM, w->win));
}

static void begin(window *w, access *a, bool requests, uint64_t *random)
{
    bool in_request = requests && (a->what == RPUT || a->what == RGET || chance(random, 4));
    a->request = MPI_REQUEST_NULL;
    switch (a->what) {
    case PUT:
    case GET:
    case RPUT:
    case RGET:
        move(w, a, in_request, random);
        break;
    case ACCUMULATE:
    case GET_ACCUMULATE:
        accumulate(w, a, in_request, random);
        break;
    case ADD_COMMON:
        add_common(w, a, random);
        break;
    default:
        word(w, a, random);
    }
}

static void finish(window *w, access *a)
{
    if (a->what == DRAW) {
        memcpy(&w->numbers[w->draws++], a->in.at, 8);
    } else {
        log_result(w->s, "%s of %d: hashes %016llx %016llx", names[a->what], a->target,
                   (unsigned long long) side_hash(&a->out),
                   (unsigned long long) (a->has_in ? side_hash(&a->in) : 0));
    }
    side_free(&a->out);
    if (a->has_in) {
        side_free(&a->in);
    }
    if (a->there.block != NULL) {
        side_free(&a->there);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Epochs */

static void open_epoch(window *w, epoch how, MPI_Group all)
{
    if (how == FENCE) {
        TRY(w->s, MPI_Win_fence(0, w->win));
    } else if (how == LOCK_ALL) {
        TRY(w->s, MPI_Win_lock_all(0, w->win));
    } else if (how == POST_START) {
        TRY(w->s, MPI_Win_post(all, 0, w->win));
        TRY(w->s, MPI_Win_start(all, 0, w->win));
    }
}

static void close_epoch(window *w, epoch how)
{
    if (how == FENCE) {
        TRY(w->s, MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
    } else if (how == LOCK_ALL) {
        TRY(w->s, MPI_Win_unlock_all(w->win));
    } else if (how == POST_START) {
        TRY(w->s, MPI_Win_complete(w->win));
        TRY(w->s, MPI_Win_wait(w->win));
    }
    TRY(w->s, MPI_Barrier(w->s->where->comm));
}

/* Operations of one epoch: on one target at a time with MPI_Win_lock, on any with the others */
static void run_epoch(window *w, int number, uint64_t *random)
{
    access list[PLACES];
    epoch how = (epoch) below(random, EPOCHS);
    MPI_Group all;
    uint64_t own = seed_of(*random, 60 + (uint64_t) w->rank);
    int count = below(&own, PLACES + 1), target = below(&own, w->ranks);
    MPI_Comm_group(w->s->where->comm, &all);
    log_words(w->s, "epoch %d: %s", number, epoch_names[how]);
    open_epoch(w, how, all);
    if (how == LOCK) {
        TRY(w->s, MPI_Win_lock(chance(&own, 2) ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0,
                               w->win));
    }
    memset(list, 0, sizeof list);
    for (int i = 0; i < count; ++i) {
        access *a = &list[i];
        a->number = i;
        a->target = how == LOCK ? target : below(&own, w->ranks);
        a->what = (operation) below(&own, OPERATIONS);
        begin(w, a, how == LOCK || how == LOCK_ALL, &own);
        if (how == LOCK && chance(&own, 4)) {
            TRY(w->s, MPI_Win_flush(target, w->win));
        } else if (how == LOCK_ALL && chance(&own, 4)) {
            TRY(w->s, MPI_Win_flush_all(w->win));
        }
    }
    for (int i = 0; i < count; ++i) {
        TRY(w->s, MPI_Wait(&list[i].request, MPI_STATUS_IGNORE));
    }
    if (how == LOCK) {
        TRY(w->s, MPI_Win_unlock(target, w->win));
    }
    close_epoch(w, how);
    for (int i = 0; i < count; ++i) {
        finish(w, &list[i]);
    }
    MPI_Group_free(&all);
}

static int in_order(const void *a, const void *b)
{
    const uint64_t *one = a, *other = b;
    return *one < *other ? -1 : *one > *other;
}

/* All numbers that were drawn, of all ranks, in order: rank 0 logs them. */
static void report_drawn(window *w)
{
    int counts[64], places[64], all = 0;
    MPI_Comm comm = w->s->where->comm;
    MPI_Allgather(&w->draws, 1, MPI_INT, counts, 1, MPI_INT, comm);
    for (int i = 0; i < w->ranks; ++i) {
        places[i] = all;
        all += counts[i];
    }
    uint64_t *numbers = calloc((size_t) all + 1, sizeof *numbers);
    MPI_Gatherv(w->numbers, w->draws, MPI_UINT64_T, numbers, counts, places, MPI_UINT64_T, 0, comm);
    if (w->rank == 0) {
        qsort(numbers, (size_t) all, sizeof *numbers, in_order);
        log_result(w->s, "%d numbers were drawn: %016llx", all,
                   (unsigned long long) hash_bytes(numbers, (size_t) all * sizeof *numbers));
    }
    free(numbers);
}

void windows_start(step *s)
{
    if (fuzz_omits & WINDOWS || (fuzz_omits & PART_WINDOWS && s->where->part)) {
        return;
    }
    uint64_t random = seed_of(s->seed, 1);
    window *w = calloc(1, sizeof *w);
    w->s = s;
    w->rank = s->where->rank;
    w->ranks = s->where->sizes[0];
    win_make(w, &random);
    int epochs = 1 + below(&random, EPOCHS_MAX);
    for (int i = 0; i < epochs; ++i) {
        run_epoch(w, i, &random);
    }
    report_drawn(w);
    win_end(w);
    free(w);
}
