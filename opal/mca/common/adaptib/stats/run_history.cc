// SPDX-License-Identifier: BSD-3-Clause
#include "stats/run_history.h"

#include <algorithm>

namespace adaptib {

RunHistory::RunHistory(const Clock& clock, const Counters& counters)
    : clock_(clock), counters_(counters), start_(clock.now()), due_(start_),
      incidents_(std::make_unique<std::array<Incident, kMostIncidents>>()) {
    samples_.reserve(kMostSamples);
    for (std::size_t i = 0; i < kRailBytes.size(); ++i) {
        rails_before_[i] = counters.*kRailBytes[i];
    }
    sample(start_);
}

void RunHistory::sample(Nanoseconds now) {
    if (samples_.size() == kMostSamples) {
        halve();
    }
    HistorySample& sample = samples_.emplace_back();
    sample.at = now;
    sample.path_bytes = path_bytes_;
    for (std::size_t i = 0; i < kRailBytes.size(); ++i) {
        sample.rail_bytes[i] = counters_.*kRailBytes[i] - rails_before_[i];
    }
    for (std::size_t i = 0; i < kPathWeights.size(); ++i) {
        sample.weights[i] =
            static_cast<std::uint16_t>(std::min<std::uint64_t>(counters_.*kPathWeights[i], 1000));
    }
    due_ = now + interval_;
}

// Keeps the first sample. Those hold sums, so that no bytes are lost with the others.
void RunHistory::halve() {
    for (std::size_t i = 0; i < samples_.size() / 2; ++i) {
        samples_[i] = samples_[2 * i];
    }
    samples_.resize(samples_.size() / 2);
    interval_ *= 2;
}

void RunHistory::note(Incident incident) {
    incident.at = clock_.now();
    if (Incident* const other = find_recent(incident); other != nullptr) {
        ++other->count;
        other->lasted = std::max(other->lasted, incident.lasted);
        return;
    }
    (*incidents_)[noted_++ % kMostIncidents] = incident;
}

// Returns one of the latest that has this kind and rail and is less than kTogether old, or null.
Incident* RunHistory::find_recent(const Incident& incident) {
    for (std::size_t back = 1; back <= std::min(kRecent, incidents()); ++back) {
        Incident& other = (*incidents_)[(noted_ - back) % kMostIncidents];
        if (incident.at - other.at >= kTogether) {
            return nullptr;
        }
        if (other.kind == incident.kind && other.rail == incident.rail) {
            return &other;
        }
    }
    return nullptr;
}

} // namespace adaptib
