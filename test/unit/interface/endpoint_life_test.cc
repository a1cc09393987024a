// SPDX-License-Identifier: BSD-3-Clause
// Several endpoints of this process: look-ups of addresses, the end of the process and of peers,
// and a process that cannot open all of them.
#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "stats/counters.h"
#include "unit/interface/endpoints.h"
#include "unit/sanitizers.h"

namespace adaptib::test {
namespace {

// -------------------------------------------------------------------------------------------------
// Look-ups, which may take long

// Looks addresses up in the fixture's table; notes whether the endpoint's lock was free then.
class LookUps : public Endpoints {
protected:
    LookUps() {
        wrapped_ = environment_.lookup;
        environment_.lookup = [](void* context, std::uint64_t name, void** address,
                                 std::size_t* size) {
            auto* test = static_cast<LookUps*>(static_cast<ProcessCore*>(context));
            ++test->count_;
            if (test->watched_ != nullptr) {
                std::thread([test] {
                    if (test->watched_->lock.try_lock()) {
                        test->watched_->lock.unlock();
                    } else {
                        ++test->under_lock_;
                    }
                }).join();
            }
            return test->wrapped_(context, name, address, size);
        };
    }

    int (*wrapped_)(void*, std::uint64_t, void**, std::size_t*) = nullptr;
    opal_common_adaptib_core_t* watched_ = nullptr;
    int count_ = 0;
    int under_lock_ = 0;
};

TEST_F(LookUps, OfAFirstContactAreMadeWithoutTheLock) {
    begin(2, 2);
    for (std::uint32_t mine = 0; mine < 2; ++mine) {
        for (std::uint32_t theirs = 0; theirs < 2; ++theirs) {
            watched_ = endpoint(mine);
            count_ = 0;
            peer_at(mine, theirs);
            EXPECT_EQ(count_, 1);
            peer_at(mine, theirs);
            EXPECT_EQ(count_, 1) << "the peer is known";
        }
    }
    EXPECT_EQ(under_lock_, 0);
}

TEST_F(LookUps, OfANumberOfEndpointsAreMadeWithoutTheLock) {
    begin(2, 2);
    watched_ = endpoint(1);
    std::uint32_t count = 0;
    EXPECT_EQ(opal_common_adaptib_peer_endpoints(endpoint(1), kOther, &count), kSuccess);
    EXPECT_EQ(count_, 1);
    EXPECT_EQ(under_lock_, 0);
}

TEST_F(LookUps, AreNotMadeForTheEndpointItself) {
    begin(2);
    opal_common_adaptib_peer_t* self = nullptr;
    EXPECT_EQ(opal_common_adaptib_peer_at(endpoint(1), kSelf, 1, &self), kSuccess);
    EXPECT_EQ(opal_common_adaptib_peer_get(core_, kSelf, &self), kSuccess);
    EXPECT_EQ(count_, 0);
}

// Both sides release their peers, which then have no address any more.
TEST_F(LookUps, OfAPeerThatWasReleasedAreMadeWithoutTheLock) {
    begin(2);
    exchange(1, 0, 5);
    Peer* here = nullptr;
    ASSERT_TRUE(others_->core(0).peers().get(endpoint_name(kSelf, 1), here).ok());
    const Peer* there = endpoint(1)->core->peers().find(kOther);
    opal_common_adaptib_peer_release(endpoint(1), peer_at(1));
    others_->core(0).protocol().disconnects().release(*here);
    ASSERT_TRUE(run_both([&] { return there->contact.datagram.handle == nullptr; }));
    watched_ = endpoint(1);
    count_ = 0;
    exchange(1, 0, 6);
    EXPECT_EQ(count_, 1);
    EXPECT_EQ(under_lock_, 0);
}

// Progress makes such a look-up.
TEST_F(LookUps, OfASenderThatIsNotKnownAreMadeWithoutTheLock) {
    begin(2);
    int word = 42;
    int got = 0;
    TestRequest sent;
    Request received;
    ASSERT_EQ(receive(1, nullptr, 5, got, received), kSuccess);
    watched_ = endpoint(1);
    send_here(0, 1, 5, word, sent);
    ASSERT_TRUE(run_both([&] { return received.reported > 0; }));
    EXPECT_EQ(got, 42);
    EXPECT_EQ(count_, 1);
    EXPECT_EQ(under_lock_, 0);
}

// -------------------------------------------------------------------------------------------------
// The end

// Many messages of endpoint 1, more than there is room for.
class Leaving : public Endpoints {
protected:
    static constexpr std::size_t kMessages = 2000;

