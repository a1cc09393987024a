// SPDX-License-Identifier: BSD-3-Clause
// The shm fabric between real processes: both ways of copying, a forbidden system call, killed peers,
// atomics from several processes, rails that are switched and slowed from outside, two threads.
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "fabric/shm/layout.h"
#include "fabric/shm/segment.h"
#include "fabric/shm/shm_fabric.h"

namespace adaptib {
namespace {

constexpr std::uint32_t kAll = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;
constexpr Nanoseconds kLong{20'000'000'000};
constexpr Bytes kBuffer = 3 * kMiB + 40;

// Everything one process needs: a fabric, a queue, RC queue pairs, a private and a shared buffer.
struct Node {
    explicit Node(ShmOptions::SingleCopy copy = ShmOptions::SingleCopy::automatic,
                  const Clock* other_clock = nullptr, std::uint32_t rails = 1)
        : words(kBuffer / 8) {
        ShmOptions options;
        options.rails = rails;
        options.single_copy = copy;
        options.job_key = 0x7e57;
        options.clock = other_clock != nullptr ? other_clock : &clock;
        options.random = &random;
        std::string error;
        ok = open_shm_fabric(options, fabric, error).ok() && rail().create_cq(1024, cq).ok() &&
             rail().register_memory(words.data(), kBuffer, kAll, own).ok() &&
             rail().allocate(kBuffer, kAll, shared).ok();
    }
    ~Node() {
        qps.clear();
        ah.reset();
        cq.reset();
        own.reset();
        shared.reset();
    }
    Rail& rail(std::size_t i = 0) { return *fabric->rails()[i]; }

    QueuePair* add_qp(QpType type) {
        QpInit init;
        init.type = type;
        init.send_cq = init.receive_cq = cq.get();
        init.send_depth = 128;
        init.receive_depth = 128;
        init.inline_bytes = 64;
        qps.emplace_back();
        return rail().create_qp(init, qps.back()).ok() ? qps.back().get() : nullptr;
    }
    static bool connect(QueuePair& qp, const RailAddress& to, std::uint32_t number,
                        std::uint8_t timeout = 10) {
        QpAttributes a;
        a.access = kAll;
        a.path.remote = to;
        a.remote_qp = number;
        a.timeout = timeout;
        a.retry_count = 1;
        a.state = QpState::init;
        bool good = qp.modify(a, kQpState | kQpAccess).ok();
        a.state = QpState::ready_to_receive;
        good = good && qp.modify(a, kQpState | kQpPath | kQpRemote | kQpReceiveLimits).ok();
        a.state = QpState::ready_to_send;
        return good && qp.modify(a, kQpState | kQpRetry | kQpSendPsn | kQpSendLimits).ok();
    }
    // Polls until one completion is there.
    bool wait(WorkCompletion& out, Nanoseconds limit = kLong) {
        const Nanoseconds end = clock.now() + limit;
        while (clock.now() < end) {
            if (cq->poll({&out, 1}) == 1) {
                return true;
            }
        }
        return false;
    }
    WorkStatus run(QueuePair& qp, SendWork work) {
        work.flags |= kSignaled;
        WorkCompletion done;
        if (!qp.post_send(work).ok() || !wait(done)) {
            return WorkStatus::general_error;
        }
        return done.status;
    }
    static SendWork rdma(Opcode opcode, const Gather& gather, std::uint64_t address,
                         std::uint32_t key) {
        SendWork work;
        work.opcode = opcode;
        work.gather = &gather;
        work.gather_count = 1;
        work.remote_address = address;
        work.remote_key = key;
        return work;
    }

    MonotonicClock clock;
    Random random{static_cast<std::uint64_t>(getpid())};
    std::vector<std::uint64_t> words;
    std::unique_ptr<Fabric> fabric;
    std::unique_ptr<CompletionQueue> cq;
    std::unique_ptr<MemoryRegion> own;
    std::unique_ptr<MemoryRegion> shared;
    std::unique_ptr<AddressHandle> ah;
    std::vector<std::unique_ptr<QueuePair>> qps;
    bool ok = false;
};

// What a process tells another.
struct Card {
    RailAddress address;
    std::uint32_t qp[4] = {};
    std::uint64_t own = 0;
    std::uint64_t shared = 0;
    std::uint32_t own_key = 0;
    std::uint32_t shared_key = 0;
};

Card card_of(Node& node) {
    Card card;
    card.address = node.rail().address();
    for (std::size_t i = 0; i < node.qps.size() && i < 4; ++i) {
        card.qp[i] = node.qps[i]->number();
    }
    card.own = reinterpret_cast<std::uintptr_t>(node.own->address());
    card.shared = reinterpret_cast<std::uintptr_t>(node.shared->address());
    card.own_key = node.own->remote_key();
    card.shared_key = node.shared->remote_key();
    return card;
}

// Two processes and a pipe each way. The child serves (polls) until it is told to end.
class Processes : public testing::Test {
protected:
    struct Child {
        pid_t pid = -1;
        int to = -1;
        int from = -1;
    };

    // `work` runs in the child: its end of the pipes, result = exit status 0.
    static Child start(const std::function<bool(int in, int out)>& work) {
        int down[2];
        int up[2];
        EXPECT_EQ(pipe(down), 0);
        EXPECT_EQ(pipe(up), 0);
        Child child;
        child.pid = fork();
        if (child.pid == 0) {
            close(down[1]);
            close(up[0]);
            const bool good = work(down[0], up[1]);
            _exit(good ? 0 : 1);
        }
        close(down[0]);
        close(up[1]);
        child.to = down[1];
        child.from = up[0];
        return child;
    }
    static int finish(Child& child) {
        close(child.to);
        close(child.from);
        int status = -1;
        waitpid(child.pid, &status, 0);
        return status;
    }
    template <class T> static bool tell(int pipe_end, const T& value) {
        return write(pipe_end, &value, sizeof value) == static_cast<ssize_t>(sizeof value);
    }
    template <class T> static bool hear(int pipe_end, T& value) {
        return read(pipe_end, &value, sizeof value) == static_cast<ssize_t>(sizeof value);
    }

    // A child with one RC queue pair that polls until the pipe is closed. Its private buffer is in
    // memory that only it has.
    static Child start_target(ShmOptions::SingleCopy copy = ShmOptions::SingleCopy::automatic) {
        return start([copy](int in, int out) {
            Node node(copy);
            QueuePair* qp = node.ok ? node.add_qp(QpType::rc) : nullptr;
            Card peer;
            if (qp == nullptr || !tell(out, card_of(node)) || !hear(in, peer) ||
                !Node::connect(*qp, peer.address, peer.qp[0]) || !tell(out, true)) {
                return false;
            }
            std::atomic<bool> end{false};
            std::thread listener([&] {
                char byte = 0;
                static_cast<void>(!read(in, &byte, 1));
                end = true;
            });
            WorkCompletion done;
            while (!end) {
                node.cq->poll({&done, 1});
            }
            listener.join();
            return true;
        });
    }
    // Connects `node` with a child from start_target.
    static bool meet(Node& node, const Child& child, Card& card) {
        QueuePair* qp = node.add_qp(QpType::rc);
        bool ready = false;
        return qp != nullptr && hear(child.from, card) && tell(child.to, card_of(node)) &&
               Node::connect(*qp, card.address, card.qp[0]) && hear(child.from, ready) && ready;
    }

    // Writes patterns of many lengths into both of the target's buffers and reads them back.
    static void exchange(Node& node, const Card& card) {
        QueuePair& qp = *node.qps[0];
        auto* bytes = reinterpret_cast<unsigned char*>(node.words.data());
        const Bytes half = kBuffer / 2 / 8 * 8;
        for (const bool shared : {false, true}) {
            const std::uint64_t base = shared ? card.shared : card.own;
            const std::uint32_t key = shared ? card.shared_key : card.own_key;
            for (const Bytes length : {Bytes{1}, Bytes{8}, Bytes{100}, Bytes{65536}, Bytes{65544},
                                       Bytes{70'001}, kMiB, kMiB + 16, half}) {
                for (Bytes i = 0; i < length; ++i) {
                    bytes[i] = static_cast<unsigned char>(i * 7 + length + (shared ? 1 : 0));
                    bytes[half + i] = 0;
                }
                const Gather out{bytes, length, node.own->local_key()};
                SendWork write = Node::rdma(Opcode::write, out, base, key);
                write.flags = length % 8 == 0 ? +kPublish : 0u;
                ASSERT_EQ(node.run(qp, write), WorkStatus::success) << length << shared;
                const Gather in{bytes + half, length, node.own->local_key()};
                ASSERT_EQ(node.run(qp, Node::rdma(Opcode::read, in, base, key)),
                          WorkStatus::success);
                ASSERT_EQ(std::memcmp(bytes, bytes + half, length), 0) << length << shared;
            }
        }
    }
};

TEST_F(Processes, WriteAndReadBySingleCopy) {
    Child child = start_target();
    Card card;
    {
        Node node(ShmOptions::SingleCopy::cma);
        ASSERT_TRUE(node.ok);
        ASSERT_TRUE(meet(node, child, card));
        exchange(node, card);
        EXPECT_TRUE(node.fabric->notices().empty());
    }
    EXPECT_EQ(finish(child), 0);
}

TEST_F(Processes, WriteAndReadByThePipeline) {
    Child child = start_target();
    Card card;
    {
        Node node(ShmOptions::SingleCopy::none);
        ASSERT_TRUE(node.ok);
        ASSERT_TRUE(meet(node, child, card));
        exchange(node, card);
    }
    EXPECT_EQ(finish(child), 0);
}

// process_vm_readv and process_vm_writev answer EPERM in this process from now on.
bool forbid_single_copy() {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// The initiator is a child, so that the filter ends with it. `before`: already there when the fabric
// opens; otherwise it shows with the first request.
void forbidden_child(bool before, const std::function<void(Node&)>& work) {
    const pid_t pid = fork();
    if (pid == 0) {
        if (before && !forbid_single_copy()) {
            _exit(2);
        }
        {
            Node node;
            if (!node.ok || (!before && !forbid_single_copy())) {
                _exit(3);
            }
            work(node);
        }
        _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
}

TEST_F(Processes, SingleCopyThatIsForbiddenIsSaidOnceAndReplaced) {
    for (const bool before : {true, false}) {
        Child child = start_target();
        forbidden_child(before, [&](Node& node) {
            Card card;
            EXPECT_EQ(node.fabric->notices().size(), before ? 1u : 0u);
            ASSERT_TRUE(meet(node, child, card));
            exchange(node, card);
            const Gather gather{node.words.data(), 8, node.own->local_key()};
            SendWork add = Node::rdma(Opcode::fetch_add, gather, card.own, card.own_key);
            add.compare_add = 5;
            EXPECT_EQ(node.run(*node.qps[0], add), WorkStatus::success);
            SendWork beyond = Node::rdma(Opcode::write, gather, card.own + kBuffer, card.own_key);
            EXPECT_EQ(node.run(*node.qps[0], beyond), WorkStatus::remote_access_error);
            ASSERT_EQ(node.fabric->notices().size(), 1u);
            EXPECT_NE(node.fabric->notices()[0].find("single copy: off"), std::string::npos);
            EXPECT_NE(node.fabric->notices()[0].find("ptrace_scope"), std::string::npos);
        });
        EXPECT_EQ(finish(child), 0);
    }
}

TEST_F(Processes, RequiringSingleCopyWhereItIsForbiddenIsAnError) {
    const pid_t pid = fork();
    if (pid == 0) {
        MonotonicClock clock;
        Random random(1);
        ShmOptions options;
        options.clock = &clock;
        options.random = &random;
        options.single_copy = ShmOptions::SingleCopy::cma;
        std::unique_ptr<Fabric> fabric;
        std::string error;
        const bool good =
            forbid_single_copy() &&
            open_shm_fabric(options, fabric, error) == Status::error(Reason::no_permission) &&
            !error.empty();
        _exit(good ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
}

TEST_F(Processes, MemoryThatIsNotMappedIsARemoteAccessError) {
    Child child = start([](int in, int out) {
        Node node;
        QueuePair* qp = node.ok ? node.add_qp(QpType::rc) : nullptr;
        void* page =
            mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        std::unique_ptr<MemoryRegion> region;
        Card peer;
        Card card;
        if (qp == nullptr || !node.rail().register_memory(page, 8192, kAll, region).ok()) {
            return false;
        }
        munmap(page, 8192); // registered, and gone
        card = card_of(node);
        card.own = reinterpret_cast<std::uintptr_t>(page);
        card.own_key = region->remote_key();
        char byte = 0;
        return tell(out, card) && hear(in, peer) && Node::connect(*qp, peer.address, peer.qp[0]) &&
               tell(out, true) && read(in, &byte, 1) == 0;
    });
    Card card;
    Node node;
    ASSERT_TRUE(meet(node, child, card));
    const Gather gather{node.words.data(), 4096, node.own->local_key()};
    EXPECT_EQ(node.run(*node.qps[0], Node::rdma(Opcode::write, gather, card.own, card.own_key)),
              WorkStatus::remote_access_error);
    EXPECT_EQ(finish(child), 0);
}

TEST_F(Processes, AWholeProcessIsReachedWhereItsMemoryIs) {
    // By single copy, and through the pipeline, where the target moves the data itself.
    for (const auto copy : {ShmOptions::SingleCopy::automatic, ShmOptions::SingleCopy::none}) {
        Child child = start([](int in, int out) {
            Node node(ShmOptions::SingleCopy::cma);
            QueuePair* qp[3] = {};
            std::unique_ptr<MemoryRegion> whole;
            bool good =
                node.ok && node.rail()
                               .register_memory(nullptr, kWholeMemory,
                                                kLocalWrite | kRemoteRead | kRemoteWrite, whole)
                               .ok();
            for (auto& each : qp) {
                each = good ? node.add_qp(QpType::rc) : nullptr;
                good = each != nullptr;
            }
            // A page that is there, and behind it one that is not, and that nobody else gets meanwhile.
            auto* page = static_cast<std::byte*>(
                mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
            Card card;
            Card peer;
            if (!good || mprotect(page + 4096, 4096, PROT_NONE) != 0) {
                return false;
            }
            card = card_of(node);
            card.own = reinterpret_cast<std::uintptr_t>(page);
            card.own_key = whole->remote_key();
            if (!tell(out, card) || !hear(in, peer)) {
                return false;
            }
            for (std::size_t i = 0; i < 3; ++i) {
                good = good && Node::connect(*qp[i], peer.address, peer.qp[i]);
            }
            if (!good || !tell(out, true)) {
                return false;
            }
            std::atomic<bool> end{false};
            std::thread listener([&] {
                char byte = 0;
                static_cast<void>(!read(in, &byte, 1));
                end = true;
            });
            WorkCompletion done;
            while (!end) {
                node.cq->poll({&done, 1});
            }
            listener.join();
            return std::all_of(page, page + 4096, [](std::byte b) { return b == std::byte{0x77}; });
        });
        Node node(copy);
        Card card;
        ASSERT_TRUE(node.ok);
        for (int i = 0; i < 3; ++i) {
            ASSERT_NE(node.add_qp(QpType::rc), nullptr);
        }
        bool ready = false;
        ASSERT_TRUE(hear(child.from, card) && tell(child.to, card_of(node)));
        for (std::size_t i = 0; i < 3; ++i) {
            ASSERT_TRUE(Node::connect(*node.qps[i], card.address, card.qp[i]));
        }
        ASSERT_TRUE(hear(child.from, ready) && ready);
        auto* bytes = reinterpret_cast<unsigned char*>(node.words.data());
        std::memset(bytes, 0x77, 4096);
        const Gather gather{bytes, 4096, node.own->local_key()};
        for (const std::uint32_t flags : {0u, +kPublish}) {
            SendWork write = Node::rdma(Opcode::write, gather, card.own, card.own_key);
            write.flags = flags;
            EXPECT_EQ(node.run(*node.qps[0], write), WorkStatus::success);
        }
        std::memset(bytes, 0, 4096);
        EXPECT_EQ(node.run(*node.qps[0], Node::rdma(Opcode::read, gather, card.own, card.own_key)),
                  WorkStatus::success);
        EXPECT_EQ(bytes[0], 0x77);
        EXPECT_EQ(bytes[4095], 0x77);
        std::memset(bytes, 0x77, 4096);
        // A byte too far, and nowhere at all: an error each, and the target lives.
        EXPECT_EQ(
            node.run(*node.qps[1], Node::rdma(Opcode::write, gather, card.own + 1, card.own_key)),
            WorkStatus::remote_access_error);
        EXPECT_EQ(node.run(*node.qps[2], Node::rdma(Opcode::read, gather, 64, card.own_key)),
                  WorkStatus::remote_access_error);
        EXPECT_EQ(finish(child), 0) << "the target crashed, or has other data";
    }
}

TEST_F(Processes, AKilledTargetEndsWhatIsOutstanding) {
    Child child = start_target();
    Card card;
    Node node;
    ASSERT_TRUE(meet(node, child, card));
    QueuePair& qp = *node.qps[0];
    ASSERT_TRUE(qp.usable());
    const Gate gate = qp.gate();
    ASSERT_TRUE(gate.open());
    ASSERT_TRUE(node.rail().create_ah({card.address}, node.ah).ok());
    const Gather gather{node.words.data(), 100, node.own->local_key()};
    SendWork send = Node::rdma(Opcode::send, gather, 0, 0); // no receive is posted: it waits
    send.wr_id = 77;
    ASSERT_TRUE(qp.post_send(send).ok());
    WorkCompletion done;
    EXPECT_FALSE(node.wait(done, Nanoseconds{20'000'000}));
    kill(child.pid, SIGKILL);
    ASSERT_TRUE(node.wait(done)) << "found out by polling";
    EXPECT_EQ(done.wr_id, 77u);
    EXPECT_EQ(done.status, WorkStatus::retry_exceeded);
    EXPECT_FALSE(qp.usable());
    EXPECT_FALSE(gate.open());
    finish(child);
    std::unique_ptr<AddressHandle> again;
    EXPECT_EQ(node.rail().create_ah({card.address}, again), Status::error(Reason::peer_gone));
}

// Bound where the peer is, or not; as it is when it is asked for.
TEST_F(Processes, WhoTakesTurnsOnOneProcessorIsKnown) {
    Child child = start_target();
    Card card;
    Node node;
    ASSERT_TRUE(meet(node, child, card));
    ASSERT_TRUE(node.rail().create_ah({card.address}, node.ah).ok());
    cpu_set_t before;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    if (CPU_COUNT(&before) > 1) {
        EXPECT_FALSE(node.ah->shares_processor());
        int first = 0;
        while (!CPU_ISSET(first, &before)) {
            ++first;
        }
        const auto bind = [&](pid_t pid, bool to_first) {
            cpu_set_t set = before;
            CPU_CLR(first, &set); // of two, the other is left
            if (to_first) {
                CPU_ZERO(&set);
                CPU_SET(first, &set);
            }
            EXPECT_EQ(sched_setaffinity(pid, sizeof set, &set), 0);
        };
        bind(0, true);
        EXPECT_FALSE(node.ah->shares_processor()) << "the peer may run elsewhere";
        bind(child.pid, true);
        EXPECT_TRUE(node.ah->shares_processor());
        bind(child.pid, false);
        EXPECT_FALSE(node.ah->shares_processor());
        ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
    } else {
        EXPECT_TRUE(node.ah->shares_processor());
    }
    EXPECT_EQ(finish(child), 0);
}

TEST_F(Processes, AtomicsOfSeveralProcessesAreAtomic) {
    // Single-copy initiators and one of the pipeline add to a private and a shared word, with requests and
    // within the call.
    constexpr std::uint64_t kAdds = 3000;
    constexpr std::size_t kInitiators = 4;
    Node node;
    std::vector<Child> children;
    for (std::size_t who = 0; who < kInitiators; ++who) {
        ASSERT_NE(node.add_qp(QpType::rc), nullptr);
    }
    std::memset(node.words.data(), 0, 64);
    const Card card = card_of(node);
    for (std::size_t who = 0; who < kInitiators; ++who) {
        children.push_back(start([&, who](int in, int out) {
            Node mine(who == 2 ? ShmOptions::SingleCopy::none : ShmOptions::SingleCopy::automatic);
            QueuePair* qp = mine.ok ? mine.add_qp(QpType::rc) : nullptr;
            bool go = false;
            if (qp == nullptr || !Node::connect(*qp, card.address, card.qp[who]) ||
                !tell(out, card_of(mine)) || !hear(in, go)) {
                return false;
            }
            const Gather gather{mine.words.data(), 8, mine.own->local_key()};
            std::uint64_t next[2] = {0, 0}; // no old value comes twice
            std::size_t within = 0;
            for (std::uint64_t i = 0; i < 2 * kAdds; ++i) {
                const bool shared = i % 2 == 1;
                SendWork add =
                    Node::rdma(Opcode::fetch_add, gather, shared ? card.shared : card.own,
                               shared ? card.shared_key : card.own_key);
                add.compare_add = 1;
                const bool posts = who == 0 || (who == 3 && i % 3 == 0);
                const ExecuteWork at_once{.opcode = add.opcode,
                                          .local_key = gather.local_key,
                                          .local = gather.address,
                                          .length = gather.length,
                                          .remote_address = add.remote_address,
                                          .remote_key = add.remote_key,
                                          .compare_add = 1};
                if (!posts && qp->execute(at_once).ok()) {
                    ++within;
                } else if (mine.run(*qp, add) != WorkStatus::success) {
                    return false;
                }
                if (mine.words[0] < next[i % 2]) {
                    return false;
                }
                next[i % 2] = mine.words[0] + 1;
            }
            return tell(out, true) && (within > kAdds / 2) == (who != 0);
        }));
    }
    for (std::size_t who = 0; who < kInitiators; ++who) {
        Card peer;
        ASSERT_TRUE(hear(children[who].from, peer));
        ASSERT_TRUE(Node::connect(*node.qps[who], peer.address, peer.qp[0]));
    }
    for (const Child& child : children) {
        ASSERT_TRUE(tell(child.to, true));
    }
    auto* shared = static_cast<std::uint64_t*>(node.shared->address());
    const Nanoseconds end = node.clock.now() + 3 * kLong;
    WorkCompletion done;
    for (const Child& child : children) {
        for (;;) { // poll for the pipeline, until the child has ended
            siginfo_t info{};
            ASSERT_EQ(
                waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT), 0);
            if (info.si_pid != 0 || node.clock.now() > end) {
                break;
            }
            for (int i = 0; i < 100; ++i) {
                node.cq->poll({&done, 1});
            }
        }
    }
    for (Child& child : children) {
        EXPECT_EQ(finish(child), 0);
    }
    EXPECT_EQ(*static_cast<volatile std::uint64_t*>(node.words.data()), kInitiators * kAdds);
    EXPECT_EQ(std::atomic_ref<std::uint64_t>(*shared).load(), kInitiators * kAdds);
}

// ---------------------------------------------------------------------------------------------------
// Rails

// The state word of a node's rail, as tools/adaptib_rails changes it.
class RailWord {
public:
    RailWord(Node& node, std::uint32_t rail) {
        shm::WireAddress wire{};
        EXPECT_TRUE(shm::PeerSegment::decode(node.rail().address(), wire));
        at_ = mmap(nullptr, shm::kPage, PROT_READ | PROT_WRITE, MAP_SHARED,
                   static_cast<int>(wire.fd), 0);
        EXPECT_NE(at_, MAP_FAILED);
        word_ = &static_cast<shm::Header*>(at_)->rail[rail].word;
    }
    ~RailWord() { munmap(at_, shm::kPage); }
    void set(std::uint64_t value) { word_->store(value); }

private:
    void* at_;
    std::atomic<std::uint64_t>* word_;
};

// Two nodes in this process under a clock that only the test moves.
class Rails : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(a.ok && b.ok);
        add_pair();
    }
    void add_pair() {
        QueuePair* from = a.add_qp(QpType::rc);
        QueuePair* to = b.add_qp(QpType::rc);
        ASSERT_TRUE(Node::connect(*from, b.rail().address(), to->number()));
        ASSERT_TRUE(Node::connect(*to, a.rail().address(), from->number()));
    }
    // Posts a signaled write of `length` bytes of value 0xab to b's shared buffer.
    Status post(Bytes length) {
        std::memset(a.words.data(), 0xab, length);
        const Gather gather{a.words.data(), length, a.own->local_key()};
        SendWork work =
            Node::rdma(Opcode::write, gather, reinterpret_cast<std::uintptr_t>(b.shared->address()),
                       b.shared->remote_key());
        work.flags = kSignaled;
        return a.qps[0]->post_send(work);
    }
    std::size_t poll() { return a.cq->poll({&done, 1}); }
    unsigned first_byte() const { return *static_cast<unsigned char*>(b.shared->address()); }

    ManualClock clock;
    Node a{ShmOptions::SingleCopy::automatic, &clock, 2};
    Node b{ShmOptions::SingleCopy::automatic, &clock, 2};
    WorkCompletion done;
};

TEST_F(Rails, DownEndsWorkAfterTheRetriesAndNotBefore) {
    for (const bool own : {true, false}) {
        RailWord word(own ? a : b, 0);
        word.set(shm::kRailDown);
        EXPECT_FALSE(a.qps[0]->usable());
        ASSERT_TRUE(post(64).ok());
        const Nanoseconds all{2 * (4096ll << 10)}; // one try and one retry
        clock.advance(all - Nanoseconds{1000});
        EXPECT_EQ(poll(), 0u);
        word.set(0); // back in time
        EXPECT_EQ(poll(), 1u);
        EXPECT_EQ(done.status, WorkStatus::success);
        EXPECT_EQ(first_byte(), 0xabu);
        EXPECT_TRUE(a.qps[0]->usable());
    }
    RailWord word(b, 0);
    word.set(shm::kRailDown);
    ASSERT_TRUE(post(64).ok());
    ASSERT_TRUE(post(64).ok());
    EXPECT_EQ(poll(), 0u);
    clock.advance(Nanoseconds{2 * (4096ll << 10)});
    ASSERT_EQ(poll(), 1u);
    EXPECT_EQ(done.status, WorkStatus::retry_exceeded);
    ASSERT_EQ(poll(), 1u);
    EXPECT_EQ(done.status, WorkStatus::flushed);
    EXPECT_EQ(a.qps[0]->query().state, QpState::error);
}

TEST_F(Rails, EventsComeOncePerChangeAndNameTheRail) {
    Event event;
    EXPECT_FALSE(a.fabric->poll_event(event));
    RailWord word(a, 1);
    word.set(shm::kRailDown);
    ASSERT_TRUE(a.fabric->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::port_error);
    EXPECT_EQ(event.rail, 1u);
    EXPECT_EQ(a.rail(1).state(), PortState::down);
    EXPECT_EQ(a.rail(0).state(), PortState::active);
    EXPECT_FALSE(a.fabric->poll_event(event));
    word.set(0);
    ASSERT_TRUE(a.fabric->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::port_active);
    EXPECT_FALSE(a.fabric->poll_event(event));
    EXPECT_FALSE(b.fabric->poll_event(event));
    EXPECT_TRUE(a.qps[0]->usable()) << "it is on the other rail";
}

TEST_F(Rails, AGateShutsWithinAPollForOurRailAndWithALookForEventsForAPeers) {
    Event event;
    for (const bool own : {true, false}) {
        for (const std::uint64_t trouble : {shm::kRailDown, std::uint64_t{1'000'000}}) {
            const Gate gate = a.qps[0]->gate();
            ASSERT_TRUE(gate.open());
            RailWord word(own ? a : b, 0);
            word.set(trouble);
            if (own) {
                poll();
            } else {
                a.fabric->poll_event(event);
            }
            EXPECT_FALSE(gate.open());
            EXPECT_FALSE(a.qps[0]->gate().open()) << "nor is a new one";
            word.set(0);
            while (a.fabric->poll_event(event)) {
            }
            EXPECT_TRUE(gate.open());
        }
    }
}

TEST_F(Rails, AGateShutsWithEitherQueuePair) {
    add_pair();
    const Gate gate = a.qps[0]->gate();
    const Gate other = a.qps[1]->gate();
    QpAttributes attributes;
    attributes.state = QpState::error;
    ASSERT_TRUE(b.qps[0]->modify(attributes, kQpState).ok());
    EXPECT_FALSE(gate.open()) << "the target's says so itself";
    EXPECT_FALSE(a.qps[0]->gate().open());
    EXPECT_FALSE(b.qps[0]->gate().open()) << "it is in error";
    ASSERT_TRUE(other.open());
    // While one of ours is broken none is believed.
    const auto fail_and = [&](QueuePair& qp, auto&& end) {
        attributes.state = QpState::error;
        ASSERT_TRUE(qp.modify(attributes, kQpState).ok());
        EXPECT_FALSE(other.open());
        poll();
        EXPECT_FALSE(other.open());
        EXPECT_TRUE(a.qps[1]->usable());
        end();
        poll();
        EXPECT_TRUE(other.open());
    };
    fail_and(*a.qps[0], [&] {
        attributes.state = QpState::reset;
        ASSERT_TRUE(a.qps[0]->modify(attributes, kQpState).ok());
    });
    add_pair();
    fail_and(*a.qps[2], [&] { a.qps.pop_back(); });
}

TEST_F(Rails, TheBellRingsForWhatHasComeAndForWhatIsLeft) {
    const Bell* bell = a.fabric->bell();
    ASSERT_NE(bell, nullptr);
    EXPECT_EQ(poll(), 0u);
    EXPECT_TRUE(bell->quiet());
    // What has come: a message.
    ASSERT_TRUE(a.qps[0]->post_receive({}).ok());
    SendWork send;
    send.opcode = Opcode::send;
    ASSERT_TRUE(b.qps[0]->post_send(send).ok());
    EXPECT_FALSE(bell->quiet());
    EXPECT_EQ(poll(), 1u);
    poll();
    EXPECT_TRUE(bell->quiet());
    // What is left to take: two completions, taken one by one.
    ASSERT_TRUE(post(64).ok());
    ASSERT_TRUE(post(64).ok());
    EXPECT_FALSE(bell->quiet());
    EXPECT_EQ(poll(), 1u);
    EXPECT_FALSE(bell->quiet());
    EXPECT_EQ(poll(), 1u);
    poll();
    EXPECT_TRUE(bell->quiet());
    // What waits: a request over a slowed rail.
    RailWord word(b, 0);
    word.set(1'000'000);
    ASSERT_TRUE(post(1000).ok());
    EXPECT_EQ(poll(), 0u);
    EXPECT_FALSE(bell->quiet());
    word.set(0);
    EXPECT_EQ(poll(), 1u);
}

TEST_F(Rails, SlowedWorkIsNeitherDoneNorVisibleEarly) {
    RailWord word(b, 0);
    word.set(1'000'000); // bytes per second
    EXPECT_FALSE(a.qps[0]->usable());
    ASSERT_TRUE(post(100'000).ok()); // 100 ms each
    ASSERT_TRUE(post(100'000).ok());
    clock.advance(Nanoseconds{99'999'000});
    EXPECT_EQ(poll(), 0u);
    EXPECT_EQ(first_byte(), 0u);
    clock.advance(Nanoseconds{1'000});
    EXPECT_EQ(poll(), 1u);
    EXPECT_EQ(first_byte(), 0xabu);
    clock.advance(Nanoseconds{99'999'000});
    EXPECT_EQ(poll(), 0u) << "one after the other";
    word.set(0);
    EXPECT_EQ(poll(), 1u) << "no longer slowed";
    EXPECT_EQ(done.status, WorkStatus::success);
}

TEST_F(Rails, DatagramsVanishOnARailThatIsDown) {
    QueuePair* from = a.add_qp(QpType::ud);
    QueuePair* to = b.add_qp(QpType::ud);
    QpAttributes attributes;
    attributes.access_key = 4;
    for (QueuePair* qp : {from, to}) {
        attributes.state = QpState::init;
        ASSERT_TRUE(qp->modify(attributes, kQpState | kQpKey).ok());
        attributes.state = QpState::ready_to_receive;
        ASSERT_TRUE(qp->modify(attributes, kQpState).ok());
        attributes.state = QpState::ready_to_send;
        ASSERT_TRUE(qp->modify(attributes, kQpState | kQpSendPsn).ok());
    }
    ASSERT_TRUE(a.rail().create_ah({b.rail().address()}, a.ah).ok());
    const Gather room{b.words.data(), 100, b.own->local_key()};
    ASSERT_TRUE(to->post_receive({1, &room, 1}).ok());
    const Gather gather{a.words.data(), 8, a.own->local_key()};
    const auto send = [&](std::uint32_t number) {
        SendWork work = Node::rdma(Opcode::send_imm, gather, 0, 0);
        work.flags = kSignaled;
        work.immediate = number;
        work.address_handle = a.ah.get();
        work.remote_qp = to->number();
        work.remote_access_key = 4;
        return from->post_send(work).ok() && poll() == 1 && done.status == WorkStatus::success;
    };
    RailWord word(b, 0);
    word.set(shm::kRailDown);
    EXPECT_TRUE(send(1));
    word.set(0);
    EXPECT_TRUE(send(2));
    ASSERT_EQ(b.cq->poll({&done, 1}), 1u);
    EXPECT_EQ(done.immediate, 2u);
    EXPECT_EQ(b.cq->poll({&done, 1}), 0u);
}

// ---------------------------------------------------------------------------------------------------
// Threads

TEST(Threads, TwoFabricsInTwoThreadsExchangeMessagesAndPublishedWrites) {
    Node a;
    Node b;
    ASSERT_TRUE(a.ok && b.ok);
    QueuePair* x = a.add_qp(QpType::rc);
    QueuePair* y = b.add_qp(QpType::rc);
    ASSERT_TRUE(Node::connect(*x, b.rail().address(), y->number()));
    ASSERT_TRUE(Node::connect(*y, a.rail().address(), x->number()));
    constexpr std::uint64_t kRounds = 3000;
    // Each writes a line of its number into the other's shared buffer, publishing the last word, and
    // waits for the other's.
    const auto play = [](Node& self, Node& peer, bool first) {
        auto* mine = static_cast<std::uint64_t*>(self.shared->address());
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
            std::uint64_t line[8];
            std::fill(line, line + 8, round);
            const Gather gather{line, sizeof line, 0};
            SendWork work = Node::rdma(Opcode::write, gather,
                                       reinterpret_cast<std::uintptr_t>(peer.shared->address()),
                                       peer.shared->remote_key());
            work.flags = kInline | kPublish | (round % 16 == 0 ? +kSignaled : 0u);
            const auto write = [&] { return self.qps[0]->post_send(work).ok(); };
            if (first && !write()) {
                return false;
            }
            const Nanoseconds end = self.clock.now() + kLong;
            while (std::atomic_ref<std::uint64_t>(mine[7]).load(std::memory_order_acquire) !=
                   round) {
                if (self.clock.now() > end) {
                    return false;
                }
            }
            for (int i = 0; i < 7; ++i) {
                if (mine[i] != round) {
                    return false;
                }
            }
            if (!first && !write()) {
                return false;
            }
            WorkCompletion done;
            while (self.cq->poll({&done, 1}) == 1) {
                if (done.status != WorkStatus::success) {
                    return false;
                }
            }
        }
        return true;
    };
    bool good = false;
    std::thread other([&] { good = play(b, a, false); });
    EXPECT_TRUE(play(a, b, true));
    other.join();
    EXPECT_TRUE(good);
}

} // namespace
} // namespace adaptib
