// SPDX-License-Identifier: BSD-3-Clause
// The C interface over the core (common_adaptib_two_sided.h): tagged messages.
// May touch: every folder of the core; no header of Open MPI.
#include "common_adaptib_two_sided.h"

#include <utility>

#include "base/process_name.h"
#include "interface/handle.h"
#include "protocol/ring_sends.h"

using namespace adaptib;

namespace {

// Bound on the time in which messages of a freed communicator are looked for, while others arrive.
constexpr Nanoseconds kTakeArrived{1'000'000};

// Completes a send that needed no request.
void end_at_once(UserRequest& user, Bytes bytes) {
    user.kind = static_cast<std::uint32_t>(RequestKind::send);
    user.status = OPAL_COMMON_ADAPTIB_SUCCESS;
    user.bytes = bytes;
}

SendCaller caller_of(opal_common_adaptib_op_kind_t op_kind) {
    return op_kind == OPAL_COMMON_ADAPTIB_BLOCKING_COLLECTIVE
               ? SendCaller{OpKind::collective, true}
               : SendCaller{static_cast<OpKind>(op_kind)};
}

[[gnu::always_inline]] inline void note_sent(opal_common_adaptib_core_t* core, const Peer& to,
                                             Bytes bytes) {
    note_event(core->trace, TraceKind::message_sent, {.peer = to.contact.name, .value = bytes});
}

// Reports what a call has ended besides its own request: a receive and a send of this process. The
// user may look at it next, and only once (MPI_Testsome). REQUIRES: this thread has the lock.
[[gnu::noinline]] void report_ended(opal_common_adaptib_core_t* core) {
    CompletedList ended = std::exchange(core->protocol->completed(), {});
    const Unlocked unlocked(core);
    report_completed(ended);
}

// Likewise, for a fast path that has no register for the handle.
[[gnu::noinline]] void report_ended(const TaggedReceives& receives) {
    report_ended(&endpoint_of(receives));
}

// Tries the fast path.
bool try_any(Peer& to, const Envelope& from, const Data& data, bool waits) {
    if (data.base == nullptr) {
        return false;
    }
    return waits ? RingSends::try_send(to, from, data.base, data.bytes)
                 : RingSends::try_isend(to, from, data.base, data.bytes);
}

} // namespace

int opal_common_adaptib_send(opal_common_adaptib_core_t* core, opal_common_adaptib_peer_t* peer,
                             const opal_common_adaptib_envelope_t* envelope,
                             const opal_common_adaptib_data_t* data,
                             opal_common_adaptib_mode_t mode, opal_common_adaptib_op_kind_t op_kind,
                             opal_common_adaptib_request_t* request) noexcept {
    const Guard guard(core);
    Protocol& protocol = *core->protocol;
    Peer* to = peer_of(core, peer);
    const Envelope from = envelope_of(*envelope);
    const bool synchronous = mode == OPAL_COMMON_ADAPTIB_MODE_SYNC;
    const bool tries = mode == OPAL_COMMON_ADAPTIB_MODE_STANDARD;
    const SendCaller caller = caller_of(op_kind);
    if (to != nullptr && !synchronous &&
        ((tries && try_any(*to, from, *data, caller.waits)) ||
         protocol.sends().send_timed(*to, from, *data))) [[likely]] {
        end_at_once(*request, data->bytes);
        note_sent(core, *to, data->bytes);
        return OPAL_COMMON_ADAPTIB_COMPLETE;
    }
    bool complete = false;
    const Status status =
        protocol.sends().send(to, from, *data, synchronous, caller, *request, complete);
    protocol.ask_for_connections();
    if (to == nullptr) {
        report_ended(core);
    }
    return code_of(status, complete);
}

namespace {

// kWaits: the caller waits for the send.
template <bool kWaits>
[[gnu::always_inline]] inline int
try_send(opal_common_adaptib_core_t* core, opal_common_adaptib_peer_t* peer, std::uint32_t context,
         std::int32_t source, std::int32_t tag, const void* base, std::size_t bytes) {
    Peer* to = peer_of(core, peer);
    if (to == nullptr) {
        return OPAL_COMMON_ADAPTIB_AGAIN;
    }
    const Envelope envelope{context, source, tag};
    const bool sent = kWaits ? RingSends::try_send(*to, envelope, base, bytes)
                             : RingSends::try_isend(*to, envelope, base, bytes);
    if (!sent) {
        return OPAL_COMMON_ADAPTIB_AGAIN;
    }
    note_sent(core, *to, bytes);
    return OPAL_COMMON_ADAPTIB_COMPLETE;
}

inline Peer* sender_of(opal_common_adaptib_core* core, opal_common_adaptib_peer_t* peer) {
    return peer == nullptr ? nullptr : peer_of(core, peer);
}

[[gnu::always_inline]] inline int start_receive(opal_common_adaptib_core_t* core,
                                                opal_common_adaptib_peer_t* peer,
                                                const Envelope& pattern, const Data& data,
                                                UserRequest& request) {
    bool complete = false;
    bool ends_own = false;
    TaggedReceives& receives = core->protocol->receives();
    const Status status =
        receives.receive(pattern, data, request, complete, sender_of(core, peer), &ends_own);
    if (ends_own) [[unlikely]] {
        report_ended(receives);
    }
    return code_of(status, complete);
}

[[gnu::always_inline]] inline int recv_contig(opal_common_adaptib_core_t* core,
                                              opal_common_adaptib_peer_t* peer,
                                              std::uint32_t context, std::int32_t source,
                                              std::int32_t tag, void* base, std::size_t bytes,
                                              opal_common_adaptib_request_t* request) {
    const Data data{base, bytes, nullptr, nullptr, nullptr};
    return start_receive(core, peer, {context, source, tag}, data, *request);
}

} // namespace

