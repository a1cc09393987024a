// SPDX-License-Identifier: BSD-3-Clause
// Reading of topology files.
#include "topology.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

namespace adaptib::hca {
namespace {

constexpr std::size_t kNameBytes = 63;      // ibv_device::name
constexpr std::size_t kPortsOfDevice = 254; // ibv_device_attr::phys_port_cnt

[[noreturn]] void complain(const std::string& path, unsigned line, const std::string& reason) {
    throw TopologyError(path + (line == 0 ? "" : ":" + std::to_string(line)) + ": " + reason);
}

// Completes what the file leaves out, and checks what no single line shows.
class Completion {
public:
    Completion(std::string path, Topology& topology)
        : path_(std::move(path)), topology_(topology), lids_(0x10000) {}

    void run() {
        if (topology_.hosts.empty()) {
            complain(path_, 0, "no host is described");
        }
        for (DeviceDescription& device : topology_.devices) {
            if (device.ports.empty()) {
                complain(path_, device.line, "device " + device.name + " has no port");
            }
            for (PortDescription& port : device.ports) {
                complete(port);
                check_lids(port);
                check_gids(port);
                fill_tables(device, port);
                topology_.ports.push_back(&port);
            }
        }
    }

private:
    [[noreturn]] void fail(const PortDescription& port, const std::string& reason) const {
        complain(path_, port.line, reason);
    }

    void complete(PortDescription& port) const {
        port.gids.insert(port.gids.begin(), link_local(port.guid));
        port.vlans.insert(port.vlans.begin(), 0);
        if (port.pkeys.empty()) {
            port.pkeys.push_back(0xffff);
        }
        if (port.active_mtu == 0) {
            port.active_mtu = port.max_mtu;
        }
        if (port.active_mtu > port.max_mtu) {
            fail(port, "active_mtu is above mtu");
        }
    }

    void check_lids(const PortDescription& port) {
        if (port.ethernet) {
            if (port.lid != 0 || port.lmc != 0) {
                fail(port, "an Ethernet port has no lid= and no lmc=");
            }
            return;
        }
        if (port.lid == 0 || port.lid % (1U << port.lmc) != 0) {
            fail(port, "an InfiniBand port needs lid=, a multiple of 2^lmc");
        }
        for (unsigned lid = port.lid; lid < port.lid + (1U << port.lmc); ++lid) {
            if (lids_[lid]) {
                fail(port, "LID " + std::to_string(lid) + " is given twice");
            }
            lids_[lid] = true;
        }
    }

    void check_gids(const PortDescription& port) {
        for (const Gid& gid : port.gids) {
            if (!gids_.insert(gid).second) {
                fail(port, "a GID is given twice");
            }
        }
    }

    // The tables as the device's driver has them.
    static void fill_tables(const DeviceDescription& device, PortDescription& port) {
        const auto pkeys = static_cast<std::size_t>(device.rule(Rule::pkey_table));
        if (!port.ethernet && port.pkeys.size() < pkeys) {
            port.pkeys.resize(pkeys);
        }
        port.first_version.assign(port.gids.size(), false);
        if (port.ethernet && device.rule(Rule::gid_twice) != 0) {
            for (std::size_t gid = 0; gid < port.gids.size(); gid += 2) {
                const auto at = static_cast<std::ptrdiff_t>(gid);
                port.gids.insert(port.gids.begin() + at, Gid(port.gids[gid]));
                port.vlans.insert(port.vlans.begin() + at, std::uint16_t{port.vlans[gid]});
                port.first_version.insert(port.first_version.begin() + at, true);
            }
        }
        port.gid_entries = std::max(static_cast<unsigned>(device.rule(Rule::gid_table)),
                                    static_cast<unsigned>(port.gids.size()));
    }

    static Gid link_local(std::uint64_t guid) {
        Gid result{0xfe, 0x80};
        for (int byte = 0; byte < 8; ++byte) {
            result[15 - byte] = static_cast<std::uint8_t>(guid >> (8 * byte));
        }
        return result;
    }

    const std::string path_;
    Topology& topology_;
    std::vector<bool> lids_; // taken
    std::set<Gid> gids_;
};

class Reader {
public:
    explicit Reader(std::string path) : path_(std::move(path)) {}

