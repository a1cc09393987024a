/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The glue's memory hooks (common_adaptib_mca_parts.h) over stand-ins for Open MPI's memory hooks
 * and for the core, for C++ tests, which cannot include Open MPI's headers.
 *
 * Purpose: the stand-in for the core counts reports, and can hold a thread up within one. No memory
 * is watched; a test says which memory is released.
 * Threads: hooks_stand_in_release() on any; the others one at a time.
 * May touch: the C library.
 */
#ifndef ADAPTIB_TEST_UNIT_GLUE_HOOKS_STAND_IN_H
#define ADAPTIB_TEST_UNIT_GLUE_HOOKS_STAND_IN_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Has the glue watch memory, and report to a core; false: it refuses. */
bool hooks_stand_in_open(void);
/* The glue reports to no core, before the core is released. */
void hooks_stand_in_end_core(void);
/* The glue reports to a core again. */
void hooks_stand_in_begin_core(void);
/* Ends the core and the hooks. */
void hooks_stand_in_close(void);

/* The program releases memory, as in munmap(). */
void hooks_stand_in_release(void);
/* From now on a report stays within the core until hooks_stand_in_let_go(). */
void hooks_stand_in_hold(void);
void hooks_stand_in_let_go(void);
/* Threads within the core; reports that the core has had so far. */
int hooks_stand_in_inside(void);
int hooks_stand_in_reports(void);

#ifdef __cplusplus
}
#endif

#endif /* ADAPTIB_TEST_UNIT_GLUE_HOOKS_STAND_IN_H */
