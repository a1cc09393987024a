// SPDX-License-Identifier: BSD-3-Clause
// Harness of the conformance suite; see harness.h.
#include "conformance/harness.h"

#include <algorithm>
#include <array>
#include <ostream>
#include <stdexcept>

#include "fabric/await_handle.h"

namespace adaptib {

void PrintTo(const Status& status, std::ostream* out) {
    *out << (status.ok()         ? "ok"
             : status.is_again() ? "again"
                                 : "error")
         << " (" << reason_text(status.reason()) << ")";
}

void PrintTo(const WorkStatus& status, std::ostream* out) { *out << work_status_text(status); }

namespace conformance {

void PrintTo(const WorldFactory& world, std::ostream* out) { *out << world.name; }

namespace {

// Extracts "RcErrors.SomeTest" from Fabric/RcErrors.SomeTest/verbs.
std::string test_name() {
    const testing::TestInfo& info = *testing::UnitTest::GetInstance()->current_test_info();
    std::string suite = info.test_suite_name();
    std::string name = info.name();
    return suite.substr(suite.find('/') + 1) + "." + name.substr(0, name.find('/'));
}

void require(Status status, const char* what) {
    if (!status.ok()) {
        throw std::runtime_error(std::string("set-up: ") + what + ": " +
                                 reason_text(status.reason()));
    }
}

} // namespace

std::vector<WorldFactory>& worlds() {
    static std::vector<WorldFactory> all;
    return all;
}

testing::AssertionResult Fixture::ended(std::optional<WorkStatus> got, WorkStatus wanted) const {
    if (!got.has_value()) {
        return testing::AssertionFailure() << "it did not end";
    }
    return *got == wanted || world_->may_report(*got, wanted)
               ? testing::AssertionSuccess()
               : testing::AssertionFailure()
                     << work_status_text(*got) << ", not " << work_status_text(wanted);
}

bool add_world(WorldFactory factory) {
    worlds().push_back(std::move(factory));
    return true;
}

void Fixture::SetUp() {
    std::string error;
    std::string skip;
    world_ = GetParam().make(error, skip);
    if (!world_ && !skip.empty()) {
        GTEST_SKIP() << skip;
    }
    ASSERT_NE(world_, nullptr) << error;
    if (const std::string defect = world_->known_defect(test_name()); !defect.empty()) {
        GTEST_SKIP() << defect;
    }
    ASSERT_GE(world_->nodes(), 2u);
    for (std::size_t node = 0; node < world_->nodes(); ++node) {
        ASSERT_FALSE(world_->fabric(node).rails().empty());
    }
}

void Fixture::TearDown() {
    ends_.clear();
    srqs_.clear();
    queues_.clear();
    handles_.clear();
    buffers_.clear();
    world_.reset();
}

void Fixture::destroy_node_objects(std::size_t node) {
    for (auto& e : ends_) {
        if (e->node == node) {
            e->qp.reset();
        }
    }
    for (auto& s : srqs_) {
        if (s.node == node) {
            s.srq.reset();
        }
    }
    for (auto& q : queues_) {
        if (q->node == node) {
            q->cq.reset();
        }
    }
    for (auto& h : handles_) {
        if (h.node == node) {
            h.handle.reset();
        }
    }
    for (auto& b : buffers_) {
        if (b->node == node) {
            b->region.reset();
        }
    }
}

Queue& Fixture::queue(std::size_t node, std::uint32_t depth, std::size_t rail_index) {
    auto q = std::make_unique<Queue>();
    q->node = node;
    require(rail(node, rail_index).create_cq(depth, q->cq), "create_cq");
    queues_.push_back(std::move(q));
    return *queues_.back();
}

Buffer& Fixture::memory(std::size_t node, Bytes size, std::uint32_t access,
                        std::size_t rail_index) {
    auto b = std::make_unique<Buffer>();
    b->node = node;
    b->words.resize(static_cast<std::size_t>((size + 7) / 8));
    require(
        rail(node, rail_index).register_memory(b->words.data(), size, rights(access), b->region),
        "register_memory");
    buffers_.push_back(std::move(b));
    return *buffers_.back();
}

Buffer& Fixture::allocated(std::size_t node, Bytes size, std::uint32_t access,
                           std::size_t rail_index) {
    auto b = std::make_unique<Buffer>();
    b->node = node;
    require(rail(node, rail_index).allocate(size, rights(access), b->region), "allocate");
    buffers_.push_back(std::move(b));
    return *buffers_.back();
}

SharedReceiveQueue& Fixture::srq(std::size_t node, std::uint32_t depth, std::size_t rail_index) {
    std::unique_ptr<SharedReceiveQueue> out;
    require(rail(node, rail_index).create_srq(depth, out), "create_srq");
    srqs_.push_back({node, std::move(out)});
    return *srqs_.back().srq;
}

AddressHandle& Fixture::handle(std::size_t node, std::size_t to, std::size_t rail_index) {
    std::unique_ptr<AddressHandle> out;
    require(await_ah(rail(node, rail_index), path(to, rail_index), out), "create_ah");
    handles_.push_back({node, std::move(out)});
    return *handles_.back().handle;
}

End& Fixture::end(std::size_t node, const EndOptions& options) {
    auto e = std::make_unique<End>();
    e->node = node;
    e->rail = options.rail;
    e->send = options.send_queue != nullptr
                  ? options.send_queue
                  : &queue(node, std::max(options.send_depth, 16u) * 2, options.rail);
    e->receive = options.receive_queue != nullptr
                     ? options.receive_queue
                     : &queue(node, std::max(options.receive_depth, 512u) * 2, options.rail);
    QpInit init;
    init.type = options.type;
    init.send_cq = e->send->cq.get();
    init.receive_cq = e->receive->cq.get();
    init.srq = options.srq;
    init.send_depth = options.send_depth;
    init.receive_depth = options.receive_depth;
    init.max_gather = options.max_gather;
    init.inline_bytes = options.inline_bytes;
    init.signal_all = options.signal_all;
    require(rail(node, options.rail).create_qp(init, e->qp), "create_qp");
    ends_.push_back(std::move(e));
    return *ends_.back();
}

Fixture::Pair Fixture::rc_pair(std::size_t from, std::size_t to, const EndOptions& options,
                               const RcOptions& rc) {
    End& a = end(from, options);
    End& b = end(to, options);
    connect(a, b, rc);
    return {a, b};
}

PathSpec Fixture::path(std::size_t to, std::size_t rail_index) {
    PathSpec spec;
    spec.remote = rail(to, rail_index).address();
    return spec;
}

QpAttributes Fixture::rc_attributes(End& self, End& peer, QpState state, const RcOptions& rc) {
    const std::uint32_t reads = std::min(rail(self.node, self.rail).info().max_reads, 4u);
    QpAttributes a;
    a.state = state;
    a.access = rc.access;
    a.path = path(peer.node, self.rail);
    a.remote_qp = peer.qp->number();
    a.send_psn = (self.qp->number() + rc.first_psn) & 0xffffu;
    a.receive_psn = (peer.qp->number() + rc.first_psn) & 0xffffu;
    a.max_reads = reads;
    a.max_target_reads = rc.max_target_reads.value_or(reads);
    a.timeout = rc.timeout;
    a.retry_count = rc.retry_count;
    a.rnr_retry = rc.rnr_retry;
    a.rnr_timer = rc.rnr_timer;
    return a;
}

void Fixture::connect_one(End& self, End& peer, const RcOptions& rc) {
    require(self.qp->modify(rc_attributes(self, peer, QpState::init, rc), kRcInit), "RC to INIT");
    require(self.qp->modify(rc_attributes(self, peer, QpState::ready_to_receive, rc), kRcReceive),
            "RC to RTR");
    require(self.qp->modify(rc_attributes(self, peer, QpState::ready_to_send, rc), kRcSend),
            "RC to RTS");
}

void Fixture::connect(End& a, End& b, const RcOptions& rc) {
    require(a.qp->modify(rc_attributes(a, b, QpState::init, rc), kRcInit), "RC to INIT");
    require(b.qp->modify(rc_attributes(b, a, QpState::init, rc), kRcInit), "RC to INIT");
    require(a.qp->modify(rc_attributes(a, b, QpState::ready_to_receive, rc), kRcReceive),
            "RC to RTR");
    require(b.qp->modify(rc_attributes(b, a, QpState::ready_to_receive, rc), kRcReceive),
            "RC to RTR");
    require(a.qp->modify(rc_attributes(a, b, QpState::ready_to_send, rc), kRcSend), "RC to RTS");
    require(b.qp->modify(rc_attributes(b, a, QpState::ready_to_send, rc), kRcSend), "RC to RTS");
}

void Fixture::start_ud(End& e, std::uint64_t key) {
    QpAttributes a;
    a.access_key = key;
    a.state = QpState::init;
    require(e.qp->modify(a, kUdInit), "UD to INIT");
    a.state = QpState::ready_to_receive;
    require(e.qp->modify(a, kUdReceive), "UD to RTR");
    a.state = QpState::ready_to_send;
    require(e.qp->modify(a, kUdSend), "UD to RTS");
}

void Fixture::poll() {
    std::array<WorkCompletion, 16> batch;
    for (auto& q : queues_) {
        if (q->cq == nullptr) {
            continue;
        }
        const std::size_t count = q->cq->poll(batch);
        q->got.insert(q->got.end(), batch.begin(),
                      batch.begin() + static_cast<std::ptrdiff_t>(count));
    }
}

bool Fixture::wait(const std::function<bool()>& predicate, Nanoseconds limit) {
    return world_->run_until(
        [&] {
            poll();
            return predicate();
        },
        limit);
}

bool Fixture::wait_for(const Queue& q, std::size_t count, Nanoseconds limit) {
    return wait([&] { return q.got.size() >= count; }, limit);
}

bool Fixture::stays_empty(const std::vector<const Queue*>& queues) {
    return !wait(
        [&] {
            return std::any_of(queues.begin(), queues.end(),
                               [](const Queue* q) { return !q->got.empty(); });
        },
        kQuiet);
}

bool Fixture::wait_state(const End& e, QpState state, Nanoseconds limit) {
    return wait([&] { return e.qp->query().state == state; }, limit);
}

bool Fixture::wait_event(std::size_t node, EventKind kind, Event& out, Nanoseconds limit) {
    return wait(
        [&] {
            Event event;
            while (fabric(node).poll_event(event)) {
                if (event.kind == kind) {
                    out = event;
                    return true;
                }
            }
            return false;
        },
        limit);
}

Status Fixture::post_receive(End& e, std::uint64_t wr_id, const std::vector<Gather>& scatter) {
    ReceiveWork work;
    work.wr_id = wr_id;
    work.scatter = scatter.data();
    work.scatter_count = static_cast<std::uint32_t>(scatter.size());
    return e.qp->post_receive(work);
}

Status Fixture::post_receive(SharedReceiveQueue& q, std::uint64_t wr_id,
                             const std::vector<Gather>& scatter) {
    ReceiveWork work;
    work.wr_id = wr_id;
    work.scatter = scatter.data();
    work.scatter_count = static_cast<std::uint32_t>(scatter.size());
    return q.post(work);
}

Status Fixture::post(End& e, const SendWork& work, Nanoseconds limit) {
    Status status = e.qp->post_send(work);
    if (status.is_again()) {
        wait(
            [&] {
                status = e.qp->post_send(work);
                return !status.is_again();
            },
            limit);
    }
    return status;
}

std::optional<WorkStatus> Fixture::run(End& e, SendWork work, Nanoseconds limit) {
    work.flags |= kSignaled;
    const std::size_t before = e.send->got.size();
    const Status status = post(e, work, limit);
    if (!status.ok()) {
        ADD_FAILURE() << "post_send: " << testing::PrintToString(status);
        return std::nullopt;
    }
    if (!wait_for(*e.send, before + 1, limit)) {
        ADD_FAILURE() << "no completion";
        return std::nullopt;
    }
    const WorkCompletion done = e.send->got.back();
    e.send->got.pop_back();
    EXPECT_EQ(done.wr_id, work.wr_id);
    EXPECT_EQ(done.qp_number, e.qp->number());
    return done.status;
}

testing::AssertionResult Fixture::refused_locally(End& e, SendWork work) {
    work.flags |= kSignaled;
    const Status status = post(e, work);
    if (status.ok()) {
        if (!wait_for(*e.send, 1)) {
            return testing::AssertionFailure() << "it did not end";
        }
        const WorkStatus got = e.send->got.back().status;
        e.send->got.pop_back();
        return ended(got, WorkStatus::local_protection_error);
    }
    if (status != Status::error(Reason::bad_argument)) {
        return testing::AssertionFailure() << "post_send: " << testing::PrintToString(status);
    }
    return e.qp->query().state == QpState::ready_to_send
               ? testing::AssertionSuccess()
               : testing::AssertionFailure() << "post_send refused it and changed the state";
}

SendWork send_work(std::uint64_t wr_id, const std::vector<Gather>& gather) {
    SendWork work;
    work.wr_id = wr_id;
    work.opcode = Opcode::send;
    work.flags = kSignaled;
    work.gather = gather.data();
    work.gather_count = static_cast<std::uint32_t>(gather.size());
    return work;
}

SendWork rdma_work(std::uint64_t wr_id, Opcode opcode, const std::vector<Gather>& gather,
                   std::uint64_t remote_address, std::uint32_t remote_key) {
    SendWork work = send_work(wr_id, gather);
    work.opcode = opcode;
    work.remote_address = remote_address;
    work.remote_key = remote_key;
    return work;
}

RmaWork piece_of(const SendWork& work) {
    return {.opcode = work.opcode,
            .local_key = work.gather[0].local_key,
            .local = work.gather[0].address,
            .length = work.gather[0].length,
            .remote_address = work.remote_address,
            .remote_key = work.remote_key,
            .compare_add = work.compare_add,
            .swap = work.swap};
}

std::byte pattern(std::uint64_t seed, Bytes position) {
    std::uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15u + (position >> 3) * 0xd1342543de82ef95u;
    z = (z ^ (z >> 31)) * 0xbf58476d1ce4e5b9u;
    z ^= z >> 29;
    return static_cast<std::byte>(z >> (8 * (position & 7)));
}

void fill(std::byte* at, Bytes length, std::uint64_t seed) {
    for (Bytes i = 0; i < length; ++i) {
        at[i] = pattern(seed, i);
    }
}

testing::AssertionResult holds(const std::byte* at, Bytes length, std::uint64_t seed) {
    for (Bytes i = 0; i < length; ++i) {
        if (at[i] != pattern(seed, i)) {
            return testing::AssertionFailure()
                   << "byte " << i << " of " << length << " differs from pattern " << seed;
        }
    }
    return testing::AssertionSuccess();
}

testing::AssertionResult all_equal(const std::byte* at, Bytes length, std::byte value) {
    for (Bytes i = 0; i < length; ++i) {
        if (at[i] != value) {
            return testing::AssertionFailure()
                   << "byte " << i << " of " << length << " is " << static_cast<int>(at[i])
                   << ", not " << static_cast<int>(value);
        }
    }
    return testing::AssertionSuccess();
}

std::vector<Bytes> boundary_lengths(Bytes limit) {
    std::vector<Bytes> all{0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 48, 63, 64, 65, 100};
    for (Bytes power = 128; power <= 4 * kMiB; power *= 2) {
        all.push_back(power - 1);
        all.push_back(power);
        all.push_back(power + 1);
    }
    std::erase_if(all, [&](Bytes length) { return length > limit; });
    if (all.back() != limit && limit < 8 * kMiB) {
        all.push_back(limit);
    }
    return all;
}

} // namespace conformance
} // namespace adaptib
