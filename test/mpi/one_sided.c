// SPDX-License-Identifier: BSD-3-Clause
/*
 * One-sided communication: put and get of many sizes under every kind of synchronization, to each
 * rank and to the rank itself; many operations in one epoch; strided targets; accumulate,
 * get_accumulate, fetch_and_op and compare_and_swap from all ranks at once.
 * Arguments: create|allocate|both (default), rounds of atomic operations.
 *
 * A window has one slot for each rank that writes, and a last one that its owner fills. A rank
 * loads from and stores into its own window only between a lock and an unlock of itself.
 */
#include "check.h"

enum {
    LARGEST = 2 << 20,
    GAP = 64, /* bytes behind each payload, which no operation may write */
    SLOT = LARGEST + 2 * GAP,
    ELEMENTS = 3000, /* elements of an accumulate */
    MANY = 300       /* operations of one epoch, of up to 512 bytes each */
};

typedef enum {
    FENCE,
    EXCLUSIVE,
    SHARED,
    LOCK_ALL,
    POST_START,
    REQUEST,
    MODES
} epoch_kind;

static const char *const mode_names[] = {"fence",    "exclusive lock", "shared lock",
                                         "lock_all", "post and start", "lock_all with requests"};

static MPI_Win win;
static unsigned char *memory; /* the window's memory */
static unsigned char *out, *in;
static char text[128];

static size_t slot(int rank)
{
    return (size_t) rank * SLOT;
}

static void local_begin(void)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win);
}

