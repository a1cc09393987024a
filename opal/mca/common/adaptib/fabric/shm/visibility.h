// SPDX-License-Identifier: BSD-3-Clause
// Which processes of a host may map each other's segments, found out from their addresses alone.
//
// Purpose: a segment is opened in one of two ways (opening.h): by /proc/<pid>/fd, within one user
// namespace; or from the owner's DescriptorServer, within one network namespace. A process
// publishes where it stands and what it offers, so that both ends of a pair come to the same result
// without contact, and take the next fabric if there is no way.
// Threads: functions without state.
// May touch: tracing.h, the system.
#pragma once

#include <cstdint>
#include <string>

namespace adaptib::shm {

enum Way : std::uint32_t {
    kWayProc = 1u << 0,   // others of its user namespace may take its descriptors from /proc
    kWayServer = 1u << 1, // it has a DescriptorServer
};

// Part of WireAddress. Namespaces are numbered as the system does, in the file that ip-netns and
// lsns read; 0: the system does not say, and is taken for the same as any other.
struct Visibility {
    std::uint32_t user_space = 0;
    std::uint32_t network = 0;
    std::uint32_t server = 0; // DescriptorServer::number
    std::uint32_t ways = 0;
};

// Of this process; the server's part is left to the caller. Each call asks the system, since a
// program may change namespaces and rights.
Visibility own_visibility();

// The same whichever is `a`. REQUIRES: both are of one host (host_identity).
bool can_open_each_other(const Visibility& a, const Visibility& b);

// For a person: why not. REQUIRES: !can_open_each_other(own, other).
std::string why_not_open(const Visibility& own, const Visibility& other);

// The cause, as far as it is known, why the system refuses cross-memory attach with a peer that
// shares memory with this process: "" or " (the cause)".
std::string why_not_attach(const Visibility& own, const Visibility& other);

} // namespace adaptib::shm
