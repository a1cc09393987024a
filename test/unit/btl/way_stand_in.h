/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The BTL's ways (btl_adaptib_way.h) over a stand-in for the core's C interface, for C++ tests,
 * which cannot include Open MPI's headers.
 *
 * Purpose: one endpoint of the BTL, for one other process; calls of the C interface are counted and
 * have the results that a test sets. No data moves.
 * Threads: one at a time.
 * May touch: the C library.
 */
#ifndef ADAPTIB_TEST_UNIT_BTL_WAY_STAND_IN_H
#define ADAPTIB_TEST_UNIT_BTL_WAY_STAND_IN_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WAY_MOST_CORES = 16 };

typedef struct {
    uint32_t core;   /* number of this process's core */
    uint32_t theirs; /* number of the other process's core */
    bool mixed;      /* the peer belongs to another core than the way's */
} way_seen_t;

typedef struct {
    /* Set by the test. */
    uint32_t theirs;    /* cores of the other process */
    int endpoints_code; /* result of opal_common_adaptib_peer_endpoints */
    int peer_code;      /* result of opal_common_adaptib_peer_at */
    /* Counted. */
    int endpoints_calls;
    int peer_calls;
    int releases;
} way_stand_in_t;

extern way_stand_in_t way_stand_in;

/* Makes the endpoint, for a process with so many cores; returns false if there is no memory. */
bool way_stand_in_open(uint32_t cores);
void way_stand_in_close(void);
/* The endpoint, of Open MPI's type. */
void* way_stand_in_endpoint(void);
/* The way of the calling thread's messages, or one-sided operations. */
way_seen_t way_stand_in_look(bool one_sided);
/* Releases the further ways, as at the end of the other process. */
void way_stand_in_release(void);

#ifdef __cplusplus
}
#endif

#endif /* ADAPTIB_TEST_UNIT_BTL_WAY_STAND_IN_H */
