// SPDX-License-Identifier: BSD-3-Clause
// Ports that fail and come back under a stream of messages (after Vishnu, chapter 10, figures 10.13
// to 10.20: bandwidth over time).
//
// Measured: rank 0 sends rank 1, on another host, messages of 1 MiB, 8 under way, over two adapters
// of each; the bytes that arrive in each 10 ms. At 200 ms the port of rank 1's second adapter goes
// down, or both ports do; at 700 ms they come back. The study checks every message, in order, in 8
// bytes of each 4 KiB. The dissertation's figures are of other faults on other machines, and have
// no numbers to compare: the bounds are ours. Machine model `infinihost`, with registrations that
// cost nothing; the default policy.
// Bounds (--check):
//   no message is lost, doubled or reordered
//   one port down: the remaining half flows, within 2 %; 0.9 of it within a bin of the failure.
//   Both down: nothing flows
//   0.9 of all flows within a bin of the return; the rate at the end is that before within 1 %
//   the connection is repaired twice: without the port, and with it; once if both go
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "simulator/studies/simulated_ranks.h"
#include "simulator/studies/study.h"

namespace {

using namespace adaptib;
using namespace adaptib::study;
using namespace std::chrono_literals;

constexpr Bytes kBytes = kMiB;
constexpr Bytes kStampEvery = 4 * kKiB;
constexpr std::size_t kUnderWay = 8;
constexpr Nanoseconds kBin = 10ms;
constexpr double kBinTime = 10; // ms
constexpr Nanoseconds kFailure = 200ms;
constexpr Nanoseconds kReturn = 700ms;
constexpr Nanoseconds kPass = 2us; // a process that waits in MPI runs its core at least this often
constexpr std::size_t kSteady = 5; // number of bins whose mean counts as a rate

// Messages from rank 0 to rank 1, one after another, several under way.
class Stream {
public:
    explicit Stream(Ranks& ranks) : ranks_(ranks) {
        for (Slot& slot : slots_) {
            slot.sent.resize(kBytes);
            slot.got.resize(kBytes);
        }
    }

    void start() {
        for (Slot& slot : slots_) {
            start(slot);
        }
    }
    // Checks each message that has arrived, and starts another one in its place; messages arrive in
    // order.
    void go_on() {
        for (Slot* slot = &slots_[next_ % kUnderWay]; slot->sending.over && slot->receiving.over;
             slot = &slots_[next_ % kUnderWay]) {
            const bool ok = slot->sending.good && slot->receiving.good && holds(*slot, next_);
            wrong_ += ok ? 0 : 1;
            arrivals_.push_back(ranks_.now(1));
            ++next_;
            start(*slot);
        }
    }

    std::size_t wrong() const { return wrong_; }
    // GB/s in each bin from `begin` on.
    std::vector<double> rates(Nanoseconds begin, Nanoseconds end) const {
        std::vector<double> out(static_cast<std::size_t>((end - begin) / kBin));
        for (const Nanoseconds at : arrivals_) {
            if (at >= begin && at < begin + kBin * static_cast<std::int64_t>(out.size())) {
                out[static_cast<std::size_t>((at - begin) / kBin)] +=
                    static_cast<double>(kBytes) / static_cast<double>(kBin.count());
            }
        }
        return out;
    }

private:
    struct End final : Ranks::Waiter {
        void on_end(bool ended_well) override {
            over = true;
            good = ended_well;
        }
        bool over = false;
        bool good = false;
    };
    struct Slot {
        std::vector<std::byte> sent;
        std::vector<std::byte> got;
        End sending;
        End receiving;
    };

    static void stamp(std::vector<std::byte>& memory, std::uint64_t number) {
        for (Bytes at = 0; at < kBytes; at += kStampEvery) {
            const std::uint64_t value = number * kBytes + at;
            std::memcpy(memory.data() + at + number % (kStampEvery - 8), &value, sizeof value);
        }
    }
    bool holds(const Slot& slot, std::uint64_t number) const {
        for (Bytes at = 0; at < kBytes; at += kStampEvery) {
            std::uint64_t value = 0;
            std::memcpy(&value, slot.got.data() + at + number % (kStampEvery - 8), sizeof value);
            if (value != number * kBytes + at) {
                return false;
            }
        }
        return true;
    }

    void start(Slot& slot) {
        stamp(slot.sent, started_++);
        slot.sending.over = slot.receiving.over = false;
        ranks_.receive(1, 0, 1, slot.got.data(), kBytes, slot.receiving);
        ranks_.send(0, 1, 1, slot.sent.data(), kBytes, slot.sending);
    }

