// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/advise/advice_text.h"

#include <cstdarg>
#include <cstdio>
#include <set>

#include "base/json_writer.h"

namespace adaptib::advise {

namespace {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, pattern);
    std::vsnprintf(text, sizeof text, pattern, arguments);
    va_end(arguments);
    return text;
}

std::string bytes_text(double bytes) {
    static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    std::size_t unit = 0;
    for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) {
        bytes /= 1024;
    }
    return format("%.3g %s", bytes, kUnits[unit]);
}

std::string head_text(const TrafficMatrix& traffic, const JobNetwork& network) {
    const sim::Topology& topology = network.topology;
    const std::set<std::uint32_t> hosts(network.hosts.begin(), network.hosts.end());
    const auto bytes = static_cast<double>(traffic.bytes());
    return format("%u ranks on %zu of %zu hosts, with %zu port(s) each of %u path(s) (LMC %u)\n",
                  traffic.ranks, hosts.size(), topology.hosts.size(),
                  topology.hosts[network.hosts.front()].ports.size(), 1u << topology.lmc,
                  topology.lmc) +
           format("%zu pairs exchange %s in messages of %s on average\n\n", traffic.pairs.size(),
                  bytes_text(bytes).c_str(),
                  bytes_text(bytes / static_cast<double>(traffic.messages())).c_str());
}

std::string row_text(const std::string& what, const Advice& advice,
                     const std::vector<double>& seconds, const char* mark) {
    std::string text = format("  %-24s", what.c_str());
    for (const double each : seconds) {
        text += format(" %10.4g", 1e3 * each);
    }
    return text + format(" %9.3f%s\n", advice.relative(seconds), mark);
}

std::string table_text(const Advice& advice) {
    std::string text = format("  %-24s", "time of a round, ms");
    for (const std::string& order : advice.orders) {
        text += format(" %10s", order.c_str());
    }
    text += format(" %9s\n", "relative");
    for (std::size_t i = 0; i < advice.choices.size(); ++i) {
        const Timed& each = advice.choices[i];
        const bool usual = i + 1 == advice.choices.size();
        text += row_text(each.choice.text(), advice, each.seconds,
                         i == advice.best && usual ? "  <- the defaults, and best"
                         : i == advice.best        ? "  <- best"
                         : usual                   ? "  <- the defaults"
                                                   : "");
    }
    text += row_text("an ideal balancer", advice, advice.ideal.seconds, "");
    return advice.hosts.empty()
               ? text
               : text + row_text("best, other placement", advice, advice.placed, "");
}

std::string policy_text(const Advice& advice) {
    const double ideal = advice.relative(advice.ideal.seconds);
    const double best = advice.relative(advice.chosen().seconds);
    if (advice.chosen().choice == advice.usual().choice) {
        return format("Policy: keep the defaults. No fixed choice is more than 1 %% faster; an "
                      "ideal balancer would take %.3f of their time.\n",
                      ideal);
    }
    return "Policy: " + advice.chosen().choice.arguments() + "\n" +
           format("  takes %.3f of the time of the defaults; an ideal balancer would take %.3f.\n",
                  best, ideal);
}

std::string placement_text(const Advice& advice) {
    if (advice.hosts.empty()) {
        return "Placement: keep it. Ranks gathered by their traffic would gain less than 3 %.\n";
    }
    std::string text =
        format("Placement: as in this rank file (mpirun --rankfile); the job then takes %.3f of "
               "the time of the defaults where it is now.\n",
               advice.relative(advice.placed));
    for (std::size_t rank = 0; rank < advice.host_names.size(); ++rank) {
        text += "  rank " + std::to_string(rank) + "=" + advice.host_names[rank] + " slot=*\n";
    }
    return text;
}

std::string lids_text(const Advice& advice, const sim::Topology& topology) {
    const double gap =
        1 - advice.relative(advice.ideal.seconds) / advice.relative(advice.chosen().seconds);
    if (topology.lmc > 0 || gap < 0.03) {
        return "";
    }
    return format("Routes: each port has one LID, so there is one path. Routes that do not collide "
                  "would save %.0f %%; several LIDs a port (OpenSM's lmc) let adaptib balance "
                  "them.\n",
                  100 * gap);
}

} // namespace

std::string advice_text(const Advice& advice, const TrafficMatrix& traffic,
                        const JobNetwork& network) {
    std::string text = head_text(traffic, network) + table_text(advice) + "\n" +
                       policy_text(advice) + placement_text(advice) +
                       lids_text(advice, network.topology) + "\nAssumptions\n";
    for (const std::string& sentence : assumptions(advice, network.machine)) {
        text += "  - " + sentence + "\n";
    }
    return text;
}

std::string advice_json(const Advice& advice, const JobNetwork& network) {
    const auto thousandths = [](double value) { return static_cast<long>(1e3 * value + 0.5); };
    JsonWriter json;
    json.begin_object();
    json.text("schema", "adaptib-advice");
    json.number("version", 1);
    json.text("striping_policy", advice.chosen().choice.striping);
    json.number("paths_per_port", advice.chosen().choice.paths);
    json.number("bss_batch", advice.chosen().choice.bss_batch);
    json.number("time_per_mille_of_defaults",
                thousandths(advice.relative(advice.chosen().seconds)));
    json.number("ideal_per_mille_of_defaults", thousandths(advice.relative(advice.ideal.seconds)));
    json.begin_array("placement");
    for (const std::string& host : advice.host_names) {
        json.text("", host);
    }
    json.end_array();
    if (!advice.placed.empty()) {
        json.number("placed_per_mille_of_defaults", thousandths(advice.relative(advice.placed)));
    }
    json.begin_array("assumptions");
    for (const std::string& sentence : assumptions(advice, network.machine)) {
        json.text("", sentence);
    }
    json.end_array();
    json.end_object();
    return json.result();
}

} // namespace adaptib::advise
