// SPDX-License-Identifier: BSD-3-Clause
// Blocks by size, at addresses that repeat (simulator/torture/address_space.h).
#include "simulator/torture/address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace adaptib::torture {

namespace {

// Free of libraries, heap and stack, and of the sanitizers' shadows, on the systems that run this.
constexpr std::uintptr_t kBase = 0x2000'0000'0000;
constexpr Bytes kSpace = 64 * kGiB; // of addresses
constexpr std::size_t kClasses = 40;

struct FreeBlock {
    FreeBlock* next;
};

struct Space {
    std::byte* base = nullptr; // null: not mapped yet
    Bytes used = 0;            // from the base on
    std::size_t blocks = 0;    // that have owners
    std::array<FreeBlock*, kClasses> free{};
};

Space space;

// Sizes are powers of two, so that blocks of about the same length replace each other.
std::size_t class_of(Bytes bytes) {
    return static_cast<std::size_t>(std::bit_width(std::max(bytes, kCacheLine) - 1));
}

void open() {
    auto* const hint = reinterpret_cast<void*>(kBase);
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const at = mmap(hint, kSpace, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    if (at == MAP_FAILED) {
        std::perror("no addresses for buffers");
        std::abort();
    }
    space.base = static_cast<std::byte*>(at);
}

void begin_anew() {
    space.used = 0;
    space.free.fill(nullptr);
}

} // namespace

void* take_block(Bytes bytes) {
    if (space.base == nullptr) {
        open();
    }
    const std::size_t size_class = class_of(bytes);
    ++space.blocks;
    if (FreeBlock* const block = space.free[size_class]; block != nullptr) {
        space.free[size_class] = block->next;
        return block;
    }
    void* const block = space.base + space.used;
    space.used += Bytes{1} << size_class;
    if (space.used > kSpace) {
        std::fputs("the space of addresses for buffers is full\n", stderr);
        std::abort();
    }
    return block;
}

void give_block(void* block, Bytes bytes) {
    FreeBlock*& first = space.free[class_of(bytes)];
    first = new (block) FreeBlock{first};
    if (--space.blocks == 0) {
        begin_anew();
    }
}

} // namespace adaptib::torture
