// SPDX-License-Identifier: BSD-3-Clause
// Threads: several in the process's core through the C interface, two cores with a thread each, two
// simulated worlds. For ThreadSanitizer first of all; without it the tests check that nothing is
// lost, doubled or mixed.
//
// Limits of ThreadSanitizer here: a core maps its peer's segment at an address of its own, so the
// words that two cores share are different words to it, and cross-memory attach is the kernel's.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "common_adaptib_two_sided.h"
#include "cores.h"
#include "unit/sim/traffic.h"

namespace adaptib::test {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{120};

// -------------------------------------------------------------------------------------------------
// One core, many threads

// A request that any thread may complete.
struct SharedRequest {
    UserRequest user{};
    std::atomic<int> reported{0};

    SharedRequest() {
        user.complete = [](UserRequest* request) {
            reinterpret_cast<SharedRequest*>(request)->reported.fetch_add(
                1, std::memory_order_release);
        };
    }
    // Notes the result of a call that starts the request; true if that call succeeded.
    bool started(int code) {
        if (code == OPAL_COMMON_ADAPTIB_COMPLETE) {
            reported.fetch_add(1, std::memory_order_release);
        }
        return code == OPAL_COMMON_ADAPTIB_SUCCESS || code == OPAL_COMMON_ADAPTIB_COMPLETE;
    }
    bool done() const { return reported.load(std::memory_order_acquire) > 0; }
};

class CoreThreads : public testing::Test {
protected:
    void SetUp() override {
        opal_common_adaptib_environment_t environment{};
        environment.context = this;
        environment.self = 11;
        environment.host_name = "testhost";
        static const bool several = true;
        environment.threads = &several;
        environment.lookup = [](void*, std::uint64_t, void**, std::size_t*) { return -1; };
        environment.lookup_release = [](void*, void*) {};
        environment.message = [](void* context, opal_common_adaptib_severity_t, const char* text) {
            auto* self = static_cast<CoreThreads*>(context);
            const std::lock_guard lock(self->mutex_);
            self->messages_.emplace_back(text);
        };
        ASSERT_EQ(opal_common_adaptib_core_acquire(&environment, &core_),
                  OPAL_COMMON_ADAPTIB_SUCCESS);
        ASSERT_EQ(opal_common_adaptib_peer_get(core_, environment.self, &self_),
                  OPAL_COMMON_ADAPTIB_SUCCESS);
    }
    void TearDown() override {
        if (core_ != nullptr) {
            opal_common_adaptib_core_release(core_);
        }
        EXPECT_TRUE(messages_.empty()) << messages_.front();
    }

