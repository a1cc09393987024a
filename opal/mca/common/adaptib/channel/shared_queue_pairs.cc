// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs that many peers share (channel/shared_queue_pairs.h).
#include "channel/shared_queue_pairs.h"

#include <utility>

#include "base/invariant.h"
#include "channel/ring_poster.h"

namespace adaptib {

// -------------------------------------------------------------------------------------------------
// An initiator

Status SharedInitiator::post(SendWork work, WorkTarget& quiet) {
    if (qp_ == nullptr || failed_) {
        return Status::error(Reason::bad_state);
    }
    ADAPTIB_INVARIANT(unsignaled_ < kSignalEvery && next_ < posted_.size(),
                      "one of kSignalEvery requests is signaled, and each has a place", unsignaled_,
                      next_);
    const bool asked = (work.flags & kSignaled) != 0;
    const bool signaled = asked || unsignaled_ + 1 >= kSignalEvery;
    if (signaled && !asked) {
        work.flags |= kSignaled;
        work.wr_id = wr_id_of(&quiet);
    }
    const Status status = qp_->post_send(work);
    if (status.ok()) {
        unsignaled_ = signaled ? 0 : unsignaled_ + 1;
        posted_[next_] = {work.wr_id, &quiet};
        next_ = next_ + 1 == posted_.size() ? 0 : next_ + 1;
    }
    return status;
}

QpAttributes SharedInitiator::query() const {
    QpAttributes none;
    none.state = QpState::error;
    return qp_ == nullptr ? none : qp_->query();
}

void SharedInitiator::fail() {
    if (failed_) {
        return;
    }
    failed_ = true;
    if (qp_ != nullptr) {
        QpAttributes attributes;
        attributes.state = QpState::error;
        static_cast<void>(qp_->modify(attributes, kQpState));
    }
}

void SharedInitiator::destroy() {
    failed_ = true;
    qp_.reset();
}

// Searches from the latest one: a wr_id may have been reused, maybe by another peer.
const WorkTarget* SharedInitiator::owner_of(std::uint64_t wr_id) const {
    for (std::size_t back = 1; back <= posted_.size(); ++back) {
        const Posted& posted = posted_[(next_ + posted_.size() - back) % posted_.size()];
        if (posted.quiet == nullptr) {
            return nullptr;
        }
        if (posted.wr_id == wr_id) {
            return posted.quiet;
        }
    }
    return nullptr;
}

// -------------------------------------------------------------------------------------------------
// A view

Status SharedQueuePair::modify_impl(const QpAttributes& attributes, std::uint32_t mask) {
    if (mask != kQpState || attributes.state != QpState::error) {
        return Status::error(Reason::not_supported); // other peers use it, too
    }
    initiator_->fail();
    return kOk;
}

Status SharedQueuePair::post_send_impl(const SendWork& work) {
    SendWork addressed = work;
    addressed.address_handle = handle_.get();
    addressed.remote_qp = target_;
    addressed.remote_access_key = key_;
    const Status status = initiator_->post(addressed, quiet_);
    posts_ += status.ok() ? 1 : 0;
    return status;
}

// -------------------------------------------------------------------------------------------------
// The pool

namespace {

bool is_there(const std::shared_ptr<QueuePair>& target) { return target != nullptr; }
bool is_there(const std::shared_ptr<SharedInitiator>& initiator) {
    return initiator != nullptr && !initiator->failed();
}

// Returns a place of the pool: an unused one, else an empty one, else the one with the fewest
// views; searches from `first` on. With `taken` considers only occupied places: null if there is
// none.
template <typename T>
std::shared_ptr<T>* least_used(std::span<std::shared_ptr<T>> all, std::size_t first, bool taken) {
    std::shared_ptr<T>* least = nullptr;
    long uses = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        std::shared_ptr<T>& each = all[(first + i) % all.size()];
        const long its = is_there(each) ? 2 * (each.use_count() - 1) : 1;
        if ((is_there(each) || !taken) && (least == nullptr || its < uses)) {
            least = &each;
            uses = its;
        }
    }
    return least;
}

} // namespace

SharedQueuePairs::SharedQueuePairs(const Options& options, std::span<Rail* const> rails,
                                   std::span<const std::unique_ptr<CompletionQueue>> cqs)
    : options_(options), all_(rails), cqs_(cqs), rails_(rails.size()) {}

SharedQueuePairs::~SharedQueuePairs() = default;

Status SharedQueuePairs::open(std::uint32_t rail) {
    ADAPTIB_INVARIANT(!is_open(rail) && options_.initiators > 0, "a rail is opened once", rail,
                      options_.initiators);
    OfRail& here = rails_[rail];
    Status status = all_[rail]->create_srq(1, here.srq);
    std::shared_ptr<QueuePair> first;
    status = status.ok() ? make_target(rail, first) : status;
    if (!status.ok()) {
        here.srq.reset();
        return status;
    }
    here.targets.resize(options_.initiators);
    here.targets[0] = std::move(first);
    return kOk;
}

Status SharedQueuePairs::make_target(std::uint32_t rail, std::shared_ptr<QueuePair>& out) {
    QpInit init;
    init.type = QpType::dc_target;
    init.send_cq = init.receive_cq = cqs_[rail].get();
    init.srq = rails_[rail].srq.get();
    std::unique_ptr<QueuePair> target;
    Status status = all_[rail]->create_qp(init, target);
    status = status.ok() ? begin_target(rail, *target) : status;
    if (status.ok()) {
        out = std::move(target);
    }
    return status;
}

