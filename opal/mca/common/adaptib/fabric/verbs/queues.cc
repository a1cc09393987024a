// SPDX-License-Identifier: BSD-3-Clause
// Translates completions; shared receives.
#include "fabric/verbs/queues.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/invariant.h"
#include "fabric/verbs/errors.h"
#include "fabric/verbs/qp.h"

namespace adaptib::verbs {

namespace {

constexpr std::size_t kBatch = 16;
constexpr std::uint32_t kDepthOfFixed = 1u << 16; // depth of queues that cannot grow

WorkStatus work_status(ibv_wc_status status) {
    switch (status) {
    case IBV_WC_SUCCESS: return WorkStatus::success;
    case IBV_WC_LOC_LEN_ERR: return WorkStatus::local_length_error;
    case IBV_WC_LOC_QP_OP_ERR: return WorkStatus::local_qp_error;
    case IBV_WC_LOC_PROT_ERR: return WorkStatus::local_protection_error;
    case IBV_WC_WR_FLUSH_ERR: return WorkStatus::flushed;
    case IBV_WC_BAD_RESP_ERR: return WorkStatus::bad_response;
    case IBV_WC_LOC_ACCESS_ERR: return WorkStatus::local_access_error;
    case IBV_WC_REM_INV_REQ_ERR: return WorkStatus::remote_invalid_request;
    case IBV_WC_REM_ACCESS_ERR: return WorkStatus::remote_access_error;
    case IBV_WC_REM_OP_ERR: return WorkStatus::remote_operation_error;
    case IBV_WC_RETRY_EXC_ERR: return WorkStatus::retry_exceeded;
    case IBV_WC_RNR_RETRY_EXC_ERR: return WorkStatus::rnr_retry_exceeded;
    case IBV_WC_REM_ABORT_ERR: return WorkStatus::remote_aborted;
    case IBV_WC_FATAL_ERR: return WorkStatus::fatal;
    case IBV_WC_RESP_TIMEOUT_ERR: return WorkStatus::response_timeout;
    default: return WorkStatus::general_error; // of services that are not used here
    }
}

WorkKind work_kind_of(const ibv_wc& wc) {
    switch (wc.opcode) {
    case IBV_WC_RDMA_WRITE: return WorkKind::write;
    case IBV_WC_RDMA_READ: return WorkKind::read;
    case IBV_WC_COMP_SWAP: return WorkKind::compare_swap;
    case IBV_WC_FETCH_ADD: return WorkKind::fetch_add;
    case IBV_WC_RECV:
        return (wc.wc_flags & IBV_WC_WITH_IMM) != 0 ? WorkKind::receive_imm : WorkKind::receive;
    case IBV_WC_RECV_RDMA_WITH_IMM: return WorkKind::receive_imm;
    default: return WorkKind::send;
    }
}

bool number_below(const VerbsQueuePair* qp, std::uint32_t number) { return qp->number() < number; }

} // namespace

int scatter_list(const ReceiveWork& work, std::uint32_t max, ibv_sge* list, int used) {
    if (work.scatter_count > max || (work.scatter_count > 0 && work.scatter == nullptr)) {
        return -1;
    }
    for (std::uint32_t i = 0; i < work.scatter_count; ++i) {
        const Gather& entry = work.scatter[i];
        if (entry.length > UINT32_MAX) {
            return -1;
        }
        if (entry.length != 0) { // some adapters take 0 for 2 GiB
            list[used++] = {reinterpret_cast<std::uintptr_t>(entry.address),
                            static_cast<std::uint32_t>(entry.length), entry.local_key};
        }
    }
    return used;
}

// -------------------------------------------------------------------------------------------------
// Completion queue

namespace {

// DC initiators count their requests, and so do queue pairs whose places the provider frees early.
bool hears(VerbsQueuePair& qp) {
    return qp.type() == QpType::dc_initiator || qp.rail().device().frees_places_early();
}

} // namespace

VerbsCompletionQueue::~VerbsCompletionQueue() {
    ADAPTIB_INVARIANT(qps_.empty(), "queue pairs end before their completion queue", qps_.size());
    rail_.device().renewed().remove(*this);
    if (cq_ != nullptr) {
        rail_.calls().destroy_cq(cq_);
    }
}

int VerbsCompletionQueue::create(std::uint32_t depth) {
    ADAPTIB_INVARIANT(cq_ == nullptr, "a completion queue is created once", cq_);
    depth_ = depth;
    if (!rail_.queues_grow()) {
        depth = std::max(depth, std::min(kDepthOfFixed, rail_.info().max_cq_depth));
    }
    errno = 0;
    cq_ = rail_.calls().create_cq(rail_.device().context(), static_cast<int>(depth), this, nullptr,
                                  0);
    return cq_ == nullptr ? error_number(-1) : 0;
}

int VerbsCompletionQueue::renew() {
    for (VerbsQueuePair* qp : std::exchange(qps_, {})) {
        qp->lose_device();
    }
    datagram_qps_ = told_ = 0;
    kept_.clear();
    if (cq_ != nullptr) {
        rail_.device().keep(std::exchange(cq_, nullptr));
    }
    const int error = create(depth_);
    broken_ = error != 0; // nobody polls it
    return error;
}

void VerbsCompletionQueue::take_back() {
    ADAPTIB_INVARIANT(qps_.empty(), "nobody uses a queue that is taken back", qps_.size());
    if (cq_ != nullptr) {
        rail_.calls().destroy_cq(std::exchange(cq_, nullptr));
    }
    broken_ = true;
}

void VerbsCompletionQueue::attach(VerbsQueuePair& qp) {
    if (find(qp.number()) == nullptr) {
        qps_.insert(std::lower_bound(qps_.begin(), qps_.end(), qp.number(), number_below), &qp);
        datagram_qps_ += qp.type() == QpType::ud ? 1 : 0;
        told_ += hears(qp) ? 1 : 0;
        ADAPTIB_AUDIT(std::is_sorted(qps_.begin(), qps_.end(),
                                     [](auto* a, auto* b) { return a->number() < b->number(); }),
                      "queue pairs are sorted by number", qps_.size());
        ADAPTIB_INVARIANT(datagram_qps_ <= qps_.size() && told_ <= qps_.size(),
                          "queue pairs that are counted are in the list", datagram_qps_, told_,
                          qps_.size());
    }
}

// Counts a shared receive queue once, however many queue pairs it serves.
std::uint64_t VerbsCompletionQueue::needed(const VerbsQueuePair& more) const {
    std::uint64_t entries = 0;
    std::vector<const VerbsSharedReceiveQueue*> shared;
    const auto add = [&](const VerbsQueuePair& qp) {
        entries += &qp.send_cq() == this ? qp.send_depth() : 0;
        if (&qp.receive_cq() != this) {
            return;
        }
        const VerbsSharedReceiveQueue* srq = qp.srq();
        if (srq == nullptr) {
            entries += qp.receive_depth();
        } else if (std::find(shared.begin(), shared.end(), srq) == shared.end()) {
            shared.push_back(srq);
            entries += srq->depth();
        }
    };
    for (const VerbsQueuePair* qp : qps_) {
        if (qp != &more) {
            add(*qp);
        }
    }
    add(more);
    return entries;
}

int VerbsCompletionQueue::make_room(const VerbsQueuePair& qp) {
    ADAPTIB_INVARIANT(&qp.send_cq() == this || &qp.receive_cq() == this,
                      "a queue makes room for its own queue pairs", qp.number());
    if (cq_ == nullptr) {
        return ENODEV; // there was no room for it when the device came back
    }
    const auto now = static_cast<std::uint64_t>(cq_->cqe);
    const std::uint64_t most = rail_.info().max_cq_depth;
    const std::uint64_t entries = needed(qp);
    if (entries <= now) {
        return 0;
    }
    if (!rail_.queues_grow() || entries > most) {
        return ENOSPC;
    }
    const auto resize = [this](std::uint64_t depth) {
        const auto once = [&] {
            const int result = rail_.calls().resize_cq(cq_, static_cast<int>(depth));
            return result == 0 ? 0 : error_number(result);
        };
        const int error = once();
        if (error != EBUSY) {
            return error;
        }
        fetch(); // some drivers end the resize before while the program polls
        return once();
    };
    const std::uint64_t ahead = std::min(most, 2 * now);
    return ahead > entries && resize(ahead) == 0 ? 0 : resize(entries);
}

void VerbsCompletionQueue::detach(VerbsQueuePair& qp) {
    if (std::erase(qps_, &qp) != 0) {
        datagram_qps_ -= qp.type() == QpType::ud ? 1 : 0;
        told_ -= hears(qp) ? 1 : 0;
        ADAPTIB_INVARIANT(datagram_qps_ <= qps_.size() && told_ <= qps_.size(),
                          "queue pairs that are counted are in the list", datagram_qps_, told_,
                          qps_.size());
    }
}

VerbsQueuePair* VerbsCompletionQueue::find(std::uint32_t number) const {
    const auto at = std::lower_bound(qps_.begin(), qps_.end(), number, number_below);
    return at != qps_.end() && (*at)->number() == number ? *at : nullptr;
}

void VerbsCompletionQueue::forget(const VerbsQueuePair& qp) {
    std::erase_if(kept_, [&](const WorkCompletion& c) { return c.qp_number == qp.number(); });
    fetch_but(&qp);
    ADAPTIB_AUDIT(std::none_of(kept_.begin(), kept_.end(),
                               [&](const WorkCompletion& c) { return c.qp_number == qp.number(); }),
                  "no completion of a queue pair that is forgotten is kept", kept_.size());
}

void VerbsCompletionQueue::fetch() { fetch_but(nullptr); }

void VerbsCompletionQueue::flush(std::uint64_t wr_id, std::uint32_t qp_number) {
    fetch();
    WorkCompletion& flushed = kept_.emplace_back();
    flushed.wr_id = wr_id;
    flushed.status = WorkStatus::flushed;
    flushed.qp_number = qp_number;
}

void VerbsCompletionQueue::fetch_but(const VerbsQueuePair* qp) {
    std::array<ibv_wc, kBatch> batch;
    for (int count = 1; count > 0;) {
        count = poll_library(batch);
        for (int i = 0; i < count; ++i) {
            const ibv_wc& wc = batch[static_cast<std::size_t>(i)];
            if (qp == nullptr || wc.qp_num != qp->number()) {
                translate(wc, kept_.emplace_back());
            }
        }
    }
}

void VerbsCompletionQueue::fail() {
    ADAPTIB_INVARIANT(cq_ != nullptr, "a queue that fails is there", broken_);
    if (!broken_) {
        broken_ = true;
        rail_.break_down();
        for (VerbsQueuePair* qp : qps_) {
            if (qp->fatal()) {
                rail_.fatal().push_back(qp->number());
            }
        }
    }
}

int VerbsCompletionQueue::poll_library(std::span<ibv_wc> out) {
    if (broken_) {
        return 0;
    }
    const int count = rail_.calls().poll_cq(cq_, static_cast<int>(out.size()), out.data());
    if (count < 0) [[unlikely]] {
        fail();
    }
    return count;
}

std::size_t VerbsCompletionQueue::poll_impl(std::span<WorkCompletion> out) {
    std::size_t done = 0;
    while (done < out.size() && !kept_.empty())
        [[unlikely]] {
            out[done++] = kept_.front();
            kept_.pop_front();
        }
    std::array<ibv_wc, kBatch> batch;
    while (done < out.size()) {
        const std::size_t wanted = std::min(kBatch, out.size() - done);
        const int count = poll_library(std::span(batch).first(wanted));
        for (int i = 0; i < count; ++i) {
            translate(batch[static_cast<std::size_t>(i)], out[done++]);
        }
        if (count < static_cast<int>(wanted)) {
            break;
        }
    }
    return done;
}

void VerbsCompletionQueue::translate(const ibv_wc& from, WorkCompletion& to) {
    to = {};
    to.wr_id = from.wr_id;
    to.status = work_status(from.status);
    to.qp_number = from.qp_num;
    if (from.status != IBV_WC_SUCCESS) [[unlikely]] { // no other field is valid
        to.vendor_error = from.vendor_err;
        if (VerbsQueuePair* qp = find(from.qp_num); qp != nullptr) {
            qp->failed(from.status);
        }
        return;
    }
    to.kind = work_kind_of(from);
    if (to.kind < WorkKind::receive) {
        if (told_ > 0) {
            if (VerbsQueuePair* qp = find(from.qp_num); qp != nullptr) {
                qp->sent();
            }
        }
        return;
    }
    to.length = from.byte_len;
    to.immediate = to.kind == WorkKind::receive_imm ? ntohl(from.imm_data) : 0;
    if (datagram_qps_ > 0) {
        const VerbsQueuePair* qp = find(from.qp_num);
        if (qp != nullptr && qp->type() == QpType::ud) {
            to.length -= std::min<Bytes>(to.length, kGrhBytes);
            to.source_qp = from.src_qp;
        }
    }
}

// -------------------------------------------------------------------------------------------------
// Shared receive queue

VerbsSharedReceiveQueue::~VerbsSharedReceiveQueue() {
    ADAPTIB_INVARIANT(qps_.empty(), "queue pairs end before their shared receive queue",
                      qps_.size());
    rail_.device().renewed().remove(*this);
    if (srq_ != nullptr) {
        rail_.calls().destroy_srq(srq_);
    }
}

int VerbsSharedReceiveQueue::renew() {
    for (VerbsQueuePair* qp : std::exchange(qps_, {})) {
        qp->lose_device();
    }
    if (srq_ != nullptr) {
        rail_.device().keep(std::exchange(srq_, nullptr));
    }
    return create();
}

void VerbsSharedReceiveQueue::take_back() {
    ADAPTIB_INVARIANT(qps_.empty(), "nobody uses a queue that is taken back", qps_.size());
    if (srq_ != nullptr) {
        rail_.calls().destroy_srq(std::exchange(srq_, nullptr));
    }
}

int VerbsSharedReceiveQueue::create() {
    ADAPTIB_INVARIANT(srq_ == nullptr, "a shared receive queue is created once", srq_);
    ADAPTIB_INVARIANT(rail_.info().max_gather <= kMaxGather,
                      "the list of a receive fits on the stack", rail_.info().max_gather);
    ibv_srq_init_attr init{};
    init.srq_context = this;
    init.attr.max_wr = depth_;
    init.attr.max_sge = rail_.info().max_gather;
    errno = 0;
    srq_ = rail_.calls().create_srq(rail_.device().pd(), &init);
    return srq_ == nullptr ? error_number(-1) : 0;
}

Status VerbsSharedReceiveQueue::post_impl(const ReceiveWork& work) {
    std::array<ibv_sge, kMaxGather> list;
    ibv_recv_wr request{};
    request.wr_id = work.wr_id;
    request.sg_list = list.data();
    request.num_sge = scatter_list(work, rail_.info().max_gather, list.data(), 0);
    if (request.num_sge < 0) {
        return Status::error(Reason::bad_argument);
    }
    ibv_recv_wr* bad = nullptr;
    const int result = rail_.calls().post_srq_recv(srq_, &request, &bad);
    if (result == 0) [[likely]] {
        return kOk;
    }
    const int error = error_number(result);
    return error == ENOMEM || error == EAGAIN ? Status::again(Reason::queue_full)
                                              : status_of(error);
}

Status VerbsSharedReceiveQueue::arm_limit_impl(std::uint32_t limit) {
    if (limit > depth_) {
        return Status::error(Reason::bad_argument);
    }
    ibv_srq_attr attributes{};
    attributes.srq_limit = limit;
    const int result = rail_.calls().modify_srq(srq_, &attributes, IBV_SRQ_LIMIT);
    return result == 0 ? kOk : status_of(error_number(result));
}

} // namespace adaptib::verbs
