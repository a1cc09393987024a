// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/gathered_sends.h"

#include <algorithm>

namespace adaptib {

namespace {

// Returns the rail of the queue pair that posts into the peer's ring.
std::uint32_t ring_rail(const Peer& peer) {
    return peer.lanes.subchannels[peer.control.lane].local_rail;
}

} // namespace

void GatheredSends::begin(Peer& peer, RailList rails) {
    const RailRange& local = peer.contact.route.local;
    const auto used = rails.subspan(local.first, local.count);
    const bool gather = std::all_of(used.begin(), used.end(), [](const Rail* rail) {
        return rail->info().max_gather >= kRingGather;
    });
    const bool posts = peer.out.ring != nullptr && !peer.out.ring->direct();
    const bool on = memory_.frequent(peer.contact.route.fabric).on();
    peer.flow.gathers = posts && gather && on ? this : nullptr;
}

bool GatheredSends::wants(Peer& peer, const void* base, Bytes bytes) {
    FrequentBuffers& buffers = memory_.frequent(peer.contact.route.fabric);
    const bool found = buffers.use(base, bytes, 0, claim_.use);
    claim_.base = found ? base : nullptr;
    claim_.bytes = bytes;
    return found;
}

// Looks for room first, so that a request that waits for it counts one use.
GatheredSends::Outcome GatheredSends::gather(SendRequest& request) {
    Peer& peer = *request.peer;
    const Bytes bytes = request.data.bytes;
    if (request.copied || request.type != MessageType::eager || request.data.base == nullptr ||
        bytes < FrequentBuffers::kLeastBytes || !peer.out.by_ring(bytes) ||
        !transfers_.takes_more()) {
        return Outcome::declined;
    }
    if (peer.reserve(bytes) == nullptr) {
        return Outcome::no_room;
    }
    if (!peer.out.ring->gathers(bytes) || !find_buffer(peer, request)) {
        request.copied = true;
        return Outcome::declined;
    }
    return post(request);
}

bool GatheredSends::find_buffer(const Peer& peer, SendRequest& request) {
    RegistrationCache::Use& use = request.buffer;
    if (claim_.base == request.data.base && claim_.bytes == request.data.bytes &&
        claim_.use.is_current()) {
        use.take(claim_.use);
        claim_.base = nullptr;
    }
    FrequentBuffers& buffers = memory_.frequent(peer.contact.route.fabric);
    if (use.empty() && !buffers.use(request.data.base, request.data.bytes, 0, use)) {
        return false;
    }
    if (use.registration().has(ring_rail(peer))) {
        return true;
    }
    use.reset();
    return false;
}

// An error is left to the copy, which runs into it as well.
GatheredSends::Outcome GatheredSends::post(SendRequest& request) {
    Peer& peer = *request.peer;
    const Bytes bytes = request.data.bytes;
    MessageHeader header = header_of(request, bytes);
    const std::uint32_t key = request.buffer.registration().local_key(ring_rail(peer));
    const Status status =
        peer.commit_gathered(header, {request.data.base, bytes, key}, request, *this);
    if (!status.ok()) {
        request.buffer.reset();
        return status.is_again() ? Outcome::no_room : Outcome::declined;
    }
    transfers_.on_other_posted();
    ++counters_.messages_gathered;
    return Outcome::sent;
}

void GatheredSends::drop_claim() {
    claim_.base = nullptr;
    claim_.use.reset();
}

void GatheredSends::on_gathered(GatheredMessage& message, GatherEnd end) {
    auto& request = static_cast<SendRequest&>(message);
    request.buffer.reset();
    transfers_.on_other_done();
    if (end == GatherEnd::dropped) {
        return;
    }
    const bool lost = end == GatherEnd::lost;
    completions_.complete(*request.user,
                          lost ? OPAL_COMMON_ADAPTIB_UNREACHABLE : OPAL_COMMON_ADAPTIB_SUCCESS,
                          lost ? 0 : request.data.bytes);
}

} // namespace adaptib
