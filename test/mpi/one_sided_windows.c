// SPDX-License-Identifier: BSD-3-Clause
/*
 * Kinds of windows. Argument: the kind.
 *
 *   kinds     created, allocated, and in shared memory; displacement units of 1 to 24 bytes that
 *             differ from rank to rank; ranks whose window is empty; windows over a part of the
 *             ranks; many windows one after another; two windows over the same memory
 *   allocated the same without created windows
 *   shared    MPI_Win_allocate_shared: loads and stores beside put, get and accumulate
 *   dynamic   memory attached and detached while the window is in use
 *   large     3 GiB, hardly touched: displacements beyond 2^31, in bytes and in units
 *   transfer  one put and one get of more than 2^31 bytes; needs 4.4 GiB
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "check.h"

#include <sys/mman.h>

enum {
    PIECE = 3000,
    UNITS = 5
};

static char text[128];

/* Each rank puts a piece to every rank of the window, gets it back, and checks the pieces that
 * other ranks put here. `unit[r]`: displacement unit of rank r; `pieces[r]`: pieces that its window
 * holds. */
static void exchange(MPI_Win win, MPI_Comm comm, unsigned char *memory, const int *unit,
                     const int *pieces, int salt)
{
    unsigned char out[PIECE], in[PIECE + CHECK_GUARD_BYTES];
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < ranks; ++i) {
        int target = (rank + i) % ranks;
        if (pieces[target] <= rank) {
            continue;
        }
        /* PIECE is a multiple of every unit. */
        MPI_Aint at = (MPI_Aint) rank * PIECE / unit[target];
        fill(out, PIECE, key_of(rank, target, PIECE, (uint64_t) salt));
        MPI_Put(out, PIECE, MPI_BYTE, target, at, PIECE, MPI_BYTE, win);
        MPI_Win_flush(target, win);
        memset(in, CHECK_GUARD_VALUE, sizeof in);
        MPI_Get(in, PIECE, MPI_BYTE, target, at, PIECE, MPI_BYTE, win);
        MPI_Win_flush(target, win);
        CHECK_BYTES(in, PIECE, key_of(rank, target, PIECE, (uint64_t) salt), text);
        CHECK(in[PIECE] == CHECK_GUARD_VALUE, "%s: too much was got", text);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(comm);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (int origin = 0; origin < ranks && origin < pieces[rank]; ++origin) {
        CHECK_BYTES(memory + (size_t) origin * PIECE, PIECE,
                    key_of(origin, rank, PIECE, (uint64_t) salt), text);
    }
    MPI_Win_unlock(rank, win);
    MPI_Barrier(comm);
}

static void check_attributes(MPI_Win win, const void *base, size_t bytes, int unit, int flavor)
{
    void *value;
    int found;
    MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, &found);
    CHECK(found && *(MPI_Aint *) value == (MPI_Aint) bytes, "%s: wrong size", text);
    MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &value, &found);
    CHECK(found && *(int *) value == unit, "%s: wrong displacement unit", text);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &found);
    CHECK(found && *(int *) value == flavor, "%s: wrong flavor", text);
    MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &found);
    CHECK(found && (bytes == 0 || value == base), "%s: wrong base", text);
}

static void one_kind(MPI_Comm comm, int flavor, bool some_empty, int salt)
{
    static const int units[UNITS] = {1, 8, 24, 2, 4};
    int rank, ranks, unit[64], pieces[64];
    unsigned char *memory = NULL;
    MPI_Win win;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    snprintf(text, sizeof text, "flavor %d, %d ranks, %s", flavor, ranks,
             some_empty ? "every other empty" : "none empty");
    for (int i = 0; i < ranks; ++i) {
        unit[i] = units[((comm == MPI_COMM_WORLD ? i : 0) + salt) % UNITS];
        pieces[i] = some_empty && i % 2 == 1 ? 0 : ranks;
    }
    size_t bytes = (size_t) pieces[rank] * PIECE;
    if (flavor == MPI_WIN_FLAVOR_CREATE) {
        memory = bytes > 0 ? malloc(bytes) : NULL;
        MPI_Win_create(memory, (MPI_Aint) bytes, unit[rank], MPI_INFO_NULL, comm, &win);
    } else if (flavor == MPI_WIN_FLAVOR_ALLOCATE) {
        MPI_Win_allocate((MPI_Aint) bytes, unit[rank], MPI_INFO_NULL, comm, &memory, &win);
    } else {
        MPI_Win_allocate_shared((MPI_Aint) bytes, unit[rank], MPI_INFO_NULL, comm, &memory, &win);
    }
    check_attributes(win, memory, bytes, unit[rank], flavor);
    exchange(win, comm, memory, unit, pieces, salt);
    MPI_Win_free(&win);
    if (flavor == MPI_WIN_FLAVOR_CREATE) {
        free(memory);
    }
}

