// SPDX-License-Identifier: BSD-3-Clause
// Keys of the memory that puts, gets and atomics go to; and operations that the target refuses.
//
// The description that comes with an operation need not be that of its address. osc/rdma (4.1.4 and
// 5.0.7, osc_rdma_dynamic.c) looks the address up in the list of regions of a dynamic window, which
// it shares with the window's owner on the same host, and passes on a pointer into that list after
// it has released the list's lock. When the owner attaches or detaches memory, it moves the
// entries: the pointer then refers to a neighboring entry, or to one half of each. A BTL that needs
// no description, such as vader, does not notice.
//
// So the description is copied once, and taken as a hint. If the initiator sees the target's table
// of regions (Capability::sees_regions), a key that does not cover the operation is replaced by the
// key of a live region that does, and that gives all rights that the description names: memory
// registered for transfers does not stand in for a window's. An operation that no region covers
// ends with an error. On other rails the description has to cover the operation; the list is then a
// private copy, which one thread at a time uses.
//
// An operation may pass this check and be refused all the same (the memory was deregistered
// meanwhile), which fails a queue pair. Only that operation ends with an error; the connection is
// repaired as after a failed path (Core::on_path_failed). With fault_tolerance off, the peer fails.
#include <utility>

#include "protocol/protocol.h"

namespace adaptib {

namespace {

const char* name_of(Opcode opcode) {
    switch (opcode) {
    case Opcode::read: return "get";
    case Opcode::write: return "put";
    default: return "atomic";
    }
}

} // namespace

bool Protocol::sees_regions(const Peer& peer) const {
    return rails_[peer.route.local.first]->info().has(Capability::sees_regions);
}

Status Protocol::find_keys(const Peer& peer, const RemoteRange& range,
                           std::span<std::uint32_t> keys) {
    for (const Subchannel& subchannel : peer.subchannels) {
        if (subchannel.qp == nullptr || subchannel.remote_rail >= keys.size()) {
            continue;
        }
        std::uint32_t& key = keys[subchannel.remote_rail];
        const std::uint32_t given = key;
        const Status status = subchannel.qp->find_key(range, key);
        counters_.keys_replaced += key != given ? 1 : 0;
        if (status.reason() == Reason::bad_key) {
            return status;
        }
    }
    return kOk;
}

// Finds the keys for an operation that begins. Errors: bad_key.
Status Protocol::find_keys(const Peer& peer, const opal_common_adaptib_one_sided_t& operation,
                           opal_common_adaptib_remote_t& remote) {
    // An empty region has a key, of one byte (memory/registration.h).
    if (!sees_regions(peer) || remote.bytes == 0) {
        return covers(remote, operation) ? kOk : Status::error(Reason::bad_key);
    }
    if (peer.state != ConnectState::open) {
        return kOk; // keys are looked up once there is a connection
    }
    const RemoteRange range{operation.remote_address, operation.bytes, access_of(remote.access)};
    return find_keys(peer, range, {remote.keys, remote.key_count});
}

bool Protocol::find_keys(Transfer& transfer) {
    RmaOperation& rma = transfer.rma;
    if (!sees_regions(transfer.peer)) {
        return true;
    }
    rma.keys_found = true;
    const RemoteRange range{rma.remote, rma.length, rma.access};
    return find_keys(transfer.peer, range, {rma.remote_keys, rma.remote_key_count}).ok();
}

void Protocol::on_refused(const Transfer& transfer) {
    report_refused(transfer.peer, transfer.rma.opcode, transfer.rma.length);
}

// Reports once per peer: a program that continues has more such operations.
void Protocol::report_refused(Peer& peer, Opcode opcode, Bytes bytes) {
    if (std::exchange(peer.refusal_reported, true)) {
        return;
    }
    const bool atomic = opcode != Opcode::read && opcode != Opcode::write;
    listener_.on_failure(
        std::string(atomic ? "An " : "A ") + name_of(opcode) + " of " + std::to_string(bytes) +
        " bytes on memory of process " + std::to_string(peer.name & 0xffffffffu) + " on host " +
        peer.address.host +
        " is refused: no memory region registered there allows it at that address.");
}

int Protocol::status_of(const RmaOperation& rma) {
    if (!rma.failed) {
        return OPAL_COMMON_ADAPTIB_SUCCESS;
    }
    return rma.refused ? OPAL_COMMON_ADAPTIB_BAD_PARAM : OPAL_COMMON_ADAPTIB_UNREACHABLE;
}

} // namespace adaptib
