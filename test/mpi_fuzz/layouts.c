// SPDX-License-Identifier: BSD-3-Clause
/*
 * Random datatypes. Both sides of a message have the same basic elements in layouts of their own,
 * so their signatures match. MPI_Unpack and MPI_Pack, which no transport takes part in, move the
 * elements between a layout and the stream of a key (mpi/check.h).
 */
#include "mpi_fuzz/fuzz.h"

enum {
    GUARD = 64,
    BLOCKS_MAX = 9
};

typedef struct {
    double a;
    int b;
    short c;
} triple;

typedef enum {
    TRIPLE = 9,
    BASICS
} basic_number;

static MPI_Datatype basic_type(int basic)
{
    const MPI_Datatype types[] = {MPI_BYTE,         MPI_CHAR, MPI_SHORT,      MPI_INT,
                                  MPI_FLOAT,        MPI_LONG, MPI_DOUBLE_INT, MPI_C_DOUBLE_COMPLEX,
                                  MPI_UNSIGNED_CHAR};
    return types[basic];
}

const char *basic_name(int basic)
{
    static const char *const names[] = {
        "byte", "char",       "short",   "int",   "float",
        "long", "double+int", "complex", "uchar", "double+int+short"};
    return names[basic];
}

size_t basic_bytes(int basic)
{
    static const size_t sizes[] = {1, 1, 2, 4, 4, 8, 12, 16, 1, 14};
    return sizes[basic];
}

int random_basic(uint64_t *random)
{
    return chance(random, 2) ? BASIC_BYTE : below(random, BASICS);
}

/* The triple, with or without the gap of C's structure, has to be freed. */
static MPI_Datatype element_of(int basic, uint64_t *random)
{
    MPI_Datatype type;
    if (basic != TRIPLE) {
        MPI_Type_dup(basic_type(basic), &type);
        return type;
    }
    bool packed = chance(random, 2);
    int lengths[] = {1, 1, 1};
    MPI_Aint at[] = {offsetof(triple, a), offsetof(triple, b), offsetof(triple, c)};
    MPI_Datatype types[] = {MPI_DOUBLE, MPI_INT, MPI_SHORT};
    MPI_Datatype raw;
    MPI_Type_create_struct(3, lengths, at, types, &raw);
    MPI_Type_create_resized(raw, 0, packed ? 14 : (MPI_Aint) sizeof(triple), &type);
    MPI_Type_free(&raw);
    return type;
}

size_t random_elements(uint64_t *random, int basic, size_t largest_bytes)
{
    static const size_t limits[] = {8,    64,    128,   256,   512,    1024,   2048,  4096,
                                    8192, 16384, 32768, 65536, 131072, 262144, 524288};
    size_t bytes;
    switch (below(random, 8)) {
    case 0:
        return random_below(random, 3);
    case 1:
    case 2:
        bytes = random_below(random, 200);
        break;
    case 3:
        bytes = random_below(random, 5000);
        break;
    case 4:
        bytes = random_below(random, 100000);
        break;
    case 5:
        bytes = chance(random, 12) ? random_below(random, 3000000) : random_below(random, 20000);
        break;
    default:
        bytes = limits[random_below(random, sizeof limits / sizeof limits[0])];
        bytes = bytes + (size_t) below(random, 9) - 4;
    }
    return (bytes < largest_bytes ? bytes : largest_bytes) / basic_bytes(basic);
}

/* A divisor of n, at most `most` */
static int divisor(int n, int most, uint64_t *random)
{
    int d = 1 + below(random, n < most ? n : most);
    while (n % d != 0) {
        --d;
    }
    return d;
}

/* Cuts n into pieces, some of which may be empty; returns their number. */
static int cut(int n, int *lengths, uint64_t *random)
{
    int pieces = 1 + below(random, BLOCKS_MAX), left = n;
    for (int i = 0; i < pieces - 1; ++i) {
        lengths[i] = chance(random, 5) ? 0 : below(random, left + 1);
        left -= lengths[i];
    }
    lengths[pieces - 1] = left;
    return pieces;
}

static MPI_Aint extent_of(MPI_Datatype type)
{
    MPI_Aint lower, extent;
    MPI_Type_get_extent(type, &lower, &extent);
    return extent;
}

static MPI_Datatype make_vector(MPI_Datatype old, int n, bool bytes, uint64_t *random)
{
    int length = divisor(n, chance(random, 3) ? n : 40, random);
    int stride = (length + below(random, 4)) * (chance(random, 4) ? -1 : 1);
    MPI_Datatype type;
    if (bytes) {
        MPI_Aint distance = extent_of(old) * stride + (stride > 0 ? 1 : -1) * below(random, 9);
        MPI_Type_create_hvector(n / length, length, distance, old, &type);
    } else {
        MPI_Type_vector(n / length, length, stride, old, &type);
    }
    return type;
}

