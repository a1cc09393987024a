// SPDX-License-Identifier: BSD-3-Clause
// Matcher: MPI's cases one by one.
#include "match/match.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace adaptib {
namespace {

constexpr std::int32_t kAnySource = Envelope::kAnySource;
constexpr std::int32_t kAnyTag = Envelope::kAnyTag;

// Delivers a message: returns the receive that matches it, or queues it and returns null.
PostedReceive* deliver(Matcher& matcher, UnexpectedMessage& message) {
    PostedReceive* const receive = matcher.arrive(message.envelope);
    if (receive == nullptr) {
        matcher.add_unexpected(message);
    }
    return receive;
}

// Message records are made in memory with arbitrary content, and no index sets the links of
// messages that it has not seen.
TEST(MatcherTake, NothingIsReadOfLinksThatNoIndexHasSet) {
    struct alignas(UnexpectedMessage) Record {
        explicit Record(const Envelope& envelope) {
            std::memset(bytes, 0xa5, sizeof bytes);
            message = new (bytes) UnexpectedMessage(envelope, 8);
        }
        unsigned char bytes[sizeof(UnexpectedMessage)];
        UnexpectedMessage* message;
    };
    Matcher matcher;
    Record before{{1, 0, 5}};
    Record negative{{1, 0, -5}};
    Record other{{1, 1, 5}};
    for (Record* record : {&before, &negative, &other}) {
        matcher.add_unexpected(*record->message);
    }
    EXPECT_EQ(matcher.take({1, 1, 5}), other.message); // no index exists
    EXPECT_EQ(matcher.find({1, 0, kAnyTag}), before.message);
    Record after{{1, 0, 6}}; // one of three indexes exists
    matcher.add_unexpected(*after.message);
    EXPECT_EQ(matcher.take({1, 0, -5}), negative.message);
    EXPECT_EQ(matcher.take({1, 0, kAnyTag}), before.message);
    EXPECT_EQ(matcher.find({1, kAnySource, 6}), after.message); // two exist
    EXPECT_EQ(matcher.take({1, kAnySource, kAnyTag}), after.message);
    EXPECT_EQ(matcher.unexpected(), 0u);
    EXPECT_EQ(matcher.find({1, kAnySource, kAnyTag}), nullptr);
}

// Choice among several posted receives.
TEST(MatcherArrive, TheFirstPostedThatFits) {
    struct {
        const char* name;
        std::vector<Envelope> posted;
        Envelope message;
        int expected; // index in `posted`, or -1
    } const cases[] = {
        {"nothing posted", {}, {1, 0, 5}, -1},
        {"exact", {{1, 0, 5}}, {1, 0, 5}, 0},
        {"other tag", {{1, 0, 6}}, {1, 0, 5}, -1},
        {"other source", {{1, 1, 5}}, {1, 0, 5}, -1},
        {"other context", {{2, 0, 5}}, {1, 0, 5}, -1},
        {"same envelope twice", {{1, 0, 5}, {1, 0, 5}}, {1, 0, 5}, 0},
        {"any source before exact", {{1, kAnySource, 5}, {1, 0, 5}}, {1, 0, 5}, 0},
        {"exact before any source", {{1, 0, 5}, {1, kAnySource, 5}}, {1, 0, 5}, 0},
        {"any tag before exact", {{1, 0, kAnyTag}, {1, 0, 5}}, {1, 0, 5}, 0},
        {"exact before any tag", {{1, 0, 5}, {1, 0, kAnyTag}}, {1, 0, 5}, 0},
        {"any before exact", {{1, kAnySource, kAnyTag}, {1, 0, 5}}, {1, 0, 5}, 0},
        {"exact before any", {{1, 0, 5}, {1, kAnySource, kAnyTag}}, {1, 0, 5}, 0},
        {"any tag before any source", {{1, 0, kAnyTag}, {1, kAnySource, 5}}, {1, 0, 5}, 0},
        {"any source before any tag", {{1, kAnySource, 5}, {1, 0, kAnyTag}}, {1, 0, 5}, 0},
        {"any last of four",
         {{1, 1, 5}, {1, kAnySource, 6}, {1, 1, kAnyTag}, {1, kAnySource, kAnyTag}},
         {1, 0, 5},
         3},
        {"exact last of four",
         {{1, kAnySource, 6}, {1, 1, kAnyTag}, {2, kAnySource, kAnyTag}, {1, 0, 5}},
         {1, 0, 5},
         3},
        {"any tag and a negative tag", {{1, 0, kAnyTag}}, {1, 0, -5}, -1},
        {"any and a negative tag", {{1, kAnySource, kAnyTag}}, {1, 0, -5}, -1},
        {"negative tag by name", {{1, kAnySource, kAnyTag}, {1, 0, -5}}, {1, 0, -5}, 1},
        {"negative tag of any source", {{1, 0, kAnyTag}, {1, kAnySource, -5}}, {1, 0, -5}, 1},
        {"wildcards of another context",
         {{2, kAnySource, kAnyTag}, {2, 0, kAnyTag}, {2, kAnySource, 5}},
         {1, 0, 5},
         -1},
        {"tag zero fits any tag", {{1, 0, kAnyTag}}, {1, 0, 0}, 0},
    };
    for (const auto& one : cases) {
        SCOPED_TRACE(one.name);
        Matcher matcher;
        const auto receives = std::make_unique<PostedReceive[]>(one.posted.size());
        for (std::size_t i = 0; i < one.posted.size(); ++i) {
            receives[i].envelope = one.posted[i];
            ASSERT_EQ(matcher.post(receives[i]), nullptr);
        }
        const PostedReceive* const expected =
            one.expected < 0 ? nullptr : &receives[static_cast<std::size_t>(one.expected)];
        const PostedReceive* const receive = matcher.arrive(one.message);
        EXPECT_EQ(receive, expected);
        EXPECT_EQ(matcher.posted(), one.posted.size() - (expected == nullptr ? 0 : 1));
        if (receive != nullptr) {
            EXPECT_FALSE(receive->queued());
        }
    }
}

// Choice of a receive or a probe among several unexpected messages.
TEST(MatcherPost, TheEarliestMessageThatFits) {
    struct {
        const char* name;
        std::vector<Envelope> arrived;
        Envelope pattern;
        int expected; // index in `arrived`, or -1
    } const cases[] = {
        {"nothing there", {}, {1, 0, 5}, -1},
        {"nothing there for any", {}, {1, kAnySource, kAnyTag}, -1},
        {"exact", {{1, 0, 5}}, {1, 0, 5}, 0},
        {"exact behind others", {{1, 0, 4}, {1, 1, 5}, {2, 0, 5}, {1, 0, 5}}, {1, 0, 5}, 3},
        {"same envelope twice", {{1, 0, 5}, {1, 0, 5}}, {1, 0, 5}, 0},
        {"any source", {{1, 3, 6}, {1, 2, 5}, {1, 1, 5}}, {1, kAnySource, 5}, 1},
        {"any tag", {{1, 3, 6}, {1, 2, 5}, {1, 2, 4}}, {1, 2, kAnyTag}, 1},
        {"any", {{2, 3, 6}, {1, 2, 5}, {1, 1, 4}}, {1, kAnySource, kAnyTag}, 1},
        {"any source finds none", {{1, 3, 6}, {2, 2, 5}}, {1, kAnySource, 5}, -1},
        {"any tag finds none", {{1, 3, 6}, {2, 2, 5}}, {1, 2, kAnyTag}, -1},
        {"any finds none", {{2, 3, 6}, {3, 2, 5}}, {1, kAnySource, kAnyTag}, -1},
        {"any tag passes over negative ones", {{1, 2, -5}, {1, 2, 0}}, {1, 2, kAnyTag}, 1},
        {"any passes over negative ones",
         {{1, 2, -5}, {1, 3, -1}, {1, 4, 9}},
         {1, kAnySource, kAnyTag},
         2},
        {"only negative ones", {{1, 2, -5}}, {1, kAnySource, kAnyTag}, -1},
        {"any source with a negative tag", {{1, 2, 5}, {1, 2, -5}}, {1, kAnySource, -5}, 1},
    };
    for (const auto& one : cases) {
        for (const bool index_first : {false, true}) {
            SCOPED_TRACE(std::string(one.name) + (index_first ? ", searched before" : ""));
            Matcher matcher;
            const auto messages = std::make_unique<UnexpectedMessage[]>(one.arrived.size() + 1);
            if (index_first) { // so that the indexes exist before the messages come
                UnexpectedMessage& other = messages[one.arrived.size()];
                other.envelope = {99, 0, 0};
                ASSERT_EQ(deliver(matcher, other), nullptr);
                for (const PatternClass wild :
                     {PatternClass::any_tag, PatternClass::any_source, PatternClass::any}) {
                    ASSERT_EQ(matcher.find(generalised(other.envelope, wild)), &other);
                }
            }
            for (std::size_t i = 0; i < one.arrived.size(); ++i) {
                messages[i].envelope = one.arrived[i];
                ASSERT_EQ(deliver(matcher, messages[i]), nullptr);
            }
            UnexpectedMessage* const expected =
                one.expected < 0 ? nullptr : &messages[static_cast<std::size_t>(one.expected)];
            const std::size_t before = matcher.unexpected();
            EXPECT_EQ(matcher.find(one.pattern), expected);
            EXPECT_EQ(matcher.unexpected(), before);
            PostedReceive receive(one.pattern);
            EXPECT_EQ(matcher.post(receive), expected);
            EXPECT_EQ(receive.queued(), expected == nullptr);
            EXPECT_EQ(matcher.posted(), expected == nullptr ? 1u : 0u);
            EXPECT_EQ(matcher.unexpected(), before - (expected == nullptr ? 0 : 1));
        }
    }
}

TEST(Matcher, SameEnvelopeIsFirstInFirstOutOnBothSides) {
    Matcher matcher;
    PostedReceive receives[5];
    UnexpectedMessage messages[5];
    for (PostedReceive& receive : receives) {
        ASSERT_EQ(matcher.post(receive), nullptr);
    }
    for (PostedReceive& receive : receives) {
        EXPECT_EQ(matcher.arrive({}), &receive);
    }
    for (UnexpectedMessage& message : messages) {
        EXPECT_EQ(deliver(matcher, message), nullptr);
    }
    for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(matcher.post(receives[i]), &messages[i]);
    }
    EXPECT_EQ(matcher.posted(), 0u);
    EXPECT_EQ(matcher.unexpected(), 0u);
}

