// SPDX-License-Identifier: BSD-3-Clause
/*
 * The ways of threads (btl_adaptib_way.h).
 */
#include "opal_config.h"

#include "btl_adaptib_way.h"

/* Number of this thread among those that have used the BTL, from 1; 0: it has not yet. */
static __thread uint32_t thread_number __attribute__((tls_model("initial-exec")));
static uint32_t threads;

static uint32_t core_of_thread(void)
{
    if (OPAL_UNLIKELY(0 == thread_number)) {
        thread_number = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    }
    return (thread_number - 1) % mca_btl_adaptib.cores;
}

static int contact(mca_btl_base_endpoint_t *endpoint, uint32_t index, mca_btl_adaptib_use_t use,
                   opal_common_adaptib_peer_t **peer)
{
    const uint64_t name = opal_common_adaptib_mca_name(endpoint->proc->proc_name);
    opal_common_adaptib_core_t *core = mca_btl_adaptib_core(index);
    uint32_t theirs = 1;
    int rc = OPAL_COMMON_ADAPTIB_SUCCESS;

    if (MCA_BTL_ADAPTIB_MESSAGES == use) {
        rc = opal_common_adaptib_peer_endpoints(core, name, &theirs);
    }
    return OPAL_COMMON_ADAPTIB_SUCCESS == rc
               ? opal_common_adaptib_peer_at(core, name, index % theirs, peer)
               : rc;
}

/* Fills an empty slot of core number `index`, for good if the process can be reached, or if it can
 * not: its addresses do not change. Returns the first core's peer if this core has none. */
static __opal_attribute_noinline__ opal_common_adaptib_peer_t *
fill(opal_common_adaptib_peer_t **slot, mca_btl_base_endpoint_t *endpoint, uint32_t index,
     mca_btl_adaptib_use_t use)
{
    opal_common_adaptib_peer_t *peer = endpoint->peer;
    const int rc = contact(endpoint, index, use, &peer);

    if (OPAL_COMMON_ADAPTIB_SUCCESS == rc || OPAL_COMMON_ADAPTIB_UNREACHABLE == rc) {
        __atomic_store_n(slot, peer, __ATOMIC_RELEASE);
    }
    return peer;
}

mca_btl_adaptib_way_t mca_btl_adaptib_way_of_thread(mca_btl_base_endpoint_t *endpoint,
                                                    mca_btl_adaptib_use_t use)
{
    const uint32_t index = core_of_thread();
    mca_btl_adaptib_way_t way = {mca_btl_adaptib.core, endpoint->peer};
    opal_common_adaptib_peer_t **slot;
    opal_common_adaptib_peer_t *peer;

    if (0 == index || endpoint->self || NULL == endpoint->proc) {
        return way;
    }
    slot = MCA_BTL_ADAPTIB_MESSAGES == use ? &endpoint->others[index].messages
                                           : &endpoint->others[index].one_sided;
    peer = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (OPAL_UNLIKELY(NULL == peer)) {
        peer = fill(slot, endpoint, index, use);
    }
    if (OPAL_UNLIKELY(endpoint->peer == peer)) {
        return way;
    }
    way.core = mca_btl_adaptib_core(index);
    way.peer = peer;
    return way;
}

static void release(uint32_t index, const mca_btl_base_endpoint_t *endpoint,
                    opal_common_adaptib_peer_t *peer)
{
    if (NULL != peer && endpoint->peer != peer) {
        opal_common_adaptib_peer_release(mca_btl_adaptib_core(index), peer);
    }
}

void mca_btl_adaptib_ways_release(mca_btl_base_endpoint_t *endpoint)
{
    for (uint32_t index = 1; index < mca_btl_adaptib.cores; ++index) {
        mca_btl_adaptib_peers_t *peers = &endpoint->others[index];

        release(index, endpoint, peers->messages);
        if (peers->messages != peers->one_sided) {
            release(index, endpoint, peers->one_sided);
        }
        peers->messages = NULL;
        peers->one_sided = NULL;
    }
}
