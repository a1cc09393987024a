// SPDX-License-Identifier: BSD-3-Clause
// Registering and allocating memory, and the text when too little of it may be locked.
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fabric/verbs/errors.h"
#include "memory/registration.h"
#include "unit/verbs/verbs_fixture.h"

namespace adaptib::test {
namespace {

class Memory : public VerbsTest {};

// Some adapters fail a request for access that they cannot give. Windows ask for atomics, too,
// which the process then executes itself.
TEST_F(Memory, WhatTheAdapterCannotDoIsNotAskedOfIt) {
    lib_.devices = {roce_device("rxe0"), roce_device("rxe1")};
    lib_.devices[1].limits.atomic_cap = IBV_ATOMIC_NONE;
    ASSERT_EQ(open(), kOk) << error_;
    std::uint64_t words[8] = {};
    Rail* const rails[] = {&rail(0), &rail(1)};
    Registration registration;
    ASSERT_EQ(registration.make(rails, words, sizeof words, kLocalWrite | kRemoteAtomic), kOk);
    ASSERT_GE(lib_.mrs.size(), 2u);
    EXPECT_EQ((*(lib_.mrs.end() - 2))->access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    EXPECT_EQ((*(lib_.mrs.end() - 1))->access, +IBV_ACCESS_LOCAL_WRITE);
    EXPECT_NE(registration.remote_key(1), 0u);

    QueuePair& pair = qp(init(QpType::rc, cq(1)), 1);
    QpAttributes a = attributes(QpState::init, rail(1));
    a.access = kRemoteWrite | kRemoteAtomic;
    ASSERT_EQ(pair.modify(a, kRcInit), kOk);
    EXPECT_EQ(lib_.modified.back().attributes.qp_access_flags,
              static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE));
}

TEST_F(Memory, RightsAndKeys) {
    open_roce();
    std::uint64_t words[8] = {};
    const struct {
        std::uint32_t access;
        int verbs;
    } rows[] = {{0, 0},
                {kLocalWrite, IBV_ACCESS_LOCAL_WRITE},
                {kRemoteRead, IBV_ACCESS_REMOTE_READ},
                {kLocalWrite | kRemoteWrite, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE},
                {kLocalWrite | kRemoteAtomic, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC}};
    for (const auto& row : rows) {
        std::unique_ptr<MemoryRegion> region;
        ASSERT_EQ(rail().register_memory(words, sizeof words, row.access, region), kOk);
        const FakeMr& mr = *lib_.mrs.back();
        EXPECT_EQ(mr.access, row.verbs);
        EXPECT_EQ(mr.addr, words);
        EXPECT_EQ(mr.length, sizeof words);
        EXPECT_EQ(region->local_key(), mr.lkey);
        EXPECT_EQ(region->remote_key(), mr.rkey);
        EXPECT_EQ(region->address(), words);
        EXPECT_EQ(region->length(), sizeof words);
        region.reset();
        EXPECT_FALSE(mr.alive);
    }
}

int relaxed(const FakeMr& mr) { return mr.access & IBV_ACCESS_RELAXED_ORDERING; }

TEST_F(Memory, OnlyDataThatIsToldOfMayComeInAnyOrder) {
    for (const bool wanted : {false, true}) {
        options_.relaxed_ordering = wanted;
        open_roce();
        std::uint64_t words[8] = {};
        const struct {
            std::uint32_t access;
            bool any_order;
        } rows[] = {{0, true},
                    {kLocalWrite, true},
                    {kLocalWrite | kRemoteWrite | kRemoteRead, true},
                    {kLocalWrite | kRemoteWrite | kOrdered, false},
                    {kLocalWrite | kRemoteAtomic, false}};
        std::unique_ptr<MemoryRegion> region;
        for (const auto& row : rows) {
            ASSERT_EQ(rail().register_memory(words, sizeof words, row.access, region), kOk);
            EXPECT_EQ(relaxed(*lib_.mrs.back()) != 0, wanted && row.any_order) << row.access;
            ASSERT_EQ(rail().register_file({7, 0}, words, sizeof words, row.access, region), kOk);
            EXPECT_EQ(relaxed(*lib_.mrs.back()) != 0, wanted && row.any_order) << row.access;
        }
        ASSERT_EQ(rail().allocate(64, kLocalWrite | kRemoteWrite, region), kOk);
        EXPECT_EQ(relaxed(*lib_.mrs.back()), 0) << "it may be polled";
        QueuePair& pair = qp(init(QpType::rc, cq()));
        ASSERT_EQ(pair.modify(attributes(QpState::init, rail()), kRcInit), kOk);
        EXPECT_EQ(lib_.modified.back().attributes.qp_access_flags & IBV_ACCESS_RELAXED_ORDERING,
                  0u);
        region.reset();
        end_objects();
    }
}

TEST_F(Memory, ADriverMayRefuseRelaxedOrdering) {
    options_.relaxed_ordering = true;
    open_roce();
    const int trial = lib_.count("reg_mr");
    fabric_.reset();
    lib_.fail("reg_mr", trial, EOPNOTSUPP);
    open_roce();
    EXPECT_TRUE(lib_.failed());
    EXPECT_EQ(rail().last_error_text(), "");
    std::uint64_t words[8] = {};
    std::unique_ptr<MemoryRegion> region;
    ASSERT_EQ(rail().register_memory(words, sizeof words, kLocalWrite, region), kOk);
    EXPECT_EQ(relaxed(*lib_.mrs.back()), 0);
}

// The message that tells of a peer's writes may come over another adapter than the writes.
TEST_F(Memory, WhatPeersWriteOverSeveralAdaptersKeepsItsOrder) {
    options_.relaxed_ordering = true;
    for (const bool several : {false, true}) {
        lib_.devices = {ib_device("mlx5_0", 2, 0)};
        if (several) {
            lib_.devices.push_back(ib_device("mlx5_1", 1, 0));
        }
        ASSERT_EQ(open(), kOk) << error_;
        std::uint64_t words[8] = {};
        Rail* const rails[] = {&rail(0), &rail(several ? 2 : 1)};
        Registration registration;
        for (const std::uint32_t access : {+kLocalWrite, kLocalWrite | kRemoteWrite}) {
            ASSERT_EQ(registration.make(rails, words, sizeof words, access), kOk);
            const bool keeps = several && (access & kRemoteWrite) != 0;
            EXPECT_EQ(relaxed(*lib_.mrs.back()) == 0, keeps) << several << ' ' << access;
        }
    }
}

TEST_F(Memory, BadArguments) {
    lib_.devices = {roce_device("rxe0")};
    lib_.devices[0].limits.atomic_cap = IBV_ATOMIC_NONE;
    ASSERT_EQ(open(), kOk) << error_;
    std::uint64_t words[8] = {};
    std::unique_ptr<MemoryRegion> out;
    const int before = lib_.count("reg_mr");
    const Status bad = refusal(Reason::bad_argument);
    EXPECT_EQ(rail().register_memory(words, 0, kLocalWrite, out), bad);
    EXPECT_EQ(rail().register_memory(words, ~Bytes{0}, kLocalWrite, out), bad);
    EXPECT_EQ(rail().register_memory(words, 8, kRemoteWrite, out), bad);
    EXPECT_EQ(rail().register_memory(words, 8, 1u << 9, out), bad);
    EXPECT_EQ(rail().register_memory(words, 8, kLocalWrite | kRemoteAtomic, out),
              refusal(Reason::not_supported));
    EXPECT_EQ(rail().register_memory(nullptr, kWholeMemory, kLocalWrite, out),
              refusal(Reason::not_supported));
    EXPECT_EQ(rail().allocate(0, kLocalWrite, out), bad);
    EXPECT_EQ(rail().allocate(~Bytes{0}, kLocalWrite, out), refusal(Reason::no_memory));
    EXPECT_EQ(rail().allocate(Bytes{1} << 60, kLocalWrite, out), refusal(Reason::no_memory));
    EXPECT_EQ(lib_.count("reg_mr"), before);
    EXPECT_EQ(out, nullptr);
}

TEST_F(Memory, OfAFile) {
    open_roce();
    std::uint64_t words[8] = {};
    std::unique_ptr<MemoryRegion> region;
    constexpr std::uint32_t kAccess = kLocalWrite | kRemoteRead;
    ASSERT_EQ(rail().register_file({7, 4096}, words, sizeof words, kAccess, region), kOk);
    const FakeMr& mr = *lib_.mrs.back();
    EXPECT_EQ(mr.file, 7);
    EXPECT_EQ(mr.offset, 4096u);
    EXPECT_EQ(mr.addr, words) << "by which the data is named";
    EXPECT_EQ(mr.length, sizeof words);
    EXPECT_EQ(mr.access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    EXPECT_EQ(region->remote_key(), mr.rkey);
    region.reset();
    EXPECT_FALSE(mr.alive);
    for (const int error : {EOPNOTSUPP, ENOSYS, EPROTONOSUPPORT}) {
        lib_.fail("reg_dmabuf_mr", 1, error);
        EXPECT_EQ(rail().register_file({7, 0}, words, 8, kAccess, region),
                  refusal(Reason::not_supported));
    }
    EXPECT_EQ(rail().register_file({7, 0}, words, 0, kAccess, region),
              refusal(Reason::bad_argument));
    EXPECT_EQ(region, nullptr);
}

TEST_F(Memory, AllocatedMemoryIsZeroAndApart) {
    open_roce();
    std::unique_ptr<MemoryRegion> a;
    std::unique_ptr<MemoryRegion> b;
    ASSERT_EQ(rail().allocate(5000, kLocalWrite, a), kOk);
    ASSERT_EQ(rail().allocate(1, kLocalWrite, b), kOk);
    EXPECT_EQ(a->length(), 5000u);
    EXPECT_EQ(lib_.mrs.back()->length, 1u);
    for (const auto* region : {a.get(), b.get()}) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region->address()) % 4096, 0u)
            << "what a child process loses is no more than that";
    }
    for (Bytes i = 0; i < 5000; ++i) {
        ASSERT_EQ(static_cast<const char*>(a->address())[i], 0);
    }
}

