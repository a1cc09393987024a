// SPDX-License-Identifier: BSD-3-Clause
// The wire format: its layout in literal numbers, and which arriving bytes pass the checks.
#include "base/wire_connect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

namespace adaptib {
namespace {

constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();

// -------------------------------------------------------------------------------------------------
// Layout. A change of any number here requires a new kWireVersion.

static_assert(kWireVersion == 38);
static_assert(kMaxRails == 8 && kMaxSubchannels == 16);
static_assert(kHeaderMagic == 0xad1b);
static_assert(kMaxMessageBytes == 0x100000000000000);

static_assert(sizeof(MessageType) == 1);
static_assert(static_cast<int>(MessageType::none) == 0);
static_assert(static_cast<int>(MessageType::skip) == 1);
static_assert(static_cast<int>(MessageType::eager) == 2);
static_assert(static_cast<int>(MessageType::eager_sync) == 3);
static_assert(static_cast<int>(MessageType::sync_ack) == 4);
static_assert(static_cast<int>(MessageType::rendezvous) == 5);
static_assert(static_cast<int>(MessageType::clear_to_send) == 6);
static_assert(static_cast<int>(MessageType::block) == 7);
static_assert(static_cast<int>(MessageType::block_done) == 8);
static_assert(static_cast<int>(MessageType::finish) == 9);
static_assert(static_cast<int>(MessageType::written) == 10);
static_assert(static_cast<int>(MessageType::connect_request) == 11);
static_assert(static_cast<int>(MessageType::connect_reply) == 12);
static_assert(static_cast<int>(MessageType::connect_confirm) == 13);
static_assert(static_cast<int>(MessageType::disconnect) == 14);
static_assert(static_cast<int>(MessageType::active) == 15);
static_assert(static_cast<int>(MessageType::fragment) == 16);
static_assert(static_cast<int>(MessageType::connect_refuse) == 17);
static_assert(static_cast<int>(MessageType::connect_close) == 18);
static_assert(static_cast<int>(MessageType::connect_keep) == 19);
static_assert(static_cast<int>(MessageType::connect_yield) == 20);
static_assert(static_cast<int>(MessageType::active_part) == 21);
static_assert(static_cast<int>(MessageType::operate) == 22);
static_assert(static_cast<int>(MessageType::atomic) == 23);
static_assert(static_cast<int>(MessageType::atomic_done) == 24);
static_assert(static_cast<int>(MessageType::cooperative_copy) == 25);
static_assert(static_cast<int>(MessageType::allowance) == 26);
static_assert(static_cast<int>(MessageType::region_query) == 27);
static_assert(static_cast<int>(MessageType::region_keys) == 28);
static_assert(static_cast<int>(MessageType::slice) == 29);
static_assert(static_cast<int>(MessageType::probe) == 30);
static_assert(static_cast<int>(MessageType::probe_answer) == 31);
static_assert(static_cast<int>(MessageType::probe_thanks) == 32);
static_assert(static_cast<int>(MessageType::life_question) == 33);
static_assert(static_cast<int>(MessageType::life_answer) == 34);
static_assert(static_cast<int>(MessageType::count_) == 35);

static_assert(sizeof(MessageHeader) == 24);
static_assert(offsetof(MessageHeader, type) == 0);
static_assert(offsetof(MessageHeader, flags) == 1);
static_assert(offsetof(MessageHeader, magic) == 2);
static_assert(offsetof(MessageHeader, length) == 4);
static_assert(offsetof(MessageHeader, sequence) == 8);
static_assert(offsetof(MessageHeader, context) == 12);
static_assert(offsetof(MessageHeader, source) == 16);
static_assert(offsetof(MessageHeader, tag) == 20);

static_assert(sizeof(DatagramHeader) == 40);
static_assert(offsetof(DatagramHeader, magic) == 0);
static_assert(offsetof(DatagramHeader, version) == 2);
static_assert(offsetof(DatagramHeader, rail) == 3);
static_assert(offsetof(DatagramHeader, number) == 4);
static_assert(offsetof(DatagramHeader, target_key) == 8);
static_assert(offsetof(DatagramHeader, source) == 16);
static_assert(offsetof(DatagramHeader, source_key) == 24);
static_assert(offsetof(DatagramHeader, expected) == 32);
static_assert(offsetof(DatagramHeader, arrived) == 36);

static_assert(sizeof(LifeBody) == 80);
static_assert(offsetof(LifeBody, sequence) == 0);
static_assert(offsetof(LifeBody, size) == 4);
static_assert(offsetof(LifeBody, path) == 5);
static_assert(offsetof(LifeBody, changes) == 6);
static_assert(offsetof(LifeBody, beats) == 8);
static_assert(offsetof(LifeBody, bytes) == 16);

static_assert(sizeof(SyncBody) == 8);
static_assert(sizeof(IdBody) == 8);

static_assert(static_cast<int>(SourceKind::direct) == 1);
static_assert(static_cast<int>(SourceKind::packed) == 2);
static_assert(sizeof(RendezvousBody) == 64);
static_assert(offsetof(RendezvousBody, bytes) == 0);
static_assert(offsetof(RendezvousBody, send_id) == 8);
static_assert(offsetof(RendezvousBody, address) == 16);
static_assert(offsetof(RendezvousBody, kind) == 24);
static_assert(offsetof(RendezvousBody, key_epoch) == 26);
static_assert(offsetof(RendezvousBody, key_count) == 28);
static_assert(offsetof(RendezvousBody, keys) == 32);

static_assert(sizeof(ClearBody) == 72);
static_assert(offsetof(ClearBody, send_id) == 0);
static_assert(offsetof(ClearBody, receive_id) == 8);
static_assert(offsetof(ClearBody, wanted) == 16);
static_assert(offsetof(ClearBody, address) == 24);
static_assert(offsetof(ClearBody, key_count) == 32);
static_assert(offsetof(ClearBody, key_epoch) == 33);
static_assert(offsetof(ClearBody, block_depth) == 34);
static_assert(offsetof(ClearBody, block_bytes) == 36);
static_assert(offsetof(ClearBody, keys) == 40);

static_assert(sizeof(BlockBody) == 72);
static_assert(offsetof(BlockBody, receive_id) == 0);
static_assert(offsetof(BlockBody, offset) == 8);
static_assert(offsetof(BlockBody, address) == 16);
static_assert(offsetof(BlockBody, length) == 24);
static_assert(offsetof(BlockBody, block) == 28);
static_assert(offsetof(BlockBody, key_count) == 32);
static_assert(offsetof(BlockBody, key_epoch) == 36);
static_assert(offsetof(BlockBody, keys) == 40);

static_assert(sizeof(BlockDoneBody) == 16);
static_assert(offsetof(BlockDoneBody, send_id) == 0);
static_assert(offsetof(BlockDoneBody, block) == 8);

static_assert(sizeof(WrittenBody) == 16);
static_assert(offsetof(WrittenBody, receive_id) == 0);
static_assert(offsetof(WrittenBody, bytes) == 8);

static_assert(kClearPush == 1);
static_assert(kConnectNeeded == 1);
static_assert(sizeof(FragmentBody) == 16);
static_assert(offsetof(FragmentBody, receive_id) == 0);
static_assert(offsetof(FragmentBody, offset) == 8);

static_assert(sizeof(SliceBody) == 12);
static_assert(offsetof(SliceBody, type) == 0);
static_assert(offsetof(SliceBody, flags) == 1);
static_assert(offsetof(SliceBody, length) == 4);
static_assert(offsetof(SliceBody, offset) == 8);

static_assert(sizeof(ConnectNote) == 16);
static_assert(offsetof(ConnectNote, connection) == 0);
static_assert(offsetof(ConnectNote, answers) == 4);
static_assert(offsetof(ConnectNote, number) == 8);
static_assert(offsetof(ConnectNote, expected) == 12);

static_assert(sizeof(ConnectSubchannel) == 16);
static_assert(offsetof(ConnectSubchannel, rail) == 0);
static_assert(offsetof(ConnectSubchannel, to) == 1);
static_assert(offsetof(ConnectSubchannel, path) == 2);
static_assert(offsetof(ConnectSubchannel, unordered) == 3);
static_assert(offsetof(ConnectSubchannel, qp) == 4);
static_assert(offsetof(ConnectSubchannel, psn) == 8);
static_assert(offsetof(ConnectSubchannel, memory_key) == 12);

static_assert(sizeof(OperateBody) == 40);
static_assert(offsetof(OperateBody, number) == 0);
static_assert(offsetof(OperateBody, remote_address) == 8);
static_assert(offsetof(OperateBody, compare_add) == 16);
static_assert(offsetof(OperateBody, swap) == 24);
static_assert(offsetof(OperateBody, remote_key) == 32);
static_assert(offsetof(OperateBody, length) == 36);

static_assert(sizeof(CooperativeCopyBody) == 64);
static_assert(offsetof(CooperativeCopyBody, number) == 0);
static_assert(offsetof(CooperativeCopyBody, theirs) == 8);
static_assert(offsetof(CooperativeCopyBody, ours) == 16);
static_assert(offsetof(CooperativeCopyBody, length) == 24);
static_assert(offsetof(CooperativeCopyBody, their_key) == 28);
static_assert(offsetof(CooperativeCopyBody, our_key) == 32);
static_assert(offsetof(CooperativeCopyBody, opcode) == 36);

static_assert(sizeof(RegionQueryBody) == 32);
static_assert(offsetof(RegionQueryBody, id) == 0);
static_assert(offsetof(RegionQueryBody, address) == 8);
static_assert(offsetof(RegionQueryBody, bytes) == 16);
static_assert(offsetof(RegionQueryBody, access) == 24);

static_assert(sizeof(RegionKeysBody) == 48);
static_assert(offsetof(RegionKeysBody, id) == 0);
static_assert(offsetof(RegionKeysBody, key_count) == 8);
static_assert(offsetof(RegionKeysBody, keys) == 12);
static_assert(offsetof(RegionKeysBody, key_epoch) == 44);

static_assert(sizeof(ConnectBody) == 320);
static_assert(offsetof(ConnectBody, connection) == 0);
static_assert(offsetof(ConnectBody, answers) == 4);
static_assert(offsetof(ConnectBody, subchannel_count) == 8);
static_assert(offsetof(ConnectBody, ring_bytes) == 12);
static_assert(offsetof(ConnectBody, replaces) == 16);
static_assert(offsetof(ConnectBody, expected) == 20);
static_assert(offsetof(ConnectBody, ring_address) == 24);
static_assert(offsetof(ConnectBody, credit_address) == 32);
static_assert(offsetof(ConnectBody, access_key) == 40);
static_assert(offsetof(ConnectBody, measure_address) == 48);
static_assert(offsetof(ConnectBody, key_epoch) == 56);
static_assert(offsetof(ConnectBody, subchannels) == 64);

static_assert(sizeof(ProbeBody) == 80);
static_assert(offsetof(ProbeBody, nonce) == 0);
static_assert(offsetof(ProbeBody, size) == 4);
static_assert(offsetof(ProbeBody, path) == 5);
static_assert(offsetof(ProbeBody, changes) == 6);
static_assert(offsetof(ProbeBody, bytes) == 8);
static_assert(offsetof(ProbeBody, datagram_qp) == 72);
static_assert(offsetof(ProbeBody, responder_qp) == 76);

// -------------------------------------------------------------------------------------------------
// Headers

struct TypeFacts {
    MessageType type;
    std::uint32_t body;
    bool payload; // any number of bytes may follow the body
    bool sequenced;
    std::uint32_t most = body; // largest length of a body that varies and has no payload
};

constexpr TypeFacts kTypes[] = {
    {MessageType::eager, 0, true, true},
    {MessageType::eager_sync, 8, true, true},
    {MessageType::sync_ack, 8, false, true},
    {MessageType::rendezvous, 32, false, true, 64},
    {MessageType::clear_to_send, 72, false, true},
    {MessageType::block, 72, false, true},
    {MessageType::block_done, 16, false, true},
    {MessageType::finish, 8, false, true},
    {MessageType::written, 16, false, true},
    {MessageType::connect_request, 64, false, false, 320},
    {MessageType::connect_reply, 64, false, false, 320},
    {MessageType::connect_confirm, 64, false, false, 320},
    {MessageType::disconnect, 8, false, true},
    {MessageType::active, 0, true, true},
    {MessageType::fragment, 16, true, true},
    {MessageType::active_part, 0, true, true},
    {MessageType::operate, 40, true, true},
    {MessageType::atomic, 40, false, true},
    {MessageType::atomic_done, 24, false, true},
    {MessageType::cooperative_copy, 64, false, true},
    {MessageType::allowance, 0, false, true},
    {MessageType::region_query, 32, false, true},
    {MessageType::region_keys, 48, false, true},
    {MessageType::slice, 12, true, false},
    {MessageType::connect_refuse, 16, false, false},
    {MessageType::connect_close, 16, false, false},
    {MessageType::connect_keep, 16, false, false},
    {MessageType::connect_yield, 16, false, false},
    {MessageType::probe, 80, false, false},
    {MessageType::probe_answer, 80, false, false},
    {MessageType::probe_thanks, 80, false, false},
    {MessageType::life_question, 80, false, false},
    {MessageType::life_answer, 80, false, false},
};

MessageHeader header_of(MessageType type, std::uint32_t length) {
    MessageHeader header;
    header.type = type;
    header.length = length;
    return header;
}

static_assert(rendezvous_bytes(0) == 32);
static_assert(rendezvous_bytes(1) == 36);
static_assert(rendezvous_bytes(kMaxRails) == sizeof(RendezvousBody));

TEST(Wire, EveryTypeIsAcceptedWithItsBodyAndWithNoOtherLength) {
    ASSERT_EQ(std::size(kTypes) + 2, static_cast<std::size_t>(MessageType::count_));
    for (const TypeFacts& facts : kTypes) {
        SCOPED_TRACE(static_cast<int>(facts.type));
        EXPECT_EQ(body_bytes(facts.type), facts.body);
        EXPECT_EQ(is_sequenced(facts.type), facts.sequenced);
        EXPECT_TRUE(check_header(header_of(facts.type, facts.body), facts.body));
        EXPECT_TRUE(check_header(header_of(facts.type, facts.body), 4096));
        EXPECT_TRUE(check_header(header_of(facts.type, facts.most), 4096));
        EXPECT_EQ(check_header(header_of(facts.type, facts.most + 1), 4096), facts.payload);
        if (facts.body > 0) {
            EXPECT_FALSE(check_header(header_of(facts.type, facts.body - 1), 4096));
            EXPECT_FALSE(check_header(header_of(facts.type, 0), 4096));
        }
    }
}

TEST(Wire, WhatIsAnnouncedMustBeThere) {
    for (const TypeFacts& facts : kTypes) {
        SCOPED_TRACE(static_cast<int>(facts.type));
        if (facts.body > 0) {
            EXPECT_FALSE(check_header(header_of(facts.type, facts.body), facts.body - 1));
            EXPECT_FALSE(check_header(header_of(facts.type, facts.body), 0));
        }
        if (facts.payload) {
            EXPECT_TRUE(check_header(header_of(facts.type, 1000), 1000));
            EXPECT_FALSE(check_header(header_of(facts.type, 1001), 1000));
            EXPECT_FALSE(check_header(header_of(facts.type, UINT32_MAX), 1000));
        }
    }
}

TEST(Wire, UnknownTypesAreRefused) {
    EXPECT_FALSE(check_header(header_of(MessageType::none, 0), 4096));
    for (int type = static_cast<int>(MessageType::count_); type < 256; ++type) {
        const auto unknown = static_cast<MessageType>(type);
        EXPECT_EQ(body_bytes(unknown), 0u);
        EXPECT_FALSE(check_header(header_of(unknown, 0), 4096)) << type;
        EXPECT_FALSE(check_header(header_of(unknown, 8), 4096)) << type;
    }
}

TEST(Wire, EveryWrongBitOfTheMagicIsRefused) {
    for (int bit = 0; bit < 16; ++bit) {
        MessageHeader header = header_of(MessageType::eager, 0);
        header.magic = static_cast<std::uint16_t>(header.magic ^ (1u << bit));
        EXPECT_FALSE(check_header(header, 64)) << bit;
    }
}

TEST(Wire, TheHeadWordIsTheFirstEightBytesAndNeverZero) {
    const MessageHeader header = header_of(MessageType::eager, 0x01020304);
    EXPECT_EQ(header.head_word(), 0x01020304ad1b0002u);
    EXPECT_NE(header_of(MessageType::none, 0).head_word(), 0u);
}

// -------------------------------------------------------------------------------------------------
// Bodies

RendezvousBody direct_body() {
    RendezvousBody body{};
    body.bytes = 1000;
    body.address = 4096;
    body.kind = SourceKind::direct;
    body.key_count = 1;
    return body;
}

TEST(Wire, KeysOfMoreRailsThanThereAreAreRefused) {
    RegionKeysBody body{};
    EXPECT_TRUE(check_body(body));
    body.key_count = kMaxRails;
    EXPECT_TRUE(check_body(body));
    body.key_count = kMaxRails + 1;
    EXPECT_FALSE(check_body(body));
}

TEST(Wire, RendezvousBodiesWithinTheirRangesPass) {
    RendezvousBody body = direct_body();
    EXPECT_TRUE(check_body(body));
    body.key_count = kMaxRails;
    EXPECT_TRUE(check_body(body));
    body.key_count = kMaxRails + 1;
    EXPECT_FALSE(check_body(body));
    body.key_count = UINT32_MAX;
    EXPECT_FALSE(check_body(body));
    body.key_count = 0; // no reader could read the source
    EXPECT_FALSE(check_body(body));

    body = direct_body();
    body.bytes = kMaxMessageBytes;
    EXPECT_TRUE(check_body(body));
    body.bytes = kMaxMessageBytes + 1;
    EXPECT_FALSE(check_body(body));
    body.bytes = kMax64;
    EXPECT_FALSE(check_body(body));

    body = direct_body();
    body.address = kMax64 - body.bytes;
    EXPECT_TRUE(check_body(body));
    body.address = kMax64 - body.bytes + 1; // wraps around
    EXPECT_FALSE(check_body(body));
    body.bytes = 0;
    EXPECT_TRUE(check_body(body)) << "of no bytes, wherever they would be";
}

TEST(Wire, PackedSourcesNeedNoKeys) {
    RendezvousBody body = direct_body();
    body.kind = SourceKind::packed;
    body.key_count = 0;
    body.address = 0;
    EXPECT_TRUE(check_body(body));
    body.bytes = kMaxMessageBytes + 1;
    EXPECT_FALSE(check_body(body));
    body.bytes = 1;
    body.key_count = kMaxRails + 1;
    EXPECT_FALSE(check_body(body));
}

TEST(Wire, SourcesOfAnUnknownKindAreRefused) {
    for (const unsigned kind : {0u, 3u, 128u, 255u}) {
        RendezvousBody body = direct_body();
        body.kind = static_cast<SourceKind>(kind);
        EXPECT_FALSE(check_body(body)) << kind;
    }
}

TEST(Wire, SourcesOfAnUnknownOpKindAreRefused) {
    RendezvousBody body = direct_body();
    body.op_kind = OpKind::collective;
    EXPECT_TRUE(check_body(body));
    body.op_kind = static_cast<OpKind>(3);
    EXPECT_FALSE(check_body(body));
}

TEST(Wire, ClearBodiesWithinTheirRangesPass) {
    ClearBody body{};
    body.wanted = 1000;
    EXPECT_TRUE(check_body(body));
    body.key_count = kMaxRails;
    EXPECT_TRUE(check_body(body));
    body.key_count = kMaxRails + 1;
    EXPECT_FALSE(check_body(body));
    body.key_count = 1;
    body.wanted = kMaxMessageBytes;
    EXPECT_TRUE(check_body(body));
    body.wanted = kMaxMessageBytes + 1;
    EXPECT_FALSE(check_body(body));
    body.wanted = 1000;
    body.address = kMax64 - 1000;
    EXPECT_TRUE(check_body(body));
    body.address = kMax64 - 999;
    EXPECT_FALSE(check_body(body));
}

TEST(Wire, BlockBodiesWithinTheirRangesPass) {
    BlockBody good{};
    good.length = 1;
    good.key_count = 1;
    EXPECT_TRUE(check_body(good));

    BlockBody body = good;
    body.key_count = 0;
    EXPECT_FALSE(check_body(body));
    body.key_count = kMaxRails;
    EXPECT_TRUE(check_body(body));
    body.key_count = kMaxRails + 1;
    EXPECT_FALSE(check_body(body));

    body = good;
    body.length = 0;
    EXPECT_FALSE(check_body(body));
    body.length = UINT32_MAX;
    EXPECT_TRUE(check_body(body));

    body = good;
    body.offset = kMaxMessageBytes;
    EXPECT_TRUE(check_body(body));
    body.offset = kMaxMessageBytes + 1;
    EXPECT_FALSE(check_body(body));

    body = good;
    body.length = 64;
    body.address = kMax64 - 64;
    EXPECT_TRUE(check_body(body));
    body.address = kMax64 - 63;
    EXPECT_FALSE(check_body(body));
}

ConnectBody connect_body() {
    ConnectBody body{};
    body.subchannel_count = 1;
    body.ring_bytes = 4096;
    body.ring_address = 64;
    body.credit_address = 64;
    return body;
}

TEST(Wire, OnlyARequestMayNameNoPath) {
    for (const MessageType type :
         {MessageType::connect_request, MessageType::connect_reply, MessageType::connect_confirm}) {
        for (const std::uint32_t count : {0u, 1u}) {
            ConnectBody body = connect_body();
            body.subchannel_count = count;
            const auto length = static_cast<std::uint32_t>(connect_bytes(count));
            EXPECT_EQ(check_message(header_of(type, length),
                                    reinterpret_cast<const std::byte*>(&body), length),
                      count > 0 || type == MessageType::connect_request);
        }
    }
}

TEST(Wire, SlicesLieWithinTheirMessage) {
    const SliceBody good{MessageType::eager, 0, 0, 5000, 4000};
    EXPECT_TRUE(check_body(good, 1000));
    EXPECT_TRUE(check_body(good, 1));
    EXPECT_FALSE(check_body(good, 0));
    EXPECT_FALSE(check_body(good, 1001));
    SliceBody bad = good;
    bad.offset = 5001;
    EXPECT_FALSE(check_body(bad, 1));
    bad = good;
    bad.type = MessageType::slice;
    EXPECT_FALSE(check_body(bad, 1));
    bad = good;
    bad.length = kMaxRingBytes + 1;
    EXPECT_FALSE(check_body(bad, 1));
}

TEST(Wire, ConnectBodiesNameUpToSixteenPathsBetweenRailsThatCanExist) {
    ConnectBody body = connect_body();
    EXPECT_TRUE(check_body(body));
    body.subchannel_count = kMaxSubchannels;
    EXPECT_TRUE(check_body(body));
    body.subchannel_count = kMaxSubchannels + 1;
    EXPECT_FALSE(check_body(body));
    body.subchannel_count = UINT32_MAX;
    EXPECT_FALSE(check_body(body));
    for (std::uint32_t i = 0; i < kMaxSubchannels; ++i) {
        ConnectSubchannel last{};
        last.rail = kMaxRails - 1;
        last.path = kMaxSubchannels - 1;
        ConnectSubchannel no_rail = last;
        no_rail.rail = kMaxRails;
        ConnectSubchannel to_no_rail = last;
        to_no_rail.to = kMaxRails;
        ConnectSubchannel no_path = last;
        no_path.path = kMaxSubchannels;
        body = connect_body();
        body.subchannel_count = i + 1;
        body.subchannels[i] = last;
        EXPECT_TRUE(check_body(body)) << i;
        ConnectSubchannel no_order = last;
        no_order.unordered = 2;
        for (const ConnectSubchannel& bad : {no_rail, to_no_rail, no_path, no_order}) {
            body.subchannel_count = i + 1;
            body.subchannels[i] = bad;
            EXPECT_FALSE(check_body(body)) << i;
            body.subchannel_count = i == 0 ? 1 : i; // entries beyond the count are not checked
            EXPECT_EQ(check_body(body), i != 0) << i;
        }
    }
}

TEST(Wire, RingsAndCreditsMustBeAligned) {
    ConnectBody body = connect_body();
    body.ring_bytes = 0;
    EXPECT_TRUE(check_body(body));
    for (const std::uint32_t off : {1u, 8u, 32u, 63u}) {
        body = connect_body();
        body.ring_bytes += off;
        EXPECT_FALSE(check_body(body)) << off;
        body = connect_body();
        body.ring_address += off;
        EXPECT_FALSE(check_body(body)) << off;
    }
    for (const std::uint32_t off : {1u, 8u, 63u}) {
        body = connect_body();
        body.credit_address += off;
        EXPECT_FALSE(check_body(body)) << off;
        body = connect_body();
        body.measure_address = 64;
        EXPECT_TRUE(check_body(body)) << off;
        body.measure_address += off;
        EXPECT_FALSE(check_body(body)) << off;
    }
}

template <typename Body>
std::vector<std::byte> bytes_of(const Body& body, std::size_t length = sizeof(Body)) {
    const auto* from = reinterpret_cast<const std::byte*>(&body);
    return {from, from + length};
}

template <typename Body>
void expect_checked(MessageType type, const Body& good, const Body& bad,
                    std::uint32_t length = sizeof(Body)) {
    SCOPED_TRACE(static_cast<int>(type));
    // One byte in front, so that the body is not aligned.
    for (const std::size_t shift : {0u, 1u}) {
        std::vector<std::byte> bytes = bytes_of(good, length);
        bytes.insert(bytes.begin(), shift, std::byte{0});
        const MessageHeader header = header_of(type, length);
        EXPECT_TRUE(check_message(header, bytes.data() + shift, length));
        EXPECT_FALSE(check_message(header, bytes.data() + shift, length - 1));
        bytes = bytes_of(bad, length);
        bytes.insert(bytes.begin(), shift, std::byte{0});
        EXPECT_FALSE(check_message(header, bytes.data() + shift, length));
    }
}

// Only the keys in use cross the wire: the length and the count have to agree.
TEST(Wire, ARendezvousIsAsLongAsItsKeys) {
    for (const SourceKind kind : {SourceKind::direct, SourceKind::packed}) {
        for (std::uint32_t count = 0; count <= kMaxRails; ++count) {
            SCOPED_TRACE(count);
            RendezvousBody body = direct_body();
            body.kind = kind;
            body.key_count = count;
            for (std::uint32_t i = 0; i < kMaxRails; ++i) {
                body.keys[i] = 100 + i;
            }
            // The checks read no byte beyond the announced length (a sanitizer would see it).
            for (std::uint32_t length = 1; length <= 80; ++length) {
                std::vector<std::byte> bytes(length);
                std::memcpy(bytes.data(), &body, std::min<std::size_t>(length, sizeof body));
                const MessageHeader header = header_of(MessageType::rendezvous, length);
                const bool good =
                    length == 32 + 4 * count && (kind == SourceKind::packed || count > 0);
                EXPECT_EQ(check_message(header, bytes.data(), length), good) << length;
                if (!good) {
                    continue;
                }
                EXPECT_FALSE(check_message(header, bytes.data(), length - 1));
                const RendezvousBody read = read_rendezvous(header, bytes.data());
                EXPECT_EQ(read.bytes, body.bytes);
                EXPECT_EQ(read.address, body.address);
                EXPECT_EQ(read.kind, kind);
                EXPECT_EQ(read.key_count, count);
                for (std::uint32_t i = 0; i < kMaxRails; ++i) {
                    EXPECT_EQ(read.keys[i], i < count ? 100 + i : 0) << i;
                }
            }
        }
    }
}

// Only the subchannels in use cross the wire, so that a small datagram holds some.
TEST(Wire, AConnectRequestIsAsLongAsItsSubchannels) {
    for (std::uint32_t count = 0; count <= kMaxSubchannels + 1; ++count) {
        SCOPED_TRACE(count);
        ConnectBody body = connect_body();
        body.subchannel_count = count;
        for (std::uint32_t i = 0; i < kMaxSubchannels; ++i) {
            body.subchannels[i].qp = 100 + i;
        }
        for (std::uint32_t length = 1; length <= 336; ++length) {
            std::vector<std::byte> bytes(length); // a sanitizer sees a read beyond it
            std::memcpy(bytes.data(), &body, std::min<std::size_t>(length, sizeof body));
            const MessageHeader header = header_of(MessageType::connect_reply, length);
            const bool good = count >= 1 && count <= kMaxSubchannels && length == 64 + 16 * count;
            EXPECT_EQ(check_message(header, bytes.data(), length), good) << length;
            if (good) {
                const ConnectBody read = read_connect(header, bytes.data());
                EXPECT_EQ(read.subchannels[count - 1].qp, 100 + count - 1);
                EXPECT_EQ(count == kMaxSubchannels ? 0 : read.subchannels[count].qp, 0u);
            }
        }
    }
}

TEST(Wire, ARendezvousWhoseCountIsOutOfRangeHasNoLength) {
    for (const std::uint32_t count : {kMaxRails + 1, kMaxRails + 2, 0x40000000u, UINT32_MAX}) {
        RendezvousBody body = direct_body();
        body.key_count = count; // 4 * 0x40000000 wraps to 0
        for (std::uint32_t length = 32; length <= 64; length += 4) {
            const std::vector<std::byte> bytes = bytes_of(body, length);
            const MessageHeader header = header_of(MessageType::rendezvous, length);
            EXPECT_FALSE(check_message(header, bytes.data(), length)) << count << " " << length;
        }
    }
}

TEST(Wire, CheckMessageLooksAtTheBodyOfEachTypeThatHasRanges) {
    RendezvousBody rendezvous = direct_body();
    rendezvous.key_count = kMaxRails + 1;
    expect_checked(MessageType::rendezvous, direct_body(), rendezvous, rendezvous_bytes(1));
    ClearBody clear{};
    clear.key_count = kMaxRails + 1;
    expect_checked(MessageType::clear_to_send, ClearBody{}, clear);
    BlockBody block{};
    block.length = 1;
    block.key_count = 1;
    expect_checked(MessageType::block, block, BlockBody{});
    for (const MessageType type :
         {MessageType::connect_request, MessageType::connect_reply, MessageType::connect_confirm}) {
        expect_checked(type, connect_body(), ConnectBody{}, connect_bytes(1));
    }
}

TEST(Wire, CheckMessageReadsNothingOfAMessageWithoutBody) {
    EXPECT_FALSE(check_message(header_of(MessageType::disconnect, 0), nullptr, 0));
    EXPECT_TRUE(check_message(header_of(MessageType::eager, 0), nullptr, 0));
    EXPECT_FALSE(check_message(header_of(MessageType::rendezvous, 64), nullptr, 63));
}

// -------------------------------------------------------------------------------------------------
// Sequence numbers

TEST(Wire, SequenceNumbersAreOrderedAroundTheWrap) {
    EXPECT_TRUE(sequence_before(0, 1));
    EXPECT_FALSE(sequence_before(1, 0));
    EXPECT_FALSE(sequence_before(7, 7));
    EXPECT_TRUE(sequence_before(UINT32_MAX, 0));
    EXPECT_FALSE(sequence_before(0, UINT32_MAX));
    EXPECT_TRUE(sequence_before(0xfffffff0u, 0x10u));
    EXPECT_TRUE(sequence_before(0, 0x7fffffffu));
    EXPECT_FALSE(sequence_before(0x7fffffffu, 0));
    EXPECT_TRUE(sequence_before(0x80000001u, 0));
}

} // namespace
} // namespace adaptib
