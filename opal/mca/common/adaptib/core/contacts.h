// SPDX-License-Identifier: BSD-3-Clause
// Contacts: peers that cannot be reached, not yet or never, though they have sent to this process.
//
// Purpose: receiving a message needs no path back to its sender: eager messages are matched and
// complete in any case. Answers, and what this process sends on its own, wait in the peer's queue
// of pending messages (a connection request of the peer beside it) while the path is retried at
// growing intervals; other peers are not held up. A path is given up if the operating system denies
// it (permission), or once something has waited for it as long as `partition_timeout`. Then the
// peer fails here, with one message, and its process is told by means that need no path to it
// (Rail::refuse), so that this process fails there, too. RDMA devices may need a while to learn how
// to reach a port, so with them no refusal of a way back is final. A handle that is being made
// (kNotYet) is no failure, so there is neither a notice nor an end to that.
// Threads: one at a time (the core's lock).
// May touch: base/, fabric/, peer/, recovery/, core/datagram_paths.h, core/peer_text.h.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/severity.h"
#include "base/status.h"
#include "base/wire_connect.h"
#include "core/datagram_paths.h"
#include "fabric/rail.h"
#include "peer/peer.h"
#include "protocol/lost_peers.h"
#include "recovery/liveness.h"

namespace adaptib {

class Contacts {
public:
    static constexpr Nanoseconds kFirstPause{1'000'000};
    static constexpr Nanoseconds kMostPause{256'000'000};
    // While a handle is being made.
    static constexpr Nanoseconds kFirstPauseOfHandle{50'000};
    static constexpr Nanoseconds kMostPauseOfHandle{4'000'000};
    static constexpr Nanoseconds kReportAfter{1'000'000'000}; // time that something has waited

    Contacts(RailList rails, DatagramPaths& paths, const Liveness& liveness, const Clock& clock,
             LostPeers& lost, PeerEvents& events, MessageFunction message)
        : rails_(rails), paths_(paths), liveness_(liveness), clock_(clock), lost_(lost),
          events_(events), message_(std::move(message)) {}

    // Adds a peer that could not be reached just now. A process that has ended does not matter as
    // long as nothing that it has sent needs an answer.
    void add(Peer& peer, Status status);
    bool empty() const { return contacts_.empty(); }
    // Retries those that are due. deadline(): when the next one is; max: there is none.
    void retry(Nanoseconds now);
    Nanoseconds deadline() const;
    // REQUIRES: the peer's rails were just tried.
    std::string why_unreached(const Peer& peer, Status status) const;

private:
    struct Contact {
        Peer* peer;
        Nanoseconds since; // something has waited for it
        Nanoseconds next;  // time of the next try
        Nanoseconds pause; // after that try
    };
    bool try_contact(Contact& contact, Nanoseconds now);
    bool put_off(Contact& contact, Status status, Nanoseconds now);
    std::string give_up_text() const;
    void refuse_sender(Peer& peer, Status status, Nanoseconds lasted);

    RailList rails_;
    DatagramPaths& paths_;
    const Liveness& liveness_;
    const Clock& clock_;
    LostPeers& lost_;
    PeerEvents& events_;
    MessageFunction message_;
    std::vector<Contact> contacts_;
    bool reported_ = false; // a notice has said that something waits for such peers
};

} // namespace adaptib
