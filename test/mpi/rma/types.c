// SPDX-License-Identifier: BSD-3-Clause
/*
 * Basic types of 1 to 8 bytes, MPI's operations on them, and layouts: places of a transfer's
 * elements, as an MPI datatype and as a list of blocks.
 */
#include "mpi/rma/stress.h"

enum {
    TYPES = 11,
    OPERATIONS = 12,
    OP_MAX = 4,
    OP_MIN = 5,
    OP_LOGICAL = 9 /* the first of the operations that yield 0 or 1 */
};

static basic_type type_table[TYPES];
static operation operation_table[OPERATIONS];
const basic_type *basic_types = type_table;
const int basic_type_count = TYPES;
const operation *operations = operation_table;
const int operation_count = OPERATIONS;

void types_begin(void)
{
    const basic_type types[TYPES] = {
        {MPI_BYTE, "MPI_BYTE", 1, false, false, false},
        {MPI_INT8_T, "MPI_INT8_T", 1, true, true, true},
        {MPI_UINT8_T, "MPI_UINT8_T", 1, false, true, true},
        {MPI_INT16_T, "MPI_INT16_T", 2, true, true, true},
        {MPI_UINT16_T, "MPI_UINT16_T", 2, false, true, true},
        {MPI_INT32_T, "MPI_INT32_T", 4, true, true, true},
        {MPI_UINT32_T, "MPI_UINT32_T", 4, false, true, true},
        {MPI_INT64_T, "MPI_INT64_T", 8, true, true, true},
        {MPI_UINT64_T, "MPI_UINT64_T", 8, false, true, true},
        /* No arithmetic on these two: not every pattern of bits is a number. */
        {MPI_FLOAT, "MPI_FLOAT", 4, true, true, false},
        {MPI_DOUBLE, "MPI_DOUBLE", 8, true, true, false},
    };
    const operation ops[OPERATIONS] = {
        {MPI_REPLACE, "MPI_REPLACE", true, false, false},
        {MPI_NO_OP, "MPI_NO_OP", true, false, true},
        {MPI_SUM, "MPI_SUM", false, true, true},
        {MPI_PROD, "MPI_PROD", false, true, true},
        {MPI_MAX, "MPI_MAX", false, false, true},
        {MPI_MIN, "MPI_MIN", false, false, true},
        {MPI_BAND, "MPI_BAND", true, false, true},
        {MPI_BOR, "MPI_BOR", true, false, true},
        {MPI_BXOR, "MPI_BXOR", true, false, true},
        {MPI_LAND, "MPI_LAND", false, false, false},
        {MPI_LOR, "MPI_LOR", false, false, false},
        {MPI_LXOR, "MPI_LXOR", false, false, false},
    };
    memcpy(type_table, types, sizeof types);
    memcpy(operation_table, ops, sizeof ops);
}

const basic_type *random_basic(rng *random, bool integer)
{
    const basic_type *type;
    do {
        type = &type_table[random_below(random, TYPES)];
    } while (integer && !type->is_integer);
    return type;
}

const basic_type *basic_of_size(size_t size, bool is_signed)
{
    for (int i = 0; i < TYPES; ++i) {
        const basic_type *type = &type_table[i];
        if (type->is_integer && type->size == size && type->is_signed == is_signed) {
            return type;
        }
    }
    FAIL("no type of %zu bytes", size);
}

/* True if the operation may be used with the type. Operations that overflow need unsigned numbers
 * of 4 or 8 bytes: Open MPI's op/avx adds shorter ones with saturation. */
static bool may_have(const operation *op, const basic_type *type)
{
    int number = (int) (op - operation_table);
    bool orders = number == OP_MAX || number == OP_MIN;
    if (number == OP_REPLACE || number == OP_NO_OP || !type->is_integer) {
        return number == OP_REPLACE || (number != OP_NO_OP && !type->is_number && op->bits);
    }
    return !(op->sums && (type->is_signed || type->size < 4))
           && !(orders && !type->is_signed && !with(WITH_UNSIGNED_ORDER))
           && !(number >= OP_LOGICAL && !with(WITH_LOGICAL));
}

const operation *random_operation(rng *random, const basic_type *type)
{
    const operation *op;
    do {
        op = &operation_table[random_below(random, OPERATIONS)];
    } while (!may_have(op, type));
    return op;
}

uint64_t number_at(const basic_type *type, const unsigned char *at)
{
    uint64_t number = 0;
    for (size_t i = 0; i < type->size; ++i) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        number |= (uint64_t) at[i] << (8 * i);
#else
        number = number << 8 | at[i];
#endif
    }
    return number;
}

void set_number(const basic_type *type, unsigned char *at, uint64_t number)
{
    for (size_t i = 0; i < type->size; ++i) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        at[i] = (unsigned char) (number >> (8 * i));
#else
        at[i] = (unsigned char) (number >> (8 * (type->size - 1 - i)));
#endif
    }
}

static bool less(const basic_type *type, uint64_t a, uint64_t b)
{
    if (!type->is_signed) {
        return a < b;
    }
    uint64_t sign = (uint64_t) 1 << (8 * type->size - 1);
    return (a ^ sign) < (b ^ sign);
}

