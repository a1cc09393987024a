// SPDX-License-Identifier: BSD-3-Clause
// The model of matching: histories that MPI allows pass, others fail.
#include "simulator/torture/model.h"

#include <gtest/gtest.h>

#include "simulator/torture/payload.h"

namespace adaptib::torture {
namespace {

constexpr std::int32_t kAnySource = Envelope::kAnySource;
constexpr std::int32_t kAnyTag = Envelope::kAnyTag;
constexpr std::uint32_t kReceiver = 9;

// A history at one rank: each event gets the time of its place in the test.
class Story {
public:
    std::size_t send(std::int32_t from, std::int32_t tag, Bytes bytes = 16,
                     bool synchronous = false, std::uint32_t context = 0) {
        const auto id = static_cast<std::uint32_t>(history_.messages.size());
        history_.messages.push_back({id,
                                     kReceiver,
                                     {context, from, tag},
                                     bytes,
                                     1000 + id,
                                     synchronous,
                                     ++now_,
                                     kNever,
                                     0});
        if (!synchronous) {
            sent(id);
        }
        return id;
    }
    void sent(std::size_t message) { history_.messages[message].completed = ++now_; }

    // `takes`: the message that is there and that the receive gets at once.
    std::size_t receive(std::int32_t source, std::int32_t tag, int takes = -1, Bytes room = 16,
                        std::uint32_t context = 0) {
        const auto id = static_cast<std::uint32_t>(history_.receives.size());
        Received& receive = history_.receives.emplace_back();
        receive.id = id;
        receive.rank = kReceiver;
        receive.pattern = {context, source, tag};
        receive.room = room;
        receive.posted = ++now_;
        receive.at_once = takes >= 0;
        if (takes >= 0) {
            got(id, static_cast<std::size_t>(takes));
        }
        return id;
    }
    Received& got(std::size_t receive, std::size_t message) {
        Received& receiver = history_.receives[receive];
        const SentMessage& sender = history_.messages[message];
        receiver.completed = ++now_;
        receiver.source = sender.envelope.source;
        receiver.tag = sender.envelope.tag;
        receiver.bytes = std::min(sender.bytes, receiver.room);
        receiver.status = sender.bytes > receiver.room ? OPAL_COMMON_ADAPTIB_TRUNCATED
                                                       : OPAL_COMMON_ADAPTIB_SUCCESS;
        receiver.digest = payload_digest(sender.payload, receiver.bytes);
        return receiver;
    }
    void cancel(std::size_t receive) { history_.receives[receive].cancelled = ++now_; }
    void probe(std::int32_t source, std::int32_t tag, int shows) {
        Probed& probe = history_.probes.emplace_back();
        probe.rank = kReceiver;
        probe.pattern = {0, source, tag};
        probe.when = ++now_;
        probe.found = shows >= 0;
        if (probe.found) {
            const SentMessage& message = history_.messages[static_cast<std::size_t>(shows)];
            probe.source = message.envelope.source;
            probe.tag = message.envelope.tag;
            probe.bytes = message.bytes;
        }
    }
    void settle() { history_.settled.push_back(++now_); }
    std::size_t active(std::uint32_t from, Bytes bytes = 8) {
        const auto id = static_cast<std::uint32_t>(history_.actives.size());
        history_.actives.push_back({id, from, kReceiver, 3, bytes, 2000 + id, ++now_, now_, 0});
        return id;
    }
    void deliver(std::size_t active) {
        const SentActive& sent = history_.actives[active];
        history_.delivered.push_back({sent.sender, kReceiver, sent.tag, sent.bytes,
                                      payload_digest(sent.payload, sent.bytes), ++now_});
    }

