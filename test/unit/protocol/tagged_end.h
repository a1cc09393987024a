// SPDX-License-Identifier: BSD-3-Clause
// One end of tagged messages without a core: receives and sends, wired to each other as the
// protocol does, over a ring whose reader the test is. The test hands over what the peer sends.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "memory/exposed_memory.h"
#include "protocol/message_sends.h"
#include "protocol/ring_sends.h"
#include "protocol/tagged_receives.h"
#include "unit/channel/ring_pair.h"
#include "unit/messages.h"
#include "unit/protocol/held_flow.h"
#include "unit/protocol/open_peer.h"

namespace adaptib::test {

class TaggedEnd : protected OpenPeer {
protected:
    static constexpr std::uint64_t kUnits = 256; // of the ring
    static constexpr Bytes kCapacity = 512;      // of a message
    static constexpr Bytes kLimit = 400;         // of eager messages
    static constexpr Bytes kSelfLimit = 64;      // of those to this process
    static constexpr Bytes kMost = 8192;         // of memory for unexpected messages
    static constexpr std::uint64_t kThreshold = 3;

    struct Message {
        MessageHeader header;
        std::vector<std::byte> body;
    };

    // `options`: of the memory.
    explicit TaggedEnd(const ExposedMemory::Options& options = {.block_bytes = 1024})
        : memory(options, rails, fabrics, there.counters, ignore_message) {
        peer->out.ring = std::move(ring.writer);
        peer->out.ring_capacity = kCapacity;
        peer->flow.eager_limit = kLimit;
        peer->allow(Allowance::all);
        for (std::size_t i = 0; i < data.size(); ++i) {
            data[i] = static_cast<std::byte>(i * 7);
        }
    }
    ~TaggedEnd() {
        flow.forget(*peer);
        receives.back_pressure().forget(*peer);
    }

    // Takes the messages that are in the ring.
    std::vector<Message> take() {
        std::vector<Message> taken;
        ring.take_all(*peer->out.ring, [&](const MessageHeader& header, const std::byte* body) {
            taken.push_back({header, {body, body + header.length}});
        });
        return taken;
    }
    // Takes the only message, which is of that type.
    Message take(MessageType type) {
        std::vector<Message> taken = take();
        EXPECT_EQ(taken.size(), 1u);
        taken.resize(1);
        EXPECT_EQ(taken[0].header.type, type);
        return taken[0];
    }
    // Fills the ring with messages to be matched, so that the next send finds no room.
    void fill() {
        while (RingSends::try_send(*peer, {}, data.data(), kLimit)) {
        }
    }
    // Ends the requests that wait for the peer if it has been lost.
    void end_lost() {
        if (losses.only(*peer)) {
            sends.fail(*peer);
            rendezvous.fail(*peer);
            receives.fail(*peer);
        }
    }
    Data to_send(Bytes bytes) { return {data.data(), bytes, nullptr, nullptr, nullptr}; }
    Data to_fill(Bytes bytes) { return {got.data(), bytes, nullptr, nullptr, nullptr}; }
    // Returns the request if it has been reported, not within its call.
    const UserRequest* reported() {
        CompletedList& list = receives.completions().list();
        return list.empty() ? nullptr : list.pop();
    }
    // Takes the only message, which tells the peer what it may send.
    Allowance allowed() {
        return static_cast<Allowance>(take(MessageType::allowance).header.flags);
    }
    std::uint64_t bad() const { return there.counters.bad_packets; }

    Ring ring{kUnits, false};
    std::vector<std::byte> data = std::vector<std::byte>(2048);
    std::vector<std::byte> got = std::vector<std::byte>(2048);
    std::vector<RailRange> fabrics{{0, 2}};
    ExposedMemory memory;
    Losses losses{there.counters};
    Completions& completions() { return receives.completions(); }
    TransferEngine transfers{{&there.clock, Nanoseconds{0}, 10},
                             rails,
                             flow,
                             losses.events,
                             there.counters,
                             ignore_message};
    EagerTuning tuning{there.clock, 4096, there.counters};
    RmaTarget target{memory.lent(), nullptr, rendezvous, there.counters};
    SynchronousRma synchronous{there.clock, 1024, memory, there.counters, target};
    TaggedReceives receives{{kSelfLimit, kMost, false},
                            {flow, rendezvous, memory, synchronous},
                            losses.peers,
                            there.counters};
    MessageSends sends{{flow, rendezvous, tuning, transfers, memory, receives},
                       losses.events,
                       losses.peers,
                       there.counters};
    NoSender none;
    Rendezvous rendezvous{{false, 1024, 2},
                          {flow, transfers, memory, completions(), losses.events},
                          losses.peers,
                          there.counters};
    SendFlow flow{kThreshold,      {sends, none, rendezvous},
                  receives.pool(), completions(),
                  losses.events,   losses.peers,
                  there.counters};
    UserRequest user{};
    UserRequest other{};
    bool complete = false;
};

} // namespace adaptib::test
