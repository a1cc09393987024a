// SPDX-License-Identifier: BSD-3-Clause
// MessageSources: records arrived messages by source and time (select/source_map.h).
//
// Threads: one at a time (the core's lock).
// May touch: base/, peer/, select/.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "peer/peer_table.h"
#include "select/source_map.h"

namespace adaptib {

class MessageSources {
public:
    MessageSources(const PeerTable& peers, Nanoseconds now) : peers_(peers), map_(now) {}

    Nanoseconds due() const { return map_.due(); }
    // Adds all messages that have come since the last call, also of peers that are gone: their
    // records stay.
    void note(Nanoseconds now);
    // `self`: name of this process.
    std::string text(std::uint64_t self) const { return map_.text(self); }

private:
    const PeerTable& peers_;
    SourceMap map_;
};

} // namespace adaptib