TEST(Matcher, WildcardsAndExactOnesAlternateInOrderOfPosting) {
    Matcher matcher;
    const Envelope message{1, 2, 3};
    const Envelope patterns[] = {
        message, {1, kAnySource, 3}, {1, 2, kAnyTag}, {1, kAnySource, kAnyTag}};
    PostedReceive receives[12];
    for (std::size_t i = 0; i < 12; ++i) {
        receives[i].envelope = patterns[i * 7 % 4];
        ASSERT_EQ(matcher.post(receives[i]), nullptr);
    }
    for (PostedReceive& receive : receives) {
        EXPECT_EQ(matcher.arrive(message), &receive);
    }
    EXPECT_EQ(matcher.arrive(message), nullptr);
}

TEST(Matcher, CancelTakesExactlyTheOne) {
    // Cancels the first, a middle and the last receive of one FIFO, for each pattern class.
    for (std::size_t gone = 0; gone < 4; ++gone) {
        for (const PatternClass wild : {PatternClass::exact, PatternClass::any_tag,
                                        PatternClass::any_source, PatternClass::any}) {
            Matcher matcher;
            PostedReceive receives[4];
            for (PostedReceive& receive : receives) {
                receive.envelope = generalised({1, 2, 3}, wild);
                ASSERT_EQ(matcher.post(receive), nullptr);
            }
            EXPECT_TRUE(matcher.cancel(receives[gone]));
            EXPECT_FALSE(matcher.cancel(receives[gone]));
            EXPECT_FALSE(receives[gone].queued());
            EXPECT_EQ(matcher.posted(), 3u);
            for (std::size_t i = 0; i < 4; ++i) {
                if (i != gone) {
                    EXPECT_EQ(matcher.arrive({1, 2, 3}), &receives[i]);
                }
            }
            EXPECT_EQ(matcher.arrive({1, 2, 3}), nullptr);
        }
    }
}

