// SPDX-License-Identifier: BSD-3-Clause
// Responder: what a simulated process's rail answers while the process does something else
// (Fabric::respond).
//
// Purpose: the thread of a real process, as an event: what arrives is answered kWakes later, by
// virtual time, however long the rank does not look. A process that has died answers nothing.
// Ownership: the fabric's.  Threads: one.
// May touch: base/, fabric/, fabric/sim/.
#pragma once

#include <cstdint>

#include "fabric/sim/ud.h"

namespace adaptib::sim {

class Responder final : public UdQueuePair {
public:
    // Until the thread runs, and has looked at what has come.
    static constexpr Nanoseconds kWakes{20'000};

    // `index`: of the rail in its fabric.
    Responder(SimRail& rail, const QpInit& init, std::uint32_t index, const Answerer& answerer,
              std::uint64_t access_key)
        : UdQueuePair(rail, init), index_(index), answerer_(answerer), key_(access_key) {}

    void arrive(Datagram* datagram) override;

private:
    void answer(const Datagram& question);

    std::uint32_t index_;
    const Answerer& answerer_;
    std::uint64_t key_;
};

} // namespace adaptib::sim
