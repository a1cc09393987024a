// SPDX-License-Identifier: BSD-3-Clause
// Several endpoints of this process, beside another process that has one, two or none of them:
// addresses, messages, progress, counters, limits, look-ups, the end of the process and of peers.
#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/address_record.h"
#include "base/process_name.h"
#include "common_adaptib_two_sided.h"
#include "interface/handle.h"
#include "stats/counters.h"
#include "unit/interface/other_process.h"

namespace adaptib::test {
namespace {

constexpr int kSuccess = OPAL_COMMON_ADAPTIB_SUCCESS;
constexpr int kComplete = OPAL_COMMON_ADAPTIB_COMPLETE;
constexpr int kUnreachable = OPAL_COMMON_ADAPTIB_UNREACHABLE;

class Endpoints : public TwoProcesses {
protected:
    // Sets the parameter, which is a number or its text; 0: the process chooses.
    static void set_number(int& parameter, int value) { parameter = value; }
    static void set_number(char*& parameter, int value) {
        static const char* const texts[] = {"auto", "1", "2", "", "4"};
        set_text(parameter, texts[value]);
    }
    // Acquires the core with so many endpoints, and makes the other process with `theirs`.
    void begin(int endpoints, std::uint32_t theirs = 1) {
        set_number(process_parameters().endpoints, endpoints);
        ASSERT_EQ(acquire(), kSuccess);
        Options options;
        for (std::uint32_t i = 0; i < theirs; ++i) {
            options.names.push_back(endpoint_name(kOther, i));
        }
        others_.emplace(theirs, std::move(options));
        std::vector<AddressBlob> addresses;
        for (std::uint32_t i = 0; i < theirs; ++i) {
            addresses.push_back(others_->core(i).address());
        }
        published_[kOther] = encode_record(addresses);
        published_[kSelf] = record();
        for (std::uint32_t i = 0; i < opal_common_adaptib_endpoints(core_); ++i) {
            AddressBlob address;
            ASSERT_TRUE(address_in(published_[kSelf], i, address).ok());
            others_->publish(endpoint_name(kSelf, i), std::move(address));
        }
    }
    AddressBlob record() {
        std::size_t size = 0;
        const auto* bytes =
            static_cast<const std::byte*>(opal_common_adaptib_core_address(core_, &size));
        return {bytes, bytes + size};
    }
    opal_common_adaptib_core_t* endpoint(std::uint32_t index) {
        return opal_common_adaptib_endpoint(core_, index);
    }
    opal_common_adaptib_peer_t* peer_at(std::uint32_t mine, std::uint32_t theirs = 0) {
        opal_common_adaptib_peer_t* peer = nullptr;
        EXPECT_EQ(opal_common_adaptib_peer_at(endpoint(mine), kOther, theirs, &peer), kSuccess);
        return peer;
    }
    int receive(std::uint32_t mine, opal_common_adaptib_peer_t* peer, std::int32_t tag, int& word,
                Request& request) {
        return opal_common_adaptib_recv_contig(endpoint(mine), peer, 0, 0, tag, &word, sizeof word,
                                               &request.user);
    }
    int send(std::uint32_t mine, opal_common_adaptib_peer_t* peer, std::int32_t tag, int& word,
             Request& request) {
        const opal_common_adaptib_envelope_t envelope{0, 90, tag};
        const auto data = data_of(&word, sizeof word);
        return opal_common_adaptib_send(endpoint(mine), peer, &envelope, &data,
                                        OPAL_COMMON_ADAPTIB_MODE_STANDARD,
                                        OPAL_COMMON_ADAPTIB_BLOCKING, &request.user);
    }
    // Sends a word from an endpoint of the other process to one of this process.
    void send_here(std::uint32_t theirs, std::uint32_t mine, std::int32_t tag, int& word,
                   TestRequest& request) {
        Peer* here = nullptr;
        Core& core = others_->core(theirs);
        ASSERT_TRUE(core.peers().get(endpoint_name(kSelf, mine), here).ok());
        bool complete = false;
        ASSERT_TRUE(core.protocol()
                        .sends()
                        .send(here, {0, 0, tag}, contiguous(&word, sizeof word), false,
                              OpKind::blocking, request.user, complete)
                        .ok());
        request.done = request.done || complete;
    }
    // Sends a word to an endpoint of the other process, and receives an answer.
    void exchange(std::uint32_t mine, std::uint32_t theirs, int word) {
        opal_common_adaptib_peer_t* peer = peer_at(mine, theirs);
        int there = 0;
        int back = 0;
        TestRequest received;
        TestRequest answered;
        Request sent;
        Request answer;
        ASSERT_TRUE(
            others_->receive(theirs, 90, 1, contiguous(&there, sizeof there), received).ok());
        ASSERT_EQ(receive(mine, peer, 2, back, answer), kSuccess);
        const int code = send(mine, peer, 1, word, sent);
        ASSERT_TRUE(code == kComplete || code == kSuccess);
        ASSERT_TRUE(run_both([&] { return received.done; }));
        EXPECT_EQ(there, word);
        send_here(theirs, mine, 2, there, answered);
        ASSERT_TRUE(run_both([&] {
            return answer.reported > 0 && answered.done && (code == kComplete || sent.reported > 0);
        }));
        EXPECT_EQ(back, word);
        EXPECT_EQ(answer.user.status, kSuccess);
    }
    std::uint32_t passes(std::uint32_t index) { return endpoint(index)->passes.load(); }
    void progress(int passes) {
        for (int pass = 0; pass < passes; ++pass) {
            opal_common_adaptib_progress(core_);
        }
    }
    int count_messages(opal_common_adaptib_severity_t severity) {
        return static_cast<int>(
            std::count_if(messages_.begin(), messages_.end(),
                          [&](const Message& message) { return message.severity == severity; }));
    }
    static const opal_common_adaptib_counter_t& row(std::string_view name) {
        const auto table = counter_table();
        return *std::find_if(table.begin(), table.end(),
                             [&](const auto& each) { return name == each.name; });
    }
};

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
    for (std::uint32_t i = 0; i < count; ++i) {
        AddressBlob address;
        ASSERT_TRUE(address_in(all, i, address).ok());
        EXPECT_EQ(address, endpoint(i)->core->address());
    }
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
    EXPECT_EQ(count_messages(OPAL_COMMON_ADAPTIB_FAILURE), 4) << "one for each pair of endpoints";
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
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
        GTEST_SKIP() << "a sanitizer's checks need files of their own";
#endif
#endif
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
        set_number(process_parameters().endpoints, endpoints);
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
