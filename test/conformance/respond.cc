// SPDX-License-Identifier: BSD-3-Clause
// Conformance: responders, which answer questions no matter what their process does.
#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

constexpr std::uint64_t kResponderKey = 0x5ec2e7;
constexpr std::size_t kQuestion = 24;

// Answers a question that begins with 'q': repeats it with each byte incremented; the last byte
// names the rail. Gives no answer to any other question.
class Echo final : public Answerer {
public:
    Reply answer(std::uint32_t rail, std::span<const std::byte> question,
                 std::span<std::byte> reply) const noexcept override {
        ++asked;
        if (question.size() != kQuestion || question[0] != std::byte{'q'} ||
            reply.size() < kMostQuestion) {
            return {};
        }
        for (std::size_t i = 0; i < question.size(); ++i) {
            reply[i] = static_cast<std::byte>(std::to_integer<int>(question[i]) + 1);
        }
        reply[kQuestion - 1] = static_cast<std::byte>(rail);
        return {question.size(), kTestKey, to[rail], 0};
    }

    std::vector<RailAddress> to; // by rail: address of the asking node
    mutable std::atomic<std::size_t> asked{0};
};

// Node 0 asks. Node 1 has responders; once they are started, the test neither progresses nor polls
// node 1.
class Respond : public Fixture {
protected:
    void SetUp() override {
        Fixture::SetUp();
        if (IsSkipped() || HasFatalFailure()) {
            return;
        }
        if (!has(Capability::ud)) {
            GTEST_SKIP() << "the rail lacks ud";
        }
        for (std::size_t i = 0; i < rail_count(); ++i) {
            echo_.to.push_back(rail(0, i).address());
        }
        EXPECT_EQ(fabric(1).responder_qp(0), 0u) << "before it was asked for";
        if (const Status status = fabric(1).respond(echo_, kResponderKey); !status.ok()) {
            ASSERT_EQ(status, Status::error(Reason::not_supported));
            EXPECT_EQ(fabric(1).responder_qp(0), 0u);
            GTEST_SKIP() << "the fabric has no responders";
        }
        for (std::size_t i = 0; i < rail_count(); ++i) {
            EndOptions options;
            options.type = QpType::ud;
            options.rail = i;
            asker_.push_back(&end(0, options));
            start_ud(*asker_.back());
            to_.push_back(&handle(0, 1, i));
            question_.push_back(&memory(0, kMostQuestion, kAllAccess, i));
            answer_.push_back(&memory(0, info(i).datagram_bytes, kAllAccess, i));
        }
    }
    // Asks a question that begins with `first`; only 'q' can be answered. Leaves its receive posted
    // when no answer comes.
    void ask(std::size_t index, char first, std::uint64_t key, Bytes length = kQuestion) {
        Buffer& question = *question_[index];
        fill(question.data(), question.size(), index);
        question.data()[0] = static_cast<std::byte>(first);
        const std::vector<Gather> gather{question.gather(0, length)};
        SendWork work = send_work(1, gather);
        work.address_handle = to_[index];
        work.remote_qp = responder_[index];
        work.remote_access_key = key;
        const std::size_t before = asker_[index]->receive->got.size();
        ASSERT_EQ(
            post_receive(*asker_[index], 7, {answer_[index]->gather(0, answer_[index]->size())}),
            kOk);
        ASSERT_EQ(run(*asker_[index], work), WorkStatus::success);
        got_ = wait_for(*asker_[index]->receive, before + 1,
                        has(Capability::reliable_ud) && expected_ ? kLong : kQuiet);
    }
    // Repeats a valid question until an answer comes, since questions and answers may get lost.
    bool is_answered(std::size_t index) {
        expected_ = true;
        for (int attempt = 0; attempt < kAttempts && !HasFatalFailure(); ++attempt) {
            ask(index, 'q', kResponderKey);
            if (got_) {
                return true;
            }
        }
        return false;
    }
    // Repeats a question that must not be answered; true if any answer comes.
    bool is_answered(std::size_t index, char first, std::uint64_t key, Bytes length = kQuestion) {
        expected_ = false;
        bool any = false;
        for (int attempt = 0; attempt < 5 && !HasFatalFailure(); ++attempt) {
            ask(index, first, key, length);
            any = any || got_;
        }
        return any;
    }
    void find_responders() {
        for (std::size_t i = 0; i < rail_count(); ++i) {
            responder_.push_back(fabric(1).responder_qp(static_cast<std::uint32_t>(i)));
            ASSERT_NE(responder_[i], 0u);
        }
    }

    static constexpr int kAttempts = 50;

    Echo echo_;
    std::vector<End*> asker_; // by rail, like all vectors here
    std::vector<AddressHandle*> to_;
    std::vector<Buffer*> question_;
    std::vector<Buffer*> answer_;
    std::vector<std::uint32_t> responder_;
    bool expected_ = true;
    bool got_ = false;
};
ADAPTIB_CONFORMANCE(Respond);

TEST_P(Respond, EachRailAnswersWhoAsks) {
    find_responders();
    for (std::size_t i = 0; i < rail_count(); ++i) {
        for (int round = 0; round < 3; ++round) {
            ASSERT_TRUE(is_answered(i));
            const WorkCompletion& done = asker_[i]->receive->got.back();
            EXPECT_EQ(done.status, WorkStatus::success);
            EXPECT_EQ(done.length, kQuestion);
            EXPECT_EQ(done.source_qp, responder_[i]);
            for (std::size_t k = 0; k + 1 < kQuestion; ++k) {
                EXPECT_EQ(std::to_integer<int>(answer_[i]->data()[k]),
                          (std::to_integer<int>(question_[i]->data()[k]) + 1) & 0xff);
            }
            EXPECT_EQ(answer_[i]->data()[kQuestion - 1], static_cast<std::byte>(i));
        }
    }
}

TEST_P(Respond, WhoHasAWrongKeyIsNotHeard) {
    find_responders();
    const std::size_t asked = echo_.asked;
    EXPECT_FALSE(is_answered(0, 'q', kResponderKey + 1));
    EXPECT_FALSE(is_answered(0, 'q', kTestKey));
    EXPECT_EQ(echo_.asked, asked) << "nor does the answerer see it";
    EXPECT_TRUE(is_answered(0));
}

TEST_P(Respond, WhatTheAnswererHasNoAnswerToGetsNone) {
    find_responders();
    EXPECT_FALSE(is_answered(0, 'x', kResponderKey));
    EXPECT_FALSE(is_answered(0, 'q', kResponderKey, kQuestion - 1));
    EXPECT_FALSE(is_answered(0, 'q', kResponderKey, 0));
    EXPECT_TRUE(is_answered(0));
}

TEST_P(Respond, EndsWithItsFabric) {
    if (!world().can_end_nodes()) {
        GTEST_SKIP() << "the world cannot end nodes";
    }
    find_responders();
    ASSERT_TRUE(is_answered(0));
    wait([] { return false; }, kQuiet); // lets late datagrams arrive
    destroy_node_objects(1);
    ASSERT_TRUE(world().end_node(1));
    const std::size_t asked = echo_.asked;
    EXPECT_FALSE(is_answered(0, 'q', kResponderKey));
    EXPECT_EQ(echo_.asked, asked);
}

} // namespace
} // namespace adaptib::conformance
