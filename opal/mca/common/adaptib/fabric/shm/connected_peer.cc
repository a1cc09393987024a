// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/shm/connected_peer.h"

#include <utility>

#include "base/invariant.h"

namespace adaptib::shm {

void ConnectedPeer::attach(std::shared_ptr<PeerSegment> segment, std::uint32_t rail,
                           std::uint32_t number) {
    ADAPTIB_INVARIANT(!attached(), "a queue pair has one peer at a time", number_, number);
    ADAPTIB_INVARIANT(segment != nullptr && rail < kMaxRails && number >> 24 == 0,
                      "a peer is a queue pair of a rail of a segment", segment.get(), rail, number);
    segment_ = std::move(segment);
    rail_ = rail;
    pid_ = segment_->pid();
    rail_word_ = &segment_->header()->rail[rail].word;
    number_ = number;
    entry_ = queue_pairs_of(segment_->base()) + qp_index(number);
    regions_ = regions_of(segment_->base());
    region_ = {};
}

void ConnectedPeer::detach() {
    entry_ = nullptr;
    rail_word_ = nullptr;
    regions_ = nullptr;
    segment_.reset();
    number_ = 0;
    region_ = {};
}

bool ConnectedPeer::find(std::uint64_t address, Bytes length, std::uint32_t key,
                         std::uint32_t access) {
    ADAPTIB_INVARIANT(attached(), "memory is looked up while there is a peer", address, key);
    const std::uint64_t tag = region_tag(key);
    // A tag comes back after some ten thousand others; the range is another one then.
    bool covered = tag == region_.tag && region_.covers(address, length);
    if (!covered) {
        region_.mapped = nullptr;
        if (!read_region(regions_, key, region_)) {
            region_.tag = 0;
            return false;
        }
        covered = region_.covers(address, length);
    }
    const std::uint32_t qp_access = qp_word_access(entry_->word.load(std::memory_order_acquire));
    if ((qp_access & access) != access || !region_is(region_.tag, key, rail_, access) || !covered) {
        return false;
    }
    if (region_.offset != kPrivate && region_.mapped == nullptr) {
        region_.mapped = segment_->at(region_.offset, region_.length);
    }
    return region_.offset == kPrivate || region_.mapped != nullptr;
}

} // namespace adaptib::shm
