// SPDX-License-Identifier: BSD-3-Clause
// Program: what each rank of a torture run does, made from a seed, printed, and read back.
//
// Purpose: lists of operations that may be cut down anywhere and stay programs: an operation that names
// another one (wait, cancel) does nothing where that one is missing, and a wait ends by itself after
// `amount` turns of its rank, so no program can lock itself up. At the end of its lists a run cancels the
// receives that are left, and receives the messages that are left.
// Text: lines "ranks N", "schedule SEED", "parameter NAME VALUE", "world NAME VALUE" (sim_driver.h) and
// "fault NAME VALUE" (shm_driver.h), then a line for each operation:
//     RANK VERB id=N field=value ...        (fields that are 0 are left out; # begins a comment)
// Threads: one.
// May touch: base/, match/envelope.h.
#pragma once

#include <cstdint>
#include <string>
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
    claim,  // matched probe and the receive of what it found
    cancel, // a receive
    wait,
    compute, // no progress for `amount` turns
    active,
    put,
    get,
    add,
    swap,
    release, // a peer that nothing is under way with
    promote, // a peer: it gets a connection and a ring, if there is room
    demote,  // it goes back to datagrams, if nothing needs the connection
};

struct Operation {
    Verb verb = Verb::compute;
    std::uint32_t rank = 0;
    std::uint32_t id = 0;      // unique in the program, not 0; of wait and cancel: whom they name
    std::int32_t peer = 0;     // target, or the source wanted (-1: any)
    std::uint32_t context = 0; // two-sided
    std::int32_t tag = 0;      // kAnyTag for any; of atomics: the word
    std::uint64_t bytes = 0;   // of the message, or the room
    std::uint64_t offset = 0;  // one-sided: in the target's memory
    std::uint64_t amount = 0;  // turns; atomics: the operand
    std::uint64_t element = 0; // not contiguous: elements of so many bytes ...
    std::uint64_t stride = 0;  // ... so far apart
    std::uint64_t at_once = 0; // 1: the short way first, as the C interface does
    std::uint64_t own_key = 0; // 1: one-sided: local memory is registered by the user

    friend bool operator==(const Operation&, const Operation&) = default;
};

struct Setting {
    std::string name;
    std::string value;
};

struct Program {
    std::uint32_t ranks = 2;
    std::uint64_t schedule = 1;        // seed of whose turn it is, and of payloads
    std::vector<Setting> settings;     // parameters, by their names in base/parameters.cc
    std::vector<Setting> world;        // empty: shared memory; else what sim_driver.h says
    std::vector<Setting> faults;       // shared memory: harmless ones, what shm_driver.h says
    std::vector<Operation> operations; // a rank's own are in their order

    Parameters parameters() const; // REQUIRES: the program lives
    // Senders may have to wait until their messages are asked for.
    bool holds_back() const { return parameters().unexpected_memory != 0; }
    Bytes window_bytes() const; // of each rank's memory, so that every offset is inside
};

constexpr std::uint32_t kWords = 4; // for atomics, of each rank

Program random_program(std::uint64_t seed);
std::string print(const Program& program);
// False: `problem` says which line.
bool read(const std::string& text, Program& program, std::string& problem);

} // namespace adaptib::torture
