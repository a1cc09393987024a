// SPDX-License-Identifier: BSD-3-Clause
// Credit that travels in messages between the two rings of one peer.
//
// Purpose: passes the counts of consumed units between the reader of the incoming ring and the
// writer of the outgoing ring, neither of which knows the other.
// Ownership: none. Threads: one at a time.
// May touch: channel/ring_reader.h, channel/ring_writer.h.
#pragma once

#include "channel/ring_reader.h"
#include "channel/ring_writer.h"

namespace adaptib {

// Exchanges credit between the two rings of one peer: passes to `out` what the messages of `in`
// reported, and to the messages of `out` what they are to report of `in`. Returns true if such a
// message told the writer of `in` something new.
inline bool exchange_credit(RingReader& in, RingWriter& out) {
    out.heard(in.count());
    const bool returned = in.credit_returned(out.carried_credit().carried());
    out.carried_credit().carry(in.credit_soon_due() ? in.consumed() : 0);
    return returned;
}

} // namespace adaptib
