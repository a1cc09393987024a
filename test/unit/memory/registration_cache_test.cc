// SPDX-License-Identifier: BSD-3-Clause
// Cached registrations are found, merged, bounded and forgotten; registrations in use stay.
#include "memory/registration_cache.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/random.h"
#include "unit/null_rail.h"

namespace adaptib {
namespace {

constexpr std::uintptr_t kPage = 4096;
constexpr std::uintptr_t kBase = 0x10000000;
constexpr Bytes kPlenty = 1u << 30;

// Keeps a record of registrations; never touches the memory.
class BookRail final : public test::NullRail {
public:
    struct Region final : MemoryRegion {
        Region(BookRail& r, void* address, Bytes length) : MemoryRegion(address, length), rail(r) {
            rail.bytes += length;
            ++rail.regions;
            local_key_ = remote_key_ = ++rail.made;
        }
        ~Region() override {
            rail.bytes -= length();
            --rail.regions;
        }
        BookRail& rail;
    };

    Bytes bytes = 0;
    std::size_t regions = 0;
    std::uint32_t made = 0;
    Bytes limit = ~Bytes{0};
    Reason refusal = Reason::no_memory; // the error beyond `limit`
    // Registrations for local writes fail if they reach beyond this address.
    std::uintptr_t read_only = UINTPTR_MAX;

private:
    Status register_impl(void* address, Bytes length, std::uint32_t access,
                         std::unique_ptr<MemoryRegion>& out) override {
        if (bytes + length > limit) {
            return Status::error(refusal);
        }
        if ((access & kLocalWrite) != 0 &&
            reinterpret_cast<std::uintptr_t>(address) + length > read_only) {
            return Status::error(Reason::no_permission);
        }
        out = std::make_unique<Region>(*this, address, length);
        return kOk;
    }
};

class Registrations : public testing::Test {
protected:
    Registrations() {
        for (auto* rail : {&first_, &second_}) {
            auto made = std::make_unique<BookRail>();
            *rail = made.get();
            list_.push_back(made.get());
            rails_.push_back(std::move(made));
        }
        open(kPlenty);
    }
    void open(Bytes max_bytes) {
        cache_ = std::make_unique<RegistrationCache>(list_, RailRange{0, 2}, max_bytes, counters_);
    }
    static void* at(std::uintptr_t offset) { return reinterpret_cast<void*>(kBase + offset); }
    Status acquire(std::uintptr_t offset, Bytes length, RegistrationCache::Use& use,
                   std::uint32_t access = kRemoteRead) {
        return cache_->acquire(at(offset), length, access, use);
    }
    // Uses a range once; returns how many registrations that took.
    std::uint32_t registrations_for(std::uintptr_t offset, Bytes length,
                                    std::uint32_t access = kRemoteRead) {
        const std::uint32_t before = first_->made;
        RegistrationCache::Use use;
        EXPECT_TRUE(acquire(offset, length, use, access).ok());
        return first_->made - before;
    }

