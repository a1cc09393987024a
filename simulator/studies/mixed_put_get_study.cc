// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets in turns (Vishnu, 5.3.4, figures 5.14 to 5.17).
//
// Paper: a process opens an epoch, issues 16 MPI_Put and 16 MPI_Get of the same size and ends it,
// several times; the maximum throughput in 10^6 bytes/s. "In order" only one direction of the links
// is busy at a time; with reordering, puts and gets in turns, "almost" the peak of both directions
// is reached. MVAPICH2, load balanced fragmentation; two clusters (simulator/studies/one_sided.cc).
// Here: the production core, operations as its BTL starts them, with one rail and with two, sizes
// from 4 KiB to 1 MiB, on today's hosts to 2 MiB, so that epochs are as long. As asked for:
// `interleave` 0, puts first. Interleaved: `interleave` at its default, puts first, and gets first.
// In turns: `interleave` 0, and the program starts a put and a get in turns. The peaks of one
// direction and of both are of 32 puts by one process and by two.
// Bounds (--check):
//   interleaved, puts first: of the peak of both directions what kInterleavedOfBoth says, to 1
//     point; gets first: 0.97 to 0.995 of it (connect-ib: 0.93 to 0.98)
//   as asked for: the peak of one direction within 1 % (connect-ib: 1.0 to 1.2 times it, because
//     the last part of an operation longer than 1 MiB leaves when gets are started)
//   interleaved, the size that gains least: as long as "as asked for", within 1 %
//   puts alone, after mixed epochs: 1.00 to 1.03 times their time in a world without gets
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "simulator/studies/one_sided.h"
#include "simulator/studies/study.h"

namespace {

using namespace adaptib;
using namespace adaptib::study;

using Operations = std::vector<OneSidedPair::Operation>;
using Curve = std::map<Bytes, double>;

constexpr int kEach = 16;
constexpr const char* kAsAsked = "as asked for";
constexpr const char* kInterleaved = "interleaved";
constexpr const char* kGetsFirst = "interleaved, gets first";
constexpr const char* kInTurns = "asked for in turns";
constexpr const char* kOne = "one direction";
constexpr const char* kBoth = "both directions";

struct Order {
    const char* name;
    bool interleave;
    bool puts_first;
    bool in_turns;
};
constexpr Order kOrders[] = {{kAsAsked, false, true, false},
                             {kInterleaved, true, true, false},
                             {kGetsFirst, true, false, false},
                             {kInTurns, false, true, true}};

Operations operations(const Order& order, Bytes bytes) {
    Operations all;
    for (int i = 0; i < 2 * kEach; ++i) {
        const bool first = order.in_turns ? i % 2 == 0 : i < kEach;
        all.push_back({first == order.puts_first, bytes});
    }
    return all;
}

Operations puts(Bytes bytes) { return Operations(2 * kEach, {true, bytes}); }

class Measurement {
public:
    Measurement(const Study& study, const sim::MachineModel& machine, const sim::HostModel& host,
                int window, std::string striping)
        : study_(study), machine_(machine), host_(host), window_(window),
          striping_(std::move(striping)) {}

    // MB/s of the best epoch.
    double rate(const Operations& all, bool interleave, bool both) {
        OneSidedPair pair = make(interleave);
        double bytes = 0;
        for (const auto& each : all) {
            bytes += static_cast<double>(each.bytes) * (both ? 2 : 1);
        }
        double best = 0;
        for (int i = 0; i < (study_.quick() ? 4 : 8); ++i) {
            best = std::max(best, bytes / pair.epoch(all, both));
        }
        return best;
    }

    // The longest epoch of puts alone, after mixed epochs, relative to one in a world without gets.
    double puts_after_mixed(Bytes bytes) {
        OneSidedPair mixed = make(true);
        OneSidedPair pure = make(true);
        for (int i = 0; i < 4; ++i) {
            mixed.epoch(operations(kOrders[1], bytes));
            pure.epoch(puts(bytes));
        }
        double worst = 0;
        for (int i = 0; i < 12; ++i) {
            const double usual = pure.epoch(puts(bytes));
            worst = std::max(worst, mixed.epoch(puts(bytes)) / usual);
        }
        return worst;
    }

private:
    OneSidedPair make(bool interleave) const {
        return {study_, machine_, host_,
                [&](Parameters& parameters) {
                    parameters.interleave = interleave ? window_ : 0;
                    parameters.striping_policy = const_cast<char*>(striping_.c_str());
                },
                study_.seed()};
    }

