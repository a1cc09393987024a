// SPDX-License-Identifier: BSD-3-Clause
#include "core/ring_poller.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/copy.h"
#include "channel/ring_credit.h"

namespace adaptib {

namespace {

constexpr std::size_t kRingBudget = 16;     // messages of one ring per pass
constexpr std::uint64_t kIdlePolls = 20000; // without a message; then a ring is polled in turn
constexpr std::size_t kAlwaysHot = 4;       // rings that each pass polls in any case

// Loads one member of a header that lies in a ring.
template <typename T> T load_header_member(const std::byte* header, std::size_t offset) {
    T value{};
    std::memcpy(&value, header + offset, sizeof value);
    return load_member(value);
}

// Checks a message that a ring's reader has found. REQUIRES: it fits the ring.
bool acceptable(const MessageHeader& header, const std::byte* body) {
    if (header.type == MessageType::eager) [[likely]] {
        return is_envelope(header);
    }
    if (header.type == MessageType::active) {
        return true;
    }
    return is_sequenced(header.type) && check_message(header, body, header.length);
}

// False if the peer may be gone: once it has begun to disconnect, it may go as soon as it hears
// that this side does, too. Until then it takes part in transfers under way, and needs credit,
// since their messages may be more than the ring holds.
bool takes_credit(const Peer& peer) {
    const bool needs = !peer.ending.disconnect_received ||
                       (peer.transfers.users > 0 && !peer.session.disconnect_sent);
    return needs && !peer.session.is_closing() && !peer.session.lost();
}

} // namespace

std::size_t RingPoller::poll_hot_rings(std::uint64_t tick) {
    std::size_t events = 0;
    HotRing* end = hot_.data() + hot_.size();
    for (HotRing* ring = hot_.data(); ring < end; ++ring) {
        if (ring->has_nothing()) [[likely]] {
            continue;
        }
        Peer& peer = *ring->peer;
        const std::ptrdiff_t place = ring - hot_.data();
        const std::size_t taken = poll_ring(peer);
        events += taken;
        ring = hot_.data() + place; // a message may add or remove rings
        end = hot_.data() + hot_.size();
        if (ring < end && ring->peer == &peer) {
            ring->next = peer.in.ring->credit_due() ? nullptr : peer.in.ring->next();
            peer.in.busy_at = taken > 0 ? tick : peer.in.busy_at;
        }
    }
    return events;
}

void RingPoller::heat(Peer& peer, std::uint64_t tick) {
    peer.in.busy_at = tick;
    hot_.emplace_back(peer);
}

void RingPoller::cool(std::uint64_t tick) {
    for (std::size_t i = 0; i < hot_.size() && hot_.size() > kAlwaysHot;) {
        if (tick - hot_[i].peer->in.busy_at <= kIdlePolls) {
            ++i;
            continue;
        }
        cold_.push_back(hot_[i].peer);
        hot_[i] = hot_.back();
        hot_.pop_back();
    }
    const bool yields = options_.yields != nullptr && *options_.yields;
    looks_again_ =
        yields || hot_.empty() ? 0 : options_.idle_looks / static_cast<std::uint32_t>(hot_.size());
}

std::size_t RingPoller::poll_cold_ring(std::uint64_t tick) {
    next_cold_ = next_cold_ + 1 < cold_.size() ? next_cold_ + 1 : 0;
    Peer& peer = *cold_[next_cold_];
    const std::size_t taken = poll_ring(peer);
    if (taken > 0 && std::erase(cold_, &peer) > 0) {
        heat(peer, tick);
    }
    return taken;
}

// Takes the most frequent messages here, from registers: eager and active ones whose sequence
// number is the next. Leaves all others to poll_with_care.
std::size_t RingPoller::poll_ring(Peer& peer) {
    RingReader& ring = *peer.in.ring;
    bool looked = false; // the credit has been checked since the last message
    std::size_t taken = 0;
    for (; taken < kRingBudget; ++taken) {
        const std::uint64_t head = ring.head();
        if (head == 0) {
            break;
        }
        if (ring.has_deferred()) [[unlikely]] {
            release_deferred();
        }
        if (!with_ring_kind(head, [&]<std::uint64_t kKind>() {
                return take_short<kKind>(peer, ring, head);
            })) [[unlikely]] {
            looked = !poll_with_care(peer, ring);
            if (looked) {
                break;
            }
        }
    }
    if (!looked && ring.credit_due() && takes_credit(peer)) [[unlikely]] {
        credit_.return_credit(peer);
    }
    if (taken > 0) {
        answered(peer, ring);
    }
    return taken;
}

// Tells the ring in the other direction what the messages just taken show of it.
inline void RingPoller::answered(Peer& peer, RingReader& ring) {
    if (peer.out.ring == nullptr) {
        return;
    }
    peer.out.ring->answered();
    if (ring.posted()) [[unlikely]] {
        counters_.credit_carried += exchange_credit(ring, *peer.out.ring) ? 1 : 0;
    }
}

// Returns false if the message was left untouched.
template <std::uint64_t kKind>
[[gnu::always_inline]] inline bool RingPoller::take_short(Peer& peer, RingReader& ring,
                                                          std::uint64_t head) {
    RingReader::Short found;
    if (!ring.take_short<kKind>(head, found) || !ArrivalOrder::has_its_turn(peer, found.sequence))
        [[unlikely]] {
        return false;
    }
    if constexpr (kKind == kRingCompact || kKind == kRingRetainedActive) {
        protocol_.on_active_in_turn(peer, found.flags, found.body, found.length);
    } else {
        const std::byte* at = ring.next();
        const Envelope envelope{
            load_header_member<std::uint32_t>(at, offsetof(MessageHeader, context)),
            load_header_member<std::int32_t>(at, offsetof(MessageHeader, source)),
            load_header_member<std::int32_t>(at, offsetof(MessageHeader, tag))};
        if (!is_envelope(envelope.source, envelope.tag)) [[unlikely]] {
            return false;
        }
        protocol_.on_eager_in_turn(peer, envelope, found.body, found.length);
    }
    ++counters_.ring_received;
    release_or_defer<kKind>(peer, ring, found);
    return true;
}

// Releasing a long slot writes one word per cache line. In a ping-pong with the peer, reply first
// and release afterwards, so that the reply does not queue behind those stores.
template <std::uint64_t kKind>
[[gnu::always_inline]] inline void RingPoller::release_or_defer(Peer& peer, RingReader& ring,
                                                                const RingReader::Short& found) {
    if constexpr (ring_kind_is_retained(kKind)) {
        const bool exchanges = peer.session.next_send - peer.flow.sent_at_last_long == 1;
        peer.flow.sent_at_last_long = peer.session.next_send;
        if (exchanges && ring.may_defer_release(found)) {
            if (deferring_ != nullptr) [[unlikely]] {
                release_deferred();
            }
            ring.defer_release<kKind>(found);
            deferring_ = &peer;
            return;
        }
    }
    ring.consume_short<kKind>(found);
}

void RingPoller::release_deferred() {
    std::exchange(deferring_, nullptr)->in.ring->release_deferred();
}

// Takes any other message. Returns false if there is none, or none may be taken now.
bool RingPoller::poll_with_care(Peer& peer, RingReader& ring) {
    return !(ArrivalOrder::keeps_enough(peer) && ring.next_is_after(peer.in.next_receive)) &&
           take_any(peer, ring);
}

bool RingPoller::take_any(Peer& peer, RingReader& ring) {
    if (ring.has_deferred()) [[unlikely]] {
        release_deferred();
    }
    if (peer.session.lost()) [[unlikely]] {
        return false; // messages before it may be missing
    }
    MessageHeader header;
    const std::byte* body = nullptr;
    const RingReader::Found found = ring.poll(header, body);
    if (ring.credit_due() && takes_credit(peer)) [[unlikely]] {
        credit_.return_credit(peer);
    }
    if (found == RingReader::Found::nothing) {
        return false;
    }
    if (found == RingReader::Found::garbage || !acceptable(header, body)) [[unlikely]] {
        on_garbage(peer);
        return false;
    }
    ++counters_.ring_received;
    delivery_.hand_over(peer, header, body);
    ring.consume(header.sequence);
    return true;
}

// Nothing behind a malformed message can be trusted, or delivered, since delivery is in order. The
// fault is reported even if nothing waits for the peer: nothing else would tell of it.
void RingPoller::on_garbage(Peer& peer) {
    if (peer.session.lost()) {
        return;
    }
    ++counters_.bad_packets;
    const bool misplaced = peer.in.ring.has_value() && peer.in.ring->misplaced();
    protocol_.lost().lose(
        peer, misplaced ? "a message in its ring is not what the peer wrote: this host's RDMA "
                          "device places the packets of a write out of order "
                          "(opal_common_adaptib_ring_in_order has to be auto or no), or the "
                          "data was damaged (opal_common_adaptib_ring_check)"
                        : "its ring holds a malformed message");
    protocol_.lost().report(peer);
}

void RingPoller::empty(Peer& peer) {
    while (peer.in.ring.has_value() && !peer.session.lost() &&
           (poll_ring(peer) > 0 || (peer.in.ring.has_value() && take_any(peer, *peer.in.ring)))) {
    }
    if (deferring_ == &peer) { // the ring may be reused, so leave it empty
        release_deferred();
    }
}

std::size_t RingPoller::take_one_each() {
    std::size_t events = 0;
    for (std::size_t i = 0; i < hot_.size(); ++i) { // a message may add or remove rings
        const HotRing& ring = hot_[i];
        if (ring.has_nothing()) {
            continue;
        }
        Peer& peer = *ring.peer;
        if (poll_with_care(peer, *peer.in.ring)) {
            ++events;
            answered(peer, *peer.in.ring);
        }
        if (i < hot_.size() && hot_[i].peer == &peer) {
            hot_[i].next = nullptr;
        }
    }
    return events;
}

void RingPoller::remove(Peer& peer) {
    std::erase_if(hot_, [&](const HotRing& ring) { return ring.peer == &peer; });
    std::erase(cold_, &peer);
    deferring_ = deferring_ == &peer ? nullptr : deferring_;
}

} // namespace adaptib
