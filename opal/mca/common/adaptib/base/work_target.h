// SPDX-License-Identifier: BSD-3-Clause
// WorkTarget: the object that is notified when a work request completes.
//
// Purpose: the only call upward from the fabric. A work request's wr_id is the address of the
// object that posted it (wr_id_of); the completion filter calls that object, and nothing else calls
// back.
// Ownership: a target outlives its outstanding work.
// May touch: nothing.
#pragma once

#include <cstdint>

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

inline std::uint64_t wr_id_of(WorkTarget* target) {
    return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(target));
}

inline WorkTarget* target_of(std::uint64_t wr_id) {
    return reinterpret_cast<WorkTarget*>(static_cast<std::uintptr_t>(wr_id));
}

} // namespace adaptib
