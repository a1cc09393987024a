// SPDX-License-Identifier: BSD-3-Clause
// Core: one object per process (per rank in a simulation), which wires everything together.
//
// Purpose: owns the fabric, the channels, the peers and the protocol, and moves them forward in
// progress(), in one fixed order:
//
//     1. rings that had traffic lately, a few messages each
//     2. one of the rings that had none (so idle peers cost nothing, and none is forgotten)
//     3. the datagram queue
//     4. completions of connected queue pairs
//     5. what found no room before
//     6. now and then: timers, events of the fabric, levels of the counters
//
// Life: create, publish address(), use, drain(), destroy.
// Threads: one at a time; the C interface holds a lock around each call if there are several.
// Time, randomness, addresses and messages to people come from outside (Environment).
// May touch: every folder of the core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bootstrap.h"
#include "base/clock.h"
#include "base/parameters.h"
#include "base/random.h"
#include "connect/connection_manager.h"
#include "fabric/fabric.h"
#include "peer/peer_table.h"
#include "protocol/protocol.h"
#include "recovery/completion_filter.h"

namespace adaptib {

enum class Severity : std::uint8_t { notice, failure };

class Core final : private ConnectionListener, private PathListener, private ProtocolListener {
public:
    struct Environment {
        std::uint64_t self = 0;
        std::string host;
        std::uint16_t wire_version = kWireVersion; // another one only to test the refusal
        Bootstrap* bootstrap = nullptr;
        const Clock* clock = nullptr;
        Random* random = nullptr;
        Counters* counters = nullptr;
        std::function<void(Severity, const std::string&)> message;
        // Whether Protocol::forget_memory() will be called for memory that is unmapped; asked for where
        // registrations would be kept. Empty: no.
        std::function<bool()> watch_memory;
    };

    // Errors: not_supported if no rail of the fabric can carry the core's traffic, or what a rail says;
    // `text` says it to a person.
    static Status create(const Parameters& parameters, const Environment& environment,
                         std::unique_ptr<Fabric> fabric, std::unique_ptr<Core>& out,
                         std::string& text);
    ~Core();

    // What the others look up.
    const std::vector<std::byte>& address() const { return address_; }

    // Null in `out` for ourselves. Errors: unreachable, version, bad_wire; a message was given.
    Status get_peer(std::uint64_t name, Peer*& out);

    // The peer that is this process itself, for one-sided operations; made at the first of them.
    Status get_loopback(Peer*& out);

    Protocol& protocol() { return *protocol_; }
    std::span<const std::unique_ptr<Rail>> rails() const { return fabric_->rails(); }
    std::size_t progress();
    // For who does not call progress() all the time: something is due at deadline() (max: nothing), and
    // run_timers() does it then. progress() looks after it now and then.
    Nanoseconds deadline() const { return datagrams_->deadline(); }
    void run_timers() { datagrams_->run_timers(); }
    // Progress until nothing waits to be sent, for at most `limit`.
    void drain(Nanoseconds limit);
    std::string report() const;

private:
    Core(const Environment& environment, std::unique_ptr<Fabric> fabric);
    Status open(const Parameters& parameters, std::string& text);
    SchedulerOptions scheduler_options(const Parameters& parameters) const;
    Bytes registration_cache_bytes(const Parameters& parameters) const;

    // peers.cc
    enum class Why : std::uint8_t { user, datagram };
    Status make_peer(std::uint64_t name, Why why, Peer*& out);
    Status wake_peer(Peer& peer, Why why, const ProcessAddress& address);
    Status look_up(std::uint64_t name, ProcessAddress& out);
    std::string peer_text(std::uint64_t name, const std::string& host) const;
    void finish_peers();
    bool drained_rings();

    // progress.cc
    std::size_t poll_hot_rings();
    std::size_t poll_cold_ring();
    std::size_t poll_ring(Peer& peer);

    void return_credit(Peer& peer);
    Peer* sender_of(std::uint64_t from, std::uint64_t from_key);
    void on_datagram(std::uint64_t from, std::uint64_t from_key, const MessageHeader& header,
                     const std::byte* body);
    void poll_events();
    void fail_peers_on(std::uint32_t rail);
    void housekeeping();
    void keep_alive();

    // ConnectionListener
    void on_ring_offered(Peer& peer) override;
    void on_connected(Peer& peer) override;
    void on_connect_failed(Peer& peer, Status status, const std::string& what) override;
    void on_ring_withdrawn(Peer& peer) override;
    void on_notice(const std::string& text) override;
    // PathListener
    void on_path_failed(std::uint32_t rail, std::uint32_t qp_number, WorkStatus status) override;
    // ProtocolListener
    void on_failure(const std::string& text) override;
    void on_peer_finished(Peer& peer) override;

    Environment environment_;
    Counters& counters_;
    std::unique_ptr<Fabric> fabric_;
    std::unique_ptr<DatagramChannel> datagrams_;
    std::vector<std::unique_ptr<CompletionQueue>> cqs_; // one a rail
    PeerTable peers_;
    std::unique_ptr<Peer> loopback_;
    std::vector<CompletionFilter> filters_; // one a rail
    std::unique_ptr<ConnectionManager> connections_;
    std::unique_ptr<Protocol> protocol_;
    std::vector<std::byte> address_;
    DatagramChannel::Receiver receiver_;
    // A ring that had traffic lately. What an idle pass looks at is here and in the ring alone.
    struct HotRing {
        explicit HotRing(Peer& of) : peer(&of) {}
        const std::byte* next = nullptr; // where its next message begins; null: look closely
        Peer* peer;
        std::uint32_t idle = 0; // passes without a message
    };
    std::vector<HotRing> hot_;
    std::vector<Peer*> cold_;
    std::size_t next_cold_ = 0;
    std::uint64_t tick_ = 0;
    std::vector<Peer*> finished_; // to be taken down at the end of this progress
};

} // namespace adaptib
