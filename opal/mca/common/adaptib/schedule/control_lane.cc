// SPDX-License-Identifier: BSD-3-Clause
// Choice of the control lane (schedule/control_lane.h).
#include "schedule/control_lane.h"

#include <algorithm>
#include <vector>

#include "base/invariant.h"
#include "schedule/policies.h"

namespace adaptib {

namespace {

// A port is slower by more than chance if its learnt rate, relative to the nominal one, is worse
// than the best port's by this factor.
constexpr double kNoise = 1.5;
constexpr double kTie = 1 + 1e-9;      // equal rates may differ in their last digits
constexpr std::uint32_t kTurns = 4096; // processes of one host; later ones start over

struct Choice {
    const SubchannelStats* path = nullptr;
    double rate = 0; // of the port
    bool beaten = false;
    std::uint32_t taken = 0; // earlier processes on the port
};

std::vector<Choice> choices_of(std::span<const SubchannelStats> up, const LearntRate& learnt) {
    const auto worth = [&](const SubchannelStats& path) {
        return learnt(path) / nominal_rate(path, up);
    };
    double best = 0;
    bool known = true;
    for (const SubchannelStats& path : up) {
        best = std::max(best, worth(path));
        known = known && worth(path) > 0;
    }
    std::vector<Choice> choices;
    for (const SubchannelStats& path : up) {
        const bool slower = known && worth(path) * kNoise < best;
        choices.push_back(
            {&path, nominal_rate(path, up) * (slower ? worth(path) / best : 1.0), false, 0});
        ADAPTIB_INVARIANT(choices.back().rate > 0, "the rate of a port is positive", path.port);
    }
    for (Choice& choice : choices) {
        choice.beaten = std::any_of(choices.begin(), choices.end(), [&](const Choice& other) {
            return other.path->distance < choice.path->distance && other.rate >= choice.rate;
        });
    }
    return choices;
}

// Returns a path of the port that offers one more process the most; of equal ports the fastest,
// then the first. REQUIRES: choices is not empty; so one at least, the nearest, is not beaten.
Choice& best_of(std::vector<Choice>& choices) {
    const auto is_open = [](const Choice& choice) { return !choice.beaten; };
    auto best = std::find_if(choices.begin(), choices.end(), is_open);
    ADAPTIB_INVARIANT(best != choices.end(), "the nearest of all rails is not beaten",
                      choices.size());
    for (auto at = best + 1; at != choices.end(); ++at) {
        const double mine = (at->taken + 1) / at->rate;
        const double least = (best->taken + 1) / best->rate;
        if (is_open(*at) &&
            (mine * kTie < least || (mine < least * kTie && at->rate > best->rate * kTie))) {
            best = at;
        }
    }
    return *best;
}

} // namespace

std::size_t control_lane_of(std::span<const SubchannelStats> up, std::uint32_t position,
                            const LearntRate& learnt) {
    ADAPTIB_INVARIANT(!up.empty(), "the control lane is one of the subchannels that are up",
                      position);
    if (up.size() == 1) {
        return 0;
    }
    std::vector<Choice> choices = choices_of(up, learnt);
    for (std::uint32_t turns = position % kTurns; turns > 0; --turns) {
        const std::uint32_t port = best_of(choices).path->port;
        for (Choice& choice : choices) {
            choice.taken += choice.path->port == port ? 1 : 0;
        }
    }
    const Choice& chosen = best_of(choices);
    // The processes on one port take turns on its paths.
    const auto of_port = [&](const Choice& each) {
        return !each.beaten && each.path->port == chosen.path->port;
    };
    const auto on_port = std::count_if(choices.begin(), choices.end(), of_port);
    ADAPTIB_INVARIANT(on_port > 0, "the chosen path is of its port", chosen.path->port);
    auto turn = chosen.taken % on_port;
    auto at = std::find_if(choices.begin(), choices.end(), of_port);
    while (turn-- > 0) {
        at = std::find_if(at + 1, choices.end(), of_port);
        ADAPTIB_INVARIANT(at != choices.end(), "each turn has a path", turn, on_port);
    }
    return static_cast<std::size_t>(at - choices.begin());
}

} // namespace adaptib
