// SPDX-License-Identifier: BSD-3-Clause
// One to all and all to one in turn: adaptive selection of channels against DC and RC on demand
// (Takagi et al., 4.3, figure 12).
//
// See channel_comparison.h for the measurement.
// Bounds (--check): with 64 ranks AQPS takes at least 21 % less time than DC on demand, 24 % less
// than RC on demand (the paper's figures).
#include "simulator/studies/channel_comparison.h"

int main(int argc, char** argv) {
    using namespace adaptib::study;
    return channel_study("repeat", "One to all and all to one in turn", Program::repeat, {-21, -24},
                         argc, argv);
}
