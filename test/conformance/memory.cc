// SPDX-License-Identifier: BSD-3-Clause
// Conformance: registration, allocation, keys, ranges and access rights.
#include <cstdint>
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

class Memory : public Fixture {
protected:
    // Runs one RDMA request over a new connection, since an error ends a queue pair.
    std::optional<WorkStatus> try_once(Opcode opcode, const Gather& local, std::uint64_t address,
                                       std::uint32_t key, std::uint32_t qp_access = kAllAccess) {
        RcOptions rc;
        rc.access = qp_access & ~static_cast<std::uint32_t>(kLocalWrite);
        Pair p = rc_pair(0, 1, {}, rc);
        const std::vector<Gather> gather{local};
        return run(p.a, rdma_work(7, opcode, gather, address, key));
    }
};
ADAPTIB_CONFORMANCE(Memory);

TEST_P(Memory, RegionSaysWhatItCovers) {
    Buffer& b = memory(0, 5000);
    EXPECT_EQ(b.region->address(), b.words.data());
    EXPECT_EQ(b.region->length(), 5000u);
}

TEST_P(Memory, BadRegistrationsAreRefused) {
    std::vector<std::uint64_t> words(64);
    std::unique_ptr<MemoryRegion> out;
    const Status bad = Status::error(Reason::bad_argument);
    EXPECT_EQ(rail(0).register_memory(words.data(), 0, kLocalWrite, out), bad);
    EXPECT_EQ(rail(0).register_memory(words.data(), ~Bytes{0}, kLocalWrite, out), bad);
    EXPECT_EQ(rail(0).register_memory(words.data(), 512, kRemoteWrite, out), bad);
    EXPECT_EQ(rail(0).register_memory(words.data(), 512, kRemoteAtomic, out), bad);
    if (!has(Capability::atomic64)) {
        EXPECT_EQ(rail(0).register_memory(words.data(), 512, kAllAccess, out),
                  Status::error(Reason::not_supported));
        EXPECT_EQ(rail(0).allocate(512, kAllAccess, out), Status::error(Reason::not_supported));
    }
    EXPECT_EQ(rail(0).allocate(0, kLocalWrite, out), bad);
    EXPECT_EQ(rail(0).allocate(64, kRemoteWrite, out), bad);
    EXPECT_EQ(out, nullptr);
    EXPECT_EQ(rail(0).register_memory(words.data(), 512, 0, out), kOk);
    out.reset();
    EXPECT_EQ(rail(0).register_memory(words.data(), 512, kRemoteRead, out), kOk);
}

