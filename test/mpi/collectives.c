// SPDX-License-Identifier: BSD-3-Clause
/*
 * The usual collectives on several communicators (the world, a duplicate, the world in reverse
 * order, halves), with every root, small and large, each result checked; and non-blocking ones,
 * several at a time on two communicators, with messages in between. Arguments:
 * blocking|nonblocking.
 */
#include "check.h"

static MPI_Comm comm;
static int rank, ranks;

/* Element i of rank r's contribution. */
static int value(int r, int i)
{
    return r * 7919 + i * 13 + 1;
}

static int *ints_new(int count)
{
    int *ints = malloc(((size_t) count + 1) * sizeof(int));
    for (int i = 0; i < count; ++i) {
        ints[i] = value(rank, i);
    }
    return ints;
}

static void expect(int got, int want, const char *what, int index, int count)
{
    CHECK(got == want, "%s on %d ranks: element %d of %d is %d, expected %d", what, ranks, index,
          count, got, want);
}

static int sum_at(int i, int up_to)
{
    int sum = 0;
    for (int r = 0; r < up_to; ++r) {
        sum += value(r, i);
    }
    return sum;
}

static void rooted(int root, int count)
{
    int *mine = ints_new(count), *all = malloc((size_t) (count * ranks + 1) * sizeof(int));
    int *word = malloc((size_t) (count + 1) * sizeof(int));
    memcpy(word, mine, (size_t) count * sizeof(int));
    MPI_Bcast(word, count, MPI_INT, root, comm);
    for (int i = 0; i < count; ++i) {
        expect(word[i], value(root, i), "Bcast", i, count);
    }
    MPI_Reduce(mine, word, count, MPI_INT, MPI_SUM, root, comm);
    for (int i = 0; i < count && rank == root; ++i) {
        expect(word[i], sum_at(i, ranks), "Reduce", i, count);
    }
    MPI_Gather(mine, count, MPI_INT, all, count, MPI_INT, root, comm);
    for (int i = 0; i < count * ranks && rank == root; ++i) {
        expect(all[i], value(i / count, i % count), "Gather", i, count);
        all[i] += 5;
    }
    MPI_Scatter(all, count, MPI_INT, word, count, MPI_INT, root, comm);
    for (int i = 0; i < count; ++i) {
        expect(word[i], value(rank, i) + 5, "Scatter", i, count);
    }
    free(mine);
    free(word);
    free(all);
}

/* Rank r contributes count + r elements. */
static void rooted_uneven(int root, int count)
{
    int *lengths = malloc((size_t) ranks * sizeof(int)),
        *places = malloc((size_t) ranks * sizeof(int));
    int whole = 0;
    for (int r = 0; r < ranks; ++r) {
        lengths[r] = count + r;
        places[r] = whole;
        whole += count + r + 1;
    }
    int *mine = ints_new(count + rank), *all = malloc((size_t) whole * sizeof(int));
    MPI_Gatherv(mine, count + rank, MPI_INT, all, lengths, places, MPI_INT, root, comm);
    for (int r = 0; r < ranks && rank == root; ++r) {
        for (int i = 0; i < lengths[r]; ++i) {
            expect(all[places[r] + i], value(r, i), "Gatherv", i, count);
            all[places[r] + i] -= 9;
        }
    }
    MPI_Scatterv(all, lengths, places, MPI_INT, mine, count + rank, MPI_INT, root, comm);
    for (int i = 0; i < count + rank; ++i) {
        expect(mine[i], value(rank, i) - 9, "Scatterv", i, count);
    }
    for (int i = 0; i < count + rank; ++i) {
        mine[i] = value(rank, i);
    }
    MPI_Allgatherv(mine, count + rank, MPI_INT, all, lengths, places, MPI_INT, comm);
    for (int r = 0; r < ranks; ++r) {
        for (int i = 0; i < lengths[r]; ++i) {
            expect(all[places[r] + i], value(r, i), "Allgatherv", i, count);
        }
    }
    free(lengths);
    free(places);
    free(mine);
    free(all);
}

