// SPDX-License-Identifier: BSD-3-Clause
// Segments of the shm fabric: allocation, limits, and that a peer maps only what an
// address tells it.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>

#include "base/clock.h"
#include "base/random.h"
#include "fabric/shm/process.h"
#include "fabric/shm/regions.h"
#include "fabric/shm/segment.h"
#include "fabric/shm/shm_fabric.h"
#include "fabric/shm/windows.h"

namespace adaptib::shm {
namespace {

SegmentOptions small() {
    SegmentOptions options;
    options.segment_max = 16 * kMiB;
    options.queue_bytes = 64 * kKiB;
    options.job_key = 5;
    return options;
}

std::unique_ptr<OwnSegment> create(const SegmentOptions& options = small()) {
    std::unique_ptr<OwnSegment> out;
    std::string error;
    EXPECT_TRUE(OwnSegment::create(options, out, error).ok()) << error;
    return out;
}

Status map(const RailAddress& address) {
    std::shared_ptr<PeerSegment> peer;
    return PeerSegment::open(address, 1, peer);
}

RailAddress changed(const RailAddress& address, void (*change)(WireAddress&)) {
    WireAddress wire{};
    EXPECT_TRUE(PeerSegment::decode(address, wire));
    change(wire);
    RailAddress out = address;
    std::memcpy(out.bytes.data(), &wire, sizeof wire);
    return out;
}

// True if `work` returns true in a child process that ends by itself.
template <class Work> testing::AssertionResult in_child(Work&& work) {
    const pid_t child = fork();
    if (child == 0) {
        _exit(work() ? 0 : 1);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        return testing::AssertionFailure() << "ended by signal " << WTERMSIG(status);
    }
    return WEXITSTATUS(status) == 0 ? testing::AssertionSuccess()
                                    : testing::AssertionFailure() << "the child says no";
}

// Makes the system refuse to map a shared mapping once more, as valgrind does.
bool forbid_windows() {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(Segment, ThatCannotBeMappedTwiceIsMappedAsAWhole) {
    EXPECT_TRUE(in_child([] {
        const auto segment = create();
        Bytes offset = 0;
        std::shared_ptr<PeerSegment> peer;
        if (!segment->allocate(1000, offset).ok() || !forbid_windows() ||
            !PeerSegment::open(segment->address(0), 1, peer).ok()) {
            return false;
        }
        std::byte* const there = peer->at(offset, 1000);
        if (Windows::can_make(segment->base()) || there == nullptr) {
            return false;
        }
        there[999] = std::byte{5};
        return segment->at(offset)[999] == std::byte{5};
    }));
}

// Pages of address space that this process uses.
Bytes pages_in_use() {
    std::ifstream file("/proc/self/statm");
    Bytes pages = 0;
    EXPECT_TRUE(file >> pages);
    return pages;
}

TEST(Windows, ReachTheEndOfTheirFileAndMapNoMoreThanIsWanted) {
    constexpr Bytes kPages = 4096;
    const Bytes page = page_bytes();
    const int fd = memfd_create("windows", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(fd, static_cast<off_t>(kPages * page)), 0);
    const char last = 'z';
    ASSERT_EQ(pwrite(fd, &last, 1, static_cast<off_t>(kPages * page - 1)), 1);
    void* const first = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ASSERT_NE(first, MAP_FAILED);
    auto* const base = static_cast<std::byte*>(first);
    if (Windows::can_make(base)) {
        Windows windows;
        windows.begin(base, page, kPages * page);
        const Bytes before = pages_in_use();
        const std::byte* const end = windows.at((kPages - 1) * page, page);
        EXPECT_LT(pages_in_use(), before + kPages / 4);
        ASSERT_NE(end, nullptr);
        EXPECT_EQ(end[page - 1], std::byte{'z'});
        EXPECT_EQ(windows.at((kPages - 1) * page, page + 1), nullptr);
        EXPECT_EQ(windows.at(page - 64, 128), nullptr);
    }
    munmap(first, page);
    close(fd);
}

TEST(Segment, BlocksAreAlignedZeroApartAndUsedAgain) {
    const auto segment = create();
    Random random(3);
    std::map<Bytes, Bytes> blocks;
    for (int i = 0; i < 20000; ++i) {
        if (blocks.size() < 50 && random.below(2) == 0) {
            const Bytes length = 1 + random.below(random.below(10) == 0 ? 100'000 : 500);
            Bytes offset = 0;
            ASSERT_TRUE(segment->allocate(length, offset).ok()) << segment->last_error_text();
            ASSERT_EQ(offset % kCacheLine, 0u);
            for (Bytes k = 0; k < length; ++k) {
                ASSERT_EQ(segment->at(offset)[k], std::byte{0});
            }
            std::memset(segment->at(offset), 0xff, length);
            const auto next = blocks.lower_bound(offset);
            ASSERT_TRUE(next == blocks.end() || offset + length <= next->first);
            ASSERT_TRUE(next == blocks.begin() ||
                        std::prev(next)->first + std::prev(next)->second <= offset);
            blocks[offset] = length;
        } else if (!blocks.empty()) {
            auto it = blocks.begin();
            std::advance(it, static_cast<std::ptrdiff_t>(random.below(blocks.size())));
            segment->release(it->first);
            blocks.erase(it);
        }
    }
    for (const auto& [offset, length] : blocks) {
        segment->release(offset);
    }
    EXPECT_EQ(segment->heap_in_use(), 0u);
    Bytes whole = 0; // freed neighbors have become one block again
    EXPECT_TRUE(segment->allocate(2 * kMiB, whole).ok()) << segment->last_error_text();
    EXPECT_EQ(whole, segment->header()->heap_offset);
}

TEST(Segment, BeingFullIsAStatusWithAText) {
    const auto segment = create();
    Bytes offset = 0;
    EXPECT_EQ(segment->allocate(64 * kMiB, offset), Status::error(Reason::no_memory));
    int blocks = 0;
    while (segment->allocate(kMiB, offset).ok()) {
        ASSERT_LT(++blocks, 16);
    }
    EXPECT_GE(blocks, 8);
    EXPECT_NE(segment->last_error_text().find("full"), std::string::npos);
    segment->release(offset);
    EXPECT_TRUE(segment->allocate(kMiB, offset).ok());
}

TEST(Segment, AFileSizeLimitIsNoSignal) {
    const auto limited = [](rlim_t bytes) {
        const rlimit limit{bytes, bytes};
        return setrlimit(RLIMIT_FSIZE, &limit) == 0;
    };
    EXPECT_TRUE(in_child([&] {
        std::unique_ptr<OwnSegment> out;
        std::string error;
        return limited(kMiB) &&
               OwnSegment::create(small(), out, error) == Status::error(Reason::no_memory) &&
               error.find("ulimit -f") != std::string::npos;
    }));
    EXPECT_TRUE(in_child([&] { // With room for some, allocations that fit succeed, then one fails.
        std::unique_ptr<OwnSegment> out;
        std::string error;
        Bytes offset = 0;
        return limited(8 * kMiB) && OwnSegment::create(small(), out, error).ok() &&
               out->allocate(kMiB, offset).ok() &&
               out->allocate(6 * kMiB, offset) == Status::error(Reason::no_memory);
    }));
}

TEST(Segment, OnlyWhatTheAddressSaysIsMapped) {
    const auto segment = create();
    const RailAddress good = segment->address(0);
    EXPECT_TRUE(map(good).ok());
    const Status unreachable = Status::error(Reason::unreachable);
    const Status gone = Status::error(Reason::peer_gone); // the descriptor is another file by now
    EXPECT_EQ(map(changed(good, [](WireAddress& w) { ++w.cookie; })), gone);
    EXPECT_EQ(map(changed(good, [](WireAddress& w) { w.fd = 0; })), gone);
    EXPECT_EQ(map(changed(good, [](WireAddress& w) { w.fd = 900; })), gone);
    EXPECT_EQ(map(changed(good, [](WireAddress& w) { w.rail = 1; })), unreachable);
    EXPECT_EQ(map(changed(good, [](WireAddress& w) { ++w.host; })), unreachable);
    EXPECT_EQ(map(changed(good, [](WireAddress& w) { ++w.version; })),
              Status::error(Reason::version));
    EXPECT_EQ(map(changed(good, [](WireAddress& w) { ++w.magic; })),
              Status::error(Reason::bad_argument));
    EXPECT_EQ(map(changed(good, [](WireAddress& w) { w.pid = 4'000'000'000u; })),
              Status::error(Reason::peer_gone));
    segment->header()->version = kLayoutVersion + 1;
    EXPECT_EQ(map(good), Status::error(Reason::version));
    segment->header()->version = kLayoutVersion;
    segment->header()->ring_granules = 1u << 30;
    EXPECT_EQ(map(good), unreachable) << "a ring beyond the segment";
}

// Segments of one process, one after the other, with the same descriptor.
TEST(Segment, KeysAndNamesOfServersNeverComeBack) {
    std::unordered_set<std::uint64_t> keys;
    std::unordered_set<std::uint32_t> names;
    for (int i = 0; i < 8; ++i) {
        const auto segment = create();
        const WireAddress wire = segment->wire_address(0);
        ASSERT_NE(wire.visibility.ways & kWayServer, 0u);
        EXPECT_TRUE(keys.insert(wire.cookie).second) << i;
        EXPECT_TRUE(names.insert(wire.visibility.server).second) << i;
    }
}

TEST(Segment, AChildThatWasForkedDoesNotCloseItsParents) {
    auto segment = create();
    std::shared_ptr<PeerSegment> peer;
    ASSERT_TRUE(PeerSegment::open(segment->address(0), 1, peer).ok());
    EXPECT_TRUE(in_child([&] {
        segment.reset();
        return true;
    }));
    EXPECT_FALSE(peer->gone());
    segment.reset();
    EXPECT_TRUE(peer->gone());
}

TEST(Segment, AKilledOwnerIsNoticedAndLeavesNothing) {
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    const pid_t child = fork();
    if (child == 0) {
        const auto mine = create();
        const RailAddress address = mine->address(0);
        const bool told = write(pipes[1], &address, sizeof address) == sizeof address;
        pause();
        _exit(told ? 0 : 1);
    }
    RailAddress address;
    ASSERT_EQ(read(pipes[0], &address, sizeof address), static_cast<ssize_t>(sizeof address));
    std::shared_ptr<PeerSegment> peer;
    ASSERT_TRUE(PeerSegment::open(address, 1, peer).ok());
    EXPECT_TRUE(peer->check_alive());
    kill(child, SIGKILL);
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    EXPECT_FALSE(peer->check_alive()) << "a zombie has ended";
    EXPECT_TRUE(peer->gone());
    EXPECT_EQ(map(address), Status::error(Reason::peer_gone));
    waitpid(child, nullptr, 0);
    EXPECT_EQ(map(address), Status::error(Reason::peer_gone));
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
        const std::string name = file.path().filename().string();
        EXPECT_TRUE(name.find("adaptib") == std::string::npos || name.starts_with("adaptib-hca"))
            << name << ", which is not another job's virtual adapter";
    }
    close(pipes[0]);
    close(pipes[1]);
}

TEST(Segment, ProducerSlotsComeBack) {
    const auto segment = create();
    for (int i = 0; i < 500; ++i) {
        ASSERT_TRUE(map(segment->address(0)).ok());
    }
    EXPECT_EQ(segment->header()->producers_end.load(), 1u);
}

// A process that is about to take a slot has not stored its start time yet; the slot counts as
// taken as long as that process lives.
TEST(Segment, ASlotThatIsBeingTakenIsLeftAlone) {
    const auto segment = create();
    std::shared_ptr<PeerSegment> first;
    ASSERT_TRUE(PeerSegment::open(segment->address(0), 1, first).ok());
    const auto pid = static_cast<std::uint32_t>(getpid());
    ProducerSlot* slots = producers_of(segment->base());
    for (std::uint32_t i = 1; i < kMaxProducers; ++i) {
        slots[i].start_time.store(process_start_time(pid));
        slots[i].owner.store(pid);
    }
    slots[7].start_time.store(0);
    slots[7].owner.store(pid | kSlotClaiming);
    EXPECT_EQ(map(segment->address(0)), Status::error(Reason::no_memory));
    const pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    slots[7].owner.store(static_cast<std::uint32_t>(child) | kSlotClaiming);
    EXPECT_EQ(map(segment->address(0)), kOk) << "its process has ended";
}

TEST(Regions, KeysOfDifferentGenerationsDiffer) {
    const auto segment = create();
    RegionTable table(segment.get());
    std::uint32_t first = 0;
    ASSERT_TRUE(table.add(4096, 100, 0, kLocalWrite, kPrivate, first).ok());
    table.remove(first);
    std::uint32_t second = 0;
    for (int i = 0; i < 40000; ++i) { // the generation wraps
        ASSERT_TRUE(table.add(4096, 100, 0, kLocalWrite, kPrivate, second).ok());
        ASSERT_NE(second, 0u);
        ASSERT_NE(second, ~0u);
        RegionView view;
        ASSERT_TRUE(read_region(regions_of(segment->base()), second, view));
        ASSERT_FALSE(read_region(regions_of(segment->base()), first, view)) << i;
        table.remove(second);
        ASSERT_FALSE(read_region(regions_of(segment->base()), second, view));
    }
}

// Each key names one region: the first 200,000 differ. (A generation has 15 bits, and the entry
// that was freed last is used first.)
TEST(Regions, KeysDoNotComeBackSoon) {
    const auto segment = create();
    RegionTable table(segment.get());
    std::unordered_set<std::uint32_t> seen;
    for (int i = 0; i < 200000; ++i) {
        std::uint32_t key = 0;
        ASSERT_TRUE(table.add(4096, 100, 0, kLocalWrite, kPrivate, key).ok());
        ASSERT_TRUE(seen.insert(key).second) << "registration " << i;
        table.remove(key);
    }
}

// Retired entries do not make the table smaller.
TEST(Regions, AFullTableUsesRetiredEntries) {
    const auto segment = create();
    RegionTable table(segment.get());
    std::uint32_t key = 0;
    for (int i = 0; i < RegionTable::kGenerations; ++i) {
        ASSERT_TRUE(table.add(4096, 100, 0, kLocalWrite, kPrivate, key).ok());
        table.remove(key);
    }
    const std::uint32_t retired = region_index(key);
    for (std::uint32_t i = 0; i + 1 < kMaxRegions; ++i) {
        ASSERT_TRUE(table.add(4096, 100, 0, kLocalWrite, kPrivate, key).ok()) << i;
        ASSERT_NE(region_index(key), retired);
    }
    ASSERT_TRUE(table.add(4096, 100, 0, kLocalWrite, kPrivate, key).ok());
    EXPECT_EQ(region_index(key), retired);
    EXPECT_EQ(table.add(4096, 100, 0, kLocalWrite, kPrivate, key),
              Status::error(Reason::no_memory));
}

TEST(Regions, AKeyBehindTheLastRegionNamesNone) {
    const auto segment = create();
    RegionTable table(segment.get());
    std::uint32_t key = 0;
    ASSERT_TRUE(table.add(4096, 100, 0, kLocalWrite, kPrivate, key).ok());
    EXPECT_NE(table.find(key), nullptr);
    EXPECT_EQ(table.find(key + 1), nullptr);
}

TEST(Regions, RangesDoNotWrap) {
    const RegionView view{{1, 1000, 100}, kPrivate};
    EXPECT_TRUE(view.covers(1000, 100));
    EXPECT_TRUE(view.covers(1100, 0));
    EXPECT_FALSE(view.covers(999, 1));
    EXPECT_FALSE(view.covers(1001, 100));
    EXPECT_FALSE(view.covers(1050, ~Bytes{0} - 10));
    EXPECT_FALSE(view.covers(~std::uint64_t{0}, 2));
}

TEST(Options, AreChecked) {
    MonotonicClock clock;
    std::unique_ptr<Fabric> out;
    std::string error;
    const auto open = [&](auto change) {
        ShmOptions options;
        options.clock = &clock;
        change(options);
        error.clear();
        return open_shm_fabric(options, out, error);
    };
    const Status bad = Status::error(Reason::bad_argument);
    EXPECT_EQ(open([](ShmOptions& o) { o.rails = 0; }), bad);
    EXPECT_EQ(open([](ShmOptions& o) { o.rails = 17; }), bad);
    EXPECT_EQ(open([](ShmOptions& o) { o.clock = nullptr; }), bad);
    EXPECT_EQ(open([](ShmOptions& o) { o.segment_max = kMiB; }), bad);
    EXPECT_FALSE(error.empty());
    EXPECT_EQ(out, nullptr);
    EXPECT_EQ(open([](ShmOptions& o) { o.rails = 16; }), kOk);
}

} // namespace
} // namespace adaptib::shm
