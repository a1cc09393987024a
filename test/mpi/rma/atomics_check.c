// SPDX-License-Identifier: BSD-3-Clause
/*
 * Checks of atomics: results against the actions of the actor itself and of all others; final
 * values against the model.
 */
#include "mpi/rma/atomics.h"

/* Reads all words of a region of any rank. */
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
    FAIL("%s of rank %d (%s, %s, %s), word %d: %s: 0x%lx (own or expected: 0x%lx; %d words)",
         x->region == SUMS      ? "sums"
         : x->region == SWAPPED ? "swapped"
                                : "claimed",
         x->target, flavor_name(a->win.flavor), type->name, x->region == SUMS ? a->sum->name : "-",
         word, what, (unsigned long) number_at(type, at), (unsigned long) wanted, x->count);
}

/* A sum lies between this actor's own contribution and the final value. The other operations, BXOR
 * excepted, never undo an update: repeating this actor's updates changes nothing, and the final
 * value already includes the result. */
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
            fail_word(a, x, word, at, "the end, which no actor of this word has written", 0);
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

void atomics_check(atomics *a)
{
    check_outcomes(a);
    check_final(a);
}
