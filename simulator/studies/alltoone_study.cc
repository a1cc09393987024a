// SPDX-License-Identifier: BSD-3-Clause
// All ranks send to one: adaptive selection of channels against DC and RC on demand (Takagi et al.,
// 4.3, figure 11).
//
// See channel_comparison.h for the measurement and the bounds.
#include "simulator/studies/channel_comparison.h"

int main(int argc, char** argv) {
    using namespace adaptib::study;
    return channel_study("alltoone", "All ranks send to one", Program::all_to_one, {-13, -13},
                         {{-19.7, -22.9}, {-16.2, -19.6}}, argc, argv);
}
