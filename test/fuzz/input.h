// SPDX-License-Identifier: BSD-3-Clause
// A fuzzer's input, read piece by piece; reads beyond its end return zeros.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

namespace adaptib::fuzz {

// Aborts unless the condition holds; used for conditions that must hold for any input.
inline void require(bool condition, const char* what) {
    if (!condition) {
        std::fprintf(stderr, "fuzz: broken: %s\n", what);
        std::abort();
    }
}

class Input {
public:
    Input(const std::uint8_t* data, std::size_t size) : left_(data, size) {}

    bool empty() const { return left_.empty(); }
    std::size_t size() const { return left_.size(); }

    void copy(void* to, std::size_t size) {
        const std::size_t there = std::min(size, left_.size());
        auto* bytes = static_cast<std::uint8_t*>(to);
        if (there > 0) {
            std::memcpy(bytes, left_.data(), there);
        }
        if (size > there) {
            std::memset(bytes + there, 0, size - there);
        }
        left_ = left_.subspan(there);
    }
    template <typename T> T take() {
        T value{};
        copy(&value, sizeof value);
        return value;
    }
    std::uint32_t below(std::uint32_t bound) { return take<std::uint8_t>() % bound; }
    bool flag() { return (take<std::uint8_t>() & 1) != 0; }

    // The rest of the input, in memory of exactly its size.
    std::vector<std::byte> rest() {
        std::vector<std::byte> bytes(left_.size());
        copy(bytes.data(), bytes.size());
        bytes.shrink_to_fit();
        return bytes;
    }

private:
    std::span<const std::uint8_t> left_;
};

} // namespace adaptib::fuzz
