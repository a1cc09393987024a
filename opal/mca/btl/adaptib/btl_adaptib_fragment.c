// SPDX-License-Identifier: BSD-3-Clause
/*
 * The lists, and the fragments that the PML fills: alloc, free, prepare_src.
 */
#include "opal_config.h"

#include <sys/uio.h>

#include "opal/class/opal_object.h"
#include "opal/runtime/opal.h"

#include "btl_adaptib_fragment.h"

OBJ_CLASS_INSTANCE(mca_btl_adaptib_fragment_t, mca_btl_base_descriptor_t, NULL, NULL);
OBJ_CLASS_INSTANCE(mca_btl_adaptib_operation_t, opal_free_list_item_t, NULL, NULL);
OBJ_CLASS_INSTANCE(mca_btl_adaptib_memory_t, opal_free_list_item_t, NULL, NULL);

enum {
    FIRST_ITEMS = 8,
    MORE_ITEMS = 64,
    MORE_LARGE = 16,
    UNLIMITED = -1
};

static size_t line_bytes(void)
{
    return (size_t) opal_cache_line_size;
}

static int fragment_init(opal_free_list_item_t *item, void *list)
{
    mca_btl_adaptib_fragment_t *fragment = (mca_btl_adaptib_fragment_t *) item;

    fragment->list = list;
    fragment->base.des_segments = fragment->segments;
    return OPAL_SUCCESS;
}

static int open_fragments(opal_free_list_t *list, size_t bytes, int more)
{
    return opal_free_list_init(list, sizeof(mca_btl_adaptib_fragment_t), line_bytes(),
                               OBJ_CLASS(mca_btl_adaptib_fragment_t), bytes, line_bytes(), 0,
                               UNLIMITED, more, NULL, 0, NULL, fragment_init, list);
}

static int open_items(opal_free_list_t *list, size_t size, opal_class_t *class)
{
    return opal_free_list_init(list, size, line_bytes(), class, 0, 0, FIRST_ITEMS, UNLIMITED,
                               MORE_ITEMS, NULL, 0, NULL, NULL, NULL);
}

int mca_btl_adaptib_lists_open(void)
{
    int rc;

    OBJ_CONSTRUCT(&mca_btl_adaptib.headers, opal_free_list_t);
    OBJ_CONSTRUCT(&mca_btl_adaptib.eager, opal_free_list_t);
    OBJ_CONSTRUCT(&mca_btl_adaptib.large, opal_free_list_t);
    OBJ_CONSTRUCT(&mca_btl_adaptib.operations, opal_free_list_t);
    OBJ_CONSTRUCT(&mca_btl_adaptib.memory, opal_free_list_t);
    rc = open_fragments(&mca_btl_adaptib.headers, MCA_BTL_ADAPTIB_HEADER_BYTES, MORE_ITEMS);
    if (OPAL_SUCCESS == rc) {
        mca_btl_adaptib.eager_bytes = mca_btl_adaptib.super.btl_eager_limit;
        rc = open_fragments(&mca_btl_adaptib.eager, mca_btl_adaptib.eager_bytes, MORE_LARGE);
    }
    if (OPAL_SUCCESS == rc) {
        rc = open_fragments(&mca_btl_adaptib.large, mca_btl_adaptib.super.btl_max_send_size,
                            MORE_LARGE);
    }
    if (OPAL_SUCCESS == rc) {
        rc = open_items(&mca_btl_adaptib.operations, sizeof(mca_btl_adaptib_operation_t),
                        OBJ_CLASS(mca_btl_adaptib_operation_t));
    }
    if (OPAL_SUCCESS == rc) {
        rc = open_items(&mca_btl_adaptib.memory, sizeof(mca_btl_adaptib_memory_t),
                        OBJ_CLASS(mca_btl_adaptib_memory_t));
    }
    return rc;
}

