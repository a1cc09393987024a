// SPDX-License-Identifier: BSD-3-Clause
// One-sided operations through the C interface, of a process with itself: user errors, in
// operations that are started and in those that are tried within the call first.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "common_adaptib_one_sided.h"
#include "interface/handle.h"
#include "interface/process.h"
#include "unit/core/window.h"

namespace adaptib::test {
namespace {

class OneSidedApi : public testing::TestWithParam<bool> {
protected:
    static constexpr std::size_t kWords = 16;

    void SetUp() override {
        opal_common_adaptib_environment_t environment{};
        environment.context = this;
        environment.self = 12;
        environment.host_name = "testhost";
        environment.lookup = [](void*, std::uint64_t, void**, std::size_t*) { return -1; };
        environment.lookup_release = [](void*, void*) {};
        environment.message = [](void* context, opal_common_adaptib_severity_t, const char* text) {
            static_cast<OneSidedApi*>(context)->messages_.emplace_back(text);
        };
        ASSERT_EQ(opal_common_adaptib_core_acquire(&environment, &core_),
                  OPAL_COMMON_ADAPTIB_SUCCESS);
        ASSERT_EQ(opal_common_adaptib_peer_get(core_, environment.self, &self_),
                  OPAL_COMMON_ADAPTIB_SUCCESS);
        // The words 4 to 11 of 16 are the region.
        remote_ = region(words_ + 4, 64,
                         OPAL_COMMON_ADAPTIB_REMOTE_READ | OPAL_COMMON_ADAPTIB_REMOTE_WRITE |
                             OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC);
        for (std::size_t i = 0; i < kWords; ++i) {
            words_[i] = i;
        }
    }
    void TearDown() override {
        for (opal_common_adaptib_region_t* each : regions_) {
            opal_common_adaptib_deregister(core_, each);
        }
        if (core_ != nullptr) {
            opal_common_adaptib_core_release(core_);
        }
    }

    opal_common_adaptib_remote_t region(void* base, std::size_t bytes, std::uint32_t access) {
        opal_common_adaptib_remote_t remote{};
        opal_common_adaptib_region_t* made = nullptr;
        EXPECT_EQ(opal_common_adaptib_register(core_, base, bytes, access, &made, &remote),
                  OPAL_COMMON_ADAPTIB_SUCCESS);
        regions_.push_back(made);
        return remote;
    }
    // Returns COMPLETE, or AGAIN with nothing done.
    int now(opal_common_adaptib_operation_t kind, const opal_common_adaptib_remote_t& remote,
            std::uint64_t address, std::size_t bytes, std::uint64_t operand = 0,
            std::uint64_t compare = 0, opal_common_adaptib_region_t* region = nullptr) {
        const opal_common_adaptib_one_sided_t what{kind,    local_, region,  address,
                                                   &remote, bytes,  operand, compare};
        return opal_common_adaptib_try_rma(core_, self_, &what);
    }
    // Returns the result of start or, if that started the request, the status with which the
    // request ended. Tries within the call first if that is what is tested.
    int run(opal_common_adaptib_operation_t kind, const opal_common_adaptib_remote_t& remote,
            std::uint64_t address, std::size_t bytes, std::uint64_t operand = 0,
            std::uint64_t compare = 0) {
        if (GetParam()) {
            const int code = now(kind, remote, address, bytes, operand, compare);
            if (code == OPAL_COMMON_ADAPTIB_COMPLETE) {
                ++at_once_;
                return code;
            }
            EXPECT_EQ(code, OPAL_COMMON_ADAPTIB_AGAIN);
        }
        TestRequest request;
        const opal_common_adaptib_one_sided_t what{kind,    local_, nullptr, address,
                                                   &remote, bytes,  operand, compare};
        const int code = opal_common_adaptib_rma_start(core_, self_, &what, &request.user);
        for (int pass = 0; code == OPAL_COMMON_ADAPTIB_SUCCESS && !request.done; ++pass) {
            opal_common_adaptib_progress(core_);
            if (pass == 1000000) {
                ADD_FAILURE() << "an operation that does not end";
                break;
            }
        }
        EXPECT_EQ(opal_common_adaptib_flush_mark(core_), 0u);
        return code == OPAL_COMMON_ADAPTIB_SUCCESS ? request.user.status : code;
    }
    int put(std::uint64_t offset, std::size_t bytes) {
        return run(OPAL_COMMON_ADAPTIB_PUT, remote_, remote_.base + offset, bytes);
    }
    bool untouched() const {
        for (std::size_t i = 0; i < kWords; ++i) {
            if (words_[i] != i) {
                return false;
            }
        }
        return true;
    }