    Topology read() {
        std::ifstream file(path_);
        if (!file) {
            fail("cannot be read");
        }
        for (std::string line; std::getline(file, line);) {
            ++line_;
            std::istringstream words(line.substr(0, line.find('#')));
            if (std::string kind; words >> kind) {
                statement(kind, words);
            }
        }
        if (file.bad()) {
            fail("cannot be read");
        }
        Completion(path_, topology_).run();
        for (const Route& route : routes_) {
            line_ = route.line;
            resolve(route);
        }
        return std::move(topology_);
    }

private:
    [[noreturn]] void fail(const std::string& reason) const { complain(path_, line_, reason); }

    void statement(const std::string& kind, std::istringstream& words) {
        std::string name;
        if (kind == "host" && words >> name) {
            add_host(name);
            settings(words, [this](const std::string& key, const std::string&) {
                fail("no setting of a host: " + key);
            });
        } else if (kind == "device" && !topology_.hosts.empty() && words >> name) {
            add_device(name);
            bool first = true;
            settings(words, [&](const std::string& key, const std::string& value) {
                if (key == "driver") {
                    set_driver(topology_.devices.back(), value, first);
                } else {
                    device_setting(topology_.devices.back(), key, value);
                }
                first = false;
            });
        } else if (kind == "port" && device_known()) {
            add_port();
            settings(words, [this](const std::string& key, const std::string& value) {
                port_setting(topology_.devices.back().ports.back(), key, value);
            });
        } else if (kind == "link" && words >> name) {
            add_link(name);
            settings(words, [this](const std::string& key, const std::string& value) {
                if (key == "rate") {
                    topology_.links.back().rate = number(value, 1U << 20, 1);
                } else if (key == "cut") {
                    topology_.links.back().cut = number(value, 1, 0) != 0;
                } else {
                    fail("no setting of a link: " + key);
                }
            });
        } else if (kind == "route" && words >> name) {
            add_route(name, words);
        } else {
            fail(
                "host NAME, device NAME or port is expected, in this order, or link NAME, or route "
                "PORT LID");
        }
    }

    // Returns true if the last host has a device.
    bool device_known() const {
        return !topology_.devices.empty() &&
               topology_.devices.back().host + 1 == topology_.hosts.size();
    }

    template <typename Set> void settings(std::istringstream& words, Set set) {
        for (std::string word; words >> word;) {
            const std::size_t equals = word.find('=');
            if (equals == std::string::npos) {
                fail(word + " is no key=value");
            }
            set(word.substr(0, equals), word.substr(equals + 1));
        }
    }

    void add_host(const std::string& name) {
        if (topology_.host(name) >= 0) {
            fail("host " + name + " is described twice");
        }
        topology_.hosts.push_back(name);
    }

    void add_device(const std::string& name) {
        if (topology_.device(topology_.hosts.back(), name) >= 0) {
            fail("device " + name + " of host " + topology_.hosts.back() + " is described twice");
        }
        if (name.size() > kNameBytes) {
            fail("a device's name has at most " + std::to_string(kNameBytes) + " characters");
        }
        DeviceDescription device;
        device.line = line_;
        device.name = name;
        device.host = static_cast<unsigned>(topology_.hosts.size() - 1);
        device.guid = 0x0002c90300000000ULL + (topology_.devices.size() + 1) * 0x100;
        topology_.devices.push_back(device);
    }

    void add_port() {
        DeviceDescription& device = topology_.devices.back();
        if (ports_ == kPorts || device.ports.size() == kPortsOfDevice) {
            fail("at most " + std::to_string(kPorts) + " ports are possible, and " +
                 std::to_string(kPortsOfDevice) + " of a device");
        }
        PortDescription port;
        port.line = line_;
        port.number = ports_++;
        port.device = static_cast<unsigned>(topology_.devices.size() - 1);
        port.index = static_cast<std::uint8_t>(device.ports.size() + 1);
        port.guid = device.guid + port.index;
        device.ports.push_back(port);
    }

    void add_link(const std::string& name) {
        if (topology_.link(name) >= 0) {
            fail("link " + name + " is described twice");
        }
        if (topology_.links.size() == kLinks) {
            fail("at most " + std::to_string(kLinks) + " links are possible");
        }
        topology_.links.push_back({name});
    }

