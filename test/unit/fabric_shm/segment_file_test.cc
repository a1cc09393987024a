// SPDX-License-Identifier: BSD-3-Clause
// Segments on a kernel without memfd_create, fallocate, or both: as usable, from another place, and
// with an error instead of a signal when memory runs out.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fabric/shm/segment.h"
#include "fabric/shm/segment_file.h"
#include "unit/fabric_shm/take_away.h"

namespace adaptib::shm {
namespace {

constexpr int kNoFilters = 77;

// Runs `work` in a child in which `calls` fail with `error`; failed expectations of `work` count.
// Skips the test where the system has no filters.
template <class Work> void without(const std::vector<long>& calls, int error, Work&& work) {
    const pid_t child = fork();
    if (child == 0) {
        for (const long call : calls) {
            if (!take_away(call, error)) {
                _exit(kNoFilters);
            }
        }
        work();
        _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
    if (WEXITSTATUS(status) == kNoFilters) {
        GTEST_SKIP() << "no seccomp filters here";
    }
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

SegmentOptions small() {
    SegmentOptions options;
    options.segment_max = 16 * kMiB;
    options.queue_bytes = 64 * kKiB;
    return options;
}

// Of the kind that segments have: other programs come and go meanwhile.
std::set<std::string> names_in_dev_shm() {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
        const std::string name = entry.path().filename();
        if (name.starts_with("adaptib-") && !name.starts_with("adaptib-hca")) {
            names.insert(name);
        }
    }
    return names;
}

// Creates a segment, maps it as a peer, writes to it and grows it.
void use_segment() {
    const std::set<std::string> before = names_in_dev_shm();
    std::string error;
    std::unique_ptr<OwnSegment> own;
    ASSERT_TRUE(OwnSegment::create(small(), own, error).ok()) << error;
    EXPECT_TRUE(error.empty());
    EXPECT_EQ(names_in_dev_shm(), before);
    WireAddress wire{};
    ASSERT_TRUE(PeerSegment::decode(own->address(0), wire));
    struct stat file {};
    ASSERT_EQ(fstat(static_cast<int>(wire.fd), &file), 0);
    EXPECT_EQ(file.st_mode & 0777, 0600u);
    EXPECT_EQ(file.st_nlink, 0u);
    EXPECT_NE(fcntl(static_cast<int>(wire.fd), F_GETFD) & FD_CLOEXEC, 0);

    std::shared_ptr<PeerSegment> peer;
    Obstacle obstacle;
    ASSERT_TRUE(PeerSegment::open(own->address(0), 7, peer, own->host(), obstacle).ok());
    Bytes offset = 0;
    ASSERT_TRUE(own->allocate(3 * kMiB, offset).ok()) << own->last_error_text();
    std::fill_n(own->at(offset), 3 * kMiB, std::byte{0x5a});
    std::byte* const seen = peer->at(offset, 3 * kMiB);
    ASSERT_NE(seen, nullptr);
    EXPECT_EQ(seen[2 * kMiB], std::byte{0x5a});
    seen[0] = std::byte{1};
    EXPECT_EQ(*own->at(offset), std::byte{1});
    Bytes sparse = 0;
    ASSERT_TRUE(own->allocate_sparse(kMiB, kPage, sparse).ok()) << own->last_error_text();
    ASSERT_TRUE(peer->commit(sparse + kPage, 100 * kKiB).ok());
    std::fill_n(peer->at(sparse, kMiB), 100 * kKiB, std::byte{2});
    EXPECT_EQ(own->at(sparse)[99 * kKiB], std::byte{2});
    EXPECT_GE(fstat(static_cast<int>(wire.fd), &file), 0);
    EXPECT_GE(static_cast<Bytes>(file.st_blocks) * 512, 3 * kMiB);
    EXPECT_LT(static_cast<Bytes>(file.st_blocks) * 512, 8 * kMiB) << "memory is taken as needed";
}

TEST(SegmentFile, IsAMemfdWhereThereAreSuch) {
    SegmentFile file;
    std::string error;
    ASSERT_TRUE(open_segment_file(1, 2, file, error).ok()) << error;
    char target[64] = {};
    const std::string link = "/proc/self/fd/" + std::to_string(file.fd);
    EXPECT_GT(readlink(link.c_str(), target, sizeof target - 1), 0);
    EXPECT_TRUE(std::string(target).starts_with("/memfd:adaptib-1-2")) << target;
    EXPECT_FALSE(file.in_dev_shm);
    close(file.fd);
}

// ENOSYS comes from old kernels and newer container profiles, EPERM from older profiles.
TEST(SegmentFile, ASegmentWithoutMemfd) {
    for (const int error : {ENOSYS, EPERM}) {
        without({SYS_memfd_create}, error, use_segment);
    }
}

// Makes the system refuse files without a name, as kernels before 3.11 and some file systems do.
bool refuse_nameless_files(int error) {
    constexpr bool kLowHalfFirst = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    constexpr unsigned kFlags = offsetof(seccomp_data, args[2]) + (kLowHalfFirst ? 0 : 4);
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFlags),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(SegmentFile, ASegmentWithoutMemfdAndFilesWithoutAName) {
    for (const int error : {EISDIR, EOPNOTSUPP, ENOENT}) {
        without({SYS_memfd_create}, ENOSYS, [error] {
            EXPECT_TRUE(refuse_nameless_files(error));
            use_segment();
        });
    }
}

TEST(SegmentFile, ASegmentWithoutFallocate) {
    for (const int error : {ENOSYS, EPERM, EOPNOTSUPP}) {
        without({SYS_fallocate}, error, use_segment);
    }
}

TEST(SegmentFile, ASegmentWithoutEither) {
    without({SYS_memfd_create, SYS_fallocate}, ENOSYS, use_segment);
}

// Committing memory again keeps its content, page by page and word by word: another process may
// store there meanwhile.
TEST(SegmentFile, MemoryThatIsTakenAgainKeepsWhatItHolds) {
    without({SYS_fallocate}, ENOSYS, [] {
        constexpr Bytes kLength = 64 * 4096;
        const int fd = memfd_create("test", MFD_CLOEXEC);
        ASSERT_EQ(ftruncate(fd, kLength), 0);
        void* const at = mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        ASSERT_NE(at, MAP_FAILED);
        ASSERT_EQ(commit_file(fd, 4096, 100), 0);
        struct stat file {};
        ASSERT_EQ(fstat(fd, &file), 0);
        EXPECT_EQ(file.st_blocks, 8) << "one page";
        auto* const words = static_cast<std::uint64_t*>(at);
        std::fill_n(words, kLength / 8, 0x0123456789abcdefu);
        ASSERT_EQ(commit_file(fd, 0, kLength), 0);
        EXPECT_TRUE(std::all_of(words, words + kLength / 8,
                                [](std::uint64_t word) { return word == 0x0123456789abcdefu; }));
    });
}

// A file has no memory behind its end: a store there ends the process by SIGBUS.
TEST(SegmentFile, NoMemoryIsAnErrorAndNoSignal) {
    without({SYS_fallocate}, ENOSYS, [] {
        const int fd = memfd_create("test", MFD_CLOEXEC);
        ASSERT_EQ(ftruncate(fd, 4096), 0);
        EXPECT_EQ(commit_file(fd, 0, 4096), 0);
        EXPECT_EQ(commit_file(fd, 4096, 4096), ENOSPC);
    });
}

// Gives this process a /dev/shm of its own. Returns false if that is not allowed (only root may).
bool own_dev_shm(const char* options) {
    return unshare(CLONE_NEWNS) == 0 &&
           mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("none", "/dev/shm", "tmpfs", 0, options) == 0;
}

TEST(SegmentFile, AFullDevShmIsSaidByName) {
    for (const bool has_fallocate : {true, false}) {
        without({}, 0, [&] {
            if (!own_dev_shm("size=2m")) {
                _exit(kNoFilters);
            }
            ASSERT_TRUE(take_away(SYS_memfd_create, ENOSYS));
            ASSERT_TRUE(has_fallocate || take_away(SYS_fallocate, ENOSYS));
            std::string error;
            std::unique_ptr<OwnSegment> own;
            ASSERT_TRUE(OwnSegment::create(small(), own, error).ok()) << error;
            Bytes offset = 0;
            EXPECT_EQ(own->allocate(4 * kMiB, offset), Status::error(Reason::no_memory));
            EXPECT_NE(own->last_error_text().find("No space left on device"), std::string::npos);
            EXPECT_NE(own->last_error_text().find("/dev/shm"), std::string::npos)
                << own->last_error_text();
            EXPECT_NE(own->last_error_text().find("--shm-size"), std::string::npos);
            // The memory that is there remains in use.
            EXPECT_TRUE(own->allocate(100'000, offset).ok()) << own->last_error_text();
        });
    }
}

// A block that was used has to be cleared, and the system makes no holes: more than the first part
// needs memory then, of which there is too little.
TEST(SegmentFile, ABlockThatCannotBeClearedIsRefused) {
    without({}, 0, [] {
        if (!own_dev_shm("size=2m")) {
            _exit(kNoFilters);
        }
        ASSERT_TRUE(take_away(SYS_memfd_create, ENOSYS));
        ASSERT_TRUE(take_away(SYS_fallocate, ENOSYS));
        std::string error;
        std::unique_ptr<OwnSegment> own;
        ASSERT_TRUE(OwnSegment::create(small(), own, error).ok()) << error;
        Bytes offset = 0;
        ASSERT_TRUE(own->allocate_sparse(4 * kMiB, 100'000, offset).ok()) << own->last_error_text();
        own->release(offset);
        EXPECT_EQ(own->allocate_sparse(4 * kMiB, 100'000, offset),
                  Status::error(Reason::no_memory));
        EXPECT_NE(own->last_error_text().find("No space left"), std::string::npos);
    });
}

// /dev/shm has no room for the header either.
TEST(SegmentFile, ADevShmWithoutAPageIsAnError) {
    for (const bool has_fallocate : {true, false}) {
        without({}, 0, [&] {
            if (!own_dev_shm("size=64k")) {
                _exit(kNoFilters);
            }
            const int filler = open("/dev/shm/filler", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
            const std::vector<char> page(4096);
            while (write(filler, page.data(), page.size()) > 0) {
            }
            ASSERT_EQ(errno, ENOSPC);
            ASSERT_TRUE(take_away(SYS_memfd_create, ENOSYS));
            ASSERT_TRUE(has_fallocate || take_away(SYS_fallocate, ENOSYS));
            std::string error;
            std::unique_ptr<OwnSegment> own;
            EXPECT_EQ(OwnSegment::create(small(), own, error), Status::error(Reason::no_memory));
            EXPECT_NE(error.find("/dev/shm"), std::string::npos) << error;
        });
    }
}

TEST(SegmentFile, WhereNothingHelpsTheCallAndTheRemediesAreNamed) {
    without({}, 0, [] {
        if (!own_dev_shm("size=2m") ||
            mount("none", "/dev/shm", nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
            _exit(kNoFilters);
        }
        ASSERT_TRUE(take_away(SYS_memfd_create, ENOSYS));
        std::string error;
        std::unique_ptr<OwnSegment> own;
        EXPECT_EQ(OwnSegment::create(small(), own, error), Status::error(Reason::not_supported));
        for (const char* word : {"memfd_create: Function not implemented", "/dev/shm",
                                 "Read-only file system", "seccomp profile", "mount a tmpfs"}) {
            EXPECT_NE(error.find(word), std::string::npos) << error;
        }
    });
}

} // namespace
} // namespace adaptib::shm
