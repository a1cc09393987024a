// SPDX-License-Identifier: BSD-3-Clause
// GatherCosts: what a small message from a buffer of the user costs, copied or gathered.
//
// Purpose: the numbers behind the choice of FrequentBuffers. A copied message costs a copy of its
// bytes. A gathered one costs a lookup and its handling, and its buffer a registration, once. So a
// buffer pays from
//     n > registration / (copy - lookup - handling)
// uses on. The paper has no handling: a copied message of theirs needs a request and a completion,
// too.
// Times are in nanoseconds, with fractions: a copy of 128 bytes takes two or three.
// Threads: value type; the functions are free of state.
// Source: Rashti and Afsahi, section 3.3.1, inequality 3 and table 2.
// May touch: base/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

#include "base/clock.h"
#include "base/units.h"

namespace adaptib {

struct GatherCosts {
    // Sizes that have costs of their own. Others have those of the next smaller size.
    static constexpr std::array<Bytes, 13> kSizes{128,  256,  512,  1024, 2048,  3072, 4096,
                                                  5120, 6144, 7168, 8192, 12288, 16384};
    static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
    using Times = std::array<double, kSizes.size()>;

    Times copy{};         // C: of the bytes into memory of the adapter's
    Times registration{}; // R: of a buffer of that size, and its deregistration later
    double lookup = 0;    // V: of the buffer among all known ones
    double handling = 0;  // of a request, a completion and two more entries of a work request

    // Returns the index of the size that a message of `bytes` has its costs from.
    // REQUIRES: bytes >= kSizes[0].
    static constexpr std::size_t index(Bytes bytes) {
        std::size_t at = kSizes.size() - 1;
        while (kSizes[at] > bytes) {
            --at;
        }
        return at;
    }
    // Returns the least number of uses with which the registration pays for itself; kNever if the
    // lookup and the handling cost more than the copy.
    std::uint32_t least_uses(Bytes bytes) const { return least_uses(bytes, handling); }
    // Same for a put or get, which needs a request and a completion in any case.
    std::uint32_t least_uses_one_sided(Bytes bytes) const { return least_uses(bytes, 0); }

    // Assumed costs, of a machine of 2020 with a ConnectX adapter, where none can be measured.
    static GatherCosts assumed();

private:
    std::uint32_t least_uses(Bytes bytes, double handled) const;
};

// How costs are measured. Each function does the thing once.
struct GatherTrial {
    std::function<void(std::byte* to, const std::byte* from, Bytes length)> copy;
    // Registers memory and gives it back. Returns false if the rail refuses.
    std::function<bool(void* address, Bytes length)> registration;
    std::function<void()> lookup;
};

// Measures the costs within about a millisecond, each by its shortest time: a few registrations of
// one page and of several, and batches of copies and lookups. What is not measured when the time is
// over, or is refused, is assumed. Handling cannot be measured without traffic; it is as many
// lookups as fit into its instructions.
GatherCosts measure_gather_costs(const Clock& clock, const GatherTrial& trial);

} // namespace adaptib
