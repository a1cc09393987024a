// SPDX-License-Identifier: BSD-3-Clause
// An initiator and a target of synchronous operations, both in this process, without a core: queue
// pairs that copy, a ring from one to the other, and a target that looks at its ring when the
// initiator reads the clock or copies.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/biased_lock.h"
#include "base/clock.h"
#include "channel/ring_reader.h"
#include "memory/exposed_memory.h"
#include "peer/peer.h"
#include "protocol/intranode/rma_target.h"
#include "protocol/intranode/synchronous_rma.h"
#include "protocol/rendezvous.h"
#include "unit/channel/ring_pair.h"
#include "unit/messages.h"
#include "unit/null_rail.h"
#include "unit/protocol/held_flow.h"

namespace adaptib::test {

constexpr std::uint32_t kLocalKey = 11;
constexpr std::uint32_t kRemoteKey = 22;

// A step of the other end's, which runs while this one waits or copies.
using Meanwhile = std::function<void()>;

// Copies within this process. One object stands for both ends of the connection.
class CopyingQp final : public QueuePair {
public:
    explicit CopyingQp(Meanwhile& meanwhile) : QueuePair(QpType::rc), meanwhile_(meanwhile) {}

    std::vector<RmaWork> executed; // by the initiator
    std::function<void()> looks;   // called before; null: nobody looks
    // Looks a key up in the target's table of regions; null: there is none to see.
    std::function<Status(const RemoteRange&, std::uint32_t&)> find;
    bool executes = true;
    bool serves = true;

private:
    static void move(Opcode opcode, void* local, std::uint64_t remote, Bytes length) {
        auto* const there = reinterpret_cast<void*>(remote);
        std::memcpy(opcode == Opcode::write ? there : local,
                    opcode == Opcode::write ? local : there, length);
    }
    static void atomic(Opcode opcode, void* local, std::uint64_t remote, std::uint64_t compare_add,
                       std::uint64_t swap) {
        auto& word = *reinterpret_cast<std::uint64_t*>(remote);
        const std::uint64_t old = word;
        word = opcode == Opcode::fetch_add ? old + compare_add : old == compare_add ? swap : old;
        std::memcpy(local, &old, sizeof old);
    }

    Status modify_impl(const QpAttributes&, std::uint32_t) override { return kOk; }
    QpAttributes query_impl() const override { return {}; }
    Status post_send_impl(const SendWork&) override { return kOk; }
    Status post_receive_impl(const ReceiveWork&) override { return kOk; }
    Status rma_now_impl(const RmaWork& work) override {
        meanwhile_();
        if (!executes) {
            return Status::again(Reason::none);
        }
        if (looks) {
            looks();
        }
        executed.push_back(work);
        if (work.opcode == Opcode::write || work.opcode == Opcode::read) {
            move(work.opcode, work.local, work.remote_address, work.length);
        } else {
            atomic(work.opcode, work.local, work.remote_address, work.compare_add, work.swap);
        }
        return kOk;
    }
    Status find_key_impl(const RemoteRange& range, std::uint32_t& key) override {
        return find ? find(range, key) : Status::error(Reason::not_supported);
    }
    Status serve_rma_impl(const SendWork& work) override {
        if (!serves || work.remote_key != kRemoteKey) {
            return Status::error(Reason::bad_key);
        }
        if (work.opcode == Opcode::write || work.opcode == Opcode::read) {
            move(work.opcode, work.gather->address, work.remote_address, work.gather->length);
        } else {
            atomic(work.opcode, work.gather->address, work.remote_address, work.compare_add,
                   work.swap);
        }
        return kOk;
    }
    Status serve_copy_impl(const RmaWork& work) override {
        if (!serves || work.local_key != kRemoteKey || work.remote_key != kLocalKey) {
            return Status::error(Reason::bad_key);
        }
        move(work.opcode, work.local, work.remote_address, work.length);
        return kOk;
    }
    void* map_impl(std::uint64_t address, Bytes, std::uint32_t) override {
        return reinterpret_cast<void*>(address);
    }

