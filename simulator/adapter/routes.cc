// SPDX-License-Identifier: BSD-3-Clause
// Command: makes a topology file of some hosts of a network that OpenSM has routed. README.md,
// "Routes".
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "simulator/network/opensm_routes.h"
#include "simulator/network/topology_file.h"

namespace adaptib::hca {
namespace {

int usage() {
    std::fprintf(stderr,
                 "usage: adaptib_hca_routes [--rate MEGABYTES] TOPOLOGY LFTS HOST...\n"
                 "TOPOLOGY: what ibnetdiscover prints. LFTS: OpenSM's opensm-lfts.dump. The file "
                 "is printed;\nits links carry so many megabytes a second (none: any).\n");
    return 2;
}

// Prints what the hosts are, and the routes between their ports with the links that they pass.
class Printer {
public:
    Printer(const sim::Topology& topology, const sim::Routes& routes, std::string rate)
        : topology_(topology), routes_(routes), rate_(std::move(rate)) {}

    // Returns false if there is no such host.
    bool add(const std::string& name) {
        for (const sim::Host& host : topology_.hosts) {
            if (host.name == name) {
                print_host(host);
                return true;
            }
        }
        return false;
    }

    void print_routes() {
        for (const NamedPort& from : ports_) {
            for (const NamedPort& to : ports_) {
                if (from.port != to.port) {
                    print_routes(from, to);
                }
            }
        }
    }

private:
    struct NamedPort {
        sim::PortIndex port;
        std::string name; // HOST/DEVICE:PORT
    };

    void print_host(const sim::Host& host) {
        std::printf("host %s\n", host.name.c_str());
        for (std::size_t device = 0; device < host.adapters.size(); ++device) {
            std::printf("    device v%zu\n", device);
            unsigned number = 0;
            for (const sim::PortIndex port : host.ports) {
                if (topology_.ports[port].adapter == host.adapters[device]) {
                    std::printf("        port lid=%u lmc=%u\n", topology_.ports[port].lid,
                                topology_.lmc);
                    ports_.push_back({port, host.name + "/v" + std::to_string(device) + ":" +
                                                std::to_string(++number)});
                }
            }
        }
    }

    // Node and port at which the link begins.
    std::string link_name(sim::LinkIndex link) const {
        const sim::Link& is = topology_.links[link];
        std::string name = topology_.nodes[is.from].name + "." + std::to_string(is.from_port);
        for (char& c : name) {
            c = c == ' ' || c == ',' || c == '#' ? '_' : c;
        }
        return name;
    }

    void print_routes(const NamedPort& from, const NamedPort& to) {
        for (sim::Lid path = 0; path < 1U << topology_.lmc; ++path) {
            const sim::Lid lid = topology_.ports[to.port].lid + path;
            std::vector<sim::LinkIndex> links;
            if (!routes_.path(topology_, from.port, lid, links)) {
                continue; // of another network
            }
            std::string over;
            for (const sim::LinkIndex link : links) {
                const std::string name = link_name(link);
                if (named_.insert(link).second) {
                    std::printf("link %s%s\n", name.c_str(), rate_.c_str());
                }
                over += (over.empty() ? "" : ",") + name;
            }
            std::printf("route %s %u over=%s\n", from.name.c_str(), lid, over.c_str());
        }
    }

    const sim::Topology& topology_;
    const sim::Routes& routes_;
    const std::string rate_;
    std::vector<NamedPort> ports_;
    std::set<sim::LinkIndex> named_;
};

int print(int argc, char** argv) {
    std::string rate;
    int at = 1;
    if (argc > 2 && std::strcmp(argv[1], "--rate") == 0) {
        rate = std::string(" rate=") + argv[2];
        at = std::strspn(argv[2], "0123456789") == std::strlen(argv[2]) ? 3 : argc;
    }
    if (argc - at < 3) {
        return usage();
    }
    sim::Topology topology;
    sim::Routes routes;
    std::string error;
    if (!sim::read_topology(argv[at], {}, 0, topology, error) ||
        !sim::read_opensm_routes(argv[at + 1], topology, routes, error)) {
        std::fprintf(stderr, "adaptib_hca_routes: %s\n", error.c_str());
        return 1;
    }
    Printer printer(topology, routes, rate);
    for (int host = at + 2; host < argc; ++host) {
        if (!printer.add(argv[host])) {
            std::fprintf(stderr, "adaptib_hca_routes: %s: no host %s\n", argv[at], argv[host]);
            return 1;
        }
    }
    printer.print_routes();
    return 0;
}

} // namespace
} // namespace adaptib::hca

int main(int argc, char** argv) { return adaptib::hca::print(argc, argv); }
