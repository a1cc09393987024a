// SPDX-License-Identifier: BSD-3-Clause
// DatagramLink: the datagrams to and from one peer, over a rail that loses, doubles and reorders
// them.
//
// Purpose: tracks numbers, acknowledgements, and what is to be sent again and when. Pure
// bookkeeping: it posts nothing and reads no clock, so it can be tested by table. Every datagram to
// the peer acknowledges what has arrived from it (a number before which all did, and 32 bits for
// those after it). If none goes to the peer for a while, or none is likely to, a datagram of its
// own does: the process that received may compute next, without a call of MPI.
//
// Invariants
//   1. A datagram stays in its slot until it is acknowledged; at most kWindow do.
//   2. A datagram that arrived before is not delivered again; every one that arrives is
//      acknowledged, repeatedly if need be.
//   3. Numbers begin at 1 and grow by 1, modulo 2^32; a datagram that only acknowledges has none.
//
// Ownership: belongs to its DatagramTarget; the channel's timers know it while something is to be
// done.
// Threads: one at a time (the core's lock).
// Changing the path: the numbers make it safe at any time; unacknowledged datagrams are sent again
// over the new path.
// Source: Yu, Gao, Panda, 4.1 (retransmission before a connection is up); Jacobson's timer (RFC
// 6298); selective acknowledgements (RFC 2018).
// May touch: base/.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/intrusive_list.h"
#include "base/invariant.h"
#include "base/units.h"
#include "base/wire.h"