TEST(Matcher, CancelAfterTheMatchIsRefused) {
    Matcher matcher;
    PostedReceive receive(Envelope{1, 2, 3});
    EXPECT_FALSE(matcher.cancel(receive)); // was never posted
    ASSERT_EQ(matcher.post(receive), nullptr);
    ASSERT_EQ(matcher.arrive({1, 2, 3}), &receive);
    EXPECT_FALSE(matcher.cancel(receive));
    ASSERT_EQ(matcher.post(receive), nullptr); // the record may be used again
    EXPECT_TRUE(matcher.cancel(receive));
    EXPECT_EQ(matcher.posted(), 0u);
}

TEST(Matcher, ProbeLeavesTheMessageForTheReceive) {
    Matcher matcher;
    UnexpectedMessage first({1, 2, 3}, 100);
    UnexpectedMessage second({1, 4, 3}, 200);
    deliver(matcher, first);
    deliver(matcher, second);
    for (int i = 0; i < 2; ++i) {
        UnexpectedMessage* const seen = matcher.find({1, kAnySource, kAnyTag});
        ASSERT_EQ(seen, &first);
        EXPECT_EQ(seen->length, 100u);
    }
    PostedReceive exact(Envelope{1, 2, 3});
    EXPECT_EQ(matcher.post(exact), &first);
    EXPECT_EQ(matcher.find({1, kAnySource, kAnyTag}), &second);
}

