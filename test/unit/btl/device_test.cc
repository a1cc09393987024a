// SPDX-License-Identifier: BSD-3-Clause
// One-sided operations on device memory over the BTL: pieces that the core has no memory for,
// until later, and pieces that fail, when their operation has begun.
#include "unit/btl/device_stand_in.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <vector>

#include "common_adaptib.h"
#include "unit/btl/way_stand_in.h"

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::size_t kBytes = 2 * kPiece + 1000; // three pieces

constexpr int kStarted = OPAL_COMMON_ADAPTIB_SUCCESS;
constexpr int kComplete = OPAL_COMMON_ADAPTIB_COMPLETE;
constexpr int kNoMemory = OPAL_COMMON_ADAPTIB_NO_MEMORY;
constexpr int kError = OPAL_COMMON_ADAPTIB_ERROR;
constexpr int kRefused = OPAL_COMMON_ADAPTIB_BAD_PARAM;
constexpr int kUnreachable = OPAL_COMMON_ADAPTIB_UNREACHABLE;

// Each test for puts and for gets.
class Device : public testing::TestWithParam<bool> {
protected:
    void SetUp() override {
        ASSERT_TRUE(way_stand_in_open(1));
        device_stand_in_open();
        std::vector<unsigned char>& from = is_put() ? device_ : target_;
        for (std::size_t i = 0; i < kBytes; ++i) {
            from[i] = static_cast<unsigned char>(i % 251);
        }
    }
    void TearDown() override {
        EXPECT_FALSE(device_stand_in_busy());
        way_stand_in_close();
    }

    static bool is_put() { return GetParam(); }
    static void core_returns(std::initializer_list<int> codes) {
        std::copy(codes.begin(), codes.end(), device_stand_in.codes);
    }
    bool start() { return device_stand_in_start(is_put(), device_.data(), target_.data(), kBytes); }
    void expect_success() const {
        EXPECT_EQ(device_stand_in.callbacks, 1);
        EXPECT_TRUE(device_stand_in.succeeded);
        EXPECT_EQ(device_stand_in.gave_up, 0);
        EXPECT_TRUE(device_ == target_);
    }
    static void expect_failure() {
        EXPECT_EQ(device_stand_in.callbacks, 1);
        EXPECT_FALSE(device_stand_in.succeeded);
        EXPECT_EQ(device_stand_in.gave_up, 1) << "osc/rdma would treat it as done";
    }

    std::vector<unsigned char> device_ = std::vector<unsigned char>(kBytes);
    std::vector<unsigned char> target_ = std::vector<unsigned char>(kBytes);
};

TEST_P(Device, OperationGoesPieceByPiece) {
    core_returns({kStarted, kComplete, kStarted});
    ASSERT_TRUE(start());
    device_stand_in_end(kStarted);
    EXPECT_EQ(device_stand_in.starts, 3);
    EXPECT_EQ(device_stand_in.callbacks, 0);
    device_stand_in_end(kStarted);
    expect_success();
}

TEST_P(Device, PieceThatTheCoreHasNoMemoryForIsTriedAgain) {
    core_returns({kStarted, kNoMemory, kNoMemory, kStarted, OPAL_COMMON_ADAPTIB_AGAIN, kStarted});
    ASSERT_TRUE(start());
    device_stand_in_end(kStarted);
    EXPECT_EQ(device_stand_in.callbacks, 0);
    EXPECT_TRUE(device_stand_in_busy()) << "a flush waits for it";
    device_stand_in_progress();
    EXPECT_EQ(device_stand_in.starts, 3);
    EXPECT_TRUE(device_stand_in_busy());
    device_stand_in_progress();
    device_stand_in_progress(); // its piece is under way
    EXPECT_EQ(device_stand_in.starts, 4);
    device_stand_in_end(kStarted);
    device_stand_in_progress();
    EXPECT_EQ(device_stand_in.callbacks, 0);
    device_stand_in_end(kStarted);
    expect_success();
    EXPECT_EQ(device_stand_in.starts, 6);
    EXPECT_EQ(device_stand_in.copies, 3) << "one for each piece";
}

TEST_P(Device, PieceThatEndsForWantOfMemoryIsTriedAgain) {
    core_returns({kStarted, kStarted, kComplete, kComplete});
    ASSERT_TRUE(start());
    device_stand_in_end(kNoMemory);
    EXPECT_TRUE(device_stand_in_busy());
    device_stand_in_progress();
    device_stand_in_end(kStarted);
    expect_success();
}

TEST_P(Device, CallerRepeatsAnOperationThatWasNotAccepted) {
    core_returns({kNoMemory, kComplete, kComplete, kComplete});
    EXPECT_FALSE(start());
    EXPECT_FALSE(device_stand_in_busy());
    EXPECT_EQ(device_stand_in.callbacks, 0);
    ASSERT_TRUE(start());
    expect_success();
}

TEST_P(Device, OpenMpiIsToldOfAPieceThatFails) {
    for (const int status : {kError, kRefused, kUnreachable}) {
        device_stand_in_open();
        core_returns({kStarted, kStarted});
        ASSERT_TRUE(start());
        device_stand_in_end(kStarted);
        device_stand_in_end(status);
        expect_failure();
    }
}

TEST_P(Device, OpenMpiIsToldOfACopyThatFails) {
    core_returns({kStarted, kStarted});
    device_stand_in.failing_copy = 2;
    ASSERT_TRUE(start());
    device_stand_in_end(kStarted);
    if (!is_put()) {
        device_stand_in_end(kStarted); // a get copies behind its transfer
    }
    expect_failure();
}

TEST_P(Device, NothingIsTriedAgainAtTheEnd) {
    core_returns({kStarted, kNoMemory});
    ASSERT_TRUE(start());
    device_stand_in_end(kStarted);
    device_stand_in_finalize();
    device_stand_in_progress();
    EXPECT_EQ(device_stand_in.starts, 2);
    EXPECT_EQ(device_stand_in.callbacks, 0);
}

INSTANTIATE_TEST_SUITE_P(Both, Device, testing::Bool(),
                         [](const auto& info) { return info.param ? "Put" : "Get"; });

} // namespace
