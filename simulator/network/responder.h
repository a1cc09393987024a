// SPDX-License-Identifier: BSD-3-Clause
// Responder: answers datagrams to a rail of a simulated process while the process does something
// else (Fabric::respond).
//
// Purpose: stands for the thread of a real process. It answers each datagram kWakes later, in
// virtual time, however long the rank does not poll. The responder of a dead process answers
// nothing.
// Ownership: the fabric's.  Threads: one.
// May touch: base/, fabric/, simulator/network/.
#pragma once

#include <cstdint>

#include "simulator/network/ud.h"

namespace adaptib::sim {

class Responder final : public UdQueuePair {
public:
    // Time until the thread runs and has read the datagram.
    static constexpr Nanoseconds kWakes{20'000};

    // `index`: the rail's index in its fabric.
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
