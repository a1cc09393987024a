// SPDX-License-Identifier: BSD-3-Clause
// Passing a descriptor over a Unix socket: which processes get it and from which, and what
// strangers can do.
#include "fabric/shm/descriptor_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "unit/fabric_shm/take_away.h"
#include "unit/sanitizers.h"

namespace adaptib::shm {
namespace {

constexpr std::uint64_t kKey = 0x1234'5678'9abc'def0;
constexpr ServerKeys kKeys{kKey, 0xfedc'ba98'7654'3210};
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
        const std::set<std::string> before = threads();
        sigset_t blocked;
        sigset_t since;
        ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &blocked), 0);
        server_ = DescriptorServer::start(file_, kKeys, first_number());
        ASSERT_NE(server_, nullptr);
        ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &since), 0);
        for (int signal = 1; signal < NSIG; ++signal) {
            ASSERT_EQ(sigismember(&since, signal), sigismember(&blocked, signal)) << signal;
        }
        for (const std::string& each : threads()) {
            thread_ = before.count(each) == 0 ? each : thread_;
        }
    }
    ~Descriptors() override { close(file_); }

    // Other processes may run the same test at the same time.
    static std::set<std::string> threads() {
        std::set<std::string> all;
        for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
            all.insert(each.path().string());
        }
        return all;
    }
    // How often the server's thread has gone to sleep.
    std::uint64_t sleeps() const {
        std::ifstream status(thread_ + "/status");
        std::string word;
        std::uint64_t count = 0;
        while (status >> word && word != "voluntary_ctxt_switches:") {
        }
        EXPECT_TRUE(status >> count) << thread_;
        return count;
    }
    static std::uint32_t first_number() { return kFirst ^ (self() << 8); }
    std::uint32_t number() const { return server_->number(); }
    bool is_served(int descriptor) const {
        struct stat mine {};
        struct stat got {};
        return fstat(file_, &mine) == 0 && fstat(descriptor, &got) == 0 &&
               mine.st_ino == got.st_ino && mine.st_dev == got.st_dev;
    }
    bool serves() const {
        const int got = request_descriptor(number(), kKeys, kLong);
        const bool good = got >= 0 && is_served(got) && (fcntl(got, F_GETFD) & FD_CLOEXEC) != 0;
        close(got);
        return good;
    }
    // Sends the server `bytes` bytes, of which the second eight are `key`, with descriptors
    // attached. Returns 0 or an errno.
    int post(std::size_t bytes, std::uint64_t key, const std::vector<int>& beside) const {
        sockaddr_un to{};
        to.sun_family = AF_UNIX;
        const int length =
            std::snprintf(to.sun_path + 1, sizeof to.sun_path - 1, "adaptib-%08x", number());
        std::vector<char> data(bytes + 2 * sizeof key);
        std::memcpy(data.data() + sizeof key, &key, sizeof key);
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
        const int error = sendmsg(from, &message, MSG_DONTWAIT) < 0 ? errno : 0;
        close(from);
        return error;
    }
    // Ends the server; returns how long that took.
    std::chrono::milliseconds time_of_end() {
        const auto start = std::chrono::steady_clock::now();
        server_.reset();
        return std::chrono::duration_cast<std::chrono::milliseconds>(
            std::chrono::steady_clock::now() - start);
    }

    int file_ = -1;
    std::unique_ptr<DescriptorServer> server_;
    std::string thread_; // the server's, below /proc
};

constexpr std::size_t kRequestBytes = 16;
constexpr std::uint64_t kWrongKey = kKey + 1;

