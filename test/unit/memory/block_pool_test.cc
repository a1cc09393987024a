// SPDX-License-Identifier: BSD-3-Clause
// BlockPool: sizes, alignment, reuse, which memory it keeps and which it returns, and that blocks
// in use never overlap.
#include "memory/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/random.h"
#include "unit/sanitizers.h"

namespace adaptib {
namespace {

const Bytes kSizes[] = {0,    1,    63,    64,    65,    128,   1000,        2048,
                        2049, 4096, 10000, 65535, 65536, 65537, 1 * kMiB + 1};

TEST(BlockPool, RoundsUpToItsSizes) {
    struct {
        Bytes size;
        Bytes expected;
    } const cases[] = {
        {0, 64},        {1, 64},        {64, 64},
        {65, 128},      {2048, 2048},   {2049, 2560},
        {2561, 3072},   {3585, 4096},   {4096, 4096},
        {4097, 5120},   {4216, 5120},   {7169, 8192},
        {8193, 10240},  {57345, 65536}, {65535, 65536},
        {65536, 65536}, {65537, 65600}, {1 * kMiB, 1 * kMiB},
    };
    for (const auto& one : cases) {
        EXPECT_EQ(BlockPool::block_bytes(one.size), one.expected) << one.size;
    }
}

TEST(BlockPool, BlocksAreAlignedAndWritable) {
    BlockPool pool;
    for (const Bytes size : kSizes) {
        void* const block = pool.allocate(size);
        ASSERT_NE(block, nullptr) << size;
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % BlockPool::kAlignment, 0u) << size;
        std::memset(block, 0x5a, size);
        EXPECT_EQ(pool.in_use(), BlockPool::block_bytes(size));
        pool.release(block, size);
        EXPECT_EQ(pool.in_use(), 0u);
    }
    EXPECT_EQ(pool.peak_in_use(), BlockPool::block_bytes(1 * kMiB + 1));
    pool.release(nullptr, 100);
    EXPECT_EQ(pool.in_use(), 0u);
}

TEST(BlockPool, TheLastBlockReleasedIsTheNextOne) {
    for (const Bytes size : {Bytes{64}, Bytes{2048}, Bytes{4096}, Bytes{65536}}) {
        BlockPool pool;
        std::vector<void*> blocks;
        for (int i = 0; i < 2000; ++i) { // several slabs
            blocks.push_back(pool.allocate(size));
            ASSERT_NE(blocks.back(), nullptr);
        }
        for (const std::size_t i : {std::size_t{3}, std::size_t{1999}, std::size_t{1000}}) {
            pool.release(blocks[i], size);
            EXPECT_EQ(pool.allocate(size), blocks[i]) << size << ", block " << i;
        }
        for (void* const block : blocks) {
            pool.release(block, size);
        }
    }
}

// Quick blocks are valid whether or not the pool has one at hand.
TEST(BlockPool, QuickBlocksAreBlocks) {
    BlockPool pool;
    std::vector<void*> blocks;
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 200; ++i) {
            blocks.push_back(pool.allocate_quick());
            ASSERT_NE(blocks.back(), nullptr);
            std::memset(blocks.back(), i, BlockPool::kQuickBlock);
        }
        EXPECT_EQ(pool.in_use(), 200 * BlockPool::kQuickBlock);
        for (int i = 0; i < 200; ++i) {
            const auto* bytes = static_cast<unsigned char*>(blocks[static_cast<std::size_t>(i)]);
            ASSERT_EQ(bytes[0], i);
            ASSERT_EQ(bytes[BlockPool::kQuickBlock - 1], i);
        }
        for (void* block : blocks) {
            pool.release_quick(block);
        }
        EXPECT_EQ(pool.in_use(), 0u);
        void* last = pool.allocate_quick();
        EXPECT_NE(std::find(blocks.begin(), blocks.end(), last), blocks.end());
        pool.release_quick(last);
        blocks.clear();
    }
    EXPECT_EQ(pool.peak_in_use(), 200 * BlockPool::kQuickBlock);
    pool.trim();
    EXPECT_EQ(pool.held(), 0u);
}

