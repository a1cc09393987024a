// SPDX-License-Identifier: BSD-3-Clause
// Rails that make queue pairs and memory for connections as long as the test lets them, and a
// datagram channel that keeps the handshake messages sent; for tests of the classes of connect/.
// May touch: base/, channel/, connect/connect_context.h, fabric/, peer/.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "unit/channel/datagram_rail.h"
#include "unit/connect/connections.h"

namespace adaptib::test {

// A queue pair that records how it is connected; its posts and maps always succeed.
class ConnectablePair final : public QueuePair {
public:
    static constexpr Bytes kQueueBytes = 8192;

    // `room`: of the device, for another one, once this one is gone.
    ConnectablePair(QpType type, std::uint32_t number, std::size_t& room)
        : QueuePair(type), room_(room) {
        number_ = number;
        queue_bytes_ = kQueueBytes;
    }
    ~ConnectablePair() override { ++room_; }

    Status answer = kOk; // to attempts to change the state, and to connect
    std::vector<QpState> states;
    QpAttributes attributes;            // the last ones
    std::vector<CmConnectParams> tries; // to connect through rdma_cm
    std::vector<SendWork> posts;        // without their gather lists
    std::vector<std::uint64_t> mapped;  // addresses
    bool mappable = false;

private:
    Status modify_impl(const QpAttributes& to, std::uint32_t) override {
        if (answer.ok()) {
            states.push_back(to.state);
            attributes = to;
        }
        return answer;
    }
    QpAttributes query_impl() const override { return attributes; }
    Status cm_connect_impl(const QpAttributes& to, std::uint32_t,
                           const CmConnectParams& how) override {
        tries.push_back(how);
        attributes = to;
        return answer;
    }
    Status post_send_impl(const SendWork& work) override {
        posts.push_back(work);
        return kOk;
    }
    Status post_receive_impl(const ReceiveWork&) override { return kOk; }
    void* map_impl(std::uint64_t address, Bytes, std::uint32_t) override {
        if (!mappable) {
            return nullptr;
        }
        mapped.push_back(address);
        return reinterpret_cast<void*>(address);
    }

    std::size_t& room_;
};

class RecordedRail final : public NamedRail {
public:
    explicit RecordedRail(const std::string& name) : NamedRail(name) {
        info_.max_send_depth = 128;
        info_.inline_bytes = 64;
    }

    void can(Capability capability) {
        info_.capabilities |= static_cast<std::uint32_t>(capability);
    }

    // Serves so many reads of a queue pair at a time.
    void take_reads(std::uint32_t count) { info_.max_reads = count; }

    // Packets of at most so many bytes, which become visible in any order.
    void place_in_any_order(Bytes packet) {
        info_.places_in_order = false;
        info_.datagram_bytes = packet;
    }

    void let_target_place_in_any_order() { info_.target_places_in_order = false; }

    static constexpr std::size_t kMany = 1'000'000;

    PortState port = PortState::active;
    Status qp_result = kOk;          // of the making of a queue pair
    Status memory_result = kOk;      // of allocation and registration
    std::size_t memories = kMany;    // further allocations until there is no room
    Bytes largest = 1u << 30;        // allocation that finds room
    std::size_t queue_pairs = kMany; // further queue pairs until there is no room
    std::uint32_t made = 0;          // number of the last queue pair
    std::uint32_t registrations = 0; // remote key of the last one

private:
    class Region final : public MemoryRegion {
    public:
        // `room`: of the system, for another one, once this one is gone.
        Region(Bytes length, std::size_t& room)
            : MemoryRegion(std::aligned_alloc(4096, round_up(length, 4096)), length), room_(&room) {
            std::memset(address_, 0, length);
        }
        // Refers to the caller's memory.
        Region(void* address, Bytes length, std::uint32_t key) : MemoryRegion(address, length) {
            local_key_ = remote_key_ = key;
        }
        ~Region() override {
            if (room_ != nullptr) {
                std::free(address_);
                ++*room_;
            }
        }

    private:
        std::size_t* room_ = nullptr;
    };
    class Receives final : public SharedReceiveQueue {
        Status post_impl(const ReceiveWork&) override { return kOk; }
        Status arm_limit_impl(std::uint32_t) override { return kOk; }
    };

