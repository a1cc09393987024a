// SPDX-License-Identifier: BSD-3-Clause
/*
 * Threads of an MPI test that run the same function.
 *
 * May touch: check.h, mpi.h and the C library.
 */
#ifndef ADAPTIB_TEST_MPI_NUMBERED_THREADS_H
#define ADAPTIB_TEST_MPI_NUMBERED_THREADS_H

#include "check.h"

#include <pthread.h>

enum {
    MOST_THREADS = 16
};

/* Runs the function in so many threads, with the thread's number (int; from 0 on), and returns when
 * all have ended. */
static void run_numbered(int count, void *(*function)(void *number))
{
    pthread_t ids[MOST_THREADS];
    int numbers[MOST_THREADS];
    CHECK(count <= MOST_THREADS, "%d threads", count);
    for (int i = 0; i < count; ++i) {
        numbers[i] = i;
        CHECK(pthread_create(&ids[i], NULL, function, &numbers[i]) == 0, "no thread");
    }
    for (int i = 0; i < count; ++i) {
        pthread_join(ids[i], NULL);
    }
}

#endif /* ADAPTIB_TEST_MPI_NUMBERED_THREADS_H */
