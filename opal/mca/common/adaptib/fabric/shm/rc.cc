// SPDX-License-Identifier: BSD-3-Clause
// Life of an RC request: posted, attempted, issued, retired.
#include "fabric/shm/rc.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/invariant.h"

namespace adaptib::shm {

RcQueuePair::RcQueuePair(Context& context, std::uint32_t rail, const QpInit& init)
    : LocalQueuePair(context, rail, init),
      peer_(context.rails().word_of(rail), context.segment().cookie()),
      messages_(context.clock(), peer_),
      pipeline_(context.bounce(), peer_, context.segment().header()->pid),
      target_(context.regions(), context.segment(), rail), ops_(init.send_depth) {}

RcQueuePair::~RcQueuePair() {
    if (entry_ != nullptr) {
        state_ = QpState::reset;
        publish();
        fence();
        drop_sends();
        disconnect();
    }
}

// -------------------------------------------------------------------------------------------------
// Connection

Status RcQueuePair::connect(const QpAttributes& attributes) {
    if (attributes.remote_qp == 0 || attributes.remote_qp >> 24 != 0) {
        return Status::error(Reason::bad_argument);
    }
    ADAPTIB_INVARIANT(ops_.empty() && pipeline_.empty() && next_ == 0,
                      "a connection begins without requests", ops_.size(), next_);
    std::shared_ptr<PeerSegment> peer;
    std::uint32_t rail = 0;
    if (const Status status = context_.peers().open(attributes.path.remote, peer, rail);
        !status.ok()) {
        return status;
    }
    peer_.attach(std::move(peer), rail, attributes.remote_qp);
    known_.forget();
    messages_.restart(number_);
    entry_->remote_cookie.store(peer_.segment().cookie(), std::memory_order_relaxed);
    return kOk;
}

void RcQueuePair::ready_to_send() { peer_.expect(number_, attributes_.send_psn); }

void RcQueuePair::disconnect() {
    peer_.detach();
    known_.forget();
    entry_->remote_cookie.store(0, std::memory_order_relaxed);
}

bool RcQueuePair::accepts(const RecordView& record) const {
    return record.fields.type != RecordType::datagram &&
           record.fields.source_qp == peer_.number() &&
           context_.peers().producer_cookie(record.producer) == peer_.segment().cookie();
}

bool RcQueuePair::usable_impl() const {
    return state_ == QpState::ready_to_send && peer_.rails_word() == 0 && peer_.connected();
}

// The guard does not check the cookie again: the word contains both queue pair numbers, of which
// the target's comes back only after 2,047 others, and bits of the packet number.
FastPathGuard RcQueuePair::fast_path_guard_impl() const {
    const std::uint64_t word =
        !peer_.attached() ? 0 : peer_.entry().word.load(std::memory_order_acquire);
    if (word == 0 || !usable_impl()) {
        return {};
    }
    FastPathGuard guard;
    guard.faults = &context_.faults();
    guard.target = &peer_.entry().word;
    guard.expected = word;
    return guard;
}

bool RcQueuePair::target_lives_impl() const {
    return !peer_.attached() || peer_.segment().check_alive();
}

// -------------------------------------------------------------------------------------------------
// Posting

Status RcQueuePair::check(const SendWork& work, Bytes& length) const {
    if (const Status status = check_list(work, kMaxMessage, length); !status.ok()) {
        return status;
    }
    switch (work.opcode) {
    case Opcode::send:
    case Opcode::send_imm:
    case Opcode::write:
    case Opcode::write_imm: break;
    case Opcode::read:
        if ((work.flags & kInline) != 0) {
            return Status::error(Reason::bad_argument);
        }
        break;
    case Opcode::compare_swap:
    case Opcode::fetch_add:
        if (length != 8 || work.gather_count != 1 || (work.flags & kInline) != 0) {
            return Status::error(Reason::bad_argument);
        }
        break;
    default: return Status::error(Reason::bad_argument);
    }
    return kOk;
}

Status RcQueuePair::post_send_impl(const SendWork& work) {
    if (state_ != QpState::ready_to_send && state_ != QpState::error) {
        return Status::error(Reason::bad_state);
    }
    Bytes length = 0;
    if (const Status status = check(work, length); !status.ok()) {
        return status;
    }
    if (send_queue_full()) {
        return Status::again(Reason::queue_full);
    }
    ++posted_;
    if (state_ == QpState::error) {
        complete_send(work.wr_id, work.opcode, WorkStatus::flushed, posted_);
        return kOk;
    }
    Attempt a;
    if (!ops_.empty() || peer_.rails_word() != 0) {
        enqueue(work, length, a, Step::wait);
        return kOk;
    }
    WorkStatus status = WorkStatus::success;
    const Step step = attempt(work, length, a, status);
    if (step == Step::over) {
        conclude(work, status, posted_);
    } else {
        enqueue(work, length, a, step);
    }
    return kOk;
}

void RcQueuePair::enqueue(const SendWork& work, Bytes length, const Attempt& attempt, Step step) {
    ADAPTIB_INVARIANT(state_ == QpState::ready_to_send && step != Step::over,
                      "a request waits only in RTS, and until it is over", state_, step);
    ADAPTIB_INVARIANT(!ops_.full(), "the send queue has room for what it takes", ops_.size());
    known_.forget();
    Op& op = ops_.push();
    op.work = work;
    op.length = length;
    op.attempt = attempt;
    op.phase = step == Step::issued ? Phase::issued : Phase::waiting;
    op.status = WorkStatus::success;
    op.release = posted_;
    op.ready_at = Nanoseconds{0};
    std::copy_n(work.gather, work.gather_count, op.gather.begin());
    if (step == Step::issued) {
        ADAPTIB_INVARIANT(ops_.size() == 1, "requests are issued in order", ops_.size());
        next_ = ops_.size();
    } else if ((work.flags & kInline) != 0 && length > 0) {
        op.inline_data.resize(length);
        gather_out({work.gather, work.gather_count}, 0, op.inline_data.data(), length);
        op.gather[0] = {nullptr, length, 0}; // issue() sets the address, since ops move
        op.work.gather_count = 1;
    }
    if (step != Step::issued && (peer_.rails_word() & kRailRateMask) != 0) {
        op.ready_at = context_.rails().pace(rail_, peer_.rail_word(), length, context_.clock());
    }
    context_.activate(this);
}

void RcQueuePair::conclude(const SendWork& work, WorkStatus status, std::uint64_t release) {
    if (breaks_queue_pair(status)) {
        fail(work.wr_id, work.opcode, status, release);
    } else if (status != WorkStatus::success || wants_completion(work.flags)) {
        complete_send(work.wr_id, work.opcode, status, release);
    }
}

void RcQueuePair::fail(std::uint64_t wr_id, Opcode opcode, WorkStatus status,
                       std::uint64_t release) {
    complete_send(wr_id, opcode, status, release);
    enter_error();
}

// -------------------------------------------------------------------------------------------------
// Trying

Step RcQueuePair::attempt(const SendWork& work, Bytes length, Attempt& a, WorkStatus& status) {
    const bool scatters = work.opcode >= Opcode::read;
    if ((work.flags & kInline) == 0 &&
        !context_.regions().allows({work.gather, work.gather_count}, rail_,
                                   scatters ? +kLocalWrite : 0u)) {
        status = WorkStatus::local_protection_error;
        return Step::over;
    }
    switch (work.opcode) {
    case Opcode::send:
    case Opcode::send_imm:
        return peer_.reachable() ? messages_.send(work, length, attributes_.rnr_retry, a, status)
                                 : stall(a, status);
    case Opcode::write:
    case Opcode::read: return transfer_data(work, length, a, status);
    case Opcode::write_imm: {
        if (!a.data_done) {
            const Step step = transfer_data(work, length, a, status);
            if (step != Step::over || status != WorkStatus::success) {
                return step;
            }
            a.data_done = true;
        }
        return peer_.reachable()
                   ? messages_.send_notice(work, length, attributes_.rnr_retry, a, status)
                   : stall(a, status);
    }
    case Opcode::compare_swap:
    case Opcode::fetch_add: return do_atomic(work, a, status);
    }
    status = WorkStatus::local_qp_error;
    return Step::over;
}

// No reply can come at present: waits until the retries are used up.
Step RcQueuePair::stall(Attempt& a, WorkStatus& status) {
    const bool gone = (peer_.rail_word() & kRailClosed) != 0;
    if (!gone) {
        if (attributes_.timeout == 0) {
            return Step::wait;
        }
        const Nanoseconds now = context_.now();
        if (a.give_up == kNever) {
            const Nanoseconds once{4096ll << (attributes_.timeout & 31)};
            a.give_up = now + once * (attributes_.retry_count + 1);
        }
        if (now < a.give_up) {
            return Step::wait;
        }
    }
    status = WorkStatus::retry_exceeded;
    return Step::over;
}

// -------------------------------------------------------------------------------------------------
// Progress

bool RcQueuePair::progress_sends() {
    ADAPTIB_INVARIANT(ops_.empty() || state_ == QpState::ready_to_send, "requests wait only in RTS",
                      ops_.size(), state_);
    bool more = true;
    while (more && !ops_.empty()) {
        issue();
        more = retire();
    }
    return !ops_.empty();
}

// Returns true while the op has to wait because a rail is slowed.
bool RcQueuePair::slowed(Op& op) {
    const std::uint64_t word = peer_.rails_word();
    if ((word & kRailRateMask) == 0 || (word & kRailDown) != 0 || op.attempt.moved > 0) {
        return false;
    }
    if (op.ready_at == Nanoseconds{0}) {
        op.ready_at = context_.rails().pace(rail_, peer_.rail_word(), op.length, context_.clock());
    }
    return context_.now() < op.ready_at;
}

void RcQueuePair::issue() {
    ADAPTIB_INVARIANT(next_ <= ops_.size(), "requests that are issued are there", next_,
                      ops_.size());
    while (next_ < ops_.size()) {
        Op& op = ops_[next_];
        ADAPTIB_INVARIANT(op.phase != Phase::issued,
                          "requests behind the first that is not issued are not either", next_,
                          ops_.size());
        if (op.phase == Phase::over || slowed(op)) {
            return; // over: failed; nothing after it is executed
        }
        op.work.gather = op.gather.data();
        if ((op.work.flags & kInline) != 0) {
            op.gather[0].address = op.inline_data.data();
        }
        const Step step = attempt(op.work, op.length, op.attempt, op.status);
        if (step == Step::wait) {
            return;
        }
        op.phase = step == Step::issued ? Phase::issued : Phase::over;
        if (op.phase == Phase::over && breaks_queue_pair(op.status)) {
            return;
        }
        ADAPTIB_INVARIANT(pipeline_.empty(),
                          "the copy pipeline belongs to the first request that is not issued",
                          next_, op.attempt.moved);
        ++next_;
    }
}

// Removes finished ops from the front; true if there were any.
bool RcQueuePair::retire() {
    bool any = false;
    while (!ops_.empty()) {
        Op& op = ops_.front();
        if (op.phase == Phase::issued) {
            bool over = false;
            op.status = messages_.state(op.attempt.message, over);
            if (!over && peer_.reachable()) {
                op.attempt.give_up = kNever;
                return any;
            }
            if (!over && stall(op.attempt, op.status) == Step::wait) {
                return any;
            }
            op.phase = Phase::over;
        }
        if (op.phase == Phase::waiting) {
            return any;
        }
        const SendWork work = op.work;
        const WorkStatus status = op.status;
        ADAPTIB_INVARIANT(next_ > 0 || breaks_queue_pair(status),
                          "a request that ends well was issued", next_, status);
        const std::uint64_t release = op.release;
        ops_.pop();
        if (next_ > 0) {
            --next_;
        }
        any = true;
        conclude(work, status, release);
    }
    return any;
}

void RcQueuePair::flush_sends() {
    pipeline_.abandon();
    next_ = 0;
    while (!ops_.empty()) {
        const Op& op = ops_.front();
        const std::uint64_t wr_id = op.work.wr_id;
        const Opcode opcode = op.work.opcode;
        const std::uint64_t release = op.release;
        ops_.pop();
        complete_send(wr_id, opcode, WorkStatus::flushed, release);
    }
}

void RcQueuePair::drop_sends() {
    pipeline_.abandon();
    ops_.clear();
    next_ = 0;
}

// -------------------------------------------------------------------------------------------------
// Requests that the peer sent by a message

void RcQueuePair::serve(const RecordView& record) {
    BounceRequest request{};
    std::byte* slot = nullptr;
    if (record.payload_bytes == sizeof request) {
        std::memcpy(&request, record.payload, sizeof request);
        slot = find_slot(peer_.segment(), request);
    }
    if (slot == nullptr) {
        ++context_.counters().dropped_garbage;
        return;
    }
    auto* header = reinterpret_cast<BounceHeader*>(slot);
    const BounceAnswer answer =
        target_.serve(attributes_, request, slot + sizeof *header, header->result);
    header->answer.store(request.tag << 8 | static_cast<std::uint64_t>(answer),
                         std::memory_order_release);
}

Status RcQueuePair::serve_rma_impl(const SendWork& work) {
    if (work.gather_count != 1 || work.gather[0].length == 0 || !usable_impl()) {
        return Status::again(Reason::none);
    }
    BounceRequest request{};
    request.remote_address = work.remote_address;
    request.compare_add = work.compare_add;
    request.swap = work.swap;
    request.remote_key = work.remote_key;
    request.length = static_cast<std::uint32_t>(work.gather[0].length);
    request.opcode = static_cast<std::uint32_t>(work.opcode);
    auto* data = static_cast<std::byte*>(work.gather[0].address);
    std::uint64_t old = 0;
    if (target_.serve(attributes_, request, data, old) != BounceAnswer::done) {
        return Status::again(Reason::none);
    }
    if (work.opcode == Opcode::compare_swap || work.opcode == Opcode::fetch_add) {
        std::memcpy(data, &old, sizeof old);
    }
    return kOk;
}

} // namespace adaptib::shm
