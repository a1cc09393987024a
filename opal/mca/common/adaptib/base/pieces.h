// SPDX-License-Identifier: BSD-3-Clause
// Values that are stored in pieces and loaded in pieces.
//
// Purpose: a processor hands a recent store on to a load that lies within it; a load that spans several
// recent stores waits until these, and so all that were stored before them, have reached the cache. The
// lines of a ring that another processor has read last make that a long wait. Compilers like to copy
// small structures in larger units than they were filled in: what is filled and copied on the hot path is
// copied with load_piece, member by member.
// May touch: nothing.
#pragma once

#include <type_traits>

namespace adaptib {

// A member, by a load of its own.
template <class T> [[gnu::always_inline]] constexpr T load_piece(const T& from) {
    T value = from;
    if (!std::is_constant_evaluated()) {
        asm("" : "+r"(value));
    }
    return value;
}

} // namespace adaptib
