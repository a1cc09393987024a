// SPDX-License-Identifier: BSD-3-Clause
// RmaTarget: it serves an offer that stands and that is valid, and nothing else.
#include "protocol/intranode/rma_target.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "unit/protocol/two_ends.h"

namespace adaptib::test {
namespace {

constexpr Bytes kUnit = SharedWork::kUnit;
constexpr Bytes kLength = 8 * kUnit;

class Target : public testing::Test {
protected:
    // The initiator's message. `payload`: bytes behind the body.
    void operate(Opcode opcode, std::uint64_t number, std::uint32_t length, Bytes payload) {
        std::vector<std::byte> message(sizeof(OperateBody) + payload, std::byte{0x5a});
        OperateBody body{};
        body.number = number;
        body.remote_address = reinterpret_cast<std::uintptr_t>(theirs.data());
        body.remote_key = kRemoteKey;
        body.length = length;
        std::memcpy(message.data(), &body, sizeof body);
        MessageHeader header;
        header.type = MessageType::operate;
        header.flags = static_cast<std::uint8_t>(opcode);
        header.length = static_cast<std::uint32_t>(message.size());
        ends.target.on_operate(*ends.here, header, message.data());
    }
    AnswerState answer() { return static_cast<AnswerState>(ends.slot().word & 0xff); }
    void offer(std::uint64_t number) {
        ends.slot().word = answer_word(number, AnswerState::offered);
    }
    // An offer of a get, as the initiator makes it.
    CooperativeCopyBody copy(std::uint8_t staging_units = 0) {
        CooperativeCopyBody body{};
        body.number = 3;
        body.theirs = reinterpret_cast<std::uintptr_t>(theirs.data());
        body.ours = reinterpret_cast<std::uintptr_t>(ours.data());
        body.length = kLength;
        body.their_key = kRemoteKey;
        body.our_key = kLocalKey;
        body.opcode = static_cast<std::uint8_t>(Opcode::write);
        body.staging_units = staging_units;
        body.staging = reinterpret_cast<std::uintptr_t>(staging.data());
        ends.slot().make_offer(body);
        return body;
    }
    SharedWork state() { return SharedWork::of(ends.slot().shared_word().load()); }

