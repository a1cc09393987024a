// SPDX-License-Identifier: BSD-3-Clause
/*
 * One-sided operations: put, get, fetch-and-add, compare-and-swap, flush.
 *
 * An operation that completes at once also reports that by its callback, not by a return value of
 * 1: in 4.1 ob1 waits for the callback of a get in any case, and osc/rdma stores the old value
 * through a null pointer when a fetching operation without a wanted result returns 1.
 */
#include "opal_config.h"

#include "opal/runtime/opal_progress.h"

#include "btl_adaptib_device.h"
#include "btl_adaptib_fragment.h"
#include "btl_adaptib_way.h"

enum {
    WORD_BYTES = 8,
    IDLE_PASSES = 64,
    CALLS_PER_PASS = 8
};

/* True for the buffer of a message, which pml/ob1 registers for one kind of access; osc/rdma
 * registers windows for all. */
static bool is_message(uint32_t access)
{
    return OPAL_COMMON_ADAPTIB_REMOTE_READ == access || OPAL_COMMON_ADAPTIB_REMOTE_WRITE == access;
}

/* The error for the callback. pml/ob1 sends the data of a put or get that failed, so that each
 * process's own processor copies it. */
static int error_of(mca_btl_base_endpoint_t *endpoint, uint32_t access, int status)
{
    switch (status) {
    case OPAL_COMMON_ADAPTIB_BAD_PARAM:
        return mca_btl_adaptib_refused(endpoint);
    case OPAL_COMMON_ADAPTIB_FAULT:
        return is_message(access) ? OPAL_ERROR : mca_btl_adaptib_faulted(endpoint);
    default:
        return mca_btl_adaptib_error(endpoint, status);
    }
}

/* Returns the operation to its list first, since the function called may start the next one. Once
 * finalize has begun there is no callback to call. */
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
    const uint32_t access = operation->access;
    const int status = request->status;

    opal_common_adaptib_list_return(&mca_btl_adaptib.operations, &operation->super);
    if (OPAL_UNLIKELY(NULL == mca_btl_adaptib.core)) {
        return;
    }
    const int error = error_of(endpoint, access, status);
    if (NULL != done) {
        done(&mca_btl_adaptib.super, endpoint, local_address, local_handle, context, data, error);
    }
}

static __opal_attribute_noinline__ int
start(mca_btl_base_endpoint_t *endpoint, const mca_btl_adaptib_way_t *way,
      const opal_common_adaptib_one_sided_t *what, mca_btl_base_registration_handle_t *local_handle,
      mca_btl_base_rdma_completion_fn_t done, void *context, void *data)
{
    mca_btl_adaptib_operation_t *operation;
    int rc;

    operation =
        (mca_btl_adaptib_operation_t *) opal_common_adaptib_list_get(&mca_btl_adaptib.operations);
    if (OPAL_UNLIKELY(NULL == operation)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    operation->endpoint = endpoint;
    operation->done = done;
    operation->context = context;
    operation->data = data;
    operation->local_address = what->local;
    operation->local_handle = local_handle;
    operation->access = what->remote->access;
    operation->core.complete = operation_complete;
    rc = opal_common_adaptib_rma_start(way->core, way->peer, what, &operation->core);
    if (OPAL_COMMON_ADAPTIB_SUCCESS == rc) {
        return OPAL_SUCCESS;
    }
    if (OPAL_LIKELY(OPAL_COMMON_ADAPTIB_COMPLETE == rc)) {
        operation_complete(&operation->core);
        return OPAL_SUCCESS;
    }
    opal_common_adaptib_list_return(&mca_btl_adaptib.operations, &operation->super);
    return mca_btl_adaptib_failed(endpoint, rc);
}

/* Does an operation, within the call if possible; `what` lacks region and remote. The immediate
 * case adds no function call, which would show for puts and gets of few bytes. osc/rdma may pass a
 * null endpoint or handle (4.1, compare-and-swap on a window of one node) together with an address
 * of this process. The local memory of an atomic operation is osc/rdma's own, in host memory. */
static inline __opal_attribute_always_inline__ int
transfer(mca_btl_base_endpoint_t *endpoint, opal_common_adaptib_one_sided_t *what,
         mca_btl_base_registration_handle_t *local_handle,
         const mca_btl_base_registration_handle_t *remote_handle,
         mca_btl_base_rdma_completion_fn_t done, void *context, void *data)
{
    mca_btl_adaptib_way_t way;

    if (OPAL_UNLIKELY(NULL == endpoint || NULL == remote_handle)) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    way = mca_btl_adaptib_way(endpoint, MCA_BTL_ADAPTIB_ONE_SIDED);
    what->region = OPAL_LIKELY(way.core == mca_btl_adaptib.core)
                       ? mca_btl_adaptib_region_of(local_handle)
                       : NULL; /* the core registers the memory if it must */
    what->remote = &remote_handle->remote;
    if (OPAL_UNLIKELY(!mca_btl_adaptib_is_used(endpoint))) {
        mca_btl_adaptib_used(endpoint);
    }
    if (mca_btl_adaptib_is_device(what->local)) {
        return mca_btl_adaptib_device_start(endpoint, what, local_handle, done, context, data);
    }
    if (OPAL_UNLIKELY(OPAL_COMMON_ADAPTIB_COMPLETE
                      != opal_common_adaptib_try_rma(way.core, way.peer, what))) {
        return start(endpoint, &way, what, local_handle, done, context, data);
    }
    if (NULL != done) {
        done(&mca_btl_adaptib.super, endpoint, what->local, local_handle, context, data,
             OPAL_SUCCESS);
    }
    return OPAL_SUCCESS;
}

int mca_btl_adaptib_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                        void *local_address, uint64_t remote_address,
                        mca_btl_base_registration_handle_t *local_handle,
                        mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                        int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                        void *cbdata)
{
    opal_common_adaptib_one_sided_t what = {.operation = OPAL_COMMON_ADAPTIB_PUT,
                                            .local = local_address,
                                            .remote_address = remote_address,
                                            .bytes = size};

    (void) btl;
    (void) flags;
    (void) order;
    return transfer(endpoint, &what, local_handle, remote_handle, cbfunc, cbcontext, cbdata);
}

