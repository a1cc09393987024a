// SPDX-License-Identifier: BSD-3-Clause
// Conformance: one region for all memory of a process (capability whole_memory).
// May touch: the system (mmap), for memory that is not mapped.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

constexpr std::uint32_t kTransfers = kLocalWrite | kRemoteWrite | kRemoteRead;

std::uint64_t address_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

class WholeMemory : public Fixture {
protected:
    void SetUp() override {
        Fixture::SetUp();
        if (!IsSkipped() && !HasFatalFailure() &&
            (!has(Capability::rc) || !has(Capability::rdma_write) || !has(Capability::rdma_read))) {
            GTEST_SKIP() << "the rail lacks rc, rdma_write or rdma_read";
        }
    }
    std::unique_ptr<MemoryRegion> whole(std::size_t node, std::uint32_t access = kTransfers) {
        std::unique_ptr<MemoryRegion> region;
        EXPECT_EQ(rail(node).register_memory(nullptr, kWholeMemory, access, region), kOk);
        return region;
    }
    // Runs one request over a new connection: tries execute first, then post_send.
    std::optional<WorkStatus> try_once(Opcode opcode, const Gather& local, std::uint64_t address,
                                       std::uint32_t key) {
        Pair p = rc_pair();
        const std::vector<Gather> gather{local};
        const SendWork work = rdma_work(1, opcode, gather, address, key);
        if (p.a.qp->rma_now(piece_of(work)).ok()) {
            return WorkStatus::success;
        }
        return run(p.a, work);
    }
};
ADAPTIB_CONFORMANCE(WholeMemory);

// Four pages, of which the last two are no longer mapped.
class HalfMapped {
public:
    HalfMapped() : page_(static_cast<Bytes>(sysconf(_SC_PAGESIZE))) {
        void* at =
            mmap(nullptr, 4 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at != MAP_FAILED) {
            data_ = static_cast<std::byte*>(at);
            munmap(data_ + 2 * page_, 2 * page_);
        }
    }
    ~HalfMapped() {
        if (data_ != nullptr) {
            munmap(data_, 2 * page_);
        }
    }
    HalfMapped(const HalfMapped&) = delete;
    HalfMapped& operator=(const HalfMapped&) = delete;
    std::byte* data() { return data_; }
    std::byte* end() { return data_ + 2 * page_; }

private:
    Bytes page_;
    std::byte* data_ = nullptr;
};

TEST_P(WholeMemory, LacksTheCapabilityLacksTheRegion) {
    if (has(Capability::whole_memory)) {
        GTEST_SKIP() << "the rail has whole_memory";
    }
    std::unique_ptr<MemoryRegion> region;
    EXPECT_EQ(rail(0).register_memory(nullptr, kWholeMemory, kTransfers, region),
              Status::error(Reason::not_supported));
    EXPECT_EQ(region, nullptr);
}

TEST_P(WholeMemory, ItIsNoTargetOfAtomics) {
    ADAPTIB_NEEDS(whole_memory);
    std::unique_ptr<MemoryRegion> region;
    EXPECT_EQ(rail(0).register_memory(nullptr, kWholeMemory, kAllAccess, region),
              Status::error(Reason::not_supported));
    EXPECT_EQ(region, nullptr);
    ADAPTIB_NEEDS(atomic64);
    region = whole(1);
    Buffer& result = memory(0, 8);
    std::uint64_t target = 5;
    for (const Opcode opcode : {Opcode::fetch_add, Opcode::compare_swap}) {
        EXPECT_EQ(try_once(opcode, result.gather(0, 8), address_of(&target), region->remote_key()),
                  WorkStatus::remote_access_error);
    }
    EXPECT_EQ(target, 5u);
}

TEST_P(WholeMemory, WhateverIsMappedIsReached) {
    ADAPTIB_NEEDS(whole_memory);
    const std::unique_ptr<MemoryRegion> here = whole(0);
    const std::unique_ptr<MemoryRegion> there = whole(1);
    EXPECT_EQ(there->address(), nullptr);
    EXPECT_EQ(there->length(), kWholeMemory);
    constexpr Bytes kSize = 20'000;
    // Memory that exists only after the region was made: heap, stack, static, mapped, allocated by
    // the rail, registered.
    const auto heap = std::make_unique<std::byte[]>(kSize);
    std::byte stack[kSize];
    static std::byte fixed[kSize];
    void* mapped = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    Buffer& registered = memory(1, kSize);
    Buffer& of_rail = allocated(1, kSize);
    std::byte* const targets[] = {
        heap.get(),        stack,         fixed, static_cast<std::byte*>(mapped),
        registered.data(), of_rail.data()};
    std::vector<std::byte> local(kSize);
    Pair p = rc_pair();
    std::uint64_t seed = 0;
    for (std::byte* target : targets) {
        for (const Bytes length : {Bytes{1}, Bytes{8}, Bytes{4097}, kSize - 16}) {
            for (const bool within : {true, false}) {
                const auto request = [&](const SendWork& work) {
                    if (within && world().rma_now_works(false)) {
                        EXPECT_EQ(p.a.qp->rma_now(piece_of(work)), kOk);
                    } else {
                        EXPECT_EQ(run(p.a, work), WorkStatus::success);
                    }
                };
                const std::vector<Gather> gather{{local.data(), length, here->local_key()}};
                std::fill(target, target + kSize, std::byte{0xee});
                fill(local.data(), length, ++seed);
                const std::uint64_t to = address_of(target) + 7;
                request(rdma_work(1, Opcode::write, gather, to, there->remote_key()));
                EXPECT_TRUE(all_equal(target, 7, std::byte{0xee}));
                EXPECT_TRUE(holds(target + 7, length, seed)) << length;
                EXPECT_TRUE(all_equal(target + 7 + length, 9, std::byte{0xee}));
                fill(target + 7, length, ++seed);
                request(rdma_work(2, Opcode::read, gather, to, there->remote_key()));
                EXPECT_TRUE(holds(local.data(), length, seed)) << length;
            }
        }
    }
    EXPECT_TRUE(stays_empty({p.a.send, p.b.receive}));
    munmap(mapped, kSize);
}

