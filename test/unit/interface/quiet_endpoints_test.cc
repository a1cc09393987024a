// SPDX-License-Identifier: BSD-3-Clause
// Several endpoints of one thread: progress() polls those where something is under way in each
// pass, the others now and then (interface/process.cc).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/process_name.h"
#include "common_adaptib_active.h"
#include "common_adaptib_two_sided.h"
#include "interface/handle.h"
#include "unit/interface/process_core.h"

namespace adaptib::test {
namespace {

constexpr std::int32_t kTag = 3;
constexpr int kPollQuiet = 32; // passes, as in interface/process.cc
constexpr int kManyPasses = 500;

// A process with two endpoints, of which the first sends to the second.
class QuietEndpoints : public ProcessCore {
protected:
    void SetUp() override {
        process_parameters().endpoints = 2;
        process_parameters().connect_threshold = 0;
        ASSERT_EQ(acquire(), OPAL_COMMON_ADAPTIB_SUCCESS);
        ASSERT_EQ(opal_common_adaptib_endpoints(core_), 2u);
        std::size_t size = 0;
        const auto* address =
            static_cast<const std::byte*>(opal_common_adaptib_core_address(core_, &size));
        published_[kSelf] = {address, address + size};
        receiver_ = opal_common_adaptib_endpoint(core_, 1);
        ASSERT_EQ(opal_common_adaptib_peer_at(core_, kSelf, 1, &to_receiver_),
                  OPAL_COMMON_ADAPTIB_SUCCESS);
        for (int i = 0; i < 100; ++i) { // connects
            Request request;
            post(request);
            Request sent;
            const opal_common_adaptib_envelope_t envelope{0, 0, kTag};
            const opal_common_adaptib_data_t data = data_of(out_.data(), out_.size());
            const int code = opal_common_adaptib_send(core_, to_receiver_, &envelope, &data,
                                                      OPAL_COMMON_ADAPTIB_MODE_STANDARD,
                                                      OPAL_COMMON_ADAPTIB_NON_BLOCKING, &sent.user);
            const int sends = code == OPAL_COMMON_ADAPTIB_COMPLETE ? 0 : 1;
            ASSERT_TRUE(run([&] { return request.reported == 1 && sent.reported == sends; }));
        }
        rest();
    }
    void post(Request& request) {
        ASSERT_EQ(opal_common_adaptib_recv_contig(receiver_, nullptr, 0,
                                                  OPAL_COMMON_ADAPTIB_ANY_SOURCE, kTag, in_.data(),
                                                  in_.size(), &request.user),
                  OPAL_COMMON_ADAPTIB_SUCCESS);
    }
    bool send() {
        return opal_common_adaptib_try_send(core_, to_receiver_, 0, 0, kTag, out_.data(),
                                            out_.size()) == OPAL_COMMON_ADAPTIB_COMPLETE;
    }
    void rest() {
        for (int pass = 0; pass < kManyPasses; ++pass) {
            opal_common_adaptib_progress(core_);
        }
    }
    std::uint64_t unexpected() {
        receiver_->protocol->update_levels();
        return endpoint_counters(1).unexpected_now;
    }
    // Returns the number of passes until the condition is true.
    template <class Condition> int passes_until(Condition&& condition) {
        int passes = 0;
        while (!condition() && passes < kManyPasses) {
            opal_common_adaptib_progress(core_);
            ++passes;
        }
        return passes;
    }

