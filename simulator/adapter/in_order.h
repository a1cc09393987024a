// SPDX-License-Identifier: BSD-3-Clause
// Copies that the program sees in the order of addresses, as it sees a write of an adapter that
// places data in order.
//
// Purpose: a program may poll the last word of a write, and take the rest as soon as it sees that
// word. Within one copy of the kernel's (rep movsb) the processor may store one cache line after a
// later one; copies that follow each other are stored in their order.
// Threads: any. May touch: the system.
#pragma once

#include <cstdint>

namespace adaptib::hca {

// Copies to registered memory that the program may have unmapped already, whose pages a real
// adapter would have pinned. Returns false if it has.
bool copy_in_order(std::uint8_t* to, const std::uint8_t* from, std::uint64_t bytes);

// Length of the piece that is copied first, of `bytes` left: up to the end of a cache line. Of the
// last line, the last eight bytes are a piece of their own. REQUIRES: bytes > 0.
std::uint64_t next_in_order(std::uintptr_t to, std::uint64_t bytes);

} // namespace adaptib::hca
