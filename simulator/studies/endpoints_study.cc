// SPDX-License-Identifier: BSD-3-Clause
// One thread over several endpoints in turn, and a thread for each (Zambre et al., Evaluating
// Multiple Endpoints for MPI with libibverbs, figures 1, 2 and 4).
//
// Measured: messages a second of a stream of 2-byte messages between two hosts into posted
// receives, at most kInFlight sends under way; once with one thread on each host, which uses 1 to
// 16 endpoints in turn; once with a thread for each endpoint.
// Paper: bare verbs, a queue pair and a completion queue for each context, each send signaled; each
// context is posted to until its send queue is full, and then polled, in turn. One context is
// fastest, with more the cycles of a completed send grow. Its figures' values are not in its text,
// which gives 296 cycles a post with one context. Threads are not in it.
// Here: the production core over its rings in the machine model `connect-ib`, whose time of a post
// is the paper's. An idle poll of a ring costs p of AQPS's table 2 in each pass. Each pass of a
// thread polls all of its endpoints; production polls those where something is under way
// (interface/process.cc). A processor does one thing at a time, but calls and matching cost
// nothing: benchmarks/endpoints counts their instructions.
// A thread costs in the model what a process costs, so the two are not compared.
// Bounds (--check), of million messages a second:
//   one thread over one endpoint: 7.957 within 1 %, what the posts and the credit of the core's
//   rings leave of the post's 296 cycles; over k endpoints 0.99 to 1.005 times as many
//   2 threads: 15.47 within 1 %; 16 threads: 27.72 within 2 %, where the adapter is the limit, so
//   that each further work request a message shows
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "simulator/studies/simulated_ranks.h"
#include "simulator/studies/study.h"

namespace {

using namespace adaptib;
using namespace adaptib::study;

constexpr std::uint64_t kInFlight = 64; // of each thread
constexpr std::uint64_t kWarm = 4096;   // messages of each thread before the timed ones
constexpr Bytes kBytes = 2;
constexpr std::array<std::uint32_t, 5> kCounts{1, 2, 4, 8, 16};

// A sender that uses `count` ranks in turn, from `first` on, and the ranks that receive from them.
struct Stream {
    std::uint32_t first = 0;
    std::uint32_t count = 1;
    std::uint32_t first_receiver = 0;
    std::uint64_t sent = 0;
    std::uint64_t under_way = 0;
    std::uint64_t posted = 0;
    std::uint64_t received = 0;
};

class Measurement {
public:
    Measurement(const Study& study, bool one_thread, std::uint32_t count, std::uint64_t seed)
        : study_(study) {
        sim::RanksOptions options;
        options.ranks = 2 * count;
        options.seed = options.world.seed = seed;
        options.world.machine = *sim::machine("connect-ib");
        options.world.topology = sim::crossbar(2, {}, sim::links_of(options.world.machine));
        options.ring_poll = options.world.machine.processor.poll_empty;
        options.counts_by_host = true;
        options.hosts.assign(count, 0);
        options.hosts.insert(options.hosts.end(), count, 1);
        options.endpoints = {count, count};
        options.one_thread = one_thread;
        for (std::uint32_t i = 0; i < (one_thread ? 1 : count); ++i) {
            streams_.push_back({i, one_thread ? count : 1, count + i, 0, 0, 0, 0});
        }
        for (Stream& stream : streams_) {
            ends_.push_back(std::make_unique<Ends>());
            ends_.back()->sent.of = ends_.back()->received.of = &stream;
        }
        options.program = [this](std::size_t rank) { go_on(static_cast<std::uint32_t>(rank)); };
        ranks_ = routed_ranks(study, std::move(options));
    }

    // Messages a second, with `each` messages of a stream.
    double run(std::uint64_t each) {
        play(kWarm);
        const Nanoseconds begin = ranks_->below().world().simulator().now();
        play(each);
        const Nanoseconds took = ranks_->below().world().simulator().now() - begin;
        return static_cast<double>(each * streams_.size()) * 1e9 /
               static_cast<double>(took.count());
    }

private:
    struct End final : Ranks::Waiter {
        void on_end(bool good) override {
            bad = bad || !good;
            if (receives) {
                ++of->received;
            } else {
                --of->under_way;
            }
        }
        explicit End(bool of_receives) : receives(of_receives) {}

