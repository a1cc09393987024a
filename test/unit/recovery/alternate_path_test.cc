// SPDX-License-Identifier: BSD-3-Clause
// Alternate path specification: the ways of a subchannel, alike at both ends.
#include "recovery/apm/alternate_path.h"

#include <gtest/gtest.h>

#include <vector>

namespace adaptib {
namespace {

using Pair = PeerRoute::Pair;
using Pairs = std::vector<Pair>;

struct Side {
    std::vector<std::uint8_t> adapters; // one of each rail
};

std::vector<AddressRail> published(const Side& side) {
    std::vector<AddressRail> rails(side.adapters.size());
    for (std::size_t i = 0; i < rails.size(); ++i) {
        rails[i].adapter = side.adapters[i];
    }
    return rails;
}

// Returns the ways that this end finds; the other end must find the same ones, mirrored.
Pairs ways(const Side& ours, const Side& theirs, const Pairs& pairs, std::size_t subchannel,
           std::uint32_t paths) {
    PeerRoute there;
    PeerRoute back;
    for (const Pair& pair : pairs) {
        there.pairs[there.count++] = pair;
        back.pairs[back.count++] = {pair.remote, pair.local, pair.path};
    }
    const auto of_each = [paths](const Pair&) { return paths; };
    const Ways a = ways_of(there, subchannel, ours.adapters, published(theirs), of_each);
    const Ways b = ways_of(back, subchannel, theirs.adapters, published(ours), of_each);
    EXPECT_EQ(a.count, b.count);
    for (std::size_t i = 0; i < a.count; ++i) {
        EXPECT_EQ(a.list[i].local, b.list[i].remote) << i;
        EXPECT_EQ(a.list[i].remote, b.list[i].local) << i;
        EXPECT_EQ(a.list[i].path, b.list[i].path) << i;
        EXPECT_EQ(a.after(static_cast<std::uint8_t>(i)), a.list[(i + 1) % a.count]);
    }
    return {a.list.begin(), a.list.begin() + a.count};
}

const Side kOnePort{{0}};
const Side kTwoPorts{{0, 0}};
const Side kTwoAdapters{{0, 1}};

TEST(AlternatePath, OnePortWithOnePathHasNone) {
    EXPECT_EQ(ways(kOnePort, kOnePort, {{0, 0, 0}}, 0, 1), (Pairs{{0, 0, 0}}));
}

TEST(AlternatePath, TheOtherPortOfTheAdapters) {
    const Pairs pairs{{0, 0, 0}, {1, 1, 0}};
    EXPECT_EQ(ways(kTwoPorts, kTwoPorts, pairs, 0, 1), (Pairs{{0, 0, 0}, {1, 1, 0}}));
    EXPECT_EQ(ways(kTwoPorts, kTwoPorts, pairs, 1, 1), (Pairs{{1, 1, 0}, {0, 0, 0}}));
    const Pairs crossed{{0, 1, 0}, {1, 0, 0}};
    EXPECT_EQ(ways(kTwoPorts, kTwoPorts, crossed, 0, 1), (Pairs{{0, 1, 0}, {1, 0, 0}}));
}

TEST(AlternatePath, NeverAnotherAdapter) {
    const Pairs pairs{{0, 0, 0}, {1, 1, 0}};
    EXPECT_EQ(ways(kTwoAdapters, kTwoAdapters, pairs, 0, 1), (Pairs{{0, 0, 0}}));
    EXPECT_EQ(ways(kTwoPorts, kTwoAdapters, pairs, 0, 1), (Pairs{{0, 0, 0}}))
        << "the peer cannot follow";
    EXPECT_EQ(ways(kTwoAdapters, kTwoPorts, pairs, 0, 1), (Pairs{{0, 0, 0}}));
    EXPECT_EQ(ways(kTwoPorts, kOnePort, {{0, 0, 0}}, 0, 1), (Pairs{{0, 0, 0}}));
}

TEST(AlternatePath, ElseTheNeighbouringPathOfTheSamePort) {
    const Pairs pairs{{0, 0, 0}, {0, 0, 1}, {0, 0, 2}};
    EXPECT_EQ(ways(kOnePort, kOnePort, pairs, 0, 4), (Pairs{{0, 0, 0}, {0, 0, 1}}));
    EXPECT_EQ(ways(kOnePort, kOnePort, pairs, 1, 4), (Pairs{{0, 0, 1}, {0, 0, 0}}));
    EXPECT_EQ(ways(kOnePort, kOnePort, pairs, 2, 4), (Pairs{{0, 0, 2}, {0, 0, 3}}))
        << "whether or not another subchannel uses it";
}

// After a port has failed the next path is one that does not need it.
TEST(AlternatePath, OtherPortFirstAndThereTheNextPath) {
    const Pairs pairs{{0, 0, 0}, {1, 1, 0}, {0, 0, 1}, {1, 1, 1}};
    EXPECT_EQ(ways(kTwoPorts, kTwoPorts, pairs, 0, 2),
              (Pairs{{0, 0, 0}, {1, 1, 0}, {1, 1, 1}, {0, 0, 1}}));
    EXPECT_EQ(ways(kTwoPorts, kTwoPorts, pairs, 3, 2),
              (Pairs{{1, 1, 1}, {0, 0, 1}, {0, 0, 0}, {1, 1, 0}}));
}

} // namespace
} // namespace adaptib
