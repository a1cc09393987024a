// SPDX-License-Identifier: BSD-3-Clause
/*
 * The module: its table, peers, errors, progress and end.
 */
#include "opal_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opal/runtime/opal_progress.h"

#include "btl_adaptib_device.h"
#include "btl_adaptib_fragment.h"
#include "btl_adaptib_waits.h"
#include "btl_adaptib_way.h"

static int add_procs(mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
                     mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable);
static int del_procs(mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
                     mca_btl_base_endpoint_t **endpoints);
static int register_error(mca_btl_base_module_t *btl, mca_btl_base_module_error_cb_fn_t error);
static int finalize(mca_btl_base_module_t *btl);

/* Numbers without a comment are the defaults of parameters that the component registers. */
mca_btl_adaptib_module_t mca_btl_adaptib = {
    .super =
        {
            .btl_component = &mca_btl_adaptib_component,
            .btl_eager_limit =
                4224, /* a page and the headers of a PML; follows the core if not set */
            .btl_rndv_eager_limit = 4224,
            .btl_max_send_size = 65792, /* at most the core's active_max, as the other two */
            .btl_rdma_pipeline_send_length = 65536,
            .btl_rdma_pipeline_frag_size = 4194304,
            .btl_min_rdma_pipeline_size = 262144,
            /* Below vader and self, which have the highest; before tcp. */
            .btl_exclusivity = MCA_BTL_EXCLUSIVITY_DEFAULT,
            .btl_latency = 2, /* osc/rdma takes the lowest: vader, with 1, if it reaches all */
            .btl_bandwidth = 30000, /* Mbit/s; vader claims 40000 */
            .btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_SEND_INPLACE | MCA_BTL_FLAGS_RDMA
                         | MCA_BTL_FLAGS_ATOMIC_FOPS | MCA_BTL_FLAGS_RDMA_FLUSH
                         | OPAL_COMMON_ADAPTIB_BTL_REMOTE_COMPLETION,
            /* For 64-bit integers only. Not GLOB: a device's atomics are not atomic with the
             * processor's. */
            .btl_atomic_flags = MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_CSWAP,
            .btl_registration_handle_size = sizeof(mca_btl_base_registration_handle_t),
            .btl_get_limit = SIZE_MAX,
            .btl_get_alignment = 0,
            .btl_put_limit = SIZE_MAX,
            .btl_put_alignment = 0,
            .btl_get_local_registration_threshold = SIZE_MAX, /* the core registers if it must */
            .btl_put_local_registration_threshold = SIZE_MAX,

            .btl_add_procs = add_procs,
            .btl_del_procs = del_procs,
            .btl_finalize = finalize,

            .btl_alloc = mca_btl_adaptib_alloc,
            .btl_free = mca_btl_adaptib_free,
            .btl_prepare_src = mca_btl_adaptib_prepare_src,
            .btl_send = mca_btl_adaptib_send,
            .btl_sendi = mca_btl_adaptib_sendi,
            .btl_put = mca_btl_adaptib_put,
            .btl_get = mca_btl_adaptib_get,
            .btl_dump = mca_btl_base_dump,

            .btl_atomic_fop = mca_btl_adaptib_atomic_fop,
            .btl_atomic_cswap = mca_btl_adaptib_atomic_cswap,

            .btl_register_mem = mca_btl_adaptib_register_mem,
            .btl_deregister_mem = mca_btl_adaptib_deregister_mem,

            .btl_register_error = register_error,
            .btl_flush = mca_btl_adaptib_flush,
        },
};

