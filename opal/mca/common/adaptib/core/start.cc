// SPDX-License-Identifier: BSD-3-Clause
// Connections at the start of the job (parameter `connect`).
//
// Each process requests connections to peers at certain distances above it, and gets requests from
// peers below: at distances 1, 2, 4, ... (partial: at most 2 log2 N connections each), or up to
// half of the job (static: all). It requests a few at a time, as progress is made; nothing waits
// for them.
// Source: Yu, Gao, Panda, section 3 (partially static), 5 (the static baseline).
// May touch: the same as core/core.h.
#include <algorithm>
#include <bit>

#include "core/core.h"

namespace adaptib {

namespace {

constexpr std::size_t kAskedAtOnce = 16;

} // namespace

void Core::start_connecting(std::uint32_t rank, std::uint32_t count) {
    if (start_.begun || start_.mode == StartMode::on_demand || count < 2) {
        return;
    }
    start_.begun = true;
    start_.rank = rank;
    start_.count = count;
    const std::uint64_t most = channels_.connections;
    if (rank == 0 && start_.mode == StartMode::all && most > 0 && most < count - 1) {
        on_notice(
            "opal_common_adaptib_connect is static, but opal_common_adaptib_connect_max allows " +
            std::to_string(most) + " connections for the " + std::to_string(count - 1) +
            " peers of each process: the others use the shared queue until there is room.");
    }
    start_.steps = start_.mode == StartMode::all
                       ? count / 2
                       : static_cast<std::uint32_t>(std::bit_width(count - 1));
}

std::uint32_t Core::start_distance(std::uint32_t step) const {
    return start_.mode == StartMode::all ? step + 1 : 1u << step;
}

void Core::connect_some() {
    std::erase_if(start_.asked, [](const Peer* peer) { return !peer->connecting(); });
    while (start_.step < start_.steps && start_.asked.size() < kAskedAtOnce) {
        const std::uint32_t distance = start_distance(start_.step++);
        const std::uint32_t other = (start_.rank + distance) % start_.count;
        const std::uint64_t name = environment_.self - start_.rank + other;
        Peer* peer = peers_.find(name);
        if (peer == nullptr && !make_peer(name, Why::user, peer).ok()) {
            start_.step = start_.steps; // a message told why; the others would fail the same way
            return;
        }
        if (peer->datagram.handle == nullptr || peer->released) {
            continue; // contacted and released since
        }
        connections_->request_if_room(*peer);
        if (peer->connecting()) {
            start_.asked.push_back(peer);
        }
    }
}

} // namespace adaptib
