// SPDX-License-Identifier: BSD-3-Clause
// Messages between ranks of a simulated world, whose bytes are compared.
// Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "simulator/faults/fault.h"
#include "simulator/torture/ranks.h"
#include "unit/core/test_request.h"

namespace adaptib::sim {

inline std::unique_ptr<Ranks> make(RanksOptions options) {
    std::string text;
    auto ranks = Ranks::create(std::move(options), text);
    EXPECT_NE(ranks, nullptr) << text;
    return ranks;
}

struct Message {
    // `number`: messages of different numbers hold different bytes.
    Message(std::size_t from, std::size_t to, std::size_t bytes, std::size_t number = 0)
        : source(from), target(to), sent(bytes), got(bytes) {
        Random random(from * 1000 + to + bytes + (number << 32));
        for (std::byte& byte : sent) {
            byte = static_cast<std::byte>(random.next() >> 56);
        }
    }
    void start(Ranks& ranks, std::int32_t tag = 3) {
        start_send(ranks, tag);
        start_receive(ranks, envelope(tag));
    }
    void start_send(Ranks& ranks, std::int32_t tag, bool synchronous = false) {
        bool complete = false;
        EXPECT_TRUE(ranks.core(source)
                        .protocol()
                        .sends()
                        .send(ranks.peer(source, target), envelope(tag),
                              {sent.data(), sent.size(), nullptr, nullptr, nullptr}, synchronous,
                              OpKind::non_blocking, send.user, complete)
                        .ok());
        ranks.core(source).protocol().ask_for_connections();
        send.done = complete;
        ranks.wake(source);
    }
    // `from`: the sender; null: not known.
    void start_receive(Ranks& ranks, const Envelope& pattern, Peer* from = nullptr) {
        bool complete = false;
        EXPECT_TRUE(ranks.core(target)
                        .protocol()
                        .receives()
                        .receive(pattern, {got.data(), got.size(), nullptr, nullptr, nullptr},
                                 receive.user, complete, from)
                        .ok());
        receive.done = complete;
        ranks.wake(target);
    }
    Envelope envelope(std::int32_t tag) const {
        return {0, static_cast<std::int32_t>(source), tag};
    }
    bool done() const { return send.done && receive.done; }

    std::size_t source;
    std::size_t target;
    std::vector<std::byte> sent;
    std::vector<std::byte> got;
    test::TestRequest send;
    test::TestRequest receive;
};

using Messages = std::vector<std::unique_ptr<Message>>;

inline bool all_done(const Messages& messages) {
    return std::all_of(messages.begin(), messages.end(),
                       [](const auto& message) { return message->done(); });
}

// Starts all messages, and checks that they arrive.
inline void carry(Ranks& ranks, const Messages& messages) {
    for (const auto& message : messages) {
        message->start(ranks);
    }
    ASSERT_TRUE(ranks.run_until([&] { return all_done(messages); }, std::chrono::seconds{10}));
    for (const auto& message : messages) {
        ASSERT_EQ(message->got, message->sent);
    }
}

inline void carry(Ranks& ranks, std::size_t from, std::size_t to, std::size_t bytes) {
    Messages messages;
    messages.push_back(std::make_unique<Message>(from, to, bytes));
    carry(ranks, messages);
}

inline void rest(Ranks& ranks, Nanoseconds time) {
    ranks.run_until([] { return false; }, time);
}

// Faults of rank 0's fabric; has to outlive the ranks.
struct FirstRanksFaults {
    explicit FirstRanksFaults(RanksOptions& options) {
        options.wrap = [this](std::size_t rank, std::unique_ptr<Fabric> below) {
            return rank == 0 ? fault::with_faults(std::move(below), plan, clock, log)
                             : std::move(below);
        };
    }

    fault::FaultPlan plan;
    fault::FaultLog log;
    ManualClock clock;
};

inline void nothing_bad(Ranks& ranks) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        EXPECT_EQ(ranks.counters(rank).bad_packets, 0u) << rank;
        EXPECT_TRUE(ranks.messages(rank).empty()) << ranks.messages(rank).front();
    }
}

inline void expect_arrived(const Messages& messages) {
    for (const auto& message : messages) {
        ASSERT_TRUE(message->done()) << message->source << " to " << message->target;
        EXPECT_EQ(message->send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        EXPECT_EQ(message->receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        ASSERT_TRUE(message->got == message->sent)
            << message->source << " to " << message->target << ", " << message->sent.size();
    }
}

// Returns the rank's notices about peers that it gave up.
inline std::string broken(Ranks& ranks, std::size_t rank) {
    std::string all;
    for (const std::string& text : ranks.messages(rank)) {
        all += text.find("broken") != std::string::npos ? text + "\n" : "";
    }
    return all;
}

// Checks that the rank gave up no connection, and received nothing that was wrong.
inline void expect_unbroken(Ranks& ranks, std::size_t rank) {
    EXPECT_EQ(ranks.counters(rank).bad_packets, 0u);
    EXPECT_EQ(ranks.counters(rank).connections_failed, 0u) << broken(ranks, rank);
}

inline void set_port(Ranks& ranks, std::size_t rank, std::size_t port, bool up) {
    ranks.world().set_port(ranks.world().topology().hosts[rank].ports[port], up);
}

// Sends messages between all ranks while one port after the other fails or comes back; in the end
// all ports are up, and up to 100 s pass. The caller checks that the messages have arrived.
inline Messages storm(Ranks& ranks, Random& random, std::size_t ports,
                      std::span<const std::size_t> sizes) {
    constexpr int kRounds = 30;
    Messages messages;
    for (int round = 0; round < kRounds; ++round) {
        for (std::uint64_t count = random.below(12); count > 0; --count) {
            const std::size_t from = random.below(ranks.size());
            const std::size_t to = (from + 1 + random.below(ranks.size() - 1)) % ranks.size();
            messages.push_back(std::make_unique<Message>(
                from, to, sizes[random.below(sizes.size())], messages.size()));
            messages.back()->start(ranks, static_cast<std::int32_t>(random.below(3)));
        }
        const std::size_t rank = random.below(ranks.size());
        const std::size_t port = random.below(ports);
        set_port(ranks, rank, port, random.below(2) == 0);
        rest(ranks, Nanoseconds{static_cast<std::int64_t>(random.below(3'000'000))});
    }
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        for (std::size_t port = 0; port < ports; ++port) {
            set_port(ranks, rank, port, true);
        }
    }
    ranks.run_until([&] { return all_done(messages); }, std::chrono::seconds{100});
    return messages;
}

} // namespace adaptib::sim
