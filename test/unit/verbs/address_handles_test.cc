// SPDX-License-Identifier: BSD-3-Clause
// Shared address handles over the stand-in, whose network answers or does not when a MAC address is
// looked up: who waits for whom, and how often is asked.
#include "fabric/verbs/address_handles.h"

#include <arpa/inet.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <thread>

#include "fabric/verbs/port.h"
#include "unit/verbs/verbs_fixture.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using verbs::AddressHandles;

// The neighbors of the host; by the last byte of the IP address.
struct Neighbors {
    std::mutex lock;
    std::condition_variable changed;
    bool answer = true;         // otherwise a look-up fails at once, as if time had passed
    bool held = false;          // look-ups do not end
    int error = 0;              // of the device
    std::vector<int> looked_up; // in their order
};
Neighbors* neighbors = nullptr;

ibv_ah* look_up(ibv_pd* pd, ibv_ah_attr* to) {
    {
        std::unique_lock lock(neighbors->lock);
        neighbors->looked_up.push_back(to->grh.dgid.raw[15]);
        neighbors->changed.notify_all();
        neighbors->changed.wait(lock, [] { return !neighbors->held; });
        if (const int error = neighbors->answer ? neighbors->error : ETIMEDOUT; error != 0) {
            errno = error;
            return nullptr;
        }
    }
    return StandIn::calls().create_ah(pd, to);
}

class Handles : public VerbsTest {
protected:
    Handles() {
        neighbors = &neighbors_;
        calls_ = StandIn::calls();
        calls_.create_ah = look_up;
        options_.calls = &calls_;
    }
    ~Handles() override { neighbors = nullptr; }

    void TearDown() override {
        handle_.reset();
        VerbsTest::TearDown();
    }
    // A path to that process of the host with that last byte of the address.
    PathSpec path(std::uint8_t host, std::uint32_t process = 0, std::uint32_t index = 0) {
        RailAddress address = rail().address();
        verbs::WireAddress wire;
        std::memcpy(&wire, address.bytes.data(), sizeof wire);
        wire.gid[13] ^= wire.link_layer == IBV_LINK_LAYER_ETHERNET ? 0 : 1; // not this port's
        wire.gid[15] = host;
        wire.lid =
            static_cast<std::uint16_t>(wire.link_layer == IBV_LINK_LAYER_ETHERNET ? 0 : host);
        wire.owner = process;
        std::memcpy(address.bytes.data(), &wire, sizeof wire);
        return rail().path_to(address, index);
    }
    Status create(const PathSpec& to) {
        handle_.reset();
        return rail().create_ah(to, handle_);
    }
    void set(bool answer, bool held = false) {
        const std::lock_guard lock(neighbors_.lock);
        neighbors_.answer = answer;
        neighbors_.held = held;
        neighbors_.changed.notify_all();
    }
    std::vector<int> looked_up() {
        const std::lock_guard lock(neighbors_.lock);
        return neighbors_.looked_up;
    }
    std::size_t looked_up(std::uint8_t host) {
        const std::vector<int> all = looked_up();
        return static_cast<std::size_t>(std::count(all.begin(), all.end(), host));
    }
    template <typename F> static bool wait(F&& condition) {
        for (int i = 0; i < 5000; ++i) {
            if (condition()) {
                return true;
            }
            std::this_thread::sleep_for(1ms);
        }
        return false;
    }
    const ibv_ah* ah() const {
        return static_cast<const verbs::VerbsAddressHandle&>(*handle_).ah();
    }

    Neighbors neighbors_;
    verbs::Calls calls_;
    std::unique_ptr<AddressHandle> handle_;
};

