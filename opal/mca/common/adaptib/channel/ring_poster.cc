// SPDX-License-Identifier: BSD-3-Clause
// Posting into a ring (channel/ring_poster.h).
#include "channel/ring_poster.h"

#include "channel/ring_layout.h"

namespace adaptib {

Status RingPoster::write(const Gather& gather, std::uint64_t unit, bool signaled) {
    SendWork work;
    work.wr_id = wr_id_;
    work.opcode = Opcode::write;
    work.flags = gather.length <= target_.inline_bytes ? kPublish | kInline : +kPublish;
    if (++unsignaled_ == kSignalEvery || signaled) {
        work.flags |= kSignaled;
    }
    work.gather = &gather;
    work.gather_count = 1;
    work.remote_address = target_.address + unit * kRingUnit;
    work.remote_key = target_.key;
    const Status status = qp_->post_send(work);
    if (!status.ok()) {
        --unsignaled_;
    } else if ((work.flags & kSignaled) != 0) {
        unsignaled_ = 0;
        ++awaited_;
    }
    return status;
}

Status RingPoster::flush() {
    if (unsignaled_ > 0) {
        const Status status = qp_->post_send(empty_write(wr_id_, target_.address, target_.key));
        if (!status.ok()) {
            return status;
        }
        unsignaled_ = 0;
        ++awaited_;
    }
    return settled() ? kOk : Status::again(Reason::none);
}

} // namespace adaptib
