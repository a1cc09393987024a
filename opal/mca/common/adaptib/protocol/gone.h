// SPDX-License-Identifier: BSD-3-Clause
// how_gone(): whether nothing will come from a peer any more, as far as is known without asking it.
//
// May touch: fabric/, peer/.
#pragma once

#include <string>

#include "peer/peer.h"

namespace adaptib {

struct Gone {
    const char* why = nullptr; // null: the peer lives
    bool ended = false; // its process has ended, and has not closed its fabric as far as known
};

// Some runtimes report the end of processes that have finalized MPI, too (of spawned ones, with
// Open MPI 6).
inline Gone how_gone(const Peer& peer) {
    std::string text;
    const AddressHandle* const handle = peer.contact.datagram.handle.get();
    const Reason reason = handle != nullptr ? handle->standing(text).reason() : Reason::none;
    if (reason == Reason::no_device || peer.health.life.left) {
        return {"its process has finalized MPI", false};
    }
    if (peer.health.life.ended) {
        return {"its process has ended, says the runtime", true};
    }
    if (reason == Reason::peer_gone) {
        return {"its process has ended", true};
    }
    return {};
}

} // namespace adaptib
