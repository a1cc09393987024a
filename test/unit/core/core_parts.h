// SPDX-License-Identifier: BSD-3-Clause
// The parts that the small classes of a core work with, without the core: connections, a protocol
// and paths over two rails that carry nothing, and peers that are there as the test makes them.
// Threads: one.
// May touch: what the core may.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "connect/connection_manager.h"
#include "core/datagram_paths.h"
#include "protocol/protocol.h"
#include "recovery/liveness.h"
#include "recovery/path_repository.h"
#include "unit/channel/ring_pair.h"
#include "unit/connect/connections.h"
#include "unit/core/reachable_rail.h"
#include "unit/protocol/open_peer.h"

namespace adaptib::test {

// The process behind it is as the test says.
class StandingHandle final : public AddressHandle {
public:
    // `token`: shared until the handle ends.
    explicit StandingHandle(Status says = kOk, std::shared_ptr<int> token = {})
        : says_(says), token_(std::move(token)) {}
    void says(Status status) { says_ = status; }

private:
    Status standing_impl(std::string& text) const override {
        text = says_.ok() ? "" : "the test";
        return says_;
    }

    Status says_;
    std::shared_ptr<int> token_;
};

struct PartsOptions {
    bool fault_tolerance = true;
    LinkLayer link = LinkLayer::infiniband;
    std::vector<RailRange> fabrics{{0, 2}}; // the rails of each
};

class CoreParts : public testing::Test, public PathObserver, public DatagramPathsListener {
protected:
    struct Arrived {
        Peer* peer;
        std::uint8_t tag;
        bool operator==(const Arrived&) const = default;
    };

    explicit CoreParts(const PartsOptions& options = {})
        : world_(options.link), ranges_(options.fabrics),
          paths_(PathRepository::Options{options.fault_tolerance, "here", &clock()}, rails(),
                 counters(), *this) {
        protocol_.active().listen(
            [](void* self, Peer& peer, std::uint8_t tag, const std::byte*, Bytes) {
                static_cast<CoreParts*>(self)->on_active(peer, tag);
            },
            this);
    }

    ManualClock& clock() { return world_.clock; }
    Counters& counters() { return world_.counters; }
    RailList rails() { return world_.rails; }

    // A peer that is known, and not connected. Its messages and path are those of rail 0.
    std::unique_ptr<Peer> peer(std::uint64_t name) {
        ProcessAddress address = world_.peer->contact.address;
        address.name = name;
        auto made = std::make_unique<Peer>(address, world_.peer->contact.route, channel_,
                                           Bytes{4096}, counters());
        made->contact.datagram.handle = std::make_unique<StandingHandle>();
        return made;
    }
    static StandingHandle& handle_of(Peer& peer) {
        return static_cast<StandingHandle&>(*peer.contact.datagram.handle);
    }
    // Connects the peer over both rails, with queue pairs that keep what is posted to them.
    static void connect(Peer& peer) {
        peer.lanes.scheduler = make_scheduler({});
        for (std::uint32_t rail = 0; rail < 2; ++rail) {
            Subchannel& subchannel = peer.lanes.subchannels.emplace_back();
            subchannel.local_rail = subchannel.remote_rail = rail;
            subchannel.qp = std::make_unique<KeepingQp>(rail + 1);
        }
        peer.session.state = ConnectState::open;
    }
    static KeepingQp& qp_of(Peer& peer, std::size_t subchannel = 0) {
        return static_cast<KeepingQp&>(*peer.lanes.subchannels[subchannel].qp);
    }

    // An active message of a peer has arrived.
    virtual void on_active(Peer& peer, std::uint8_t tag) { arrived_.push_back({&peer, tag}); }

    // Returns the names of lost peers that the user of the core has been told of since the last
    // call.
    std::vector<std::uint64_t> told() {
        std::vector<std::uint64_t> names;
        lost_.tell_user([&](std::uint64_t name) -> Peer* {
            names.push_back(name);
            return nullptr;
        });
        return names;
    }
    // The loss of a peer has been reported.
    virtual void on_lost(const std::string& text) { failures_.push_back(text); }

    // PathObserver
    void on_path_changed(Peer&, std::size_t, PathState, PathState, const std::string&) override {}
    void on_path_line(const std::string&) override {}
    // DatagramPathsListener
    void on_address_moved(Peer&, std::uint32_t) override { ADD_FAILURE(); }

    std::vector<std::unique_ptr<CompletionQueue>> completion_queues() {
        std::vector<std::unique_ptr<CompletionQueue>> queues(rails().size());
        for (std::size_t rail = 0; rail < queues.size(); ++rail) {
            EXPECT_TRUE(rails()[rail]->create_cq(1, queues[rail]).ok());
        }
        return queues;
    }
    // There is room for one connection.
    ConnectOptions connect_options() {
        ConnectOptions options;
        options.self = 1;
        options.clock = &clock();
        options.attended = &attended_;
        options.random = &random_;
        options.liveness = &liveness_;
        options.connect_max = 1;
        options.fault_tolerance = true;
        return options;
    }
    Protocol::Options protocol_options() {
        Protocol::Options options;
        options.self = 1;
        options.eager_limit = 4096;
        options.active_max = 4096;
        options.clock = &clock();
        options.block_bytes = 4096;
        options.block_depth = 1;
        options.message = [this](Severity severity, const std::string& text) {
            (severity == Severity::notice ? notices_ : failures_).push_back(text);
        };
        return options;
    }

    ReachablePeer world_;
    DatagramChannel& channel_ = *world_.channel;
    AttendedClock attended_{world_.clock};
    Random random_{1};
    Liveness liveness_{std::chrono::seconds{10}};
    ConnectEvents connect_events_;
    std::vector<RailRange> ranges_; // of the fabrics
    std::vector<std::unique_ptr<CompletionQueue>> cqs_ = completion_queues();
    ConnectionManager connections_{connect_options(), rails(), cqs_, counters(), connect_events_};
    PeerEvents events_;
    LostPeers lost_{
        events_, counters(), [this](Severity, const std::string& text) { on_lost(text); }, {}};
    Protocol protocol_{protocol_options(), rails(), ranges_, connections_, lost_, events_,
                       counters()};
    PathRepository paths_;
    DatagramPaths datagram_paths_{rails(), paths_, liveness_, lost_, *this};

    std::vector<Arrived> arrived_;
    std::vector<std::string> notices_;
    std::vector<std::string> failures_;
};

// The ring through which a peer sends, and its end of it.
struct PeerRing {
    // `stores`: the peer stores its messages; otherwise it posts them.
    explicit PeerRing(Peer& reader, std::uint64_t units = 256, bool stores = true)
        : peer(reader), ring(units, stores) {
        peer.in.ring.emplace(static_cast<std::byte*>(ring.memory.address()), units);
        peer.in.ring_memory = std::make_unique<PlainRegion>(RingMemory::bytes({}));
        peer.in.credit_address = reinterpret_cast<std::uintptr_t>(&ring.credit);
        ring.type = MessageType::active;
        ring.fast_path = true;
    }
    // The message's tag is its length.
    bool send(std::size_t length) { return ring.send(std::vector<std::byte>(length)); }

    Peer& peer;
    Ring ring;
};

} // namespace adaptib::test