    static opal_common_adaptib_envelope_t envelope(std::uint32_t context, std::int32_t source,
                                                   std::int32_t tag) {
        return {context, source, tag};
    }
    bool send(std::uint32_t context, std::int32_t source, std::int32_t tag,
              std::vector<std::byte>& buffer, SharedRequest& request, bool synchronous = false) {
        const auto what = envelope(context, source, tag);
        const Data data = contiguous(buffer);
        return request.started(opal_common_adaptib_send(
            core_, self_, &what, &data,
            synchronous ? OPAL_COMMON_ADAPTIB_MODE_SYNC : OPAL_COMMON_ADAPTIB_MODE_STANDARD,
            OPAL_COMMON_ADAPTIB_NON_BLOCKING, &request.user));
    }
    bool receive(std::uint32_t context, std::int32_t source, std::int32_t tag,
                 std::vector<std::byte>& buffer, SharedRequest& request) {
        const auto what = envelope(context, source, tag);
        const Data data = contiguous(buffer);
        return request.started(
            opal_common_adaptib_receive(core_, nullptr, &what, &data, &request.user));
    }
    // Makes progress until `condition`; false if it does not come true.
    template <class Condition> bool wait_until(Condition&& condition) {
        const auto end = SteadyClock::now() + kPatience;
        while (!condition()) {
            if (opal_common_adaptib_progress(core_) == 0) {
                std::this_thread::yield(); // threads may be more than processors
            }
            if (SteadyClock::now() > end) {
                return false;
            }
        }
        return true;
    }
    bool wait(const SharedRequest& request) {
        return wait_until([&] { return request.done(); });
    }
    // Runs `work(i)` in `count` threads at the same time.
    template <class Work> static void in_threads(int count, Work&& work) {
        std::atomic<int> ready{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < count; ++i) {
            threads.emplace_back([&, i] {
                ready.fetch_add(1);
                while (ready.load() < count) {
                    std::this_thread::yield();
                }
                work(i);
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
    }

    opal_common_adaptib_core_t* core_ = nullptr;
    opal_common_adaptib_peer_t* self_ = nullptr;

private:
    std::mutex mutex_;
    std::vector<std::string> messages_;
};

constexpr std::uint32_t kContext = 3;

TEST_F(CoreThreads, EachSendsToTheNextAllSizes) {
    constexpr int kThreads = 4;
    constexpr std::size_t sizes[] = {0, 1, 31, 64, 1000, 8192, 8193, 65536, 300000};
    in_threads(kThreads, [&](int me) {
        const int from = (me + kThreads - 1) % kThreads;
        const int to = (me + 1) % kThreads;
        int round = 0;
        for (int again = 0; again < 4; ++again) {
            for (const std::size_t size : sizes) {
                // Tags count up, and the context names the receiver, so that a wrong order shows.
                std::vector<std::byte> out = pattern(size, size * 64 + std::size_t(me));
                std::vector<std::byte> in(size);
                const std::vector<std::byte> wanted = pattern(size, size * 64 + std::size_t(from));
                SharedRequest sending;
                SharedRequest receiving;
                const bool early = (again + me) % 2 == 0;
                const auto context = [](int thread) { return 100 + std::uint32_t(thread); };
                const bool any = again % 3 == 0;
                const auto post = [&] {
                    return receive(context(me), any ? OPAL_COMMON_ADAPTIB_ANY_SOURCE : from,
                                   any ? OPAL_COMMON_ADAPTIB_ANY_TAG : round, in, receiving);
                };
                ASSERT_TRUE(!early || post());
                ASSERT_TRUE(send(context(to), me, round, out, sending, again % 2 == 1));
                ASSERT_TRUE(early || post());
                ASSERT_TRUE(wait(receiving) && wait(sending));
                EXPECT_EQ(receiving.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
                EXPECT_EQ(sending.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
                EXPECT_EQ(receiving.user.source, from);
                EXPECT_EQ(receiving.user.tag, round) << "overtaken";
                EXPECT_EQ(receiving.user.bytes, size);
                EXPECT_EQ(receiving.reported.load() + sending.reported.load(), 2);
                EXPECT_EQ(in, wanted);
                ++round;
            }
        }
    });
}

// All threads send to one context, and all receive from it, alternately with posted wildcards,
// probes and matched probes.
TEST_F(CoreThreads, EveryMessageGoesToOneTakerOnly) {
    constexpr int kThreads = 4;
    constexpr int kEach = 150;
    constexpr std::size_t kSizes[] = {8, 500, 20000};
    std::vector<std::atomic<int>> seen(kThreads * kEach);
    std::atomic<int> taken{0};
    const auto account = [&](const std::vector<std::byte>& in, const UserRequest& user) {
        const std::size_t size = kSizes[std::size_t(user.tag) % 3];
        ASSERT_EQ(user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        ASSERT_EQ(user.bytes, size);
        const auto wanted = pattern(size, std::uint64_t(user.source * kEach + user.tag));
        EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), in.begin()));
        ++seen[std::size_t(user.source * kEach + user.tag)];
        ++taken;
    };
    in_threads(kThreads, [&](int me) {
        const auto all =
            envelope(kContext, OPAL_COMMON_ADAPTIB_ANY_SOURCE, OPAL_COMMON_ADAPTIB_ANY_TAG);
        std::vector<std::byte> in(20000);
        for (int i = 0; i < kEach; ++i) {
            const std::size_t size = kSizes[std::size_t(i) % 3];
            std::vector<std::byte> out = pattern(size, std::uint64_t(me * kEach + i));
            SharedRequest sending;
            ASSERT_TRUE(send(kContext, me, i, out, sending));
            SharedRequest receiving;
            if (i % 2 == 0) {
                ASSERT_TRUE(receive(kContext, all.source, all.tag, in, receiving));
            } else {
                opal_common_adaptib_probe_t found{};
                opal_common_adaptib_message_t* message = nullptr;
                ASSERT_TRUE(wait_until([&] {
                    static_cast<void>(opal_common_adaptib_probe(core_, nullptr, &all, &found));
                    return opal_common_adaptib_matched_probe(core_, nullptr, &all, &found,
                                                             &message) ==
                           OPAL_COMMON_ADAPTIB_SUCCESS;
                }));
                ASSERT_EQ(found.bytes, kSizes[std::size_t(found.tag) % 3]);
                const Data data = contiguous(in);
                ASSERT_TRUE(receiving.started(
                    opal_common_adaptib_matched_receive(core_, message, &data, &receiving.user)));
            }
            ASSERT_TRUE(wait(receiving));
            account(in, receiving.user);
            ASSERT_TRUE(wait(sending));
        }
    });
    EXPECT_EQ(taken.load(), kThreads * kEach);
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](const auto& n) { return n == 1; }));
}

// A receive that is being matched while another thread cancels it is either cancelled or complete.
TEST_F(CoreThreads, CancelAndMatchAtTheSameTime) {
    constexpr int kRounds = 600;
    std::atomic<int> posted{-1};
    std::atomic<int> cancelled{0};
    in_threads(2, [&](int me) {
        std::vector<std::byte> buffer(me == 0 ? 64 : 20000);
        for (int round = 0; round < kRounds; ++round) {
            buffer.resize(round % 4 == 0 ? 20000 : 64);
            if (me == 0) {
                ASSERT_TRUE(wait_until([&] { return posted.load() >= round; }));
                SharedRequest sending;
                buffer[0] = static_cast<std::byte>(round);
                ASSERT_TRUE(send(kContext, 0, round, buffer, sending));
                ASSERT_TRUE(wait(sending));
                EXPECT_EQ(sending.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
                continue;
            }
            SharedRequest first;
            SharedRequest second;
            SharedRequest* got = &first;
            ASSERT_TRUE(receive(kContext, 0, round, buffer, first));
            posted.store(round);
            for (int spin = 0; spin < round % 64; ++spin) {
                opal_common_adaptib_progress(core_);
            }
            if (opal_common_adaptib_cancel(core_, &first.user) == OPAL_COMMON_ADAPTIB_SUCCESS) {
                EXPECT_EQ(first.user.status, OPAL_COMMON_ADAPTIB_CANCELLED);
                EXPECT_FALSE(first.done());
                ++cancelled;
                got = &second;
                ASSERT_TRUE(receive(kContext, 0, round, buffer, second));
            }
            ASSERT_TRUE(wait(*got));
            EXPECT_EQ(got->user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
            EXPECT_EQ(buffer[0], static_cast<std::byte>(round));
            EXPECT_EQ(first.reported.load(), got == &first ? 1 : 0);
        }
    });
    RecordProperty("cancelled", cancelled.load());
}

// A completion function starts the next operation, in whichever thread it runs.
TEST_F(CoreThreads, CompletionFunctionsMayStartOperations) {
    constexpr int kLinks = 500;
    struct Chain {
        UserRequest user{}; // has to be first: complete() gets its address
        opal_common_adaptib_core_t* core = nullptr;
        opal_common_adaptib_peer_t* peer = nullptr;
        std::vector<std::byte> buffer = std::vector<std::byte>(20000);
        std::atomic<int> links{0};
        bool sends = false;

        // Starts operations until one does not complete at once.
        void go() {
            const auto what = envelope(kContext, 0, 1);
            const Data data = contiguous(buffer);
            while (links.load() < kLinks) {
                const int code =
                    sends ? opal_common_adaptib_send(core, peer, &what, &data,
                                                     OPAL_COMMON_ADAPTIB_MODE_STANDARD,
                                                     OPAL_COMMON_ADAPTIB_NON_BLOCKING, &user)
                          : opal_common_adaptib_receive(core, nullptr, &what, &data, &user);
                if (code != OPAL_COMMON_ADAPTIB_COMPLETE) {
                    EXPECT_EQ(code, OPAL_COMMON_ADAPTIB_SUCCESS);
                    return;
                }
                ++links;
            }
        }
    };
    Chain sending;
    Chain receiving;
    sending.sends = true;
    for (Chain* chain : {&sending, &receiving}) {
        chain->core = core_;
        chain->peer = self_;
        chain->user.complete = [](UserRequest* request) {
            auto* self = reinterpret_cast<Chain*>(request);
            EXPECT_EQ(request->status, OPAL_COMMON_ADAPTIB_SUCCESS);
            ++self->links;
            self->go();
        };
    }
    in_threads(3, [&](int me) {
        if (me < 2) {
            (me == 0 ? sending : receiving).go();
        }
        EXPECT_TRUE(wait_until(
            [&] { return sending.links.load() == kLinks && receiving.links.load() == kLinks; }));
    });
}

// Puts, gets and atomics to a window, alternately within the call and started.
TEST_F(CoreThreads, OneSidedOperationsNowAndStarted) {
    constexpr int kThreads = 4;
    constexpr std::uint64_t kRounds = 300;
    constexpr std::size_t kSlot = 64; // words of each thread, behind the counter and the lock
    std::vector<std::uint64_t> window((kThreads + 1) * kSlot);
    opal_common_adaptib_remote_t remote{};
    opal_common_adaptib_region_t* region = nullptr;
    ASSERT_EQ(
        opal_common_adaptib_register(core_, window.data(), window.size() * 8, 7, &region, &remote),
        OPAL_COMMON_ADAPTIB_SUCCESS);
    std::atomic<std::uint64_t> at_once{0};
    std::uint64_t guarded = 0; // by the lock in word 1
    in_threads(kThreads, [&](int me) {
        std::uint64_t local[kSlot] = {};
        std::uint64_t turn = static_cast<std::uint64_t>(me);
        const auto run = [&](opal_common_adaptib_operation_t kind, std::size_t word,
                             std::size_t words, std::uint64_t operand = 0,
                             std::uint64_t compare = 0) {
            const opal_common_adaptib_one_sided_t what{
                kind, local, nullptr, remote.base + word * 8, &remote, words * 8, operand, compare};
            if (++turn % 3 != 0) {
                const int code = opal_common_adaptib_try_rma(core_, self_, &what);
                if (code == OPAL_COMMON_ADAPTIB_COMPLETE) {
                    ++at_once;
                    return true;
                }
                EXPECT_EQ(code, OPAL_COMMON_ADAPTIB_AGAIN);
            }
            SharedRequest request;
            return request.started(
                       opal_common_adaptib_rma_start(core_, self_, &what, &request.user)) &&
                   wait(request) && request.user.status == OPAL_COMMON_ADAPTIB_SUCCESS;
        };
        const std::size_t mine = kSlot * static_cast<std::size_t>(me + 1);
        std::uint64_t last = 0;
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
            ASSERT_TRUE(run(OPAL_COMMON_ADAPTIB_FETCH_ADD, 0, 1, 1));
            ASSERT_TRUE(round == 1 || local[0] > last) << "a counter that goes back";
            last = local[0];
            for (std::size_t i = 0; i < kSlot; ++i) {
                local[i] = round * 1000 + i + mine;
            }
            ASSERT_TRUE(run(OPAL_COMMON_ADAPTIB_PUT, mine, kSlot));
            std::fill(local, local + kSlot, 0);
            ASSERT_TRUE(run(OPAL_COMMON_ADAPTIB_GET, mine, kSlot));
            for (std::size_t i = 0; i < kSlot; ++i) {
                ASSERT_EQ(local[i], round * 1000 + i + mine);
            }
            if (round % 10 == 0) {
                do {
                    ASSERT_TRUE(run(OPAL_COMMON_ADAPTIB_COMPARE_SWAP, 1, 1, mine, 0));
                } while (local[0] != 0);
                ++guarded;
                ASSERT_TRUE(run(OPAL_COMMON_ADAPTIB_COMPARE_SWAP, 1, 1, 0, mine));
                ASSERT_EQ(local[0], mine) << "the lock was another's";
            }
        }
    });
    EXPECT_EQ(window[0], kThreads * kRounds);
    EXPECT_EQ(window[1], 0u);
    EXPECT_EQ(guarded, kThreads * kRounds / 10);
    EXPECT_GT(at_once.load(), kRounds);
    EXPECT_EQ(opal_common_adaptib_flush_mark(core_), 0u);
    opal_common_adaptib_deregister(core_, region);
}

// -------------------------------------------------------------------------------------------------
// Two cores, a thread each

struct Case {
    const char* name;
    void (*adjust)(Parameters&);
};

void set(char*& field, const char* value) { field = const_cast<char*>(value); }

const Case kCases[] = {
    {"defaults", [](Parameters&) {}},
    {"ring_at_once", [](Parameters& p) { p.connect_threshold = 0; }},
    {"no_rings", [](Parameters& p) { p.ring_max = 0; }},
    {"put", [](Parameters& p) { set(p.rendezvous, "put"); }},
    {"no_single_copy", [](Parameters& p) { set(p.shm_single_copy, "none"); }},
    {"tiny_ring",
     [](Parameters& p) {
         p.eager_limit = 1024;
         p.ring_bytes = 4096;
         p.connect_threshold = 0;
     }},
    {"three_rails", [](Parameters& p) { p.shm_rails = 3; }},
};

class TwoCores : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Parameters, TwoCores, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

constexpr std::size_t kWindow = 8;

// Message number `number` of `from`: small ones mostly, and each third by rendezvous.
std::size_t size_of(std::size_t from, std::size_t number) {
    constexpr std::size_t sizes[] = {0, 8, 40, 1000, 4000, 8193, 20000, 100000};
    return sizes[(number + from * 3) % std::size(sizes)];
}

// One core's side: windows of messages both ways, in order, until both have had all of them.
void play(Cores& world, std::size_t me, std::size_t windows, std::atomic<int>& finished) {
    const std::size_t other = 1 - me;
    const auto end = SteadyClock::now() + kPatience;
    const auto seed = [](std::size_t from, std::size_t number) { return number * 2 + from; };
    for (std::size_t window = 0; window < windows; ++window) {
        std::vector<TestRequest> requests(2 * kWindow);
        std::vector<std::vector<std::byte>> in(kWindow);
        std::vector<std::vector<std::byte>> out(kWindow);
        const auto receive = [&](std::size_t i) {
            in[i].resize(size_of(other, window * kWindow + i));
            const auto tag = window % 2 == 0 ? std::int32_t(i) : OPAL_COMMON_ADAPTIB_ANY_TAG;
            return world.receive(me, std::int32_t(other), tag, contiguous(in[i]), requests[i]).ok();
        };
        for (std::size_t i = 0; i < kWindow / 2; ++i) {
            ASSERT_TRUE(receive(i));
        }
        for (std::size_t i = 0; i < kWindow; ++i) {
            const std::size_t number = window * kWindow + i;
            out[i] = pattern(size_of(me, number), seed(me, number));
            TestRequest& request = requests[kWindow + i];
            if (number % 5 != 0 && world.try_send(me, other, std::int32_t(i), contiguous(out[i]))) {
                request.user.status = OPAL_COMMON_ADAPTIB_SUCCESS;
                request.done = true;
            } else {
                ASSERT_TRUE(world
                                .send(me, other, std::int32_t(i), contiguous(out[i]), request,
                                      number % 5 == 0)
                                .ok());
            }
        }
        for (std::size_t i = kWindow / 2; i < kWindow; ++i) {
            ASSERT_TRUE(receive(i));
        }
        const auto all_done = [&] {
            return std::all_of(requests.begin(), requests.end(),
                               [](const TestRequest& request) { return request.done; });
        };
        while (!all_done()) {
            world.progress(me);
            std::this_thread::yield();
            ASSERT_LT(SteadyClock::now(), end) << "window " << window << " of core " << me;
        }
        for (std::size_t i = 0; i < kWindow; ++i) {
            const std::size_t number = window * kWindow + i;
            ASSERT_EQ(requests[i].user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
            ASSERT_EQ(requests[kWindow + i].user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
            ASSERT_EQ(requests[i].user.tag, std::int32_t(i));
            ASSERT_EQ(in[i], pattern(size_of(other, number), seed(other, number))) << number;
        }
    }
    finished.fetch_add(1);
    while (finished.load() < 2) { // the other core may still need this one
        world.progress(me);
        std::this_thread::yield();
        ASSERT_LT(SteadyClock::now(), end);
    }
}

TEST_P(TwoCores, EagerAndRendezvousBothWays) {
    Options options;
    GetParam().adjust(options.parameters);
    Cores world(2, options);
    constexpr std::size_t kWindows = 40;
    std::atomic<int> finished{0};
    std::thread other([&] { play(world, 1, kWindows, finished); });
    play(world, 0, kWindows, finished);
    other.join();
    for (std::size_t node : {0, 1}) {
        EXPECT_TRUE(world.messages(node).empty());
        EXPECT_EQ(world.counters(node).bad_packets, 0u);
        EXPECT_EQ(world.counters(node).ring_received + world.counters(node).datagram_received > 0,
                  true);
        const bool rings = options.parameters.ring_max > 0;
        EXPECT_EQ(world.counters(node).ring_sent > kWindows, rings);
    }
}

// -------------------------------------------------------------------------------------------------
// Two simulated worlds, a thread each: they may share constants only

std::string trace_of(std::size_t number) {
    sim::RanksOptions options;
    options.ranks = 4;
    options.world.machine = *sim::machine("connect-ib");
    options.world.topology = sim::crossbar(2, {}, sim::links_of(options.world.machine));
    std::string trace;
    EXPECT_TRUE(sim::Routes::compute(options.world.topology, options.world.routes, trace)) << trace;
    const auto ranks = sim::make(std::move(options));
    ranks->world().trace = [&](const std::string& line) { trace += line + "\n"; };
    for (std::size_t i = 0; i < 60; ++i) {
        sim::carry(*ranks, i % 4, (i + 1 + i % 3) % 4, i * number);
    }
    return trace;
}

TEST(TwoWorlds, DoNotDisturbEachOther) {
    const std::string alone = trace_of(900);
    std::string beside;
    std::thread other([&] { beside = trace_of(900); });
    EXPECT_TRUE(alone != trace_of(500));
    other.join();
    EXPECT_GT(alone.size(), 10'000u);
    EXPECT_TRUE(alone == beside);
}

} // namespace
} // namespace adaptib::test
