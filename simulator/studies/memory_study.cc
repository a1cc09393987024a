// SPDX-License-Identifier: BSD-3-Clause
// Memory of a rank with channels by DC on demand, by RC on demand, and selected (Takagi et al.,
// 4.2, figures 8, 9).
//
// All ranks talk to all. Sizes of queue pairs, receives and rings are the paper's (table 4), whose
// queue pairs cannot be measured here, so what follows from them alone has no bound. The memory of
// the statistics is ours, taken from a production History with 256 active sources of n, after so
// many periods that it does not grow any more; beside it stands the paper's table of 2,048 periods
// by all ranks.
// Figure 8 is without buffers, figure 9 with receives and rings: common to all methods, and linear
// in n.
// Bounds (--check): at 65,536 ranks our statistics take 0.365 MB within 5 %.
#include <algorithm>
#include <cmath>
#include <string>

#include "select/history.h"
#include "simulator/studies/study.h"

namespace {

using namespace adaptib;
using namespace adaptib::study;

constexpr double kKB = 1000; // the figures in the text fit only so
constexpr double kMB = kKB * 1000;
constexpr double kGB = kMB * 1000;
constexpr double kMost = 65'536;
// Table 4, KB.
constexpr double kCommon = 296 + 512; // credits, establishing connections
constexpr double kDcPool = 3464;      // 28 queue pairs
constexpr double kSmallPool = 1340;   // 4
constexpr double kConnection = 1424;
constexpr double kRing = 64;
constexpr double kReceive = (2 * 256.0 + 4096.0) / 1000; // of each peer: credit, establishing, data
constexpr double kPool = 128;                            // pi

// sigma of table 2, entries of 8 bytes a rank.
double published_table(double ranks) {
    const double entries = ranks <= 1024 ? 2048 : 2048 / ((std::log2(ranks) - 10) * 2);
    return entries * 8 * ranks;
}

double our_statistics(double ranks) {
    constexpr std::uint64_t kActive = 256;
    History history;
    const auto active = std::min<std::uint64_t>(kActive, static_cast<std::uint64_t>(ranks) - 1);
    double most = 0;
    for (std::uint64_t period = 0; period < 4 * History::kWidest; ++period) {
        std::vector<SourceCount> counts;
        for (std::uint64_t i = 0; i < active; ++i) {
            counts.push_back({i * static_cast<std::uint64_t>(ranks) / active,
                              static_cast<double>(period % 1000 + 1)});
        }
        history.add(std::move(counts));
        most = std::max(most, static_cast<double>(history.memory_bytes()));
    }
    return most;
}

} // namespace

int main(int argc, char** argv) {
    Study study("memory", "Memory of a rank", "table 4's sizes; statistics measured");
    study.parse(argc, argv);
    Panel queue_pairs;
    queue_pairs.title = "Queue pairs and statistics";
    queue_pairs.unit = "MB";
    queue_pairs.bytes = false;
    Panel all = queue_pairs;
    all.title = "With buffers";
    double ours = 0;
    double aqps_published = 0;
    double rc = 0;
    double dc = 0;
    double aqps = 0;
    for (double ranks = 2; ranks <= kMost; ranks *= 2) {
        const double peers = ranks - 1;
        const double buffers = peers * (kReceive + kRing) * kKB;
        ours = our_statistics(ranks);
        dc = (kCommon + kDcPool) * kKB;
        rc = (kCommon + kSmallPool + peers * kConnection) * kKB;
        const double selected = (kCommon + kSmallPool + std::min(peers, kPool) * kConnection) * kKB;
        aqps = selected + ours;
        aqps_published = selected + published_table(ranks);
        const std::pair<const char*, double> lines[] = {
            {"DC-RDMA-OD", dc},
            {"RC-RDMA-OD", rc},
            {"AQPS", aqps},
            {"AQPS, table of all ranks", aqps_published}};
        for (const auto& [name, bytes] : lines) {
            queue_pairs[name].points.emplace_back(ranks, bytes / kMB);
            all[name].points.emplace_back(ranks, (bytes + buffers) / kMB);
        }
        all["buffers of each"].points.emplace_back(ranks, buffers / kMB);
    }
    study.panel(queue_pairs);
    study.panel(all);
    study.row("65,536 ranks: DC-RDMA-OD", "MB", dc / kMB);
    study.row("65,536 ranks: RC-RDMA-OD", "GB", rc / kGB, 93);
    study.row("65,536 ranks: AQPS as published", "MB", aqps_published / kMB, 273);
    study.row("  of which the table of all ranks", "MB", published_table(kMost) / kMB, 87);
    study.row("65,536 ranks: AQPS here", "MB", aqps / kMB, 273);
    study.row("  of which statistics, 256 active sources", "MB", ours / kMB, 87,
              around(0.365, 0.05));
    study.note("All but the last row follow from the paper's sizes, by the paper's formulas.");
    study.note("Buffers grow with the ranks in every method (the paper's remark to figure 9); "
               "ring_max limits them.");
    return study.finish("memory: statistics " + number_text(ours / kMB) +
                        " MB (paper 87) at 65,536 ranks, 256 of them active; AQPS " +
                        number_text(aqps / kMB) + " MB (paper 273)");
}
