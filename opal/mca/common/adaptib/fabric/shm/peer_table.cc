// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/shm/peer_table.h"

#include <algorithm>
#include <utility>

#include "base/invariant.h"
#include "fabric/shm/limits.h"

namespace adaptib::shm {

Status PeerTable::open(const RailAddress& address, std::shared_ptr<PeerSegment>& out,
                       std::uint32_t& rail) {
    WireAddress wire{};
    if (!PeerSegment::decode(address, wire)) {
        return Status::error(Reason::bad_argument);
    }
    error_text_.clear();
    std::erase_if(peers_, [](const auto& entry) { return entry.second.expired(); });
    const auto known = peers_.find(wire.cookie);
    std::shared_ptr<PeerSegment> peer = known == peers_.end() ? nullptr : known->second.lock();
    if (peer == nullptr) {
        obstacle_ = {};
        obstacle_cookie_ = wire.cookie;
        const Status status =
            PeerSegment::open(address, segment_.cookie(), peer, segment_.host(), obstacle_);
        error_text_ = status.ok() || status.reason() == Reason::peer_gone
                          ? std::string()
                          : obstacle_.text(wire.pid, true);
        if (!status.ok()) {
            return status;
        }
        ADAPTIB_INVARIANT(peer->cookie() == wire.cookie, "a peer has the cookie of its address",
                          peer->cookie(), wire.cookie);
        peers_[wire.cookie] = peer;
    } else if (peer->gone()) {
        return Status::error(Reason::peer_gone);
    }
    if (wire.rail >= peer->header()->rails || wire.rail >= kMaxRails) {
        return Status::error(Reason::unreachable);
    }
    rail = wire.rail;
    out = std::move(peer);
    return kOk;
}

void PeerTable::refuse(const RailAddress& address, Reason why) {
    WireAddress wire{};
    if (!PeerSegment::decode(address, wire)) {
        return;
    }
    Obstacle obstacle = obstacle_cookie_ == wire.cookie ? obstacle_ : Obstacle{};
    obstacle.reason = why;
    ProducerSlot* slots = producers_of(segment_.base());
    const std::uint32_t end =
        std::min(segment_.header()->producers_end.load(std::memory_order_acquire), kMaxProducers);
    for (std::uint32_t i = 0; i < end; ++i) {
        if (slots[i].cookie.load(std::memory_order_acquire) == wire.cookie) {
            slots[i].refused.store(obstacle.pack(), std::memory_order_release);
        }
    }
}

PeerSegment* PeerTable::find(std::uint64_t cookie) const {
    const auto it = peers_.find(cookie);
    return it == peers_.end() ? nullptr : it->second.lock().get(); // other owners keep it alive
}

// REQUIRES: not empty().
void PeerTable::look_after_one(Nanoseconds now) {
    ADAPTIB_INVARIANT(!peers_.empty(), "only peers that are there are looked after", peers_.size());
    if (now < next_look_) {
        return;
    }
    next_look_ = now + kPeerLookInterval;
    auto it = peers_.upper_bound(looked_at_);
    if (it == peers_.end()) {
        it = peers_.begin();
    }
    looked_at_ = it->first;
    if (const std::shared_ptr<PeerSegment> peer = it->second.lock()) {
        peer->check_alive();
    }
}

std::uint64_t PeerTable::look_at_rails(std::uint32_t& news) const {
    std::uint64_t words = 0;
    news = 0;
    for (const auto& [cookie, known] : peers_) {
        if (const std::shared_ptr<PeerSegment> peer = known.lock()) {
            for (std::uint32_t rail = 0; rail < std::min(peer->header()->rails, kMaxRails);
                 ++rail) {
                words |= peer->header()->rail[rail].word.load(std::memory_order_acquire);
            }
            if (peer->is_news()) [[unlikely]] {
                ++news;
            }
        }
    }
    return words;
}

} // namespace adaptib::shm