    // A route as the file has it. Ports and links may be described behind it.
    struct Route {
        unsigned line;
        std::string from;
        unsigned lid;
        std::string over; // names with commas between
    };

    void add_route(const std::string& from, std::istringstream& words) {
        std::string lid;
        if (!(words >> lid)) {
            fail("route HOST/DEVICE:PORT LID over=LINK,LINK... is expected");
        }
        routes_.push_back({line_, from, number(lid, 0xbfff, 1), ""});
        settings(words, [this](const std::string& key, const std::string& value) {
            if (key != "over") {
                fail("no setting of a route: " + key);
            }
            routes_.back().over = value;
        });
    }

    void resolve(const Route& route) {
        const int from = topology_.port(route.from);
        const PortDescription* const to = topology_.by_lid(static_cast<std::uint16_t>(route.lid));
        if (from < 0 || to == nullptr) {
            fail(from < 0 ? "there is no port " + route.from
                          : "LID " + std::to_string(route.lid) + " is nobody's");
        }
        std::vector<unsigned> links;
        std::istringstream names(route.over);
        for (std::string name; std::getline(names, name, ',');) {
            const int link = topology_.link(name);
            if (link < 0) {
                fail("there is no link " + name);
            }
            links.push_back(static_cast<unsigned>(link));
        }
        const std::array<unsigned, 3> key{static_cast<unsigned>(from), to->number,
                                          route.lid - to->lid};
        if (!topology_.routes.emplace(key, std::move(links)).second) {
            fail("the route is given twice");
        }
    }

    unsigned number(const std::string& text, unsigned limit, unsigned least = 0) const {
        std::size_t used = 0;
        unsigned long value = 0;
        try {
            value = std::stoul(text, &used, 0);
        } catch (const std::exception&) {
            used = 0;
        }
        if (used == 0 || used != text.size() || value < least || value > limit) {
            fail("\"" + text + "\" is no number from " + std::to_string(least) + " to " +
                 std::to_string(limit));
        }
        return static_cast<unsigned>(value);
    }

    // Before other settings, which change single values.
    void set_driver(DeviceDescription& device, const std::string& name, bool first) const {
        Driver driver{};
        if (!first || !find_driver(name, driver)) {
            fail(first ? "there are no rules of a driver " + name : "driver= comes first");
        }
        device.rules = rules_of(driver);
    }

    void device_setting(DeviceDescription& device, const std::string& key,
                        const std::string& value) const {
        if (Rule rule{}; find_rule(key, rule))
            set_rule(device, rule, value);
        else if (key == "dc")
            device.dc = number(value, 1) != 0;
        else if (key == "dc_initiators")
            device.dc_initiators = number(value, kLimit);
        else if (key == "split_atomics")
            device.split_atomics = number(value, 1) != 0;
        else if (key == "reusable")
            device.reusable = number(value, 1) != 0;
        else if (key == "in_order")
            device.data_in_order = number(value, 1) != 0;
        else if (key == "scrambled_order")
            device.scrambled_order = number(value, 2);
        else if (key == "relaxed_order")
            device.relaxed_order = number(value, 1) != 0;
        else if (key == "scrambled_writes")
            device.scrambled_writes = number(value, 64);
        else
            fail("no setting of a device: " + key);
    }

    void set_rule(DeviceDescription& device, Rule rule, const std::string& value) const {
        const bool needed = rule == Rule::max_sge || rule == Rule::max_qp ||
                            rule == Rule::max_qp_wr || rule == Rule::max_cqe;
        const auto set = [&](Rule which) {
            device.rules[static_cast<std::size_t>(which)] = number(value, kLimit, needed ? 1 : 0);
        };
        set(rule);
        if (rule == Rule::max_reads) { // of both ends
            set(Rule::max_init_reads);
        }
    }

    static constexpr unsigned kLimit = 1U << 24;

