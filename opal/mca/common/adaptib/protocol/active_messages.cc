// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/active_messages.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace adaptib {

// -------------------------------------------------------------------------------------------------
// Sender

Status ActiveMessages::send(Peer& peer, std::uint8_t tag, const Data& data, UserRequest& user,
                            bool& complete_now) {
    if (data.bytes > most_) {
        return Status::error(Reason::bad_argument);
    }
    SendRequest& request = make_send(user);
    request.peer = &peer;
    assign(request.data, data);
    request.type = MessageType::active;
    request.tag = tag;
    if (peer.session.lost()) [[unlikely]] {
        lost_.report(peer);
        return Status::error(Reason::unreachable);
    }
    completions_.begin(user);
    if (peer.session.disconnect_sent) [[unlikely]] {
        flow_.queue_send(request);
        if (back_pressure_.restrains()) { // a send of this process waits
            back_pressure_.release_all();
        }
    } else if (peer.out.has_pending() || !transmit(request)) {
        flow_.stall(peer, request);
    }
    complete_now = completions_.end();
    return kOk;
}

bool ActiveMessages::send_timed(Peer& peer, std::uint8_t tag, const void* first, Bytes first_bytes,
                                const void* second, Bytes second_bytes) {
    const Bytes bytes = first_bytes + second_bytes;
    if (peer.flow.learnt_limit == nullptr || bytes < EagerLimit::kTimedFrom || bytes > most_) {
        return false;
    }
    return eager_tuning_.send_active(peer, bytes, [&] {
        return copy_into_ring(peer, tag, first, first_bytes, second, second_bytes);
    });
}

bool ActiveMessages::copy_into_ring(Peer& peer, std::uint8_t tag, const void* first,
                                    Bytes first_bytes, const void* second, Bytes second_bytes) {
    const Bytes bytes = first_bytes + second_bytes;
    std::byte* to = peer.may_use_ring(bytes) ? peer.reserve_in_ring(bytes) : nullptr;
    if (to == nullptr) [[unlikely]] {
        return false;
    }
    copy_small(to, first, first_bytes);
    copy_small(to + first_bytes, second, second_bytes);
    MessageHeader header = header_of(tag, bytes);
    return peer.commit_in_ring(header).ok();
}

bool ActiveMessages::transmit(PendingSend& send) {
    auto& request = static_cast<SendRequest&>(send);
    Peer& peer = *request.peer;
    const Bytes length = request.data.bytes;
    if (length > peer.message_capacity() || request.parts_sent > 0) [[unlikely]] {
        return transmit_parts(request);
    }
    std::byte* to = peer.reserve(length);
    if (to == nullptr) {
        return false;
    }
    const Status packed = gather_all(request.data, 0, to, length);
    if (!packed.ok()) [[unlikely]] {
        peer.abandon(length);
        completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_ERROR, 0);
        return true;
    }
    MessageHeader header = header_of(request.tag, length);
    const Status status = peer.commit(header);
    if (!status.ok()) [[unlikely]] {
        if (status.is_again()) {
            return false;
        }
        end_broken(request, status);
        return true;
    }
    note_event(counters_.trace, TraceKind::active_sent,
               {.peer = peer.contact.name, .value = length});
    flow_.note_sent(peer);
    completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_SUCCESS, length);
    return true;
}

// Returns false if there is no room now; the next call continues with the next part, and nothing
// else goes to the peer before. Data is packed as a whole, so that packing cannot fail between
// parts.
bool ActiveMessages::transmit_parts(SendRequest& request) {
    Peer& peer = *request.peer;
    const Data& data = request.data;
    const Bytes next = std::min<Bytes>(data.bytes - request.parts_sent, peer.message_capacity());
    if (peer.reserve(next) == nullptr) {
        return false; // before anything is packed
    }
    const auto* from = static_cast<const std::byte*>(data.base);
    if (from == nullptr) {
        fragment_.resize(std::max<std::size_t>(fragment_.size(), data.bytes));
        if (!gather_all(data, 0, fragment_.data(), data.bytes).ok()) {
            completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_ERROR, 0);
            return true;
        }
        from = fragment_.data();
    }
    while (request.parts_sent < data.bytes) {
        const Bytes left = data.bytes - request.parts_sent;
        const Bytes bytes = std::min(left, peer.message_capacity());
        std::byte* to = peer.reserve(bytes);
        if (to == nullptr) {
            return false;
        }
        std::memcpy(to, from + request.parts_sent, bytes);
        MessageHeader header = header_of(request.tag, bytes);
        header.type = bytes == left ? MessageType::active : MessageType::active_part;
        const Status status = peer.commit(header);
        if (status.is_again()) {
            return false;
        }
        if (!status.ok()) {
            end_broken(request, status);
            return true;
        }
        request.parts_sent += static_cast<std::uint32_t>(bytes);
        flow_.note_sent(peer);
    }
    completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_SUCCESS, data.bytes);
    return true;
}

// Ends the request, and all else that waits for the peer: its path is broken.
void ActiveMessages::end_broken(SendRequest& request, Status status) {
    Peer& peer = *request.peer;
    completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_UNREACHABLE, 0);
    lost_.lose(peer, reason_text(status.reason()));
    lost_.report(peer);
}

// -------------------------------------------------------------------------------------------------
// Receiver

void ActiveMessages::on_active_part(Peer& peer, const MessageHeader& header,
                                    const std::byte* body) {
    if (header.length == 0 || header.length > most_ - peer.in.parts.size()) {
        ++counters_.bad_packets;
        lost_.lose(peer, "a message in parts is longer than the longest that is ever sent");
        return;
    }
    peer.in.parts.insert(peer.in.parts.end(), body, body + header.length);
}

// Takes the last part of a message, or a message without a handler.
void ActiveMessages::on_active_end(Peer& peer, std::uint8_t tag, const std::byte* body,
                                   Bytes length) {
    if (handler_ == nullptr) {
        ++counters_.bad_packets;
        return;
    }
    std::vector<std::byte> whole = std::exchange(peer.in.parts, {});
    whole.insert(whole.end(), body, body + length);
    handler_(context_, peer, tag, whole.data(), whole.size());
}

} // namespace adaptib
