// SPDX-License-Identifier: BSD-3-Clause
/*
 * contents: one to three windows of any flavor at once, several phases of random operations in them
 * (program.c) under random synchronization, and stores of the windows' own processes between the
 * phases. The model knows every result and all contents.
 */
#include "mpi/rma/stress.h"

enum {
    WINDOWS_MAX = 3
};

typedef struct {
    int count;
    window windows[WINDOWS_MAX];
    session sessions[WINDOWS_MAX];
    place *places;
    program program;
} contents;

static size_t random_bytes(rng *random, bool large)
{
    static const size_t each[] = {200, 1000, 9000, 20000, 150000};
    size_t bytes = (size_t) actors() * (each[random_below(random, 5)] + 144);
    if (large) {
        bytes = ((size_t) 5 << 20) + bytes / 10;
    }
    return (bytes + 23) / 24 * 24;
}

static unsigned char *new_model(size_t bytes)
{
    unsigned char *model = malloc(bytes);
    if (model == NULL) {
        FAIL("no memory for a model of %zu bytes", bytes);
    }
    memset(model, CHECK_GUARD_VALUE, bytes);
    return model;
}

static void begin(contents *c, rng *random, bool large)
{
    c->count = large ? 1 : between(random, 1, WINDOWS_MAX);
    c->places = calloc((size_t) (c->count * stress_ranks), sizeof *c->places);
    for (int i = 0; i < c->count; ++i) {
        window *win = &c->windows[i];
        int flavor = random_flavor(random);
        window_make(win, flavor, random_bytes(random, large), i, 0, random);
        c->sessions[i].win = win;
        for (int target = 0; target < stress_ranks; ++target) {
            c->places[i * stress_ranks + target] = (place){.win = win,
                                                           .target = target,
                                                           .base = win->base[target],
                                                           .bytes = win->bytes,
                                                           .memory = win->memory,
                                                           .model = new_model(win->bytes)};
        }
    }
    program_begin(&c->program, c->places, c->count * stress_ranks, c->sessions, c->count);
    c->program.largest = large ? (size_t) 8 << 20 : 100000;
}

static void end(contents *c)
{
    program_release(&c->program);
    for (int i = 0; i < c->program.place_count; ++i) {
        free(c->places[i].model);
    }
    for (int i = 0; i < c->count; ++i) {
        window_free(&c->windows[i]);
    }
    free(c->places);
}

/* The processes store into their own memory, which other ranks read and write in the next phase. */
static void store(contents *c, rng *random)
{
    for (int i = 0; i < c->program.place_count; ++i) {
        place *at = &c->places[i];
        size_t from = random_below(random, at->bytes / 8) * 8;
        size_t bytes = random_below(random, at->bytes - from);
        uint64_t key = random_next(random) | 1;
        if (one_in(random, 2)) {
            continue;
        }
        fill(at->model + from, bytes, key);
        if (at->target == stress_rank) {
            step("storing", at->win->number, (long) bytes);
            window_own_begin(at->win);
            fill(at->memory + from, bytes, key);
            window_own_end(at->win);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

void contents_round(uint64_t key)
{
    rng random = rng_of(key, 1, 0);
    contents c;
    bool large = one_in(&random, 12);
    int phases = large ? 2 : between(&random, 2, 5);
    begin(&c, &random, large);
    for (int phase = 0; phase < phases; ++phase) {
        for (int i = 0; i < c.count; ++i) {
            program_choose_sync(&c.sessions[i], &random);
        }
        program_divide(&c.program, random_next(&random), large);
        program_run(&c.program);
        program_check(&c.program);
        if (one_in(&random, 2)) {
            store(&c, &random);
        }
    }
    end(&c);
}