// 64 ranks of each of 16 hosts.
TEST_F(Handles, AHostAndPathHasOneForAllPeers) {
    for (const bool ethernet : {false, true}) {
        SCOPED_TRACE(ethernet);
        ethernet ? open_roce() : open_ib();
        neighbors_.looked_up.clear();
        std::vector<std::unique_ptr<AddressHandle>> all;
        for (std::uint32_t process = 0; process < 1024; ++process) {
            const auto host = static_cast<std::uint8_t>(1 + process % 16);
            for (std::uint32_t index = 0; index < 2; ++index) {
                ASSERT_EQ(await_ah(rail(), path(host, process, index), all.emplace_back()), kOk);
            }
        }
        EXPECT_EQ(lib_.living("ah"), 32);
        EXPECT_EQ(looked_up().size(), 32u);
        all.clear();
        fabric_.reset();
        EXPECT_EQ(lib_.living("ah"), 0);
    }
}

TEST_F(Handles, ThoseWithoutAUserAreKeptUpToABound) {
    open_ib();
    std::unique_ptr<AddressHandle> used;
    ASSERT_EQ(rail().create_ah(path(1), used), kOk);
    for (std::uint8_t host = 2; host < 202; ++host) {
        ASSERT_EQ(create(path(host)), kOk);
    }
    EXPECT_LE(lib_.living("ah"), static_cast<int>(AddressHandles::kUnused) + 2);
    const std::size_t before = looked_up().size();
    ASSERT_EQ(create(path(201)), kOk);
    ASSERT_EQ(create(path(1)), kOk);
    EXPECT_EQ(looked_up().size(), before) << "the last one and the one in use are there";
}

TEST_F(Handles, AFullDeviceGetsThoseBackThatNobodyUses) {
    open_ib();
    ASSERT_EQ(create(path(1)), kOk);
    ASSERT_EQ(create(path(2)), kOk);
    handle_.reset();
    lib_.fail("create_ah", 1, ENOMEM);
    ASSERT_EQ(create(path(3)), kOk);
    EXPECT_TRUE(lib_.failed());
    EXPECT_EQ(lib_.living("ah"), 1);
    neighbors_.error = ENOMEM;
    EXPECT_EQ(create(path(4)), refusal(Reason::no_memory));
    neighbors_.error = 0;
    EXPECT_EQ(create(path(4)), kOk) << "it is tried again at once";
}

TEST_F(Handles, NobodyWaitsForANeighborThatDoesNotAnswer) {
    open_roce();
    set(true, true);
    const Clock::time_point begin = Clock::now();
    EXPECT_EQ(create(path(1)), kNotYet);
    ASSERT_TRUE(wait([&] { return looked_up(1) == 1; }));
    for (int i = 0; i < 1000; ++i) {
        ASSERT_EQ(create(path(1)), kNotYet);
        ASSERT_EQ(create(path(2)), kNotYet);
    }
    EXPECT_LT(Clock::now() - begin, 2s);
    set(true);
    EXPECT_TRUE(wait([&] { return create(path(1)).ok() && create(path(2)).ok(); }));
    EXPECT_EQ(looked_up(), (std::vector<int>{1, 2}));
}

TEST_F(Handles, AnAddressThatDoesNotAnswerIsAskedEverMoreRarely) {
    open_roce();
    set(false);
    ASSERT_EQ(await_ah(rail(), path(7), handle_), kUnanswered);
    EXPECT_NE(rail().last_error_text().find("::ffff:10.0.0.7"), std::string::npos)
        << rail().last_error_text();
    const Clock::time_point begin = Clock::now();
    while (Clock::now() - begin < 1s) {
        ASSERT_EQ(create(path(7)), kUnanswered);
        std::this_thread::sleep_for(1ms);
    }
    EXPECT_LE(looked_up(7), 4u) << "at 0, 0.1, 0.3 and 0.7 s";
    set(true);
    EXPECT_TRUE(wait([&] { return create(path(7)).ok(); }));
}

// rdma_get_gid_attr of Linux's core/cache.c: an interface has lost its address, as while its
// manager starts again.
TEST_F(Handles, AnEmptyGidMayBeThereAgain) {
    open_roce();
    neighbors_.error = ENODATA;
    lib_.devices[0].ports[0].gids[3].gid = {}; // the rail's
    ASSERT_EQ(await_ah(rail(), path(7), handle_), kUnanswered);
    EXPECT_NE(rail().last_error_text().find("lacks the address"), std::string::npos)
        << rail().last_error_text();
    {
        const std::lock_guard lock(neighbors_.lock);
        neighbors_.error = 0;
    }
    EXPECT_TRUE(wait([&] { return create(path(7)).ok(); }));
}

