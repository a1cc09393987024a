// SPDX-License-Identifier: BSD-3-Clause
// Tagged messages through the C interface, of a process with itself: results, lengths, probes and
// cancels.
#include "common_adaptib_two_sided.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "unit/interface/other_process.h"

namespace adaptib::test {
namespace {

constexpr std::int32_t kAnySource = OPAL_COMMON_ADAPTIB_ANY_SOURCE;
constexpr std::int32_t kAnyTag = OPAL_COMMON_ADAPTIB_ANY_TAG;

class Messages : public ProcessCore {
protected:
    void SetUp() override {
        ASSERT_EQ(acquire(), kSuccess);
        self_ = self();
    }
    void TearDown() override {
        EXPECT_TRUE(messages_.empty());
        ProcessCore::TearDown();
    }
    int send(std::int32_t tag, const opal_common_adaptib_data_t& data, Request& request,
             opal_common_adaptib_mode_t mode = OPAL_COMMON_ADAPTIB_MODE_STANDARD) {
        const opal_common_adaptib_envelope_t envelope{0, 3, tag};
        return opal_common_adaptib_send(core_, self_, &envelope, &data, mode,
                                        OPAL_COMMON_ADAPTIB_BLOCKING, &request.user);
    }
    int send(std::int32_t tag, const void* base, std::size_t bytes) {
        Request request;
        return send(tag, data_of(const_cast<void*>(base), bytes), request);
    }
    int receive(std::int32_t source, std::int32_t tag, const opal_common_adaptib_data_t& data,
                Request& request) {
        const opal_common_adaptib_envelope_t envelope{0, source, tag};
        return opal_common_adaptib_receive(core_, nullptr, &envelope, &data, &request.user);
    }
    int probe(std::int32_t tag, opal_common_adaptib_probe_t& found) {
        const opal_common_adaptib_envelope_t envelope{0, kAnySource, tag};
        return opal_common_adaptib_probe(core_, nullptr, &envelope, &found);
    }
    int take(std::int32_t tag, opal_common_adaptib_probe_t& found,
             opal_common_adaptib_message_t*& message) {
        const opal_common_adaptib_envelope_t envelope{0, kAnySource, tag};
        return opal_common_adaptib_matched_probe(core_, nullptr, &envelope, &found, &message);
    }

