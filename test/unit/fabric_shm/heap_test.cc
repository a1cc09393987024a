// SPDX-License-Identifier: BSD-3-Clause
// A segment's heap: sparse blocks, what they cost, and how peers see and grow them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "fabric/shm/node_memory.h"
#include "fabric/shm/segment.h"

namespace adaptib::shm {
namespace {

constexpr Bytes kRing = 256 * kKiB;
constexpr Bytes kFirst = 16 * kKiB;

std::unique_ptr<OwnSegment> create(Bytes memory_max = ~Bytes{0}) {
    SegmentOptions options;
    options.segment_max = 64 * kMiB;
    options.queue_bytes = 64 * kKiB;
    options.memory_max = memory_max;
    std::unique_ptr<OwnSegment> out;
    std::string error;
    EXPECT_TRUE(OwnSegment::create(options, out, error).ok()) << error;
    return out;
}

std::shared_ptr<PeerSegment> map(const OwnSegment& segment) {
    std::shared_ptr<PeerSegment> out;
    EXPECT_TRUE(PeerSegment::open(segment.address(0), 1, out).ok());
    return out;
}

bool is_zero(const std::byte* from, Bytes length) {
    return std::all_of(from, from + length, [](std::byte b) { return b == std::byte{0}; });
}

TEST(Heap, ASparseBlockHasMemoryAsFarAsItIsUsed) {
    const auto own = create();
    const Bytes before = own->memory();
    Bytes offset = 0;
    ASSERT_TRUE(own->allocate_sparse(kRing, kFirst, offset).ok()) << own->last_error_text();
    EXPECT_EQ(offset % kPage, 0u);
    EXPECT_EQ(own->memory() - before, kFirst);
    std::memset(own->at(offset), 1, kFirst);

    const auto peer = map(*own);
    ASSERT_TRUE(peer->commit(offset + kFirst, kFirst).ok());
    EXPECT_EQ(own->memory() - before, 2 * kFirst);
    EXPECT_EQ(own->header()->memory.load(), own->memory()) << "the peer counts what it takes";
    std::byte* const seen = peer->at(offset, kRing);
    std::memset(seen + kFirst, 2, kFirst);
    EXPECT_EQ(own->at(offset)[kFirst], std::byte{2});
    EXPECT_EQ(seen[0], std::byte{1});

    ASSERT_TRUE(own->discard(offset + kFirst, kRing - kFirst));
    EXPECT_EQ(own->memory() - before, kFirst);
    EXPECT_TRUE(is_zero(seen + kFirst, kRing - kFirst));
    EXPECT_EQ(seen[kFirst - 1], std::byte{1});
}

TEST(Heap, AHundredSparseBlocksCostWhatTheyUse) {
    const auto own = create();
    const Bytes before = own->memory();
    for (int i = 0; i < 100; ++i) {
        Bytes offset = 0;
        ASSERT_TRUE(own->allocate_sparse(kRing, kFirst, offset).ok()) << own->last_error_text();
    }
    EXPECT_EQ(own->memory() - before, 100 * kFirst);
}

TEST(Heap, WhatIsReleasedIsGivenBackAndZeroWhenItIsUsedAgain) {
    const auto own = create();
    const auto peer = map(*own);
    const Bytes before = own->memory();
    Bytes sparse = 0;
    ASSERT_TRUE(own->allocate_sparse(kRing, kFirst, sparse).ok());
    ASSERT_TRUE(peer->commit(sparse, kRing).ok());
    std::memset(peer->at(sparse, kRing), 3, kRing);
    own->release(sparse);
    EXPECT_EQ(own->memory(), before);
    Bytes dense = 0; // where the sparse one was
    ASSERT_TRUE(own->allocate(kRing, dense).ok());
    EXPECT_EQ(dense, sparse);
    EXPECT_TRUE(is_zero(own->at(dense), kRing));
    std::memset(own->at(dense), 4, kRing);
    own->release(dense);
    ASSERT_TRUE(own->allocate_sparse(kRing, kFirst, sparse).ok());
    EXPECT_EQ(dense, sparse);
    EXPECT_TRUE(is_zero(own->at(sparse), kRing));
    EXPECT_EQ(own->heap_in_use(), kRing);
}

TEST(Heap, PeersTakeNoMoreThanIsGranted) {
    const auto own = create();
    const auto peer = map(*own);
    Bytes offset = 0;
    ASSERT_TRUE(own->allocate_sparse(kRing, kFirst, offset).ok());
    own->header()->memory_max.store(own->memory() + kFirst);
    EXPECT_TRUE(peer->commit(offset + kFirst, kFirst).ok());
    const Bytes full = own->memory();
    EXPECT_EQ(peer->commit(offset + 2 * kFirst, kPage), Status::error(Reason::no_memory));
    EXPECT_EQ(own->memory(), full);
    Bytes another = 0;
    EXPECT_EQ(own->allocate_sparse(kRing, kFirst, another), Status::error(Reason::no_memory));
    EXPECT_NE(own->last_error_text().find("may have"), std::string::npos);
    EXPECT_TRUE(own->allocate(kPage, another).ok()) << "what a process needs itself it gets";
    ASSERT_TRUE(own->discard(offset + kFirst, kRing - kFirst));
    EXPECT_TRUE(peer->commit(offset + kFirst, kPage).ok());
}

TEST(Heap, ExtentsAreMappedOneByOneAndFound) {
    const auto own = create();
    const auto peer = map(*own);
    for (int i = 0; i < 8; ++i) {
        Bytes offset = 0;
        const Bytes length = (i % 2 == 0 ? 3 : 1) * kMiB + 100;
        ASSERT_TRUE(own->allocate(length, offset).ok()) << own->last_error_text();
        Bytes found = 0;
        ASSERT_TRUE(own->find(own->at(offset) + 10, length - 10, found));
        EXPECT_EQ(found, offset + 10);
        own->at(offset)[length - 1] = std::byte{7};
        std::byte* const seen = peer->at(offset, length);
        ASSERT_NE(seen, nullptr);
        EXPECT_EQ(seen[length - 1], std::byte{7});
        EXPECT_EQ(peer->at(offset + 64, 100), seen + 64) << "one window";
    }
    int elsewhere = 0;
    Bytes found = 0;
    EXPECT_FALSE(own->find(&elsewhere, sizeof elsewhere, found));
    EXPECT_EQ(peer->at(64 * kMiB - 10, 11), nullptr) << "beyond the file";
    EXPECT_EQ(peer->at(~Bytes{0} - 10, 100), nullptr);
}

class ControlGroups : public testing::Test {
protected:
    ControlGroups() {
        std::filesystem::remove_all(root_);
        std::filesystem::create_directories(root_ / "proc/self");
    }
    ~ControlGroups() override { std::filesystem::remove_all(root_); }
    void write(const std::string& file, const std::string& text) {
        std::filesystem::create_directories((root_ / file).parent_path());
        std::ofstream(root_ / file) << text << '\n';
    }
    Bytes memory() const { return node_memory(root_ / "proc", root_ / "sys"); }

