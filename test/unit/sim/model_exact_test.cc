// SPDX-License-Identifier: BSD-3-Clause
// The model of matching is exact: in small scenes it allows the results of all orders of arrival,
// and no other results.
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

#include "base/random.h"
#include "simulator/torture/model.h"
#include "simulator/torture/payload.h"

namespace adaptib::torture {
namespace {

constexpr int kNone = -1;
constexpr std::uint32_t kReceiver = 9;

// Result of a receive or a probe: a message or kNone; and whether a receive got it at once.
struct Result {
    int message = kNone;
    bool at_once = false;

    friend auto operator<=>(const Result&, const Result&) = default;
};
using Results = std::vector<Result>;

struct Act {
    bool probe = false;
    Envelope pattern;
};

struct Scene {
    std::vector<Envelope> messages; // all are sent before the first act
    std::vector<Act> acts;          // of the one receiver
};

Scene random_scene(Random& random) {
    Scene scene;
    const auto tag = [&] { return static_cast<std::int32_t>(random.below(2)); };
    const auto source = [&] { return static_cast<std::int32_t>(1 + random.below(2)); };
    for (std::uint64_t i = 1 + random.below(4); i > 0; --i) {
        scene.messages.emplace_back(0u, source(), tag());
    }
    for (std::uint64_t i = 1 + random.below(3); i > 0; --i) {
        scene.acts.push_back({random.below(4) == 0,
                              {0, random.below(2) == 0 ? Envelope::kAnySource : source(),
                               random.below(2) == 0 ? Envelope::kAnyTag : tag()}});
    }
    return scene;
}

// Tries every order of arrival; `found` gets the results of each.
class Everything {
public:
    Everything(const Scene& scene, std::set<Results>& found) : scene_(scene), found_(found) {}

    struct State {
        std::size_t act = 0;
        std::vector<bool> arrived;
        std::vector<std::size_t> posted;
        std::vector<std::size_t> unexpected;
        Results results;
    };

    void from(const State& state) {
        bool all = state.act == scene_.acts.size();
        if (!all) {
            State next = state;
            act(next);
            from(next);
        }
        for (std::size_t m = 0; m < scene_.messages.size(); ++m) {
            if (!state.arrived[m]) {
                all = false;
                if (is_next_of_its_sender(state, m)) {
                    State next = state;
                    arrive(next, m);
                    from(next);
                }
            }
        }
        if (all) {
            found_.insert(state.results);
        }
    }

private:
    bool is_next_of_its_sender(const State& state, std::size_t m) const {
        for (std::size_t earlier = 0; earlier < m; ++earlier) {
            if (!state.arrived[earlier] &&
                scene_.messages[earlier].source == scene_.messages[m].source) {
                return false;
            }
        }
        return true;
    }
    void act(State& state) const {
        const std::size_t number = state.act++;
        const Act& what = scene_.acts[number];
        for (std::size_t i = 0; i < state.unexpected.size(); ++i) {
            const std::size_t m = state.unexpected[i];
            if (envelope_matches(what.pattern, scene_.messages[m])) {
                state.results[number] = {static_cast<int>(m), !what.probe};
                if (!what.probe) {
                    state.unexpected.erase(state.unexpected.begin() +
                                           static_cast<std::ptrdiff_t>(i));
                }
                return;
            }
        }
        if (!what.probe) {
            state.posted.push_back(number);
        }
    }
    void arrive(State& state, std::size_t m) const {
        state.arrived[m] = true;
        for (std::size_t i = 0; i < state.posted.size(); ++i) {
            const std::size_t number = state.posted[i];
            if (envelope_matches(scene_.acts[number].pattern, scene_.messages[m])) {
                state.results[number] = {static_cast<int>(m), false};
                state.posted.erase(state.posted.begin() + static_cast<std::ptrdiff_t>(i));
                return;
            }
        }
        state.unexpected.push_back(m);
    }

