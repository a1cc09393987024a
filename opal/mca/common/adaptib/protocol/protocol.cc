// SPDX-License-Identifier: BSD-3-Clause
// The protocol's life, and how requests end (protocol/protocol.h).
#include "protocol/protocol.h"

namespace adaptib {

namespace {

constexpr std::size_t kStagingKept = 16;

} // namespace

Protocol::Protocol(const Options& options, std::span<const std::unique_ptr<Rail>> rails,
                   Bytes block_bytes, ConnectionManager& connections, Counters& counters,
                   ProtocolListener& listener)
    : options_(options), rails_(rails), connections_(connections), counters_(counters),
      listener_(listener), registrations_(rails, options.registration_cache, counters),
      staging_(rails, block_bytes, kStagingKept), active_max_(options.active_max) {
    register_whole_memory();
}

// What the user never received, and transfers that will not end any more.
Protocol::~Protocol() {
    std::vector<InboundMessage*> left;
    matcher_.for_each_unexpected([&](UnexpectedMessage& message) {
        left.push_back(static_cast<InboundMessage*>(&message));
    });
    for (InboundMessage* message : left) {
        matcher_.remove(*message);
        discard(*message);
    }
    sends_.for_each([](SendTransfer* transfer) { delete transfer; });
    receives_.for_each([](ReceiveTransfer* transfer) { delete transfer; });
    one_sided_.for_each([this](OneSided* operation) { pool_.destroy(operation); });
    copied_.for_each([](CopiedOneSided* operation) { delete operation; });
}

void Protocol::complete(UserRequest& user, int status, Bytes bytes) {
    user.status = status;
    user.bytes = bytes;
    if (&user == starting_) {
        started_complete_ = true;
    } else {
        completed_.push(user);
    }
}

void Protocol::complete_receive(ReceiveRequest& request, const Envelope& envelope,
                                Bytes message_bytes, Bytes received, int failure) {
    UserRequest& user = *request.user;
    user.source = envelope.source;
    user.tag = envelope.tag;
    int status = failure;
    if (failure == OPAL_COMMON_ADAPTIB_SUCCESS && message_bytes > request.data.bytes) {
        status = OPAL_COMMON_ADAPTIB_TRUNCATED;
    }
    complete(user, status, received);
}

} // namespace adaptib
