// SPDX-License-Identifier: BSD-3-Clause
// The engine, and the tables that the objects of a fabric share.
#include "fabric/shm/context.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/invariant.h"
#include "fabric/shm/local_qp.h"
#include "fabric/shm/process.h"

namespace adaptib::shm {

Context::Context(std::unique_ptr<OwnSegment> segment, const Clock& clock, std::uint32_t rails,
                 std::vector<std::string>& notices)
    : segment_(std::move(segment)), clock_(clock), rails_(segment_->header()->rail, rails),
      consumer_(segment_->base()), regions_(segment_.get()), bounce_(segment_.get()),
      single_copy_(notices), queue_pairs_(*segment_, last_error_text_), srqs_(*segment_),
      peers_(*segment_, last_error_text_) {
    ADAPTIB_INVARIANT(rails > 0 && rails <= kMaxRails, "a process has 1 to 16 rails", rails);
}

// -------------------------------------------------------------------------------------------------
// Rails and events

void Context::raise(EventKind kind, std::uint32_t rail, std::uint32_t qp_number,
                    SharedReceiveQueue* srq) {
    events_.push_back({kind, rail, qp_number, srq});
}

void Context::look_at_peers_rails() {
    std::uint32_t news = 0;
    peers_faults_ = peers_.look_at_rails(news);
    for (; news > 0; --news) {
        raise(EventKind::peer_changed, 0, 0);
    }
}

// Updates `faults` and the poll hint.
void Context::watch() {
    const std::uint64_t others = peers_faults_ | static_cast<std::uint64_t>(broken_);
    watch_.faults.store(rails_.words(others), std::memory_order_relaxed);
    watch_.poll_hint.next = consumer_.next_state();
    watch_.poll_hint.busy = !active_.empty() || !owed_.empty() || completions_ > 0;
}

bool Context::next_event(Event& out) {
    look_at_peers_rails();
    progress();
    rails_.look([this](EventKind kind, std::uint32_t rail) { raise(kind, rail, 0); });
    if (events_.empty()) {
        return false;
    }
    out = events_.front();
    events_.pop_front();
    return true;
}

// -------------------------------------------------------------------------------------------------
// Progress

void Context::activate(LocalQueuePair* qp) {
    if (!qp->active) {
        ADAPTIB_AUDIT(std::find(active_.begin(), active_.end(), qp) == active_.end(),
                      "a queue pair is in the list of active ones once", qp->number());
        qp->active = true;
        active_.push_back(qp);
    }
    watch_.poll_hint.busy = true;
}

void Context::progress() {
    RecordView record;
    for (std::uint32_t i = 0; i < kRecordsPerPoll && consumer_.front(record); ++i) {
        if (!dispatch(record)) {
            break;
        }
        consumer_.pop();
    }
    if (!active_.empty()) {
        progress_active();
    }
    if (!owed_.empty()) {
        pay();
    }
    if (++polls_ == kPollsPerRound) {
        polls_ = 0;
        look_after();
        look_at_peers_rails();
    }
    watch();
}

bool Context::dispatch(const RecordView& record) {
    LocalQueuePair* qp = queue_pairs_.find(record.fields.target_qp);
    if (qp != nullptr) {
        return qp->deliver(record);
    }
    ++counters_.dropped_target;
    if (record.fields.type == RecordType::request) {
        turn_away(record);
    }
    return true;
}

void Context::turn_away(const RecordView& record) {
    BounceRequest request{};
    PeerSegment* peer = peers_.find(peers_.producer_cookie(record.producer));
    if (peer == nullptr || record.payload_bytes != sizeof request) {
        return;
    }
    std::memcpy(&request, record.payload, sizeof request);
    if (std::byte* slot = find_slot(*peer, request); slot != nullptr) {
        reinterpret_cast<BounceHeader*>(slot)->answer.store(
            request.tag << 8 | static_cast<std::uint64_t>(BounceAnswer::not_ready),
            std::memory_order_release);
    }
}

void Context::progress_active() {
    // Progress may activate other queue pairs but destroys none; only the caller does that.
    for (std::size_t i = 0; i < active_.size();) {
        LocalQueuePair* qp = active_[i];
        qp->active = false;
        if (qp->progress()) {
            qp->active = true;
            ++i;
        } else if (qp->active) {
            ++i; // its own progress activated it again
        } else {
            active_[i] = active_.back();
            active_.pop_back();
        }
    }
    ADAPTIB_AUDIT(std::all_of(active_.begin(), active_.end(),
                              [](const LocalQueuePair* qp) { return qp->active; }),
                  "queue pairs of the list are active", active_.size());
}

void Context::owe(std::shared_ptr<PeerSegment> peer, const RecordFields& fields) {
    ADAPTIB_INVARIANT(peer != nullptr, "a record is owed to a peer", fields.type);
    owed_.push_back({std::move(peer), fields});
    pay();
    watch_.poll_hint.busy = true;
}

void Context::pay() {
    std::erase_if(owed_, [](Debt& debt) {
        return debt.peer->gone() ||
               debt.peer->producer().push(debt.fields, 0, [](std::byte*) {}) == Push::ok;
    });
}

// Rare work: dead producers, memory for the queue, dead peers.
void Context::look_after() {
    if (consumer_.stuck()) {
        consumer_.resolve_hole();
    }
    segment_->commit_ahead();
    fence_.look(*segment_);
    if (!peers_.empty()) {
        peers_.look_after_one(now());
    }
}

// -------------------------------------------------------------------------------------------------
// Memory that peers touch

// Allocates nothing as long as none is busy.
std::vector<BusyInitiator> Context::busy_initiators() const {
    std::vector<BusyInitiator> out;
    queue_pairs_.for_each([&out](const LocalQueuePair& qp) {
        if (BusyInitiator each = qp.busy_initiator(); each.peer != nullptr) {
            out.push_back(std::move(each));
        }
    });
    return out;
}

} // namespace adaptib::shm
