// SPDX-License-Identifier: BSD-3-Clause
// The program adaptib_advise: reads what OpenSM wrote and a job's traffic, and prints advice.
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "simulator/advise/advice_text.h"
#include "simulator/advise/advisor.h"
#include "simulator/advise/placement.h"
#include "simulator/advise/report_matrix.h"
#include "simulator/advise/traffic_matrix.h"
#include "simulator/network/opensm_routes.h"
#include "simulator/network/topology_file.h"

namespace {

using namespace adaptib;
using namespace adaptib::advise;

constexpr const char* kUsage =
    "usage: adaptib_advise --topology FILE --routes FILE [OPTION]... DIRECTORY\n"
    "       adaptib_advise --topology FILE --routes FILE [OPTION]... --traffic FILE\n"
    "\n"
    "Advises which striping policy, paths_per_port and placement make a job's long messages\n"
    "fastest on an InfiniBand network, as a simulation with adaptib's own schedulers tells.\n"
    "DIRECTORY has the reports of the job (opal_common_adaptib_report).\n"
    "\n"
    "  --topology FILE      the network, as ibnetdiscover writes it\n"
    "  --routes FILE        its routes, as OpenSM writes them (opensm-lfts.dump)\n"
    "  --traffic FILE       the traffic as CSV, as adaptib_report --matrix writes it\n"
    "  --machine NAME       costs of adapters and processors (connect-ib)\n"
    "  --ranks-per-host N   if the traffic names no hosts: ranks on each, in order (1)\n"
    "  --json               for programs\n"
    "  --help               this text\n"
    "\n"
    "Exit status: 0 advice was given; 1 something cannot be read, or does not fit; 2 wrong\n"
    "arguments.\n"
    "Machines:";

struct Arguments {
    std::string topology;
    std::string routes;
    std::string traffic;
    std::string directory;
    std::string machine = "connect-ib";
    std::uint32_t ranks_per_host = 1;
    bool json = false;
};

void print_usage(std::FILE* to) {
    std::fputs(kUsage, to);
    for (const sim::MachineModel& each : sim::machines()) {
        std::fprintf(to, " %s", std::string(each.name).c_str());
    }
    std::fputs("\n", to);
}

[[noreturn]] void refuse(const std::string& text) {
    std::fprintf(stderr, "adaptib_advise: %s\n", text.c_str());
    print_usage(stderr);
    std::exit(2);
}

std::string* text_option(Arguments& arguments, std::string_view name) {
    return name == "--topology"  ? &arguments.topology
           : name == "--routes"  ? &arguments.routes
           : name == "--traffic" ? &arguments.traffic
           : name == "--machine" ? &arguments.machine
                                 : nullptr;
}

std::uint32_t positive(const std::string& text) {
    char* end = nullptr;
    const unsigned long value = std::strtoul(text.c_str(), &end, 10);
    if (end == text.c_str() || *end != '\0' || value == 0 || value > kMostRanks) {
        refuse("--ranks-per-host is a number from 1 to " + std::to_string(kMostRanks) + ", not " +
               text);
    }
    return static_cast<std::uint32_t>(value);
}

Arguments parse(int argc, char** argv) {
    Arguments arguments;
    for (int i = 1; i < argc; ++i) {
        const std::string name = argv[i];
        const auto value = [&] {
            if (++i == argc) {
                refuse(name + " needs a value");
            }
            return std::string(argv[i]);
        };
        if (name == "--help" || name == "-h") {
            print_usage(stdout);
            std::exit(0);
        }
        if (std::string* const text = text_option(arguments, name)) {
            *text = value();
        } else if (name == "--ranks-per-host") {
            arguments.ranks_per_host = positive(value());
        } else if (name == "--json") {
            arguments.json = true;
        } else if (name.starts_with("-")) {
            refuse("there is no option " + name);
        } else if (arguments.directory.empty()) {
            arguments.directory = name;
        } else {
            refuse("one directory is enough");
        }
    }
    if (arguments.topology.empty() || arguments.routes.empty()) {
        refuse("--topology and --routes are needed");
    }
    if (arguments.traffic.empty() == arguments.directory.empty()) {
        refuse("either a directory with reports or --traffic is needed");
    }
    return arguments;
}

bool read_job_traffic(const Arguments& arguments, TrafficMatrix& out, std::string& error) {
    if (!arguments.traffic.empty()) {
        return read_traffic(arguments.traffic, out, error);
    }
    std::string text;
    return matrix_of_reports(arguments.directory, text, error) &&
           parse_traffic(text, arguments.directory, out, error);
}

bool read_all(const Arguments& arguments, TrafficMatrix& traffic, JobNetwork& network,
              std::string& error) {
    const sim::MachineModel* const machine = sim::machine(arguments.machine);
    if (machine == nullptr) {
        refuse("there is no machine " + arguments.machine);
    }
    network.machine = *machine;
    return read_topology(arguments.topology, sim::links_of(*machine), 0, network.topology, error) &&
           read_opensm_routes(arguments.routes, network.topology, network.routes, error) &&
           read_job_traffic(arguments, traffic, error) &&
           place(traffic, network.topology, arguments.ranks_per_host, network.hosts, error);
}

} // namespace

int main(int argc, char** argv) {
    // The simulated messages take buffers again and again, which would cost system calls each time.
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    const Arguments arguments = parse(argc, argv);
    TrafficMatrix traffic;
    JobNetwork network;
    Advice advice;
    std::string error;
    if (!read_all(arguments, traffic, network, error) ||
        !Advisor(network, traffic).advise(advice, error)) {
        std::fprintf(stderr, "adaptib_advise: %s\n", error.c_str());
        return 1;
    }
    std::fputs(
        (arguments.json ? advice_json(advice, network) : advice_text(advice, traffic, network))
            .c_str(),
        stdout);
    return 0;
}
