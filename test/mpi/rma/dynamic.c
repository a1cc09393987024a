// SPDX-License-Identifier: BSD-3-Clause
/*
 * dynamic: a dynamic window with several pieces of memory of each process. In each phase some
 * pieces stay, and all ranks do random operations there (program.c). Meanwhile their owners
 * repeatedly detach, free, allocate and attach the other pieces, which come into use in the next
 * phase, often at addresses that other pieces had before. Without ATTACH_IN_USE the owners change
 * pieces only between phases.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "mpi/rma/stress.h"

#include <sys/mman.h>

enum {
    SLOTS = 8,
    PAIRED = 4, /* slots 0 to 3: two of them share a page */
    MAPPED = 6, /* slots 4 and 5: each mapped at a fixed address; later ones: from the heap */
    HALF_PAGE = PAGE / 2,
    SLOT_MAX = 200 * 1024, /* whole pages */
    SLOT_ROOM = SLOT_MAX + PAGE
};

typedef struct {
    unsigned char *memory;
    size_t bytes;
    bool attached;
} slot;

typedef struct {
    window win;
    unsigned char *arena; /* address space reserved for mapped slots */
    unsigned char *pages; /* memory of paired slots */
    slot slots[SLOTS];
    bool stays[RANKS_MAX][SLOTS];
    size_t bytes[RANKS_MAX][SLOTS]; /* sizes at the beginning of a phase */
    MPI_Aint address[RANKS_MAX][SLOTS];
    unsigned char *models[RANKS_MAX][SLOTS];
    rng churning; /* this rank's own */
} dynamic;

static size_t slot_bytes(int number, rng *random)
{
    static const size_t each[] = {600, 3000, 4096, 20000, 65536, 150000, SLOT_MAX};
    size_t bytes = each[random_below(random, 7)];
    return number < PAIRED ? 200 + 8 * random_below(random, 200) : bytes;
}

static void *map_at(void *at, size_t bytes, int protection, int fixed)
{
    void *memory = mmap(at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    if (memory == MAP_FAILED) {
        FAIL("%zu bytes cannot be mapped", bytes);
    }
    return memory;
}

static unsigned char *slot_place(const dynamic *d, int number)
{
    if (number < PAIRED) {
        return d->pages + (size_t) number * HALF_PAGE;
    }
    return d->arena + (size_t) (number - PAIRED) * SLOT_ROOM;
}

static void attach(dynamic *d, int number, size_t bytes, uint64_t key)
{
    slot *s = &d->slots[number];
    s->bytes = bytes;
    if (number < PAIRED) {
        s->memory = slot_place(d, number);
    } else if (number < MAPPED) {
        s->memory = map_at(slot_place(d, number), SLOT_MAX, PROT_READ | PROT_WRITE, MAP_FIXED);
    } else if (posix_memalign((void **) &s->memory, PAGE, (bytes + PAGE - 1) / PAGE * PAGE) != 0) {
        FAIL("no memory for %zu bytes", bytes);
    }
    fill(s->memory, bytes, key);
    step("MPI_Win_attach", number, (long) bytes);
    MPI_Win_attach(d->win.win, s->memory, (MPI_Aint) bytes);
    s->attached = true;
}

static void detach(dynamic *d, int number)
{
    slot *s = &d->slots[number];
    step("MPI_Win_detach", number, (long) s->bytes);
    MPI_Win_detach(d->win.win, s->memory);
    s->attached = false;
    if (number >= MAPPED) {
        memset(s->memory, 0, s->bytes);
        free(s->memory);
    } else if (number >= PAIRED) {
        munmap(s->memory, SLOT_MAX);
        map_at(slot_place(d, number), SLOT_MAX, PROT_NONE, MAP_FIXED);
    }
}

/* Attaches or detaches random slots among those that do not stay. Only the first thread does so. */
static void churn(void *argument)
{
    dynamic *d = argument;
    if (stress_thread != 0) {
        return;
    }
    int times = between(&d->churning, 1, 6);
    for (int i = 0; i < times; ++i) {
        int number = between(&d->churning, 0, SLOTS - 1);
        if (d->stays[stress_rank][number]) {
            continue;
        }
        if (d->slots[number].attached) {
            detach(d, number);
        } else {
            attach(d, number, slot_bytes(number, &d->churning), 1);
        }
    }
}

/* Gives slots that did not stay new memory with known contents. */
static void renew(dynamic *d, rng *random)
{
    for (int rank = 0; rank < stress_ranks; ++rank) {
        for (int i = 0; i < SLOTS; ++i) {
            size_t bytes = slot_bytes(i, random);
            uint64_t key = random_next(random) | 1;
            if (d->stays[rank][i]) {
                continue;
            }
            d->bytes[rank][i] = bytes;
            fill(d->models[rank][i], bytes, key);
            if (rank == stress_rank) {
                if (d->slots[i].attached) {
                    detach(d, i);
                }
                attach(d, i, bytes, key);
            }
        }
    }
    MPI_Aint mine[SLOTS];
    for (int i = 0; i < SLOTS; ++i) {
        MPI_Get_address(d->slots[i].memory, &mine[i]);
    }
    MPI_Allgather(mine, SLOTS, MPI_AINT, d->address, SLOTS, MPI_AINT, MPI_COMM_WORLD);
}

static void begin(dynamic *d, rng *random)
{
    memset(d, 0, sizeof *d);
    d->arena = map_at(NULL, (size_t) (MAPPED - PAIRED) * SLOT_ROOM, PROT_NONE, 0);
    d->pages = map_at(NULL, (size_t) PAIRED * HALF_PAGE, PROT_READ | PROT_WRITE, 0);
    d->churning = rng_of(*random, (uint64_t) stress_rank, 3);
    d->win.flavor = MPI_WIN_FLAVOR_DYNAMIC;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &d->win.win);
    watch_window(d->win.win);
    for (int rank = 0; rank < stress_ranks; ++rank) {
        d->win.unit[rank] = 1;
        for (int i = 0; i < SLOTS; ++i) {
            d->models[rank][i] = malloc(SLOT_MAX);
        }
    }
    renew(d, random);
}

