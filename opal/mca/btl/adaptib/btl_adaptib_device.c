// SPDX-License-Identifier: BSD-3-Clause
/*
 * One-sided operations on device memory (btl_adaptib_device.h).
 */
#include "opal_config.h"

#include <pthread.h>
#include <stdlib.h>

#include "btl_adaptib_device.h"
#include "btl_adaptib_fragment.h"
#include "btl_adaptib_way.h"

static const size_t PIECE_BYTES = (size_t) 1 << 20; /* most bytes of a block */

/* An operation under way; one piece of it is at a time. */
typedef struct detour_t {
    struct detour_t *next; /* in `waiting` */
    mca_btl_base_endpoint_t *endpoint;
    mca_btl_base_rdma_completion_fn_t done; /* may be NULL */
    void *context;
    void *data;
    mca_btl_base_registration_handle_t *local_handle;
    char *device;
    opal_common_adaptib_remote_t remote; /* a copy: the caller's may go away */
    opal_common_adaptib_one_sided_t piece;
    size_t bytes; /* of the operation */
    size_t moved;
    bool loaded; /* a put's piece is in the block */
    opal_common_adaptib_request_t core;
    char block[];
} detour_t;

static unsigned under_way; /* with those that wait */

/* Operations whose next piece the core had no memory for. */
static struct {
    pthread_mutex_t lock;
    detour_t *first;
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool mca_btl_adaptib_device_busy(void)
{
    return 0 != __atomic_load_n(&under_way, __ATOMIC_ACQUIRE);
}

static void detour_free(detour_t *detour)
{
    free(detour);
    (void) __atomic_sub_fetch(&under_way, 1, __ATOMIC_RELEASE);
}

static bool is_put(const detour_t *detour)
{
    return OPAL_COMMON_ADAPTIB_PUT == detour->piece.operation;
}

/* Copies a put's next piece into the block, unless it is there. */
static bool load(detour_t *detour)
{
    detour->loaded = detour->loaded || !is_put(detour)
                     || opal_common_adaptib_device_copy(
                         detour->block, detour->device + detour->moved, detour->piece.bytes);
    return detour->loaded;
}

/* Starts the next piece; returns the core's code. */
static int start_piece(detour_t *detour)
{
    const size_t left = detour->bytes - detour->moved;
    mca_btl_adaptib_way_t way;

    if (NULL == detour->endpoint->peer) { /* Open MPI has deleted the process meanwhile */
        return OPAL_COMMON_ADAPTIB_UNREACHABLE;
    }
    detour->piece.bytes = left < PIECE_BYTES ? left : PIECE_BYTES;
    if (!load(detour)) {
        return OPAL_COMMON_ADAPTIB_ERROR;
    }
    way = mca_btl_adaptib_way(detour->endpoint, MCA_BTL_ADAPTIB_ONE_SIDED);
    detour->core.status = OPAL_COMMON_ADAPTIB_SUCCESS;
    return opal_common_adaptib_rma_start(way.core, way.peer, &detour->piece, &detour->core);
}

/* Finishes the piece whose transfer has ended; returns the core's code. */
static int end_piece(detour_t *detour)
{
    if (OPAL_COMMON_ADAPTIB_SUCCESS != detour->core.status) {
        return detour->core.status;
    }
    if (!is_put(detour)
        && !opal_common_adaptib_device_copy(detour->device + detour->moved, detour->block,
                                            detour->piece.bytes)) {
        return OPAL_COMMON_ADAPTIB_ERROR;
    }
    detour->loaded = false;
    detour->moved += detour->piece.bytes;
    detour->piece.remote_address += detour->piece.bytes;
    return OPAL_COMMON_ADAPTIB_COMPLETE;
}

/* Goes on until a piece is under way (SUCCESS), all are done (COMPLETE), or one has failed. */
static int advance(detour_t *detour)
{
    int rc = OPAL_COMMON_ADAPTIB_COMPLETE;

    while (OPAL_COMMON_ADAPTIB_COMPLETE == rc && detour->moved < detour->bytes) {
        rc = start_piece(detour);
        if (OPAL_COMMON_ADAPTIB_COMPLETE == rc) {
            rc = end_piece(detour);
        }
    }
    return rc;
}

/* The error for the callback. osc/rdma treats an operation whose callback reports an error as done,
 * so Open MPI is told of each error. */
static int error_of(mca_btl_base_endpoint_t *endpoint, int status)
{
    switch (status) {
    case OPAL_COMMON_ADAPTIB_COMPLETE:
        return OPAL_SUCCESS;
    case OPAL_COMMON_ADAPTIB_UNREACHABLE:
        return mca_btl_adaptib_failed(endpoint, status);
    case OPAL_COMMON_ADAPTIB_BAD_PARAM:
        return mca_btl_adaptib_refused(endpoint);
    default:
        return mca_btl_adaptib_broken_off(endpoint, status);
    }
}

/* Returns the memory first, as the function called may start the next operation. */
static void finish(detour_t *detour, int status)
{
    const detour_t ended = *detour;
    void *local = ended.device;

    detour_free(detour);
    if (OPAL_LIKELY(NULL != mca_btl_adaptib.core)) { /* not once finalize has begun */
        const int error = error_of(ended.endpoint, status);

        if (NULL != ended.done) {
            ended.done(&mca_btl_adaptib.super, ended.endpoint, local, ended.local_handle,
                       ended.context, ended.data, error);
        }
    }
}

static bool is_transient(int status)
{
    return OPAL_COMMON_ADAPTIB_NO_MEMORY == status || OPAL_COMMON_ADAPTIB_AGAIN == status;
}

static void wait_for_memory(detour_t *detour)
{
    pthread_mutex_lock(&waiting.lock);
    detour->next = waiting.first;
    __atomic_store_n(&waiting.first, detour, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&waiting.lock);
}

static detour_t *take_waiting(void)
{
    detour_t *first;

    pthread_mutex_lock(&waiting.lock);
    first = waiting.first;
    __atomic_store_n(&waiting.first, NULL, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&waiting.lock);
    return first;
}

/* Acts on the core's code for a piece of an operation that its caller cannot repeat any more. After
 * SUCCESS the operation may have ended by now. */
static void settle(detour_t *detour, int rc)
{
    if (OPAL_COMMON_ADAPTIB_SUCCESS == rc) {
        return;
    }
    if (is_transient(rc) && NULL != mca_btl_adaptib.core) {
        wait_for_memory(detour);
    } else {
        finish(detour, rc);
    }
}

static void piece_complete(opal_common_adaptib_request_t *request)
{
    detour_t *detour = (detour_t *) ((char *) request - offsetof(detour_t, core));
    int rc = end_piece(detour);

    if (OPAL_COMMON_ADAPTIB_COMPLETE == rc && NULL != mca_btl_adaptib.core) {
        rc = advance(detour);
    }
    settle(detour, rc);
}

void mca_btl_adaptib_device_retry(void)
{
    detour_t *detour = NULL;

    if (OPAL_UNLIKELY(NULL != __atomic_load_n(&waiting.first, __ATOMIC_RELAXED))) {
        detour = take_waiting();
    }
    while (NULL != detour) {
        detour_t *next = detour->next;

        settle(detour, advance(detour));
        detour = next;
    }
}

void mca_btl_adaptib_device_close(void)
{
    detour_t *detour = take_waiting();

    while (NULL != detour) {
        detour_t *next = detour->next;

        detour_free(detour);
        detour = next;
    }
}

static detour_t *detour_make(const opal_common_adaptib_one_sided_t *what)
{
    const size_t block = what->bytes < PIECE_BYTES ? what->bytes : PIECE_BYTES;
    detour_t *detour = malloc(sizeof(*detour) + block);

    if (NULL != detour) {
        detour->device = what->local;
        detour->bytes = what->bytes;
        detour->moved = 0;
        detour->loaded = false;
        detour->remote = *what->remote;
        detour->piece = *what;
        detour->piece.local = detour->block;
        detour->piece.region = NULL;
        detour->piece.remote = &detour->remote;
        detour->core.complete = piece_complete;
        (void) __atomic_add_fetch(&under_way, 1, __ATOMIC_RELAXED);
    }
    return detour;
}

int mca_btl_adaptib_device_start(mca_btl_base_endpoint_t *endpoint,
                                 const opal_common_adaptib_one_sided_t *what,
                                 mca_btl_base_registration_handle_t *local_handle,
                                 mca_btl_base_rdma_completion_fn_t done, void *context, void *data)
{
    detour_t *detour = detour_make(what);
    int rc;

    if (NULL == detour) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    detour->endpoint = endpoint;
    detour->done = done;
    detour->context = context;
    detour->data = data;
    detour->local_handle = local_handle;
    rc = advance(detour);
    if (OPAL_COMMON_ADAPTIB_SUCCESS == rc) {
        return OPAL_SUCCESS;
    }
    if (OPAL_COMMON_ADAPTIB_COMPLETE == rc) {
        finish(detour, rc);
        return OPAL_SUCCESS;
    }
    detour_free(detour);
    return mca_btl_adaptib_failed(endpoint, rc);
}

void mca_btl_adaptib_device_refused(void)
{
    static bool told;

    if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED)) {
        opal_common_adaptib_mca_say(OPAL_COMMON_ADAPTIB_NOTICE,
                                    "Memory of an accelerator was to be registered for other "
                                    "processes, as for a window. adaptib refuses that: its "
                                    "processes reach each other's host memory only. Put such a "
                                    "window into host memory; buffers of the operations on it may "
                                    "lie on the device.");
    }
}