static void symmetric(int count)
{
    int *mine = ints_new(count * ranks), *out = malloc((size_t) (count * ranks + 1) * sizeof(int));
    MPI_Barrier(comm);
    MPI_Allreduce(mine, out, count, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < count; ++i) {
        expect(out[i], sum_at(i, ranks), "Allreduce", i, count);
    }
    MPI_Allreduce(MPI_IN_PLACE, out, count, MPI_INT, MPI_MAX, comm);
    for (int i = 0; i < count; ++i) {
        expect(out[i], sum_at(i, ranks), "Allreduce in place", i, count);
    }
    MPI_Allgather(mine, count, MPI_INT, out, count, MPI_INT, comm);
    for (int i = 0; i < count * ranks; ++i) {
        expect(out[i], value(i / count, i % count), "Allgather", i, count);
    }
    MPI_Alltoall(mine, count, MPI_INT, out, count, MPI_INT, comm);
    for (int i = 0; i < count * ranks; ++i) {
        expect(out[i], value(i / count, rank * count + i % count), "Alltoall", i, count);
    }
    MPI_Scan(mine, out, count, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < count; ++i) {
        expect(out[i], sum_at(i, rank + 1), "Scan", i, count);
    }
    MPI_Exscan(mine, out, count, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < count && rank > 0; ++i) {
        expect(out[i], sum_at(i, rank), "Exscan", i, count);
    }
    MPI_Reduce_scatter_block(mine, out, count, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < count; ++i) {
        expect(out[i], sum_at(rank * count + i, ranks), "Reduce_scatter_block", i, count);
    }
    int *lengths = malloc((size_t) ranks * sizeof(int));
    for (int r = 0; r < ranks; ++r) {
        lengths[r] = count;
    }
    MPI_Reduce_scatter(mine, out, lengths, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < count; ++i) {
        expect(out[i], sum_at(rank * count + i, ranks), "Reduce_scatter", i, count);
    }
    free(lengths);
    free(mine);
    free(out);
}

/* Rank r sends count + r + 2 s elements to rank s; once as ints (v), once as types (w). */
static void all_to_all_uneven(int count)
{
    size_t n = (size_t) ranks;
    int *lengths[2] = {malloc(n * sizeof(int)), malloc(n * sizeof(int))};
    int *places[2] = {malloc(n * sizeof(int)), malloc(n * sizeof(int))}, whole[2] = {0, 0};
    MPI_Datatype *types = malloc(n * sizeof *types);
    for (int r = 0; r < ranks; ++r) {
        lengths[0][r] = count + rank + 2 * r;
        lengths[1][r] = count + r + 2 * rank;
        for (int side = 0; side < 2; ++side) {
            places[side][r] = whole[side];
            whole[side] += lengths[side][r];
        }
        types[r] = MPI_INT;
    }
    int *out = ints_new(whole[0]), *in = malloc((size_t) (whole[1] + 1) * sizeof(int));
    for (int way = 0; way < 2; ++way) {
        memset(in, 0, (size_t) whole[1] * sizeof(int));
        if (way == 0) {
            MPI_Alltoallv(out, lengths[0], places[0], MPI_INT, in, lengths[1], places[1], MPI_INT,
                          comm);
        } else {
            for (int r = 0; r < ranks; ++r) {
                places[0][r] *= 4;
                places[1][r] *= 4;
            }
            MPI_Alltoallw(out, lengths[0], places[0], types, in, lengths[1], places[1], types,
                          comm);
        }
        for (int r = 0, at = 0; r < ranks; ++r) {
            int theirs = 0; /* offset of the part for this rank in rank r's buffer */
            for (int s = 0; s < rank; ++s) {
                theirs += count + r + 2 * s;
            }
            for (int i = 0; i < lengths[1][r]; ++i, ++at) {
                expect(in[at], value(r, theirs + i), way ? "Alltoallw" : "Alltoallv", i, count);
            }
        }
    }
    for (int side = 0; side < 2; ++side) {
        free(lengths[side]);
        free(places[side]);
    }
    free(types);
    free(out);
    free(in);
}

