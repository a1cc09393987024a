// SPDX-License-Identifier: BSD-3-Clause
// A device is lost and comes back: the fabric opens it again, and makes anew what users keep.
#include <chrono>
#include <thread>

#include "fabric/answerer.h"
#include "unit/verbs/verbs_fixture.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

struct NoAnswers final : Answerer {
    Reply answer(std::uint32_t, std::span<const std::byte>,
                 std::span<std::byte>) const noexcept override {
        return {};
    }
};

class ReturnedDevice : public VerbsTest {
protected:
    void lose() {
        ibv_async_event event{};
        event.event_type = IBV_EVENT_DEVICE_FATAL;
        lib_.raise(lib_.contexts.size() - 1, event);
        for (std::size_t i = 0; i < fabric_->rails().size(); ++i) {
            expect(EventKind::device_fatal, static_cast<std::uint32_t>(i));
        }
    }
    // Waits until the fabric looks for the device.
    bool returns() {
        for (int i = 0; i < 300; ++i) {
            if (next()) {
                return true;
            }
            std::this_thread::sleep_for(10ms);
        }
        return false;
    }
    bool next() { return fabric_->poll_event(event_); }
    void expect(EventKind kind, std::uint32_t of) {
        ASSERT_TRUE(next());
        is(kind, of);
    }
    void is(EventKind kind, std::uint32_t of) const {
        EXPECT_EQ(event_.kind, kind);
        EXPECT_EQ(event_.rail, of);
    }
    void open_and_return() {
        open_ib();
        lose();
        ASSERT_TRUE(returns());
    }

    Event event_;
};

TEST_F(ReturnedDevice, ItsRailsAreToldOneByOne) {
    open_and_return();
    is(EventKind::device_restored, 0);
    expect(EventKind::port_active, 0);
    expect(EventKind::device_restored, 1);
    expect(EventKind::port_active, 1);
    EXPECT_FALSE(next());
    for (std::uint32_t i = 0; i < 2; ++i) {
        EXPECT_EQ(rail(i).state(), PortState::active);
        EXPECT_EQ(rail(i).openings(), 1);
        EXPECT_EQ(rail(i).address().changes, 1);
    }
    lose(); // and a second time
    ASSERT_TRUE(returns());
    EXPECT_EQ(rail().openings(), 2);
}

TEST_F(ReturnedDevice, ItIsLookedForUntilItIsThere) {
    open_ib();
    lose();
    const auto none_for = [&](std::chrono::milliseconds time) {
        const auto until = std::chrono::steady_clock::now() + time;
        while (std::chrono::steady_clock::now() < until) {
            ASSERT_FALSE(next());
            std::this_thread::sleep_for(10ms);
        }
    };
    lib_.fail("open_device", 1, ENODEV);
    none_for(1500ms);
    EXPECT_TRUE(lib_.failed());
    ASSERT_TRUE(returns());
}

TEST_F(ReturnedDevice, APortThatCannotBeReadKeepsItLost) {
    open_ib();
    lose();
    lib_.fail("query_port", 2, EIO);
    std::this_thread::sleep_for(1100ms);
    EXPECT_FALSE(next());
    EXPECT_TRUE(lib_.failed());
    EXPECT_EQ(lib_.living("context"), 1);
    EXPECT_EQ(rail().state(), PortState::down);
    ASSERT_TRUE(returns());
    EXPECT_EQ(lib_.living("context"), 2) << "objects of the first one may live";
}

TEST_F(ReturnedDevice, APortThatIsDownIsToldOfLater) {
    open_roce();
    lib_.devices[0].ports[0].attributes.state = IBV_PORT_DOWN;
    lose();
    ASSERT_TRUE(returns());
    is(EventKind::device_restored, 0);
    EXPECT_FALSE(next());
    EXPECT_EQ(rail().state(), PortState::down);
    lib_.devices[0].ports[0].attributes.state = IBV_PORT_ACTIVE;
    lib_.raise_port(lib_.contexts.size() - 1, IBV_EVENT_PORT_ACTIVE, 1);
    expect(EventKind::port_active, 0);
    EXPECT_EQ(rail().state(), PortState::active);
}

TEST_F(ReturnedDevice, RegionsHaveOtherKeys) {
    open_ib();
    std::vector<std::byte> memory(100);
    std::unique_ptr<MemoryRegion> users;
    std::unique_ptr<MemoryRegion> own;
    ASSERT_EQ(rail().register_memory(memory.data(), memory.size(), kRemoteRead, users), kOk);
    ASSERT_EQ(rail().allocate(64, kLocalWrite, own), kOk);
    std::uint32_t copy = 0;
    own->copy_local_key_to(&copy);
    const std::uint32_t before = users->remote_key();
    lose();
    ASSERT_TRUE(returns());
    EXPECT_NE(users->remote_key(), before);
    EXPECT_EQ(copy, own->local_key());
    bool found = false;
    for (const auto& mr : lib_.mrs) {
        found = found || (mr->alive && mr->rkey == users->remote_key() &&
                          mr->context == lib_.contexts.back().get() && mr->addr == memory.data());
    }
    EXPECT_TRUE(found);
}

