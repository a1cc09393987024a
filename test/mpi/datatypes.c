// SPDX-License-Identifier: BSD-3-Clause
/*
 * Derived datatypes: every pair of layouts of the same ints, one at the sender and the other at the
 * receiver, from a few bytes to a few megabytes; bytes in gaps and outside stay untouched. Then
 * mixed basic types, and messages shorter than their receive.
 */
#include "check.h"

/* A layout of `ints` integers: element k lies `offsets[k]` bytes behind the address that is passed
 * to MPI, and all of it within [low, high). */
typedef struct {
    MPI_Datatype type;
    int count;
    ptrdiff_t *offsets, low, high;
} layout_t;

enum {
    LAYOUTS = 10
};
static const char *const layout_names[LAYOUTS] = {"contiguous", "vector",   "indexed",  "struct",
                                                  "resized",    "negative", "subarray", "backwards",
                                                  "nested",     "unaligned"};

static layout_t layout_contiguous(int ints)
{
    layout_t layout = {MPI_DATATYPE_NULL, 1, NULL, 0, 0};
    layout.offsets = malloc((size_t) ints * sizeof *layout.offsets);
    MPI_Type_contiguous(ints, MPI_INT, &layout.type);
    for (int k = 0; k < ints; ++k) {
        layout.offsets[k] = 4 * (ptrdiff_t) k;
    }
    return layout;
}

static void make_indexed(layout_t *layout, int ints)
{
    int *lengths = malloc((size_t) ints * sizeof(int)),
        *places = malloc((size_t) ints * sizeof(int));
    int blocks = 0, at = 3;
    for (int k = 0; k < ints; ++blocks) {
        int length = blocks % 5 + 1;
        length = length < ints - k ? length : ints - k;
        lengths[blocks] = length;
        places[blocks] = at;
        for (int i = 0; i < length; ++i) {
            layout->offsets[k++] = 4 * (ptrdiff_t) (at + i);
        }
        at += length + blocks % 3;
    }
    MPI_Type_indexed(blocks, lengths, places, MPI_INT, &layout->type);
    free(lengths);
    free(places);
}

/* {int, gap, int, int, gap}, 28 bytes each: three ints per element. */
static void make_struct(layout_t *layout, int ints)
{
    int lengths[2] = {1, 2};
    MPI_Aint places[2] = {4, 12};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT}, bare;
    MPI_Type_create_struct(2, lengths, places, types, &bare);
    MPI_Type_create_resized(bare, 0, 28, &layout->type);
    MPI_Type_free(&bare);
    layout->count = ints / 3;
    for (int k = 0; k < ints; ++k) {
        layout->offsets[k] = 28 * (ptrdiff_t) (k / 3) + (k % 3 == 0 ? 4 : 8 + 4 * (k % 3));
    }
}

/* The lower bound is 24 bytes before the address; the data begins 16 bytes before it. */
static void make_negative(layout_t *layout, int ints)
{
    int lengths[2] = {2, 1};
    MPI_Aint places[2] = {-16, 4};
    MPI_Datatype bare;
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &bare);
    MPI_Type_create_resized(bare, -24, 40, &layout->type);
    MPI_Type_free(&bare);
    layout->count = ints / 3;
    for (int k = 0; k < ints; ++k) {
        layout->offsets[k] = 40 * (ptrdiff_t) (k / 3) + (k % 3 == 2 ? 4 : -16 + 4 * (k % 3));
    }
}

/* A 6-wide window of rows that are 10 wide, from row 1, column 3. */
static void make_subarray(layout_t *layout, int ints)
{
    int whole[2] = {ints / 6 + 2, 10}, part[2] = {ints / 6, 6}, start[2] = {1, 3};
    MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_INT, &layout->type);
    for (int k = 0; k < ints; ++k) {
        layout->offsets[k] = 4 * ((ptrdiff_t) (1 + k / 6) * 10 + 3 + k % 6);
    }
}

