// SPDX-License-Identifier: BSD-3-Clause
// The responder's thread over the stand-in: which objects it makes, which questions it answers, its
// behavior when calls fail, and its end.
#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "fabric/verbs/responder.h"
#include "unit/verbs/verbs_fixture.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;
using verbs::kGrhBytes;
using verbs::ResponderPort;

constexpr std::uint64_t kKey = 0x1'2345'6789;
constexpr std::uint32_t kAsker = 0x77; // queue pair that asks

// Answers questions that begin with 'q' by their bytes in reverse order.
class Echo final : public Answerer {
public:
    Reply answer(std::uint32_t rail, std::span<const std::byte> question,
                 std::span<std::byte> reply) const noexcept override {
        if (question.empty() || question[0] != std::byte{'q'}) {
            return {};
        }
        for (std::size_t i = 0; i < question.size(); ++i) {
            reply[i] = question[question.size() - 1 - i];
        }
        asked_rail = rail;
        return {question.size(), kKey + 1, to, 0};
    }

    RailAddress to;
    mutable std::atomic<std::uint32_t> asked_rail{99};
};

class Responding : public VerbsTest {
protected:
    // The fabric has an address handle for the asking rail, as for a peer that it has sent to.
    void respond() {
        echo_.to = rail().address();
        std::unique_ptr<AddressHandle> handle;
        ASSERT_EQ(await_ah(rail(), rail().path_to(echo_.to, 0), handle), kOk);
        ASSERT_EQ(fabric_->respond(echo_, kKey), kOk);
    }
    // Returns the next receive of the responder that the test has not used yet.
    ReceiveCall next_receive(std::uint32_t qp) {
        for (std::size_t i = used_; i < lib_.received.size(); ++i) {
            if (lib_.received[i].qp_number == qp) {
                used_ = i + 1;
                return lib_.received[i];
            }
        }
        ADD_FAILURE() << "no receive is posted";
        return {};
    }
    void ask(std::uint32_t qp, const std::string& question) {
        const std::lock_guard lock(lib_.lock());
        const ReceiveCall receive = next_receive(qp);
        if (receive.list.empty()) {
            return;
        }
        std::memcpy(reinterpret_cast<char*>(receive.list[0].addr) + kGrhBytes, question.data(),
                    question.size());
        ibv_wc done{};
        done.wr_id = receive.wr_id;
        done.status = IBV_WC_SUCCESS;
        done.opcode = IBV_WC_RECV;
        done.byte_len = static_cast<std::uint32_t>(kGrhBytes + question.size());
        done.src_qp = kAsker;
        lib_.complete_receive(qp, done);
    }
    std::size_t answers() {
        const std::lock_guard lock(lib_.lock());
        return lib_.sent.size();
    }
    template <typename F> bool wait(F&& condition) {
        for (int i = 0; i < 5000; ++i) {
            if (condition()) {
                return true;
            }
            std::this_thread::sleep_for(1ms);
        }
        return false;
    }
    void complete_answers(std::size_t from, std::size_t to) {
        const std::lock_guard lock(lib_.lock());
        for (std::size_t i = from; i < to; ++i) {
            ibv_wc done{};
            done.wr_id = lib_.sent[i].request.wr_id;
            done.status = IBV_WC_SUCCESS;
            done.opcode = IBV_WC_SEND;
            lib_.complete_send(lib_.sent[i].qp_number, done);
        }
    }

    Echo echo_;
    std::size_t used_ = 0;
};