TEST_F(Memory, WhatCannotBeRevokedStaysMapped) {
    open_roce();
    std::unique_ptr<MemoryRegion> region;
    ASSERT_EQ(rail().allocate(4096, kLocalWrite, region), kOk);
    auto* data = static_cast<char*>(region->address());
    lib_.fail("dereg_mr", 1, EBUSY);
    region.reset();
    data[0] = 1; // the adapter may still do so
    EXPECT_EQ(data[0], 1);
    lib_.mrs.back()->alive = false;
    --static_cast<FakePd*>(lib_.mrs.back()->pd)->users;
    munmap(data, 4096);
}

TEST_F(Memory, ErrorsWithoutALimit) {
    open_roce();
    std::uint64_t words[8] = {};
    std::unique_ptr<MemoryRegion> out;
    const auto attempt = [&](int error) {
        lib_.fail("reg_mr", 1, error);
        const Status status = rail().register_memory(words, sizeof words, kLocalWrite, out);
        EXPECT_EQ(out, nullptr);
        return status;
    };
    EXPECT_EQ(attempt(EFAULT), refusal(Reason::bad_argument)) << "nothing is mapped there";
    EXPECT_EQ(attempt(EINVAL), refusal(Reason::bad_argument));
    EXPECT_EQ(attempt(EIO), refusal(Reason::no_device));
}

