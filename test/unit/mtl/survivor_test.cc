// SPDX-License-Identifier: BSD-3-Clause
// Requests of a job that survives failed processes: one thread ends a request while another one
// frees it.
#include <gtest/gtest.h>

#include "unit/mtl/survivor_stand_in.h"

namespace {

class Survivor : public testing::Test {
protected:
    void SetUp() override {
        if (!survivor_stand_in_open()) {
            GTEST_SKIP() << "since Open MPI 5";
        }
        open_ = true;
    }
    void TearDown() override {
        if (open_) {
            EXPECT_EQ(survivor_stand_in_holders(), 0) << "receives and operations are released";
            survivor_stand_in_close();
        }
    }
    static int receive() {
        const int number = survivor_stand_in_receive();
        EXPECT_GE(number, 0);
        return number;
    }

private:
    bool open_ = false;
};

int first; // of the receives in a test
int second;

TEST_F(Survivor, ReceiveEndsAndIsFreed) {
    first = receive();
    EXPECT_FALSE(survivor_stand_in_is_complete(first));
    survivor_stand_in_end(first, false);
    EXPECT_TRUE(survivor_stand_in_is_complete(first));
    survivor_stand_in_free(first);
    second = receive();
    EXPECT_TRUE(survivor_stand_in_are_same(first, second)) << "the list is used again";
    survivor_stand_in_end(second, true);
    survivor_stand_in_free(second);
}

TEST_F(Survivor, ReceiveThatWasFreedLivesOnToItsEnd) {
    first = receive();
    survivor_stand_in_free(first);
    second = receive();
    EXPECT_FALSE(survivor_stand_in_are_same(first, second));
    survivor_stand_in_end(first, false);
    EXPECT_FALSE(survivor_stand_in_is_complete(second));
    survivor_stand_in_end(second, false);
    survivor_stand_in_free(second);
}

TEST_F(Survivor, ReceiveThatIsFreedAmidItsEndIsNotUsedAgainBefore) {
    first = receive();
    survivor_stand_in_break = [] {
        survivor_stand_in_free(first);
        second = receive();
    };
    survivor_stand_in_end(first, true);
    EXPECT_FALSE(survivor_stand_in_are_same(first, second));
    EXPECT_FALSE(survivor_stand_in_is_complete(second)) << "the end was another receive's";
    survivor_stand_in_break = nullptr;
    survivor_stand_in_end(second, false);
    survivor_stand_in_free(second);
}

TEST_F(Survivor, CancelledReceiveEndsOnce) {
    first = receive();
    survivor_stand_in_cancel(first);
    EXPECT_TRUE(survivor_stand_in_is_complete(first));
    survivor_stand_in_free(first);
}

TEST_F(Survivor, CompletionFunctionMayFreeTheReceive) {
    first = receive();
    survivor_stand_in_free_when_complete(first);
    survivor_stand_in_end(first, false);
    second = receive();
    EXPECT_TRUE(survivor_stand_in_are_same(first, second));
    survivor_stand_in_end(second, false);
    survivor_stand_in_free(second);
}

} // namespace
