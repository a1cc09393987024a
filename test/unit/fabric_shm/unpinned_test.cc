// SPDX-License-Identifier: BSD-3-Clause
// Memory that cross-memory attach does not reach, since the kernel cannot pin it: data is carried
// all the same. Memory that is not there makes the same system call fail, and stays an error.
//
// Initiator and target are two fabrics of this process, which attaches to itself by the same rules.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "fabric/shm/limits.h"
#include "unit/fabric_shm/node.h"
#include "unit/secret_memory.h"

namespace adaptib::test {
namespace {

constexpr Bytes kLengths[] = {1, 8, 100, 65'536, 65'544, 70'001, kMiB, kMiB + 16};
constexpr Bytes kSecret = 2 * kMiB;
constexpr std::uint32_t kTransfers = kLocalWrite | kRemoteRead | kRemoteWrite;

void fill(std::byte* data, Bytes length, std::uint64_t seed) {
    for (Bytes i = 0; i < length; ++i) {
        data[i] = static_cast<std::byte>((i * 7 + seed) ^ (i >> 8));
    }
}

class Unpinned : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(here.ok && there.ok);
        ASSERT_TRUE(connect());
        if (!secret_here.there() || !secret_there.there()) {
            GTEST_SKIP() << "no memfd_secret in this kernel, or no locked memory for it";
        }
        ASSERT_TRUE(all(here, whole_here) && all(there, whole_there));
    }

    static bool all(Node& node, std::unique_ptr<MemoryRegion>& out) {
        return node.rail().register_memory(nullptr, kWholeMemory, kTransfers, out).ok();
    }
    // Adds a connected pair of queue pairs, the last one of each node.
    bool connect() {
        QueuePair* const a = here.add_qp(QpType::rc);
        QueuePair* const b = there.add_qp(QpType::rc);
        return a != nullptr && b != nullptr &&
               Node::connect(*a, there.rail().address(), b->number()) &&
               Node::connect(*b, here.rail().address(), a->number());
    }
    QueuePair& qp() { return *here.qps.back(); }
    QueuePair& target_qp() { return *there.qps.back(); }
    // Posts, and polls both ends until the completion comes.
    WorkStatus run(SendWork work) {
        work.flags |= kSignaled;
        if (!qp().post_send(work).ok()) {
            return WorkStatus::general_error;
        }
        WorkCompletion done;
        WorkCompletion other;
        const Nanoseconds end = here.clock.now() + kLong;
        while (here.cq->poll({&done, 1}) == 0) {
            there.cq->poll({&other, 1});
            if (here.clock.now() > end) {
                return WorkStatus::response_timeout;
            }
        }
        return done.status;
    }
    WorkStatus run(Opcode opcode, std::byte* local, Bytes length, std::uint64_t remote,
                   std::uint32_t flags = 0) {
        const Gather gather{local, length, whole_here->local_key()};
        SendWork work = Node::rdma(opcode, gather, remote, whole_there->remote_key());
        work.flags = flags;
        return run(work);
    }
    Status rma_now(Opcode opcode, std::byte* local, Bytes length, std::uint64_t remote) {
        return qp().rma_now({.opcode = opcode,
                             .local_key = whole_here->local_key(),
                             .local = local,
                             .length = length,
                             .remote_address = remote,
                             .remote_key = whole_there->remote_key(),
                             .compare_add = 0,
                             .swap = 0});
    }
    // Writes and reads all lengths between the two; checks that the bytes beside stay.
    void exchange(std::byte* local, std::byte* remote) {
        std::uint64_t seed = 0;
        for (const Bytes length : kLengths) {
            const Bytes at = length % 8 == 0 ? 64 : 61;
            for (const Opcode opcode : {Opcode::write, Opcode::read}) {
                SCOPED_TRACE(testing::Message() << length << " opcode " << int(opcode));
                std::byte* const from = opcode == Opcode::write ? local : remote + at;
                std::byte* const to = opcode == Opcode::write ? remote + at : local;
                fill(from, length, ++seed);
                std::fill(to, to + length, std::byte{0xee});
                remote[at - 1] = remote[at + length] = std::byte{0x55};
                const std::uint64_t address = reinterpret_cast<std::uintptr_t>(remote) + at;
                const bool publish = opcode == Opcode::write && length % 8 == 0;
                ASSERT_EQ(run(opcode, local, length, address, publish ? +kPublish : 0u),
                          WorkStatus::success);
                ASSERT_EQ(std::memcmp(from, to, length), 0);
                ASSERT_EQ(remote[at - 1], std::byte{0x55});
                ASSERT_EQ(remote[at + length], std::byte{0x55});
            }
        }
    }

