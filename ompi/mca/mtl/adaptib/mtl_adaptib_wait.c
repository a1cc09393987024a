// SPDX-License-Identifier: BSD-3-Clause
/*
 * Waits of a process whose threads call MPI at the same time (mtl_adaptib_wait.h).
 */
#include "ompi_config.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "opal/runtime/opal_progress.h"

#include "mtl_adaptib_ended.h"
#include "mtl_adaptib_wait.h"

enum {
    PASSES_A_LOOK = 16 /* passes of progress between two looks at the clock */
};

/* A sleep and its wake-up take some tens of microseconds, and a processor that other threads want
 * should not be kept for much longer than that. */
static const int64_t LOOK_NANOSECONDS = 100000;

static ompi_request_fns_t original; /* Open MPI's table; no wait: the waits are not replaced */

typedef struct {
    int passes;
    int64_t until; /* 0: not known yet */
} patience_t;

static int64_t nanoseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Makes progress once. Returns false if the time is up. */
static bool look_again(patience_t *patience)
{
    opal_progress();
    if (0 != ++patience->passes % PASSES_A_LOOK) {
        return true;
    }
    const int64_t now = nanoseconds();
    if (0 == patience->until) {
        patience->until = now + LOOK_NANOSECONDS;
    }
    return now < patience->until;
}

static bool has_failed(ompi_request_t *request)
{
    if (OMPI_REQUEST_INACTIVE == request->req_state || !ompi_mtl_adaptib_has_ended(request)) {
        return false;
    }
    const bool failed = MPI_SUCCESS != request->req_status.MPI_ERROR;
    OPAL_COMMON_ADAPTIB_PUBLISHED(request); /* the request may become another thread's */
    return failed;
}

typedef enum {
    WAIT_GOES_ON,
    WAIT_IS_OVER, /* all have ended, without an error */
    WAIT_HAS_FAILED
} progress_t;

/* `next`: the requests before it have ended. Null and inactive requests are complete, too. */
static progress_t look_for_all(size_t count, ompi_request_t **requests, size_t *next)
{
    patience_t patience = {0, 0};
    bool failed = false;

    do {
        while (*next < count && ompi_mtl_adaptib_has_ended(requests[*next])) {
            failed = failed || has_failed(requests[*next]);
            ++*next;
        }
    } while (*next < count && look_again(&patience));
    for (size_t i = *next; i < count && !failed; ++i) { /* the time was up */
        failed = has_failed(requests[i]);
    }
    if (failed) {
        return WAIT_HAS_FAILED;
    }
    return *next == count ? WAIT_IS_OVER : WAIT_GOES_ON;
}

/* A thread that ends a request takes the condition out of it, and updates the condition afterwards.
 * A sleep ends with the first update; others, of requests that end at the same time, may come when
 * it is over. So a condition stays valid until the waits are closed, and one sleep after the other
 * uses it. A late update at most ends another sleep too early, whose thread then looks again.
 * (Updates cannot be counted and waited for: that of a request with an error clears the count.) */
typedef struct condition_t {
    ompi_wait_sync_t sync;
    struct condition_t *next; /* in the list */
} condition_t;

static struct {
    pthread_mutex_t lock;
    condition_t *first; /* of those that no thread sleeps with */
} conditions = {.lock = PTHREAD_MUTEX_INITIALIZER};

static condition_t *condition_pop(void)
{
    condition_t *condition;

    pthread_mutex_lock(&conditions.lock);
    condition = conditions.first;
    if (NULL != condition) {
        conditions.first = condition->next;
    }
    pthread_mutex_unlock(&conditions.lock);
    return condition;
}

static void condition_push(condition_t *condition)
{
    pthread_mutex_lock(&conditions.lock);
    condition->next = conditions.first;
    conditions.first = condition;
    pthread_mutex_unlock(&conditions.lock);
}

/* NULL: there is no memory. */
static condition_t *condition_take(void)
{
    condition_t *condition = condition_pop();

    if (NULL != condition) {
        (void) opal_atomic_swap_32(&condition->sync.count, 1);
        return condition;
    }
    condition = malloc(sizeof(*condition));
    if (NULL != condition) {
        WAIT_SYNC_INIT(&condition->sync, 1);
    }
    return condition;
}

/* Sleeps, unless another thread wants this one to make progress, until one of the requests ends, or
 * for less. The requests stay as they are: the caller looks at them. A request that is exchanged
 * for the condition and ends meanwhile signals it. */
static void sleep_for_any(size_t count, ompi_request_t **requests)
{
    condition_t *condition = condition_take();
    bool ended = false;

    if (NULL == condition) {
        return; /* the caller polls on */
    }
    for (size_t i = 0; i < count && !ended; ++i) {
        void *pending = REQUEST_PENDING;
        ended = OMPI_REQUEST_INACTIVE != requests[i]->req_state
                && !OPAL_ATOMIC_COMPARE_EXCHANGE_STRONG_PTR(&requests[i]->req_complete, &pending,
                                                            &condition->sync);
    }
    if (!ended) {
        (void) SYNC_WAIT(&condition->sync);
    }
    for (size_t i = 0; i < count; ++i) {
        void *there = &condition->sync;
        if (OMPI_REQUEST_INACTIVE != requests[i]->req_state) {
            (void) OPAL_ATOMIC_COMPARE_EXCHANGE_STRONG_PTR(&requests[i]->req_complete, &there,
                                                           REQUEST_PENDING);
        }
    }
    condition_push(condition);
}

