// SPDX-License-Identifier: BSD-3-Clause
// Fixture of the contract tests: a stand-in, a fabric over it, and attributes for a rail.
// TearDown ends the fabric; by then it has to have destroyed everything, and nothing may be
// complained about.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fabric/await_handle.h"
#include "fabric/verbs/memory.h"
#include "fabric/verbs/verbs_fabric.h"
#include "unit/verbs/stand_in.h"

namespace adaptib {

inline void PrintTo(const Status& status, std::ostream* out) {
    *out << static_cast<int>(status.category()) << " (" << reason_text(status.reason()) << ")";
}

namespace test {

inline Status refusal(Reason reason) { return Status::error(reason); }

constexpr std::uint32_t kRcInit = kQpState | kQpAccess;
constexpr std::uint32_t kRcReceive = kQpState | kQpPath | kQpRemote | kQpReceiveLimits;
constexpr std::uint32_t kRcSend = kQpState | kQpRetry | kQpSendPsn | kQpSendLimits;

class VerbsTest : public testing::Test {
protected:
    VerbsTest() { options_.calls = &StandIn::calls(); }

    void TearDown() override {
        end_objects();
        fabric_.reset();
        EXPECT_EQ(lib_.living(), 0) << "not given back: " << left();
        for (const std::string& text : lib_.complaints()) {
            ADD_FAILURE() << text;
        }
    }
    void end_objects() {
        qps_.clear();
        srqs_.clear();
        cqs_.clear();
    }
    std::string left() const {
        std::string text;
        for (const char* kind :
             {"context", "pd", "mr", "ah", "channel", "cq", "srq", "qp", "list"}) {
            text += std::string(kind) + " " + std::to_string(lib_.living(kind)) + " ";
        }
        return text;
    }

    Status open() { return open_verbs_fabric(options_, fabric_, error_); }
    void open_roce() {
        lib_.devices = {roce_device("rxe0")};
        ASSERT_EQ(open(), kOk) << error_;
    }
    void open_ib(std::uint8_t lmc = 1) {
        lib_.devices = {ib_device("mlx5_0", 2, lmc)};
        ASSERT_EQ(open(), kOk) << error_;
    }
    Rail& rail(std::size_t index = 0) { return *fabric_->rails()[index]; }

    CompletionQueue& cq(std::size_t rail_index = 0, std::uint32_t depth = 64) {
        std::unique_ptr<CompletionQueue> made;
        EXPECT_EQ(rail(rail_index).create_cq(depth, made), kOk);
        cqs_.push_back(std::move(made));
        return *cqs_.back();
    }
    SharedReceiveQueue& srq(std::uint32_t depth = 16) {
        std::unique_ptr<SharedReceiveQueue> made;
        EXPECT_EQ(rail().create_srq(depth, made), kOk);
        srqs_.push_back(std::move(made));
        return *srqs_.back();
    }
    QpInit init(QpType type, CompletionQueue& queue) {
        QpInit out;
        out.type = type;
        out.send_cq = out.receive_cq = &queue;
        out.send_depth = 8;
        out.receive_depth = 8;
        out.max_gather = 3;
        out.inline_bytes = 64;
        return out;
    }
    QueuePair& qp(const QpInit& what, std::size_t rail_index = 0) {
        std::unique_ptr<QueuePair> made;
        EXPECT_EQ(rail(rail_index).create_qp(what, made), kOk);
        qps_.push_back(std::move(made));
        return *qps_.back();
    }
    FakeQp& fake(const QueuePair& pair) { return lib_.qp(pair.number()); }
    PathSpec path_to(const Rail& remote) {
        PathSpec path;
        path.remote = remote.address();
        return path;
    }
    static const ibv_ah_attr& attributes_of(const AddressHandle& handle) {
        const ibv_ah* ah = static_cast<const verbs::VerbsAddressHandle&>(handle).ah();
        return static_cast<const FakeAh*>(ah)->attributes;
    }
    // For moves up to RTS, with a distinct value for each attribute.
    QpAttributes attributes(QpState state, const Rail& remote) {
        QpAttributes a;
        a.state = state;
        a.access = kRemoteWrite | kRemoteRead;
        a.access_key = 0x1234;
        a.path = path_to(remote);
        a.remote_qp = 0xabc;
        a.send_psn = 0x1000001; // 25 bits
        a.receive_psn = 77;
        a.max_reads = 5;
        a.max_target_reads = 6;
        a.timeout = 13;
        a.retry_count = 4;
        a.rnr_retry = 3;
        a.rnr_timer = 9;
        return a;
    }
    void start(QueuePair& pair, std::size_t rail_index = 0) {
        const bool rc = pair.type() == QpType::rc;
        const auto at = [&](QpState state) { return attributes(state, rail(rail_index)); };
        ASSERT_EQ(pair.modify(at(QpState::init), rc ? kRcInit : kQpState | kQpKey), kOk);
        ASSERT_EQ(pair.modify(at(QpState::ready_to_receive), rc ? kRcReceive : kQpState), kOk);
        ASSERT_EQ(pair.modify(at(QpState::ready_to_send), rc ? kRcSend : kQpState | kQpSendPsn),
                  kOk);
    }
    std::vector<WorkCompletion> poll(CompletionQueue& queue) {
        std::vector<WorkCompletion> out(32);
        out.resize(queue.poll(out));
        return out;
    }

    StandIn lib_;
    VerbsOptions options_;
    std::unique_ptr<Fabric> fabric_;
    std::string error_;
    std::vector<std::unique_ptr<CompletionQueue>> cqs_;
    std::vector<std::unique_ptr<SharedReceiveQueue>> srqs_;
    std::vector<std::unique_ptr<QueuePair>> qps_;
};

} // namespace test
} // namespace adaptib