    PortState state_impl() const override { return port; }
    Status create_qp_impl(const QpInit& init, std::unique_ptr<QueuePair>& out) override {
        if (queue_pairs == 0) {
            return Status::error(Reason::no_memory);
        }
        if (qp_result.ok()) {
            --queue_pairs;
            out = std::make_unique<ConnectablePair>(init.type, ++made, queue_pairs);
        }
        return qp_result;
    }
    Status create_srq_impl(std::uint32_t, std::unique_ptr<SharedReceiveQueue>& out) override {
        out = std::make_unique<Receives>();
        return kOk;
    }
    Status create_ah_impl(const PathSpec&, std::unique_ptr<AddressHandle>& out) override {
        class Handle final : public AddressHandle {
            Status standing_impl(std::string&) const override { return kOk; }
        };
        out = std::make_unique<Handle>();
        return kOk;
    }
    Status allocate_impl(Bytes length, std::uint32_t, std::unique_ptr<MemoryRegion>& out) override {
        if (memories == 0 || length > largest) {
            return Status::error(Reason::no_memory);
        }
        if (memory_result.ok()) {
            --memories;
            out = std::make_unique<Region>(length, memories);
        }
        return memory_result;
    }
    Status register_impl(void* address, Bytes length, std::uint32_t,
                         std::unique_ptr<MemoryRegion>& out) override {
        if (memory_result.ok()) {
            out = std::make_unique<Region>(address, length, ++registrations);
        }
        return memory_result;
    }
};

class RecordedConnections : public Connections {
protected:
    RecordedConnections() {
        EXPECT_TRUE(
            DatagramChannel::create(datagrams_, {1, 2}, world_.clock, world_.counters, channel_)
                .ok());
        world_.counters.buffers = world_.counters.buffers_bytes = 0; // not the datagrams'
    }

    ConnectContext recorded_context(ConnectOptions options) {
        options.clock = &world_.clock;
        options.message = messages_into(events_.notices);
        return {options, rails_, queues_, world_.counters, events_.queue, events_};
    }
    // Makes a peer of two paths, without a connection.
    std::unique_ptr<Peer> idle_peer(std::uint64_t name) {
        const std::unique_ptr<Peer> model = world_.peer(name);
        auto peer = std::make_unique<Peer>(model->contact.address, model->contact.route, *channel_,
                                           4096, world_.counters);
        peer->contact.datagram.name = name;
        peer->contact.datagram.handle = std::make_unique<Handle>();
        return peer;
    }
    // Length of a message's body, as sent.
    std::size_t body_length(std::size_t message) const {
        return datagrams_.sends.at(message).bytes.size() - sizeof(DatagramHeader) -
               sizeof(MessageHeader);
    }
    // Types of the handshake messages sent since the previous call.
    std::vector<MessageType> sent() {
        std::vector<MessageType> types;
        for (; seen_ < datagrams_.sends.size(); ++seen_) {
            types.push_back(header(seen_).type);
        }
        return types;
    }
    MessageHeader header(std::size_t message) const {
        return read<MessageHeader>(message, sizeof(DatagramHeader));
    }
    template <typename Body> Body body(std::size_t message) const {
        return read<Body>(message, sizeof(DatagramHeader) + sizeof(MessageHeader));
    }
    ConnectablePair& made(const Peer& peer, std::size_t subchannel) {
        return static_cast<ConnectablePair&>(*peer.lanes.subchannels.at(subchannel).qp);
    }

    RecordedRail first_{"m0:1"};
    RecordedRail second_{"m1:1"};
    std::array<Rail*, 2> rails_{&first_, &second_};
    std::array<std::unique_ptr<CompletionQueue>, 2> queues_;
    DatagramRail datagrams_;
    std::unique_ptr<DatagramChannel> channel_;

private:
    template <typename T> T read(std::size_t message, std::size_t at) const {
        const std::vector<std::byte>& bytes = datagrams_.sends.at(message).bytes;
        T value{};
        EXPECT_GT(bytes.size(), at);
        const std::size_t length = std::min(bytes.size() - at, sizeof value);
        std::memcpy(reinterpret_cast<std::byte*>(&value), bytes.data() + at, length);
        return value;
    }

    std::size_t seen_ = 0;
};

} // namespace adaptib::test