/* Vectors of vectors: groups of 6 = 3 blocks of 2 with a gap, the groups 80 bytes apart. */
static void make_nested(layout_t *layout, int ints)
{
    MPI_Datatype inner;
    MPI_Type_vector(3, 2, 4, MPI_INT, &inner);
    MPI_Type_create_hvector(ints / 6, 1, 80, inner, &layout->type);
    MPI_Type_free(&inner);
    for (int k = 0; k < ints; ++k) {
        layout->offsets[k] = 80 * (ptrdiff_t) (k / 6) + 16 * (k % 6 / 2) + 4 * (k % 2);
    }
}

/* Ints at odd addresses. */
static void make_unaligned(layout_t *layout, int ints)
{
    MPI_Aint *places = malloc((size_t) ints * sizeof *places);
    for (int k = 0; k < ints; ++k) {
        places[k] = layout->offsets[k] = 7 * (ptrdiff_t) k + 1;
    }
    MPI_Type_create_hindexed_block(ints, 1, places, MPI_INT, &layout->type);
    free(places);
}

static layout_t layout_new(int which, int ints)
{
    layout_t layout = layout_contiguous(ints);
    if (which != 0) {
        MPI_Type_free(&layout.type);
    }
    switch (which) {
    case 0:
        break;
    case 1:
        MPI_Type_vector(ints / 4, 4, 7, MPI_INT, &layout.type);
        for (int k = 0; k < ints; ++k) {
            layout.offsets[k] = 28 * (ptrdiff_t) (k / 4) + 4 * (k % 4);
        }
        break;
    case 2:
        make_indexed(&layout, ints);
        break;
    case 3:
        make_struct(&layout, ints);
        break;
    case 4:
        MPI_Type_create_resized(MPI_INT, 0, 12, &layout.type);
        layout.count = ints;
        for (int k = 0; k < ints; ++k) {
            layout.offsets[k] = 12 * (ptrdiff_t) k;
        }
        break;
    case 5:
        make_negative(&layout, ints);
        break;
    case 6:
        make_subarray(&layout, ints);
        break;
    case 7: /* elements in reverse order */
        MPI_Type_create_hvector(ints, 1, -8, MPI_INT, &layout.type);
        for (int k = 0; k < ints; ++k) {
            layout.offsets[k] = -8 * (ptrdiff_t) k;
        }
        break;
    case 8:
        make_nested(&layout, ints);
        break;
    default:
        make_unaligned(&layout, ints);
        break;
    }
    MPI_Type_commit(&layout.type);
    for (int k = 0; k < ints; ++k) {
        layout.low = layout.offsets[k] < layout.low ? layout.offsets[k] : layout.low;
        layout.high = layout.offsets[k] + 4 > layout.high ? layout.offsets[k] + 4 : layout.high;
    }
    return layout;
}

static void layout_free(layout_t *layout)
{
    MPI_Type_free(&layout->type);
    free(layout->offsets);
}

static int value_of(int sender, int k, int salt)
{
    return (int) (mix((uint64_t) (sender * 1000 + salt)) >> 3) + k * 3;
}

/* Checks every element, and that all other bytes still have the guard's value. */
static void check_layout(const layout_t *layout, const unsigned char *origin, int ints, int from,
                         int salt, const char *what)
{
    size_t span = (size_t) (layout->high - layout->low);
    unsigned char *covered = calloc(span, 1);
    for (int k = 0; k < ints; ++k) {
        int value;
        memcpy(&value, origin + layout->offsets[k], 4);
        CHECK(value == value_of(from, k, salt), "%s: element %d is 0x%08x, expected 0x%08x", what,
              k, (unsigned) value, (unsigned) value_of(from, k, salt));
        memset(covered + (layout->offsets[k] - layout->low), 1, 4);
    }
    for (size_t i = 0; i < span; ++i) {
        CHECK(covered[i] || origin[layout->low + (ptrdiff_t) i] == CHECK_GUARD_VALUE,
              "%s: the gap at byte %td was overwritten", what, layout->low + (ptrdiff_t) i);
    }
    free(covered);
    CHECK_GUARD(origin + layout->low, span, what);
}

