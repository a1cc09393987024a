// SPDX-License-Identifier: BSD-3-Clause
// UnconnectedPaths: the paths whose queue pairs could not be connected, or have carried nothing.
//
// Purpose: a connection does without such a path for a while, if there is another one, since a
// retry interrupts the connection. The while doubles with each retry in a row that fails, up to
// kDoublings times.
// Ownership: notes peers by address, and uses only those that the directory still has.
// Threads: one at a time (the core's lock).
// May touch: base/, peer/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/units.h"
#include "peer/peer.h"

namespace adaptib {

class UnconnectedPaths {
public:
    static constexpr Nanoseconds kForgiveAfter{30'000'000'000};
    static constexpr std::uint32_t kDoublings = 6;

    // Returns the while after so many retries in a row that have failed.
    static Nanoseconds rest_after(std::uint32_t retries) {
        return kForgiveAfter * (1 << std::min(retries, kDoublings));
    }

    // `pair`: the path's number in PeerRoute::pairs.
    static bool has(const Peer& peer, std::size_t pair) {
        return pair < kMaxSubchannels && (peer.health.unconnected_paths & (1u << pair)) != 0;
    }
    void add(Peer& peer, std::size_t pair, Nanoseconds until) {
        peer.health.unconnected_paths |= 1u << pair;
        std::erase_if(entries_, [&](const Entry& each) {
            return each.peer == &peer && each.pair == pair;
        });
        entries_.push_back({&peer, pair, until});
        forgive_at_ = std::min(forgive_at_, until);
    }
    // The peer's paths join other rails now.
    static void forget(Peer& peer) { peer.health.unconnected_paths = 0; }
    // max: there are none.
    Nanoseconds deadline() const { return forgive_at_; }
    // Forgives those whose time has come, and calls `retry` with each of the peers that has some.
    // `peers`: of PeerDirectory's kind.
    template <typename Peers, typename Retry>
    void forgive(const Peers& peers, Nanoseconds now, Retry&& retry) {
        std::vector<Entry> due;
        forgive_at_ = Nanoseconds::max();
        for (const Entry& each : std::exchange(entries_, {})) {
            (each.until <= now ? due : entries_).push_back(each);
        }
        for (const Entry& each : entries_) {
            forgive_at_ = std::min(forgive_at_, each.until);
        }
        peers.for_each([&](Peer& peer) {
            const std::uint32_t before = peer.health.unconnected_paths;
            for (const Entry& each : due) {
                if (each.peer == &peer) {
                    peer.health.unconnected_paths &= ~(1u << each.pair);
                }
            }
            if (peer.health.unconnected_paths != before) {
                retry(peer);
            }
        });
    }

private:
    struct Entry {
        const Peer* peer;
        std::size_t pair;
        Nanoseconds until;
    };

    std::vector<Entry> entries_;
    Nanoseconds forgive_at_ = Nanoseconds::max(); // the first of these
};

} // namespace adaptib