// The limit is per process, and root's capability lifts it: each case runs in a child
// without that capability.
class Memlock : public VerbsTest {
protected:
    // Runs `body` in a child with that limit; returns the result of `body`, which
    // is the exit status.
    template <typename Body> int with_limit(rlim_t bytes, Body body) {
        const pid_t child = fork();
        if (child == 0) {
            const rlimit limit{bytes, bytes}; // any process may set 64 KiB
            const bool limited = setrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
                                 (getuid() != 0 || setresuid(65534, 65534, 65534) == 0);
            _exit(limited ? body() : 99);
        }
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status));
        return WEXITSTATUS(status);
    }
    static bool says(const std::string& text, std::initializer_list<const char*> words) {
        for (const char* word : words) {
            if (text.find(word) == std::string::npos) {
                fprintf(stderr, "\"%s\" is not in: %s\n", word, text.c_str());
                return false;
            }
        }
        return true;
    }
};

TEST_F(Memlock, TheTextSaysHowMuchAndWhere) {
    EXPECT_EQ(with_limit(64 * kKiB,
                         [] {
                             const std::string text = verbs_memlock_text(10'000'001);
                             return says(text,
                                         {"9766 KiB", "64 KiB", "RLIMIT_MEMLOCK", "ulimit -l 9766",
                                          "/etc/security/limits.conf", "LimitMEMLOCK=infinity"})
                                        ? 0
                                        : 1;
                         }),
              0);
}

