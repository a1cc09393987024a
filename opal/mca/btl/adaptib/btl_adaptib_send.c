// SPDX-License-Identifier: BSD-3-Clause
/*
 * Fragments on their way out: send, sendi, and their completion.
 */
#include "opal_config.h"

#include <string.h>
#include <sys/uio.h>

#include "btl_adaptib_fragment.h"
#include "btl_adaptib_waits.h"
#include "btl_adaptib_way.h"

static inline mca_btl_adaptib_fragment_t *fragment_of(opal_common_adaptib_request_t *request)
{
    return (mca_btl_adaptib_fragment_t *) ((char *) request
                                           - offsetof(mca_btl_adaptib_fragment_t, core));
}

/* Open MPI 5's one-sided operations over active messages set no callback for some of their
 * answers. */
static inline void call_back(mca_btl_adaptib_fragment_t *fragment, int status)
{
    if (OPAL_LIKELY(NULL != fragment->base.des_cbfunc)) {
        fragment->base.des_cbfunc(&mca_btl_adaptib.super, fragment->endpoint, &fragment->base,
                                  status);
    }
}

/* Once finalize has begun there is no callback to call. */
static void send_complete(opal_common_adaptib_request_t *request)
{
    mca_btl_adaptib_fragment_t *fragment = fragment_of(request);
    const bool ours = 0 != (fragment->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);

    if (OPAL_LIKELY(NULL != mca_btl_adaptib.core)) {
        call_back(fragment, mca_btl_adaptib_error(fragment->endpoint, request->status));
    }
    if (ours) {
        mca_btl_adaptib_fragment_return(fragment);
    }
}

static void sendi_complete(opal_common_adaptib_request_t *request)
{
    mca_btl_adaptib_fragment_t *fragment = fragment_of(request);

    if (OPAL_LIKELY(NULL != mca_btl_adaptib.core)) {
        (void) mca_btl_adaptib_error(fragment->endpoint, request->status);
    }
    mca_btl_adaptib_fragment_return(fragment);
}

/* Gathers the header from the fragment and the data from the user's memory. */
static int gather(void *context, size_t offset, void *to, size_t *length)
{
    const mca_btl_adaptib_fragment_t *fragment = context;
    const size_t header = fragment->segments[0].seg_len;
    size_t done = 0;

    if (offset < header) {
        done = header - offset < *length ? header - offset : *length;
        memcpy(to, (const char *) fragment->segments[0].seg_addr.pval + offset, done);
        offset += done;
    }
    if (done < *length) {
        size_t data = header + fragment->segments[1].seg_len - offset;

        if (data > *length - done) {
            data = *length - done;
        }
        memcpy((char *) to + done,
               (const char *) fragment->segments[1].seg_addr.pval + (offset - header), data);
        done += data;
    }
    *length = done;
    return OPAL_SUCCESS;
}

/* Sends a fragment for which there is room now. Returns false if there is none. */
static inline bool sent_in_pieces(mca_btl_base_endpoint_t *endpoint,
                                  const mca_btl_adaptib_fragment_t *fragment,
                                  mca_btl_base_tag_t tag)
{
    const mca_btl_base_segment_t *segments = fragment->segments;
    const bool two = fragment->base.des_segment_count > 1;
    const size_t more = two ? segments[1].seg_len : 0;
    const mca_btl_adaptib_way_t way = mca_btl_adaptib_way(endpoint, MCA_BTL_ADAPTIB_MESSAGES);

    if (OPAL_COMMON_ADAPTIB_COMPLETE
        != opal_common_adaptib_active_try_send(way.core, way.peer, tag, segments[0].seg_addr.pval,
                                               segments[0].seg_len,
                                               two ? segments[1].seg_addr.pval : NULL, more)) {
        return false;
    }
    if (more >= MCA_BTL_ADAPTIB_LONG) {
        mca_btl_adaptib_follow_limit();
    }
    return true;
}

/* Lets the device read the data where it is, if it is sent from there again and again and nobody
 * waits for this send. Returns false if nothing was sent. */
static __opal_attribute_noinline__ bool gathered(mca_btl_base_endpoint_t *endpoint,
                                                 mca_btl_adaptib_fragment_t *fragment,
                                                 mca_btl_base_tag_t tag)
{
    const mca_btl_base_segment_t *segments = fragment->segments;
    mca_btl_adaptib_way_t way;

    if (endpoint->self || !mca_btl_adaptib_is_used(endpoint) || mca_btl_adaptib_waits()) {
        return false;
    }
    way = mca_btl_adaptib_way(endpoint, MCA_BTL_ADAPTIB_MESSAGES);
    fragment->endpoint = endpoint;
    return OPAL_COMMON_ADAPTIB_SUCCESS
           == opal_common_adaptib_active_gather(way.core, way.peer, tag, segments[0].seg_addr.pval,
                                                segments[0].seg_len, segments[1].seg_addr.pval,
                                                segments[1].seg_len, &fragment->core);
}

