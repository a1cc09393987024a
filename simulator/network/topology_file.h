// SPDX-License-Identifier: BSD-3-Clause
// Topologies from files, as ibnetdiscover writes and ibsim reads them.
//
//     switchguid=0x200001(200001)
//     Switch  8 "S-0000000000200001"      # "leaf1" base port 0 lid 9 lmc 0
//     [1]     "H-0000000000100003"[2](100005)        # "node3 HCA-1" lid 16 4xQDR
//
//     Hca 2 "H000"
//     [2] "S-0000000000200001"[1]
//
// A file has a block for each switch and each adapter (Ca, Hca), with a line for each port with a
// cable, so that a cable is in the blocks of both its ends. A node's name is that in its comment,
// else its id. Its GUID is that of a line before the block, else that in the id, else 0. A cable
// has the rate that its comment ends with (4xQDR), else that of the LinkModel. Adapters "node3
// HCA-1" and "node3 mlx5_1" belong to host node3; any other adapter is a host of its own. Ports
// without a cable are not in Topology::ports.
// Ownership: values.  Threads: none of its own.
// Source: ibnetdiscover(8); ibsim's README and net-examples.
// May touch: base/, simulator/network/topology.h, text_file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "simulator/network/topology.h"

namespace adaptib::sim {

// Larger files are refused.
constexpr std::size_t kTopologyFileBytes = std::size_t{256} << 20;
constexpr std::uint32_t kTopologyFileNodes = 1u << 17;
constexpr std::uint32_t kTopologyFilePorts = 1u << 21; // of all nodes

// `text` is the file's content, `file` its name in messages. LIDs are assigned with `lmc`. Returns
// false with `error` ("file:line: reason") and changes nothing if the text is malformed.
bool parse_topology(std::string_view text, const std::string& file, const LinkModel& links,
                    std::uint32_t lmc, Topology& out, std::string& error);
bool read_topology(const std::string& path, const LinkModel& links, std::uint32_t lmc,
                   Topology& out, std::string& error);

} // namespace adaptib::sim
