// SPDX-License-Identifier: BSD-3-Clause
// Envelopes: which pattern fits which message, pattern classes, and how evenly the hash spreads.
#include "match/envelope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace adaptib {
namespace {

constexpr std::int32_t kAnySource = Envelope::kAnySource;
constexpr std::int32_t kAnyTag = Envelope::kAnyTag;

TEST(Envelope, Fits) {
    struct {
        Envelope pattern;
        Envelope message;
        bool fits;
    } const cases[] = {
        {{1, 2, 3}, {1, 2, 3}, true},
        {{1, 2, 3}, {0, 2, 3}, false},
        {{1, 2, 3}, {1, 0, 3}, false},
        {{1, 2, 3}, {1, 2, 0}, false},
        {{1, kAnySource, 3}, {1, 2, 3}, true},
        {{1, kAnySource, 3}, {1, 2, 4}, false},
        {{1, kAnySource, 3}, {2, 2, 3}, false},
        {{1, 2, kAnyTag}, {1, 2, 3}, true},
        {{1, 2, kAnyTag}, {1, 2, 0}, true},
        {{1, 2, kAnyTag}, {1, 2, INT32_MAX}, true},
        {{1, 2, kAnyTag}, {1, 3, 3}, false},
        {{1, kAnySource, kAnyTag}, {1, 9, 9}, true},
        {{1, kAnySource, kAnyTag}, {2, 9, 9}, false},
        // Only a pattern that names a negative tag matches it.
        {{1, 2, kAnyTag}, {1, 2, -1}, false},
        {{1, kAnySource, kAnyTag}, {1, 2, -1}, false},
        {{1, kAnySource, kAnyTag}, {1, 2, INT32_MIN + 1}, false},
        {{1, kAnySource, -17}, {1, 2, -17}, true},
        {{1, 2, -17}, {1, 2, -17}, true},
    };
    for (const auto& one : cases) {
        EXPECT_EQ(envelope_matches(one.pattern, one.message), one.fits)
            << one.pattern.context << "," << one.pattern.source << "," << one.pattern.tag << " for "
            << one.message.context << "," << one.message.source << "," << one.message.tag;
    }
}

TEST(Envelope, ClassesAndGeneralisationAgree) {
    const Envelope message{5, 6, 7};
    for (const PatternClass wild : {PatternClass::exact, PatternClass::any_tag,
                                    PatternClass::any_source, PatternClass::any}) {
        const Envelope pattern = generalised(message, wild);
        EXPECT_EQ(pattern_class(pattern), wild);
        EXPECT_TRUE(envelope_matches(pattern, message));
        EXPECT_EQ(generalised(pattern, wild), pattern);
    }
    EXPECT_EQ(generalised(message, PatternClass::any_tag), (Envelope{5, 6, kAnyTag}));
    EXPECT_EQ(generalised(message, PatternClass::any_source), (Envelope{5, kAnySource, 7}));
    EXPECT_EQ(generalised(message, PatternClass::any), (Envelope{5, kAnySource, kAnyTag}));
    EXPECT_EQ(pattern_class({5, 6, -1}), PatternClass::exact);
}

// 16,384 envelopes as programs have them, into twice as many buckets. Random numbers would leave a
// fifth of them sharing a bucket with an earlier one, and the fullest bucket would hold about 6.
TEST(Envelope, HashSpreadsWhatProgramsUse) {
    using Make = std::function<Envelope(std::int32_t)>;
    struct {
        const char* name;
        Make make;
    } const cases[] = {
        {"tags",
         [](std::int32_t i) {
             return Envelope{0, 1, i};
         }},
        {"sources",
         [](std::int32_t i) {
             return Envelope{0, i, 1};
         }},
        {"contexts",
         [](std::int32_t i) {
             return Envelope{static_cast<std::uint32_t>(i), 0, 0};
         }},
        {"source x tag",
         [](std::int32_t i) {
             return Envelope{2, i % 128, i / 128};
         }},
        {"context x source",
         [](std::int32_t i) {
             return Envelope{static_cast<std::uint32_t>(i / 128), i % 128, 9};
         }},
        {"context x source x tag",
         [](std::int32_t i) {
             return Envelope{static_cast<std::uint32_t>(i & 15), (i >> 4) & 31, i >> 9};
         }},
        {"tag = source",
         [](std::int32_t i) {
             return Envelope{2, i, i};
         }},
        {"tag = -source",
         [](std::int32_t i) {
             return Envelope{2, i, -i};
         }},
        {"tags of 1024",
         [](std::int32_t i) {
             return Envelope{2, 5, i * 1024};
         }},
        {"tags of 65536",
         [](std::int32_t i) {
             return Envelope{2, 5, i << 16};
         }},
        {"sources of 64",
         [](std::int32_t i) {
             return Envelope{2, i * 64, 0};
         }},
        {"negative tags",
         [](std::int32_t i) {
             return Envelope{2, i % 64, -10 - i / 64};
         }},
        {"any source",
         [](std::int32_t i) {
             return Envelope{2, kAnySource, i};
         }},
        {"any tag",
         [](std::int32_t i) {
             return Envelope{2, i, kAnyTag};
         }},
        {"any",
         [](std::int32_t i) {
             return Envelope{static_cast<std::uint32_t>(i), kAnySource, kAnyTag};
         }},
    };
    constexpr std::int32_t kCount = 16384;
    constexpr std::size_t kBuckets = 2 * kCount;
    for (const auto& one : cases) {
        std::vector<int> fill(kBuckets);
        int shared = 0;
        for (std::int32_t i = 0; i < kCount; ++i) {
            shared += fill[envelope_hash(one.make(i)) % kBuckets]++ > 0 ? 1 : 0;
        }
        EXPECT_LE(*std::max_element(fill.begin(), fill.end()), 9) << one.name;
        EXPECT_LE(shared, kCount * 3 / 10) << one.name;
    }
}

} // namespace
} // namespace adaptib
