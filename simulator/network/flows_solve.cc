// SPDX-License-Identifier: BSD-3-Clause
// Flows: computes the rates of the flows that a change affects.
//
// Some flows are chosen, all others keep their rates. Progressive filling gives the chosen flows a
// max-min fair share of the capacity that the others leave. Then each link of a chosen flow is
// checked: does each flow on it still have its bottleneck, seen with all flows together? Flows that
// do not, and flows that are too fast beside one that does not, are chosen as well, and the round
// is repeated. When no flow is added, every flow runs at its limit or has a bottleneck, which makes
// the rates those of all flows solved together, although most flows were not looked at. After
// kRounds rounds all flows that links connect with a chosen one are chosen, which needs no further
// check.
#include <algorithm>
#include <limits>

#include "simulator/network/flows.h"

namespace adaptib::sim {

namespace {

constexpr int kRounds = 16;

} // namespace

void Flows::solve() {
    if (changed_.empty() && started_.empty()) {
        return;
    }
    simulator_.cancel(solving_);
    for (Flow* flow : started_) {
        if (flow != nullptr) {
            flow->started_at_ = kNoIndex;
            choose(*flow);
        }
    }
    for (const LinkIndex link : changed_) {
        links_[link].changed = false;
        choose_concerned(link);
    }
    started_.clear();
    changed_.clear();
    for (int round = 1;; ++round) {
        prepare_round();
        compute_round();
        if (round_holds()) {
            break;
        }
        if (round == kRounds) {
            choose_all_connected();
        }
    }
    for (Flow* flow : chosen_) {
        apply(*flow);
    }
    chosen_.clear();
}

void Flows::choose(Flow& flow) {
    if (!flow.chosen_) {
        flow.chosen_ = true;
        flow.fixed_ = false;
        chosen_.push_back(&flow);
    }
}

// Chooses the flows whose bottleneck this link is, and those that will be too fast. That saves
// rounds, and makes the rates of all other flows fit even into a link that has become slower.
void Flows::choose_concerned(LinkIndex link) {
    const LinkState& state = links_[link];
    const auto count = static_cast<std::int64_t>(state.members.size());
    const bool full = state.capacity - state.used < count;
    if (count == 0 || (!full && state.bound == 0)) {
        return;
    }
    for (const Member& member : state.members) {
        if (member.flow->bottleneck_ == link ||
            (full && member.flow->rate_ > state.capacity / count)) {
            choose(*member.flow);
        }
    }
}

void Flows::choose_all_connected() {
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
        for (const Flow::Place& place : chosen_[i]->places_) {
            LinkState& state = links_[place.link];
            if (state.changed) {
                continue; // the flag serves as a mark here: all members are chosen already
            }
            state.changed = true;
            changed_.push_back(place.link);
            for (const Member& member : state.members) {
                choose(*member.flow);
            }
        }
    }
    for (const LinkIndex link : changed_) {
        links_[link].changed = false;
    }
    changed_.clear();
}

void Flows::prepare_round() {
    levels_.clear();
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
        Flow& flow = *chosen_[i];
        flow.fixed_ = false;
        if (flow.limit_ != 0) {
            levels_.push_back({flow.limit_, static_cast<std::uint32_t>(i) | Level::kLimit});
        }
        for (const Flow::Place& place : flow.places_) {
            LinkState& state = links_[place.link];
            if (!state.touched) {
                state.touched = true;
                state.left = state.capacity - state.used;
                state.unfixed = 0;
                state.newly_bound = 0;
                touched_.push_back(place.link);
            }
            state.left += flow.rate_;
            ++state.unfixed;
        }
    }
    for (const LinkIndex link : touched_) {
        LinkState& state = links_[link];
        state.chosen = state.unfixed;
        levels_.push_back({state.left / state.unfixed, link});
    }
    std::make_heap(levels_.begin(), levels_.end());
    computed_ += chosen_.size();
}

