// SPDX-License-Identifier: BSD-3-Clause
// RegionKeys: checks the description of the memory that a put, get or atomic goes to, and finds the
// keys of that memory.
//
// Purpose: the description that comes with an operation need not be that of its address. osc/rdma
// (4.1.4 and 5.0.7, osc_rdma_dynamic.c) looks the address up in the list of regions of a dynamic
// window, which it shares with the window's owner on the same host, and passes on a pointer into
// that list after it has released the list's lock. When the owner attaches or detaches memory, it
// moves the entries: the pointer then refers to a neighboring entry, or to one half of each. A BTL
// that needs no description, such as vader, does not notice.
//
// So the description is copied once, and taken as a hint. If the initiator sees the target's table
// of regions (Capability::sees_regions), a key that does not cover the operation is replaced by the
// key of a live region that does, and that gives all rights that the description names: memory
// registered for transfers does not stand in for a window's. An operation that no region covers
// ends with an error. On other rails (of devices, which carry data within a host, too, if `fabric`
// says so, or for atomics) a description that does not cover the operation is replaced by the
// target's answer: the initiator asks it once which keys the window of that memory has
// (OneSidedOperations::ask). Other descriptions than windows', such as of messages, have to cover.
//
// An operation may pass this check and be refused all the same (the description is half of a
// neighbor's, or the memory was deregistered meanwhile), which fails a queue pair. The initiator
// then asks the target, too. If that has no such window, only that operation ends with an error;
// the connection is repaired as after a failed path (PathReactions::on_path_failed). With
// fault_tolerance off, the peer fails.
// Ownership: refers to the rails and the counters.
// Threads: one at a time (the core's lock).
// May touch: base/, fabric/, peer/, stats/, transfer.h, common_adaptib.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/severity.h"
#include "base/status.h"
#include "base/wire.h"
#include "common_adaptib.h"
#include "fabric/rail.h"
#include "fabric/work.h"
#include "peer/peer.h"
#include "protocol/transfer.h"
#include "stats/counters.h"

namespace adaptib {

class RegionKeys {
public:
    // `rails`: those that PeerContact::route names.
    RegionKeys(RailList rails, Counters& counters, MessageFunction message)
        : rails_(rails), counters_(counters), message_(std::move(message)) {}

    // Returns true for the memory of a window, not of a message.
    static bool is_window(const opal_common_adaptib_remote_t& remote) {
        return (remote.access & OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC) != 0;
    }
    // Returns true if this process can use the description, and the description gives `right`.
    static bool is_sound(const opal_common_adaptib_remote_t& remote, std::uint32_t right) {
        return remote.key_count != 0 && remote.key_count <= kMaxRails &&
               (remote.access & right) != 0;
    }
    // Returns true if the description covers the memory that the operation goes to.
    static bool covers(const opal_common_adaptib_remote_t& remote,
                       const opal_common_adaptib_one_sided_t& operation) {
        return is_within(operation.remote_address, operation.bytes, remote.base, remote.bytes) &&
               remote.base + remote.bytes >= remote.base;
    }
    static bool allows(const opal_common_adaptib_one_sided_t& operation, std::uint32_t right) {
        return covers(*operation.remote, operation) && is_sound(*operation.remote, right);
    }

    // Returns true if the target can be asked for the keys, since the initiator cannot look them
    // up, and the description is a window's.
    bool may_ask(const Peer& peer, const opal_common_adaptib_remote_t& remote) const {
        return is_window(remote) && !sees_regions(peer);
    }
    // Finds the keys for an operation that begins, in `remote`. Errors: bad_key.
    Status find(const Peer& peer, const opal_common_adaptib_one_sided_t& operation,
                opal_common_adaptib_remote_t& remote);
    // Finds the keys for an operation that waited for a connection. Returns false if it is refused.
    bool find(Peer& peer, TransferPlan& rma);
    // The target has no such memory, or denies access: marks the operation, and reports it unless
    // the target can still be asked.
    void refuse(Peer& peer, TransferPlan& rma);
    // Reports once per peer: a program that continues has more such operations.
    void report_refused(Peer& peer, Opcode opcode, Bytes bytes);

private:
    Status find(const Peer& peer, const RemoteRange& range, std::span<std::uint32_t> keys);
    bool sees_regions(const Peer& peer) const;

    RailList rails_;
    Counters& counters_;
    MessageFunction message_;
};

} // namespace adaptib
