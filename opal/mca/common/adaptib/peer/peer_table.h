// SPDX-License-Identifier: BSD-3-Clause
// PeerTable: the peers by process name.
//
// Purpose: finds or adds a peer. Memory grows with the number of peers contacted.
// Ownership: owns the peers. Threads: one at a time.
// May touch: base/, peer/.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "peer/peer.h"

namespace adaptib {

class PeerTable {
public:
    Peer* find(std::uint64_t name) const {
        const auto found = peers_.find(name);
        return found == peers_.end() ? nullptr : found->second.get();
    }
    Peer& add(std::unique_ptr<Peer> peer) {
        Peer& added = *peer;
        peers_.insert_or_assign(added.contact.name, std::move(peer));
        return added;
    }
    std::size_t size() const { return peers_.size(); }

    template <typename F> void for_each(F&& f) const {
        for (const auto& [name, peer] : peers_) {
            f(*peer);
        }
    }
    void clear() { peers_.clear(); }

private:
    std::unordered_map<std::uint64_t, std::unique_ptr<Peer>> peers_;
};

} // namespace adaptib