    const Study& study_;
    sim::MachineModel machine_;
    sim::HostModel host_;
    int window_;
    std::string striping_;
};

double peak(const Curve& curve) {
    double high = 0;
    for (const auto& [bytes, value] : curve) {
        high = std::max(high, value);
    }
    return high;
}

struct Papers {
    std::optional<double> in_order;
    std::optional<double> reordered;
};
// By hosts, over one rail and two.
constexpr double kInterleavedOfBoth[3][2] = {{0.989, 0.991}, {0.964, 0.954}, {0.974, 0.941}};
constexpr Papers kPapers[3][2] = {{{880, 907}, {1703, 1800}}, {{962, 1900}, {1474, 2604}}, {}};

} // namespace

int main(int argc, char** argv) {
    Study study("mixed_put_get", "16 puts and 16 gets in an epoch, one process of two",
                "machine models infinihost, infinihost-iii, connect-ib");
    auto window = static_cast<std::uint64_t>(default_parameters().interleave);
    study.option("--interleave", window, "what the parameter of that name is, in us");
    std::string striping = default_parameters().striping_policy;
    study.option("--striping", striping, "what striping_policy is");
    study.parse(argc, argv);
    std::string key;
    for (const OneSidedHosts& hosts : one_sided_hosts()) {
        if (study.quick() && hosts.papers == 2) {
            continue;
        }
        for (const std::uint32_t rails : {1u, 2u}) {
            const std::string where =
                std::string(hosts.name) + (rails == 1 ? ", one rail" : ", two rails");
            Measurement measurement(study, hosts.machine, rails == 1 ? hosts.one : hosts.two,
                                    static_cast<int>(window), striping);
            std::map<std::string, Curve> curves;
            const Bytes largest = hosts.papers == 2 ? 2 * kMiB : kMiB;
            for (Bytes bytes = 4 * kKiB; bytes <= largest; bytes *= study.quick() ? 4 : 2) {
                curves[kOne][bytes] = measurement.rate(puts(bytes), false, false);
                curves[kBoth][bytes] = measurement.rate(puts(bytes), false, true);
                for (const Order& order : kOrders) {
                    curves[order.name][bytes] =
                        measurement.rate(operations(order, bytes), order.interleave, false);
                }
            }
            double worst = 0;
            for (const auto& [bytes, value] : curves[kAsAsked]) {
                worst = std::max(worst, value / curves[kInterleaved][bytes]);
            }
            const double one = peak(curves[kOne]);
            const double both = peak(curves[kBoth]);
            const Papers& paper = kPapers[hosts.papers][rails - 1];
            const bool long_operations = hosts.papers == 2;
            const double ours = peak(curves[kInterleaved]);
            study.row(where + ": peak of one direction", "MB/s", one);
            study.row(where + ": peak of both", "MB/s", both);
            study.row(where + ": as asked for (paper: without reordering)", "MB/s",
                      peak(curves[kAsAsked]), paper.in_order);
            study.row("  of one direction's peak", "", peak(curves[kAsAsked]) / one, {},
                      long_operations ? Bound{1, 1.2} : around(1, 0.01));
            study.row(where + ": interleaved (paper: reordering)", "MB/s", ours, paper.reordered);
            study.row("  of the peak of both directions", "", ours / both, {},
                      around(kInterleavedOfBoth[hosts.papers][rails - 1], 0.01));
            study.row("  gets first", "", peak(curves[kGetsFirst]) / both, {},
                      long_operations ? Bound{0.93, 0.98} : Bound{0.97, 0.995});
            study.row("  asked for in turns", "", peak(curves[kInTurns]) / both);
            study.row("  worst size: time, of as asked for", "", worst, {}, around(1, 0.01));
            study.row("  puts alone afterwards: time, of puts ever alone", "",
                      measurement.puts_after_mixed(256 * kKiB), {}, Bound{1, 1.03});
            Panel panel;
            panel.title = where;
            panel.unit = "MB/s";
            for (const char* name : {kOne, kBoth, kAsAsked, kInterleaved, kGetsFirst, kInTurns}) {
                for (const auto& [bytes, value] : curves[name]) {
                    panel[name].points.emplace_back(static_cast<double>(bytes), value);
                }
            }
            study.panel(panel);
            if (hosts.papers == 1 && rails == 2) {
                key = "puts and gets over two ports: " + number_text(ours) + " MB/s interleaved, " +
                      number_text(peak(curves[kAsAsked])) +
                      " as asked for (paper 2604 and 1474), of " + number_text(both) +
                      " in both directions";
            }
        }
    }
    study.note(
        "Paper: \"almost the peak bidirectional bandwidth\"; of one rail with PCI-X 907 of 941, "
        "of two 1800 of 1810; EM64T 1900 of 1910, 2604 of 2620.");
    study.note(
        "EM64T: the model's bus carries 1500 MB/s in each direction, the paper's 2620 in both "
        "together, which the model cannot say.");
    study.note(
        "An epoch here is its operations alone; the paper's has messages that open and end it.");
    return study.finish(key);
}
