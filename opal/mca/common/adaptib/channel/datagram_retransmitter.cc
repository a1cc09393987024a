// SPDX-License-Identifier: BSD-3-Clause
// Acknowledgements, repeats and other paths of datagrams (channel/datagram_retransmitter.h).
#include "channel/datagram_retransmitter.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/invariant.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kWithoutSlots{20'000}; // before the next check for free slots
constexpr std::uint32_t kJudgeAfter = 2;     // repeats without an answer
constexpr std::uint32_t kSoundUntil = 12; // the same; after that a path no longer counts as sound
constexpr std::uint32_t kDoubtAfter = 3;  // the same ...
constexpr std::int64_t kDoubtPart = 8;    // ... in this part of the maximum time of a failure

} // namespace

void DatagramRetransmitter::mind(DatagramLink& link) {
    const bool minded = link.timer_link.linked();
    if (link.busy() && !minded) {
        minded_.push_back(link);
    } else if (!link.busy() && minded) {
        minded_.remove(link);
    }
}

Nanoseconds DatagramRetransmitter::deadline() const {
    Nanoseconds next = Nanoseconds::max();
    for (DatagramLink* link = minded_.front(); link != nullptr; link = minded_.next(*link)) {
        ADAPTIB_AUDIT(link->busy(), "a link is minded while it has something to do", link);
        if (link->target.handle != nullptr) { // otherwise its acknowledgements wait for its owner
            next = std::min(next, link->deadline());
        }
    }
    // Acknowledgements stay due while there is no slot to send them from; slots become free by
    // themselves.
    return sender_.slots().none_free() && next < Nanoseconds::max()
               ? std::max(next, clock_.now() + kWithoutSlots)
               : next;
}

void DatagramRetransmitter::run_timers() {
    if (minded_.empty()) {
        return;
    }
    if (sender_.slots().none_for_messages() && tolerant()) [[unlikely]] {
        make_room();
    }
    const Nanoseconds now = clock_.now();
    for (std::size_t left = minded_.size(); left > 0 && !minded_.empty(); --left) {
        DatagramLink& link = *minded_.pop_front(); // in turns: slots may run out
        end_loans(link, now);
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

// Adds slots if targets that do not answer occupy half of them, so that the others do not run
// short.
void DatagramRetransmitter::make_room() {
    std::size_t kept = 0;
    for (DatagramLink* link = minded_.front(); link != nullptr; link = minded_.next(*link)) {
        const bool waits = link->target.doubted || link->unanswered() >= kJudgeAfter;
        kept += waits ? link->kept() : 0;
    }
    if (2 * kept >= sender_.slots().size() && sender_.slots().can_grow()) {
        static_cast<void>(sender_.slots().add_block()); // if that fails, the others wait
    }
}

void DatagramRetransmitter::give_up(DatagramTarget& target) {
    forget(target);
    if (tolerant()) {
        path_failure_(target, PathFailure::given_up, WorkStatus::retry_exceeded);
    } else if (failure_) {
        failure_(target.name, WorkStatus::retry_exceeded);
    }
}

// A peer that computes for long does not answer: only the owner can know whether a target is lost.
void DatagramRetransmitter::repeat(DatagramLink& link, std::uint32_t slot, Nanoseconds now) {
    DatagramTarget& target = link.target;
    ADAPTIB_INVARIANT(target.link.get() == &link, "a target stays where its link knows it", &link,
                      target.link.get());
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
    if (sender_.slots().posted_on(slot, target.port)) {
        if (may_restart() && now - sender_.slots().posted_at(slot) > timeout_) {
            sender_.restart(target.port);
            doubt(target, PathFailure::stuck, WorkStatus::success);
        }
        return; // the adapter has not even sent it
    }
    if (standing == Standing::absent) {
        link.rest(now);
    } else if (tolerant() && link.unanswered() >= kJudgeAfter &&
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
                !link.unacknowledged() || sender_.slots().posted_on(slot, port)) {
                return; // it was sent there, or the target is given up
            }
        }
    }
    if (const Status status = send_again(target, slot, now); status.is_error()) {
        handle_refused(target, status);
    }
}

