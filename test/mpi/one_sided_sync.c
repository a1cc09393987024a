// SPDX-License-Identifier: BSD-3-Clause
/*
 * Synchronization of windows: fences with every assertion; post, start, complete with several
 * origins and targets at once, ended by wait and by test; exclusive locks that keep other ranks
 * out, and shared ones that do not, with and without MPI_MODE_NOCHECK; the four kinds of flush;
 * operations with requests (put, get, accumulate, get_accumulate) ended by wait, test and waitany
 * in any order; several windows with epochs of different kinds at the same time. Argument: rounds.
 */
#include "check.h"

enum {
    SIZE = 40000, /* bytes of one rank's slot */
    REQUESTS = 24,
    WORDS = 500
};

static MPI_Win win;
static unsigned char *memory; /* a slot for each rank */
static unsigned char *out, *in;
static char text[128];

static size_t slot(int rank)
{
    return (size_t) rank * SIZE;
}

static size_t size_of(int origin, int target, int round)
{
    return 1 + (size_t) mix((uint64_t) (origin * 1000 + target * 100 + round)) % (SIZE - 1);
}

static uint64_t key(int origin, int target, int round)
{
    return key_of(origin, target, size_of(origin, target, round), (uint64_t) round);
}

/* Puts this rank's piece for `target` into its slot there. The piece has a buffer of its own. */
static void put_to(int target, int round)
{
    size_t bytes = size_of(check_rank, target, round);
    fill(out + slot(target), bytes, key(check_rank, target, round));
    MPI_Put(out + slot(target), (int) bytes, MPI_BYTE, target, (MPI_Aint) slot(check_rank),
            (int) bytes, MPI_BYTE, win);
}

static void check_from(int origin, int round)
{
    CHECK_BYTES(memory + slot(origin), size_of(origin, check_rank, round),
                key(origin, check_rank, round), text);
}

static void local_lock(void)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win);
}

