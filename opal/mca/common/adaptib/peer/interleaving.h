// SPDX-License-Identifier: BSD-3-Clause
// Interleaving: which puts and gets to a peer wait so that both directions of its rails have work.
//
// Purpose: a queue pair works its requests off in order. Behind a long run of writes reads would not even be
// asked for, and behind more reads than an adapter has under way at a time no write leaves: one direction
// after the other. So of a peer that wants both, each direction has a window of bytes under way, and where
// both wait they take turns; moves beyond that are held, first come first served, and go on as stripes are done.
// The turns matter: requests complete in order, too, so a window of reads behind a window of writes would
// come back all at once, and both directions would pause until the next ones are there.
// Invariant: while a move is held, stripes are under way whose completions let it go on, or others
// of the peer's
//   wait for room (peer/waiting.h), and are posted before it.
// Ownership: the peer's, from the first time that both directions were wanted at a time until long waits were
//   for nothing (protocol/interleaved.cc). The moves are the protocol's.
// Threads: one at a time.
// Source: Vishnu, 5.3.4, where a library that has collected an epoch's operations issues them in turns.
// May touch: base/.
#pragma once

#include <array>
#include <cstdint>

#include "base/stripe.h"
#include "base/units.h"
#include "peer/waiting.h"

namespace adaptib {

struct Interleaving {
    std::array<TransferList, 2> held; // by Direction
    Bytes window = 0;                 // bytes of each direction under way
    Direction turn = Direction::read; // of what was posted last
    std::int64_t ahead = 0;   // bytes by which writes are ahead of reads, since both have waited
    std::uint32_t memory = 0; // so many busy times with moves held for nothing end it
    // Since nothing was under way the last time:
    bool wanted_both = false; // one direction was wanted while the other was busy
    bool held_any = false;

    auto& of(Direction direction) { return held[static_cast<std::size_t>(direction)]; }
    bool holds() const { return !held[0].empty() || !held[1].empty(); }
    // What is planned of a move at once, and a turn.
    Bytes round() const { return window / 4; }
    // Bytes under way. A read takes the way there, too.
    Bytes most(Direction direction) const {
        return direction == Direction::read ? window + window / 2 : window;
    }
    // The other direction waits, and has had less.
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