    opal_common_adaptib_peer_t* self_ = nullptr;
};

constexpr char kText[] = "twelve chars";

TEST_F(Messages, AMessageSaysWhereItIsFrom) {
    ASSERT_EQ(send(8, kText, sizeof kText), kComplete);
    char got[32] = {};
    Request request;
    ASSERT_EQ(receive(kAnySource, kAnyTag, data_of(got, sizeof got), request), kComplete);
    EXPECT_STREQ(got, kText);
    EXPECT_EQ(request.user.status, kSuccess);
    EXPECT_EQ(request.user.bytes, sizeof kText);
    EXPECT_EQ(request.user.source, 3);
    EXPECT_EQ(request.user.tag, 8);
    EXPECT_EQ(request.reported, 0) << "COMPLETE says it";
}

TEST_F(Messages, APostedReceiveIsReportedOnce) {
    char got[32] = {};
    Request request;
    ASSERT_EQ(receive(3, 8, data_of(got, sizeof got), request), kSuccess);
    ASSERT_EQ(send(8, kText, sizeof kText), kComplete);
    ASSERT_TRUE(run([&] { return request.reported > 0; }));
    opal_common_adaptib_progress(core_);
    EXPECT_EQ(request.reported, 1);
    EXPECT_STREQ(got, kText);
    EXPECT_EQ(request.user.bytes, sizeof kText);
}

// The user may look at both requests as soon as the call returns, and only once.
TEST_F(Messages, WhatAMessageToOneselfEndsIsReportedWithinTheCall) {
    char got[32] = {};
    {
        Request received;
        Request sent;
        ASSERT_EQ(receive(3, 8, data_of(got, sizeof got), received), kSuccess);
        EXPECT_EQ(
            send(8, data_of(const_cast<char*>(kText), 5), sent, OPAL_COMMON_ADAPTIB_MODE_SYNC),
            kComplete);
        EXPECT_EQ(received.reported, 1);
    }
    for (const bool matched : {false, true}) {
        Request sent;
        Request received;
        ASSERT_EQ(
            send(8, data_of(const_cast<char*>(kText), 5), sent, OPAL_COMMON_ADAPTIB_MODE_SYNC),
            kSuccess);
        if (matched) {
            opal_common_adaptib_probe_t found{};
            opal_common_adaptib_message_t* message = nullptr;
            ASSERT_EQ(take(8, found, message), kSuccess);
            const auto data = data_of(got, sizeof got);
            ASSERT_EQ(opal_common_adaptib_matched_receive(core_, message, &data, &received.user),
                      kComplete);
        } else {
            ASSERT_EQ(receive(3, 8, data_of(got, sizeof got), received), kComplete);
        }
        EXPECT_EQ(sent.reported, 1);
        EXPECT_EQ(received.reported, 0) << "COMPLETE says it";
    }
}

TEST_F(Messages, AContextThatEndsTakesItsMessagesAlong) {
    Request waits;
    ASSERT_EQ(send(1, kText, sizeof kText), kComplete);
    ASSERT_EQ(send(2, data_of(const_cast<char*>(kText), 5), waits, OPAL_COMMON_ADAPTIB_MODE_SYNC),
              kSuccess);
    opal_common_adaptib_end_context(core_, 1);
    opal_common_adaptib_probe_t found{};
    EXPECT_EQ(probe(1, found), kSuccess) << "it is another context's";
    EXPECT_EQ(waits.reported, 0);
    opal_common_adaptib_end_context(core_, 0);
    EXPECT_EQ(probe(kAnyTag, found), OPAL_COMMON_ADAPTIB_NOT_FOUND);
    EXPECT_EQ(waits.reported, 1);
    EXPECT_EQ(waits.user.status, kSuccess);
    ASSERT_EQ(send(1, kText, sizeof kText), kComplete);
    EXPECT_EQ(probe(1, found), kSuccess) << "the number is used again";
}

// Only a device can read a buffer again and again; messages to oneself are copied as ever.
TEST_F(Messages, ABufferThatIsSentToOneselfAgainAndAgainMayBeAnnounced) {
    opal_common_adaptib_expect_reuse(core_, self_, kText, sizeof kText);
    for (int round = 0; round < 3; ++round) {
        ASSERT_EQ(send(8, kText, sizeof kText), kComplete);
        char got[32] = {};
        Request request;
        ASSERT_EQ(receive(3, 8, data_of(got, sizeof got), request), kComplete);
        EXPECT_STREQ(got, kText);
    }
}

TEST_F(Messages, NothingIsAMessageToo) {
    ASSERT_EQ(send(1, nullptr, 0), kComplete);
    opal_common_adaptib_probe_t found{};
    ASSERT_EQ(probe(1, found), kSuccess);
    EXPECT_EQ(found.bytes, 0u);
    Request request;
    request.user.bytes = 77;
    ASSERT_EQ(receive(3, 1, data_of(nullptr, 0), request), kComplete);
    EXPECT_EQ(request.user.status, kSuccess);
    EXPECT_EQ(request.user.bytes, 0u);
}

TEST_F(Messages, ALongerMessageIsTruncatedToTheRoom) {
    for (const std::size_t room : {std::size_t{0}, std::size_t{1}, sizeof kText - 1}) {
        ASSERT_EQ(send(1, kText, sizeof kText), kComplete);
        std::array<char, 32> got{};
        got.fill('#');
        Request request;
        ASSERT_EQ(receive(3, 1, data_of(got.data(), room), request), kComplete);
        EXPECT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_TRUNCATED);
        EXPECT_EQ(request.user.bytes, room);
        EXPECT_EQ(std::memcmp(got.data(), kText, room), 0);
        EXPECT_TRUE(std::all_of(got.begin() + room, got.end(), [](char c) { return c == '#'; }));
    }
}

TEST_F(Messages, AnyTagMatchesNoNegativeTag) {
    ASSERT_EQ(send(-5, kText, sizeof kText), kComplete);
    opal_common_adaptib_probe_t found{};
    EXPECT_EQ(probe(kAnyTag, found), OPAL_COMMON_ADAPTIB_NOT_FOUND);
    EXPECT_EQ(probe(-5, found), kSuccess);
    EXPECT_EQ(found.tag, -5);
}

TEST_F(Messages, ASynchronousSendWaitsForItsReceive) {
    Request sent;
    ASSERT_EQ(send(1, data_of(const_cast<char*>(kText), sizeof kText), sent,
                   OPAL_COMMON_ADAPTIB_MODE_SYNC),
              kSuccess);
    for (int pass = 0; pass < 100; ++pass) {
        opal_common_adaptib_progress(core_);
    }
    EXPECT_EQ(sent.reported, 0);
    char got[32] = {};
    Request received;
    ASSERT_EQ(receive(3, 1, data_of(got, sizeof got), received), kComplete);
    ASSERT_TRUE(run([&] { return sent.reported > 0; }));
    EXPECT_EQ(sent.user.status, kSuccess);
    EXPECT_STREQ(got, kText);
}

// The fast path is for other processes: the caller sends in the ordinary way.
TEST_F(Messages, TheFastPathDoesNotLeadToItself) {
    EXPECT_EQ(opal_common_adaptib_try_send(core_, self_, 0, 3, 1, kText, sizeof kText),
              OPAL_COMMON_ADAPTIB_AGAIN);
    opal_common_adaptib_probe_t found{};
    EXPECT_EQ(probe(1, found), OPAL_COMMON_ADAPTIB_NOT_FOUND) << "nothing was sent";
}

TEST_F(Messages, AProbeLeavesTheMessageAndItsOutputAlone) {
    opal_common_adaptib_probe_t found{41, 42, 43};
    EXPECT_EQ(probe(1, found), OPAL_COMMON_ADAPTIB_NOT_FOUND);
    EXPECT_EQ(found.source, 41);
    EXPECT_EQ(found.tag, 42);
    EXPECT_EQ(found.bytes, 43u);
    ASSERT_EQ(send(1, kText, sizeof kText), kComplete);
    for (int look = 0; look < 2; ++look) {
        EXPECT_EQ(probe(1, found), kSuccess);
        EXPECT_EQ(found.source, 3);
        EXPECT_EQ(found.tag, 1);
        EXPECT_EQ(found.bytes, sizeof kText);
    }
    EXPECT_EQ(probe(2, found), OPAL_COMMON_ADAPTIB_NOT_FOUND);
}

TEST_F(Messages, AMatchedMessageIsNobodyElses) {
    opal_common_adaptib_probe_t found{};
    opal_common_adaptib_message_t* message = nullptr;
    EXPECT_EQ(take(1, found, message), OPAL_COMMON_ADAPTIB_NOT_FOUND);
    EXPECT_EQ(message, nullptr);
    ASSERT_EQ(send(1, kText, sizeof kText), kComplete);
    ASSERT_EQ(take(1, found, message), kSuccess);
    ASSERT_NE(message, nullptr);
    EXPECT_EQ(found.bytes, sizeof kText);
    opal_common_adaptib_message_t* other = nullptr;
    EXPECT_EQ(take(1, found, other), OPAL_COMMON_ADAPTIB_NOT_FOUND);
    EXPECT_EQ(other, nullptr);
    char got[5] = {};
    const auto room = data_of(got, 4);
    Request request;
    ASSERT_EQ(opal_common_adaptib_matched_receive(core_, message, &room, &request.user), kComplete);
    EXPECT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_TRUNCATED);
    EXPECT_STREQ(got, "twel");
}

