// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/send_places.h"

#include <gtest/gtest.h>

namespace adaptib::verbs {
namespace {

TEST(SendPlaces, ACompletionFreesThePlacesOfTheRequestsBeforeIt) {
    SendPlaces places(4, true);
    places.posted(false);
    places.posted(false);
    places.posted(true);
    EXPECT_FALSE(places.full());
    places.posted(true);
    EXPECT_TRUE(places.full());
    places.polled(); // the third one
    places.posted(false);
    places.posted(true);
    EXPECT_FALSE(places.full());
    places.posted(false);
    EXPECT_TRUE(places.full());
    places.polled(); // the fourth one
    EXPECT_FALSE(places.full());
    places.polled();
    places.posted(true);
    places.posted(true);
    places.posted(true);
    EXPECT_TRUE(places.full());
    places.clear();
    EXPECT_FALSE(places.full());
}

TEST(SendPlaces, TheProviderCountsThemWhereItFreesThemByPolls) {
    SendPlaces places(1, false);
    places.posted(true);
    places.posted(true);
    EXPECT_FALSE(places.full());
    places.polled();
    EXPECT_EQ(places.depth(), 1u);
}

TEST(SendPlacesDeathTest, NoMoreAreFreedThanAreTaken) {
    SendPlaces places(4, true);
    places.posted(false);
    EXPECT_DEATH(places.polled(), "a completion is that of a signaled request");
}

} // namespace
} // namespace adaptib::verbs
