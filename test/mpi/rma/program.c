// SPDX-License-Identifier: BSD-3-Clause
/*
 * A phase of a program: every actor has a part of each place to itself, and does bursts of
 * operations there. Windows are open by fence, post and start, or lock_all during the phase, or are
 * locked for each burst. Operations between two flushes do not overlap.
 */
#include "mpi/rma/stress.h"

enum {
    EDGE = 72 /* bytes at both ends of a place that no operation touches */
};

static session *session_of(program *p, const window *win)
{
    for (int i = 0; i < p->session_count; ++i) {
        if (p->sessions[i].win == win) {
            return &p->sessions[i];
        }
    }
    FAIL("a window without a session");
}

void program_begin(program *p, place *places, int place_count, session *sessions, int session_count)
{
    *p = (program){.places = places,
                   .place_count = place_count,
                   .sessions = sessions,
                   .session_count = session_count,
                   .bursts = 6,
                   .largest = 100000};
    p->parts = calloc((size_t) (place_count * actors()), sizeof *p->parts);
    if (p->parts == NULL) {
        FAIL("no memory");
    }
}

void program_release(program *p)
{
    free(p->parts);
}

static void divide_place(part *parts, size_t bytes, bool large, rng *random)
{
    int order[ACTORS_MAX], weights[ACTORS_MAX], sum = 0, count = actors();
    for (int i = 0; i < count; ++i) {
        int other = between(random, 0, i);
        order[i] = order[other];
        order[other] = i;
        weights[i] = between(random, 1, 4);
        sum += weights[i];
    }
    int favorite = between(random, 0, count - 1);
    if (large) {
        weights[favorite] += 20 * sum;
        sum += 20 * sum;
    }
    size_t at = EDGE, all = bytes > 2 * EDGE ? bytes - 2 * EDGE : 0;
    for (int i = 0; i < count; ++i) {
        int actor = order[i];
        size_t length = all / (size_t) sum * (size_t) weights[actor];
        parts[actor].begin = at;
        parts[actor].end = at + length;
        at += length;
    }
}

void program_divide(program *p, uint64_t key, bool large)
{
    p->key = key;
    for (int i = 0; i < p->place_count; ++i) {
        rng random = rng_of(key, (uint64_t) i, 1);
        divide_place(&p->parts[i * actors()], p->places[i].bytes, large, &random);
    }
}

