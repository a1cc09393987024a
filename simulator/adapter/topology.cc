// SPDX-License-Identifier: BSD-3-Clause
// Reading of topology files.
#include "topology.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

namespace adaptib::hca {
namespace {

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
        finish();
        return std::move(topology_);
    }

private:
    [[noreturn]] void fail(const std::string& reason) const {
        throw TopologyError(path_ + ":" + std::to_string(line_) + ": " + reason);
    }

    void statement(const std::string& kind, std::istringstream& words) {
        std::string word;
        if (kind == "host" && words >> word) {
            topology_.hosts.push_back(word);
        } else if (kind == "device" && !topology_.hosts.empty() && words >> word) {
            add_device(word);
            settings(words, [this](const std::string& key, const std::string& value) {
                device_setting(topology_.devices.back(), key, value);
            });
        } else if (kind == "port" && !topology_.devices.empty()) {
            add_port();
            settings(words, [this](const std::string& key, const std::string& value) {
                port_setting(topology_.devices.back().ports.back(), key, value);
            });
        } else {
            fail("host NAME, device NAME or port is expected, in this order");
        }
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

    void add_device(const std::string& name) {
        DeviceDescription device;
        device.name = name;
        device.host = static_cast<unsigned>(topology_.hosts.size() - 1);
        device.guid = 0x0002c90300000000ULL + (topology_.devices.size() + 1) * 0x100;
        topology_.devices.push_back(device);
    }

    void add_port() {
        DeviceDescription& device = topology_.devices.back();
        PortDescription port;
        port.number = ports_++;
        port.device = static_cast<unsigned>(topology_.devices.size() - 1);
        port.index = static_cast<std::uint8_t>(device.ports.size() + 1);
        port.guid = device.guid + port.index;
        device.ports.push_back(port);
    }

    unsigned number(const std::string& text, unsigned limit) const {
        std::size_t used = 0;
        unsigned long value = 0;
        try {
            value = std::stoul(text, &used, 0);
        } catch (const std::exception&) {
            used = 0;
        }
        if (used == 0 || used != text.size() || value > limit) {
            fail(text + " is no number up to " + std::to_string(limit));
        }
        return static_cast<unsigned>(value);
    }

    void device_setting(DeviceDescription& device, const std::string& key,
                        const std::string& value) {
        const int count = static_cast<int>(number(value, 1U << 24));
        if (key == "max_sge")
            device.max_sge = count;
        else if (key == "max_inline")
            device.max_inline = static_cast<unsigned>(count);
        else if (key == "max_reads")
            device.max_reads = count;
        else if (key == "max_qp")
            device.max_qp = count;
        else if (key == "max_qp_wr")
            device.max_qp_wr = count;
        else if (key == "max_cqe")
            device.max_cqe = count;
        else if (key == "max_srq")
            device.max_srq = count;
        else if (key == "in_order")
            device.data_in_order = count != 0;
        else if (key == "scrambled_writes")
            device.scrambled_writes = count != 0;
        else
            fail("no setting of a device: " + key);
    }

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
            port.max_mtu = port.active_mtu = mtu(value);
        else if (key == "active_mtu")
            port.active_mtu = mtu(value);
        else if (key == "rate")
            port.gigabits = number(value, 1000);
        else if (key == "pkeys")
            pkeys(port, value);
        else if (key == "gid")
            port.gids.push_back(gid(value));
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
        std::istringstream list(value);
        for (std::string key; std::getline(list, key, ',');) {
            port.pkeys.push_back(static_cast<std::uint16_t>(number(key, 0xffff)));
        }
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

    static Gid link_local(std::uint64_t guid) {
        Gid result{0xfe, 0x80};
        for (int byte = 0; byte < 8; ++byte) {
            result[15 - byte] = static_cast<std::uint8_t>(guid >> (8 * byte));
        }
        return result;
    }

    void finish() {
        for (DeviceDescription& device : topology_.devices) {
            for (PortDescription& port : device.ports) {
                port.gids.insert(port.gids.begin(), link_local(port.guid));
                if (port.pkeys.empty()) {
                    port.pkeys.push_back(0xffff);
                }
                if (!port.ethernet && (port.lid == 0 || port.lid % (1U << port.lmc) != 0)) {
                    fail(device.name + ": an InfiniBand port needs lid=, a multiple of 2^lmc");
                }
                topology_.ports.push_back(&port);
            }
        }
        check_addresses();
    }

    void check_addresses() const {
        std::vector<bool> taken(0x10000);
        for (const PortDescription* port : topology_.ports) {
            for (unsigned path = 0; !port->ethernet && path < (1U << port->lmc); ++path) {
                if (taken[port->lid + path]) {
                    fail("LID " + std::to_string(port->lid + path) + " is given twice");
                }
                taken[port->lid + path] = true;
            }
        }
    }

    std::string path_;
    Topology topology_;
    unsigned line_ = 0;
    unsigned ports_ = 0;
};

} // namespace

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

const PortDescription* Topology::by_lid(std::uint16_t lid) const {
    for (const PortDescription* port : ports) {
        if (!port->ethernet && lid >= port->lid && lid < port->lid + (1U << port->lmc)) {
            return port;
        }
    }
    return nullptr;
}

const PortDescription* Topology::by_gid(const Gid& gid) const {
    for (const PortDescription* port : ports) {
        if (std::find(port->gids.begin(), port->gids.end(), gid) != port->gids.end()) {
            return port;
        }
    }
    return nullptr;
}

Topology parse_topology(const std::string& path) { return Reader(path).read(); }

} // namespace adaptib::hca
