// SPDX-License-Identifier: BSD-3-Clause
// Passing a descriptor over a Unix socket: which processes get it and from which, and what
// strangers can do.
#include "fabric/shm/descriptor_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <vector>

namespace adaptib::shm {
namespace {

constexpr std::uint64_t kKey = 0x1234'5678'9abc'def0;
constexpr std::uint32_t kFirst = 0x7e570000;
constexpr Nanoseconds kLong{10'000'000'000};
constexpr Nanoseconds kShort{20'000'000};

std::uint32_t self() { return static_cast<std::uint32_t>(getpid()); }

std::size_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// Waits until `count` descriptors are open: the server closes a request's descriptors only
// after its answer.
bool come_down_to(std::size_t count) {
    for (int i = 0; i < 1000 && open_descriptors() > count; ++i) {
        usleep(5000);
    }
    return open_descriptors() == count;
}

class Descriptors : public testing::Test {
protected:
    void SetUp() override {
        file_ = memfd_create("served", MFD_CLOEXEC);
        ASSERT_GE(file_, 0);
        server_ = DescriptorServer::start(file_, kKey, first_number());
        ASSERT_NE(server_, nullptr);
    }
    ~Descriptors() override { close(file_); }

    // Other processes may run the same test at the same time.
    static std::uint32_t first_number() { return kFirst ^ (self() << 8); }
    std::uint32_t number() const { return server_->number(); }
    bool is_served(int descriptor) const {
        struct stat mine {};
        struct stat got {};
        return fstat(file_, &mine) == 0 && fstat(descriptor, &got) == 0 &&
               mine.st_ino == got.st_ino && mine.st_dev == got.st_dev;
    }
    bool serves(std::uint32_t pid = self()) const {
        const int got = request_descriptor(number(), pid, kKey, kLong);
        const bool good = got >= 0 && is_served(got) && (fcntl(got, F_GETFD) & FD_CLOEXEC) != 0;
        close(got);
        return good;
    }
    // Sends the server bytes that are no request, with descriptors attached.
    void disturb(std::size_t bytes, const std::vector<int>& beside) const {
        sockaddr_un to{};
        to.sun_family = AF_UNIX;
        const int length =
            std::snprintf(to.sun_path + 1, sizeof to.sun_path - 1, "adaptib-%08x", number());
        std::vector<char> data(bytes + 1);
        iovec piece{data.data(), bytes};
        alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
        msghdr message{};
        message.msg_name = &to;
        message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path)) + 1 + length;
        message.msg_iov = &piece;
        message.msg_iovlen = 1;
        if (!beside.empty()) {
            message.msg_control = control;
            message.msg_controllen = CMSG_SPACE(beside.size() * sizeof(int));
            cmsghdr* part = CMSG_FIRSTHDR(&message);
            part->cmsg_level = SOL_SOCKET;
            part->cmsg_type = SCM_RIGHTS;
            part->cmsg_len = CMSG_LEN(beside.size() * sizeof(int));
            std::copy(beside.begin(), beside.end(), reinterpret_cast<int*>(CMSG_DATA(part)));
        }
        const int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(sendmsg(from, &message, 0), static_cast<ssize_t>(bytes));
        close(from);
    }

