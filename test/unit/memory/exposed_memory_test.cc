// SPDX-License-Identifier: BSD-3-Clause
// ExposedMemory: which rails a buffer is registered with, and that a failure is counted each time
// and reported once.
#include "memory/exposed_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "unit/messages.h"
#include "unit/null_rail.h"

namespace adaptib::test {
namespace {

constexpr Bytes kBlock = 4096;
constexpr std::uint32_t kTransfers = kLocalWrite | kRemoteRead | kRemoteWrite;

// Counts its regions, of which it has room for `room`.
class CountingRail final : public NullRail {
public:
    CountingRail(std::uint32_t number, bool whole) : number_(number) {
        info_.capabilities = whole ? static_cast<std::uint32_t>(Capability::whole_memory) : 0;
    }

    void set_copies_at_fork(bool copies) { info_.copies_at_fork = copies; }

    std::size_t regions = 0;
    std::size_t room = ~std::size_t{0};

private:
    struct Region final : MemoryRegion {
        Region(CountingRail& of, void* address, Bytes length, std::uint32_t key)
            : MemoryRegion(address, length), rail(of) {
            local_key_ = remote_key_ = key;
            ++rail.regions;
        }
        ~Region() override { --rail.regions; }
        CountingRail& rail;
        std::vector<std::byte> own;
    };

    Status register_impl(void* address, Bytes length, std::uint32_t,
                         std::unique_ptr<MemoryRegion>& out) override {
        if (regions >= room) {
            return Status::error(Reason::no_memory);
        }
        out = std::make_unique<Region>(*this, address, length, 1000 * number_ + ++made_);
        return kOk;
    }
    Status allocate_impl(Bytes length, std::uint32_t access,
                         std::unique_ptr<MemoryRegion>& out) override {
        std::vector<std::byte> memory(length);
        const Status status = register_impl(memory.data(), length, access, out);
        if (status.ok()) {
            static_cast<Region&>(*out).own = std::move(memory);
        }
        return status;
    }

    const std::uint32_t number_;
    std::uint32_t made_ = 0;
};

struct Notices final {
    std::vector<std::string> texts;
};

// A process whose fabrics have one rail each. `whole`: the rails can register all memory.
class Process {
public:
    Process(std::size_t fabrics, bool whole, Bytes cache = kGiB) {
        for (std::uint32_t i = 0; i < fabrics; ++i) {
            rails_.push_back(std::make_unique<CountingRail>(i + 1, whole));
            list_.push_back(rails_.back().get());
            ranges_.push_back({i, 1});
        }
        memory = std::make_unique<ExposedMemory>(ExposedMemory::Options{cache, kBlock}, list_,
                                                 ranges_, counters, messages_into(notices.texts));
    }
    CountingRail& rail(std::size_t index) { return *rails_[index]; }