// Runs `work` in a child that is another user; returns whether it returned true.
bool holds_for_stranger(const std::function<bool()>& work) {
    const pid_t child = fork();
    if (child == 0) {
        _exit(setgid(65534) == 0 && setuid(65534) == 0 && work() ? 0 : 1);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The listening end of TCP connections whose data nobody takes.
class DeafListener {
public:
    static constexpr int kLinger = 8; // seconds

    DeafListener() {
        socklen_t length = sizeof address_;
        address_.sin_family = AF_INET;
        address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(bind(listener_, at(), sizeof address_), 0);
        EXPECT_EQ(listen(listener_, 4), 0);
        EXPECT_EQ(getsockname(listener_, at(), &length), 0);
    }
    ~DeafListener() { close(listener_); }
    DeafListener(const DeafListener&) = delete;
    DeafListener& operator=(const DeafListener&) = delete;

    // A connection; close() of its last descriptor sleeps for kLinger. -1: the system refuses.
    int connect() const {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const linger wait{1, kLinger};
        std::vector<char> data(64 * 1024);
        if (::connect(fd, at(), sizeof address_) != 0 ||
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &wait, sizeof wait) != 0) {
            return -1;
        }
        while (send(fd, data.data(), data.size(), MSG_DONTWAIT) > 0) {
        }
        return fd;
    }

private:
    sockaddr* at() const { return reinterpret_cast<sockaddr*>(&address_); }

    int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    mutable sockaddr_in address_{};
};

TEST_F(Descriptors, GoToWhoKnowsTheKey) {
    const std::size_t before = open_descriptors();
    for (int i = 0; i < 200; ++i) {
        ASSERT_TRUE(serves()) << i;
    }
    for (int bit = 0; bit < 64; ++bit) {
        const std::uint64_t wrong = kKey ^ std::uint64_t{1} << bit;
        EXPECT_EQ(request_descriptor(number(), {wrong, kKeys.answer}, kLong), -1) << bit;
        EXPECT_EQ(errno, EAGAIN);
    }
    EXPECT_TRUE(serves());
    EXPECT_TRUE(come_down_to(before));
}

// A stranger who has the name, and gets a request, does not know the answer key.
TEST_F(Descriptors, AreTakenFromWhoKnowsTheAnswerKeyAlone) {
    const std::size_t before = open_descriptors();
    for (int bit = 0; bit < 64; ++bit) {
        const std::uint64_t wrong = kKeys.answer ^ std::uint64_t{1} << bit;
        EXPECT_EQ(request_descriptor(number(), {kKey, wrong}, kLong), -1) << bit;
        EXPECT_EQ(errno, EAGAIN);
    }
    EXPECT_TRUE(come_down_to(before)) << "what it sent is not kept";
}

TEST_F(Descriptors, EndWithTheServer) {
    const std::uint32_t was = number();
    server_.reset();
    EXPECT_EQ(request_descriptor(was, kKeys, kLong), -1);
    EXPECT_EQ(errno, ECONNREFUSED);
    server_ = DescriptorServer::start(file_, kKeys, was);
    ASSERT_NE(server_, nullptr);
    EXPECT_EQ(number(), was) << "the name is free again";
    EXPECT_TRUE(serves());
}

TEST_F(Descriptors, ANameThatIsTakenIsNotSharedWithAnother) {
    const int other_file = memfd_create("other", MFD_CLOEXEC);
    const auto other = DescriptorServer::start(other_file, {kKey + 5, 7}, number());
    ASSERT_NE(other, nullptr);
    EXPECT_NE(other->number(), number());
    EXPECT_TRUE(serves());
    const int got = request_descriptor(other->number(), {kKey + 5, 7}, kLong);
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
        EXPECT_EQ(post(kRequestBytes, kWrongKey, {ends[1]}), 0);
        EXPECT_EQ(post(3, kKey, {}), 0);
        EXPECT_EQ(post(kRequestBytes, kWrongKey, {ends[0], ends[1], ends[1], ends[0]}), 0);
        EXPECT_EQ(post(1000, kKey, {ends[1]}), 0);
    }
    EXPECT_TRUE(serves());
    close(ends[1]);
    char byte = 0;
    EXPECT_EQ(read(ends[0], &byte, 1), 0) << "nobody holds the other end";
    close(ends[0]);
    EXPECT_TRUE(come_down_to(before));
}