TEST_P(Memory, AllocatedMemoryIsZeroAlignedAndApart) {
    std::vector<Buffer*> all;
    const std::vector<Bytes> sizes{1, 8, 63, 64, 65, 4095, 4096, 4097, 100'000, 1'000'001};
    for (std::size_t i = 0; i < sizes.size() * 4; ++i) {
        Buffer& b = allocated(i % 2, sizes[i % sizes.size()]);
        ASSERT_EQ(b.size(), sizes[i % sizes.size()]);
        EXPECT_EQ(b.remote() % kCacheLine, 0u);
        EXPECT_TRUE(all_equal(b.data(), b.size(), std::byte{0}));
        fill(b.data(), b.size(), i);
        all.push_back(&b);
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_TRUE(holds(all[i]->data(), all[i]->size(), i));
    }
}

TEST_P(Memory, AllocatedMemoryIsZeroWhenUsedAgain) {
    for (int round = 0; round < 20; ++round) {
        std::unique_ptr<MemoryRegion> region;
        ASSERT_EQ(rail(0).allocate(70'000, rights(), region), kOk);
        auto* data = static_cast<std::byte*>(region->address());
        ASSERT_TRUE(all_equal(data, 70'000, std::byte{0})) << "round " << round;
        fill(data, 70'000, 99);
    }
}

TEST_P(Memory, AllocationsBeyondReasonFailCleanly) {
    std::unique_ptr<MemoryRegion> out;
    EXPECT_EQ(rail(0).allocate(Bytes{1} << 60, kLocalWrite, out), Status::error(Reason::no_memory));
    EXPECT_EQ(out, nullptr);
    EXPECT_EQ(rail(0).allocate(4096, kLocalWrite, out), kOk);
}

TEST_P(Memory, BothKindsServeRdmaOnEveryRail) {
    ADAPTIB_NEEDS(rc);
    ADAPTIB_NEEDS(rdma_write);
    ADAPTIB_NEEDS(rdma_read);
    constexpr Bytes kSize = 30'000;
    for (std::size_t r = 0; r < rail_count(); ++r) {
        EndOptions options;
        options.rail = r;
        Pair p = rc_pair(0, 1, options);
        Buffer* locals[] = {&memory(0, kSize, kAllAccess, r), &allocated(0, kSize, kAllAccess, r)};
        Buffer* remotes[] = {&memory(1, kSize, kAllAccess, r), &allocated(1, kSize, kAllAccess, r)};
        std::uint64_t seed = r * 100;
        for (Buffer* local : locals) {
            for (Buffer* remote : remotes) {
                const std::vector<Gather> gather{local->gather(0, kSize)};
                fill(local->data(), kSize, ++seed);
                EXPECT_EQ(
                    run(p.a, rdma_work(1, Opcode::write, gather, remote->remote(), remote->key())),
                    WorkStatus::success);
                EXPECT_TRUE(holds(remote->data(), kSize, seed));
                fill(remote->data(), kSize, ++seed);
                EXPECT_EQ(
                    run(p.a, rdma_work(2, Opcode::read, gather, remote->remote(), remote->key())),
                    WorkStatus::success);
                EXPECT_TRUE(holds(local->data(), kSize, seed));
            }
        }
    }
}

struct RightsCase {
    Opcode opcode;
    std::uint32_t needed;
    Capability capability;
};

const RightsCase kRights[] = {
    {Opcode::write, kRemoteWrite, Capability::rdma_write},
    {Opcode::read, kRemoteRead, Capability::rdma_read},
    {Opcode::fetch_add, kRemoteAtomic, Capability::atomic64},
    {Opcode::compare_swap, kRemoteAtomic, Capability::atomic64},
};

TEST_P(Memory, RegionRightsAreKept) {
    ADAPTIB_NEEDS(rc);
    Buffer& local = memory(0, 64);
    for (const RightsCase& c : kRights) {
        if (!has(c.capability)) {
            continue;
        }
        for (const std::uint32_t given : {0u, +kRemoteWrite, +kRemoteRead, +kRemoteAtomic}) {
            for (const bool own : {false, true}) {
                Buffer& target = own ? allocated(1, 64, kLocalWrite | given)
                                     : memory(1, 64, kLocalWrite | given);
                const bool right = (given & c.needed) != 0;
                EXPECT_EQ(try_once(c.opcode, local.gather(0, 8), target.remote(), target.key()),
                          right ? WorkStatus::success : WorkStatus::remote_access_error)
                    << "opcode " << static_cast<int>(c.opcode) << " given " << given;
            }
        }
    }
}

TEST_P(Memory, QueuePairRightsAreKept) {
    ADAPTIB_NEEDS(rc);
    Buffer& local = memory(0, 64);
    Buffer& target = memory(1, 64);
    for (const RightsCase& c : kRights) {
        if (!has(c.capability)) {
            continue;
        }
        for (const std::uint32_t given : {0u, +kRemoteWrite, +kRemoteRead, +kRemoteAtomic}) {
            const std::optional<WorkStatus> status =
                try_once(c.opcode, local.gather(0, 8), target.remote(), target.key(), given);
            ASSERT_TRUE(status.has_value());
            if ((given & c.needed) != 0) {
                EXPECT_EQ(*status, WorkStatus::success);
            } else {
                // Adapters differ: a right that the queue pair lacks is reported as an access error
                // or as an invalid request.
                EXPECT_TRUE(*status == WorkStatus::remote_access_error ||
                            *status == WorkStatus::remote_invalid_request)
                    << work_status_text(*status);
            }
        }
    }
}

TEST_P(Memory, RangesAreKeptToTheByte) {
    ADAPTIB_NEEDS(rc);
    ADAPTIB_NEEDS(rdma_write);
    Buffer& local = memory(0, 4096);
    for (const bool own : {false, true}) {
        // Lies inside a larger region of the same process, so that only a range check can refuse.
        Buffer& whole = own ? allocated(1, 4096) : memory(1, 4096);
        std::unique_ptr<MemoryRegion> middle;
        ASSERT_EQ(rail(1).register_memory(whole.data() + 1000, 1000, rights(), middle), kOk);
        const std::uint64_t start = whole.remote(1000);
        const std::uint32_t key = middle->remote_key();
        std::fill(whole.data(), whole.data() + 4096, std::byte{7});
        const auto attempt = [&](std::uint64_t address, Bytes length) {
            return try_once(Opcode::write, local.gather(0, length), address, key);
        };
        EXPECT_EQ(attempt(start - 1, 8), WorkStatus::remote_access_error);
        EXPECT_EQ(attempt(start + 1000, 1), WorkStatus::remote_access_error);
        EXPECT_EQ(attempt(start + 993, 8), WorkStatus::remote_access_error);
        EXPECT_EQ(attempt(start, 1001), WorkStatus::remote_access_error);
        EXPECT_EQ(attempt(~std::uint64_t{0} - 3, 8), WorkStatus::remote_access_error);
        EXPECT_EQ(attempt(0, 8), WorkStatus::remote_access_error);
        EXPECT_TRUE(all_equal(whole.data(), 4096, std::byte{7})) << "a refused write wrote";
        fill(local.data(), 1000, 5);
        EXPECT_EQ(attempt(start, 1000), WorkStatus::success);
        EXPECT_EQ(attempt(start + 999, 1), WorkStatus::success);
        EXPECT_TRUE(all_equal(whole.data(), 1000, std::byte{7}));
        EXPECT_TRUE(holds(whole.data() + 1000, 999, 5));
        EXPECT_TRUE(all_equal(whole.data() + 2000, 2096, std::byte{7}));
    }
}

TEST_P(Memory, KeysEndWithTheRegion) {
    ADAPTIB_NEEDS(rc);
    ADAPTIB_NEEDS(rdma_write);
    Buffer& local = memory(0, 64);
    std::vector<std::uint64_t> words(8, 0);
    for (int round = 0; round < 3; ++round) {
        std::unique_ptr<MemoryRegion> region;
        ASSERT_EQ(rail(1).register_memory(words.data(), 64, rights(), region), kOk);
        const std::uint32_t key = region->remote_key();
        const auto address = reinterpret_cast<std::uintptr_t>(words.data());
        fill(local.data(), 64, 3);
        EXPECT_EQ(try_once(Opcode::write, local.gather(0, 64), address, key), WorkStatus::success);
        region.reset();
        fill(local.data(), 64, 4);
        EXPECT_EQ(try_once(Opcode::write, local.gather(0, 64), address, key),
                  WorkStatus::remote_access_error);
        EXPECT_TRUE(holds(reinterpret_cast<std::byte*>(words.data()), 64, 3));
    }
}

TEST_P(Memory, AllocatedKeysEndWithTheRegion) {
    ADAPTIB_NEEDS(rc);
    ADAPTIB_NEEDS(rdma_write);
    Buffer& local = memory(0, 64);
    std::unique_ptr<MemoryRegion> region;
    ASSERT_EQ(rail(1).allocate(64, rights(), region), kOk);
    const std::uint32_t key = region->remote_key();
    const auto address = reinterpret_cast<std::uintptr_t>(region->address());
    EXPECT_EQ(try_once(Opcode::write, local.gather(0, 64), address, key), WorkStatus::success);
    region.reset();
    EXPECT_EQ(try_once(Opcode::write, local.gather(0, 64), address, key),
              WorkStatus::remote_access_error);
}

TEST_P(Memory, InventedRemoteKeysAreRefused) {
    ADAPTIB_NEEDS(rc);
    ADAPTIB_NEEDS(rdma_write);
    Buffer& local = memory(0, 64);
    Buffer& target = memory(1, 64);
    for (const std::uint32_t key : {0u, ~0u, target.key() ^ 0x80000000u, 0x7fffffffu}) {
        EXPECT_EQ(try_once(Opcode::write, local.gather(0, 64), target.remote(), key),
                  WorkStatus::remote_access_error)
            << "key " << key;
    }
}

TEST_P(Memory, LocalKeysRangesAndRightsAreKept) {
    ADAPTIB_NEEDS(rc);
    ADAPTIB_NEEDS(rdma_write);
    Buffer& target = memory(1, 4096);
    Buffer& local = memory(0, 4096);
    std::unique_ptr<MemoryRegion> middle;
    ASSERT_EQ(rail(0).register_memory(local.data() + 1000, 1000, 0, middle), kOk);
    const std::uint32_t key = middle->local_key();
    const auto attempt = [&](Opcode opcode, Bytes offset, Bytes length, std::uint32_t local_key) {
        const Gather gather{local.data() + offset, length, local_key};
        Pair p = rc_pair(); // an error ends a queue pair
        const std::vector<Gather> list{gather};
        return refused_locally(p.a, rdma_work(7, opcode, list, target.remote(), target.key()));
    };
    EXPECT_EQ(
        try_once(Opcode::write, {local.data() + 1000, 1000, key}, target.remote(), target.key()),
        WorkStatus::success);
    EXPECT_TRUE(attempt(Opcode::write, 999, 8, key));
    EXPECT_TRUE(attempt(Opcode::write, 1993, 8, key));
    EXPECT_TRUE(attempt(Opcode::write, 2000, 1, key));
    EXPECT_TRUE(attempt(Opcode::write, 1000, 8, ~0u));
    if (has(Capability::rdma_read)) {
        std::fill(local.data(), local.data() + 4096, std::byte{9});
        EXPECT_TRUE(attempt(Opcode::read, 1000, 1000, key)) << "no right to write there";
        EXPECT_TRUE(all_equal(local.data(), 4096, std::byte{9}));
    }
    middle.reset();
    EXPECT_TRUE(attempt(Opcode::write, 1000, 8, key)) << "revoked";
}

TEST_P(Memory, OverlappingRegionsKeepTheirOwnRights) {
    ADAPTIB_NEEDS(rc);
    ADAPTIB_NEEDS(rdma_write);
    Buffer& local = memory(0, 64);
    std::vector<std::uint64_t> words(64);
    std::vector<std::unique_ptr<MemoryRegion>> regions(20);
    for (std::size_t i = 0; i < regions.size(); ++i) {
        const std::uint32_t access = i % 2 == 0 ? rights() : kLocalWrite | kRemoteRead;
        ASSERT_EQ(rail(1).register_memory(words.data(), 512, access, regions[i]), kOk);
    }
    const auto address = reinterpret_cast<std::uintptr_t>(words.data());
    for (std::size_t i = 0; i < regions.size(); ++i) {
        EXPECT_EQ(try_once(Opcode::write, local.gather(0, 64), address, regions[i]->remote_key()),
                  i % 2 == 0 ? WorkStatus::success : WorkStatus::remote_access_error);
        regions[i].reset();
    }
}

} // namespace
} // namespace adaptib::conformance
