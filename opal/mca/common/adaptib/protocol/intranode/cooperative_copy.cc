// SPDX-License-Identifier: BSD-3-Clause
// Cooperative copy: which end copies long data within a host (rendezvous, gets and puts), and how.
//
// The initiator (the receiver that has matched the RTS, or the origin of a put or get) could let
// the kernel copy all data within the call; but more often than not the other end just waits
// meanwhile. So the initiator may make the other end, the helper, an offer. There are three ways:
//   * alone: no offer; the initiator copies everything by the kernel. No other way is taken while
//     several threads of the initiator use the core: they would wait for the helper as well;
//   * together: each end copies a part by the kernel. The data is divided into units. The initiator
//     takes units from the front and the helper from the back, by compare-and-swap on a word of the
//     answer slot: each time a quarter of what is left, but at least 128 KiB, or half of the data
//     if that is less. An end that finds nothing left is done; the initiator then waits for what
//     the helper has taken and not yet copied;
//   * staged: both ends copy all data, by their processors, through staging memory (staged.cc).
//     That takes no system call and pins no page, which is expensive on some machines; but each
//     line crosses between the processors' caches, which is expensive on others.
// A helper that computes does not look at the offer, which then has cost a message and one more
// system call. The fastest way is learned for each peer, pattern and size (schedule/way_choice.h).
//
// If both ends have data to copy, the first to begin decides the way. Each initiator marks its slot
// while it copies, even alone. An end that finds the other's slot marked copies alone; or, if the
// other end stages, it stages as well, and both help each other (staged.cc). The next few messages
// of both directions are learned apart (Pattern::crossing).
//
// Everything is over when the initiator's call returns, so one slot per peer is enough, and a
// helper that looks later finds no offer. Each part is checked separately, at both ends: a part
// that reaches beyond mapped memory fails, and may have been written up to there, as by a single
// copy of the kernel. Data longer than kMaxCooperative is moved by several copies.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "base/spin.h"
#include "channel/ring_memory.h"
#include "protocol/intranode/rma_target.h"
#include "protocol/intranode/synchronous_rma.h"

