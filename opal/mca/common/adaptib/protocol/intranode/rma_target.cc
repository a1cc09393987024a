// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/intranode/rma_target.h"

#include "base/spin.h"
#include "channel/ring_memory.h"
#include "protocol/count_rma.h"
#include "protocol/rendezvous.h"

namespace adaptib {

namespace {

constexpr Bytes kUnit = SharedWork::kUnit;
constexpr std::uint32_t kMostServed = 1u << 13; // bound on looks for a unit, some 50 us

} // namespace

// -------------------------------------------------------------------------------------------------
// Operations

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
    if (!slot.assisted_word().compare_exchange_strong(
            word, answer_word(body.number, AnswerState::taken))) {
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
    slot.assisted_word().store(answer_word(body.number, state), std::memory_order_release);
    ++counters_.operations_served;
}
// -------------------------------------------------------------------------------------------------
// Copies of long data

// Returns the queue pair that serves the peer's offer. Null: offers are not served, or this one is
// invalid.
QueuePair* RmaTarget::offered_over(const Peer& peer, const CooperativeCopyBody& body) {
    const auto opcode = static_cast<Opcode>(body.opcode);
    return serving_qp(peer, body.number - 1 < SharedWork::kNumbers &&
                                body.length >= kMinCooperative &&
                                body.length <= SharedWork::kMostBytes &&
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
    for (AnswerSlot::Part part = slot.take_part(body.number, body.length, AnswerSlot::End::back);
         part.length > 0; part = slot.take_part(body.number, body.length, AnswerSlot::End::back)) {
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

// Returns this process's memory that the offer names. Null: the memory is a window's if `good`, and
// the offer is invalid otherwise.
std::byte* RmaTarget::find_offered(const Peer& peer, const CooperativeCopyBody& body, bool& good) {
    const bool fills = static_cast<Opcode>(body.opcode) == Opcode::write;
    good = true;
    if (body.send_id == 0) {
        return lent_.find(body.theirs, body.length, fills ? kRemoteRead : kRemoteWrite);
    }
    const std::span<std::byte> data =
        fills ? rendezvous_.data_of_send(peer, body.send_id) : std::span<std::byte>{};
    const auto begin = reinterpret_cast<std::uintptr_t>(data.data());
    good = is_within(body.theirs, body.length, begin, data.size());
    return good ? data.data() + (body.theirs - begin) : nullptr;
}

// Returns nothing if the offer names no valid memory, or is over.
std::optional<StagedOffer> RmaTarget::take_offer(const Peer& peer, const CooperativeCopyBody& body,
                                                 QueuePair& qp) {
    bool good = false;
    std::byte* const own = find_offered(peer, body, good);
    if (!good) {
        return std::nullopt;
    }
    auto* const staging =
        static_cast<std::byte*>(qp.map(body.staging, body.staging_units * kUnit, body.staging_key));
    if (staging == nullptr) {
        return std::nullopt;
    }
    StagedOffer offer(body, *peer.transfers.answers, &qp, staging, own);
    return offer.stands() ? std::optional(offer) : std::nullopt;
}

// REQUIRES: the body has been checked.
void RmaTarget::serve_staged(Peer& peer, const CooperativeCopyBody& body, QueuePair& qp) {
    std::optional<StagedOffer> offer = may_wait() ? take_offer(peer, body, qp) : std::nullopt;
    if (!offer) {
        return; // the initiator does not wait for long
    }
    for (std::uint32_t look = 0; look < kMostServed; ++look) {
        const StagedStep step = offer->step();
        if (step == StagedStep::over) {
            break;
        }
        if (step == StagedStep::moved) {
            look = 0;
        } else {
            look_once_more();
        }
    }
    count_served(*offer);
}

void RmaTarget::count_served(const StagedOffer& offer) {
    if (offer.bytes_moved() > 0) { // the initiator counts them for the pair
        count_rma(counters_, offer.opcode(), offer.bytes_moved());
    }
}

// Helps with the offer that the peer has open while this process, as an initiator, waits for the
// peer. Returns true if a unit was moved.
bool RmaTarget::step_crossing(const Peer& peer, CrossingHelp& help) {
    CooperativeCopyBody body;
    if (!help.offer && peer.transfers.answers != nullptr &&
        peer.transfers.answers->read_offer(body) && body.staging_units > 0 &&
        body.number != help.looked_at) {
        help.looked_at = body.number;
        QueuePair* const qp = offered_over(peer, body);
        help.offer = qp == nullptr ? std::nullopt : take_offer(peer, body, *qp);
    }
    if (!help.offer) {
        return false;
    }
    const StagedStep step = help.offer->step();
    if (step == StagedStep::over) {
        count_served(*help.offer);
        help.offer.reset();
    }
    return step == StagedStep::moved;
}

} // namespace adaptib
