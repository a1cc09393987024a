// SPDX-License-Identifier: BSD-3-Clause
// Connections of two queue pairs that only record what is done with them, for tests of the classes
// of connect/.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "connect/connect_context.h"
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
    std::size_t connected = 0;
    std::size_t partitions = 0;
    std::size_t rings_offered = 0;
    std::size_t rings_withdrawn = 0;
    std::vector<std::size_t> lost_paths;
    std::string last_loss;                // why the last one was lost
    bool usable = true;                   // each path ...
    std::size_t except = ~std::size_t{0}; // ... but this one

private:
    void on_ring_offered(Peer&) override { ++rings_offered; }
    void on_connected(Peer&) override { ++connected; }
    void on_unconnected(Peer&) override {}
    void on_ring_final(Peer&) override {}
    void on_ring_withdrawn(Peer&) override { ++rings_withdrawn; }
    bool is_usable(const Peer&, std::size_t path) override { return usable && path != except; }
    void on_path_unconnected(Peer&, std::size_t path, const std::string& why) override {
        lost_paths.push_back(path);
        last_loss = why;
    }
    void on_interrupted(Peer&) override {}
    void on_abandoned(Peer&) override {}
    void on_fenced(Peer&) override {}
    void on_partition(Peer&, Nanoseconds) override { ++partitions; }
    void on_repaired(Peer&, Nanoseconds) override {}
    void on_notice(const std::string& text) override { notices.push_back(text); }
    void on_connect_failed(Peer&, Status, const std::string&) override {}
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
        return {options, world_.rails, {}, world_.counters, events_};
    }

    TwoRails world_;
    ConnectEvents events_;
};

} // namespace adaptib::test
