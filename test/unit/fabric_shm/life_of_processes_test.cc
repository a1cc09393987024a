// SPDX-License-Identifier: BSD-3-Clause
// A process lives as long as one of its threads: with pidfds, where the system refuses pidfds, and
// where /proc is not mounted.
#include <gtest/gtest.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "fabric/shm/process.h"
#include "fabric/shm/segment.h"
#include "unit/fabric_shm/node.h"

namespace adaptib::test {
namespace {

using shm::CopyResult;
using shm::Direction;
using shm::process_alive;
using shm::process_start_time;

// Returns the state of the first thread, from /proc.
char state_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::size_t end = text.rfind(')');
    return end == std::string::npos ? '?' : text[end + 2];
}

// A child whose first thread has ended while a second one does `work`; it ends with the pipe.
struct Headless {
    pid_t pid = -1;
    int to = -1;
    int from = -1;

    explicit Headless(const std::function<void(int in, int out)>& work) {
        int down[2];
        int up[2];
        EXPECT_EQ(pipe(down), 0);
        EXPECT_EQ(pipe(up), 0);
        pid = fork();
        if (pid == 0) {
            close(down[1]);
            close(up[0]);
            std::thread([=] {
                work(down[0], up[1]);
                _exit(0);
            }).detach();
            syscall(SYS_exit, 0); // not pthread_exit, which would unwind into the test's frames
        }
        close(down[0]);
        close(up[1]);
        to = down[1];
        from = up[0];
        while (state_of(pid) != 'Z' && state_of(pid) != '?') {
            sched_yield();
        }
        EXPECT_EQ(state_of(pid), 'Z');
    }
    ~Headless() {
        close(to);
        close(from);
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
    }
    std::uint32_t number() const { return static_cast<std::uint32_t>(pid); }
};

void wait_for_end(int in, int) {
    char byte = 0;
    static_cast<void>(!read(in, &byte, 1));
}

bool forbid_pidfds(int error) {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
           syscall(SYS_pidfd_open, getpid(), 0u) < 0 && errno == error;
}

bool leave_proc() {
    char directory[] = "/tmp/adaptib-no-proc-XXXXXX";
    const bool may = geteuid() == 0 || unshare(CLONE_NEWUSER) == 0;
    if (!may || mkdtemp(directory) == nullptr) {
        return false;
    }
    // Nobody can remove it afterwards.
    const bool entered = chdir(directory) == 0;
    return rmdir(directory) == 0 && entered && chroot(".") == 0 && access("/proc", F_OK) != 0;
}

// Prepares a child and evaluates `holds` in it.
testing::AssertionResult in_child(const std::function<bool()>& prepare,
                                  const std::function<bool()>& holds) {
    const pid_t child = fork();
    if (child == 0) {
        _exit(!prepare() ? 2 : holds() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return testing::AssertionSuccess();
    }
    return testing::AssertionFailure()
           << (WIFEXITED(status) && WEXITSTATUS(status) == 2 ? "the child could not be prepared"
                                                             : "it does not hold in the child");
}

bool nothing() { return true; }
bool unknown_call() { return forbid_pidfds(ENOSYS); }
bool refused_call() { return forbid_pidfds(EPERM); }
bool without_proc() { return leave_proc(); }
bool without_both() { return leave_proc() && forbid_pidfds(ENOSYS); }

TEST(LifeOfProcesses, EndsWithTheLastThread) {
    const Headless process(wait_for_end);
    const std::uint64_t start = process_start_time(process.number());
    ASSERT_NE(start, 0u);
    for (const auto& prepare : {nothing, unknown_call, refused_call}) {
        EXPECT_TRUE(in_child(prepare, [&] { return process_alive(process.number(), start); }));
        EXPECT_TRUE(in_child(prepare, [&] { return !process_alive(process.number(), start + 1); }))
            << "the number was used again";
    }
    ASSERT_EQ(kill(process.pid, SIGKILL), 0);
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, process.number(), &info, WEXITED | WNOWAIT), 0);
    for (const auto& prepare : {nothing, unknown_call, refused_call, without_proc}) {
        EXPECT_TRUE(in_child(prepare, [&] { return !process_alive(process.number(), start); }))
            << "a zombie has ended";
    }
    ASSERT_EQ(waitpid(process.pid, nullptr, 0), process.pid);
    for (const auto& prepare : {nothing, unknown_call, refused_call, without_proc, without_both}) {
        EXPECT_TRUE(in_child(prepare, [&] { return !process_alive(process.number(), start); }));
    }
}

TEST(LifeOfProcesses, GoesOnWhereProcIsNotMounted) {
    const auto self = static_cast<std::uint32_t>(getpid());
    const std::uint64_t start = process_start_time(self);
    const Headless process(wait_for_end);
    const std::uint64_t other = process_start_time(process.number());
    for (const auto& prepare : {without_proc, without_both}) {
        EXPECT_TRUE(in_child(prepare, [&] { return process_alive(self, start); }));
        EXPECT_TRUE(in_child(prepare, [&] { return process_alive(process.number(), other); }));
    }
}