    const Scene& scene_;
    std::set<Results>& found_;
};

std::set<Results> possible(const Scene& scene) {
    std::set<Results> found;
    Everything::State start;
    start.arrived.assign(scene.messages.size(), false);
    start.results.resize(scene.acts.size());
    Everything(scene, found).from(start);
    return found;
}

// The history of a scene with these results. In the end all messages have arrived, waiting
// receives are cancelled, and each message that is left is received by its envelope. Message
// m has m + 1 bytes.
class Telling {
public:
    Telling(const Scene& scene, const Results& results) {
        for (std::size_t m = 0; m < scene.messages.size(); ++m) {
            const Time started = ++now_;
            history_.messages.push_back({static_cast<std::uint32_t>(m), kReceiver,
                                         scene.messages[m], m + 1, m, false, started, ++now_, 0});
        }
        std::vector<bool> taken(scene.messages.size(), false);
        for (std::size_t a = 0; a < scene.acts.size(); ++a) {
            if (scene.acts[a].probe) {
                probe(scene.acts[a].pattern, results[a].message);
                continue;
            }
            receive(scene.acts[a].pattern, results[a].at_once);
            if (results[a].message != kNone) {
                taken[static_cast<std::size_t>(results[a].message)] = true;
            }
        }
        history_.settled.push_back(++now_);
        std::size_t next = 0;
        for (std::size_t a = 0; a < scene.acts.size(); ++a) {
            if (!scene.acts[a].probe) {
                end(history_.receives[next++], results[a].message);
            }
        }
        for (std::size_t m = 0; m < scene.messages.size(); ++m) {
            if (!taken[m]) {
                end(receive(scene.messages[m], true), static_cast<int>(m));
            }
        }
    }
    const History& history() const { return history_; }

private:
    void probe(const Envelope& pattern, int shown) {
        Probed& probe = history_.probes.emplace_back();
        probe.rank = kReceiver;
        probe.pattern = pattern;
        probe.when = ++now_;
        probe.found = shown != kNone;
        if (probe.found) {
            const SentMessage& message = history_.messages[static_cast<std::size_t>(shown)];
            probe.source = message.envelope.source;
            probe.tag = message.envelope.tag;
            probe.bytes = message.bytes;
        }
    }
    Received& receive(const Envelope& pattern, bool at_once) {
        Received& receive = history_.receives.emplace_back();
        receive.rank = kReceiver;
        receive.pattern = pattern;
        receive.room = 100;
        receive.posted = ++now_;
        receive.at_once = at_once;
        return receive;
    }
    void end(Received& receive, int got) {
        if (got == kNone) {
            receive.cancelled = ++now_;
            return;
        }
        const SentMessage& message = history_.messages[static_cast<std::size_t>(got)];
        receive.completed = ++now_;
        receive.source = message.envelope.source;
        receive.tag = message.envelope.tag;
        receive.bytes = message.bytes;
        receive.digest = payload_digest(message.payload, message.bytes);
    }

    History history_;
    Time now_ = 0;
};

// Visits all results that a scene can claim: each message is received once at most.
void for_each_claim(const Scene& scene, Results& results, std::size_t act,
                    const std::function<void()>& visit) {
    if (act == scene.acts.size()) {
        visit();
        return;
    }
    for (int m = kNone; m < static_cast<int>(scene.messages.size()); ++m) {
        bool received = false;
        for (std::size_t earlier = 0; earlier < act; ++earlier) {
            received = received ||
                       (m != kNone && !scene.acts[earlier].probe && results[earlier].message == m);
        }
        if (received && !scene.acts[act].probe) {
            continue;
        }
        for (const bool at_once : {false, true}) {
            if (!at_once || (m != kNone && !scene.acts[act].probe)) {
                results[act] = {m, at_once};
                for_each_claim(scene, results, act + 1, visit);
            }
        }
    }
}

TEST(Model, AllowsWhatSomeOrderOfArrivalLeadsToAndNothingElse) {
    Random random(1);
    std::size_t legal = 0;
    std::size_t illegal = 0;
    for (int i = 0; i < 300; ++i) {
        const Scene scene = random_scene(random);
        const std::set<Results> right = possible(scene);
        Results results(scene.acts.size());
        for_each_claim(scene, results, 0, [&] {
            const Telling telling(scene, results);
            const auto problems = check(telling.history());
            ASSERT_EQ(problems.empty(), right.count(results) == 1)
                << "scene " << i << ": " << (problems.empty() ? "allowed" : problems[0]);
            ++(problems.empty() ? legal : illegal);
        });
        if (HasFatalFailure()) {
            return;
        }
    }
    EXPECT_GT(legal, 500u);
    EXPECT_GT(illegal, 5000u);
}

} // namespace
} // namespace adaptib::torture
