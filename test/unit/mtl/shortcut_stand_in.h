/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives of the MTL's fast path (mtl_adaptib_shortcut.h) over a stand-in for the core, for C++
 * tests, which cannot include Open MPI's headers.
 *
 * Purpose: non-blocking receives without data on one communicator, in a process with several
 * threads; a test ends and frees them, and counts the references of the communicator.
 * Threads: any, one at a time.
 * May touch: the C library, Open MPI's libraries.
 */
#ifndef ADAPTIB_TEST_UNIT_MTL_SHORTCUT_STAND_IN_H
#define ADAPTIB_TEST_UNIT_MTL_SHORTCUT_STAND_IN_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SHORTCUT_MOST_RECEIVES = 256 };

/* Makes the communicator. */
void shortcut_stand_in_open(void);
void shortcut_stand_in_close(void);

/* Installs the fast path, as at the beginning of a session; returns false if that failed. */
bool shortcut_stand_in_begin(void);
/* Removes it, as MPI_Finalize does. */
void shortcut_stand_in_finish(void);

/* Starts a receive; returns its number, or -1. */
int shortcut_stand_in_receive(void);
/* The core ends the receive. */
void shortcut_stand_in_end(int number);
void shortcut_stand_in_free(int number);
/* References of the communicator. */
int shortcut_stand_in_references(void);

#ifdef __cplusplus
}
#endif

#endif /* ADAPTIB_TEST_UNIT_MTL_SHORTCUT_STAND_IN_H */