static void local_end(void)
{
    MPI_Win_unlock(check_rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ------------------------------------------------------------------------------------------------
 * Epochs of each kind */

static void group_call(int (*call)(MPI_Group, int, MPI_Win), int rank)
{
    MPI_Group all, one;
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, 1, &rank, &one);
    call(one, 0, win);
    MPI_Group_free(&one);
    MPI_Group_free(&all);
}

static void epoch_begin(epoch_kind mode, int to, int from)
{
    switch (mode) {
    case FENCE:
        MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
        break;
    case EXCLUSIVE:
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
        break;
    case SHARED:
        MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
        break;
    case POST_START:
        group_call(MPI_Win_post, from);
        group_call(MPI_Win_start, to);
        break;
    default:
        MPI_Win_lock_all(0, win);
        break;
    }
}

static void epoch_end(epoch_kind mode, int to)
{
    switch (mode) {
    case FENCE:
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        break;
    case EXCLUSIVE:
    case SHARED:
        MPI_Win_unlock(to, win);
        break;
    case POST_START:
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        break;
    default:
        MPI_Win_unlock_all(win);
        break;
    }
}

static void put(epoch_kind mode, int to, int from, size_t at, size_t bytes)
{
    MPI_Request request;
    epoch_begin(mode, to, from);
    if (mode == REQUEST) {
        MPI_Rput(out, (int) bytes, MPI_BYTE, to, (MPI_Aint) at, (int) bytes, MPI_BYTE, win,
                 &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Put(out, (int) bytes, MPI_BYTE, to, (MPI_Aint) at, (int) bytes, MPI_BYTE, win);
    }
    if (mode == LOCK_ALL) {
        /* The put is complete at the target now, so a get in the same epoch returns its data. */
        MPI_Win_flush(to, win);
        guarded_reset(in, bytes);
        MPI_Get(in, (int) bytes, MPI_BYTE, to, (MPI_Aint) at, (int) bytes, MPI_BYTE, win);
        MPI_Win_flush_local(to, win);
        CHECK(memcmp(in, out, bytes) == 0, "%s: a get does not have what a flush completed", text);
    }
    epoch_end(mode, to);
}

static void get(epoch_kind mode, int to, int from, size_t at, size_t bytes, uint64_t key)
{
    MPI_Request request;
    guarded_reset(in, bytes + CHECK_GUARD_BYTES);
    epoch_begin(mode, to, from);
    if (mode == REQUEST) {
        MPI_Rget(in, (int) bytes, MPI_BYTE, to, (MPI_Aint) at, (int) bytes, MPI_BYTE, win,
                 &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK_BYTES(in, bytes, key, text);
    } else {
        MPI_Get(in, (int) bytes, MPI_BYTE, to, (MPI_Aint) at, (int) bytes, MPI_BYTE, win);
    }
    if (mode == LOCK_ALL) {
        MPI_Win_flush_all(win);
        CHECK_BYTES(in, bytes, key, text);
    }
    epoch_end(mode, to);
    CHECK_BYTES(in, bytes, key, text);
    CHECK_GUARD(in, bytes, text);
}

/* ------------------------------------------------------------------------------------------------
 * Put and get */

/* Each rank writes to the rank `distance` ahead, and reads back its own data and the data that the
 * target itself stored. */
static void transfer(epoch_kind mode, size_t bytes, int distance)
{
    int to = (check_rank + distance) % check_ranks;
    int from = (check_rank - distance + check_ranks) % check_ranks;
    size_t shift = GAP + (size_t) (distance % 2) * (bytes % 8);
    uint64_t salt = (uint64_t) mode * 100 + (uint64_t) distance;
    uint64_t key = key_of(check_rank, to, bytes, salt);
    snprintf(text, sizeof text, "%s, %zu bytes, distance %d", mode_names[mode], bytes, distance);

    local_begin();
    guarded_reset(memory + slot(from), bytes + 2 * GAP);
    fill(memory + slot(check_ranks) + shift, bytes, key_of(check_rank, 77, bytes, salt));
    local_end();

    fill(out, bytes, key);
    put(mode, to, from, slot(check_rank) + shift, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    get(mode, to, from, slot(check_rank) + shift, bytes, key);
    get(mode, to, from, slot(check_ranks) + shift, bytes, key_of(to, 77, bytes, salt));
    MPI_Barrier(MPI_COMM_WORLD);

    local_begin();
    const unsigned char *got = memory + slot(from);
    CHECK_BYTES(got + shift, bytes, key_of(from, check_rank, bytes, salt), text);
    for (size_t i = 0; i < bytes + 2 * GAP; i = i + 1 == shift ? shift + bytes : i + 1) {
        CHECK(got[i] == CHECK_GUARD_VALUE, "%s: byte %zu of the slot overwritten", text, i);
    }
    local_end();
}

static void transfers(void)
{
    static const size_t sizes[] = {1,    2,    7,    8,     63,    64,    65,     1000,    4095,
                                   4096, 8192, 8193, 32768, 65536, 65537, 300001, 1 << 20, LARGEST};
    for (epoch_kind mode = FENCE; mode < MODES; ++mode) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
            for (int distance = 0; distance < check_ranks; ++distance) {
                transfer(mode, sizes[i], distance);
            }
        }
    }
}

static size_t many_bytes(int i)
{
    return 1 + (size_t) mix((uint64_t) i) % 512;
}

/* Many puts to all ranks, then many gets, each in one epoch. */
static void many(void)
{
    for (int i = 0; i < MANY; ++i) {
        fill(out + i * 512, many_bytes(i), key_of(check_rank, i, many_bytes(i), 9));
    }
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < MANY * check_ranks; ++i) {
        int which = i / check_ranks, bytes = (int) many_bytes(which);
        MPI_Put(out + which * 512, bytes, MPI_BYTE, i % check_ranks,
                (MPI_Aint) slot(check_rank) + which * 512, bytes, MPI_BYTE, win);
    }
    MPI_Win_flush_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int origin = 0; origin < check_ranks; ++origin) {
        int target = (check_rank + 1) % check_ranks;
        guarded_reset(in, (size_t) MANY * 512);
        for (int i = 0; i < MANY; ++i) {
            int bytes = (int) many_bytes(i);
            MPI_Get(in + i * 512, bytes, MPI_BYTE, target, (MPI_Aint) slot(origin) + i * 512, bytes,
                    MPI_BYTE, win);
        }
        MPI_Win_flush_local_all(win);
        for (int i = 0; i < MANY; ++i) {
            CHECK_BYTES(in + i * 512, many_bytes(i), key_of(origin, i, many_bytes(i), 9),
                        "many operations of one epoch");
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Contiguous at the origin, rows with gaps at the target. */
static void strided(void)
{
    enum {
        ROWS = 50,
        ROW = 200,
        STRIDE = 256
    };
    MPI_Datatype rows;
    int to = (check_rank + 1) % check_ranks;
    int from = (check_rank - 1 + check_ranks) % check_ranks;
    MPI_Type_vector(ROWS, ROW, STRIDE, MPI_BYTE, &rows);
    MPI_Type_commit(&rows);
    local_begin();
    guarded_reset(memory + slot(from), ROWS * STRIDE);
    local_end();
    fill(out, ROWS * ROW, key_of(check_rank, 3, ROWS, 4));
    guarded_reset(in, ROWS * ROW);
    MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
    MPI_Put(out, ROWS * ROW, MPI_BYTE, to, (MPI_Aint) slot(check_rank), 1, rows, win);
    MPI_Win_flush(to, win);
    MPI_Get(in, ROWS * ROW, MPI_BYTE, to, (MPI_Aint) slot(check_rank), 1, rows, win);
    MPI_Win_unlock(to, win);
    CHECK_BYTES(in, ROWS * ROW, key_of(check_rank, 3, ROWS, 4), "rows that were got");
    MPI_Barrier(MPI_COMM_WORLD);
    local_begin();
    for (size_t i = 0; i < ROWS * STRIDE; ++i) {
        size_t row = i / STRIDE, column = i % STRIDE;
        int want = column < ROW ? byte_of(key_of(from, 3, ROWS, 4), row * ROW + column)
                                : CHECK_GUARD_VALUE;
        CHECK(memory[slot(from) + i] == want, "row %zu, column %zu is 0x%02x, expected 0x%02x", row,
              column, memory[slot(from) + i], want);
    }
    local_end();
    MPI_Type_free(&rows);
}

/* ------------------------------------------------------------------------------------------------
 * Atomic operations; each has a place of its own in slot 0 */

enum {
    AT_TICKET = 0,
    AT_LOCK = 64,
    AT_COUNTER = 128,
    AT_INT32 = 192,
    AT_REPLACED = 256,
    AT_OLD_SUM = 320,
    AT_MAX = 384,
    AT_BITS = 448,
    AT_DOUBLES = 1024,
    AT_ARRAY = 1024 + 8 * ELEMENTS,
    ATOMIC_ROOM = 1024 + 16 * ELEMENTS
};

static void atomics_clear(void)
{
    local_begin();
    memset(memory, 0, ATOMIC_ROOM);
    local_end();
}

static int64_t word_at(size_t at)
{
    int64_t value;
    memcpy(&value, memory + at, sizeof value);
    return value;
}

/* Every ticket is issued once; each rank gets tickets in ascending order. */
static void tickets(int rounds)
{
    int64_t one = 1, nothing = 0, last = -1;
    int64_t *mine = calloc((size_t) rounds, sizeof *mine);
    int64_t *all = calloc((size_t) rounds * (size_t) check_ranks, sizeof *all);
    CHECK(mine != NULL && all != NULL, "no memory for tickets");
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < rounds; ++i) {
        MPI_Fetch_and_op(&one, &mine[i], MPI_INT64_T, 0, AT_TICKET, MPI_SUM, win);
        MPI_Win_flush(0, win);
        CHECK(mine[i] > last, "ticket %ld after %ld", (long) mine[i], (long) last);
        last = mine[i];
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Fetch_and_op(&nothing, &last, MPI_INT64_T, 0, AT_TICKET, MPI_NO_OP, win);
    MPI_Win_unlock_all(win);
    CHECK(last == (int64_t) rounds * check_ranks, "%ld tickets were given out", (long) last);
    MPI_Gather(mine, rounds, MPI_INT64_T, all, rounds, MPI_INT64_T, 0, MPI_COMM_WORLD);
    if (check_rank == 0) {
        unsigned char *seen = calloc((size_t) last, 1);
        for (int64_t i = 0; i < last; ++i) {
            CHECK(all[i] >= 0 && all[i] < last && seen[all[i]]++ == 0,
                  "ticket %ld was given out twice or never existed", (long) all[i]);
        }
        free(seen);
    }
    free(mine);
    free(all);
}

/* True if some ranks are on other hosts and this one is on the rank's. */
__attribute__((unused)) static bool near_among_hosts(int rank)
{
    MPI_Group all, near;
    MPI_Comm host;
    int count = 0, there = MPI_UNDEFINED;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Comm_group(host, &near);
    MPI_Comm_size(host, &count);
    MPI_Group_translate_ranks(all, 1, &rank, near, &there);
    MPI_Group_free(&near);
    MPI_Group_free(&all);
    MPI_Comm_free(&host);
    return count < check_ranks && there != MPI_UNDEFINED;
}

/* True if Open MPI makes this rank's swaps at `home` without the transport, under a lock that other
 * ranks do not take. 4.1: those of the owner of a created window's memory. 5.0: those of the owner
 * and of its host, if the window spans hosts. */
static bool swaps_apart(int home, bool created)
{
#if OMPI_MAJOR_VERSION >= 5
    (void) created;
    return near_among_hosts(home);
#else
    return created && check_rank == home;
#endif
}

/* A lock made of compare_and_swap guards a counter that put and get change. Ranks whose swaps are
 * not atomic with the others' do not take part. */
static void spin_lock(int rounds, bool created)
{
    int64_t none = 0, me = check_rank + 1, old, value;
    int home = check_ranks - 1;
    int mine = swaps_apart(home, created) ? 0 : rounds;
    int64_t all = mine;

    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < mine; ++i) {
        do {
            MPI_Compare_and_swap(&me, &none, &old, MPI_INT64_T, home, AT_LOCK, win);
            MPI_Win_flush(home, win);
        } while (old != 0);
        MPI_Get(&value, 8, MPI_BYTE, home, AT_COUNTER, 8, MPI_BYTE, win);
        MPI_Win_flush(home, win);
        ++value;
        MPI_Put(&value, 8, MPI_BYTE, home, AT_COUNTER, 8, MPI_BYTE, win);
        MPI_Win_flush(home, win);
        MPI_Compare_and_swap(&none, &me, &old, MPI_INT64_T, home, AT_LOCK, win);
        MPI_Win_flush(home, win);
        CHECK(old == me, "the lock of rank %d was held by %ld", check_rank, (long) old - 1);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    local_begin();
    if (check_rank == home) {
        CHECK(word_at(AT_COUNTER) == all, "the counter is %ld", (long) word_at(AT_COUNTER));
        CHECK(word_at(AT_LOCK) == 0, "the lock is held by %ld", (long) word_at(AT_LOCK) - 1);
    }
    local_end();
}

static void accumulate_to(int to, int round)
{
    static int64_t array[ELEMENTS], old[ELEMENTS];
    static double doubles[ELEMENTS];
    int32_t three = 3, before;
    int64_t bit = (int64_t) 1 << (check_rank % 60), most = check_rank * 1000 + round;
    for (int i = 0; i < ELEMENTS; ++i) {
        array[i] = i + check_rank;
        doubles[i] = i * 0.5;
    }
    MPI_Accumulate(doubles, ELEMENTS, MPI_DOUBLE, to, AT_DOUBLES, ELEMENTS, MPI_DOUBLE, MPI_SUM,
                   win);
    MPI_Get_accumulate(array, ELEMENTS, MPI_INT64_T, old, ELEMENTS, MPI_INT64_T, to, AT_ARRAY,
                       ELEMENTS, MPI_INT64_T, MPI_SUM, win);
    MPI_Fetch_and_op(&three, &before, MPI_INT32_T, to, AT_INT32, MPI_SUM, win);
    MPI_Accumulate(&most, 1, MPI_INT64_T, to, AT_MAX, 1, MPI_INT64_T, MPI_MAX, win);
    MPI_Accumulate(&bit, 1, MPI_INT64_T, to, AT_BITS, 1, MPI_INT64_T, MPI_BXOR, win);
    MPI_Accumulate(&most, 1, MPI_INT64_T, to, AT_REPLACED + 8 * (check_rank % 8), 1, MPI_INT64_T,
                   MPI_REPLACE, win);
    MPI_Win_flush(to, win);
    CHECK(before % 3 == 0 && before >= 3 * round, "fetch_and_op of 32 bits found %d in round %d",
          (int) before, round);
    for (int i = 0; i < ELEMENTS; ++i) {
        CHECK(old[i] >= (int64_t) round * (i + check_rank), "get_accumulate found %ld at %d",
              (long) old[i], i);
    }
}

/* All ranks accumulate at all ranks at once; the results are known. `rounds` must be odd, so that
 * MPI_BXOR leaves the bits set. */
static void accumulates(int rounds)
{
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < check_ranks; ++i) {
            accumulate_to((check_rank + i) % check_ranks, round);
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    local_begin();
    const double *doubles = (const double *) (const void *) (memory + AT_DOUBLES);
    int64_t bits = 0, n = check_ranks;
    int32_t int32;
    for (int i = 0; i < ELEMENTS; ++i) {
        int64_t want = rounds * (n * i + n * (n - 1) / 2);
        CHECK(doubles[i] == i * 0.5 * rounds * check_ranks, "double %d is %g", i, doubles[i]);
        CHECK(word_at(AT_ARRAY + 8 * (size_t) i) == want, "element %d is %ld, expected %ld", i,
              (long) word_at(AT_ARRAY + 8 * (size_t) i), (long) want);
    }
    for (int rank = 0; rank < check_ranks && rank < 8; ++rank) {
        bits |= (int64_t) 1 << rank;
        if (check_ranks <= 8) {
            CHECK(word_at(AT_REPLACED + 8 * (size_t) rank) == rank * 1000 + rounds - 1,
                  "rank %d replaced it with %ld", rank,
                  (long) word_at(AT_REPLACED + 8 * (size_t) rank));
        }
    }
    memcpy(&int32, memory + AT_INT32, sizeof int32);
    CHECK(int32 == 3 * rounds * check_ranks, "the sum of 32 bits is %d", (int) int32);
    CHECK(word_at(AT_MAX) == (n - 1) * 1000 + rounds - 1, "max is %ld", (long) word_at(AT_MAX));
    CHECK(check_ranks > 8 || word_at(AT_BITS) == bits, "bits are %lx", (long) word_at(AT_BITS));
    local_end();
}

/* The same operations between fences, to the next rank. */
static void accumulate_fenced(void)
{
    int64_t value = check_rank + 5, old = -1;
    int to = (check_rank + 1) % check_ranks;
    int from = (check_rank - 1 + check_ranks) % check_ranks;
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    MPI_Accumulate(&value, 1, MPI_INT64_T, to, AT_OLD_SUM, 1, MPI_INT64_T, MPI_SUM, win);
    MPI_Win_fence(0, win);
    MPI_Get_accumulate(&value, 1, MPI_INT64_T, &old, 1, MPI_INT64_T, to, AT_OLD_SUM, 1, MPI_INT64_T,
                       MPI_SUM, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    CHECK(old == value, "get_accumulate between fences found %ld", (long) old);
    local_begin();
    CHECK(word_at(AT_OLD_SUM) == 2 * (from + 5), "the sum between fences is %ld",
          (long) word_at(AT_OLD_SUM));
    local_end();
}

/* ---------------------------------------------------------------------------------------------- */

static void everything(int rounds, bool created)
{
    transfers();
    many();
    strided();
    atomics_clear();
    tickets(rounds);
    spin_lock(rounds / 10, created);
    accumulates(rounds / 50 | 1);
    accumulate_fenced();
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "one_sided", 1);
    const char *which = argc > 1 ? argv[1] : "both";
    int rounds = argc > 2 ? atoi(argv[2]) : 1000;
    MPI_Aint room = (MPI_Aint) slot(check_ranks + 1);
    bool both = strcmp(which, "both") == 0;
    CHECK(both || strcmp(which, "create") == 0 || strcmp(which, "allocate") == 0,
          "arguments: create|allocate|both, rounds");
    out = guarded_new(LARGEST, 0);
    in = guarded_new(LARGEST, 0);
    if (both || strcmp(which, "create") == 0) {
        memory = malloc((size_t) room);
        CHECK(memory != NULL, "no memory for a window of %zu bytes", (size_t) room);
        MPI_Win_create(memory, room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        everything(rounds, true);
        MPI_Win_free(&win);
        free(memory);
    }
    if (both || strcmp(which, "allocate") == 0) {
        MPI_Win_allocate(room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
        everything(rounds, false);
        MPI_Win_free(&win);
    }
    guarded_free(out, 0);
    guarded_free(in, 0);
    check_end();
    return 0;
}
