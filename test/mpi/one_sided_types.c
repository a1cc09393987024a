// SPDX-License-Identifier: BSD-3-Clause
/*
 * Datatypes of one-sided operations: each of a list of layouts at the origin with each one at the
 * target with the same signature, for put, get, accumulate and get_accumulate; several items at a
 * time; at places of the window that are not aligned to the layout. Bytes between the pieces stay
 * unchanged. Arguments: the most items of one transfer; no_get_accumulate, which replaces
 * get_accumulate by accumulate, since osc/rdma of Open MPI 4.1.4 over a BTL returns wrong results
 * of get_accumulate into derived datatypes (4.1.5 does not).
 */
#include "check.h"

enum {
    LAYOUTS_MAX = 12,
    GROUP = 24 /* numbers in one item of every layout */
};

typedef struct {
    const char *name;
    MPI_Datatype type; /* GROUP numbers; its extent is a multiple of a number's size */
} layout;

static MPI_Win win;
static unsigned char *memory;
static size_t room;
static layout layouts[LAYOUTS_MAX];
static int layout_count;
static char text[160];
static bool no_get_accumulate;

static void add_layout(const char *name, MPI_Datatype type)
{
    int size, number;
    MPI_Type_commit(&type);
    MPI_Type_size(type, &size);
    MPI_Type_size(MPI_INT64_T, &number);
    CHECK(size == GROUP * number, "%s has %d bytes", name, size);
    layouts[layout_count++] = (layout){name, type};
}

static void make_layouts(void)
{
    MPI_Datatype type, inner;
    MPI_Type_contiguous(GROUP, MPI_INT64_T, &type);
    add_layout("contiguous", type);
    MPI_Type_vector(GROUP / 2, 2, 5, MPI_INT64_T, &type);
    add_layout("vector", type);
    MPI_Type_create_hvector(GROUP, 1, 24, MPI_INT64_T, &type);
    add_layout("hvector", type);
    int lengths[4] = {3, 10, 1, 10}, places[4] = {40, 0, 20, 25};
    MPI_Type_indexed(4, lengths, places, MPI_INT64_T, &type);
    add_layout("indexed, not in order", type);
    int starts[6] = {0, 10, 5, 15, 30, 22};
    MPI_Type_create_indexed_block(6, 4, starts, MPI_INT64_T, &type);
    add_layout("indexed block", type);
    int sizes[3] = {5, 7, 6}, parts[3] = {2, 3, 4}, from[3] = {1, 2, 1};
    MPI_Type_create_subarray(3, sizes, parts, from, MPI_ORDER_C, MPI_INT64_T, &type);
    add_layout("subarray", type);
    MPI_Type_vector(2, 3, 4, MPI_INT64_T, &inner);
    MPI_Type_create_resized(inner, 0, 9 * 8, &type);
    MPI_Type_free(&inner);
    MPI_Type_contiguous(4, type, &inner);
    MPI_Type_free(&type);
    add_layout("contiguous of resized vectors", inner);
    MPI_Type_vector(3, 2, 3, MPI_INT64_T, &inner);
    int counts[3] = {6, 2, 6};
    MPI_Aint at[3] = {200, 0, 264};
    MPI_Datatype types[3] = {MPI_INT64_T, inner, MPI_INT64_T};
    MPI_Type_create_struct(3, counts, at, types, &type);
    MPI_Type_free(&inner);
    add_layout("struct", type);
}

static size_t extent_of(const layout *of)
{
    MPI_Aint low, extent;
    MPI_Type_get_extent(of->type, &low, &extent);
    CHECK(low == 0, "%s begins at %ld", of->name, (long) low);
    return (size_t) extent;
}

/* Copy numbers from an array into the layout, and back. */
static void to_layout(const layout *of, int count, const int64_t *numbers, unsigned char *buffer)
{
    int position = 0, bytes = count * GROUP * 8;
    MPI_Unpack(numbers, bytes, &position, buffer, count, of->type, MPI_COMM_WORLD);
}

static void from_layout(const layout *of, int count, const unsigned char *buffer, int64_t *numbers)
{
    int position = 0, bytes = count * GROUP * 8;
    MPI_Pack(buffer, count, of->type, numbers, bytes, &position, MPI_COMM_WORLD);
}

static void numbers_of(int64_t *numbers, int count, int who, int salt)
{
    uint64_t key = key_of(who, salt, (size_t) count, 0);
    for (int i = 0; i < count * GROUP; ++i) {
        numbers[i] = (int64_t) (word_of(key, (uint64_t) i) >> 20);
    }
}

/* Compares the whole buffer: the pieces and the bytes between them. */
static void compare(int line, const unsigned char *got, const unsigned char *want, const char *what)
{
    if (memcmp(got, want, room) == 0) {
        return;
    }
    size_t i = 0;
    while (got[i] == want[i]) {
        ++i;
    }
    check_fail(line, "%s, %s: byte %zu of %zu is 0x%02x, expected 0x%02x", text, what, i, room,
               got[i], want[i]);
}

#define COMPARE(got, want, what) compare(__LINE__, got, want, what)

typedef struct {
    int64_t *ours, *theirs, *sum;
    unsigned char *local, *result, *expected;
} buffers;

