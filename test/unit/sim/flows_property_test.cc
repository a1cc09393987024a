// SPDX-License-Identifier: BSD-3-Clause
// Flows against a naive model at random: all rates by progressive filling in floating point after
// every change, and the rest of each flow added up from these rates.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/random.h"
#include "simulator/network/flows.h"
#include "simulator/network/routes.h"

namespace adaptib::sim {
namespace {

struct Tracked final : Flow {
    explicit Tracked(const Simulator& s) : simulator(s) {}
    void on_through() override {
        through = simulator.now();
        ended = true;
    }

    const Simulator& simulator;
    Nanoseconds through{0};
    bool ended = false;
    // State of the naive model:
    bool used = false;
    std::vector<LinkIndex> links;
    long double left = 0; // bytes
    double limit = 0;     // 0: none
    double rate = 0;      // bytes/s
    int changes = 0;
};

class Model {
public:
    Model(Topology t, std::size_t flows, std::uint64_t seed)
        : random(seed), topology(std::move(t)), under_test(simulator, topology) {
        for (const Link& link : topology.links) {
            capacity_.push_back(static_cast<double>(link.rate.value));
        }
        for (std::size_t i = 0; i < flows; ++i) {
            all_.push_back(std::make_unique<Tracked>(simulator));
        }
    }
    virtual ~Model() = default;

