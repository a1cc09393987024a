// SPDX-License-Identifier: BSD-3-Clause
#include "selftest/link_counters.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace adaptib::selftest {

namespace {

// Parts of the names of counters that stand still on a healthy link. mlx5 calls lost packets
// out_of_sequence, packet_seq_err and local_ack_timeout_err; a write to a queue pair that is gone
// and a wrong key, which the checks provoke, count under other names but for the time-outs.
constexpr std::array<std::string_view, 10> kTroubles = {
    "symbol_error",   "link_downed",   "link_error_recovery", "port_rcv_errors", "integrity",
    "buffer_overrun", "xmit_discards", "out_of_sequence",     "packet_seq_err",  "icrc"};

bool tells_trouble(std::string_view name) {
    for (const std::string_view trouble : kTroubles) {
        if (name.find(trouble) != std::string_view::npos) {
            return true;
        }
    }
    return false;
}

} // namespace

LinkCounters::LinkCounters(const Fabric& fabric) {
    for (const auto& rail : fabric.rails()) {
        const RailInfo& info = rail->info();
        const std::string port =
            "/sys/class/infiniband/" + info.adapter + "/ports/" + std::to_string(info.port);
        read_folder(info.name, port + "/counters");
        read_folder(info.name, port + "/hw_counters");
    }
}

void LinkCounters::read_folder(const std::string& rail, const std::string& folder) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
        const std::string name = entry.path().filename();
        std::uint64_t value = 0;
        if (tells_trouble(name) && std::ifstream(entry.path()) >> value) {
            values_[rail + " " + name] = value;
        }
    }
}

std::string LinkCounters::grown_since(const LinkCounters& before) const {
    std::string out;
    for (const auto& [name, value] : values_) {
        const auto then = before.values_.find(name);
        if (then != before.values_.end() && value > then->second) {
            out += (out.empty() ? "" : ", ") + name + " " + std::to_string(value - then->second);
        }
    }
    return out;
}

} // namespace adaptib::selftest
