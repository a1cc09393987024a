// SPDX-License-Identifier: BSD-3-Clause
// Endpoints of a process that have no segment until they are used.
#include "fabric/shm/late_endpoints.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "fabric/shm/descriptor_server.h"

namespace adaptib::shm {
namespace {

class Late : public testing::Test {
protected:
    static std::unique_ptr<OwnSegment> create(const WireAddress& published = {},
                                              bool server = true) {
        SegmentOptions options;
        options.segment_max = 16 * kMiB;
        options.queue_bytes = 64 * kKiB;
        options.rails = 2;
        options.cookie = published.cookie;
        options.answer_key = published.answer_key;
        options.server = server;
        std::unique_ptr<OwnSegment> out;
        std::string error;
        EXPECT_TRUE(OwnSegment::create(options, out, error).ok()) << error;
        return out;
    }
    static WireAddress wire_of(const RailAddress& address) {
        WireAddress wire{};
        EXPECT_TRUE(PeerSegment::decode(address, wire));
        return wire;
    }
    // Opens endpoint number `index`, as its address says.
    std::unique_ptr<OwnSegment> open(std::uint32_t index, bool server = true) {
        auto made = create(wire_of(late_.address(0, index)), server);
        late_.announce(index, made->address(0));
        return made;
    }
    Status contact(const RailAddress& address) {
        obstacle_ = {};
        return PeerSegment::open(address, 1, peer_, host_, obstacle_);
    }

    std::unique_ptr<OwnSegment> first_ = create();
    std::uint64_t host_ = first_->host();
    OwnLateEndpoints own_{*first_};
    LateEndpoints& late_ = own_;
    std::shared_ptr<PeerSegment> peer_;
    Obstacle obstacle_;
};

TEST_F(Late, HaveAddressesOfTheirOwn) {
    const WireAddress first = first_->wire_address(1);
    const WireAddress third = wire_of(late_.address(1, 3));
    EXPECT_EQ(first.late, 0u);
    EXPECT_EQ(third.late, 3u);
    EXPECT_EQ(third.rail, 1u);
    EXPECT_NE(third.cookie, first.cookie);
    EXPECT_NE(third.cookie, wire_of(late_.address(1, 4)).cookie);
    EXPECT_TRUE(reach_each_other(first, third));
}

TEST_F(Late, AreAskedForByAPeerThatLooksForThem) {
    EXPECT_EQ(late_.asked_for(), 0u);
    EXPECT_EQ(contact(late_.address(0, 15)), Status::again(Reason::not_connected));
    EXPECT_EQ(contact(late_.address(1, 2)), Status::again(Reason::not_connected));
    EXPECT_EQ(peer_, nullptr);
    EXPECT_NE(obstacle_.text(17, true).find("has not opened this endpoint yet"), std::string::npos);
    EXPECT_EQ(late_.asked_for(), 1u << 15 | 1u << 2);
    EXPECT_EQ(late_.asked_for(), 0u);
    EXPECT_TRUE(contact(first_->address(0)).ok()) << "the first is open";
    EXPECT_EQ(late_.asked_for(), 0u);
}

TEST_F(Late, AreMappedOnceTheyAreOpen) {
    const RailAddress address = late_.address(1, 2);
    const std::unique_ptr<OwnSegment> second = open(2);
    ASSERT_TRUE(contact(address).ok());
    EXPECT_EQ(peer_->cookie(), second->cookie());
    EXPECT_EQ(peer_->cookie(), wire_of(address).cookie);
    second->header()->rail[1].word.store(77);
    EXPECT_EQ(peer_->header()->rail[1].word.load(), 77u);
    EXPECT_EQ(late_.asked_for(), 0u);
    EXPECT_EQ(contact(late_.address(1, 3)), Status::again(Reason::not_connected));
}

TEST_F(Late, AreServedByTheirOwnServers) {
    WireAddress found{};
    const auto with = open(2);
    ASSERT_TRUE(find_late_endpoint(wire_of(late_.address(0, 2)), found, obstacle_).ok());
    EXPECT_EQ(found.visibility.server, with->wire_address(0).visibility.server);
    EXPECT_EQ(found.visibility.ways, with->wire_address(0).visibility.ways);
    EXPECT_EQ(found.fd, with->wire_address(0).fd);
    const int got = request_descriptor(found.visibility.server, {found.cookie, found.answer_key},
                                       std::chrono::seconds{10});
    EXPECT_GE(got, 0) << "its keys are those of its address";
    close(got);
    EXPECT_EQ(found.late, 0u);
    const auto without = open(3, false);
    ASSERT_TRUE(find_late_endpoint(wire_of(late_.address(0, 3)), found, obstacle_).ok());
    EXPECT_EQ(found.visibility.ways & kWayServer, 0u);
}

TEST_F(Late, WakeTheirProcessWhenTheyAreAskedFor) {
    std::atomic<std::uint32_t> asked{0};
    late_.listen([&] { asked |= late_.asked_for(); });
    EXPECT_TRUE(contact(late_.address(0, 4)).is_again());
    for (int wait = 0; asked == 0 && wait < 20'000; ++wait) {
        usleep(1000);
    }
    EXPECT_EQ(asked, 1u << 4);
    late_.listen(nullptr);
    EXPECT_TRUE(contact(late_.address(0, 4)).is_again());
    wake_server(first_->wire_address(0).visibility.server, first_->cookie() + 1); // not its key
    usleep(20'000);
    EXPECT_EQ(asked, 1u << 4);
    EXPECT_EQ(late_.asked_for(), 1u << 4);
}

TEST_F(Late, AreGoneWithTheirProcess) {
    const RailAddress closed = late_.address(0, 1);
    const RailAddress address = late_.address(0, 2);
    auto second = open(2);
    second.reset();
    EXPECT_EQ(contact(address), Status::error(Reason::peer_gone));
    first_->header()->alive.store(kLeft);
    EXPECT_EQ(contact(closed), Status::error(Reason::peer_gone));
    first_.reset();
    EXPECT_EQ(contact(closed), Status::error(Reason::peer_gone));
}

TEST_F(Late, OfAnotherProcessAreNotTaken) {
    const auto changed = [&](void (*change)(WireAddress&)) {
        WireAddress wire = wire_of(late_.address(0, 1));
        change(wire);
        return encode(wire);
    };
    const Status gone = Status::error(Reason::peer_gone);
    EXPECT_EQ(contact(changed([](WireAddress& w) { ++w.cookie; })), gone);
    EXPECT_EQ(contact(changed([](WireAddress& w) { ++w.late; })), gone) << "not its cookie";
    EXPECT_EQ(contact(changed([](WireAddress& w) { w.fd = 0; })), gone);
    EXPECT_EQ(contact(changed([](WireAddress& w) { w.late = kMaxLate + 1; })),
              Status::error(Reason::bad_argument));
    EXPECT_EQ(late_.asked_for(), 0u);
    first_->header()->version = kLayoutVersion + 1;
    EXPECT_EQ(contact(late_.address(0, 1)), Status::error(Reason::version));
}

TEST_F(Late, AreNotReachedWithoutADescriptor) {
    // Between the limits there are no calls of the fixture: UBSan, too, needs descriptors for them.
    const RailAddress address = late_.address(0, 1);
    const std::uint64_t host = host_;
    std::shared_ptr<PeerSegment> peer;
    Obstacle obstacle;
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit none = before;
    none.rlim_cur = 0;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const Status status = PeerSegment::open(address, 1, peer, host, obstacle);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(status, Status::error(Reason::no_memory));
    EXPECT_EQ(late_.asked_for(), 0u);
}

} // namespace
} // namespace adaptib::shm
