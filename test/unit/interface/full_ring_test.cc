// SPDX-License-Identifier: BSD-3-Clause
// Messages that find a full ring, through the C interface: the fast path asks the ring once, and
// what it refuses asks once more and then waits for room. Nothing asks a third time on the way.
#include <optional>

#include "interface/handle.h"
#include "unit/interface/other_process.h"
#include "unit/null_rail.h"

namespace adaptib::test {
namespace {

constexpr std::uint8_t kActiveTag = 200;

// Reaches memory of this process. A writer asks once for each attempt to find room whether the
// queue pair is usable.
class AskedQp final : public QueuePair {
public:
    AskedQp() : QueuePair(QpType::rc) {}
    mutable int asked = 0;

private:
    Status modify_impl(const QpAttributes&, std::uint32_t) override { return kOk; }
    QpAttributes query_impl() const override { return {}; }
    Status post_send_impl(const SendWork&) override { return Status::error(Reason::bad_state); }
    Status post_receive_impl(const ReceiveWork&) override { return kOk; }
    void* map_impl(std::uint64_t address, Bytes, std::uint32_t) override {
        return reinterpret_cast<void*>(address);
    }
    bool usable_impl() const override {
        ++asked;
        return true;
    }
};

class FullRing : public TwoProcesses {
protected:
    static constexpr std::uint64_t kUnits = 256;
    struct alignas(kCacheLine) Line {
        std::byte bytes[kCacheLine];
    };

    void SetUp() override {
        begin();
        other_core().protocol().active().listen(
            [](void* context, Peer&, std::uint8_t, const std::byte*, Bytes) {
                ++static_cast<FullRing*>(context)->active_;
            },
            this);
        for (int i = 0; i <= process_parameters().connect_threshold; ++i) {
            const auto data = data_of(data_.data(), 8);
            Request request;
            const int arrived = active_;
            ASSERT_GE(
                opal_common_adaptib_active_send(core_, other(), kActiveTag, &data, &request.user),
                0);
            ASSERT_TRUE(run_both([&] { return active_ > arrived; }));
        }
        ASSERT_TRUE(run_both([&] { return peer().out.ring != nullptr; }));
        active_ = 0;
        fill();
    }
    void TearDown() override {
        own_ring();
        TwoProcesses::TearDown();
    }

    Peer& peer() { return *reinterpret_cast<Peer*>(other()); }
    // Lets the peer have a ring without room, which counts the attempts.
    void fill() {
        const RingTarget target{.address = reinterpret_cast<std::uintptr_t>(lines_.data()),
                                .units = kUnits};
        auto full = std::make_unique<RingWriter>(rail_, qp_, target, &credit_, 0);
        MessageHeader header;
        header.type = MessageType::eager;
        while (full->reserve(0) != nullptr) {
            ASSERT_TRUE(full->commit(header).ok());
            ++header.sequence;
        }
        capacity_ = peer().out.ring_capacity;
        own_ = std::exchange(peer().out.ring, std::move(full));
        qp_.asked = 0;
    }
    // Gives the peer its own ring back.
    void own_ring() {
        if (own_ != nullptr) {
            full_ = std::exchange(peer().out.ring, std::move(own_));
            peer().out.ring_capacity = capacity_;
        }
    }
    int try_send(std::size_t bytes) {
        return opal_common_adaptib_try_send(core_, other(), 0, 1, 5, data_.data(), bytes);
    }
    int send(std::size_t bytes, opal_common_adaptib_mode_t mode) {
        const opal_common_adaptib_envelope_t envelope{0, 1, 5};
        const auto data = data_of(data_.data(), bytes);
        return opal_common_adaptib_send(core_, other(), &envelope, &data, mode,
                                        OPAL_COMMON_ADAPTIB_BLOCKING, &request_.user);
    }
    int try_active(std::size_t bytes) {
        return opal_common_adaptib_active_try_send(core_, other(), kActiveTag, data_.data(), 8,
                                                   data_.data() + 8, bytes - 8);
    }
    // Receives the message, once its own ring is back.
    void receive(std::size_t bytes) {
        own_ring();
        std::vector<std::byte> got(bytes);
        TestRequest receive;
        ASSERT_TRUE(others_->receive(0, 1, 5, contiguous(got), receive).ok());
        ASSERT_TRUE(run_both([&] { return receive.done && request_.reported == 1; }));
        EXPECT_TRUE(std::equal(got.begin(), got.end(), data_.begin()));
    }

    std::vector<std::byte> data_ = pattern(4000, 1);
    NullRail rail_;
    AskedQp qp_;
    std::vector<Line> lines_ = std::vector<Line>(kUnits);
    std::uint64_t credit_ = 0;
    std::unique_ptr<RingWriter> own_;
    std::unique_ptr<RingWriter> full_;
    Bytes capacity_ = 0;
    Request request_;
    int active_ = 0;
};

TEST_F(FullRing, AMessageAsksOnTheFastPathAndOnTheFullOne) {
    ASSERT_EQ(try_send(100), kAgain);
    EXPECT_EQ(qp_.asked, 1);
    ASSERT_EQ(send(100, OPAL_COMMON_ADAPTIB_MODE_REFUSED), kSuccess);
    EXPECT_EQ(qp_.asked, 2);
    receive(100);
}

TEST_F(FullRing, ASendThatWasNotRefusedTriesTheFastPathItself) {
    ASSERT_EQ(send(100, OPAL_COMMON_ADAPTIB_MODE_STANDARD), kSuccess);
    EXPECT_EQ(qp_.asked, 2);
    receive(100);
}

TEST_F(FullRing, ALongerMessageAsksNoMoreOften) {
    static_cast<void>(try_send(3000));
    ASSERT_EQ(send(3000, OPAL_COMMON_ADAPTIB_MODE_REFUSED), kSuccess);
    EXPECT_LE(qp_.asked, 2);
    receive(3000);
}

TEST_F(FullRing, AnActiveMessageAsksOnTheFastPathAndOnTheFullOne) {
    ASSERT_EQ(try_active(100), kAgain);
    EXPECT_EQ(qp_.asked, 1);
    const auto data = data_of(data_.data(), 100);
    ASSERT_EQ(opal_common_adaptib_active_send(core_, other(), kActiveTag, &data, &request_.user),
              kSuccess);
    EXPECT_EQ(qp_.asked, 2);
    own_ring();
    ASSERT_TRUE(run_both([&] { return active_ == 1 && request_.reported == 1; }));
}

TEST_F(FullRing, BehindAMessageThatWaitsNothingAsks) {
    ASSERT_EQ(send(100, OPAL_COMMON_ADAPTIB_MODE_STANDARD), kSuccess);
    qp_.asked = 0;
    Request behind;
    const auto data = data_of(data_.data(), 50);
    EXPECT_EQ(try_active(50), kAgain);
    ASSERT_EQ(opal_common_adaptib_active_send(core_, other(), kActiveTag, &data, &behind.user),
              kSuccess);
    EXPECT_EQ(qp_.asked, 0);
    receive(100);
    ASSERT_TRUE(run_both([&] { return active_ == 1 && behind.reported == 1; }));
}

} // namespace
} // namespace adaptib::test
