// SPDX-License-Identifier: BSD-3-Clause
// Reach: which rails of another host the rails of this one can talk to, as far as addresses tell.
//
// Purpose: a host describes its rails in lines of text, with the addresses that a process of a job
// would publish. Another host reads them and asks its own rails, as a job would.
// Threads: one at a time.
// May touch: base/, fabric/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/rail_address.h"

namespace adaptib {

struct HostDescription {
    struct RailLine {
        std::string name;
        RailAddress address;
    };
    std::string host;
    std::uint32_t wire_version = 0;
    std::vector<RailLine> rails;
};

HostDescription describe(const std::string& host, const Fabric& fabric);
std::string description_text(const HostDescription& description);
// Returns false if the text is no description, or of another version; `why` says what is wrong.
// Ignores lines before the first one of a description, such as a login's greeting.
bool parse_description(std::string_view text, HostDescription& out, std::string& why);

// A pair of rails.
struct PairReach {
    std::string local;
    std::string remote;
    std::uint32_t paths = 0; // 0: the two cannot talk
    std::string why_not;
    bool same_subnet = false; // the best match of subnets among those of the local rail
};

// Compares each rail of the fabric with each of the other host.
std::vector<PairReach> reach_of(const Fabric& fabric, const HostDescription& other);

} // namespace adaptib