    void port_setting(PortDescription& port, const std::string& key, const std::string& value) {
        if (key == "link" && (value == "infiniband" || value == "ethernet")) {
            port.ethernet = value == "ethernet";
        } else if (key == "lid")
            port.lid = static_cast<std::uint16_t>(number(value, 0xbfff));
        else if (key == "lmc")
            port.lmc = static_cast<std::uint8_t>(number(value, 7));
        else if (key == "sl")
            port.sl = static_cast<std::uint8_t>(number(value, 15));
        else if (key == "mtu")
            port.max_mtu = mtu(value);
        else if (key == "active_mtu")
            port.active_mtu = mtu(value);
        else if (key == "rate")
            port.gigabits = number(value, 1000, 1);
        else if (key == "pkeys")
            pkeys(port, value);
        else if (key == "gid")
            add_gid(port, value);
        else
            fail("no setting of a port: " + key + "=" + value);
    }

    unsigned mtu(const std::string& text) const {
        const unsigned value = number(text, 4096);
        if (value < 256 || (value & (value - 1)) != 0) {
            fail(text + " is no MTU: 256, 512, 1024, 2048 or 4096");
        }
        return value;
    }

    void pkeys(PortDescription& port, const std::string& value) const {
        std::size_t at = 0;
        for (std::size_t comma = 0; comma != std::string::npos; at = comma + 1) {
            comma = value.find(',', at);
            const std::string key = value.substr(at, comma - at);
            port.pkeys.push_back(static_cast<std::uint16_t>(number(key, 0xffff)));
        }
    }

    // ADDRESS or ADDRESS%VLAN.
    void add_gid(PortDescription& port, const std::string& text) const {
        const std::size_t percent = text.find('%');
        port.gids.push_back(gid(text.substr(0, percent)));
        const bool has = percent != std::string::npos;
        port.vlans.push_back(
            has ? static_cast<std::uint16_t>(number(text.substr(percent + 1), 4094, 1)) : 0);
    }

    // An IPv6 address, or an IPv4 address, which becomes a mapped one.
    Gid gid(const std::string& text) const {
        Gid result{};
        const std::string full = text.find(':') == std::string::npos ? "::ffff:" + text : text;
        if (inet_pton(AF_INET6, full.c_str(), result.data()) != 1) {
            fail(text + " is no GID");
        }
        return result;
    }

    std::string path_;
    Topology topology_;
    std::vector<Route> routes_;
    unsigned line_ = 0;
    unsigned ports_ = 0;
};

} // namespace

int PortDescription::gid_index(const Gid& gid) const {
    const auto found = std::find(gids.begin(), gids.end(), gid);
    return found == gids.end() ? -1 : static_cast<int>(found - gids.begin());
}

int Topology::host(const std::string& name) const {
    const auto found = std::find(hosts.begin(), hosts.end(), name);
    return found == hosts.end() ? -1 : static_cast<int>(found - hosts.begin());
}

int Topology::device(const std::string& host_name, const std::string& device_name) const {
    const int wanted = host(host_name);
    for (std::size_t index = 0; index < devices.size(); ++index) {
        if (static_cast<int>(devices[index].host) == wanted && devices[index].name == device_name) {
            return static_cast<int>(index);
        }
    }
    return -1;
}

int Topology::port(const std::string& name) const {
    const std::size_t slash = name.find('/');
    const std::size_t colon = name.find(':', slash);
    if (slash == std::string::npos || colon == std::string::npos) {
        return -1;
    }
    const int of = device(name.substr(0, slash), name.substr(slash + 1, colon - slash - 1));
    const unsigned long index = std::strtoul(name.c_str() + colon + 1, nullptr, 10);
    if (of < 0 || index == 0 || index > devices[static_cast<std::size_t>(of)].ports.size()) {
        return -1;
    }
    return static_cast<int>(devices[static_cast<std::size_t>(of)].ports[index - 1].number);
}

int Topology::link(const std::string& name) const {
    const auto found =
        std::find_if(links.begin(), links.end(),
                     [&name](const LinkDescription& each) { return each.name == name; });
    return found == links.end() ? -1 : static_cast<int>(found - links.begin());
}

const PortDescription* Topology::by_gid(const Gid& gid) const {
    for (const PortDescription* port : ports) {
        if (port->gid_index(gid) >= 0) {
            return port;
        }
    }
    return nullptr;
}

Topology parse_topology(const std::string& path) { return Reader(path).read(); }

} // namespace adaptib::hca