/* Multiplies 2 x 2 matrices, which is associative, but not commutative. */
static void multiply(void *in, void *in_out, int *count, MPI_Datatype *type)
{
    unsigned *a = in, *b = in_out;
    (void) type;
    for (int i = 0; i < *count; ++i, a += 4, b += 4) {
        unsigned c[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
                         a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
        memcpy(b, c, sizeof c);
    }
}

static void matrix_of(int r, int i, unsigned *m)
{
    m[0] = (unsigned) (r + 1);
    m[1] = (unsigned) i;
    m[2] = 1;
    m[3] = (unsigned) (r + i);
}

static void own_operation(int count)
{
    MPI_Op op;
    MPI_Datatype matrix;
    int one = 1;
    unsigned *mine = malloc((size_t) count * 16), *product = malloc((size_t) count * 16);
    MPI_Type_contiguous(4, MPI_UNSIGNED, &matrix);
    MPI_Type_commit(&matrix);
    MPI_Op_create(multiply, 0, &op);
    for (int i = 0; i < count; ++i) {
        matrix_of(rank, i, mine + 4 * i);
    }
    MPI_Allreduce(mine, product, count, matrix, op, comm);
    for (int i = 0; i < count; ++i) {
        unsigned want[4], next[4];
        matrix_of(ranks - 1, i, want);
        for (int r = ranks - 2; r >= 0; --r) {
            matrix_of(r, i, next);
            multiply(next, want, &one, &matrix);
        }
        CHECK(memcmp(want, product + 4 * i, 16) == 0,
              "Allreduce of matrices: matrix %d of %d differs", i, count);
    }
    MPI_Op_free(&op);
    MPI_Type_free(&matrix);
    free(mine);
    free(product);
}

static void neighbours(int count)
{
    MPI_Comm ring;
    int size = ranks, periodic = 1, last, next, kept = rank;
    MPI_Cart_create(comm, 1, &size, &periodic, 0, &ring);
    MPI_Cart_shift(ring, 0, 1, &last, &next);
    int *out = ints_new(2 * count), *in = malloc((size_t) (2 * count + 1) * sizeof(int));
    MPI_Neighbor_alltoall(out, count, MPI_INT, in, count, MPI_INT, ring);
    for (int i = 0; i < count && ranks > 2; ++i) {
        expect(in[i], value(last, count + i), "Neighbor_alltoall, last", i, count);
        expect(in[count + i], value(next, i), "Neighbor_alltoall, next", i, count);
    }
    rank = kept;
    free(out);
    free(in);
    MPI_Comm_free(&ring);
}

static void blocking_on(MPI_Comm on)
{
    static const int counts[] = {1, 60, 2000, 30000};
    comm = on;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; ++c) {
        for (int root = 0; root < ranks; ++root) {
            rooted(root, counts[c]);
            rooted_uneven(root, counts[c]);
        }
        symmetric(counts[c]);
        all_to_all_uneven(counts[c]);
        own_operation(counts[c]);
        neighbours(counts[c]);
    }
}

/* ---------------------------------------------------------------------------------------------- */

enum {
    KINDS = 8
};

typedef struct {
    int *mine, *out, count;
    MPI_Request request;
} pending_t;

static pending_t start(int kind, int root, int count)
{
    pending_t p = {ints_new(count * ranks), malloc((size_t) (count * ranks + 1) * sizeof(int)),
                   count, MPI_REQUEST_NULL};
    switch (kind) {
    case 0:
        memcpy(p.out, p.mine, (size_t) count * sizeof(int));
        MPI_Ibcast(p.out, count, MPI_INT, root, comm, &p.request);
        break;
    case 1:
        MPI_Iallreduce(p.mine, p.out, count, MPI_INT, MPI_SUM, comm, &p.request);
        break;
    case 2:
        MPI_Ialltoall(p.mine, count, MPI_INT, p.out, count, MPI_INT, comm, &p.request);
        break;
    case 3:
        MPI_Iallgather(p.mine, count, MPI_INT, p.out, count, MPI_INT, comm, &p.request);
        break;
    case 4:
        MPI_Igather(p.mine, count, MPI_INT, p.out, count, MPI_INT, root, comm, &p.request);
        break;
    case 5:
        MPI_Iscatter(p.mine, count, MPI_INT, p.out, count, MPI_INT, root, comm, &p.request);
        break;
    case 6:
        MPI_Ireduce(p.mine, p.out, count, MPI_INT, MPI_SUM, root, comm, &p.request);
        break;
    default:
        MPI_Ibarrier(comm, &p.request);
        break;
    }
    return p;
}

