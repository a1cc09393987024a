// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/unpolled_requests.h"

#include <gtest/gtest.h>

namespace adaptib::verbs {
namespace {

TEST(UnpolledRequests, ACompletionCoversTheRequestsBeforeIt) {
    UnpolledRequests requests;
    requests.posted(false);
    requests.posted(false);
    requests.posted(true);
    requests.posted(true);
    requests.posted(false);
    EXPECT_EQ(requests.size(), 5u);
    requests.polled();
    EXPECT_EQ(requests.size(), 2u);
    requests.polled();
    EXPECT_EQ(requests.size(), 1u);
    requests.posted(true);
    requests.polled();
    EXPECT_EQ(requests.size(), 0u);
    requests.posted(true);
    requests.clear();
    EXPECT_EQ(requests.size(), 0u);
}

TEST(UnpolledRequestsDeathTest, NoMoreAreCoveredThanArePosted) {
    UnpolledRequests requests;
    requests.posted(false);
    EXPECT_DEATH(requests.polled(), "a completion is that of a signaled request");
}

} // namespace
} // namespace adaptib::verbs
