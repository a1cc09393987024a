// SPDX-License-Identifier: BSD-3-Clause
// Flows: starts, stops, ends, and accounting in between (simulator/network/flows.h).
#include "simulator/network/flows.h"

#include <algorithm>
#include <limits>

namespace adaptib::sim {

namespace {

constexpr int kFraction = 22;
constexpr std::uint64_t kFastest = std::uint64_t{1} << 40;
// Units of Flow::left_ in a byte.
constexpr std::uint64_t kByte = std::uint64_t{1'000'000'000} << kFraction;
// A flow that would take longer than this (146 years) never ends.
constexpr std::int64_t kLongest = std::numeric_limits<std::int64_t>::max() / 2;

std::int64_t units(BytesPerSecond rate) {
    return static_cast<std::int64_t>(std::min(rate.value, kFastest) << kFraction);
}

} // namespace

Flow::~Flow() {
    if (active()) {
        flows_->stop(*this);
    }
}

void Flow::End::happen() { flow.flows_->end(flow); }

Flows::Flows(Simulator& simulator, const Topology& topology)
    : simulator_(simulator), links_(topology.links.size()) {
    for (std::size_t l = 0; l < links_.size(); ++l) {
        links_[l].capacity = units(topology.links[l].rate);
    }
}

void Flows::start(Flow& flow, std::span<const LinkIndex> links, Bytes bytes, BytesPerSecond limit) {
    flow.flows_ = this;
    flow.places_.clear();
    flow.left_ = Flow::Wide{bytes} * kByte;
    flow.settled_ = simulator_.now();
    flow.rate_ = 0;
    flow.limit_ = units(limit);
    flow.bottleneck_ = kNoIndex;
    flow.started_at_ = kNoIndex;
    ++active_;
    if (links.empty() && flow.limit_ == 0) {
        flow.left_ = 0;
        simulator_.schedule(flow.end_, simulator_.now());
        return;
    }
    for (const LinkIndex link : links) {
        std::vector<Member>& members = links_[link].members;
        const auto nth = static_cast<std::uint32_t>(flow.places_.size());
        flow.places_.push_back({link, static_cast<std::uint32_t>(members.size())});
        members.push_back({&flow, nth});
        change(link);
    }
    flow.started_at_ = static_cast<std::uint32_t>(started_.size());
    started_.push_back(&flow);
    if (!solving_.scheduled()) {
        simulator_.schedule(solving_, simulator_.now());
    }
}

Bytes Flows::stop(Flow& flow) {
    settle(flow);
    simulator_.cancel(flow.end_);
    detach(flow);
    return static_cast<Bytes>((flow.left_ + (kByte - 1)) / kByte);
}

void Flows::set_rate(LinkIndex link, BytesPerSecond rate) {
    if (links_[link].capacity != units(rate)) {
        links_[link].capacity = units(rate);
        change(link);
    }
}

BytesPerSecond Flows::rate(const Flow& flow) {
    solve();
    if (flow.places_.empty() && flow.limit_ == 0) {
        return {std::numeric_limits<std::uint64_t>::max()};
    }
    return {static_cast<std::uint64_t>(flow.rate_ >> kFraction)};
}

void Flows::change(LinkIndex link) {
    if (!links_[link].changed) {
        links_[link].changed = true;
        changed_.push_back(link);
    }
    if (!solving_.scheduled()) {
        simulator_.schedule(solving_, simulator_.now());
    }
}

void Flows::settle(Flow& flow) {
    const auto took = static_cast<std::uint64_t>((simulator_.now() - flow.settled_).count());
    flow.left_ -= std::min(flow.left_, Flow::Wide{took} * static_cast<std::uint64_t>(flow.rate_));
    flow.settled_ = simulator_.now();
}

void Flows::detach(Flow& flow) {
    for (const Flow::Place& place : flow.places_) {
        LinkState& state = links_[place.link];
        const Member last = state.members.back();
        state.members[place.slot] = last;
        last.flow->places_[last.nth].slot = place.slot;
        state.members.pop_back();
        state.used -= flow.rate_;
        change(place.link);
    }
    if (flow.bottleneck_ != kNoIndex) {
        --links_[flow.bottleneck_].bound;
    }
    if (flow.started_at_ != kNoIndex) {
        started_[flow.started_at_] = nullptr;
    }
    --active_;
    flow.flows_ = nullptr;
}

void Flows::end(Flow& flow) {
    settle(flow);
    detach(flow);
    flow.on_through();
}

void Flows::schedule_end(Flow& flow) {
    if (flow.left_ == 0) {
        return; // its end is an event of this moment
    }
    const auto rate = static_cast<std::uint64_t>(flow.rate_);
    const Flow::Wide takes = rate == 0 ? 0 : (flow.left_ + (rate - 1)) / rate;
    if (takes == 0 || takes > static_cast<std::uint64_t>(kLongest)) {
        simulator_.cancel(flow.end_);
        return;
    }
    simulator_.schedule(flow.end_,
                        simulator_.now() + Nanoseconds{static_cast<std::int64_t>(takes)});
}

} // namespace adaptib::sim