    const std::filesystem::path root_ =
        std::filesystem::temp_directory_path() / ("adaptib-groups-" + std::to_string(getpid()));
};

TEST_F(ControlGroups, WithoutALimitItIsTheMachines) {
    const Bytes machine = memory();
    EXPECT_GT(machine, 64 * kMiB);
    write("proc/self/cgroup", "0::/job");
    write("sys/fs/cgroup/job/memory.max", "max");
    EXPECT_EQ(memory(), machine);
}

TEST_F(ControlGroups, TheLeastLimitAroundTheProcessCounts) {
    write("proc/self/cgroup", "0::/slurm/job_7/step");
    write("sys/fs/cgroup/slurm/job_7/step/memory.max", "max");
    write("sys/fs/cgroup/slurm/job_7/memory.max", "33554432");
    write("sys/fs/cgroup/slurm/memory.max", "67108864");
    EXPECT_EQ(memory(), 32 * kMiB);
}

TEST_F(ControlGroups, OfTheFirstVersionThatOfMemoryCounts) {
    write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/b");
    write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4096");
    write("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "16777216");
    EXPECT_EQ(memory(), 16 * kMiB);
}

TEST(DefaultMemory, IsAShareOfTheNode) {
    EXPECT_EQ(default_memory(256 * kGiB, 128), 128 * kMiB);
    EXPECT_EQ(default_memory(256 * kGiB, 0), 16 * kGiB);
    EXPECT_EQ(default_memory(kGiB, 1000), 4 * kMiB) << "what a process needs at least";
}

} // namespace
} // namespace adaptib::shm