TEST(Matcher, MatchedProbeTakesTheMessageAway) {
    for (const PatternClass wild : {PatternClass::exact, PatternClass::any_tag,
                                    PatternClass::any_source, PatternClass::any}) {
        Matcher matcher;
        const Envelope envelope{1, 2, 3};
        UnexpectedMessage first(envelope, 1);
        UnexpectedMessage second(envelope, 2);
        deliver(matcher, first);
        deliver(matcher, second);
        EXPECT_EQ(matcher.take(generalised(envelope, wild)), &first);
        EXPECT_FALSE(first.queued());
        EXPECT_EQ(matcher.unexpected(), 1u);
        PostedReceive receive(envelope);
        EXPECT_EQ(matcher.post(receive), &second);
        EXPECT_EQ(matcher.take(generalised(envelope, wild)), nullptr);
        PostedReceive later(generalised(envelope, wild));
        EXPECT_EQ(matcher.post(later), nullptr);
        EXPECT_EQ(matcher.arrive(envelope), &later);
    }
}

TEST(Matcher, RemoveTakesAMessageOutOfEveryOrder) {
    Matcher matcher;
    UnexpectedMessage messages[3];
    for (UnexpectedMessage& message : messages) {
        message.envelope = {1, 2, 3};
        deliver(matcher, message);
    }
    ASSERT_EQ(matcher.find({1, kAnySource, kAnyTag}), &messages[0]);
    EXPECT_TRUE(matcher.remove(messages[0]));
    EXPECT_FALSE(matcher.remove(messages[0]));
    EXPECT_EQ(matcher.find({1, kAnySource, kAnyTag}), &messages[1]);
    EXPECT_EQ(matcher.find({1, 2, 3}), &messages[1]);
    EXPECT_EQ(matcher.unexpected(), 2u);
}

