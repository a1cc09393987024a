// SPDX-License-Identifier: BSD-3-Clause
// The studies of AQPS's programs (simulator/studies/channel_comparison.h).
#include "simulator/studies/channel_comparison.h"

#include <algorithm>
#include <memory>
#include <string>

#include "simulator/studies/patterns.h"
#include "simulator/studies/simulated_ranks.h"
#include "simulator/studies/study.h"

namespace adaptib::study {

namespace {

constexpr int kRepeats = 5; // of both programs (AQPS 4.3)
constexpr std::uint32_t kMostRanks = 64;
char kDcOnDemand[] = "dc_on_demand";
char kRcOnDemand[] = "rc_on_demand";
char kAqps[] = "aqps";
char kMeasured[] = "measured";
char kConnectIb[] = "connect-ib";

struct Method {
    const char* name; // as the paper calls it
    char* policy;
    int initiators;
    int connections;         // 0: to all peers
    char* costs = kMeasured; // in simulations: of the model, changes of target included
};
constexpr Method kDc{"DC-RDMA-OD", kDcOnDemand, 28, 0};
constexpr Method kRc{"RC-RDMA-OD", kRcOnDemand, 8, 0};
constexpr Method kSelected{"AQPS", kAqps, 8, 26};
constexpr Method kPublishedCosts{"AQPS by published costs", kAqps, 8, 26, kConnectIb};

struct Result {
    double microseconds = 0; // per message
    std::string text;        // statistics of the channels used
};

std::string text_of(SimulatedRanks& ranks) {
    Counters all;
    std::uint64_t most = 0;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        const Counters& one = ranks.below().counters(rank);
        all.ring_received += one.ring_received;
        all.datagram_received += one.datagram_received;
        all.credit_returns += one.credit_returns;
        all.selections += one.selections;
        all.connections_shared += one.connections_shared;
        most = std::max(most, one.connections_open - one.connections_shared);
    }
    return number_text(100 * static_cast<double>(all.ring_received) /
                       static_cast<double>(all.ring_received + all.datagram_received)) +
           " % of all messages by rings, " + std::to_string(all.connections_shared / 2) +
           " shared connections in all, at most " + std::to_string(most) +
           " queue pairs of a rank's own, " + std::to_string(all.credit_returns) + " credits, " +
           std::to_string(all.selections) + " selections";
}

class Comparison {
public:
    Comparison(const Study& study, Program program, std::uint64_t messages)
        : study_(study), program_(program), messages_(messages) {}

    Result run(const Method& method, std::uint32_t ranks, const sim::MachineModel& machine,
               Nanoseconds ring_poll = Nanoseconds{0}) const {
        const auto all = world_of(method, ranks, machine, ring_poll);
        const auto rounds = static_cast<std::uint32_t>(messages_ / (ranks - 1));
        const Pattern out = onetoall(ranks, 1, rounds);
        const Pattern in = alltoone(ranks, 1, rounds);
        Nanoseconds time{0};
        int parts = 1;
        if (program_ == Program::repeat) {
            for (int i = 0; i < kRepeats; ++i) {
                time += time_of(out, *all);
                time += time_of(in, *all);
            }
            parts = 2 * kRepeats;
        } else {
            const Pattern& pattern = program_ == Program::one_to_all ? out : in;
            time_of(pattern, *all);
            time = time_of(pattern, *all);
        }
        const double sent = static_cast<double>(rounds) * (ranks - 1) * parts;
        return {1e-3 * static_cast<double>(time.count()) / sent, text_of(*all)};
    }

private:
    std::unique_ptr<SimulatedRanks> world_of(const Method& method, std::uint32_t ranks,
                                             const sim::MachineModel& machine,
                                             Nanoseconds ring_poll) const {
        sim::RanksOptions options;
        options.ring_poll = ring_poll;
        options.ranks = ranks;
        options.seed = options.world.seed = study_.seed();
        options.world.machine = machine;
        options.world.topology = sim::crossbar(ranks, {}, sim::links_of(machine));
        options.parameters.channel_policy = method.policy;
        options.parameters.dc_initiators = method.initiators;
        options.parameters.connect_max = method.connections;
        options.parameters.channel_costs = method.costs;
        options.parameters.channel_period = 1;
        return routed_ranks(study_, std::move(options));
    }

    Nanoseconds time_of(const Pattern& pattern, SimulatedRanks& ranks) const {
        Timing timing;
        std::string text;
        if (!replay(pattern, ranks, timing, text)) {
            study_.fail(text + "\n" + ranks.complaints());
        }
        return timing.total;
    }