namespace adaptib {

namespace {

constexpr Bytes kUnit = SharedWork::kUnit;
constexpr std::uint32_t kLeastPart = 8; // units; a system call for less is expensive
constexpr Bytes kMaxCooperative = SharedWork::kMostUnits * kUnit;
// Handicap of 1/kPrice on the cooperative way, which takes two processors and has to be clearly
// faster: it leaves a part of the data in the helper's caches, and so makes later copies by one end
// look slower than they are.
constexpr std::int64_t kPrice = 6;
constexpr std::uint32_t kCrossing = 4; // messages learned apart after one that met the other end's

struct Part {
    Bytes offset = 0;
    Bytes length = 0; // 0: nothing is left
    std::uint32_t units = 0;
};

enum class End : std::uint8_t { front, back };

// Copy of which the other end is the initiator at this moment.
enum class Crossing : std::uint8_t {
    none,
    alone,  // or together, but this end does not help in the middle of a copy of its own
    staged, // and the other end helps with this end's copy in turn
};

Crossing crossing_of(const Peer& peer) {
    CooperativeCopyBody body;
    const std::uint64_t word =
        peer.transfers.answers == nullptr
            ? 0
            : peer.transfers.answers->shared_word().load(std::memory_order_relaxed);
    if (word == 0 || SharedWork::of(word).closed) {
        return Crossing::none;
    }
    return peer.transfers.answers->read_offer(body) && body.staging_units > 0 ? Crossing::staged
                                                                              : Crossing::alone;
}

// Returns the way if there is no choice. If the other end has begun a copy, its way is taken, since
// both ends are present for that way only. REQUIRES: `only` has a value if crossing is none.
WayChoice::Way way_beside(Crossing crossing, const std::optional<WayChoice::Way>& only) {
    switch (crossing) {
    case Crossing::none: return *only;
    case Crossing::alone: return CooperativeCopyChoices::kAlone;
    case Crossing::staged: return only.value_or(CooperativeCopyChoices::kStaged);
    }
    return CooperativeCopyChoices::kAlone;
}

// Takes the next part for one end. Returns an empty part if nothing is left, or the offer is over.
Part take_part(AnswerSlot& slot, std::uint64_t number, Bytes length, End end) {
    const std::uint32_t all = SharedWork::units_of(length);
    std::uint64_t word = slot.shared_word().load(std::memory_order_acquire);
    for (;;) {
        SharedWork work = SharedWork::of(word);
        if (work.number != number || work.closed || work.front + work.back >= all) {
            return {};
        }
        const std::uint32_t left = all - work.front - work.back;
        const std::uint32_t least = std::min(std::max(all / 2, 1u), kLeastPart);
        const std::uint32_t mine = std::max(left / 4, std::min(left, least));
        const std::uint32_t first = end == End::front ? work.front : all - work.back - mine;
        (end == End::front ? work.front : work.back) += mine;
        if (slot.shared_word().compare_exchange_weak(word, work.word(), std::memory_order_acq_rel,
                                                     std::memory_order_acquire)) {
            const Bytes offset = first * kUnit;
            return {offset, std::min(mine * kUnit, length - offset), mine};
        }
    }
}

} // namespace

// -------------------------------------------------------------------------------------------------
// Initiator

// Returns false if not all data was moved.
bool SynchronousRma::transfer_long(Peer& peer, const RmaWork& work, const Registration& region,
                                   std::span<const std::uint32_t> remote_keys,
                                   std::uint64_t send_id) {
    if (peer.transfers.cooperative_copy_choices == nullptr) {
        return rma_now(peer, work, region, remote_keys);
    }
    if (!target_.may_wait()) {
        return transfer_alone(peer, work, region, remote_keys);
    }
    bool done = true;
    for (Bytes offset = 0; offset < work.length && done; offset += kMaxCooperative) {
        RmaWork piece = work;
        piece.local = static_cast<std::byte*>(work.local) + offset;
        piece.remote_address = work.remote_address + offset;
        piece.length = std::min(work.length - offset, kMaxCooperative);
        done = piece.length < kMinCooperative
                   ? rma_now(peer, piece, region, remote_keys)
                   : transfer_piece(peer, piece, region, remote_keys, send_id);
    }
    return done;
}

// A message belongs to a stream if this process has sent the peer nothing since the last one, apart
// from what long data takes: an offer, and the FIN of that last message.
CooperativeCopyChoices::Pattern SynchronousRma::pattern_of(Peer& peer, const RmaWork& work,
                                                           std::uint64_t send_id) {
    using Pattern = CooperativeCopyChoices::Pattern;
    CooperativeCopyChoices& choices = *peer.transfers.cooperative_copy_choices;
    Pattern pattern = work.opcode == Opcode::read ? Pattern::get : Pattern::put;
    if (send_id != 0) {
        const auto sent =
            static_cast<std::uint32_t>(peer.session.next_send - peer.transfers.offers);
        const bool stream = sent - std::exchange(choices.sent, sent) <= 1;
        pattern = stream ? Pattern::stream : Pattern::message;
    }
    if (choices.crossing > 0) {
        --choices.crossing;
        pattern = CooperativeCopyChoices::when_crossing(pattern);
    }
    return pattern;
}

bool SynchronousRma::transfer_piece(Peer& peer, const RmaWork& work, const Registration& region,
                                    std::span<const std::uint32_t> remote_keys,
                                    std::uint64_t send_id) {
    CooperativeCopyChoices& choices = *peer.transfers.cooperative_copy_choices;
    const Crossing crossing = crossing_of(peer);
    if (choices.crossed || crossing != Crossing::none) {
        ++counters_.copies_crossed;
        choices.crossing = kCrossing;
    }
    static_assert(std::bit_width(kMaxCooperative / kMinCooperative) ==
                  CooperativeCopyChoices::kSizes);
    const CooperativeCopyChoices::Pattern pattern = pattern_of(peer, work, send_id);
    const auto size = static_cast<std::size_t>(std::bit_width(work.length / kMinCooperative)) - 1;
    WayChoice& choice = choices.find(pattern, size);
    const bool chooses = crossing == Crossing::none && !choices.only.has_value();
    const WayChoice::Way way = chooses ? choice.choose() : way_beside(crossing, choices.only);
    const bool timed = chooses && choice.timed();
    const Nanoseconds start = timed ? clock_.now() : Nanoseconds{0};
    const bool done = way == CooperativeCopyChoices::kCooperative
                          ? transfer_cooperatively(peer, work, region, remote_keys)
                      : way == CooperativeCopyChoices::kStaged
                          ? transfer_staged(peer, work, region, remote_keys, send_id)
                          : transfer_alone(peer, work, region, remote_keys);
    const Nanoseconds end = timed ? clock_.now() : Nanoseconds{0};
    choices.crossed = crossing_of(peer) != Crossing::none;
    if (timed && done) {
        const Nanoseconds took =
            (end - start) / static_cast<std::int64_t>(SharedWork::units_of(work.length));
        // A copy that turned out to cross another one teaches those that are known to.
        WayChoice& learner =
            choices.crossed ? choices.find(CooperativeCopyChoices::when_crossing(pattern), size)
                            : choice;
        learner.note(way,
                     way == CooperativeCopyChoices::kCooperative ? took + took / kPrice : took);
    }
    return done;
}

bool SynchronousRma::transfer_alone(Peer& peer, const RmaWork& work, const Registration& region,
                                    std::span<const std::uint32_t> remote_keys) {
    if (peer.in.ring_memory == nullptr || !peer.in.ring_parts.direct) {
        return rma_now(peer, work, region, remote_keys);
    }
    const auto mark = [&](SharedWork state) {
        peer.in.ring_layout().answer().shared_word().store(state.word(), std::memory_order_relaxed);
    };
    mark({.front = 1});
    const bool done = rma_now(peer, work, region, remote_keys);
    mark({.closed = true});
    return done;
}

// Makes the peer an offer. The caller has set the fields of `body` that say how to copy; this
// function sets the others. Returns null if the offer cannot be sent.
AnswerSlot* SynchronousRma::offer_cooperative_copy(Peer& peer, const RmaWork& work,
                                                   std::span<const std::uint32_t> remote_keys,
                                                   CooperativeCopyBody& body) {
    const Subchannel* const only = peer.only_subchannel();
    const Registration* const all = memory_.whole(peer.contact.route.fabric);
    std::byte* const to =
        only != nullptr && all != nullptr && only->remote_rail < remote_keys.size() &&
                peer.may_use_ring(sizeof(CooperativeCopyBody)) && peer.out.ring->direct()
            ? peer.reserve_in_ring(sizeof(CooperativeCopyBody))
            : nullptr;
    if (to == nullptr) {
        return nullptr;
    }
    AnswerSlot& slot = peer.in.ring_layout().answer();
    body.number = 1 + ++peer.transfers.offers % SharedWork::kNumbers;
    body.theirs = work.remote_address;
    body.ours = reinterpret_cast<std::uintptr_t>(work.local);
    body.length = static_cast<std::uint32_t>(work.length);
    body.their_key = remote_keys[only->remote_rail];
    body.our_key = all->remote_key(only->local_rail);
    body.opcode =
        static_cast<std::uint8_t>(work.opcode == Opcode::read ? Opcode::write : Opcode::read);
    slot.make_offer(body);
    std::memcpy(to, &body, sizeof body);
    MessageHeader header;
    header.type = MessageType::cooperative_copy;
    header.length = sizeof body;
    if (!peer.commit_in_ring(header).ok()) {
        close_cooperative_copy(peer, slot); // the peer may have read the slot already
        return nullptr;
    }
    ++counters_.copies_offered;
    return &slot;
}

bool SynchronousRma::transfer_cooperatively(Peer& peer, const RmaWork& work,
                                            const Registration& region,
                                            std::span<const std::uint32_t> remote_keys) {
    CooperativeCopyBody body{};
    AnswerSlot* const offered = offer_cooperative_copy(peer, work, remote_keys, body);
    if (offered == nullptr) {
        return rma_now(peer, work, region, remote_keys);
    }
    AnswerSlot& slot = *offered;
    const std::uint64_t number = body.number;
    bool good = true;
    std::uint32_t front = 0;
    for (Part part = take_part(slot, number, work.length, End::front); part.length > 0 && good;
         part = take_part(slot, number, work.length, End::front)) {
        good = rma_now_part(peer, work, part.offset, part.length, region, remote_keys);
        front += part.units;
    }
    const SharedWork end = close_cooperative_copy(peer, slot);
    if (!good) {
        return false;
    }
    const std::uint32_t units = SharedWork::units_of(work.length);
    if (end.number != number || end.front != front || end.front + end.back != units ||
        end.done > end.back) {
        ++counters_.bad_packets; // the peer can write into the slot
        return false;
    }
    counters_.copies_cooperative += end.back > 0 ? 1 : 0;
    if (end.back == end.done) {
        return true;
    }
    // The helper could not copy the part that it took last, and does not try again.
    const Bytes behind = std::min((units - end.done) * kUnit, work.length);
    return rma_now_part(peer, work, front * kUnit, behind - front * kUnit, region, remote_keys);
}

// Closes the offer, and waits until the helper has copied what it has taken.
SharedWork SynchronousRma::close_cooperative_copy(const Peer& peer, AnswerSlot& slot) const {
    SharedWork work = slot.close_offer();
    for (std::uint32_t look = 1; work.done < work.back && !work.refused; ++look) {
        if (!worth_waiting(peer, look)) {
            break; // copying the rest alone will find that the peer is gone
        }
        look_once_more();
        work = SharedWork::of(slot.shared_word().load(std::memory_order_acquire));
    }
    return work;
}

bool SynchronousRma::rma_now_part(Peer& peer, RmaWork work, Bytes offset, Bytes length,
                                  const Registration& region,
                                  std::span<const std::uint32_t> remote_keys) {
    work.local = static_cast<std::byte*>(work.local) + offset;
    work.remote_address += offset;
    work.length = length;
    return rma_now(peer, work, region, remote_keys);
}

// -------------------------------------------------------------------------------------------------
// Helper

// Returns the queue pair that serves the peer's offer. Null: offers are not served, or this one is
// invalid.
QueuePair* RmaTarget::offered_over(const Peer& peer, const CooperativeCopyBody& body) {
    const auto opcode = static_cast<Opcode>(body.opcode);
    return serving_qp(peer, body.number - 1 < SharedWork::kNumbers &&
                                body.length >= kMinCooperative && body.length <= kMaxCooperative &&
                                (opcode == Opcode::write || opcode == Opcode::read));
}

void RmaTarget::on_cooperative_copy(Peer& peer, const CooperativeCopyBody& body) {
    const auto opcode = static_cast<Opcode>(body.opcode);
    QueuePair* const qp = offered_over(peer, body);
    if (qp == nullptr) {
        return;
    }
    if (body.staging_units > 0) {
        serve_staged(peer, body, *qp);
        return;
    }
    AnswerSlot& slot = *peer.transfers.answers;
    for (Part part = take_part(slot, body.number, body.length, End::back); part.length > 0;
         part = take_part(slot, body.number, body.length, End::back)) {
        const RmaWork work{.opcode = opcode,
                           .local_key = body.their_key,
                           .local = reinterpret_cast<std::byte*>(body.theirs + part.offset),
                           .length = part.length,
                           .remote_address = body.ours + part.offset,
                           .remote_key = body.our_key,
                           .compare_add = 0,
                           .swap = 0};
        if (!qp->serve_copy(work).ok()) {
            slot.refuse_offer();
            return;
        }
        count_rma(counters_, peer, opcode, part.length);
        slot.count_done(part.units);
    }
}

} // namespace adaptib
