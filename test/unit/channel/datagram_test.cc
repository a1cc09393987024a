// SPDX-License-Identifier: BSD-3-Clause
// The datagram channel between two shm fabrics of one process, with strangers among the senders.
#include "channel/datagram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/wire_connect.h"
#include "fabric/shm/shm_fabric.h"
#include "fabric/shm/ud.h"
#include "unit/channel/datagram_rail.h"
#include "unit/null_rail.h"

namespace adaptib {
namespace {

constexpr Bytes kQueueBytes = 65536;
struct Message {
    std::uint64_t from = 0;
    std::uint64_t from_key = 0;
    MessageHeader header;
    std::vector<std::byte> body;
};

class Node {
public:
    Node(const Clock& clock, std::uint64_t name) : identity{name, name * 1000003} {
        ShmOptions options;
        options.segment_max = 16 * kMiB;
        options.queue_bytes = kQueueBytes;
        options.clock = &clock;
        std::string text;
        EXPECT_TRUE(open_shm_fabric(options, fabric, text).ok()) << text;
        EXPECT_TRUE(DatagramChannel::create(rail(), identity, clock, counters, channel).ok());
        receiver = [this](const DatagramArrival& arrival) {
            if (channel->accept(sources[arrival.prefix.source], arrival)) {
                const MessageHeader& header = *arrival.header;
                arrived.push_back({arrival.prefix.source,
                                   arrival.prefix.source_key,
                                   header,
                                   {arrival.body, arrival.body + header.length}});
            }
        };
    }

    Rail& rail() { return *fabric->rails()[0]; }
    std::size_t poll(std::size_t limit = 1000) { return channel->poll(receiver, limit); }
    std::unique_ptr<AddressHandle> handle_of(Node& other) {
        PathSpec path;
        path.remote = other.rail().address();
        std::unique_ptr<AddressHandle> handle;
        EXPECT_TRUE(rail().create_ah(path, handle).ok());
        return handle;
    }
    DatagramTarget target(Node& other) {
        return {handle_of(other), other.channel->qp_number(), other.identity.key,
                other.identity.name, nullptr};
    }

    DatagramChannel::Identity identity;
    Counters counters;
    std::unique_ptr<Fabric> fabric;
    std::unique_ptr<DatagramChannel> channel;
    DatagramChannel::Receiver receiver;
    std::map<std::uint64_t, DatagramTarget> sources;
    std::deque<Message> arrived;
};

std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        bytes[i] = static_cast<std::byte>(i * 13 + seed);
    }
    return bytes;
}

MessageHeader eager_header(Bytes length, std::uint32_t sequence = 0) {
    MessageHeader header;
    header.type = MessageType::eager;
    header.length = static_cast<std::uint32_t>(length);
    header.sequence = sequence;
    header.context = 3;
    header.source = 4;
    header.tag = -5;
    return header;
}

// Returns again if there is no slot.
Status send(Node& from, DatagramTarget& target, const MessageHeader& header,
            const std::vector<std::byte>& body) {
    std::byte* to = from.channel->reserve(target);
    if (to == nullptr) {
        return Status::again(Reason::queue_full);
    }
    std::copy(body.begin(), body.end(), to);
    return from.channel->commit(target, header);
}

class Datagram : public testing::Test {
protected:
    ManualClock clock;
    Node a{clock, 1};
    Node b{clock, 2};
};

TEST_F(Datagram, AMessageArrivesAsItWasSent) {
    DatagramTarget target = a.target(b);
    const std::vector<std::byte> body = pattern(100, 1);
    ASSERT_TRUE(send(a, target, eager_header(100, 77), body).ok());
    EXPECT_GE(b.poll(), 1u);
    ASSERT_EQ(b.arrived.size(), 1u);
    const Message& message = b.arrived[0];
    EXPECT_EQ(message.from, a.identity.name);
    EXPECT_EQ(message.from_key, a.identity.key);
    EXPECT_EQ(message.header.type, MessageType::eager);
    EXPECT_EQ(message.header.length, 100u);
    EXPECT_EQ(message.header.sequence, 77u);
    EXPECT_EQ(message.header.context, 3u);
    EXPECT_EQ(message.header.source, 4);
    EXPECT_EQ(message.header.tag, -5);
    EXPECT_EQ(message.body, body);
    EXPECT_EQ(b.counters.datagram_received, 1u);
    EXPECT_EQ(b.counters.bad_packets, 0u);
    EXPECT_TRUE(a.arrived.empty());
    EXPECT_EQ(b.poll(), 0u);
}

