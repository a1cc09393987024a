// SPDX-License-Identifier: BSD-3-Clause
// Keys of the memory that puts, gets and atomics go to; operations that the target refuses
// (protocol/region_keys.h).
#include "protocol/region_keys.h"

#include <utility>

#include "base/process_name.h"

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

bool RegionKeys::sees_regions(const Peer& peer) const {
    return rails_[peer.contact.route.local.first]->info().has(Capability::sees_regions);
}

Status RegionKeys::find(const Peer& peer, const RemoteRange& range, std::span<std::uint32_t> keys) {
    for (const Subchannel& subchannel : peer.lanes.subchannels) {
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

Status RegionKeys::find(const Peer& peer, const opal_common_adaptib_one_sided_t& operation,
                        opal_common_adaptib_remote_t& remote) {
    // An empty region has a key, of one byte (memory/registration.h).
    if (!sees_regions(peer) || remote.bytes == 0) {
        return covers(remote, operation) ? kOk : Status::error(Reason::bad_key);
    }
    if (!peer.session.is_open()) {
        return kOk; // keys are looked up once there is a connection
    }
    const RemoteRange range{operation.remote_address, operation.bytes, access_of(remote.access)};
    return find(peer, range, {remote.keys, remote.key_count});
}

bool RegionKeys::find(Peer& peer, TransferPlan& rma) {
    if (!rma.one_sided || rma.keys.found || !sees_regions(peer)) {
        return true;
    }
    rma.keys.found = true;
    const RemoteRange range{rma.remote, rma.length, rma.access};
    if (find(peer, range, {rma.remote_keys, rma.remote_key_count}).ok()) {
        return true;
    }
    refuse(peer, rma);
    return false;
}

void RegionKeys::refuse(Peer& peer, TransferPlan& rma) {
    rma.failed = true;
    rma.failure = TransferFailure::refusal;
    if (rma.keys.asked) {
        report_refused(peer, rma.opcode, rma.length);
    }
}

void RegionKeys::report_refused(Peer& peer, Opcode opcode, Bytes bytes) {
    if (std::exchange(peer.ending.refusal_reported, true)) {
        return;
    }
    const bool atomic = opcode != Opcode::read && opcode != Opcode::write;
    message_(Severity::failure,
             std::string(atomic ? "An " : "A ") + name_of(opcode) + " of " + std::to_string(bytes) +
                 " bytes on memory of process " + rank_text(peer.contact.name) + " on host " +
                 peer.contact.address.host +
                 " is refused: no memory region registered there allows it at that address.");
}

} // namespace adaptib
