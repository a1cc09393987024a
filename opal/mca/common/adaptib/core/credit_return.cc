// SPDX-License-Identifier: BSD-3-Clause
#include "core/credit_return.h"

#include <string>

namespace adaptib {

namespace {

constexpr std::uint64_t kTimedCredits = 16; // of so many one is timed, once a period has samples

// True if the credit word lies in memory that is mapped here, and no credit posted earlier can
// arrive after a store.
bool stores_credit(const Peer& peer) {
    return peer.transfers.answers != nullptr && !peer.in.credit_work.any() &&
           peer.out.ring != nullptr && peer.out.ring->stores();
}

} // namespace

void CreditReturn::return_credit(Peer& peer) {
    Subchannel& subchannel = peer.lanes.subchannels[connections_.chosen_subchannel(peer)];
    if (subchannel.qp == nullptr || peer.control.migration.paused ||
        (peer.session.connecting() && !peer.session.is_answered())) {
        return; // the credit will use another queue pair; a new ring begins with new counts
    }
    const bool beside = peer.in.credit_work.under_way();
    if (beside) {
        waits_ = true; // for the completion, to write the count alone
        if (!peer.in.ring->credit_due_since(peer.in.credit_work.count())) {
            return;
        }
    }
    const bool timed = meter_ != nullptr &&
                       (meter_->wants_credits() || counters_.credit_returns % kTimedCredits == 0);
    const Nanoseconds start = timed ? clock_.now() : Nanoseconds{0};
    if (stores_credit(peer)) [[likely]] {
        store_ring_word(RingMemory::credit_before(*peer.transfers.answers),
                        peer.in.ring->consumed(), std::memory_order_release);
    } else if (!post_credit(peer, subchannel)) {
        return;
    }
    if (!beside) {
        peer.in.ring->credit_returned();
    }
    ++counters_.credit_returns;
    if (timed) {
        const Nanoseconds end = clock_.now();
        meter_->add_credit(end - start, clock_.now() - end);
    }
}

// A device that refuses the count inline gets it from memory. If it takes neither, the connection
// breaks: without credit the peer would wait for ever.
bool CreditReturn::post_credit(Peer& peer, Subchannel& subchannel) {
    const bool inlined =
        rails_[subchannel.local_rail]->info().inline_bytes >= sizeof(std::uint64_t);
    Status status = post_count(peer, subchannel, inlined);
    if (status.is_error() && status.reason() != Reason::bad_state && inlined) {
        status = post_count(peer, subchannel, false);
    }
    if (status.is_error()) {
        connections_.on_bad_state(peer, std::string("credit could not be returned: ") +
                                            reason_text(status.reason()));
    }
    return status.ok();
}

// An adapter that does not send inline reads the count from a copy beside our own credit, maybe
// late: then it sends a later count, which is as true.
Status CreditReturn::post_count(Peer& peer, Subchannel& subchannel, bool inlined) {
    std::uint64_t consumed = peer.in.ring->consumed();
    Gather gather{&consumed, sizeof consumed, 0};
    SendWork work;
    work.wr_id = peer.in.credit_work.next_id();
    work.opcode = Opcode::write;
    work.flags = kPublish | kSignaled | (inlined ? +kInline : 0u);
    if (!inlined) {
        std::byte* kept = peer.in.ring_layout().told();
        store_ring_word(kept, consumed, std::memory_order_release);
        gather.address = kept;
        gather.local_key = peer.in.ring_registration.local_key(subchannel.local_rail);
    }
    work.gather = &gather;
    work.gather_count = 1;
    work.remote_address = peer.in.credit_address;
    work.remote_key = subchannel.remote_memory_key;
    const Status status = subchannel.qp->post_send(work);
    if (status.ok()) {
        peer.in.credit_work.on_posted(consumed);
    }
    return status;
}

} // namespace adaptib
