// SPDX-License-Identifier: BSD-3-Clause
#include "base/json_writer.h"

#include <cstdio>

namespace adaptib {

namespace {

// Length of the UTF-8 character that the text begins with; 0: it is none.
std::size_t character_length(std::string_view text) {
    const auto first = static_cast<unsigned char>(text[0]);
    const std::size_t length = first < 0x80             ? 1
                               : (first & 0xe0) == 0xc0 ? 2
                               : (first & 0xf0) == 0xe0 ? 3
                               : (first & 0xf8) == 0xf0 ? 4
                                                        : 0;
    if (length > text.size()) {
        return 0;
    }
    for (std::size_t i = 1; i < length; ++i) {
        if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) {
            return 0;
        }
    }
    return length;
}

} // namespace

std::string json_quoted(std::string_view text) {
    std::string out = "\"";
    while (!text.empty()) {
        const std::size_t length = character_length(text);
        const auto first = static_cast<unsigned char>(text[0]);
        if (length == 0) {
            out += '?';
        } else if (first == '"' || first == '\\') {
            out += {'\\', text[0]};
        } else if (first < 0x20) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", first);
            out += escape;
        } else {
            out += text.substr(0, length);
        }
        text.remove_prefix(length == 0 ? 1 : length);
    }
    return out + '"';
}

void JsonWriter::begin_member(std::string_view name) {
    if (depth_ > 0) {
        text_ += first_ ? "\n" : ",\n";
        text_.append(2 * std::size_t{depth_}, ' ');
    }
    first_ = false;
    if (!name.empty()) {
        text_ += json_quoted(name) + ": ";
    }
}

void JsonWriter::raw(std::string_view name, std::string_view value) {
    begin_member(name);
    text_ += value;
}

void JsonWriter::numbers(std::string_view name, std::span<const std::uint64_t> values) {
    std::string list = "[";
    for (const std::uint64_t value : values) {
        list += (list.size() > 1 ? ", " : "") + std::to_string(value);
    }
    raw(name, list + ']');
}

void JsonWriter::text(std::string_view name, std::string_view value) {
    raw(name, json_quoted(value));
}

void JsonWriter::open(std::string_view name, char bracket) {
    begin_member(name);
    text_ += bracket;
    ++depth_;
    first_ = true;
}

void JsonWriter::close(char bracket) {
    --depth_;
    if (!first_) {
        text_ += '\n';
        text_.append(2 * std::size_t{depth_}, ' ');
    }
    text_ += bracket;
    first_ = false;
    if (depth_ == 0) {
        text_ += '\n';
    }
}

} // namespace adaptib
