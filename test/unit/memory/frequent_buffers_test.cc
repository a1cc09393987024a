// SPDX-License-Identifier: BSD-3-Clause
// FrequentBuffers: when a buffer is registered, by the thresholds of the paper's platform; what is
// given up, refused, forgotten; and that nothing stale is ever handed out.
#include "memory/frequent_buffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "base/random.h"
#include "unit/null_rail.h"

namespace adaptib {
namespace {

constexpr std::uintptr_t kPage = 4096;
constexpr std::uintptr_t kBase = 0x10000000;
constexpr std::size_t kPages = 256;
using Mode = FrequentBuffersOptions::Mode;

// An address space: which version of a page is mapped where, and for which versions a rail's
// regions stand.
class PagesRail final : public test::NullRail {
public:
    PagesRail() : versions(kPages, 1) {}

    struct Region final : MemoryRegion {
        Region(void* address, Bytes length, std::uint32_t key) : MemoryRegion(address, length) {
            local_key_ = remote_key_ = key;
        }
    };
    struct Record {
        std::size_t first;
        std::vector<std::uint32_t> versions;
        std::uint32_t access;
    };

    static std::size_t page(const void* address) {
        return (reinterpret_cast<std::uintptr_t>(address) - kBase) / kPage;
    }
    // Returns true if the region of that key covers the memory as it is mapped now.
    bool is_current(std::uint32_t key, const void* address, Bytes length, std::uint32_t access) {
        const Record& record = records.at(key);
        const std::size_t last = page(static_cast<const std::byte*>(address) + length - 1);
        bool current = (access & ~record.access) == 0;
        for (std::size_t i = page(address); i <= last; ++i) {
            const bool covered = i >= record.first && i - record.first < record.versions.size();
            current = current && covered && versions[i] != 0 &&
                      record.versions[i - record.first] == versions[i];
        }
        return current;
    }

    std::vector<std::uint32_t> versions; // of each page; 0: not mapped
    std::map<std::uint32_t, Record> records;
    std::uint32_t made = 0;
    std::uint32_t attempts = 0;
    bool refuses = false;

private:
    Status register_impl(void* address, Bytes length, std::uint32_t access,
                         std::unique_ptr<MemoryRegion>& out) override {
        ++attempts;
        const auto begin = versions.begin() + static_cast<std::ptrdiff_t>(page(address));
        const auto end = begin + static_cast<std::ptrdiff_t>(length / kPage);
        if (refuses || std::find(begin, end, 0u) != end) {
            return Status::error(refuses ? Reason::locked_memory : Reason::no_memory);
        }
        out = std::make_unique<Region>(address, length, ++made);
        records[made] = {page(address), {begin, end}, access};
        return kOk;
    }
};

// Costs with which `uses` is the least number of uses of a message of that size that pays.
void set_uses(GatherCosts& costs, Bytes bytes, std::uint32_t uses) {
    const std::size_t at = GatherCosts::index(bytes);
    costs.copy[at] = 11;
    costs.lookup = 10;
    costs.registration[at] = uses - 0.5;
}

class FrequentBuffersTest : public testing::Test {
protected:
    FrequentBuffersTest() {
        for (const Bytes bytes : GatherCosts::kSizes) {
            set_uses(costs_, bytes, 40);
        }
        open(Mode::automatic, 4096);
    }
    void open(Mode mode, std::uint32_t most, Bytes cache_bytes = kGiB) {
        buffers_.reset();
        cache_ =
            std::make_unique<RegistrationCache>(list_, RailRange{0, 1}, cache_bytes, counters_);
        FrequentBuffersOptions options{mode, most, [this] {
                                           ++measured_;
                                           return costs_;
                                       }};
        buffers_ = std::make_unique<FrequentBuffers>(options, *cache_, counters_);
    }
    static const void* at(std::uintptr_t offset) {
        return reinterpret_cast<const void*>(kBase + offset);
    }
    // Sends once; returns true if the message is gathered, from a registration of what is mapped.
    bool send(std::uintptr_t offset, Bytes bytes, std::uint32_t access = 0) {
        RegistrationCache::Use use;
        const bool gathered = buffers_->use(at(offset), bytes, access, use);
        EXPECT_TRUE(!gathered ||
                    rail_.is_current(use.registration().local_key(0), at(offset), bytes, access));
        return gathered;
    }
    // Returns the number of the send that is the first to be gathered; 0: none of `most`.
    std::uint32_t first_gathered(std::uintptr_t offset, Bytes bytes, std::uint32_t most = 2000) {
        for (std::uint32_t n = 1; n <= most; ++n) {
            if (send(offset, bytes)) {
                return n;
            }
        }
        return 0;
    }
    void unmap(std::uintptr_t offset, Bytes length) {
        cache_->forget(at(offset), length);
        for (std::size_t i = 0; i < length / kPage; ++i) {
            rail_.versions[offset / kPage + i] = 0;
        }
    }
    void map(std::uintptr_t offset, Bytes length) {
        for (std::size_t i = 0; i < length / kPage; ++i) {
            rail_.versions[offset / kPage + i] = ++version_;
        }
    }