    Meanwhile& meanwhile_;
};

class HostRail final : public NullRail {
public:
    explicit HostRail(bool sees_regions = false) {
        info_.capabilities = static_cast<std::uint32_t>(Capability::ud) |
                             static_cast<std::uint32_t>(Capability::whole_memory);
        info_.capabilities |=
            sees_regions ? static_cast<std::uint32_t>(Capability::sees_regions) : 0;
        info_.datagram_bytes = 512;
    }

    class Region final : public MemoryRegion {
    public:
        Region(void* address, Bytes length) : MemoryRegion(address, length) {
            local_key_ = remote_key_ = kLocalKey;
        }
        explicit Region(Bytes length)
            : Region(std::aligned_alloc(kCacheLine, round_up(length, kCacheLine)), length) {
            std::memset(address_, 0, length);
            own_ = true;
        }
        ~Region() override {
            if (own_) {
                std::free(address_);
            }
        }

    private:
        bool own_ = false;
    };

private:
    class Queue final : public CompletionQueue {
        std::size_t poll_impl(std::span<WorkCompletion>) override { return 0; }
    };
    Status allocate_impl(Bytes length, std::uint32_t, std::unique_ptr<MemoryRegion>& out) override {
        out = std::make_unique<Region>(length);
        return kOk;
    }
    Status register_impl(void* address, Bytes length, std::uint32_t,
                         std::unique_ptr<MemoryRegion>& out) override {
        out = std::make_unique<Region>(address, length);
        return kOk;
    }
    Status create_cq_impl(std::uint32_t, std::unique_ptr<CompletionQueue>& out) override {
        out = std::make_unique<Queue>();
        return kOk;
    }
    Status create_qp_impl(const QpInit&, std::unique_ptr<QueuePair>& out) override {
        out = std::make_unique<CopyingQp>(nothing_);
        return kOk;
    }

    Meanwhile nothing_ = [] {};
};

// A microsecond passes with each reading.
class ServingClock final : public Clock {
public:
    explicit ServingClock(Meanwhile& meanwhile) : meanwhile_(meanwhile) {}
    Nanoseconds now() const override {
        meanwhile_();
        return now_ += Nanoseconds{1000};
    }

private:
    Meanwhile& meanwhile_;
    mutable Nanoseconds now_{0};
};

class TwoEnds final {
public:
    static constexpr std::uint64_t kUnits = 1024; // of the ring
    static constexpr Bytes kBlock = 128 * kKiB;

    TwoEnds() {
        EXPECT_TRUE(DatagramChannel::create(rail, {1, 2}, clock, counters, channel_).ok());
        ProcessAddress address;
        address.name = 7;
        address.rails.resize(1);
        PeerRoute route;
        route.local = route.remote = {0, 1};
        there = std::make_unique<Peer>(address, route, *channel_, 4096, counters);
        here = std::make_unique<Peer>(address, route, *channel_, 4096, served);
        for (Peer* const peer : {there.get(), here.get()}) {
            peer->session.state = ConnectState::open;
            peer->lanes.subchannels.emplace_back();
            peer->lanes.subchannels[0].qp = std::make_unique<CopyingQp>(meanwhile_);
        }
        there->in.ring_parts = {.direct = true};
        there->in.ring_memory =
            std::make_unique<HostRail::Region>(RingMemory::bytes({.direct = true}));
        here->transfers.answers = &there->in.ring_layout().answer();
        here->transfers.answer_data = there->in.ring_layout().answer_data();
        const RingTarget lines{.address = reinterpret_cast<std::uintptr_t>(ring_.address()),
                               .units = kUnits};
        there->out.ring = std::make_unique<RingWriter>(rail, initiators_qp(), lines, &credit_, 0);
        EXPECT_TRUE(there->out.ring->prepare());
        there->out.ring_capacity = there->out.ring->most();
        here->out.ring = std::move(announcements_.writer);
        here->out.ring_capacity = here->out.ring->most();
    }

