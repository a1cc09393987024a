// SPDX-License-Identifier: BSD-3-Clause
/*
 * One random operation of an actor, in its own part of a place, clear of its operations under way.
 * The operation is started, and applied to the model at once. Its result is compared when MPI
 * reports it complete.
 */
#include "mpi/rma/stress.h"

typedef enum {
    PUT,
    GET,
    ACCUMULATE,
    GET_ACCUMULATE,
    FETCH_AND_OP,
    COMPARE_AND_SWAP,
    OPERATION_KINDS
} operation_kind;

static const char *const kind_names[OPERATION_KINDS] = {"MPI_Put",          "MPI_Get",
                                                        "MPI_Accumulate",   "MPI_Get_accumulate",
                                                        "MPI_Fetch_and_op", "MPI_Compare_and_swap"};

/* An operation that is started and not known to be complete. Its buffers have guards before and
 * behind their bytes. */
struct pending {
    pending *next;
    const window *win;
    int target;
    operation_kind kind;
    const char *basic, *op;
    size_t start, elements;
    bool derived_here, derived_there;
    unsigned char *origin, *compare, *result, *expected;
    size_t origin_bytes, result_bytes;
    MPI_Request request;
};

/* The plan of one operation. */
typedef struct {
    operation_kind kind;
    const basic_type *basic;
    const operation *op;
    place *at;
    size_t start;             /* offset in the place */
    layout there, here, back; /* layouts at the target, of the origin, of the result */
    bool requests, no_origin;
    uint64_t key;
} plan;

static unsigned char *buffer_new(size_t bytes)
{
    size_t whole = bytes + 2 * (size_t) CHECK_GUARD_BYTES;
    unsigned char *block = malloc(whole);
    if (block == NULL) {
        FAIL("no memory for %zu bytes", bytes);
    }
    memset(block, CHECK_GUARD_VALUE, whole);
    return block + CHECK_GUARD_BYTES;
}