TEST_P(WholeMemory, MemoryThatIsNotThereIsAnError) {
    ADAPTIB_NEEDS(whole_memory);
    const std::unique_ptr<MemoryRegion> region = whole(1);
    Buffer& local = memory(0, 256);
    std::fill(local.data(), local.data() + 256, std::byte{0x11});
    HalfMapped half;
    ASSERT_NE(half.data(), nullptr);
    std::fill(half.data(), half.end(), std::byte{0xee});
    void* fixed = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(fixed, MAP_FAILED);
    struct Case {
        std::uint64_t address;
        bool readable;
    };
    for (const Case& c :
         {Case{0, false}, Case{8, false}, Case{address_of(half.end()), false},
          Case{address_of(half.end()) - 1, false}, Case{address_of(half.end()) - 63, false},
          Case{address_of(fixed), true}, Case{(std::uint64_t{1} << 47) - 32, false},
          Case{kWholeMemory - 64, false}, Case{kWholeMemory - 63, false},
          Case{~std::uint64_t{0} - 63, false}, Case{~std::uint64_t{0}, false}}) {
        for (const Opcode opcode : {Opcode::write, Opcode::read}) {
            EXPECT_EQ(try_once(opcode, local.gather(0, 64), c.address, region->remote_key()),
                      c.readable && opcode == Opcode::read ? WorkStatus::success
                                                           : WorkStatus::remote_access_error)
                << std::hex << c.address << " opcode " << static_cast<int>(opcode);
        }
        EXPECT_TRUE(all_equal(local.data() + 64, 192, std::byte{0x11}));
    }
    EXPECT_TRUE(all_equal(half.data(), 4096, std::byte{0xee}));
    EXPECT_TRUE(all_equal(static_cast<std::byte*>(fixed), 4096, std::byte{0}));
    munmap(fixed, 4096);
    // Mapped memory stays reachable.
    fill(local.data(), 64, 2);
    EXPECT_EQ(try_once(Opcode::write, local.gather(0, 64), address_of(half.end()) - 64,
                       region->remote_key()),
              WorkStatus::success);
    EXPECT_TRUE(holds(half.end() - 64, 64, 2));
}

TEST_P(WholeMemory, RightsAndEndsAreThoseOfAnyRegion) {
    ADAPTIB_NEEDS(whole_memory);
    Buffer& local = memory(0, 64);
    std::vector<std::uint64_t> words(8, 7);
    const std::uint64_t address = address_of(words.data());
    for (const std::uint32_t given : {0u, +kRemoteRead, +kRemoteWrite}) {
        std::unique_ptr<MemoryRegion> region = whole(1, kLocalWrite | given);
        const std::uint32_t key = region->remote_key();
        for (const auto& [opcode, right] :
             {std::pair{Opcode::read, kRemoteRead}, std::pair{Opcode::write, kRemoteWrite}}) {
            EXPECT_EQ(try_once(opcode, local.gather(0, 64), address, key),
                      given == right ? WorkStatus::success : WorkStatus::remote_access_error);
        }
        words.assign(8, 7);
        fill(local.data(), 64, 1);
        region.reset();
        for (const Opcode opcode : {Opcode::read, Opcode::write}) {
            EXPECT_EQ(try_once(opcode, local.gather(0, 64), address, key),
                      WorkStatus::remote_access_error)
                << "it is gone";
        }
        EXPECT_EQ(words, std::vector<std::uint64_t>(8, 7));
        EXPECT_TRUE(holds(local.data(), 64, 1));
    }
    // The same holds at the local side.
    std::unique_ptr<MemoryRegion> here = whole(0, 0);
    Buffer& target = memory(1, 64);
    const Gather gather{words.data(), 64, here->local_key()};
    EXPECT_EQ(try_once(Opcode::read, gather, target.remote(), target.key()),
              WorkStatus::local_protection_error);
    EXPECT_EQ(try_once(Opcode::write, gather, target.remote(), target.key()), WorkStatus::success);
    here.reset();
    EXPECT_EQ(try_once(Opcode::write, gather, target.remote(), target.key()),
              WorkStatus::local_protection_error);
}

} // namespace
} // namespace adaptib::conformance
