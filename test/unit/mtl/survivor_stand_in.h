/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of a job that survives failed processes (mtl_adaptib_survivor.h) over a stand-in for the
 * core, for C++ tests, which cannot include Open MPI's headers.
 *
 * Purpose: non-blocking receives without data from one process, which a test ends and frees. The
 * end of a receive whose process is lost takes a break, in which a test does what other threads
 * could do.
 * Threads: one at a time.
 * May touch: the C library, Open MPI's libraries.
 */
#ifndef ADAPTIB_TEST_UNIT_MTL_SURVIVOR_STAND_IN_H
#define ADAPTIB_TEST_UNIT_MTL_SURVIVOR_STAND_IN_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SURVIVOR_MOST_RECEIVES = 16 };

/* Returns false if this Open MPI has no such requests. */
bool survivor_stand_in_open(void);
void survivor_stand_in_close(void);

/* Called between the end of a receive in the core and its end in Open MPI; NULL: nothing. */
extern void (*survivor_stand_in_break)(void);

/* Starts a receive; returns its number, or -1. */
int survivor_stand_in_receive(void);
/* The core ends the receive, whose process is lost or has sent its message. */
void survivor_stand_in_end(int number, bool lost);
void survivor_stand_in_free(int number);
/* Its user cancels it, and the core can. */
void survivor_stand_in_cancel(int number);
/* From its completion on, Open MPI's function frees the receive. */
void survivor_stand_in_free_when_complete(int number);

bool survivor_stand_in_is_complete(int number);
/* True if both are at the same address. */
bool survivor_stand_in_are_same(int number, int other);
/* References of the communicator by receives and operations. */
int survivor_stand_in_holders(void);

#ifdef __cplusplus
}
#endif

#endif /* ADAPTIB_TEST_UNIT_MTL_SURVIVOR_STAND_IN_H */