static mca_btl_base_endpoint_t *endpoint_make(opal_proc_t *proc)
{
    const bool self = 0 == opal_compare_proc(proc->proc_name, OPAL_PROC_MY_NAME);
    opal_common_adaptib_peer_t *peer = NULL;
    mca_btl_base_endpoint_t *endpoint;

    if (OPAL_COMMON_ADAPTIB_SUCCESS
        != opal_common_adaptib_peer_offer(mca_btl_adaptib.core,
                                          opal_common_adaptib_mca_name(proc->proc_name), &peer)) {
        return NULL;
    }
    endpoint = calloc(1, sizeof(*endpoint)
                             + (mca_btl_adaptib.cores > 1 ? mca_btl_adaptib.cores : 0)
                                   * sizeof(endpoint->others[0]));
    if (NULL == endpoint) {
        opal_common_adaptib_peer_release(mca_btl_adaptib.core, peer);
        return NULL;
    }
    endpoint->peer = peer;
    endpoint->proc = proc;
    endpoint->self = self;
    opal_common_adaptib_process_set_user_data(
        mca_btl_adaptib.core, opal_common_adaptib_mca_name(proc->proc_name), endpoint);
    return endpoint;
}

/* Ends all reports about its process, whatever becomes of operations under way. */
static void endpoint_leave(mca_btl_base_endpoint_t *endpoint)
{
    if (endpoint == opal_common_adaptib_peer_user_data(mca_btl_adaptib.core, endpoint->peer)) {
        opal_common_adaptib_process_set_user_data(
            mca_btl_adaptib.core, opal_common_adaptib_mca_name(endpoint->proc->proc_name), NULL);
    }
    opal_common_adaptib_peer_release(mca_btl_adaptib.core, endpoint->peer);
    mca_btl_adaptib_ways_release(endpoint);
    endpoint->peer = NULL;
    endpoint->proc = NULL;
    endpoint->failed = true;
    endpoint->next = mca_btl_adaptib.retired;
    mca_btl_adaptib.retired = endpoint;
}

static void endpoints_free(void)
{
    while (NULL != mca_btl_adaptib.retired) {
        mca_btl_base_endpoint_t *endpoint = mca_btl_adaptib.retired;

        mca_btl_adaptib.retired = endpoint->next;
        free(endpoint);
    }
}

/* Leaves a process that the core does not reach to the other BTLs, which is no error. `reachable`
 * is NULL for a process that is added at its first message. */
static int add_procs(mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
                     mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    (void) btl;
    for (size_t i = 0; i < nprocs; ++i) {
        endpoints[i] = endpoint_make(procs[i]);
        if (NULL != endpoints[i] && NULL != reachable
            && OPAL_SUCCESS != opal_bitmap_set_bit(reachable, (int) i)) {
            endpoint_leave(endpoints[i]);
            endpoints[i] = NULL;
        }
    }
    opal_common_adaptib_mca_connect_start(mca_btl_adaptib.core);
    return OPAL_SUCCESS;
}

/* The BML recognizes a process's endpoints by their pointers, so they are left as they are. */
static int del_procs(mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
                     mca_btl_base_endpoint_t **endpoints)
{
    (void) btl;
    (void) procs;
    for (size_t i = 0; i < nprocs; ++i) {
        if (NULL != endpoints[i]) {
            endpoint_leave(endpoints[i]);
        }
    }
    return OPAL_SUCCESS;
}

static int register_error(mca_btl_base_module_t *btl, mca_btl_base_module_error_cb_fn_t error)
{
    (void) btl;
    mca_btl_adaptib.error = error;
    return OPAL_SUCCESS;
}

void mca_btl_adaptib_used(mca_btl_base_endpoint_t *endpoint)
{
    const char *pml = mca_btl_adaptib_pml();

    __atomic_store_n(&endpoint->used, true, __ATOMIC_RELAXED);
    opal_common_adaptib_mca_selected();
    opal_common_adaptib_core_carries(mca_btl_adaptib.core,
                                     NULL != pml && 0 == strcmp(pml, "ob1")
                                         ? "messages and one-sided operations (BTL, under pml/ob1 "
                                           "and osc/rdma)"
                                         : "one-sided operations (BTL, under osc/rdma)");
}

