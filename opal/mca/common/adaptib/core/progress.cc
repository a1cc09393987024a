// SPDX-License-Identifier: BSD-3-Clause
// How the core moves forward (core/core.h gives the order).
#include <algorithm>

#include "core/core.h"

namespace adaptib {

namespace {

constexpr std::size_t kRingBudget = 16; // messages of one ring per pass
constexpr std::size_t kDatagramBudget = 16;
constexpr std::size_t kCompletionBudget = 64;
constexpr std::uint32_t kIdlePolls = 20000; // then a ring is polled in turn with other idle ones
constexpr std::size_t kAlwaysHot = 4;       // so many rings are polled each time anyway
constexpr std::uint64_t kDatagramEvery = 8; // passes, while rings are busy
constexpr std::uint64_t kCompletionsEvery = 16; // passes, while none is awaited: errors, signals
constexpr std::uint64_t kHousekeepingEvery = 1024;
constexpr std::uint64_t kKeepAliveEvery = 64 * kHousekeepingEvery;

} // namespace

std::size_t Core::progress() {
    ++tick_;
    std::size_t events = poll_hot_rings();
    if (!cold_.empty()) {
        events += poll_cold_ring();
    }
    if (events == 0 || tick_ % kDatagramEvery == 0) {
        events += datagrams_->poll(receiver_, kDatagramBudget);
    }
    if (protocol_->work_outstanding() || tick_ % kCompletionsEvery == 0) {
        for (CompletionFilter& filter : filters_) {
            events += filter.poll(kCompletionBudget);
        }
    }
    if (protocol_->retry_due()) [[unlikely]] {
        events += protocol_->retry();
    }
    if (connections_->retry_due()) [[unlikely]] {
        connections_->retry();
    }
    if (!finished_.empty()) [[unlikely]] {
        finish_peers();
    }
    if (tick_ % kHousekeepingEvery == 0) [[unlikely]] {
        housekeeping();
    }
    return events;
}

std::size_t Core::poll_hot_rings() {
    std::size_t events = 0;
    for (std::size_t i = 0; i < hot_.size(); ++i) {
        Peer& peer = *hot_[i];
        const std::size_t taken = poll_ring(peer);
        events += taken;
        if (taken > 0) {
            peer.idle_polls = 0;
        } else if (++peer.idle_polls > kIdlePolls && hot_.size() > kAlwaysHot) {
            hot_[i] = hot_.back();
            hot_.pop_back();
            cold_.push_back(&peer);
            --i;
        }
    }
    return events;
}

std::size_t Core::poll_cold_ring() {
    next_cold_ = next_cold_ + 1 < cold_.size() ? next_cold_ + 1 : 0;
    Peer& peer = *cold_[next_cold_];
    const std::size_t taken = poll_ring(peer);
    if (taken > 0) {
        peer.idle_polls = 0;
        std::erase(cold_, &peer);
        hot_.push_back(&peer);
    }
    return taken;
}

std::size_t Core::poll_ring(Peer& peer) {
    const MessageHeader* header = nullptr;
    const std::byte* body = nullptr;
    std::size_t taken = 0;
    for (; taken < kRingBudget; ++taken) {
        const RingReader::Found found = peer.ring_in->poll(&header, &body);
        if (peer.ring_in->credit_due() && !peer.heard_goodbye) {
            return_credit(peer);
        }
        if (found == RingReader::Found::nothing) {
            break;
        }
        if (found == RingReader::Found::garbage || !is_sequenced(header->type) ||
            !check_message(*header, body, header->length)) [[unlikely]] {
            // Nothing behind it can be trusted, or has its turn.
            if (peer.state != ConnectState::failed) {
                ++counters_.bad_packets;
                protocol_->on_peer_failed(peer, "its ring holds a malformed message");
            }
            break;
        }
        ++counters_.ring_received;
        protocol_->on_message(peer, *header, body);
        peer.ring_in->consume();
    }
    return taken;
}

// Unsignaled, but for one in kSignalEvery, which releases the others' places in the send queue. A count
// that cannot be written now is written in the next pass.
void Core::return_credit(Peer& peer) {
    Subchannel& subchannel = peer.subchannels[connections_->chosen_subchannel(peer)];
    std::uint64_t consumed = peer.ring_in->consumed();
    const Gather gather{&consumed, sizeof consumed, 0};
    SendWork work;
    work.opcode = Opcode::write;
    work.flags = kInline | kPublish;
    if (++peer.credits_posted % kSignalEvery == 0) {
        work.flags |= kSignaled;
    }
    work.gather = &gather;
    work.gather_count = 1;
    work.remote_address = peer.credit_address;
    work.remote_key = subchannel.remote_memory_key;
    if (subchannel.qp->post_send(work).ok()) {
        peer.ring_in->credit_told();
        ++counters_.credit_returns;
    }
}

void Core::on_datagram(std::uint64_t from, std::uint64_t from_key, const MessageHeader& header,
                       const std::byte* body) {
    Peer* peer = peers_.find(from);
    if (peer == nullptr && !make_peer(from, Why::datagram, peer).ok()) {
        ++counters_.bad_packets;
        return;
    }
    if (peer->datagram.handle == nullptr && !wake_peer(*peer, Why::datagram, peer->address).ok()) {
        ++counters_.bad_packets;
        return;
    }
    if (peer->address.key != from_key) {
        ++counters_.bad_packets;
    } else if (is_sequenced(header.type)) {
        protocol_->on_message(*peer, header, body);
    } else {
        connections_->on_handshake(*peer, header.type, read_body<ConnectBody>(body));
    }
}

void Core::housekeeping() {
    protocol_->update_levels();
    poll_events();
    if (tick_ % kKeepAliveEvery == 0) {
        keep_alive();
    }
}

// A peer that has died gives no credit either, so who waits for credit would not notice. Telling it again
// what we have consumed does no harm and fails if it is gone.
void Core::keep_alive() {
    peers_.for_each([this](Peer& peer) {
        if (peer.state == ConnectState::open && peer.has_pending() && peer.ring_in != nullptr &&
            !peer.heard_goodbye) {
            return_credit(peer);
        }
    });
}

// What was under way as datagrams or in rings over a rail that is down is lost.
void Core::fail_peers_on(std::uint32_t rail) {
    const std::string& name = fabric_->rails()[rail]->info().name;
    peers_.for_each([&](Peer& peer) {
        const bool ring =
            peer.state == ConnectState::open &&
            peer.subchannels[connections_->chosen_subchannel(peer)].local_rail == rail;
        if (peer.state != ConnectState::failed && (rail == 0 || ring)) {
            protocol_->on_peer_failed(peer, "rail " + name + " is down");
        }
    });
}

void Core::poll_events() {
    Event event;
    while (fabric_->poll_event(event)) {
        const std::string& rail = fabric_->rails()[event.rail]->info().name;
        switch (event.kind) {
        case EventKind::port_error:
            environment_.message(Severity::notice,
                                 "Rail " + rail + " of host " + environment_.host + " went down.");
            fail_peers_on(event.rail);
            break;
        case EventKind::port_active:
            environment_.message(Severity::notice, "Rail " + rail + " of host " +
                                                       environment_.host + " is up again.");
            break;
        default: break;
        }
    }
}

} // namespace adaptib
