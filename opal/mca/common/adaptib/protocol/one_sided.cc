// SPDX-License-Identifier: BSD-3-Clause
// Put, get and 64-bit atomics: straight to RDMA, without order and without sequence numbers (Vishnu, 5.2).
#include <algorithm>
#include <atomic>

#include "protocol/protocol.h"

namespace adaptib {

namespace {

bool is_asked(const opal_common_adaptib_one_sided_t& operation) {
    return (operation.remote->access & OPAL_COMMON_ADAPTIB_ATOMICS_ASKED) != 0;
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

Status check(const opal_common_adaptib_one_sided_t& operation) {
    const opal_common_adaptib_remote_t& remote = *operation.remote;
    const bool inside = operation.remote_address >= remote.base &&
                        operation.bytes <= remote.bytes &&
                        operation.remote_address - remote.base <= remote.bytes - operation.bytes;
    if (!inside || remote.base + remote.bytes < remote.base || remote.key_count == 0 ||
        remote.key_count > kMaxRails || (remote.access & right_for(operation.operation)) == 0) {
        return Status::error(Reason::bad_key);
    }
    if (is_atomic(operation.operation) &&
        (operation.bytes != 8 || operation.remote_address % 8 != 0)) {
        return Status::error(Reason::bad_argument);
    }
    return kOk;
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

} // namespace

Status Protocol::start_one_sided(Peer& peer, const opal_common_adaptib_one_sided_t& operation,
                                 const Registration* region, UserRequest& user,
                                 bool& complete_now) {
    complete_now = false;
    Status status = check(operation);
    if (!status.ok()) {
        return status;
    }
    if (operation.bytes == 0) {
        complete_now = true;
        user.status = OPAL_COMMON_ADAPTIB_SUCCESS;
        user.bytes = 0;
        return kOk;
    }
    if (peer.state == ConnectState::failed) {
        tell_failure(peer);
        return Status::error(Reason::unreachable);
    }
    if (is_atomic(operation.operation) && is_asked(operation)) {
        return start_atomic(peer, operation, opcode_of(operation.operation), user, complete_now);
    }
    OneSided* started = pool_.create<OneSided>(*this, peer);
    if (started == nullptr) {
        return Status::error(Reason::no_memory);
    }
    Move& move = started->move;
    if (region == nullptr) {
        region = registered(peer, started->own, operation.local, operation.bytes, kLocalWrite);
        if (region == nullptr) {
            pool_.destroy(started);
            return start_copied(peer, operation, opcode_of(operation.operation), user,
                                complete_now);
        }
    }
    started->user = &user;
    started->id = one_sided_.add(started);
    ++peer.one_sided;
    ++peer.users;
    move.describe(operation, opcode_of(operation.operation));
    move.local = static_cast<std::byte*>(operation.local);
    move.registration = region;
    starting_ = &user;
    started_complete_ = false;
    start_operation(*started);
    starting_ = nullptr;
    complete_now = started_complete_;
    return kOk;
}

bool Protocol::one_sided_at_once(Peer& peer, const opal_common_adaptib_one_sided_t& operation,
                                 const Registration* region) {
    if (is_atomic(operation.operation) && is_asked(operation)) [[unlikely]] {
        return peer.name == options_.self && check(operation).ok() &&
               atomic_here(operation, opcode_of(operation.operation));
    }
    if (region == nullptr) {
        region = reach(peer).all();
    }
    if (region == nullptr || !check(operation).ok()) {
        return false;
    }
    SendWork work;
    work.opcode = opcode_of(operation.operation);
    work.remote_address = operation.remote_address;
    work.compare_add = compare_add_of(operation);
    work.swap = operation.operand;
    const opal_common_adaptib_remote_t& remote = *operation.remote;
    const std::span<const std::uint32_t> keys{remote.keys, remote.key_count};
    if (peer.ask_choices != nullptr && operation.bytes <= kMostAsked && operation.bytes > 0) {
        return start_by_choice(peer, work, *region, operation.local, operation.bytes, keys);
    }
    return execute(peer, work, *region, operation.local, operation.bytes, keys);
}

void OneSided::on_move_done() { protocol.on_one_sided_done(*this); }

void Protocol::on_one_sided_done(OneSided& operation) {
    UserRequest& user = *operation.user;
    const bool failed = operation.move.failed;
    const Bytes bytes = operation.move.length;
    --operation.peer.one_sided;
    --operation.peer.users;
    one_sided_.remove(operation.id);
    pool_.destroy(&operation);
    complete(user, failed ? OPAL_COMMON_ADAPTIB_UNREACHABLE : OPAL_COMMON_ADAPTIB_SUCCESS,
             failed ? 0 : bytes);
}

} // namespace adaptib