uint64_t combine(const operation *op, const basic_type *type, uint64_t target, uint64_t origin)
{
    uint64_t mask = type->size == 8 ? ~(uint64_t) 0 : ((uint64_t) 1 << (8 * type->size)) - 1;
    switch (op - operation_table) {
    case OP_REPLACE:
        return origin;
    case OP_NO_OP:
        return target;
    case 2:
        return (target + origin) & mask;
    case 3:
        return (target * origin) & mask;
    case 4:
        return less(type, target, origin) ? origin : target;
    case 5:
        return less(type, target, origin) ? target : origin;
    case 6:
        return target & origin;
    case 7:
        return target | origin;
    case 8:
        return target ^ origin;
    case 9:
        return target != 0 && origin != 0;
    case 10:
        return target != 0 || origin != 0;
    default:
        return (target != 0) != (origin != 0);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Layouts */

static void make_flat(layout *l)
{
    l->derived = false;
    l->blocks = 1;
    l->block[0].at = 0;
    l->block[0].elements = l->elements;
    l->span = l->elements * l->basic->size;
}

/* Blocks of random lengths and gaps, in order. */
static void make_blocks(layout *l, rng *random)
{
    size_t at = 0, left = l->elements, size = l->basic->size;
    int most = (int) (l->elements < BLOCKS_MAX ? l->elements : BLOCKS_MAX);
    bool alike = one_in(random, 3) && l->elements % (size_t) most == 0;
    l->derived = true;
    l->blocks = alike ? most : between(random, 1, most);
    size_t gap = (size_t) between(random, 0, 5) * size;
    for (int i = 0; i < l->blocks; ++i) {
        size_t rest = (size_t) (l->blocks - 1 - i);
        size_t elements = left;
        if (alike) {
            elements = l->elements / (size_t) l->blocks;
        } else if (rest > 0) {
            elements = 1 + random_below(random, 2 * (left / (rest + 1)));
            elements = elements < left - rest ? elements : left - rest;
        }
        l->block[i].at = at;
        l->block[i].elements = elements;
        left -= elements;
        at += elements * size;
        l->span = at;
        at += alike ? gap : (size_t) between(random, 0, 5) * size;
    }
}

/* Permutes the blocks, so that the order of elements is not their order in memory. */
static void shuffle(layout *l, rng *random)
{
    for (int i = l->blocks - 1; i > 0; --i) {
        int other = between(random, 0, i);
        size_t at = l->block[i].at, elements = l->block[i].elements;
        l->block[i] = l->block[other];
        l->block[other].at = at;
        l->block[other].elements = elements;
    }
}

void layout_make(layout *l, const basic_type *basic, size_t elements, size_t room, bool derived,
                 rng *random)
{
    rng own = random_next(random) | 1;
    l->basic = basic;
    l->elements = elements;
    l->type = MPI_DATATYPE_NULL;
    if (derived && elements > 1) {
        make_blocks(l, &own);
        if (one_in(&own, 4)) {
            shuffle(l, &own);
        }
        if (l->span <= room) {
            return;
        }
    }
    make_flat(l);
}

/* Makes the datatype: MPI_Type_vector if the blocks are alike, else MPI_Type_create_hindexed. */
void layout_commit(layout *l)
{
    if (!l->derived) {
        l->type = l->basic->type;
        l->count = (int) l->elements;
        return;
    }
    int lengths[BLOCKS_MAX];
    MPI_Aint places[BLOCKS_MAX];
    bool alike = l->blocks > 1;
    size_t stride = l->blocks > 1 ? l->block[1].at - l->block[0].at : 0;
    for (int i = 0; i < l->blocks; ++i) {
        lengths[i] = (int) l->block[i].elements;
        places[i] = (MPI_Aint) l->block[i].at;
        alike = alike && lengths[i] == lengths[0] && l->block[i].at == (size_t) i * stride;
    }
    if (alike) {
        MPI_Type_vector(l->blocks, lengths[0], (int) (stride / l->basic->size), l->basic->type,
                        &l->type);
    } else {
        MPI_Type_create_hindexed(l->blocks, lengths, places, l->basic->type, &l->type);
    }
    MPI_Type_commit(&l->type);
    l->count = 1;
}

void layout_free(layout *l)
{
    if (l->derived && l->type != MPI_DATATYPE_NULL) {
        MPI_Type_free(&l->type);
    }
}

void layout_read(const layout *l, const unsigned char *memory, unsigned char *flat)
{
    for (int i = 0; i < l->blocks; ++i) {
        size_t bytes = l->block[i].elements * l->basic->size;
        memcpy(flat, memory + l->block[i].at, bytes);
        flat += bytes;
    }
}

void layout_write(const layout *l, unsigned char *memory, const unsigned char *flat)
{
    for (int i = 0; i < l->blocks; ++i) {
        size_t bytes = l->block[i].elements * l->basic->size;
        memcpy(memory + l->block[i].at, flat, bytes);
        flat += bytes;
    }
}
