// SPDX-License-Identifier: BSD-3-Clause
// Reads a port: state, GID, partition key.
#include "fabric/verbs/port.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/invariant.h"
#include "fabric/verbs/errors.h"

namespace adaptib::verbs {

namespace {

bool is_zero(const ibv_gid& gid) {
    return std::all_of(std::begin(gid.raw), std::end(gid.raw), [](auto b) { return b == 0; });
}

bool is_link_local(const std::uint8_t* raw) { return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80; }

// IP addresses of the interfaces in this process's network namespace that are up.
class OwnAddresses {
public:
    OwnAddresses() {
        if (getifaddrs(&list_) != 0) {
            list_ = nullptr;
        }
    }
    ~OwnAddresses() { freeifaddrs(list_); }
    OwnAddresses(const OwnAddresses&) = delete;
    OwnAddresses& operator=(const OwnAddresses&) = delete;

    bool contain(const ibv_gid& gid) const {
        for (const ifaddrs* at = list_; at != nullptr; at = at->ifa_next) {
            if (at->ifa_addr != nullptr && (at->ifa_flags & IFF_UP) != 0 &&
                is(gid, *at->ifa_addr)) {
                return true;
            }
        }
        return false;
    }

private:
    static bool is(const ibv_gid& gid, const sockaddr& address) {
        if (address.sa_family == AF_INET) {
            sockaddr_in ip;
            std::memcpy(&ip, &address, sizeof ip);
            return is_ipv4(gid.raw) && std::memcmp(gid.raw + 12, &ip.sin_addr, 4) == 0;
        }
        sockaddr_in6 ip;
        if (address.sa_family != AF_INET6) {
            return false;
        }
        std::memcpy(&ip, &address, sizeof ip);
        return std::memcmp(gid.raw, &ip.sin6_addr, sizeof gid.raw) == 0;
    }

    ifaddrs* list_ = nullptr;
};

// Fitness of a GID for RoCE; 0 = useless. A port that several containers share has the addresses of
// all of them, so those of this process's network namespace come first. (A handle to oneself would
// not tell: Linux finds its way in the namespace of the GID's interface,
// drivers/infiniband/core/addr.c, set_addr_netns_by_gid_rcu.)
int grade(const ibv_gid_entry& entry, const OwnAddresses& own) {
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 || is_zero(entry.gid)) {
        return 0;
    }
    const int kind = is_ipv4(entry.gid.raw) ? 3 : is_link_local(entry.gid.raw) ? 1 : 2;
    return kind + (own.contain(entry.gid) ? 3 : 0);
}

std::string gid_text(const ibv_gid_entry& entry) {
    return std::to_string(entry.gid_index) + " (" + gid_type_text(entry) + ") " +
           gid_address_text(entry.gid);
}

// RoCE: chooses the requested GID, or the best one.
Status choose_gid(const Device& device, const VerbsOptions& options, Port& port, std::string& why) {
    std::string seen;
    int best = 0;
    const OwnAddresses own;
    for (const ibv_gid_entry& entry : read_gids(device, port)) {
        const auto index = static_cast<int>(entry.gid_index);
        seen += (seen.empty() ? "" : ", ") + gid_text(entry);
        const int good = options.gid_index < 0        ? grade(entry, own)
                         : index == options.gid_index ? 1
                                                      : 0;
        if (good > best && index <= 255) {
            best = good;
            port.gid = entry;
        }
    }
    if (best > 0) {
        return kOk;
    }
    if (options.gid_index < 0) {
        why =
            "has no usable GID (RoCE v2 is needed; it has: " + (seen.empty() ? "none" : seen) + ")";
        return Status::error(Reason::no_device);
    }
    why = "has no GID of index " + std::to_string(options.gid_index) +
          "; it has: " + (seen.empty() ? "none" : seen);
    return Status::error(Reason::bad_argument);
}

// Takes all partitions, or the one of the options.
Status read_partitions(const Device& device, const VerbsOptions& options, Port& port,
                       std::string& why) {
    std::string seen;
    int error = 0;
    for (const Partition& entry : read_pkeys(device, port, error)) {
        if (options.partition == 0 || ((entry.pkey ^ options.partition) & kPartitionMask) == 0) {
            port.partitions.add(entry);
        }
        seen += (seen.empty() ? "" : ", ") + pkey_text(entry.pkey);
    }
    if (!port.partitions.empty()) {
        return kOk;
    }
    if (error != 0) {
        why = std::string("does not report its partitions: ") + std::strerror(error);
        return status_of(error);
    }
    if (options.partition == 0) {
        why = "is in no partition";
        return Status::error(Reason::no_device);
    }
    why = "is not in partition " + pkey_text(options.partition) +
          "; it is in: " + (seen.empty() ? "none" : seen);
    return Status::error(Reason::bad_argument);
}

} // namespace

