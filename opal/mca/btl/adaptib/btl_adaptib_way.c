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

/* Returns NULL if the process cannot be reached that way. */
static opal_common_adaptib_peer_t *contact(mca_btl_base_endpoint_t *endpoint, uint32_t index,
                                           mca_btl_adaptib_use_t use)
{
    const uint64_t name = opal_common_adaptib_mca_name(endpoint->proc->proc_name);
    opal_common_adaptib_core_t *core = mca_btl_adaptib_core(index);
    opal_common_adaptib_peer_t *peer = NULL;
    uint32_t theirs = 1;

    if (MCA_BTL_ADAPTIB_MESSAGES == use
        && OPAL_COMMON_ADAPTIB_SUCCESS != opal_common_adaptib_peer_endpoints(core, name, &theirs)) {
        return NULL;
    }
    if (OPAL_COMMON_ADAPTIB_SUCCESS
        != opal_common_adaptib_peer_at(core, name, index % theirs, &peer)) {
        return NULL;
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
        peer = contact(endpoint, index, use);
        if (NULL == peer) {
            return way;
        }
        __atomic_store_n(slot, peer, __ATOMIC_RELEASE);
    }
    way.core = mca_btl_adaptib_core(index);
    way.peer = peer;
    return way;
}

void mca_btl_adaptib_ways_release(mca_btl_base_endpoint_t *endpoint)
{
    for (uint32_t index = 1; index < mca_btl_adaptib.cores; ++index) {
        mca_btl_adaptib_peers_t *peers = &endpoint->others[index];
        opal_common_adaptib_core_t *core = mca_btl_adaptib_core(index);

        if (NULL != peers->messages) {
            opal_common_adaptib_peer_release(core, peers->messages);
        }
        if (NULL != peers->one_sided && peers->messages != peers->one_sided) {
            opal_common_adaptib_peer_release(core, peers->one_sided);
        }
        peers->messages = NULL;
        peers->one_sided = NULL;
    }
}