TEST_F(Descriptors, AStrangerWakesNobody) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "only root can become another user";
    }
    EXPECT_TRUE(serves());
    usleep(100'000); // it sleeps again
    const std::uint64_t before = sleeps();
    EXPECT_TRUE(holds_for_stranger([&] {
        for (int i = 0; i < 1000; ++i) {
            if (post(kRequestBytes, kWrongKey + static_cast<std::uint64_t>(i), {}) != 0 ||
                post(static_cast<std::size_t>(i % 100), kWrongKey, {}) != 0) {
                return false;
            }
        }
        return request_descriptor(number(), {kWrongKey, kKeys.answer}, kLong) == -1 &&
               errno == EAGAIN;
    }));
    EXPECT_EQ(sleeps(), before);
    EXPECT_TRUE(serves());
    usleep(100'000);
    EXPECT_GT(sleeps(), before);
}

TEST_F(Descriptors, AStrangersDescriptorDelaysNoEnd) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "only root can become another user";
    }
    const DeafListener deaf;
    EXPECT_TRUE(holds_for_stranger([&] {
        const int slow = deaf.connect();
        return slow >= 0 && post(kRequestBytes, kWrongKey, {slow}) == 0;
    }));
    EXPECT_LT(time_of_end(), std::chrono::milliseconds(900));
}

// Owner and asking process have different users, as when either has given up its rights.
TEST_F(Descriptors, GoToAProcessThatHasChangedItsUser) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "only root can become another user";
    }
    EXPECT_TRUE(holds_for_stranger([&] { return serves(); }));
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

// A program may close descriptors that are not its own: others may get their numbers.
TEST_F(Descriptors, AProgramThatClosesTheirSocketEndsTheirServer) {
    if (test::kTsan) {
        GTEST_SKIP() << "closing what another thread reads from is a race, as programs make them";
    }
    const int next = dup(file_);
    close(next);
    const auto other = DescriptorServer::start(file_, kKeys, first_number());
    ASSERT_NE(other, nullptr);
    int type = 0;
    socklen_t size = sizeof type;
    ASSERT_EQ(getsockopt(next, SOL_SOCKET, SO_TYPE, &type, &size), 0) << "it is the server's";
    const std::size_t before = threads().size();
    close(next);
    // The thread that waits for a request takes it, and finds the socket gone at its next one.
    close(request_descriptor(other->number(), kKeys, kLong));
    for (int i = 0; i < 1000 && threads().size() == before; ++i) {
        usleep(1000);
    }
    EXPECT_EQ(threads().size(), before - 1);
    EXPECT_TRUE(serves()) << "the other one does";
}

TEST_F(Descriptors, AProgramThatShutsTheirSocketDownEndsTheirServer) {
    const int next = dup(file_);
    close(next);
    const auto other = DescriptorServer::start(file_, kKeys, first_number());
    ASSERT_NE(other, nullptr);
    const std::size_t before = threads().size();
    ASSERT_EQ(shutdown(next, SHUT_RDWR), 0);
    for (int i = 0; i < 1000 && threads().size() == before; ++i) {
        usleep(1000);
    }
    EXPECT_EQ(threads().size(), before - 1);
    EXPECT_TRUE(serves()) << "the other one does";
}

// A seccomp profile may refuse the filters that keep strangers away.
TEST_F(Descriptors, WithoutFiltersForSocketsTheyAreNotServedAndNothingStaysOpen) {
    const std::uint32_t served = number();
    const pid_t child = fork();
    if (child == 0) {
        server_.reset();
        EXPECT_TRUE(take_away(SYS_setsockopt, EPERM));
        const std::size_t before = open_descriptors();
        EXPECT_EQ(DescriptorServer::start(file_, kKeys, first_number()), nullptr);
        EXPECT_EQ(errno, EPERM);
        EXPECT_EQ(request_descriptor(served, kKeys, kShort), -1);
        EXPECT_EQ(errno, EPERM);
        EXPECT_EQ(open_descriptors(), before);
        _exit(testing::Test::HasFailure() ? 1 : 0);
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
        server_ = DescriptorServer::start(file_, kKeys, first_number());
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
        EXPECT_EQ(request_descriptor(at, kKeys, kShort), -1);
        EXPECT_EQ(errno, EAGAIN);
    }
    ASSERT_EQ(kill(child, SIGCONT), 0);
    const int got = request_descriptor(at, kKeys, kLong);
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
        const int got = request_descriptor(number(), kKeys, kShort);
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