    Ranks& ranks_;
    std::array<Slot, kUnderWay> slots_;
    std::uint64_t started_ = 0;
    std::uint64_t next_ = 0;
    std::size_t wrong_ = 0;
    std::vector<Nanoseconds> arrivals_;
};

struct Outcome {
    double before = 0;     // GB/s
    double during = 0;     // mean, from 50 ms after the failure until the return
    double after = 0;      // mean of the last 200 ms
    double left_after = 0; // ms from the failure until the remaining half flows
    double all_after = 0;  // ms from the return until all flows
    double wrong = 0;
    double repairs = 0;
    std::vector<double> rates;
};

// Mean of bins [from, to).
double mean(const std::vector<double>& rates, std::size_t from, std::size_t to) {
    double sum = 0;
    for (std::size_t i = from; i < to; ++i) {
        sum += rates[i];
    }
    return sum / static_cast<double>(to - from);
}

// Returns the ms from bin `from` to the first kSteady bins in a row with at least that mean rate.
double until(const std::vector<double>& rates, std::size_t from, double rate) {
    for (std::size_t i = from; i + kSteady <= rates.size(); ++i) {
        if (mean(rates, i, i + kSteady) >= rate) {
            return 1e-6 * static_cast<double>(kBin.count()) * static_cast<double>(i - from);
        }
    }
    return 1e9; // never
}

Outcome play(const Study& study, std::size_t failing, Nanoseconds end, std::uint64_t seed) {
    sim::RanksOptions options;
    options.seed = options.world.seed = seed;
    options.world.machine = *sim::machine("infinihost");
    options.world.machine.processor.registration =
        options.world.machine.processor.registration_page = Nanoseconds{0};
    options.world.topology =
        sim::crossbar(2, {.adapters = 2}, sim::links_of(options.world.machine));
    Stream* running = nullptr;
    std::unique_ptr<SimulatedRanks> ranks;
    options.program = [&](std::size_t rank) {
        if (running != nullptr) {
            running->go_on();
            ranks->below().wake(rank, ranks->below().now(rank) + kPass);
        }
    };
    ranks = routed_ranks(study, std::move(options));
    Stream stream(*ranks);
    running = &stream;
    stream.start();
    const auto run_for = [&](Nanoseconds time) {
        ranks->below().run_until([] { return false; }, time);
    };
    const auto set_ports = [&](bool up) {
        sim::World& world = ranks->below().world();
        const auto& ports = world.topology().hosts[1].ports;
        for (std::size_t i = ports.size() - failing; i < ports.size(); ++i) {
            world.set_port(ports[i], up);
        }
    };
    run_for(100ms); // connects, and the policy learns its rails
    const Nanoseconds begin = ranks->now(1);
    run_for(kFailure);
    set_ports(false);
    run_for(kReturn - kFailure);
    set_ports(true);
    run_for(end - kReturn);
    running = nullptr;

    Outcome out;
    out.rates = stream.rates(begin, begin + end);
    const auto bin = [](Nanoseconds time) { return static_cast<std::size_t>(time / kBin); };
    out.before = mean(out.rates, 0, bin(kFailure));
    out.during = mean(out.rates, bin(kFailure + 50ms), bin(kReturn));
    out.after = mean(out.rates, bin(end - 200ms), bin(end));
    const double left = 0.5 * out.before;
    out.left_after = failing == 1 ? until(out.rates, bin(kFailure), 0.9 * left) : 0;
    out.all_after = until(out.rates, bin(kReturn), 0.9 * out.before);
    out.wrong = static_cast<double>(stream.wrong());
    out.repairs = static_cast<double>(ranks->below().counters(0).repairs);
    return out;
}

} // namespace

int main(int argc, char** argv) {
    Study study("failover", "Ports that fail and come back under a stream",
                "machine model infinihost, two adapters");
    study.parse(argc, argv);
    const Nanoseconds end = study.quick() ? 1500ms : 2500ms;
    Panel panel;
    panel.title = "At 200 ms down, at 700 ms up";
    panel.unit = "GB/s";
    panel.log = panel.bytes = false;
    std::string key;
    for (const std::size_t failing : {std::size_t{1}, std::size_t{2}}) {
        const std::string name = failing == 1 ? "one of two ports" : "both ports";
        const Outcome out = play(study, failing, end, study.seed());
        for (std::size_t i = 0; i < out.rates.size(); ++i) {
            panel[name].points.emplace_back(static_cast<double>(i) * 10, out.rates[i]);
        }
        study.row(name + ": before", "GB/s", out.before);
        study.row(name + ": while it is down", "GB/s", out.during, {},
                  failing == 1 ? std::nullopt : std::optional(Bound{0, 0}));
        if (failing == 1) {
            study.row("  of what is left", "", out.during / (0.5 * out.before), {},
                      around(1, 0.02));
            study.row("  flows after", "ms", out.left_after, {}, Bound{0, kBinTime});
        }
        study.row(name + ": back, all flows after", "ms", out.all_after, {}, Bound{0, kBinTime});
        study.row(name + ": at the end, of before", "", out.after / out.before, {},
                  around(1, 0.01));
        study.row(name + ": messages lost, doubled or wrong", "", out.wrong, {}, Bound{0, 0});
        // Without the port, and with it again; without both there is nothing to connect over.
        const double repairs = failing == 1 ? 2 : 1;
        study.row(name + ": repairs of the connection", "", out.repairs, {},
                  Bound{repairs, repairs});
        key += (key.empty() ? "" : "; ") + name + ": " +
               (failing == 1 ? "what is left flows after " + number_text(out.left_after) + " ms, "
                             : std::string()) +
               "all after " + number_text(out.all_after) + " ms";
    }
    study.note("A rate is the mean of 50 ms from there on.");
    study.panel(panel);
    return study.finish(key);
}
