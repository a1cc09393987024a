// SPDX-License-Identifier: BSD-3-Clause
/*
 * Accumulate operations: every predefined operation on every kind of basic type, from all ranks at
 * once to every rank; get_accumulate, fetch_and_op and compare_and_swap of 8 to 64 bits; the types
 * of value and place for MINLOC and MAXLOC; single elements and arrays of several thousand.
 *
 * Operands are small whole numbers, so that every order of the ranks gives the same result, which
 * MPI_Reduce_local computes. Argument: no_gaps omits pairs with gaps inside: for them Open MPI
 * 4.1's osc/pt2pt lacks MINLOC and MAXLOC, and its osc/rdma over a BTL takes a type's size for its
 * extent.
 */
#include "check.h"

enum {
    KINDS_MAX = 40,
    LARGEST = 16, /* bytes of an element */
    MOST = 3001,  /* elements */
    GAP = 64,     /* bytes behind the elements, which no operation may write */
    SLOT = MOST * LARGEST + GAP
};

typedef enum {
    INTEGER,
    LOGICAL,
    BYTES,
    REAL,
    COMPLEX,
    PLACE
} family;

typedef struct {
    const char *name;
    MPI_Datatype type;
    family kind;
    int bytes; /* size of an element's number, or of both numbers of a complex one */
} type_row;

typedef struct {
    const char *name;
    MPI_Op op;
    unsigned kinds; /* bit mask of families */
} op_row;

#define BIT(kind) (1u << (kind))

static MPI_Win win;
static unsigned char *memory;
static unsigned char *operand, *result, *expected;
static char text[128];
static bool without_gaps;

static type_row types[KINDS_MAX];
static int type_count;

static void add_type(const char *name, MPI_Datatype type, family kind)
{
    int bytes;
    MPI_Type_size(type, &bytes);
    types[type_count++] = (type_row){name, type, kind, bytes};
}

#define TYPE(type, kind) add_type(#type, type, kind)

