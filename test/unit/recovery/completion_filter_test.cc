// SPDX-License-Identifier: BSD-3-Clause
// The completion filter: which target hears of which completion, and when.
#include "recovery/completion_filter.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

namespace adaptib {
namespace {

using Log = std::vector<std::string>;

class FakeQueue final : public CompletionQueue {
public:
    std::deque<WorkCompletion> waiting;
    int polls = 0;

private:
    std::size_t poll_impl(std::span<WorkCompletion> out) override {
        ++polls;
        EXPECT_GT(out.size(), 0u);
        std::size_t count = 0;
        while (count < out.size() && !waiting.empty()) {
            out[count++] = waiting.front();
            waiting.pop_front();
        }
        return count;
    }
};

constexpr std::uint32_t kRail = 3;

class Target final : public WorkTarget {
public:
    Target(std::string name, Log& log) : name_(std::move(name)), log_(log) {}
    std::vector<WorkCompletion> seen;

private:
    void on_work_done(std::uint32_t rail, const WorkCompletion& completion) override {
        EXPECT_EQ(rail, kRail);
        seen.push_back(completion);
        log_.push_back(name_ + (completion.status == WorkStatus::success ? " good" : " bad"));
    }

    std::string name_;
    Log& log_;
};

class Listener final : public PathListener {
public:
    explicit Listener(Log& log) : log_(log) {}
    std::vector<WorkStatus> statuses;
    std::vector<std::uint64_t> wr_ids;

private:
    void on_path_failed(std::uint32_t rail, std::uint32_t qp_number, WorkStatus status,
                        std::uint64_t wr_id) override {
        EXPECT_EQ(rail, kRail);
        wr_ids.push_back(wr_id);
        statuses.push_back(status);
        log_.push_back("path " + std::to_string(qp_number));
    }

    Log& log_;
};

class CompletionFilterTest : public testing::Test {
protected:
    void add(WorkTarget* target, WorkStatus status = WorkStatus::success,
             std::uint32_t qp_number = 1) {
        WorkCompletion completion;
        completion.wr_id = wr_id_of(target);
        completion.status = status;
        completion.qp_number = qp_number;
        queue.waiting.push_back(completion);
    }

    Log log;
    FakeQueue queue;
    Listener listener{log};
    Target a{"a", log};
    Target b{"b", log};
    CompletionFilter filter{kRail, queue, listener};
};

TEST_F(CompletionFilterTest, AnEmptyQueueIsPolledOnce) {
    EXPECT_EQ(filter.poll(64), 0u);
    EXPECT_EQ(queue.polls, 1);
    EXPECT_TRUE(log.empty());
    EXPECT_EQ(filter.poll(0), 0u);
    EXPECT_EQ(queue.polls, 1);
}

TEST_F(CompletionFilterTest, GoodOnesGoToWhoPostedThemInOrder) {
    add(&a);
    add(&b);
    add(&a);
    queue.waiting.back().length = 77;
    queue.waiting.back().kind = WorkKind::read;
    EXPECT_EQ(filter.poll(64), 3u);
    EXPECT_EQ(log, (Log{"a good", "b good", "a good"}));
    ASSERT_EQ(a.seen.size(), 2u);
    EXPECT_EQ(a.seen[1].length, 77u);
    EXPECT_EQ(a.seen[1].kind, WorkKind::read);
}

TEST_F(CompletionFilterTest, ATargetFindsItsNumberInTheCompletion) {
    for (const std::size_t number : {std::size_t{77}, kWorkNumbers - 1, kWorkNumbers + 5}) {
        add(&a);
        queue.waiting.back().wr_id = wr_id_of(&a, number);
        EXPECT_EQ(filter.poll(64), 1u);
        ASSERT_FALSE(a.seen.empty());
        EXPECT_EQ(work_number_of(a.seen.back().wr_id), number % kWorkNumbers);
    }
    EXPECT_EQ(a.seen.size(), 3u);
}

TEST_F(CompletionFilterTest, BadOnesGoToWhoPostedThemAndThePathIsReportedAfterTheBatch) {
    add(&a);
    add(&b, WorkStatus::retry_exceeded, 7);
    add(&a, WorkStatus::flushed, 7);
    add(&b, WorkStatus::success, 8);
    EXPECT_EQ(filter.poll(64), 4u);
    EXPECT_EQ(log, (Log{"a good", "b bad", "a bad", "b good", "path 7", "path 7"}));
    EXPECT_EQ(listener.statuses,
              (std::vector<WorkStatus>{WorkStatus::retry_exceeded, WorkStatus::flushed}));
    EXPECT_EQ(listener.wr_ids, (std::vector<std::uint64_t>{wr_id_of(&b), wr_id_of(&a)}));
    ASSERT_EQ(b.seen.size(), 2u);
    EXPECT_EQ(b.seen[0].status, WorkStatus::retry_exceeded);
    EXPECT_EQ(b.seen[0].qp_number, 7u);
}

TEST_F(CompletionFilterTest, WorkOfNobodyIsCountedAndItsFailureReported) {
    add(nullptr);
    add(nullptr, WorkStatus::remote_access_error, 9);
    add(&a);
    EXPECT_EQ(filter.poll(64), 3u);
    EXPECT_EQ(log, (Log{"a good", "path 9"}));
}

TEST_F(CompletionFilterTest, TheLimitIsKept) {
    for (int i = 0; i < 10; ++i) {
        add(&a);
    }
    EXPECT_EQ(filter.poll(3), 3u);
    EXPECT_EQ(queue.waiting.size(), 7u);
    EXPECT_EQ(filter.poll(1), 1u);
    EXPECT_EQ(filter.poll(64), 6u);
    EXPECT_EQ(a.seen.size(), 10u);
}

TEST_F(CompletionFilterTest, MoreThanOneBatchIsTakenWithinTheLimit) {
    for (int i = 0; i < 100; ++i) {
        add(i % 2 == 0 ? &a : &b);
    }
    EXPECT_EQ(filter.poll(64), 64u);
    EXPECT_EQ(a.seen.size() + b.seen.size(), 64u);
    EXPECT_EQ(filter.poll(64), 36u);
    EXPECT_EQ(a.seen.size(), 50u);
    EXPECT_EQ(b.seen.size(), 50u);
}

// A listener that is told of a path may post, and complete, further work at once.
class PostingListener final : public PathListener {
public:
    PostingListener(FakeQueue& queue, WorkTarget& target) : queue_(queue), target_(target) {}
    int told = 0;

private:
    void on_path_failed(std::uint32_t, std::uint32_t, WorkStatus, std::uint64_t) override {
        ++told;
        WorkCompletion completion;
        completion.wr_id = wr_id_of(&target_);
        queue_.waiting.push_back(completion);
    }

    FakeQueue& queue_;
    WorkTarget& target_;
};

TEST_F(CompletionFilterTest, WhatTheListenerCausesComesWithTheNextPoll) {
    PostingListener posting(queue, b);
    CompletionFilter other(kRail, queue, posting);
    add(&a, WorkStatus::flushed, 3);
    EXPECT_EQ(other.poll(64), 1u);
    EXPECT_EQ(posting.told, 1);
    EXPECT_TRUE(b.seen.empty());
    EXPECT_EQ(other.poll(64), 1u);
    EXPECT_EQ(b.seen.size(), 1u);
}

} // namespace
} // namespace adaptib
