// SPDX-License-Identifier: BSD-3-Clause
// PutGetBalance: put/get balance. Decides which puts and gets to a peer wait, so that both
// directions of its rails have work.
//
// Purpose: a queue pair processes its requests in order. Behind a long run of writes reads would
// not even be requested, and behind more reads than an adapter can have under way no write leaves:
// one direction after the other. So if a program wants both, each direction has a window of bytes
// under way, and while transfers of both wait the directions take turns. Transfers beyond the
// window are held, first come first served, and continue as stripes complete. The turns matter:
// requests complete in order, too, so a window of reads behind a window of writes would complete
// all at once, and both directions would pause until the next ones are there.
// Invariant: while a transfer is held, stripes are under way whose completions let it continue, or
// other transfers to the peer wait for room (peer/waiting.h), and are posted before it.
// Ownership: the peer's, from the first time that both directions were wanted at once until holding
// has been useless for long (protocol/transfer_engine.cc). The transfers are the protocol's.
// Threads: one at a time.
// Source: Vishnu, 5.3.4, where a library that has collected an epoch's operations issues them in
// turns.
// May touch: base/.
#pragma once

#include <array>
#include <cstdint>

#include "base/stripe.h"
#include "base/units.h"
#include "peer/waiting.h"

namespace adaptib {

struct PutGetBalance {
    std::array<TransferList, 2> queued; // by Direction
    Bytes window = 0;                   // bytes of each direction under way
    Direction turn = Direction::read;   // of the last post
    std::int64_t ahead = 0;   // bytes by which writes are ahead of reads, since both have waited
    std::uint32_t memory = 0; // useless busy periods left before the balance ends
    // Since nothing was last under way:
    bool wanted_both = false; // one direction was wanted while the other was busy
    bool queued_any = false;

    auto& of(Direction direction) { return queued[static_cast<std::size_t>(direction)]; }
    bool has_queued() const { return !queued[0].empty() || !queued[1].empty(); }
    // Bytes of a transfer planned at once, and of a turn.
    Bytes round() const { return window / 4; }
    // Maximum bytes under way. A read also occupies the way to the target.
    Bytes most(Direction direction) const {
        return direction == Direction::read ? window + window / 2 : window;
    }
    // Returns true if the other direction waits, and has had less.
    bool is_over(Direction direction) {
        const std::int64_t mine = direction == Direction::write ? ahead : -ahead;
        return mine >= static_cast<std::int64_t>(round()) && !of(other(direction)).empty();
    }
    void posted(Direction direction, Bytes length) {
        const auto bytes = static_cast<std::int64_t>(length);
        turn = direction;
        ahead = of(other(direction)).empty()
                    ? 0
                    : ahead + (direction == Direction::write ? bytes : -bytes);
    }
};

} // namespace adaptib
