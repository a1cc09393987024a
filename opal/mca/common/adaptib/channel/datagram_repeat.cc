// SPDX-License-Identifier: BSD-3-Clause
// The datagram channel with lossy datagrams: acknowledgements, repeats, other ports, probes
// (channel/datagram.h; channel/datagram_link.h tracks what each target has outstanding).
#include "channel/datagram.h"

#include <algorithm>
#include <utility>

namespace adaptib {

namespace {

constexpr Nanoseconds kWithoutSlots{20'000}; // before the next check for free slots
constexpr std::uint32_t kJudgeAfter = 2;     // repeats without an answer
constexpr std::uint32_t kSoundUntil = 12; // the same; after that a path no longer counts as sound
constexpr std::uint32_t kDoubtAfter = 3;  // the same ...
constexpr std::int64_t kDoubtPart = 8;    // ... in this part of the maximum time of a failure

} // namespace

void DatagramChannel::mind(DatagramLink& link) {
    const bool minded = link.timer_link.linked();
    if (link.busy() && !minded) {
        minded_.push_back(link);
    } else if (!link.busy() && minded) {
        minded_.remove(link);
    }
}

Nanoseconds DatagramChannel::deadline() const {
    Nanoseconds next = Nanoseconds::max();
    for (DatagramLink* link = minded_.front(); link != nullptr; link = minded_.next(*link)) {
        if (link->target.handle != nullptr) { // otherwise its acknowledgements wait for its owner
            next = std::min(next, link->deadline());
        }
    }
    // Acknowledgements stay due while there is no slot to send them from; slots become free by
    // themselves.
    return free_sends_.empty() && next < Nanoseconds::max()
               ? std::max(next, clock_.now() + kWithoutSlots)
               : next;
}

void DatagramChannel::run_timers() {
    if (minded_.empty()) {
        return;
    }
    if (free_sends_.empty() && path_failure_) [[unlikely]] {
        make_room();
    }
    const Nanoseconds now = clock_.now();
    for (std::size_t left = minded_.size(); left > 0 && !minded_.empty(); --left) {
        DatagramLink& link = *minded_.pop_front(); // in turns: slots may run out
        std::uint32_t tries = 0;
        const std::uint32_t slot = link.to_repeat(now, tries);
        if (slot != DatagramLink::kNone) {
            repeat(link, slot, now);
        }
        if (link.ack_due(now)) {
            acknowledge(link.target);
        }
        if (!link.timer_link.linked()) {
            mind(link);
        }
    }
}

void DatagramChannel::give_up(DatagramTarget& target) {
    forget(target);
    if (path_failure_) {
        path_failure_(target, PathFailure::given_up, WorkStatus::retry_exceeded);
    } else if (failure_) {
        failure_(target.name, WorkStatus::retry_exceeded);
    }
}

// A peer that computes for long does not answer: only the owner can know whether a target is lost.
void DatagramChannel::repeat(DatagramLink& link, std::uint32_t slot, Nanoseconds now) {
    DatagramTarget& target = link.target;
    Standing standing = Standing::doubtful;
    if (target.handle != nullptr && judge_ && link.unanswered() >= kJudgeAfter) {
        standing = judge_(target, link.oldest());
        if (!link.unacknowledged()) {
            return; // the owner has given it up
        }
    }
    if (target.handle == nullptr || standing == Standing::lost) {
        give_up(target);
        return;
    }
    if (sends_[slot].under_way_over(target.port)) {
        if (path_failure_ && now - sends_[slot].posted > timeout_) {
            restart(target.port);
            doubt(target, PathFailure::stuck, WorkStatus::success);
        }
        return; // the adapter has not even sent it
    }
    if (standing == Standing::absent) {
        link.rest(now);
    } else if (path_failure_ && link.unanswered() >= kJudgeAfter &&
               (standing != Standing::present || link.unanswered() > kSoundUntil)) {
        // A target heard over another port has reasons not to use this one.
        const bool elsewhere = target.heard_port != target.port && target.heard > link.oldest();
        const bool long_ago =
            link.unanswered() > kDoubtAfter && now - link.oldest() > timeout_ / kDoubtPart;
        if (elsewhere || long_ago) {
            const std::uint8_t port = target.port;
            const std::uint8_t pair = target.pair;
            doubt(target, PathFailure::unanswered, WorkStatus::success);
            if (target.port != port || target.pair != pair || link.target.handle == nullptr ||
                !link.unacknowledged()) {
                return; // it was sent there, or the target is given up
            }
        }
    }
    if (const Status status = send_again(target, slot, now); status.is_error()) {
        handle_refused(target, status);
    }
}

Status DatagramChannel::send_again(DatagramTarget& target, std::uint32_t slot, Nanoseconds now) {
    std::byte* at = slot_at(slot);
    DatagramLink& link = *target.link;
    // Updates the acknowledgement, unless the adapter still reads the slot; the old one remains
    // true.
    if (sends_[slot].under_way == 0) {
        const std::uint32_t had[2] = {link.expected(), link.bits()};
        std::memcpy(at + offsetof(DatagramHeader, expected), had, sizeof had);
    }
    at[offsetof(DatagramHeader, rail)] = static_cast<std::byte>(first_ + target.port);
    const bool told = sends_[slot].under_way == 0;
    const Status status = post(target, slot);
    if (status.ok()) {
        sends_[slot].posted = now;
        ++counters_.datagram_repeated;
        if (told) {
            link.told();
        }
    }
    return status;
}

bool DatagramChannel::owes(const DatagramTarget& target) const {
    return target.link != nullptr && target.link->keeps([this](std::uint32_t slot) {
        MessageHeader header;
        std::memcpy(&header, slot_at(slot) + sizeof(DatagramHeader), sizeof header);
        return is_sequenced(header.type) &&
               (header.type != MessageType::disconnect || header.flags != kDisconnectAck);
    });
}

void DatagramChannel::doubt(DatagramTarget& target, PathFailure failure, WorkStatus status) {
    target.doubted = true;
    path_failure_(target, failure, status);
}

// Handles a post that was refused for good: the target's process has ended, or the queue pair is
// broken.
void DatagramChannel::handle_refused(DatagramTarget& target, Status status) {
    if (status.reason() == Reason::peer_gone || !path_failure_) {
        if (failure_) {
            failure_(target.name, WorkStatus::retry_exceeded);
        }
        return;
    }
    const std::uint32_t port = target.port;
    if (ports_[port].qp->query().state != QpState::ready_to_send) {
        restart(port);
    }
    doubt(target, PathFailure::failed, WorkStatus::local_qp_error);
}

void DatagramChannel::move(DatagramTarget& target, std::uint32_t port,
                           std::unique_ptr<AddressHandle> handle, std::uint32_t qp) {
    if (target.handle != nullptr) {
        retire(target.port, std::move(target.handle));
    }
    target.handle = std::move(handle);
    target.qp = qp;
    target.port = static_cast<std::uint8_t>(port);
    if (target.link == nullptr || !target.link->unacknowledged()) {
        return;
    }
    ++counters_.datagram_moves;
    const Nanoseconds now = clock_.now();
    DatagramLink& link = *target.link;
    link.moved(now, target.moves++ == 0);
    link.resend([&](std::uint32_t slot) {
        if (!sends_[slot].under_way_over(port)) {
            static_cast<void>(send_again(target, slot, now)); // otherwise the timer does
        }
    });
    mind(link);
}

bool DatagramChannel::send_probe(const DatagramTarget& target, std::uint32_t port,
                                 std::unique_ptr<AddressHandle> handle, std::uint32_t qp,
                                 const MessageHeader& header, const void* body) {
    const Nanoseconds now = clock_.now();
    if (is_stuck(port, now)) { // probes are not repeated, which would reveal it
        restart(port);
    }
    if (free_sends_.empty()) {
        return false;
    }
    const std::uint32_t slot = free_sends_.back();
    DatagramHeader prefix = prefix_for(target);
    prefix.rail = static_cast<std::uint8_t>(first_ + port);
    fill(slot, target, prefix, header);
    std::memcpy(slot_at(slot) + sizeof prefix + sizeof header, body, header.length);
    sends_[slot].posted = now;
    if (!post(port, *handle, qp, target.key, slot).ok()) {
        return false;
    }
    free_sends_.pop_back();
    retire(port, std::move(handle));
    return true;
}

// Returns true if the adapter has not completed a send for longer than the timeout.
bool DatagramChannel::is_stuck(std::uint32_t port, Nanoseconds now) const {
    return std::any_of(sends_.begin(), sends_.end(), [&](const Slot& slot) {
        return slot.under_way_over(port) && slot.posted.count() > 0 && now - slot.posted > timeout_;
    });
}

void DatagramChannel::retire(std::uint32_t number, std::unique_ptr<AddressHandle> handle) {
    Port& port = ports_[number];
    port.retired.push_back({std::move(handle), port.posts});
    drop_retired(port);
}

void DatagramChannel::drop_retired(Port& port) {
    std::erase_if(port.retired,
                  [&port](const Retired& retired) { return retired.posts <= port.ended; });
}

void DatagramChannel::acknowledge(DatagramTarget& target) {
    if (free_sends_.empty() || target.handle == nullptr) {
        return; // the acknowledgement stays due
    }
    const std::uint32_t slot = free_sends_.back();
    const DatagramHeader prefix = prefix_for(target);
    std::memcpy(slot_at(slot), &prefix, sizeof prefix);
    sends_[slot] = {target.name, sizeof prefix, 0, false, Nanoseconds{0}};
    if (post(target, slot).ok()) {
        free_sends_.pop_back();
        target.link->told();
        ++counters_.datagram_acknowledgements;
    }
}

// Sends acknowledgements of its own for arrivals of this poll, unless an answer has carried them by
// now.
void DatagramChannel::acknowledge_alone() {
    for (DatagramTarget* target : alone_) {
        if (target->link->owes_alone()) {
            acknowledge(*target);
            mind(*target->link);
        }
    }
    alone_.clear();
}

void DatagramChannel::listens(DatagramTarget& target) {
    if (target.link != nullptr && target.link->unacknowledged()) {
        target.link->listens(clock_.now());
    }
}

void DatagramChannel::forget(DatagramTarget& target) {
    for (Port& port : ports_) { // handles left of the target, too
        drop_retired(port);
    }
    if (target.link == nullptr) {
        return;
    }
    if (target.link->timer_link.linked()) {
        minded_.remove(*target.link);
    }
    std::erase(alone_, &target);
    target.link->drop_all([this](std::uint32_t slot) {
        sends_[slot].kept = false;
        release(slot);
    });
}

// Processes an arrived datagram; returns true if it is to be delivered.
bool DatagramChannel::accept(const DatagramHeader& prefix, bool acknowledges, std::uint32_t port) {
    DatagramTarget* target = resolver_ ? resolver_(prefix.source, prefix.source_key) : nullptr;
    if (target == nullptr) {
        return false;
    }
    if (target->link == nullptr) {
        target->link = std::make_unique<DatagramLink>(*target);
    }
    DatagramLink& link = *target->link;
    const Nanoseconds now = clock_.now();
    target->heard = now;
    target->heard_port = static_cast<std::uint8_t>(port);
    target->heard_rail = prefix.rail;
    link.acknowledged(prefix.expected, prefix.arrived, now, [this](std::uint32_t slot) {
        sends_[slot].kept = false;
        release(slot);
    });
    link.listens(now);
    bool is_new = false;
    if (!acknowledges) {
        is_new = link.arrived(prefix.number, now);
        if (link.owes_alone() && (alone_.empty() || alone_.back() != target)) {
            alone_.push_back(target);
        }
        counters_.datagram_doubled += is_new ? 0 : 1;
    }
    mind(link);
    if (target->doubted && link.unanswered() == 0) [[unlikely]] {
        target->doubted = false;
        target->moves = 0;
        answered_(*target);
    }
    return is_new;
}

} // namespace adaptib