    const Study& study_;
    Program program_;
    std::uint64_t messages_; // of each part, without messages of barriers
};

sim::MachineModel without_dc_costs(sim::MachineModel machine) {
    machine.dc.message = machine.dc.connect = machine.dc.disconnect = Nanoseconds{0};
    return machine;
}

// Adds each method's time without its own costs.
void add_breakdown(Study& study, const Comparison& comparison) {
    const sim::MachineModel& usual = *sim::machine("connect-ib");
    const auto row = [&](const char* what, const Method& method, const sim::MachineModel& machine) {
        study.row(std::string("  ") + method.name + ", " + what, "us",
                  comparison.run(method, kMostRanks, machine).microseconds);
    };
    sim::MachineModel machine = usual;
    machine.adapter.qp_miss = Nanoseconds{0};
    row("qp_miss 0", kRc, machine);
    for (const Method& method : {kDc, kSelected}) {
        machine = without_dc_costs(usual);
        row("dc_message, dc_connect and dc_disconnect 0", method, machine);
        machine.dc.responders = kMostRanks;
        row("and targets that serve all", method, machine);
    }
}

// Varies the model's assumptions about DC: AQPS against DC on demand, percent.
void add_varied(Study& study, const Comparison& comparison) {
    const sim::MachineModel& usual = *sim::machine("connect-ib");
    const auto row = [&](const char* what, const sim::MachineModel& machine, int initiators,
                         Nanoseconds ring_poll = Nanoseconds{0}) {
        Method selected = kSelected;
        selected.initiators = initiators;
        const double dc = comparison.run(kDc, kMostRanks, machine, ring_poll).microseconds;
        const double aqps = comparison.run(selected, kMostRanks, machine, ring_poll).microseconds;
        study.row(std::string("  the same against DC, ") + what, "%", 100 * (aqps / dc - 1));
    };
    sim::MachineModel machine = usual;
    machine.dc.nack_backoff = usual.dc.nack_backoff / 2;
    row("dc_nack_backoff halved", machine, kSelected.initiators);
    machine.dc.nack_backoff = usual.dc.nack_backoff * 2;
    row("dc_nack_backoff doubled", machine, kSelected.initiators);
    machine = usual;
    machine.dc.connect = usual.dc.connect / 2;
    machine.dc.disconnect = usual.dc.disconnect / 2;
    row("dc_connect and dc_disconnect halved", machine, kSelected.initiators);
    machine.dc.connect = usual.dc.connect * 2;
    machine.dc.disconnect = usual.dc.disconnect * 2;
    row("dc_connect and dc_disconnect doubled", machine, kSelected.initiators);
    machine = usual;
    machine.dc.message = Nanoseconds{0};
    row("dc_message 0", machine, kSelected.initiators);
    row("4 initiators", usual, 4);
    row("with p for each look at a ring", usual, kSelected.initiators, usual.processor.poll_empty);
}

} // namespace

int channel_study(const char* name, const char* title, Program program, const Change& published,
                  const Measured& measured, int argc, char** argv) {
    Study study(name, title, "machine model connect-ib");
    study.parse(argc, argv);
    const bool brief = study.quick() || program == Program::repeat; // repeat has ten parts
    const Comparison comparison(study, program, brief ? 100'000 : 300'000);
    Panel panel;
    panel.title = title;
    panel.unit = "us a message";
    panel.bytes = false;
    panel.log = false;
    double last[4] = {};
    for (std::uint32_t ranks = 2; ranks <= kMostRanks; ranks *= study.quick() ? 32 : 2) {
        std::size_t i = 0;
        for (const Method& method : {kDc, kRc, kSelected, kPublishedCosts}) {
            const Result result = comparison.run(method, ranks, *sim::machine("connect-ib"));
            last[i++] = result.microseconds;
            panel[method.name].points.emplace_back(ranks, result.microseconds);
            if (ranks == kMostRanks) {
                study.row(std::string("64 ranks, ") + method.name, "us", result.microseconds);
                study.note(std::string(method.name) + ": " + result.text);
            }
        }
    }
    study.panel(panel);
    const double against_dc = 100 * (last[2] / last[0] - 1);
    const double against_rc = 100 * (last[2] / last[1] - 1);
    const auto compare = [&](const char* what, double time, const Change& known) {
        const auto row = [&](const char* other, double base, double paper, double usual) {
            study.row(std::string(what) + " against " + other, "%", 100 * (time / base - 1), paper,
                      Bound{usual - measured.margin, usual + measured.margin});
        };
        row(kDc.name, last[0], published.against_dc, known.against_dc);
        row(kRc.name, last[1], published.against_rc, known.against_rc);
    };
    compare(kSelected.name, last[2], measured.ours);
    compare(kPublishedCosts.name, last[3], measured.by_published_costs);
    if (!study.quick()) {
        const Comparison shorter(study, program, 100'000);
        add_breakdown(study, shorter);
        add_varied(study, shorter);
    }
    return study.finish(std::string(name) + ": " + number_text(against_dc) + " % (paper " +
                        number_text(published.against_dc) + ") against DC on demand, " +
                        number_text(against_rc) + " % (paper " + number_text(published.against_rc) +
                        ") against RC on demand");
}

} // namespace adaptib::study
