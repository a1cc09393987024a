// SPDX-License-Identifier: BSD-3-Clause
// Several endpoints of this process: addresses, messages, counters, limits, progress.
#include <atomic>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/address.h"
#include "stats/counters.h"
#include "unit/interface/endpoints.h"

namespace adaptib::test {
namespace {

// -------------------------------------------------------------------------------------------------
// Handles and addresses

TEST_F(Endpoints, AreNumberedFromTheFirst) {
    begin(4);
    ASSERT_EQ(opal_common_adaptib_endpoints(core_), 4u);
    EXPECT_EQ(endpoint(0), core_);
    for (std::uint32_t i = 0; i < 4; ++i) {
        ASSERT_NE(endpoint(i), nullptr);
        EXPECT_EQ(opal_common_adaptib_endpoint_index(endpoint(i)), i);
        EXPECT_EQ(opal_common_adaptib_endpoints(endpoint(i)), 4u);
        EXPECT_EQ(opal_common_adaptib_endpoint(endpoint(3), i), endpoint(i));
    }
    EXPECT_EQ(endpoint(4), nullptr);
}

TEST_F(Endpoints, AreOneWhereThreadsAreNotAskedFor) {
    begin(0);
    EXPECT_EQ(opal_common_adaptib_endpoints(core_), 1u);
}

TEST_F(Endpoints, HaveTheirAddressesInOneRecord) {
    begin(4);
    const AddressBlob all = record();
    std::uint32_t count = 0;
    ASSERT_TRUE(addresses_in(all, count).ok());
    ASSERT_EQ(count, 4u);
    std::set<std::uint64_t> keys;
    for (std::uint32_t i = 0; i < count; ++i) {
        AddressBlob address;
        ASSERT_TRUE(address_in(all, i, address).ok());
        ProcessAddress published;
        ASSERT_TRUE(decode(address.data(), address.size(), published).ok());
        EXPECT_EQ(published.name, endpoint_name(kSelf, i));
        EXPECT_EQ(address, endpoint(i)->core->address());
        keys.insert(published.key);
    }
    EXPECT_EQ(keys.size(), count);
}

TEST_F(Endpoints, OfAnotherProcessAreCounted) {
    begin(4, 2);
    std::uint32_t count = 0;
    EXPECT_EQ(opal_common_adaptib_peer_endpoints(core_, kOther, &count), kSuccess);
    EXPECT_EQ(count, 2u);
    EXPECT_EQ(opal_common_adaptib_peer_endpoints(endpoint(3), kSelf, &count), kSuccess);
    EXPECT_EQ(count, 4u);
    count = 77;
    EXPECT_EQ(opal_common_adaptib_peer_endpoints(core_, kOther + 5, &count), kUnreachable);
    EXPECT_EQ(count, 77u);
    published_[kOther].pop_back();
    EXPECT_EQ(opal_common_adaptib_peer_endpoints(core_, kOther, &count), kUnreachable);
    EXPECT_EQ(count, 77u);
}

TEST_F(Endpoints, ThatAPeerHasNotAreUnreachable) {
    begin(4, 2);
    int mark = 0;
    auto* const before = reinterpret_cast<opal_common_adaptib_peer_t*>(&mark);
    opal_common_adaptib_peer_t* peer = before;
    EXPECT_EQ(opal_common_adaptib_peer_at(endpoint(1), kOther, 2, &peer), kUnreachable);
    EXPECT_EQ(peer, before);
    expect_message(OPAL_COMMON_ADAPTIB_FAILURE, {"endpoint 2"});
    for (const std::uint32_t none : {kMaxEndpoints, kMaxEndpoints + 1, 1u << 31}) {
        EXPECT_EQ(opal_common_adaptib_peer_at(endpoint(1), kOther, none, &peer), kUnreachable);
        EXPECT_EQ(peer, before) << none;
    }
    messages_.clear();
    exchange(1, 1, 5);
}

TEST_F(Endpoints, GiveOnePeerForItsName) {
    begin(2, 2);
    EXPECT_EQ(peer_at(1, 1), peer_at(1, 1));
    EXPECT_NE(peer_at(1, 1), peer_at(1, 0));
    EXPECT_NE(peer_at(0, 0), peer_at(1, 0));
    opal_common_adaptib_peer_t* peer = nullptr;
    EXPECT_EQ(opal_common_adaptib_peer_get(endpoint(1), kOther, &peer), kSuccess);
    EXPECT_EQ(peer, peer_at(1, 0));
}

// -------------------------------------------------------------------------------------------------
// Messages

TEST_F(Endpoints, ExchangeMessagesWithEachOneOfAnother) {
    begin(4, 2);
    for (int round = 0; round < 10; ++round) {
        for (std::uint32_t mine = 0; mine < 4; ++mine) {
            for (std::uint32_t theirs = 0; theirs < 2; ++theirs) {
                exchange(mine, theirs, round * 100 + static_cast<int>(mine * 10 + theirs));
            }
        }
    }
    EXPECT_TRUE(messages_.empty());
}

// A receive from any source takes messages for its endpoint alone.
TEST_F(Endpoints, MatchOnlyTheirOwnMessages) {
    begin(2);
    int words[2] = {};
    int sent[2] = {10, 11};
    Request received[2];
    TestRequest requests[2];
    for (std::uint32_t i = 0; i < 2; ++i) {
        ASSERT_EQ(receive(i, nullptr, 5, words[i], received[i]), kSuccess);
    }
    send_here(0, 1, 5, sent[1], requests[1]);
    ASSERT_TRUE(run_both([&] { return received[1].reported > 0; }));
    EXPECT_EQ(words[1], 11);
    for (int pass = 0; pass < 1000; ++pass) {
        opal_common_adaptib_progress(core_);
    }
    EXPECT_EQ(received[0].reported, 0);
    send_here(0, 0, 5, sent[0], requests[0]);
    ASSERT_TRUE(run_both([&] { return received[0].reported > 0; }));
    EXPECT_EQ(words[0], 10);
}

TEST_F(Endpoints, SendToThemselves) {
    begin(4);
    for (std::uint32_t i = 0; i < 4; ++i) {
        opal_common_adaptib_peer_t* self = nullptr;
        ASSERT_EQ(opal_common_adaptib_peer_at(endpoint(i), kSelf, i, &self), kSuccess);
        EXPECT_EQ(static_cast<void*>(self), static_cast<void*>(endpoint(i)));
        int word = 5;
        int got = 0;
        Request sent;
        Request received;
        EXPECT_EQ(send(i, self, 1, word, sent), kComplete);
        EXPECT_EQ(opal_common_adaptib_recv_contig(endpoint(i), self, 0, 90, 1, &got, sizeof got,
                                                  &received.user),
                  kComplete);
        EXPECT_EQ(got, 5);
    }
}

// -------------------------------------------------------------------------------------------------
// Counters and limits

TEST_F(Endpoints, CountTogether) {
    begin(4);
    const auto& sent = row("self_sent");
    const std::uint64_t before = opal_common_adaptib_counter_value(&sent);
    const std::uint64_t before_of_first = *sent.value;
    const std::uint64_t before_of_last = endpoint_counters(3).self_sent;
    for (std::uint32_t i = 0; i < 4; ++i) {
        opal_common_adaptib_peer_t* self = nullptr;
        ASSERT_EQ(opal_common_adaptib_peer_at(endpoint(i), kSelf, i, &self), kSuccess);
        for (std::uint32_t message = 0; message <= i; ++message) {
            int word = 5;
            Request request;
            EXPECT_EQ(send(i, self, 1, word, request), kComplete);
        }
    }
    EXPECT_EQ(opal_common_adaptib_counter_value(&sent), before + 1 + 2 + 3 + 4);
    EXPECT_EQ(*sent.value, before_of_first + 1);
    EXPECT_EQ(endpoint_counters(3).self_sent, before_of_last + 4);
}

TEST_F(Endpoints, ShowTheLargestOfValues) {
    begin(2);
    const auto& value = row("paths_most");
    ASSERT_EQ(value.kind, OPAL_COMMON_ADAPTIB_VALUE);
    exchange(0, 0, 1);
    endpoint_counters(1).paths_most = *value.value + 7;
    EXPECT_EQ(opal_common_adaptib_counter_value(&value), *value.value + 7);
    endpoint_counters(1).paths_most = 0;
    EXPECT_EQ(opal_common_adaptib_counter_value(&value), *value.value);
}

TEST_F(Endpoints, DivideTheLimitsOfTheProcess) {
    Parameters& limits = process_parameters();
    limits.connect_max = 8;
    limits.connect_pool = 2; // less than there are endpoints
    limits.unexpected_memory = 4096;
    limits.ring_max = 0; // chosen by the core
    const auto shm_memory = limits.shm_memory;
    const auto ring_bytes = limits.ring_bytes;
    begin(4);
    for (std::uint32_t i = 0; i < 4; ++i) {
        const Parameters& its = endpoint(i)->parameters;
        EXPECT_EQ(its.connect_max, 2);
        EXPECT_EQ(its.connect_pool, 1);
        EXPECT_EQ(its.unexpected_memory, 1024u);
        EXPECT_EQ(its.ring_max, 0u);
        EXPECT_EQ(its.shm_memory, shm_memory / 4);
        EXPECT_EQ(its.ring_bytes, ring_bytes) << "no limit of the process";
    }
    EXPECT_EQ(limits.connect_max, 8);
}

TEST_F(Endpoints, LeaveTheLimitsToASingleOne) {
    process_parameters().connect_max = 8;
    begin(1);
    EXPECT_EQ(core_->parameters.connect_max, 8);
}

// -------------------------------------------------------------------------------------------------
// Progress

TEST_F(Endpoints, ThatAThreadUsesArePolledInEachPass) {
    begin(4, 1);
    int word = 0;
    Request request;
    ASSERT_EQ(receive(2, nullptr, 5, word, request), kSuccess);
    const std::uint32_t before = passes(2);
    progress(100);
    EXPECT_EQ(passes(2), before + 100);
    ASSERT_EQ(opal_common_adaptib_cancel(endpoint(2), &request.user), kSuccess);
}

TEST_F(Endpoints, ThatNobodyUsesArePolledNowAndThen) {
    begin(4, 1);
    int word = 0;
    Request request;
    ASSERT_EQ(receive(2, nullptr, 5, word, request), kSuccess);
    const std::uint32_t before = passes(3);
    progress(320);
    EXPECT_GE(passes(3), before + 10);
    EXPECT_LE(passes(3), before + 21);
    EXPECT_TRUE(endpoint(2)->lock.is_mine());
    EXPECT_FALSE(endpoint(3)->lock.is_mine()) << "a look is no use";
    ASSERT_EQ(opal_common_adaptib_cancel(endpoint(2), &request.user), kSuccess);
}

// Another thread polls it, as its passes tell.
TEST_F(Endpoints, ThatAnotherThreadPollsAreLeftAlone) {
    begin(2);
    int word = 0;
    Request request;
    ASSERT_EQ(receive(0, nullptr, 5, word, request), kSuccess);
    std::uint32_t by_itself = 0;
    for (int pass = 0; pass < 320; ++pass) {
        endpoint(1)->passes.fetch_add(1);
        ++by_itself;
        progress(1);
    }
    EXPECT_EQ(passes(1), by_itself);
    ASSERT_EQ(opal_common_adaptib_cancel(core_, &request.user), kSuccess);
}

// A thread that posts a receive and then computes, its endpoint's lock biased to it.
TEST_F(Endpoints, OfAThreadThatComputesReceiveItsMessages) {
    begin(2);
    int got = 0;
    Request received;
    std::atomic<bool> posted{false};
    std::atomic<bool> over{false};
    exchange(1, 0, 1); // the look-ups are this thread's
    std::thread owner([&] {
        for (int pass = 0; pass < 1000; ++pass) {
            const opal_common_adaptib_envelope_t envelope{0, 0, 99};
            opal_common_adaptib_probe_t found{};
            EXPECT_EQ(opal_common_adaptib_probe(endpoint(1), nullptr, &envelope, &found),
                      OPAL_COMMON_ADAPTIB_NOT_FOUND);
        }
        EXPECT_TRUE(endpoint(1)->lock.is_mine());
        EXPECT_EQ(receive(1, nullptr, 5, got, received), kSuccess);
        posted = true;
        while (!over) {
            std::this_thread::yield();
        }
    });
    while (!posted) {
        std::this_thread::yield();
    }
    EXPECT_FALSE(endpoint(1)->lock.is_mine());
    int word = 42;
    TestRequest sent;
    send_here(0, 1, 5, word, sent);
    EXPECT_TRUE(run_both([&] { return received.reported > 0; }));
    EXPECT_EQ(got, 42);
    over = true;
    owner.join();
}

TEST_F(Endpoints, OfAThreadThatHasEndedReceiveItsMessages) {
    begin(2);
    int got = 0;
    Request received;
    exchange(1, 0, 1);
    std::thread([&] {
        EXPECT_EQ(receive(1, nullptr, 5, got, received), kSuccess);
        for (int pass = 0; pass < 1000; ++pass) {
            opal_common_adaptib_progress(core_);
        }
    }).join();
    int word = 42;
    TestRequest sent;
    send_here(0, 1, 5, word, sent);
    EXPECT_TRUE(run_both([&] { return received.reported > 0; }));
    EXPECT_EQ(got, 42);
}

// A request that any thread may complete.
struct SharedRequest {
    opal_common_adaptib_request_t user{};
    std::atomic<bool> done{false};

