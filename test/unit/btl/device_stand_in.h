/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The BTL's one-sided operations on device memory (btl_adaptib_device.h) over a stand-in for the
 * core's C interface, for C++ tests, which cannot include Open MPI's headers.
 *
 * Purpose: operations between a buffer that stands for device memory and one that stands for the
 * target's; a test sets how the core's calls and the copies end. It uses the endpoint of
 * way_stand_in.h.
 * Threads: one at a time.
 * May touch: the C library.
 */
#ifndef ADAPTIB_TEST_UNIT_BTL_DEVICE_STAND_IN_H
#define ADAPTIB_TEST_UNIT_BTL_DEVICE_STAND_IN_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DEVICE_MOST_CODES = 8 };

typedef struct {
    /* Set by the test. */
    int codes[DEVICE_MOST_CODES]; /* results of opal_common_adaptib_rma_start, in this order */
    int failing_copy;             /* number of the copy that fails, from 1; 0: none */
    /* Counted. */
    int starts;
    int copies;
    int callbacks;
    int gave_up; /* Open MPI was told */
    /* The last callback's. */
    bool succeeded;
} device_stand_in_t;

extern device_stand_in_t device_stand_in;

void device_stand_in_open(void);

/* Starts a put or get of so many bytes; returns true if it was accepted. */
bool device_stand_in_start(bool put, void* device, void* target, size_t bytes);
/* Ends the piece that is under way, with the core's status; moves its data if that is SUCCESS. */
void device_stand_in_end(int status);
/* Makes progress, as Open MPI does. */
void device_stand_in_progress(void);
/* Begins the end of the BTL. */
void device_stand_in_finalize(void);
bool device_stand_in_busy(void);

#ifdef __cplusplus
}
#endif

#endif /* ADAPTIB_TEST_UNIT_BTL_DEVICE_STAND_IN_H */