TEST_F(Messages, OnlyAReceiveThatWaitsCanBeCancelled) {
    char got[32] = {};
    Request request;
    ASSERT_EQ(receive(3, 1, data_of(got, sizeof got), request), kSuccess);
    EXPECT_EQ(opal_common_adaptib_cancel(core_, &request.user), kSuccess);
    EXPECT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_CANCELLED);
    EXPECT_EQ(opal_common_adaptib_cancel(core_, &request.user), OPAL_COMMON_ADAPTIB_NOT_FOUND);
    EXPECT_EQ(request.reported, 0);
    Request sent;
    ASSERT_EQ(send(1, data_of(const_cast<char*>(kText), sizeof kText), sent,
                   OPAL_COMMON_ADAPTIB_MODE_SYNC),
              kSuccess);
    EXPECT_EQ(opal_common_adaptib_cancel(core_, &sent.user), OPAL_COMMON_ADAPTIB_NOT_FOUND)
        << "a send";
    Request second;
    ASSERT_EQ(receive(3, 1, data_of(got, sizeof got), second), kComplete);
    EXPECT_EQ(opal_common_adaptib_cancel(core_, &second.user), OPAL_COMMON_ADAPTIB_NOT_FOUND)
        << "it has its message";
    ASSERT_TRUE(run([&] { return sent.reported > 0; }));
    EXPECT_EQ(request.reported, 0);
}

