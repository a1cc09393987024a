// SPDX-License-Identifier: BSD-3-Clause
// Unreliable datagrams of the simulated fabric, or reliable ones if the machine says so.
//
// A datagram's payload is copied when it is posted and delivered by an event of its own. Reliable
// datagrams wait at a target that has no receive; a sender that finds too many of them there gets
// again(queue_full).
// Ownership: the caller's.  Threads: one.
// Source: InfiniBand Architecture, vol. 1, 9.8.3.
// May touch: base/, fabric/, simulator/network/.
#pragma once

#include <deque>
#include <vector>

#include "base/growing_ring.h"
#include "simulator/network/datagram.h"
#include "simulator/network/qp.h"

namespace adaptib::sim {

class UdQueuePair : public SimQueuePair {
public:
    UdQueuePair(SimRail& rail, const QpInit& init);
    ~UdQueuePair() override;

    void path_changed() override {}
    // Takes the datagram, or returns it to the pool.
    virtual void arrive(Datagram* datagram);

protected:
    // Returns the time at which the datagram has left.
    Nanoseconds transmit(const SendWork& work, Bytes length, Path& path, Nanoseconds ready);
    void left(std::size_t count);

private:
    static constexpr std::size_t kMostInbound = 1024;

    struct Send {
        std::uint64_t wr_id = 0;
        Opcode opcode = Opcode::send;
        bool tells = false;
        Nanoseconds leaves{0};
    };
    Status connect(const QpAttributes&) override { return kOk; }
    Status post_send_impl(const SendWork& work) override;
    void stop_sending() override { simulator_.cancel(settles_); }
    void flush_sends() override;
    void forget_sends() override;
    void on_receive_posted() override;
    bool deliver(Datagram* datagram);
    void settle_sends();
    void drop_queued();

    GrowingRing<Send> sends_;
    MemberEvent<UdQueuePair, &UdQueuePair::settle_sends> settles_{*this};
    std::deque<Datagram*> queued_;
    std::size_t inbound_ = 0; // datagrams under way to this queue pair, and held
    std::vector<Process*> blocked_;
};

} // namespace adaptib::sim
