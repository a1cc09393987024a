// SPDX-License-Identifier: BSD-3-Clause
/*
 * list: all ranks append elements to one linked list in a dynamic window at the same time. A rank
 * attaches an element just before it appends it, so that the memory of each process changes while
 * others follow the list through it; without ATTACH_IN_USE ranks attach all elements first. A rank
 * sets the tail's next rank by compare and swap, and the next displacement after that; a rank that
 * loses the swap reads the displacement until it is set, and goes on there. Each operation has a
 * lock epoch of its own. Then every rank walks the list: each element is there once.
 */
#include "mpi/rma/stress.h"

enum {
    MOST = 14, /* elements of a rank, at most; osc/rdma takes up to 64 attached regions */
    NOBODY = -1
};

typedef struct {
    int rank;
    MPI_Aint disp;
} pointer;

typedef struct {
    int value;
    pointer next;
} element;

typedef struct {
    MPI_Win win;
    int each;                    /* elements that every rank appends */
    bool pages;                  /* each element has pages of its own */
    element *elements[MOST + 1]; /* attached */
    int count, appended;
    pointer head;
    rng random;
} list;

static MPI_Aint at(pointer of, size_t offset)
{
    return MPI_Aint_add(of.disp, (MPI_Aint) offset);
}

static void begin_epoch(const list *l, int target)
{
    MPI_Win_lock(MPI_LOCK_SHARED, target, MPI_MODE_NOCHECK, l->win);
}

static void end_epoch(const list *l, int target)
{
    MPI_Win_unlock(target, l->win);
}

static void attach_element(list *l, int value)
{
    element *made;
    size_t bytes = l->pages ? PAGE : sizeof *made;
    if (l->pages) {
        if (posix_memalign((void **) &made, PAGE, bytes) != 0) {
            FAIL("no memory for an element");
        }
    } else {
        /* 64 bytes, aligned, so that no element lies on two pages */
        if (posix_memalign((void **) &made, 64, 64) != 0) {
            FAIL("no memory for an element");
        }
    }
    *made = (element){.value = value, .next = {.rank = NOBODY, .disp = (MPI_Aint) MPI_BOTTOM}};
    l->elements[l->count++] = made;
    step("MPI_Win_attach", value, l->count);
    MPI_Win_attach(l->win, made, (MPI_Aint) sizeof *made);
}

static pointer new_element(list *l, int value)
{
    pointer to = {.rank = stress_rank};
    if (l->count == l->appended) {
        attach_element(l, value);
    }
    MPI_Get_address(l->elements[l->appended++], &to.disp);
    return to;
}

/* Tries to set the tail's next rank to this one. Returns true if the tail had none; else sets
 * `first` to the rank that it has. */
static bool claim(const list *l, pointer tail, int *first)
{
    int nobody = NOBODY;
    step("MPI_Compare_and_swap of the tail", tail.rank, 0);
    begin_epoch(l, tail.rank);
    MPI_Compare_and_swap(&stress_rank, &nobody, first, MPI_INT, tail.rank,
                         at(tail, offsetof(element, next.rank)), l->win);
    end_epoch(l, tail.rank);
    return *first == NOBODY;
}

static void set_next(const list *l, pointer tail, pointer next)
{
    MPI_Aint old;
    step("MPI_Fetch_and_op(MPI_REPLACE) of the tail", tail.rank, 0);
    begin_epoch(l, tail.rank);
    MPI_Fetch_and_op(&next.disp, &old, MPI_AINT, tail.rank, at(tail, offsetof(element, next.disp)),
                     MPI_REPLACE, l->win);
    end_epoch(l, tail.rank);
    if (old != (MPI_Aint) MPI_BOTTOM) {
        FAIL("a displacement was set by two: it was %lx", (unsigned long) old);
    }
}

static MPI_Aint wait_for_next(const list *l, pointer tail)
{
    MPI_Aint disp;
    step("waiting for the next displacement", tail.rank, 0);
    do {
        begin_epoch(l, tail.rank);
        MPI_Fetch_and_op(NULL, &disp, MPI_AINT, tail.rank, at(tail, offsetof(element, next.disp)),
                         MPI_NO_OP, l->win);
        end_epoch(l, tail.rank);
    } while (disp == (MPI_Aint) MPI_BOTTOM);
    return disp;
}

static pointer append(list *l, pointer tail, int value)
{
    pointer made = new_element(l, value);
    int first;
    while (!claim(l, tail, &first)) {
        if (first < 0 || first >= stress_ranks) {
            FAIL("the next rank of an element is %d", first);
        }
        tail = (pointer){.rank = first, .disp = wait_for_next(l, tail)};
    }
    set_next(l, tail, made);
    return made;
}

/* The value of this rank's i-th element; the head's value is 0. */
static int value_of(int i)
{
    return 1 + stress_rank * MOST + i;
}

static void append_all(list *l)
{
    pointer tail = l->head;
    for (int i = 0; i < l->each; ++i) {
        if (one_in(&l->random, 6)) {
            step("computing", 0, 0);
            compute_for(0.001);
        }
        tail = append(l, tail, value_of(i));
    }
}

static element read_element(const list *l, pointer of)
{
    element got;
    step("reading an element", of.rank, 0);
    begin_epoch(l, of.rank);
    MPI_Get(&got, (int) sizeof got, MPI_BYTE, of.rank, of.disp, (int) sizeof got, MPI_BYTE, l->win);
    end_epoch(l, of.rank);
    return got;
}

/* Checks that every element is there once, those of one rank in the order of their appending. */
static void walk(const list *l)
{
    int seen[RANKS_MAX] = {0}, count = 0;
    element now = read_element(l, l->head);
    if (now.value != 0) {
        FAIL("the head's value is %d", now.value);
    }
    while (now.next.rank != NOBODY) {
        pointer next = now.next;
        if (next.rank < 0 || next.rank >= stress_ranks || next.disp == (MPI_Aint) MPI_BOTTOM) {
            FAIL("behind %d elements: next rank %d, displacement %lx", count, next.rank,
                 (unsigned long) next.disp);
        }
        now = read_element(l, next);
        int rank = (now.value - 1) / MOST, number = (now.value - 1) % MOST;
        if (now.value <= 0 || rank != next.rank || number != seen[rank]) {
            FAIL("behind %d elements: value %d of rank %d, of which %d were there", count,
                 now.value, next.rank, seen[next.rank]);
        }
        ++seen[rank];
        ++count;
    }
    if (count != stress_ranks * l->each) {
        FAIL("%d elements, expected %d", count, stress_ranks * l->each);
    }
}

void list_round(uint64_t key)
{
    rng random = rng_of(key, 5, 0);
    list l = {.each = between(&random, 2, MOST), .pages = one_in(&random, 2)};
    l.head.rank = between(&random, 0, stress_ranks - 1);
    l.random = rng_of(key, (uint64_t) stress_rank, 6);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &l.win);
    watch_window(l.win);
    if (stress_rank == l.head.rank) {
        l.head = new_element(&l, 0);
    }
    for (int i = 0; i < l.each && !with(WITH_ATTACH_IN_USE); ++i) {
        attach_element(&l, value_of(i));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(&l.head.disp, 1, MPI_AINT, l.head.rank, MPI_COMM_WORLD);
    append_all(&l);
    step("barrier before the walk", 0, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    walk(&l);
    step("barrier behind the walk", 0, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < l.count; ++i) {
        step("MPI_Win_detach", i, 0);
        MPI_Win_detach(l.win, l.elements[i]);
        free(l.elements[i]);
    }
    MPI_Win_free(&l.win);
}