// Otherwise many hosts that have died would hold up the contact to those that live.
TEST_F(Handles, AFirstLookUpGoesBeforeRepeatedOnes) {
    open_roce();
    set(false);
    for (std::uint8_t host = 1; host < 5; ++host) {
        ASSERT_EQ(await_ah(rail(), path(host), handle_), kUnanswered);
    }
    std::this_thread::sleep_for(AddressHandles::kFirstPause);
    const std::size_t before = looked_up().size();
    set(true, true);
    for (std::uint8_t host = 1; host < 5; ++host) {
        EXPECT_EQ(create(path(host)), kUnanswered);
    }
    ASSERT_TRUE(wait([&] { return looked_up().size() > before; }));
    EXPECT_EQ(create(path(99)), kNotYet);
    set(true);
    ASSERT_TRUE(wait([&] { return looked_up().size() == before + 5; }));
    EXPECT_EQ(looked_up()[before + 1], 99);
}

// A gateway that takes over has another MAC address.
TEST_F(Handles, AnOldOneIsMadeAnewForTheNextUsers) {
    open_roce();
    std::unique_ptr<AddressHandle> first;
    ASSERT_EQ(await_ah(rail(), path(1), first), kOk);
    ASSERT_EQ(create(path(1)), kOk);
    EXPECT_EQ(looked_up(1), 1u) << "it is fresh";
    const ibv_ah* const old = ah();
    std::this_thread::sleep_for(AddressHandles::kFresh);
    set(true, true);
    ASSERT_EQ(create(path(1)), kOk);
    EXPECT_EQ(ah(), old) << "nobody waits for the new one";
    set(true);
    EXPECT_TRUE(wait([&] { return create(path(1)).ok() && ah() != old; }));
    EXPECT_EQ(lib_.living("ah"), 2) << "the first user still has the old one";
    first.reset();
    EXPECT_EQ(lib_.living("ah"), 1);
}

TEST_F(Handles, OneThatCannotBeMadeAnewStays) {
    open_roce();
    ASSERT_EQ(await_ah(rail(), path(1), handle_), kOk);
    const ibv_ah* const old = ah();
    std::this_thread::sleep_for(AddressHandles::kFresh);
    set(false);
    ASSERT_EQ(create(path(1)), kOk);
    ASSERT_TRUE(wait([&] { return looked_up(1) == 2; }));
    ASSERT_EQ(create(path(1)), kOk);
    EXPECT_EQ(ah(), old);
}

// The system looks the address up again, and waits, if it has forgotten it.
TEST_F(Handles, APathOfAQueuePairIsPrepared) {
    open_roce();
    EXPECT_EQ(rail().prepare_path(path(1)), kNotYet);
    EXPECT_TRUE(wait([&] { return rail().prepare_path(path(1)).ok(); }));
    EXPECT_EQ(looked_up(1), 1u);
    ASSERT_EQ(await_ah(rail(), path(2), handle_), kOk);
    EXPECT_EQ(rail().prepare_path(path(2)), kOk) << "it has just answered a datagram's look-up";
    set(false);
    EXPECT_EQ(rail().prepare_path(path(3)), kNotYet);
    EXPECT_TRUE(wait([&] { return rail().prepare_path(path(3)) == kUnanswered; }));
    handle_.reset();
    fabric_.reset();
    open_ib();
    EXPECT_EQ(rail().prepare_path(path(4)), kOk);
}

#ifndef __SANITIZE_THREAD__
TEST_F(Handles, AChildHasNoThreadToWaitFor) {
    open_roce();
    set(true, true);
    ASSERT_EQ(create(path(1)), kNotYet);
    ASSERT_TRUE(wait([&] { return looked_up(1) == 1; }));
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        fabric_.reset();
        _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    set(true);
    EXPECT_TRUE(wait([&] { return create(path(1)).ok(); }));
}
#endif

} // namespace
} // namespace adaptib::test
