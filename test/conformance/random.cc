// SPDX-License-Identifier: BSD-3-Clause
// Conformance: random programs over several connections at once against a model (random_model.h).
// ADAPTIB_SEED=n repeats one seed.
#include <cstdlib>
#include <memory>
#include <vector>

#include "conformance/random_model.h"

namespace adaptib::conformance {
namespace {

class RandomPrograms : public Fixture {
protected:
    RandomLimits limits(std::size_t rail_index) {
        const RailInfo& i = info(rail_index);
        RandomLimits l;
        l.max_gather = std::min(i.max_gather, 4u);
        l.inline_bytes = std::min<Bytes>(i.inline_bytes, 128);
        l.read = i.has(Capability::rdma_read);
        l.write = i.has(Capability::rdma_write);
        l.write_imm = i.has(Capability::write_imm);
        l.atomics = i.has(Capability::atomic64);
        l.fences = world().fences();
        return l;
    }
    std::unique_ptr<RandomConnection> connection(Random& random, RandomLimits l) {
        EndOptions options;
        options.rail = random.below(rail_count());
        options.send_depth = l.send_slots;
        options.receive_depth = l.receive_slots;
        options.max_gather = l.max_gather;
        options.inline_bytes = l.inline_bytes;
        if (random.below(4) == 0) {
            l.largest = 150'000;
            l.remote_bytes = 400'000;
        }
        const std::size_t from = random.below(nodes());
        const std::size_t to = random.below(nodes());
        Pair p = rc_pair(from, to, options);
        const auto buffer = [&](std::size_t node, Bytes size) -> Buffer& {
            return random.below(2) == 0 ? memory(node, size, kAllAccess, options.rail)
                                        : allocated(node, size, kAllAccess, options.rail);
        };
        Buffer& local = buffer(from, l.send_slots * l.largest);
        Buffer& remote = buffer(to, l.remote_bytes);
        Buffer& receives = buffer(to, l.receive_slots * l.largest);
        return std::make_unique<RandomConnection>(p.a, p.b, local, remote, receives, l,
                                                  random.next());
    }
    void program(std::uint64_t seed) {
        SCOPED_TRACE("ADAPTIB_SEED=" + std::to_string(seed));
        Random random(seed);
        std::vector<std::unique_ptr<RandomConnection>> all;
        const std::size_t count = 2 + random.below(5);
        for (std::size_t i = 0; i < count; ++i) {
            all.push_back(connection(random, limits(0)));
        }
        for (int step = 0; step < 3000 && !HasFailure(); ++step) {
            RandomConnection& c = *all[random.below(count)];
            switch (random.below(5)) {
            case 0:
            case 1: c.post_one(); break;
            case 2:
            case 3: c.post_receive_one(); break;
            default:
                poll();
                for (auto& each : all) {
                    each->take_completions();
                }
            }
        }
        std::vector<bool> closed(count, false);
        const bool done = wait([&] {
            bool finished = true;
            for (std::size_t i = 0; i < count; ++i) {
                all[i]->take_completions();
                closed[i] = closed[i] || all[i]->post_last();
                all[i]->post_receive_one();
                finished = finished && closed[i] && all[i]->all_done();
            }
            return finished || HasFailure();
        });
        EXPECT_TRUE(done) << "something never completed";
        for (auto& each : all) {
            each->compare_memory();
        }
    }
};
ADAPTIB_CONFORMANCE(RandomPrograms);

TEST_P(RandomPrograms, MatchTheModel) {
    ADAPTIB_NEEDS(rc);
    if (const char* wanted = std::getenv("ADAPTIB_SEED"); wanted != nullptr) {
        program(std::strtoull(wanted, nullptr, 10));
        return;
    }
    for (std::uint64_t seed = 1; seed <= 12 && !HasFailure(); ++seed) {
        program(seed);
    }
}

} // namespace
} // namespace adaptib::conformance