TEST_F(ReturnedDevice, MemoryIsRegisteredMeanwhile) {
    open_ib();
    lose();
    std::vector<std::byte> memory(100);
    std::unique_ptr<MemoryRegion> region;
    lib_.fail("reg_mr", 1, EIO);
    ASSERT_EQ(rail().register_memory(memory.data(), memory.size(), kRemoteRead, region), kOk);
    EXPECT_EQ(region->remote_key(), 0u);
    ASSERT_TRUE(returns());
    EXPECT_NE(region->remote_key(), 0u);
}

TEST_F(ReturnedDevice, MemoryThatADeviceRefusesIsRefused) {
    open_ib();
    std::vector<std::byte> memory(100);
    std::unique_ptr<MemoryRegion> region;
    lib_.fail("reg_mr", 1, EIO);
    EXPECT_FALSE(rail().register_memory(memory.data(), memory.size(), kRemoteRead, region).ok());
}

TEST_F(ReturnedDevice, MemoryThatIsNotMappedAnyMoreHasNoKey) {
    open_ib();
    std::unique_ptr<MemoryRegion> region;
    std::vector<std::byte> memory(100);
    ASSERT_EQ(rail().register_memory(memory.data(), memory.size(), kRemoteRead, region), kOk);
    lose();
    lib_.fail("reg_mr", 3, EFAULT); // each rail has a region of its own before
    ASSERT_TRUE(returns());
    is(EventKind::device_restored, 0);
}

TEST_F(ReturnedDevice, WithoutRoomItIsLostAgain) {
    open_ib();
    cq();
    std::vector<std::byte> bytes(4096);
    std::unique_ptr<MemoryRegion> memory;
    ASSERT_EQ(rail().register_memory(bytes.data(), bytes.size(), kRemoteRead, memory), kOk);
    CompletionQueue& queue = cq();
    lose();
    const int opened = lib_.count("open_device");
    lib_.fail("create_cq", 2, ENOMEM);
    std::this_thread::sleep_for(1100ms);
    EXPECT_FALSE(next());
    EXPECT_EQ(rail().state(), PortState::down);
    EXPECT_TRUE(poll(*cqs_[0]).empty());
    EXPECT_EQ(lib_.count("open_device"), opened + 1);
    EXPECT_EQ(lib_.count("close_device"), 1) << "nothing of the attempt is left";
    EXPECT_EQ(memory->local_key(), 0u);
    std::unique_ptr<QueuePair> none;
    EXPECT_EQ(rail().create_qp(init(QpType::rc, queue), none).reason(), Reason::no_device);
    ASSERT_TRUE(returns());
    EXPECT_NE(memory->local_key(), 0u);
    EXPECT_EQ(rail().state(), PortState::active);
}

TEST_F(ReturnedDevice, QueuesWorkAndQueuePairsDoNot) {
    open_ib();
    CompletionQueue& queue = cq();
    QueuePair& old = qp(init(QpType::rc, queue));
    start(old);
    const std::uint32_t number = old.number();
    lose();
    ASSERT_TRUE(returns());
    EXPECT_EQ(old.query().state, QpState::error);
    EXPECT_FALSE(old.usable());
    QpAttributes reset;
    reset.state = QpState::reset;
    EXPECT_EQ(old.modify(reset, kQpState).reason(), Reason::no_device);
    QueuePair& made = qp(init(QpType::rc, queue));
    EXPECT_NE(made.number(), number) << "the stand-in's numbers are used once";
    start(made);
    ibv_wc completion{};
    completion.wr_id = 5;
    completion.status = IBV_WC_SUCCESS;
    completion.qp_num = made.number();
    lib_.complete_send(made.number(), completion);
    ASSERT_EQ(poll(queue).size(), 1u);
    qps_.erase(qps_.begin()); // the old one
    lib_.complete_send(made.number(), completion);
    EXPECT_EQ(poll(queue).size(), 1u);
}

TEST_F(ReturnedDevice, TheResponderHasAnotherQueuePair) {
    open_ib();
    const NoAnswers answerer;
    ASSERT_EQ(fabric_->respond(answerer, 7), kOk);
    const std::uint32_t before = fabric_->responder_qp(1);
    lose();
    ASSERT_TRUE(returns());
    EXPECT_NE(fabric_->responder_qp(1), 0u);
    EXPECT_NE(fabric_->responder_qp(1), before);
    fabric_.reset(); // while the answerer is there
}

} // namespace
} // namespace adaptib::test
