// SPDX-License-Identifier: BSD-3-Clause
// PathReactions: the effects of failed and restored paths, and of peers that cannot be reached, on
// the other parts of a core.
//
// Purpose: a failed queue pair leads to the repair of its peer's connection, or to the end of the
// peer; a path that is up again is taken into the connection; a lost peer's operations fail.
// Threads: one at a time (the core's lock).
// May touch: every folder of the core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/severity.h"
#include "channel/shared_queue_pairs.h"
#include "connect/connection_manager.h"
#include "core/datagram_paths.h"
#include "core/departures.h"
#include "core/peer_directory.h"
#include "protocol/protocol.h"
#include "recovery/apm/migration_agent.h"
#include "recovery/completion_filter.h"
#include "recovery/path_repository.h"
#include "stats/counters.h"
#include "stats/run_history.h"
#include "stats/trace.h"

namespace adaptib {

class PathReactions final : public PathListener, public PathObserver, public DatagramPathsListener {
public:
    // The parts of the core that paths concern. They are made after this object.
    struct Parts {
        RailList rails;
        SharedQueuePairs* shared; // null: none
        PathRepository& paths;
        MigrationAgent* migration; // null: none
        DatagramPaths& datagram_paths;
        PeerDirectory& peers;
        ConnectionManager& connections;
        Protocol& protocol;
        Departures& departures;
        const Counters& counters;
    };
    explicit PathReactions(MessageFunction message) : message_(std::move(message)) {}

    // REQUIRES: before the first event, but for notices and lines.
    void begin(const Parts& parts) { parts_.emplace(parts); }

    // PathListener
    void on_path_failed(std::uint32_t rail, std::uint32_t qp_number, WorkStatus status,
                        std::uint64_t wr_id) override;
    // PathObserver
    void on_path_changed(Peer& peer, std::size_t pair, PathState was, PathState now,
                         const std::string& why) override;
    void on_path_line(const std::string& line) override;
    // DatagramPathsListener
    void on_address_moved(Peer& peer, std::uint32_t remote_rail) override;

private:
    bool rides_out(const Peer& peer, std::size_t index, std::uint32_t rail) const {
        return parts_->migration != nullptr && parts_->migration->rides_out(peer, index, rail);
    }

    MessageFunction message_;
    std::optional<Parts> parts_;
};

} // namespace adaptib
