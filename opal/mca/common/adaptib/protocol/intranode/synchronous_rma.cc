// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/intranode/synchronous_rma.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <thread>
#include <utility>

#include "base/copy.h"
#include "base/spin.h"

namespace adaptib {

namespace {

constexpr std::uint32_t kLooksPerTime = 32;    // looks at the slot per reading of the clock
constexpr std::uint32_t kMostLooks = 1u << 14; // bound on looks, whatever the clock says
constexpr std::uint32_t kLooksPerYield = 1024; // taken, not done: the peer has lost its processor
constexpr std::uint32_t kLooksPerPulse = 1u << 18;
constexpr Bytes kUnit = SharedWork::kUnit;
// Handicap of 1/kPrice on the cooperative way, which takes two processors and has to be clearly
// faster: it leaves a part of the data in the helper's caches, and so makes later copies by one end
// look slower than they are.
constexpr std::int64_t kPrice = 6;
constexpr std::uint32_t kCrossing = 4; // messages learned apart after one that met the other end's
// Time for the helper to take a unit; each unit takes the helper 0.5 to 4 us. If the helper is not
// in MPI at all, this time is lost.
constexpr Nanoseconds kPatience{5'000};
// Units that an initiator helps its peer with while the peer does nothing for it.
constexpr std::uint32_t kMostHelped = 64;

AnswerState state_of(std::uint64_t word) { return static_cast<AnswerState>(word & 0xff); }

// Commits memory for answers with the first answer of that length. Returns false if there is none.
bool has_answer_room(Peer& peer, Bytes length) {
    if (length <= peer.transfers.answer_bytes) [[likely]] {
        return true;
    }
    constexpr Bytes kStep = 4096;
    const Bytes bytes = round_up(length, kStep);
    if (!peer.in.ring_layout().commit_answer(bytes).ok()) {
        return false;
    }
    peer.transfers.answer_bytes = bytes;
    return true;
}

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

} // namespace

// -------------------------------------------------------------------------------------------------
// Target-assisted operations: the initiator asks the target, by a message in its ring, for
// one-sided operations of up to kMaxAssisted bytes, if that is faster than doing them by system
// calls (schedule/way_choice.h).
//
// Exactly once: the initiator offers the operation in its answer slot and names the offer in the
// message. Target and initiator race for the offer by compare-and-swap on the slot's word. If the
// target wins, it does the operation and leaves the answer; if the initiator takes the offer back,
// it does the operation itself, and the message finds no offer. Everything is over when the
// initiator's call returns, so one slot per peer is enough.

bool SynchronousRma::start_by_choice(Peer& peer, const RmaWork& work, const Registration& region,
                                     std::span<const std::uint32_t> remote_keys) {
    if (!target_.may_wait()) {
        return rma_now(peer, work, region, remote_keys);
    }
    WayChoice& choice = work.opcode > Opcode::read
                            ? peer.transfers.assist_choices->atomics
                            : peer.transfers.assist_choices->of_transfer(work.length);
    const WayChoice::Way way = choice.choose();
    const bool timed = choice.timed();
    const Nanoseconds start = timed ? clock_.now() : Nanoseconds{0};
    bool done = way == AssistChoices::kAssisted &&
                request_assist(peer, work, remote_keys, choice.patience());
    const bool missed = way == AssistChoices::kAssisted && !done;
    if (!done) {
        done = work.length < kMinCooperative ? rma_now(peer, work, region, remote_keys)
                                             : transfer_long(peer, work, region, remote_keys, 0);
    }
    if (done && timed) {
        choice.note(way, clock_.now() - start);
    } else if (missed) { // the target is often away for long
        choice.note(way, 2 * choice.patience());
    }
    return done;
}

// Returns false if nothing was done.
bool SynchronousRma::request_assist(Peer& peer, const RmaWork& work,
                                    std::span<const std::uint32_t> remote_keys,
                                    Nanoseconds patience) {
    const bool write = work.opcode == Opcode::write;
    const Bytes bytes = sizeof(OperateBody) + (write ? work.length : 0);
    const Subchannel* const only = peer.only_subchannel();
    if (only == nullptr || only->remote_rail >= remote_keys.size() || !peer.may_use_ring(bytes) ||
        !peer.out.ring->direct() || (!write && !has_answer_room(peer, work.length))) {
        return false;
    }
    std::byte* to = peer.reserve_in_ring(bytes);
    if (to == nullptr) {
        return false;
    }
    const RingMemory memory = peer.in.ring_layout();
    AnswerSlot& slot = memory.answer();
    const std::uint64_t number = ++peer.transfers.offers;
    slot.assisted_word().store(answer_word(number, AnswerState::offered),
                               std::memory_order_relaxed);
    OperateBody body{};
    body.number = number;
    body.remote_address = work.remote_address;
    body.compare_add = work.compare_add;
    body.swap = work.swap;
    body.remote_key = remote_keys[only->remote_rail];
    body.length = static_cast<std::uint32_t>(work.length);
    std::memcpy(to, &body, sizeof body);
    if (write) {
        copy_small(to + sizeof body, work.local, work.length);
    }
    MessageHeader header;
    header.type = MessageType::operate;
    header.flags = static_cast<std::uint8_t>(work.opcode);
    header.length = static_cast<std::uint32_t>(bytes);
    if (!peer.commit_in_ring(header).ok()) {
        return false; // the target does not learn of the offer
    }
    ++counters_.operations_assisted;
    if (!answered(peer, slot, number, patience)) {
        ++counters_.operations_taken_back;
        return false;
    }
    if (!write) {
        copy_small(work.local, memory.answer_data(), work.length);
        dirty_lines(memory.answer_data(), work.length);
    }
    count_rma(counters_, peer, work.opcode, work.length);
    return true;
}

// Called between two looks at work that the peer may have taken and not done yet. Returns false if
// the peer is dead, and so will never do it.
bool SynchronousRma::worth_waiting(const Peer& peer, std::uint32_t looks) {
    if (looks % kLooksPerYield == 0) {
        std::this_thread::yield();
    }
    return looks % kLooksPerPulse != 0 || peer.lanes.subchannels.front().qp->target_lives();
}

// Waits for the target. Returns false if the target has not done the operation, and will not.
bool SynchronousRma::answered(const Peer& peer, AnswerSlot& slot, std::uint64_t number,
                              Nanoseconds patience) const {
    const std::uint64_t offered = answer_word(number, AnswerState::offered);
    const std::uint64_t taken = answer_word(number, AnswerState::taken);
    Nanoseconds give_up{0}; // set later: reading the clock takes as long as some answers
    for (std::uint32_t look = 1;; ++look) {
        std::uint64_t word = slot.assisted_word().load(std::memory_order_acquire);
        if (word != offered && word != taken) {
            return state_of(word) == AnswerState::done;
        }
        if (look == kLooksPerTime) {
            give_up = clock_.now() + patience;
        } else if (word == offered && look % kLooksPerTime == 0 &&
                   (look >= kMostLooks || clock_.now() >= give_up) &&
                   slot.assisted_word().compare_exchange_strong(
                       word, answer_word(number, AnswerState::none))) {
            return false;
        }
        if (word == taken && !worth_waiting(peer, look)) {
            return false; // doing it without the target will find that the peer is gone
        }
    }
}

// -------------------------------------------------------------------------------------------------
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
//   * staged: both ends copy all data, by their processors, through staging memory.
//     That takes no system call and pins no page, which is expensive on some machines; but each
//     line crosses between the processors' caches, which is expensive on others.
// A helper that computes does not look at the offer, which then has cost a message and one more
// system call. The fastest way is learned for each peer, pattern and size (schedule/way_choice.h).
//
// If both ends have data to copy, the first to begin decides the way. Each initiator marks its slot
// while it copies, even alone. An end that finds the other's slot marked copies alone; or, if the
// other end stages, it stages as well, and both help each other. The next few messages
// of both directions are learned apart (Pattern::crossing).
//
// Everything is over when the initiator's call returns, so one slot per peer is enough, and a
// helper that looks later finds no offer. Each part is checked separately, at both ends: a part
// that reaches beyond mapped memory fails, and may have been written up to there, as by a single
// copy of the kernel. Data longer than SharedWork::kMostBytes is moved by several copies.

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
    for (Bytes offset = 0; offset < work.length && done; offset += SharedWork::kMostBytes) {
        RmaWork piece = work;
        piece.local = static_cast<std::byte*>(work.local) + offset;
        piece.remote_address = work.remote_address + offset;
        piece.length = std::min(work.length - offset, SharedWork::kMostBytes);
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
    static_assert(std::bit_width(SharedWork::kMostBytes / kMinCooperative) ==
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
    for (AnswerSlot::Part part = slot.take_part(number, work.length, AnswerSlot::End::front);
         part.length > 0 && good;
         part = slot.take_part(number, work.length, AnswerSlot::End::front)) {
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
// Staged copy: both ends copy long data through staging memory, by their processors.
//
// The initiator's loop moves units (protocol/intranode/staged_copy.h) until all are in place. The
// initiator takes back units that the helper does not take within kPatience, waits for the units
// that the helper has taken, and copies the rest alone. If data goes in both directions at once,
// each end is the initiator of one copy and the helper of the other: the loop does the steps of
// both in turns.
//
// The helper's memory is a window's, which is accessed by the rules of its key; or the buffer of a
// message that the helper is still sending; or lent (memory/lent_memory.h). So no system call has
// to check that the memory is mapped.

bool SynchronousRma::transfer_staged(Peer& peer, const RmaWork& work, const Registration& region,
                                     std::span<const std::uint32_t> remote_keys,
                                     std::uint64_t send_id) {
    std::unique_ptr<StagingBlock> block;
    const Subchannel* const only = peer.only_subchannel();
    const auto depth = static_cast<std::uint32_t>(std::min<Bytes>(block_bytes_ / kUnit, 64));
    if (only == nullptr || depth < 2 ||
        !memory_.staging(peer.contact.route.fabric).take(block).ok()) {
        return transfer_alone(peer, work, region, remote_keys);
    }
    CooperativeCopyBody body{};
    body.send_id = send_id;
    body.staging = reinterpret_cast<std::uintptr_t>(block->data());
    body.staging_key = block->registration.remote_key(only->local_rail);
    body.staging_units = static_cast<std::uint8_t>(depth);
    AnswerSlot* const slot = offer_cooperative_copy(peer, work, remote_keys, body);
    Bytes moved = 0;
    if (slot != nullptr) {
        StagedCopy copy(work, body.number, *slot, block->data(), depth);
        moved = pump_staged(peer, copy);
        count_rma(counters_, peer, work.opcode, moved);
        counters_.copies_staged += moved > 0 ? 1 : 0;
    }
    memory_.staging(peer.contact.route.fabric).give(std::move(block));
    return moved == work.length ||
           rma_now_part(peer, work, moved, work.length - moved, region, remote_keys);
}

// Returns the number of bytes in place, from the beginning on; the helper touches nothing any more.
// The same loop helps with an offer that the peer has open in the other direction, so that neither
// end waits for the other's copy.
Bytes SynchronousRma::pump_staged(const Peer& peer, StagedCopy& copy) {
    CrossingHelp help;
    Nanoseconds give_up{0};
    StagedStep step = StagedStep::waits;
    bool gone = false;
    std::uint32_t unheard = 0; // units helped with since the helper did something
    for (std::uint32_t look = 1; step == StagedStep::waits && !gone; ++look) {
        step = copy.step();
        const bool helped = target_.step_crossing(peer, help);
        const bool heard = copy.has_heard() || step == StagedStep::moved;
        unheard = heard ? 0 : unheard + (helped ? 1 : 0);
        if (heard || (helped && unheard <= kMostHelped)) {
            look = 0;
            give_up = Nanoseconds{0};
            step = step == StagedStep::moved ? StagedStep::waits : step;
            continue;
        }
        if (step != StagedStep::waits) {
            break;
        }
        gone = !worth_waiting(peer, look);
        if ((helped || look % kLooksPerTime == 0) && !copy.is_closed()) {
            const Nanoseconds now = clock_.now();
            if (give_up.count() == 0) {
                give_up = now + kPatience;
            } else if (now >= give_up || look >= kMostLooks) {
                copy.close();
            }
        }
        look_once_more();
    }
    if (help.offer) {
        target_.count_served(*help.offer);
    }
    if (gone || step == StagedStep::bad) {
        counters_.bad_packets += gone ? 0 : 1;
        copy.close();
        return 0; // copying the rest alone will find whether the peer is gone
    }
    return copy.in_place();
}

} // namespace adaptib
