// SPDX-License-Identifier: BSD-3-Clause
// StandInWire: what an adapter does with the requests that the stand-ins for libibverbs and libmlx5
// record, so that whole cores talk over them: datagrams, and RDMA writes of connected queue pairs
// and of DC initiators.
//
// Purpose: a datagram goes into the next receive of its queue pair, a write into memory, both at
// once; requests complete. A write of an initiator has to name a target that is there.
// Threads: one, beside the responders' of the fabrics.
// May touch: the stand-ins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "unit/verbs/mlx5_stand_in.h"
#include "unit/verbs/stand_in.h"

namespace adaptib::test {

// A write of a DC initiator, by the number of the queue pairs at both ends.
struct CarriedWrite {
    std::uint32_t initiator;
    std::uint32_t target;
};

class StandInWire {
public:
    explicit StandInWire(StandIn& lib) : lib_(lib) {}
    // Carries all that was posted since the last call.
    void carry();
    const std::vector<CarriedWrite>& writes() const { return writes_; } // over DC
    int connected_writes() const { return connected_writes_; }          // over connections

private:
    void carry_datagram(const SendCall& call);
    void carry_connected_write(const SendCall& call);
    void carry_write(const DcRequest& request);

    StandIn& lib_;
    std::size_t sent_ = 0;                          // of lib_.sent, carried
    std::map<std::uint32_t, std::size_t> received_; // of lib_.received, seen, by queue pair
    std::vector<CarriedWrite> writes_;
    int connected_writes_ = 0;
};

} // namespace adaptib::test