static void buffer_free(unsigned char *buffer)
{
    if (buffer != NULL) {
        free(buffer - CHECK_GUARD_BYTES);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Completion */

static void compare_result(const pending *p)
{
    size_t whole = p->result_bytes + 2 * (size_t) CHECK_GUARD_BYTES;
    const unsigned char *got = p->result - CHECK_GUARD_BYTES;
    const unsigned char *want = p->expected - CHECK_GUARD_BYTES;
    if (memcmp(got, want, whole) == 0) {
        return;
    }
    size_t first = 0, wrong = 0;
    while (got[first] == want[first]) {
        ++first;
    }
    for (size_t i = first; i < whole; ++i) {
        wrong += got[i] != want[i];
    }
    FAIL("%s of %zu %s (%s, %s to %s) at byte %zu of window %d (%s) of rank %d: byte %ld of "
         "the result's %zu is 0x%02x, expected 0x%02x (%zu bytes differ)",
         kind_names[p->kind], p->elements, p->basic, p->op, p->derived_there ? "derived" : "flat",
         p->derived_here ? "derived" : "flat", p->start, p->win->number,
         flavor_name(p->win->flavor), p->target, (long) first - CHECK_GUARD_BYTES, p->result_bytes,
         got[first], want[first], wrong);
}

/* Checks the result and frees the buffers. Overwrites the origin first, so that a late read of it
 * would deliver wrong bytes. */
static void release(pending *p)
{
    if (p->result != NULL) {
        compare_result(p);
    }
    if (p->origin != NULL) {
        memset(p->origin, 0x3c, p->origin_bytes);
    }
    buffer_free(p->origin);
    buffer_free(p->compare);
    buffer_free(p->result);
    buffer_free(p->expected);
    free(p);
}

static void wait_for(pending *p)
{
    if (p->request != MPI_REQUEST_NULL) {
        step("MPI_Wait", p->target, p->win->number);
        MPI_Wait(&p->request, MPI_STATUS_IGNORE);
    }
}

static bool is_at(const pending *p, const window *win, int target)
{
    return p->win == win && (target < 0 || p->target == target);
}

void operations_wait(walker *w, const window *win, int target)
{
    for (pending *p = w->waiting; p != NULL; p = p->next) {
        if (is_at(p, win, target)) {
            wait_for(p);
        }
    }
}

void operations_complete(walker *w, const window *win, int target)
{
    for (pending **at = &w->waiting; *at != NULL;) {
        pending *p = *at;
        if (!is_at(p, win, target)) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        wait_for(p);
        release(p);
    }
}

/* ------------------------------------------------------------------------------------------------
 * The model */

/* Applies an operation to the model, element by element in the layout's order. Returns the contents
 * before it. */
static unsigned char *apply(const plan *o, const unsigned char *given, const unsigned char *compare)
{
    size_t size = o->basic->size, bytes = o->there.elements * size;
    unsigned char *old = malloc(bytes), *now = malloc(bytes);
    if (old == NULL || now == NULL) {
        FAIL("no memory for %zu bytes", bytes);
    }
    layout_read(&o->there, o->at->model + o->start, old);
    memcpy(now, old, bytes);
    if (o->kind == PUT || (o->op != NULL && o->op->op == MPI_REPLACE)) {
        memcpy(now, given, bytes);
    } else if (o->kind == COMPARE_AND_SWAP) {
        if (memcmp(old, compare, bytes) == 0) {
            memcpy(now, given, bytes);
        }
    } else if (o->kind != GET && o->op->op != MPI_NO_OP) {
        for (size_t i = 0; i < bytes; i += size) {
            uint64_t there = number_at(o->basic, old + i), here = number_at(o->basic, given + i);
            set_number(o->basic, now + i, combine(o->op, o->basic, there, here));
        }
    }
    layout_write(&o->there, o->at->model + o->start, now);
    free(now);
    return old;
}

/* ------------------------------------------------------------------------------------------------
 * Execution */

static void start_transfer(const plan *o, pending *p, MPI_Aint disp)
{
    MPI_Win win = o->at->win->win;
    const layout *here = &o->here, *there = &o->there, *back = &o->back;
    int target = o->at->target;
    bool put = o->kind == PUT;
    if (put && o->requests) {
        MPI_Rput(p->origin, here->count, here->type, target, disp, there->count, there->type, win,
                 &p->request);
    } else if (put) {
        MPI_Put(p->origin, here->count, here->type, target, disp, there->count, there->type, win);
    } else if (o->requests) {
        MPI_Rget(p->result, back->count, back->type, target, disp, there->count, there->type, win,
                 &p->request);
    } else {
        MPI_Get(p->result, back->count, back->type, target, disp, there->count, there->type, win);
    }
}

static void start_accumulate(const plan *o, pending *p, MPI_Aint disp)
{
    MPI_Win win = o->at->win->win;
    const layout *here = &o->here, *there = &o->there, *back = &o->back;
    int target = o->at->target, count = o->no_origin ? 0 : here->count;
    MPI_Op op = o->op->op;
    if (o->kind == ACCUMULATE && o->requests) {
        MPI_Raccumulate(p->origin, count, here->type, target, disp, there->count, there->type, op,
                        win, &p->request);
    } else if (o->kind == ACCUMULATE) {
        MPI_Accumulate(p->origin, count, here->type, target, disp, there->count, there->type, op,
                       win);
    } else if (o->requests) {
        MPI_Rget_accumulate(p->origin, count, here->type, p->result, back->count, back->type,
                            target, disp, there->count, there->type, op, win, &p->request);
    } else {
        MPI_Get_accumulate(p->origin, count, here->type, p->result, back->count, back->type, target,
                           disp, there->count, there->type, op, win);
    }
}

static void start(const plan *o, pending *p)
{
    const window *win = o->at->win;
    MPI_Aint disp = o->at->base + (MPI_Aint) o->start / win->unit[o->at->target];
    step(kind_names[o->kind], o->at->target, (long) (o->there.elements * o->basic->size));
    if (options.trace) {
        step("    at, span", (long) o->start, (long) o->there.span);
    }
    switch (o->kind) {
    case PUT:
    case GET:
        start_transfer(o, p, disp);
        break;
    case FETCH_AND_OP:
        MPI_Fetch_and_op(p->origin, p->result, o->basic->type, o->at->target, disp, o->op->op,
                         win->win);
        break;
    case COMPARE_AND_SWAP:
        MPI_Compare_and_swap(p->origin, p->compare, p->result, o->basic->type, o->at->target, disp,
                             win->win);
        break;
    default:
        start_accumulate(o, p, disp);
    }
}

static unsigned char *spread(const layout *l, const unsigned char *flat)
{
    unsigned char *buffer = buffer_new(l->span);
    layout_write(l, buffer, flat);
    return buffer;
}

static void execute(walker *w, plan *o, const unsigned char *given, const unsigned char *compare,
                    const unsigned char *old)
{
    pending *p = calloc(1, sizeof *p);
    if (p == NULL) {
        FAIL("no memory");
    }
    *p = (pending){.next = w->waiting,
                   .win = o->at->win,
                   .target = o->at->target,
                   .kind = o->kind,
                   .basic = o->basic->name,
                   .op = o->op != NULL ? o->op->name : "-",
                   .start = o->start,
                   .elements = o->there.elements,
                   .derived_here = o->back.derived,
                   .derived_there = o->there.derived,
                   .request = MPI_REQUEST_NULL};
    w->waiting = p;
    if (o->kind != GET && !o->no_origin) {
        p->origin = spread(&o->here, given);
        p->origin_bytes = o->here.span;
    }
    if (o->kind == COMPARE_AND_SWAP) {
        p->compare = spread(&o->here, compare);
    }
    if (o->kind != PUT && o->kind != ACCUMULATE) {
        p->result_bytes = o->back.span;
        p->result = buffer_new(o->back.span);
        p->expected = spread(&o->back, old);
    }
    layout_commit(&o->here);
    layout_commit(&o->there);
    layout_commit(&o->back);
    start(o, p);
    layout_free(&o->here);
    layout_free(&o->there);
    layout_free(&o->back);
}

/* ------------------------------------------------------------------------------------------------
 * Random choice of an operation */

static operation_kind random_kind(rng *random)
{
    static const operation_kind kinds[] = {PUT,
                                           PUT,
                                           PUT,
                                           GET,
                                           GET,
                                           GET,
                                           ACCUMULATE,
                                           ACCUMULATE,
                                           GET_ACCUMULATE,
                                           GET_ACCUMULATE,
                                           FETCH_AND_OP,
                                           COMPARE_AND_SWAP};
    return kinds[random_below(random, sizeof kinds / sizeof kinds[0])];
}

/* Sizes around the limits of a transport; large ones are rare. */
static size_t random_size(rng *random, size_t largest)
{
    static const size_t sizes[] = {1,     2,     4,     8,     16,    24,    32,    56,
                                   63,    64,    65,    72,    100,   256,   1000,  2048,
                                   4088,  4095,  4096,  4097,  4104,  8192,  12288, 32768,
                                   65528, 65535, 65536, 65537, 65544, 100000};
    static const size_t large[] = {262144, 4194296, 4194303, 4194304, 4194305, 4194312};
    size_t count = sizeof sizes / sizeof sizes[0];
    size_t size =
        one_in(random, 2) ? sizes[random_below(random, 14)] : sizes[random_below(random, count)];
    if (largest > 262144 && one_in(random, 8)) {
        size = large[random_below(random, sizeof large / sizeof large[0])];
    }
    return size;
}

/* Avoids a short last piece: osc/rdma cuts at 4 KiB, and does the last piece by atomics if it has
 * at most 32 elements. */
static size_t without_short_piece(size_t elements, size_t size)
{
    size_t piece = 4096 / size, left = elements % piece;
    return elements > piece && left <= 32 ? elements - left : elements;
}

/* Finds room behind what the actor uses already, and makes the layouts fit it. */
static bool find_room(walker *w, plan *o, int place_number)
{
    const part *mine = &w->program->parts[place_number * actors() + w->actor];
    size_t unit = (size_t) o->at->win->unit[o->at->target], size = o->basic->size;
    size_t align = unit % size == 0 ? unit : size;
    size_t bytes = random_size(&w->random, w->program->largest);
    size_t gap = random_below(&w->random, 4) * align;
    bool single = o->kind == FETCH_AND_OP || o->kind == COMPARE_AND_SWAP;
    bool derived = !single && (o->kind != GET_ACCUMULATE || with(WITH_DERIVED_GET_ACCUMULATE));
    o->start = (w->cursors[place_number] + gap + align - 1) / align * align;
    size_t room = o->start < mine->end ? mine->end - o->start : 0;
    if (room < size) {
        return false;
    }
    size_t elements = bytes < size || single ? 1 : bytes / size;
    elements = elements * size <= room ? elements : room / size;
    if (o->kind == GET_ACCUMULATE && !with(WITH_DERIVED_GET_ACCUMULATE)) {
        elements = without_short_piece(elements, size);
    }
    layout_make(&o->there, o->basic, elements, room, derived && one_in(&w->random, 3), &w->random);
    size_t any = elements * size + 65536;
    layout_make(&o->here, o->basic, elements, any, derived && one_in(&w->random, 3), &w->random);
    layout_make(&o->back, o->basic, elements, any, derived && one_in(&w->random, 3), &w->random);
    w->cursors[place_number] = o->start + o->there.span;
    return true;
}

static void one(walker *w, plan *o)
{
    size_t bytes = o->there.elements * o->basic->size;
    unsigned char *given = malloc(bytes), compare[8];
    if (given == NULL) {
        FAIL("no memory for %zu bytes", bytes);
    }
    fill(given, bytes, o->key);
    if (o->kind == COMPARE_AND_SWAP) {
        memcpy(compare, o->at->model + o->start, bytes);
        compare[0] ^= o->key % 3 == 0;
    }
    unsigned char *old = apply(o, given, compare);
    if (w->execute) {
        execute(w, o, given, compare, old);
    }
    free(old);
    free(given);
}

bool operation_random(walker *w, int place_number, bool requests)
{
    plan o = {.kind = random_kind(&w->random), .at = &w->program->places[place_number]};
    o.basic = random_basic(&w->random, o.kind == COMPARE_AND_SWAP);
    if (o.kind == COMPARE_AND_SWAP
        && !swap_works(o.at->win, w->rank, o.at->target, o.basic->size)) {
        o.kind = GET;
    }
    bool accumulates = o.kind == ACCUMULATE || o.kind == GET_ACCUMULATE || o.kind == FETCH_AND_OP;
    const operation *op = random_operation(&w->random, o.basic);
    bool only_reads = one_in(&w->random, 4) && (o.kind == GET_ACCUMULATE || o.kind == FETCH_AND_OP);
    o.op = !accumulates ? NULL : only_reads ? &operations[OP_NO_OP] : op;
    o.requests =
        requests && one_in(&w->random, 3) && (o.kind != FETCH_AND_OP && o.kind != COMPARE_AND_SWAP);
    o.no_origin = o.kind == GET_ACCUMULATE && only_reads && one_in(&w->random, 2);
    if (!find_room(w, &o, place_number)) {
        return false;
    }
    /* Accumulates of one origin at one place keep their order, so several in a row are allowed. */
    int times = accumulates && o.kind != FETCH_AND_OP && one_in(&w->random, 6) ? 3 : 1;
    for (int i = 0; i < times; ++i) {
        o.key = random_next(&w->random) | 1;
        one(w, &o);
        ++w->count;
    }
    return true;
}