    void start(std::size_t bytes) {
        begin(2);
        exchange(1, 0, 1);
        sent_.assign(bytes, std::byte{7});
        got_.assign(kMessages, std::vector<std::byte>(bytes));
        opal_common_adaptib_peer_t* peer = peer_at(1);
        const opal_common_adaptib_envelope_t envelope{0, 90, 5};
        const auto data = data_of(sent_.data(), bytes);
        for (std::size_t i = 0; i < kMessages; ++i) {
            ASSERT_TRUE(others_->receive(0, 90, 5, contiguous(got_[i]), received_[i]).ok());
            const int code = opal_common_adaptib_send(
                endpoint(1), peer, &envelope, &data, OPAL_COMMON_ADAPTIB_MODE_STANDARD,
                OPAL_COMMON_ADAPTIB_BLOCKING, &requests_[i].user);
            ASSERT_TRUE(code == kComplete || code == kSuccess);
            started_ += code == kSuccess;
        }
        ASSERT_GT(started_, 0u) << "all was sent at once";
    }
    // Runs `leave` while the other process makes progress.
    template <typename F> void while_others_run(F&& leave) {
        std::atomic<bool> over{false};
        std::thread other([&] {
            while (!over) {
                others_->progress();
            }
        });
        leave();
        over = true;
        other.join();
    }
    void expect_delivered() {
        EXPECT_TRUE(others_->run([&] {
            return std::all_of(&received_[0], &received_[kMessages],
                               [](const TestRequest& request) { return request.done; });
        }));
        EXPECT_TRUE(
            std::all_of(got_.begin(), got_.end(), [&](const auto& each) { return each == sent_; }));
        const auto reported = std::count_if(&requests_[0], &requests_[kMessages],
                                            [](const Request& each) { return each.reported == 1; });
        EXPECT_EQ(static_cast<std::size_t>(reported), started_);
    }

