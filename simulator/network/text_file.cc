// SPDX-License-Identifier: BSD-3-Clause
// Reading text files (simulator/network/text_file.h).
#include "simulator/network/text_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

namespace adaptib::sim {

bool read_text_file(const std::string& path, std::size_t limit, std::string& out,
                    std::string& error) {
    struct Close {
        void operator()(std::FILE* f) const { std::fclose(f); }
    };
    const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
    std::string text;
    char block[65536];
    std::size_t got = 0;
    while (file && text.size() <= limit &&
           (got = std::fread(block, 1, sizeof block, file.get())) > 0) {
        text.append(block, got);
    }
    if (!file || std::ferror(file.get()) != 0) {
        error = path + ": " + std::strerror(errno);
        return false;
    }
    if (text.size() > limit) {
        error = path + ": longer than " + std::to_string(limit) + " bytes";
        return false;
    }
    out = std::move(text);
    return true;
}

void Scanner::skip_spaces() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
}

bool Scanner::accept(std::string_view text) {
    if (!rest_.starts_with(text)) {
        return false;
    }
    rest_.remove_prefix(text.size());
    return true;
}

bool Scanner::digits(int base, std::uint64_t most, std::uint64_t& out) {
    std::uint64_t value = 0;
    const char* const end = rest_.data() + rest_.size();
    const auto [stop, problem] = std::from_chars(rest_.data(), end, value, base);
    if (problem != std::errc() || value > most) {
        return false;
    }
    rest_.remove_prefix(static_cast<std::size_t>(stop - rest_.data()));
    out = value;
    return true;
}

bool Scanner::number(std::uint64_t most, std::uint64_t& out) {
    return rest_.starts_with("0x") ? hexadecimal(out) && out <= most : digits(10, most, out);
}

bool Scanner::hexadecimal(std::uint64_t& out) {
    accept("0x");
    return digits(16, ~std::uint64_t{0}, out);
}

bool Scanner::quoted(char quote, std::string_view& out) {
    if (rest_.empty() || rest_.front() != quote) {
        return false;
    }
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) {
        return false;
    }
    out = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return true;
}

bool Lines::next(std::string_view& line) {
    if (text_.empty()) {
        return false;
    }
    const std::size_t end = std::min(text_.find('\n'), text_.size());
    line = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    ++number_;
    if (!line.empty() && line.back() == '\r') {
        line.remove_suffix(1);
    }
    return true;
}

bool Lines::fail_at(std::uint32_t number, std::string& error, const std::string& reason) const {
    error = file_ + ":" + std::to_string(number) + ": " + reason;
    return false;
}

} // namespace adaptib::sim
