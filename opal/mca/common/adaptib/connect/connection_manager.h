// SPDX-License-Identifier: BSD-3-Clause
// Connection management: how a peer's subchannels and rings come up.
//
// Purpose: the three-way handshake request, reply, confirm over the datagram channel. Both sides make
// one queue pair per common rail and offer the other a ring to write into; all of it comes up with one
// handshake. Handshake messages have no sequence number of the peer's; attempts are numbered, so that
// doubled ones are recognised and answered again.
//
//     idle --request()--> requested --reply--> open
//     idle --request arrives--> answered --confirm--> open
//     requested --request arrives, peer's name is higher--> answered
//     requested --request arrives, peer's name is lower--> requested (ours will be answered)
//     any --resources or a queue pair fail--> failed
//
// Which side may write: the asker from the reply on, the asked one from the confirmation on. A ring is
// polled from the moment that it is offered.
// Threads: one at a time.
// Source: Yu, Gao, Panda, section 4.1.
// May touch: base/, fabric/, memory/, channel/, schedule/, peer/, observe/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/intrusive_list.h"
#include "base/parameters.h"
#include "base/status.h"
#include "channel/datagram.h"
#include "fabric/fabric.h"
#include "observe/counters.h"
#include "peer/peer.h"

namespace adaptib {

class ConnectionListener {
public:
    virtual void on_ring_offered(Peer& peer) = 0; // poll peer.ring_in from now on
    virtual void on_connected(Peer& peer) = 0;
    virtual void on_ring_withdrawn(Peer& peer) = 0; // before it is freed
    virtual void on_notice(const std::string& text) = 0;
    // The peer is lost.
    virtual void on_connect_failed(Peer& peer, Status status, const std::string& what) = 0;

protected:
    ~ConnectionListener() = default;
};

class ConnectionManager {
public:
    struct Options {
        std::uint64_t self = 0;
        std::size_t ring_bytes = 0;
        std::uint64_t ring_max = 0;
        SchedulerOptions scheduler; // policies that exist
    };

    // `cqs`: the completion queue of each rail's queue pairs.
    ConnectionManager(const Options& options, RailList rails,
                      std::span<const std::unique_ptr<CompletionQueue>> cqs, Counters& counters,
                      ConnectionListener& listener)
        : options_(options), rails_(rails), cqs_(cqs), counters_(counters), listener_(listener) {}

    // Starts connecting if the peer is idle.
    void request(Peer& peer);
    // A handshake message arrived; it has passed check_message.
    void on_handshake(Peer& peer, MessageType type, const ConnectBody& body);
    // Connects the peer that is this process itself: each queue pair with itself, without rings.
    Status open_loopback(Peer& self);
    // Takes the peer's queue pairs and rings down; its state becomes `state`.
    void close(Peer& peer, ConnectState state);
    // The path is broken: queue pairs go to the error state, so that what is outstanding comes back
    // flushed; the rings are not used any more. The peer's state becomes failed.
    void break_off(Peer& peer);
    // Sends handshake messages that found no room before.
    void retry();
    // Index of the subchannel that carries the peer's ring and credit.
    std::size_t chosen_subchannel(const Peer& peer) const {
        return options_.scheduler.position % peer.subchannels.size();
    }
    bool retry_due() const { return !owing_.empty(); }

private:
    void on_request(Peer& peer, const ConnectBody& body);
    void keep_for_later(Peer& peer, const ConnectBody& request);
    void on_reply(Peer& peer, const ConnectBody& body);
    void on_confirm(Peer& peer, const ConnectBody& body);
    Status prepare(Peer& peer);
    Status make_queue_pairs(Peer& peer);
    Status offer_ring(Peer& peer);
    void withdraw_ring(Peer& peer);
    Status connect_subchannels(Peer& peer, const ConnectBody& body);
    Status connect_one(Peer& peer, Subchannel& subchannel, const ConnectSubchannel& remote);
    void use_remote_ring(Peer& peer, const ConnectBody& body);
    void open(Peer& peer);
    void fail(Peer& peer, Status status, const std::string& what);
    void leave(Peer& peer, ConnectState state);
    void send(Peer& peer, MessageType type);
    ConnectBody describe(const Peer& peer) const;
    std::uint32_t common_rails(const Peer& peer) const;
    Bytes inline_bytes(std::uint32_t rail) const {
        return std::min(kRingInline, rails_[rail]->info().inline_bytes);
    }

    Options options_;
    RailList rails_;
    std::span<const std::unique_ptr<CompletionQueue>> cqs_;
    Counters& counters_;
    ConnectionListener& listener_;
    IntrusiveList<Peer, &Peer::waiting_link> owing_;
    bool told_no_room_ = false;
};

} // namespace adaptib
