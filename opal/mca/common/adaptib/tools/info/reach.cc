// SPDX-License-Identifier: BSD-3-Clause
#include "tools/info/reach.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <sstream>

#include "base/wire.h"
#include "fabric/await_handle.h"

namespace adaptib {

namespace {

constexpr std::string_view kFirstLine = "adaptib-info 1";
constexpr std::string_view kLastLine = "end";

std::string hex_text(const RailAddress& address) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string out;
    for (std::size_t i = 0; i < address.size; ++i) {
        const auto byte = std::to_integer<std::size_t>(address.bytes[i]);
        out += kDigits[byte >> 4u];
        out += kDigits[byte & 15u];
    }
    return out;
}

bool parse_hex(std::string_view text, RailAddress& out) {
    if (text.size() % 2 != 0 || text.size() / 2 > RailAddress::kMaxBytes) {
        return false;
    }
    for (std::size_t i = 0; i < text.size() / 2; ++i) {
        unsigned value = 0;
        const char* const end = text.data() + 2 * i + 2;
        if (std::from_chars(end - 2, end, value, 16).ptr != end) {
            return false;
        }
        out.bytes[i] = static_cast<std::byte>(value);
    }
    out.size = static_cast<std::uint16_t>(text.size() / 2);
    return true;
}

bool parse_line(const std::string& line, HostDescription& out) {
    std::istringstream words(line);
    std::string kind;
    std::string first;
    std::string second;
    std::string more;
    words >> kind >> first >> second >> more;
    if (first.empty() || !more.empty()) {
        return false;
    }
    if (kind == "host" && second.empty()) {
        out.host = first;
        return true;
    }
    if (kind == "wire" && second.empty()) {
        const char* const end = first.data() + first.size();
        return std::from_chars(first.data(), end, out.wire_version).ptr == end;
    }
    HostDescription::RailLine rail{first, {}};
    if (kind != "rail" || !parse_hex(second, rail.address)) {
        return false;
    }
    out.rails.push_back(rail);
    return true;
}

PairReach reach_of_pair(Rail& rail, const HostDescription::RailLine& remote) {
    PairReach out{rail.info().name, remote.name, 0, "", false};
    if (!rail.is_reachable(remote.address)) {
        out.why_not = rail.why_out_of_reach(remote.address);
        out.why_not = out.why_not.empty() ? "another kind of network" : out.why_not;
        return out;
    }
    std::unique_ptr<AddressHandle> handle;
    if (!await_ah(rail, rail.path_to(remote.address, 0), handle).ok()) {
        out.why_not = rail.last_error_text();
        out.why_not = out.why_not.empty() ? "the device refuses a path to it" : out.why_not;
        return out;
    }
    out.paths = rail.paths_to(remote.address);
    return out;
}

} // namespace

HostDescription describe(const std::string& host, const Fabric& fabric) {
    HostDescription out;
    out.host = host;
    out.wire_version = kWireVersion;
    for (const auto& rail : fabric.rails()) {
        out.rails.push_back({rail->info().name, rail->address()});
    }
    return out;
}

std::string description_text(const HostDescription& description) {
    std::string text = std::string(kFirstLine) + "\nhost " + description.host + "\nwire " +
                       std::to_string(description.wire_version) + "\n";
    for (const HostDescription::RailLine& rail : description.rails) {
        text += "rail " + rail.name + " " + hex_text(rail.address) + "\n";
    }
    return text + std::string(kLastLine) + "\n";
}

bool parse_description(std::string_view text, HostDescription& out, std::string& why) {
    std::istringstream lines{std::string(text)};
    std::string line;
    while (std::getline(lines, line) && line != kFirstLine) {
    }
    if (line != kFirstLine) {
        why = "there is no line \"" + std::string(kFirstLine) + "\"";
        return false;
    }
    out = {};
    while (std::getline(lines, line)) {
        if (line == kLastLine) {
            why = out.host.empty() ? "it names no host" : "";
            return why.empty();
        }
        if (!parse_line(line, out)) {
            why = "a line is malformed: " + line;
            return false;
        }
    }
    why = "it is not complete";
    return false;
}

std::vector<PairReach> reach_of(const Fabric& fabric, const HostDescription& other) {
    std::vector<PairReach> out;
    for (const auto& rail : fabric.rails()) {
        std::uint32_t best = 0;
        for (const HostDescription::RailLine& remote : other.rails) {
            if (rail->is_reachable(remote.address)) {
                best = std::max(best, rail->subnet_match(remote.address));
            }
        }
        for (const HostDescription::RailLine& remote : other.rails) {
            PairReach pair = reach_of_pair(*rail, remote);
            pair.same_subnet = pair.paths > 0 && rail->subnet_match(remote.address) == best;
            out.push_back(pair);
        }
    }
    return out;
}

} // namespace adaptib