Status DatagramRetransmitter::send_again(DatagramTarget& target, std::uint32_t slot,
                                         Nanoseconds now) {
    ADAPTIB_INVARIANT(target.handle != nullptr, "what is sent again has a way to its target",
                      target.name, slot);
    SendSlots& slots = sender_.slots();
    if (slots.reads_buffer(slot)) {
        copy_payload(slot);
    }
    std::byte* at = slots.at(slot);
    DatagramLink& link = *target.link;
    // Updates the acknowledgement, unless the adapter still reads the slot; the old one remains
    // true.
    if (!slots.posted(slot)) {
        const std::uint32_t had[2] = {link.expected(), link.bits()};
        std::memcpy(at + offsetof(DatagramHeader, expected), had, sizeof had);
    }
    at[offsetof(DatagramHeader, rail)] = static_cast<std::byte>(sender_.published(target.port));
    const bool told = !slots.posted(slot);
    const Status status = sender_.post(target, slot);
    if (status.ok()) {
        slots.set_posted_at(slot, now);
        ++counters_.datagram_repeated;
        if (told) {
            link.told();
        }
    }
    return status;
}

void DatagramRetransmitter::copy_payload(std::uint32_t slot) {
    sender_.slots().copy_payload(slot);
    ++counters_.datagram_loans_ended;
}

// Gives the users their buffers back: the peer does not listen, or an acknowledgement was lost.
void DatagramRetransmitter::end_loans(DatagramLink& link, Nanoseconds now) {
    link.end_loans(
        now, [this](std::uint32_t slot) { return sender_.slots().reads_buffer(slot); },
        [this](std::uint32_t slot) { copy_payload(slot); });
}

bool DatagramRetransmitter::owes(const DatagramTarget& target) const {
    return target.link != nullptr && target.link->keeps([this](std::uint32_t slot) {
        MessageHeader header;
        std::memcpy(&header, sender_.slots().at(slot) + sizeof(DatagramHeader), sizeof header);
        return (is_sequenced(header.type) || header.type == MessageType::slice) &&
               (header.type != MessageType::disconnect || header.flags != kDisconnectAck);
    });
}

void DatagramRetransmitter::doubt(DatagramTarget& target, PathFailure failure, WorkStatus status) {
    ADAPTIB_INVARIANT(tolerant(), "only who can move a target doubts its path", target.name,
                      failure);
    target.doubted = true;
    path_failure_(target, failure, status);
}

// Handles a post that was refused for good: the target's process has ended, or the queue pair is
// broken.
void DatagramRetransmitter::handle_refused(DatagramTarget& target, Status status) {
    if (status.reason() == Reason::peer_gone || !tolerant()) {
        if (failure_) {
            failure_(target.name, WorkStatus::retry_exceeded);
        }
        return;
    }
    const std::uint32_t port = target.port;
    if (!sender_.port(port).ready()) {
        sender_.restart(port);
    }
    doubt(target, PathFailure::failed, WorkStatus::local_qp_error);
}

// Returns true if what is lost on the way to the process is sent again, over another path if need
// be.
bool DatagramRetransmitter::may_move(std::uint64_t to) const {
    if (!tolerant() || !sender_.reliable()) {
        return tolerant();
    }
    const DatagramTarget* target = find_(to);
    return target != nullptr && target->numbered;
}

void DatagramRetransmitter::on_failed_send(std::uint32_t port, std::uint64_t to,
                                           WorkStatus status) {
    // A datagram needs no answer: retry_exceeded comes only from a fabric that knows that the
    // target's process has ended.
    if (!may_move(to) || status == WorkStatus::retry_exceeded) {
        if (failure_) {
            failure_(to, status);
        }
        return;
    }
    sender_.port(port).set_broken(true); // the next poll mends it
    if (status != WorkStatus::flushed) {
        failed_.push_back({port, to, status});
    }
}

void DatagramRetransmitter::mend(std::uint32_t number) {
    sender_.port(number).set_broken(false);
    if (!sender_.port(number).ready()) {
        sender_.restart(number);
    }
    for (const Failed& failed : std::exchange(failed_, {})) {
        DatagramTarget* target = find_(failed.to);
        if (target != nullptr && target->port == failed.port) {
            doubt(*target, PathFailure::failed, failed.status);
        }
    }
}

