// SPDX-License-Identifier: BSD-3-Clause
// Hot spots that move, and other jobs on the same switches: no paper's figure.
//
// Two ranks on different leaves of a switch of 144 ports, random routes, messages of 1 MB one after
// another; four other flows on each of the spines that the first four of twelve paths take. After
// 100 messages these flows end and come back on the next four paths; after 100 more they end for
// good. In a second part a displaced ring of 24 ranks in order runs while 60 endless flows go
// between hosts of other leaves and these, each at 100 MB/s.
// Over flows (flow_ranks.h), machine model infinihost-iii.
// Bounds (--check):
//   bss (12, 3) and auto over 12 paths: messages 41 to 50 after the move take as long as before,
//   within 1 %
//   auto: when the hot spot is gone, one path's time without any, within 1 %, over one path again
//   background jobs: auto over 8 paths takes 0.52 of one path's time, within 10 % (the seeds'
//   spread)
#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "simulator/studies/multipath.h"

namespace {

using namespace adaptib;
using namespace adaptib::study;

constexpr std::uint32_t kSender = 0;    // host, on the first leaf
constexpr std::uint32_t kReceiver = 12; // host, on the second leaf
constexpr Bytes kBytes = 1'000'000;
constexpr int kMessages = 100;

class Scene {
public:
    Scene(const Study& study, const PathPolicy& policy)
        : study_(study), ranks_(flow_ranks(study, {Routing::Kind::random, study.seed()}, policy,
                                           {kSender, kReceiver})) {}

    // Adds four flows on the way from the first leaf up to the spine of each of these paths.
    void crowd(std::uint32_t first_path, std::uint32_t paths) {
        ranks_->unload();
        for (std::uint32_t k = first_path; k < first_path + paths; ++k) {
            const sim::LinkIndex up = uplink(kSender, kReceiver, k);
            int left = 4;
            for (std::uint32_t from = 1; from < 12 && left > 0; ++from) {
                for (std::uint32_t j = 0; j < 12 && left > 0; ++j) {
                    if (uplink(from, 12 + from, j) == up) {
                        ranks_->load(from, 12 + from, j, {0});
                        --left;
                        break;
                    }
                }
            }
            if (left > 0) {
                study_.fail("not enough flows for a hot spot");
            }
        }
    }
    void clear() { ranks_->unload(); }

    // Seconds of each of kMessages messages.
    std::vector<double> messages() {
        std::vector<double> times;
        Pattern pattern;
        pattern.name = "message";
        pattern.ranks.resize(2, std::vector<Step>(1));
        pattern.ranks[0][0].sends.push_back({1, kBytes});
        pattern.ranks[1][0].receives.push_back({0, kBytes});
        for (int i = 0; i < kMessages; ++i) {
            Timing timing;
            std::string text;
            if (!replay(pattern, *ranks_, timing, text)) {
                study_.fail(text);
            }
            times.push_back(1e-9 * static_cast<double>(timing.total.count()));
        }
        return times;
    }

private:
    sim::LinkIndex uplink(std::uint32_t from, std::uint32_t to, std::uint32_t k) {
        const sim::Topology& topology = ranks_->network().topology();
        const sim::PortIndex target = topology.hosts[to].ports.front();
        const sim::Path* path = ranks_->network().path(topology.hosts[from].ports.front(),
                                                       topology.ports[target].lid + k);
        return path->links.at(1);
    }

    const Study& study_;
    std::unique_ptr<FlowRanks> ranks_;
};

// Median of times[from, to).
double median(const std::vector<double>& times, int from, int to) {
    std::vector<double> some(times.begin() + from, times.begin() + to);
    std::nth_element(some.begin(), some.begin() + (to - from) / 2, some.end());
    return some[static_cast<std::size_t>((to - from) / 2)];
}

double background_seconds(const Study& study, const PathPolicy& policy) {
    constexpr std::uint32_t kRanks = 24;
    const auto ranks =
        flow_ranks(study, {Routing::Kind::random, study.seed()}, policy, in_order(kRanks));
    Random random(study.seed());
    for (int i = 0; i < 60; ++i) { // half of them into the two leaves, half out of them
        const auto other = static_cast<std::uint32_t>(24 + random.below(120));
        const auto one = static_cast<std::uint32_t>(random.below(kRanks));
        ranks->load(i % 2 == 0 ? one : other, i % 2 == 0 ? other : one, 0, {100'000'000});
    }
    return run(study, *ranks, displaced_ring(kRanks, 256 * kKiB), study.quick() ? 6 : 12,
               study.quick() ? 1 : 3)
        .seconds;
}

} // namespace

int main(int argc, char** argv) {
    Study study("moving_hot_spot", "Hot spots that move and go; background jobs",
                "machine model infinihost-iii, flows");
    study.parse(argc, argv);
    const std::vector<PathPolicy> policies{kOnePath,
                                           {"even, 12 paths", "even", 12},
                                           {"adaptive, 12 paths", "adaptive", 12},
                                           {"bss (12, 3)", "bss", 12, 12, 3},
                                           {"auto, 12 paths", "auto", 12}};
    Panel panel;
    panel.title = "Hot spot on paths 0-3, then 4-7, then none";
    panel.unit = "us a message";
    panel.log = panel.bytes = false;
    double free_time = 0;
    std::string key;
    for (const PathPolicy& policy : policies) {
        Scene scene(study, policy);
        if (free_time == 0) {
            free_time = median(scene.messages(), 0, kMessages);
        }
        scene.crowd(0, 4);
        std::vector<double> times = scene.messages();
        const double before = median(times, 50, kMessages);
        scene.crowd(4, 4);
        const std::vector<double> moved = scene.messages();
        const double after = median(moved, 40, 50);
        times.insert(times.end(), moved.begin(), moved.end());
        scene.clear();
        const std::vector<double> gone = scene.messages();
        times.insert(times.end(), gone.begin(), gone.end());
        for (std::size_t i = 0; i < times.size(); ++i) {
            panel[policy.name].points.emplace_back(static_cast<double>(i), 1e6 * times[i]);
        }
        const bool follows = policy.striping == "bss" || policy.striping == "auto";
        study.row(policy.name + ": before the move", "us", 1e6 * before);
        study.row(policy.name + ": the first after it", "us", 1e6 * moved.front());
        study.row(policy.name + ": messages 41 to 50 after it", "us", 1e6 * after);
        study.row("  of those before", "", after / before, {},
                  follows ? std::optional<Bound>(around(1, 0.01)) : std::nullopt);
        study.row(policy.name + ": hot spot gone, of one path's without any", "",
                  median(gone, 80, kMessages) / free_time, {},
                  policy.striping == "auto" ? std::optional<Bound>(around(1, 0.01)) : std::nullopt);
        if (follows) {
            key += (key.empty() ? "" : "; ") + policy.name + ": 50 messages after a move " +
                   number_text(after / before) + " of the time before";
        }
    }
    study.panel(panel);
    const double one = background_seconds(study, kOnePath);
    study.row("displaced ring beside 60 other flows: auto, 8 paths", "of one path's time",
              background_seconds(study, {"auto", "auto", 8}) / one, {}, around(0.52, 0.1));
    if (!study.quick()) {
        study.row("displaced ring beside 60 other flows: adaptive, 4 paths", "of one path's time",
                  background_seconds(study, {"adaptive", "adaptive", 4}) / one);
        study.row("displaced ring beside 60 other flows: bss (12, 3)", "of one path's time",
                  background_seconds(study, {"bss", "bss", 12, 12, 3}) / one);
    }
    return study.finish(key);
}
