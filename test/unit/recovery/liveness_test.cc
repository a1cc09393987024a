// SPDX-License-Identifier: BSD-3-Clause
// Liveness, by table: how long a peer may be silent, which evidence counts, and from when.
#include "recovery/liveness.h"

#include <gtest/gtest.h>

namespace adaptib {
namespace {

using namespace std::chrono_literals;

struct Wait {
    const char* what;
    Nanoseconds since; // the wait began
    Nanoseconds alive; // last evidence of life; 0: none
    Nanoseconds heard; // last datagram; 0: none
    Nanoseconds ends;
};

TEST(Liveness, OnlySilenceAfterTheLastEvidenceCounts) {
    const Liveness liveness(300s);
    const Wait waits[] = {
        {"nothing was ever heard", 10s, 0s, 0s, 310s},
        {"it was heard before", 10s, 0s, 9s, 310s},
        {"it was heard since", 10s, 0s, 200s, 500s},
        {"its process was seen to run since", 10s, 250s, 0s, 550s},
        {"the later of both counts", 10s, 250s, 260s, 560s},
        {"whichever it is", 10s, 270s, 260s, 570s},
        {"it was seen to run before", 400s, 250s, 260s, 700s},
    };
    for (const Wait& wait : waits) {
        PeerLife life;
        if (wait.alive > 0s) {
            Liveness::note(life, Evidence::process, wait.alive);
        }
        EXPECT_EQ(liveness.ends_at(life, wait.heard, wait.since), wait.ends) << wait.what;
    }
}

TEST(Liveness, WithoutALimitNobodyIsGivenUp) {
    const Liveness liveness;
    EXPECT_EQ(liveness.ends_at({}, 0s, 10s), Nanoseconds::max());
}

TEST(Liveness, EvidenceIsNotTakenBackByWhatIsOlder) {
    PeerLife life;
    Liveness::note(life, Evidence::process, 20s);
    Liveness::note(life, Evidence::datagram, 10s);
    EXPECT_EQ(life.alive, 20s);
    EXPECT_EQ(Liveness::last(life, 30s), 30s);
}

} // namespace
} // namespace adaptib
