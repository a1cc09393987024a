// SPDX-License-Identifier: BSD-3-Clause
// The memory of a ring's mirror (channel/ring_mirror.h).
#include "channel/ring_mirror.h"

#include <new>
#include <utility>

#include "base/invariant.h"

namespace adaptib {

namespace {

// In pages of its own: a child of fork may lack registered pages, and whatever else is in them.
constexpr Bytes kPage = 4096;

} // namespace

bool RingMirror::begin_to_post() {
    if (paused_) {
        return false;
    }
    ADAPTIB_INVARIANT(next_memory_ == nullptr, "only a paused mirror is registered twice", units_);
    if (memory_ == nullptr) {
        const Bytes length = round_up(units_ * kRingUnit, kPage);
        bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, length)));
        if (bytes_ == nullptr ||
            !rail_->register_memory(bytes_.get(), length, kLocalWrite, memory_).ok()) {
            return false;
        }
        std::memset(bytes_.get(), 0, length);
    }
    posts_ = true;
    return true;
}

bool RingMirror::begin_to_gather() {
    gathered_.reset(new (std::nothrow) bool[units_]());
    return gathered_ != nullptr;
}

Status RingMirror::pause(Rail& next) {
    if (memory_ != nullptr) {
        if (const Status status =
                next.register_memory(bytes_.get(), memory_->length(), kLocalWrite, next_memory_);
            !status.ok()) {
            return status;
        }
    }
    paused_ = true;
    posts_ = false;
    return kOk;
}

void RingMirror::migrate_to(Rail& next) {
    ADAPTIB_INVARIANT(paused_, "a mirror changes its rail while it is paused", units_);
    ADAPTIB_INVARIANT((memory_ == nullptr) == (next_memory_ == nullptr),
                      "the memory of a paused mirror is registered with the next rail", units_);
    rail_ = &next;
    if (memory_ != nullptr) {
        memory_ = std::move(next_memory_);
    }
    paused_ = false;
}

} // namespace adaptib
