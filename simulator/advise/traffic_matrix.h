// SPDX-License-Identifier: BSD-3-Clause
// TrafficMatrix: the messages and bytes that each rank of a job has sent to each other one.
//
// Purpose: reads a text of two tables, of which the first may be missing. `adaptib_report --matrix`
// writes such texts.
//
//     rank,host
//     0,node1
//
//     from,to,messages,bytes,long_messages,long_bytes
//     0,1,1200,52428800,50,50000000
//
// The second table needs the columns from, to and bytes; further columns are ignored. With the
// columns long_messages and long_bytes only long messages count: those above the eager limit, which
// a striping policy may cut. Without a number of messages each pair has messages of kUnknownBytes.
// Ownership: values.  Threads: none of its own.
// May touch: base/, simulator/network/text_file.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace adaptib::advise {

constexpr std::size_t kTrafficFileBytes = std::size_t{256} << 20; // larger files are refused
constexpr std::uint32_t kMostRanks = 2048;                        // that are simulated in minutes
constexpr Bytes kUnknownBytes = kMiB;

struct PairTraffic {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint64_t messages = 0; // at least 1
    Bytes bytes = 0;            // at least 1
};

struct TrafficMatrix {
    std::uint32_t ranks = 0;
    std::vector<std::string> hosts; // by rank; empty: not known
    std::vector<PairTraffic> pairs; // each at most once, no rank with itself, by from and to

    Bytes bytes() const;
    std::uint64_t messages() const;
};

// `file`: name in messages. Returns false with `error` ("file:line: reason") and changes nothing if
// the text is malformed or has no traffic.
bool parse_traffic(std::string_view text, const std::string& file, TrafficMatrix& out,
                   std::string& error);
bool read_traffic(const std::string& path, TrafficMatrix& out, std::string& error);

} // namespace adaptib::advise