namespace adaptib {

struct DatagramTarget;

class DatagramLink {
public:
    // Unacknowledged datagrams; at most 32 (the bits)
    static constexpr std::uint32_t kWindow = 16;
    static constexpr std::uint32_t kAckEvery = 4;
    static constexpr Nanoseconds kAckDelay{100'000};
    // Longest time that a user's buffer is lent: acknowledgements of a peer that polls come sooner.
    static constexpr Nanoseconds kLoan = 2 * kAckDelay;
    static constexpr Nanoseconds kFirstTimeout{10'000'000};
    static constexpr Nanoseconds kLeastTimeout{1'000'000};
    static constexpr Nanoseconds kMostTimeout{1'000'000'000};
    static constexpr Nanoseconds kMostRest{8'000'000'000};

    explicit DatagramLink(DatagramTarget& to) : target(to) {}

    // ---- Sending

    bool may_send() const { return count_ < kWindow; }
    // Records that the datagram in `slot` is about to be posted; returns its number. REQUIRES:
    // may_send().
    std::uint32_t add(std::uint32_t slot, Nanoseconds now) {
        ADAPTIB_INVARIANT(count_ < kWindow, "at most a window of datagrams is unacknowledged",
                          count_);
        Sent& sent = at(count_++);
        sent = {next_number_, slot, now, 1, ++sends_, false};
        sent_since_ = true;
        if (count_ == 1) {
            due_ = now + timeout_;
        }
        return next_number_++;
    }
    // Undoes add() after a failed post. REQUIRES: nothing happened since.
    void take_back() {
        ADAPTIB_INVARIANT(count_ > 0 && at(count_ - 1).number + 1 == next_number_,
                          "what is taken back was added last", count_, next_number_);
        --count_;
        --next_number_;
    }
    // The datagram just added has its payload in a user's buffer, for kLoan at most.
    void lend(Nanoseconds now) {
        ADAPTIB_INVARIANT(count_ > 0, "a datagram that lends a buffer is unacknowledged", count_);
        lent_due_ = count_ == 1 ? now + kLoan : std::min(lent_due_, now + kLoan);
    }
    // Calls `copy(slot)` for each unacknowledged datagram that was sent kLoan ago and still reads a
    // buffer, as `reads(slot)` tells.
    template <class Reads, class Copy> void end_loans(Nanoseconds now, Reads&& reads, Copy&& copy) {
        if (count_ == 0 || now < lent_due_) [[likely]] {
            return;
        }
        lent_due_ = Nanoseconds::max();
        for (std::uint32_t i = 0; i < count_; ++i) {
            const Sent& sent = at(i);
            if (sent.over || !reads(sent.slot)) {
                continue;
            }
            if (now - sent.posted >= kLoan) {
                copy(sent.slot);
            } else {
                lent_due_ = std::min(lent_due_, sent.posted + kLoan);
            }
        }
    }
    // Processes an acknowledgement: all before `before`, and `bits` after it. Calls `release(slot)`
    // for each datagram that it newly acknowledges.
    template <class Release>
    void acknowledged(std::uint32_t before, std::uint32_t bits, Nanoseconds now,
                      Release&& release) {
        // The peer cannot have what was not sent: ignore it.
        if (sequence_before(next_number_, before)) {
            return;
        }
        bool news = false;
        std::uint32_t last = at(0).last; // of what is acknowledged now; see Sent
        for (std::uint32_t i = 0; i < count_; ++i) {
            Sent& sent = at(i);
            const std::uint32_t ahead = sent.number - before - 1; // bit 0 is `before` + 1
            if (!sent.over && (sequence_before(sent.number, before) ||
                               (ahead < 32 && (bits >> ahead & 1) != 0))) {
                news = true;
                last = sequence_before(last, sent.last) ? sent.last : last;
                finish(sent, now, release);
            }
        }
        // Keeps an unacknowledged one in front, which is sent again.
        for (; count_ > 0 && at(0).over; --count_) {
            first_ = (first_ + 1) % kWindow;
        }
        if (news) {
            rests_ = false;
            unanswered_ = 0;
            backoff_ = 1;
            due_ = now + timeout_;
            // One that was sent after the oldest has arrived, the oldest has not: do not wait for
            // the timer. After a repeat all of a window may be lost, and each goes out as the one
            // before it is acknowledged (RFC 6582, partial acknowledgements).
            if (count_ > 0 && sequence_before(at(0).last, last)) {
                due_ = now;
            }
        }
        ADAPTIB_INVARIANT(count_ == 0 || at(0).number + count_ == next_number_,
                          "unacknowledged datagrams are the last ones, without a gap", count_,
                          at(0).number, next_number_);
    }
    bool unacknowledged() const { return count_ > 0; }
    std::uint32_t kept() const { return count_; }
    // Number of repeats since the peer last acknowledged anything new, or since moved().
    std::uint32_t unanswered() const { return unanswered_; }
    // When the oldest unacknowledged datagram was first sent. REQUIRES: unacknowledged().
    Nanoseconds oldest() const {
        ADAPTIB_INVARIANT(count_ > 0, "only what is unacknowledged has an age", count_);
        return sent_[first_].posted;
    }
    // Called when the path has changed; all unacknowledged datagrams were sent over the new one as
    // well. `first`: this is the first change since something was acknowledged. Only then the
    // back-off is reset, so that a peer that answers nowhere is not asked ever faster.
    void moved(Nanoseconds now, bool first) {
        rests_ = false;
        unanswered_ = 0;
        backoff_ = first ? 1 : backoff_;
        due_ = now + std::min(timeout_ * backoff_, kMostTimeout);
    }
    // Returns true if `is(slot)` is true for an unacknowledged datagram.
    template <class Is> bool keeps(Is&& is) const {
        for (std::uint32_t i = 0; i < count_; ++i) {
            if (!at(i).over && is(at(i).slot)) {
                return true;
            }
        }
        return false;
    }
    // Calls `visit(slot)` for each unacknowledged datagram, which the caller sends once more.
    template <class Visit> void resend(Visit&& visit) {
        for (std::uint32_t i = 0; i < count_; ++i) {
            if (!at(i).over) {
                ++at(i).tries;
                at(i).last = ++sends_;
                visit(at(i).slot);
            }
        }
    }
    // Drops everything: the peer is given up.
    template <class Release> void drop_all(Release&& release) {
        for (; count_ > 0; --count_, first_ = (first_ + 1) % kWindow) {
            if (!at(0).over) {
                release(at(0).slot);
            }
        }
        owed_ = 0;
    }
    // Returns the slot of the oldest unacknowledged datagram if it is to be sent again now,
    // otherwise kNone. `tries`: how often it has been sent, this time included.
    static constexpr std::uint32_t kNone = ~0u;
    std::uint32_t to_repeat(Nanoseconds now, std::uint32_t& tries) {
        if (count_ == 0 || now < due_) {
            return kNone;
        }
        Sent& oldest = at(0);
        ADAPTIB_INVARIANT(!oldest.over, "the oldest datagram that is kept is unacknowledged",
                          oldest.number, oldest.slot);
        tries = ++oldest.tries;
        oldest.last = ++sends_;
        ++unanswered_;
        backoff_ = std::min(backoff_ * 2, 1024u);
        due_ = now + std::min(timeout_ * backoff_, kMostTimeout);
        return oldest.slot;
    }

    // Called when the peer is known to be alive and not to listen: unacknowledged datagrams are
    // sent again ever more rarely, until the peer is heard. REQUIRES: unacknowledged().
    void rest(Nanoseconds now) {
        ADAPTIB_INVARIANT(count_ > 0, "a link rests while something is unacknowledged", count_);
        rests_ = true;
        due_ = now + std::clamp(now - oldest(), timeout_, kMostRest);
    }
    // Called when the peer listens again: it lacks what it does not acknowledge now.
    void listens(Nanoseconds now) {
        if (rests_) {
            rests_ = false;
            backoff_ = 1;
            due_ = std::min(due_, now + timeout_);
        }
    }

    // ---- Receiving

    // Records the arrival of a datagram; returns true if it is new. It is to be acknowledged in
    // either case, unless its number is impossibly far ahead.
    bool arrived(std::uint32_t number, Nanoseconds now) {
        if (owed_++ == 0) {
            ack_due_ = now + kAckDelay;
        }
        alone_ = !std::exchange(sent_since_, false);
        if (sequence_before(number, expected_)) {
            owed_ = kAckEvery; // an acknowledgement was lost
            return false;
        }
        const std::uint32_t ahead = number - expected_;
        if (ahead == 0) {
            ++expected_;
            while ((bits_ & 1) != 0) {
                bits_ >>= 1;
                ++expected_;
            }
            bits_ >>= 1; // bit 0 is always expected_ + 1
            return true;
        }
        if (ahead > 32) {
            owed_ = owed_ == 1 ? 0 : owed_ - 1; // no conforming peer sends that far ahead
            return false;
        }
        const std::uint32_t bit = 1u << (ahead - 1);
        const bool is_new = (bits_ & bit) == 0;
        bits_ |= bit;
        owed_ = kAckEvery; // the one before it may be lost
        return is_new;
    }
    std::uint32_t expected() const { return expected_; }
    std::uint32_t bits() const { return bits_; }
    // Called when an acknowledgement is on its way.
    void told() { owed_ = 0; }
    // Called when an acknowledgement could not be sent: the peer's queue may stay full for long.
    void put_off(Nanoseconds now) {
        ADAPTIB_INVARIANT(owed_ > 0, "only what is owed is put off", now);
        owed_ = 1;
        ack_due_ = now + kLeastTimeout;
    }
    bool ack_due(Nanoseconds now) const {
        return owed_ >= kAckEvery || (owed_ > 0 && now >= ack_due_);
    }

    // Returns true if the last arrival is to be acknowledged, and nothing was sent to the peer
    // between it and the one before: presumably nothing will be that could carry the
    // acknowledgement.
    bool owes_alone() const { return owed_ > 0 && alone_; }

    // Returns true if either end has something to acknowledge.
    bool busy() const { return count_ > 0 || owed_ > 0; }
    // Time of the next action, unless something arrives before; max: the link is not busy.
    Nanoseconds deadline() const {
        Nanoseconds next = Nanoseconds::max();
        if (count_ > 0) {
            next = std::min(due_, lent_due_);
        }
        if (owed_ > 0) {
            next = std::min(next, owed_ >= kAckEvery ? Nanoseconds{0} : ack_due_);
        }
        return next;
    }

    DatagramTarget& target;
    ListLink<DatagramLink> timer_link; // linked while something is to be done at deadline()

private:
    struct Sent {
        std::uint32_t number = 0;
        std::uint32_t slot = 0;
        Nanoseconds posted{0};
        std::uint32_t tries = 0;
        std::uint32_t last = 0; // number of the last time that it was sent, among all sends
        bool over = false;      // acknowledged before an earlier one
    };
    Sent& at(std::uint32_t i) { return sent_[(first_ + i) % kWindow]; }
    const Sent& at(std::uint32_t i) const { return sent_[(first_ + i) % kWindow]; }

    template <class Release> void finish(Sent& sent, Nanoseconds now, Release&& release) {
        if (sent.tries == 1) { // otherwise it is unknown which try was answered (Karn)
            learn(now - sent.posted);
        }
        sent.over = true;
        release(sent.slot);
    }
    void learn(Nanoseconds round_trip) {
        ADAPTIB_INVARIANT(round_trip.count() >= 0, "an answer comes after what it answers",
                          round_trip);
        if (smoothed_.count() == 0) {
            smoothed_ = round_trip;
            deviation_ = round_trip / 2;
        } else {
            const Nanoseconds error =
                round_trip > smoothed_ ? round_trip - smoothed_ : smoothed_ - round_trip;
            deviation_ += (error - deviation_) / 4;
            smoothed_ += (round_trip - smoothed_) / 8;
        }
        timeout_ = std::clamp(smoothed_ + 4 * deviation_ + kAckDelay, kLeastTimeout, kMostTimeout);
    }

    std::array<Sent, kWindow> sent_{};
    std::uint32_t first_ = 0;
    std::uint32_t count_ = 0;
    std::uint32_t next_number_ = 1;
    std::uint32_t sends_ = 0; // repeats are included
    std::uint32_t backoff_ = 1;
    std::uint32_t unanswered_ = 0;
    bool rests_ = false;                        // see rest()
    Nanoseconds due_{0};                        // when the oldest is sent again
    Nanoseconds lent_due_ = Nanoseconds::max(); // when loans are to end; has passed: maybe none is
    Nanoseconds timeout_ = kFirstTimeout;
    Nanoseconds smoothed_{0};
    Nanoseconds deviation_{0};

    std::uint32_t expected_ = 1;
    std::uint32_t bits_ = 0; // bit i: number expected_ + 1 + i has arrived
    std::uint32_t owed_ = 0; // arrived and not acknowledged
    Nanoseconds ack_due_{0};
    bool sent_since_ = false; // something was sent since the last arrival
    bool alone_ = false;      // nothing was sent between the last two arrivals
};

} // namespace adaptib