static void window_fill(const layout *there, int count, size_t shift, const buffers *b)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win);
    memset(memory, CHECK_GUARD_VALUE, room);
    numbers_of(b->theirs, count, check_rank, 2);
    to_layout(there, count, b->theirs, memory + shift);
    MPI_Win_unlock(check_rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Checks that the window holds `numbers` at the layout's places, and nothing else. */
static void window_check(const layout *there, int count, size_t shift, const int64_t *numbers,
                         const buffers *b)
{
    memset(b->expected, CHECK_GUARD_VALUE, room);
    to_layout(there, count, numbers, b->expected + shift);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win);
    COMPARE(memory, b->expected, "the window");
    MPI_Win_unlock(check_rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Transfers `count` items between layout `here` at this rank and `there` at the next rank. */
static void transfer(const layout *here, const layout *there, int count, const buffers *b)
{
    int target = (check_rank + 1) % check_ranks,
        from = (check_rank + check_ranks - 1) % check_ranks;
    size_t shift = 8 * (size_t) (count % 5);
    int all = count * GROUP;
    snprintf(text, sizeof text, "%s here, %s there, %d items", here->name, there->name, count);

    window_fill(there, count, shift, b);
    numbers_of(b->ours, count, check_rank, 1);
    memset(b->local, CHECK_GUARD_VALUE, room);
    to_layout(here, count, b->ours, b->local);
    memset(b->result, CHECK_GUARD_VALUE, room);
    numbers_of(b->theirs, count, target, 2);
    memset(b->expected, CHECK_GUARD_VALUE, room);
    to_layout(here, count, b->theirs, b->expected);
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    MPI_Get(b->result, count, here->type, target, (MPI_Aint) shift, count, there->type, win);
    MPI_Win_flush(target, win);
    COMPARE(b->result, b->expected, "what was got");
    MPI_Put(b->local, count, here->type, target, (MPI_Aint) shift, count, there->type, win);
    MPI_Win_unlock(target, win);
    numbers_of(b->ours, count, from, 1);
    window_check(there, count, shift, b->ours, b);

    /* Adds the numbers of the put twice more; the first addition also returns the old contents. */
    memset(b->result, CHECK_GUARD_VALUE, room);
    memset(b->expected, CHECK_GUARD_VALUE, room);
    numbers_of(b->ours, count, check_rank, 1);
    to_layout(here, count, b->ours, b->expected);
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    if (no_get_accumulate) {
        MPI_Accumulate(b->local, count, here->type, target, (MPI_Aint) shift, count, there->type,
                       MPI_SUM, win);
    } else {
        MPI_Get_accumulate(b->local, count, here->type, b->result, count, here->type, target,
                           (MPI_Aint) shift, count, there->type, MPI_SUM, win);
        MPI_Win_flush(target, win);
        COMPARE(b->result, b->expected, "what get_accumulate found");
    }
    MPI_Accumulate(b->local, count, here->type, target, (MPI_Aint) shift, count, there->type,
                   MPI_SUM, win);
    MPI_Win_unlock(target, win);
    numbers_of(b->ours, count, from, 1);
    for (int i = 0; i < all; ++i) {
        b->sum[i] = 3 * b->ours[i];
    }
    window_check(there, count, shift, b->sum, b);

    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    MPI_Accumulate(b->local, count, here->type, target, (MPI_Aint) shift, count, there->type,
                   MPI_REPLACE, win);
    MPI_Win_unlock(target, win);
    window_check(there, count, shift, b->ours, b);
    from_layout(there, count, b->expected + shift, b->sum);
    CHECK(memcmp(b->sum, b->ours, (size_t) all * 8) == 0, "%s: the layout lost numbers", text);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "one_sided_types", 2);
    int most = argc > 1 ? atoi(argv[1]) : 60;
    no_get_accumulate = argc > 2 && strcmp(argv[2], "no_get_accumulate") == 0;
    buffers b;
    make_layouts();
    for (int i = 0; i < layout_count; ++i) {
        size_t bytes = extent_of(&layouts[i]) * (size_t) most + 64;
        room = bytes > room ? bytes : room;
    }
    size_t numbers = (size_t) most * GROUP * 8;
    b.ours = malloc(numbers);
    b.theirs = malloc(numbers);
    b.sum = malloc(numbers);
    b.local = malloc(room);
    b.result = malloc(room);
    b.expected = malloc(room);
    CHECK(b.ours != NULL && b.theirs != NULL && b.sum != NULL && b.local != NULL && b.result != NULL
              && b.expected != NULL,
          "no memory");
    MPI_Win_allocate((MPI_Aint) room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    for (int here = 0; here < layout_count; ++here) {
        for (int there = 0; there < layout_count; ++there) {
            transfer(&layouts[here], &layouts[there], here == there ? most : 1 + (here + there) % 4,
                     &b);
        }
    }
    MPI_Win_free(&win);
    for (int i = 0; i < layout_count; ++i) {
        MPI_Type_free(&layouts[i].type);
    }
    free(b.ours);
    free(b.theirs);
    free(b.sum);
    free(b.local);
    free(b.result);
    free(b.expected);
    check_end();
    return 0;
}