TEST_F(Datagram, EveryLengthUpToTheCapacityIsCarried) {
    DatagramTarget target = a.target(b);
    const Bytes capacity = a.channel->capacity();
    EXPECT_EQ(capacity,
              a.rail().info().datagram_bytes - sizeof(DatagramHeader) - sizeof(MessageHeader));
    for (const Bytes length : {Bytes{0}, Bytes{1}, Bytes{63}, Bytes{64}, capacity - 1, capacity}) {
        const std::vector<std::byte> body = pattern(length, 7);
        ASSERT_TRUE(send(a, target, eager_header(length), body).ok()) << length;
        a.poll();
        b.poll();
        ASSERT_EQ(b.arrived.size(), 1u) << length;
        EXPECT_EQ(b.arrived[0].body, body) << length;
        b.arrived.clear();
    }
    EXPECT_EQ(b.counters.bad_packets, 0u);
}

TEST_F(Datagram, ManyMessagesBothWaysKeepTheirOrder) {
    DatagramTarget to_b = a.target(b);
    DatagramTarget to_a = b.target(a);
    std::uint32_t sent_a = 0;
    std::uint32_t sent_b = 0;
    for (int round = 0; round < 20000 && (sent_a < 1000 || sent_b < 1000); ++round) {
        const Bytes length = static_cast<Bytes>(round) * 37 % 1500;
        if (sent_a < 1000 &&
            send(a, to_b, eager_header(length, sent_a), pattern(length, sent_a)).ok()) {
            ++sent_a;
        }
        if (sent_b < 1000 &&
            send(b, to_a, eager_header(length, sent_b), pattern(length, sent_b)).ok()) {
            ++sent_b;
        }
        if (round % 3 == 0) {
            a.poll(8);
        }
        if (round % 5 == 0) {
            b.poll(8);
        }
    }
    for (int round = 0; round < 1000; ++round) {
        a.poll();
        b.poll();
    }
    for (Node* node : {&a, &b}) {
        ASSERT_EQ(node->arrived.size(), 1000u);
        for (std::uint32_t i = 0; i < 1000; ++i) {
            const Message& message = node->arrived[i];
            ASSERT_EQ(message.header.sequence, i);
            ASSERT_EQ(message.body, pattern(message.header.length, i));
        }
        EXPECT_EQ(node->counters.bad_packets, 0u);
    }
}

TEST_F(Datagram, AFullQueueSaysAgainLosesNothingAndRecovers) {
    DatagramTarget target = a.target(b);
    const std::vector<std::byte> body = pattern(1000, 1);
    std::uint32_t sent = 0;
    int refused = 0;
    for (int attempt = 0; attempt < 5000 && refused < 10; ++attempt) {
        const Status status = send(a, target, eager_header(1000, sent), body);
        ASSERT_FALSE(status.is_error());
        sent += status.ok() ? 1 : 0;
        a.poll(); // releases the slots of sent datagrams
        refused = status.ok() ? 0 : refused + 1;
    }
    EXPECT_EQ(refused, 10) << "the queue takes more than it has room for";
    EXPECT_GT(sent, 10u);
    EXPECT_TRUE(a.channel->reserve(target) != nullptr) << "slots are not what is short";
    for (int round = 0; round < 1000; ++round) {
        b.poll();
    }
    ASSERT_EQ(b.arrived.size(), sent);
    ASSERT_TRUE(send(a, target, eager_header(1000, sent), body).ok());
    b.poll();
    ASSERT_EQ(b.arrived.size(), sent + 1);
    for (std::uint32_t i = 0; i <= sent; ++i) {
        ASSERT_EQ(b.arrived[i].header.sequence, i);
        ASSERT_EQ(b.arrived[i].body, body);
    }
}

TEST_F(Datagram, SlotsRunOutUntilTheirCompletionsAreTaken) {
    DatagramTarget target = a.target(b);
    int sent = 0;
    for (int attempt = 0; attempt < 1000; ++attempt) {
        sent += send(a, target, eager_header(0), {}).ok() ? 1 : 0;
    }
    EXPECT_EQ(sent, SendSlots::kBlock - SendSlots::kForControl);
    EXPECT_EQ(a.channel->reserve(target), nullptr);
    a.poll();
    EXPECT_NE(a.channel->reserve(target), nullptr);
    b.poll();
    EXPECT_EQ(b.arrived.size(), static_cast<std::size_t>(sent));
}

TEST_F(Datagram, AProbeGoesThoughMessagesHaveNoSlot) {
    DatagramTarget target = a.target(b);
    while (send(a, target, eager_header(0), {}).ok()) {
    }
    const ProbeBody body{};
    MessageHeader header;
    header.type = MessageType::probe;
    header.length = sizeof body;
    std::uint32_t probes = 0;
    while (a.channel->send_probe(target, 0, a.handle_of(b), target.qp, header, &body)) {
        ++probes;
    }
    EXPECT_EQ(probes, SendSlots::kForControl);
}

