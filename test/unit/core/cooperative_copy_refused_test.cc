// SPDX-License-Identifier: BSD-3-Clause
// Cooperative copies of long data when an end cannot copy, or is gone, or sends something wrong.
//
// One thread: actions of the other end while the first one waits within the call happen as the
// first one's nth part begins.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>

#include "cooperative_copy.h"
#include "cores.h"
#include "simulator/faults/fault.h"
#include "window.h"

namespace adaptib::test {
namespace {

constexpr Bytes kUnit = SharedWork::kUnit;
constexpr std::size_t kBytes = (3u << 20) + 5;
constexpr std::uint32_t kUnits = (kBytes + kUnit - 1) / kUnit;

class CooperativeCopyRefused : public testing::Test {
protected:
    void SetUp() override {
        Options options;
        options.wrap = [this](std::size_t node, std::unique_ptr<Fabric> fabric,
                              const Clock& clock) {
            return fault::with_faults(std::move(fabric), plans[node], clock, logs[node]);
        };
        world = std::make_unique<Cores>(2, options);
        exchange(*world, 100'000, 3);
        ASSERT_EQ(peer().session.state, ConnectState::open);
        ASSERT_NE(peer().out.ring, nullptr);
        ASSERT_NE(peer().transfers.cooperative_copy_choices, nullptr);
    }
    ~CooperativeCopyRefused() override { world.reset(); } // before the buffers

    Peer& peer() { return *world->peer(kWants, kHas); }
    Counters& counters() { return world->counters(kWants); }
    // The word in which the node that wants data offers the copy to the other node.
    std::atomic_ref<std::uint64_t> word() {
        return std::atomic_ref<std::uint64_t>(peer().in.ring_layout().answer().shared);
    }
    SharedWork work() { return SharedWork::of(word().load()); }
    // Takes `units` units from the back; returns the first of them.
    std::uint32_t take_back(std::uint32_t units) {
        SharedWork taken = work();
        EXPECT_FALSE(taken.closed);
        EXPECT_LE(taken.front + taken.back + units, kUnits);
        taken.back += units;
        word().store(taken.word());
        return kUnits - taken.back;
    }
    // Calls `act` within the next calls, as the nth part begins.
    void at_part(int nth, std::function<void()> act) {
        plans[kWants].at_rma_now = [nth, act = std::move(act)]() mutable {
            if (--nth == 0) {
                act();
            }
        };
    }
    // Lets the fabric of that node do nothing within the call from now on.
    void disable(std::size_t node) {
        plans[node].faults.push_back({.fault = fault::Fault::request_fails, .nth = 1u << 30});
    }

    // Announces a message. take() receives it as far as one end gets alone, and
    // finish() does the rest.
    void announce(std::size_t seed) {
        ask_first(peer());
        out = pattern(kBytes, seed);
        in.assign(kBytes, std::byte{});
        send = {};
        receive = {};
        ASSERT_TRUE(world->send(kHas, kWants, 1, contiguous(out), send).ok());
    }
    void take() {
        const std::uint64_t offered = counters().copies_offered;
        ASSERT_TRUE(world->receive(kWants, kHas, 1, contiguous(in), receive).ok());
        for (int pass = 0; pass < 100 && !receive.done; ++pass) {
            world->progress(kWants);
        }
        ASSERT_EQ(counters().copies_offered, offered + 1);
        plans[kWants].at_rma_now = nullptr;
    }
    void finish() {
        ASSERT_TRUE(world->run({&send, &receive}));
        ASSERT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        ASSERT_TRUE(in == out);
    }
    void expect_unharmed() {
        for (const std::size_t node : {kWants, kHas}) {
            EXPECT_TRUE(world->messages(node).empty());
        }
        exchange(*world, 100, 3);
    }

    fault::FaultPlan plans[2];
    fault::FaultLog logs[2];
    std::vector<std::byte> out;
    std::vector<std::byte> in;
    TestRequest send;
    TestRequest receive;
    std::unique_ptr<Cores> world;
};

TEST_F(CooperativeCopyRefused, TheOtherEndComesAsAnyPartBegins) {
    constexpr int kParts = 7; // copied by one end alone; as the last one begins nothing is left
    for (int nth = 1; nth < kParts; ++nth) {
        ASSERT_NO_FATAL_FAILURE(announce(std::size_t(nth)));
        at_part(nth, [&] { world->progress(kHas); });
        const std::uint64_t read = counters().rdma_read_bytes;
        const std::uint64_t written = world->counters(kHas).rdma_write_bytes;
        ASSERT_NO_FATAL_FAILURE(take());
        ASSERT_TRUE(receive.done);
        ASSERT_GT(world->counters(kHas).rdma_write_bytes, written);
        ASSERT_EQ(counters().rdma_read_bytes - read + world->counters(kHas).rdma_write_bytes -
                      written,
                  kBytes);
        ASSERT_NO_FATAL_FAILURE(finish());
    }
    EXPECT_EQ(counters().copies_cooperative, kParts - 1u);
    EXPECT_EQ(counters().bad_packets, 0u);
    expect_unharmed();
}

// The other end copies some parts well, takes further ones, writes nonsense into them and then
// refuses them: this end copies the refused parts, and does not copy the good ones again.
TEST_F(CooperativeCopyRefused, WhatTheOtherEndCouldNotCopyIsCopiedHere) {
    for (std::uint32_t well = 0; well < 5; ++well) {
        for (std::uint32_t badly = 1; badly < 4; ++badly) {
            ASSERT_NO_FATAL_FAILURE(announce(10 * well + badly));
            std::size_t copied = 0;
            at_part(1 + int(badly), [&] {
                for (std::uint32_t done = 0; done < well; ++done) {
                    const auto at = static_cast<std::ptrdiff_t>(take_back(1) * kUnit);
                    const auto end = std::min(at + std::ptrdiff_t{kUnit}, std::ptrdiff_t{kBytes});
                    std::copy(out.begin() + at, out.begin() + end, in.begin() + at);
                    copied += static_cast<std::size_t>(end - at);
                    word().fetch_add(SharedWork{.done = 1}.word());
                }
                const auto at = static_cast<std::ptrdiff_t>(take_back(badly) * kUnit);
                std::fill(in.begin() + at, in.end() - std::ptrdiff_t(copied), std::byte{0xee});
                word().fetch_or(SharedWork{.refused = true}.word());
            });
            const std::uint64_t read = counters().rdma_read_bytes;
            ASSERT_NO_FATAL_FAILURE(take());
            ASSERT_TRUE(receive.done) << "within the call";
            EXPECT_EQ(counters().rdma_read_bytes - read, kBytes - copied);
            ASSERT_NO_FATAL_FAILURE(finish());
        }
    }
    EXPECT_EQ(counters().bad_packets, 0u);
    expect_unharmed();
}

// The process at the other end ends while it copies a part: the waiting end notices, and
// the receive ends.
TEST_F(CooperativeCopyRefused, ATargetThatEndsInTheMiddleIsNotWaitedFor) {
    ASSERT_NO_FATAL_FAILURE(announce(1));
    at_part(2, [&] {
        take_back(2);
        world->end(kHas);
    });
    ASSERT_NO_FATAL_FAILURE(take());
    for (int pass = 0; pass < 200'000 && !receive.done; ++pass) {
        world->progress(kWants);
        world->clock.advance(Nanoseconds{1'000'000});
    }
    ASSERT_TRUE(receive.done);
    EXPECT_NE(receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(peer().session.state, ConnectState::failed);
}

// The slot lies where the peer writes, and the peer may leave nonsense there: the data is
// right all the same.
TEST_F(CooperativeCopyRefused, NonsenseInTheSlotIsABadPacket) {
    using Spoil = void (*)(SharedWork&);
    const Spoil ways[] = {
        [](SharedWork& spoiled) { spoiled.front += 5; }, // nobody copies those
        [](SharedWork& spoiled) { spoiled.front -= 5; },
        [](SharedWork& spoiled) { spoiled.closed = true; },
        [](SharedWork& spoiled) { ++spoiled.number; },
        [](SharedWork& spoiled) { spoiled.back = spoiled.done = 4000; },
        [](SharedWork& spoiled) { spoiled.done += 7; },
        [](SharedWork& spoiled) { spoiled = SharedWork::of(~std::uint64_t{0}); },
        [](SharedWork& spoiled) { spoiled = {}; },
    };
    for (std::size_t i = 0; i < std::size(ways); ++i) {
        SCOPED_TRACE(i);
        ASSERT_NO_FATAL_FAILURE(announce(i));
        at_part(3, [&] {
            SharedWork spoiled = work();
            ways[i](spoiled);
            word().store(spoiled.word());
        });
        ASSERT_NO_FATAL_FAILURE(take());
        ASSERT_EQ(counters().bad_packets, i + 1);
        ASSERT_NO_FATAL_FAILURE(finish());
    }
    expect_unharmed();
}

// The other end reads an offer that is over while the next one stands.
TEST_F(CooperativeCopyRefused, ALateLookAtAnOfferDoesNotTakeThatOfTheNext) {
    std::vector<std::byte> first_out = pattern(kBytes, 1);
    std::vector<std::byte> first_in(kBytes);
    TestRequest first_send;
    TestRequest first_receive;
    const std::uint64_t offered = counters().copies_offered;
    ASSERT_TRUE(world->send(kHas, kWants, 2, contiguous(first_out), first_send).ok());
    ASSERT_NO_FATAL_FAILURE(announce(2));
    ASSERT_TRUE(world->receive(kWants, kHas, 2, contiguous(first_in), first_receive).ok());
    for (int pass = 0; pass < 100; ++pass) {
        world->progress(kWants);
    }
    ASSERT_TRUE(first_receive.done);
    ASSERT_TRUE(first_in == first_out);
    ASSERT_EQ(counters().copies_offered, offered + 1);
    std::fill(first_in.begin(), first_in.end(), std::byte{0x77});
    at_part(1, [&] { world->progress(kHas); });
    ASSERT_NO_FATAL_FAILURE(take());
    ASSERT_EQ(counters().copies_cooperative, 1u);
    ASSERT_NO_FATAL_FAILURE(finish());
    ASSERT_TRUE(world->run({&first_send}));
    EXPECT_TRUE(std::all_of(first_in.begin(), first_in.end(),
                            [](std::byte byte) { return byte == std::byte{0x77}; }));
    EXPECT_EQ(world->counters(kHas).bad_packets, 0u);
    expect_unharmed();
}

// Offers have many numbers, and then the first ones again, except 0, which marks an empty slot.
TEST_F(CooperativeCopyRefused, NumbersComeAgain) {
    for (const std::uint64_t offers :
         {SharedWork::kNumbers - 3, 5 * SharedWork::kNumbers - 3, ~std::uint64_t{0} - 3}) {
        peer().transfers.offers = offers;
        for (std::size_t i = 0; i < 6; ++i) {
            ASSERT_NO_FATAL_FAILURE(announce(i));
            const std::uint64_t before = work().number;
            at_part(1, [&] {
                EXPECT_NE(work().number, 0u);
                EXPECT_NE(work().number, before);
                world->progress(kHas);
            });
            const std::uint64_t shared = counters().copies_cooperative;
            ASSERT_NO_FATAL_FAILURE(take());
            ASSERT_EQ(counters().copies_cooperative, shared + 1);
            ASSERT_NO_FATAL_FAILURE(finish());
        }
    }
    EXPECT_EQ(world->counters(kHas).bad_packets, 0u);
}

// -------------------------------------------------------------------------------------------------
// The fabric of one end does nothing within the call any more

TEST_F(CooperativeCopyRefused, TheOtherEndCannot) {
    disable(kHas);
    for (int nth = 1; nth < 10; ++nth) {
        ASSERT_NO_FATAL_FAILURE(announce(std::size_t(nth)));
        at_part(nth, [&] {
            world->progress(kHas);
            EXPECT_TRUE(work().refused);
        });
        ASSERT_NO_FATAL_FAILURE(take());
        ASSERT_TRUE(receive.done) << "within the call";
        ASSERT_NO_FATAL_FAILURE(finish());
    }
    EXPECT_EQ(counters().copies_cooperative, 9u) << "it took parts";
    EXPECT_EQ(world->counters(kHas).rdma_write, 0u) << "and copied none";
    expect_unharmed();
}

TEST_F(CooperativeCopyRefused, WhoBeganCannot) {
    disable(kWants);
    ASSERT_NO_FATAL_FAILURE(announce(1));
    at_part(1, [&] { world->progress(kHas); });
    ASSERT_NO_FATAL_FAILURE(take());
    EXPECT_EQ(counters().copies_cooperative, 0u) << "all of it is posted";
    EXPECT_GT(world->counters(kHas).rdma_write, 0u) << "the other end took parts";
    ASSERT_NO_FATAL_FAILURE(finish());
    EXPECT_EQ(counters().bad_packets, 0u);
    expect_unharmed();
}

TEST_F(CooperativeCopyRefused, NeitherCan) {
    disable(kWants);
    disable(kHas);
    ASSERT_NO_FATAL_FAILURE(announce(1));
    at_part(1, [&] { world->progress(kHas); });
    ASSERT_NO_FATAL_FAILURE(take());
    ASSERT_NO_FATAL_FAILURE(finish());
    EXPECT_EQ(world->counters(kHas).rdma_write, 0u);
    expect_unharmed();
}

// -------------------------------------------------------------------------------------------------
// Forged messages

class ForgedCooperativeCopy : public CooperativeCopyRefused {
protected:
    static constexpr std::size_t kLength = 4 * kUnit;

    void SetUp() override {
        ASSERT_NO_FATAL_FAILURE(CooperativeCopyRefused::SetUp());
        theirs = pattern(kLength, 1);
        ours = pattern(kLength, 2);
        open(window, kLocalWrite | kRemoteRead | kRemoteWrite);
    }
    void TearDown() override { window.reset(); }
    void open(OpenWindow& out_window, std::uint32_t access) {
        ASSERT_TRUE(world->core(kHas)
                        .protocol()
                        .memory()
                        .open_window(out_window, theirs.data(), theirs.size(), access)
                        .ok());
    }
    // Returns the key of all of a node's memory.
    std::uint32_t whole_key(std::size_t node) {
        const Registration* all =
            world->core(node).protocol().memory().exposed(ours.data(), kLength, kRemoteRead);
        EXPECT_NE(all, nullptr);
        return all->remote_key(0);
    }
    CooperativeCopyBody good(Opcode opcode) {
        CooperativeCopyBody body{};
        body.number = ++number;
        body.theirs = reinterpret_cast<std::uintptr_t>(theirs.data());
        body.ours = reinterpret_cast<std::uintptr_t>(ours.data());
        body.length = kLength;
        body.their_key = window.memory().remote_key(0);
        body.our_key = whole_key(kWants);
        body.opcode = static_cast<std::uint8_t>(opcode);
        return body;
    }
    // Sends a forged offer; returns its word as it is when the other end has seen it.
    SharedWork forge(const CooperativeCopyBody& body) {
        word().store(SharedWork{.number = body.number & SharedWork::kNumbers}.word());
        std::byte* to = peer().reserve_in_ring(sizeof body);
        EXPECT_NE(to, nullptr);
        std::memcpy(to, &body, sizeof body);
        MessageHeader header;
        header.type = MessageType::cooperative_copy;
        header.length = sizeof body;
        EXPECT_TRUE(peer().commit_in_ring(header).ok());
        const std::uint64_t seen = world->counters(kHas).ring_received;
        for (int pass = 0; pass < 1000 && world->counters(kHas).ring_received == seen; ++pass) {
            world->progress(kHas);
        }
        EXPECT_EQ(world->counters(kHas).ring_received, seen + 1);
        return work();
    }
    void expect_refused(const CooperativeCopyBody& body) {
        const SharedWork left = forge(body);
        EXPECT_TRUE(left.refused);
        EXPECT_EQ(left.done, 0u);
        EXPECT_TRUE(theirs == pattern(kLength, 1));
        EXPECT_TRUE(ours == pattern(kLength, 2));
        EXPECT_EQ(world->counters(kHas).bad_packets, 0u);
        EXPECT_TRUE(world->messages(kHas).empty());
        exchange(*world, 100, 1);
    }

    std::uint64_t number = 1000;
    std::vector<std::byte> theirs;
    std::vector<std::byte> ours;
    OpenWindow window;
};

TEST_F(ForgedCooperativeCopy, AGoodOneIsServed) {
    SharedWork left = forge(good(Opcode::write));
    EXPECT_EQ(left.back, 4u);
    EXPECT_EQ(left.done, 4u);
    EXPECT_TRUE(ours == pattern(kLength, 1));
    ours = pattern(kLength, 3);
    left = forge(good(Opcode::read));
    EXPECT_EQ(left.done, 4u);
    EXPECT_TRUE(theirs == pattern(kLength, 3));
}

TEST_F(ForgedCooperativeCopy, KeysAreThoseThatTheyAreTakenFor) {
    for (const Opcode opcode : {Opcode::write, Opcode::read}) {
        for (const std::uint32_t key : {0u, ~0u, whole_key(kHas) + 0x10000}) {
            CooperativeCopyBody body = good(opcode);
            body.their_key = key;
            expect_refused(body);
            body = good(opcode);
            body.our_key = key;
            expect_refused(body);
        }
    }
}

// Access is checked as if it came over the fabric: this process's own rights to its
// memory do not count.
TEST_F(ForgedCooperativeCopy, RightsAreThoseOfThePeer) {
    OpenWindow other;
    ASSERT_NO_FATAL_FAILURE(open(other, kLocalWrite | kRemoteRead));
    CooperativeCopyBody body = good(Opcode::read);
    body.their_key = other.memory().remote_key(0);
    expect_refused(body);
    other.reset();
    ASSERT_NO_FATAL_FAILURE(open(other, kLocalWrite | kRemoteWrite));
    body = good(Opcode::write);
    body.their_key = other.memory().remote_key(0);
    expect_refused(body);
}

TEST_F(ForgedCooperativeCopy, RangesDoNotLeaveRegions) {
    for (const Opcode opcode : {Opcode::write, Opcode::read}) {
        CooperativeCopyBody body = good(opcode);
        ++body.theirs;
        expect_refused(body);
        body = good(opcode);
        body.theirs = ~std::uint64_t{0} - kLength / 2;
        expect_refused(body);
        window.reset(); // the key ends with the window
        const std::uint32_t gone = body.their_key;
        ASSERT_NO_FATAL_FAILURE(open(window, kLocalWrite | kRemoteRead | kRemoteWrite));
        body = good(opcode);
        body.their_key = gone;
        expect_refused(body);
    }
}

// An address without memory harms neither end's process, wherever the other address lies.
TEST_F(ForgedCooperativeCopy, WhatIsNotMappedHarmsNobody) {
    void* const hole =
        mmap(nullptr, kLength, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(hole, MAP_FAILED);
    const MemoryRegion& ring = *peer().in.ring_memory;
    ASSERT_GE(ring.length(), kLength);
    for (const Opcode opcode : {Opcode::write, Opcode::read}) {
        CooperativeCopyBody body = good(opcode);
        body.their_key = whole_key(kHas);
        body.theirs = reinterpret_cast<std::uintptr_t>(hole);
        expect_refused(body);
        body = good(opcode);
        body.ours = reinterpret_cast<std::uintptr_t>(hole);
        expect_refused(body);
        // The processor copies data in a segment.
        body = good(opcode);
        body.their_key = whole_key(kHas);
        body.theirs = reinterpret_cast<std::uintptr_t>(hole);
        body.our_key = peer().in.ring_registration.remote_key(0);
        body.ours = reinterpret_cast<std::uintptr_t>(ring.address());
        expect_refused(body);
    }
    munmap(hole, kLength);
}

TEST_F(ForgedCooperativeCopy, WhatMakesNoSenseIsABadPacket) {
    std::uint64_t bad = 0;
    const auto expect_bad = [&](const std::function<void(CooperativeCopyBody&)>& spoil) {
        CooperativeCopyBody body = good(Opcode::read);
        spoil(body);
        const SharedWork left = forge(body);
        EXPECT_EQ(left.back, 0u);
        EXPECT_EQ(world->counters(kHas).bad_packets, ++bad);
    };
    expect_bad([](CooperativeCopyBody& body) { body.length = 0; });
    expect_bad([](CooperativeCopyBody& body) { body.length = kLength - 1; });
    expect_bad([](CooperativeCopyBody& body) { body.length = ~0u; });
    expect_bad([](CooperativeCopyBody& body) { body.number = 0; });
    expect_bad([](CooperativeCopyBody& body) { body.number += std::uint64_t{1} << 26; });
    expect_bad([](CooperativeCopyBody& body) { body.opcode = 0; });
    expect_bad([](CooperativeCopyBody& body) {
        body.opcode = static_cast<std::uint8_t>(Opcode::fetch_add);
    });
    expect_bad([](CooperativeCopyBody& body) { body.opcode = 0xff; });
    EXPECT_TRUE(theirs == pattern(kLength, 1));
    exchange(*world, 100, 3);
}

// -------------------------------------------------------------------------------------------------
// Puts and gets

// A part of the window is not mapped any more: the transfer fails, whichever end tries it, and
// nothing else does.
TEST_F(CooperativeCopyRefused, AWindowWithAHole) {
    constexpr std::size_t kWindow = 4u << 20;
    constexpr std::size_t kThere = 3u << 20;
    void* const memory =
        mmap(nullptr, kWindow, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* const there = static_cast<std::byte*>(memory);
    const Window window(*world, kHas, memory, kWindow);
    ASSERT_EQ(munmap(there + kThere, kWindow - kThere), 0);
    std::vector<std::byte> own = pattern(kWindow, 1);
    const auto moved = [&](opal_common_adaptib_operation_t kind, std::size_t bytes, int nth) {
        ask_first(peer());
        at_part(nth, [&] { world->progress(kHas); });
        return world->core(kWants).protocol().one_sided().try_rma(
            peer(), operation(kind, own.data(), window, 0, bytes), nullptr);
    };
    const std::uint64_t offered = counters().copies_offered;
    for (int nth = 1; nth <= 10; ++nth) {
        EXPECT_FALSE(moved(OPAL_COMMON_ADAPTIB_PUT, kWindow, nth));
        EXPECT_FALSE(moved(OPAL_COMMON_ADAPTIB_GET, kWindow, nth));
        own = pattern(kWindow, std::size_t(nth));
        ASSERT_TRUE(moved(OPAL_COMMON_ADAPTIB_PUT, kThere, nth));
        ASSERT_TRUE(std::equal(there, there + kThere, own.begin()));
        own = pattern(kWindow, 77);
        ASSERT_TRUE(moved(OPAL_COMMON_ADAPTIB_GET, kThere, nth));
        ASSERT_TRUE(std::equal(there, there + kThere, own.begin()));
    }
    EXPECT_EQ(counters().copies_offered - offered, 40u);
    plans[kWants].at_rma_now = nullptr;
    expect_unharmed();
    munmap(memory, kThere);
}

// The range is checked against the window before any data moves.
TEST_F(CooperativeCopyRefused, APutThatLeavesItsWindowWritesNothing) {
    std::vector<std::byte> memory(2u << 20, std::byte{0x11});
    const std::size_t bytes = memory.size() - 1;
    const Window window(*world, kHas, memory.data(), bytes);
    std::vector<std::byte> own = pattern(memory.size(), 1);
    ask_first(peer());
    const std::uint64_t offered = counters().copies_offered;
    const auto put = operation(OPAL_COMMON_ADAPTIB_PUT, own.data(), window, 0, bytes + 1);
    EXPECT_FALSE(world->core(kWants).protocol().one_sided().try_rma(peer(), put, nullptr));
    TestRequest request;
    EXPECT_EQ(start(*world, kWants, kHas, put, request).reason(), Reason::bad_key);
    EXPECT_EQ(counters().copies_offered, offered);
    EXPECT_TRUE(std::all_of(memory.begin(), memory.end(),
                            [](std::byte byte) { return byte == std::byte{0x11}; }));
    expect_unharmed();
}

} // namespace
} // namespace adaptib::test