TEST_F(Memlock, TooLittleForWhatWillBeNeeded) {
    lib_.devices = {roce_device("rxe0")};
    options_.locked_bytes = 48 * kKiB;
    EXPECT_EQ(with_limit(32 * kKiB,
                         [this] {
                             return open() == refusal(Reason::locked_memory) &&
                                            says(error_, {"48 KiB", "32 KiB", "limits.conf"})
                                        ? 0
                                        : 1;
                         }),
              0);
    EXPECT_EQ(with_limit(64 * kKiB, [this] { return open() == kOk ? 0 : 1; }), 0);
}

TEST_F(Memlock, TooLittleWhenItIsRegistered) {
    open_roce();
    static char memory[40 * kKiB];
    const auto attempt = [this](rlim_t limit, int error, Reason reason, bool told) {
        return with_limit(limit, [&] {
            std::unique_ptr<MemoryRegion> out;
            lib_.fail("reg_mr", 1, error);
            const Status status = rail().register_memory(memory, sizeof memory, kLocalWrite, out);
            const std::string text = rail().last_error_text();
            return status == refusal(reason) && out == nullptr && text.empty() != told &&
                           (!told || says(text, {"40 KiB", "32 KiB", "limits.conf"}))
                       ? 0
                       : 1;
        });
    };
    EXPECT_EQ(attempt(32 * kKiB, ENOMEM, Reason::locked_memory, true), 0);
    EXPECT_EQ(attempt(32 * kKiB, EPERM, Reason::locked_memory, true), 0);
    EXPECT_EQ(attempt(64 * kKiB, ENOMEM, Reason::no_memory, false), 0) << "that was not the limit";
    EXPECT_EQ(attempt(32 * kKiB, EFAULT, Reason::bad_argument, false), 0);
}

TEST_F(Memlock, DoesNotConcernWhoMayLockAll) {
    if (geteuid() != 0 || prctl(PR_CAPBSET_READ, CAP_IPC_LOCK) != 1) {
        GTEST_SKIP() << "this process may not";
    }
    const pid_t child = fork();
    if (child == 0) {
        const rlimit limit{0, 0};
        _exit(setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && !verbs::beyond_memlock(kGiB) ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(with_limit(0, [] { return verbs::beyond_memlock(kGiB) ? 0 : 1; }), 0);
}

// The queue has 16 requests of some hundred bytes each.
TEST_F(Memlock, TooLittleForTheQueues) {
    lib_.devices = {roce_device("rxe0")};
    lib_.fail("create_cq", 1, ENOMEM);
    EXPECT_EQ(with_limit(0,
                         [this] {
                             const std::string before = "needs at least ";
                             if (open() != refusal(Reason::locked_memory) ||
                                 !says(error_, {"rxe0:1", before.c_str(), "limits.conf"})) {
                                 return 1;
                             }
                             const std::string kib =
                                 error_.substr(error_.find(before) + before.size());
                             return says(kib, {" KiB of locked memory"}) && std::stoull(kib) >= 1 &&
                                            std::stoull(kib) <= 16
                                        ? 0
                                        : 1;
                         }),
              0);
}

} // namespace
} // namespace adaptib::test
