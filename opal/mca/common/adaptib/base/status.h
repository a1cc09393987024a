// SPDX-License-Identifier: BSD-3-Clause
// Status: how a call of the core ended.
//
// Purpose: category + reason. The caller branches on the category; a message to a person names the
// reason. Outputs of a call are set only when its status is ok.
// Threads: a value type.
// May touch: nothing.
#pragma once

#include <cstdint>

namespace adaptib {

enum class Category : std::uint8_t {
    ok,    // done
    again, // not now: nothing was changed; call again after progress
    error, // will not work when called again unchanged
};

enum class Reason : std::uint8_t {
    none,
    // again
    no_credit,     // the receiver's ring or queue is full
    queue_full,    // a local send or completion queue is full
    not_connected, // the subchannel is still coming up
    // error
    bad_argument,  // out of range, unknown, contradictory
    no_memory,     // the system has no memory of the kind asked for
    no_device,     // the device, rail or segment is not there
    locked_memory, // the limit of locked memory is reached
    no_permission, // the system forbids it (ptrace, mode)
    not_supported, // the rail lacks the capability
    bad_state,     // a queue pair or connection is in a state that does not allow it
    bad_key,       // memory key, range or access right
    bad_wire,      // a packet or address is malformed
    version,       // the peer speaks another version of the wire format
    unreachable,   // no path to the peer
    peer_gone,     // the peer's process has ended or has left MPI
    truncated,     // the message was longer than the buffer
    cancelled,
    internal,
};

class [[nodiscard]] Status {
public:
    constexpr Status() = default;
    constexpr Status(Category category, Reason reason) : category_(category), reason_(reason) {}

    static constexpr Status again(Reason reason) { return {Category::again, reason}; }
    static constexpr Status error(Reason reason) { return {Category::error, reason}; }

    constexpr bool ok() const { return category_ == Category::ok; }
    constexpr bool is_again() const { return category_ == Category::again; }
    constexpr bool is_error() const { return category_ == Category::error; }
    constexpr Category category() const { return category_; }
    constexpr Reason reason() const { return reason_; }

    // True if the caller may release other resources to make room and try again.
    constexpr bool wants_room() const {
        return reason_ == Reason::no_memory || reason_ == Reason::locked_memory;
    }

    friend constexpr bool operator==(Status, Status) = default;

private:
    Category category_ = Category::ok;
    Reason reason_ = Reason::none;
};

constexpr Status kOk{};

// A short English noun phrase, for messages and traces; never empty.
const char* reason_text(Reason reason);

} // namespace adaptib
