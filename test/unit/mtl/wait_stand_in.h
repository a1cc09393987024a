/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MTL's waits (mtl_adaptib_wait.h) for requests that a test ends itself, step by step, for C++
 * tests, which cannot include Open MPI's headers.
 *
 * Purpose: some requests of Open MPI's kind and one thread that waits for them. A thread that ends
 * a request first exchanges what is in it, and then tells the condition that was there; a test does
 * both when it likes. Progress does nothing.
 * Threads: one waits; another one calls the rest.
 * May touch: the C library, Open MPI's libraries.
 */
#ifndef ADAPTIB_TEST_UNIT_MTL_WAIT_STAND_IN_H
#define ADAPTIB_TEST_UNIT_MTL_WAIT_STAND_IN_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WAIT_REQUESTS = 3 };

typedef enum { WAIT_FOR_ALL, WAIT_FOR_ANY, WAIT_FOR_SOME } wait_for_t;

/* Installs the waits, as in a process with several threads. */
void wait_stand_in_open(void);
void wait_stand_in_close(void);

/* Starts all requests anew. */
void wait_stand_in_start(void);
/* Waits for requests; returns true if there was no error, and the right ones had ended. */
bool wait_stand_in_wait(wait_for_t what);

/* Returns true if a thread sleeps until the request ends, or is about to. */
bool wait_stand_in_slept_for(int request);
/* Ends the request; returns the condition that has to be told, NULL if none. */
void* wait_stand_in_end(int request);
void wait_stand_in_tell(void* condition, bool failed);

#ifdef __cplusplus
}
#endif

#endif /* ADAPTIB_TEST_UNIT_MTL_WAIT_STAND_IN_H */
