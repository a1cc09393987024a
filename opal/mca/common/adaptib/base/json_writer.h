// SPDX-License-Identifier: BSD-3-Clause
// JsonWriter: writes a JSON text, indented, member by member.
//
// Purpose: reports and tools write JSON and read none, so they need no library for it.
// REQUIRES: each begin_ has its end_; members within objects have names, those of arrays none.
// Threads: one at a time.
// May touch: nothing.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace adaptib {

class JsonWriter {
public:
    void begin_object(std::string_view name = {}) { open(name, '{'); }
    void end_object() { close('}'); }
    void begin_array(std::string_view name = {}) { open(name, '['); }
    void end_array() { close(']'); }

    void text(std::string_view name, std::string_view value);
    void number(std::string_view name, std::integral auto value) {
        raw(name, std::to_string(value));
    }
    // An array in one line.
    void numbers(std::string_view name, std::span<const std::uint64_t> values);
    void flag(std::string_view name, bool value) { raw(name, value ? "true" : "false"); }

    // The text so far; ends with a new line once all is closed.
    const std::string& result() const { return text_; }

private:
    void open(std::string_view name, char bracket);
    void close(char bracket);
    void raw(std::string_view name, std::string_view value);
    void begin_member(std::string_view name);

    std::string text_;
    std::uint32_t depth_ = 0;
    bool first_ = true; // nothing stands in the innermost bracket yet
};

// In quotes, with escapes; bytes that are no UTF-8 become question marks.
std::string json_quoted(std::string_view text);

} // namespace adaptib
