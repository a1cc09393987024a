// SPDX-License-Identifier: BSD-3-Clause
// The studies of AQPS's programs (study/channel_comparison.h).
#include "study/channel_comparison.h"

#include <string>

namespace adaptib::study {

namespace {

constexpr int kRepeats = 5; // of both programs (4.3)

ChannelOptions options_for(const Study& study, Method method, std::uint32_t ranks) {
    ChannelOptions options;
    options.machine = *sim::machine("connect-ib");
    options.ranks = ranks;
    options.method = method;
    options.seed = study.seed();
    // 4.1: for data, for credits and for control messages; here one pool.
    options.dc_pool = (method == Method::dc_on_demand ? 28 : 4) + 2 + 2;
    return options;
}

struct Result {
    double microseconds = 0; // per message
    ChannelRanks::Totals totals;
};

// The first selection comes after a period. That hardly counts in the paper's runs of many periods, and would in
// ours of a hundred: a program of one pattern runs twice, and the second time is measured; `repeat` from its start.
Result run(const Study& study, Program program, const ChannelOptions& options,
           std::uint64_t messages) {
    ChannelRanks all(study, options);
    const std::uint32_t ranks = options.ranks;
    std::uint32_t notices = 0;
    if (program == Program::one_to_all) {
        all.run(one_to_all(ranks, messages, notices));
    } else if (program == Program::all_to_one) {
        all.run(all_to_one(ranks, messages, notices));
    }
    Nanoseconds time{0};
    std::uint64_t sent = 0;
    for (int i = 0; i < (program == Program::repeat ? kRepeats : 1); ++i) {
        if (program != Program::all_to_one) {
            time += all.run(one_to_all(ranks, messages, notices));
            sent += messages;
        }
        if (program != Program::one_to_all) {
            time += all.run(all_to_one(ranks, messages, notices));
            sent += messages;
        }
    }
    return {1e-3 * static_cast<double>(time.count()) / static_cast<double>(sent), all.totals()};
}

// What the model assumes of DC, halved and doubled: AQPS against DC on demand, percent.
double varied(const Study& study, Program program, double backoff, double connect) {
    constexpr std::uint64_t kMessages = 100'000;
    double microseconds[2] = {};
    for (const Method method : {Method::dc_on_demand, Method::aqps}) {
        ChannelOptions options = options_for(study, method, 64);
        const auto times = [](Nanoseconds& cost, double factor) {
            cost =
                Nanoseconds{static_cast<std::int64_t>(static_cast<double>(cost.count()) * factor)};
        };
        times(options.machine.dc_nack_backoff, backoff);
        times(options.machine.dc_connect, connect);
        times(options.machine.dc_disconnect, connect);
        microseconds[method == Method::aqps ? 1 : 0] =
            run(study, program, options, kMessages).microseconds;
    }
    return 100 * (microseconds[1] / microseconds[0] - 1);
}

std::string text_of(const ChannelRanks::Totals& totals) {
    const auto share = [&](std::size_t kind) {
        const double all =
            static_cast<double>(totals.messages[0] + totals.messages[1] + totals.messages[2]);
        return number_text(100 * static_cast<double>(totals.messages[kind]) / all) + " %";
    };
    return share(0) + " by DC-sendrecv, " + share(1) + " by DC-RDMA, " + share(2) +
           " by RC-RDMA, at most " + std::to_string(totals.connected_most) +
           " connections of a rank, " +
           std::to_string(totals.switches[0] + totals.switches[1] + totals.switches[2]) +
           " switches, " + std::to_string(totals.credits) + " credits, " +
           std::to_string(totals.selections) + " selections";
}

} // namespace

int channel_study(const char* name, const char* title, Program program, const Published& published,
                  int argc, char** argv) {
    Study study(name, title, "machine model connect-ib");
    study.parse(argc, argv);
    const std::uint64_t messages = study.quick() ? 200'000 : 640'000;
    constexpr struct {
        const char* name;
        Method method;
    } kMethods[] = {{"DC-RDMA-OD", Method::dc_on_demand},
                    {"RC-RDMA-OD", Method::rc_on_demand},
                    {"AQPS", Method::aqps}};
    Panel panel;
    panel.title = title;
    panel.unit = "us a message";
    panel.bytes = false;
    panel.log = false;
    double last[3] = {};
    for (std::uint32_t ranks = 2; ranks <= 64; ranks *= 2) {
        for (std::size_t i = 0; i < 3; ++i) {
            const Result result =
                run(study, program, options_for(study, kMethods[i].method, ranks), messages);
            last[i] = result.microseconds;
            panel[kMethods[i].name].points.emplace_back(ranks, result.microseconds);
            if (ranks == 64) {
                study.row(std::string("64 ranks, ") + kMethods[i].name, "us", result.microseconds);
                study.note(std::string(kMethods[i].name) + ": " + text_of(result.totals));
            }
        }
    }
    study.panel(panel);
    const double against_dc = 100 * (last[2] / last[0] - 1);
    const double against_rc = 100 * (last[2] / last[1] - 1);
    study.row("AQPS against DC-RDMA-OD", "%", against_dc, published.against_dc,
              Bound{-100, published.least_against_dc});
    study.row("AQPS against RC-RDMA-OD", "%", against_rc, published.against_rc,
              Bound{-100, published.against_rc});
    study.row("  the same against DC, dc_nack_backoff halved", "%", varied(study, program, 0.5, 1));
    study.row("  doubled", "%", varied(study, program, 2, 1));
    study.row("  dc_connect and dc_disconnect halved", "%", varied(study, program, 1, 0.5));
    study.row("  doubled", "%", varied(study, program, 1, 2));
    return study.finish(std::string(name) + ": " + number_text(against_dc) + " % (paper " +
                        number_text(published.against_dc) + ") against DC on demand, " +
                        number_text(against_rc) + " % (paper " + number_text(published.against_rc) +
                        ") against RC on demand");
}

} // namespace adaptib::study
