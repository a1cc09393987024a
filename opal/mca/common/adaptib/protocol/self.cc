// SPDX-License-Identifier: BSD-3-Clause
// Messages of this process to itself: matched like any other, and copied once; an eager message
// that comes before its receive is copied twice.
#include <algorithm>
#include <array>

#include "protocol/tagged_receives.h"

namespace adaptib {

namespace {

// Copies in pieces through a buffer, unless one side is contiguous. A packer stops at the end of an
// element, so this function may ask it for bytes beyond `length`.
Status copy(const Data& from, const Data& to, Bytes length) {
    if (from.base != nullptr) {
        return scatter(to, 0, static_cast<const std::byte*>(from.base), length);
    }
    if (to.base != nullptr && length == from.bytes) {
        return gather_all(from, 0, static_cast<std::byte*>(to.base), length);
    }
    std::array<std::byte, 16 * kKiB> buffer;
    for (Bytes offset = 0; offset < length;) {
        const Bytes got = gather_some(from, offset, buffer.data(),
                                      std::min<Bytes>(buffer.size(), from.bytes - offset));
        if (got == 0) {
            return Status::error(Reason::internal);
        }
        const Status status = scatter(to, offset, buffer.data(), std::min(got, length - offset));
        if (!status.ok()) {
            return status;
        }
        offset += got;
    }
    return kOk;
}

} // namespace

void TaggedReceives::send_to_self(SendRequest& request) {
    ++counters_.self_sent;
    counters_.self_sent_bytes += request.data.bytes;
    if (PostedReceive* posted = matcher_.arrive(request.envelope); posted != nullptr) {
        copy_from_self(request, *static_cast<ReceiveRequest*>(posted));
        return;
    }
    const bool copied =
        request.type == MessageType::eager && request.data.bytes <= options_.eager_limit;
    InboundMessage* message =
        store(request.envelope, request.data.bytes, copied ? request.data.bytes : 0);
    if (message == nullptr) {
        completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_NO_MEMORY, 0);
        return;
    }
    if (!copied) {
        message->type = MessageType::none;
        message->own = &request;
    } else if (!gather_all(request.data, 0, message->payload(), request.data.bytes).ok()) {
        discard(*message);
        completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_ERROR, 0);
        return;
    } else {
        completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_SUCCESS, request.data.bytes);
    }
    matcher_.add_unexpected(*message);
}

// Copies the data, and ends both requests.
void TaggedReceives::copy_from_self(SendRequest& send, ReceiveRequest& receive) {
    const Bytes taken = std::min<Bytes>(send.data.bytes, receive.data.bytes);
    const bool failed = taken > 0 && !copy(send.data, receive.data, taken).ok();
    const int status = failed ? OPAL_COMMON_ADAPTIB_ERROR : OPAL_COMMON_ADAPTIB_SUCCESS;
    completions_.complete_receive(receive, send.envelope, send.data.bytes, taken, status);
    completions_.complete(*send.user, status, send.data.bytes);
}

} // namespace adaptib