// Address handles of sent probes are released although the port always has a send in flight.
TEST_F(Datagram, AddressHandlesOfProbesGoWhenTheyAreSent) {
    const DatagramTarget target = a.target(b);
    const auto& segment = static_cast<const shm::ShmAddressHandle&>(*target.handle).peer;
    const ProbeBody body{};
    MessageHeader header;
    header.type = MessageType::probe;
    header.length = sizeof body;
    long most = 0;
    for (int i = 0; i < 500; ++i) {
        ASSERT_TRUE(a.channel->send_probe(target, 0, a.handle_of(b), target.qp, header, &body));
        most = std::max(most, segment.use_count());
        if (i > 0) {
            a.poll(1);
        }
        b.poll();
    }
    EXPECT_LE(most, segment.use_count() + 4);
    EXPECT_LE(segment.use_count(), 10);
}

// Nothing else may be sent over the port, to show that it is stuck.
TEST(DatagramProbes, OneThatTheAdapterDoesNotEndRestartsThePort) {
    using std::chrono::milliseconds;
    ManualClock clock;
    Counters counters;
    int handles = 0; // the channel's end still counts down
    test::DatagramRail rail;
    std::unique_ptr<DatagramChannel> channel;
    ASSERT_TRUE(DatagramChannel::create(rail, {1, 2}, clock, counters, channel).ok());
    channel->retransmitter().tolerate(
        milliseconds{800}, [](std::uint64_t) { return nullptr; },
        [](DatagramTarget&, DatagramChannel::PathFailure, WorkStatus) {}, [](DatagramTarget&) {});
    const DatagramTarget target{nullptr, 5, 6, 7, nullptr};
    const ProbeBody body{};
    MessageHeader header;
    header.type = MessageType::probe;
    header.length = sizeof body;
    const auto probe = [&] {
        return channel->send_probe(target, 0, std::make_unique<test::CountedHandle>(handles), 5,
                                   header, &body);
    };
    clock.advance(milliseconds{1}); // a time of zero is no time
    ASSERT_TRUE(probe());
    clock.advance(milliseconds{800});
    ASSERT_TRUE(probe());
    EXPECT_EQ(counters.datagram_restarts, 0u);
    clock.advance(milliseconds{1});
    ASSERT_TRUE(probe());
    EXPECT_EQ(counters.datagram_restarts, 1u);
}

TEST_F(Datagram, AReservationThatIsNotCommittedSendsNothing) {
    DatagramTarget target = a.target(b);
    std::byte* first = a.channel->reserve(target);
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(a.channel->reserve(target), first);
    b.poll();
    EXPECT_TRUE(b.arrived.empty());
    ASSERT_TRUE(send(a, target, eager_header(10), pattern(10, 3)).ok());
    b.poll();
    ASSERT_EQ(b.arrived.size(), 1u);
    EXPECT_EQ(b.arrived[0].body, pattern(10, 3));
}

TEST_F(Datagram, TheLimitOfAPollIsKept) {
    DatagramTarget target = a.target(b);
    for (std::uint32_t i = 0; i < 40; ++i) {
        ASSERT_TRUE(send(a, target, eager_header(8, i), pattern(8, i)).ok());
    }
    EXPECT_EQ(b.poll(5), 5u);
    EXPECT_EQ(b.arrived.size(), 5u);
    EXPECT_EQ(b.poll(0), 0u);
    EXPECT_EQ(b.poll(20), 20u);
    EXPECT_EQ(b.arrived.size(), 25u);
    b.poll();
    EXPECT_EQ(b.arrived.size(), 40u);
}

// -------------------------------------------------------------------------------------------------
// Strangers

TEST_F(Datagram, AWrongTargetKeyIsDroppedAndCounted) {
    DatagramTarget target = a.target(b);
    target.key ^= std::uint64_t{1} << 63; // a bit that is in no Q_Key
    ASSERT_TRUE(send(a, target, eager_header(10), pattern(10, 1)).ok());
    b.poll();
    EXPECT_TRUE(b.arrived.empty());
    EXPECT_EQ(b.counters.bad_packets, 1u);
    EXPECT_EQ(b.counters.datagram_received, 0u);
}

