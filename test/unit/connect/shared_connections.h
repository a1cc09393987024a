// SPDX-License-Identifier: BSD-3-Clause
// A manager of connections that may be over shared queue pairs, of which each rail has two; for
// tests of what is chosen among these and queue pairs of a peer's own.
// May touch: base/, channel/, connect/, peer/, recovery/liveness.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "channel/shared_queue_pairs.h"
#include "connect/connection_manager.h"
#include "unit/connect/recorded_rails.h"

namespace adaptib::test {

class SharedConnections : public RecordedConnections {
protected:
    // `most`: connections over queue pairs of a peer's own; 0: no limit.
    explicit SharedConnections(Sharing sharing, std::uint64_t most = 0)
        : connections_(options(sharing, most), rails_, queues_, world_.counters, events_) {
        EXPECT_TRUE(pool_.open(0).ok() && pool_.open(1).ok());
    }

    // Makes a peer whose rails take connections over shared queue pairs.
    std::unique_ptr<Peer> sharing_peer(std::uint64_t name) {
        std::unique_ptr<Peer> peer = idle_peer(name);
        for (AddressRail& rail : peer->contact.address.rails) {
            rail.flags |= kRailShares;
        }
        return peer;
    }

private:
    static constexpr std::uint64_t kSelf = 9;

    ConnectOptions options(Sharing sharing, std::uint64_t most) {
        ConnectOptions options;
        options.self = kSelf;
        options.connect_max = most;
        options.clock = &world_.clock;
        options.attended = &attended_;
        options.random = &random_;
        options.liveness = &liveness_;
        options.sharing = sharing;
        options.shared = &pool_;
        return options;
    }

    AttendedClock attended_{world_.clock};
    Random random_{1};
    Liveness liveness_{std::chrono::seconds{10}};
    SharedQueuePairs pool_{{.initiators = 2, .self = kSelf, .access_key = 3}, rails_, queues_};

protected:
    ConnectionManager connections_;
};

} // namespace adaptib::test
