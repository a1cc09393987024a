// SPDX-License-Identifier: BSD-3-Clause
// TestRequest: a request that knows whether it has ended.
// May touch: protocol/, gtest.
#pragma once

#include <gtest/gtest.h>

#include "protocol/protocol.h"

namespace adaptib::test {

struct TestRequest {
    UserRequest user{};
    bool done = false;

    TestRequest() {
        user.complete = [](UserRequest* request) {
            auto* self = reinterpret_cast<TestRequest*>(request);
            EXPECT_FALSE(self->done) << "reported twice";
            self->done = true;
        };
    }
};

} // namespace adaptib::test