    GatherCosts costs_;
    Counters counters_;
    PagesRail rail_;
    std::vector<Rail*> list_{&rail_};
    std::uint32_t version_ = 1;
    int measured_ = 0;
    std::unique_ptr<RegistrationCache> cache_;
    std::unique_ptr<FrequentBuffers> buffers_;
};

// Rashti and Afsahi, table 2; registered after a quarter of it (section 3.3.1: a buffer of 4 KiB
// after 15 uses).
TEST_F(FrequentBuffersTest, RegistersAfterAQuarterOfThePapersUses) {
    struct Row {
        Bytes bytes;
        std::array<std::uint32_t, 3> uses; // fast path, other path, one-sided
    };
    constexpr Row kTable2[] = {
        {512, {432, 1568, 196}}, {1024, {200, 448, 128}}, {2048, {110, 224, 128}},
        {3072, {76, 131, 125}},  {4096, {60, 95, 56}},    {5120, {48, 75, 33}},
        {6144, {40, 65, 29}},    {7168, {36, 55, 26}},    {8192, {32, 49, 25}}};
    for (std::size_t path = 0; path < 3; ++path) {
        for (const Row& row : kTable2) {
            set_uses(costs_, row.bytes, row.uses[path]);
        }
        open(Mode::automatic, 4096);
        std::uintptr_t offset = 0;
        for (const Row& row : kTable2) {
            const std::uint32_t quarter = (row.uses[path] + 3) / 4;
            EXPECT_EQ(buffers_->registered_at(row.bytes), quarter);
            EXPECT_EQ(first_gathered(offset, row.bytes), quarter) << row.bytes;
            offset += 3 * kPage;
        }
        EXPECT_EQ(buffers_->table().frequent(), std::size(kTable2));
    }
}

// A copied put needs a request and a completion as well, so handling is no cost of a gathered one.
TEST_F(FrequentBuffersTest, OneSidedOperationsPayEarlier) {
    using Kind = FrequentBuffers::Kind;
    costs_.handling = 0.9; // of 1 that a gathered message saves
    open(Mode::automatic, 4096);
    EXPECT_EQ(buffers_->registered_at(4096, Kind::message), 99u);
    EXPECT_EQ(buffers_->registered_at(4096, Kind::one_sided), 10u);
    RegistrationCache::Use use;
    for (int i = 1; i < 10; ++i) {
        EXPECT_FALSE(buffers_->use(at(0), 4096, kLocalWrite, use, Kind::one_sided));
    }
    ASSERT_TRUE(buffers_->use(at(0), 4096, kLocalWrite, use, Kind::one_sided));
    use.reset();
    EXPECT_TRUE(send(0, 4096)) << "a message finds the buffer registered";
    costs_.handling = 2;
    open(Mode::automatic, 4096);
    EXPECT_EQ(buffers_->registered_at(4096, Kind::message), GatherCosts::kNever);
    EXPECT_EQ(buffers_->registered_at(4096, Kind::one_sided), 10u);
}

TEST_F(FrequentBuffersTest, AnExpectedBufferIsRegisteredAhead) {
    buffers_->expect(at(0), 4096);
    EXPECT_EQ(rail_.made, 1u);
    EXPECT_EQ(buffers_->table().frequent(), 1u);
    buffers_->expect(at(0), 4096);
    EXPECT_EQ(rail_.made, 1u);
    EXPECT_TRUE(send(0, 4096));
    EXPECT_EQ(rail_.made, 1u);
    buffers_->expect(at(kPage), 127);
    EXPECT_EQ(rail_.made, 1u) << "too short";
    rail_.refuses = true;
    buffers_->expect(at(2 * kPage), 4096);
    EXPECT_FALSE(send(2 * kPage, 4096));
    EXPECT_EQ(buffers_->table().frequent(), 1u);
}

TEST_F(FrequentBuffersTest, NothingIsExpectedOfSizesThatNeverPay) {
    costs_.copy[GatherCosts::index(4096)] = 10;
    open(Mode::automatic, 4096);
    buffers_->expect(at(0), 4096);
    open(Mode::off, 4096);
    buffers_->expect(at(0), 8192);
    EXPECT_EQ(rail_.made, 0u);
}

TEST_F(FrequentBuffersTest, ExplainsWhatIsGathered) {
    EXPECT_NE(buffers_->explanation().find("none of 128 bytes"), std::string::npos);
    costs_.copy[GatherCosts::index(512)] = 10;
    send(0, 512);
    const std::string text = buffers_->explanation();
    EXPECT_NE(text.find("messages are gathered: 512 B never, 2048 B from use 10"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("never pays: 1\n"), std::string::npos) << text;
    open(Mode::off, 4096);
    EXPECT_EQ(buffers_->explanation(), "");
}

TEST_F(FrequentBuffersTest, CostsAreMeasuredAtTheFirstUse) {
    EXPECT_EQ(measured_, 0);
    send(0, 127);
    EXPECT_EQ(measured_, 0);
    send(0, 128);
    send(0, 128);
    EXPECT_EQ(measured_, 1);
}

TEST_F(FrequentBuffersTest, ShortMessagesAreNotCounted) {
    EXPECT_EQ(first_gathered(0, 127), 0u);
    EXPECT_EQ(first_gathered(0, 0), 0u);
    EXPECT_EQ(buffers_->table().known(), 0u);
    EXPECT_EQ(first_gathered(0, 128), 10u);
    EXPECT_FALSE(send(0, 127)) << "although the buffer is registered";
}

TEST_F(FrequentBuffersTest, SizesUpToTheLongestArePriced) {
    EXPECT_NE(buffers_->registered_at(FrequentBuffers::kMostBytes), GatherCosts::kNever);
    EXPECT_EQ(buffers_->registered_at(FrequentBuffers::kMostBytes + 1), GatherCosts::kNever);
    EXPECT_NE(buffers_->registered_at(FrequentBuffers::kLeastBytes), GatherCosts::kNever);
    EXPECT_EQ(buffers_->registered_at(FrequentBuffers::kLeastBytes - 1), GatherCosts::kNever);
}

TEST_F(FrequentBuffersTest, SizesThatNeverPayAreNotCounted) {
    costs_.copy[GatherCosts::index(128)] = 10;
    open(Mode::automatic, 4096);
    EXPECT_EQ(first_gathered(0, 128), 0u);
    EXPECT_EQ(buffers_->table().known(), 0u);
    EXPECT_EQ(buffers_->registered_at(128), GatherCosts::kNever);
    EXPECT_EQ(first_gathered(0, 256), 10u);
}

TEST_F(FrequentBuffersTest, Modes) {
    open(Mode::off, 4096);
    EXPECT_FALSE(buffers_->on());
    EXPECT_EQ(first_gathered(0, 4096), 0u);
    open(Mode::always, 4096);
    EXPECT_EQ(first_gathered(0, 4096), 1u);
    EXPECT_EQ(measured_, 0);
    open(Mode::always, 4096, 0);
    EXPECT_FALSE(buffers_->on()) << "a cache that does not learn of unmapped memory";
    EXPECT_EQ(first_gathered(0, 4096), 0u);
}

// Uses of different sizes add up by what each would save.
TEST_F(FrequentBuffersTest, SizesAddUp) {
    set_uses(costs_, 8192, 16);
    set_uses(costs_, 512, 160);
    open(Mode::automatic, 4096);
    for (int i = 0; i < 20; ++i) {
        EXPECT_FALSE(send(0, 512)) << "half of what 40 uses are worth";
    }
    EXPECT_FALSE(send(0, 8192));
    EXPECT_TRUE(send(0, 8192));
}

// A longer message than those before needs a longer registration.
TEST_F(FrequentBuffersTest, ALongerMessageEarnsALongerRegistration) {
    EXPECT_EQ(first_gathered(0, 4096), 10u);
    EXPECT_FALSE(send(0, 8192));
    EXPECT_EQ(first_gathered(0, 8192), 10u);
    EXPECT_TRUE(send(0, 4096));
}

TEST_F(FrequentBuffersTest, RightsAreThoseAskedFor) {
    EXPECT_EQ(first_gathered(0, 4096), 10u);
    EXPECT_FALSE(send(0, 4096, kLocalWrite));
    for (int i = 0; i < 9; ++i) {
        send(0, 4096, kLocalWrite);
    }
    EXPECT_TRUE(send(0, 4096, kLocalWrite));
    EXPECT_TRUE(send(0, 4096));
}

TEST_F(FrequentBuffersTest, ForgottenMemoryHasToEarnItAgain) {
    EXPECT_EQ(first_gathered(kPage, 4096), 10u);
    for (int i = 0; i < 9; ++i) {
        EXPECT_FALSE(send(8 * kPage, 4096));
    }
    unmap(0, 16 * kPage);
    map(0, 16 * kPage);
    EXPECT_EQ(first_gathered(8 * kPage, 4096), 10u) << "the count is gone, too";
    EXPECT_EQ(first_gathered(kPage, 4096), 10u);
    EXPECT_EQ(counters_.frequent_now, 2u);
}

// Memory in use by the adapter stays registered.
TEST_F(FrequentBuffersTest, AUseOutlivesForgetting) {
    EXPECT_EQ(first_gathered(0, 4096), 10u);
    RegistrationCache::Use under_way;
    ASSERT_TRUE(buffers_->use(at(0), 4096, 0, under_way));
    const std::uint32_t key = under_way.registration().local_key(0);
    unmap(0, kPage);
    map(0, kPage);
    EXPECT_EQ(first_gathered(0, 4096), 10u);
    EXPECT_EQ(under_way.registration().local_key(0), key);
    EXPECT_EQ(counters_.registered_bytes, 2 * kPage);
}

// The cache drops a registration for others; buffers whose registration stayed need no other one.
TEST_F(FrequentBuffersTest, WhatTheCacheDropsHasToEarnItAgain) {
    open(Mode::automatic, 4096, 4 * kPage);
    EXPECT_EQ(first_gathered(0, 4096), 10u);
    EXPECT_EQ(first_gathered(10 * kPage, 4096), 10u);
    RegistrationCache::Use other;
    ASSERT_TRUE(cache_->acquire(const_cast<void*>(at(20 * kPage)), 3 * kPage, 0, other).ok());
    EXPECT_FALSE(send(0, 4096)) << "the least recently used one";
    EXPECT_TRUE(send(10 * kPage, 4096));
    EXPECT_EQ(rail_.made, 3u);
}

// A refusal is not asked for again at each message, nor at each buffer.
TEST_F(FrequentBuffersTest, RefusalsBackOff) {
    rail_.refuses = true;
    for (int i = 0; i < 100'000; ++i) {
        EXPECT_FALSE(send(0, 4096));
    }
    EXPECT_GE(rail_.attempts, 10u);
    EXPECT_LE(rail_.attempts, 24u) << "10,000 times worth it";
    EXPECT_EQ(counters_.frequent_refused, rail_.attempts);
    EXPECT_EQ(counters_.registrations_failed, 0u) << "no notice: the message is copied as before";
    rail_.refuses = false;
    EXPECT_NE(first_gathered(0, 4096, 20'000), 0u);
    EXPECT_NE(first_gathered(10 * kPage, 4096, 10), 0u) << "the pause is over";
}

TEST_F(FrequentBuffersTest, TheLeastUsedAreGivenUp) {
    open(Mode::automatic, 3);
    for (std::uintptr_t i = 0; i < 3; ++i) {
        EXPECT_EQ(first_gathered(i * 2 * kPage, 4096), 10u);
    }
    EXPECT_EQ(first_gathered(6 * kPage, 4096), 10u) << "all were used: the hand passes, the first";
    EXPECT_EQ(counters_.frequent_evicted, 1u);
    EXPECT_EQ(counters_.frequent_now, 3u);
    EXPECT_FALSE(send(0, 4096));
    EXPECT_TRUE(send(2 * kPage, 4096));
    EXPECT_EQ(first_gathered(0, 4096, 9), 9u);
    EXPECT_TRUE(send(2 * kPage, 4096)) << "used since the hand passed";
    EXPECT_FALSE(send(4 * kPage, 4096));
}

TEST_F(FrequentBuffersTest, UsesAreReported) {
    for (int i = 0; i < 50; ++i) {
        send(0, 4096);
        send(10 * kPage, 200);
    }
    send(20 * kPage, 255);
    const auto uses = buffers_->uses();
    EXPECT_EQ(uses[0].uses, 51u);
    EXPECT_EQ(uses[0].reuses, 49u);
    EXPECT_EQ(uses[5].uses, 50u);
    EXPECT_EQ(uses[5].buffers, 1u);
    EXPECT_EQ(uses[5].gathered, 41u);
    EXPECT_EQ(uses[5].most, 50u);
    EXPECT_EQ(buffer_uses_text(uses),
              "  bytes         uses   reused frequent    most uses  gathered\n"
              "    128           51    96.08%        1           50    80.39%\n"
              "   4096           50    98.00%        1           50    82.00%\n");
    EXPECT_EQ(buffer_uses_text({}), "");
    std::array<BufferUses, FrequentBuffers::kClasses> once{};
    once[0].uses = 1;
    EXPECT_NE(buffer_uses_text(once).find("    128            1 "), std::string::npos);
    EXPECT_EQ(counters_.frequent_gathered, 82u);
    EXPECT_EQ(counters_.frequent_gathered_bytes, 41u * (4096 + 200));
}

// A table that has stopped to grow: buffers that it does not know are copied, at no harm.
TEST_F(FrequentBuffersTest, WithoutReuseNothingIsRegistered) {
    for (std::uintptr_t i = 0; i < 200'000; ++i) {
        RegistrationCache::Use use;
        EXPECT_FALSE(buffers_->use(at(i * 512), 512, 0, use));
    }
    EXPECT_EQ(rail_.attempts, 0u);
    EXPECT_LE(buffers_->table().bytes(), 32 * kKiB);
}

// Random maps, unmaps, remaps, sends, and transfers of others, against the address space.
class RandomAddressSpace : public FrequentBuffersTest, public testing::WithParamInterface<int> {
protected:
    std::uintptr_t random_page() { return random_.below(kPages - 8) * kPage; }
    bool is_mapped(std::uintptr_t offset, Bytes bytes) const {
        for (std::size_t i = offset / kPage; i <= (offset + bytes - 1) / kPage; ++i) {
            if (rail_.versions[i] == 0) {
                return false;
            }
        }
        return true;
    }
    // Sends from one of a few buffers, some of which share pages.
    void send_some() {
        const std::uintptr_t offset = random_.below(60) * 16'000;
        const Bytes bytes = 100 + random_.below(8000);
        const std::uint32_t access = random_.below(4) == 0 ? std::uint32_t{kLocalWrite} : 0;
        if (!is_mapped(offset, bytes)) {
            return;
        }
        RegistrationCache::Use use;
        if (buffers_->use(at(offset), bytes, access, use)) {
            ++gathered_;
            EXPECT_TRUE(
                rail_.is_current(use.registration().local_key(0), at(offset), bytes, access));
            if (random_.below(8) == 0) {
                under_way_.emplace_back().take(use);
            }
        }
    }
    void change_memory() {
        const std::uintptr_t offset = random_page();
        const Bytes length = (1 + random_.below(8)) * kPage;
        switch (random_.below(3)) {
        case 0: unmap(offset, length); break;
        case 1: // mapped anew, without being used in between
            unmap(offset, length);
            map(offset, length);
            break;
        default:
            cache_->forget(at(offset), length); // what is mapped over
            map(offset, length);
        }
    }
    void transfer_others() {
        RegistrationCache::Use use;
        const std::uintptr_t offset = random_page();
        if (is_mapped(offset, 8 * kPage)) {
            (void)cache_->acquire(const_cast<void*>(at(offset)), 8 * kPage,
                                  kRemoteRead | kRemoteWrite, use);
        }
    }

    Random random_{1};
    std::deque<RegistrationCache::Use> under_way_;
    std::uint64_t gathered_ = 0;
};

TEST_P(RandomAddressSpace, NothingStale) {
    random_ = Random(static_cast<std::uint64_t>(GetParam()));
    open(GetParam() % 2 == 0 ? Mode::automatic : Mode::always,
         16 + static_cast<std::uint32_t>(random_.below(32)), (8 + random_.below(200)) * kPage);
    for (int step = 0; step < 20'000 && !HasFailure(); ++step) {
        send_some();
        if (random_.below(50) == 0) {
            change_memory();
        }
        if (random_.below(200) == 0) {
            transfer_others();
        }
        if (random_.below(500) == 0) {
            rail_.refuses = !rail_.refuses && random_.below(2) == 0;
        }
        if (random_.below(20) == 0 && !under_way_.empty()) {
            under_way_.pop_front();
        }
    }
    EXPECT_GT(gathered_, 500u) << "else the test shows nothing";
    under_way_.clear();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomAddressSpace, testing::Range(1, 21));

} // namespace
} // namespace adaptib