/* Two windows over the same memory, with different units and extents. */
static void overlapping(void)
{
    unsigned char *memory = malloc((size_t) check_ranks * PIECE * 2);
    int ones[64], eights[64], pieces[64];
    MPI_Win bytes, words;
    CHECK(memory != NULL, "no memory");
    for (int i = 0; i < check_ranks; ++i) {
        ones[i] = 1;
        eights[i] = 8;
        pieces[i] = check_ranks;
    }
    snprintf(text, sizeof text, "two windows over the same memory");
    MPI_Win_create(memory, (MPI_Aint) check_ranks * PIECE * 2, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                   &bytes);
    MPI_Win_create(memory + PIECE, (MPI_Aint) check_ranks * PIECE, 8, MPI_INFO_NULL, MPI_COMM_WORLD,
                   &words);
    exchange(bytes, MPI_COMM_WORLD, memory, ones, pieces, 1);
    exchange(words, MPI_COMM_WORLD, memory + PIECE, eights, pieces, 2);
    MPI_Win_free(&bytes);
    exchange(words, MPI_COMM_WORLD, memory + PIECE, eights, pieces, 3);
    MPI_Win_free(&words);
    free(memory);
}

static void kinds(bool created)
{
    MPI_Comm part;
    for (int some_empty = 0; some_empty < 2; ++some_empty) {
        for (int i = 0; created && i < 3; ++i) {
            one_kind(MPI_COMM_WORLD, MPI_WIN_FLAVOR_CREATE, some_empty, i);
        }
        for (int i = 0; i < 3; ++i) {
            one_kind(MPI_COMM_WORLD, MPI_WIN_FLAVOR_ALLOCATE, some_empty, i);
        }
    }
    /* Only one part, and the same unit for all ranks: osc/rdma of Open MPI 4.1 gives windows over
     * several parts of a split communicator the same name in /dev/shm, and forgets the unit of a
     * rank that is alone on its host if the units differ. */
    MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2 == 0 ? 0 : MPI_UNDEFINED, -check_rank, &part);
    if (check_ranks >= 4 && part != MPI_COMM_NULL) {
        one_kind(part, MPI_WIN_FLAVOR_ALLOCATE, false, 5);
        if (created) {
            one_kind(part, MPI_WIN_FLAVOR_CREATE, false, 6);
        }
    }
    if (part != MPI_COMM_NULL) {
        MPI_Comm_free(&part);
    }
    for (int i = 0; i < 50; ++i) {
        one_kind(MPI_COMM_WORLD,
                 created && i % 2 == 0 ? MPI_WIN_FLAVOR_CREATE : MPI_WIN_FLAVOR_ALLOCATE, false, i);
    }
    if (created) {
        overlapping();
    }
}

/* ---------------------------------------------------------------------------------------------- */

