// SPDX-License-Identifier: BSD-3-Clause
// A SendFlow without a wire: messages to a peer wait until the test takes them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "memory/block_pool.h"
#include "peer/peer.h"
#include "protocol/completions.h"
#include "protocol/send_flow.h"
#include "unit/protocol/losses.h"

namespace adaptib::test {

// Of messages of a kind that does not wait in the test.
struct NoSender final : PendingSender {
    bool transmit(PendingSend&) override {
        ADD_FAILURE();
        return true;
    }
};

struct HeldMessage {
    MessageType type;
    std::uint8_t flags;
    std::vector<std::byte> body;
};

// Takes the control messages that wait for the peer, behind the barrier if it is there.
inline std::vector<HeldMessage> take_held(BlockPool& pool, Peer& peer) {
    std::vector<HeldMessage> taken;
    PendingQueue others;
    while (peer.out.has_pending()) {
        PendingSend* const send = peer.out.pending.take();
        if (send->kind != PendingSend::Kind::control) {
            others.add(*send);
            continue;
        }
        auto* const message = static_cast<ControlMessage*>(send);
        taken.push_back(
            {message->type, message->flags, {message->body, message->body + message->length}});
        pool.destroy(message);
    }
    peer.out.pending.append(others);
    return taken;
}

class HeldFlow {
public:
    explicit HeldFlow(Counters& counters)
        : losses(counters),
          flow(0, {none_, none_, none_}, pool, completions, losses.events, losses.peers, counters) {
    }

    // From now on nothing goes to the peer.
    void hold(Peer& peer) { flow.interrupt(peer); }
    std::vector<HeldMessage> take(Peer& peer) { return take_held(pool, peer); }
    // Returns the only request that has ended since the last call; null: none has.
    UserRequest* ended() {
        CompletedList& list = completions.list();
        return list.empty() ? nullptr : list.pop();
    }

    BlockPool pool;
    Completions completions;
    Losses losses;

private:
    NoSender none_;

public:
    SendFlow flow;
};

} // namespace adaptib::test
