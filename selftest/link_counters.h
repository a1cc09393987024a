// SPDX-License-Identifier: BSD-3-Clause
// LinkCounters: error counters of the ports, as the kernel shows them below /sys/class/infiniband.
//
// Purpose: a wire that loses packets now and then passes every check, since devices repeat them;
// the counters tell.
// Threads: one.
// May touch: the system.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "fabric/fabric.h"

namespace adaptib::selftest {

class LinkCounters {
public:
    // Reads the counters of these rails' ports; there are none where the kernel shows none.
    explicit LinkCounters(const Fabric& fabric);
    // Counters that have grown since `before`: "v0:1 symbol_error 3, ..."; empty: none.
    std::string grown_since(const LinkCounters& before) const;

private:
    void read_folder(const std::string& rail, const std::string& folder);

    std::map<std::string, std::uint64_t> values_; // by "RAIL COUNTER"
};

} // namespace adaptib::selftest