/* Tells the PML, which ends the job. Without a PML over this BTL this process ends here: osc/rdma
 * treats an operation whose callback reports an error as done. */
static void give_up(mca_btl_base_endpoint_t *endpoint, const char *what)
{
    char text[128];

    snprintf(text, sizeof(text), "adaptib: process %s %s",
             OPAL_NAME_PRINT(endpoint->proc->proc_name), what);
    if (NULL == mca_btl_adaptib.error) {
        opal_output(0, "%s; one-sided operations on it cannot be undone, so this process ends",
                    text);
        _exit(EXIT_FAILURE);
    }
    mca_btl_adaptib.error(&mca_btl_adaptib.super, MCA_BTL_ERROR_FLAGS_FATAL, endpoint->proc, text);
}

static void is_lost(mca_btl_base_endpoint_t *endpoint)
{
    if (!__atomic_exchange_n(&endpoint->failed, true, __ATOMIC_ACQ_REL)) {
        give_up(endpoint, "cannot be reached any more");
    }
}

int mca_btl_adaptib_failed(mca_btl_base_endpoint_t *endpoint, int status)
{
    if (OPAL_COMMON_ADAPTIB_AGAIN == status) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (OPAL_COMMON_ADAPTIB_UNREACHABLE == status) {
        is_lost(endpoint);
    }
    return opal_common_adaptib_mca_error(status);
}

/* A PML that waits for messages of the process has no operation under way that could fail, so it
 * must be told. Without a PML, one-sided operations fail by themselves, and messages are the
 * MTL's. */
void mca_btl_adaptib_broken(void *context, opal_common_adaptib_peer_t *peer)
{
    mca_btl_base_endpoint_t *endpoint = opal_common_adaptib_peer_user_data(context, peer);

    if (NULL != endpoint && NULL != mca_btl_adaptib.error) {
        is_lost(endpoint);
    }
}

int mca_btl_adaptib_refused(mca_btl_base_endpoint_t *endpoint)
{
    give_up(endpoint, "refused a one-sided operation");
    return OPAL_ERR_BAD_PARAM;
}

int mca_btl_adaptib_faulted(mca_btl_base_endpoint_t *endpoint)
{
    give_up(endpoint, "has a one-sided operation on memory that is not mapped, or protected");
    return OPAL_ERROR;
}

int mca_btl_adaptib_broken_off(mca_btl_base_endpoint_t *endpoint, int status)
{
    give_up(endpoint, "has a part of a one-sided operation on device memory that failed");
    return opal_common_adaptib_mca_error(status);
}

int mca_btl_adaptib_progress(void)
{
    if (OPAL_UNLIKELY(mca_btl_adaptib.devices)) {
        mca_btl_adaptib_device_retry();
    }
    return opal_common_adaptib_progress(mca_btl_adaptib.core);
}

/* The core may still complete operations, so it is released while the lists exist. */
static int finalize(mca_btl_base_module_t *btl)
{
    opal_common_adaptib_core_t *core = mca_btl_adaptib.core;

    (void) btl;
    if (NULL != core) {
        /* Under an MTL it may never have been registered. */
        (void) opal_progress_unregister(mca_btl_adaptib_progress);
        mca_btl_adaptib_pml_forget();
        mca_btl_adaptib_waits_close();
        mca_btl_adaptib_device_close();
        mca_btl_adaptib.core = NULL;
        mca_btl_adaptib.limit = NULL;
        for (uint32_t index = 0; index < mca_btl_adaptib.cores; ++index) {
            opal_common_adaptib_active_listen(opal_common_adaptib_endpoint(core, index), NULL,
                                              NULL);
            opal_common_adaptib_broken_listen(opal_common_adaptib_endpoint(core, index), NULL,
                                              NULL);
        }
        opal_common_adaptib_mca_release(core);
        mca_btl_adaptib_lists_close();
        endpoints_free();
    }
    return OPAL_SUCCESS;
}
