// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous: a message arrives, and the next message or RMA operation is as it should be, for each
// way that the data of a long message can take, at both ends.
#include "protocol/rendezvous.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unit/channel/ring_pair.h"
#include "unit/messages.h"
#include "unit/protocol/held_flow.h"
#include "unit/protocol/open_peer.h"

namespace adaptib::test {
namespace {

constexpr std::uint64_t kUnits = 256;
constexpr Bytes kCapacity = 512;
constexpr Bytes kBlock = 1000;
constexpr Bytes kLength = 2500; // three blocks
constexpr std::uint64_t kSendId = 77;
constexpr std::uint64_t kTheirs = 0x10000; // address at the peer

int never_packs(void*, std::size_t, void*, std::size_t*) { return -1; }

// The accelerator: data whose context is `at` lies 8 bytes behind it, in an allocation there.
constexpr Bytes kAllocated = kLength + 8;

bool locate(void* at, opal_common_adaptib_accelerator_place_t* place) {
    *place = {static_cast<std::byte*>(at) + 8, at, kAllocated, 1};
    return true;
}
bool exists(const opal_common_adaptib_accelerator_place_t*) { return true; }
constexpr opal_common_adaptib_accelerators_t kAccelerators{locate, exists};

bool export_nothing(void*, Bytes, ExportedMemory&) { return true; }

class RendezvousTest : public testing::Test, protected OpenPeer, protected PendingSender {
protected:
    struct Message {
        MessageHeader header;
        std::vector<std::byte> body;
    };

    RendezvousTest() {
        peer->out.ring = std::move(ring.writer);
        peer->out.ring_capacity = kCapacity;
        for (std::size_t i = 0; i < data.size(); ++i) {
            data[i] = static_cast<std::byte>(i * 7);
        }
        send.user = &send_user;
        send.peer = peer.get();
        send.type = MessageType::rendezvous;
        send.data.base = data.data();
        send.data.bytes = kLength;
    }
    ~RendezvousTest() override {
        flow.forget(*peer);
        EXPECT_FALSE(transfers.work_outstanding());
    }

