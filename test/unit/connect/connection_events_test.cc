// SPDX-License-Identifier: BSD-3-Clause
// Events of connections: in which order they are handled, and which ones are not.
#include "connect/connection_events.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "unit/recovery/two_rails.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class Events : public testing::Test, private ConnectionEventHandler {
protected:
    // Returns the events that are handled now, by peer.
    std::string handle() {
        log_.clear();
        handle_all();
        return log_;
    }
    void handle_all() {
        events_.handle([this](Peer& peer, ConnectEventSet handled) {
            EXPECT_FALSE(handled.empty());
            if (handled.has(ConnectEvent::unsent)) {
                log_ += "own; ";
            } else if (end_) {
                end_(peer);
            }
        });
    }

    TwoRails world_;
    std::unique_ptr<Peer> one_ = world_.peer(1);
    std::unique_ptr<Peer> two_ = world_.peer(2);
    ConnectionEvents events_{*this};
    std::function<void(Peer&)> ring_final_; // called when the event is handled
    std::function<void(Peer&)> end_;        // called at the end of a peer's events
    std::string log_;

private:
    void note(const Peer& peer, const std::string& kind) {
        log_ += std::to_string(peer.contact.name) + " " + kind + "; ";
    }
    void on_interrupted(Peer& peer) override { note(peer, "interrupted"); }
    void on_abandoned(Peer& peer) override { note(peer, "abandoned"); }
    void on_ring_final(Peer& peer) override {
        note(peer, "ring final");
        if (ring_final_) {
            ring_final_(peer);
        }
    }
    void on_fenced(Peer& peer) override { note(peer, "fenced"); }
    void on_partition(Peer& peer, Nanoseconds lasted) override {
        note(peer, "partition " + std::to_string(lasted.count()));
    }
    void on_repaired(Peer& peer, Nanoseconds took) override {
        note(peer, "repaired " + std::to_string(took.count()));
    }
    void on_connected(Peer& peer) override { note(peer, "connected"); }
    void on_unconnected(Peer& peer) override { note(peer, "unconnected"); }
    void on_connect_failed(Peer& peer, Status status, const std::string& what) override {
        note(peer, "failed, " + what + ", " + reason_text(status.reason()));
    }
};

TEST_F(Events, ThoseOfAPeerAreHandledInTheirOwnOrder) {
    EXPECT_FALSE(events_.any());
    events_.report(*one_, ConnectEvent::unconnected);
    events_.report(*one_, ConnectEvent::connected);
    events_.report(*one_, ConnectEvent::repaired, 7ns);
    events_.report(*one_, ConnectEvent::fenced);
    events_.report(*one_, ConnectEvent::ring_final);
    events_.report(*one_, ConnectEvent::abandoned);
    events_.report(*one_, ConnectEvent::interrupted);
    EXPECT_TRUE(events_.any());
    EXPECT_TRUE(ConnectionEvents::is_waiting(*one_));
    EXPECT_EQ(handle(), "1 interrupted; 1 abandoned; 1 ring final; 1 fenced; 1 repaired 7; "
                        "1 connected; 1 unconnected; ");
    EXPECT_FALSE(events_.any());
    EXPECT_FALSE(ConnectionEvents::is_waiting(*one_));
    EXPECT_EQ(handle(), "");
}

TEST_F(Events, PeersComeInTheOrderOfTheirFirstEvent) {
    events_.report(*two_, ConnectEvent::partition, 5ns);
    events_.report(*one_, ConnectEvent::interrupted);
    events_.report(*two_, ConnectEvent::fenced);
    EXPECT_EQ(handle(), "2 fenced; 2 partition 5; 1 interrupted; ");
}

TEST_F(Events, FailedPeersComeFirst) {
    events_.report(*one_, ConnectEvent::connected);
    events_.report(*two_, ConnectEvent::kept);
    events_.report(*two_, ConnectEvent::failed, Status::error(Reason::unreachable), "first");
    events_.report(*two_, ConnectEvent::failed, Status::error(Reason::bad_wire), "second");
    EXPECT_EQ(handle(), std::string("2 connected; 2 failed, first, ") +
                            reason_text(Reason::unreachable) + "; 1 connected; ");
}

TEST_F(Events, AnEventMayDropThoseBehindIt) {
    ring_final_ = [this](Peer& peer) { events_.forget(peer); };
    events_.report(*one_, ConnectEvent::ring_final);
    events_.report(*one_, ConnectEvent::fenced);
    EXPECT_EQ(handle(), "1 ring final; ");
}

TEST_F(Events, AnEventMayCauseOthers) {
    ring_final_ = [this](Peer&) {
        events_.report(*two_, ConnectEvent::unconnected);
        events_.report(*one_, ConnectEvent::fenced);
        handle_all(); // the outer call goes on
        EXPECT_EQ(log_, "1 ring final; ");
    };
    events_.report(*one_, ConnectEvent::ring_final);
    EXPECT_EQ(handle(), "1 ring final; 1 fenced; 2 unconnected; ");
    EXPECT_FALSE(events_.any());
}

TEST_F(Events, WorkGoesOnAtTheEndOfAPeersEvents) {
    end_ = [this](Peer& peer) {
        log_ += "end; ";
        end_ = nullptr;
        events_.report(peer, ConnectEvent::unconnected);
    };
    events_.report(*one_, ConnectEvent::ring_final);
    events_.report(*one_, ConnectEvent::fenced);
    events_.report(*two_, ConnectEvent::connected);
    EXPECT_EQ(handle(), "1 ring final; 1 fenced; end; 2 connected; 1 unconnected; ");
}

TEST_F(Events, ThoseOfConnectAloneComeFirstAndAreNotForTheCore) {
    events_.report(*one_, ConnectEvent::connected);
    events_.report(*one_, ConnectEvent::unsent, Status::error(Reason::peer_gone), "it");
    EXPECT_TRUE(ConnectionEvents::is_unsent(*one_));
    EXPECT_EQ(handle(), "own; 1 connected; ");
    EXPECT_FALSE(ConnectionEvents::is_unsent(*one_));
}

TEST_F(Events, APeerWithoutEventsLeavesTheList) {
    events_.report(*one_, ConnectEvent::failed, Status::error(Reason::unreachable), "it");
    events_.forget(*one_);
    EXPECT_FALSE(events_.any());
    one_.reset();
    EXPECT_EQ(handle(), "");
}

} // namespace
} // namespace adaptib::test