/* way 0: indexed; 1: in bytes; 2: a structure with pieces of another type that are empty */
static MPI_Datatype make_indexed(MPI_Datatype old, int n, int way, uint64_t *random)
{
    int lengths[BLOCKS_MAX + 1], at[BLOCKS_MAX];
    MPI_Aint bytes_at[BLOCKS_MAX + 1];
    MPI_Datatype types[BLOCKS_MAX + 1], type;
    int pieces = cut(n, lengths, random);
    int place = chance(random, 3) ? -below(random, n + 5) : below(random, 5);
    bool backward = chance(random, 4);
    for (int i = 0; i < pieces; ++i) {
        int piece = backward ? pieces - 1 - i : i;
        at[piece] = place;
        bytes_at[piece] = place * extent_of(old);
        types[piece] = old;
        place += lengths[piece] + below(random, 4);
    }
    if (way == 0) {
        MPI_Type_indexed(pieces, lengths, at, old, &type);
    } else if (way == 1) {
        MPI_Type_create_hindexed(pieces, lengths, bytes_at, old, &type);
    } else {
        lengths[pieces] = 0;
        bytes_at[pieces] = below(random, 40) - 20;
        types[pieces] = MPI_DOUBLE;
        MPI_Type_create_struct(pieces + 1, lengths, bytes_at, types, &type);
    }
    return type;
}

static MPI_Datatype make_indexed_block(MPI_Datatype old, int n, uint64_t *random)
{
    int length = n / divisor(n, BLOCKS_MAX, random), pieces = n / length, at[BLOCKS_MAX];
    int place = below(random, 3);
    for (int i = 0; i < pieces; ++i) {
        at[i] = place;
        place += length + below(random, 3);
    }
    MPI_Datatype type;
    MPI_Type_create_indexed_block(pieces, length, at, old, &type);
    return type;
}

static MPI_Datatype make_subarray(MPI_Datatype old, int n, uint64_t *random)
{
    int rows = divisor(n, 30, random), columns = n / rows;
    int parts[] = {1, rows, columns}, sizes[3], starts[3];
    for (int i = 0; i < 3; ++i) {
        starts[i] = below(random, 3);
        sizes[i] = starts[i] + parts[i] + below(random, 3);
    }
    MPI_Datatype type;
    MPI_Type_create_subarray(3, sizes, parts, starts,
                             chance(random, 3) ? MPI_ORDER_FORTRAN : MPI_ORDER_C, old, &type);
    return type;
}

static MPI_Datatype make_darray(MPI_Datatype old, int n, uint64_t *random)
{
    int processes = 1 + below(random, 3), mine = below(random, processes), size = n * processes;
    bool cyclic = chance(random, 2);
    int distribution = cyclic ? MPI_DISTRIBUTE_CYCLIC : MPI_DISTRIBUTE_BLOCK;
    int argument = cyclic ? divisor(n, 20, random) : MPI_DISTRIBUTE_DFLT_DARG;
    MPI_Datatype type;
    MPI_Type_create_darray(processes, mine, 1, &size, &distribution, &argument, &processes,
                           MPI_ORDER_C, old, &type);
    return type;
}

static MPI_Datatype make_resized(MPI_Datatype old, uint64_t *random)
{
    MPI_Aint lower, extent;
    MPI_Datatype type;
    MPI_Type_get_extent(old, &lower, &extent);
    lower -= below(random, 17);
    MPI_Type_create_resized(old, lower, extent + below(random, 33), &type);
    return type;
}

/* Frees `old`. Sets *count so that *count of the result have n of `old`. n > 0 */
static MPI_Datatype layout(MPI_Datatype old, int n, int *count, int depth, uint64_t *random,
                           char *words)
{
    static const char *const names[] = {
        "plain",  "contiguous", "contiguous parts", "vector", "hvector", "indexed", "hindexed",
        "struct", "block",      "subarray",         "darray", "resized", "nested"};
    int way = below(random, depth > 2 ? 11 : 13), part = 1;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    if (strlen(words) < 120) {
        sprintf(words + strlen(words), " %s", names[way]);
    }
    *count = 1;
    switch (way) {
    case 0:
        *count = n;
        return old;
    case 1:
        MPI_Type_contiguous(n, old, &type);
        break;
    case 2:
        part = divisor(n, 50, random);
        *count = n / part;
        MPI_Type_contiguous(part, old, &type);
        break;
    case 3:
    case 4:
        type = make_vector(old, n, way == 4, random);
        break;
    case 5:
    case 6:
    case 7:
        type = make_indexed(old, n, way - 5, random);
        break;
    case 8:
        type = make_indexed_block(old, n, random);
        break;
    case 9:
        type = make_subarray(old, n, random);
        break;
    case 10:
        type = make_darray(old, n, random);
        break;
    case 11:
        type = make_resized(old, random);
        MPI_Type_free(&old);
        return layout(type, n, count, depth + 1, random, words);
    default:
        part = divisor(n, 30, random);
        old = layout(old, part, count, depth + 1, random, words);
        MPI_Type_contiguous(*count, old, &type);
        MPI_Type_free(&old);
        return layout(type, n / part, count, depth + 1, random, words);
    }
    MPI_Type_free(&old);
    return type;
}

static int whole_count(const side *b)
{
    return b->count * b->copies;
}

