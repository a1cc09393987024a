// SPDX-License-Identifier: BSD-3-Clause
// Active messages through the C interface: listeners, lengths, and what is refused.
#include "common_adaptib_active.h"

#include <cstring>
#include <limits>

#include "unit/interface/other_process.h"

namespace adaptib::test {
namespace {

constexpr std::uint8_t kTag = 200;

class ActiveMessages : public TwoProcesses {
protected:
    struct Arrival {
        std::uint8_t tag = 0;
        std::vector<std::byte> data;
        void* from = nullptr;
    };

    void SetUp() override {
        begin();
        other_core().protocol().active().listen(
            [](void* context, Peer& peer, std::uint8_t tag, const std::byte* data, Bytes bytes) {
                static_cast<ActiveMessages*>(context)->there_.push_back(
                    {tag, {data, data + bytes}, &peer});
            },
            this);
    }
    int send(opal_common_adaptib_peer_t* peer, void* base, std::size_t bytes, Request& request) {
        const auto data = data_of(base, bytes);
        return opal_common_adaptib_active_send(core_, peer, kTag, &data, &request.user);
    }
    // Sends a message to the other process and waits until it is there.
    void deliver(std::vector<std::byte>& data) {
        const std::size_t before = there_.size();
        Request request;
        const int code = send(other(), data.data(), data.size(), request);
        ASSERT_TRUE(code == kComplete || code == kSuccess) << code;
        ASSERT_TRUE(run_both(
            [&] { return there_.size() > before && (code == kComplete || request.reported > 0); }));
        EXPECT_EQ(there_.back().tag, kTag);
        EXPECT_EQ(there_.back().data, data);
    }
    // Sends messages until there is a connection, which the fast path needs.
    void connect() {
        std::vector<std::byte> data = pattern(8, 1);
        for (int i = 0; i <= process_parameters().connect_threshold; ++i) {
            deliver(data);
        }
        ASSERT_TRUE(run_both([&] { return others_->counters(0).rings_open > 0; }));
        there_.clear();
    }
    void answer(std::vector<std::byte> data) {
        Peer* here = nullptr;
        ASSERT_TRUE(other_core().peers().get(kSelf, here).ok());
        TestRequest request;
        bool complete = false;
        ASSERT_TRUE(other_core()
                        .protocol()
                        .active()
                        .send(*here, 7, contiguous(data), request.user, complete)
                        .ok());
        ASSERT_TRUE(run_both([&] { return complete || request.done; }));
    }
    static std::uint64_t bad_packets() {
        std::size_t count = 0;
        const auto* table = opal_common_adaptib_counters(&count);
        for (std::size_t i = 0; i < count; ++i) {
            if (std::string_view(table[i].name) == "bad_packets") {
                return *table[i].value;
            }
        }
        ADD_FAILURE() << "no such counter";
        return 0;
    }

    std::vector<Arrival> there_;
};

TEST_F(ActiveMessages, EveryLengthUpToTheLongestArrives) {
    const std::size_t most = opal_common_adaptib_active_max(core_);
    ASSERT_GT(most, 1000u);
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{100}, most - 1, most}) {
        std::vector<std::byte> data = pattern(bytes, bytes + 1);
        deliver(data);
    }
    EXPECT_TRUE(messages_.empty());
}

TEST_F(ActiveMessages, LongerOnesAreBadParameters) {
    const std::size_t most = opal_common_adaptib_active_max(core_);
    std::vector<std::byte> data = pattern(most + 1, 1);
    Request request;
    EXPECT_EQ(send(other(), data.data(), most + 1, request), OPAL_COMMON_ADAPTIB_BAD_PARAM);
    EXPECT_EQ(send(other(), data.data(), std::numeric_limits<std::size_t>::max(), request),
              OPAL_COMMON_ADAPTIB_BAD_PARAM);
    // The fast path does not take them either.
    connect();
    const std::size_t lengths[][2] = {{most, 1}, {1, most}, {most + 1, 0}};
    for (const auto& [first, second] : lengths) {
        EXPECT_EQ(opal_common_adaptib_active_try_send(core_, other(), kTag, data.data(), first,
                                                      data.data(), second),
                  OPAL_COMMON_ADAPTIB_AGAIN);
    }
    for (int pass = 0; pass < 100; ++pass) {
        others_->progress();
        opal_common_adaptib_progress(core_);
    }
    EXPECT_TRUE(there_.empty());
    EXPECT_EQ(request.reported, 0);
    data.resize(10);
    deliver(data);
}

TEST_F(ActiveMessages, ThisProcessIsNoTarget) {
    char text[] = "to me";
    Request request;
    EXPECT_EQ(send(self(), text, sizeof text, request), OPAL_COMMON_ADAPTIB_BAD_PARAM);
    EXPECT_EQ(
        opal_common_adaptib_active_try_send(core_, self(), kTag, text, sizeof text, nullptr, 0),
        OPAL_COMMON_ADAPTIB_AGAIN);
    EXPECT_EQ(
        opal_common_adaptib_active_gather(core_, self(), kTag, text, 2, text + 2, 4, &request.user),
        OPAL_COMMON_ADAPTIB_AGAIN);
    opal_common_adaptib_active_declined(core_, self(), 5000);
    opal_common_adaptib_progress(core_);
    EXPECT_EQ(request.reported, 0);
}

TEST_F(ActiveMessages, TwoPiecesBecomeOneMessage) {
    std::vector<std::byte> data = pattern(20, 3);
    connect();
    ASSERT_TRUE(run_both([&] {
        return opal_common_adaptib_active_try_send(core_, other(), kTag, data.data(), 8,
                                                   data.data() + 8, 12) == kComplete;
    }));
    ASSERT_TRUE(run_both([&] { return !there_.empty(); }));
    EXPECT_EQ(there_.front().data, data);
}

TEST_F(ActiveMessages, TheListenerGetsWhatComes) {
    std::vector<Arrival> here;
    opal_common_adaptib_active_listen(
        core_,
        [](void* context, opal_common_adaptib_peer_t* peer, std::uint8_t tag, const void* data,
           std::size_t bytes) {
            const auto* from = static_cast<const std::byte*>(data);
            static_cast<std::vector<Arrival>*>(context)->push_back(
                {tag, {from, from + bytes}, peer});
        },
        &here);
    std::vector<std::byte> data = pattern(64, 9);
    answer(data);
    ASSERT_TRUE(run_both([&] { return !here.empty(); }));
    EXPECT_EQ(here.front().tag, 7);
    EXPECT_EQ(here.front().data, data);
    EXPECT_EQ(here.front().from, other());

    opal_common_adaptib_active_listen(core_, nullptr, nullptr);
    const std::uint64_t before = bad_packets();
    answer(data);
    ASSERT_TRUE(run_both([&] { return bad_packets() > before; }));
    EXPECT_EQ(here.size(), 1u) << "nobody listens any more";
}

TEST_F(ActiveMessages, TheEagerSizeHasOneAddress) {
    const std::size_t* eager = opal_common_adaptib_active_eager(core_);
    ASSERT_NE(eager, nullptr);
    EXPECT_LE(*eager, opal_common_adaptib_active_max(core_));
    std::vector<std::byte> data = pattern(64, 9);
    deliver(data);
    opal_common_adaptib_active_declined(core_, other(), 5000);
    EXPECT_EQ(opal_common_adaptib_active_eager(core_), eager);
}

} // namespace
} // namespace adaptib::test