    Counters counters_;
    std::vector<std::unique_ptr<Rail>> rails_;
    std::vector<Rail*> list_;
    BookRail* first_ = nullptr;
    BookRail* second_ = nullptr;
    std::unique_ptr<RegistrationCache> cache_;
};

TEST_F(Registrations, StayAfterUseOnEveryRail) {
    EXPECT_EQ(registrations_for(100, 5000), 1u);
    EXPECT_EQ(registrations_for(100, 5000), 0u);
    EXPECT_EQ(registrations_for(0, 1), 0u) << "whole pages";
    EXPECT_EQ(registrations_for(8191, 0), 0u) << "no bytes: one, that there is a key";
    EXPECT_EQ(registrations_for(8192, 1), 1u);
    EXPECT_EQ(first_->bytes, 3 * kPage);
    EXPECT_EQ(second_->bytes, 3 * kPage);
    EXPECT_EQ(counters_.registered_bytes, 3 * kPage);
    EXPECT_EQ(counters_.registrations_made, 2u);
    EXPECT_EQ(counters_.registrations_found, 3u);
    cache_.reset();
    EXPECT_EQ(first_->regions + second_->regions, 0u);
    EXPECT_EQ(counters_.registered_bytes, 0u);
}

TEST_F(Registrations, WithoutCacheEachUseRegistersExactly) {
    open(0);
    RegistrationCache::Use use;
    ASSERT_TRUE(acquire(100, 5000, use).ok());
    EXPECT_EQ(first_->bytes, 5000u);
    ASSERT_TRUE(acquire(100, 5000, use).ok()) << "what the use held before is given back";
    EXPECT_EQ(first_->made, 2u);
    EXPECT_EQ(first_->regions, 1u);
    use.reset();
    EXPECT_EQ(first_->regions, 0u);
}

TEST_F(Registrations, OverlappingRangesBecomeOne) {
    EXPECT_EQ(registrations_for(0, 2 * kPage), 1u);
    EXPECT_EQ(registrations_for(4 * kPage, 2 * kPage), 1u);
    EXPECT_EQ(registrations_for(2 * kPage, 2 * kPage), 1u) << "beside both, overlaps neither";
    EXPECT_EQ(first_->regions, 3u);
    EXPECT_EQ(registrations_for(kPage, 4 * kPage), 1u);
    EXPECT_EQ(first_->regions, 1u);
    EXPECT_EQ(first_->bytes, 6 * kPage);
    EXPECT_EQ(registrations_for(0, 6 * kPage), 0u);
}

// Buffers that lie back to back share pages. Were all merged, each would register all before it.
TEST_F(Registrations, LongChainsStayApart) {
    constexpr std::uintptr_t kBuffers = 500;
    constexpr Bytes kBytes = 2 * kPage;
    for (std::uintptr_t i = 0; i < kBuffers; ++i) {
        EXPECT_EQ(registrations_for(kPage / 2 + i * kBytes, kBytes), 1u);
    }
    EXPECT_LE(first_->bytes, 2 * kBuffers * kBytes);
    for (std::uintptr_t i = 0; i < kBuffers; ++i) {
        EXPECT_EQ(registrations_for(kPage / 2 + i * kBytes, kBytes), 0u);
    }
    // All that reach into the page that two buffers share.
    const std::size_t regions = first_->regions;
    cache_->forget(at(100 * kBytes), 1);
    cache_->settle();
    EXPECT_GT(regions, first_->regions);
    EXPECT_EQ(registrations_for(99 * kBytes + kPage / 2, kBytes), 1u);
    EXPECT_EQ(registrations_for(kPage / 2, kBuffers * kBytes), 1u) << "one over all";
    EXPECT_EQ(first_->regions, 1u);
}

TEST_F(Registrations, RightsAreAddedUp) {
    EXPECT_EQ(registrations_for(0, 10, kRemoteRead), 1u);
    EXPECT_EQ(registrations_for(0, 10, kLocalWrite | kRemoteWrite), 1u);
    EXPECT_EQ(registrations_for(0, 10, kLocalWrite), 0u);
    EXPECT_EQ(registrations_for(0, 10, kRemoteRead), 0u);
    EXPECT_EQ(first_->regions, 1u);
}

TEST_F(Registrations, ARightForAPartIsAddedToAllOfIt) {
    EXPECT_EQ(registrations_for(0, 10 * kPage, kRemoteRead), 1u);
    EXPECT_EQ(registrations_for(kPage, kPage, kLocalWrite), 1u);
    EXPECT_EQ(first_->regions, 1u);
    EXPECT_EQ(first_->bytes, 10 * kPage);
    EXPECT_EQ(registrations_for(0, 10 * kPage, kLocalWrite), 0u);
}

TEST_F(Registrations, AUseGivesBackWhatItHasBeforeItTakesAnother) {
    RegistrationCache beside(list_, RailRange{0, 2}, kPlenty, counters_);
    RegistrationCache::Use one;
    RegistrationCache::Use two;
    ASSERT_TRUE(acquire(0, kPage, one).ok());
    ASSERT_TRUE(beside.acquire(at(kPage), kPage, kRemoteRead, two).ok());
    one.take(two);
    EXPECT_TRUE(two.empty());
    EXPECT_EQ(first_->regions, 2u);
    cache_->make_room();
    EXPECT_EQ(first_->regions, 1u) << "the first one is not used any more";
    beside.make_room();
    EXPECT_EQ(first_->regions, 1u);
    one.reset();
    beside.make_room();
    EXPECT_EQ(first_->regions, 0u);
}

// A writable range and read-only pages behind it cannot share one registration.
TEST_F(Registrations, RangesThatCannotBeOneAreApart) {
    first_->read_only = kBase + 2 * kPage;
    EXPECT_EQ(registrations_for(0, 3 * kPage, kRemoteRead), 1u);
    RegistrationCache::Use use;
    EXPECT_TRUE(acquire(0, kPage, use, kLocalWrite).ok());
    EXPECT_EQ(registrations_for(0, kPage, kLocalWrite), 0u);
    EXPECT_FALSE(acquire(2 * kPage, kPage, use, kLocalWrite).ok());
    EXPECT_EQ(first_->regions, 1u) << "a use that failed holds nothing";
}

TEST_F(Registrations, UsesOutliveMergingAndForgetting) {
    RegistrationCache::Use one;
    RegistrationCache::Use two;
    ASSERT_TRUE(acquire(0, 2 * kPage, one).ok());
    const std::uint32_t key = one.registration().remote_key(0);
    ASSERT_TRUE(acquire(kPage, 2 * kPage, two).ok());
    EXPECT_NE(two.registration().remote_key(0), key);
    EXPECT_EQ(first_->regions, 2u);
    cache_->forget(at(0), 10 * kPage);
    cache_->settle();
    EXPECT_EQ(counters_.registrations_forgotten, 1u) << "the first was not to be found any more";
    EXPECT_EQ(first_->regions, 2u);
    EXPECT_EQ(one.registration().remote_key(0), key);
    one.reset();
    two.reset();
    EXPECT_EQ(first_->regions, 0u);
}

TEST_F(Registrations, WhatIsUnmappedIsRegisteredAnew) {
    EXPECT_EQ(registrations_for(0, 2 * kPage), 1u);
    EXPECT_EQ(registrations_for(4 * kPage, 2 * kPage), 1u);
    cache_->forget(at(2 * kPage), 2 * kPage); // lies between the two
    EXPECT_EQ(registrations_for(0, 2 * kPage), 0u);
    cache_->forget(at(kPage), kPage);
    EXPECT_EQ(registrations_for(0, kPage), 1u);
    EXPECT_EQ(registrations_for(4 * kPage, kPage), 0u);
    EXPECT_EQ(counters_.registrations_forgotten, 1u);
}

TEST_F(Registrations, APlaceHoldsUntilSomethingIsDropped) {
    RegistrationCache::Place places[2];
    for (RegistrationCache::Place& place : places) { // one before anything is dropped, one after it
        RegistrationCache::Use use;
        ASSERT_TRUE(acquire(0, kPage, use).ok());
        place = RegistrationCache::remember(use);
        RegistrationCache::Use again;
        EXPECT_TRUE(cache_->use_again(place, at(0), kPage, kRemoteRead, again));
        EXPECT_FALSE(cache_->use_again(place, at(0), 2 * kPage, kRemoteRead, again));
        use.reset();
        again.reset();
        cache_->forget(at(0), kPage);
        cache_->settle();
        EXPECT_FALSE(cache_->use_again(place, at(0), kPage, kRemoteRead, again));
    }
    RegistrationCache::Use use;
    EXPECT_FALSE(cache_->use_again(places[0], at(0), kPage, kRemoteRead, use));
}

TEST_F(Registrations, TooMuchToRememberForgetsEverything) {
    EXPECT_EQ(registrations_for(0, kPage), 1u);
    for (std::uintptr_t i = 0; i < 100; ++i) {
        cache_->forget(at((10 + i) * kPage), kPage);
    }
    EXPECT_EQ(registrations_for(0, kPage), 1u);
}

// A library that the program loads may take the place of the hooks that report unmapped memory.
TEST_F(Registrations, NothingIsKeptOnceUnmappingGoesUnnoticed) {
    bool watched = true;
    std::uint32_t asked = 0;
    cache_ = std::make_unique<RegistrationCache>(list_, RailRange{0, 2}, kPlenty, counters_, [&] {
        ++asked;
        return watched;
    });
    EXPECT_EQ(registrations_for(0, 5000), 1u);
    EXPECT_EQ(registrations_for(0, 5000), 0u);
    EXPECT_EQ(asked, 1u) << "as often as something is registered";
    watched = false;
    EXPECT_EQ(registrations_for(0, 5000), 0u) << "nobody has asked yet";
    EXPECT_EQ(registrations_for(1 << 20, 5000), 1u);
    EXPECT_EQ(first_->regions, 0u) << "neither is kept";
    EXPECT_FALSE(cache_->keeps());
    EXPECT_EQ(registrations_for(0, 5000), 1u);
    EXPECT_EQ(registrations_for(0, 5000), 1u);
    EXPECT_EQ(asked, 2u) << "it stays so";
}

TEST_F(Registrations, WhoIsAskedMayForgetEverything) {
    bool all = false;
    cache_ = std::make_unique<RegistrationCache>(list_, RailRange{0, 2}, kPlenty, counters_, [&] {
        if (all) {
            cache_->forget(nullptr, UINTPTR_MAX);
        }
        return true;
    });
    EXPECT_EQ(registrations_for(0, 5000), 1u);
    all = true;
    EXPECT_EQ(registrations_for(1 << 20, 5000), 1u);
    all = false;
    EXPECT_EQ(registrations_for(1 << 20, 5000), 0u) << "what was registered then is kept";
    EXPECT_EQ(registrations_for(0, 5000), 1u);
    EXPECT_EQ(counters_.registrations_forgotten, 1u);
}

TEST_F(Registrations, TheLeastRecentlyUsedGoFirst) {
    open(3 * kPage);
    RegistrationCache::Use held;
    ASSERT_TRUE(acquire(0, kPage, held).ok());
    EXPECT_EQ(registrations_for(2 * kPage, kPage), 1u);
    EXPECT_EQ(registrations_for(4 * kPage, kPage), 1u);
    EXPECT_EQ(registrations_for(2 * kPage, kPage), 0u); // now used later than the other one
    EXPECT_EQ(registrations_for(6 * kPage, kPage), 1u);
    EXPECT_EQ(first_->regions, 3u);
    EXPECT_EQ(registrations_for(2 * kPage, kPage), 0u);
    EXPECT_EQ(registrations_for(0, kPage), 0u) << "in use";
    EXPECT_EQ(registrations_for(20 * kPage, 4 * kPage), 1u) << "longer than the limit";
    EXPECT_EQ(registrations_for(20 * kPage, 4 * kPage), 1u) << "and so not kept";
    EXPECT_EQ(registrations_for(2 * kPage, kPage), 0u) << "nothing had to go for it";
}

// Refusals for lack of memory, and for lack of lockable memory.
TEST_F(Registrations, ARailWithoutRoomGetsSome) {
    for (const Reason refusal : {Reason::no_memory, Reason::locked_memory}) {
        open(kPlenty);
        second_->limit = 2 * kPage;
        second_->refusal = refusal;
        EXPECT_EQ(registrations_for(0, kPage), 1u);
        EXPECT_EQ(registrations_for(2 * kPage, kPage), 1u);
        RegistrationCache::Use use;
        EXPECT_TRUE(acquire(4 * kPage, 2 * kPage, use).ok());
        RegistrationCache::Use other;
        EXPECT_EQ(acquire(0, kPage, other).reason(), refusal);
        use.reset();
        EXPECT_TRUE(acquire(0, kPage, other).ok());
        EXPECT_EQ(first_->bytes, counters_.registered_bytes);
    }
}

// make_room(): others need room, too, so unused registrations go.
TEST_F(Registrations, RoomIsMadeForOthers) {
    second_->limit = 4 * kPage;
    EXPECT_EQ(registrations_for(0, kPage), 1u);
    EXPECT_EQ(registrations_for(2 * kPage, kPage), 1u);
    RegistrationCache::Use used;
    ASSERT_TRUE(acquire(2 * kPage, kPage, used).ok());
    ASSERT_EQ(second_->regions, 2u);
    cache_->make_room();
    EXPECT_EQ(second_->regions, 1u) << "one is in use";
    used.reset();
    cache_->make_room();
    EXPECT_EQ(second_->regions, 0u);
    EXPECT_EQ(counters_.registered_bytes, 0u);
}

// Each use covers the range it asked for; cached registrations never overlap or exceed the limit.
TEST_F(Registrations, RandomUsesAreCovered) {
    constexpr Bytes kLimit = 64 * kPage;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        Random random(seed);
        open(kLimit);
        std::vector<std::unique_ptr<RegistrationCache::Use>> uses(4);
        for (int step = 0; step < 500; ++step) {
            auto& use = uses[random.below(uses.size())];
            use = std::make_unique<RegistrationCache::Use>();
            const std::uintptr_t offset = random.below(100 * kPage);
            const Bytes length = 1 + random.below(8 * kPage);
            ASSERT_TRUE(acquire(offset, length, *use).ok());
            if (random.below(8) == 0) {
                cache_->forget(at(random.below(100 * kPage)), 1 + random.below(4 * kPage));
            }
            if (random.below(3) == 0) {
                use.reset();
            }
            // The four in use may exceed the limit; unused ones do not.
            ASSERT_LE(first_->bytes, kLimit + 4 * 108 * kPage);
            ASSERT_EQ(first_->bytes, counters_.registered_bytes);
        }
        uses.clear();
        cache_.reset();
        ASSERT_EQ(first_->regions, 0u);
        ASSERT_EQ(second_->regions, 0u);
    }
}

TEST_F(Registrations, OtherThreadsMayForget) {
    std::vector<std::thread> others;
    for (std::uintptr_t t = 0; t < 2; ++t) {
        others.emplace_back([this, t] {
            for (std::uintptr_t i = 0; i < 2000; ++i) {
                cache_->forget(at((t * 10 + i % 10) * kPage), kPage);
            }
        });
    }
    for (std::uintptr_t i = 0; i < 2000; ++i) {
        RegistrationCache::Use use;
        ASSERT_TRUE(acquire((i % 20) * kPage, 3 * kPage, use).ok());
    }
    for (std::thread& each : others) {
        each.join();
    }
    const std::uint32_t before = first_->made;
    cache_->forget(at(0), 30 * kPage);
    cache_->settle();
    EXPECT_EQ(first_->regions, 0u);
    EXPECT_EQ(registrations_for(0, kPage), 1u);
    EXPECT_EQ(first_->made, before + 1);
}

} // namespace
} // namespace adaptib
