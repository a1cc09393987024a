// SPDX-License-Identifier: BSD-3-Clause
// How much a process keeps of messages that no receive was posted for yet.
//
// Purpose: a sender that does not stop must not take all memory of a receiver that does not
// receive. Where the messages of a peer take more than half of what there may be, or all together
// take more than that, the peer is told to announce longer messages only, or to hold its messages
// back; and when half of that is received, to go on. What is under way by then still comes, and the
// receiver's own messages, answers, credit and one-sided operations pass: they are no messages to
// be matched.
// Nobody is made to hold back what may be waited for. A peer from which a receive is posted (or one
// from anybody), or of which a probe has found nothing, announces: an announcement is all that is
// kept here of a message, whatever its length. And while sends of this process wait themselves
// everybody may send: two that send first and receive then are unsafe by MPI's rules, since they
// rely on such memory, but common; they work as long as there is memory.
// Units: bytes, with the record of each message. Ownership: none; a peer leaves by forget().
// Threads: one at a time.
// May touch: base/, peer/.
#pragma once

#include <algorithm>

#include "base/intrusive_list.h"
#include "base/units.h"
#include "peer/peer.h"

namespace adaptib {

class BackPressureListener {
public:
    virtual void on_allowed(Peer& peer, Allowance allowance) = 0; // it is to be told
    // To a peer of which too much is kept.
    virtual Allowance least_for(const Peer& peer) const = 0;

protected:
    ~BackPressureListener() = default;
};

class BackPressure {
public:
    // `most`: what there may be of all peers.
    BackPressure(Bytes most, BackPressureListener& listener)
        : most_(most), step_(std::clamp<Bytes>(most / 8, 256, 64 * kKiB)), listener_(listener) {}

    void on_kept(Peer& peer, Bytes bytes) {
        bytes_ += bytes;
        peer.unexpected.bytes += bytes;
        if (peer.unexpected.bytes >= peer.unexpected.look_at) [[unlikely]] {
            look(peer);
        }
    }
    void on_received(Peer& peer, Bytes bytes) {
        bytes_ -= bytes;
        peer.unexpected.bytes -= bytes;
        if (!restrained_.empty()) [[unlikely]] {
            ease(peer);
        }
    }
    // Some peer holds messages back, or announces them.
    bool restrains() const { return !restrained_.empty(); }
    // A receive was posted, or a probe has found nothing; null: from anybody.
    void on_wanted(Peer* from);
    // All that it has may come: we are about to leave it.
    void release(Peer& peer);
    void release_all();
    // It has failed, or ends.
    void forget(Peer& peer);

    Bytes bytes() const { return bytes_; } // kept now
    Bytes most() const { return most_; }

private:
    void look(Peer& peer);
    void ease(Peer& peer);
    void tell(Peer& peer, Allowance allowance);
    bool is_over(const Peer& peer) const {
        return peer.unexpected.bytes >= step_ &&
               (bytes_ >= most_ || peer.unexpected.bytes >= most_ / 2);
    }
    bool may_go_on(const Peer& peer) const {
        return peer.unexpected.bytes < step_ / 2 ||
               (bytes_ < most_ / 2 && peer.unexpected.bytes < most_ / 4);
    }

    const Bytes most_;
    // Below so much a peer is left alone; it is looked at again after so much more.
    const Bytes step_;
    BackPressureListener& listener_;
    Bytes bytes_ = 0;
    Bytes eased_at_ = 0; // bytes_ when all were last looked at
    IntrusiveList<Peer, &Peer::restrained_link> restrained_;
};

} // namespace adaptib
