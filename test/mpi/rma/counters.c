// SPDX-License-Identifier: BSD-3-Clause
/*
 * counters: every actor increments counters of all ranks. Each number must come back exactly once.
 */
#include "mpi/rma/stress.h"

enum {
    COUNTERS = 3, /* at each rank, side by side */
    MOST = 60     /* increments of one actor at one counter, at most */
};

typedef struct {
    window win;
    session session;
    const basic_type *type;
    uint64_t key;
    int each; /* increments of every actor at every counter */
    uint64_t *returned[THREADS_MAX];
} counters;

static size_t index_of(const counters *c, int target, int counter, int i)
{
    return (size_t) ((target * COUNTERS + counter) * c->each + i);
}

static size_t all_of(const counters *c)
{
    return index_of(c, stress_ranks, 0, 0);
}

static void count_once(const counters *c, int target, int counter, rng *random, uint64_t *result)
{
    MPI_Win win = c->win.win;
    unsigned char one[8], old[8];
    int unit = c->win.unit[target];
    MPI_Aint at = c->win.base[target] + (MPI_Aint) ((size_t) (counter + 1) * 24 / (size_t) unit);
    bool passive = c->session.sync == SYNC_LOCK;
    set_number(c->type, one, 1);
    if (passive) {
        step("MPI_Win_lock", target, counter);
        MPI_Win_lock(MPI_LOCK_SHARED, target, c->session.nocheck ? MPI_MODE_NOCHECK : 0, win);
    }
    step("counting", target, counter);
    if (one_in(random, 2)) {
        MPI_Fetch_and_op(one, old, c->type->type, target, at, MPI_SUM, win);
    } else {
        MPI_Get_accumulate(one, 1, c->type->type, old, 1, c->type->type, target, at, 1,
                           c->type->type, MPI_SUM, win);
    }
    if (passive) {
        MPI_Win_unlock(target, win);
    } else {
        MPI_Win_flush(target, win);
    }
    *result = number_at(c->type, old);
}

static void count(void *argument)
{
    counters *c = argument;
    rng random = rng_of(c->key, (uint64_t) this_actor(), 4);
    uint64_t *returned = c->returned[stress_thread];
    int done[RANKS_MAX * COUNTERS] = {0}, left = stress_ranks * COUNTERS * c->each;
    while (left > 0) {
        int which = between(&random, 0, stress_ranks * COUNTERS - 1);
        int target = which / COUNTERS, counter = which % COUNTERS;
        if (one_in(&random, 40)) {
            compute_for(0.001);
        }
        if (done[which] < c->each) {
            count_once(c, target, counter, &random,
                       &returned[index_of(c, target, counter, done[which]++)]);
            --left;
        }
    }
}

/* Checks that each number came back once over all actors. `seen` counts how often, and has
 * actors() * each places per counter. */
static void check_returned(const counters *c)
{
    size_t total = (size_t) (actors() * c->each), all = (size_t) (stress_ranks * COUNTERS) * total;
    int *seen = calloc(all, sizeof *seen);
    for (int thread = 0; thread < options.threads; ++thread) {
        for (size_t i = 0; i < all_of(c); ++i) {
            uint64_t number = c->returned[thread][i];
            if (number >= total) {
                FAIL("%s counter %zu in window %s returned %lu of %zu", c->type->name,
                     i / (size_t) c->each, flavor_name(c->win.flavor), (unsigned long) number,
                     total);
            }
            ++seen[i / (size_t) c->each * total + number];
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, seen, (int) all, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (size_t i = 0; i < all; ++i) {
        if (seen[i] != 1) {
            FAIL("%s counter %zu in window %s returned %zu %d times", c->type->name, i / total,
                 flavor_name(c->win.flavor), i % total, seen[i]);
        }
    }
    free(seen);
}

static void check_final(counters *c)
{
    window_own_begin(&c->win);
    for (int i = 0; i < COUNTERS; ++i) {
        uint64_t number = number_at(c->type, c->win.memory + (size_t) (i + 1) * 24);
        if (number != (uint64_t) (actors() * c->each)) {
            FAIL("counter %d is %lu, expected %d", i, (unsigned long) number, actors() * c->each);
        }
    }
    window_own_end(&c->win);
}

void counters_round(uint64_t key)
{
    static const size_t sizes[] = {1, 2, 4, 8, 8, 4};
    rng random = rng_of(key, 3, 0);
    counters c = {.key = key};
    c.type = basic_of_size(sizes[random_below(&random, 6)], false);
    c.each = between(&random, 1, c.type->size == 1 ? 120 / actors() : MOST);
    window_make(&c.win, random_flavor(&random), 24 * (COUNTERS + 2), 0, 0, &random);
    c.session = (session){.win = &c.win, .nocheck = one_in(&random, 2), .thread = -1};
    c.session.sync = options.threads == 1 && one_in(&random, 2) ? SYNC_LOCK : SYNC_LOCK_ALL;
    window_own_begin(&c.win);
    memset(c.win.memory, 0, c.win.bytes);
    window_own_end(&c.win);
    for (int i = 0; i < options.threads; ++i) {
        c.returned[i] = calloc(all_of(&c), sizeof *c.returned[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    session_open(&c.session);
    run_actors(count, &c);
    session_close(&c.session);
    step("counted", 0, 0);
    check_returned(&c);
    check_final(&c);
    for (int i = 0; i < options.threads; ++i) {
        free(c.returned[i]);
    }
    window_free(&c.win);
}