void side_bounds(const side *b, MPI_Aint *first, MPI_Aint *end)
{
    MPI_Aint lower, extent, true_lower, true_extent;
    MPI_Type_get_extent(b->type, &lower, &extent);
    MPI_Type_get_true_extent(b->type, &true_lower, &true_extent);
    *first = *end = 0;
    if (whole_count(b) > 0 && true_extent > 0) {
        MPI_Aint last = (whole_count(b) - 1) * extent;
        *first = true_lower + (last < 0 ? last : 0);
        *end = true_lower + true_extent + (last > 0 ? last : 0);
    }
}

static void allocate(side *b, int shift)
{
    MPI_Aint first, end;
    side_bounds(b, &first, &end);
    b->bytes = (size_t) (end - first) + 2 * (size_t) GUARD + (size_t) shift;
    b->block = malloc(b->bytes);
    CHECK(b->block != NULL, "no memory for %zu bytes", b->bytes);
    memset(b->block, CHECK_GUARD_VALUE, b->bytes);
    b->at = b->block + GUARD + shift - first;
}

/* Gaps between the single elements of a long message would take too much memory: pieces of long
 * ones are contiguous. */
static void make_layout(side *b, int n, uint64_t *random)
{
    bool is_long = (size_t) n * basic_bytes(b->basic) > 65536;
    int part = is_long ? divisor(n, 5000, random) : 1;
    b->count = n;
    if (is_long && part < 16) {
        return;
    }
    if (is_long) {
        MPI_Datatype old = b->type;
        MPI_Type_contiguous(part, old, &b->type);
        MPI_Type_free(&old);
        snprintf(b->words, sizeof b->words, "%d %s, by %d:", n, basic_name(b->basic), part);
    }
    b->type = layout(b->type, n / part, &b->count, 0, random, b->words);
}

void side_make_copies(side *b, int basic, size_t elements, int copies, bool plain, uint64_t *random)
{
    memset(b, 0, sizeof *b);
    b->basic = basic;
    b->copies = copies;
    b->elements = elements * (size_t) copies;
    b->type = element_of(basic, random);
    snprintf(b->words, sizeof b->words, "%zu %s", elements, basic_name(basic));
    if (plain || (elements == 0 && chance(random, 2))) {
        b->count = (int) elements;
    } else if (elements == 0) {
        MPI_Datatype old = b->type;
        MPI_Type_contiguous(0, old, &b->type);
        MPI_Type_free(&old);
        b->count = below(random, 4);
    } else {
        make_layout(b, (int) elements, random);
    }
    MPI_Type_commit(&b->type);
    allocate(b, plain && chance(random, 2) ? 0 : below(random, 16));
}

void side_make(side *b, int basic, size_t elements, bool plain, uint64_t *random)
{
    side_make_copies(b, basic, elements, 1, plain, random);
}

void side_fill(side *b, uint64_t key)
{
    size_t bytes = b->elements * basic_bytes(b->basic);
    unsigned char *stream = malloc(bytes + 1);
    int position = 0;
    fill(stream, bytes, key);
    if (bytes > 0) {
        MPI_Unpack(stream, (int) bytes, &position, b->at, whole_count(b), b->type, MPI_COMM_WORLD);
    }
    free(stream);
}

void side_free_type(side *b)
{
    if (!b->type_gone) {
        MPI_Type_free(&b->type);
        b->type_gone = true;
    }
}

void side_free(side *b)
{
    side_free_type(b);
    free(b->block);
    b->block = NULL;
}

uint64_t hash_bytes(const void *from, size_t bytes)
{
    const unsigned char *in = from;
    uint64_t hash = bytes, word;
    for (; bytes >= 8; bytes -= 8, in += 8) {
        memcpy(&word, in, 8);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    for (; bytes > 0; --bytes, ++in) {
        hash = (hash ^ *in) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return mix(hash);
}

uint64_t side_hash(const side *b)
{
    return hash_bytes(b->block, b->bytes);
}

/* The elements of the layout, in order; the caller frees them. */
static unsigned char *stream_of(const side *b)
{
    size_t bytes = b->elements * basic_bytes(b->basic);
    unsigned char *stream = malloc(bytes + 1);
    int position = 0;
    if (bytes > 0) {
        MPI_Pack(b->at, whole_count(b), b->type, stream, (int) bytes, &position, MPI_COMM_WORLD);
    }
    return stream;
}

uint64_t side_contents(const side *b, size_t elements)
{
    unsigned char *stream = stream_of(b);
    uint64_t hash = hash_bytes(stream, elements * basic_bytes(b->basic));
    free(stream);
    return hash;
}

bool side_outside_untouched(side *b)
{
    size_t bytes = b->elements * basic_bytes(b->basic);
    unsigned char *stream = malloc(bytes + 1);
    int position = 0;
    bool untouched = true;
    memset(stream, CHECK_GUARD_VALUE, bytes);
    if (bytes > 0) {
        MPI_Unpack(stream, (int) bytes, &position, b->at, whole_count(b), b->type, MPI_COMM_WORLD);
    }
    for (size_t i = 0; i < b->bytes && untouched; ++i) {
        untouched = b->block[i] == CHECK_GUARD_VALUE;
    }
    free(stream);
    return untouched;
}