/* `refused`: the fast path has just refused this message. */
static inline int start(mca_btl_base_endpoint_t *endpoint, mca_btl_adaptib_fragment_t *fragment,
                        mca_btl_base_tag_t tag, bool refused)
{
    opal_common_adaptib_data_t data;
    mca_btl_adaptib_way_t way;
    int rc;

    if (OPAL_UNLIKELY(!mca_btl_adaptib_is_used(endpoint))) {
        mca_btl_adaptib_used(endpoint);
    }
    if (OPAL_UNLIKELY(endpoint->self)) {
        mca_btl_adaptib_deliver(endpoint, tag, fragment->segments,
                                fragment->base.des_segment_count);
        return OPAL_COMMON_ADAPTIB_COMPLETE;
    }
    if (OPAL_LIKELY(!refused && sent_in_pieces(endpoint, fragment, tag))) {
        return OPAL_COMMON_ADAPTIB_COMPLETE;
    }
    fragment->endpoint = endpoint;
    data.bytes = fragment->segments[0].seg_len;
    data.unpack = NULL;
    if (1 == fragment->base.des_segment_count) {
        data.base = fragment->segments[0].seg_addr.pval;
        data.pack = NULL;
        data.context = NULL;
    } else {
        data.base = NULL;
        data.bytes += fragment->segments[1].seg_len;
        data.pack = gather;
        data.context = fragment;
    }
    fragment->core.status = OPAL_COMMON_ADAPTIB_SUCCESS;
    way = mca_btl_adaptib_way(endpoint, MCA_BTL_ADAPTIB_MESSAGES);
    rc = opal_common_adaptib_active_send(way.core, way.peer, tag, &data, &fragment->core);
    /* It may be complete because it cannot be sent. */
    return OPAL_COMMON_ADAPTIB_COMPLETE == rc
                   && OPAL_COMMON_ADAPTIB_SUCCESS != fragment->core.status
               ? fragment->core.status
               : rc;
}

int mca_btl_adaptib_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                         mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag)
{
    mca_btl_adaptib_fragment_t *fragment = (mca_btl_adaptib_fragment_t *) descriptor;
    uint32_t flags;
    int rc;

    (void) btl;
    fragment->core.complete = send_complete;
    if (OPAL_UNLIKELY(mca_btl_adaptib.gathers) && descriptor->des_segment_count > 1
        && gathered(endpoint, fragment, tag)) {
        return OPAL_SUCCESS; /* its callback follows */
    }
    rc = start(endpoint, fragment, tag, false);
    if (OPAL_UNLIKELY(OPAL_COMMON_ADAPTIB_COMPLETE != rc)) {
        return mca_btl_adaptib_error(endpoint, rc);
    }
    flags = descriptor->des_flags;
    if (0 != (flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK)) {
        fragment->endpoint = endpoint;
        call_back(fragment, OPAL_SUCCESS);
    }
    if (0 != (flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP)) {
        mca_btl_adaptib_fragment_return(fragment);
    }
    return 1;
}

/* Sends contiguous data without a fragment if the peer has room for it now. Otherwise sendi copies
 * the data once more than send does, which pays for short data, since there is no callback.
 * `refused`: set to whether the fast path was tried in vain. */
static inline bool try_send(mca_btl_base_endpoint_t *endpoint, opal_convertor_t *convertor,
                            const void *header, size_t header_size, size_t payload_size,
                            mca_btl_base_tag_t tag, bool *refused)
{
    mca_btl_adaptib_way_t way;
    void *data = NULL;

    *refused = false;
    if (OPAL_UNLIKELY(endpoint->self || !mca_btl_adaptib_is_used(endpoint))) {
        return false;
    }
    if (payload_size > 0) {
        if (opal_convertor_need_buffers(convertor) || opal_common_adaptib_on_device(convertor)) {
            return false;
        }
        opal_convertor_get_current_pointer(convertor, &data);
    }
    way = mca_btl_adaptib_way(endpoint, MCA_BTL_ADAPTIB_MESSAGES);
    *refused = OPAL_COMMON_ADAPTIB_COMPLETE
               != opal_common_adaptib_active_try_send(way.core, way.peer, tag, header, header_size,
                                                      data, payload_size);
    return !*refused;
}

int mca_btl_adaptib_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                          opal_convertor_t *convertor, void *header, size_t header_size,
                          size_t payload_size, uint8_t order, uint32_t flags,
                          mca_btl_base_tag_t tag, mca_btl_base_descriptor_t **descriptor)
{
    const size_t bytes = header_size + payload_size;
    opal_free_list_t *list;
    mca_btl_adaptib_fragment_t *fragment;
    bool refused;
    int rc;

    (void) btl;
    (void) order;
    if (NULL != descriptor) {
        *descriptor = NULL;
    }
    if (OPAL_LIKELY(
            try_send(endpoint, convertor, header, header_size, payload_size, tag, &refused))) {
        if (payload_size >= MCA_BTL_ADAPTIB_LONG) {
            mca_btl_adaptib_follow_limit();
        }
        return OPAL_SUCCESS;
    }
    list = mca_btl_adaptib_list_for(bytes);
    fragment = NULL != list ? mca_btl_adaptib_fragment_get(list, bytes, flags) : NULL;
    if (OPAL_UNLIKELY(NULL == fragment)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    memcpy(fragment->base.super.ptr, header, header_size);
    if (payload_size > 0) {
        struct iovec iov = {.iov_base = (char *) fragment->base.super.ptr + header_size,
                            .iov_len = payload_size};
        uint32_t iov_count = 1;
        size_t packed = payload_size;

        if (OPAL_UNLIKELY(opal_convertor_pack(convertor, &iov, &iov_count, &packed) < 0
                          || packed != payload_size)) {
            mca_btl_adaptib_fragment_return(fragment);
            return OPAL_ERROR;
        }
    }
    fragment->core.complete = sendi_complete;
    rc = start(endpoint, fragment, tag, refused);
    if (OPAL_LIKELY(OPAL_COMMON_ADAPTIB_SUCCESS != rc)) {
        mca_btl_adaptib_fragment_return(fragment);
    }
    return OPAL_LIKELY(rc >= 0) ? OPAL_SUCCESS : mca_btl_adaptib_failed(endpoint, rc);
}
