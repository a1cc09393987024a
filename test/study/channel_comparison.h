// SPDX-License-Identifier: BSD-3-Clause
// The studies onetoall, alltoone and repeat: one program, three methods, 2 to 64 ranks.
// Source: Takagi et al., 4.3, figures 10 to 12.
#pragma once

#include "study/channel_ranks.h"

namespace adaptib::study {

enum class Program : std::uint8_t { one_to_all, all_to_one, repeat };

struct Published {
    double against_dc = 0; // change at 64 ranks, percent
    double against_rc = 0;
    double least_against_dc = 0; // what --check wants
};

// The whole main().
int channel_study(const char* name, const char* title, Program program, const Published& published,
                  int argc, char** argv);

} // namespace adaptib::study