TEST(BlockPool, ARepeatedWorkingSetNeedsNoSystem) {
    BlockPool pool;
    const auto work = [&pool] {
        std::vector<std::pair<void*, Bytes>> blocks;
        for (int i = 0; i < 100; ++i) {
            for (const Bytes size : {64u, 100u, 500u, 2000u, 4000u, 9000u}) {
                blocks.emplace_back(pool.allocate(size), size);
                ASSERT_NE(blocks.back().first, nullptr);
            }
        }
        for (const auto& [block, size] : blocks) {
            pool.release(block, size);
        }
    };
    work();
    const std::uint64_t calls = pool.system_calls();
    EXPECT_GT(calls, 0u);
    for (int i = 0; i < 10; ++i) {
        work();
    }
    EXPECT_EQ(pool.system_calls(), calls);
}

TEST(BlockPool, SlabsServeAnySizeOnceEmpty) {
    BlockPool pool;
    std::vector<void*> blocks;
    for (int i = 0; i < 1000; ++i) {
        blocks.push_back(pool.allocate(64));
    }
    for (void* const block : blocks) {
        pool.release(block, 64);
    }
    const std::uint64_t calls = pool.system_calls();
    void* const larger = pool.allocate(2048);
    ASSERT_NE(larger, nullptr);
    std::memset(larger, 1, 2048);
    EXPECT_EQ(pool.system_calls(), calls);
    pool.release(larger, 2048);
}

TEST(BlockPool, KeepsNoMoreThanItsLimit) {
    constexpr Bytes kLimit = 256 * kKiB;
    for (const Bytes size : {Bytes{64}, Bytes{2048}, Bytes{4096}, Bytes{65536}, Bytes{100000}}) {
        BlockPool pool(kLimit);
        std::vector<void*> blocks;
        for (Bytes total = 0; total < 2 * kMiB; total += size) {
            blocks.push_back(pool.allocate(size));
            ASSERT_NE(blocks.back(), nullptr);
        }
        EXPECT_GE(pool.held(), pool.in_use());
        for (void* const block : blocks) {
            pool.release(block, size);
            ASSERT_LE(pool.cached(), kLimit) << size;
        }
        EXPECT_EQ(pool.in_use(), 0u);
        EXPECT_EQ(pool.held(), pool.cached()) << size;
        EXPECT_EQ(pool.cached(), size > BlockPool::kLargestBlock ? 0 : kLimit) << size;
        EXPECT_GE(pool.peak_in_use(), 2 * kMiB);
        pool.trim();
        EXPECT_EQ(pool.held(), 0u);
        EXPECT_EQ(pool.cached(), 0u);
    }
}

TEST(BlockPool, ALimitOfZeroKeepsNothing) {
    BlockPool pool(0);
    for (const Bytes size : kSizes) {
        void* const block = pool.allocate(size);
        ASSERT_NE(block, nullptr);
        pool.release(block, size);
        EXPECT_EQ(pool.held(), 0u) << size;
    }
}

TEST(BlockPool, SizesNoLongerUsedMakeRoom) {
    BlockPool pool(256 * kKiB);
    const auto fill = [&pool](Bytes size) {
        std::vector<void*> blocks;
        for (Bytes total = 0; total < 512 * kKiB; total += size) {
            blocks.push_back(pool.allocate(size));
        }
        for (void* const block : blocks) {
            pool.release(block, size);
        }
    };
    const Bytes sizes[] = {4096, 65536, 64, 16384, 2048, 8192};
    for (const Bytes size : sizes) {
        fill(size);
        EXPECT_LE(pool.cached(), 256 * kKiB);
        const std::uint64_t calls = pool.system_calls();
        void* const block = pool.allocate(size); // blocks of this size are what is cached now
        EXPECT_EQ(pool.system_calls(), calls) << size;
        pool.release(block, size);
    }
}

