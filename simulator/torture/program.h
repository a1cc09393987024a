// SPDX-License-Identifier: BSD-3-Clause
// Program: the operations of each rank of a torture run, made from a seed, printed, and read back.
//
// Purpose: lists of operations that may be cut down anywhere and stay programs. An operation that
// names another one (wait, cancel) does nothing if that one is missing, and a wait ends by itself
// after `amount` turns of its rank, so no program can deadlock. At the end a run cancels the
// remaining receives, and receives the remaining messages.
// Text: lines "ranks N", "endpoints N ..." (of each process; their sum is the number of ranks),
// "schedule SEED", "parameter NAME VALUE" or "parameter NAME VALUE RANK", "world NAME VALUE"
// (sim_driver.h), "around KIND KIND" (neighbours.h), "fault NAME VALUE" or "fault NAME VALUE RANK"
// (driver.h), then a line for each operation:
//     RANK VERB id=N field=value ...        (fields that are 0 are left out; # begins a comment)
// Threads: one.
// May touch: base/, match/envelope.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/parameters.h"
#include "base/units.h"
#include "match/envelope.h"

namespace adaptib::torture {

enum class Verb : std::uint8_t {
    send,
    ssend, // synchronous
    receive,
    probe,
    claim,  // matched probe and the receive of the message that it found
    cancel, // cancels a receive
    wait,
    compute, // no progress for `amount` ticks
    active,
    put,
    get,
    add,
    swap,
    release, // releases a peer once no operation with it is under way, within `amount` turns
    promote, // gives a peer a connection and a ring, if there is room
    demote,  // returns a peer to datagrams, if nothing needs the connection
    end,     // ends the rank's process, as MPI_Finalize does, once nothing of it is left
};

struct Operation {
    Verb verb = Verb::compute;
    std::uint32_t rank = 0;
    // Unique in the program, not 0; of wait and cancel: the operation they name.
    std::uint32_t id = 0;
    std::int32_t peer = 0;     // target, or wanted source (-1: any)
    std::uint32_t context = 0; // two-sided
    std::int32_t tag = 0;      // kAnyTag for any; of atomics: the word
    std::uint64_t bytes = 0;   // of the message, or room of the receive
    std::uint64_t offset = 0;  // one-sided: in the target's memory
    std::uint64_t amount = 0;  // turns (compute: ticks); atomics: the operand
    std::uint64_t element = 0; // not contiguous: elements of this size ...
    std::uint64_t stride = 0;  // ... at this distance
    std::uint64_t at_once = 0; // 1: tries the fast path first, as the C interface does
    std::uint64_t own_key = 0; // 1: one-sided: the user registers the local memory

    friend bool operator==(const Operation&, const Operation&) = default;
};

// Returns true if `peer` is another rank, or any.
inline bool has_peer(const Operation& operation) {
    switch (operation.verb) {
    case Verb::wait:
    case Verb::cancel:
    case Verb::compute:
    case Verb::end: return false;
    default: return true;
    }
}

struct Setting {
    static constexpr std::int32_t kAllRanks = -1;

    std::string name;
    std::string value;
    std::int32_t rank = kAllRanks; // of a parameter or fault: the only rank that has it

    bool is_of(std::uint32_t its) const {
        return rank == kAllRanks || rank == static_cast<std::int32_t>(its);
    }
};

// Returns true if the list has a setting of that name.
bool has_setting(const std::vector<Setting>& list, std::string_view name);

struct Program {
    std::uint32_t ranks = 2;
    std::vector<std::uint32_t> endpoints; // of each process, the ranks in turn; empty: one each
    std::uint64_t schedule = 1;           // seed of the order of turns, and of payloads
    std::vector<Setting> settings;        // parameters, by their names in base/parameters.cc
    std::vector<Setting> world;           // empty: shared memory; else settings of sim_driver.h
    std::vector<Setting> faults;          // that do no harm, settings of driver.h
    std::vector<Operation> operations;    // those of one rank are in their order
    std::vector<std::string> around;      // kinds of changes of which neighbours have all pairs

    Parameters parameters(std::uint32_t rank) const; // REQUIRES: the program outlives the result
    // Returns false, with the reason in `problem`, if a rank's are refused.
    bool check_all_parameters(std::string& problem) const;
    // True if senders may have to hold messages back until a receive asks for them.
    bool holds_back() const { return parameters(0).unexpected_memory != 0; }
    // True if nobody answers for a process of the world that computes.
    bool lacks_responders() const;
    // Seconds of silence after which no living rank is given up, however many datagrams the world
    // loses. 0: nobody knows, since a rank computes for long.
    std::uint64_t least_patience() const;
    Bytes window_bytes() const; // size of each rank's memory, so that every offset is inside
};

constexpr std::uint32_t kWords = 4; // for atomics, of each rank

Program random_program(std::uint64_t seed);
std::string print(const Program& program);
// Returns false with the wrong line in `problem`.
bool read(const std::string& text, Program& program, std::string& problem);

} // namespace adaptib::torture
