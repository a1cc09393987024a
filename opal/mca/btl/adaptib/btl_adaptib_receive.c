// SPDX-License-Identifier: BSD-3-Clause
/*
 * Fragments that arrive: from the core to the callback registered for their tag.
 */
#include "opal_config.h"

#include "opal/util/output.h"

#include "btl_adaptib.h"

static void drop(mca_btl_base_tag_t tag)
{
    opal_output_verbose(
        1, opal_btl_base_framework.framework_output,
        "adaptib: dropped a fragment with tag %d, for which no callback is registered", (int) tag);
}

static inline void deliver(mca_btl_base_endpoint_t *from, mca_btl_base_tag_t tag,
                           mca_btl_base_segment_t *segments, size_t count)
{
    const mca_btl_active_message_callback_t *registered = &mca_btl_base_active_message_trigger[tag];

    if (OPAL_UNLIKELY(tag >= MCA_BTL_TAG_MAX || NULL == registered->cbfunc)) {
        drop(tag);
        return;
    }
    OPAL_COMMON_ADAPTIB_BTL_DELIVER(registered, &mca_btl_adaptib.super, from, tag, segments, count);
}

void mca_btl_adaptib_deliver(mca_btl_base_endpoint_t *from, mca_btl_base_tag_t tag,
                             mca_btl_base_segment_t *segments, size_t count)
{
    deliver(from, tag, segments, count);
}

void mca_btl_adaptib_receive(void *context, opal_common_adaptib_peer_t *peer, uint8_t tag,
                             const void *data, size_t bytes)
{
    mca_btl_base_segment_t segment;

    segment.seg_addr.pval = (void *) (uintptr_t) data;
    segment.seg_len = bytes;
    deliver(OPAL_COMMON_ADAPTIB_BTL_SENDER(context, peer), tag, &segment, 1);
}