std::vector<ibv_gid_entry> read_gids(const Device& device, const Port& port) {
    std::vector<ibv_gid_entry> out;
    for (int index = 0; index < port.attributes.gid_tbl_len; ++index) {
        ibv_gid_entry entry{};
        if (device.calls().query_gid_ex(device.context(), port.number,
                                        static_cast<std::uint32_t>(index), &entry, 0) == 0 &&
            !is_zero(entry.gid)) { // most entries of a table are empty
            entry.gid_index = static_cast<std::uint32_t>(index);
            out.push_back(entry);
        }
    }
    return out;
}

const char* gid_type_text(const ibv_gid_entry& entry) {
    constexpr std::array kTypes{"InfiniBand", "RoCE v1", "RoCE v2"};
    return entry.gid_type < kTypes.size() ? kTypes[entry.gid_type] : "?";
}

std::string gid_address_text(const ibv_gid& gid) {
    char text[INET6_ADDRSTRLEN] = "?";
    inet_ntop(AF_INET6, gid.raw, text, sizeof text);
    return text;
}

std::vector<Partition> read_pkeys(const Device& device, const Port& port, int& error) {
    std::vector<Partition> out;
    error = 0;
    for (int index = 0; index < port.attributes.pkey_tbl_len; ++index) {
        __be16 raw = 0;
        const int result = device.calls().query_pkey(device.context(), port.number, index, &raw);
        if (result != 0) {
            error = error_number(result);
        } else if (const std::uint16_t pkey = ntohs(raw); (pkey & kPartitionMask) != 0) {
            out.push_back({pkey, static_cast<std::uint16_t>(index)});
        }
    }
    return out;
}

bool is_ipv4(const std::uint8_t* gid) {
    constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(gid, kMapped, sizeof kMapped) == 0;
}

Status read_port(const Device& device, std::uint8_t number, const VerbsOptions& options, Port& out,
                 std::string& why) {
    Port port;
    port.number = number;
    if (const int result = device.calls().query_port(device.context(), number, &port.attributes);
        result != 0) {
        const int error = error_number(result);
        why = std::string("does not report its state: ") + std::strerror(error);
        return status_of(error);
    }
    if (port.attributes.link_layer == IBV_LINK_LAYER_UNSPECIFIED) {
        port.attributes.link_layer = IBV_LINK_LAYER_INFINIBAND; // devices older than RoCE
    }
    if (!port.active()) {
        out = port;
        return kOk;
    }
    if (port.ethernet()) {
        if (const Status status = choose_gid(device, options, port, why); !status.ok()) {
            return status;
        }
    } else if (device.calls().query_gid_ex(device.context(), number, 0, &port.gid, 0) != 0) {
        port.gid = {};
        if (port.needs_grh()) {
            why = "has no GID";
            return Status::error(Reason::no_device);
        }
    }
    if (const Status status = read_partitions(device, options, port, why); !status.ok()) {
        return status;
    }
    ADAPTIB_INVARIANT(!port.partitions.empty(), "an active port is in a partition", number);
    out = port;
    return kOk;
}

Bytes mtu_bytes(std::uint32_t mtu) {
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? Bytes{128} << mtu : 0;
}

Nanoseconds packet_life(const ibv_port_attr& attributes) {
    constexpr std::int64_t kUnit = 4096; // ns; vol. 1, 14.2.5.6
    constexpr std::uint8_t kUsual = 18;  // of OpenSM
    constexpr std::uint8_t kMost = 21;
    return Nanoseconds{kUnit << std::clamp(attributes.subnet_timeout, kUsual, kMost)};
}

BytesPerSecond port_rate(const ibv_port_attr& attributes) {
    struct Speed {
        std::uint8_t code;
        std::uint64_t megabits; // of data in one lane
    };
    constexpr std::array kSpeeds{Speed{1, 2'000},   Speed{2, 4'000},    Speed{4, 8'000},
                                 Speed{8, 10'000},  Speed{16, 13'636},  Speed{32, 25'000},
                                 Speed{64, 50'000}, Speed{128, 100'000}};
    constexpr std::array<std::array<std::uint8_t, 2>, 5> kLanes{
        {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}}};
    std::uint64_t megabits = 0;
    for (const Speed& speed : kSpeeds) {
        megabits = speed.code == attributes.active_speed ? speed.megabits : megabits;
    }
    for (const auto& [code, lanes] : kLanes) {
        if (code == attributes.active_width) {
            return {megabits * lanes * 125'000};
        }
    }
    return {};
}

} // namespace adaptib::verbs