typedef enum {
    POSTED,
    UNEXPECTED,
    SYNCHRONOUS
} arrival_t;

static void one_pair(int send_way, int receive_way, int ints, arrival_t arrival)
{
    char what[120];
    snprintf(what, sizeof what, "%d ints from %s to %s, arrival %d", ints, layout_names[send_way],
             layout_names[receive_way], (int) arrival);
    layout_t out = layout_new(send_way, ints), in = layout_new(receive_way, ints);
    unsigned char *out_block = guarded_new((size_t) (out.high - out.low), 0);
    unsigned char *in_block = guarded_new((size_t) (in.high - in.low), 0);
    unsigned char *from_origin = out_block - out.low, *to_origin = in_block - in.low;
    int to = (check_rank + 1) % check_ranks, from = (check_rank - 1 + check_ranks) % check_ranks;
    int salt = send_way * LAYOUTS + receive_way;
    MPI_Request send, receive;
    MPI_Status status;
    for (int k = 0; k < ints; ++k) {
        int value = value_of(check_rank, k, salt);
        memcpy(from_origin + out.offsets[k], &value, 4);
    }
    if (arrival != UNEXPECTED) {
        MPI_Irecv(to_origin, in.count, in.type, from, salt, MPI_COMM_WORLD, &receive);
    }
    if (arrival == SYNCHRONOUS) {
        MPI_Issend(from_origin, out.count, out.type, to, salt, MPI_COMM_WORLD, &send);
    } else {
        MPI_Isend(from_origin, out.count, out.type, to, salt, MPI_COMM_WORLD, &send);
    }
    if (arrival == UNEXPECTED) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Irecv(to_origin, in.count, in.type, from, salt, MPI_COMM_WORLD, &receive);
    }
    MPI_Wait(&receive, &status);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    int elements = -1, count = -1;
    MPI_Get_elements(&status, in.type, &elements);
    MPI_Get_count(&status, in.type, &count);
    CHECK(elements == ints && count == in.count, "%s: %d elements, count %d; expected %d, %d", what,
          elements, count, ints, in.count);
    check_layout(&in, to_origin, ints, from, salt, what);
    guarded_free(out_block, 0);
    guarded_free(in_block, 0);
    layout_free(&out);
    layout_free(&in);
}

/* The message is shorter than the receive: checks count, number of elements, and that the rest is
 * untouched. */
static void partial(int which, int room, int ints)
{
    char what[80];
    snprintf(what, sizeof what, "%d ints into %d of %s", ints, room, layout_names[which]);
    layout_t in = layout_new(which, room);
    unsigned char *block = guarded_new((size_t) (in.high - in.low), 0), *origin = block - in.low;
    int *out = malloc((size_t) ints * sizeof(int) + 1);
    int to = (check_rank + 1) % check_ranks, from = (check_rank - 1 + check_ranks) % check_ranks;
    int elements = -1, count = -1, size;
    MPI_Status status;
    for (int k = 0; k < ints; ++k) {
        out[k] = value_of(check_rank, k, 1);
    }
    MPI_Sendrecv(out, ints, MPI_INT, to, 2, origin, in.count, in.type, from, 2, MPI_COMM_WORLD,
                 &status);
    MPI_Type_size(in.type, &size);
    MPI_Get_elements(&status, in.type, &elements);
    MPI_Get_count(&status, in.type, &count);
    int whole = ints * 4 % size == 0 ? ints * 4 / size : MPI_UNDEFINED;
    CHECK(elements == ints && count == whole, "%s: %d elements, count %d; expected %d, %d", what,
          elements, count, ints, whole);
    /* Resets the received elements to the guard's value, which all bytes must then have. */
    for (int k = 0; k < ints; ++k) {
        int value;
        memcpy(&value, origin + in.offsets[k], 4);
        CHECK(value == value_of(from, k, 1), "%s: element %d is 0x%08x", what, k, (unsigned) value);
        memset(origin + in.offsets[k], CHECK_GUARD_VALUE, 4);
    }
    for (ptrdiff_t i = in.low; i < in.high; ++i) {
        CHECK(origin[i] == CHECK_GUARD_VALUE, "%s: byte %td was overwritten", what, i);
    }
    CHECK_GUARD(block, (size_t) (in.high - in.low), what);
    guarded_free(block, 0);
    free(out);
    layout_free(&in);
}

