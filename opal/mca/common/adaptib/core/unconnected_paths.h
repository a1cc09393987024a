// SPDX-License-Identifier: BSD-3-Clause
// UnconnectedPaths: the paths whose queue pairs could not be connected, or have carried nothing.
//
// Purpose: a connection does without such a path for a while, if there is another one, since a
// retry interrupts the connection. The while doubles with each retry in a row that fails, up to
// kDoublings times; a path that has worked for longer than its last while begins anew.
// Ownership: notes peers by address, and uses only those that the directory still has.
// Threads: one at a time (the core's lock).
// May touch: base/, peer/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "peer/peer.h"

namespace adaptib {

class UnconnectedPaths {
public:
    static constexpr Nanoseconds kForgiveAfter{30'000'000'000};
    static constexpr std::uint32_t kDoublings = 4;

    // Returns the while after so many retries in a row that have failed.
    static Nanoseconds rest_after(std::uint32_t retries) {
        return kForgiveAfter * (1 << std::min(retries, kDoublings));
    }

    // `pair`: the path's number in PeerRoute::pairs.
    static bool has(const Peer& peer, std::size_t pair) {
        return pair < kMaxSubchannels && (peer.health.unconnected_paths & (1u << pair)) != 0;
    }
    // `vain`: queue pairs in a row that have carried nothing; 0: the path could not be connected. A
    // path that was forgiven, and has not failed since, stays so.
    void add(Peer& peer, std::size_t pair, std::uint32_t vain, Nanoseconds now) {
        auto entry = find(peer, pair);
        if (entry == entries_.end()) {
            entry = entries_.insert(entry, {&peer, pair, vain, 0, now});
        } else if (vain != 0 && entry->vain == vain) {
            return;
        } else if (now - entry->until > rest_after(entry->retries)) {
            entry->retries = 0;
        }
        peer.health.unconnected_paths |= 1u << pair;
        entry->vain = vain;
        entry->until = now + rest_after(entry->retries++);
        forgive_at_ = std::min(forgive_at_, entry->until);
    }
    // The peer goes without a connection, and then tries the path once more.
    void spare(const Peer& peer, std::size_t pair, std::uint32_t vain, Nanoseconds now) {
        auto entry = find(peer, pair);
        if (entry == entries_.end()) {
            entry = entries_.insert(entry, {&peer, pair, vain, 0, now});
        }
        entry->vain = vain;
    }
    // The peer's paths join other rails now.
    static void forget(Peer& peer) { peer.health.unconnected_paths = 0; }
    // max: there are none.
    Nanoseconds deadline() const { return forgive_at_; }
    // Forgives those whose time has come, and calls `retry` with each of the peers that has some.
    // `peers`: of PeerDirectory's kind.
    template <typename Peers, typename Retry>
    void forgive(const Peers& peers, Nanoseconds now, Retry&& retry) {
        forgive_at_ = Nanoseconds::max();
        for (const Entry& each : entries_) {
            forgive_at_ = each.until > now ? std::min(forgive_at_, each.until) : forgive_at_;
        }
        peers.for_each([&](Peer& peer) {
            const std::uint32_t before = peer.health.unconnected_paths;
            for (const Entry& each : entries_) {
                if (each.peer == &peer && each.until <= now) {
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
        std::uint32_t vain;
        std::uint32_t retries; // in a row, this one included
        Nanoseconds until;     // forgiven then
    };

    std::vector<Entry>::iterator find(const Peer& peer, std::size_t pair) {
        return std::find_if(entries_.begin(), entries_.end(), [&](const Entry& each) {
            return each.peer == &peer && each.pair == pair;
        });
    }

    std::vector<Entry> entries_; // of paths that were forgiven, too
    Nanoseconds forgive_at_ = Nanoseconds::max(); // the next
};

} // namespace adaptib
