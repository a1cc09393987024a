// SPDX-License-Identifier: BSD-3-Clause
// Target side of reliable queue pairs: carries out a request that has arrived.
//
// Purpose: checks the rights of the queue pair and the region, and touches the memory of this
// process, or takes a receive.
// Ownership: the caller's.  Threads: one.
// May touch: base/, fabric/, simulator/network/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "simulator/network/qp.h"
#include "simulator/network/requests.h"

namespace adaptib::sim {

class ServingQueuePair : public SimQueuePair {
public:
    enum class Outcome : std::uint8_t { done, nobody, no_receive, busy, refused };

    using SimQueuePair::SimQueuePair;

    // `reads_before`: reads and atomics of the initiator that are under way. As many as this queue
    // pair takes are too many with this one. refused: `refusal` is the status for the initiator,
    // and this queue pair is in ERR.
    Outcome serve(Request& request, std::uint32_t reads_before, WorkStatus& refusal);

    // A write of a DC initiator that is gone arrives.
    void serve_late(std::uint64_t access_key, std::uint32_t remote_key, std::uint64_t address,
                    std::span<const std::byte> bytes);

private:
    Outcome serve_send(Request& request, WorkStatus& refusal);
    Outcome serve_write(Request& request, WorkStatus& refusal);
    Outcome serve_read(Request& request, std::uint32_t reads_before, WorkStatus& refusal);
    Outcome serve_atomic(Request& request, std::uint32_t reads_before, WorkStatus& refusal);
    Outcome refuse(WorkStatus status, WorkStatus& refusal);
};

} // namespace adaptib::sim
