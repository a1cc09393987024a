// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets over two rails against one (Vishnu, 5.3.2 and 5.3.3, figures 5.4 to 5.13).
//
// Paper: MVAPICH2 on two clusters (simulator/studies/one_sided.cc), load balanced fragmentation;
// peak bandwidth of MPI_Put and MPI_Get, of puts of both processes at a time, and the latency of
// large ones.
// Here: the production core, operations as its BTL starts them, `striping_policy` auto; 64
// operations under way, sizes from 1 KiB to 1 MiB. MB are 10^6 bytes. Latency: of one operation
// until it is complete.
// Bounds (--check), of two rails against one:
//   IA32, a bus for each rail: bandwidth of puts, of gets and of both directions 1.998 times as
//     high, within 1 %, latency of 1 MiB 0.504 times as long, within 2 %
//   EM64T, ports of one bus of 1500 MB/s: bandwidth 1.544 times (the bus: 1.55), within 1 %,
//     latency 0.65 times, within 2 %
//   the size that gains least takes 1.010 times as long (EM64T: 1.115), within 1 %, in a stream or
//     alone
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "simulator/studies/one_sided.h"
#include "simulator/studies/study.h"

namespace {

using namespace adaptib;
using namespace adaptib::study;

using Curve = std::map<Bytes, double>;

constexpr std::size_t kWindow = 64;

struct Curves {
    Curve bandwidth; // MB/s
    Curve latency;   // us
    Curve both;      // MB/s, puts
};

Curves measure(const Study& study, const sim::MachineModel& machine, const sim::HostModel& host,
               bool put) {
    OneSidedPair pair(
        study, machine, host, [](Parameters&) {}, study.seed());
    Curves curves;
    for (Bytes bytes = kKiB; bytes <= kMiB; bytes *= study.quick() ? 4 : 2) {
        const std::vector<OneSidedPair::Operation> window(kWindow, {put, bytes});
        const auto moved = static_cast<double>(kWindow * bytes);
        pair.epoch(window);
        curves.bandwidth[bytes] = moved / pair.epoch(window);
        if (put) {
            pair.epoch(window, true);
            curves.both[bytes] = 2 * moved / pair.epoch(window, true);
        }
        pair.epoch({{put, bytes}});
        curves.latency[bytes] = pair.epoch({{put, bytes}});
    }
    return curves;
}

// Peak of large operations: in the model those that fit into a packet do not wait at a half-duplex
// bus.
double peak(const Curve& curve) {
    double high = 0;
    for (const auto& [bytes, value] : curve) {
        high = bytes >= 16 * kKiB ? std::max(high, value) : high;
    }
    return high;
}

struct Papers {
    double one;
    double two;
    double latency; // of two rails, relative to one
};
constexpr Papers kPuts[] = {{880, 1750, 0.54}, {971, 1500, 0.68}};
constexpr Papers kGets[] = {{881, 1705, 0.55}, {969, 1494, 0.67}};
constexpr Papers kBothWays[] = {{941, 1810, 0}, {1910, 2620, 0}};

void add_ratio(Study& study, const std::string& what, const Curve& one, const Curve& two,
               const Papers& paper, Bound bound) {
    study.row(what + ", one rail", "MB/s", peak(one), paper.one);
    study.row(what + ", two rails", "MB/s", peak(two), paper.two);
    study.row("  ratio", "", peak(two) / peak(one), paper.two / paper.one, bound);
}

} // namespace

int main(int argc, char** argv) {
    Study study("put_get", "Puts and gets over two rails against one, two processes",
                "machine models infinihost, infinihost-iii");
    study.parse(argc, argv);
    std::string key;
    for (const OneSidedHosts& hosts : one_sided_hosts()) {
        if (hosts.papers == 2) {
            continue;
        }
        const bool own_buses = hosts.papers == 0;
        const Bound faster = around(own_buses ? 1.998 : 1.544, 0.01);
        const Bound sooner = around(own_buses ? 0.504 : 0.65, 0.02);
        double slowest = 0;
        for (const bool put : {true, false}) {
            const std::string what = std::string(hosts.name) + (put ? ": put" : ": get");
            const Papers& paper = (put ? kPuts : kGets)[hosts.papers];
            const Curves one = measure(study, hosts.machine, hosts.one, put);
            const Curves two = measure(study, hosts.machine, hosts.two, put);
            add_ratio(study, what, one.bandwidth, two.bandwidth, paper, faster);
            if (put) {
                add_ratio(study, what + "s of both at a time", one.both, two.both,
                          kBothWays[hosts.papers], faster);
            }
            const double latency = two.latency.at(kMiB) / one.latency.at(kMiB);
            study.row(what + ", latency of 1 MiB, two rails", "of one's", latency, paper.latency,
                      sooner);
            for (const auto& [bytes, value] : one.bandwidth) {
                slowest = std::max({slowest, value / two.bandwidth.at(bytes),
                                    two.latency.at(bytes) / one.latency.at(bytes)});
            }
            if (own_buses) {
                key += (put ? "put over two rails: " : "; get: ") +
                       number_text(peak(two.bandwidth) / peak(one.bandwidth)) +
                       " times the bandwidth (paper " + number_text(paper.two / paper.one) + "), " +
                       number_text(latency) + " times the latency of 1 MiB (paper " +
                       number_text(paper.latency) + ")";
            }
            Panel panel;
            panel.title = what + ", bandwidth";
            panel.unit = "MB/s";
            Panel times;
            times.title = what + ", latency";
            times.unit = "us";
            for (const auto& [bytes, value] : one.bandwidth) {
                const auto at = static_cast<double>(bytes);
                panel["one rail"].points.emplace_back(at, value);
                panel["two rails"].points.emplace_back(at, two.bandwidth.at(bytes));
                times["one rail"].points.emplace_back(at, one.latency.at(bytes));
                times["two rails"].points.emplace_back(at, two.latency.at(bytes));
            }
            study.panel(panel);
            study.panel(times);
        }
        study.row(std::string(hosts.name) + ": two rails, worst size: time", "of one's", slowest,
                  {}, around(own_buses ? 1.010 : 1.115, 0.01));
    }
    study.note("The models' rates of one rail, and of EM64T's bus, are the paper's peaks: of these "
               "rows only the ratios say something.");
    study.note(
        "EM64T: the model's bus carries 1500 MB/s in each direction, the paper's 2620 in both "
        "together, which the model cannot say.");
    study.note(
        "EM64T's worst size is a stream of 1 KiB, which the processor limits; it looks into two "
        "completion queues there.");
    return study.finish(key);
}
