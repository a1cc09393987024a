// SPDX-License-Identifier: BSD-3-Clause
// The studies onetoall, alltoone and repeat: one program, three channel policies, 2 to 64 complete cores.
//
// Measured: virtual time a message of the paper's programs (study/patterns.h) takes with the core's own channels
// under the policies dc_on_demand, rc_on_demand and aqps; machine model connect-ib, one rank a host. What is not the
// default: dc_initiators is 28 with dc_on_demand, as the paper's DC-RDMA-OD has for data; with aqps it is 8, the
// default, which are all of the paper's AQPS (4 for data, 2 for credits, 2 for control messages: here all share one
// pool), connect_max is 26 (its h), and channel_period 1 ms, since the programs run for a fraction of a second.
// Twice with aqps: by the costs of the model, changes of a DC initiator's target included (channel_costs = measured), and by the
// published ones, which leave these out (connect-ib). Both are held to the paper's figures.
// A program of one pattern runs twice, and the second time is measured: the first selection comes after a period, which
// hardly counts in the paper's runs of many periods. `repeat` is measured from its start.
// Source: Takagi et al., 4.3, figures 10 to 12.
#pragma once

#include <cstdint>

namespace adaptib::study {

enum class Program : std::uint8_t { one_to_all, all_to_one, repeat };

// Change at 64 ranks, percent; also what --check wants at most.
struct Published {
    double against_dc = 0;
    double against_rc = 0;
};

// The whole main().
int channel_study(const char* name, const char* title, Program program, const Published& published,
                  int argc, char** argv);

} // namespace adaptib::study