// Moves a target from RESET to RTR.
Status SharedQueuePairs::begin_target(std::uint32_t rail, QueuePair& target) {
    Rail& of = *all_[rail];
    QpAttributes attributes;
    attributes.state = QpState::init;
    attributes.access = kRemoteRead | kRemoteWrite | kRemoteAtomic;
    attributes.access_key = options_.access_key;
    const Status status = target.modify(attributes, kQpState | kQpAccess | kQpKey);
    if (!status.ok()) {
        return status;
    }
    attributes.state = QpState::ready_to_receive;
    attributes.path = of.path_to(of.address(), 0);
    attributes.max_target_reads = of.info().max_reads;
    return target.modify(attributes, kQpState | kQpPath | kQpReceiveLimits);
}

// Returns a target for the peer: a new one if there is room, else an existing one. Null: there is
// none, since the device, which was lost and is back, has had no room for any.
std::shared_ptr<QueuePair> SharedQueuePairs::target_for(std::uint32_t rail, std::uint64_t peer) {
    const std::span targets(rails_[rail].targets);
    auto& chosen = *least_used(targets, first_for(peer), false);
    if (chosen == nullptr && !make_target(rail, chosen).ok()) {
        auto* const existing = least_used(targets, first_for(peer), true);
        return existing == nullptr ? nullptr : *existing;
    }
    return chosen;
}

bool SharedQueuePairs::renew_target(std::uint32_t rail, std::uint32_t number, Status& status) {
    if (!is_open(rail)) {
        return false;
    }
    for (const auto& target : rails_[rail].targets) {
        if (target != nullptr && target->number() == number) {
            QpAttributes attributes;
            attributes.state = QpState::reset;
            status = target->modify(attributes, kQpState);
            status = status.ok() ? begin_target(rail, *target) : status;
            return true;
        }
    }
    return false;
}

Status SharedQueuePairs::make_anew(std::uint32_t rail) {
    ADAPTIB_INVARIANT(is_open(rail), "what is made anew is open", rail, rails_.size());
    OfRail& here = rails_[rail];
    for (const auto& initiator : here.initiators) {
        if (initiator != nullptr) {
            initiator->fail();
        }
    }
    std::fill(here.targets.begin(), here.targets.end(), nullptr);
    return make_target(rail, here.targets[0]);
}

Status SharedQueuePairs::make_initiator(std::uint32_t rail, std::shared_ptr<SharedInitiator>& out) {
    const RailInfo& info = all_[rail]->info();
    QpInit init;
    init.type = QpType::dc_initiator;
    init.send_cq = init.receive_cq = cqs_[rail].get();
    init.send_depth = std::min(options_.send_depth, info.max_send_depth);
    init.inline_bytes = std::min(options_.inline_bytes, info.inline_bytes);
    init.max_gather = std::min(kRingGather, info.max_gather);
    std::unique_ptr<QueuePair> qp;
    Status status = all_[rail]->create_qp(init, qp);
    QpAttributes attributes;
    attributes.timeout = options_.answer_timeout;
    attributes.retry_count = options_.answer_retries;
    attributes.max_reads = info.max_reads;
    attributes.state = QpState::init;
    status = status.ok() ? qp->modify(attributes, kQpState) : status;
    attributes.state = QpState::ready_to_receive;
    status = status.ok() ? qp->modify(attributes, kQpState) : status;
    attributes.state = QpState::ready_to_send;
    status = status.ok() ? qp->modify(attributes, kQpState | kQpRetry | kQpSendPsn | kQpSendLimits)
                         : status;
    if (status.ok()) {
        out = std::make_shared<SharedInitiator>(std::move(qp), init.send_depth);
    }
    return status;
}

Status SharedQueuePairs::make(std::uint32_t rail, std::uint32_t path, std::uint64_t peer,
                              WorkTarget& quiet, std::unique_ptr<QueuePair>& out) {
    ADAPTIB_INVARIANT(is_open(rail), "a view is of a rail that is open", rail, rails_.size());
    auto& all = rails_[rail].initiators;
    const std::size_t end = (std::size_t{path} + 1) * options_.initiators;
    all.resize(std::max(all.size(), end));
    const auto initiators = std::span(all).subspan(end - options_.initiators, options_.initiators);
    std::shared_ptr<SharedInitiator>* chosen = least_used(initiators, first_for(peer), false);
    if (!is_there(*chosen)) {
        std::shared_ptr<SharedInitiator> made;
        const Status status = make_initiator(rail, made);
        if (status.ok()) {
            replaced_ += *chosen != nullptr ? 1 : 0;
            *chosen = std::move(made); // the old one is destroyed with its last view
        } else {
            chosen = least_used(initiators, first_for(peer), true);
            if (!status.wants_room() || chosen == nullptr) {
                return status;
            }
        }
    }
    std::shared_ptr<QueuePair> target = target_for(rail, peer);
    if (target == nullptr) {
        return Status::error(Reason::no_memory);
    }
    out = std::make_unique<SharedQueuePair>(*chosen, std::move(target), quiet);
    return kOk;
}

SharedInitiator* SharedQueuePairs::find(std::uint32_t rail, std::uint32_t number) const {
    if (!is_open(rail)) {
        return nullptr;
    }
    for (const auto& initiator : rails_[rail].initiators) {
        if (initiator != nullptr && initiator->number() == number) {
            return initiator.get();
        }
    }
    return nullptr;
}

std::size_t SharedQueuePairs::initiators() const {
    std::size_t count = 0;
    for (const OfRail& rail : rails_) {
        count += static_cast<std::size_t>(
            std::count_if(rail.initiators.begin(), rail.initiators.end(),
                          [](const auto& each) { return each != nullptr && !each->failed(); }));
    }
    return count;
}

} // namespace adaptib
