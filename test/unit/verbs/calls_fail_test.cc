// SPDX-License-Identifier: BSD-3-Clause
// Every call of libibverbs fails once, at every place where it is made, with every error that the
// manual pages name or leave open: the fabric reports it, destroys everything and goes on.
//
// A scenario makes all kinds of objects and calls, and puts up with refusals. It runs once without
// failures, which counts the calls, and then once for each call and error.
#include <cerrno>
#include <functional>
#include <map>
#include <set>

#include "unit/verbs/verbs_fixture.h"

namespace adaptib::test {
namespace {

// The reason that each error number has to become. Posts with ENOMEM or EAGAIN return
// again: the queue is full.
const std::map<int, Reason> kReasons{
    {ENOMEM, Reason::no_memory},    {EINVAL, Reason::bad_argument},
    {EPERM, Reason::no_permission}, {EACCES, Reason::no_permission},
    {EIO, Reason::no_device},       {ENODEV, Reason::no_device},
    {EBUSY, Reason::no_memory},     {EOPNOTSUPP, Reason::not_supported},
    {EAGAIN, Reason::no_memory},    {EILSEQ, Reason::internal},
};

// Calls whose failure is not reported: the fabric finds another way, or nobody is worse off. All
// other failures have to be reported to the caller.
const std::vector<std::string> kSilent{
    "fork_init",   "query_gid_ex", "query_qp", "get_async_event", "destroy_qp",   "destroy_cq",
    "destroy_srq", "destroy_ah",   "dereg_mr", "dealloc_pd",      "close_device", "resize_cq",
};

class CallsFail : public VerbsTest {
protected:
    struct Outcome {
        std::vector<Status> refusals; // statuses of the fabric's calls, in order
        std::vector<Event> events;
        std::size_t notices = 0;
        bool opened = false;
    };

    void SetUp() override {
        lib_.devices = {ib_device("mlx5_0", 1, 1)};
        lib_.devices[0].ports[0].attributes.flags = IBV_QPF_GRH_REQUIRED;
    }
    void keep(Status status) {
        if (!status.ok()) {
            outcome_.refusals.push_back(status);
        }
    }
    // Creates, and checks that there is an object exactly if the status is ok.
    template <typename T, typename Create> void make(std::unique_ptr<T>& out, Create create) {
        const Status status = create(out);
        EXPECT_EQ(status.ok(), out != nullptr);
        keep(status);
    }
    void bring_up(QueuePair& pair) {
        const bool rc = pair.type() == QpType::rc;
        keep(pair.modify(attributes(QpState::init, rail()), rc ? kRcInit : kQpState | kQpKey));
        keep(pair.modify(attributes(QpState::ready_to_receive, rail()),
                         rc ? kRcReceive : +kQpState));
        keep(pair.modify(attributes(QpState::ready_to_send, rail()),
                         rc ? kRcSend : kQpState | kQpSendPsn));
    }
    void migrate(QueuePair& pair) {
        QpAttributes a = attributes(QpState::ready_to_send, rail());
        a.alternate_path = path_to(rail());
        a.migration = MigrationState::rearm;
        keep(pair.modify(a, kQpAlternatePath | kQpMigration));
    }
    void traffic(QueuePair& pair, const AddressHandle* handle, const MemoryRegion& region) {
        const Gather gather{region.address(), 8, region.local_key()};
        SendWork work;
        work.flags = kSignaled;
        work.gather = &gather;
        work.gather_count = 1;
        work.address_handle = handle;
        ReceiveWork receive;
        receive.scatter = &gather;
        receive.scatter_count = 1;
        keep(pair.post_receive(receive));
        keep(pair.post_send(work));
        ibv_wc failed{};
        failed.status = IBV_WC_RETRY_EXC_ERR;
        lib_.complete_send(pair.number(), failed);
    }
    void read_events(QueuePair& pair) {
        lib_.raise_port(lib_.contexts.size() - 1, IBV_EVENT_PORT_ACTIVE, 1);
        lib_.raise_qp(IBV_EVENT_QP_ACCESS_ERR, pair.number());
        Event event;
        for (int i = 0; i < 8; ++i) {
            if (fabric_->poll_event(event)) {
                outcome_.events.push_back(event);
            }
        }
    }

    void scenario() {
        outcome_ = {};
        error_.clear();
        keep(open());
        outcome_.opened = fabric_ != nullptr;
        if (!outcome_.opened) {
            EXPECT_FALSE(error_.empty()) << "a person is told why";
            return;
        }
        outcome_.notices = fabric_->notices().size();
        if (!fabric_->rails().empty()) {
            with_rail();
        }
        fabric_.reset();
    }
    void with_rail() {
        std::unique_ptr<MemoryRegion> region;
        std::unique_ptr<AddressHandle> handle;
        std::unique_ptr<CompletionQueue> queue;
        std::unique_ptr<SharedReceiveQueue> shared;
        make(region, [&](auto& out) { return rail().allocate(100, kLocalWrite, out); });
        make(handle, [&](auto& out) { return await_ah(rail(), path_to(rail()), out); });
        make(queue, [&](auto& out) { return rail().create_cq(16, out); });
        make(shared, [&](auto& out) { return rail().create_srq(16, out); });
        if (shared) {
            keep(shared->post({}));
            keep(shared->arm_limit(1));
        }
        for (const QpType type : {QpType::rc, QpType::ud}) {
            if (!queue || !region || !handle) {
                continue;
            }
            std::unique_ptr<QueuePair> pair;
            make(pair, [&](auto& out) { return rail().create_qp(init(type, *queue), out); });
            if (pair) {
                with_queue_pair(*pair, *queue, *handle, *region);
            }
        }
    }
    void with_queue_pair(QueuePair& pair, CompletionQueue& queue, const AddressHandle& handle,
                         const MemoryRegion& region) {
        bring_up(pair);
        if (pair.type() == QpType::rc) {
            migrate(pair);
        }
        const QpState before = pair.query().state;
        EXPECT_TRUE(before == QpState::ready_to_send || !outcome_.refusals.empty());
        traffic(pair, &handle, region);
        const int moves = lib_.count("modify_qp");
        (void)poll(queue);
        read_events(pair);
        for (int nth = moves; !lib_.failed() && nth < lib_.count("modify_qp");) {
            error_moves_.insert(++nth);
        }
        QpAttributes a;
        a.state = QpState::reset;
        keep(pair.modify(a, kQpState));
        a.state = QpState::error;
        keep(pair.modify(a, kQpState));
    }