    SecretMemory secret_here{kSecret};
    SecretMemory secret_there{kSecret};
    std::vector<std::byte> plain_here = std::vector<std::byte>(kSecret);
    std::vector<std::byte> plain_there = std::vector<std::byte>(kSecret);
    Node here;
    Node there;
    std::unique_ptr<MemoryRegion> whole_here;
    std::unique_ptr<MemoryRegion> whole_there;
};

TEST_F(Unpinned, TheTargetsMemory) { exchange(plain_here.data(), secret_there.data()); }

TEST_F(Unpinned, TheInitiatorsMemory) { exchange(secret_here.data(), plain_there.data()); }

TEST_F(Unpinned, ThatOfBothEnds) { exchange(secret_here.data(), secret_there.data()); }

// A transfer of more than one piece of cross-memory attach, whose first piece can be reached and
// whose last cannot.
TEST_F(Unpinned, FromTheMiddleOn) {
    constexpr Bytes kPlain = shm::kCopyPiece + kMiB;
    void* const at =
        mmap(nullptr, kPlain + kSecret, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    auto* const memory = static_cast<std::byte*>(at);
    ASSERT_EQ(mremap(secret_there.data(), kSecret, kSecret, MREMAP_MAYMOVE | MREMAP_FIXED,
                     memory + kPlain),
              memory + kPlain);
    std::vector<std::byte> local(kPlain + kSecret);
    fill(local.data(), local.size(), 3);
    const std::uint64_t address = reinterpret_cast<std::uintptr_t>(memory);
    ASSERT_EQ(run(Opcode::write, local.data(), local.size(), address), WorkStatus::success);
    ASSERT_EQ(std::memcmp(local.data(), memory, local.size()), 0);
    std::fill(local.begin(), local.end(), std::byte{});
    ASSERT_EQ(run(Opcode::read, local.data(), local.size(), address), WorkStatus::success);
    ASSERT_EQ(std::memcmp(local.data(), memory, local.size()), 0);
    munmap(at, kPlain + kSecret);
}

// Transfers of unpinned memory go through the queue; later ones of ordinary memory are as fast as
// before, within the call.
TEST_F(Unpinned, WhatFollowsInOrdinaryMemoryIsDoneWithinTheCall) {
    const std::uint64_t plain = reinterpret_cast<std::uintptr_t>(plain_there.data());
    ASSERT_EQ(rma_now(Opcode::write, plain_here.data(), 4096, plain), kOk);
    EXPECT_TRUE(rma_now(Opcode::write, plain_here.data(), 4096, secret_there.address()).is_again());
    fill(plain_here.data(), 4096, 9);
    ASSERT_EQ(run(Opcode::write, plain_here.data(), 4096, secret_there.address()),
              WorkStatus::success);
    EXPECT_EQ(rma_now(Opcode::read, secret_here.data(), 4096, plain), kOk);
    EXPECT_EQ(rma_now(Opcode::write, plain_here.data(), 4096, plain), kOk);
    EXPECT_EQ(std::memcmp(plain_there.data(), secret_there.data(), 4096), 0);
    EXPECT_TRUE(here.fabric->notices().empty());
    EXPECT_TRUE(there.fabric->notices().empty());
}

// The target's part: serving a request that came by message, and its part of a long copy.
TEST_F(Unpinned, TheTargetServes) {
    fill(plain_there.data(), 4096, 4);
    Gather data{plain_there.data(), 4096, 0};
    SendWork work =
        Node::rdma(Opcode::write, data, secret_there.address(), whole_there->remote_key());
    EXPECT_EQ(target_qp().serve_rma(work), kOk);
    EXPECT_EQ(std::memcmp(plain_there.data(), secret_there.data(), 4096), 0);
    std::fill_n(plain_there.data(), 4096, std::byte{});
    work.opcode = Opcode::read;
    EXPECT_EQ(target_qp().serve_rma(work), kOk);
    EXPECT_EQ(std::memcmp(plain_there.data(), secret_there.data(), 4096), 0);
    work.remote_address = secret_there.address() + kSecret; // no memory is there
    EXPECT_FALSE(target_qp().serve_rma(work).ok());
    RmaWork part{.opcode = Opcode::write, // the initiator reads
                 .local_key = whole_there->local_key(),
                 .local = secret_there.data(),
                 .length = 4096,
                 .remote_address = reinterpret_cast<std::uintptr_t>(plain_here.data()),
                 .remote_key = whole_here->remote_key(),
                 .compare_add = 0,
                 .swap = 0};
    EXPECT_EQ(target_qp().serve_copy(part), kOk);
    EXPECT_EQ(std::memcmp(plain_here.data(), secret_there.data(), 4096), 0);
    part.remote_address = secret_here.address();
    EXPECT_FALSE(target_qp().serve_copy(part).ok()) << "the initiator does it itself then";
    EXPECT_EQ(target_qp().query().state, QpState::ready_to_send);
}

TEST_F(Unpinned, Atomics) {
    std::unique_ptr<MemoryRegion> region;
    ASSERT_TRUE(
        there.rail().register_memory(secret_there.data(), secret_there.size(), kAll, region).ok());
    auto* const word = reinterpret_cast<std::uint64_t*>(secret_there.data() + 64);
    *word = 40;
    std::uint64_t old = 0;
    const Gather gather{&old, 8, whole_here->local_key()};
    SendWork work =
        Node::rdma(Opcode::fetch_add, gather, secret_there.address() + 64, region->remote_key());
    work.compare_add = 2;
    EXPECT_EQ(run(work), WorkStatus::success);
    EXPECT_EQ(old, 40u);
    EXPECT_EQ(*word, 42u);
    work.opcode = Opcode::compare_swap;
    work.compare_add = 41;
    work.swap = 7;
    EXPECT_EQ(run(work), WorkStatus::success);
    EXPECT_EQ(old, 42u);
    EXPECT_EQ(*word, 42u);
    work.compare_add = 42;
    EXPECT_EQ(run(work), WorkStatus::success);
    EXPECT_EQ(old, 42u);
    EXPECT_EQ(*word, 7u);
}

// Memory that has gone since its registration, or was never there: the initiator gets an error, and
// neither end crashes.
TEST_F(Unpinned, MemoryThatIsNotThereIsAnErrorStill) {
    void* const page =
        mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    std::unique_ptr<MemoryRegion> region;
    ASSERT_TRUE(there.rail().register_memory(page, 8192, kAll, region).ok());
    ASSERT_EQ(mprotect(page, 8192, PROT_NONE), 0); // like munmap, but no allocator reuses the range
    const std::uint64_t gone = reinterpret_cast<std::uintptr_t>(page);
    for (const Opcode opcode :
         {Opcode::write, Opcode::read, Opcode::fetch_add, Opcode::compare_swap}) {
        const Bytes length = opcode > Opcode::read ? 8 : 4096;
        const Gather gather{secret_here.data(), length, whole_here->local_key()};
        for (const bool own_region : {true, false}) {
            if (!own_region && opcode > Opcode::read) {
                continue; // regions of all memory give no right to atomics
            }
            const std::uint32_t key = own_region ? region->remote_key() : whole_there->remote_key();
            EXPECT_EQ(run(Node::rdma(opcode, gather, gone, key)), WorkStatus::remote_access_error);
            EXPECT_EQ(qp().query().state, QpState::error);
            ASSERT_TRUE(connect());
        }
        if (opcode > Opcode::read) {
            continue;
        }
        // The target's memory is there in part, and cannot be pinned.
        EXPECT_EQ(run(Node::rdma(opcode, gather, secret_there.address() + kSecret - 64,
                                 whole_there->remote_key())),
                  WorkStatus::remote_access_error);
        ASSERT_TRUE(connect());
        // The initiator's own memory is not there, which is the initiator's error.
        auto* const nowhere = static_cast<std::byte*>(page);
        for (const std::uint64_t remote :
             {secret_there.address(),
              std::uint64_t{reinterpret_cast<std::uintptr_t>(plain_there.data())}}) {
            EXPECT_EQ(run(opcode, nowhere, 4096, remote), WorkStatus::local_protection_error);
            ASSERT_TRUE(connect());
        }
    }
    EXPECT_EQ(run(Opcode::write, plain_here.data(), 4096, secret_there.address()),
              WorkStatus::success);
    munmap(page, 8192);
}

// A request that may fault ends as such, at whichever end the memory is not there; the queue pair
// goes on, and so do requests behind it.
TEST_F(Unpinned, AFaultThatIsExpectedBreaksNothing) {
    void* const page =
        mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    ASSERT_EQ(mprotect(page, kMiB, PROT_NONE), 0);
    auto* const nowhere = static_cast<std::byte*>(page);
    const auto address_of = [](const std::byte* at) {
        return reinterpret_cast<std::uintptr_t>(at);
    };
    fill(plain_here.data(), kMiB, 5);
    for (const Opcode opcode : {Opcode::write, Opcode::read}) {
        for (const Bytes length : {Bytes{8}, Bytes{4096}, kMiB}) {
            EXPECT_EQ(run(opcode, plain_here.data(), length, address_of(nowhere), kMayFault),
                      WorkStatus::memory_fault);
            EXPECT_EQ(run(opcode, nowhere, length, address_of(plain_there.data()), kMayFault),
                      WorkStatus::memory_fault);
            EXPECT_EQ(run(opcode, nowhere, length, secret_there.address(), kMayFault),
                      WorkStatus::memory_fault);
            EXPECT_EQ(run(opcode, plain_here.data(), length, secret_there.address(), kMayFault),
                      WorkStatus::success);
        }
        EXPECT_EQ(run(opcode, plain_here.data(), kMiB, address_of(nowhere) - kMiB / 2, kMayFault),
                  WorkStatus::memory_fault);
    }
    EXPECT_EQ(qp().query().state, QpState::ready_to_send);
    EXPECT_EQ(target_qp().query().state, QpState::ready_to_send);

    // Several at a time.
    const Gather gather{plain_here.data(), kMiB, whole_here->local_key()};
    for (std::uint64_t i = 0; i < 6; ++i) {
        SendWork work = Node::rdma(Opcode::write, gather,
                                   i % 2 == 0 ? address_of(nowhere) : secret_there.address(),
                                   whole_there->remote_key());
        work.wr_id = i;
        work.flags = kSignaled | kMayFault;
        ASSERT_TRUE(qp().post_send(work).ok());
    }
    WorkCompletion done;
    WorkCompletion other;
    const Nanoseconds end = here.clock.now() + kLong;
    for (std::uint64_t i = 0; i < 6 && here.clock.now() < end;) {
        there.cq->poll({&other, 1});
        if (here.cq->poll({&done, 1}) == 1) {
            EXPECT_EQ(done.wr_id, i);
            EXPECT_EQ(done.status, i % 2 == 0 ? WorkStatus::memory_fault : WorkStatus::success);
            ++i;
        }
    }
    EXPECT_EQ(std::memcmp(plain_here.data(), secret_there.data(), kMiB), 0);
    munmap(page, kMiB);
}

} // namespace
} // namespace adaptib::test