/* Returns true if a wait for any of them would end now. */
static bool any_has_ended(size_t count, ompi_request_t **requests)
{
    bool active = false;

    for (size_t i = 0; i < count; ++i) {
        if (OMPI_REQUEST_INACTIVE != requests[i]->req_state) {
            if (ompi_mtl_adaptib_has_ended(requests[i])) {
                return true;
            }
            active = true;
        }
    }
    return !active;
}

static void wait_for_any(size_t count, ompi_request_t **requests)
{
    patience_t patience = {0, 0};

    while (!any_has_ended(count, requests)) {
        if (!look_again(&patience)) {
            sleep_for_any(count, requests);
        }
    }
}

/* Ends a wait for all of which one has failed: the others end if they are complete. Open MPI 4.1.4
 * never returns from such a wait if several threads may call (5.0 does), with any transport. */
static int end_failed(size_t count, ompi_request_t **requests, ompi_status_public_t *statuses)
{
    for (size_t i = 0; i < count; ++i) {
        ompi_status_public_t *status =
            MPI_STATUSES_IGNORE == statuses ? MPI_STATUS_IGNORE : &statuses[i];
        int ended = 0;
        const int rc = original.req_test(&requests[i], &ended, status);
        if (MPI_STATUS_IGNORE != status) {
            status->MPI_ERROR = ended ? rc : MPI_ERR_PENDING;
        }
    }
    return MPI_ERR_IN_STATUS;
}

void ompi_mtl_adaptib_look_for(ompi_request_t *request)
{
    size_t next = 0;

    (void) look_for_all(1, &request, &next);
}

static int wait_one(ompi_request_t **request, ompi_status_public_t *status)
{
    if (OPAL_UNLIKELY(opal_using_threads())) {
        ompi_mtl_adaptib_look_for(*request);
    }
    return original.req_wait(request, status);
}

/* Open MPI's function is called for requests that have ended only: it does not return if one of
 * them has failed between this look and its own (end_failed). */
static int wait_all_of_threads(size_t count, ompi_request_t **requests,
                               ompi_status_public_t *statuses)
{
    size_t next = 0;
    progress_t progress;

    while (WAIT_GOES_ON == (progress = look_for_all(count, requests, &next))) {
        sleep_for_any(count - next, requests + next);
    }
    return WAIT_HAS_FAILED == progress ? end_failed(count, requests, statuses)
                                       : original.req_wait_all(count, requests, statuses);
}

static int wait_all(size_t count, ompi_request_t **requests, ompi_status_public_t *statuses)
{
    return OPAL_UNLIKELY(opal_using_threads()) ? wait_all_of_threads(count, requests, statuses)
                                               : original.req_wait_all(count, requests, statuses);
}

/* Open MPI's function puts its condition into each request before one that has ended, so it is
 * called if none is active only. */
static int wait_any_of_threads(size_t count, ompi_request_t **requests, int *index,
                               ompi_status_public_t *status)
{
    wait_for_any(count, requests);
    for (size_t i = 0; i < count; ++i) {
        if (OMPI_REQUEST_INACTIVE != requests[i]->req_state
            && ompi_mtl_adaptib_has_ended(requests[i])) {
            *index = (int) i;
            return original.req_wait(&requests[i], status);
        }
    }
    return original.req_wait_any(count, requests, index, status);
}

static int wait_any(size_t count, ompi_request_t **requests, int *index,
                    ompi_status_public_t *status)
{
    return OPAL_UNLIKELY(opal_using_threads())
               ? wait_any_of_threads(count, requests, index, status)
               : original.req_wait_any(count, requests, index, status);
}

static int wait_some(size_t count, ompi_request_t **requests, int *ended, int *indices,
                     ompi_status_public_t *statuses)
{
    if (OPAL_LIKELY(!opal_using_threads())) {
        return original.req_wait_some(count, requests, ended, indices, statuses);
    }
    wait_for_any(count, requests);
    return original.req_test_some(count, requests, ended, indices, statuses);
}

void ompi_mtl_adaptib_wait_open(void)
{
    if (NULL != original.req_wait || ompi_mtl_adaptib_survives_failures()) {
        return;
    }
    original = ompi_request_functions;
    ompi_request_functions.req_wait = wait_one;
    ompi_request_functions.req_wait_all = wait_all;
    ompi_request_functions.req_wait_any = wait_any;
    ompi_request_functions.req_wait_some = wait_some;
}

void ompi_mtl_adaptib_wait_close(void)
{
    condition_t *condition;

    if (NULL == original.req_wait) {
        return;
    }
    ompi_request_functions.req_wait = original.req_wait;
    ompi_request_functions.req_wait_all = original.req_wait_all;
    ompi_request_functions.req_wait_any = original.req_wait_any;
    ompi_request_functions.req_wait_some = original.req_wait_some;
    original.req_wait = NULL;
    while (NULL != (condition = condition_pop())) {
        WAIT_SYNC_RELEASE_NOWAIT(&condition->sync);
        free(condition);
    }
}
