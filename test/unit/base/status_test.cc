// SPDX-License-Identifier: BSD-3-Clause
// Status: categories, and a text for each reason.
#include "base/status.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

namespace adaptib {
namespace {

TEST(Status, DefaultIsOk) {
    const Status status;
    EXPECT_TRUE(status.ok());
    EXPECT_FALSE(status.is_again());
    EXPECT_FALSE(status.is_error());
    EXPECT_EQ(status.reason(), Reason::none);
    EXPECT_EQ(status, kOk);
}

TEST(Status, AgainAndErrorAreToldApartAndKeepTheirReason) {
    const Status again = Status::again(Reason::no_credit);
    EXPECT_FALSE(again.ok());
    EXPECT_TRUE(again.is_again());
    EXPECT_FALSE(again.is_error());
    EXPECT_EQ(again.category(), Category::again);
    EXPECT_EQ(again.reason(), Reason::no_credit);

    const Status error = Status::error(Reason::no_credit);
    EXPECT_FALSE(error.ok());
    EXPECT_FALSE(error.is_again());
    EXPECT_TRUE(error.is_error());
    EXPECT_EQ(error.reason(), Reason::no_credit);

    EXPECT_NE(again, error);
    EXPECT_NE(error, Status::error(Reason::internal));
    EXPECT_EQ(error, Status::error(Reason::no_credit));
}

TEST(Status, EveryReasonHasATextOfItsOwn) {
    const std::string unknown = reason_text(static_cast<Reason>(255));
    ASSERT_FALSE(unknown.empty());
    std::set<std::string> seen{unknown};
    for (int i = 0; i <= static_cast<int>(Reason::internal); ++i) {
        const char* const text = reason_text(static_cast<Reason>(i));
        ASSERT_NE(text, nullptr);
        EXPECT_GT(std::strlen(text), 0u) << i;
        EXPECT_TRUE(seen.insert(text).second) << i << ": " << text;
    }
    // `internal` is the last one.
    EXPECT_EQ(reason_text(static_cast<Reason>(static_cast<int>(Reason::internal) + 1)), unknown);
}

} // namespace
} // namespace adaptib
