// SPDX-License-Identifier: BSD-3-Clause
// Messages by source: each counts once, whenever it is noted.
#include "core/message_sources.h"

#include <gtest/gtest.h>

#include "unit/recovery/two_rails.h"

namespace adaptib::test {
namespace {

constexpr std::uint64_t kJob = std::uint64_t{7} << 32;

// The lines below the head: unit, source and messages.
std::string table_of(const MessageSources& sources) {
    const std::string text = sources.text(kJob);
    const std::string head = "# unit\tsource\tmessages\n";
    return text.substr(text.find(head) + head.size());
}

TEST(MessageSources, EachMessageCountsOnceAndSilentPeersAreLeftOut) {
    TwoRails rails;
    PeerTable peers;
    Peer& talks = peers.add(rails.peer(kJob + 1));
    peers.add(rails.peer(kJob + 2));
    MessageSources sources(peers, Nanoseconds{0});
    talks.in.next_receive = 41;
    sources.note(Nanoseconds{1});
    EXPECT_EQ(table_of(sources), "0\t1\t41\n");
    sources.note(Nanoseconds{2});
    EXPECT_EQ(table_of(sources), "0\t1\t41\n") << "nothing new";
    talks.in.next_receive += 2;
    sources.note(Nanoseconds{3});
    EXPECT_EQ(table_of(sources), "0\t1\t43\n");
}

} // namespace
} // namespace adaptib::test