TEST(BlockPool, ImpossibleSizesGiveNull) {
    BlockPool pool;
    for (const Bytes size : {UINT64_MAX, UINT64_MAX - 63, Bytes{1} << 63, Bytes{PTRDIFF_MAX}}) {
        EXPECT_EQ(pool.allocate(size), nullptr) << size;
    }
    if (!test::kAsan && !test::kTsan) { // sanitizers would end the process
        EXPECT_EQ(pool.allocate(Bytes{1} << 60), nullptr);
        EXPECT_EQ(pool.system_calls(), 1u);
    }
    EXPECT_EQ(pool.in_use(), 0u);
    EXPECT_EQ(pool.held(), 0u);
    EXPECT_EQ(pool.peak_in_use(), 0u);
}

TEST(BlockPool, CreatesAndDestroysObjects) {
    struct Record {
        Record(int* alive_count, Bytes size) : alive(alive_count), length(size) { ++*alive; }
        ~Record() { --*alive; }
        int* alive;
        Bytes length;
    };
    int alive = 0;
    BlockPool pool;
    Record* const record = pool.create<Record>(&alive, Bytes{77});
    ASSERT_NE(record, nullptr);
    EXPECT_EQ(record->length, 77u);
    EXPECT_EQ(alive, 1);
    pool.destroy(record);
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(pool.in_use(), 0u);
    pool.destroy(static_cast<Record*>(nullptr));
}

// Each block is filled with a byte of its own; a byte that has changed shows two blocks that
// overlap.
TEST(BlockPool, BlocksInUseNeverOverlap) {
    struct Block {
        unsigned char* bytes;
        Bytes size;
        unsigned char mark;
    };
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        BlockPool pool(random.below(4) * 128 * kKiB);
        std::vector<Block> blocks;
        Bytes in_use = 0;
        const auto release = [&](std::size_t i) {
            const Block block = blocks[i];
            blocks[i] = blocks.back();
            blocks.pop_back();
            for (Bytes at = 0; at < block.size; ++at) {
                ASSERT_EQ(block.bytes[at], block.mark) << "size " << block.size << " at " << at;
            }
            in_use -= BlockPool::block_bytes(block.size);
            pool.release(block.bytes, block.size);
        };
        for (int step = 0; step < 2000; ++step) {
            const bool growing = (step / 250) % 2 == 0;
            if (blocks.empty() || random.below(10) < (growing ? 7u : 3u)) {
                const Bytes size = random.below(Bytes{1} << random.below(18));
                auto* const bytes = static_cast<unsigned char*>(pool.allocate(size));
                ASSERT_NE(bytes, nullptr);
                const auto mark = static_cast<unsigned char>(random.next());
                std::memset(bytes, mark, size);
                blocks.push_back({bytes, size, mark});
                in_use += BlockPool::block_bytes(size);
            } else {
                release(random.below(blocks.size()));
            }
            ASSERT_EQ(pool.in_use(), in_use);
            ASSERT_GE(pool.held(), pool.in_use() + pool.cached());
        }
        while (!blocks.empty()) {
            release(blocks.size() - 1);
        }
        EXPECT_EQ(pool.held(), pool.cached());
    }
}

TEST(BlockPoolDeathTest, AddressSanitizerSeesUseOfFreeBlocks) {
    if (!test::kAsan) {
        GTEST_SKIP() << "built without AddressSanitizer";
    }
    for (const Bytes size : {Bytes{100}, Bytes{5000}}) {
        BlockPool pool;
        auto* const block = static_cast<volatile char*>(pool.allocate(size));
        ASSERT_NE(block, nullptr);
        void* const plain = const_cast<char*>(block);
        EXPECT_DEATH(block[size] = 1, "use-after-poison") << "behind the end of " << size;
        pool.release(plain, size);
        EXPECT_DEATH(block[0] = 1, "use-after-poison") << size;
        EXPECT_DEATH(block[size - 1] = 1, "use-after-poison") << size;
        EXPECT_DEATH(pool.release(plain, size), "use-after-poison") << size;
    }
}

} // namespace
} // namespace adaptib
