/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MTL's buffered sends (mtl_adaptib_buffered.h) over a stand-in for the core, for C++ tests,
 * which cannot include Open MPI's headers.
 *
 * Purpose: messages without data to one process; what the core's call returns, and the status of a
 * request that it ends within the call, are set by a test.
 * Threads: one at a time.
 * May touch: the C library, Open MPI's libraries.
 */
#ifndef ADAPTIB_TEST_UNIT_MTL_BUFFERED_STAND_IN_H
#define ADAPTIB_TEST_UNIT_MTL_BUFFERED_STAND_IN_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    /* Set by the test. */
    int code;   /* result of opal_common_adaptib_send */
    int status; /* of a request that has ended within the call */
    /* Counted. */
    int sends;
} buffered_stand_in_t;

extern buffered_stand_in_t buffered_stand_in;

void buffered_stand_in_open(void);
void buffered_stand_in_close(void);

/* MPI_Bsend; returns the class of its error. */
int buffered_stand_in_send(void);
/* The core ends the last message that it has started. */
void buffered_stand_in_end(int status);
/* Messages under way, and requests, that hold the communicator. */
int buffered_stand_in_holders(void);

/* Makes a persistent request; returns the error in its status. */
int buffered_stand_in_make(void);
/* Starts the persistent request; returns the error in its status, which it must have ended with. */
int buffered_stand_in_start(void);
void buffered_stand_in_free(void);

#ifdef __cplusplus
}
#endif

#endif /* ADAPTIB_TEST_UNIT_MTL_BUFFERED_STAND_IN_H */