    std::vector<std::byte> sent_;
    std::vector<std::vector<std::byte>> got_;
    std::unique_ptr<TestRequest[]> received_ = std::make_unique<TestRequest[]>(kMessages);
    std::unique_ptr<Request[]> requests_ = std::make_unique<Request[]>(kMessages);
    std::size_t started_ = 0;
};

TEST_F(Leaving, TheLastReleaseSendsWhatWaits) {
    start(1000);
    while_others_run([&] { release(); });
    expect_delivered();
}

TEST_F(Leaving, QuiescingWaitsForLongMessages) {
    start(20'000);
    while_others_run([&] { opal_common_adaptib_quiesce_messages(core_); });
    expect_delivered();
    while_others_run([&] { release(); });
}

// This process is the last one of its job, the other one the first, and all between are missing.
TEST_F(Endpoints, AreAllConnectedAtTheStart) {
    set_text(process_parameters().connect, "static");
    begin(4, 2);
    opal_common_adaptib_connect_start(core_, rank_of(kSelf), rank_of(kSelf) + 1);
    const auto is_open = [&](std::uint32_t mine) {
        const Peer* peer = endpoint(mine)->core->peers().find(endpoint_name(kOther, mine % 2));
        return peer != nullptr && peer->session.state == ConnectState::open;
    };
    EXPECT_TRUE(run_both([&] { return is_open(0) && is_open(1) && is_open(2) && is_open(3); }));
    for (std::uint32_t mine = 0; mine < 4; ++mine) {
        EXPECT_TRUE(is_open(mine)) << mine;
        EXPECT_EQ(endpoint(mine)->core->peers().peers().size(), 1u);
    }
    messages_.clear();
}

TEST_F(Endpoints, AllLearnThatAProcessHasEnded) {
    begin(2, 2);
    int losses = 0;
    int words[4] = {};
    Request waiting[4];
    for (std::uint32_t mine = 0; mine < 2; ++mine) {
        opal_common_adaptib_broken_listen(
            endpoint(mine),
            [](void* context, opal_common_adaptib_peer_t*) { ++*static_cast<int*>(context); },
            &losses);
        for (std::uint32_t theirs = 0; theirs < 2; ++theirs) {
            exchange(mine, theirs, 5);
            const std::uint32_t i = 2 * mine + theirs;
            ASSERT_EQ(receive(mine, peer_at(mine, theirs), 7, words[i], waiting[i]), kSuccess);
        }
    }
    others_->end(0);
    others_->end(1);
    opal_common_adaptib_process_ended(core_, kOther);
    ASSERT_TRUE(run([&] {
        return losses == 4 && std::all_of(std::begin(waiting), std::end(waiting),
                                          [](const Request& each) { return each.reported > 0; });
    }));
    for (const Request& each : waiting) {
        EXPECT_EQ(each.user.status, kUnreachable);
    }
    EXPECT_EQ(count_messages(OPAL_COMMON_ADAPTIB_FAILURE), 1) << "for four pairs of endpoints";
    messages_.clear();
}

TEST_F(Endpoints, QuiesceTogether) {
    begin(4);
    auto words = std::make_unique<int[]>(4);
    auto requests = std::make_unique<Request[]>(4);
    for (std::uint32_t i = 0; i < 4; ++i) {
        ASSERT_EQ(receive(i, nullptr, 5, words[i], requests[i]), kSuccess);
    }
    opal_common_adaptib_quiesce_messages(endpoint(2));
    for (std::uint32_t i = 0; i < 4; ++i) {
        EXPECT_EQ(requests[i].reported, 0);
    }
    words.reset();
    requests.reset();
    progress(1000);
    EXPECT_TRUE(messages_.empty());
}

// -------------------------------------------------------------------------------------------------
// Endpoints that cannot be opened

// A process that may open few files, so that some of its endpoints, or all, fail to open.
class FewFiles : public Endpoints {
protected:
    FewFiles() { EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0); }
    void SetUp() override {
        if (kAsan) {
            GTEST_SKIP() << "a sanitizer's checks need files of their own";
        }
        Endpoints::SetUp();
    }
    ~FewFiles() override { allow(before_.rlim_cur); }

    void allow(rlim_t limit) {
        rlimit files = before_;
        files.rlim_cur = limit;
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
    }
    // Acquires with room for that many more files than are open.
    int acquire_with(int endpoints, int files) {
        process_parameters().endpoints = endpoints;
        rlim_t limit = 0;
        for (int free = 0; free < files || is_open(limit); ++limit) {
            free += !is_open(limit);
        }
        allow(limit);
        const int code = acquire();
        allow(before_.rlim_cur);
        return code;
    }
    // Expects what the user is told; `kept` endpoints are there.
    void expect_told(std::uint32_t wanted, std::uint32_t kept) {
        EXPECT_EQ(count_messages(OPAL_COMMON_ADAPTIB_FAILURE), kept < wanted ? 1 : 0);
        EXPECT_EQ(count_messages(OPAL_COMMON_ADAPTIB_NOTICE), kept < wanted && kept > 0 ? 1 : 0);
        const std::string text =
            "Only " + std::to_string(kept) + " of the " + std::to_string(wanted) + " endpoints";
        if (kept < wanted && kept > 0) {
            ASSERT_FALSE(messages_.empty());
            EXPECT_EQ(messages_.back().severity, OPAL_COMMON_ADAPTIB_NOTICE);
            EXPECT_EQ(messages_.back().text.find(text), 0u) << messages_.back().text;
        }
        messages_.clear();
    }

private:
    static bool is_open(rlim_t number) { return fcntl(static_cast<int>(number), F_GETFD) >= 0; }

    rlimit before_{};
};

TEST_F(FewFiles, APowerOfTwoOfTheEndpointsIsKept) {
    constexpr int kMostFiles = 200;
    int times[5] = {};
    process_parameters().connect_max = 8;
    static_cast<void>(acquire_with(4, kMostFiles)); // what a process opens once stays open
    release();
    messages_.clear();
    for (int files = 0; files < kMostFiles && times[4] == 0; ++files) {
        SCOPED_TRACE(std::to_string(files) + " files");
        const int code = acquire_with(4, files);
        ASSERT_EQ(code == kSuccess, core_ != nullptr);
        const std::uint32_t kept = core_ == nullptr ? 0 : opal_common_adaptib_endpoints(core_);
        ASSERT_TRUE(kept == 0 || kept == 1 || kept == 2 || kept == 4) << kept;
        ++times[kept];
        expect_told(4, kept);
        if (core_ != nullptr) {
            for (std::uint32_t gone = kept; gone < 4; ++gone) {
                EXPECT_EQ(endpoint_counters(gone).buffers, 0u) << gone;
            }
            std::uint32_t count = 0;
            ASSERT_TRUE(addresses_in(record(), count).ok());
            EXPECT_EQ(count, kept);
            EXPECT_EQ(endpoint(kept), nullptr);
            EXPECT_EQ(*core_->threads, kept > 1) << "one endpoint alone needs no lock";
            EXPECT_EQ(core_->parameters.connect_max, 8 / static_cast<int>(kept))
                << "limits are divided by the number that is open";
            progress(100);
        }
        release();
    }
    EXPECT_GT(times[0], 0);
    EXPECT_GT(times[1], 0);
    EXPECT_GT(times[2], times[1]) << "also where three could be opened";
    EXPECT_GT(times[4], 0);
}

TEST_F(FewFiles, WhatIsKeptExchangesMessages) {
    int files = 0;
    for (; core_ == nullptr || opal_common_adaptib_endpoints(core_) < 2; ++files) {
        ASSERT_LT(files, 200);
        release();
        static_cast<void>(acquire_with(4, files));
    }
    messages_.clear();
    opal_common_adaptib_core_t* same = core_;
    begin(4, 2); // acquires it once more
    EXPECT_EQ(core_, same);
    for (std::uint32_t i = 0; i < 4; ++i) {
        exchange(i % 2, i / 2, 5);
    }
    opal_common_adaptib_core_release(core_);
}

} // namespace
} // namespace adaptib::test