int opal_common_adaptib_try_send(opal_common_adaptib_core_t* core, opal_common_adaptib_peer_t* peer,
                                 uint32_t context, int32_t source, int32_t tag, const void* base,
                                 size_t bytes) noexcept {
    return guarded<try_send<true>>(core, peer, context, source, tag, base, bytes);
}

int opal_common_adaptib_try_isend(opal_common_adaptib_core_t* core,
                                  opal_common_adaptib_peer_t* peer, uint32_t context,
                                  int32_t source, int32_t tag, const void* base,
                                  size_t bytes) noexcept {
    return guarded<try_send<false>>(core, peer, context, source, tag, base, bytes);
}

void opal_common_adaptib_expect_reuse(opal_common_adaptib_core_t* core,
                                      opal_common_adaptib_peer_t* peer, const void* base,
                                      size_t bytes) noexcept {
    const Guard guard(core);
    if (const Peer* const to = peer_of(core, peer); to != nullptr) {
        core->protocol->memory().frequent(to->contact.route.fabric).expect(base, bytes);
    }
}

int opal_common_adaptib_receive(opal_common_adaptib_core_t* core, opal_common_adaptib_peer_t* peer,
                                const opal_common_adaptib_envelope_t* envelope,
                                const opal_common_adaptib_data_t* data,
                                opal_common_adaptib_request_t* request) noexcept {
    const Guard guard(core);
    return start_receive(core, peer, envelope_of(*envelope), *data, *request);
}

int opal_common_adaptib_recv_contig(opal_common_adaptib_core_t* core,
                                    opal_common_adaptib_peer_t* peer, uint32_t context,
                                    int32_t source, int32_t tag, void* base, size_t bytes,
                                    opal_common_adaptib_request_t* request) noexcept {
    return guarded<recv_contig>(core, peer, context, source, tag, base, bytes, request);
}

namespace {

int nothing_found(opal_common_adaptib_core* core, Peer* from) {
    const bool lost = from != nullptr && core->protocol->lost().is_lost(*from);
    return lost ? OPAL_COMMON_ADAPTIB_UNREACHABLE : OPAL_COMMON_ADAPTIB_NOT_FOUND;
}

opal_common_adaptib_probe_t probe_of(const InboundMessage& message) {
    return {message.envelope.source, message.envelope.tag, message.length};
}

} // namespace

int opal_common_adaptib_probe(opal_common_adaptib_core_t* core, opal_common_adaptib_peer_t* peer,
                              const opal_common_adaptib_envelope_t* envelope,
                              opal_common_adaptib_probe_t* found) noexcept {
    const Guard guard(core);
    Peer* from = sender_of(core, peer);
    const InboundMessage* message = core->protocol->receives().find(envelope_of(*envelope), from);
    if (message == nullptr) {
        return nothing_found(core, from);
    }
    *found = probe_of(*message);
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

int opal_common_adaptib_matched_probe(opal_common_adaptib_core_t* core,
                                      opal_common_adaptib_peer_t* peer,
                                      const opal_common_adaptib_envelope_t* envelope,
                                      opal_common_adaptib_probe_t* found,
                                      opal_common_adaptib_message_t** message) noexcept {
    const Guard guard(core);
    Peer* from = sender_of(core, peer);
    InboundMessage* taken = core->protocol->receives().take(envelope_of(*envelope), from);
    if (taken == nullptr) {
        return nothing_found(core, from);
    }
    *found = probe_of(*taken);
    static_assert(BlockPool::kAlignment % OPAL_COMMON_ADAPTIB_MESSAGE_ALIGNMENT == 0 &&
                  kMaxEndpoints <= OPAL_COMMON_ADAPTIB_MESSAGE_ALIGNMENT);
    *message = reinterpret_cast<opal_common_adaptib_message_t*>(taken);
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

int opal_common_adaptib_matched_receive(opal_common_adaptib_core_t* core,
                                        opal_common_adaptib_message_t* message,
                                        const opal_common_adaptib_data_t* data,
                                        opal_common_adaptib_request_t* request) noexcept {
    const Guard guard(core);
    bool complete = false;
    bool ends_own = false;
    const Status status = core->protocol->receives().receive_taken(
        *reinterpret_cast<InboundMessage*>(message), *data, *request, complete, &ends_own);
    core->protocol->ask_for_connections();
    if (ends_own) {
        report_ended(core);
    }
    return code_of(status, complete);
}

int opal_common_adaptib_cancel(opal_common_adaptib_core_t* core,
                               opal_common_adaptib_request_t* request) noexcept {
    const Guard guard(core);
    return core->protocol->receives().cancel(*request) ? OPAL_COMMON_ADAPTIB_SUCCESS
                                                       : OPAL_COMMON_ADAPTIB_NOT_FOUND;
}

void opal_common_adaptib_end_context(opal_common_adaptib_core_t* core, uint32_t context) noexcept {
    for (const auto& endpoint : core->process.all()) {
        const Guard guard(endpoint.get());
        if (!endpoint->inside) {
            endpoint->inside = true;
            endpoint->core->take_arrived(kTakeArrived);
            endpoint->inside = false;
        }
        endpoint->protocol->receives().end_context(context);
        report_ended(endpoint.get());
    }
}

void opal_common_adaptib_use_accelerators(
    opal_common_adaptib_core_t* core,
    const opal_common_adaptib_accelerators_t* accelerators) noexcept {
    core->process.use_accelerators(accelerators);
}