static void list_types(void)
{
    TYPE(MPI_INT8_T, INTEGER);
    TYPE(MPI_UINT8_T, INTEGER);
    TYPE(MPI_INT16_T, INTEGER);
    TYPE(MPI_UINT16_T, INTEGER);
    TYPE(MPI_INT32_T, INTEGER);
    TYPE(MPI_UINT32_T, INTEGER);
    TYPE(MPI_INT64_T, INTEGER);
    TYPE(MPI_UINT64_T, INTEGER);
    TYPE(MPI_AINT, INTEGER);
    TYPE(MPI_C_BOOL, LOGICAL);
    TYPE(MPI_BYTE, BYTES);
    TYPE(MPI_FLOAT, REAL);
    TYPE(MPI_DOUBLE, REAL);
    TYPE(MPI_C_FLOAT_COMPLEX, COMPLEX);
    TYPE(MPI_C_DOUBLE_COMPLEX, COMPLEX);
    TYPE(MPI_2INT, PLACE);
    TYPE(MPI_FLOAT_INT, PLACE);
    if (!without_gaps) {
        TYPE(MPI_SHORT_INT, PLACE);
        TYPE(MPI_LONG_INT, PLACE);
        TYPE(MPI_DOUBLE_INT, PLACE);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Elements */

static void set_number(unsigned char *at, const type_row *type, int value)
{
    switch (type->kind) {
    case REAL:
        if (type->bytes == 4) {
            float number = (float) value;
            memcpy(at, &number, 4);
        } else {
            double number = value;
            memcpy(at, &number, 8);
        }
        break;
    case LOGICAL:
        *at = value % 2 != 0;
        break;
    default: { /* copies from a number of that size: independent of endianness */
        int8_t one = (int8_t) value;
        int16_t two = (int16_t) value;
        int32_t four = value;
        int64_t eight = value;
        const void *from = type->bytes == 1   ? (const void *) &one
                           : type->bytes == 2 ? (const void *) &two
                           : type->bytes == 4 ? (const void *) &four
                                              : (const void *) &eight;
        memcpy(at, from, (size_t) type->bytes);
    }
    }
}

/* Stores a pair in the layout of the C struct. */
#define SET_PAIR(number_type)                                                                      \
    do {                                                                                           \
        struct {                                                                                   \
            number_type value;                                                                     \
            int place;                                                                             \
        } pair;                                                                                    \
        memset(&pair, 0, sizeof pair);                                                             \
        pair.value = (number_type) value;                                                          \
        pair.place = place;                                                                        \
        memcpy(at, &pair, sizeof pair);                                                            \
    } while (0)

static void set_pair(unsigned char *at, MPI_Datatype type, int value, int place)
{
    if (type == MPI_2INT) {
        SET_PAIR(int);
    } else if (type == MPI_SHORT_INT) {
        SET_PAIR(short);
    } else if (type == MPI_LONG_INT) {
        SET_PAIR(long);
    } else if (type == MPI_FLOAT_INT) {
        SET_PAIR(float);
    } else {
        SET_PAIR(double);
    }
}

static size_t extent_of(const type_row *type)
{
    MPI_Aint low, extent;
    MPI_Type_get_extent(type->type, &low, &extent);
    return (size_t) extent;
}

/* Sets `count` elements to small numbers (1 or 2, so that products of many ranks fit 8 bits). */
static void set_elements(unsigned char *to, const type_row *type, int count, uint64_t key)
{
    size_t extent = extent_of(type);
    for (int i = 0; i < count; ++i) {
        unsigned char *at = to + (size_t) i * extent;
        int value = 1 + (int) (word_of(key, (uint64_t) i) % 2);
        if (type->kind == PLACE) {
            set_pair(at, type->type, value, (int) (word_of(key, (uint64_t) i) >> 8) % 1000);
        } else if (type->kind == COMPLEX) {
            const type_row half = {NULL, MPI_DATATYPE_NULL, REAL, type->bytes / 2};
            set_number(at, &half, value);
            set_number(at + half.bytes, &half, (int) (word_of(key, (uint64_t) i) >> 9) % 2);
        } else {
            set_number(at, type, value);
        }
    }
}

/* Packs the elements without the gaps inside them; returns the number of bytes. */
static int packed(const unsigned char *from, const type_row *type, int count, unsigned char *to)
{
    int position = 0;
    MPI_Pack(from, count, type->type, to, MOST * 2 * LARGEST, &position, MPI_COMM_WORLD);
    return position;
}

static void compare(int line, const unsigned char *got, const unsigned char *want,
                    const type_row *type, int count, const char *what)
{
    static unsigned char one[MOST * 2 * LARGEST], other[MOST * 2 * LARGEST];
    int bytes = packed(got, type, count, one);
    packed(want, type, count, other);
    for (int i = 0; i < bytes; ++i) {
        if (one[i] != other[i]) {
            check_fail(line, "%s, %s: element %d of %d has 0x%02x in byte %d, expected 0x%02x",
                       text, what, i / type->bytes, count, one[i], i % type->bytes, other[i]);
        }
    }
}

#define COMPARE(got, want, type, count, what) compare(__LINE__, got, want, type, count, what)

/* ------------------------------------------------------------------------------------------------
 * All ranks at all ranks */

enum {
    START = 1000 /* key of the initial contents */
};

static uint64_t operand_key(int origin, int target)
{
    return key_of(origin, target, 0, 0);
}

static void prepare(const type_row *type, int count)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win);
    guarded_reset(memory, SLOT);
    set_elements(memory, type, count, key_of(START, check_rank, 0, 0));
    MPI_Win_unlock(check_rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* After all ranks have replaced all elements: each element is one rank's operand. */
static void check_origins(const type_row *type, int count)
{
    static unsigned char there[MOST * 2 * LARGEST], one[MOST * 2 * LARGEST];
    static bool known[MOST];
    size_t bytes = (size_t) packed(memory, type, count, there) / (size_t) count;
    memset(known, 0, sizeof known);
    for (int origin = 0; origin < check_ranks; ++origin) {
        set_elements(operand, type, count, operand_key(origin, check_rank));
        packed(operand, type, count, one);
        for (int i = 0; i < count; ++i) {
            size_t at = (size_t) i * bytes;
            known[i] = known[i] || memcmp(there + at, one + at, bytes) == 0;
        }
    }
    for (int i = 0; i < count; ++i) {
        CHECK(known[i], "%s: element %d is nobody's", text, i);
    }
}

static void verify(const type_row *type, const op_row *op, int count)
{
    size_t bytes = (size_t) count * extent_of(type);
    set_elements(expected, type, count, key_of(START, check_rank, 0, 0));
    for (int origin = 0; origin < check_ranks; ++origin) {
        set_elements(operand, type, count, operand_key(origin, check_rank));
        if (op->op != MPI_NO_OP && op->op != MPI_REPLACE) {
            MPI_Reduce_local(operand, expected, count, type->type, op->op);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win);
    if (op->op == MPI_REPLACE) {
        check_origins(type, count);
    } else {
        COMPARE(memory, expected, type, count, "what the ranks made of it");
    }
    for (size_t i = bytes; i < bytes + GAP; ++i) {
        CHECK(memory[i] == CHECK_GUARD_VALUE, "%s: byte %zu behind the array overwritten", text,
              i - bytes);
    }
    MPI_Win_unlock(check_rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void accumulate(const type_row *type, const op_row *op, int count)
{
    snprintf(text, sizeof text, "accumulate, %s, %s, %d elements", type->name, op->name, count);
    if (op->op == MPI_NO_OP) {
        return; /* MPI_Accumulate with MPI_NO_OP would have no effect */
    }
    prepare(type, count);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < check_ranks; ++i) {
        int target = (check_rank + i) % check_ranks;
        set_elements(operand, type, count, operand_key(check_rank, target));
        MPI_Accumulate(operand, count, type->type, target, 0, count, type->type, op->op, win);
        MPI_Win_flush_local(target, win);
        memset(operand, 0xff, (size_t) count * extent_of(type)); /* the flush allows its reuse */
    }
    MPI_Win_unlock_all(win);
    verify(type, op, count);
}

/* Each rank operates on the next rank alone, so that the old contents are known. */
static void get_accumulate(const type_row *type, const op_row *op, int count, bool fetch)
{
    size_t bytes = (size_t) count * extent_of(type);
    int target = (check_rank + 1) % check_ranks;
    snprintf(text, sizeof text, "%s, %s, %s, %d elements",
             fetch ? "fetch_and_op" : "get_accumulate", type->name, op->name, count);
    prepare(type, count);
    set_elements(operand, type, count, operand_key(check_rank, target));
    guarded_reset(result, bytes + GAP);
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    if (fetch) {
        MPI_Fetch_and_op(operand, result, type->type, target, 0, op->op, win);
    } else if (op->op == MPI_NO_OP) {
        MPI_Get_accumulate(NULL, 0, type->type, result, count, type->type, target, 0, count,
                           type->type, op->op, win);
    } else {
        MPI_Get_accumulate(operand, count, type->type, result, count, type->type, target, 0, count,
                           type->type, op->op, win);
    }
    MPI_Win_unlock(target, win);
    set_elements(expected, type, count, key_of(START, target, 0, 0));
    COMPARE(result, expected, type, count, "what was found");
    for (size_t i = bytes; i < bytes + GAP; ++i) {
        CHECK(result[i] == CHECK_GUARD_VALUE, "%s: written behind the result", text);
    }
    if (op->op == MPI_REPLACE) {
        set_elements(expected, type, count, operand_key(check_rank, target));
    } else if (op->op != MPI_NO_OP) {
        MPI_Reduce_local(operand, expected, count, type->type, op->op);
    }
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
    MPI_Get(result, count, type->type, target, 0, count, type->type, win);
    MPI_Win_unlock(target, win);
    COMPARE(result, expected, type, count, "what was left");
    MPI_Barrier(MPI_COMM_WORLD);
}

static void operations(void)
{
    const unsigned numbers = BIT(INTEGER) | BIT(REAL) | BIT(COMPLEX);
    const unsigned ordered = BIT(INTEGER) | BIT(REAL);
    const unsigned logical = BIT(INTEGER) | BIT(LOGICAL);
    const unsigned bits = BIT(INTEGER) | BIT(BYTES);
    const unsigned any =
        BIT(INTEGER) | BIT(LOGICAL) | BIT(BYTES) | BIT(REAL) | BIT(COMPLEX) | BIT(PLACE);
    const op_row ops[] = {{"sum", MPI_SUM, numbers},
                          {"product", MPI_PROD, numbers},
                          {"max", MPI_MAX, ordered},
                          {"min", MPI_MIN, ordered},
                          {"land", MPI_LAND, logical},
                          {"lor", MPI_LOR, logical},
                          {"lxor", MPI_LXOR, logical},
                          {"band", MPI_BAND, bits},
                          {"bor", MPI_BOR, bits},
                          {"bxor", MPI_BXOR, bits},
                          {"replace", MPI_REPLACE, any},
                          {"no_op", MPI_NO_OP, any},
                          {"maxloc", MPI_MAXLOC, BIT(PLACE)},
                          {"minloc", MPI_MINLOC, BIT(PLACE)}};
    for (int t = 0; t < type_count; ++t) {
        for (size_t o = 0; o < sizeof ops / sizeof ops[0]; ++o) {
            if ((ops[o].kinds & BIT(types[t].kind)) == 0) {
                continue;
            }
            accumulate(&types[t], &ops[o], 1 + t % 2 * 6);
            get_accumulate(&types[t], &ops[o], 3, false);
            get_accumulate(&types[t], &ops[o], 1, true);
        }
        accumulate(&types[t], &ops[10], MOST);
        if ((ops[0].kinds & BIT(types[t].kind)) != 0) {
            accumulate(&types[t], &ops[0], MOST);
            get_accumulate(&types[t], &ops[0], MOST, false);
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * Compare and swap */

/* Each rank operates on the next rank alone. The elements beside the swapped one stay unchanged. */
static void swaps(const type_row *type)
{
    enum {
        ROOM = 5,
        PLACE_OF_IT = 2
    };
    unsigned char is[LARGEST], new[LARGEST], other[LARGEST], found[LARGEST + 8];
    size_t bytes = (size_t) type->bytes;
    int target = (check_rank + 1) % check_ranks;
    snprintf(text, sizeof text, "compare_and_swap, %s", type->name);
    prepare(type, ROOM);
    set_elements(expected, type, ROOM, key_of(START, target, 0, 0));
    memcpy(is, expected + PLACE_OF_IT * bytes, bytes);
    set_number(new, type, type->kind == LOGICAL ? 1 - is[0] : 77);
    set_number(other, type, type->kind == LOGICAL ? 1 - is[0] : 55);
    for (int match = 0; match < 2; ++match) {
        memset(found, CHECK_GUARD_VALUE, sizeof found);
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
        MPI_Compare_and_swap(new, match ? is : other, found, type->type, target,
                             (MPI_Aint) (PLACE_OF_IT * bytes), win);
        MPI_Win_flush(target, win);
        CHECK(memcmp(found, is, bytes) == 0, "%s: found something else", text);
        CHECK(found[bytes] == CHECK_GUARD_VALUE, "%s: written behind the result", text);
        MPI_Get(result, ROOM, type->type, target, 0, ROOM, type->type, win);
        MPI_Win_unlock(target, win);
        if (match) {
            memcpy(expected + PLACE_OF_IT * bytes, new, bytes);
        }
        COMPARE(result, expected, type, ROOM, match ? "swapped" : "not swapped");
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "one_sided_ops", 2);
    without_gaps = argc > 1 && strcmp(argv[1], "no_gaps") == 0;
    CHECK(check_ranks <= 4, "products of more than 4 ranks do not fit 8 bits");
    operand = calloc(1, SLOT);
    result = calloc(1, SLOT);
    expected = calloc(1, SLOT);
    CHECK(operand != NULL && result != NULL && expected != NULL, "no memory");
    MPI_Win_allocate(SLOT, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    list_types();
    operations();
    for (int t = 0; t < type_count; ++t) {
        if (types[t].kind == INTEGER || types[t].kind == LOGICAL || types[t].kind == BYTES) {
            swaps(&types[t]);
        }
    }
    MPI_Win_free(&win);
    free(operand);
    free(result);
    free(expected);
    check_end();
    return 0;
}