    opal_common_adaptib_core_t* receiver_ = nullptr; // the second endpoint
    opal_common_adaptib_peer_t* to_receiver_ = nullptr;
    std::array<std::byte, 8> in_{};
    std::array<std::byte, 8> out_{};
};

TEST_F(QuietEndpoints, AreServedNowAndThen) {
    int most = 0;
    int all = 0;
    for (int i = 0; i < 20; ++i) {
        const std::uint64_t before = unexpected();
        ASSERT_TRUE(send());
        const int passes = passes_until([&] { return unexpected() > before; });
        most = std::max(most, passes);
        all += passes;
        for (int pass = 0; pass < i; ++pass) {
            opal_common_adaptib_progress(core_);
        }
    }
    EXPECT_LE(most, kPollQuiet);
    EXPECT_GT(all, 5 * 20) << "an endpoint where nothing is under way is polled in each pass";
}

TEST_F(QuietEndpoints, AreNotQuietWhileAReceiveWaits) {
    Request request;
    post(request);
    rest();
    EXPECT_TRUE(receiver_->wants_progress);
    ASSERT_TRUE(send());
    EXPECT_LE(passes_until([&] { return request.reported == 1; }), 2);
    rest();
    EXPECT_FALSE(receiver_->wants_progress);
}

TEST_F(QuietEndpoints, ArePolledAfterEachCall) {
    for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(send());
        const opal_common_adaptib_envelope_t pattern{0, OPAL_COMMON_ADAPTIB_ANY_SOURCE, kTag};
        opal_common_adaptib_probe_t found{};
        EXPECT_LE(passes_until([&] {
                      return opal_common_adaptib_probe(receiver_, nullptr, &pattern, &found) ==
                             OPAL_COMMON_ADAPTIB_SUCCESS;
                  }),
                  2);
        Request request;
        EXPECT_EQ(opal_common_adaptib_recv_contig(receiver_, nullptr, 0, 0, kTag, in_.data(),
                                                  in_.size(), &request.user),
                  OPAL_COMMON_ADAPTIB_COMPLETE);
        rest();
    }
}

TEST_F(QuietEndpoints, StayQuietAfterASendThatIsComplete) {
    ASSERT_FALSE(core_->wants_progress);
    ASSERT_TRUE(send());
    EXPECT_FALSE(core_->wants_progress) << "the message is in the peer's ring";
    Request request;
    std::vector<std::byte> large(1 << 20);
    const opal_common_adaptib_envelope_t envelope{0, 0, kTag + 1};
    const opal_common_adaptib_data_t data = data_of(large.data(), large.size());
    ASSERT_EQ(opal_common_adaptib_send(core_, to_receiver_, &envelope, &data,
                                       OPAL_COMMON_ADAPTIB_MODE_STANDARD,
                                       OPAL_COMMON_ADAPTIB_NON_BLOCKING, &request.user),
              OPAL_COMMON_ADAPTIB_SUCCESS);
    rest();
    EXPECT_EQ(request.reported, 0);
    EXPECT_TRUE(core_->wants_progress) << "the send waits for its receive";
    std::vector<std::byte> room(large.size());
    Request received;
    const int code = opal_common_adaptib_recv_contig(receiver_, nullptr, 0, 0, kTag + 1,
                                                     room.data(), room.size(), &received.user);
    const int receives = code == OPAL_COMMON_ADAPTIB_COMPLETE ? 0 : 1;
    EXPECT_TRUE(run([&] { return request.reported == 1 && received.reported == receives; }));
    rest();
    EXPECT_FALSE(core_->wants_progress);
}

// The handler of active messages answers others, who wait for it.
TEST_F(QuietEndpoints, AreNotQuietWithAHandler) {
    int handled = 0;
    opal_common_adaptib_active_listen(
        receiver_,
        [](void* context, opal_common_adaptib_peer_t*, std::uint8_t, const void*, std::size_t) {
            ++*static_cast<int*>(context);
        },
        &handled);
    for (int i = 1; i <= 20; ++i) {
        rest();
        ASSERT_EQ(
            opal_common_adaptib_active_try_send(core_, to_receiver_, 9, out_.data(), 4, nullptr, 0),
            OPAL_COMMON_ADAPTIB_COMPLETE);
        EXPECT_LE(passes_until([&] { return handled == i; }), 2);
    }
    opal_common_adaptib_active_listen(receiver_, nullptr, nullptr);
}

// Another thread that wonders whether anybody polls them must not take their locks.
TEST_F(QuietEndpoints, CountThePassesOfTheirThread) {
    const std::uint32_t before = receiver_->passes;
    rest();
    EXPECT_EQ(receiver_->passes - before, static_cast<std::uint32_t>(kManyPasses));
}

} // namespace
} // namespace adaptib::test
