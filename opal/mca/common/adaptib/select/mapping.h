// SPDX-License-Identifier: BSD-3-Clause
// Choice of the sources that get a ring of their own, and of those among them that get a
// connection.
//
// Purpose: given how many messages came from each source during some time, finds the assignment of
// channels that would have saved most time against receiving everything through the shared queue.
// One pass over the busiest sources; the result equals that of the published double loop.
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
    double count = 0;         // messages; fractional if a window covers a part of a period

    friend bool operator==(const SourceCount&, const SourceCount&) = default;
};

// Costs and savings of channels. The defaults are those of table 2, measured with Connect-IB
// adapters.
struct ChannelCosts {
    double shared_ring = 100;       // d: saved per message in a ring over a shared queue pair
    double connected_ring = 150;    // r: saved per message in a ring over a connection
    double poll = 10;               // p: a poll of a ring in vain
    double credit = 300;            // c: sending a credit message
    double ring_messages = 16;      // s: messages of a ring, and per credit message
    double establish_shared = 10e3; // delta: setting up a ring over a shared queue pair
    double establish = 10e3;        // rho: setting up a connection and its ring
    // Time for a shared queue pair to change its peer, paid by each message that goes to another
    // peer than the one before. 0, as published: free.
    double change = 0;
    std::size_t initiators = 0; // shared queue pairs: with so many peers nothing ever changes
};

// The most sources that are worth a shared ring. Beyond `initiators` each further source makes a
// shared queue pair change its peer for each of its messages: so none if that costs more than a
// ring saves, else any number.
std::size_t shared_most(const ChannelCosts& costs);

struct ChannelLimits {
    std::size_t rings = 256;      // tau
    std::size_t connections = 26; // h
    bool shared_rings = true;     // false: a ring needs a connection
};

// Both are sorted; a source is in at most one of them.
struct Mapping {
    std::vector<std::uint64_t> connected;
    std::vector<std::uint64_t> shared;

    std::size_t rings() const { return connected.size() + shared.size(); }
    friend bool operator==(const Mapping&, const Mapping&) = default;
};

struct Choice {
    Mapping mapping;
    double gain = 0; // nanoseconds saved, less the cost of setting up
};

// Reorders `counts`. Sources without messages get nothing.
Choice find_mapping(std::vector<SourceCount>& counts, const ChannelCosts& costs,
                    const ChannelLimits& limits);

// Gain of a mapping that is already set up. REQUIRES: `counts` is sorted by source.
double gain_of(const Mapping& mapping, std::span<const SourceCount> counts,
               const ChannelCosts& costs);

} // namespace adaptib
