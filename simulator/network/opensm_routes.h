// SPDX-License-Identifier: BSD-3-Clause
// Routes as OpenSM computed them: its opensm-lfts.dump (opensm -D 0x43 --dump_files_dir).
//
//     Unicast lids [0-671] of switch Lid 8 guid 0x0000000000200000 ('leaf0'):
//     0x0004 001 # Channel Adapter portguid 0x0000000000100001: 'H000'
//     0x0008 000 # Switch portguid 0x0000000000200000: 'leaf0'
//     671 lids dumped
//
// The file has a table for each switch: LID and output port. A switch is found by its GUID, else by
// its name. The cables tell which port owns a LID: the port that a switch delivers it to; the names
// must agree. So the ports' LIDs and the LMC come from the tables, too, and nothing else that
// OpenSM writes is needed.
// Ownership: values.  Threads: none of its own.
// Source: osm_dump.c of OpenSM 3.3; InfiniBand, vol. 1, 14.2.5.6.
// May touch: base/, simulator/network/{topology,routes,text_file}.h.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "simulator/network/routes.h"
#include "simulator/network/topology.h"

namespace adaptib::sim {

constexpr std::size_t kRoutesFileBytes = std::size_t{1} << 30; // larger files are refused
constexpr Lid kMostLid = 0xbfff;                               // of a port
constexpr std::uint32_t kMostLmc = 7;

// `text` is the file's content, `file` its name in messages. The LIDs and the LMC of the topology
// become OpenSM's. Returns false with `error` ("file:line: reason") and changes nothing if the text
// is malformed or does not belong to this topology, or if a route loops, ends nowhere or misses a
// switch.
bool parse_opensm_routes(std::string_view text, const std::string& file, Topology& topology,
                         Routes& out, std::string& error);
bool read_opensm_routes(const std::string& path, Topology& topology, Routes& out,
                        std::string& error);

} // namespace adaptib::sim
