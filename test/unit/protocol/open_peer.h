// SPDX-License-Identifier: BSD-3-Clause
// A peer with two open subchannels, whose queue pairs keep requests until the test completes them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/work_target.h"
#include "peer/peer.h"
#include "unit/null_rail.h"
#include "unit/recovery/two_rails.h"

namespace adaptib::test {

// Takes `room` requests at a time.
class KeepingQp final : public QueuePair {
public:
    explicit KeepingQp(std::uint32_t number) : QueuePair(QpType::rc) { number_ = number; }

    std::size_t room = 8;
    Status answer = kOk; // if there is room
    Status key = kOk;    // of any range
    bool takes_inline = true;
    std::deque<SendWork> taken;
    std::deque<Gather> gathers; // of `taken`

private:
    Status modify_impl(const QpAttributes&, std::uint32_t) override { return kOk; }
    QpAttributes query_impl() const override { return {}; }
    Status post_send_impl(const SendWork& work) override {
        if (taken.size() == room) {
            return Status::again(Reason::queue_full);
        }
        if (!takes_inline && (work.flags & kInline) != 0) {
            return Status::error(Reason::bad_argument);
        }
        if (answer.ok()) {
            taken.push_back(work);
            gathers.push_back(work.gather[0]);
        }
        return answer;
    }
    Status post_receive_impl(const ReceiveWork&) override { return kOk; }
    Status find_key_impl(const RemoteRange&, std::uint32_t&) override { return key; }
};

// Lends the caller's memory, and its own.
class LendingRail final : public NullRail {
public:
    LendingRail() { info_.max_message_bytes = kGiB; }
    void set_max_gather(std::uint32_t most) { info_.max_gather = most; }
    void see_regions() {
        info_.capabilities |= static_cast<std::uint32_t>(Capability::sees_regions);
    }
    bool has_memory = true;
    const void* refused = nullptr; // memory that cannot be registered

private:
    class Region final : public MemoryRegion {
    public:
        Region(void* address, Bytes length) : MemoryRegion(address, length) {}
        explicit Region(Bytes length) : MemoryRegion(nullptr, length), own_(length) {
            address_ = own_.data();
        }

    private:
        std::vector<std::byte> own_;
    };
    Status register_impl(void* address, Bytes length, std::uint32_t,
                         std::unique_ptr<MemoryRegion>& out) override {
        if (refused != nullptr && address == refused) {
            return Status::error(Reason::locked_memory);
        }
        out = std::make_unique<Region>(address, length);
        return kOk;
    }
    Status register_file_impl(const FileRange&, void* address, Bytes length, std::uint32_t,
                              std::unique_ptr<MemoryRegion>& out) override {
        out = std::make_unique<Region>(address, length);
        return kOk;
    }
    Status allocate_impl(Bytes length, std::uint32_t, std::unique_ptr<MemoryRegion>& out) override {
        if (!has_memory) {
            return Status::error(Reason::no_memory);
        }
        out = std::make_unique<Region>(length);
        return kOk;
    }
};

struct OpenPeer {
    OpenPeer() {
        peer->lanes.scheduler = scheduler("none");
        peer->session.state = ConnectState::open;
        peer->connection.number = 1;
        connect();
    }

    static std::unique_ptr<Scheduler> scheduler(const char* striping) {
        SchedulerOptions options;
        options.striping = striping;
        options.min_stripe = 1000;
        return make_scheduler(options);
    }
    void connect() {
        peer->lanes.subchannels.clear();
        peer->lanes.subchannels.resize(2);
        for (std::uint32_t i = 0; i < 2; ++i) {
            Subchannel& subchannel = peer->lanes.subchannels[i];
            subchannel.local_rail = subchannel.remote_rail = i;
            subchannel.rate.value = 1'000'000'000;
            subchannel.qp = std::make_unique<KeepingQp>(5); // the same number on both rails
        }
    }
    KeepingQp& qp(std::size_t i) { return static_cast<KeepingQp&>(*peer->lanes.subchannels[i].qp); }
    std::size_t posted() { return qp(0).taken.size() + qp(1).taken.size(); }
    // Completes the oldest request of the subchannel.
    void complete(std::uint32_t i, WorkStatus status = WorkStatus::success) {
        ASSERT_FALSE(qp(i).taken.empty());
        WorkCompletion completion;
        completion.wr_id = qp(i).taken.front().wr_id;
        completion.status = status;
        completion.qp_number = qp(i).number();
        qp(i).taken.pop_front();
        qp(i).gathers.pop_front();
        target_of(completion.wr_id)->on_work_done(i, completion);
    }
    void complete_all() {
        for (std::uint32_t i = 0; i < 2; ++i) {
            while (!qp(i).taken.empty()) {
                complete(i);
            }
        }
    }
    // Returns the only subchannel that carries transfers as long as none is striped.
    std::uint32_t used() { return qp(0).taken.empty() ? 1 : 0; }

    TwoRails there;
    LendingRail first;
    LendingRail second;
    std::vector<Rail*> rails{&first, &second};
    std::unique_ptr<Peer> peer = there.peer(9);
};

} // namespace adaptib::test