// Sends any bytes at all into a node's queue.
class Stranger {
public:
    Stranger(Node& at, Node& victim) : memory_(8192), handle_(at.handle_of(victim)) {
        qp_number_ = victim.channel->qp_number();
        queue_key_ = victim.identity.key;
        EXPECT_TRUE(at.rail().register_memory(memory_.data(), memory_.size(), 0, region_).ok());
        EXPECT_TRUE(at.rail().create_cq(64, cq_).ok());
        QpInit init;
        init.type = QpType::ud;
        init.send_cq = cq_.get();
        init.receive_cq = cq_.get();
        init.send_depth = 64;
        init.receive_depth = 1;
        EXPECT_TRUE(at.rail().create_qp(init, qp_).ok());
        QpAttributes attributes;
        attributes.state = QpState::init;
        attributes.access_key = queue_key_;
        EXPECT_TRUE(qp_->modify(attributes, kQpState | kQpKey).ok());
        attributes.state = QpState::ready_to_receive;
        EXPECT_TRUE(qp_->modify(attributes, kQpState).ok());
        attributes.state = QpState::ready_to_send;
        EXPECT_TRUE(qp_->modify(attributes, kQpState | kQpSendPsn).ok());
    }

    // Sends with the right Q_Key plus `wrong_by`.
    Status send(const std::vector<std::byte>& bytes, std::uint32_t wrong_by = 0) {
        std::copy(bytes.begin(), bytes.end(), memory_.begin());
        const Gather gather{memory_.data(), bytes.size(), region_->local_key()};
        SendWork work;
        work.opcode = Opcode::send;
        work.flags = kSignaled;
        work.gather = &gather;
        work.gather_count = 1;
        work.address_handle = handle_.get();
        work.remote_qp = qp_number_;
        work.remote_access_key = queue_key_ + wrong_by;
        const Status status = qp_->post_send(work);
        WorkCompletion completion;
        while (cq_->poll({&completion, 1}) > 0) {
            EXPECT_EQ(completion.status, WorkStatus::success);
        }
        return status;
    }

private:
    std::vector<std::byte> memory_;
    std::uint32_t qp_number_ = 0;
    std::uint64_t queue_key_ = 0;
    std::unique_ptr<AddressHandle> handle_;
    std::unique_ptr<MemoryRegion> region_;
    std::unique_ptr<CompletionQueue> cq_;
    std::unique_ptr<QueuePair> qp_;
};

std::vector<std::byte> packet(const DatagramHeader& prefix, const MessageHeader& header,
                              const std::vector<std::byte>& body) {
    std::vector<std::byte> bytes(sizeof prefix + sizeof header);
    std::memcpy(bytes.data(), &prefix, sizeof prefix);
    std::memcpy(bytes.data() + sizeof prefix, &header, sizeof header);
    bytes.insert(bytes.end(), body.begin(), body.end());
    return bytes;
}

// A rail that gives the test access to its queue pairs.
class OpenRail final : public test::NullRail {
public:
    explicit OpenRail(Rail& below) : below_(below) { info_ = below.info(); }
    QueuePair* qp = nullptr; // created last

private:
    RailAddress address_impl() const override { return below_.address(); }
    Status create_cq_impl(std::uint32_t depth, std::unique_ptr<CompletionQueue>& out) override {
        return below_.create_cq(depth, out);
    }
    Status create_qp_impl(const QpInit& init, std::unique_ptr<QueuePair>& out) override {
        const Status status = below_.create_qp(init, out);
        qp = out.get();
        return status;
    }
    Status allocate_impl(Bytes length, std::uint32_t access,
                         std::unique_ptr<MemoryRegion>& out) override {
        return below_.allocate(length, access, out);
    }

    Rail& below_;
};

// The channel sends nothing meanwhile, so no send completion reports the failure.
TEST_F(Datagram, AQueuePairThatFailsIsBegunAnew) {
    // If told, an event reports the failure; otherwise only flushed receives show it.
    for (const bool told : {false, true}) {
        OpenRail rail(b.rail());
        ASSERT_TRUE(DatagramChannel::create(rail, b.identity, clock, b.counters, b.channel).ok());
        DatagramTarget target = a.target(b);
        QpAttributes attributes;
        attributes.state = told ? QpState::reset : QpState::error;
        ASSERT_TRUE(rail.qp->modify(attributes, kQpState).ok());
        EXPECT_FALSE(b.channel->on_fatal(1, rail.qp->number()));
        EXPECT_FALSE(b.channel->on_fatal(0, rail.qp->number() + 1));
        EXPECT_TRUE(!told || b.channel->on_fatal(0, rail.qp->number()));
        b.poll(16);
        ASSERT_TRUE(send(a, target, eager_header(9), pattern(9, 9)).ok());
        b.poll(16);
        EXPECT_EQ(b.arrived.size(), 1u);
        EXPECT_EQ(b.counters.datagram_restarts, told ? 2u : 1u);
        b.arrived.clear();
        b.channel.reset();
    }
}