void DatagramRetransmitter::move(DatagramTarget& target, std::uint32_t port,
                                 std::unique_ptr<AddressHandle> handle, std::uint32_t qp) {
    ADAPTIB_INVARIANT(handle != nullptr && port < sender_.ports(),
                      "a target moves to a port of the channel, by a handle", target.name, port);
    if (target.handle != nullptr) {
        sender_.port(target.port).retire(std::move(target.handle));
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
        if (!sender_.slots().posted_on(slot, port)) {
            static_cast<void>(send_again(target, slot, now)); // otherwise the timer does
        }
    });
    mind(link);
}

void DatagramRetransmitter::restart_if_stuck(std::uint32_t port, Nanoseconds now) {
    if (may_restart() && sender_.slots().has_overdue(port, now, timeout_)) {
        sender_.restart(port);
    }
}

void DatagramRetransmitter::acknowledge(DatagramTarget& target) {
    if (sender_.slots().none_free() || target.handle == nullptr) {
        return; // the acknowledgement stays due
    }
    const std::uint32_t slot = sender_.slots().next();
    sender_.slots().put(slot, target.name, sender_.prefix_for(target));
    if (sender_.post(target, slot).ok()) {
        sender_.slots().take();
        target.link->told();
        ++counters_.datagram_acknowledgements;
    } else {
        target.link->put_off(clock_.now());
    }
}

void DatagramRetransmitter::acknowledge_arrivals() {
    for (DatagramTarget* target : alone_) {
        if (target->link->owes_alone()) {
            acknowledge(*target);
            mind(*target->link);
        }
    }
    alone_.clear();
}

void DatagramRetransmitter::listens(DatagramTarget& target) {
    if (target.link != nullptr && target.link->unacknowledged()) {
        target.link->listens(clock_.now());
    }
}

void DatagramRetransmitter::forget(DatagramTarget& target) {
    sender_.drop_retired(); // handles left of the target, too
    if (target.link == nullptr) {
        return;
    }
    if (target.link->timer_link.linked()) {
        minded_.remove(*target.link);
    }
    std::erase(alone_, &target);
    target.link->drop_all([this](std::uint32_t slot) { sender_.slots().drop(slot); });
    ADAPTIB_AUDIT(std::find(alone_.begin(), alone_.end(), &target) == alone_.end(),
                  "a target that is forgotten is owed no acknowledgement", target.name);
}

void DatagramRetransmitter::release(DatagramTarget& target) {
    if (target.handle != nullptr) {
        sender_.port(target.port).retire(std::move(target.handle));
    }
    forget(target);
}

bool DatagramRetransmitter::accept(DatagramTarget& target, const DatagramArrival& arrival) {
    if (target.link == nullptr) {
        target.link = std::make_unique<DatagramLink>(target);
    }
    const DatagramHeader& prefix = arrival.prefix;
    DatagramLink& link = *target.link;
    const Nanoseconds now = clock_.now();
    ADAPTIB_INVARIANT(&link.target == &target, "a target stays where its link knows it", &target,
                      &link.target);
    target.heard = now;
    target.heard_port = static_cast<std::uint8_t>(arrival.port);
    target.heard_rail = prefix.rail;
    link.acknowledged(prefix.expected, prefix.arrived, now,
                      [this](std::uint32_t slot) { sender_.slots().drop(slot); });
    link.listens(now);
    bool is_new = false;
    if (arrival.header != nullptr) {
        is_new = link.arrived(prefix.number, now);
        if (link.owes_alone() && (alone_.empty() || alone_.back() != &target)) {
            alone_.push_back(&target);
        }
        if (!is_new) [[unlikely]] {
            ++counters_.datagram_doubled;
            if (repeated_) {
                repeated_(target);
            }
        }
    }
    mind(link);
    if (target.doubted && link.unanswered() == 0) [[unlikely]] {
        target.doubted = false;
        target.moves = 0;
        answered_(target);
    }
    return is_new;
}

} // namespace adaptib
