// SPDX-License-Identifier: BSD-3-Clause
// AttachedFabric: a fabric that a core uses, with the queues and limits of its own.
//
// Ownership: belongs to AttachedFabrics, and does not move once it is open. Threads: one at a time.
// May touch: base/, fabric/, channel/, peer/, schedule/, recovery/.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "base/units.h"
#include "channel/datagram.h"
#include "fabric/fabric.h"
#include "peer/cooperative_copy_choices.h"
#include "recovery/completion_filter.h"
#include "recovery/life_answerer.h"

namespace adaptib {

// Numbers of a rail's queue pairs by which peers send datagrams; 0: none
struct QpNumbers {
    std::uint32_t datagrams;
    std::uint32_t responder;
    bool operator==(const QpNumbers&) const = default;
};

struct AttachedFabric {
    std::unique_ptr<LifeAnswerer> answerer; // null: none; outlives the fabric
    std::unique_ptr<Fabric> fabric;
    const PollHint* poll_hint = nullptr; // the fabric's poll hint
    std::size_t notices_reported = 0;
    bool used = false; // a peer uses it: use()
    // Processes that may send to it at once when it is used, for which there are no receives yet.
    std::uint32_t expected = 0;
    RailRange rails;
    bool device = false; // its rails are those of RDMA devices
    Bytes eager_limit = 0;
    Bytes most_eager = 0; // if above eager_limit: timing copies may raise the limit to this
    Bytes ring_bytes = 0;
    std::uint32_t datagram_buffers = 0; // most receives for datagrams that may be lost
    bool datagrams_gather = false;      // from the users' buffers
    bool target_assisted = false;       // small one-sided ops may be target-assisted
    bool cooperative_copies = false;    // long data may be copied cooperatively
    std::optional<WayChoice::Way>
        only_copies; // of CooperativeCopyChoices: the only way the user allows
    std::unique_ptr<DatagramChannel> datagrams;
    std::vector<CompletionFilter> filters; // one per rail
    DatagramChannel::Receiver receiver;
    std::vector<RailAddress> addresses; // of its rails, as last told to peers
    std::vector<QpNumbers> numbers;     // likewise

    QpNumbers numbers_now(std::uint32_t rail) const {
        return rail < datagrams->ports()
                   ? QpNumbers{datagrams->qp_number(rail), fabric->responder_qp(rail)}
                   : QpNumbers{};
    }
    // Tells the datagrams' port the number of its rail's responder.
    void note_responder(std::uint32_t rail) {
        if (rail < datagrams->ports()) {
            datagrams->set_responder(rail, fabric->responder_qp(rail));
        }
    }
    // Records that a peer uses it.
    void use() {
        if (!used) {
            used = true;
            datagrams->expect(expected);
        }
    }
};

} // namespace adaptib