        Stream* of = nullptr;
        bool receives;
        bool bad = false;
    };
    struct Ends {
        End sent{false};
        End received{true};
    };

    void play(std::uint64_t each) {
        goal_ += each;
        for (const Stream& stream : streams_) {
            ranks_->below().wake(stream.first);
            ranks_->below().wake(stream.first_receiver);
        }
        const bool ended = ranks_->run_until([&] {
            for (const Stream& stream : streams_) {
                if (stream.received < goal_) {
                    return false;
                }
            }
            return true;
        });
        for (const auto& ends : ends_) {
            if (!ended || ends->sent.bad || ends->received.bad) {
                study_.fail("messages did not arrive");
            }
        }
    }

    // Called in the turns of all endpoints; those of the first one of a thread do the work.
    void go_on(std::uint32_t rank) {
        for (std::size_t i = 0; i < streams_.size(); ++i) {
            Stream& stream = streams_[i];
            if (rank == stream.first_receiver) {
                post_receives(stream, ends_[i]->received);
            } else if (rank == stream.first) {
                send(stream, ends_[i]->sent);
            }
        }
    }
    void post_receives(Stream& stream, End& end) {
        while (stream.posted < goal_ && stream.posted < stream.received + 2 * kInFlight) {
            const auto endpoint = static_cast<std::uint32_t>(stream.posted++ % stream.count);
            ranks_->receive(stream.first_receiver + endpoint, stream.first + endpoint, 0,
                            in_.data(), kBytes, end);
        }
    }
    void send(Stream& stream, End& end) {
        for (std::uint64_t i = 0;
             i < kInFlight && stream.sent < goal_ && stream.under_way < kInFlight; ++i) {
            const auto endpoint = static_cast<std::uint32_t>(stream.sent++ % stream.count);
            ++stream.under_way;
            ranks_->send(stream.first + endpoint, stream.first_receiver + endpoint, 0, out_.data(),
                         kBytes, end);
        }
        if (stream.sent < goal_) {
            ranks_->below().wake(stream.first);
        }
    }

    const Study& study_;
    std::vector<Stream> streams_;
    std::vector<std::unique_ptr<Ends>> ends_; // by stream
    std::uint64_t goal_ = 0;
    std::array<std::byte, kBytes> in_{};
    std::array<std::byte, kBytes> out_{};
    std::unique_ptr<SimulatedRanks> ranks_; // ends first
};

} // namespace

int main(int argc, char** argv) {
    Study study("endpoints", "One thread over several endpoints, and a thread for each",
                "connect-ib");
    study.parse(argc, argv);
    const std::uint64_t messages = study.quick() ? 20'000 : 100'000;
    const auto rate = [&](bool one_thread, std::uint32_t count) {
        return study
            .repeat(study.quick() ? 1 : 3,
                    [&](std::uint64_t seed) {
                        return Measurement(study, one_thread, count, seed).run(messages) * 1e-6;
                    })
            .median;
    };
    Panel panel{"2-byte messages", "million messages a second", false, false, {}, {}};
    double one = 0;
    double least = 1e9;
    for (const std::uint32_t count : kCounts) {
        const std::string k = std::to_string(count);
        const double alone = rate(true, count);
        one = count == 1 ? alone : one;
        least = std::min(least, alone / one);
        study.row("one thread, endpoints: " + k, "M/s", alone, {},
                  count == 1 ? std::optional(around(7.957, 0.01)) : std::nullopt);
        study.row("  against one", "", alone / one, {}, Bound{0.99, 1.005});
        const double threads = rate(false, count);
        study.row(k + " threads, an endpoint each", "M/s", threads, {},
                  count == 2    ? std::optional(around(15.47, 0.01))
                  : count == 16 ? std::optional(around(27.72, 0.02))
                                : std::nullopt);
        panel["one thread"].points.emplace_back(count, alone);
        panel["a thread each"].points.emplace_back(count, threads);
    }
    study.panel(panel);
    study.note("The paper's one thread is fastest with one context (figure 1). Its figures' values "
               "are not in its text, so no row has one.");
    study.note("What threads share (locks, caches, the C library) is not in the model.");
    return study.finish("endpoints: one thread over 2 to 16 in turn sends " + number_text(least) +
                        " times as many messages as over one, at least");
}
