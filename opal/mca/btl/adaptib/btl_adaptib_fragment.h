// SPDX-License-Identifier: BSD-3-Clause
/*
 * Items of the BTL's lists: fragments, one-sided operations and registrations.
 *
 * A fragment is always in one of three states: in its list; owned by the PML, between alloc or
 * prepare_src and a send; owned by the core, from a send that is not complete at once until its
 * completion. It is returned to its list by free, or after its completion if the PML asked for that
 * (BTL_OWNERSHIP).
 */
#ifndef BTL_ADAPTIB_FRAGMENT_H
#define BTL_ADAPTIB_FRAGMENT_H

#include <stddef.h>

#include "btl_adaptib.h"

BEGIN_C_DECLS

/* Room of a fragment for a header: for the largest of ob1 with a registration handle, or for a
 * short message with its header. */
#define MCA_BTL_ADAPTIB_HEADER_BYTES 384

typedef struct {
    mca_btl_base_descriptor_t base;     /* base.super.ptr: the fragment's own bytes */
    mca_btl_base_segment_t segments[2]; /* own bytes; the user's, if the data stays in place */
    opal_free_list_t *list;
    mca_btl_base_endpoint_t *endpoint;
    opal_common_adaptib_request_t core;
} mca_btl_adaptib_fragment_t;

OBJ_CLASS_DECLARATION(mca_btl_adaptib_fragment_t);

typedef struct {
    opal_free_list_item_t super;
    mca_btl_base_endpoint_t *endpoint;
    mca_btl_base_rdma_completion_fn_t done; /* may be NULL */
    void *context;
    void *data;
    void *local_address;
    mca_btl_base_registration_handle_t *local_handle;
    uint32_t access; /* that the remote memory was registered for */
    opal_common_adaptib_request_t core;
} mca_btl_adaptib_operation_t;

OBJ_CLASS_DECLARATION(mca_btl_adaptib_operation_t);

/* The handle that Open MPI copies and sends to peers; btl_registration_handle_size bytes. */
struct mca_btl_base_registration_handle_t {
    opal_common_adaptib_remote_t remote;
};

typedef struct {
    opal_free_list_item_t super;
    opal_common_adaptib_region_t *region;
    mca_btl_base_registration_handle_t handle;
} mca_btl_adaptib_memory_t;

OBJ_CLASS_DECLARATION(mca_btl_adaptib_memory_t);

/* Returns the memory of a handle that register_mem returned (not of a copy of the handle). */
static inline mca_btl_adaptib_memory_t *
mca_btl_adaptib_memory_of(mca_btl_base_registration_handle_t *handle)
{
    mca_btl_adaptib_memory_t *memory =
        (mca_btl_adaptib_memory_t *) ((char *) handle - offsetof(mca_btl_adaptib_memory_t, handle));

    OPAL_COMMON_ADAPTIB_SEEN(memory); /* another thread may have registered it */
    return memory;
}

/* Returns the region of such a handle. NULL: the core registers the memory itself if it must. */
static inline opal_common_adaptib_region_t *
mca_btl_adaptib_region_of(mca_btl_base_registration_handle_t *handle)
{
    return NULL == handle ? NULL : mca_btl_adaptib_memory_of(handle)->region;
}

static inline mca_btl_adaptib_fragment_t *mca_btl_adaptib_fragment_get(opal_free_list_t *list,
                                                                       size_t bytes, uint32_t flags)
{
    mca_btl_adaptib_fragment_t *fragment =
        (mca_btl_adaptib_fragment_t *) opal_common_adaptib_list_get(list);

    if (OPAL_LIKELY(NULL != fragment)) {
        fragment->segments[0].seg_addr.pval = fragment->base.super.ptr;
        fragment->segments[0].seg_len = bytes;
        fragment->base.des_segment_count = 1;
        fragment->base.des_flags = flags;
        fragment->base.order = MCA_BTL_NO_ORDER;
    }
    return fragment;
}

static inline void mca_btl_adaptib_fragment_return(mca_btl_adaptib_fragment_t *fragment)
{
    opal_common_adaptib_list_return(fragment->list, &fragment->base.super);
}

/* Returns the list whose fragments have room for `bytes`; NULL: none. */
static inline opal_free_list_t *mca_btl_adaptib_list_for(size_t bytes)
{
    if (bytes <= MCA_BTL_ADAPTIB_HEADER_BYTES) {
        return &mca_btl_adaptib.headers;
    }
    if (bytes <= mca_btl_adaptib.eager_bytes) {
        return &mca_btl_adaptib.eager;
    }
    return bytes <= mca_btl_adaptib.super.btl_max_send_size ? &mca_btl_adaptib.large : NULL;
}

END_C_DECLS

#endif /* BTL_ADAPTIB_FRAGMENT_H */