void mca_btl_adaptib_lists_close(void)
{
    OBJ_DESTRUCT(&mca_btl_adaptib.headers);
    OBJ_DESTRUCT(&mca_btl_adaptib.eager);
    OBJ_DESTRUCT(&mca_btl_adaptib.large);
    OBJ_DESTRUCT(&mca_btl_adaptib.operations);
    OBJ_DESTRUCT(&mca_btl_adaptib.memory);
}

mca_btl_base_descriptor_t *mca_btl_adaptib_alloc(mca_btl_base_module_t *btl,
                                                 mca_btl_base_endpoint_t *endpoint, uint8_t order,
                                                 size_t size, uint32_t flags)
{
    opal_free_list_t *list = mca_btl_adaptib_list_for(size);

    (void) btl;
    (void) endpoint;
    (void) order;
    /* The descriptor is the first member of a fragment. */
    return OPAL_LIKELY(NULL != list)
               ? (mca_btl_base_descriptor_t *) mca_btl_adaptib_fragment_get(list, size, flags)
               : NULL;
}

int mca_btl_adaptib_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor)
{
    (void) btl;
    mca_btl_adaptib_fragment_return((mca_btl_adaptib_fragment_t *) descriptor);
    return OPAL_SUCCESS;
}

/* Leaves contiguous data where it is, behind a fragment that holds only the header. */
static mca_btl_base_descriptor_t *prepare_in_place(opal_convertor_t *convertor, size_t reserve,
                                                   size_t size, uint32_t flags)
{
    opal_free_list_t *list = mca_btl_adaptib_list_for(reserve);
    mca_btl_adaptib_fragment_t *fragment =
        NULL != list ? mca_btl_adaptib_fragment_get(list, reserve, flags) : NULL;
    void *data = NULL;

    if (OPAL_UNLIKELY(NULL == fragment)) {
        return NULL;
    }
    opal_convertor_get_current_pointer(convertor, &data);
    fragment->segments[1].seg_addr.pval = data;
    fragment->segments[1].seg_len = size;
    fragment->base.des_segment_count = 2;
    return &fragment->base;
}

static mca_btl_base_descriptor_t *prepare_packed(opal_convertor_t *convertor, size_t reserve,
                                                 size_t *size, uint32_t flags)
{
    opal_free_list_t *list = mca_btl_adaptib_list_for(reserve + *size);
    mca_btl_adaptib_fragment_t *fragment =
        NULL != list ? mca_btl_adaptib_fragment_get(list, reserve + *size, flags) : NULL;
    struct iovec iov;
    uint32_t iov_count = 1;

    if (OPAL_UNLIKELY(NULL == fragment)) {
        return NULL;
    }
    iov.iov_base = (char *) fragment->base.super.ptr + reserve;
    iov.iov_len = *size;
    if (OPAL_UNLIKELY(opal_convertor_pack(convertor, &iov, &iov_count, size) < 0)) {
        mca_btl_adaptib_fragment_return(fragment);
        return NULL;
    }
    fragment->segments[0].seg_len = reserve + *size;
    return &fragment->base;
}

mca_btl_base_descriptor_t *mca_btl_adaptib_prepare_src(mca_btl_base_module_t *btl,
                                                       mca_btl_base_endpoint_t *endpoint,
                                                       opal_convertor_t *convertor, uint8_t order,
                                                       size_t reserve, size_t *size, uint32_t flags)
{
    const size_t most = mca_btl_adaptib.super.btl_max_send_size;

    (void) btl;
    (void) endpoint;
    (void) order;
    if (OPAL_UNLIKELY(reserve > most)) {
        return NULL;
    }
    if (*size > most - reserve) {
        *size = most - reserve;
    }
    return opal_convertor_need_buffers(convertor) || opal_common_adaptib_on_device(convertor)
               ? prepare_packed(convertor, reserve, size, flags)
               : prepare_in_place(convertor, reserve, *size, flags);
}
