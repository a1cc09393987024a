// SPDX-License-Identifier: BSD-3-Clause
// RC sends and notices of writes with immediate: sent through the target's queue, which
// acknowledges.
//
// Purpose: numbers the messages of a connection, sends one when the target has a receive for it,
// and tells from the target's entry what became of it.
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, attempt.h, connected_peer.h; in fabric/:
// completion_queue.h, work.h, qp_rules.h.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/invariant.h"
#include "fabric/completion_queue.h"
#include "fabric/shm/attempt.h"
#include "fabric/shm/connected_peer.h"
#include "fabric/work.h"

namespace adaptib::shm {

class MessageSender {
public:
    MessageSender(const Clock& clock, ConnectedPeer& peer) : clock_(clock), peer_(peer) {}

    // A new connection: its messages are counted from 1, and come from that queue pair.
    void restart(std::uint32_t own_number) {
        ADAPTIB_INVARIANT(own_number != 0 && own_number >> 24 == 0,
                          "a sender has a number of 24 bits", own_number);
        own_number_ = own_number;
        sent_ = 0;
    }
    // REQUIRES, both: the peer is reachable; a.moved is what earlier tries have sent.
    Step send(const SendWork& work, Bytes length, std::uint8_t rnr_retry, Attempt& a,
              WorkStatus& status);
    Step send_notice(const SendWork& work, Bytes length, std::uint8_t rnr_retry, Attempt& a,
                     WorkStatus& status);
    // State of message number `message`. Valid even if the target is in ERR by now.
    WorkStatus state(std::uint64_t message, bool& over) const;

private:
    bool receive_ready(std::uint8_t rnr_retry, Attempt& a, WorkStatus& status, Step& step);
    Step wait_for_room(Push push, Attempt& a, WorkStatus& status);

    const Clock& clock_;
    ConnectedPeer& peer_;
    std::uint32_t own_number_ = 0;
    std::uint64_t sent_ = 0;
};

} // namespace adaptib::shm
