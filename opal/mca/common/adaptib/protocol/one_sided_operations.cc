// SPDX-License-Identifier: BSD-3-Clause
// Put, get and 64-bit atomics (protocol/one_sided_operations.h).
#include "protocol/one_sided_operations.h"

#include <cstring>
#include <vector>

namespace adaptib {

namespace {

bool is_emulated(const opal_common_adaptib_one_sided_t& operation) {
    return (operation.remote->access & OPAL_COMMON_ADAPTIB_ATOMICS_EMULATED) != 0;
}

bool is_atomic(opal_common_adaptib_operation_t operation) {
    return operation == OPAL_COMMON_ADAPTIB_FETCH_ADD ||
           operation == OPAL_COMMON_ADAPTIB_COMPARE_SWAP;
}

std::uint32_t right_for(opal_common_adaptib_operation_t operation) {
    switch (operation) {
    case OPAL_COMMON_ADAPTIB_PUT: return OPAL_COMMON_ADAPTIB_REMOTE_WRITE;
    case OPAL_COMMON_ADAPTIB_GET: return OPAL_COMMON_ADAPTIB_REMOTE_READ;
    default: return OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC;
    }
}

Opcode opcode_of(opal_common_adaptib_operation_t operation) {
    switch (operation) {
    case OPAL_COMMON_ADAPTIB_PUT: return Opcode::write;
    case OPAL_COMMON_ADAPTIB_GET: return Opcode::read;
    case OPAL_COMMON_ADAPTIB_FETCH_ADD: return Opcode::fetch_add;
    case OPAL_COMMON_ADAPTIB_COMPARE_SWAP: break;
    }
    return Opcode::compare_swap;
}

// Checks all but whether the description covers the operation's memory, which RegionKeys checks.
Status check(const opal_common_adaptib_one_sided_t& operation) {
    if (!RegionKeys::is_sound(*operation.remote, right_for(operation.operation))) {
        return Status::error(Reason::bad_key);
    }
    if (is_atomic(operation.operation) &&
        (operation.bytes != 8 || operation.remote_address % 8 != 0)) {
        return Status::error(Reason::bad_argument);
    }
    return kOk;
}

} // namespace

OneSidedOperations::OneSidedOperations(const Options& options, const Parts& parts, LostPeers& lost,
                                       Counters& counters, const MessageFunction& message)
    : options_(options), memory_(parts.memory), pool_(parts.pool), transfers_(parts.transfers),
      counters_(counters), completions_(parts.completions), lost_(lost),
      synchronous_(parts.synchronous), flow_(parts.flow),
      region_keys_(parts.transfers.region_keys()),
      atomics_(options.self, memory_.windows(), pool_, flush_epochs_, region_keys_, flow_,
               completions_, counters),
      copied_(options.block_bytes, memory_, transfers_, flush_epochs_, completions_, message) {}

OneSidedOperations::~OneSidedOperations() {
    operations_.for_each([this](OneSidedOperation* operation) { pool_.destroy(operation); });
}

Status OneSidedOperations::start(Peer& peer, const opal_common_adaptib_one_sided_t& asked,
                                 const Registration* region, UserRequest& user,
                                 bool& complete_now) {
    complete_now = false;
    // A copy: the user's description may change during the call (protocol/region_keys.h).
    opal_common_adaptib_remote_t remote = *asked.remote;
    opal_common_adaptib_one_sided_t operation = asked;
    operation.remote = &remote;
    Status status = check(operation);
    if (!status.ok()) {
        return status;
    }
    if (operation.bytes == 0) {
        if (!RegionKeys::covers(remote, operation)) {
            return Status::error(Reason::bad_key);
        }
        complete_now = true;
        user.status = OPAL_COMMON_ADAPTIB_SUCCESS;
        user.bytes = 0;
        return kOk;
    }
    if (peer.session.lost()) {
        lost_.report(peer);
        return Status::error(Reason::unreachable);
    }
    if (under_way() >= kMostUnderWay && RegionKeys::is_window(remote)) {
        return Status::error(Reason::no_memory);
    }
    if (is_atomic(operation.operation) && is_emulated(operation)) { // the target finds the memory
        return atomics_.start(peer, operation, opcode_of(operation.operation), user, complete_now);
    }
    const bool may_ask = peer.contact.name != options_.self && region_keys_.may_ask(peer, remote);
    status = region_keys_.find(peer, operation, remote);
    const bool asks = !status.ok() && may_ask;
    if (!status.ok() && !asks) {
        return status;
    }
    if (asks && peer.session.disconnect_sent) {
        return Status::error(Reason::no_memory);
    }
    OneSidedOperation* started = pool_.create<OneSidedOperation>(*this, transfers_, peer);
    if (started == nullptr) {
        return Status::error(Reason::no_memory);
    }
    TransferPlan& rma = started->rma;
    rma.local = static_cast<std::byte*>(operation.local);
    if (region == nullptr) {
        region = local_memory(*started, operation);
        if (region == nullptr) {
            pool_.destroy(started);
            if (asks) {
                return status;
            }
            return copied_.start(peer, operation, opcode_of(operation.operation), user,
                                 complete_now);
        }
    }
    started->user = &user;
    started->id = operations_.add(started);
    started->epoch = flush_epochs_.enter();
    ++peer.transfers.one_sided;
    ++peer.transfers.users;
    ++peer.transfers.rma_operations;
    rma.describe(operation, opcode_of(operation.operation));
    rma.keys.found = peer.session.is_open();
    rma.keys.asked = !may_ask;
    rma.registration = region;
    completions_.begin(user);
    if (asks) [[unlikely]] {
        ask(*started);
    } else {
        transfers_.start_operation(*started);
    }
    complete_now = completions_.end();
    return kOk;
}

// Returns a registration of the operation's memory, or of the bounce buffer that it takes; null:
// the memory cannot be registered.
const Registration*
OneSidedOperations::local_memory(OneSidedOperation& started,
                                 const opal_common_adaptib_one_sided_t& operation) {
    const std::uint32_t fabric = started.peer.contact.route.fabric;
    if (memory_.frequent(fabric).on() && is_plain(operation) &&
        operation.bytes <= BounceBuffers::kBytes) {
        if (const Registration* const found = small_memory(started, operation)) {
            return found;
        }
    }
    return memory_.registered(fabric, started.own, operation.local, operation.bytes, kLocalWrite);
}

// Same for a small put or get. Null: there is no bounce buffer now.
const Registration*
OneSidedOperations::small_memory(OneSidedOperation& started,
                                 const opal_common_adaptib_one_sided_t& operation) {
    const std::uint32_t fabric = started.peer.contact.route.fabric;
    const bool put = operation.operation == OPAL_COMMON_ADAPTIB_PUT;
    if (memory_.frequent(fabric).use(operation.local, operation.bytes, put ? 0u : kLocalWrite,
                                     started.own, FrequentBuffers::Kind::one_sided)) {
        return &started.own.registration();
    }
    if (!memory_.bounce(fabric).take(started.bounce)) {
        return nullptr;
    }
    if (put) {
        std::memcpy(started.bounce.data, operation.local, operation.bytes);
    }
    started.user_memory = put ? nullptr : static_cast<std::byte*>(operation.local);
    started.rma.local = started.bounce.data;
    ++counters_.one_sided_bounced;
    return started.bounce.registration;
}

// Copies what a get has brought, and gives its bounce buffer back.
void OneSidedOperations::end_bounce(OneSidedOperation& operation) {
    if (operation.user_memory != nullptr && !operation.rma.failed) {
        std::memcpy(operation.user_memory, operation.bounce.data, operation.rma.length);
    }
    memory_.bounce(operation.peer.contact.route.fabric).give(operation.bounce);
}

bool OneSidedOperations::try_rma(Peer& peer, const opal_common_adaptib_one_sided_t& operation,
                                 const Registration* region) {
    if (is_plain(operation)) {
        return peer.transfers.synchronous && try_plain_rma(peer, operation, region);
    }
    const Opcode opcode = opcode_of(operation.operation);
    if (is_emulated(operation)) [[unlikely]] {
        return peer.contact.name == options_.self && check(operation).ok() &&
               atomics_.execute_here(operation, opcode);
    }
    if (!peer.transfers.synchronous) {
        return false;
    }
    if (region == nullptr) {
        region = peer.transfers.whole_memory;
    }
    if (region == nullptr || !check(operation).ok() ||
        !RegionKeys::covers(*operation.remote, operation)) {
        return false;
    }
    RmaWork work;
    work.opcode = opcode;
    work.local = operation.local;
    work.length = operation.bytes;
    work.remote_address = operation.remote_address;
    work.compare_add = compare_add_of(operation);
    work.swap = operation.operand;
    const std::span<const std::uint32_t> keys{operation.remote->keys, operation.remote->key_count};
    return synchronous_.execute_atomic(peer, work, *region, keys);
}

void OneSidedOperations::on_rma_done(Transfer& transfer) {
    auto& operation = static_cast<OneSidedOperation&>(transfer);
    const TransferPlan& rma = operation.rma;
    if (rma.failed && rma.failure == TransferFailure::refusal && !rma.keys.asked) [[unlikely]] {
        if (!operation.peer.session.lost()) {
            ask(operation);
            return;
        }
        region_keys_.report_refused(operation.peer, rma.opcode, rma.length);
    }
    UserRequest& user = *operation.user;
    const int status = rma.status();
    const Bytes bytes = rma.length;
    if (operation.bounce.data != nullptr) [[unlikely]] {
        end_bounce(operation);
    }
    --operation.peer.transfers.one_sided;
    --operation.peer.transfers.users;
    --operation.peer.transfers.rma_operations;
    operations_.remove(operation.id);
    flush_epochs_.leave(operation.epoch);
    pool_.destroy(&operation);
    completions_.complete(user, status, status == OPAL_COMMON_ADAPTIB_SUCCESS ? bytes : 0);
}

// -------------------------------------------------------------------------------------------------
// Operations whose description is not that of their memory

// Asks the target for the keys of the operation's memory. If the peer fails, the operation is gone
// afterwards. REQUIRES: nothing of it is posted.
void OneSidedOperations::ask(OneSidedOperation& operation) {
    operation.rma.begin_again();
    operation.rma.failed = false;
    operation.rma.failure = TransferFailure::path;
    operation.rma.keys.asked = true;
    transfers_.ask_for_keys(operation);
}

void OneSidedOperations::on_region_query(Peer& peer, const RegionQueryBody& body,
                                         const Registration* memory) {
    if (const OpenWindow* const window = memory_.windows().find(body.address, body.bytes)) {
        memory = &window->memory();
    }
    RegionKeysBody answer{};
    answer.id = body.id;
    answer.key_epoch = transfers_.key_epoch();
    if (memory != nullptr) {
        memory->copy_remote_keys(answer.keys);
        answer.key_count = memory->key_count();
    }
    flow_.send_one_sided(peer, MessageType::region_keys, &answer, sizeof answer);
}

} // namespace adaptib
