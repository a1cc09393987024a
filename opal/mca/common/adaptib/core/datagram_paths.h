// SPDX-License-Identifier: BSD-3-Clause
// DatagramPaths: the choice of the path for a peer's datagrams (channel/datagram.h,
// recovery/path_repository.h), and messages that go beside them, over a path of their own.
//
// Purpose: datagrams begin on the first path that is up. They move when it fails, or when no answer
// comes over it, to the first of these that exists: a path that is up and over which the peer was
// heard last, the next path that is up, a suspect path, a failed path whose local rail is up. They
// return once an earlier path is up again, since the first paths join rails that belong together.
// Threads: one at a time (the core's lock).
// May touch: base/, fabric/, channel/, peer/, recovery/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "base/wire.h"
#include "channel/datagram.h"
#include "fabric/rail.h"
#include "peer/peer.h"
#include "protocol/lost_peers.h"
#include "recovery/liveness.h"
#include "recovery/path_probes.h"
#include "recovery/path_repository.h"

namespace adaptib {

class DatagramPathsListener {
public:
    // A rail of the peer has another address than its queue pairs here are connected to.
    virtual void on_address_moved(Peer& peer, std::uint32_t remote_rail) = 0;

protected:
    ~DatagramPathsListener() = default;
};

class DatagramPaths final : public ProbeSender {
public:
    DatagramPaths(RailList rails, PathRepository& paths, const Liveness& liveness, LostPeers& lost,
                  DatagramPathsListener& listener)
        : rails_(rails), paths_(paths), liveness_(liveness), lost_(lost), listener_(listener) {}

    // ---- Asking

    // How long to wait for a peer that nothing is heard of.
    Nanoseconds patience() const { return liveness_.patience(); }

    // False within a host: there a process fails, not a path.
    bool reports_paths(const Peer& peer) const {
        return rails_[peer.contact.route.local.first]->info().link_layer != LinkLayer::memory;
    }
    static bool has_datagrams(const Peer& peer, std::size_t pair);
    // True if the peer's datagrams move when their path fails.
    bool moves(const Peer& peer) const { return paths_.on() && peer.contact.datagram.numbered; }
    // True if the last datagram came over this pair.
    static bool heard_over(const Peer& peer, std::size_t pair);
    // Reachability over the path of the peer's datagrams.
    Reach reach_of(const Peer& peer) const;
    // Reachability over any path, without a question.
    Reach reach(const Peer& peer, std::size_t pair) override;

    // ---- Changes

    // Prepares sending datagrams to the peer, over the first pair of rails that works; pairs that
    // are known to have failed are tried last. Errors: of `pair`, one that may pass if there is
    // any; kNotYet: the handle is being made.
    Status open(Peer& peer, std::size_t& pair);
    void on_path_changed(Peer& peer, std::size_t pair, PathState now);
    // Called when the peer's datagrams are not answered, or acknowledgements do not reach it: their
    // path may lead to another port by now, such as a gateway's that has taken over.
    void renew_handle(Peer& peer);
    // Called when the path that the peer's datagrams take does not work. REQUIRES: the peer has not
    // failed.
    void on_failure(Peer& peer, DatagramChannel::PathFailure failure, WorkStatus status);
    void on_address_moved(Peer& peer, std::size_t pair) override;
    void on_partition(Peer& peer, Nanoseconds lasted) override;

    // ---- Messages without a number

    // Sends one to a datagram queue pair of the peer's rail. Returns false if that is impossible
    // now.
    bool send_aside(Peer& peer, std::size_t pair, std::uint32_t qp, const MessageHeader& header,
                    const void* body);
    bool can_ask(const Peer& peer, std::size_t pair) const override;
    bool send_probe(Peer& peer, std::size_t pair, MessageType type, const ProbeBody& body) override;

private:
    std::size_t next_pair(const Peer& peer) const;
    Status handle_for(const Peer& peer, std::size_t pair, std::unique_ptr<AddressHandle>& out);
    Status move(Peer& peer, std::size_t pair);
    void fit_to_paths(Peer& peer) const;
    void leave(Peer& peer);
    std::string silence_text(const Peer& peer, Nanoseconds lasted) const;

    RailList rails_;
    PathRepository& paths_;
    const Liveness& liveness_;
    LostPeers& lost_;
    DatagramPathsListener& listener_;
};

} // namespace adaptib
