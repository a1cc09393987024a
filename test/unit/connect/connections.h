// SPDX-License-Identifier: BSD-3-Clause
// Connections of two queue pairs that only record what is done with them, for tests of the classes
// of connect/.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/wire_connect.h"
#include "connect/connect_context.h"
#include "unit/messages.h"
#include "unit/recovery/two_rails.h"

namespace adaptib::test {

class RecordingPair final : public QueuePair {
public:
    explicit RecordingPair(std::uint32_t number) : QueuePair(QpType::rc) { number_ = number; }

    Status answer = kOk; // to each call
    std::vector<QpState> states;
    std::vector<SendWork> posts; // without their gather lists

private:
    Status modify_impl(const QpAttributes& attributes, std::uint32_t) override {
        states.push_back(attributes.state);
        return answer;
    }
    QpAttributes query_impl() const override { return {}; }
    Status post_send_impl(const SendWork& work) override {
        if (answer.ok()) {
            posts.push_back(work);
        }
        return answer;
    }
    Status post_receive_impl(const ReceiveWork&) override { return kOk; }
};

class ConnectEvents final : public ConnectionListener {
public:
    std::vector<std::string> notices;
    std::string log; // of the events handled, by peer and kind
    std::size_t connected = 0;
    std::size_t partitions = 0;
    std::size_t rings_offered = 0;
    std::size_t rings_withdrawn = 0;
    std::vector<std::size_t> lost_paths;
    std::string last_loss;                            // why the last one was lost
    bool without = false;                             // each peer goes without a connection
    bool usable = true;                               // each path ...
    std::size_t except = ~std::size_t{0};             // ... but this one
    std::function<void(Peer&, ConnectEventSet)> then; // goes on with what has waited for them
    ConnectionEvents queue{*this};

    void handle() {
        queue.handle([this](Peer& peer, ConnectEventSet handled) {
            if (then) {
                then(peer, handled);
            }
        });
    }

private:
    void note(const Peer& peer, const char* kind) {
        log += std::to_string(peer.contact.name) + " " + kind + "; ";
    }
    void on_ring_offered(Peer&) override { ++rings_offered; }
    void on_connected(Peer& peer) override {
        ++connected;
        note(peer, "connected");
    }
    void on_unconnected(Peer& peer) override { note(peer, "unconnected"); }
    void on_ring_final(Peer& peer) override { note(peer, "ring final"); }
    void on_ring_withdrawn(Peer&) override { ++rings_withdrawn; }
    bool is_usable(const Peer&, std::size_t path) override { return usable && path != except; }
    bool choose_pairs(Peer&) override { return false; }
    bool take_pairs(Peer&, const ConnectBody&) override { return false; }
    bool goes_without(Peer&, bool) override { return without; }
    void on_path_unconnected(Peer&, std::size_t path, const std::string& why) override {
        lost_paths.push_back(path);
        last_loss = why;
    }
    void on_interrupted(Peer& peer) override { note(peer, "interrupted"); }
    void on_abandoned(Peer& peer) override { note(peer, "abandoned"); }
    void on_fenced(Peer& peer) override { note(peer, "fenced"); }
    void on_partition(Peer& peer, Nanoseconds) override {
        ++partitions;
        note(peer, "partition");
    }
    void on_repaired(Peer& peer, Nanoseconds) override { note(peer, "repaired"); }
    void on_connect_failed(Peer& peer, Status, const std::string& what) override {
        note(peer, ("failed: " + what).c_str());
    }
};

class Connections : public testing::Test {
protected:
    class Handle final : public AddressHandle {
        Status standing_impl(std::string&) const override { return kOk; }
    };

    // Makes a peer whose connection is open over two ports.
    std::unique_ptr<Peer> open_peer(std::uint64_t name) {
        std::unique_ptr<Peer> peer = world_.peer(name);
        peer->contact.datagram.handle = std::make_unique<Handle>();
        peer->lanes.scheduler = make_scheduler({});
        for (std::uint32_t rail = 0; rail < 2; ++rail) {
            Subchannel& subchannel = peer->lanes.subchannels.emplace_back();
            subchannel.local_rail = subchannel.remote_rail = rail;
            subchannel.qp = std::make_unique<RecordingPair>(rail + 1);
        }
        peer->session.state = ConnectState::open;
        return peer;
    }
    static RecordingPair& pair_of(Peer& peer, std::size_t subchannel) {
        return static_cast<RecordingPair&>(*peer.lanes.subchannels[subchannel].qp);
    }
    ConnectContext context(ConnectOptions options) {
        options.clock = &world_.clock;
        options.message = messages_into(events_.notices);
        return {options, world_.rails, {}, world_.counters, events_.queue, events_};
    }

    TwoRails world_;
    ConnectEvents events_;
};

} // namespace adaptib::test