TEST(Matcher, HighWaterMarks) {
    Matcher matcher;
    PostedReceive receives[3];
    UnexpectedMessage messages[4];
    for (PostedReceive& receive : receives) {
        matcher.post(receive);
    }
    for (int i = 0; i < 3; ++i) {
        matcher.arrive({});
    }
    for (UnexpectedMessage& message : messages) {
        deliver(matcher, message);
    }
    while (matcher.take({}) != nullptr) {
    }
    matcher.post(receives[0]);
    EXPECT_EQ(matcher.posted(), 1u);
    EXPECT_EQ(matcher.unexpected(), 0u);
    EXPECT_EQ(matcher.peak_posted(), 3u);
    EXPECT_EQ(matcher.peak_unexpected(), 4u);
}

TEST(Matcher, DrainEndsEverything) {
    Matcher matcher;
    std::vector<std::unique_ptr<PostedReceive>> receives;
    for (int i = 0; i < 100; ++i) {
        const auto wild = static_cast<PatternClass>(i % 4);
        receives.push_back(std::make_unique<PostedReceive>(generalised({1, 2, i / 8}, wild)));
        ASSERT_EQ(matcher.post(*receives.back()), nullptr);
    }
    std::size_t visited = 0;
    matcher.for_each_posted([&visited](PostedReceive& receive) {
        EXPECT_TRUE(receive.queued());
        ++visited;
    });
    EXPECT_EQ(visited, 100u);
    matcher.drain_posted([&receives](PostedReceive& receive) {
        EXPECT_FALSE(receive.queued());
        std::erase_if(receives, [&receive](const auto& own) { return own.get() == &receive; });
    });
    EXPECT_TRUE(receives.empty());
    EXPECT_EQ(matcher.posted(), 0u);

    UnexpectedMessage messages[10];
    for (std::size_t i = 0; i < 10; ++i) {
        messages[i].envelope = {1, static_cast<std::int32_t>(i % 3), static_cast<std::int32_t>(i)};
        deliver(matcher, messages[i]);
    }
    ASSERT_EQ(matcher.find({1, 2, kAnyTag}), &messages[2]);
    std::vector<const UnexpectedMessage*> order;
    matcher.for_each_unexpected([&](UnexpectedMessage& message) {
        order.push_back(&message);
        if (order.size() % 2 == 0) {
            EXPECT_TRUE(matcher.remove(message));
        }
    });
    ASSERT_EQ(order.size(), 10u);
    for (std::size_t i = 0; i < 10; ++i) {
        EXPECT_EQ(order[i], &messages[i]); // order of arrival
    }
    EXPECT_EQ(matcher.unexpected(), 5u);
    order.clear();
    matcher.drain_unexpected([&order](UnexpectedMessage& message) { order.push_back(&message); });
    EXPECT_EQ(order, (std::vector<const UnexpectedMessage*>{
                         &messages[0], &messages[2], &messages[4], &messages[6], &messages[8]}));
    EXPECT_EQ(matcher.unexpected(), 0u);
    EXPECT_EQ(matcher.find({1, 2, kAnyTag}), nullptr);
}

// A caller may derive its request from the node, and cast back.
TEST(Matcher, NodesMayBeBases) {
    struct Request : PostedReceive {
        explicit Request(int request_id) : PostedReceive(Envelope{1, 2, 3}), id(request_id) {}
        int id;
    };
    Matcher matcher;
    Request request(42);
    matcher.post(request);
    PostedReceive* const receive = matcher.arrive({1, 2, 3});
    ASSERT_NE(receive, nullptr);
    EXPECT_EQ(static_cast<Request*>(receive)->id, 42);
}

} // namespace
} // namespace adaptib