int mca_btl_adaptib_get(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                        void *local_address, uint64_t remote_address,
                        mca_btl_base_registration_handle_t *local_handle,
                        mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                        int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                        void *cbdata)
{
    opal_common_adaptib_one_sided_t what = {.operation = OPAL_COMMON_ADAPTIB_GET,
                                            .local = local_address,
                                            .remote_address = remote_address,
                                            .bytes = size};

    (void) btl;
    (void) flags;
    (void) order;
    return transfer(endpoint, &what, local_handle, remote_handle, cbfunc, cbcontext, cbdata);
}

/* For an atomic operation that is "not supported", osc/rdma uses a lock instead. */
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
    opal_common_adaptib_one_sided_t what = {.operation = OPAL_COMMON_ADAPTIB_FETCH_ADD,
                                            .local = local_address,
                                            .remote_address = remote_address,
                                            .bytes = WORD_BYTES,
                                            .operand = operand};

    (void) btl;
    (void) order;
    if (OPAL_UNLIKELY(MCA_BTL_ATOMIC_ADD != op || !atomic_possible(remote_address, flags))) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    return transfer(endpoint, &what, local_handle, remote_handle, cbfunc, cbcontext, cbdata);
}

int mca_btl_adaptib_atomic_cswap(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                                 void *local_address, uint64_t remote_address,
                                 mca_btl_base_registration_handle_t *local_handle,
                                 mca_btl_base_registration_handle_t *remote_handle,
                                 uint64_t compare, uint64_t value, int flags, int order,
                                 mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                                 void *cbdata)
{
    opal_common_adaptib_one_sided_t what = {.operation = OPAL_COMMON_ADAPTIB_COMPARE_SWAP,
                                            .local = local_address,
                                            .remote_address = remote_address,
                                            .bytes = WORD_BYTES,
                                            .operand = value,
                                            .compare = compare};

    (void) btl;
    (void) order;
    if (OPAL_UNLIKELY(!atomic_possible(remote_address, flags))) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    return transfer(endpoint, &what, local_handle, remote_handle, cbfunc, cbcontext, cbdata);
}

static __opal_attribute_noinline__ void wait_for(opal_common_adaptib_core_t *core, uint64_t mark)
{
    unsigned idle = 0;

    do {
        if (opal_common_adaptib_progress(core) > 0) {
            idle = 0;
        } else if (++idle >= IDLE_PASSES) {
            opal_progress(); /* of all components; also yields the CPU if it is told to */
            idle = 0;
        }
    } while (0 != mark && !opal_common_adaptib_flush_passed(core, mark));
}

/* Waits for what is under way in the cores but the first, whichever thread has started it. */
static __opal_attribute_noinline__ void flush_others(void)
{
    for (uint32_t index = 1; index < mca_btl_adaptib.cores; ++index) {
        opal_common_adaptib_core_t *core = mca_btl_adaptib_core(index);
        const uint64_t mark = opal_common_adaptib_flush_mark(core);

        if (0 != mark) {
            wait_for(core, mark);
        }
    }
}

/* Waits for operations on device memory, whose pieces follow one another. */
static __opal_attribute_noinline__ void flush_devices(void)
{
    while (mca_btl_adaptib_device_busy()) {
        mca_btl_adaptib_device_retry(); /* this BTL's progress may not be registered */
        opal_progress();
    }
}

/* Flushes all endpoints; Open MPI never asks for a single one. It ends in any case, since an
 * operation whose peer is lost completes with an error. With nothing under way, only one in
 * CALLS_PER_PASS calls makes progress: osc/rdma calls again and again until its callbacks have run.
 * The count need not be exact: two threads may count the same call. */
int mca_btl_adaptib_flush(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint)
{
    static unsigned calls;
    const unsigned call = __atomic_load_n(&calls, __ATOMIC_RELAXED) + 1;
    const uint64_t mark = opal_common_adaptib_flush_mark(mca_btl_adaptib.core);

    (void) btl;
    (void) endpoint;
    __atomic_store_n(&calls, call, __ATOMIC_RELAXED);
    if (0 == call % CALLS_PER_PASS || 0 != mark) {
        wait_for(mca_btl_adaptib.core, mark);
    }
    if (OPAL_UNLIKELY(mca_btl_adaptib.cores > 1)) {
        flush_others();
    }
    if (OPAL_UNLIKELY(mca_btl_adaptib.devices)) {
        flush_devices();
    }
    return OPAL_SUCCESS;
}
