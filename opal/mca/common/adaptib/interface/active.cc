// SPDX-License-Identifier: BSD-3-Clause
// The C interface over the core (common_adaptib_active.h): active messages.
// May touch: every folder of the core; no header of Open MPI.
#include "common_adaptib_active.h"

#include "interface/handle.h"

using namespace adaptib;

namespace {

[[gnu::noinline]] void hand_over_unlocked(opal_common_adaptib_core* core, Peer& peer,
                                          std::uint8_t tag, const std::byte* payload,
                                          Bytes length) {
    const Unlocked unlocked(core);
    core->active(core->active_context, handle_of(core, &peer), tag, payload, length);
}

void hand_over(void* context, Peer& peer, std::uint8_t tag, const std::byte* payload,
               Bytes length) {
    auto* core = static_cast<opal_common_adaptib_core*>(context);
    if (*core->threads) [[unlikely]] {
        hand_over_unlocked(core, peer, tag, payload, length);
        return;
    }
    core->active(core->active_context, handle_of(core, &peer), tag, payload, length);
}

} // namespace

void opal_common_adaptib_active_listen(opal_common_adaptib_core_t* core,
                                       opal_common_adaptib_active_t handler,
                                       void* context) noexcept {
    const Guard guard(core);
    core->active = handler;
    core->active_context = context;
    listen_to_active(core);
}

void adaptib::listen_to_active(opal_common_adaptib_core* core) {
    core->protocol->active().listen(core->active == nullptr ? nullptr : hand_over, core);
}

size_t opal_common_adaptib_active_max(opal_common_adaptib_core_t* core) noexcept {
    return core->protocol->active().most();
}

const size_t* opal_common_adaptib_active_eager(opal_common_adaptib_core_t* core) noexcept {
    return &core->protocol->eager_tuning().active_eager();
}

void opal_common_adaptib_active_declined(opal_common_adaptib_core_t* core,
                                         opal_common_adaptib_peer_t* peer, size_t bytes) noexcept {
    const Guard guard(core);
    if (Peer* to = peer_of(core, peer); to != nullptr) {
        core->protocol->eager_tuning().on_active_declined(*to, bytes);
    }
}

namespace {

[[gnu::always_inline]] inline int active_try_send(opal_common_adaptib_core_t* core,
                                                  opal_common_adaptib_peer_t* peer,
                                                  std::uint8_t tag, const void* first,
                                                  std::size_t first_bytes, const void* second,
                                                  std::size_t second_bytes) {
    Peer* to = peer_of(core, peer);
    const bool sent =
        to != nullptr &&
        (ActiveMessages::try_send(*to, tag, first, first_bytes, second, second_bytes) ||
         core->protocol->active().send_timed(*to, tag, first, first_bytes, second, second_bytes));
    if (!sent) {
        return OPAL_COMMON_ADAPTIB_AGAIN;
    }
    note_event(core->trace, TraceKind::active_sent,
               {.peer = to->contact.name, .value = first_bytes + second_bytes});
    return OPAL_COMMON_ADAPTIB_COMPLETE;
}

} // namespace

int opal_common_adaptib_active_try_send(opal_common_adaptib_core_t* core,
                                        opal_common_adaptib_peer_t* peer, uint8_t tag,
                                        const void* first, size_t first_bytes, const void* second,
                                        size_t second_bytes) noexcept {
    return guarded<active_try_send>(core, peer, tag, first, first_bytes, second, second_bytes);
}

bool opal_common_adaptib_active_gathers(opal_common_adaptib_core_t* core) noexcept {
    return core->protocol->memory().any_frequent();
}

int opal_common_adaptib_active_gather(opal_common_adaptib_core_t* core,
                                      opal_common_adaptib_peer_t* peer, uint8_t tag,
                                      const void* first, size_t first_bytes, const void* second,
                                      size_t second_bytes,
                                      opal_common_adaptib_request_t* request) noexcept {
    const Guard guard(core);
    Peer* const to = peer_of(core, peer);
    const GatheredSends::ActivePieces pieces{tag, first, first_bytes, second, second_bytes};
    if (to == nullptr ||
        !core->protocol->sends().gathered().try_send_active(*to, pieces, *request)) {
        return OPAL_COMMON_ADAPTIB_AGAIN;
    }
    note_event(core->trace, TraceKind::active_sent,
               {.peer = to->contact.name, .value = pieces.bytes()});
    core->protocol->flow().note_sent(*to);
    core->protocol->ask_for_connections();
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

int opal_common_adaptib_active_send(opal_common_adaptib_core_t* core,
                                    opal_common_adaptib_peer_t* peer, uint8_t tag,
                                    const opal_common_adaptib_data_t* data,
                                    opal_common_adaptib_request_t* request) noexcept {
    const Guard guard(core);
    Peer* to = peer_of(core, peer);
    if (to == nullptr) {
        return OPAL_COMMON_ADAPTIB_BAD_PARAM;
    }
    bool complete = false;
    const Status status = core->protocol->active().send(*to, tag, *data, *request, complete);
    core->protocol->ask_for_connections();
    return code_of(status, complete);
}