TEST_F(Responding, EachRailHasAQueuePairOfItsOwn) {
    open_ib();
    EXPECT_EQ(fabric_->responder_qp(0), 0u) << "before it was asked for";
    respond();
    const std::uint32_t first = fabric_->responder_qp(0);
    const std::uint32_t second = fabric_->responder_qp(1);
    EXPECT_NE(first, 0u);
    EXPECT_NE(second, 0u);
    EXPECT_NE(first, second);
    EXPECT_EQ(fabric_->responder_qp(2), 0u);
    const std::lock_guard lock(lib_.lock());
    for (const std::uint32_t number : {first, second}) {
        EXPECT_EQ(lib_.qp(number).state, IBV_QPS_RTS);
        EXPECT_EQ(lib_.qp(number).receives, ResponderPort::kReceives);
        EXPECT_EQ(lib_.qp(number).kind, IBV_QPT_UD);
    }
    for (const ModifyCall& call : lib_.modified) {
        if (call.from == IBV_QPS_RESET) {
            EXPECT_EQ(call.attributes.port_num, call.qp_number == second ? 2 : 1);
            EXPECT_NE(call.attributes.qkey, 0u);
        }
    }
}

TEST_F(Responding, AnswersWhoAsksAndNobodyElse) {
    open_roce();
    respond();
    const std::uint32_t qp = fabric_->responder_qp(0);
    ask(qp, "xxx");
    ask(qp, "q123");
    ASSERT_TRUE(wait([&] { return answers() == 1; }));
    EXPECT_EQ(echo_.asked_rail, 0u);
    const std::lock_guard lock(lib_.lock());
    const SendCall& sent = lib_.sent[0];
    EXPECT_EQ(sent.qp_number, qp);
    EXPECT_EQ(sent.request.wr.ud.remote_qpn, kAsker);
    ASSERT_EQ(sent.list.size(), 1u);
    ASSERT_EQ(sent.list[0].length, 4u);
    EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(sent.list[0].addr), "321q", 4), 0);
    const auto& handle = *static_cast<const FakeAh*>(sent.request.wr.ud.ah);
    EXPECT_EQ(handle.attributes.port_num, 1);
    EXPECT_EQ(handle.attributes.grh.sgid_index, 3);
}

// The responder reposts each receive that a question has used.
TEST_F(Responding, KeepsItsReceives) {
    open_roce();
    respond();
    const std::uint32_t qp = fabric_->responder_qp(0);
    for (int i = 0; i < 5; ++i) {
        ask(qp, "x");
    }
    EXPECT_TRUE(wait([&] {
        const std::lock_guard lock(lib_.lock());
        return lib_.qp(qp).receives == ResponderPort::kReceives &&
               lib_.received.size() == ResponderPort::kReceives + 5;
    }));
}

// A stranger is answered once there is an address handle for it: the responder does not wait.
TEST_F(Responding, AStrangerIsAnsweredWhenItAsksAgain) {
    open_roce();
    echo_.to = rail().address();
    ASSERT_EQ(fabric_->respond(echo_, kKey), kOk);
    ask(fabric_->responder_qp(0), "q1");
    ASSERT_TRUE(wait([&] {
        const std::lock_guard lock(lib_.lock());
        return lib_.living("ah") == 1;
    }));
    EXPECT_EQ(answers(), 0u);
    EXPECT_TRUE(wait([&] {
        ask(fabric_->responder_qp(0), "q2");
        return answers() > 0;
    }));
}

// The responder shares address handles; while all of its send slots are in use it drops answers.
TEST_F(Responding, NeedsNothingMoreThanAtTheBeginning) {
    open_roce();
    respond();
    const std::uint32_t qp = fabric_->responder_qp(0);
    const auto count_of = [&](const char* call) {
        const std::lock_guard lock(lib_.lock());
        return lib_.count(call);
    };
    const int registered = count_of("reg_mr");
    for (int i = 0; i < 100; ++i) {
        ask(qp, "q");
    }
    ASSERT_TRUE(wait([&] { return answers() == ResponderPort::kAnswers; }));
    std::this_thread::sleep_for(30ms);
    EXPECT_EQ(answers(), ResponderPort::kAnswers) << "the others are under way";
    complete_answers(0, ResponderPort::kAnswers);
    ask(qp, "q");
    ASSERT_TRUE(wait([&] { return answers() == ResponderPort::kAnswers + 1; }));
    EXPECT_EQ(count_of("create_ah"), 1);
    EXPECT_EQ(count_of("reg_mr"), registered);
}

