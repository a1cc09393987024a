// SPDX-License-Identifier: BSD-3-Clause
// Buffer: the memory of one message, contiguous or in elements with gaps, between guards.
//
// Purpose: fills in and checks payloads, and notices a byte that was written where none belonged.
// Ownership: data() describes memory of the buffer, which must not move while that description is
// in use.
// Threads: one.
// May touch: base/, address_space.h.
#pragma once

#include <cstdint>
#include <vector>

#include "base/data.h"
#include "simulator/torture/address_space.h"

namespace adaptib::torture {

class Buffer {
public:
    Buffer() = default;
    // `element` 0: contiguous.
    Buffer(Bytes bytes, Bytes element, Bytes stride);

    Data data();
    std::byte* base() { return memory_.data() + kGuard; }
    void fill(std::uint64_t seed);
    // Overwrites the payload: later reads get other bytes.
    void scramble();
    // Moves the payload into the memory of `spare`, if that is long enough. REQUIRES: both are
    // contiguous. Returns false if nothing has changed; otherwise the spare one is empty.
    bool take_over(Buffer& spare);
    // Digest of the first `length` bytes. REQUIRES: the buffer has as many.
    std::uint64_t digest(Bytes length) const;
    // True if nothing but the first `length` bytes was written.
    bool intact(Bytes length) const;
    Bytes bytes() const { return bytes_; }

private:
    static constexpr Bytes kGuard = 16;
    static constexpr std::byte kUntouched{0x5a};

    // Calls visit(place in memory_, length) for the pieces of the bytes [from, to).
    template <class Visit> void for_each_piece(Bytes from, Bytes to, Visit&& visit) const;
    static int pack(void* context, std::size_t offset, void* to, std::size_t* length);
    static int unpack(void* context, std::size_t offset, const void* from, std::size_t* length);

    std::vector<std::byte, BlockAllocator<std::byte>> memory_;
    Bytes bytes_ = 0;
    Bytes element_ = 0; // 0: contiguous
    Bytes stride_ = 0;
};

} // namespace adaptib::torture
