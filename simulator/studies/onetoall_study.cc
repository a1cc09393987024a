// SPDX-License-Identifier: BSD-3-Clause
// One rank sends to all others: adaptive selection of channels against DC and RC on demand (Takagi
// et al., 4.3, figure 10).
//
// See channel_comparison.h for the measurement and the bounds.
#include "simulator/studies/channel_comparison.h"

// The margin holds both numbers of rounds: which peers a period selects depends on the moment, and
// what one period selects stays.
int main(int argc, char** argv) {
    using namespace adaptib::study;
    return channel_study("onetoall", "One rank sends to all others", Program::one_to_all,
                         {-19, -24}, {{-29.0, -33.0}, {-25.0, -29.1}, 5}, argc, argv);
}