// The adapter moves a queue pair to the error state for reasons of its own.
// The library destroys no queue before its events are acknowledged, which the fixture looks for.
TEST_F(Responding, AcknowledgesEachEventOnceHoweverManyThereAre) {
    open_roce();
    respond();
    for (std::size_t asked = 0; asked < 150; ++asked) {
        ask(fabric_->responder_qp(0), "q1");
        ASSERT_TRUE(wait([&] { return answers() == asked + 1; }));
        complete_answers(asked, asked + 1);
    }
}

TEST_F(Responding, AQueuePairThatFailsIsBegunAnew) {
    open_roce();
    respond();
    const std::uint32_t qp = fabric_->responder_qp(0);
    {
        const std::lock_guard lock(lib_.lock());
        lib_.qp(qp).state = IBV_QPS_ERR;
        ibv_wc failed{};
        failed.wr_id = next_receive(qp).wr_id;
        failed.status = IBV_WC_WR_FLUSH_ERR;
        lib_.complete_receive(qp, failed);
        used_ = lib_.received.size();
    }
    ASSERT_TRUE(wait([&] {
        const std::lock_guard lock(lib_.lock());
        return lib_.qp(qp).state == IBV_QPS_RTS;
    }));
    ask(qp, "q5");
    EXPECT_TRUE(wait([&] { return answers() == 1; }));
}

// E810 as RoCE, for example
TEST_F(Responding, AQueuePairThatCannotBeginAnewIsReplaced) {
    open_roce();
    respond();
    const std::uint32_t qp = fabric_->responder_qp(0);
    {
        const std::lock_guard lock(lib_.lock());
        lib_.devices[0].reuses = false;
        lib_.qp(qp).state = IBV_QPS_ERR;
        ibv_wc failed{};
        failed.wr_id = next_receive(qp).wr_id;
        failed.status = IBV_WC_WR_FLUSH_ERR;
        lib_.complete_receive(qp, failed);
        used_ = lib_.received.size();
    }
    ASSERT_TRUE(wait([&] { return fabric_->responder_qp(0) != qp; }));
    const std::uint32_t other = fabric_->responder_qp(0);
    ASSERT_TRUE(wait([&] {
        const std::lock_guard lock(lib_.lock());
        return lib_.qp(other).state == IBV_QPS_RTS && !lib_.qp(qp).alive;
    }));
    ask(other, "q5");
    EXPECT_TRUE(wait([&] { return answers() == 1; }));
}

// The thread follows the port's changes that the core hears of.
TEST_F(Responding, AnotherPartitionIsFollowed) {
    open_roce();
    respond();
    const std::uint32_t qp = fabric_->responder_qp(0);
    {
        const std::lock_guard lock(lib_.lock());
        lib_.devices[0].ports[0].pkeys = {0, 0xffff};
        lib_.modified.clear();
        lib_.raise_port(0, IBV_EVENT_PKEY_CHANGE, 1);
    }
    Event event;
    ASSERT_TRUE(fabric_->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::address_changed);
    ASSERT_TRUE(wait([&] {
        const std::lock_guard lock(lib_.lock());
        return lib_.modified.size() == 4 && lib_.qp(qp).state == IBV_QPS_RTS;
    }));
    const std::lock_guard lock(lib_.lock());
    EXPECT_EQ(lib_.modified[1].qp_number, qp);
    EXPECT_EQ(lib_.modified[1].attributes.pkey_index, 1);
}

