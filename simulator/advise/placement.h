// SPDX-License-Identifier: BSD-3-Clause
// Placement: which rank runs on which of the job's hosts.
//
// Purpose: finds the hosts of ranks by name, and a placement that keeps ranks that exchange much on
// one host, and then on one switch. The simulator tells whether it is faster.
// Ownership: values.  Threads: none of its own.
// May touch: base/, simulator/network/topology.h, simulator/advise/traffic_matrix.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/advise/traffic_matrix.h"
#include "simulator/network/topology.h"

namespace adaptib::advise {

// Sets `out` to the host of each rank, as an index into the topology's hosts: those that the matrix
// names, with or without a domain, or else `per_host` ranks on each host in order. Returns false
// with `error` if the topology lacks a host or has too few, or if hosts in use have different
// numbers of ports.
bool place(const TrafficMatrix& traffic, const sim::Topology& topology, std::uint32_t per_host,
           std::vector<std::uint32_t>& out, std::string& error);

// Returns another placement over the same hosts, with as many ranks on each. It fills switch after
// switch and host after host, each time with the rank that exchanges most with those already there.
std::vector<std::uint32_t> gather_partners(const TrafficMatrix& traffic,
                                           const sim::Topology& topology,
                                           const std::vector<std::uint32_t>& hosts);

} // namespace adaptib::advise
