// SPDX-License-Identifier: BSD-3-Clause
// Helpers for tests of long data that both ends copy.
// Threads: as Cores.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <vector>

#include "attentive.h"
#include "cores.h"
#include "peer/peer.h"

namespace adaptib::test {

inline constexpr std::size_t kWants = 0;
inline constexpr std::size_t kHas = 1;
inline constexpr std::size_t kSizes[] = {65'535,    65'536,   65'537,         200'000,  1u << 20,
                                         3'000'001, 4u << 20, (4u << 20) + 1, 9'000'000};

// Makes a copy by both ends together look fastest for every pattern and size, so that it is tried
// first from now on.
inline void ask_first(Peer& peer) {
    for (CooperativeCopyChoices::Sizes& sizes : peer.transfers.cooperative_copy_choices->patterns) {
        sizes.assign(CooperativeCopyChoices::kSizes, WayChoice(3));
        for (WayChoice& choice : sizes) {
            for (int i = 0; i < 5; ++i) {
                choice.note(CooperativeCopyChoices::kAlone, Nanoseconds{1'000'000'000});
                choice.note(CooperativeCopyChoices::kStaged, Nanoseconds{1'000'000'000});
                choice.note(CooperativeCopyChoices::kCooperative, Nanoseconds{1000});
            }
        }
    }
}

// Announces a message of each of `sizes`, receives them one after the other, and compares the data.
// `there`: the sender makes progress while the receiver copies.
inline void carry(Cores& world, bool there, std::size_t round,
                  std::span<const std::size_t> sizes = kSizes) {
    std::vector<std::vector<std::byte>> in;
    std::vector<std::vector<std::byte>> out;
    std::vector<TestRequest> requests(2 * sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        out.push_back(pattern(sizes[i], 100 * round + i));
        in.emplace_back(sizes[i]);
        ASSERT_TRUE(world.send(kHas, kWants, int(i), contiguous(out.back()), requests[2 * i]).ok());
    }
    const auto receive = [&] {
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            ASSERT_TRUE(
                world.receive(kWants, kHas, int(i), contiguous(in[i]), requests[2 * i + 1]).ok());
            for (int pass = 0; pass < 100; ++pass) {
                world.progress(kWants);
            }
        }
    };
    if (there) {
        const Attentive other(world, kHas);
        receive();
    } else {
        receive();
    }
    std::vector<TestRequest*> all;
    for (TestRequest& request : requests) {
        all.push_back(&request);
    }
    ASSERT_TRUE(world.run(all));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        ASSERT_TRUE(in[i] == out[i]) << sizes[i];
    }
}

} // namespace adaptib::test
