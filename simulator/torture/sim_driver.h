// SPDX-License-Identifier: BSD-3-Clause
// Cores over a simulated world (simulator/torture/ranks.h), in virtual time.
//
// A program describes its world in lines "world NAME VALUE": machine (a name of
// simulator/network/machine.h), hosts, leaves (0: a crossbar; else a fat tree of as many, with
// `hosts` hosts each), spines, adapters, ports, one_network, lmc (2^lmc paths between two ports),
// warp (a seed: each cost of the machine is multiplied or divided by up to 8; 0: not changed),
// datagram_loss, datagram_twice, datagram_late (per thousand; without the first datagrams are
// reliable), failures (how often a port goes down or comes back), failure_pace (mean microseconds
// between two of these), swizzle (1: in the place of ports, cables stop without a word, one by one,
// and go on in another order), address_changes (per thousand of these changes: ports of one host
// get other LIDs instead), unchecked_sources (1: queue pairs take packets from a port that has
// another LID than their path), scrambled_writes (per thousand: writes into rings of which a packet
// is placed late), outliving_writes (per thousand: writes under way of a DC initiator that fails
// which arrive later), packet_life (microseconds that packets live; those writes arrive within
// twice that), responders (1: processes have responders), one_thread (1: each process has one
// thread, which has the turns of all its endpoints), ends_within (milliseconds in which all
// operations end, in the place of those that README.md names). What happens once (happenings.h):
// late_N, twice_N (nanoseconds), lost_N (1): to the datagram N of the world, counted from 1;
// outage_P, silence_P: the nanosecond at which port P goes down, or its cable stops without a word,
// for outage_lasts (nanoseconds); address_P: the nanosecond at which port P gets another LID;
// pause_R: the nanosecond from which rank R has no turns for pause_lasts. Faults (lines "fault NAME
// VALUE", driver.h) are those of each rank's fabric.
// Threads: one.
#pragma once

#include "simulator/torture/driver.h"
#include "simulator/torture/program.h"

namespace adaptib::torture {

// Null if the world or a core cannot be made; `problem` says why. `trace`: the file that gets the
// traces of all ranks at their end; empty: none.
std::unique_ptr<Driver> open_sim(const Program& program, std::string& problem,
                                 const std::string& trace);

} // namespace adaptib::torture