    History& history() { return history_; }
    std::string verdict() const {
        std::string all;
        for (const std::string& problem : check(history_)) {
            all += problem + "\n";
        }
        return all;
    }

private:
    History history_;
    Time now_ = 0;
};

#define EXPECT_LEGAL(story) EXPECT_EQ((story).verdict(), "")
#define EXPECT_ILLEGAL(story, part)                                                                \
    EXPECT_NE((story).verdict().find(part), std::string::npos) << (story).verdict()

TEST(Model, MessagesOfOneSenderInOrder) {
    Story legal;
    const auto a = legal.receive(1, 5);
    const auto b = legal.receive(1, 5);
    const auto first = legal.send(1, 5, 10);
    const auto second = legal.send(1, 5, 12);
    legal.got(b, second); // completions may come in any order
    legal.got(a, first);
    EXPECT_LEGAL(legal);

    Story swapped;
    const auto c = swapped.receive(1, 5);
    const auto d = swapped.receive(1, 5);
    const auto third = swapped.send(1, 5);
    const auto fourth = swapped.send(1, 5);
    swapped.got(c, fourth);
    swapped.got(d, third);
    EXPECT_ILLEGAL(swapped, "the payload is another one");
}

TEST(Model, AMessageMayNotOvertakeAnotherThatFitsTheSameWildcard) {
    Story story;
    story.send(1, 5);
    story.send(1, 6);
    story.receive(1, kAnyTag, 1);
    story.receive(1, kAnyTag, 0);
    EXPECT_ILLEGAL(story, "no order of arrival");

    Story by_tag; // the tag selects the second message
    by_tag.send(1, 5);
    by_tag.send(1, 6);
    by_tag.receive(1, 6, 1);
    by_tag.receive(1, kAnyTag, 0);
    EXPECT_LEGAL(by_tag);
}

TEST(Model, DifferentSendersAndContextsInAnyOrder) {
    Story senders;
    senders.send(1, 5);
    senders.send(2, 5);
    senders.receive(kAnySource, 5, 1);
    senders.receive(kAnySource, 5, 0);
    EXPECT_LEGAL(senders);

    Story contexts;
    contexts.send(1, 5, 16, false, 0);
    contexts.send(1, 5, 16, false, 1);
    contexts.receive(1, 5, 1, 16, 1);
    contexts.receive(1, 5, 0, 16, 0);
    EXPECT_LEGAL(contexts);
}

TEST(Model, AReceiveMayNotOvertakeAnEarlierOneThatFits) {
    Story story; // two posted, the message fits both, the later one gets it
    story.receive(kAnySource, kAnyTag);
    const auto later = story.receive(1, 5);
    const auto first = story.send(1, 5);
    story.got(later, first);
    const auto second = story.send(2, 7);
    story.got(0, second);
    EXPECT_ILLEGAL(story, "must have arrived after");

    Story legal;
    legal.receive(kAnySource, kAnyTag);
    legal.receive(1, 5);
    const auto other = legal.send(2, 7);
    legal.got(0, other);
    const auto own = legal.send(1, 5);
    legal.got(1, own);
    EXPECT_LEGAL(legal);
}

// Each pair alone could be legal, but all of them together form a circle of arrivals.
TEST(Model, ArrivalsThatContradictEachOther) {
    Story story;
    story.send(1, 5);
    story.send(1, 6);
    story.send(2, 5);
    story.send(2, 6);
    story.receive(kAnySource, 6, 1); // so 1's tag 6, and tag 5 before it, came before 2's tag 6
    story.receive(kAnySource, 5, 2); // and 2's tag 5 before 1's tag 5: still possible
    story.receive(1, 5, 0);
    story.receive(2, 6, 3);
    EXPECT_LEGAL(story);

    Story circle;
    circle.send(1, 5);
    circle.send(1, 6);
    circle.send(2, 6);
    circle.send(2, 5);
    circle.receive(kAnySource, 6, 1); // 1's before 2's tag 6
    circle.receive(kAnySource, 5, 3); // 2's before 1's tag 5
    circle.receive(1, 5, 0);
    circle.receive(2, 6, 2);
    EXPECT_ILLEGAL(circle, "no order of arrival");
}

TEST(Model, WhatCompletesMustHaveBeenSentBefore) {
    Story story;
    story.receive(1, 5);
    const Time early = story.history().receives[0].posted + 1;
    story.probe(2, 5, -1); // takes the time `early`
    story.send(1, 5);
    story.got(0, 0).completed = early;
    EXPECT_ILLEGAL(story, "must have arrived after");
}

TEST(Model, LostDoubledAndSpoiledMessages) {
    Story lost;
    lost.send(1, 5);
    EXPECT_ILLEGAL(lost, "was never received");

    Story doubled;
    doubled.send(1, 5);
    doubled.receive(1, 5, 0);
    doubled.receive(1, 5, 0);
    EXPECT_ILLEGAL(doubled, "was not sent (so often)");

    Story spoiled;
    spoiled.send(1, 5);
    spoiled.receive(1, 5, 0);
    ++spoiled.history().receives[0].digest;
    EXPECT_ILLEGAL(spoiled, "the payload is another one");

    Story stranger;
    stranger.send(1, 5);
    stranger.receive(2, 5, 0);
    EXPECT_ILLEGAL(stranger, "they do not match");

    Story silent;
    silent.send(1, 5);
    silent.receive(1, 5);
    EXPECT_ILLEGAL(silent, "never completed");
}

TEST(Model, NegativeTagsAreHiddenFromAnyTag) {
    Story story;
    story.send(1, -7);
    story.receive(1, kAnyTag, 0);
    EXPECT_ILLEGAL(story, "they do not match");
}

TEST(Model, TruncationIsReportedAndKeepsWhatFits) {
    Story legal;
    legal.send(1, 5, 100);
    legal.receive(1, 5, 0, 40);
    EXPECT_LEGAL(legal);
    legal.history().receives[0].status = OPAL_COMMON_ADAPTIB_SUCCESS;
    EXPECT_ILLEGAL(legal, "the status is");

    Story short_of;
    short_of.send(1, 5, 100);
    short_of.receive(1, 5, 0, 200);
    short_of.history().receives[0].bytes = 99;
    EXPECT_ILLEGAL(short_of, "99 bytes arrived");
}

TEST(Model, ASynchronousSendWaitsForItsReceive) {
    Story early;
    early.send(1, 5, 16, true);
    early.sent(0);
    early.receive(1, 5, 0);
    EXPECT_ILLEGAL(early, "completed before its receive");

    Story legal;
    legal.send(1, 5, 16, true);
    legal.receive(1, 5, 0);
    legal.sent(0);
    EXPECT_LEGAL(legal);
    legal.history().messages[0].completed = kNever;
    EXPECT_ILLEGAL(legal, "the send never completed");
}

TEST(Model, ACancelledReceiveGetsNothing) {
    Story legal;
    const auto cancelled = legal.receive(1, 5);
    legal.send(1, 5);
    legal.cancel(cancelled); // the message is in flight
    legal.receive(1, 5, 0);
    EXPECT_LEGAL(legal);

    Story arrived; // the message had arrived while the receive was posted
    arrived.receive(1, 5);
    arrived.send(1, 5);
    arrived.settle();
    arrived.cancel(0);
    arrived.receive(1, 5, 0);
    EXPECT_ILLEGAL(arrived, "must have arrived after");

    Story both;
    both.receive(1, 5);
    both.send(1, 5);
    both.got(0, 0);
    both.cancel(0);
    EXPECT_ILLEGAL(both, "was cancelled, and completed");
}

TEST(Model, ProbesShowTheFirstThatArrived) {
    Story legal;
    legal.probe(1, kAnyTag, -1);
    legal.send(1, 5);
    legal.probe(1, kAnyTag, -1); // in flight
    legal.probe(1, kAnyTag, 0);
    legal.receive(1, 5, 0);
    legal.probe(1, kAnyTag, -1);
    EXPECT_LEGAL(legal);

    Story later;
    later.send(1, 5);
    later.send(1, 6);
    later.probe(1, kAnyTag, 1);
    later.receive(1, 5, 0);
    later.receive(1, 6, 1);
    EXPECT_ILLEGAL(later, "no order of arrival");

    Story gone;
    gone.send(1, 5);
    gone.receive(1, 5, 0);
    gone.probe(1, 5, 0);
    EXPECT_ILLEGAL(gone, "a message that is not there");

    Story hidden; // the message was there, and the probe no longer shows it
    hidden.send(1, 5);
    hidden.probe(1, 5, 0);
    hidden.probe(1, 5, -1);
    hidden.receive(1, 5, 0);
    EXPECT_ILLEGAL(hidden, "must have arrived after");

    Story wrong;
    wrong.send(1, 5);
    wrong.probe(1, 5, 0);
    wrong.history().probes[0].bytes = 4;
    wrong.receive(1, 5, 0);
    EXPECT_ILLEGAL(wrong, "shows 4 bytes");
}

// The probe saw 2's message first, so a receive from any source may not take 1's before it.
TEST(Model, ProbesBindTheReceivesThatFollow) {
    Story story;
    story.send(1, 5);
    story.send(2, 5);
    story.probe(kAnySource, 5, 1);
    story.receive(kAnySource, 5, 0);
    story.receive(kAnySource, 5, 1);
    EXPECT_ILLEGAL(story, "no order of arrival");
}

TEST(Model, ActiveMessagesInOrderAmongThemselvesAndWithMessages) {
    Story legal;
    const auto first = legal.active(1);
    legal.send(1, 5);
    const auto second = legal.active(1);
    const auto other = legal.active(2);
    legal.deliver(other);
    legal.deliver(first);
    legal.probe(1, 5, -1);
    legal.probe(1, 5, 0);
    legal.deliver(second);
    legal.receive(1, 5, 0);
    EXPECT_LEGAL(legal);

    Story overtaken; // the message is there before the active one that was sent before it
    const auto active = overtaken.active(1);
    overtaken.send(1, 5);
    overtaken.receive(1, 5, 0);
    overtaken.deliver(active);
    EXPECT_ILLEGAL(overtaken, "must have arrived after");

    Story late; // and the other way round
    late.send(1, 5);
    const auto after = late.active(1);
    late.deliver(after);
    late.probe(1, 5, -1);
    late.receive(1, 5, 0);
    EXPECT_ILLEGAL(late, "must have arrived after");

    Story swapped;
    const auto a = swapped.active(1, 8);
    const auto b = swapped.active(1, 9);
    swapped.deliver(b);
    swapped.deliver(a);
    EXPECT_ILLEGAL(swapped, "delivered in its turn");

    Story twice;
    const auto c = twice.active(1);
    twice.deliver(c);
    twice.deliver(c);
    EXPECT_ILLEGAL(twice, "that was not sent");

    Story never;
    never.active(1);
    EXPECT_ILLEGAL(never, "was never delivered");
}

} // namespace
} // namespace adaptib::torture