// After a device's removal poll() returns POLLERR at once, for ever, also while the port's queue
// pair waits to be begun anew.
TEST_F(Responding, ARemovedDeviceIsNotWatched) {
    open_roce();
    respond();
    {
        const std::lock_guard lock(lib_.lock());
        const std::uint32_t qp = fabric_->responder_qp(0);
        ibv_wc failed{};
        failed.wr_id = next_receive(qp).wr_id;
        failed.status = IBV_WC_WR_FLUSH_ERR;
        lib_.fail("modify_qp", 1, EIO);
        lib_.complete_receive(qp, failed);
    }
    ASSERT_TRUE(wait([&] {
        const std::lock_guard lock(lib_.lock());
        return lib_.failed();
    }));
    int ends[2] = {-1, -1};
    ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    close(ends[0]); // now the other end says POLLERR
    {
        const std::lock_guard lock(lib_.lock());
        ASSERT_GE(dup3(ends[1], lib_.channels[0]->fd, O_CLOEXEC), 0);
        lib_.raise_port(0, IBV_EVENT_PORT_ACTIVE, 1); // wakes the thread
    }
    close(ends[1]);
    Event event;
    EXPECT_TRUE(fabric_->poll_event(event));
    const auto polls = [&] {
        const std::lock_guard lock(lib_.lock());
        return lib_.count("poll_cq");
    };
    const int before = polls();
    std::this_thread::sleep_for(200ms);
    EXPECT_LT(polls() - before, 20);
}

TEST_F(Responding, ARailThatCannotHaveOneGoesWithout) {
    for (const char* call : {"create_comp_channel", "create_cq", "create_qp", "modify_qp",
                             "post_recv", "req_notify_cq", "reg_mr"}) {
        SCOPED_TRACE(call);
        open_ib();
        lib_.fail(call, 1, ENOMEM);
        respond();
        EXPECT_TRUE(lib_.failed());
        EXPECT_EQ(fabric_->responder_qp(0), 0u);
        const std::uint32_t second = fabric_->responder_qp(1);
        EXPECT_NE(second, 0u);
        const std::size_t before = answers();
        used_ = 0;
        ask(second, "q7");
        EXPECT_TRUE(wait([&] { return answers() == before + 1; }));
        EXPECT_EQ(echo_.asked_rail, 1u);
        fabric_.reset();
        EXPECT_EQ(lib_.living(), 0) << left();
    }
}

TEST_F(Responding, WithoutAnyThereIsNoThread) {
    lib_.devices = {roce_device("rxe0")};
    ASSERT_EQ(open(), kOk) << error_;
    lib_.fail("create_comp_channel", 1, ENOSYS);
    EXPECT_FALSE(fabric_->respond(echo_, kKey).ok());
    EXPECT_EQ(fabric_->responder_qp(0), 0u);
}

// Signals belong to the program's threads.
TEST_F(Responding, TheThreadsTakeNoSignals) {
    open_roce();
    const auto threads = [] {
        std::vector<std::string> found;
        DIR* const tasks = opendir("/proc/self/task");
        while (const dirent* entry = readdir(tasks)) {
            if (entry->d_name[0] != '.') {
                found.push_back(entry->d_name);
            }
        }
        closedir(tasks);
        return found;
    };
    const std::vector<std::string> before = threads();
    respond();
    std::size_t blocked = 0;
    for (const std::string& task : threads()) {
        if (std::find(before.begin(), before.end(), task) != before.end()) {
            continue;
        }
        std::ifstream status("/proc/self/task/" + task + "/status");
        for (std::string line; std::getline(status, line);) {
            if (line.starts_with("SigBlk:")) {
                const std::uint64_t mask = std::stoull(line.substr(7), nullptr, 16);
                for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGCHLD, SIGPROF}) {
                    EXPECT_NE(mask >> (signal - 1) & 1, 0u) << signal;
                }
                ++blocked;
            }
        }
    }
    EXPECT_EQ(blocked, 2u) << "the responder, and the thread that makes address handles";
}

#ifndef __SANITIZE_THREAD__
TEST_F(Responding, AChildHasNoThreadToWaitFor) {
    open_roce();
    respond();
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        fabric_.reset();
        _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    ask(fabric_->responder_qp(0), "q9"); // the parent's responder goes on
    EXPECT_TRUE(wait([&] { return answers() == 1; }));
}
#endif

} // namespace
} // namespace adaptib::test