    Counters counters;
    Notices notices;
    alignas(4096) std::array<std::uint64_t, 1024> words{};

private:
    std::vector<std::unique_ptr<CountingRail>> rails_;
    std::vector<Rail*> list_;
    std::vector<RailRange> ranges_;

public:
    std::unique_ptr<ExposedMemory> memory; // destroyed before its rails
};

TEST(ExposedMemory, OneRegionOfAllMemoryServesEveryBuffer) {
    Process process(1, true);
    ExposedMemory& memory = *process.memory;
    const Registration* const whole = memory.whole(0);
    ASSERT_NE(whole, nullptr);
    EXPECT_EQ(process.rail(0).regions, 1u);
    RegistrationCache::Use own;
    EXPECT_EQ(memory.registered(0, own, process.words.data(), 64, kLocalWrite), whole);
    EXPECT_EQ(memory.exposed(process.words.data(), 64, kTransfers), whole);
    EXPECT_EQ(process.rail(0).regions, 1u);
    EXPECT_EQ(memory.exposed(process.words.data(), 64, kTransfers | kRemoteAtomic), nullptr)
        << "a window ends with its registration";
    EXPECT_EQ(memory.exposed(process.words.data(), kWholeMemory, kTransfers), nullptr)
        << "there is no such range";
    EXPECT_EQ(memory.exposed(nullptr, ~Bytes{0}, kTransfers), nullptr);
}

TEST(ExposedMemory, APeersBufferIsRegisteredWithItsFabricAlone) {
    Process process(2, false);
    ExposedMemory& memory = *process.memory;
    EXPECT_EQ(memory.whole(1), nullptr);
    RegistrationCache::Use own;
    const Registration* const made =
        memory.registered(1, own, process.words.data(), 64, kLocalWrite);
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(made, &own.registration());
    EXPECT_EQ(process.rail(0).regions, 0u);
    EXPECT_EQ(process.rail(1).regions, 1u);
}

TEST(ExposedMemory, MemoryOfTheUserIsRegisteredWithAllFabrics) {
    Process process(2, true);
    ExposedMemory& memory = *process.memory;
    EXPECT_EQ(memory.exposed(process.words.data(), 64, kTransfers), nullptr)
        << "no region serves the peers of both fabrics";
    RegistrationCache::Use use;
    ASSERT_TRUE(memory.register_memory(use, process.words.data(), 64, kTransfers).ok());
    EXPECT_NE(use.registration().remote_key(0), 0u);
    EXPECT_NE(use.registration().remote_key(1), 0u);
    OpenWindow window;
    ASSERT_TRUE(memory.open_window(window, process.words.data(), 64, kTransfers).ok());
    EXPECT_EQ(window.memory().key_count(), 2u);
    const auto address = reinterpret_cast<std::uintptr_t>(process.words.data());
    EXPECT_TRUE(memory.windows().has_word(0, address + 56));
    EXPECT_FALSE(memory.windows().has_word(0, address + 64));
    window.reset();
    EXPECT_FALSE(memory.windows().has_word(0, address + 56));
}

TEST(ExposedMemory, RegisteredMemoryIsFoundByRangeAndRights) {
    Process process(1, false);
    ExposedMemory& memory = *process.memory;
    const auto address = reinterpret_cast<std::uintptr_t>(process.words.data());
    RegistrationCache::Use use;
    RegistrationCache::Use found;
    ASSERT_TRUE(memory.register_memory(use, process.words.data(), 64, kRemoteRead).ok());
    EXPECT_TRUE(memory.find_registered(address + 8, 8, kRemoteRead, found));
    EXPECT_FALSE(memory.find_registered(address + 8, 8, kRemoteWrite, found))
        << "a put would break the connection";
    constexpr Bytes kPage = 4096; // whole pages are registered
    EXPECT_FALSE(memory.find_registered(address + 2 * kPage, 8, 0, found));
}

TEST(ExposedMemory, FailuresAreCountedAndTheFirstIsReported) {
    Process process(1, false);
    ExposedMemory& memory = *process.memory;
    process.rail(0).room = 0;
    RegistrationCache::Use use;
    OpenWindow window;
    EXPECT_FALSE(memory.register_memory(use, process.words.data(), 64, kTransfers).ok());
    EXPECT_EQ(memory.registered(0, use, process.words.data(), 64, kLocalWrite), nullptr);
    EXPECT_FALSE(memory.open_window(window, process.words.data(), 64, kTransfers).ok());
    EXPECT_EQ(process.counters.registrations_failed, 3u);
    ASSERT_EQ(process.notices.texts.size(), 1u);
    EXPECT_NE(process.notices.texts[0].find("A buffer of 64 bytes"), std::string::npos);
}

TEST(ExposedMemory, AWindowDisplacesRegistrationsThatNobodyUses) {
    Process process(1, false);
    ExposedMemory& memory = *process.memory;
    RegistrationCache::Use use;
    ASSERT_NE(memory.registered(0, use, process.words.data(), 64, kLocalWrite), nullptr);
    process.rail(0).room = 1;
    OpenWindow window;
    EXPECT_FALSE(memory.open_window(window, process.words.data(), 64, kTransfers).ok());
    use.reset();
    EXPECT_EQ(process.rail(0).regions, 1u) << "kept by the cache";
    EXPECT_TRUE(memory.open_window(window, process.words.data(), 64, kTransfers).ok());
    EXPECT_EQ(process.rail(0).regions, 1u);
}

TEST(ExposedMemory, ForgottenMemoryIsGivenUp) {
    Process process(2, false);
    ExposedMemory& memory = *process.memory;
    for (const std::uint32_t fabric : {0, 1}) {
        RegistrationCache::Use use;
        ASSERT_NE(memory.registered(fabric, use, process.words.data(), 64, kLocalWrite), nullptr);
    }
    {
        RegistrationCache::Use use;
        ASSERT_TRUE(memory.register_memory(use, process.words.data(), 64, kTransfers).ok());
    }
    EXPECT_EQ(process.rail(0).regions, 2u);
    EXPECT_EQ(process.rail(1).regions, 2u);
    memory.forget(process.words.data(), 64);
    memory.settle();
    EXPECT_EQ(process.rail(0).regions, 0u);
    EXPECT_EQ(process.rail(1).regions, 0u);
}

// The pages of small buffers hold other data that a child of fork needs.
TEST(ExposedMemory, BuffersAreNotRegisteredByThemselvesWhereForkTakesTheirPages) {
    using Mode = FrequentBuffersOptions::Mode;
    const struct {
        Mode mode;
        bool copies_at_fork;
        bool on;
    } cases[] = {{Mode::automatic, true, true},
                 {Mode::automatic, false, false},
                 {Mode::always, false, true},
                 {Mode::always, true, true},
                 {Mode::off, true, false}};
    for (const auto& each : cases) {
        CountingRail copies(1, false);
        CountingRail rail(2, false);
        rail.set_copies_at_fork(each.copies_at_fork);
        Rail* const rails[] = {&copies, &rail};
        const RailRange fabrics[] = {{0, 1}, {1, 1}};
        Counters counters;
        Notices notices;
        ExposedMemory::Options options{kGiB, kBlock};
        options.frequent.mode = each.mode;
        ExposedMemory memory(options, rails, fabrics, counters, messages_into(notices.texts));
        EXPECT_EQ(memory.frequent(1).on(), each.on);
        EXPECT_EQ(memory.frequent(0).on(), each.mode != Mode::off) << "has rails of its own";
    }
}

TEST(ExposedMemory, BounceBuffersAreMadeInBlocksUpToABound) {
    Process process(2, false);
    BounceBuffers& pool = process.memory->bounce(1);
    std::vector<BounceBuffer> taken(BounceBuffers::kMost);
    for (std::size_t i = 0; i < taken.size(); ++i) {
        ASSERT_TRUE(pool.take(taken[i]));
        EXPECT_EQ(pool.made(), (i / BounceBuffers::kInBlock + 1) * BounceBuffers::kInBlock);
        std::memset(taken[i].data, static_cast<int>(i), BounceBuffers::kBytes);
    }
    EXPECT_EQ(process.rail(0).regions, 0u) << "of another fabric";
    for (std::size_t i = 0; i < taken.size(); ++i) {
        EXPECT_EQ(taken[i].data[BounceBuffers::kBytes - 1], static_cast<std::byte>(i));
        EXPECT_TRUE(taken[i].registration->has(1));
    }
    BounceBuffer further;
    EXPECT_FALSE(pool.take(further));
    std::byte* const last = taken.back().data;
    pool.give(taken.back());
    ASSERT_TRUE(pool.take(further));
    EXPECT_EQ(further.data, last);
}

TEST(ExposedMemory, StagingBlocksBelongToAFabric) {
    Process process(2, false);
    std::unique_ptr<StagingBlock> block;
    ASSERT_TRUE(process.memory->staging(1).take(block).ok());
    EXPECT_EQ(process.rail(0).regions, 0u);
    EXPECT_NE(block->registration.remote_key(1), 0u);
    process.memory->staging(1).give(std::move(block));
}

} // namespace
} // namespace adaptib::test
