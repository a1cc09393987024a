// SPDX-License-Identifier: BSD-3-Clause
// The count that a posted message takes along (channel/carried_credit.h).
#include "channel/carried_credit.h"

#include <gtest/gtest.h>

namespace adaptib::test {
namespace {

TEST(CarriedCredit, AMessageTakesTheCountAlongOnce) {
    CarriedCredit credit;
    credit.carry(70);
    credit.reserve();
    ASSERT_TRUE(credit.reserved());
    EXPECT_EQ(credit.count(), 70u);
    EXPECT_EQ(credit.carried(), 0u) << "it is not on its way yet";
    credit.on_posted();
    EXPECT_EQ(credit.carried(), 70u);
    credit.reserve();
    EXPECT_FALSE(credit.reserved());
}

TEST(CarriedCredit, AMessageReservedBeforeThereWasACountTakesNone) {
    CarriedCredit credit;
    credit.reserve();
    credit.carry(70);
    EXPECT_FALSE(credit.reserved());
    credit.on_posted();
    EXPECT_EQ(credit.carried(), 0u);
    credit.reserve();
    EXPECT_TRUE(credit.reserved()) << "the next one does";
}

TEST(CarriedCredit, AMessageThatIsNotPostedLeavesTheCountToTheNext) {
    CarriedCredit credit;
    credit.carry(70);
    credit.reserve();
    credit.carry(90);
    credit.reserve();
    EXPECT_EQ(credit.count(), 90u);
    credit.on_posted();
    EXPECT_EQ(credit.carried(), 90u);
}

} // namespace
} // namespace adaptib::test