static void local_unlock(void)
{
    MPI_Win_unlock(check_rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ------------------------------------------------------------------------------------------------
 * Fences: put | get | local stores, in consecutive epochs, each fence with the assertions that hold
 * for it. */

static void fences(int round)
{
    snprintf(text, sizeof text, "fences, round %d", round);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    for (int i = 0; i < check_ranks; ++i) {
        put_to((check_rank + i) % check_ranks, round);
    }
    MPI_Win_fence(MPI_MODE_NOSTORE, win);
    for (int origin = 0; origin < check_ranks; ++origin) {
        check_from(origin, round);
    }
    /* Only gets: no rank's memory changes. */
    MPI_Win_fence(MPI_MODE_NOPUT | MPI_MODE_NOSTORE, win);
    for (int i = 0; i < check_ranks; ++i) {
        int target = (check_rank + i) % check_ranks, origin = (target + 1) % check_ranks;
        size_t bytes = size_of(origin, target, round);
        guarded_reset(in + slot(i), bytes);
        MPI_Get(in + slot(i), (int) bytes, MPI_BYTE, target, (MPI_Aint) slot(origin), (int) bytes,
                MPI_BYTE, win);
    }
    MPI_Win_fence(MPI_MODE_NOSTORE, win);
    for (int i = 0; i < check_ranks; ++i) {
        int target = (check_rank + i) % check_ranks, origin = (target + 1) % check_ranks;
        CHECK_BYTES(in + slot(i), size_of(origin, target, round), key(origin, target, round), text);
    }
    /* Local stores, which gets of the next epoch must return. */
    for (int origin = 0; origin < check_ranks; ++origin) {
        fill(memory + slot(origin), 64, key_of(check_rank, origin, 64, (uint64_t) round + 500));
    }
    MPI_Win_fence(MPI_MODE_NOPUT, win);
    int next = (check_rank + 1) % check_ranks;
    MPI_Get(in, 64, MPI_BYTE, next, (MPI_Aint) slot(check_rank), 64, MPI_BYTE, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    CHECK_BYTES(in, 64, key_of(next, check_rank, 64, (uint64_t) round + 500), text);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ------------------------------------------------------------------------------------------------
 * Post and start */

static MPI_Group group_of_others(int from, int to)
{
    MPI_Group all, chosen;
    int ranks[256], count = 0;
    for (int rank = from; rank < to; ++rank) {
        if (rank != check_rank) {
            ranks[count++] = rank;
        }
    }
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, count, ranks, &chosen);
    MPI_Group_free(&all);
    return chosen;
}

static void end_exposure(bool by_test)
{
    int flag = 0;
    if (!by_test) {
        MPI_Win_wait(win);
        return;
    }
    while (!flag) {
        MPI_Win_test(win, &flag);
    }
}

/* Each rank puts to all other ranks. */
static void posts_all(int round, bool by_test)
{
    MPI_Group others = group_of_others(0, check_ranks);
    snprintf(text, sizeof text, "post and start of all, %s, round %d", by_test ? "test" : "wait",
             round);
    MPI_Win_post(others, round % 2 == 0 ? 0 : MPI_MODE_NOSTORE, win);
    MPI_Win_start(others, 0, win);
    for (int i = 1; i < check_ranks; ++i) {
        put_to((check_rank + i) % check_ranks, round);
    }
    MPI_Win_complete(win);
    end_exposure(by_test);
    for (int origin = 0; origin < check_ranks; ++origin) {
        if (origin != check_rank) {
            check_from(origin, round);
        }
    }
    MPI_Group_free(&others);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One target, to which all other ranks are origins. One of them, another in each round, comes late:
 * MPI_Win_test returns false until then. */
static void posts_one(int round)
{
    int target = round % check_ranks, late = (target + 1) % check_ranks;
    snprintf(text, sizeof text, "post of one, round %d", round);
    MPI_Group group = target == check_rank ? group_of_others(0, check_ranks) : MPI_GROUP_NULL;
    if (check_rank == target) {
        int flag = 0, go = 1;
        MPI_Win_post(group, 0, win);
        MPI_Win_test(win, &flag);
        CHECK(!flag, "%s: the epoch is over before the last origin has begun", text);
        MPI_Send(&go, 1, MPI_INT, late, 5, MPI_COMM_WORLD);
        end_exposure(true);
        for (int origin = 0; origin < check_ranks; ++origin) {
            if (origin != target) {
                check_from(origin, round);
            }
        }
    } else {
        MPI_Group all;
        int go;
        if (check_rank == late) {
            MPI_Recv(&go, 1, MPI_INT, target, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Win_get_group(win, &all);
        MPI_Group_incl(all, 1, &target, &group);
        MPI_Group_free(&all);
        MPI_Win_start(group, 0, win);
        put_to(target, round);
        MPI_Win_complete(win);
    }
    MPI_Group_free(&group);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ------------------------------------------------------------------------------------------------
 * Locks */

/* Only the holder of the exclusive lock touches a counter and an array, by get and put. */
static void exclusive_locks(int rounds)
{
    static int64_t words[WORDS];
    int home = check_ranks - 1;
    snprintf(text, sizeof text, "exclusive locks");
    local_lock();
    memset(memory, 0, sizeof words);
    local_unlock();
    for (int i = 0; i < rounds; ++i) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, home, 0, win);
        MPI_Get(words, WORDS, MPI_INT64_T, home, 0, WORDS, MPI_INT64_T, win);
        MPI_Win_flush(home, win);
        for (int w = 0; w < WORDS; ++w) {
            CHECK(words[w] == words[0] + w * (words[0] != 0), "%s: word %d is %ld, the first %ld",
                  text, w, (long) words[w], (long) words[0]);
        }
        for (int w = WORDS - 1; w >= 0; --w) {
            words[w] = words[0] + 1 + w;
        }
        MPI_Put(words, WORDS, MPI_INT64_T, home, 0, WORDS, MPI_INT64_T, win);
        MPI_Win_unlock(home, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    local_lock();
    if (check_rank == home) {
        memcpy(words, memory, sizeof words);
        CHECK(words[0] == (int64_t) rounds * check_ranks, "%s: %ld turns counted", text,
              (long) words[0]);
    }
    local_unlock();
}

/* All ranks hold a shared lock of the same rank at the same time, or else the barrier under the
 * lock would not end. */
static void shared_locks(int round, int assertion)
{
    int home = round % check_ranks;
    snprintf(text, sizeof text, "shared locks, assertion %d", assertion);
    MPI_Win_lock(MPI_LOCK_SHARED, home, assertion, win);
    MPI_Barrier(MPI_COMM_WORLD);
    put_to(home, round);
    MPI_Win_flush(home, win);
    MPI_Barrier(MPI_COMM_WORLD);
    /* The puts are complete at the target, so other ranks can get their data. */
    int origin = (check_rank + 1) % check_ranks;
    size_t bytes = size_of(origin, home, round);
    guarded_reset(in, bytes);
    MPI_Get(in, (int) bytes, MPI_BYTE, home, (MPI_Aint) slot(origin), (int) bytes, MPI_BYTE, win);
    MPI_Win_flush_local(home, win);
    CHECK_BYTES(in, bytes, key(origin, home, round), text);
    MPI_Win_unlock(home, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Checks the guarantee of each kind of flush. */
static void flushes(int round)
{
    snprintf(text, sizeof text, "flushes, round %d", round);
    MPI_Win_lock_all(round % 2 == 0 ? 0 : MPI_MODE_NOCHECK, win);
    for (int i = 0; i < check_ranks; ++i) {
        int target = (check_rank + i) % check_ranks;
        put_to(target, round);
        if (round % 2 == 0) {
            MPI_Win_flush_local(target, win);
        }
    }
    MPI_Win_flush_local_all(win);
    memset(out, 0xff, slot(check_ranks)); /* the flush allows reuse of the buffers */
    if (round % 3 == 0) {
        for (int target = 0; target < check_ranks; ++target) {
            MPI_Win_flush(target, win);
        }
    } else {
        MPI_Win_flush_all(win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    for (int origin = 0; origin < check_ranks; ++origin) {
        check_from(origin, round);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ------------------------------------------------------------------------------------------------
 * Requests */

static void finish(MPI_Request *requests, int how)
{
    if (how == 0) {
        MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE);
    } else if (how == 1) {
        for (int left = REQUESTS; left > 0; --left) {
            int index;
            MPI_Waitany(REQUESTS, requests, &index, MPI_STATUS_IGNORE);
            CHECK(index >= 0 && index < REQUESTS, "%s: waitany says %d", text, index);
        }
    } else {
        for (int i = REQUESTS - 1; i >= 0; --i) {
            for (int flag = 0; !flag;) {
                MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
            }
        }
    }
    for (int i = 0; i < REQUESTS; ++i) {
        CHECK(requests[i] == MPI_REQUEST_NULL, "%s: request %d is left", text, i);
    }
}

/* Each request has its own piece of the slot. */
static void requests(int how)
{
    enum {
        PIECE = SIZE / REQUESTS
    };
    MPI_Request all[REQUESTS];
    int target = (check_rank + 1) % check_ranks,
        from = (check_rank + check_ranks - 1) % check_ranks;
    MPI_Aint base = (MPI_Aint) slot(check_rank);
    uint64_t salt = (uint64_t) how + 900;
    snprintf(text, sizeof text, "requests, kind of wait %d", how);
    local_lock();
    memset(memory, 0, slot(check_ranks));
    local_unlock();
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < REQUESTS; ++i) {
        int bytes = i % 4 == 3 ? PIECE : 1 + i * 7;
        fill(out + i * PIECE, (size_t) bytes, key_of(check_rank, i, (size_t) bytes, salt));
        MPI_Rput(out + i * PIECE, bytes, MPI_BYTE, target, base + i * PIECE, bytes, MPI_BYTE, win,
                 &all[i]);
    }
    finish(all, how);
    memset(out, 0xff, SIZE); /* completed requests allow reuse of the buffers */
    MPI_Win_flush(target, win);
    MPI_Barrier(MPI_COMM_WORLD);
    guarded_reset(in, SIZE);
    for (int i = 0; i < REQUESTS; ++i) {
        int bytes = i % 4 == 3 ? PIECE : 1 + i * 7;
        MPI_Rget(in + i * PIECE, bytes, MPI_BYTE, target, base + i * PIECE, bytes, MPI_BYTE, win,
                 &all[i]);
    }
    finish(all, how);
    for (int i = 0; i < REQUESTS; ++i) {
        size_t bytes = i % 4 == 3 ? PIECE : 1 + (size_t) i * 7;
        CHECK_BYTES(in + i * PIECE, bytes, key_of(check_rank, i, bytes, salt), text);
        for (size_t at = bytes; at < PIECE; ++at) {
            CHECK(in[(size_t) i * PIECE + at] == CHECK_GUARD_VALUE, "%s: written behind the piece",
                  text);
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    local_lock();
    for (int i = 0; i < REQUESTS; ++i) {
        size_t bytes = i % 4 == 3 ? PIECE : 1 + (size_t) i * 7;
        CHECK_BYTES(memory + slot(from) + i * PIECE, bytes, key_of(from, i, bytes, salt), text);
    }
    memset(memory, 0, slot(check_ranks));
    local_unlock();
}

/* All ranks add to all elements of one rank; half of the operations also return the old
 * contents. */
static void accumulate_requests(int how)
{
    enum {
        LENGTH = 20
    };
    MPI_Request all[REQUESTS];
    static int64_t add[LENGTH], old[REQUESTS][LENGTH];
    int home = how % check_ranks;
    snprintf(text, sizeof text, "accumulate with requests, kind of wait %d", how);
    for (int i = 0; i < LENGTH; ++i) {
        add[i] = i + 1;
    }
    memset(old, 0xff, sizeof old);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < REQUESTS; ++i) {
        if (i % 2 == 0) {
            MPI_Raccumulate(add, LENGTH, MPI_INT64_T, home, 0, LENGTH, MPI_INT64_T, MPI_SUM, win,
                            &all[i]);
        } else {
            MPI_Rget_accumulate(add, LENGTH, MPI_INT64_T, old[i], LENGTH, MPI_INT64_T, home, 0,
                                LENGTH, MPI_INT64_T, MPI_SUM, win, &all[i]);
        }
    }
    finish(all, how);
    for (int i = 1; i < REQUESTS; i += 2) {
        for (int e = 0; e < LENGTH; ++e) {
            CHECK(old[i][e] >= 0 && old[i][e] % (e + 1) == 0
                      && old[i][e] < (int64_t) REQUESTS * check_ranks * (e + 1),
                  "%s: element %d was %ld", text, e, (long) old[i][e]);
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    local_lock();
    for (int e = 0; check_rank == home && e < LENGTH; ++e) {
        int64_t is, want = (int64_t) REQUESTS * check_ranks * (e + 1);
        memcpy(&is, memory + e * 8, 8);
        CHECK(is == want, "%s: element %d is %ld, expected %ld", text, e, (long) is, (long) want);
    }
    local_unlock();
}

/* ------------------------------------------------------------------------------------------------
 * Several windows at once */

static void windows(void)
{
    enum {
        COUNT = 6,
        ROOM = 5000
    };
    MPI_Win all[COUNT];
    unsigned char *bases[COUNT], *pieces = malloc((size_t) COUNT * ROOM);
    int next = (check_rank + 1) % check_ranks, last = (check_rank + check_ranks - 1) % check_ranks;
    CHECK(pieces != NULL, "no memory");
    snprintf(text, sizeof text, "several windows");
    for (int i = 0; i < COUNT; ++i) {
        if (i % 2 == 0) {
            MPI_Win_allocate(ROOM, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &bases[i], &all[i]);
        } else {
            bases[i] = malloc(ROOM);
            MPI_Win_create(bases[i], ROOM, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &all[i]);
        }
        fill(pieces + i * ROOM, ROOM, key_of(check_rank, i, ROOM, 4));
    }
    /* Epochs of different kinds overlap, and end in another order than they began. */
    for (int i = 0; i < COUNT; ++i) {
        if (i % 3 == 0) {
            MPI_Win_fence(0, all[i]);
        } else if (i % 3 == 1) {
            MPI_Win_lock_all(0, all[i]);
        } else {
            MPI_Win_lock(MPI_LOCK_SHARED, next, 0, all[i]);
        }
    }
    for (int part = 0; part < ROOM; part += ROOM / 10) {
        for (int i = 0; i < COUNT; ++i) {
            MPI_Put(pieces + i * ROOM + part, ROOM / 10, MPI_BYTE, next, part, ROOM / 10, MPI_BYTE,
                    all[i]);
        }
    }
    for (int i = COUNT - 1; i >= 0; --i) {
        if (i % 3 == 0) {
            MPI_Win_fence(0, all[i]);
        } else if (i % 3 == 1) {
            MPI_Win_unlock_all(all[i]);
        } else {
            MPI_Win_unlock(next, all[i]);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; ++i) {
        MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, all[i]);
        CHECK_BYTES(bases[i], ROOM, key_of(last, i, ROOM, 4), text);
        MPI_Win_unlock(check_rank, all[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; ++i) {
        MPI_Win_free(&all[(i * 5) % COUNT]); /* in another order than that of their making */
    }
    for (int i = 1; i < COUNT; i += 2) {
        free(bases[i]);
    }
    free(pieces);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "one_sided_sync", 2);
    int rounds = argc > 1 ? atoi(argv[1]) : 6;
    out = malloc(slot(check_ranks));
    in = malloc(slot(check_ranks));
    CHECK(out != NULL && in != NULL, "no memory");
    MPI_Win_allocate((MPI_Aint) slot(check_ranks), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    for (int round = 0; round < rounds; ++round) {
        fences(round);
        posts_all(round, round % 2 != 0);
        posts_one(round);
        shared_locks(round, round % 2 != 0 ? MPI_MODE_NOCHECK : 0);
        flushes(round);
        requests(round % 3);
        accumulate_requests(round % 3);
    }
    exclusive_locks(10 * rounds);
    windows();
    MPI_Win_free(&win);
    free(out);
    free(in);
    check_end();
    return 0;
}
