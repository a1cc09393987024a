// SPDX-License-Identifier: BSD-3-Clause
// The engine, and the tables that the objects of a fabric share.
#include "fabric/shm/context.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "fabric/shm/local_qp.h"
#include "fabric/shm/process.h"

namespace adaptib::shm {

Context::Context(std::unique_ptr<OwnSegment> segment, const Clock& clock, std::uint32_t rails,
                 std::vector<std::string>& notices)
    : segment_(std::move(segment)), clock_(clock), rail_count_(rails), notices_(notices),
      own_rails_(segment_->header()->rail), consumer_(segment_->base()), regions_(segment_.get()),
      bounce_(segment_.get()), rail_free_at_(rails, Nanoseconds{0}), rail_was_down_(rails, false) {}

// -------------------------------------------------------------------------------------------------
// Tables

Status Context::peer(const RailAddress& address, std::shared_ptr<PeerSegment>& out,
                     std::uint32_t& rail) {
    WireAddress wire{};
    if (!PeerSegment::decode(address, wire)) {
        return Status::error(Reason::bad_argument);
    }
    last_error_text_.clear();
    std::erase_if(peers_, [](const auto& entry) { return entry.second.expired(); });
    const auto known = peers_.find(wire.cookie);
    std::shared_ptr<PeerSegment> peer = known == peers_.end() ? nullptr : known->second.lock();
    if (peer == nullptr) {
        obstacle_ = {};
        obstacle_cookie_ = wire.cookie;
        const Status status =
            PeerSegment::open(address, segment_->cookie(), peer, segment_->host(), obstacle_);
        last_error_text_ = status.ok() || status.reason() == Reason::peer_gone
                               ? std::string()
                               : obstacle_.text(wire.pid, true);
        if (!status.ok()) {
            return status;
        }
        peers_[wire.cookie] = peer;
    } else if (peer->gone()) {
        return Status::error(Reason::peer_gone);
    }
    if (wire.rail >= peer->header()->rails || wire.rail >= kMaxRails) {
        return Status::error(Reason::unreachable);
    }
    rail = wire.rail;
    out = std::move(peer);
    return kOk;
}

void Context::refuse(const RailAddress& address, Reason why) {
    WireAddress wire{};
    if (!PeerSegment::decode(address, wire)) {
        return;
    }
    Obstacle obstacle = obstacle_cookie_ == wire.cookie ? obstacle_ : Obstacle{};
    obstacle.reason = why;
    ProducerSlot* slots = producers_of(segment_->base());
    const std::uint32_t end =
        std::min(segment_->header()->producers_end.load(std::memory_order_acquire), kMaxProducers);
    for (std::uint32_t i = 0; i < end; ++i) {
        if (slots[i].cookie.load(std::memory_order_acquire) == wire.cookie) {
            slots[i].refused.store(obstacle.pack(), std::memory_order_release);
        }
    }
}

PeerSegment* Context::known_peer(std::uint64_t cookie) const {
    const auto it = peers_.find(cookie);
    return it == peers_.end() ? nullptr : it->second.lock().get(); // other owners keep it alive
}

std::uint64_t Context::producer_cookie(std::uint32_t slot) const {
    if (slot >= kMaxProducers) {
        return 0;
    }
    return producers_of(segment_->base())[slot].cookie.load(std::memory_order_acquire);
}

Status Context::add_qp(LocalQueuePair* qp, std::uint32_t& number) {
    std::uint32_t index = 0;
    // Reuses a number as late as possible, but does not take new pages of the table for that.
    if (free_qps_.size() > 64 || (queue_pairs_.size() == kMaxQueuePairs && !free_qps_.empty())) {
        index = free_qps_.front();
        free_qps_.pop_front();
    } else if (queue_pairs_.size() < kMaxQueuePairs) {
        index = static_cast<std::uint32_t>(queue_pairs_.size());
        const Status status = segment_->commit(kQueuePairsOffset + index * sizeof(QueuePairEntry),
                                               sizeof(QueuePairEntry));
        if (!status.ok()) {
            note_no_memory();
            return status;
        }
        queue_pairs_.push_back(nullptr);
        qp_generation_.push_back(0);
    } else {
        return Status::error(Reason::no_memory);
    }
    constexpr std::uint32_t kGenerations = 1u << (24 - kQpIndexBits);
    qp_generation_[index] = (qp_generation_[index] + 1) % kGenerations;
    if (qp_generation_[index] == 0) {
        qp_generation_[index] = 1;
    }
    queue_pairs_[index] = qp;
    number = qp_generation_[index] << kQpIndexBits | index;
    QueuePairEntry& entry = queue_pairs_of(segment_->base())[index];
    entry.posted.store(0, std::memory_order_relaxed);
    entry.busy.store(0, std::memory_order_relaxed);
    return kOk;
}

void Context::remove_qp(LocalQueuePair* qp) {
    const std::uint32_t index = qp_index(qp->number());
    queue_pairs_[index] = nullptr;
    free_qps_.push_back(index);
    std::erase(active_, qp);
}

LocalQueuePair* Context::find_qp(std::uint32_t number) const {
    const std::uint32_t index = qp_index(number);
    if (index >= queue_pairs_.size() || queue_pairs_[index] == nullptr ||
        queue_pairs_[index]->number() != number) {
        return nullptr;
    }
    return queue_pairs_[index];
}

Status Context::add_srq(std::uint32_t& index) {
    if (!free_srqs_.empty()) {
        index = free_srqs_.back();
        free_srqs_.pop_back();
        return kOk;
    }
    if (srqs_ == kMaxSrqs) {
        return Status::error(Reason::no_memory);
    }
    index = srqs_;
    const Status status =
        segment_->commit(kSrqsOffset + index * sizeof(SrqEntry), sizeof(SrqEntry));
    if (status.ok()) {
        ++srqs_;
    }
    return status;
}

void Context::remove_srq(std::uint32_t index) { free_srqs_.push_back(index); }

// -------------------------------------------------------------------------------------------------
// Rails and events

Nanoseconds Context::pace(std::uint32_t rail, std::uint64_t peer_word, Bytes bytes) {
    const std::uint64_t own = rail_word(rail) & kRailRateMask;
    const std::uint64_t other = peer_word & kRailRateMask;
    const std::uint64_t rate = own == 0 ? other : other == 0 ? own : std::min(own, other);
    if (rate == 0) {
        return Nanoseconds{0};
    }
    const Nanoseconds start = std::max(now(), rail_free_at_[rail]);
    rail_free_at_[rail] = start + time_for(bytes, BytesPerSecond{rate});
    return rail_free_at_[rail];
}

void Context::raise(EventKind kind, std::uint32_t rail, std::uint32_t qp_number,
                    SharedReceiveQueue* srq) {
    events_.push_back({kind, rail, qp_number, srq});
}

void Context::look_at_rails() {
    for (std::uint32_t rail = 0; rail < rail_count_; ++rail) {
        const std::uint64_t word = rail_word(rail);
        const bool down = (word & kRailDown) != 0;
        if (down != rail_was_down_[rail]) {
            rail_was_down_[rail] = down;
            raise(down ? EventKind::port_error : EventKind::port_active, rail, 0);
        }
        if (word == 0) {
            rail_free_at_[rail] = Nanoseconds{0};
        }
    }
}

void Context::look_at_peers_rails() {
    peers_faults_ = 0;
    for (const auto& [cookie, known] : peers_) {
        if (const std::shared_ptr<PeerSegment> peer = known.lock()) {
            for (std::uint32_t rail = 0; rail < std::min(peer->header()->rails, kMaxRails);
                 ++rail) {
                peers_faults_ |= peer->header()->rail[rail].word.load(std::memory_order_acquire);
            }
            if (peer->is_news()) [[unlikely]] {
                raise(EventKind::peer_changed, 0, 0);
            }
        }
    }
}

// Updates `faults` and the poll hint.
void Context::watch() {
    std::uint64_t faults = peers_faults_ | static_cast<std::uint64_t>(broken_);
    for (std::uint32_t rail = 0; rail < rail_count_; ++rail) {
        faults |= rail_word(rail);
    }
    watch_.faults.store(faults, std::memory_order_relaxed);
    watch_.poll_hint.next = consumer_.next_state();
    watch_.poll_hint.busy = !active_.empty() || !owed_.empty() || completions_ > 0;
}

bool Context::next_event(Event& out) {
    look_at_peers_rails();
    progress();
    look_at_rails();
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
    LocalQueuePair* qp = find_qp(record.fields.target_qp);
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
    PeerSegment* peer = known_peer(producer_cookie(record.producer));
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
}

void Context::owe(std::shared_ptr<PeerSegment> peer, const RecordFields& fields) {
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
    if (peers_.empty()) {
        return;
    }
    const Nanoseconds time = now();
    if (time < next_look_) {
        return;
    }
    next_look_ = time + kPeerLookInterval;
    auto it = peers_.upper_bound(looked_at_);
    if (it == peers_.end()) {
        it = peers_.begin();
    }
    looked_at_ = it->first;
    if (const std::shared_ptr<PeerSegment> peer = it->second.lock()) {
        peer->check_alive();
    }
}

// -------------------------------------------------------------------------------------------------
// Memory that peers touch

void Context::forbid_single_copy(PeerSegment* peer, const std::string& why) {
    if (peer == nullptr) {
        single_copy_ = false;
    } else {
        peer->single_copy = false;
    }
    if (single_copy_noticed_) {
        return;
    }
    single_copy_noticed_ = true;
    notices_.push_back(
        "single copy: off, " + why +
        "; large messages are copied twice. To allow it: sysctl "
        "kernel.yama.ptrace_scope=1 or 0, a container with CAP_SYS_PTRACE, a seccomp "
        "profile that permits process_vm_readv and process_vm_writev");
}

void Context::wait_for_initiators() {
    const MonotonicClock clock; // bounds the wait for other processes, whatever clock_ is
    const Nanoseconds limit = clock.now() + kFenceLimit;
    Nanoseconds look = clock.now() + kFenceLook;
    for (const LocalQueuePair* qp : queue_pairs_) {
        while (PeerSegment* peer = qp == nullptr ? nullptr : qp->busy_peer()) {
            const Nanoseconds time = clock.now();
            if (time > limit) {
                return;
            }
            if (time > look) { // a peer killed in the middle touches nothing more
                look = time + kFenceLook;
                peer->check_alive();
            }
            sched_yield();
        }
    }
}

} // namespace adaptib::shm
