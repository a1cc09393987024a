// SPDX-License-Identifier: BSD-3-Clause
// Staged copy: both ends copy long data through staging memory, by their processors
// (protocol/intranode/cooperative_copy.cc says when).
//
// The initiator's loop moves units (protocol/intranode/staged_ends.h) until all are in place. The
// initiator takes back units that the helper does not take within kPatience, waits for the units
// that the helper has taken, and copies the rest alone. If data goes in both directions at once,
// each end is the initiator of one copy and the helper of the other: the loop does the steps of
// both in turns.
//
// The helper's memory is a window's, which is accessed by the rules of its key; or the buffer of a
// message that the helper is still sending; or lent (memory/lent_memory.h). So no system call has
// to check that the memory is mapped.
#include <algorithm>
#include <optional>

#include "base/spin.h"
#include "channel/ring_memory.h"
#include "protocol/intranode/rma_target.h"
#include "protocol/intranode/synchronous_rma.h"
#include "protocol/rendezvous.h"

namespace adaptib {

namespace {

constexpr Bytes kUnit = SharedWork::kUnit;
// Time for the helper to take a unit; each unit takes the helper 0.5 to 4 us. If the helper is not
// in MPI at all, this time is lost.
constexpr Nanoseconds kPatience{5'000};
constexpr std::uint32_t kLooksPerTime = 32;    // looks at the slot per reading of the clock
constexpr std::uint32_t kMostLooks = 1u << 14; // bound on looks, whatever the clock says
// Units that an initiator helps its peer with while the peer does nothing for it.
constexpr std::uint32_t kMostHelped = 64;
constexpr std::uint32_t kMostServed = 1u << 13; // helper: bound on looks for a unit, some 50 us

} // namespace

// -------------------------------------------------------------------------------------------------
// Initiator

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

// -------------------------------------------------------------------------------------------------
// Helper

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