    opal_common_adaptib_core_t* core_ = nullptr;
    opal_common_adaptib_peer_t* self_ = nullptr;
    std::vector<opal_common_adaptib_region_t*> regions_;
    opal_common_adaptib_remote_t remote_{};
    alignas(8) std::uint64_t words_[kWords] = {};
    std::uint64_t local_[kWords] = {};
    std::vector<std::string> messages_;
    std::size_t at_once_ = 0; // operations that were done within the call
};
INSTANTIATE_TEST_SUITE_P(Ways, OneSidedApi, testing::Bool(), [](const auto& way) {
    return std::string(way.param ? "now_first" : "started");
});

constexpr opal_common_adaptib_operation_t kOperations[] = {
    OPAL_COMMON_ADAPTIB_PUT, OPAL_COMMON_ADAPTIB_GET, OPAL_COMMON_ADAPTIB_FETCH_ADD,
    OPAL_COMMON_ADAPTIB_COMPARE_SWAP};

TEST_P(OneSidedApi, WhatIsNotInTheRegionIsABadParameter) {
    struct Range {
        std::uint64_t address;
        std::size_t bytes;
    };
    const std::uint64_t base = remote_.base;
    for (const auto kind : kOperations) {
        for (const Range range :
             {Range{base - 8, 8}, Range{base + 64, 8}, Range{base + 57, 8}, Range{base - 1, 8},
              Range{base, 65}, Range{base + 63, 2}, Range{base + 64, 1}, Range{base - 1, 1},
              Range{0, 8}, Range{UINT64_MAX - 7, 8}, Range{UINT64_MAX, 8},
              Range{base + 8, SIZE_MAX}, Range{base, SIZE_MAX}, Range{base + 65, 0},
              Range{base - 1, 0}}) {
            EXPECT_EQ(run(kind, remote_, range.address, range.bytes, 5),
                      OPAL_COMMON_ADAPTIB_BAD_PARAM)
                << "operation " << kind << ", offset "
                << static_cast<std::int64_t>(range.address - base) << ", " << range.bytes;
        }
    }
    EXPECT_TRUE(untouched());
    EXPECT_TRUE(messages_.empty());
    EXPECT_GE(put(0, 64), 0) << "nothing is broken";
}

TEST_P(OneSidedApi, AtomicsAreEightAlignedBytes) {
    for (const auto kind : {OPAL_COMMON_ADAPTIB_FETCH_ADD, OPAL_COMMON_ADAPTIB_COMPARE_SWAP}) {
        for (const std::size_t bytes : {0, 1, 2, 4, 7, 9, 16}) {
            EXPECT_EQ(run(kind, remote_, remote_.base, bytes, 5), OPAL_COMMON_ADAPTIB_BAD_PARAM)
                << bytes;
        }
        for (std::uint64_t offset = 1; offset < 8; ++offset) {
            EXPECT_EQ(run(kind, remote_, remote_.base + offset, 8, 5),
                      OPAL_COMMON_ADAPTIB_BAD_PARAM)
                << offset;
        }
    }
    EXPECT_TRUE(untouched());
    EXPECT_GE(run(OPAL_COMMON_ADAPTIB_FETCH_ADD, remote_, remote_.base + 8, 8, 7), 0);
    EXPECT_EQ(words_[5], 12u);
    EXPECT_EQ(local_[0], 5u);
}

TEST_P(OneSidedApi, EachOperationDoesWhatItSays) {
    ASSERT_GE(put(0, 0), 0);
    local_[0] = 77;
    ASSERT_GE(put(8, 8), 0); // the first one connects
    EXPECT_EQ(words_[5], 77u);
    at_once_ = 0;
    for (std::uint64_t round = 0; round < 50; ++round) {
        local_[0] = 1000 + round;
        local_[1] = 2000 + round;
        EXPECT_GE(put(16, 16), 0);
        EXPECT_EQ(words_[6], 1000 + round);
        EXPECT_EQ(words_[7], 2000 + round);
        local_[0] = local_[1] = local_[2] = 0;
        EXPECT_GE(run(OPAL_COMMON_ADAPTIB_GET, remote_, remote_.base + 16, 16), 0);
        EXPECT_EQ(local_[0], 1000 + round);
        EXPECT_EQ(local_[1], 2000 + round);
        EXPECT_EQ(local_[2], 0u);
        words_[8] = 30;
        EXPECT_GE(run(OPAL_COMMON_ADAPTIB_FETCH_ADD, remote_, remote_.base + 32, 8, round), 0);
        EXPECT_EQ(local_[0], 30u);
        EXPECT_EQ(words_[8], 30 + round);
        for (const bool equal : {false, true}) {
            const std::uint64_t before = words_[8];
            EXPECT_GE(run(OPAL_COMMON_ADAPTIB_COMPARE_SWAP, remote_, remote_.base + 32, 8, 9999,
                          equal ? before : before + 1),
                      0);
            EXPECT_EQ(local_[0], before);
            EXPECT_EQ(words_[8], equal ? 9999 : before);
        }
    }
    if (GetParam()) {
        EXPECT_EQ(at_once_, 250u) << "nothing stood in the way of any";
    }
    EXPECT_EQ(words_[3], 3u);
    EXPECT_EQ(words_[12], 12u);
}

// The local memory may have a region of its own or none: both are good for the fast path.
TEST_P(OneSidedApi, ALocalRegionMayBeGiven) {
    ASSERT_GE(put(0, 8), 0);
    opal_common_adaptib_remote_t unused{};
    opal_common_adaptib_region_t* local = nullptr;
    for (const std::uint32_t access : {0u, 1u, 4u}) {
        ASSERT_EQ(
            opal_common_adaptib_register(core_, local_, sizeof local_, access, &local, &unused),
            OPAL_COMMON_ADAPTIB_SUCCESS);
        words_[4] = 40 + access;
        EXPECT_EQ(now(OPAL_COMMON_ADAPTIB_GET, remote_, remote_.base, 8, 0, 0, local),
                  OPAL_COMMON_ADAPTIB_COMPLETE);
        EXPECT_EQ(local_[0], 40 + access);
        opal_common_adaptib_deregister(core_, local);
    }
}

// Memory that was registered, deregistered and unmapped, like a window that was freed.
TEST_P(OneSidedApi, MemoryThatIsGoneIsAnErrorAndNoCrash) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (const std::uint32_t access : {7u, 3u}) { // a window; memory of a transfer
        for (const auto kind : kOperations) {
            if (access == 3 && kind != OPAL_COMMON_ADAPTIB_PUT && kind != OPAL_COMMON_ADAPTIB_GET) {
                continue;
            }
            void* at =
                mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            ASSERT_NE(at, MAP_FAILED);
            opal_common_adaptib_remote_t remote{};
            opal_common_adaptib_region_t* made = nullptr;
            ASSERT_EQ(opal_common_adaptib_register(core_, at, page, access, &made, &remote),
                      OPAL_COMMON_ADAPTIB_SUCCESS);
            messages_.clear();
            ASSERT_GE(run(kind, remote, remote.base, 8), 0); // makes its key known
            opal_common_adaptib_deregister(core_, made);
            if (access == 7) {
                // Operations no longer reach the window, though its memory is still there.
                std::memset(at, 0x5a, page);
                local_[0] = 1;
                EXPECT_EQ(now(kind, remote, remote.base, 8, 1, 0x5a5a5a5a5a5a5a5a),
                          OPAL_COMMON_ADAPTIB_AGAIN);
                EXPECT_EQ(*static_cast<std::uint64_t*>(at), 0x5a5a5a5a5a5a5a5au);
                EXPECT_EQ(local_[0], 1u);
            }
            ASSERT_EQ(munmap(at, page), 0);
            EXPECT_EQ(now(kind, remote, remote.base, 8), OPAL_COMMON_ADAPTIB_AGAIN);
            // A window is looked up first; of a transfer's memory only the system knows.
            EXPECT_EQ(run(kind, remote, remote.base, 8),
                      access == 7 ? OPAL_COMMON_ADAPTIB_BAD_PARAM : OPAL_COMMON_ADAPTIB_FAULT);
            EXPECT_TRUE(messages_.empty());
            EXPECT_GE(put(0, 0), 0); // nothing else is broken
        }
    }
}

TEST_P(OneSidedApi, NothingMovesInZeroBytes) {
    EXPECT_GE(put(0, 0), 0);
    EXPECT_GE(put(64, 0), 0);
    EXPECT_GE(run(OPAL_COMMON_ADAPTIB_GET, remote_, remote_.base, 0), 0);
    EXPECT_TRUE(untouched());
}

TEST_P(OneSidedApi, RightsAreKept) {
    constexpr std::uint32_t kRights[] = {
        OPAL_COMMON_ADAPTIB_REMOTE_WRITE, OPAL_COMMON_ADAPTIB_REMOTE_READ,
        OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC, OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC};
    for (const std::uint32_t given : kRights) {
        const opal_common_adaptib_remote_t remote = region(words_ + 4, 64, given);
        for (std::size_t i = 0; i < std::size(kOperations); ++i) {
            std::memcpy(local_, words_ + 4, 8); // so that a put changes nothing
            const int code = run(kOperations[i], remote, remote.base, 8);
            if (kRights[i] == given) {
                EXPECT_GE(code, 0) << "operation " << i << ", given " << given;
            } else {
                EXPECT_EQ(code, OPAL_COMMON_ADAPTIB_BAD_PARAM) << "operation " << i;
            }
        }
    }
    EXPECT_TRUE(untouched());
}

TEST_P(OneSidedApi, MalformedDescriptionsAreRefused) {
    opal_common_adaptib_remote_t none = remote_;
    none.key_count = 0;
    opal_common_adaptib_remote_t many = remote_;
    many.key_count = 9;
    for (const auto kind : kOperations) {
        EXPECT_EQ(run(kind, none, none.base, 8), OPAL_COMMON_ADAPTIB_BAD_PARAM);
        EXPECT_EQ(run(kind, many, many.base, 8), OPAL_COMMON_ADAPTIB_BAD_PARAM);
    }
    EXPECT_TRUE(untouched());
}

TEST_P(OneSidedApi, ADescriptionThatPromisesTooMuchIsABadParameter) {
    opal_common_adaptib_remote_t more = remote_;
    more.bytes += 8;
    EXPECT_EQ(run(OPAL_COMMON_ADAPTIB_PUT, more, more.base, 72), OPAL_COMMON_ADAPTIB_BAD_PARAM);
    EXPECT_TRUE(untouched());
    EXPECT_TRUE(messages_.empty());
}

// Windows may overlap: an operation may use what one of them covers, with any window's description.
TEST_P(OneSidedApi, TheDescriptionOfAnotherWindowWillDo) {
    const opal_common_adaptib_remote_t other = region(words_, 32, 7);
    for (const auto kind : kOperations) {
        std::memcpy(local_, words_ + 4, 8); // so that a put changes nothing
        EXPECT_GE(run(kind, other, remote_.base, 8, words_[4], words_[4]), 0);
    }
    words_[4] = 4; // undoes the addition
    // A description with one half of each.
    opal_common_adaptib_remote_t torn = other;
    torn.base = remote_.base;
    torn.bytes = remote_.bytes;
    std::memcpy(local_, words_ + 4, 8);
    EXPECT_GE(run(OPAL_COMMON_ADAPTIB_PUT, torn, remote_.base, 8), 0);
    EXPECT_TRUE(untouched());
    EXPECT_EQ(run(OPAL_COMMON_ADAPTIB_PUT, other, remote_.base + 60, 8),
              OPAL_COMMON_ADAPTIB_BAD_PARAM)
        << "no window covers all of it";
    EXPECT_TRUE(messages_.empty());
}

// The region of all memory, for transfers, does not stand in for a window.
TEST_P(OneSidedApi, MemoryOfTransfersIsNoWindow) {
    region(words_, sizeof words_,
           OPAL_COMMON_ADAPTIB_REMOTE_READ | OPAL_COMMON_ADAPTIB_REMOTE_WRITE);
    EXPECT_EQ(run(OPAL_COMMON_ADAPTIB_PUT, remote_, remote_.base + 64, 8),
              OPAL_COMMON_ADAPTIB_BAD_PARAM);
    EXPECT_TRUE(untouched());
}

TEST_P(OneSidedApi, RegistrationsOfNothingAreRefusedOrHarmless) {
    opal_common_adaptib_remote_t remote{};
    opal_common_adaptib_region_t* made = nullptr;
    EXPECT_EQ(opal_common_adaptib_register(core_, words_, SIZE_MAX, 1, &made, &remote),
              OPAL_COMMON_ADAPTIB_BAD_PARAM);
    EXPECT_EQ(made, nullptr);
    remote = region(words_ + 4, 0, OPAL_COMMON_ADAPTIB_REMOTE_WRITE);
    EXPECT_GE(run(OPAL_COMMON_ADAPTIB_PUT, remote, remote.base, 0), 0);
    EXPECT_EQ(run(OPAL_COMMON_ADAPTIB_PUT, remote, remote.base, 1), OPAL_COMMON_ADAPTIB_BAD_PARAM);
    EXPECT_TRUE(untouched());
}

// The processes of a host have a fabric of their own, besides that of all. Atomics take the latter,
// unless the target executes them itself.
TEST(AtomicsOfTwoFabrics, GoOverThatOfAllProcesses) {
    static const bool several = false;
    const opal_common_adaptib_environment_t environment{};
    Process process(environment);
    alignas(8) std::uint64_t word = 0;
    for (const std::uint32_t emulated : {0u, 0u + OPAL_COMMON_ADAPTIB_ATOMICS_EMULATED}) {
        for (const auto kind : {OPAL_COMMON_ADAPTIB_FETCH_ADD, OPAL_COMMON_ADAPTIB_COMPARE_SWAP,
                                OPAL_COMMON_ADAPTIB_PUT}) {
            Options options;
            options.hosts = {5, 5};
            Cores world(2, options);
            Window window(world, 1, &word, sizeof word);
            window.remote.access |= emulated;
            opal_common_adaptib_core endpoint(process, 0, &several);
            endpoint.core.reset(&world.core(0));
            endpoint.protocol = &world.core(0).protocol();
            std::uint64_t here = 0;
            TestRequest request;
            const auto what = operation(kind, &here, window, 0, sizeof here);
            const int status = opal_common_adaptib_rma_start(
                &endpoint, handle_of(&endpoint, world.peer(0, 1)), &what, &request.user);
            static_cast<void>(endpoint.core.release()); // it is the world's
            EXPECT_GE(status, 0);
            EXPECT_EQ(world.core(0).peers().find_amo_peer(Cores::name(1)) != nullptr,
                      kind != OPAL_COMMON_ADAPTIB_PUT && emulated == 0)
                << kind << ' ' << emulated;
            EXPECT_TRUE(status == OPAL_COMMON_ADAPTIB_COMPLETE || world.run({&request}));
        }
    }
}

} // namespace
} // namespace adaptib::test
