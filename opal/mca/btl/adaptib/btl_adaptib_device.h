// SPDX-License-Identifier: BSD-3-Clause
/*
 * Memory of an accelerator in one-sided operations.
 *
 * osc/rdma passes on a user's buffer in device memory as it is, whatever the BTL announces. Its
 * data takes a detour, piece by piece, through a block of host memory: Open MPI's component for the
 * accelerator copies between the device and the block, and the core transfers the block. Peers can
 * not reach device memory, so registrations of it are refused.
 *
 * Only Open MPI 5 can tell where an address lies; there, device memory is looked for only if it has
 * a component for an accelerator.
 *
 * Threads: any.
 * May touch: Open MPI's headers of the OPAL layer and the common glue.
 */
#ifndef BTL_ADAPTIB_DEVICE_H
#define BTL_ADAPTIB_DEVICE_H

#include "btl_adaptib.h"

BEGIN_C_DECLS

/* True if this memory is a device's. */
static inline bool mca_btl_adaptib_is_device(const void *address)
{
    return OPAL_UNLIKELY(mca_btl_adaptib.devices) && opal_common_adaptib_is_device(address);
}

/* Starts a put or get between device memory (what->local) and the target; the arguments are those
 * of mca_btl_adaptib_put. */
int mca_btl_adaptib_device_start(mca_btl_base_endpoint_t *endpoint,
                                 const opal_common_adaptib_one_sided_t *what,
                                 mca_btl_base_registration_handle_t *local_handle,
                                 mca_btl_base_rdma_completion_fn_t done, void *context, void *data);

/* True while such an operation is under way. */
bool mca_btl_adaptib_device_busy(void);

/* Goes on with operations that the core had no memory for when a piece of them had ended: their
 * caller cannot repeat them any more. */
void mca_btl_adaptib_device_retry(void);

/* Drops these operations: finalize has begun. */
void mca_btl_adaptib_device_close(void);

/* Tells the user, once, that device memory was not registered. */
void mca_btl_adaptib_device_refused(void);

END_C_DECLS

#endif /* BTL_ADAPTIB_DEVICE_H */
