// SPDX-License-Identifier: BSD-3-Clause
/*
 * The way of a message or one-sided operation: the core of this process that carries it, and the
 * peer of that core. (The core's documents call a core an endpoint of the process. Here an endpoint
 * is Open MPI's word for a process that the BTL reaches.)
 *
 * Each thread has one of the cores, in turn, so that threads take no lock of each other's:
 * - Messages go from core i to core i modulo the receiver's number. pml/ob1 numbers its messages,
 *   so they may arrive in another order than they were sent, as over several BTLs.
 * - One-sided operations go from core i to the target's first core. So memory is registered with
 *   that core alone, a handle is as long as for one core, processes may have different numbers, and
 *   one core executes all atomics on a target's memory.
 * - This process itself, and a process that a further core cannot reach, are reached by the first.
 * Memory that is registered here is the first core's; another core registers local memory by
 * itself where a device needs that, and caches it.
 *
 * Threads: any.
 * May touch: Open MPI's headers of the OPAL layer and the common glue.
 */
#ifndef BTL_ADAPTIB_WAY_H
#define BTL_ADAPTIB_WAY_H

#include "btl_adaptib.h"

BEGIN_C_DECLS

typedef struct {
    opal_common_adaptib_core_t *core;
    opal_common_adaptib_peer_t *peer;
} mca_btl_adaptib_way_t;

typedef enum {
    MCA_BTL_ADAPTIB_MESSAGES,
    MCA_BTL_ADAPTIB_ONE_SIDED
} mca_btl_adaptib_use_t;

/* The way where there are several cores. */
mca_btl_adaptib_way_t mca_btl_adaptib_way_of_thread(mca_btl_base_endpoint_t *endpoint,
                                                    mca_btl_adaptib_use_t use);

static inline mca_btl_adaptib_way_t mca_btl_adaptib_way(mca_btl_base_endpoint_t *endpoint,
                                                        mca_btl_adaptib_use_t use)
{
    if (OPAL_LIKELY(1 == mca_btl_adaptib.cores)) {
        return (mca_btl_adaptib_way_t){mca_btl_adaptib.core, endpoint->peer};
    }
    return mca_btl_adaptib_way_of_thread(endpoint, use);
}

/* Core number `index` of this process. */
static inline opal_common_adaptib_core_t *mca_btl_adaptib_core(uint32_t index)
{
    return opal_common_adaptib_endpoint(mca_btl_adaptib.core, index);
}

/* Releases the peers of the further cores. REQUIRES: endpoint->peer is still set. */
void mca_btl_adaptib_ways_release(mca_btl_base_endpoint_t *endpoint);

END_C_DECLS

#endif /* BTL_ADAPTIB_WAY_H */
