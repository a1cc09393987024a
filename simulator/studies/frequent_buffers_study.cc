// SPDX-License-Identifier: BSD-3-Clause
// Small messages from buffers that are used again and again (Rashti and Afsahi, 5.1).
//
// Sends: production's table and registration cache decide which message is gathered; what a message
// costs follows from a model, not from complete cores:
//   latency = latency copied - C if gathered + what the lookup takes + R of each registration
// The costs are those of the paper's platform:
//   V    the copy of 64 bytes (3.3.1: below 64 bytes V > C)
//   C    that of a processor that copies at 4.8 GB/s (assumed, as in the model connect-ib)
//   R    n (C - V), with the paper's least number of uses n (table 2). For the fast path that is 41
//        to 55 us, nearly the same for all sizes, which supports the assumption; a registration is
//        charged by its pages accordingly.
//   latency copied: 3 us for no bytes (assumed), linear up to 8 KiB, where (C - V) / latency is
//        15 % (section 2)
// A message whose buffer is counted, but not gathered, is charged what that takes here
// (adaptib_bench_frequent_buffers).
// Puts, gets and broadcasts are simulated with complete cores, on the model connect-ib with the
// copy rate above. The origin of a put or get is not registered, so it goes through production's
// bounce buffers until its buffer is worth a registration by the costs above. Each operation waits
// for the one before it. The theory is the copy's part of the simulated time. The simulator charges
// no lookups.
// Broadcasts: process 0 sends to 2 and 1, and 2 to 3; every buffer is registered at its first use.
// The time is that until the last process has the message. Its way has two copies by senders, which
// can be saved, and two by receivers, which remain: theory.
//   blocking   the root's second send begins when the first has ended, as with MPI_Send in the
//              paper's library
//   at once    the root starts both. A copied message has left before the next one is copied; two
//              gathered ones share the wire, and the one that is passed on comes later for that.
// Bounds (--check), around what is measured, in points of a percent; the paper's figure is beside
// it. The theoretical improvement (equation 6) is made of the same costs, so it is no bound.
//   the first use of one buffer that is gathered, of 8 KiB and of 1 KiB: a quarter of table 2's n,
//   within 1, since production registers after a quarter (memory/README.md)
//   10,000 uses of one buffer, 1 KiB and 8 KiB: 0.1 for sends, 0.3 for puts and gets
//   the spectrum, buffer i used i times, i from 1 to 1000, 8 KiB, with buffers back to back and on
//   pages of their own: 0.1
//   no reuse, the worst size: 0.05
//   broadcast of 4 processes: 1. The last message of a blocking one of 1 KiB is the one that waited
//   for the root's acknowledgment
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "memory/frequent_buffers.h"
#include "simulator/studies/one_sided.h"
#include "simulator/studies/simulated_ranks.h"
#include "simulator/studies/study.h"
#include "unit/null_rail.h"