    TwoEnds ends;
    std::vector<std::byte> theirs = std::vector<std::byte>(kLength, std::byte{1});
    std::vector<std::byte> ours = std::vector<std::byte>(kLength, std::byte{2});
    std::vector<std::byte> staging = std::vector<std::byte>(kLength, std::byte{3});
};

TEST_F(Target, ServesAnOfferOnce) {
    offer(9);
    operate(Opcode::write, 9, 64, 64);
    EXPECT_EQ(answer(), AnswerState::done);
    EXPECT_EQ(theirs[63], std::byte{0x5a});
    EXPECT_EQ(theirs[64], std::byte{1});
    theirs[0] = std::byte{7};
    operate(Opcode::write, 9, 64, 64);
    EXPECT_EQ(theirs[0], std::byte{7}) << "the offer is over";
    EXPECT_EQ(ends.served.operations_served, 1u);
}

TEST_F(Target, AnswersAReadThroughTheSlot) {
    offer(9);
    operate(Opcode::read, 9, 64, 0);
    EXPECT_EQ(answer(), AnswerState::done);
    EXPECT_EQ(ends.here->transfers.answer_data[63], std::byte{1});
    EXPECT_EQ(ends.here->transfers.answer_data[64], std::byte{0});
}

TEST_F(Target, ChecksAnOffer) {
    offer(9);
    operate(Opcode::write, 9, 64, 63); // not the length that it names
    operate(Opcode::read, 9, 64, 1);
    operate(Opcode::read, 9, 0, 0);
    operate(Opcode::read, 9, kMaxAssisted + 1, 0);
    EXPECT_EQ(ends.served.bad_packets, 4u);
    EXPECT_EQ(answer(), AnswerState::offered);
    ends.targets_qp().serves = false;
    operate(Opcode::read, 9, 64, 0);
    EXPECT_EQ(answer(), AnswerState::refused);
}

TEST_F(Target, DoesNothingBeforeItsEndOfTheConnectionIsOpen) {
    offer(9);
    ends.here->transfers.answer_data = nullptr;
    operate(Opcode::read, 9, 64, 0);
    EXPECT_EQ(ends.slot().word, answer_word(9, AnswerState::offered));
    EXPECT_EQ(ends.served.bad_packets, 0u);
}

TEST_F(Target, CopiesFromTheBackUntilNothingIsLeft) {
    const CooperativeCopyBody body = copy();
    SharedWork begun = state();
    begun.front = 2;
    ends.slot().shared_word() = begun.word(); // taken by the initiator
    ends.target.on_cooperative_copy(*ends.here, body);
    EXPECT_EQ(state().back, 6u);
    EXPECT_EQ(state().done, 6u);
    EXPECT_EQ(ours[2 * kUnit - 1], std::byte{2});
    EXPECT_EQ(ours[2 * kUnit], std::byte{1});
    EXPECT_EQ(ours.back(), std::byte{1});
    EXPECT_EQ(ends.served.rdma_write_bytes, 6 * kUnit);
}

TEST_F(Target, SaysThatItCannotCopy) {
    const CooperativeCopyBody body = copy();
    ends.targets_qp().serves = false;
    ends.target.on_cooperative_copy(*ends.here, body);
    EXPECT_TRUE(state().refused);
    EXPECT_EQ(state().done, 0u);
}

TEST_F(Target, ChecksTheFieldsOfACopy) {
    for (int field = 0; field < 4; ++field) {
        CooperativeCopyBody body = copy();
        switch (field) {
        case 0: body.length = kMinCooperative - 1; break;
        case 1: body.length = SharedWork::kMostUnits * kUnit + 1; break;
        case 2: body.number = SharedWork::kNumbers + 1; break;
        default: body.opcode = static_cast<std::uint8_t>(Opcode::fetch_add); break;
        }
        ends.target.on_cooperative_copy(*ends.here, body);
    }
    EXPECT_EQ(ends.served.bad_packets, 4u);
    EXPECT_EQ(state().back, 0u);
}

TEST_F(Target, StagesTheBufferOfASend) {
    CooperativeCopyBody body = copy(8);
    body.send_id = ends.send(theirs);
    ends.target.on_cooperative_copy(*ends.here, body);
    EXPECT_EQ(state().done, 8u);
    EXPECT_EQ(staging, theirs);
}

TEST_F(Target, StagesNothingBeyondTheBufferOfASend) {
    CooperativeCopyBody body = copy(8);
    body.send_id = ends.send(std::span<std::byte>(theirs).first(kLength - 1));
    ends.target.on_cooperative_copy(*ends.here, body);
    const std::uint64_t whole = ends.send(theirs);
    body.send_id = whole + 1;
    ends.target.on_cooperative_copy(*ends.here, body);
    body.send_id = whole;
    body.opcode = static_cast<std::uint8_t>(Opcode::read); // a send's buffer is never written
    ends.target.on_cooperative_copy(*ends.here, body);
    EXPECT_EQ(state().back, 0u);
    EXPECT_EQ(staging[0], std::byte{3});
}

TEST_F(Target, StagesLentMemoryByTheProcessor) {
    LentMemory::Range range{
        reinterpret_cast<std::uintptr_t>(theirs.data()), kLength, kRemoteRead, {}};
    ends.lent.lend(range);
    ends.targets_qp().serves = false;
    ends.target.on_cooperative_copy(*ends.here, copy(8));
    EXPECT_EQ(state().done, 8u);
    EXPECT_EQ(staging, theirs);
    ends.lent.take_back(range);
    ends.target.on_cooperative_copy(*ends.here, copy(8));
    EXPECT_TRUE(state().refused) << "a window, by the rules of its key";
}

// While this process waits as an initiator, it helps the peer unit by unit.
TEST_F(Target, HelpsWithACrossingCopy) {
    CooperativeCopyBody body = copy(8);
    ends.slot().close_offer();
    body.send_id = ends.send(theirs);
    CrossingHelp help;
    EXPECT_FALSE(ends.target.step_crossing(*ends.here, help)) << "the offer is closed";
    ends.slot().make_offer(body);
    for (std::uint32_t unit = 1; unit <= 8; ++unit) {
        EXPECT_TRUE(ends.target.step_crossing(*ends.here, help));
        EXPECT_EQ(state().done, unit);
    }
    EXPECT_FALSE(ends.target.step_crossing(*ends.here, help));
    EXPECT_FALSE(help.offer.has_value());
    EXPECT_EQ(ends.served.rdma_write_bytes, kLength);
    EXPECT_EQ(staging, theirs);
}

} // namespace
} // namespace adaptib::test
