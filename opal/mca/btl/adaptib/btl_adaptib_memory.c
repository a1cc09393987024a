// SPDX-License-Identifier: BSD-3-Clause
/*
 * Memory for remote access. The core deals with the cost of registrations, and caches them.
 */
#include "opal_config.h"

#include "btl_adaptib_device.h"
#include "btl_adaptib_fragment.h"

static uint32_t access_of(uint32_t flags)
{
    uint32_t access = 0;

    if (0 != (flags & MCA_BTL_REG_FLAG_REMOTE_READ)) {
        access |= OPAL_COMMON_ADAPTIB_REMOTE_READ;
    }
    if (0 != (flags & MCA_BTL_REG_FLAG_REMOTE_WRITE)) {
        access |= OPAL_COMMON_ADAPTIB_REMOTE_WRITE;
    }
    if (0 != (flags & MCA_BTL_REG_FLAG_REMOTE_ATOMIC)) {
        access |= OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC;
    }
    return access;
}

mca_btl_base_registration_handle_t *mca_btl_adaptib_register_mem(mca_btl_base_module_t *btl,
                                                                 mca_btl_base_endpoint_t *endpoint,
                                                                 void *base, size_t size,
                                                                 uint32_t flags)
{
    mca_btl_adaptib_memory_t *memory;

    (void) btl;
    if (mca_btl_adaptib_is_device(base)) {
        mca_btl_adaptib_device_refused();
        return NULL;
    }
    memory = (mca_btl_adaptib_memory_t *) opal_common_adaptib_list_get(&mca_btl_adaptib.memory);
    if (OPAL_UNLIKELY(NULL == memory)) {
        return NULL;
    }
    /* The PML announces data for a get; the core learns from that when to try sending it
     * instead. */
    if (NULL != endpoint && MCA_BTL_ENDPOINT_ANY != endpoint
        && MCA_BTL_REG_FLAG_REMOTE_READ == flags
        && size <= mca_btl_adaptib.super.btl_max_send_size) {
        opal_common_adaptib_active_declined(mca_btl_adaptib.core, endpoint->peer, size);
        mca_btl_adaptib_follow_limit();
    }
    if (OPAL_UNLIKELY(OPAL_COMMON_ADAPTIB_SUCCESS
                      != opal_common_adaptib_register(mca_btl_adaptib.core, base, size,
                                                      access_of(flags), &memory->region,
                                                      &memory->handle.remote))) {
        opal_common_adaptib_list_return(&mca_btl_adaptib.memory, &memory->super);
        return NULL;
    }
    OPAL_COMMON_ADAPTIB_PUBLISHED(memory);
    return &memory->handle;
}

int mca_btl_adaptib_deregister_mem(mca_btl_base_module_t *btl,
                                   mca_btl_base_registration_handle_t *handle)
{
    mca_btl_adaptib_memory_t *memory = mca_btl_adaptib_memory_of(handle);

    (void) btl;
    opal_common_adaptib_deregister(mca_btl_adaptib.core, memory->region);
    opal_common_adaptib_list_return(&mca_btl_adaptib.memory, &memory->super);
    return OPAL_SUCCESS;
}