    SharedRequest() {
        user.complete = [](opal_common_adaptib_request_t* request) {
            reinterpret_cast<SharedRequest*>(request)->done = true;
        };
    }
};

// Threads that use an endpoint each at the same time, and make progress of those that pause.
class Together : public Endpoints {
protected:
    static constexpr std::uint32_t kThreads = 4;

    void run_threads(const std::function<void(std::uint32_t)>& work) {
        std::vector<std::thread> threads;
        for (std::uint32_t i = 0; i < kThreads; ++i) {
            threads.emplace_back(work, i);
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
    }
    // Lets others make progress, now and then.
    static void pause(int round) {
        if (round % 64 == 63) {
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
    }
};

TEST_F(Together, ThreadsSendToThemselves) {
    begin(4);
    run_threads([this](std::uint32_t i) {
        auto* self = reinterpret_cast<opal_common_adaptib_peer_t*>(endpoint(i));
        for (int round = 0; round < 2000; ++round) {
            int got = -1;
            int word = round;
            Request sent;
            SharedRequest received;
            ASSERT_EQ(opal_common_adaptib_recv_contig(endpoint(i), self, 0, 90, 1, &got, sizeof got,
                                                      &received.user),
                      kSuccess);
            ASSERT_EQ(send(i, self, 1, word, sent), kComplete);
            pause(round);
            while (!received.done) {
                opal_common_adaptib_progress(core_);
            }
            ASSERT_EQ(got, round);
        }
    });
}

// Each thread has an endpoint here and one of the other process.
TEST_F(Together, ThreadsExchangeMessagesWithAnotherProcess) {
    begin(4, kThreads);
    for (std::uint32_t i = 0; i < kThreads; ++i) {
        exchange(i, i, 1); // so that the look-ups are this thread's
    }
    run_threads([this](std::uint32_t i) {
        opal_common_adaptib_peer_t* peer = peer_at(i, i);
        for (int round = 0; round < 500; ++round) {
            int there = -1;
            int back = -1;
            int word = round * 10 + static_cast<int>(i);
            TestRequest arrived;
            TestRequest answered;
            SharedRequest sent;
            SharedRequest answer;
            const opal_common_adaptib_envelope_t envelope{0, 90, 1};
            const auto data = data_of(&word, sizeof word);
            ASSERT_TRUE(others_->receive(i, 90, 1, contiguous(&there, sizeof there), arrived).ok());
            ASSERT_EQ(opal_common_adaptib_recv_contig(endpoint(i), peer, 0, 0, 2, &back,
                                                      sizeof back, &answer.user),
                      kSuccess);
            const int code = opal_common_adaptib_send(
                endpoint(i), peer, &envelope, &data,
                round % 3 == 0 ? OPAL_COMMON_ADAPTIB_MODE_SYNC : OPAL_COMMON_ADAPTIB_MODE_STANDARD,
                OPAL_COMMON_ADAPTIB_BLOCKING, &sent.user);
            ASSERT_TRUE(code == kSuccess || code == kComplete);
            while (!arrived.done) {
                others_->progress(i);
                opal_common_adaptib_progress(core_);
            }
            pause(round);
            send_here(i, i, 2, there, answered);
            while (!answer.done || !answered.done || (code == kSuccess && !sent.done)) {
                others_->progress(i);
                opal_common_adaptib_progress(core_);
            }
            ASSERT_EQ(back, word);
        }
    });
    EXPECT_TRUE(messages_.empty());
}

} // namespace
} // namespace adaptib::test