    void use(bool put) {
        rendezvous.emplace(Rendezvous::Options{put, kBlock, 2, messages_into(failures)},
                           Rendezvous::Parts{flow, transfers, memory, completions, losses.events},
                           losses.peers, there.counters);
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
    template <typename Body> Body take(MessageType type) {
        Body body{};
        const std::vector<Message> taken = take();
        EXPECT_EQ(taken.size(), 1u);
        if (taken.size() == 1) {
            EXPECT_EQ(taken[0].header.type, type);
            flags = taken[0].header.flags;
            std::memcpy(&body, taken[0].body.data(), std::min(sizeof body, taken[0].body.size()));
        }
        return body;
    }
    RendezvousBody announced() {
        EXPECT_TRUE(rendezvous->announce(send).ok());
        return take<RendezvousBody>(MessageType::rendezvous);
    }
    // Receives a message of the peer.
    void matched(SourceKind kind) {
        Data to{};
        to.base = data.data();
        to.bytes = kLength;
        ReceiveRequest& receive = make_receive(receive_user, Envelope{}, to, peer.get());
        RendezvousBody source{};
        source.bytes = kLength;
        source.send_id = kSendId;
        source.address = kTheirs;
        source.kind = kind;
        source.op_kind = op_kind;
        source.key_count = 2;
        rendezvous->receive(*peer, source, receive, kLength);
    }
    // Memory that is not allocated for it cannot be registered.
    void register_nothing() { first.refused = data.data(); }
    // Looks at the requests that have ended.
    void look() {
        while (!completions.list().empty()) {
            const UserRequest* const user = completions.list().pop();
            if (user == &send_user) {
                ++sends_ended;
                sends_failed += user->status == OPAL_COMMON_ADAPTIB_SUCCESS ? 0 : 1;
            } else {
                status = user->status;
                bytes = user->bytes;
            }
        }
    }
    int sent() { return look(), sends_ended; }
    int send_failed() { return look(), sends_failed; }
    Bytes received() { return look(), bytes; }
    int receive_status() { return look(), status; } // -1: none has ended
    // Takes the fragments that are sent until the send has ended, and returns what they bring.
    // REQUIRES: they are for the receive 5.
    std::vector<std::byte> take_fragments() {
        std::vector<std::byte> arrived;
        for (int pass = 0; pass < 100 && sent() == 0; ++pass) {
            flow.retry();
            for (const Message& each : take()) {
                if (each.header.type != MessageType::fragment) {
                    ADD_FAILURE() << "a message of type " << static_cast<int>(each.header.type);
                    return arrived;
                }
                const auto body = read_body<FragmentBody>(each.body.data());
                EXPECT_EQ(body.receive_id, 5u);
                EXPECT_EQ(body.offset, arrived.size());
                arrived.insert(arrived.end(), each.body.begin() + sizeof body, each.body.end());
            }
        }
        return arrived;
    }
    // The peer sends the message in two fragments, full of that byte.
    void push(std::uint64_t receive_id, std::byte filled) {
        std::vector<std::byte> fragment(sizeof(FragmentBody) + kLength / 2, filled);
        MessageHeader header;
        header.type = MessageType::fragment;
        header.length = static_cast<std::uint32_t>(fragment.size());
        for (Bytes at = 0; at < kLength; at += kLength / 2) {
            const FragmentBody body{receive_id, at};
            std::memcpy(fragment.data(), &body, sizeof body);
            rendezvous->on_fragment(*peer, header, fragment.data());
        }
    }
    std::uint64_t bad() const { return there.counters.bad_packets; }

    Ring ring{kUnits, false};
    std::vector<std::byte> data = std::vector<std::byte>(kLength);
    BlockPool pool;
    Losses losses{there.counters};
    Completions completions;
    NoSender none;
    SendFlow flow{
        0, {none, none, *this}, pool, completions, losses.events, losses.peers, there.counters};
    TransferEngine transfers{{&there.clock, Nanoseconds{0}, 10},
                             rails,
                             flow,
                             losses.events,
                             there.counters,
                             ignore_message};
    std::vector<RailRange> fabrics{{0, 2}};
    ExposedMemory memory{{0, kBlock}, rails, fabrics, there.counters, ignore_message};
    std::optional<Rendezvous> rendezvous;
    UserRequest send_user{};
    UserRequest receive_user{};
    SendRequest send;
    std::uint8_t flags = 0;            // of the message that was taken last
    OpKind op_kind = OpKind::blocking; // of messages of the peer
    std::vector<std::string> failures;

private:
    bool transmit(PendingSend& pending) override { return rendezvous->transmit(pending); }

    int sends_ended = 0;
    int sends_failed = 0;
    Bytes bytes = 0;
    int status = -1;
};

// -------------------------------------------------------------------------------------------------
// The sender

TEST_F(RendezvousTest, ASendEndsWithTheReceiversFin) {
    use(false);
    const RendezvousBody body = announced();
    EXPECT_EQ(body.bytes, kLength);
    EXPECT_EQ(body.kind, SourceKind::direct);
    EXPECT_EQ(body.address, reinterpret_cast<std::uintptr_t>(data.data()));
    EXPECT_EQ(body.key_count, 2u);
    EXPECT_EQ(rendezvous->sends(), 1u);
    rendezvous->on_finish(*peer, {body.send_id});
    EXPECT_EQ(sent(), 1);
    EXPECT_EQ(send_failed(), 0);
    EXPECT_EQ(rendezvous->sends(), 0u);
    rendezvous->on_finish(*peer, {body.send_id});
    EXPECT_EQ(bad(), 1u);
}

// A peer whose keys mean nothing any more asks for those of the memory.
TEST_F(RendezvousTest, TheMemoryOfAMessageIsFound) {
    use(false);
    const RendezvousBody body = announced();
    const Registration* const memory = rendezvous->find_memory(*peer, body.address, kLength);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(memory->remote_key(1), body.keys[1]);
    EXPECT_EQ(rendezvous->find_memory(*peer, body.address + kLength - 1, 1), memory);
    EXPECT_EQ(rendezvous->find_memory(*peer, body.address + 1, kLength), nullptr);
    rendezvous->on_finish(*peer, {body.send_id});
    EXPECT_EQ(rendezvous->find_memory(*peer, body.address, kLength), nullptr);
}

TEST_F(RendezvousTest, DataOnAnAcceleratorIsAnnouncedByItsAddressThere) {
    use(false);
    memory.accelerator(0).use_by(&kAccelerators, export_nothing);
    send.data.base = nullptr;
    send.data.context = data.data();
    send.data.pack = never_packs;
    const RendezvousBody body = announced();
    EXPECT_EQ(body.kind, SourceKind::direct);
    EXPECT_EQ(body.address, reinterpret_cast<std::uintptr_t>(data.data() + 8));
    EXPECT_EQ(body.key_count, 2u);
    EXPECT_TRUE(rendezvous->data_of_send(*peer, body.send_id).empty()) << "not for a processor";
    rendezvous->on_finish(*peer, {body.send_id});
    EXPECT_EQ(sent(), 1);
}

TEST_F(RendezvousTest, TheDataOfAMessageIsKnownAsLongAsThePeerMayReadIt) {
    use(false);
    const std::uint64_t id = announced().send_id;
    EXPECT_EQ(rendezvous->data_of_send(*peer, id).data(), data.data());
    EXPECT_EQ(rendezvous->data_of_send(*peer, id).size(), kLength);
    EXPECT_TRUE(rendezvous->data_of_send(*there.peer(10), id).empty()) << "not its message";
    rendezvous->on_finish(*peer, {id});
    EXPECT_TRUE(rendezvous->data_of_send(*peer, id).empty());
}

TEST_F(RendezvousTest, ClearedWithAnAddressTheSenderWritesAndSaysSo) {
    use(true);
    ClearBody clear{};
    clear.send_id = announced().send_id;
    clear.receive_id = 5;
    clear.wanted = kLength;
    clear.address = kTheirs;
    clear.key_count = 2;
    rendezvous->on_clear_to_send(*peer, 0, clear);
    ASSERT_EQ(posted(), 1u);
    EXPECT_EQ(qp(used()).taken[0].opcode, Opcode::write);
    EXPECT_EQ(qp(used()).taken[0].remote_address, kTheirs);
    EXPECT_TRUE(take().empty());
    complete_all();
    const auto body = take<WrittenBody>(MessageType::written);
    EXPECT_EQ(body.receive_id, 5u);
    EXPECT_EQ(body.bytes, kLength);
    EXPECT_EQ(sent(), 1);
}

// The policy epc cuts what a caller waits for, and nothing else.
TEST_F(RendezvousTest, TheSenderWritesAsItsCallerSends) {
    peer->lanes.scheduler = scheduler("epc");
    send.op_kind = OpKind::non_blocking;
    use(true);
    ClearBody clear{};
    clear.send_id = announced().send_id;
    clear.wanted = kLength;
    clear.address = kTheirs;
    clear.key_count = 2;
    rendezvous->on_clear_to_send(*peer, 0, clear);
    EXPECT_EQ(posted(), 1u);
    complete_all();
    EXPECT_EQ(sent(), 1);
}

TEST_F(RendezvousTest, DataThatCannotBeRegisteredIsPackedBlockByBlock) {
    use(false);
    register_nothing();
    const RendezvousBody body = announced();
    EXPECT_EQ(body.kind, SourceKind::packed);
    ClearBody clear{};
    clear.send_id = body.send_id;
    clear.receive_id = 5;
    clear.wanted = kLength;
    clear.block_depth = 2;
    clear.block_bytes = 4 * kBlock; // more than the sender packs at once
    rendezvous->on_clear_to_send(*peer, 0, clear);
    std::vector<std::byte> arrived;
    for (std::vector<Message> taken = take(); !taken.empty(); taken = take()) {
        EXPECT_LE(taken.size(), 2u);
        for (const Message& each : taken) {
            ASSERT_EQ(each.header.type, MessageType::block);
            const auto block = read_body<BlockBody>(each.body.data());
            EXPECT_EQ(block.offset, arrived.size());
            const auto* from = reinterpret_cast<const std::byte*>(block.address);
            arrived.insert(arrived.end(), from, from + block.length);
            rendezvous->on_block_done(*peer, {body.send_id, block.block, 0});
        }
    }
    EXPECT_EQ(arrived, data);
    EXPECT_EQ(sent(), 1);
    EXPECT_EQ(send_failed(), 0);
}

TEST_F(RendezvousTest, AskedForFragmentsTheSenderSendsThemAsThereIsRoom) {
    use(false);
    ClearBody clear{};
    clear.send_id = announced().send_id;
    clear.receive_id = 5;
    clear.wanted = kLength;
    rendezvous->on_clear_to_send(*peer, kClearPush, clear);
    const std::vector<std::byte> arrived = take_fragments();
    EXPECT_EQ(arrived, data);
    EXPECT_EQ(sent(), 1);
}

// The message has not been sent as a whole, so no receiver can have read it.
TEST_F(RendezvousTest, AFinishInTheMiddleOfFragmentsIsIgnored) {
    use(false);
    register_nothing(); // so the receiver could read blocks only
    ClearBody clear{};
    clear.send_id = announced().send_id;
    clear.receive_id = 5;
    clear.wanted = kLength;
    rendezvous->on_clear_to_send(*peer, kClearPush, clear);
    rendezvous->on_finish(*peer, {clear.send_id});
    EXPECT_EQ(bad(), 1u);
    EXPECT_EQ(sent(), 0);
    for (int pass = 0; pass < 100 && sent() == 0; ++pass) {
        flow.retry();
        take();
    }
    EXPECT_EQ(sent(), 1);
}

// The policy epc has all paths carry a message that its sender waits for, and one any other.
TEST_F(RendezvousTest, AReadIsOfTheKindOfItsSend) {
    use(false);
    peer->lanes.scheduler = scheduler("epc");
    for (const OpKind kind : {OpKind::blocking, OpKind::non_blocking}) {
        op_kind = kind;
        matched(SourceKind::direct);
        EXPECT_EQ(posted(), kind == OpKind::blocking ? 2u : 1u);
        complete_all();
        EXPECT_EQ(received(), kLength);
    }
}

TEST_F(RendezvousTest, TheLastFragmentMayBeOneByte) {
    use(false);
    const Bytes one_more = peer->message_capacity() - sizeof(FragmentBody) + 1;
    ASSERT_LT(one_more, kLength);
    send.data.bytes = one_more;
    ClearBody clear{};
    clear.send_id = announced().send_id;
    clear.receive_id = 5;
    clear.wanted = one_more;
    rendezvous->on_clear_to_send(*peer, kClearPush, clear);
    EXPECT_EQ(take_fragments().size(), one_more);
    EXPECT_EQ(sent(), 1);
}

TEST_F(RendezvousTest, ASenderWhosePackerFailsGivesUpAndSaysSo) {
    use(false);
    send.data.base = nullptr;
    send.data.pack = never_packs;
    const RendezvousBody body = announced();
    ClearBody clear{};
    clear.send_id = body.send_id;
    clear.receive_id = 5;
    clear.wanted = kLength;
    clear.block_depth = 1;
    clear.block_bytes = kBlock;
    rendezvous->on_clear_to_send(*peer, 0, clear);
    EXPECT_EQ(take<WrittenBody>(MessageType::written).bytes, 0u);
    EXPECT_EQ(send_failed(), 1);
    EXPECT_EQ(failures.size(), 1u);
}

// -------------------------------------------------------------------------------------------------
// The receiver

TEST_F(RendezvousTest, TheReceiverReadsContiguousDataAndSaysSo) {
    use(false);
    matched(SourceKind::direct);
    ASSERT_EQ(posted(), 1u);
    EXPECT_EQ(qp(used()).taken[0].opcode, Opcode::read);
    EXPECT_EQ(qp(used()).taken[0].remote_address, kTheirs);
    EXPECT_EQ(qp(used()).gathers[0].address, data.data());
    EXPECT_EQ(receive_status(), -1);
    complete_all();
    EXPECT_EQ(take<IdBody>(MessageType::finish).id, kSendId);
    EXPECT_EQ(receive_status(), OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(received(), kLength);
    EXPECT_EQ(peer->transfers.users, 0u);
}

TEST_F(RendezvousTest, WithPutTheReceiverNamesItsMemoryAndWaits) {
    use(true);
    matched(SourceKind::direct);
    EXPECT_EQ(posted(), 0u);
    const auto clear = take<ClearBody>(MessageType::clear_to_send);
    EXPECT_EQ(clear.send_id, kSendId);
    EXPECT_EQ(clear.address, reinterpret_cast<std::uintptr_t>(data.data()));
    const Registration* const memory = rendezvous->find_memory(*peer, clear.address, kLength);
    ASSERT_NE(memory, nullptr) << "the sender may ask for its keys once more";
    EXPECT_EQ(memory->remote_key(1), clear.keys[1]);
    rendezvous->on_written(*peer, {clear.receive_id, kLength});
    EXPECT_EQ(receive_status(), OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_TRUE(take().empty()) << "the sender knows";
    rendezvous->on_written(*peer, {clear.receive_id, kLength});
    EXPECT_EQ(bad(), 1u);
}

TEST_F(RendezvousTest, WithoutARegistrationTheReceiverReadsByBlocks) {
    use(false);
    register_nothing();
    matched(SourceKind::direct);
    EXPECT_EQ(posted(), 2u) << "as many as may be under way";
    for (int blocks_read = 0; posted() > 0; ++blocks_read) {
        ASSERT_LT(blocks_read, 3);
        EXPECT_NE(qp(used()).gathers[0].address, data.data());
        complete(used());
    }
    EXPECT_EQ(take<IdBody>(MessageType::finish).id, kSendId);
    EXPECT_EQ(received(), kLength);
}

TEST_F(RendezvousTest, APackedSourceIsReadAsItsBlocksAreAnnounced) {
    use(false);
    matched(SourceKind::packed);
    const auto clear = take<ClearBody>(MessageType::clear_to_send);
    EXPECT_EQ(clear.address, 0u);
    EXPECT_EQ(clear.block_depth, 2u);
    BlockBody block{};
    block.receive_id = clear.receive_id;
    block.address = kTheirs;
    block.key_count = 2;
    for (Bytes at = 0; at < kLength; at += block.length) {
        block.offset = at;
        block.length = static_cast<std::uint32_t>(std::min(kBlock, kLength - at));
        rendezvous->on_block(*peer, block);
        complete(used());
        EXPECT_EQ(take<BlockDoneBody>(MessageType::block_done).send_id, kSendId);
    }
    EXPECT_EQ(received(), kLength);
    EXPECT_EQ(bad(), 0u);
}

TEST_F(RendezvousTest, WithoutAConnectionTheReceiverAsksForFragments) {
    use(false);
    peer->session.state = ConnectState::idle;
    matched(SourceKind::direct);
    EXPECT_TRUE(take().empty()) << "one is wanted first";
    EXPECT_EQ(losses.events.take(PeerEvent::want_connection), std::vector<Peer*>{peer.get()});
    rendezvous->on_requested(*peer);
    const auto clear = take<ClearBody>(MessageType::clear_to_send);
    EXPECT_EQ(flags, kClearPush);
    const std::vector<std::byte> source(kLength, std::byte{9});
    std::vector<std::byte> fragment(sizeof(FragmentBody) + kLength / 2);
    MessageHeader header;
    header.type = MessageType::fragment;
    header.length = static_cast<std::uint32_t>(fragment.size());
    for (Bytes at = 0; at < kLength; at += kLength / 2) {
        const FragmentBody body{clear.receive_id, at};
        std::memcpy(fragment.data(), &body, sizeof body);
        std::memcpy(fragment.data() + sizeof body, source.data(), kLength / 2);
        rendezvous->on_fragment(*peer, header, fragment.data());
    }
    EXPECT_EQ(received(), kLength);
    EXPECT_EQ(data, source);
    rendezvous->on_fragment(*peer, header, fragment.data());
    EXPECT_EQ(bad(), 1u);
}

// -------------------------------------------------------------------------------------------------
// The system does not reach a buffer

TEST_F(RendezvousTest, WhatCannotBeReadIsAskedForInFragments) {
    use(false);
    matched(SourceKind::direct);
    complete(used(), WorkStatus::memory_fault);
    const auto clear = take<ClearBody>(MessageType::clear_to_send);
    EXPECT_EQ(flags, kClearPush);
    EXPECT_EQ(clear.wanted, kLength);
    EXPECT_EQ(receive_status(), -1);
    push(clear.receive_id, std::byte{9});
    EXPECT_EQ(receive_status(), OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(data, std::vector<std::byte>(kLength, std::byte{9}));
    EXPECT_EQ(peer->transfers.users, 0u);
    EXPECT_FALSE(peer->interruption.work_failed);
}

TEST_F(RendezvousTest, BlocksThatCannotBeReadAreAskedForInFragments) {
    use(false);
    register_nothing();
    matched(SourceKind::direct);
    ASSERT_EQ(posted(), 2u);
    complete(used());
    ASSERT_EQ(posted(), 2u);
    complete(used(), WorkStatus::memory_fault);
    EXPECT_TRUE(take().empty()) << "another one is under way";
    complete(used());
    EXPECT_EQ(posted(), 0u);
    const auto clear = take<ClearBody>(MessageType::clear_to_send);
    EXPECT_EQ(flags, kClearPush);
    push(clear.receive_id, std::byte{8});
    EXPECT_EQ(receive_status(), OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(data, std::vector<std::byte>(kLength, std::byte{8}));
}

TEST_F(RendezvousTest, ABlockThatCannotBeReadIntoTheBufferIsReadAside) {
    use(false);
    matched(SourceKind::packed);
    const auto clear = take<ClearBody>(MessageType::clear_to_send);
    BlockBody block{};
    block.receive_id = clear.receive_id;
    block.address = kTheirs;
    block.key_count = 2;
    for (Bytes at = 0; at < kLength; at += block.length) {
        block.offset = at;
        block.length = static_cast<std::uint32_t>(std::min(kBlock, kLength - at));
        rendezvous->on_block(*peer, block);
        EXPECT_EQ(qp(used()).gathers[0].address, data.data() + at);
        complete(used(), WorkStatus::memory_fault);
        ASSERT_EQ(posted(), 1u);
        auto* const aside = static_cast<std::byte*>(qp(used()).gathers[0].address);
        EXPECT_NE(aside, data.data() + at);
        std::fill_n(aside, block.length, std::byte{7});
        complete(used());
        EXPECT_EQ(take<BlockDoneBody>(MessageType::block_done).send_id, kSendId);
    }
    EXPECT_EQ(receive_status(), OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(data, std::vector<std::byte>(kLength, std::byte{7}));
}

TEST_F(RendezvousTest, WhatCannotBeWrittenIsSentInFragments) {
    use(true);
    ClearBody clear{};
    clear.send_id = announced().send_id;
    clear.receive_id = 5;
    clear.wanted = kLength;
    clear.address = kTheirs;
    clear.key_count = 2;
    rendezvous->on_clear_to_send(*peer, 0, clear);
    complete(used(), WorkStatus::memory_fault);
    EXPECT_EQ(take_fragments().size(), kLength);
    EXPECT_EQ(sent(), 1);
    EXPECT_EQ(send_failed(), 0);

    matched(SourceKind::direct); // at the other end
    push(take<ClearBody>(MessageType::clear_to_send).receive_id, std::byte{6});
    EXPECT_EQ(receive_status(), OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(bad(), 0u);
}

TEST_F(RendezvousTest, OnceThePeerHasFailedAFaultIsAFailure) {
    use(false);
    matched(SourceKind::direct);
    const std::uint32_t on = used();
    peer->session.state = ConnectState::failed;
    rendezvous->fail(*peer);
    complete(on, WorkStatus::memory_fault);
    EXPECT_EQ(receive_status(), OPAL_COMMON_ADAPTIB_UNREACHABLE);
}

TEST_F(RendezvousTest, WhileAConnectionComesUpTheReceiverIsUndecided) {
    use(false);
    peer->session.state = ConnectState::requested;
    matched(SourceKind::direct);
    EXPECT_TRUE(take().empty());
    EXPECT_EQ(posted(), 0u);
    peer->session.state = ConnectState::open;
    rendezvous->on_connected(*peer);
    EXPECT_EQ(posted(), 1u);
    complete_all();
    EXPECT_EQ(received(), kLength);
    take();

    peer->session.state = ConnectState::requested;
    matched(SourceKind::direct);
    peer->session.state = ConnectState::idle;
    rendezvous->on_unconnected(*peer);
    take<ClearBody>(MessageType::clear_to_send);
    EXPECT_EQ(flags, kClearPush);
}

TEST_F(RendezvousTest, TheReceiversMemoryIsRegisteredWhileTheConnectionComesUp) {
    use(false);
    peer->session.state = ConnectState::idle;
    matched(SourceKind::direct);
    EXPECT_EQ(there.counters.registrations_made, 0u);
    peer->session.state = ConnectState::requested;
    rendezvous->on_requested(*peer);
    EXPECT_GT(there.counters.registrations_made, 0u);
    EXPECT_TRUE(take().empty());
    peer->session.state = ConnectState::open;
    rendezvous->on_connected(*peer);
    complete_all();
    EXPECT_EQ(received(), kLength);
}

TEST_F(RendezvousTest, OnceThePeerHasFailedTransfersEnd) {
    use(false);
    announced();
    matched(SourceKind::direct);
    const std::uint32_t on = used();
    peer->session.state = ConnectState::failed;
    rendezvous->fail(*peer);
    EXPECT_EQ(send_failed(), 1);
    EXPECT_EQ(receive_status(), -1) << "its read is still under way";
    complete(on, WorkStatus::flushed);
    EXPECT_EQ(receive_status(), OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_EQ(received(), 0u);
    EXPECT_EQ(rendezvous->sends() + rendezvous->receives(), 0u);
}

TEST_F(RendezvousTest, MessagesThatFitNoTransferAreBadPackets) {
    use(false);
    const std::uint64_t id = announced().send_id;
    ClearBody clear{};
    clear.send_id = id;
    clear.receive_id = 5;
    clear.wanted = kLength + 1;
    clear.address = kTheirs;
    rendezvous->on_clear_to_send(*peer, 0, clear);
    clear.wanted = kLength;
    clear.address = 0; // packs, but the source is direct
    rendezvous->on_clear_to_send(*peer, 0, clear);
    rendezvous->on_block_done(*peer, {id, 0, 0});
    rendezvous->on_block(*peer, {});
    rendezvous->on_written(*peer, {12345, kLength});
    EXPECT_EQ(bad(), 5u);
    clear.address = kTheirs;
    clear.key_count = 2;
    clear.send_id = id + 1; // of no transfer
    rendezvous->on_clear_to_send(*peer, 0, clear);
    rendezvous->on_finish(*peer, {id + 1});
    EXPECT_EQ(bad(), 7u);
    const std::unique_ptr<Peer> stranger = there.peer(10);
    clear.send_id = id; // of a message to the peer
    rendezvous->on_clear_to_send(*stranger, 0, clear);
    rendezvous->on_block_done(*stranger, {id, 0, 0});
    rendezvous->on_finish(*stranger, {id});
    EXPECT_EQ(bad(), 10u);
    EXPECT_EQ(posted(), 0u);
    EXPECT_EQ(sent(), 0);
}

} // namespace
} // namespace adaptib::test