void program_choose_sync(session *s, rng *random)
{
    s->sync = (sync_kind) random_below(random, SYNC_COUNT);
    s->nocheck = one_in(random, 3);
    s->exclusive = one_in(random, 2);
    s->thread = -1;
    if (options.threads > 1) {
        s->sync = one_in(random, 2) ? SYNC_LOCK : SYNC_LOCK_ALL;
        s->thread = s->sync == SYNC_LOCK ? between(random, 0, options.threads - 1) : -1;
    }
    for (int origin = 0; origin < stress_ranks; ++origin) {
        for (int target = 0; target < stress_ranks; ++target) {
            s->reached[origin][target] = !one_in(random, 3);
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Opening and closing */

/* The group of ranks that reach this rank (`origins`), or that this rank reaches. */
static MPI_Group group_of(const session *s, bool origins)
{
    int ranks[RANKS_MAX], count = 0;
    MPI_Group all, some;
    for (int i = 0; i < stress_ranks; ++i) {
        if (origins ? s->reached[i][stress_rank] : s->reached[stress_rank][i]) {
            ranks[count++] = i;
        }
    }
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, count, ranks, &some);
    MPI_Group_free(&all);
    return some;
}

void session_open(session *s)
{
    MPI_Group origins, targets;
    step("opening", s->win->number, s->sync);
    switch (s->sync) {
    case SYNC_FENCE:
        MPI_Win_fence(MPI_MODE_NOPRECEDE, s->win->win);
        break;
    case SYNC_PSCW:
        origins = group_of(s, true);
        targets = group_of(s, false);
        step("MPI_Win_post", s->win->number, 0);
        MPI_Win_post(origins, 0, s->win->win);
        step("MPI_Win_start", s->win->number, 0);
        MPI_Win_start(targets, 0, s->win->win);
        MPI_Group_free(&origins);
        MPI_Group_free(&targets);
        break;
    case SYNC_LOCK_ALL:
        MPI_Win_lock_all(s->nocheck ? MPI_MODE_NOCHECK : 0, s->win->win);
        break;
    default:
        break;
    }
}

void session_close(session *s)
{
    int done = 0;
    step("closing", s->win->number, s->sync);
    switch (s->sync) {
    case SYNC_FENCE:
        MPI_Win_fence(MPI_MODE_NOSUCCEED, s->win->win);
        break;
    case SYNC_PSCW:
        step("MPI_Win_complete", s->win->number, 0);
        MPI_Win_complete(s->win->win);
        step("MPI_Win_wait or test", s->win->number, 0);
        while (s->exclusive && !done) {
            MPI_Win_test(s->win->win, &done);
        }
        if (!s->exclusive) {
            MPI_Win_wait(s->win->win);
        }
        break;
    case SYNC_LOCK_ALL:
        MPI_Win_unlock_all(s->win->win);
        break;
    default:
        break;
    }
}

/* ------------------------------------------------------------------------------------------------
 * Bursts */

static bool may_use(const walker *w, const session *s, int target)
{
    if (s->thread >= 0 && s->thread != w->actor % options.threads) {
        return false;
    }
    return s->sync != SYNC_PSCW || s->reached[w->rank][target];
}

/* Lets the actor use its parts from the beginning, since its operations there are complete. */
static void rewind_parts(walker *w, const window *win, int target)
{
    for (int i = 0; i < w->program->place_count; ++i) {
        const place *at = &w->program->places[i];
        if (at->win == win && (target < 0 || at->target == target)) {
            w->cursors[i] = w->program->parts[i * actors() + w->actor].begin;
        }
    }
}

static void flush(walker *w, const session *s, int target)
{
    const window *win = s->win;
    int which = between(&w->random, 0, 5) % 4;
    if (s->sync == SYNC_LOCK && !with(WITH_LOCK_FLUSH_ALL)) {
        which &= 2;
    }
    bool all = which == 1 || which == 3;
    bool locally = which == 2 || which == 3;
    if (w->execute) {
        static const char *const names[] = {"MPI_Win_flush", "MPI_Win_flush_all",
                                            "MPI_Win_flush_local", "MPI_Win_flush_local_all"};
        step(names[which], target, win->number);
        switch (which) {
        case 0:
            MPI_Win_flush(target, win->win);
            break;
        case 1:
            MPI_Win_flush_all(win->win);
            break;
        case 2:
            MPI_Win_flush_local(target, win->win);
            break;
        default:
            MPI_Win_flush_local_all(win->win);
        }
        operations_complete(w, win, all ? -1 : target);
    }
    if (!locally) {
        rewind_parts(w, win, all ? -1 : target);
    }
}

static void flush_for_room(walker *w, const window *win, int target)
{
    if (w->execute) {
        step("MPI_Win_flush", target, win->number);
        MPI_Win_flush(target, win->win);
        operations_complete(w, win, target);
    }
    rewind_parts(w, win, target);
}

static void lock_for_burst(walker *w, const session *s, int target)
{
    /* NOCHECK promises that no rank requests a conflicting lock. */
    bool exclusive = one_in(&w->random, 2) && s->exclusive;
    int assertion = s->nocheck && !s->exclusive ? MPI_MODE_NOCHECK : 0;
    if (w->execute) {
        step("MPI_Win_lock", target, exclusive);
        MPI_Win_lock(exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, assertion,
                     s->win->win);
    }
}

static void unlock_after_burst(walker *w, const session *s, int target)
{
    if (w->execute) {
        operations_wait(w, s->win, target);
        step("MPI_Win_unlock", target, s->win->number);
        MPI_Win_unlock(target, s->win->win);
        operations_complete(w, s->win, target);
    }
    rewind_parts(w, s->win, target);
}

static void burst(walker *w, int place_number)
{
    const place *at = &w->program->places[place_number];
    session *s = session_of(w->program, at->win);
    bool passive = s->sync == SYNC_LOCK || s->sync == SYNC_LOCK_ALL;
    int count = between(&w->random, 1, 8);
    if (s->sync == SYNC_LOCK) {
        lock_for_burst(w, s, at->target);
    }
    for (int i = 0; i < count; ++i) {
        if (!operation_random(w, place_number, passive) && passive) {
            flush_for_room(w, at->win, at->target);
        }
        if (passive && one_in(&w->random, 3)) {
            flush(w, s, at->target);
        }
    }
    if (s->sync == SYNC_LOCK) {
        unlock_after_burst(w, s, at->target);
    }
}

static void walk(walker *w)
{
    program *p = w->program;
    for (int i = 0; i < p->bursts; ++i) {
        int place_number = (int) random_below(&w->random, (uint64_t) p->place_count);
        const place *at = &p->places[place_number];
        uint64_t pause = random_below(&w->random, 8);
        if (w->execute && pause == 0) {
            step("computing", 0, 0);
            compute_for(0.002);
        }
        if (w->execute && pause % 2 == 1 && p->meanwhile != NULL) {
            p->meanwhile(p->argument);
        }
        if (may_use(w, session_of(p, at->win), at->target)) {
            burst(w, place_number);
        }
    }
}

static void walker_begin(walker *w, program *p, int actor, bool execute)
{
    *w = (walker){.program = p,
                  .actor = actor,
                  .rank = rank_of(actor),
                  .execute = execute,
                  .random = rng_of(p->key, (uint64_t) actor, 2)};
    w->cursors = calloc((size_t) p->place_count, sizeof *w->cursors);
    for (int i = 0; i < p->place_count; ++i) {
        w->cursors[i] = p->parts[i * actors() + actor].begin;
    }
}

typedef struct {
    program *program;
    walker walkers[THREADS_MAX];
} own_walkers;

static void walk_own(void *argument)
{
    own_walkers *own = argument;
    walker_begin(&own->walkers[stress_thread], own->program, this_actor(), true);
    walk(&own->walkers[stress_thread]);
}

/* Applies the operations of the other ranks' actors to the model, without any MPI call. */
static void follow_others(program *p)
{
    step("following the others", 0, 0);
    for (int actor = 0; actor < actors(); ++actor) {
        if (rank_of(actor) != stress_rank) {
            walker w;
            walker_begin(&w, p, actor, false);
            walk(&w);
            free(w.cursors);
        }
    }
}

void program_run(program *p)
{
    own_walkers own = {.program = p};
    bool follow_first = (mix(p->key) + (uint64_t) stress_rank) % 4 == 0;
    for (int i = 0; i < p->session_count; ++i) {
        session_open(&p->sessions[i]);
    }
    if (follow_first) {
        follow_others(p);
    }
    run_actors(walk_own, &own);
    if (!follow_first) {
        follow_others(p);
    }
    for (int i = 0; i < p->session_count; ++i) {
        session *s = &p->sessions[i];
        for (int thread = 0; thread < options.threads; ++thread) {
            operations_wait(&own.walkers[thread], s->win, -1);
        }
        session_close(s);
        for (int thread = 0; thread < options.threads; ++thread) {
            operations_complete(&own.walkers[thread], s->win, -1);
        }
    }
    for (int thread = 0; thread < options.threads; ++thread) {
        free(own.walkers[thread].cursors);
    }
}

/* ---------------------------------------------------------------------------------------------- */

static void fail_at(const program *p, int place_number, size_t first)
{
    const place *at = &p->places[place_number];
    size_t wrong = 0;
    int actor = -1;
    for (size_t i = first; i < at->bytes; ++i) {
        wrong += at->memory[i] != at->model[i];
    }
    for (int i = 0; i < actors(); ++i) {
        const part *its = &p->parts[place_number * actors() + i];
        if (first >= its->begin && first < its->end) {
            actor = i;
        }
    }
    FAIL("window %d (%s): byte %zu of %zu, of actor %d's part, is 0x%02x, expected 0x%02x (%zu "
         "bytes differ)",
         at->win->number, flavor_name(at->win->flavor), first, at->bytes, actor, at->memory[first],
         at->model[first], wrong);
}

void program_check(const program *p)
{
    step("barrier before the check", 0, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < p->place_count; ++i) {
        const place *at = &p->places[i];
        if (at->target != stress_rank) {
            continue;
        }
        step("checking", at->win->number, i);
        window_own_begin(at->win);
        for (size_t byte = 0; memcmp(at->memory, at->model, at->bytes) != 0; ++byte) {
            if (at->memory[byte] != at->model[byte]) {
                fail_at(p, i, byte);
            }
        }
        window_own_end(at->win);
        window_check_guards(at->win);
    }
    step("barrier behind the check", 0, 0);
    MPI_Barrier(MPI_COMM_WORLD);
}
