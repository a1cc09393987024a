// SPDX-License-Identifier: BSD-3-Clause
// The map of sources over time: which unit a count belongs to, and that nothing is lost
// while units grow.
#include "select/source_map.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "base/random.h"

namespace adaptib {
namespace {

constexpr std::uint64_t kSelf = (7ull << 32) + 3;

struct Read {
    std::uint64_t unit = 0;
    std::uint64_t units = 0;
    std::map<std::pair<std::uint64_t, std::string>, std::uint64_t> counts;
};

Read read(const SourceMap& map) {
    Read out;
    std::istringstream text(map.text(kSelf));
    std::string line;
    std::getline(text, line);
    EXPECT_EQ(line, "# adaptib: messages by source and time");
    std::getline(text, line);
    EXPECT_EQ(line, "# receiver 3");
    std::string word;
    text >> word >> word >> out.unit >> word >> word >> out.units;
    std::getline(text, line);
    std::getline(text, line);
    EXPECT_EQ(line, "# unit\tsource\tmessages");
    std::uint64_t unit = 0;
    std::uint64_t messages = 0;
    while (text >> unit >> word >> messages) {
        EXPECT_LT(unit, out.units);
        EXPECT_TRUE(out.counts.emplace(std::pair{unit, word}, messages).second) << word;
    }
    return out;
}

Nanoseconds ms(std::int64_t n) { return Nanoseconds{n * 1'000'000}; }

TEST(SourceMap, CountsBelongToTheUnitThatIsOver) {
    SourceMap map(ms(100));
    EXPECT_LE(map.due(), ms(100));
    map.look(ms(101)); // [0, 1) ms
    map.add((7ull << 32) + 1, 5);
    map.add((7ull << 32) + 1, 2);
    map.add((7ull << 32) + 2, 0);
    EXPECT_EQ(map.due(), ms(102));
    map.look(ms(101) + Nanoseconds{1}); // the next unit has begun
    map.add((9ull << 32) + 4, 1);       // a source of another job
    EXPECT_EQ(map.due(), ms(102));
    map.look(ms(110));
    map.add((7ull << 32) + 1, 1);
    const Read file = read(map);
    EXPECT_EQ(file.unit, 1'000'000u);
    EXPECT_EQ(file.units, 10u);
    const decltype(file.counts) expected{{{0, "1"}, 7}, {{1, "9:4"}, 1}, {{9, "1"}, 1}};
    EXPECT_EQ(file.counts, expected);
}

TEST(SourceMap, ALongRunHasCoarserUnitsAndLosesNothing) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        SourceMap map(Nanoseconds{0});
        std::map<std::pair<std::int64_t, std::string>, std::uint64_t> all; // by millisecond
        std::int64_t now = 0;
        for (int i = 0; i < 3000; ++i) {
            now += 1 + static_cast<std::int64_t>(random.below(i % 100 == 0 ? 2000 : 5));
            map.look(ms(now));
            const std::uint64_t source = random.below(5);
            const std::uint64_t messages = random.below(10);
            map.add((7ull << 32) + source, messages);
            if (messages > 0) {
                all[{now - 1, std::to_string(source)}] += messages;
            }
            ASSERT_GT(map.due(), ms(now));
            ASSERT_LE(map.due(), ms(now) + map.unit());
        }
        const Read file = read(map);
        const auto unit = static_cast<std::int64_t>(file.unit / 1'000'000);
        EXPECT_LE(file.units, SourceMap::kUnitsMost);
        EXPECT_GT(file.units, SourceMap::kUnitsMost / 2 - 1);
        EXPECT_EQ(file.units, static_cast<std::uint64_t>((now - 1) / unit + 1));
        std::map<std::pair<std::uint64_t, std::string>, std::uint64_t> expected;
        for (const auto& [key, messages] : all) {
            expected[{static_cast<std::uint64_t>(key.first / unit), key.second}] += messages;
        }
        EXPECT_EQ(file.counts, expected);
    }
}

} // namespace
} // namespace adaptib
