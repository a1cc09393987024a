// SPDX-License-Identifier: BSD-3-Clause
// Requests of connected queue pairs that fail, and completions that are late.
#include <algorithm>

#include "base/random.h"
#include "unit/fault/nodes.h"

namespace adaptib::test {
namespace {

using fault::Fault;

constexpr WorkStatus kLastStatus = WorkStatus::general_error;

class Requests : public testing::Test {
protected:
    explicit Requests(fault::FaultPlan plan = {}) : nodes_(std::move(plan)) {
        a_ = nodes_.end(0, QpType::rc);
        b_ = nodes_.end(1, QpType::rc);
        nodes_.connect(a_, b_);
        std::fill(nodes_.bytes[0].begin(), nodes_.bytes[0].end(), std::byte{1});
    }
    bool written(std::size_t i) { return *nodes_.memory(1, i * 8) == std::byte{1}; }

    Nodes nodes_;
    End a_;
    End b_;
};

struct FailCase {
    Fault fault;
    WorkStatus status;
};

class FailingRequests : public Requests, public testing::WithParamInterface<FailCase> {};
std::vector<FailCase> fail_cases() {
    std::vector<FailCase> out;
    for (int status = 1; status <= static_cast<int>(kLastStatus); ++status) {
        out.push_back({Fault::request_fails, static_cast<WorkStatus>(status)});
        out.push_back({Fault::request_fails_done, static_cast<WorkStatus>(status)});
    }
    return out;
}
INSTANTIATE_TEST_SUITE_P(Statuses, FailingRequests, testing::ValuesIn(fail_cases()),
                         [](const testing::TestParamInfo<FailCase>& param) {
                             return std::string(param.param.fault == Fault::request_fails
                                                    ? "not_done_"
                                                    : "done_") +
                                    std::to_string(static_cast<int>(param.param.status));
                         });

TEST_P(FailingRequests, TheFourthOfEight) {
    const bool done = GetParam().fault == Fault::request_fails_done;
    nodes_.plan_fault({.fault = GetParam().fault, .nth = 4, .status = GetParam().status});
    for (std::uint64_t i = 0; i < 3; ++i) {
        ASSERT_TRUE(nodes_.post_receive(a_, 100 + i, 0, 8).ok());
    }
    for (std::uint64_t i = 0; i < 8; ++i) { // requests 1, 3, 5 and 7 are unsignaled
        ASSERT_TRUE(nodes_.post(a_, i, Opcode::write, i * 8, 8, i % 2 == 0 ? +kSignaled : 0u).ok());
    }
    EXPECT_FALSE(a_.qp->usable());
    nodes_.poll({&a_, &b_});
    std::vector<WorkCompletion> sends;
    std::vector<WorkCompletion> receives;
    for (const WorkCompletion& completion : a_.got) {
        EXPECT_EQ(completion.qp_number, a_.qp->number());
        (completion.wr_id < 100 ? sends : receives).push_back(completion);
    }
    EXPECT_EQ(ids(sends), (std::vector<std::uint64_t>{0, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(statuses(sends),
              (std::vector<WorkStatus>{WorkStatus::success, WorkStatus::success, GetParam().status,
                                       WorkStatus::flushed, WorkStatus::flushed,
                                       WorkStatus::flushed, WorkStatus::flushed}));
    EXPECT_EQ(ids(receives), (std::vector<std::uint64_t>{100, 101, 102}));
    EXPECT_EQ(statuses(receives), std::vector<WorkStatus>(3, WorkStatus::flushed));
    for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(written(i), i < 3 || (i == 3 && done)) << i;
    }
    EXPECT_EQ(a_.qp->query().state, QpState::error);
    const Status late = nodes_.post(a_, 9, Opcode::write, 0, 8);
    EXPECT_TRUE(late.ok() || late == Status::error(Reason::bad_state));
    ASSERT_EQ(nodes_.log.entries.size(), 1u);
    EXPECT_EQ(nodes_.log.entries[0].fault, GetParam().fault);
}

TEST_F(Requests, AfterResetAllIsWellAgain) {
    nodes_.plan_fault({.fault = Fault::request_fails, .nth = 1});
    ASSERT_TRUE(nodes_.post(a_, 1, Opcode::write, 0, 8).ok());
    nodes_.poll({&a_, &b_});
    ASSERT_EQ(statuses(a_.got), std::vector<WorkStatus>{WorkStatus::retry_exceeded});
    QpAttributes reset;
    ASSERT_TRUE(a_.qp->modify(reset, kQpState).ok());
    ASSERT_TRUE(b_.qp->modify(reset, kQpState).ok());
    nodes_.connect(a_, b_);
    a_.got.clear();
    EXPECT_TRUE(a_.qp->usable());
    ASSERT_TRUE(nodes_.post(a_, 2, Opcode::write, 8, 8).ok());
    nodes_.poll({&a_, &b_});
    EXPECT_EQ(ids(a_.got), std::vector<std::uint64_t>{2});
    EXPECT_EQ(statuses(a_.got), std::vector<WorkStatus>{WorkStatus::success});
    EXPECT_TRUE(written(1));
}

TEST_F(Requests, NothingIsExecutedPastAPlannedFailure) {
    std::byte* target = nodes_.memory(1);
    const Gather gather = nodes_.gather(0, 0, 8);
    RmaWork work;
    work.opcode = Opcode::write;
    work.local_key = gather.local_key;
    work.local = gather.address;
    work.length = gather.length;
    work.remote_address = reinterpret_cast<std::uintptr_t>(target);
    work.remote_key = nodes_.regions[1][0]->remote_key();
    nodes_.plan_fault({.fault = Fault::request_fails, .nth = 1});
    EXPECT_TRUE(a_.qp->rma_now(work).is_again());
    EXPECT_EQ(*target, std::byte{0});
}

TEST_F(Requests, ADestroyedQueuePairTellsNothingMore) {
    nodes_.plan_fault({.fault = Fault::request_fails, .nth = 2});
    nodes_.plan_fault({.fault = Fault::completion_delayed, .rate = 1, .delay = {5, {}}});
    for (std::uint64_t i = 0; i < 6; ++i) {
        ASSERT_TRUE(nodes_.post(a_, i, Opcode::write, i * 8, 8).ok());
    }
    nodes_.poll({&a_, &b_}, 2);
    a_.qp.reset();
    nodes_.poll({&a_, &b_});
    EXPECT_TRUE(a_.got.empty());
}

TEST_F(Requests, LateCompletionsKeepTheirOrder) {
    nodes_.plan_fault({.fault = Fault::completion_delayed, .nth = 2, .delay = {20, {}}});
    for (std::uint64_t i = 0; i < 4; ++i) {
        ASSERT_TRUE(nodes_.post(a_, i, Opcode::write, i * 8, 8).ok());
    }
    nodes_.poll({&a_, &b_}, 10);
    EXPECT_EQ(ids(a_.got), std::vector<std::uint64_t>{0});
    EXPECT_TRUE(written(3)) << "only told later";
    nodes_.poll({&a_, &b_}, 20);
    EXPECT_EQ(ids(a_.got), (std::vector<std::uint64_t>{0, 1, 2, 3}));
}

TEST_F(Requests, LateCompletionsComeAtTheirTime) {
    nodes_.plan_fault(
        {.fault = Fault::completion_delayed, .nth = 1, .delay = {0, Nanoseconds{1000}}});
    ASSERT_TRUE(nodes_.post(a_, 1, Opcode::write, 0, 8).ok());
    nodes_.poll({&a_, &b_});
    nodes_.clock.advance(Nanoseconds{999});
    nodes_.poll({&a_, &b_});
    EXPECT_TRUE(a_.got.empty());
    nodes_.clock.advance(Nanoseconds{1});
    nodes_.poll({&a_, &b_});
    EXPECT_EQ(a_.got.size(), 1u);
}

fault::FaultPlan random_plan(std::uint64_t seed) {
    fault::FaultPlan plan;
    plan.seed = seed;
    plan.faults = {
        {.fault = Fault::request_fails, .rate = 0.02, .status = WorkStatus::retry_exceeded},
        {.fault = Fault::request_fails_done, .rate = 0.02, .status = WorkStatus::bad_response},
        {.fault = Fault::completion_delayed, .rate = 0.2, .delay = {4, {}}},
        {.fault = Fault::send_refused, .rate = 0.1},
    };
    return plan;
}

class RandomRequests : public Requests, public testing::WithParamInterface<std::uint64_t> {
protected:
    RandomRequests() : Requests(random_plan(GetParam())) {}
};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomRequests, testing::Range<std::uint64_t>(1, 61));

// Writes, some signaled: completions are in order, everything before a failure is done, and
// nothing behind it.
TEST_P(RandomRequests, AFailureIsABoundary) {
    Random random(GetParam());
    std::vector<bool> signaled;
    std::size_t refused = 0;
    for (std::uint64_t i = 0; i < 80; ++i) {
        const bool tell = random.below(2) == 0;
        const Status status = nodes_.post(a_, signaled.size(), Opcode::write, signaled.size() * 8,
                                          8, tell ? +kSignaled : 0u);
        if (status.ok()) {
            signaled.push_back(tell);
        } else if (status.is_again()) {
            ++refused;
        } else {
            EXPECT_EQ(status, Status::error(Reason::bad_state));
        }
        if (random.below(4) == 0) {
            nodes_.poll({&a_, &b_}, 1);
        }
    }
    nodes_.poll({&a_, &b_});
    const fault::FaultLog& log = nodes_.log;
    EXPECT_EQ(refused, log.count(Fault::send_refused));
    const bool not_done = log.count(Fault::request_fails) > 0;
    const std::size_t failures =
        log.count(Fault::request_fails) + log.count(Fault::request_fails_done);
    ASSERT_LE(failures, 1u) << "one breaks the queue pair";
    std::size_t boundary = signaled.size(); // the request that failed
    for (const WorkCompletion& completion : a_.got) {
        if (completion.status != WorkStatus::success && completion.status != WorkStatus::flushed) {
            EXPECT_EQ(boundary, signaled.size()) << "a second failure";
            EXPECT_EQ(completion.status,
                      not_done ? WorkStatus::retry_exceeded : WorkStatus::bad_response);
            boundary = static_cast<std::size_t>(completion.wr_id);
        }
    }
    EXPECT_EQ(boundary < signaled.size(), failures == 1);
    std::vector<std::uint64_t> expected;
    for (std::size_t i = 0; i < signaled.size(); ++i) {
        if (signaled[i] || i >= boundary) {
            expected.push_back(i);
        }
        EXPECT_EQ(written(i), i < boundary || (i == boundary && !not_done)) << i;
    }
    EXPECT_EQ(ids(a_.got), expected);
    EXPECT_EQ(a_.qp->query().state, failures == 1 ? QpState::error : QpState::ready_to_send);
}

} // namespace
} // namespace adaptib::test
