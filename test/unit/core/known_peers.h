// SPDX-License-Identifier: BSD-3-Clause
// A directory of peers whose addresses the test publishes, and the classes of a core that end them,
// over the parts of core_parts.h and a fabric that reports what the test says.
// Threads: one.
// May touch: what the core may.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/wire_connect.h"
#include "core/contacts.h"
#include "core/departures.h"
#include "core/peer_directory.h"
#include "core/ring_poller.h"
#include "recovery/ended_processes.h"
#include "unit/core/address_table.h"
#include "unit/core/core_parts.h"
#include "unit/messages.h"

namespace adaptib::test {

class ReportingFabric final : public Fabric {
public:
    ReportingFabric() { rails_.push_back(std::make_unique<NamedRail>("m0:1")); }

    std::deque<Event> events;
    void note(const std::string& text) { notices_.push_back(text); }

private:
    bool poll_event_impl(Event& out) override {
        if (events.empty()) {
            return false;
        }
        out = events.front();
        events.pop_front();
        return true;
    }
};

class KnownPeers : public CoreParts {
protected:
    static constexpr std::uint64_t kSelf = 1;
    static constexpr std::uint64_t kKey = 99; // of all peers

    explicit KnownPeers(const PartsOptions& options = {})
        : CoreParts(options), fabrics_(ranges_.size()) {
        for (std::size_t i = 0; i < fabrics_.size(); ++i) {
            fabrics_[i].rails = ranges_[i];
            fabrics_[i].fabric = std::make_unique<ReportingFabric>();
            fabrics_[i].addresses.resize(ranges_[i].count);
            EXPECT_TRUE(DatagramChannel::create(rails().subspan(ranges_[i].first, ranges_[i].count),
                                                ranges_[i].first, {1, 2}, clock(), counters(),
                                                fabrics_[i].datagrams)
                            .ok());
        }
        world_.first.reachable = world_.second.reachable = true;
        publish(kSelf);
    }
    ~KnownPeers() override {
        directory_.for_each([this](Peer& peer) {
            paths_.remove(peer);
            if (peer.session.state != ConnectState::failed) {
                connections_.close(peer, ConnectState::idle);
            }
        });
        directory_.clear();
    }

    ProcessAddress address_of(std::uint64_t name) {
        ProcessAddress address = world_.peer->contact.address;
        address.name = name;
        address.key = kKey;
        return address;
    }
    void publish(std::uint64_t name) { table_.blobs[name] = encode(address_of(name)); }
    // Makes contact with the peer.
    Peer& meet(std::uint64_t name) {
        publish(name);
        Peer* peer = nullptr;
        EXPECT_TRUE(directory_.get(name, peer).ok());
        peer->contact.datagram.handle = std::make_unique<StandingHandle>();
        return *peer;
    }
    ReportingFabric& fabric() { return static_cast<ReportingFabric&>(*fabrics_[0].fabric); }

    PeerDirectory::Options directory_options() {
        PeerDirectory::Options options;
        options.self = kSelf;
        options.host = "here";
        options.bootstrap = &table_;
        options.address = &table_.blobs[kSelf];
        options.message = message_;
        return options;
    }

    // Messages of the classes under test.
    std::vector<std::pair<Severity, std::string>> messages_;
    MessageFunction message_ = [this](Severity severity, const std::string& text) {
        messages_.emplace_back(severity, text);
    };
    AddressTable table_;
    std::vector<AttachedFabric> fabrics_;
    Routes routes_{
        {.self = kSelf, .host = "here", .left_out = "", .paths_per_port = 0}, rails(), ranges_};
    EndedProcesses ended_;
    Contacts contacts_{rails(), datagram_paths_,        liveness_, clock(), lost_,
                       events_, messages_into(notices_)};
    PeerDirectory directory_{directory_options(),
                             {fabrics_, routes_, paths_, datagram_paths_, contacts_, ended_,
                              connections_, protocol_, counters()}};
    Delivery delivery_{protocol_, clock()};
    CreditReturn credit_{connections_, rails(), nullptr, clock(), counters()};
    RingPoller rings_{{}, protocol_, delivery_, credit_, counters()};
    Departures departures_{fabrics_, directory_, paths_, connections_, protocol_, rings_};
};

} // namespace adaptib::test