/* {char, double, short} laid out in two ways. */
typedef struct {
    char c;
    double d;
    short s;
} wide_t;

typedef struct __attribute__((packed)) {
    short unused;
    char c;
    double d;
    short s;
} packed_t;

static MPI_Datatype mixed_type(MPI_Aint c, MPI_Aint d, MPI_Aint s, MPI_Aint extent)
{
    int lengths[3] = {1, 1, 1};
    MPI_Aint places[3] = {c, d, s};
    MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, bare, type;
    MPI_Type_create_struct(3, lengths, places, types, &bare);
    MPI_Type_create_resized(bare, 0, extent, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&bare);
    return type;
}

static void mixed(int count)
{
    MPI_Datatype wide =
        mixed_type(offsetof(wide_t, c), offsetof(wide_t, d), offsetof(wide_t, s), sizeof(wide_t));
    MPI_Datatype packed = mixed_type(offsetof(packed_t, c), offsetof(packed_t, d),
                                     offsetof(packed_t, s), sizeof(packed_t));
    wide_t *out = calloc((size_t) count, sizeof *out);
    packed_t *in = calloc((size_t) count + 3, sizeof *in);
    int to = (check_rank + 1) % check_ranks, from = (check_rank - 1 + check_ranks) % check_ranks;
    int elements = -1, received = -1;
    MPI_Status status;
    for (int i = 0; i < count; ++i) {
        out[i] = (wide_t){(char) i, check_rank * 1e6 + i * 0.5, (short) (i * 3)};
    }
    for (int i = 0; i < count + 3; ++i) {
        in[i].unused = 77;
    }
    MPI_Sendrecv(out, count, wide, to, 3, in, count + 3, packed, from, 3, MPI_COMM_WORLD, &status);
    MPI_Get_elements(&status, packed, &elements);
    MPI_Get_count(&status, packed, &received);
    CHECK(elements == 3 * count && received == count,
          "mixed: %d elements, count %d; expected %d, %d", elements, received, 3 * count, count);
    for (int i = 0; i < count; ++i) {
        CHECK(in[i].c == (char) i && in[i].d == from * 1e6 + i * 0.5 && in[i].s == (short) (i * 3)
                  && in[i].unused == 77,
              "mixed: element %d of %d is {%d, %g, %d}, gap %d", i, count, in[i].c, in[i].d,
              in[i].s, in[i].unused);
    }
    free(out);
    free(in);
    MPI_Type_free(&wide);
    MPI_Type_free(&packed);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "datatypes", 2);
    static const int sizes[] = {12, 1200, 2052, 60000};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; ++s) {
        for (int i = 0; i < LAYOUTS; ++i) {
            for (int j = 0; j < LAYOUTS; ++j) {
                for (int arrival = POSTED; arrival <= SYNCHRONOUS; ++arrival) {
                    one_pair(i, j, sizes[s], (arrival_t) arrival);
                }
            }
            static const int parts[] = {0, 1, 2, 6, 7};
            for (size_t p = 0; p < sizeof parts / sizeof parts[0]; ++p) {
                partial(i, sizes[s], parts[p]);
                partial(i, sizes[s], sizes[s] - parts[p]);
            }
        }
    }
    for (int i = 0; i < LAYOUTS; ++i) {
        one_pair(i, (i + 3) % LAYOUTS, 720000, (arrival_t) (i % 3));
    }
    mixed(1);
    mixed(400);
    mixed(100000);
    check_end();
    return 0;
}
