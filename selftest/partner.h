// SPDX-License-Identifier: BSD-3-Clause
// Partner: the other process of a check, reached by MPI and never over the devices under test.
//
// Purpose: both processes run the same check at the same time and exchange small values in it. A
// process whose check has ended sends its outcome; an exchange of the other process then ends with
// PartnerEnded, so that neither waits for the other.
// Ownership: the caller initialises and finalises MPI; there are two processes.
// Threads: one.
// Errors: MPI's are fatal.
// May touch: outcome.h, MPI (not in this header).
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "selftest/outcome.h"

namespace adaptib::selftest {

class Partner {
public:
    explicit Partner(int rank) : rank_(rank) {}

    bool first() const { return rank_ == 0; }
    // Sends a value of plain data and returns the partner's.
    template <typename Value> Value exchange(const Value& mine) {
        static_assert(std::is_trivially_copyable_v<Value>);
        static_assert(sizeof mine <= kPiece);
        const std::string got =
            exchange_piece(std::string(reinterpret_cast<const char*>(&mine), sizeof mine));
        Value out{};
        std::memcpy(&out, got.data(), std::min(got.size(), sizeof out));
        return out;
    }
    std::string exchange_text(const std::string& mine);
    // Returns when both have called it.
    void meet() { static_cast<void>(exchange(char{1})); }
    // Ends a check: sends this process's outcome and returns the partner's.
    Outcome end(const Outcome& mine);

private:
    struct Message {
        bool end = false;
        std::string text;
    };
    // Both send first: a piece has to be short enough that MPI buffers it.
    static constexpr std::size_t kPiece = 1000;
    std::string exchange_piece(const std::string& mine);
    void send(char kind, const std::string& text) const;
    Message receive() const;

    int rank_;
    bool partner_ended_ = false; // within this check; its outcome has arrived
    std::string outcome_;
};

} // namespace adaptib::selftest