static void shared(void)
{
    enum {
        WORDS = 1000
    };
    int64_t *mine, one = 1, *all[64];
    MPI_Win win;
    one_kind(MPI_COMM_WORLD, MPI_WIN_FLAVOR_SHARED, false, 1);
    one_kind(MPI_COMM_WORLD, MPI_WIN_FLAVOR_SHARED, true, 2);
    snprintf(text, sizeof text, "shared memory");
    MPI_Win_allocate_shared(WORDS * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    for (int rank = 0; rank < check_ranks; ++rank) {
        MPI_Aint bytes;
        int unit;
        MPI_Win_shared_query(win, rank, &bytes, &unit, &all[rank]);
        CHECK(bytes == WORDS * 8 && unit == 8, "%s: %ld bytes in units of %d", text, (long) bytes,
              unit);
    }
    CHECK(all[check_rank] == mine, "%s: our own part is elsewhere", text);
    MPI_Win_lock_all(0, win);
    memset(mine, 0, WORDS * 8);
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Stores and operations go to different places. */
    for (int rank = 0; rank < check_ranks; ++rank) {
        int64_t value = check_rank * 100 + rank;
        all[rank][10 + check_rank] = value;
        MPI_Put(&value, 1, MPI_INT64_T, rank, 100 + check_rank, 1, MPI_INT64_T, win);
        MPI_Win_flush(rank, win);
        for (int i = 0; i < 100; ++i) {
            MPI_Accumulate(&one, 1, MPI_INT64_T, rank, 0, 1, MPI_INT64_T, MPI_SUM, win);
        }
        MPI_Win_flush(rank, win);
    }
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    CHECK(mine[0] == 100 * check_ranks, "%s: the sum is %ld", text, (long) mine[0]);
    for (int rank = 0; rank < check_ranks; ++rank) {
        int64_t got;
        int next = (check_rank + 1) % check_ranks;
        CHECK(mine[10 + rank] == rank * 100 + check_rank, "%s: a store is missing", text);
        CHECK(mine[100 + rank] == rank * 100 + check_rank, "%s: a put is missing", text);
        MPI_Get(&got, 1, MPI_INT64_T, next, 10 + rank, 1, MPI_INT64_T, win);
        MPI_Win_flush(next, win);
        CHECK(got == rank * 100 + next, "%s: a get does not have what was stored", text);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

/* Three areas per rank; in each round the rank detaches the middle one and attaches another in its
 * place. */
static void dynamic(void)
{
    enum {
        AREAS = 3,
        BYTES = 20000
    };
    unsigned char *areas[AREAS], *out = malloc(BYTES), *in = malloc(BYTES);
    MPI_Aint addresses[AREAS], theirs[AREAS];
    int next = (check_rank + 1) % check_ranks, last = (check_rank + check_ranks - 1) % check_ranks;
    int64_t one = 1, old = -1;
    MPI_Win win;
    snprintf(text, sizeof text, "dynamic window");
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (int i = 0; i < AREAS; ++i) {
        areas[i] = calloc(1, BYTES);
        MPI_Win_attach(win, areas[i], BYTES);
    }
    for (int round = 0; round < 8; ++round) {
        if (round > 0) {
            MPI_Win_detach(win, areas[1]);
            free(areas[1]);
            areas[1] = calloc(1, BYTES + 4096 * (size_t) round);
            MPI_Win_attach(win, areas[1], BYTES);
        }
        for (int i = 0; i < AREAS; ++i) {
            memset(areas[i], 0, BYTES);
            MPI_Get_address(areas[i], &addresses[i]);
        }
        MPI_Sendrecv(addresses, AREAS, MPI_AINT, last, 1, theirs, AREAS, MPI_AINT, next, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < AREAS; ++i) {
            int bytes = BYTES - 16 - i;
            uint64_t salt = (uint64_t) (round * AREAS + i);
            fill(out, (size_t) bytes, key_of(check_rank, i, BYTES, salt));
            MPI_Win_lock(i % 2 == 0 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, next, 0, win);
            MPI_Put(out, bytes, MPI_BYTE, next, MPI_Aint_add(theirs[i], 16), bytes, MPI_BYTE, win);
            MPI_Accumulate(&one, 1, MPI_INT64_T, next, theirs[i], 1, MPI_INT64_T, MPI_SUM, win);
            MPI_Win_flush(next, win);
            MPI_Fetch_and_op(&one, &old, MPI_INT64_T, next, theirs[i], MPI_SUM, win);
            MPI_Get(in, bytes, MPI_BYTE, next, MPI_Aint_add(theirs[i], 16), bytes, MPI_BYTE, win);
            MPI_Win_unlock(next, win);
            CHECK(old == 1, "%s: the counter was %ld", text, (long) old);
            CHECK_BYTES(in, (size_t) bytes, key_of(check_rank, i, BYTES, salt), text);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win);
        for (int i = 0; i < AREAS; ++i) {
            uint64_t salt = (uint64_t) (round * AREAS + i);
            int64_t sum;
            memcpy(&sum, areas[i], 8);
            CHECK(sum == 2, "%s: the sum is %ld", text, (long) sum);
            CHECK_BYTES(areas[i] + 16, (size_t) (BYTES - 16 - i), key_of(last, i, BYTES, salt),
                        text);
        }
        MPI_Win_unlock(check_rank, win);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 0; i < AREAS; ++i) {
        MPI_Win_detach(win, areas[i]);
        free(areas[i]);
    }
    MPI_Win_free(&win);
    free(out);
    free(in);
}

/* ---------------------------------------------------------------------------------------------- */

static unsigned char *map_memory(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(at != MAP_FAILED, "%zu bytes cannot be mapped", bytes);
    return at;
}

static void large(void)
{
    const size_t bytes = (size_t) 3 << 30, half = (size_t) 1 << 31;
    const size_t places[] = {0, half - PIECE / 2, half, half + 4096 + 24, bytes - (size_t) PIECE};
    unsigned char *memory = map_memory(bytes), *out = malloc(PIECE), *in = malloc(PIECE);
    int next = (check_rank + 1) % check_ranks, last = (check_rank + check_ranks - 1) % check_ranks;
    for (int unit = 1; unit <= 12; unit += 11) {
        MPI_Win win;
        snprintf(text, sizeof text, "3 GiB in units of %d bytes", unit);
        MPI_Win_create(memory, (MPI_Aint) bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        for (size_t i = 0; i < sizeof places / sizeof places[0]; ++i) {
            size_t at = places[i] / (size_t) unit * (size_t) unit;
            uint64_t salt = (uint64_t) unit * 10 + i;
            int64_t add = 5, old = -1, now = -1;
            MPI_Aint displacement = (MPI_Aint) (at / (size_t) unit);
            fill(out, PIECE, key_of(check_rank, next, PIECE, salt));
            memset(in, 0, PIECE);
            MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
            MPI_Put(out, PIECE, MPI_BYTE, next, displacement, PIECE, MPI_BYTE, win);
            MPI_Win_flush(next, win);
            MPI_Get(in, PIECE, MPI_BYTE, next, displacement, PIECE, MPI_BYTE, win);
            MPI_Win_unlock(next, win);
            CHECK_BYTES(in, PIECE, key_of(check_rank, next, PIECE, salt), text);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win);
            CHECK_BYTES(memory + at, PIECE, key_of(last, check_rank, PIECE, salt), text);
            memset(memory + at, 0, 8);
            MPI_Win_unlock(check_rank, win);
            MPI_Barrier(MPI_COMM_WORLD);
            if (at % 8 != 0) {
                continue;
            }
            MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
            MPI_Accumulate(&add, 1, MPI_INT64_T, next, displacement, 1, MPI_INT64_T, MPI_SUM, win);
            MPI_Win_flush(next, win);
            MPI_Fetch_and_op(&add, &old, MPI_INT64_T, next, displacement, MPI_SUM, win);
            MPI_Win_flush(next, win);
            MPI_Get(&now, 1, MPI_INT64_T, next, displacement, 1, MPI_INT64_T, win);
            MPI_Win_unlock(next, win);
            CHECK(old == 5 && now == 10, "%s: the sum was %ld, then %ld", text, (long) old,
                  (long) now);
        }
        MPI_Win_free(&win);
    }
    munmap(memory, bytes);
    free(out);
    free(in);
}

static void one_transfer(void)
{
    enum {
        ELEMENT = 1 << 20,
        COUNT = 2049,
        STEP = 1 << 24
    };
    const size_t bytes = (size_t) ELEMENT * COUNT;
    const bool target = check_rank == 1;
    unsigned char *memory = map_memory(bytes);
    MPI_Datatype element;
    MPI_Win win;
    snprintf(text, sizeof text, "%zu bytes at once", bytes);
    MPI_Type_contiguous(ELEMENT, MPI_BYTE, &element);
    MPI_Type_commit(&element);
    MPI_Win_create(target ? memory : NULL, target ? (MPI_Aint) bytes : 0, 1, MPI_INFO_NULL,
                   MPI_COMM_WORLD, &win);
    for (int get = 0; get < 2; ++get) {
        uint64_t key = key_of(0, get, bytes, 0);
        for (size_t at = 0; check_rank == get && at < bytes; at += STEP) {
            fill_from(memory + at, at, bytes - at < STEP ? bytes - at : STEP, key);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (check_rank == 0) {
            MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
            if (get) {
                MPI_Get(memory, COUNT, element, 1, 0, COUNT, element, win);
            } else {
                MPI_Put(memory, COUNT, element, 1, 0, COUNT, element, win);
            }
            MPI_Win_unlock(1, win);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        for (size_t at = 0; check_rank == 1 - get && at < bytes; at += STEP) {
            check_bytes_from(__LINE__, memory + at, at, bytes - at < STEP ? bytes - at : STEP, key,
                             text);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_free(&win);
    MPI_Type_free(&element);
    munmap(memory, bytes);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "one_sided_windows", 2);
    const char *which = argc > 1 ? argv[1] : "";
    CHECK(check_ranks <= 64, "too many ranks");
    if (strcmp(which, "kinds") == 0) {
        kinds(true);
    } else if (strcmp(which, "allocated") == 0) {
        kinds(false);
    } else if (strcmp(which, "shared") == 0) {
        shared();
    } else if (strcmp(which, "dynamic") == 0) {
        dynamic();
    } else if (strcmp(which, "large") == 0) {
        large();
    } else if (strcmp(which, "transfer") == 0) {
        one_transfer();
    } else {
        FAIL("argument: kinds, shared, dynamic, large or transfer");
    }
    check_end();
    return 0;
}
