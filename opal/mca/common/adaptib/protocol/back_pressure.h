// SPDX-License-Identifier: BSD-3-Clause
// BackPressure: bounds the memory of unexpected messages, for which no receive is posted yet.
//
// Purpose: a sender that does not stop must not take all memory of a receiver that does not
// receive. A peer whose messages take half of the bound, or any peer while all messages take the
// whole bound, is told to announce its longer messages (RTS only), or to hold its messages back;
// and to go on once half of that has been received. Messages under way by then still arrive.
// Answers, credit, one-sided operations and active messages pass: they are not matched.
// A peer never has to hold back messages that this process may be waiting for. If a receive is
// posted for the peer (or for any source), or a probe has found nothing, the peer may announce: of
// an announced message only the RTS is kept here, whatever its length. And while sends of this
// process wait, every peer may send. Two processes that both send first and then receive rely on
// such memory, which MPI's rules call unsafe; but they are common, and work as long as there is
// memory.
// Units: bytes, including the record of each message.
// Ownership: refers to the flow, which tells the peers; forget() removes a peer.
// Threads: one at a time.
// May touch: base/, peer/, stats/, send_flow.h.
#pragma once

#include <algorithm>

#include "base/intrusive_list.h"
#include "base/units.h"
#include "peer/peer.h"
#include "protocol/send_flow.h"
#include "stats/counters.h"

namespace adaptib {

class BackPressure {
public:
    // `most`: bound on the messages of all peers.
    BackPressure(Bytes most, SendFlow& flow, Counters& counters)
        : most_(most), step_(std::clamp<Bytes>(most / 8, 256, 64 * kKiB)), flow_(flow),
          counters_(counters) {}

    // `least()`: returns the least allowance to give the peer if its messages take too much memory.
    template <typename Least> void on_kept(Peer& peer, Bytes bytes, const Least& least) {
        bytes_ += bytes;
        peer.flow.unexpected.bytes += bytes;
        if (peer.flow.unexpected.bytes >= peer.flow.unexpected.look_at && takes_too_much(peer))
            [[unlikely]] {
            restrain(peer, least());
        }
    }
    void on_received(Peer& peer, Bytes bytes) {
        bytes_ -= bytes;
        peer.flow.unexpected.bytes -= bytes;
        if (!restrained_.empty()) [[unlikely]] {
            ease(peer);
        }
    }
    // Returns true if a peer has to hold back or announce messages.
    bool restrains() const { return !restrained_.empty(); }
    // A receive was posted, or a probe has found nothing. Null: from any source.
    void on_wanted(Peer* from);
    // Allows the peer all messages: this process is about to disconnect from it.
    void release(Peer& peer);
    void release_all();
    // The peer has failed, or its record goes.
    void forget(Peer& peer);

    Bytes bytes() const { return bytes_; } // kept now
    Bytes most() const { return most_; }

private:
    bool takes_too_much(Peer& peer) const;
    void restrain(Peer& peer, Allowance least);
    void ease(Peer& peer);
    void send_allowance(Peer& peer, Allowance allowance);
    bool is_over(const Peer& peer) const {
        return peer.flow.unexpected.bytes >= step_ &&
               (bytes_ >= most_ || peer.flow.unexpected.bytes >= most_ / 2);
    }
    bool may_go_on(const Peer& peer) const {
        return peer.flow.unexpected.bytes < step_ / 2 ||
               (bytes_ < most_ / 2 && peer.flow.unexpected.bytes < most_ / 4);
    }

    const Bytes most_;
    // A peer with fewer bytes is not restrained; it is checked again after that many more.
    const Bytes step_;
    SendFlow& flow_;
    Counters& counters_;
    Bytes bytes_ = 0;
    Bytes eased_at_ = 0; // bytes_ when all peers were last checked
    IntrusiveList<Peer, &Peer::flow, &PeerFlow::restrained_link> restrained_;
};

} // namespace adaptib