namespace {

using namespace adaptib;
using namespace adaptib::study;

constexpr double kByte = 1 / 4.8; // ns of a copy
constexpr double kLookup = 64 * kByte;
constexpr double kCount = 17;         // ns
constexpr double kNoBytes = 3000;     // ns, latency
constexpr double kFirstPage = 40'000; // ns, registration
constexpr double kFurtherPage = 7'000;
constexpr Bytes kPage = 4096;
constexpr Bytes kLargest = 8192;
constexpr std::uintptr_t kBase = 0x10'0000'0000;
constexpr std::array<Bytes, 11> kSizes{128,  256,  512,  1024, 2048, 3072,
                                       4096, 5120, 6144, 7168, 8192};

// A way of the paper: what is gained at 8 KiB in theory, what it measured, and the least n.
struct Way {
    const char* name;
    double theory;
    double paper;
    std::array<std::uint32_t, 9> uses; // 512 B, then each KiB
    double shortest;                   // measured here at 1 KiB, percent
    double longest;                    // and at 8 KiB
    double margin;
};
constexpr Way kSend{"send", 0.15, 14, {432, 200, 110, 76, 60, 48, 40, 36, 32}, 4.83, 14.95, 0.1};
constexpr Way kPut{"put", 0.20, 20, {196, 128, 128, 125, 56, 33, 29, 26, 25}, 13.80, 40.95, 0.3};
constexpr Way kGet{"get", 0.20, 17, {196, 128, 128, 125, 56, 33, 29, 26, 25}, 15.07, 42.67, 0.3};

// The range from `margin` below a figure to as much above it.
constexpr Bound beside(double figure, double margin) { return {figure - margin, figure + margin}; }

double copy_time(Bytes bytes) { return static_cast<double>(bytes) * kByte; }
double saved(Bytes bytes) { return copy_time(bytes) - kLookup; }
double latency(const Way& way, Bytes bytes) {
    const double part = static_cast<double>(bytes) / kLargest;
    return kNoBytes + (saved(kLargest) / way.theory - kNoBytes) * part;
}
double theory(const Way& way, Bytes bytes) { return saved(bytes) / latency(way, bytes); }

GatherCosts costs_of(const Way& way) {
    GatherCosts costs;
    costs.lookup = kLookup;
    for (std::size_t i = 0; i < GatherCosts::kSizes.size(); ++i) {
        const Bytes bytes = GatherCosts::kSizes[i];
        costs.copy[i] = copy_time(bytes);
        // 512 bytes are the third size; those before and behind register as their neighbour does.
        const std::size_t row = std::clamp<std::size_t>(i, 2, 10);
        const std::uint32_t uses = way.uses[row - 2];
        costs.registration[i] = (uses - 0.5) * saved(GatherCosts::kSizes[row]);
    }
    return costs;
}

// Charges registrations by their pages.
class ChargingRail final : public test::NullRail {
public:
    double charged = 0; // ns

private:
    Status register_impl(void* address, Bytes length, std::uint32_t,
                         std::unique_ptr<MemoryRegion>& out) override {
        struct Region final : MemoryRegion {
            Region(void* at, Bytes bytes) : MemoryRegion(at, bytes) {}
        };
        charged += kFirstPage + kFurtherPage * static_cast<double>(length / kPage - 1);
        out = std::make_unique<Region>(address, length);
        return kOk;
    }
};

// Sends with frequent buffers, and adds up the time with and without them.
class Sender {
public:
    explicit Sender(const Way& way)
        : way_(way), frequent_({FrequentBuffersOptions::Mode::automatic, 4096,
                                [&way] { return costs_of(way); }},
                               cache_, counters_) {}

