// SPDX-License-Identifier: BSD-3-Clause
// Target-assisted operations: the initiator asks the target, by a message in its ring, for
// one-sided operations of up to kMaxAssisted bytes, if that is faster than doing them by system
// calls (schedule/way_choice.h).
//
// Exactly once: the initiator offers the operation in its answer slot and names the offer in the
// message. Target and initiator race for the offer by compare-and-swap on the slot's word. If the
// target wins, it does the operation and leaves the answer; if the initiator takes the offer back,
// it does the operation itself, and the message finds no offer. Everything is over when the
// initiator's call returns, so one slot per peer is enough.
#include <atomic>
#include <cstring>
#include <thread>

#include "base/copy.h"
#include "channel/ring_memory.h"
#include "protocol/intranode/rma_target.h"
#include "protocol/intranode/synchronous_rma.h"

namespace adaptib {

namespace {

constexpr std::uint32_t kLooksPerTime = 32;    // looks at the slot per reading of the clock
constexpr std::uint32_t kMostLooks = 1u << 14; // bound on looks, if the clock stands still
constexpr std::uint32_t kLooksPerYield = 1024; // taken, not done: the peer has lost its processor
constexpr std::uint32_t kLooksPerPulse = 1u << 18;

std::atomic_ref<std::uint64_t> word_of(AnswerSlot& slot) {
    return std::atomic_ref<std::uint64_t>(slot.word);
}

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

} // namespace

// -------------------------------------------------------------------------------------------------
// Initiator

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
    word_of(slot).store(answer_word(number, AnswerState::offered), std::memory_order_relaxed);
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
        std::uint64_t word = word_of(slot).load(std::memory_order_acquire);
        if (word != offered && word != taken) {
            return state_of(word) == AnswerState::done;
        }
        if (look == kLooksPerTime) {
            give_up = clock_.now() + patience;
        } else if (word == offered && look % kLooksPerTime == 0 &&
                   (look >= kMostLooks || clock_.now() >= give_up) &&
                   word_of(slot).compare_exchange_strong(word,
                                                         answer_word(number, AnswerState::none))) {
            return false;
        }
        if (word == taken && !worth_waiting(peer, look)) {
            return false; // doing it without the target will find that the peer is gone
        }
    }
}

// -------------------------------------------------------------------------------------------------
// Target

// Returns the queue pair that serves the peer's offer, whose fields are in range if `sensible`.
// Null: the offer is not served, and the initiator does without.
QueuePair* RmaTarget::serving_qp(const Peer& peer, bool sensible) {
    if (peer.transfers.answers == nullptr || peer.transfers.answer_data == nullptr) {
        return nullptr; // the connection is not open here yet
    }
    if (peer.lanes.subchannels.size() != 1 || !sensible) {
        ++counters_.bad_packets;
        return nullptr;
    }
    QueuePair* const qp = peer.lanes.subchannels.front().qp.get();
    return qp != nullptr && qp->usable() ? qp : nullptr;
}

void RmaTarget::on_operate(Peer& peer, const MessageHeader& header, const std::byte* from) {
    const auto body = read_body<OperateBody>(from);
    const auto opcode = static_cast<Opcode>(header.flags);
    const Bytes payload = header.length - sizeof body;
    const Bytes expected = opcode == Opcode::write ? body.length : 0;
    QueuePair* const qp =
        serving_qp(peer, payload == expected && body.length > 0 && body.length <= kMaxAssisted);
    if (qp == nullptr) {
        return;
    }
    AnswerSlot& slot = *peer.transfers.answers;
    std::uint64_t word = answer_word(body.number, AnswerState::offered);
    if (!word_of(slot).compare_exchange_strong(word,
                                               answer_word(body.number, AnswerState::taken))) {
        return; // taken back
    }
    // A write only reads the payload, which lies in memory of this process: the cast is safe.
    std::byte* data = opcode == Opcode::write ? const_cast<std::byte*>(from + sizeof body)
                                              : peer.transfers.answer_data;
    const Gather gather{data, body.length, 0};
    SendWork work;
    work.opcode = opcode;
    work.remote_address = body.remote_address;
    work.compare_add = body.compare_add;
    work.swap = body.swap;
    work.remote_key = body.remote_key;
    work.gather = &gather;
    work.gather_count = 1;
    const AnswerState state = qp->serve_rma(work).ok() ? AnswerState::done : AnswerState::refused;
    word_of(slot).store(answer_word(body.number, state), std::memory_order_release);
    ++counters_.operations_served;
}

} // namespace adaptib
