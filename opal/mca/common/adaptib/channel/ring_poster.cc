// SPDX-License-Identifier: BSD-3-Clause
// Posting into a ring (channel/ring_poster.h).
#include "channel/ring_poster.h"

#include "base/invariant.h"
#include "channel/ring_layout.h"

namespace adaptib {

Status RingPoster::post(std::span<const Gather> pieces, std::uint64_t unit, bool signaled,
                        bool inlined) {
    ADAPTIB_INVARIANT(unit < target_.units, "a write begins within the ring", unit, target_.units);
    ADAPTIB_INVARIANT(unsignaled_ < kSignalEvery, "one of kSignalEvery writes is signaled",
                      unsignaled_);
    SendWork work;
    work.wr_id = wr_id_;
    work.opcode = Opcode::write;
    work.flags = inlined ? kPublish | kInline : +kPublish;
    if (++unsignaled_ == kSignalEvery || signaled) {
        work.flags |= kSignaled;
    }
    work.gather = pieces.data();
    work.gather_count = static_cast<std::uint32_t>(pieces.size());
    work.remote_address = target_.address + unit * kRingUnit;
    work.remote_key = target_.key;
    const Status status = qp_->post_send(work);
    if (!status.ok()) {
        --unsignaled_;
    } else if ((work.flags & kSignaled) != 0) {
        count_signaled();
    }
    return status;
}

Status RingPoster::flush() {
    if (unsignaled_ > 0) {
        const Status status = qp_->post_send(empty_write(wr_id_, target_.address, target_.key));
        if (!status.ok()) {
            return status;
        }
        count_signaled();
    }
    return settled() ? kOk : Status::again(Reason::none);
}

} // namespace adaptib
