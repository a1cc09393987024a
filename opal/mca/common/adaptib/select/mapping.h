// SPDX-License-Identifier: BSD-3-Clause
// Which sources deserve a ring of their own, and which of them a connection.
//
// Purpose: given how many messages came from each source during some time, finds the assignment of channels
// that would have saved most time against receiving everything through the shared queue. One pass over the
// busiest sources; equal in result to the published double loop.
// Units: nanoseconds, messages.
// Threads: pure functions.
// Source: Takagi et al., section 3.2 (figure 6) and table 2.
// May touch: base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace adaptib {

struct SourceCount {
    std::uint64_t source = 0; // a process's name
    double count = 0;         // messages; not whole where a part of a period is looked at

    friend bool operator==(const SourceCount&, const SourceCount&) = default;
};

// What a channel is worth. The defaults are those of table 2, measured with Connect-IB adapters.
struct ChannelCosts {
    double shared_ring = 100; // d: a message saves so much in a ring written by a shared queue pair
    double connected_ring = 150;    // r: in one written by a connection
    double poll = 10;               // p: to look at a ring in vain
    double credit = 300;            // c: to send a credit message
    double ring_messages = 16;      // s: messages of a ring, and of one credit message
    double establish_shared = 10e3; // delta: a ring over a shared queue pair
    double establish = 10e3;        // rho: a connection and its ring
    // What a shared queue pair takes to go from one peer to another, which a message pays that is not to the same peer
    // as the one before. 0, as published: as if that cost nothing.
    double change = 0;
    std::size_t initiators = 0; // shared queue pairs: so many peers share them without any change
};

// How many sources are worth a shared ring, at most. Beyond `initiators` each further one makes a shared queue pair change
// for each of its messages: none if that costs more than a ring saves, else any number.
std::size_t shared_most(const ChannelCosts& costs);

struct ChannelLimits {
    std::size_t rings = 256;      // tau
    std::size_t connections = 26; // h
    bool shared_rings = true;     // false: a ring needs a connection
};

// Both sorted; a source is in one of them at most.
struct Mapping {
    std::vector<std::uint64_t> connected;
    std::vector<std::uint64_t> shared;

    std::size_t rings() const { return connected.size() + shared.size(); }
    friend bool operator==(const Mapping&, const Mapping&) = default;
};

struct Choice {
    Mapping mapping;
    double gain = 0; // nanoseconds saved, establishing paid for
};

// `counts` is reordered. Sources without messages get nothing.
Choice find_mapping(std::vector<SourceCount>& counts, const ChannelCosts& costs,
                    const ChannelLimits& limits);

// What a mapping that is there already saves. REQUIRES: `counts` is sorted by source.
double gain_of(const Mapping& mapping, std::span<const SourceCount> counts,
               const ChannelCosts& costs);

} // namespace adaptib
