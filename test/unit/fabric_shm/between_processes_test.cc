// SPDX-License-Identifier: BSD-3-Clause
// The shm fabric between real processes: both ways of copying, a forbidden system call, killed
// peers, atomics of several processes.
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

#include "fabric/shm/layout.h"
#include "fabric/shm/limits.h"
#include "fabric/shm/segment.h"
#include "unit/fabric_shm/node.h"

namespace adaptib::test {
namespace {

// Two processes and a pipe each way. The child polls until it is told to end.
class Processes : public testing::Test {
protected:
    struct Child {
        pid_t pid = -1;
        int to = -1;
        int from = -1;
    };

    // Runs `work` in a child with its ends of the pipes; true is exit status 0.
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

    // Polls, in a child, until the pipe is closed.
    static void serve(Node& node, int in) {
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
    }

    // Starts a child with one RC queue pair that polls until the pipe is closed. The child alone
    // has the memory of its private buffer.
    static Child start_target(ShmOptions::SingleCopy copy = ShmOptions::SingleCopy::automatic,
                              Bytes further_memory = 0) {
        return start([copy, further_memory](int in, int out) {
            const std::vector<std::byte> memory(further_memory);
            Node node(copy);
            QueuePair* qp = node.ok ? node.add_qp(QpType::rc) : nullptr;
            Card peer;
            if (qp == nullptr || !tell(out, card_of(node)) || !hear(in, peer) ||
                !Node::connect(*qp, peer.address, peer.qp[0]) || !tell(out, true)) {
                return false;
            }
            serve(node, in);
            return true;
        });
    }
    // Connects `node` with a child of start_target.
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

// Makes process_vm_readv and process_vm_writev fail with EPERM in this process from now on.
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

// Runs `work` in a child, so that the filter ends with the child. `before`: the filter is there
// when the fabric opens; otherwise the first request meets it.
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

TEST_F(Processes, NoMoreThanAPieceIsCopiedWithinTheCall) {
    Node a;
    Node b;
    ASSERT_TRUE(a.ok && b.ok);
    QueuePair* const from = a.add_qp(QpType::rc);
    QueuePair* const to = b.add_qp(QpType::rc);
    ASSERT_TRUE(Node::connect(*from, b.rail().address(), to->number()));
    ASSERT_TRUE(Node::connect(*to, a.rail().address(), from->number()));
    std::vector<std::byte> here(shm::kCopyPiece + 1, std::byte{7});
    std::vector<std::byte> there(here.size());
    std::unique_ptr<MemoryRegion> local;
    std::unique_ptr<MemoryRegion> remote;
    ASSERT_TRUE(a.rail().register_memory(here.data(), here.size(), kAll, local).ok());
    ASSERT_TRUE(b.rail().register_memory(there.data(), there.size(), kAll, remote).ok());
    RmaWork work{.local_key = local->local_key(),
                 .local = here.data(),
                 .length = shm::kCopyPiece,
                 .remote_address = reinterpret_cast<std::uintptr_t>(there.data()),
                 .remote_key = remote->remote_key()};
    EXPECT_TRUE(from->rma_now(work).ok());
    EXPECT_EQ(there[shm::kCopyPiece - 1], std::byte{7});
    work.length = there.size();
    EXPECT_EQ(from->rma_now(work), Status::again(Reason::none));
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
        ShmOptions options;
        options.clock = &clock;
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
        // Removes access to the registered page, but keeps its range, so that no
        // allocator reuses it.
        mprotect(page, 8192, PROT_NONE);
        card = card_of(node);
        card.own = reinterpret_cast<std::uintptr_t>(page);
        card.own_key = region->remote_key();
        if (!tell(out, card) || !hear(in, peer) || !Node::connect(*qp, peer.address, peer.qp[0]) ||
            !tell(out, true)) {
            return false;
        }
        serve(node, in); // the target detects the error
        return true;
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
    // By single copy, and through the pipeline, in which the target moves the data itself.
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
            // A page with memory, and behind it one without, whose range no allocator can reuse.
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
            serve(node, in);
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
        // One byte too far, and an address without memory: each ends with an error, and
        // the target lives.
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
    const FastPathGuard guard = qp.fast_path_guard();
    ASSERT_TRUE(guard.open());
    ASSERT_TRUE(node.rail().create_ah({card.address}, node.ah).ok());
    const Gather gather{node.words.data(), 100, node.own->local_key()};
    // No receive is posted, so the send waits.
    SendWork send = Node::rdma(Opcode::send, gather, 0, 0);
    send.wr_id = 77;
    ASSERT_TRUE(qp.post_send(send).ok());
    WorkCompletion done;
    EXPECT_FALSE(node.wait(done, Nanoseconds{20'000'000}));
    kill(child.pid, SIGKILL);
    ASSERT_TRUE(node.wait(done)) << "found out by polling";
    EXPECT_EQ(done.wr_id, 77u);
    EXPECT_EQ(done.status, WorkStatus::retry_exceeded);
    EXPECT_FALSE(qp.usable());
    EXPECT_FALSE(guard.open());
    finish(child);
    std::unique_ptr<AddressHandle> again;
    EXPECT_EQ(node.rail().create_ah({card.address}, again), Status::error(Reason::peer_gone));
}

// The system takes a process's memory away before it says that the process has ended: the longer
// before, the more memory there is.
TEST_F(Processes, WhoeverFindsNoMemoryOfAProcessKnowsThatItHasEnded) {
    Child child = start_target(ShmOptions::SingleCopy::automatic, 256 * kMiB);
    Card card;
    Node node;
    ASSERT_TRUE(meet(node, child, card));
    ASSERT_TRUE(node.rail().create_ah({card.address}, node.ah).ok());
    const Gather gather{node.words.data(), 100, node.own->local_key()};
    const SendWork read = Node::rdma(Opcode::read, gather, card.own, card.own_key);
    ASSERT_EQ(node.run(*node.qps[0], read), WorkStatus::success);
    kill(child.pid, SIGKILL);
    WorkStatus status = WorkStatus::success;
    while (status == WorkStatus::success) {
        status = node.run(*node.qps[0], read);
    }
    EXPECT_EQ(status, WorkStatus::retry_exceeded);
    std::string text;
    EXPECT_EQ(node.ah->standing(text), Status::error(Reason::peer_gone));
    finish(child);
}

// A dead process touches no memory, so fencing does not wait for its copy to the limit.
TEST_F(Processes, APeerKilledInTheMiddleOfACopyIsNotWaitedForLong) {
    Child child = start_target();
    Card card;
    Node node;
    ASSERT_TRUE(meet(node, child, card));
    std::shared_ptr<shm::PeerSegment> peer;
    ASSERT_TRUE(shm::PeerSegment::open(card.address, 1, peer).ok());
    shm::QueuePairEntry& entry = shm::queue_pairs_of(peer->base())[shm::qp_index(card.qp[0])];
    entry.busy.store(1, std::memory_order_seq_cst);
    kill(child.pid, SIGKILL);
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOWAIT), 0);
    QpAttributes attributes;
    attributes.state = QpState::error;
    const Nanoseconds before = node.clock.now();
    ASSERT_TRUE(node.qps[0]->modify(attributes, kQpState).ok());
    EXPECT_LT((node.clock.now() - before).count(), shm::kFenceLimit.count() / 2);
    finish(child);
}

// A call of shares_processor() tells whether both processes are bound to one
// processor at that time.
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
            CPU_CLR(first, &set); // keeps the others
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
    // Single-copy initiators and one initiator of the pipeline add to a private and a shared word,
    // by requests and within the call.
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
            std::uint64_t next[2] = {0, 0}; // least value to expect: no old value comes twice
            std::size_t within = 0;
            for (std::uint64_t i = 0; i < 2 * kAdds; ++i) {
                const bool shared = i % 2 == 1;
                SendWork add =
                    Node::rdma(Opcode::fetch_add, gather, shared ? card.shared : card.own,
                               shared ? card.shared_key : card.own_key);
                add.compare_add = 1;
                const bool posts = who == 0 || (who == 3 && i % 3 == 0);
                const RmaWork at_once{.opcode = add.opcode,
                                      .local_key = gather.local_key,
                                      .local = gather.address,
                                      .length = gather.length,
                                      .remote_address = add.remote_address,
                                      .remote_key = add.remote_key,
                                      .compare_add = 1};
                if (!posts && qp->rma_now(at_once).ok()) {
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
        for (;;) { // polls for the pipeline until the child has ended
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

} // namespace
} // namespace adaptib::test