// Progressive filling: the lowest level is reached next. The level of a link rises when flows on it
// are fixed below it, so the level is computed again when its turn comes.
void Flows::compute_round() {
    for (std::size_t unfixed = chosen_.size(); unfixed > 0;) {
        std::pop_heap(levels_.begin(), levels_.end());
        const Level level = levels_.back();
        levels_.pop_back();
        if ((level.index & Level::kLimit) != 0) {
            Flow& flow = *chosen_[level.index & ~Level::kLimit];
            if (!flow.fixed_) {
                fix(flow, level.rate, kNoIndex);
                --unfixed;
            }
            continue;
        }
        LinkState& state = links_[level.index];
        if (state.unfixed == 0) {
            continue;
        }
        const std::int64_t rate = state.left / state.unfixed;
        if (rate > level.rate) {
            levels_.push_back({rate, level.index});
            std::push_heap(levels_.begin(), levels_.end());
            continue;
        }
        unfixed -= state.unfixed;
        for (std::size_t i = 0; state.unfixed > 0; ++i) {
            Flow& flow = *state.members[i].flow;
            if (flow.chosen_ && !flow.fixed_) {
                fix(flow, rate, level.index);
            }
        }
    }
}

void Flows::fix(Flow& flow, std::int64_t rate, LinkIndex bottleneck) {
    flow.fixed_ = true;
    flow.next_rate_ = rate;
    flow.next_bottleneck_ = bottleneck;
    for (const Flow::Place& place : flow.places_) {
        links_[place.link].left -= rate;
        --links_[place.link].unfixed;
    }
    if (bottleneck != kNoIndex) {
        ++links_[bottleneck].newly_bound;
    }
}

bool Flows::round_holds() {
    const std::size_t chosen = chosen_.size();
    for (const LinkIndex link : touched_) {
        links_[link].touched = false;
        check_link(link);
    }
    touched_.clear();
    return chosen_.size() == chosen;
}

// Chooses flows that have lost their bottleneck on this link, and flows that keep a chosen flow
// from having one.
void Flows::check_link(LinkIndex link) {
    const LinkState& state = links_[link];
    if (state.chosen == state.members.size() || (state.bound == 0 && state.newly_bound == 0)) {
        return;
    }
    const auto slack = static_cast<std::int64_t>(state.members.size());
    const bool full = state.left < slack;
    std::int64_t fastest = 0;
    std::int64_t bound_at = std::numeric_limits<std::int64_t>::max() - slack; // of the chosen flows
    for (const Member& member : state.members) {
        const Flow& flow = *member.flow;
        fastest = std::max(fastest, flow.fixed_ ? flow.next_rate_ : flow.rate_);
        if (flow.fixed_ && flow.next_bottleneck_ == link) {
            bound_at = std::min(bound_at, flow.next_rate_);
        }
    }
    for (const Member& member : state.members) {
        Flow& flow = *member.flow;
        const bool loses = flow.bottleneck_ == link && (!full || fastest > flow.rate_ + slack);
        if (!flow.fixed_ && (loses || flow.rate_ > bound_at + slack)) {
            choose(flow);
        }
    }
}

void Flows::apply(Flow& flow) {
    flow.chosen_ = false;
    flow.fixed_ = false;
    if (flow.bottleneck_ != flow.next_bottleneck_) {
        if (flow.bottleneck_ != kNoIndex) {
            --links_[flow.bottleneck_].bound;
        }
        if (flow.next_bottleneck_ != kNoIndex) {
            ++links_[flow.next_bottleneck_].bound;
        }
        flow.bottleneck_ = flow.next_bottleneck_;
    }
    if (flow.rate_ != flow.next_rate_) {
        settle(flow);
        for (const Flow::Place& place : flow.places_) {
            links_[place.link].used += flow.next_rate_ - flow.rate_;
        }
        flow.rate_ = flow.next_rate_;
        schedule_end(flow);
    }
}

} // namespace adaptib::sim
