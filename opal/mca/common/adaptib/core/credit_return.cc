// SPDX-License-Identifier: BSD-3-Clause
#include "core/credit_return.h"

namespace adaptib {

namespace {

constexpr std::uint64_t kTimedCredits = 16; // of so many one is timed, once a period has samples

// True if the credit word lies in memory that is mapped here, and no credit posted earlier can
// arrive after a store.
bool stores_credit(const Peer& peer) {
    return peer.answers != nullptr && peer.credits_posted == 0 && peer.ring_out != nullptr &&
           peer.ring_out->stores();
}

} // namespace

void CreditReturn::return_credit(Peer& peer) {
    Subchannel& subchannel = peer.subchannels[connections_.chosen_subchannel(peer)];
    if (subchannel.qp == nullptr || peer.lane_migration.paused ||
        peer.state == ConnectState::repairing || peer.state == ConnectState::requested) {
        return; // the credit will use another queue pair; a new ring begins with new counts
    }
    const bool timed = meter_ != nullptr &&
                       (meter_->wants_credits() || counters_.credit_returns % kTimedCredits == 0);
    const Nanoseconds start = timed ? clock_.now() : Nanoseconds{0};
    if (stores_credit(peer)) [[likely]] {
        store_ring_word(RingMemory::credit_before(*peer.answers), peer.ring_in->consumed(),
                        std::memory_order_release);
    } else if (!post_credit(peer, subchannel)) {
        return;
    }
    peer.ring_in->credit_returned();
    ++counters_.credit_returns;
    if (timed) {
        const Nanoseconds end = clock_.now();
        meter_->add_credit(end - start, clock_.now() - end);
    }
}

// Posts unsignaled writes, but for one in kSignalEvery, whose completion frees the others'
// send-queue entries. An adapter that does not send inline reads the count from a copy beside our
// own credit, maybe late: then it sends a later count, which is as true.
bool CreditReturn::post_credit(Peer& peer, Subchannel& subchannel) {
    std::uint64_t consumed = peer.ring_in->consumed();
    Gather gather{&consumed, sizeof consumed, 0};
    SendWork work;
    work.opcode = Opcode::write;
    work.flags = kInline | kPublish;
    if (rails_[subchannel.local_rail]->info().inline_bytes < sizeof consumed) {
        std::byte* kept = peer.ring_layout().told();
        store_ring_word(kept, consumed, std::memory_order_release);
        gather.address = kept;
        gather.local_key = peer.ring_registration.local_key(subchannel.local_rail);
        work.flags = kPublish;
    }
    if (++peer.credits_posted % kSignalEvery == 0) {
        work.flags |= kSignaled;
    }
    work.gather = &gather;
    work.gather_count = 1;
    work.remote_address = peer.credit_address;
    work.remote_key = subchannel.remote_memory_key;
    return subchannel.qp->post_send(work).ok();
}

} // namespace adaptib