    int file_ = -1;
    std::unique_ptr<DescriptorServer> server_;
};

TEST_F(Descriptors, GoToWhoKnowsTheKey) {
    const std::size_t before = open_descriptors();
    for (int i = 0; i < 200; ++i) {
        ASSERT_TRUE(serves()) << i;
    }
    EXPECT_EQ(request_descriptor(number(), self(), kKey + 1, kLong), -1);
    EXPECT_EQ(errno, EKEYREJECTED);
    EXPECT_TRUE(serves());
    EXPECT_TRUE(come_down_to(before));
}

TEST_F(Descriptors, AreTakenFromTheRightProcessAlone) {
    const std::size_t before = open_descriptors();
    EXPECT_EQ(request_descriptor(number(), self() + 1, kKey, kLong), -1);
    EXPECT_EQ(errno, ECONNREFUSED);
    EXPECT_TRUE(come_down_to(before)) << "what it sent is not kept";
}

TEST_F(Descriptors, EndWithTheServer) {
    const std::uint32_t was = number();
    server_.reset();
    EXPECT_EQ(request_descriptor(was, self(), kKey, kLong), -1);
    EXPECT_EQ(errno, ECONNREFUSED);
    server_ = DescriptorServer::start(file_, kKey, was);
    ASSERT_NE(server_, nullptr);
    EXPECT_EQ(number(), was) << "the name is free again";
    EXPECT_TRUE(serves());
}

TEST_F(Descriptors, ANameThatIsTakenIsNotSharedWithAnother) {
    const int other_file = memfd_create("other", MFD_CLOEXEC);
    const auto other = DescriptorServer::start(other_file, kKey + 5, number());
    ASSERT_NE(other, nullptr);
    EXPECT_NE(other->number(), number());
    EXPECT_TRUE(serves());
    const int got = request_descriptor(other->number(), self(), kKey + 5, kLong);
    EXPECT_GE(got, 0);
    EXPECT_FALSE(is_served(got));
    close(got);
    close(other_file);
}

TEST_F(Descriptors, StrangersHoldNobodyUp) {
    const std::size_t before = open_descriptors();
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    for (int i = 0; i < 50; ++i) {
        disturb(16, {ends[1]});
        disturb(3, {});
        disturb(16, {ends[0], ends[1], ends[1], ends[0]});
        disturb(1000, {ends[1]});
    }
    EXPECT_TRUE(serves());
    close(ends[1]);
    char byte = 0;
    EXPECT_EQ(read(ends[0], &byte, 1), 0) << "nobody holds the other end";
    close(ends[0]);
    EXPECT_TRUE(come_down_to(before));
}

// Owner and asking process have different users, as when either has given up its rights.
TEST_F(Descriptors, GoToAProcessThatHasChangedItsUser) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "only root can become another user";
    }
    const std::uint32_t owner = self();
    const pid_t child = fork();
    if (child == 0) {
        _exit(setgid(65534) == 0 && setuid(65534) == 0 && serves(owner) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST_F(Descriptors, AChildEndsNothing) {
    const pid_t child = fork();
    if (child == 0) {
        server_.reset();
        _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(serves());
}

TEST_F(Descriptors, AreWaitedForSoLongOnly) {
    int told[2];
    ASSERT_EQ(pipe(told), 0);
    server_.reset();
    const pid_t child = fork();
    if (child == 0) {
        server_ = DescriptorServer::start(file_, kKey, first_number());
        const std::uint32_t at = server_ != nullptr ? number() : 0;
        static_cast<void>(!write(told[1], &at, sizeof at));
        pause();
    }
    std::uint32_t at = 0;
    ASSERT_EQ(read(told[0], &at, sizeof at), static_cast<ssize_t>(sizeof at));
    int status = 0;
    ASSERT_EQ(kill(child, SIGSTOP), 0);
    ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
    for (int i = 0; i < 20; ++i) { // more requests than the server's queue holds
        EXPECT_EQ(request_descriptor(at, static_cast<std::uint32_t>(child), kKey, kShort), -1);
        EXPECT_EQ(errno, EAGAIN);
    }
    ASSERT_EQ(kill(child, SIGCONT), 0);
    const int got = request_descriptor(at, static_cast<std::uint32_t>(child), kKey, kLong);
    EXPECT_GE(got, 0);
    EXPECT_TRUE(is_served(got));
    close(got);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    close(told[0]);
    close(told[1]);
}

TEST_F(Descriptors, WithoutRoomForThemThereIsAnErrorThatPasses) {
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit limit = before;
    limit.rlim_cur = 64;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    std::vector<int> taken;
    for (int fd = open("/dev/null", O_RDONLY); fd >= 0; fd = open("/dev/null", O_RDONLY)) {
        taken.push_back(fd);
    }
    for (int room = 0; room < 8 && !taken.empty(); ++room) {
        const int got = request_descriptor(number(), self(), kKey, kShort);
        EXPECT_TRUE(got >= 0 || errno == EMFILE || errno == EAGAIN) << room << ": " << errno;
        EXPECT_FALSE(got >= 0 && room < 3) << room;
        close(got);
        close(taken.back());
        taken.pop_back();
    }
    EXPECT_TRUE(serves());
    for (const int fd : taken) {
        close(fd);
    }
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

} // namespace
} // namespace adaptib::shm
