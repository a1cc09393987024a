// SPDX-License-Identifier: BSD-3-Clause
// WorkTarget: the object that is notified when a work request completes.
//
// Purpose: the only call upward from the fabric. A work request's wr_id is the address of the
// object that posted it (wr_id_of); the completion filter calls that object, and nothing else calls
// back. The upper bits, which no address uses, are a number of the target's own, by which it tells
// its requests apart.
// Ownership: a target outlives its outstanding work.
// May touch: base/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/invariant.h"

namespace adaptib {

struct WorkCompletion;

class WorkTarget {
public:
    // Called on success and on failure. After a failure only wr_id, status, qp_number and
    // vendor_error are valid. `rail` is the queue pair's: numbers of QPs are unique only within a
    // rail.
    virtual void on_work_done(std::uint32_t rail, const WorkCompletion& completion) = 0;

protected:
    ~WorkTarget() = default;
};

// Addresses of a process have at most 48 bits on x86-64 and AArch64, unless it asks the kernel for
// higher ones (by a hint to mmap).
constexpr unsigned kAddressBits = 48;
constexpr std::size_t kWorkNumbers = std::size_t{1} << (64 - kAddressBits);

// Returns the wr_id of a request. `number` is taken modulo kWorkNumbers.
inline std::uint64_t wr_id_of(WorkTarget* target, std::size_t number = 0) {
    const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(target));
    ADAPTIB_INVARIANT(address >> kAddressBits == 0, "addresses of a process have 48 bits", address);
    return address | std::uint64_t{number} << kAddressBits;
}

inline WorkTarget* target_of(std::uint64_t wr_id) {
    constexpr std::uint64_t kAddress = (std::uint64_t{1} << kAddressBits) - 1;
    return reinterpret_cast<WorkTarget*>(static_cast<std::uintptr_t>(wr_id & kAddress));
}

inline std::size_t work_number_of(std::uint64_t wr_id) { return wr_id >> kAddressBits; }

} // namespace adaptib
