// SPDX-License-Identifier: BSD-3-Clause
// A responder's answers, and which questions get one: in the format of datagrams, byte by byte.
#include "recovery/life_answerer.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace adaptib {
namespace {

constexpr std::uint64_t kName = 7;
constexpr std::uint64_t kKey = 0x1234'5678'9abc'def0;
constexpr std::uint64_t kAskersKey = 0xfeed'feed'feed'feed;

RailAddress address_of(std::uint8_t value) {
    RailAddress address;
    address.size = 24;
    address.bytes.fill(std::byte{value});
    return address;
}

struct Question {
    DatagramHeader prefix;
    MessageHeader header;
    LifeBody body{};
};
static_assert(sizeof(Question) ==
              sizeof(DatagramHeader) + sizeof(MessageHeader) + sizeof(LifeBody));

Question question() {
    Question asked;
    asked.prefix.target_key = kKey;
    asked.prefix.source = 99;
    asked.prefix.source_key = kAskersKey;
    asked.header.type = MessageType::life_question;
    asked.header.length = sizeof(LifeBody);
    asked.body.sequence = 41;
    asked.body.path = 3;
    asked.body.size = 8;
    asked.body.bytes.fill(std::byte{77});
    return asked;
}

class Answering : public testing::Test {
protected:
    Answering() {
        answerer.set_address(0, address_of(10));
        answerer.set_address(1, address_of(11));
    }
    Answerer::Reply ask(const Question& asked, std::size_t bytes = sizeof(Question),
                        std::uint32_t rail = 1) {
        std::array<std::byte, kMostQuestion> from{};
        std::array<std::byte, kMostQuestion> to{};
        std::memcpy(from.data(), &asked, sizeof asked);
        const Answerer::Reply reply = answerer.answer(rail, std::span(from).first(bytes), to);
        std::memcpy(&answer, to.data(), sizeof answer);
        return reply;
    }

    LifeAnswerer answerer{kName, kKey, 2};
    Question answer;
};

TEST_F(Answering, SaysWhoLivesWhereAndWhetherItCallsMpi) {
    answerer.beat();
    const Answerer::Reply reply = ask(question());
    ASSERT_EQ(reply.length, sizeof(Question));
    EXPECT_EQ(reply.access_key, kAskersKey) << "the queue pair's that has asked";
    EXPECT_EQ(reply.to.size, 8u) << "where that is reached";
    EXPECT_EQ(reply.to.bytes[7], std::byte{77});
    EXPECT_EQ(reply.path, 3u);
    EXPECT_EQ(answer.prefix.target_key, kAskersKey);
    EXPECT_EQ(answer.prefix.source, kName);
    EXPECT_EQ(answer.prefix.source_key, kKey);
    EXPECT_EQ(answer.prefix.rail, 3) << "as it is published";
    EXPECT_EQ(answer.header.type, MessageType::life_answer);
    EXPECT_EQ(answer.body.sequence, 41u);
    EXPECT_EQ(answer.body.path, 3u);
    EXPECT_EQ(answer.body.beats, 1u);
    EXPECT_EQ(answer.body.size, 24u);
    EXPECT_EQ(answer.body.bytes[0], std::byte{11});
    EXPECT_TRUE(check_message(answer.header, reinterpret_cast<const std::byte*>(&answer.body),
                              sizeof(LifeBody)));
    EXPECT_EQ(answer.body.changes, 0u);
    RailAddress now = address_of(12);
    now.changes = 0xfffe;
    answerer.set_address(1, now);
    answerer.beat();
    ASSERT_GT(ask(question()).length, 0u);
    EXPECT_EQ(answer.body.bytes[0], std::byte{12});
    EXPECT_EQ(answer.body.size, 24u);
    EXPECT_EQ(answer.body.changes, 0xfffeu);
    EXPECT_EQ(answer.body.beats, 2u);
}

TEST_F(Answering, AnswersNothingElse) {
    const auto refused = [&](const auto& spoil) {
        Question asked = question();
        spoil(asked);
        return ask(asked).length == 0;
    };
    EXPECT_FALSE(refused([](Question&) {}));
    EXPECT_TRUE(refused([](Question& asked) { asked.prefix.target_key ^= 1; }));
    EXPECT_TRUE(refused([](Question& asked) { asked.prefix.magic ^= 1; }));
    EXPECT_TRUE(refused([](Question& asked) { ++asked.prefix.version; }));
    EXPECT_TRUE(refused([](Question& asked) { asked.header.magic ^= 1; }));
    EXPECT_TRUE(refused([](Question& asked) { asked.header.type = MessageType::life_answer; }));
    EXPECT_TRUE(refused([](Question& asked) { asked.header.type = MessageType::probe; }));
    EXPECT_TRUE(refused([](Question& asked) { asked.header.length = 0; }));
    EXPECT_TRUE(refused([](Question& asked) { asked.body.sequence = 0; }));
    EXPECT_TRUE(refused([](Question& asked) { asked.body.size = 65; }));
    EXPECT_TRUE(refused([](Question& asked) { asked.body.path = 200; }));
    for (std::size_t bytes = 0; bytes < sizeof(Question); ++bytes) {
        EXPECT_EQ(ask(question(), bytes).length, 0u) << bytes;
    }
    EXPECT_EQ(ask(question(), sizeof(Question) + 1).length, 0u);
    EXPECT_EQ(ask(question(), sizeof(Question), kMaxRails).length, 0u);
}

// A reader never gets parts of two addresses, even while another thread writes.
TEST_F(Answering, TellsWholeAddressesToAnyThread) {
    std::atomic<bool> over{false};
    std::thread writer([&] {
        for (std::uint8_t i = 0; !over.load(); ++i) {
            answerer.set_address(1, address_of(i));
            answerer.beat();
        }
    });
    std::uint64_t beats = 0;
    for (int i = 0; i < 20'000; ++i) {
        ASSERT_GT(ask(question()).length, 0u);
        EXPECT_GE(answer.body.beats, beats);
        beats = answer.body.beats;
        if (answer.body.size > 0) {
            for (std::size_t at = 1; at < 24; ++at) {
                ASSERT_EQ(answer.body.bytes[at], answer.body.bytes[0]);
            }
        }
    }
    over = true;
    writer.join();
}

} // namespace
} // namespace adaptib
