// SPDX-License-Identifier: BSD-3-Clause
// One to all and all to one in turn: adaptive selection of channels against DC and RC on demand
// (Takagi et al., 4.3, figure 12).
//
// See channel_comparison.h for the measurement and the bounds.
#include "simulator/studies/channel_comparison.h"

int main(int argc, char** argv) {
    using namespace adaptib::study;
    return channel_study("repeat", "One to all and all to one in turn", Program::repeat, {-21, -24},
                         {{-30.6, -33.7}, {-24.1, -27.4}}, argc, argv);
}