    // Makes a few changes at the same moment, then lets some time pass.
    void step() {
        const std::uint64_t changes = 1 + random.below(4);
        for (std::uint64_t i = 0; i < changes; ++i) {
            change();
        }
        fill();
        compare_rates();
        run(Nanoseconds{static_cast<std::int64_t>(random.below(2000))});
    }
    // Gives a rate to links that stand still, and runs until everything has ended.
    void finish() {
        for (LinkIndex l = 0; l < capacity_.size(); ++l) {
            set_rate(l, 1 + random.below(1'000'000'000));
        }
        fill();
        while (!simulator.idle() && !::testing::Test::HasFailure()) {
            step_once();
        }
        EXPECT_EQ(under_test.active(), 0u);
    }

protected:
    virtual void choose_links(std::vector<LinkIndex>& links) {
        for (LinkIndex l = 0; l < capacity_.size(); ++l) {
            if (random.below(capacity_.size()) < 2) {
                links.push_back(l);
            }
        }
    }

    Random random;
    Simulator simulator;
    const Topology topology;

private:
    void change() {
        Tracked& flow = *all_[random.below(all_.size())];
        const std::uint64_t kind = random.below(8);
        if (kind == 0) {
            const std::uint64_t rates[] = {0, 1 + random.below(10), 100'000'000,
                                           1 + random.below(2'000'000'000)};
            set_rate(static_cast<LinkIndex>(random.below(capacity_.size())),
                     rates[random.below(4)]);
        } else if (!flow.used) {
            start(flow);
        } else if (kind < 3 && flow.active()) {
            const Bytes left = under_test.stop(flow);
            EXPECT_NEAR(static_cast<double>(left), std::ceil(static_cast<double>(flow.left)), 1);
            flow.used = false;
        }
    }

    void start(Tracked& flow) {
        flow.links.clear();
        choose_links(flow.links);
        std::uint64_t limit = random.below(3) == 0 ? 1 + random.below(1'000'000'000) : 0;
        if (flow.links.empty() && limit == 0) {
            limit = 500'000'000;
        }
        const Bytes bytes = 1 + random.below(random.below(2) == 0 ? 2000 : 100);
        flow.limit = static_cast<double>(limit);
        flow.left = static_cast<long double>(bytes);
        flow.used = true;
        flow.ended = false;
        flow.rate = 0;
        flow.changes = 0;
        under_test.start(flow, flow.links, bytes, {limit});
    }

    void set_rate(LinkIndex link, std::uint64_t rate) {
        capacity_[link] = static_cast<double>(rate);
        under_test.set_rate(link, {rate});
    }

    // Progressive filling in the simplest way: raises all flows alike, and freezes those that a
    // full link or a limit holds.
    void fill() {
        std::vector<double> left = capacity_;
        std::vector<Tracked*> rising;
        for (const auto& flow : all_) {
            if (flow->used) {
                rising.push_back(flow.get());
            }
        }
        while (!rising.empty()) {
            std::vector<int> count(left.size(), 0);
            for (const Tracked* flow : rising) {
                for (const LinkIndex l : flow->links) {
                    ++count[l];
                }
            }
            double level = HUGE_VAL;
            for (std::size_t l = 0; l < left.size(); ++l) {
                if (count[l] > 0) {
                    level = std::min(level, left[l] / count[l]);
                }
            }
            for (const Tracked* flow : rising) {
                level = flow->limit > 0 ? std::min(level, flow->limit) : level;
            }
            std::vector<Tracked*> held;
            for (Tracked* flow : rising) {
                const bool full =
                    std::any_of(flow->links.begin(), flow->links.end(), [&](LinkIndex l) {
                        return left[l] / count[l] <= level * (1 + 1e-12);
                    });
                if (full || (flow->limit > 0 && flow->limit <= level)) {
                    held.push_back(flow);
                }
            }
            for (Tracked* flow : held) {
                flow->changes += flow->rate != level;
                flow->rate = level;
                for (const LinkIndex l : flow->links) {
                    left[l] = std::max(0.0, left[l] - level);
                }
                std::erase(rising, flow);
            }
        }
    }

    void compare_rates() {
        for (const auto& flow : all_) {
            if (flow->used) {
                ASSERT_TRUE(flow->active());
                const auto rate = static_cast<double>(under_test.rate(*flow).value);
                // rate() is rounded down to a whole byte/s, units of 2^-22 add up to less than 0.1.
                ASSERT_NEAR(rate + 0.5, flow->rate, 0.6 + flow->rate * 1e-9);
            }
        }
    }

    void run(Nanoseconds time) {
        const Nanoseconds until = simulator.now() + time;
        while (!simulator.idle() && simulator.next() <= until) {
            step_once();
        }
        spend(until - simulator.now());
        simulator.advance(until);
    }

    void step_once() {
        const Nanoseconds next = simulator.next();
        spend(next - simulator.now());
        while (!simulator.idle() && simulator.next() == next) {
            simulator.step();
        }
        bool any = false;
        for (const auto& flow : all_) {
            if (flow->used && flow->ended) {
                // A flow ends neither before its last byte, nor a nanosecond later.
                const double tolerance = 1e-6 * flow->changes + 1e-6;
                const double late = static_cast<double>(-flow->left / flow->rate * 1e9L);
                EXPECT_GE(late, -tolerance);
                EXPECT_LE(late, 1 + tolerance);
                flow->used = false;
                any = true;
            }
        }
        if (any) {
            fill();
            compare_rates();
        }
    }

    void spend(Nanoseconds time) {
        for (const auto& flow : all_) {
            if (flow->used) {
                flow->left -= static_cast<long double>(flow->rate) *
                              static_cast<long double>(time.count()) / 1e9L;
                // A flow with less left would have ended before.
                ASSERT_GE(static_cast<double>(flow->left), -flow->rate * 1.001e-9);
            }
        }
    }

    std::vector<double> capacity_;
    Flows under_test;
    std::vector<std::unique_ptr<Tracked>> all_;
};

Topology random_links(Random& random) {
    Topology topology;
    const std::uint64_t count = 1 + random.below(12);
    const bool alike = random.below(2) == 0; // ties
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t rate = alike ? 100'000'000 : 1 + random.below(1'000'000'000);
        topology.links.push_back({.rate = {rate}});
    }
    return topology;
}

TEST(FlowsProperty, AnyLinks) {
    for (std::uint64_t seed = 1; seed <= 400 && !HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        Topology topology = random_links(random);
        Model model(std::move(topology), 1 + random.below(30), random.next());
        for (int i = 0; i < 150 && !HasFailure(); ++i) {
            model.step();
        }
        model.finish();
    }
}

// Chains of links: a change at one end is passed on to the other end.
class Chain final : public Model {
public:
    using Model::Model;

private:
    void choose_links(std::vector<LinkIndex>& links) override {
        const auto first = static_cast<LinkIndex>(random.below(topology.links.size() - 1));
        links = {first, first + 1};
    }
};

TEST(FlowsProperty, Chains) {
    for (std::uint64_t seed = 1; seed <= 30 && !HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Topology topology;
        for (std::uint64_t i = 0; i < 60; ++i) {
            topology.links.push_back({.rate = {100'000'000 + i * 10'000'000}});
        }
        Chain model(std::move(topology), 80, seed);
        for (int i = 0; i < 150 && !HasFailure(); ++i) {
            model.step();
        }
        model.finish();
    }
}

class OnATree final : public Model {
public:
    OnATree(Topology t, std::size_t flows, std::uint64_t seed) : Model(std::move(t), flows, seed) {
        std::string text;
        EXPECT_TRUE(Routes::compute(topology, routes_, text)) << text;
    }

private:
    void choose_links(std::vector<LinkIndex>& links) override {
        const auto from = static_cast<PortIndex>(random.below(topology.ports.size()));
        const auto to = static_cast<PortIndex>(random.below(topology.ports.size()));
        const Lid lid = topology.ports[to].lid + static_cast<Lid>(random.below(2));
        EXPECT_TRUE(routes_.path(topology, from, lid, links));
    }

    Routes routes_;
};

TEST(FlowsProperty, FatTree) {
    for (std::uint64_t seed = 1; seed <= 30 && !HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        OnATree model(fat_tree(4, 3, 4, {}, {.switch_rate = {1'000'000'000}}, 1), 60, seed);
        for (int i = 0; i < 150 && !HasFailure(); ++i) {
            model.step();
        }
        model.finish();
    }
}

} // namespace
} // namespace adaptib::sim
