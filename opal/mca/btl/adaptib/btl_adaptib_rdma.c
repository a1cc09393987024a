// SPDX-License-Identifier: BSD-3-Clause
/*
 * One-sided operations: put, get, fetch-and-add, compare-and-swap, flush.
 *
 * An operation that is complete at once is reported by its callback, too, and not by a return value
 * of 1: in 4.1 ob1 waits for the callback of a get in any case, and osc/rdma stores the old value
 * through a null pointer when a fetching operation whose result nobody wants returns 1.
 */
#include "opal_config.h"

#include "opal/runtime/opal_progress.h"

#include "btl_adaptib_fragment.h"

enum {
    WORD_BYTES = 8,
    IDLE_PASSES = 64,
    CALLS_PER_PASS = 8
};

/* What the verbs have in common. */
typedef struct {
    mca_btl_base_endpoint_t *endpoint;
    mca_btl_base_registration_handle_t *local_handle;
    mca_btl_base_rdma_completion_fn_t done;
    void *context;
    void *data;
} whom_t;

/* The operation goes back first: the function called may start the next one. Once finalize has begun
 * nobody is left to be called. */
static void operation_complete(opal_common_adaptib_request_t *request)
{
    mca_btl_adaptib_operation_t *operation =
        (mca_btl_adaptib_operation_t *) ((char *) request
                                         - offsetof(mca_btl_adaptib_operation_t, core));
    mca_btl_base_endpoint_t *endpoint = operation->endpoint;
    mca_btl_base_rdma_completion_fn_t done = operation->done;
    mca_btl_base_registration_handle_t *local_handle = operation->local_handle;
    void *local_address = operation->local_address;
    void *context = operation->context;
    void *data = operation->data;
    const int status = request->status;

    opal_free_list_return(&mca_btl_adaptib.operations, &operation->super);
    if (OPAL_UNLIKELY(NULL == mca_btl_adaptib.core)) {
        return;
    }
    const int error = mca_btl_adaptib_error(endpoint, status);
    if (NULL != done) {
        done(&mca_btl_adaptib.super, endpoint, local_address, local_handle, context, data, error);
    }
}

static inline int start(const whom_t *whom, const opal_common_adaptib_one_sided_t *what)
{
    mca_btl_adaptib_operation_t *operation;
    int rc;

    if (OPAL_UNLIKELY(!whom->endpoint->used)) {
        mca_btl_adaptib_used(whom->endpoint);
    }
    if (OPAL_LIKELY(
            OPAL_COMMON_ADAPTIB_COMPLETE
            == opal_common_adaptib_start_now(mca_btl_adaptib.core, whom->endpoint->peer, what))) {
        if (NULL != whom->done) {
            whom->done(&mca_btl_adaptib.super, whom->endpoint, what->local, whom->local_handle,
                       whom->context, whom->data, OPAL_SUCCESS);
        }
        return OPAL_SUCCESS;
    }
    operation = (mca_btl_adaptib_operation_t *) opal_free_list_get(&mca_btl_adaptib.operations);
    if (OPAL_UNLIKELY(NULL == operation)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    operation->endpoint = whom->endpoint;
    operation->done = whom->done;
    operation->context = whom->context;
    operation->data = whom->data;
    operation->local_address = what->local;
    operation->local_handle = whom->local_handle;
    operation->core.complete = operation_complete;
    rc = opal_common_adaptib_start(mca_btl_adaptib.core, whom->endpoint->peer, what,
                                   &operation->core);
    if (OPAL_COMMON_ADAPTIB_SUCCESS == rc) {
        return OPAL_SUCCESS;
    }
    if (OPAL_LIKELY(OPAL_COMMON_ADAPTIB_COMPLETE == rc)) {
        operation_complete(&operation->core);
        return OPAL_SUCCESS;
    }
    opal_free_list_return(&mca_btl_adaptib.operations, &operation->super);
    return mca_btl_adaptib_failed(whom->endpoint, rc);
}

/* `what` has the operation and its operands. osc/rdma hands over a null endpoint or handle (4.1, compare-and-swap
 * on a window of one node) together with an address of this process. */
static int transfer(opal_common_adaptib_one_sided_t what, const whom_t *whom, void *local_address,
                    uint64_t remote_address,
                    const mca_btl_base_registration_handle_t *remote_handle, size_t size)
{
    if (OPAL_UNLIKELY(NULL == whom->endpoint || NULL == remote_handle)) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    what.local = local_address;
    what.region = mca_btl_adaptib_region_of(whom->local_handle);
    what.remote_address = remote_address;
    what.remote = &remote_handle->remote;
    what.bytes = size;
    return start(whom, &what);
}

int mca_btl_adaptib_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                        void *local_address, uint64_t remote_address,
                        mca_btl_base_registration_handle_t *local_handle,
                        mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                        int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                        void *cbdata)
{
    const whom_t whom = {endpoint, local_handle, cbfunc, cbcontext, cbdata};
    const opal_common_adaptib_one_sided_t what = {.operation = OPAL_COMMON_ADAPTIB_PUT};

    (void) btl;
    (void) flags;
    (void) order;
    return transfer(what, &whom, local_address, remote_address, remote_handle, size);
}

