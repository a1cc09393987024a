// SPDX-License-Identifier: BSD-3-Clause
// Text files that describe a network: reads them line by line and token by token.
//
// Purpose: shared by the readers of topologies and routes. Every error message names file, line and
// reason.
// Ownership: views into the caller's text.  Threads: none of its own.
// May touch: nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace adaptib::sim {

// Reads a whole file; false with "file: reason" if it cannot be read or is longer than `limit`.
bool read_text_file(const std::string& path, std::size_t limit, std::string& out,
                    std::string& error);

// Reads the tokens of one line, from left to right. A call returns false if its token is not next;
// only a hexadecimal number may be consumed in part then.
class Scanner {
public:
    explicit Scanner(std::string_view line) : rest_(line) {}

    void skip_spaces();
    bool accept(std::string_view text);
    // Decimal digits, or hexadecimal ones after 0x; false also if the number is above `most`.
    bool number(std::uint64_t most, std::uint64_t& out);
    // With or without 0x.
    bool hexadecimal(std::uint64_t& out);
    // A string between two quotes.
    bool quoted(char quote, std::string_view& out);
    std::string_view rest() const { return rest_; }
    bool at_end() const { return rest_.empty(); }

private:
    bool digits(int base, std::uint64_t most, std::uint64_t& out);

    std::string_view rest_;
};

// The lines of a text, without their ends, numbered from 1; formats errors about the present line.
class Lines {
public:
    Lines(std::string_view text, const std::string& file) : text_(text), file_(file) {}

    // False at the end.
    bool next(std::string_view& line);
    std::uint32_t number() const { return number_; }
    // Returns false always, for return statements.
    bool fail(std::string& error, const std::string& reason) const {
        return fail_at(number_ == 0 ? 1 : number_, error, reason);
    }
    bool fail_at(std::uint32_t number, std::string& error, const std::string& reason) const;

private:
    std::string_view text_;
    const std::string& file_;
    std::uint32_t number_ = 0;
};

} // namespace adaptib::sim