// Errors of the caller's pack and unpack functions end the requests that they belong to.
TEST_F(Messages, APackerThatFailsEndsTheSendWithAnError) {
    const opal_common_adaptib_data_t broken{
        nullptr, 100, [](void*, std::size_t, void*, std::size_t*) { return -1; },
        [](void*, std::size_t, const void*, std::size_t*) { return -1; }, nullptr};
    Request sent;
    const int code = send(1, broken, sent);
    ASSERT_TRUE(code == kComplete || run([&] { return sent.reported > 0; }));
    EXPECT_EQ(sent.user.status, OPAL_COMMON_ADAPTIB_ERROR);
    opal_common_adaptib_probe_t found{};
    EXPECT_EQ(probe(1, found), OPAL_COMMON_ADAPTIB_NOT_FOUND) << "half a message";

    ASSERT_EQ(send(2, kText, sizeof kText), kComplete);
    Request received;
    ASSERT_EQ(receive(3, 2, broken, received), kComplete);
    EXPECT_EQ(received.user.status, OPAL_COMMON_ADAPTIB_ERROR);
}

class MessagesOfThreads : public TwoProcesses {};

// A pass that only completes something has done something, too.
TEST_F(MessagesOfThreads, ProgressReturnsWhatItHasHandled) {
    static constexpr bool kThreads = true;
    environment_.threads = &kThreads;
    process_parameters().endpoints = 1;
    begin();
    static_cast<void>(other());
    int word = 5;
    int got = 0;
    Request received;
    ASSERT_EQ(
        opal_common_adaptib_recv_contig(core_, nullptr, 0, 0, 7, &got, sizeof got, &received.user),
        kSuccess);
    Peer* self_there = nullptr;
    ASSERT_TRUE(other_core().peers().get(kSelf, self_there).ok());
    TestRequest sent;
    bool complete = false;
    ASSERT_TRUE(other_core()
                    .protocol()
                    .sends()
                    .send(self_there, {0, 0, 7}, contiguous(&word, sizeof word), false,
                          OpKind::blocking, sent.user, complete)
                    .ok());
    for (int pass = 0; pass < 10'000 && received.reported == 0; ++pass) {
        others_->progress();
        const int handled = opal_common_adaptib_progress(core_);
        EXPECT_GE(handled, received.reported) << "the message and its completion";
    }
    EXPECT_EQ(received.reported, 1);
    EXPECT_EQ(got, 5);
}

} // namespace
} // namespace adaptib::test