int mca_btl_adaptib_get(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                        void *local_address, uint64_t remote_address,
                        mca_btl_base_registration_handle_t *local_handle,
                        mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                        int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                        void *cbdata)
{
    const whom_t whom = {endpoint, local_handle, cbfunc, cbcontext, cbdata};
    const opal_common_adaptib_one_sided_t what = {.operation = OPAL_COMMON_ADAPTIB_GET};

    (void) btl;
    (void) flags;
    (void) order;
    return transfer(what, &whom, local_address, remote_address, remote_handle, size);
}

/* osc/rdma does without an atomic operation that is "not supported", by a lock. */
static inline bool atomic_possible(uint64_t remote_address, int flags)
{
    return 0 == remote_address % WORD_BYTES
           && 0 == (flags & (MCA_BTL_ATOMIC_FLAG_32BIT | MCA_BTL_ATOMIC_FLAG_FLOAT));
}

int mca_btl_adaptib_atomic_fop(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                               void *local_address, uint64_t remote_address,
                               mca_btl_base_registration_handle_t *local_handle,
                               mca_btl_base_registration_handle_t *remote_handle,
                               mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                               mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                               void *cbdata)
{
    const whom_t whom = {endpoint, local_handle, cbfunc, cbcontext, cbdata};
    const opal_common_adaptib_one_sided_t what = {.operation = OPAL_COMMON_ADAPTIB_FETCH_ADD,
                                                  .operand = operand};

    (void) btl;
    (void) order;
    if (OPAL_UNLIKELY(MCA_BTL_ATOMIC_ADD != op || !atomic_possible(remote_address, flags))) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    return transfer(what, &whom, local_address, remote_address, remote_handle, WORD_BYTES);
}

int mca_btl_adaptib_atomic_cswap(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                                 void *local_address, uint64_t remote_address,
                                 mca_btl_base_registration_handle_t *local_handle,
                                 mca_btl_base_registration_handle_t *remote_handle,
                                 uint64_t compare, uint64_t value, int flags, int order,
                                 mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                                 void *cbdata)
{
    const whom_t whom = {endpoint, local_handle, cbfunc, cbcontext, cbdata};
    const opal_common_adaptib_one_sided_t what = {
        .operation = OPAL_COMMON_ADAPTIB_COMPARE_SWAP, .operand = value, .compare = compare};

    (void) btl;
    (void) order;
    if (OPAL_UNLIKELY(!atomic_possible(remote_address, flags))) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    return transfer(what, &whom, local_address, remote_address, remote_handle, WORD_BYTES);
}

/* Ends, since an operation whose peer is lost completes with an error. With nothing under way progress is made
 * in some calls only: osc/rdma calls again and again until its callbacks have run. */
int mca_btl_adaptib_flush(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint)
{
    opal_common_adaptib_peer_t *peer = NULL != endpoint ? endpoint->peer : NULL;
    static unsigned calls;
    unsigned idle = 0;

    (void) btl;
    if (0 == opal_common_adaptib_outstanding(mca_btl_adaptib.core, peer)
        && 0 != __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % CALLS_PER_PASS) {
        return OPAL_SUCCESS;
    }
    do {
        if (opal_common_adaptib_progress(mca_btl_adaptib.core) > 0) {
            idle = 0;
        } else if (++idle >= IDLE_PASSES) {
            opal_progress(); /* the others', and it lets go of the processor if it is told to */
            idle = 0;
        }
    } while (opal_common_adaptib_outstanding(mca_btl_adaptib.core, peer) > 0);
    return OPAL_SUCCESS;
}