TEST(LifeOfProcesses, MemoryIsReachedByALivingThread) {
    std::uint64_t word = 4711;
    const Headless process(wait_for_end);
    std::uint64_t copy = 0;
    const Gather gather{&copy, sizeof copy, 0};
    const auto remote = reinterpret_cast<std::uintptr_t>(&word);
    EXPECT_EQ(shm::copy_memory(Direction::from_peer, process.number(), remote, {&gather, 1}, 0, 8),
              CopyResult::ok);
    EXPECT_EQ(copy, 4711u);
    ASSERT_EQ(kill(process.pid, SIGKILL), 0);
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, process.number(), &info, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(shm::copy_memory(Direction::from_peer, process.number(), remote, {&gather, 1}, 0, 8),
              CopyResult::gone);
}

// The system does not say which thread lives if the process has no file descriptor left.
TEST(LifeOfProcesses, WithoutADescriptorTheOwnerOfMemoryIsNotTakenForGone) {
    std::uint64_t word = 4711;
    const Headless process(wait_for_end);
    std::uint64_t copy = 0;
    const Gather gather{&copy, sizeof copy, 0};
    const auto remote = reinterpret_cast<std::uintptr_t>(&word);
    const auto try_it = [&] {
        return shm::copy_memory(Direction::from_peer, process.number(), remote, {&gather, 1}, 0, 8);
    };
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{0, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const CopyResult result = try_it();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(result, CopyResult::fault);
    EXPECT_EQ(try_it(), CopyResult::ok) << "with descriptors again";
    ASSERT_EQ(kill(process.pid, SIGKILL), 0);
    ASSERT_EQ(waitpid(process.pid, nullptr, 0), process.pid);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const CopyResult ended = try_it();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(ended, CopyResult::gone);
}

// The second thread has a fabric: each process maps the other's segment and connects,
// and both move data.
TEST(LifeOfProcesses, AFabricWorksWithoutTheFirstThread) {
    Node here;
    QueuePair* qp = here.ok ? here.add_qp(QpType::rc) : nullptr;
    ASSERT_NE(qp, nullptr);
    const Headless process([](int in, int out) {
        Node node;
        QueuePair* own = node.ok ? node.add_qp(QpType::rc) : nullptr;
        Card peer;
        while (state_of(getpid()) != 'Z') {
            sched_yield();
        }
        const Card card = own == nullptr ? Card{} : card_of(node);
        const bool told = write(out, &card, sizeof card) == sizeof card;
        if (own == nullptr || !told || read(in, &peer, sizeof peer) != sizeof peer) {
            _exit(1);
        }
        node.words[0] = 5;
        const Gather gather{node.words.data(), 8, node.own->local_key()};
        const bool good = Node::connect(*own, peer.address, peer.qp[0]) &&
                          node.run(*own, Node::rdma(Opcode::write, gather, peer.own,
                                                    peer.own_key)) == WorkStatus::success;
        if (!good || write(out, &good, sizeof good) != sizeof good) {
            _exit(1);
        }
        std::thread listener([in, out] {
            wait_for_end(in, out);
            _exit(0);
        });
        WorkCompletion done;
        for (;;) {
            node.cq->poll({&done, 1});
        }
    });
    Card card;
    ASSERT_EQ(read(process.from, &card, sizeof card), static_cast<ssize_t>(sizeof card));
    ASSERT_NE(card.qp[0], 0u);
    ASSERT_TRUE(Node::connect(*qp, card.address, card.qp[0]));
    const Card own = card_of(here);
    ASSERT_EQ(write(process.to, &own, sizeof own), static_cast<ssize_t>(sizeof own));
    bool good = false;
    ASSERT_EQ(read(process.from, &good, sizeof good), static_cast<ssize_t>(sizeof good));
    EXPECT_EQ(here.words[0], 5u);
    std::uint64_t& word = here.words[1];
    const Gather gather{&word, sizeof word, here.own->local_key()};
    for (const auto& [address, key] :
         {std::pair{card.own, card.own_key}, std::pair{card.shared, card.shared_key}}) {
        word = 40;
        EXPECT_EQ(here.run(*qp, Node::rdma(Opcode::write, gather, address, key)),
                  WorkStatus::success);
        SendWork add = Node::rdma(Opcode::fetch_add, gather, address, key);
        add.compare_add = 2;
        EXPECT_EQ(here.run(*qp, add), WorkStatus::success);
        EXPECT_EQ(here.run(*qp, Node::rdma(Opcode::read, gather, address, key)),
                  WorkStatus::success);
        EXPECT_EQ(word, 42u);
    }
    EXPECT_TRUE(qp->target_lives());
}

} // namespace
} // namespace adaptib::test
