// SPDX-License-Identifier: BSD-3-Clause
/*
 * locks: a lock built of atomics in one window, of one of three kinds (compare and swap; tickets;
 * the queue of Mellor-Crummey and Scott). Under the lock an actor reads an array of another window
 * by MPI_Get, adds 1 to each word, and writes it by MPI_Put. So the test detects two actors under
 * the lock at the same time, and an update that comes late.
 */
#include "mpi/rma/stress.h"

#include <sched.h>

typedef enum {
    SPIN,
    TICKET,
    QUEUE,
    LOCK_KINDS
} lock_kind;

/* Words of the lock window of each rank, 24 bytes apart. */
enum {
    WORD_LOCK = 1,  /* SPIN: owner, 0: free; TICKET: next ticket; QUEUE: last of the queue, or 0 */
    WORD_SERVED,    /* TICKET: the ticket that has the lock */
    WORD_NODES,     /* QUEUE: two words for each thread of the rank */
    NODE_WAITS = 0, /* not 0 while the node's owner has to wait */
    NODE_NEXT,      /* the next actor in the queue, or 0 */
    NODE_WORDS
};

typedef struct {
    lock_kind kind;
    window locks, data;
    session lock_session, data_session;
    const basic_type *type;
    int home, data_home; /* ranks that hold the lock and the data */
    int times, words;
    uint64_t key;
} locks;

static uint64_t atomic_at(const locks *l, int target, int word, MPI_Op op, uint64_t operand)
{
    unsigned char given[8], old[8];
    int unit = l->locks.unit[target];
    MPI_Aint at = l->locks.base[target] + (MPI_Aint) ((size_t) word * 24 / (size_t) unit);
    set_number(l->type, given, operand);
    MPI_Fetch_and_op(given, old, l->type->type, target, at, op, l->locks.win);
    MPI_Win_flush(target, l->locks.win);
    return number_at(l->type, old);
}

static uint64_t swap_at(const locks *l, int target, int word, uint64_t wanted, uint64_t given)
{
    unsigned char compare[8], origin[8], old[8];
    int unit = l->locks.unit[target];
    MPI_Aint at = l->locks.base[target] + (MPI_Aint) ((size_t) word * 24 / (size_t) unit);
    set_number(l->type, compare, wanted);
    set_number(l->type, origin, given);
    MPI_Compare_and_swap(origin, compare, old, l->type->type, target, at, l->locks.win);
    MPI_Win_flush(target, l->locks.win);
    return number_at(l->type, old);
}

static int node_word(int actor, int which)
{
    return WORD_NODES + actor % options.threads * NODE_WORDS + which;
}

static void queue_acquire(const locks *l)
{
    int me = this_actor();
    atomic_at(l, stress_rank, node_word(me, NODE_NEXT), MPI_REPLACE, 0);
    atomic_at(l, stress_rank, node_word(me, NODE_WAITS), MPI_REPLACE, 1);
    step("MCS: joining the queue", l->home, me);
    int before = (int) atomic_at(l, l->home, WORD_LOCK, MPI_REPLACE, (uint64_t) me + 1) - 1;
    if (before < 0) {
        return;
    }
    step("MCS: telling the one before", before, me);
    atomic_at(l, rank_of(before), node_word(before, NODE_NEXT), MPI_REPLACE, (uint64_t) me + 1);
    step("MCS: waiting for the one before", before, me);
    while (atomic_at(l, stress_rank, node_word(me, NODE_WAITS), MPI_NO_OP, 0) != 0) {
        sched_yield();
    }
}

static void queue_release(const locks *l)
{
    int me = this_actor(), next;
    step("MCS: leaving", l->home, me);
    if (swap_at(l, l->home, WORD_LOCK, (uint64_t) me + 1, 0) == (uint64_t) me + 1) {
        return;
    }
    step("MCS: waiting for the next to tell", l->home, me);
    while ((next = (int) atomic_at(l, stress_rank, node_word(me, NODE_NEXT), MPI_NO_OP, 0)) == 0) {
        sched_yield();
    }
    step("MCS: waking the next", next - 1, me);
    atomic_at(l, rank_of(next - 1), node_word(next - 1, NODE_WAITS), MPI_REPLACE, 0);
}

static void acquire(const locks *l)
{
    if (l->kind == QUEUE) {
        queue_acquire(l);
    } else if (l->kind == SPIN) {
        step("spin lock", l->home, 0);
        while (swap_at(l, l->home, WORD_LOCK, 0, (uint64_t) this_actor() + 1) != 0) {
            sched_yield();
        }
    } else {
        step("ticket lock", l->home, 0);
        uint64_t ticket = atomic_at(l, l->home, WORD_LOCK, MPI_SUM, 1);
        step("ticket lock, ticket", l->home, (long) ticket);
        while (atomic_at(l, l->home, WORD_SERVED, MPI_NO_OP, 0) != ticket) {
            sched_yield();
        }
    }
}