    bool silent(const std::string& call) const {
        return std::find(kSilent.begin(), kSilent.end(), call) != kSilent.end();
    }
    // Calls whose failure, at these places, the fabric works around.
    bool has_another_way(const std::string& call, int nth) const {
        return (call == "create_qp" && nth <= kTries) || // it tries with less inline data
               (call == "query_port" && nth > 1) ||      // after an event: the old values stay
               (call == "query_pkey" && nth > 1) || call == "poll_cq" ||
               (call == "modify_qp" && error_moves_.contains(nth));
    }
    void check_reported(const std::string& call, int nth, int error, Reason reason) {
        if (call == "fork_init") {
            EXPECT_EQ(outcome_.notices, 1u);
        }
        if (silent(call) || has_another_way(call, nth)) {
            return;
        }
        ASSERT_FALSE(outcome_.refusals.empty()) << "nobody was told";
        const Status first = outcome_.refusals.front();
        if (call.starts_with("post_") && (error == ENOMEM || error == EAGAIN)) {
            EXPECT_EQ(first, Status::again(Reason::queue_full));
        } else if ((call == "post_send" || call == "post_recv") && reason == Reason::no_device) {
            EXPECT_EQ(first, refusal(Reason::bad_state))
                << "the queue pair is gone with its device";
        } else {
            EXPECT_EQ(first, refusal(reason));
        }
    }
    // After a call that destroys something has failed, its object and the parents of that are left.
    // The device is closed all the same, which ends all of them.
    void check_left(const std::string& call) {
        EXPECT_EQ(lib_.living("context"), call == "close_device" ? 1 : 0);
        EXPECT_EQ(lib_.living("list"), 0);
        if (!call.starts_with("destroy") && !call.starts_with("de") && call != "close_device") {
            EXPECT_EQ(lib_.living(), 0) << left();
        }
        for (auto& context : lib_.contexts) {
            context->alive = false;
        }
        const auto end = [](auto& objects) {
            for (auto& each : objects) {
                each->alive = false;
            }
        };
        end(lib_.pds), end(lib_.mrs), end(lib_.ahs), end(lib_.cqs), end(lib_.srqs), end(lib_.qps);
    }

    static constexpr int kTries = 2; // queue pairs that opening tries
    // Numbers of the calls of modify_qp whose result no caller waits for.
    std::set<int> error_moves_;
    Outcome outcome_;
};

TEST_F(CallsFail, NoneFails) {
    scenario();
    EXPECT_TRUE(outcome_.opened) << error_;
    EXPECT_TRUE(outcome_.refusals.empty());
    EXPECT_EQ(outcome_.notices, 0u);
    EXPECT_EQ(outcome_.events.size(), 4u);
    // The scenario makes each call of the table: otherwise no failure of it would be tested.
    for (const char* call :
         {"fork_init",  "get_device_list", "open_device",   "close_device",    "query_device",
          "query_port", "query_gid_ex",    "query_pkey",    "set_nonblocking", "get_async_event",
          "alloc_pd",   "dealloc_pd",      "reg_mr",        "dereg_mr",        "create_ah",
          "destroy_ah", "create_cq",       "destroy_cq",    "poll_cq",         "create_srq",
          "modify_srq", "destroy_srq",     "post_srq_recv", "create_qp",       "modify_qp",
          "query_qp",   "destroy_qp",      "post_send",     "post_recv"}) {
        EXPECT_GT(lib_.count(call), 0) << call;
    }
}

TEST_F(CallsFail, EachOnceAtEachPlaceWithEachError) {
    scenario(); // without a failure, so this notes error_moves_, too
    const std::map<std::string, int> counts = lib_.counts();
    const std::set<int> error_moves = error_moves_;
    int runs = 0;
    for (const auto& [call, count] : counts) {
        for (int nth = 1; nth <= count; ++nth) {
            for (const auto& [error, reason] : kReasons) {
                SCOPED_TRACE(call + " number " + std::to_string(nth) + " of " +
                             std::to_string(count) + ": " + strerror(error));
                lib_.fail(call, nth, error);
                scenario();
                error_moves_ = error_moves;
                ++runs;
                EXPECT_TRUE(lib_.failed()) << "the call was not made";
                check_reported(call, nth, error, reason);
                check_left(call);
                if (HasFailure()) {
                    return;
                }
            }
        }
    }
    EXPECT_GT(runs, 500);
}

} // namespace
} // namespace adaptib::test