class DatagramStrangers : public Datagram {
protected:
    DatagramHeader prefix() {
        DatagramHeader header;
        header.target_key = b.identity.key;
        header.source = 99;
        header.source_key = 98;
        return header;
    }
    void expect_dropped(const std::vector<std::byte>& bytes, const char* what) {
        const std::uint64_t before = b.counters.bad_packets;
        ASSERT_TRUE(stranger.send(bytes).ok()) << what;
        b.poll();
        EXPECT_TRUE(b.arrived.empty()) << what;
        EXPECT_EQ(b.counters.bad_packets, before + 1) << what;
        b.arrived.clear();
    }

    Stranger stranger{a, b};
};

TEST_F(DatagramStrangers, WhatHasTheRightFormIsTaken) {
    ASSERT_TRUE(stranger.send(packet(prefix(), eager_header(5), pattern(5, 5))).ok());
    b.poll();
    ASSERT_EQ(b.arrived.size(), 1u);
    EXPECT_EQ(b.arrived[0].from, 99u);
    EXPECT_EQ(b.arrived[0].from_key, 98u);
    EXPECT_EQ(b.arrived[0].body, pattern(5, 5));
}

TEST_F(DatagramStrangers, AWrongPrefixIsDroppedAndCounted) {
    DatagramHeader wrong = prefix();
    wrong.magic ^= 0x100;
    expect_dropped(packet(wrong, eager_header(5), pattern(5, 5)), "magic");
    wrong = prefix();
    wrong.version = kWireVersion + 1;
    expect_dropped(packet(wrong, eager_header(5), pattern(5, 5)), "version");
    wrong = prefix();
    wrong.version = 0;
    expect_dropped(packet(wrong, eager_header(5), pattern(5, 5)), "version 0");
    for (int bit = 0; bit < 64; bit += 7) {
        wrong = prefix();
        wrong.target_key ^= std::uint64_t{1} << bit;
        expect_dropped(packet(wrong, eager_header(5), pattern(5, 5)), "key");
    }
}

TEST_F(DatagramStrangers, AShortPacketIsDroppedAndCounted) {
    const std::vector<std::byte> whole = packet(prefix(), eager_header(5), pattern(5, 5));
    for (std::size_t size = 0; size < whole.size(); ++size) {
        expect_dropped({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)},
                       std::to_string(size).c_str());
    }
}

TEST_F(DatagramStrangers, AMalformedMessageIsDroppedAndCounted) {
    MessageHeader header = eager_header(5);
    header.magic ^= 1;
    expect_dropped(packet(prefix(), header, pattern(5, 5)), "magic");
    header = eager_header(6);
    expect_dropped(packet(prefix(), header, pattern(5, 5)), "longer than the packet");
    header = eager_header(UINT32_MAX);
    expect_dropped(packet(prefix(), header, pattern(5, 5)), "very long");
    header = eager_header(0);
    header.type = MessageType::count_;
    expect_dropped(packet(prefix(), header, {}), "unknown type");
    header.type = MessageType::none;
    expect_dropped(packet(prefix(), header, {}), "no type");
    header = eager_header(7);
    header.type = MessageType::eager_sync;
    expect_dropped(packet(prefix(), header, pattern(7, 1)), "half an id");
    ConnectBody body{};
    body.subchannel_count = kMaxSubchannels + 1;
    header = eager_header(sizeof body);
    header.type = MessageType::connect_request;
    const auto* bytes = reinterpret_cast<const std::byte*>(&body);
    expect_dropped(packet(prefix(), header, {bytes, bytes + sizeof body}), "body");
}

TEST_F(DatagramStrangers, DroppingDoesNotUseUpTheReceives) {
    DatagramHeader wrong = prefix();
    wrong.target_key = 0;
    for (int i = 0; i < 500; ++i) {
        expect_dropped(packet(wrong, eager_header(0), {}), "key");
    }
    DatagramTarget target = a.target(b);
    ASSERT_TRUE(send(a, target, eager_header(9), pattern(9, 9)).ok());
    b.poll();
    EXPECT_EQ(b.arrived.size(), 1u);
}

TEST_F(DatagramStrangers, AnotherQueueKeyNeverReachesTheChannel) {
    static_cast<void>(stranger.send(packet(prefix(), eager_header(5), pattern(5, 5)), 1));
    b.poll();
    EXPECT_TRUE(b.arrived.empty());
    EXPECT_EQ(b.counters.datagram_received, 0u);
}

} // namespace
} // namespace adaptib
