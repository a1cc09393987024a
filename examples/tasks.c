// SPDX-License-Identifier: BSD-3-Clause
/*
 * Rank 0 hands out tasks of different lengths, each to the rank that asks next, and adds up the
 * answers: few short messages, from any source, in no fixed order. A task is to count the primes in
 * an interval. The sum is compared with a sieve.
 *
 *   mpicc -O2 -o tasks tasks.c
 *   mpirun --mca pml cm --mca mtl adaptib -np 4 ./tasks [limit]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ASK = 1,
    TASK = 2,
    INTERVAL = 5000
};

static long primes_between(long from, long to)
{
    long count = 0;
    for (long n = from < 2 ? 2 : from; n < to; ++n) {
        long divisor = 2;
        while (divisor * divisor <= n && n % divisor != 0) {
            ++divisor;
        }
        count += divisor * divisor > n;
    }
    return count;
}

static long primes_by_sieve(long limit)
{
    char *composite = calloc((size_t) limit + 1, 1);
    long count = 0;
    for (long n = 2; n < limit; ++n) {
        if (!composite[n]) {
            ++count;
            for (long m = n * n; m < limit; m += n) {
                composite[m] = 1;
            }
        }
    }
    free(composite);
    return count;
}

/* Replies to each question with a task, or with an empty one when no tasks are left. */
static long hand_out(long limit, int workers, long *tasks)
{
    long next = 0, sum = 0, answer;
    for (*tasks = 0; workers > 0;) {
        MPI_Status status;
        long task[2] = {next, next + INTERVAL < limit ? next + INTERVAL : limit};
        MPI_Recv(&answer, 1, MPI_LONG, MPI_ANY_SOURCE, ASK, MPI_COMM_WORLD, &status);
        sum += answer;
        if (next < limit) {
            next = task[1];
            ++*tasks;
        } else {
            task[0] = task[1] = -1;
            --workers;
        }
        MPI_Send(task, 2, MPI_LONG, status.MPI_SOURCE, TASK, MPI_COMM_WORLD);
    }
    return sum;
}

static void work(void)
{
    long task[2], answer = 0; /* the first question brings no answer */
    for (;;) {
        MPI_Sendrecv(&answer, 1, MPI_LONG, 0, ASK, task, 2, MPI_LONG, 0, TASK, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        if (task[0] < 0) {
            return;
        }
        answer = primes_between(task[0], task[1]);
    }
}

int main(int argc, char **argv)
{
    int rank, ranks, right = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long limit = argc > 1 ? atol(argv[1]) : 1000000, tasks = 0;
    if (ranks < 2 || limit < 2) {
        fprintf(stderr, "tasks: needs 2 ranks and a limit of 2 at least\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0) {
        long sum = hand_out(limit, ranks - 1, &tasks), want = primes_by_sieve(limit);
        right = sum == want;
        printf("tasks: %ld primes below %ld in %ld tasks for %d ranks, %ld by the sieve: %s\n", sum,
               limit, tasks, ranks - 1, want, right ? "ok" : "WRONG");
    } else {
        work();
    }
    MPI_Bcast(&right, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return right ? 0 : 1;
}
