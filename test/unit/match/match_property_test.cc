// SPDX-License-Identifier: BSD-3-Clause
// The matcher against a naive model of the rules: two lists that are searched from the front.
//
// Random calls over few keys make everything collide; each result must be the same node. A failure
// names its seed, and `--gtest_filter=*/<seed - 1>` with the test's name repeats that seed alone.
#include "match/match.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/random.h"

namespace adaptib {
namespace {

class Model {
public:
    UnexpectedMessage* post(PostedReceive& receive) {
        UnexpectedMessage* const message = take(receive.envelope);
        if (message == nullptr) {
            posted.push_back(&receive);
        }
        return message;
    }
    PostedReceive* arrive(const Envelope& message) {
        for (PostedReceive* const receive : posted) {
            if (envelope_matches(receive->envelope, message)) {
                std::erase(posted, receive);
                return receive;
            }
        }
        return nullptr;
    }
    UnexpectedMessage* find(const Envelope& pattern) const {
        for (UnexpectedMessage* const message : unexpected) {
            if (envelope_matches(pattern, message->envelope)) {
                return message;
            }
        }
        return nullptr;
    }
    UnexpectedMessage* take(const Envelope& pattern) {
        UnexpectedMessage* const message = find(pattern);
        std::erase(unexpected, message);
        return message;
    }

    std::vector<PostedReceive*> posted;         // in order of posting
    std::vector<UnexpectedMessage*> unexpected; // in order of arrival
};

// Mix of calls in a run.
struct Mix {
    std::uint64_t contexts;
    std::uint64_t sources;
    std::uint64_t tags;           // their number; the first is -tags / 3
    std::uint64_t wild_of_4096;   // receives and probes with wildcards
    std::uint64_t posts_of_16;    // receives among receives and messages
    std::uint64_t removals_of_64; // cancelled receives, dropped messages
};

class Comparison {
public:
    Comparison(std::uint64_t seed, const Mix& mix, std::size_t nodes)
        : random_(seed), mix_(mix), receives_(new PostedReceive[nodes]),
          messages_(new UnexpectedMessage[nodes]) {
        for (std::size_t i = 0; i < nodes; ++i) {
            free_receives_.push_back(&receives_[i]);
            free_messages_.push_back(&messages_[i]);
        }
    }

    void step() {
        if (random_.below(64) < mix_.removals_of_64) {
            if (random_.below(2) == 0 && !model_.posted.empty()) {
                cancel_one();
            } else if (!model_.unexpected.empty()) {
                drop_one();
            }
        } else if (random_.below(8) == 0) {
            probe();
        } else if (random_.below(16) < mix_.posts_of_16) {
            post();
        } else {
            deliver();
        }
        ASSERT_EQ(matcher_.posted(), model_.posted.size());
        ASSERT_EQ(matcher_.unexpected(), model_.unexpected.size());
        peak_posted_ = std::max(peak_posted_, model_.posted.size());
        peak_unexpected_ = std::max(peak_unexpected_, model_.unexpected.size());
    }

    void finish() {
        EXPECT_EQ(matcher_.peak_posted(), peak_posted_);
        EXPECT_EQ(matcher_.peak_unexpected(), peak_unexpected_);
        std::vector<PostedReceive*> posted;
        matcher_.for_each_posted([&posted](PostedReceive& one) { posted.push_back(&one); });
        std::sort(posted.begin(), posted.end());
        std::vector<PostedReceive*> expected = model_.posted;
        std::sort(expected.begin(), expected.end());
        EXPECT_EQ(posted, expected);
        std::vector<UnexpectedMessage*> unexpected;
        matcher_.drain_unexpected(
            [&unexpected](UnexpectedMessage& one) { unexpected.push_back(&one); });
        EXPECT_EQ(unexpected, model_.unexpected);
        matcher_.drain_posted([](PostedReceive&) {});
        EXPECT_EQ(matcher_.posted(), 0u);
    }

    std::size_t matches() const { return matches_; }

private:
    Envelope random_message() {
        return {static_cast<std::uint32_t>(random_.below(mix_.contexts)),
                static_cast<std::int32_t>(random_.below(mix_.sources)),
                static_cast<std::int32_t>(random_.below(mix_.tags)) -
                    static_cast<std::int32_t>(mix_.tags / 3)};
    }
    Envelope random_pattern() {
        const bool wild = random_.below(4096) < mix_.wild_of_4096;
        return generalised(random_message(), wild ? static_cast<PatternClass>(1 + random_.below(3))
                                                  : PatternClass::exact);
    }

    void post() {
        if (free_receives_.empty()) {
            cancel_one();
            return;
        }
        PostedReceive& receive = *free_receives_.back();
        receive.envelope = random_pattern();
        UnexpectedMessage* const expected = model_.post(receive);
        ASSERT_EQ(matcher_.post(receive), expected);
        ASSERT_EQ(receive.queued(), expected == nullptr);
        if (expected == nullptr) {
            free_receives_.pop_back();
        } else {
            matched(*expected);
        }
    }

