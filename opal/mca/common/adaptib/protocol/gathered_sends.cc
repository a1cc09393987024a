// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/gathered_sends.h"

#include <algorithm>
#include <cstring>

namespace adaptib {

namespace {

// Returns the rail of the queue pair that posts into the peer's ring, or sends its datagrams.
std::uint32_t rail_to(const Peer& peer) {
    return peer.out.ring != nullptr ? peer.lanes.subchannels[peer.control.lane].local_rail
                                    : peer.contact.channel.rail_number(peer.contact.datagram.port);
}

bool has_room(const Peer& peer) {
    return peer.out.ring != nullptr || DatagramChannel::has_room(peer.contact.datagram);
}

// Returns true if the message, for which there is room, is one that the device reads later.
bool reads_later(const Peer& peer, Bytes bytes) {
    return peer.out.ring == nullptr || peer.out.ring->gathers(bytes);
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

bool GatheredSends::may_gather(const Peer& peer, Bytes bytes) const {
    const PeerContact& contact = peer.contact;
    return peer.out.ring == nullptr
               ? contact.datagram.handle != nullptr && bytes <= contact.datagram_capacity()
               : peer.out.by_ring(bytes) && transfers_.takes_more();
}

// Looks for room first, so that a request that waits for it counts one use.
GatheredSends::Outcome GatheredSends::gather(SendRequest& request) {
    Peer& peer = *request.peer;
    const Bytes bytes = request.data.bytes;
    if (request.type != MessageType::eager || request.data.base == nullptr ||
        bytes < FrequentBuffers::kLeastBytes || !may_gather(peer, bytes)) {
        return Outcome::declined;
    }
    const std::byte* const to = has_room(peer) ? peer.reserve(bytes) : nullptr;
    if (to == nullptr) {
        return Outcome::no_room;
    }
    const bool later = reads_later(peer, bytes);
    if (later) {
        take_claim(request);
    }
    if (!later || !find_buffer(peer, request, bytes)) {
        request.copied = true;
        return Outcome::declined;
    }
    return post(request, header_of(request, bytes), to, bytes);
}

// A message that finds no room is left to the copy. So is one whose buffer is not registered: the
// copy then fills the same place.
bool GatheredSends::gather_active(Peer& peer, const ActivePieces& pieces, UserRequest& user) {
    const Bytes bytes = pieces.bytes();
    const bool may =
        peer.may_use_ring(bytes) ? transfers_.takes_more() : peer.may_use_datagram(bytes);
    std::byte* const to = may ? peer.reserve(bytes) : nullptr;
    if (to == nullptr || !reads_later(peer, bytes)) {
        return false;
    }
    SendRequest& request = make_send(user);
    request.peer = &peer;
    request.type = MessageType::active;
    request.data.base = const_cast<void*>(pieces.second); // is only read
    request.data.bytes = bytes;
    if (!find_buffer(peer, request, pieces.second_bytes)) {
        return false;
    }
    std::memcpy(to, pieces.first, pieces.first_bytes);
    MessageHeader header;
    header.type = MessageType::active;
    header.flags = pieces.tag;
    header.length = static_cast<std::uint32_t>(bytes);
    return post(request, header, to, pieces.second_bytes) == Outcome::sent;
}

// Takes the buffer that wants() has found for this request.
void GatheredSends::take_claim(SendRequest& request) {
    if (claim_.base == request.data.base && claim_.bytes == request.data.bytes &&
        claim_.use.is_current()) {
        request.buffer.take(claim_.use);
        claim_.base = nullptr;
    }
}

bool GatheredSends::find_buffer(const Peer& peer, SendRequest& request, Bytes payload_bytes) {
    FrequentBuffers& buffers = memory_.frequent(peer.contact.route.fabric);
    RegistrationCache::Use& use = request.buffer;
    if (use.empty() && !buffers.use(request.data.base, payload_bytes, 0, use)) {
        return false;
    }
    if (use.registration().has(rail_to(peer))) {
        return true;
    }
    use.reset();
    return false;
}

// Posts a message whose last `bytes` bytes are in the request's buffer. An error is left to the
// copy, which runs into it as well.
GatheredSends::Outcome GatheredSends::post(SendRequest& request, MessageHeader header,
                                           const std::byte* to, Bytes bytes) {
    if (const Status status = commit(request, header, to, bytes); !status.ok()) {
        request.buffer.reset();
        return status.is_again() ? Outcome::no_room : Outcome::declined;
    }
    return Outcome::sent;
}

Status GatheredSends::commit(SendRequest& request, MessageHeader& header, const std::byte* to,
                             Bytes bytes) {
    Peer& peer = *request.peer;
    const std::uint32_t key = request.buffer.registration().local_key(rail_to(peer));
    const Gather payload{request.data.base, bytes, key};
    request.lends = peer.out.ring == nullptr;
    if (request.lends) {
        LentPayload lent{payload, request.buffer, request, *this};
        const Status status = peer.commit_gathered(header, lent);
        peer.flow.lent += status.ok() ? 1 : 0;
        counters_.datagrams_gathered += status.ok() ? 1 : 0;
        return status;
    }
    const Status status = peer.commit_gathered(header, to, payload, request, *this);
    if (status.ok()) {
        transfers_.on_other_posted();
        ++counters_.messages_gathered;
    }
    return status;
}

void GatheredSends::drop_claim() {
    claim_.base = nullptr;
    claim_.use.reset();
}

void GatheredSends::on_gathered(GatheredMessage& message, GatherEnd end) {
    auto& request = static_cast<SendRequest&>(message);
    request.buffer.reset();
    if (request.lends) {
        --request.peer->flow.lent;
    } else {
        transfers_.on_other_done();
    }
    if (end == GatherEnd::dropped) {
        return;
    }
    const bool lost = end == GatherEnd::lost;
    completions_.complete(*request.user,
                          lost ? OPAL_COMMON_ADAPTIB_UNREACHABLE : OPAL_COMMON_ADAPTIB_SUCCESS,
                          lost ? 0 : request.data.bytes);
}

} // namespace adaptib
