// SPDX-License-Identifier: BSD-3-Clause
// What tests of long data that both ends copy share.
// Threads: as the cores.
#pragma once

#include "peer/peer.h"

namespace adaptib::test {

// From now on the other end is asked first.
inline void ask_first(Peer& peer) {
    for (AskChoice& choice : peer.share_choices->sizes) {
        for (int i = 0; i < 5; ++i) {
            choice.note(AskChoice::Way::direct, Nanoseconds{1'000'000'000});
            choice.note(AskChoice::Way::asked, Nanoseconds{1000});
        }
    }
}

} // namespace adaptib::test