static void release(const locks *l)
{
    if (l->kind == QUEUE) {
        queue_release(l);
    } else if (l->kind == SPIN) {
        step("spin lock, release", l->home, 0);
        uint64_t old = atomic_at(l, l->home, WORD_LOCK, MPI_REPLACE, 0);
        if (old != (uint64_t) this_actor() + 1) {
            FAIL("the lock (%s, %s) was %lu's, but actor %d had it", flavor_name(l->locks.flavor),
                 l->type->name, (unsigned long) old, this_actor());
        }
    } else {
        step("ticket lock, release", l->home, 0);
        atomic_at(l, l->home, WORD_SERVED, MPI_SUM, 1);
    }
}

/* The critical section: all words are equal before and after it. */
static void add_one(const locks *l, uint64_t *words)
{
    int unit = l->data.unit[l->data_home];
    MPI_Aint at = l->data.base[l->data_home] + 24 / unit;
    step("under the lock: MPI_Get", l->data_home, l->words);
    MPI_Get(words, l->words, MPI_UINT64_T, l->data_home, at, l->words, MPI_UINT64_T, l->data.win);
    MPI_Win_flush(l->data_home, l->data.win);
    for (int i = 0; i < l->words; ++i) {
        if (words[i] != words[0]) {
            FAIL("lock %d at %d (%s, %s): word %d is %lu, but the first is %lu", l->kind, l->home,
                 flavor_name(l->locks.flavor), l->type->name, i, (unsigned long) words[i],
                 (unsigned long) words[0]);
        }
    }
    for (int i = 0; i < l->words; ++i) {
        ++words[i];
    }
    step("under the lock: MPI_Put", l->data_home, l->words);
    MPI_Put(words, l->words, MPI_UINT64_T, l->data_home, at, l->words, MPI_UINT64_T, l->data.win);
    MPI_Win_flush(l->data_home, l->data.win);
}

static void lock_and_unlock(void *argument)
{
    locks *l = argument;
    rng random = rng_of(l->key, (uint64_t) this_actor(), 5);
    uint64_t *words = calloc((size_t) l->words, sizeof *words);
    for (int i = 0; i < l->times; ++i) {
        acquire(l);
        add_one(l, words);
        release(l);
        if (one_in(&random, 8)) {
            step("computing", 0, 0);
            compute_for(0.001);
        }
    }
    free(words);
}

static void check(locks *l)
{
    uint64_t want = (uint64_t) (actors() * l->times);
    step("barrier behind the locks", 0, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    window_own_begin(&l->data);
    for (int i = 0; i < l->words && stress_rank == l->data_home; ++i) {
        uint64_t word;
        memcpy(&word, l->data.memory + 24 + 8 * i, 8);
        if (word != want) {
            FAIL("lock %d at %d (%s, %s): word %d is %lu, expected %lu", l->kind, l->home,
                 flavor_name(l->locks.flavor), l->type->name, i, (unsigned long) word,
                 (unsigned long) want);
        }
    }
    window_own_end(&l->data);
}

static void make(locks *l, rng *random)
{
    static const int sizes[] = {1, 8, 9, 100, 512, 513, 1500};
    l->kind = (lock_kind) random_below(random, LOCK_KINDS);
    l->home = between(random, 0, stress_ranks - 1);
    l->data_home = between(random, 0, stress_ranks - 1);
    l->times = between(random, 2, 20);
    l->words = sizes[random_below(random, sizeof sizes / sizeof sizes[0])];
    window_make(&l->locks, random_flavor(random), 24 * (WORD_NODES + THREADS_MAX * NODE_WORDS + 1),
                0, 0, random);
    bool swaps = l->kind != TICKET;
    l->type =
        basic_of_size(one_in(random, 2) || (swaps && !long_swap_works(&l->locks)) ? 4 : 8, false);
    window_make(&l->data, random_flavor(random), 24 * (1500 / 3 + 2), 1, 0, random);
    l->lock_session = (session){.win = &l->locks, .sync = SYNC_LOCK_ALL, .thread = -1};
    l->data_session = (session){.win = &l->data, .sync = SYNC_LOCK_ALL, .thread = -1};
    window_own_begin(&l->locks);
    memset(l->locks.memory, 0, l->locks.bytes);
    window_own_end(&l->locks);
    window_own_begin(&l->data);
    memset(l->data.memory, 0, l->data.bytes);
    window_own_end(&l->data);
    MPI_Barrier(MPI_COMM_WORLD);
}

void locks_round(uint64_t key)
{
    rng random = rng_of(key, 4, 0);
    locks l = {.key = key};
    make(&l, &random);
    session_open(&l.lock_session);
    session_open(&l.data_session);
    run_actors(lock_and_unlock, &l);
    session_close(&l.data_session);
    session_close(&l.lock_session);
    check(&l);
    window_free(&l.data);
    window_free(&l.locks);
}
