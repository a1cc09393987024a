// SPDX-License-Identifier: BSD-3-Clause
// Decides from their addresses alone which processes of a host may map each other's segments.
//
// Purpose: a process can open a segment in two ways (opening.h): through /proc/<pid>/fd, within one
// user namespace; or from the owner's DescriptorServer, within one network namespace. Each process
// publishes its namespaces and the ways that it offers, so that both ends of a pair come to the
// same result without contact, and use the next fabric if there is no way. There is none, either,
// between two machines that came from one snapshot, whose host identities are equal.
// Threads: functions without state.
// May touch: tracing.h, the system.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace adaptib::shm {

enum Way : std::uint32_t {
    kWayProc = 1u << 0,   // others of its user namespace may open its descriptors in /proc
    kWayServer = 1u << 1, // it has a DescriptorServer
};

// Part of WireAddress. A namespace has the system's number, from the file that ip-netns and lsns
// read; 0: the system does not tell. An unknown user namespace or machine counts as equal to any
// other; keys of servers are sent within one network namespace only.
struct Visibility {
    std::uint32_t user_space = 0;
    std::uint32_t network = 0;
    std::uint32_t server = 0; // DescriptorServer::number
    std::uint32_t ways : 8 = 0;
    std::uint32_t machine : 24 = 0; // machine_number()
};

// Visibility of this process; the caller fills in the server's part. Each call asks the system,
// since a program may change namespaces and rights.
Visibility own_visibility();

// Number of the machine with that name, to tell machines apart that came from one snapshot: their
// boot id is the same, but the administrator gives each a name. `names`: number of the caller's UTS
// namespace. 0: unknown, since containers have names of their own.
std::uint32_t machine_number(std::uint32_t names, std::string_view name);

// Symmetric in a and b. REQUIRES: both are of one host (host_identity).
bool can_open_each_other(const Visibility& a, const Visibility& b);

// Text for a person: why not. REQUIRES: !can_open_each_other(own, other).
std::string why_not_open(const Visibility& own, const Visibility& other);

// Cause, as far as it is known, of the system's refusal of cross-memory attach with a peer that
// shares memory with this process: "" or " (the cause)".
std::string why_not_attach(const Visibility& own, const Visibility& other);

} // namespace adaptib::shm
