// SPDX-License-Identifier: BSD-3-Clause
#include "stats/peer_traffic.h"

#include <algorithm>
#include <tuple>

namespace adaptib {

void merge_traffic(std::vector<PeerTraffic>& rows, const PeerTraffic& row) {
    if (row.empty()) {
        return;
    }
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const PeerTraffic& each) {
        return each.process == row.process && each.fabric == row.fabric;
    });
    if (same == rows.end()) {
        rows.push_back(row);
        return;
    }
    same->ring.add(row.ring);
    same->datagrams.add(row.datagrams);
    same->rma.add(row.rma);
}

void sort_traffic(std::vector<PeerTraffic>& rows) {
    std::sort(rows.begin(), rows.end(), [](const PeerTraffic& a, const PeerTraffic& b) {
        return std::tie(a.process, a.fabric) < std::tie(b.process, b.fabric);
    });
}

} // namespace adaptib
