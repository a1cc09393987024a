// SPDX-License-Identifier: BSD-3-Clause
/*
 * Heat spreads over a square plate. Each rank holds a block of it; in each step it exchanges the
 * edges of its block with its four neighbors (rows are contiguous, columns a vector type) while it
 * computes the inner points. At the end the whole plate is compared with one that a single rank
 * computes: not a bit may differ.
 *
 *   mpicc -O2 -o halo halo.c
 *   mpirun --mca pml cm --mca mtl adaptib -np 4 ./halo [points per side] [steps]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    UP,
    DOWN,
    LEFT,
    RIGHT,
    SIDES
};

typedef struct {
    int rows, columns;           /* size of this rank's block, without the neighbors' edges */
    int first_row, first_column; /* position of the block in the plate */
    double *now, *next;          /* (rows + 2) x (columns + 2) */
} block_t;

static size_t at(const block_t *block, int row, int column)
{
    return (size_t) (row + 1) * (size_t) (block->columns + 2) + (size_t) (column + 1);
}

static void block_new(block_t *block, int first_row, int rows, int first_column, int columns)
{
    size_t points = (size_t) (rows + 2) * (size_t) (columns + 2);
    *block = (block_t){rows,
                       columns,
                       first_row,
                       first_column,
                       calloc(points, sizeof(double)),
                       calloc(points, sizeof(double))};
    if (block->now == NULL || block->next == NULL) {
        fprintf(stderr, "halo: no memory for %d x %d points\n", rows, columns);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < columns; ++column) {
            long x = first_row + row, y = first_column + column;
            block->now[at(block, row, column)] = (double) ((x * 7919 + y * 104729) % 1000) / 10.0;
        }
    }
}

static void block_free(block_t *block)
{
    free(block->now);
    free(block->next);
}

static void compute(block_t *block, int from_row, int to_row, int from_column, int to_column)
{
    size_t width = (size_t) block->columns + 2;
    for (int row = from_row; row < to_row; ++row) {
        for (int column = from_column; column < to_column; ++column) {
            size_t i = at(block, row, column);
            double around = (block->now[i - width] + block->now[i + width])
                            + (block->now[i - 1] + block->now[i + 1]);
            block->next[i] = block->now[i] + 0.1 * (around - 4.0 * block->now[i]);
        }
    }
}

static void swap(block_t *block)
{
    double *old = block->now;
    block->now = block->next;
    block->next = old;
}

static void step(block_t *block, MPI_Comm grid, const int *neighbour, MPI_Datatype column_type)
{
    int rows = block->rows, columns = block->columns;
    MPI_Request requests[2 * SIDES];
    double *to_send[SIDES] = {&block->now[at(block, 0, 0)], &block->now[at(block, rows - 1, 0)],
                              &block->now[at(block, 0, 0)], &block->now[at(block, 0, columns - 1)]};
    double *room[SIDES] = {&block->now[at(block, -1, 0)], &block->now[at(block, rows, 0)],
                           &block->now[at(block, 0, -1)], &block->now[at(block, 0, columns)]};
    for (int side = 0; side < SIDES; ++side) {
        int row_wise = side == UP || side == DOWN, opposite = side ^ 1;
        MPI_Irecv(room[side], row_wise ? columns : 1, row_wise ? MPI_DOUBLE : column_type,
                  neighbour[side], opposite, grid, &requests[side]);
        MPI_Isend(to_send[side], row_wise ? columns : 1, row_wise ? MPI_DOUBLE : column_type,
                  neighbour[side], side, grid, &requests[SIDES + side]);
    }
    compute(block, 1, rows - 1, 1, columns - 1);
    MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
    compute(block, 0, 1, 0, columns);
    if (rows > 1) {
        compute(block, rows - 1, rows, 0, columns);
        compute(block, 1, rows - 1, 0, 1);
        if (columns > 1) {
            compute(block, 1, rows - 1, columns - 1, columns);
        }
    }
    swap(block);
}

/* The number of points of this block that differ from the plate that one rank computes. */
static long compare(const block_t *block, int side, int steps)
{
    block_t plate;
    long different = 0;
    block_new(&plate, 0, side, 0, side);
    for (int i = 0; i < steps; ++i) {
        compute(&plate, 0, side, 0, side);
        swap(&plate);
    }
    for (int row = 0; row < block->rows; ++row) {
        for (int column = 0; column < block->columns; ++column) {
            const double *mine = &block->now[at(block, row, column)];
            const double *want =
                &plate.now[at(&plate, block->first_row + row, block->first_column + column)];
            different += memcmp(mine, want, sizeof(double)) != 0;
        }
    }
    block_free(&plate);
    return different;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int ranks, rank, places[2], dimensions[2] = {0, 0}, periodic[2] = {0, 0}, neighbour[SIDES];
    int side = argc > 1 ? atoi(argv[1]) : 600, steps = argc > 2 ? atoi(argv[2]) : 200;
    MPI_Comm grid;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Dims_create(ranks, 2, dimensions);
    if (side < dimensions[0] || side < dimensions[1] || steps < 0) {
        fprintf(stderr, "halo: %d points per side and %d steps do not do for %d ranks\n", side,
                steps, ranks);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Cart_create(MPI_COMM_WORLD, 2, dimensions, periodic, 0, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 2, places);
    MPI_Cart_shift(grid, 0, 1, &neighbour[UP], &neighbour[DOWN]);
    MPI_Cart_shift(grid, 1, 1, &neighbour[LEFT], &neighbour[RIGHT]);

    int first[2], last[2];
    for (int d = 0; d < 2; ++d) {
        first[d] = (int) ((long) side * places[d] / dimensions[d]);
        last[d] = (int) ((long) side * (places[d] + 1) / dimensions[d]);
    }
    block_t block;
    block_new(&block, first[0], last[0] - first[0], first[1], last[1] - first[1]);
    MPI_Datatype column_type;
    MPI_Type_vector(block.rows, 1, block.columns + 2, MPI_DOUBLE, &column_type);
    MPI_Type_commit(&column_type);

    double start = MPI_Wtime();
    for (int i = 0; i < steps; ++i) {
        step(&block, grid, neighbour, column_type);
    }
    double seconds = MPI_Wtime() - start;

    long different = compare(&block, side, steps), all = -1;
    MPI_Allreduce(&different, &all, 1, MPI_LONG, MPI_SUM, grid);
    if (rank == 0) {
        printf("halo: %d x %d points on %d x %d ranks, %d steps in %.3f s, %ld points differ: %s\n",
               side, side, dimensions[0], dimensions[1], steps, seconds, all,
               all == 0 ? "ok" : "WRONG");
    }
    MPI_Type_free(&column_type);
    block_free(&block);
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return all == 0 ? 0 : 1;
}
