// SPDX-License-Identifier: BSD-3-Clause
#include "core/peer_traffic_rows.h"

#include "base/process_name.h"

namespace adaptib {

std::vector<PeerTraffic> peer_traffic_rows(const PeerDirectory& peers,
                                           const AttachedFabrics& fabrics) {
    std::vector<PeerTraffic> rows;
    const auto add = [&](const Peer& peer) {
        PeerTraffic row;
        row.process = process_of(peer.contact.name);
        row.host = peer.contact.address.host;
        row.fabric = fabrics.all()[peer.contact.route.fabric].device ? "verbs" : "shm";
        row.ring = peer.ring_sent();
        row.datagrams = peer.contact.datagrams_sent;
        row.rma = peer.transfers.executed;
        if (!row.empty()) {
            rows.push_back(row);
        }
    };
    peers.for_each(add);
    peers.for_each_loopback(add);
    return rows;
}

} // namespace adaptib
