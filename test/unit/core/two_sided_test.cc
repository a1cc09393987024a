// SPDX-License-Identifier: BSD-3-Clause
// Two-sided traffic between cores: sizes, protocols, order, matching, channel changes.
#include <array>
#include <string>

#include "common_adaptib_two_sided.h"
#include "cores.h"

namespace adaptib::test {
namespace {

struct Case {
    const char* name;
    void (*adjust)(Parameters&);
};

void set(char*& field, const char* value) { field = const_cast<char*>(value); }

const Case kCases[] = {
    {"defaults", [](Parameters&) {}},
    {"put", [](Parameters& p) { set(p.rendezvous, "put"); }},
    {"no_single_copy", [](Parameters& p) { set(p.shm_single_copy, "none"); }},
    {"connect_at_once", [](Parameters& p) { p.connect_threshold = 0; }},
    {"never_connect_eagerly", [](Parameters& p) { p.connect_threshold = 1000000000; }},
    {"no_rings", [](Parameters& p) { p.ring_max = 0; }},
    {"tiny_ring",
     [](Parameters& p) {
         p.eager_limit = 1024;
         p.ring_bytes = 4096;
         p.connect_threshold = 0;
     }},
    {"no_eager", [](Parameters& p) { p.eager_limit = 0; }},
    {"small_blocks",
     [](Parameters& p) {
         p.block_bytes = 1024;
         p.block_depth = 2;
     }},
    {"three_rails", [](Parameters& p) { p.shm_rails = 3; }},
    {"three_rails_round_robin",
     [](Parameters& p) {
         p.shm_rails = 3;
         set(p.multiplexing_policy, "round_robin");
         set(p.striping_policy, "none");
     }},
    {"three_rails_even",
     [](Parameters& p) {
         p.shm_rails = 3;
         set(p.multiplexing_policy, "round_robin");
         set(p.striping_policy, "even");
         p.striping_threshold = 1024;
     }},
    {"four_rails_bss",
     [](Parameters& p) {
         p.shm_rails = 4;
         p.striping_threshold = 1024;
         p.min_stripe = 64;
         p.bss_batch = 3;
         set(p.multiplexing_policy, "weighted_round_robin");
         set(p.striping_policy, "bss");
     }},
    {"three_rails_load_balanced",
     [](Parameters& p) {
         p.shm_rails = 3;
         p.striping_threshold = 1024;
         p.min_stripe = 64;
         p.window = 2;
         set(p.multiplexing_policy, "window_round_robin");
         set(p.striping_policy, "load_balanced");
     }},
    {"three_rails_epc_put",
     [](Parameters& p) {
         p.shm_rails = 3;
         p.min_stripe = 1000;
         set(p.striping_policy, "epc");
         set(p.rendezvous, "put");
     }},
    {"two_rails_even_put",
     [](Parameters& p) {
         p.shm_rails = 2;
         set(p.multiplexing_policy, "round_robin");
         set(p.striping_policy, "even");
         set(p.rendezvous, "put");
     }},
};

// Rails of two nodes, which need not have the same number: only where either has several do the
// datagrams between them have numbers.
class DifferingRails : public testing::TestWithParam<std::array<int, 2>> {};

INSTANTIATE_TEST_SUITE_P(Rails, DifferingRails,
                         testing::Values(std::array{1, 3}, std::array{3, 1}, std::array{2, 1},
                                         std::array{2, 4}),
                         [](const auto& test) {
                             return std::to_string(test.param[0]) + "_" +
                                    std::to_string(test.param[1]);
                         });

TEST_P(DifferingRails, MessagesArriveBothWays) {
    for (const bool connect : {false, true}) {
        for (const char* tolerance : {"on", "off"}) { // of node 0 alone
            Options options;
            options.parameters_of = [&](std::size_t node, Parameters& parameters) {
                parameters.shm_rails = GetParam()[node];
                set(parameters.fault_tolerance, node == 0 ? tolerance : "on");
                parameters.connect_threshold = connect ? 5 : 1000000000;
            };
            Cores world(2, options);
            for (const std::size_t bytes : {8, 3000, 200000}) {
                exchange(world, bytes, 8);
            }
            for (std::size_t node = 0; node < 2; ++node) {
                EXPECT_TRUE(world.messages(node).empty()) << world.messages(node)[0];
                EXPECT_EQ(world.counters(node).bad_packets, 0u);
                EXPECT_GT(world.counters(node).datagram_received, 0u);
                EXPECT_TRUE(world.counters(node).ring_received > 0 || !connect);
            }
        }
    }
}

class TwoSided : public testing::TestWithParam<Case> {
protected:
    Options options() const {
        Options options;
        GetParam().adjust(options.parameters);
        return options;
    }
};

INSTANTIATE_TEST_SUITE_P(Parameters, TwoSided, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

const std::size_t kSizes[] = {0,     1,     7,     8,     31,     32,      33,     63,   64,
                              65,    1000,  2016,  4039,  4040,   4041,    8191,   8192, 8193,
                              16384, 65535, 65536, 65537, 200000, 1048576, 3000001};

TEST_P(TwoSided, EverySizeArrivesWhole) {
    Cores world(2, options());
    for (bool receive_first : {true, false}) {
        for (std::size_t size : kSizes) {
            SCOPED_TRACE(size);
            std::vector<std::byte> sent = pattern(size, size + 1);
            std::vector<std::byte> got(size + 16, std::byte{0x5a});
            TestRequest send;
            TestRequest receive;
            if (receive_first) {
                ASSERT_TRUE(world.receive(1, 0, 5, contiguous(got.data(), size), receive).ok());
            }
            ASSERT_TRUE(world.send(0, 1, 5, contiguous(sent), send).ok());
            if (!receive_first) {
                for (int i = 0; i < 20; ++i) {
                    world.progress();
                }
                ASSERT_TRUE(world.receive(1, 0, 5, contiguous(got.data(), size), receive).ok());
            }
            ASSERT_TRUE(world.run({&send, &receive}));
            EXPECT_EQ(send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
            EXPECT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
            EXPECT_EQ(receive.user.bytes, size);
            EXPECT_EQ(receive.user.source, 0);
            EXPECT_EQ(receive.user.tag, 5);
            ASSERT_TRUE(std::equal(sent.begin(), sent.end(), got.begin()));
            ASSERT_EQ(got[size], std::byte{0x5a});
        }
    }
    EXPECT_TRUE(world.messages(0).empty());
    EXPECT_EQ(world.counters(0).bad_packets + world.counters(1).bad_packets, 0u);
}

TEST_P(TwoSided, NonContiguousEitherSide) {
    Cores world(2, options());
    for (std::size_t size : {std::size_t{8}, std::size_t{1000}, std::size_t{8192},
                             std::size_t{100000}, std::size_t{1000000}}) {
        for (int kind = 1; kind < 4; ++kind) {
            SCOPED_TRACE(testing::Message() << size << " kind " << kind);
            std::vector<std::byte> sent = pattern(size, size);
            std::vector<std::byte> got(size);
            Strided strided_sent(size, 8, 12);
            Strided strided_got(size, 4, 20);
            for (std::size_t i = 0; i < size; ++i) {
                strided_sent.at(i) = sent[i];
            }
            TestRequest send;
            TestRequest receive;
            ASSERT_TRUE(
                world.send(0, 1, 1, (kind & 1) ? strided_sent.data() : contiguous(sent), send)
                    .ok());
            ASSERT_TRUE(
                world.receive(1, 0, 1, (kind & 2) ? strided_got.data() : contiguous(got), receive)
                    .ok());
            ASSERT_TRUE(world.run({&send, &receive}));
            EXPECT_EQ(receive.user.bytes, size);
            for (std::size_t i = 0; i < size; ++i) {
                ASSERT_EQ((kind & 2) ? strided_got.at(i) : got[i], sent[i]) << i;
            }
        }
    }
}

TEST_P(TwoSided, TruncationFillsTheBufferAndSaysSo) {
    Cores world(2, options());
    for (std::size_t size : {std::size_t{100}, std::size_t{8192}, std::size_t{300000}}) {
        for (std::size_t room : {std::size_t{0}, std::size_t{12}, size / 2 + 3}) {
            for (int kind = 0; kind < 4; ++kind) {
                SCOPED_TRACE(testing::Message() << size << " into " << room << " kind " << kind);
                size = size / 8 * 8;
                room = room / 4 * 4;
                std::vector<std::byte> sent = pattern(size, size);
                std::vector<std::byte> got(room);
                Strided strided_sent(size, 8, 16);
                Strided strided_got(room, 4, 8);
                for (std::size_t i = 0; i < size; ++i) {
                    strided_sent.at(i) = sent[i];
                }
                TestRequest send;
                TestRequest receive;
                ASSERT_TRUE(
                    world.send(0, 1, 1, (kind & 1) ? strided_sent.data() : contiguous(sent), send)
                        .ok());
                ASSERT_TRUE(world
                                .receive(1, 0, 1, (kind & 2) ? strided_got.data() : contiguous(got),
                                         receive)
                                .ok());
                ASSERT_TRUE(world.run({&send, &receive}));
                EXPECT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_TRUNCATED);
                EXPECT_EQ(receive.user.bytes, room);
                EXPECT_EQ(send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
                for (std::size_t i = 0; i < room; ++i) {
                    ASSERT_EQ((kind & 2) ? strided_got.at(i) : got[i], sent[i]) << i;
                }
            }
        }
    }
}

TEST_P(TwoSided, OrderHoldsAcrossSizesAndChannelChanges) {
    Cores world(2, options());
    constexpr std::size_t kMessages = 300;
    Random random(42);
    std::vector<std::vector<std::byte>> sent;
    std::vector<std::vector<std::byte>> got;
    std::vector<TestRequest> sends(kMessages);
    std::vector<TestRequest> receives(kMessages);
    for (std::size_t i = 0; i < kMessages; ++i) {
        const std::size_t size = random.below(10) == 0 ? random.below(100000) : random.below(6000);
        sent.push_back(pattern(size, i));
        got.emplace_back(100000);
    }
    std::vector<TestRequest*> all;
    for (std::size_t i = 0; i < kMessages; ++i) {
        ASSERT_TRUE(world.send(0, 1, 3, contiguous(sent[i]), sends[i]).ok());
        if (random.below(3) == 0) {
            world.progress(random.below(2));
        }
        all.push_back(&sends[i]);
    }
    for (std::size_t i = 0; i < kMessages; ++i) {
        ASSERT_TRUE(world.receive(1, 0, 3, contiguous(got[i]), receives[i]).ok());
        all.push_back(&receives[i]);
    }
    ASSERT_TRUE(world.run(all));
    for (std::size_t i = 0; i < kMessages; ++i) {
        ASSERT_EQ(receives[i].user.bytes, sent[i].size()) << i;
        ASSERT_TRUE(std::equal(sent[i].begin(), sent[i].end(), got[i].begin())) << i;
    }
    EXPECT_EQ(world.counters(1).duplicates, 0u);
}

// Sends at once, other sends, and those that stall because the ring is full: all keep one order.
TEST_P(TwoSided, SendsAtOnceKeepTheOrder) {
    Cores world(2, options());
    exchange(world, 64, 40); // connected, if ever
    constexpr std::size_t kMessages = 1500;
    Random random(7);
    std::vector<std::vector<std::byte>> sent;
    std::vector<TestRequest> sends(kMessages);
    std::size_t at_once = 0;
    std::size_t stalled = 0;
    std::size_t received = 0;
    const auto receive_some = [&](std::size_t count) {
        for (; count > 0 && received < sent.size(); --count, ++received) {
            TestRequest receive;
            std::vector<std::byte> got(10000);
            ASSERT_TRUE(
                world.receive(1, 0, OPAL_COMMON_ADAPTIB_ANY_TAG, contiguous(got), receive).ok());
            ASSERT_TRUE(world.run({&receive})) << received;
            ASSERT_EQ(receive.user.tag, static_cast<std::int32_t>(received)) << "overtaken";
            ASSERT_EQ(receive.user.bytes, sent[received].size());
            got.resize(sent[received].size());
            ASSERT_EQ(got, sent[received]) << received;
        }
    };
    for (std::size_t i = 0; i < kMessages; ++i) {
        const auto tag = static_cast<std::int32_t>(i);
        sent.push_back(pattern(random.below(20) == 0 ? random.below(10000) : random.below(200), i));
        if (random.below(8) != 0 && world.try_send(0, 1, tag, contiguous(sent.back()))) {
            sends[i].done = true;
            ++at_once;
        } else {
            const bool synchronous = random.below(10) == 0;
            ASSERT_TRUE(world.send(0, 1, tag, contiguous(sent.back()), sends[i], synchronous).ok());
            stalled += sends[i].done ? 0 : 1;
        }
        // The ring fills up, then some or all of it is taken.
        if (random.below(200) == 0) {
            receive_some(random.below(2) == 0 ? 20 : kMessages);
        }
    }
    receive_some(kMessages);
    for (TestRequest& send : sends) {
        ASSERT_TRUE(world.run({&send}));
    }
    EXPECT_GT(stalled, 0u);
    const Parameters p = options().parameters;
    const bool rings = p.ring_max > 0 && p.eager_limit != 0; // a rendezvous connects
    EXPECT_EQ(at_once > 10, rings) << at_once << " at once";
    EXPECT_EQ(world.counters(1).duplicates, 0u);
    EXPECT_TRUE(world.messages(0).empty());
}

TEST(SendsAtOnce, OnlyWhatIsShortContiguousAndFirstInLine) {
    Options options;
    options.parameters.connect_threshold = 0;
    options.parameters.eager_limit = 1024;
    options.parameters.ring_bytes = 4096;
    Cores world(2, options);
    std::vector<std::byte> small = pattern(100, 1);
    EXPECT_FALSE(world.try_send(0, 1, 1, contiguous(small))) << "there is no ring yet";
    exchange(world, 100, 10);
    std::vector<std::byte> longer(1025);
    EXPECT_FALSE(world.try_send(0, 1, 1, contiguous(longer)));
    Strided strided(96, 8, 16);
    EXPECT_FALSE(world.try_send(0, 1, 1, strided.data()));
    // The ring fills up; then nothing overtakes a waiting message, though a shorter one would fit.
    std::size_t in_ring = 0;
    while (world.try_send(0, 1, 2, contiguous(small))) {
        ASSERT_LT(++in_ring, 1000u);
    }
    EXPECT_GT(in_ring, 10u);
    TestRequest waits;
    std::vector<std::byte> most(1000);
    ASSERT_TRUE(world.send(0, 1, 3, contiguous(most), waits).ok());
    EXPECT_FALSE(waits.done);
    std::vector<std::byte> got(2000);
    for (std::size_t i = 0; i < in_ring; ++i) {
        TestRequest receive;
        ASSERT_TRUE(
            world.receive(1, 0, OPAL_COMMON_ADAPTIB_ANY_TAG, contiguous(got), receive).ok());
        while (!receive.done) {
            world.progress(1); // the sender makes no progress
        }
        EXPECT_EQ(receive.user.tag, 2);
        EXPECT_FALSE(world.try_send(0, 1, 4, contiguous(small.data(), 0)));
    }
    ASSERT_TRUE(world.run({&waits}));
    EXPECT_TRUE(world.try_send(0, 1, 4, contiguous(small.data(), 0)));
    for (const std::int32_t tag : {3, 4}) {
        TestRequest receive;
        ASSERT_TRUE(
            world.receive(1, 0, OPAL_COMMON_ADAPTIB_ANY_TAG, contiguous(got), receive).ok());
        ASSERT_TRUE(world.run({&receive}));
        EXPECT_EQ(receive.user.tag, tag);
    }
}

// Thousands of messages one way: credit comes back as often as it takes, and only eager traffic
// releases the send queue.
TEST_P(TwoSided, ALongOneWayStreamDoesNotStall) {
    Cores world(2, options());
    std::vector<std::byte> sent = pattern(200, 1);
    constexpr std::size_t kMessages = 30000;
    std::vector<TestRequest> sends(kMessages);
    std::vector<std::byte> got(200);
    for (TestRequest& send : sends) {
        ASSERT_TRUE(world.send(0, 1, 3, contiguous(sent), send).ok());
    }
    for (std::size_t i = 0; i < kMessages; ++i) {
        TestRequest receive;
        ASSERT_TRUE(world.receive(1, 0, 3, contiguous(got), receive).ok());
        ASSERT_TRUE(world.run({&receive})) << i;
    }
    EXPECT_EQ(got, sent);
    EXPECT_TRUE(world.run({&sends.back()}));
}

TEST_P(TwoSided, SynchronousSendEndsOnlyWhenMatched) {
    Cores world(2, options());
    for (std::size_t size : {std::size_t{0}, std::size_t{10}, std::size_t{100000}}) {
        std::vector<std::byte> sent = pattern(size, 1);
        std::vector<std::byte> got(size);
        TestRequest send;
        TestRequest receive;
        ASSERT_TRUE(world.send(0, 1, 9, contiguous(sent), send, true).ok());
        for (int i = 0; i < 100; ++i) {
            world.progress();
        }
        EXPECT_FALSE(send.done);
        ASSERT_TRUE(world.receive(1, 0, 9, contiguous(got), receive).ok());
        ASSERT_TRUE(world.run({&send, &receive}));
        EXPECT_EQ(got, sent);
    }
}

TEST_P(TwoSided, BothWaysAtOnceDoNotBlockEachOther) {
    Cores world(3, options());
    constexpr std::size_t kMessages = 200;
    std::vector<TestRequest> sends(6 * kMessages);
    std::vector<TestRequest> receives(6 * kMessages);
    std::vector<std::vector<std::byte>> got(6 * kMessages);
    std::vector<std::vector<std::byte>> sent(6 * kMessages);
    std::vector<TestRequest*> all;
    std::size_t next = 0;
    for (std::size_t i = 0; i < kMessages; ++i) {
        for (std::size_t from = 0; from < 3; ++from) {
            for (std::size_t to = 0; to < 3; ++to) {
                if (from == to) {
                    continue;
                }
                const std::size_t size = (i * 137) % 5000;
                sent[next] = pattern(size, next);
                got[next].resize(size);
                ASSERT_TRUE(world.send(from, to, 2, contiguous(sent[next]), sends[next]).ok());
                ASSERT_TRUE(world
                                .receive(to, static_cast<std::int32_t>(from), 2,
                                         contiguous(got[next]), receives[next])
                                .ok());
                all.push_back(&sends[next]);
                all.push_back(&receives[next]);
                ++next;
            }
        }
    }
    ASSERT_TRUE(world.run(all));
    EXPECT_EQ(got, sent);
}

TEST_P(TwoSided, ToItself) {
    Cores world(1, options());
    for (std::size_t size : {std::size_t{0}, std::size_t{96}, std::size_t{96000}}) {
        for (int kind = 0; kind < 4; ++kind) {
            for (bool receive_first : {true, false}) {
                std::vector<std::byte> sent = pattern(size, size);
                std::vector<std::byte> got(size);
                Strided strided_sent(size, 8, 16);
                Strided strided_got(size, 4, 8);
                for (std::size_t i = 0; i < size; ++i) {
                    strided_sent.at(i) = sent[i];
                }
                const Data from = (kind & 1) ? strided_sent.data() : contiguous(sent);
                const Data to = (kind & 2) ? strided_got.data() : contiguous(got);
                TestRequest send;
                TestRequest receive;
                if (receive_first) {
                    ASSERT_TRUE(world.receive(0, 0, 1, to, receive).ok());
                }
                ASSERT_TRUE(world.send(0, 0, 1, from, send).ok());
                if (!receive_first) {
                    ASSERT_TRUE(world.receive(0, 0, 1, to, receive).ok());
                }
                ASSERT_TRUE(world.run({&send, &receive}));
                for (std::size_t i = 0; i < size; ++i) {
                    ASSERT_EQ((kind & 2) ? strided_got.at(i) : got[i], sent[i]);
                }
            }
        }
    }
}

} // namespace
} // namespace adaptib::test