    void send(std::uintptr_t address, Bytes bytes) {
        RegistrationCache::Use use;
        const auto* const buffer = reinterpret_cast<const void*>(address);
        const double copied = latency(way_, bytes);
        const bool gathered = frequent_.use(buffer, bytes, 0, use);
        copied_ += gathered ? 0 : 1;
        const bool counted = frequent_.registered_at(bytes) != GatherCosts::kNever;
        time_ += gathered ? copied - saved(bytes) : copied + (counted ? kCount : 0);
        copied_time_ += copied;
    }
    std::uint32_t copied() const { return copied_; } // sends
    // Percent of the time without frequent buffers.
    double improvement() const {
        return 100 * (copied_time_ - time_ - rail_.charged) / copied_time_;
    }

private:
    const Way& way_;
    Counters counters_;
    ChargingRail rail_;
    Rail* rails_[1] = {&rail_};
    RegistrationCache cache_{rails_, RailRange{0, 1}, kGiB, counters_};
    FrequentBuffers frequent_;
    std::uint32_t copied_ = 0;
    double time_ = 0;
    double copied_time_ = 0;
};

struct OneBuffer {
    double improvement;  // percent
    std::uint32_t first; // the first use that is gathered, counted from 1
};

OneBuffer one_buffer(const Way& way, Bytes bytes) {
    Sender sender(way);
    for (int i = 0; i < 10'000; ++i) {
        sender.send(kBase, bytes);
    }
    return {sender.improvement(), sender.copied() + 1};
}

// Back to back, neighbours share pages; a buffer with pages of its own lies one page apart.
double spectrum(const Way& way, Bytes bytes, Bytes apart) {
    constexpr int kBuffers = 1000;
    const std::uintptr_t first = kBase + (apart == bytes ? kPage / 4 : 0);
    Sender sender(way);
    for (int buffer = 1; buffer <= kBuffers; ++buffer) {
        for (int use = 0; use < buffer; ++use) {
            sender.send(first + static_cast<std::uintptr_t>(buffer) * apart, bytes);
        }
    }
    return sender.improvement();
}

double without_reuse(const Way& way, Bytes bytes) {
    constexpr int kMessages = 100'000;
    Sender sender(way);
    for (int i = 0; i < kMessages; ++i) {
        sender.send(kBase + static_cast<std::uintptr_t>(i) * bytes, bytes);
    }
    return sender.improvement();
}

// Buffers on pages of their own.
Bytes pages_of(Bytes bytes) { return round_up(bytes, kPage); }

void curve_row(Study& study, Panel& panel, const Way& way, Bytes bytes, double ours, double best) {
    panel["here"].points.emplace_back(bytes, ours);
    panel["theoretical"].points.emplace_back(bytes, best);
    std::optional<Bound> bound;
    if (bytes == kKiB || bytes == kLargest) {
        bound = beside(bytes == kLargest ? way.longest : way.shortest, way.margin);
    }
    study.row(std::string(way.name) + ", " + std::to_string(bytes) + " B", "%", ours,
              bytes == kLargest ? std::optional<double>(way.paper) : std::nullopt, bound);
}

Panel panel_of(const Way& way) {
    Panel panel;
    panel.title = std::string("One buffer: ") + way.name;
    panel.unit = "%";
    panel.log = false;
    return panel;
}

Panel panel_of_sends(Study& study) {
    Panel panel = panel_of(kSend);
    for (const Bytes bytes : kSizes) {
        const OneBuffer ours = one_buffer(kSend, bytes);
        curve_row(study, panel, kSend, bytes, ours.improvement, 100 * theory(kSend, bytes));
        if (bytes == kKiB || bytes == kLargest) {
            const double n = kSend.uses[bytes / kKiB];
            study.row("  first gathered use", "", ours.first, n, beside(n / 4, 1));
        }
    }
    return panel;
}

// Complete cores on the adapter of the model, whose processor copies as fast as the paper's.
sim::MachineModel machine() {
    sim::MachineModel machine = *sim::machine("connect-ib");
    machine.processor.copy_rate = {4'800'000'000};
    machine.processor.stages = true;
    return machine;
}

// Puts or gets of complete cores, one after the other, from or into one buffer.
class OneSidedRuns {
public:
    OneSidedRuns(const Study& study, const Way& way, Bytes bytes)
        : study_(study), way_(way), operation_{way.name == kPut.name, bytes} {}

    // Percent of the time in which all are copied, the registration included.
    double improvement() {
        const double copied = kUses * copied_time();
        return 100 * (1 - gathered_total() / copied);
    }
    // The copy's part of the time of one operation.
    double theory() {
        const sim::ProcessorCosts& processor = machine().processor;
        const double copy =
            static_cast<double>(processor.copy_start.count()) + copy_time(operation_.bytes);
        return 100 * copy / (1e3 * copied_time());
    }

private:
    static constexpr int kUses = 10'000;
    static constexpr int kSample = 50;

    OneSidedPair pair(const std::function<GatherCosts()>& costs) const {
        return {study_, machine(), {}, [](Parameters&) {}, 1, costs};
    }
    // Microseconds of one operation that is copied.
    double copied_time() {
        if (copied_time_ == 0) {
            OneSidedPair copies = pair([this] {
                GatherCosts costs = costs_of(way_);
                costs.copy.fill(0); // so that no registration pays
                return costs;
            });
            for (int i = 0; i < kSample; ++i) {
                copied_time_ += copies.epoch({operation_}) / kSample;
            }
            if (copies.ranks().counters(0).one_sided_bounced < kSample) {
                study_.fail("a put or get does not go through a bounce buffer");
            }
        }
        return copied_time_;
    }
    double gathered_total() const {
        OneSidedPair gathers = pair([this] { return costs_of(way_); });
        double total = 0;
        for (int i = 0; i < kUses; ++i) {
            total += gathers.epoch({operation_});
        }
        const Counters& counters = gathers.ranks().counters(0);
        if (counters.one_sided_bounced == 0 || counters.frequent_gathered < kUses / 2) {
            study_.fail("a buffer of puts or gets does not become frequent");
        }
        return total;
    }

    const Study& study_;
    const Way& way_;
    const OneSidedPair::Operation operation_;
    double copied_time_ = 0;
};

Panel panel_of_operations(const Way& way, Study& study) {
    Panel panel = panel_of(way);
    for (const Bytes bytes : kSizes) {
        OneSidedRuns runs(study, way, bytes);
        curve_row(study, panel, way, bytes, runs.improvement(), runs.theory());
    }
    return panel;
}

// Broadcasts of complete cores, on four hosts: process 0 sends to 2 and 1, and 2 to 3, always from
// and into the same memory.
class Broadcasts final : Ranks::Waiter {
public:
    struct Kind {
        bool gathers = false;
        bool at_once = false; // the root's sends
    };

    Broadcasts(const Study& study, Bytes bytes, Kind kind)
        : study_(study), kind_(kind), memory_(kProcesses, std::vector<std::byte>(bytes)),
          ranks_(routed_ranks(study, options(kind.gathers))) {
        root_.all = this;
    }

    // Returns the mean time of a broadcast. The next one begins when all processes have this one.
    double mean() {
        constexpr int kWarm = 20;
        constexpr int kMeasured = 200;
        Nanoseconds sum{0};
        for (int i = 0; i < kWarm + kMeasured; ++i) {
            const Nanoseconds took = one(i);
            sum += i < kWarm ? Nanoseconds{0} : took;
        }
        return static_cast<double>(sum.count()) / kMeasured;
    }
    // Messages of the rank that went without a copy.
    std::uint64_t gathered(std::uint32_t rank) {
        return ranks_->below().counters(rank).messages_gathered;
    }

private:
    static constexpr std::uint32_t kProcesses = 4;

    static sim::RanksOptions options(bool gather) {
        static char always[] = "always";
        static char off[] = "off";
        sim::RanksOptions options;
        options.ranks = kProcesses;
        options.world.machine = machine();
        options.world.topology =
            sim::crossbar(kProcesses, {}, sim::links_of(options.world.machine));
        options.keeps_registrations = true;
        options.parameters.connect_threshold = 0;
        options.parameters.verbs_ring_bytes = 256 * kKiB;
        options.parameters.eager_limit = 16384; // of all fabrics of a simulation
        options.parameters.frequent_buffers = gather ? always : off;
        return options;
    }
    void on_end(bool good) override {
        failed_ = failed_ || !good;
        --left_;
    }
    void send(std::uint32_t from, std::uint32_t to, Ranks::Waiter& waiter) {
        ++left_;
        ranks_->send(from, to, 1, memory_[from].data(), memory_[from].size(), waiter);
    }
    // The root's first send has ended: a blocking one is followed by the second.
    struct Root final : Ranks::Waiter {
        void on_end(bool good) override {
            if (!all->kind_.at_once) {
                all->send(0, 1, *all);
            }
            all->on_end(good);
        }
        Broadcasts* all = nullptr;
    };
    // Process 2 passes its message on as soon as it has that.
    struct Receiver final : Ranks::Waiter {
        void on_end(bool good) override {
            if (rank == 2) {
                all->send(2, 3, *all);
            }
            all->end_ = std::max(all->end_, all->ranks_->now(rank));
            all->on_end(good);
        }
        Broadcasts* all = nullptr;
        std::uint32_t rank = 0;
    };
    void receive(std::uint32_t to, std::uint32_t from) {
        ++left_;
        receivers_[to].all = this;
        receivers_[to].rank = to;
        ranks_->receive(to, from, 1, memory_[to].data(), memory_[to].size(), receivers_[to]);
    }
    Nanoseconds one(int number) {
        std::fill(memory_[0].begin(), memory_[0].end(), static_cast<std::byte>(number));
        receive(1, 0);
        receive(2, 0);
        receive(3, 2);
        end_ = Nanoseconds{0};
        const Nanoseconds begin = ranks_->now(0);
        send(0, 2, root_);
        if (kind_.at_once) {
            send(0, 1, *this);
        }
        if (!ranks_->run_until([&] { return left_ == 0; }) || failed_) {
            study_.fail("a broadcast does not end");
        }
        for (const std::vector<std::byte>& memory : memory_) {
            if (memory != memory_[0]) {
                study_.fail("a broadcast brought other bytes");
            }
        }
        return end_ - begin;
    }

    const Study& study_;
    const Kind kind_;
    std::vector<std::vector<std::byte>> memory_; // outlives the cores
    int left_ = 0;
    bool failed_ = false;
    Nanoseconds end_{0}; // when the last process had the message
    Root root_;
    std::array<Receiver, kProcesses> receivers_;
    std::unique_ptr<SimulatedRanks> ranks_;
};

void broadcast_rows_of(Study& study, Bytes bytes, bool at_once, double measured) {
    Broadcasts copies(study, bytes, {false, at_once});
    Broadcasts gathers(study, bytes, {true, at_once});
    const double copied = copies.mean();
    const double gathered = gathers.mean();
    if (gathers.gathered(0) == 0 || gathers.gathered(2) == 0 || copies.gathered(0) != 0) {
        study.fail("broadcasts are not gathered, or gathered without being asked");
    }
    const std::string name =
        "broadcast of 4, " + std::to_string(bytes) + " B, " + (at_once ? "at once" : "blocking");
    const double best = 100 * 2 * copy_time(bytes) / copied; // the two senders' copies
    const bool longest = bytes == kLargest;
    study.row(name + ", theory", "%", best);
    study.row(name, "%", 100 * (1 - gathered / copied),
              longest && !at_once ? std::optional<double>(25) : std::nullopt, beside(measured, 1));
    study.note(name + ": " + number_text(copied) + " ns copied, " + number_text(gathered) +
               " ns gathered.");
}

void broadcast_rows(Study& study) {
    struct Row {
        Bytes bytes;
        double blocking; // improvement, percent
        double at_once;
    };
    constexpr Row kRows[] = {
        {1024, 3.02, 11.32}, {2048, 18.53, 18.91}, {4096, 25.58, 19.12}, {8192, 30.31, 21.16}};
    for (const bool at_once : {false, true}) {
        for (const Row& row : kRows) {
            broadcast_rows_of(study, row.bytes, at_once, at_once ? row.at_once : row.blocking);
        }
    }
}

Panel spectrum_panel(Study& study) {
    Panel panel;
    panel.title = "Spectrum: buffer i used i times";
    panel.unit = "%";
    panel.log = false;
    for (const Bytes bytes : kSizes) {
        const double close = spectrum(kSend, bytes, bytes);
        const double apart = spectrum(kSend, bytes, pages_of(bytes) + kPage);
        panel["back to back"].points.emplace_back(bytes, close);
        panel["pages of their own"].points.emplace_back(bytes, apart);
        if (bytes == kLargest) {
            study.row("spectrum, back to back, 8 KiB", "%", close, 12.7, beside(13.72, 0.1));
            study.row("spectrum, pages of their own, 8 KiB", "%", apart, 12.7, beside(13.96, 0.1));
        }
    }
    return panel;
}

} // namespace

int main(int argc, char** argv) {
    Study study("frequent_buffers", "Small messages from buffers used again",
                "costs of Rashti and Afsahi, table 2; decisions of production");
    study.parse(argc, argv);
    study.panel(panel_of_sends(study));
    study.panel(panel_of_operations(kPut, study));
    study.panel(panel_of_operations(kGet, study));
    study.panel(spectrum_panel(study));
    double loss = 0;
    for (const Bytes bytes : kSizes) {
        loss = std::min(loss, without_reuse(kSend, bytes));
    }
    broadcast_rows(study);
    study.row("no reuse, worst size", "%", loss, {}, beside(-0.543, 0.05));
    study.note(
        "Puts and gets gain more here than in the paper: over connect-ib one of 8 KiB takes 4 "
        "us, its copy included, and on\nthe paper's platform, by equation 6, 8.5 us.");
    study.note("The paper's get gains less than its theory, and loses below 1 KiB, because its "
               "copy overlaps with the synchronization behind it; the model has no such overlap.");
    const double best = one_buffer(kSend, kLargest).improvement;
    return study.finish("frequent_buffers: " + number_text(best) +
                        " % at 8 KiB (paper 14, theory 15)");
}