    CopyingQp& initiators_qp() { return static_cast<CopyingQp&>(*there->lanes.subchannels[0].qp); }
    CopyingQp& targets_qp() { return static_cast<CopyingQp&>(*here->lanes.subchannels[0].qp); }
    AnswerSlot& slot() { return *here->transfers.answers; }
    const Registration& whole() { return *memory.whole(0); }
    // Two threads have taken the lock, this one last.
    static void share(BiasedLock& lock) {
        std::thread([&lock] { const std::lock_guard guard(lock); }).join();
        const std::lock_guard guard(lock);
    }
    // The target is sending the initiator a message. Returns the send's id.
    std::uint64_t send(std::span<std::byte> message) {
        SendRequest& request = make_send(sends_.emplace_back());
        request.peer = here.get();
        request.type = MessageType::rendezvous;
        request.data.base = message.data();
        request.data.bytes = message.size();
        EXPECT_TRUE(rendezvous_.announce(request).ok());
        RendezvousBody body{};
        announcements_.take_all(*here->out.ring,
                                [&](const MessageHeader& header, const std::byte* announced) {
                                    body = read_rendezvous(header, announced);
                                });
        EXPECT_EQ(body.kind, SourceKind::direct);
        return body.send_id;
    }
    // The target takes the messages that have arrived.
    void look_at_ring() {
        MessageHeader header;
        const std::byte* body = nullptr;
        while (reader_.poll(header, body) == RingReader::Found::message) {
            if (header.type == MessageType::operate) {
                target.on_operate(*here, header, body);
            } else if (header.type == MessageType::cooperative_copy) {
                target.on_cooperative_copy(*here, read_body<CooperativeCopyBody>(body));
            } else {
                EXPECT_EQ(header.type, MessageType::eager); // of no interest
            }
            reader_.consume(header.sequence);
            credit_ = reader_.consumed();
        }
    }

    Counters counters; // of the initiator
    Counters served;   // of the target
    bool attends = true;

private:
    Meanwhile meanwhile_ = [this] {
        if (attends) {
            look_at_ring();
        }
    };
    HostRail::Region ring_{kUnits * kRingUnit};
    std::uint64_t credit_ = 0;
    RingReader reader_{static_cast<std::byte*>(ring_.address()), kUnits};
    Ring announcements_{kUnits, true};
    std::deque<UserRequest> sends_;

public:
    HostRail rail;
    ServingClock clock{meanwhile_};

private:
    std::vector<Rail*> rails_{&rail};
    std::vector<RailRange> fabrics_{{0, 1}};
    std::unique_ptr<DatagramChannel> channel_;

public:
    std::unique_ptr<Peer> there; // the target, as the initiator sees it
    std::unique_ptr<Peer> here;  // the initiator, as the target sees it
    ExposedMemory memory{{0, kBlock}, rails_, fabrics_, counters, ignore_message};
    LentMemory lent; // of the target
    BiasedLock lock; // of the initiator
    BiasedLock targets_lock;

private:
    HeldFlow targets_flow_{served};
    TransferEngine targets_transfers_{{&clock, Nanoseconds{0}, 10}, rails_, targets_flow_.flow,
                                      targets_flow_.losses.events,  served, ignore_message};
    ExposedMemory targets_memory_{{0, kBlock}, rails_, fabrics_, served, ignore_message};
    Rendezvous rendezvous_{{},
                           {targets_flow_.flow, targets_transfers_, targets_memory_,
                            targets_flow_.completions, targets_flow_.losses.events},
                           targets_flow_.losses.peers,
                           served};

public:
    RmaTarget target{lent, &targets_lock, rendezvous_, served};
    RmaTarget idle_target{memory.lent(), &lock, rendezvous_, counters}; // of the initiator
    SynchronousRma initiator{clock, kBlock, memory, counters, idle_target};
};

} // namespace adaptib::test