static void finish(pending_t *p, int kind, int root)
{
    int count = p->count;
    for (int i = 0; i < count; ++i) {
        switch (kind) {
        case 0:
            expect(p->out[i], value(root, i), "Ibcast", i, count);
            break;
        case 1:
            expect(p->out[i], sum_at(i, ranks), "Iallreduce", i, count);
            break;
        case 5:
            expect(p->out[i], value(root, rank * count + i), "Iscatter", i, count);
            break;
        case 6:
            if (rank == root) {
                expect(p->out[i], sum_at(i, ranks), "Ireduce", i, count);
            }
            break;
        default:
            break;
        }
    }
    for (int i = 0; i < count * ranks; ++i) {
        if (kind == 2) {
            expect(p->out[i], value(i / count, rank * count + i % count), "Ialltoall", i, count);
        } else if (kind == 3 || (kind == 4 && rank == root)) {
            expect(p->out[i], value(i / count, i % count), "Iallgather, Igather", i, count);
        }
    }
    free(p->mine);
    free(p->out);
}

static void non_blocking(MPI_Comm first, MPI_Comm second)
{
    static const int counts[] = {1, 300, 5000};
    pending_t pending[2 * KINDS];
    MPI_Request requests[2 * KINDS];
    for (int round = 0; round < 24; ++round) {
        int count = counts[round % 3], n = 0, in = -1;
        for (int c = 0; c < 2; ++c) {
            comm = c == 0 ? first : second;
            MPI_Comm_rank(comm, &rank);
            MPI_Comm_size(comm, &ranks);
            for (int kind = 0; kind < KINDS; ++kind, ++n) {
                pending[n] = start((kind + round) % KINDS, round % ranks, count);
                requests[n] = pending[n].request;
            }
        }
        MPI_Comm_rank(first, &rank);
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 1, &in, 1, MPI_INT,
                     (rank - 1 + ranks) % ranks, 1, first, MPI_STATUS_IGNORE);
        CHECK(in == (rank - 1 + ranks) % ranks, "a message among collectives has %d", in);
        for (int done = 0, i; done < 2 * KINDS; ++done) {
            if (round % 2) {
                MPI_Waitall(2 * KINDS, requests, MPI_STATUSES_IGNORE);
                break;
            }
            MPI_Waitany(2 * KINDS, requests, &i, MPI_STATUS_IGNORE);
        }
        n = 0;
        for (int c = 0; c < 2; ++c) {
            comm = c == 0 ? first : second;
            MPI_Comm_rank(comm, &rank);
            for (int kind = 0; kind < KINDS; ++kind, ++n) {
                finish(&pending[n], (kind + round) % KINDS, round % ranks);
            }
        }
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, "collectives", 1);
    CHECK(argc == 2, "arguments: blocking|nonblocking");
    MPI_Comm copy, backwards, half;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &backwards);
    MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &half);
    if (strcmp(argv[1], "blocking") == 0) {
        blocking_on(MPI_COMM_WORLD);
        blocking_on(copy);
        blocking_on(backwards);
        blocking_on(half);
    } else {
        non_blocking(MPI_COMM_WORLD, backwards);
        non_blocking(copy, MPI_COMM_WORLD);
    }
    MPI_Comm_free(&copy);
    MPI_Comm_free(&backwards);
    MPI_Comm_free(&half);
    check_end();
    return 0;
}