    void deliver() {
        if (free_messages_.empty()) {
            drop_one();
            return;
        }
        UnexpectedMessage& message = *free_messages_.back();
        message.envelope = random_message();
        PostedReceive* const expected = model_.arrive(message.envelope);
        ASSERT_EQ(matcher_.arrive(message.envelope), expected);
        if (expected != nullptr) {
            ASSERT_FALSE(expected->queued());
            free_receives_.push_back(expected);
            ++matches_;
        } else {
            free_messages_.pop_back();
            model_.unexpected.push_back(&message);
            matcher_.add_unexpected(message);
        }
    }

    void probe() {
        const Envelope pattern = random_pattern();
        ASSERT_EQ(matcher_.find(pattern), model_.find(pattern));
        if (random_.below(2) == 0) {
            UnexpectedMessage* const expected = model_.take(pattern);
            ASSERT_EQ(matcher_.take(pattern), expected);
            if (expected != nullptr) {
                matched(*expected);
            }
        }
    }

    void cancel_one() {
        PostedReceive* const gone = model_.posted[random_.below(model_.posted.size())];
        std::erase(model_.posted, gone);
        ASSERT_TRUE(matcher_.cancel(*gone));
        ASSERT_FALSE(matcher_.cancel(*gone));
        free_receives_.push_back(gone);
    }

    void drop_one() {
        UnexpectedMessage* const gone = model_.unexpected[random_.below(model_.unexpected.size())];
        std::erase(model_.unexpected, gone);
        ASSERT_TRUE(matcher_.remove(*gone));
        ASSERT_FALSE(matcher_.remove(*gone));
        free_messages_.push_back(gone);
    }

    void matched(UnexpectedMessage& message) {
        ASSERT_FALSE(message.queued());
        free_messages_.push_back(&message);
        ++matches_;
    }

    Random random_;
    const Mix mix_;
    std::unique_ptr<PostedReceive[]> receives_;
    std::unique_ptr<UnexpectedMessage[]> messages_;
    std::vector<PostedReceive*> free_receives_;
    std::vector<UnexpectedMessage*> free_messages_;
    Matcher matcher_;
    Model model_;
    std::size_t matches_ = 0;
    std::size_t peak_posted_ = 0;
    std::size_t peak_unexpected_ = 0;
};

class MatcherProperty : public testing::TestWithParam<std::uint64_t> {};

TEST_P(MatcherProperty, AgreesWithSearchedLists) {
    const std::uint64_t seed = GetParam();
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed + 1000000);
    const Mix mix{1 + random.below(3),   1 + random.below(6), 1 + random.below(12),
                  random.below(9) * 256, 5 + random.below(7), random.below(6)};
    Comparison run(seed, mix, 16 + random.below(200));
    for (int i = 0; i < 4000; ++i) {
        run.step();
        if (testing::Test::HasFatalFailure()) {
            FAIL() << "at step " << i << " of seed " << seed;
        }
    }
    run.finish();
    EXPECT_GT(run.matches(), 100u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, MatcherProperty, testing::Range<std::uint64_t>(1, 241));

// Wildcards are so rare that the matcher drops and rebuilds its indexes, over enough keys for large
// tables.
TEST(MatcherLongRun, IndexesComeAndGo) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Comparison often(seed, {2, 40, 40, 512, 7, 1}, 600);
        Comparison rare(seed, {2, 20, 20, 2, 7, 1}, 600);
        for (int i = 0; i < 100000; ++i) {
            often.step();
            rare.step();
            ASSERT_FALSE(testing::Test::HasFatalFailure()) << "step " << i;
        }
        often.finish();
        rare.finish();
    }
}

// Drops an index while messages are linked in it, on purpose.
TEST(MatcherLongRun, ADroppedIndexIsBuiltAgainInOrder) {
    constexpr std::size_t kCount = 20000;
    const auto messages = std::make_unique<UnexpectedMessage[]>(kCount);
    const Envelope any{1, Envelope::kAnySource, Envelope::kAnyTag};
    Matcher matcher;
    std::size_t taken = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
        messages[i].envelope = {1, static_cast<std::int32_t>(i % 10), static_cast<std::int32_t>(i)};
        matcher.add_unexpected(messages[i]);
        if (i % 9000 == 100) { // 9000 arrivals apart: more than any index waits for a search
            ASSERT_EQ(matcher.find(any), &messages[taken]);
        }
        if (i >= 50) { // exact receives take from the front; 50 messages stay queued
            ASSERT_EQ(matcher.take(messages[taken].envelope), &messages[taken]);
            ++taken;
        }
    }
    for (; taken < kCount; ++taken) {
        ASSERT_EQ(matcher.take(any), &messages[taken]);
    }
    EXPECT_EQ(matcher.unexpected(), 0u);
}

} // namespace
} // namespace adaptib