static void end(dynamic *d)
{
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < SLOTS; ++i) {
        detach(d, i);
    }
    step("MPI_Win_free", 0, 0);
    MPI_Win_free(&d->win.win);
    munmap(d->arena, (size_t) (MAPPED - PAIRED) * SLOT_ROOM);
    munmap(d->pages, (size_t) PAIRED * HALF_PAGE);
    for (int rank = 0; rank < stress_ranks; ++rank) {
        for (int i = 0; i < SLOTS; ++i) {
            free(d->models[rank][i]);
        }
    }
}

/* Chooses the slots of all ranks that stay in this phase; at least one. */
static int choose_places(dynamic *d, place *places, rng *random)
{
    int count = 0;
    for (int rank = 0; rank < stress_ranks; ++rank) {
        for (int i = 0; i < SLOTS; ++i) {
            d->stays[rank][i] = one_in(random, 2) || (rank == 0 && i == MAPPED);
            if (d->stays[rank][i]) {
                places[count++] = (place){.win = &d->win,
                                          .target = rank,
                                          .base = d->address[rank][i],
                                          .bytes = d->bytes[rank][i],
                                          .memory = d->slots[i].memory,
                                          .model = d->models[rank][i]};
            }
        }
    }
    return count;
}

void dynamic_round(uint64_t key)
{
    rng random = rng_of(key, 2, 0);
    dynamic d;
    place places[RANKS_MAX * SLOTS];
    int phases = between(&random, 3, 6);
    begin(&d, &random);
    for (int phase = 0; phase < phases; ++phase) {
        session only = {.win = &d.win};
        program p;
        int count = choose_places(&d, places, &random);
        MPI_Barrier(MPI_COMM_WORLD); /* no rank still uses slots that `churn` may now detach */
        program_begin(&p, places, count, &only, 1);
        program_choose_sync(&only, &random);
        program_divide(&p, random_next(&random), false);
        p.bursts = 12;
        p.meanwhile = with(WITH_ATTACH_IN_USE) ? churn : NULL;
        p.argument = &d;
        program_run(&p);
        program_check(&p);
        program_release(&p);
        MPI_Barrier(MPI_COMM_WORLD); /* no rank uses the window while `renew` detaches */
        renew(&d, &random);
    }
    end(&d);
}
