// SPDX-License-Identifier: BSD-3-Clause
// LatePackets: packets that a path delivers late, each by a time of its own.
//
// Purpose: the fault "delay". Packets of one path stay in order, as they do on a wire; those of
// different paths overtake each other.
// Ownership: holds copies of the packets.
// Threads: under the engine's lock.
// May touch: packet.h.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "packet.h"

namespace adaptib::hca {

class LatePackets {
public:
    // Packets that are held at most; more vanish, as in a switch whose buffers are full.
    static constexpr std::size_t kMost = 4096;

    // True if packets of the same path are held, so that this one has to wait behind them.
    bool holds_before(const PacketHeader& packet) const {
        return !held_.empty() && held_.contains(path_of(packet));
    }
    // Holds a packet until then, or until the one before it is due, whichever is later.
    void hold(const PacketHeader& packet, const std::uint8_t* payload, std::int64_t until);
    // Takes the packets that are due, oldest of each path first: f(header, payload).
    template <typename Function> void release(std::int64_t now, Function f) {
        for (auto path = held_.begin(); path != held_.end();) {
            std::deque<Held>& queue = path->second;
            while (!queue.empty() && queue.front().due <= now) {
                const Held held = std::move(queue.front());
                queue.pop_front();
                --count_;
                f(held.header, held.payload.data());
            }
            path = queue.empty() ? held_.erase(path) : std::next(path);
        }
    }
    bool empty() const { return held_.empty(); }
    // Time at which the next packet is due. REQUIRES: !empty().
    std::int64_t next_due() const;

private:
    struct Held {
        PacketHeader header;
        std::vector<std::uint8_t> payload;
        std::int64_t due;
    };
    using Path = std::tuple<std::uint16_t, std::uint16_t, std::uint16_t, std::uint16_t>;
    static Path path_of(const PacketHeader& packet) {
        return {packet.source_port, packet.source_lid, packet.target_port, packet.target_lid};
    }

    std::map<Path, std::deque<Held>> held_; // no path without packets
    std::size_t count_ = 0;
};

} // namespace adaptib::hca
