// SPDX-License-Identifier: BSD-3-Clause
// The MTL's buffered sends: what they return when the core ends the message within the call, starts
// it, or refuses it.
#define OMPI_SKIP_MPICXX 1 // no interface in C++, which would need its library
#include <gtest/gtest.h>
#include <mpi.h>

#include "common_adaptib.h"
#include "unit/mtl/buffered_stand_in.h"

namespace {

class Buffered : public testing::Test {
protected:
    void SetUp() override { buffered_stand_in_open(); }
    void TearDown() override {
        EXPECT_EQ(buffered_stand_in_holders(), 0) << "the communicator is released";
        buffered_stand_in_close();
    }

    static void core_returns(int code, int status = OPAL_COMMON_ADAPTIB_SUCCESS) {
        buffered_stand_in.code = code;
        buffered_stand_in.status = status;
    }
};

TEST_F(Buffered, SendSucceedsIfItEndsWithinTheCall) {
    core_returns(OPAL_COMMON_ADAPTIB_COMPLETE);
    EXPECT_EQ(buffered_stand_in_send(), MPI_SUCCESS);
    EXPECT_EQ(buffered_stand_in.sends, 1);
}

TEST_F(Buffered, SendReturnsTheErrorThatTheMessageEndsWithWithinTheCall) {
    core_returns(OPAL_COMMON_ADAPTIB_COMPLETE, OPAL_COMMON_ADAPTIB_NO_MEMORY);
    EXPECT_EQ(buffered_stand_in_send(), MPI_ERR_NO_MEM);
    core_returns(OPAL_COMMON_ADAPTIB_COMPLETE, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_EQ(buffered_stand_in_send(), MPI_ERR_OTHER);
    EXPECT_EQ(buffered_stand_in.sends, 2);
}

TEST_F(Buffered, SendReturnsTheErrorOfTheCall) {
    core_returns(OPAL_COMMON_ADAPTIB_NO_MEMORY);
    EXPECT_LT(buffered_stand_in_send(), MPI_SUCCESS) << "one of Open MPI's own codes";
}

TEST_F(Buffered, MessageUnderWayHoldsTheCommunicator) {
    core_returns(OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(buffered_stand_in_send(), MPI_SUCCESS);
    EXPECT_EQ(buffered_stand_in_holders(), 1);
    buffered_stand_in_end(OPAL_COMMON_ADAPTIB_SUCCESS);
}

TEST_F(Buffered, PersistentRequestHasNoErrorBeforeItsStart) {
    EXPECT_EQ(buffered_stand_in_make(), MPI_SUCCESS);
    buffered_stand_in_free();
}

TEST_F(Buffered, PersistentRequestEndsWithTheErrorOfTheMessage) {
    ASSERT_EQ(buffered_stand_in_make(), MPI_SUCCESS);
    core_returns(OPAL_COMMON_ADAPTIB_COMPLETE);
    EXPECT_EQ(buffered_stand_in_start(), MPI_SUCCESS);
    core_returns(OPAL_COMMON_ADAPTIB_COMPLETE, OPAL_COMMON_ADAPTIB_NO_MEMORY);
    EXPECT_EQ(buffered_stand_in_start(), MPI_ERR_NO_MEM);
    core_returns(OPAL_COMMON_ADAPTIB_COMPLETE);
    EXPECT_EQ(buffered_stand_in_start(), MPI_SUCCESS);
    buffered_stand_in_free();
}

} // namespace
