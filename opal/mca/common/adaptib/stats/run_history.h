// SPDX-License-Identifier: BSD-3-Clause
// RunHistory: what a core has moved over its rails and paths at which time, the weights of its
// paths, and the failures and repairs of its rails and connections, for the report.
//
// Purpose: counters tell how much at the end, a trace takes each message. A history has a bounded
// number of samples of few counters, and the latest incidents. Counters::history is null if nobody
// asked for a report in a directory.
// Samples: begin every kFirstInterval. When kMostSamples are there, every second one goes and the
// interval doubles, so that they always cover the whole time.
// Incidents: a ring, whose oldest one a new one replaces. Those of one kind and rail that follow
// each other within kTogether are one with a count: a port that goes down may interrupt the
// connections to a thousand peers. All memory is taken at the construction.
// Threads: one at a time (the core's lock).
// May touch: base/, stats/counters.h, stats/incident.h, stats/incident_queue.h.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "base/wire.h"
#include "stats/counters.h"
#include "stats/incident.h"
#include "stats/incident_queue.h"

namespace adaptib {

struct HistorySample {
    Nanoseconds at{0};                                         // by the core's clock
    std::array<std::uint64_t, kRailBytes.size()> rail_bytes;   // since the start
    std::array<std::uint64_t, kPathWeights.size()> path_bytes; // since the start
    std::array<std::uint16_t, kPathWeights.size()> weights{};  // per mille
};

class RunHistory {
public:
    static constexpr std::size_t kMostSamples = 128;
    static constexpr std::size_t kMostIncidents = 256;
    static constexpr Nanoseconds kFirstInterval = std::chrono::milliseconds{10};
    static constexpr Nanoseconds kTogether = std::chrono::milliseconds{10};

    // Most memory of a history, which belongs to an endpoint.
    static constexpr Bytes kMemory =
        kMostSamples * sizeof(HistorySample) + kMostIncidents * sizeof(Incident);
    static_assert(kMemory <= 40 * 1024);

    RunHistory(const Clock& clock, const Counters& counters);

    // Time of the next sample.
    Nanoseconds due() const { return due_; }
    void sample(Nanoseconds now);
    // A last sample, for what has moved since the one before.
    void end() { sample(clock_.now()); }
    // Sets the incident's time.
    void note(Incident incident);
    // Counts a stripe over a path, by the number of the path. Copies within a host that end inside
    // their call count for their rail alone.
    void add_path_bytes(std::size_t path, Bytes bytes) { path_bytes_[path] += bytes; }

    Nanoseconds start() const { return start_; }
    Nanoseconds interval() const { return interval_; }
    const std::vector<HistorySample>& samples() const { return samples_; } // oldest first
    // Incidents that are left, oldest first.
    std::size_t incidents() const { return noted_ < kMostIncidents ? noted_ : kMostIncidents; }
    const Incident& incident(std::size_t i) const {
        return (*incidents_)[(lost() + i) % kMostIncidents];
    }
    // Incidents that later ones have replaced. Those that are one count as one.
    std::size_t lost() const { return noted_ - incidents(); }

private:
    static constexpr std::size_t kRecent = 8; // incidents that a new one may be one with

    void halve();
    Incident* find_recent(const Incident& incident);

    const Clock& clock_;
    const Counters& counters_;
    const Nanoseconds start_;
    Nanoseconds due_;
    Nanoseconds interval_ = kFirstInterval;
    std::vector<HistorySample> samples_;
    static_assert(kPathWeights.size() == kMaxSubchannels);
    std::array<std::uint64_t, kMaxSubchannels> path_bytes_{};
    std::array<std::uint64_t, kRailBytes.size()> rails_before_; // at the start
    std::unique_ptr<std::array<Incident, kMostIncidents>> incidents_;
    std::size_t noted_ = 0;
};

// Notes the incident in the history, if there is one, and tells those who want to hear of it.
inline void note_incident(const Counters& counters, const Incident& incident) {
    if (counters.history != nullptr) [[unlikely]] {
        counters.history->note(incident);
    }
    if (counters.incidents != nullptr) [[unlikely]] {
        counters.incidents->note(incident);
    }
}

} // namespace adaptib
