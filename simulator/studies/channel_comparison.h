// SPDX-License-Identifier: BSD-3-Clause
// The studies onetoall, alltoone and repeat: one program, three channel policies, 2 to 64 complete
// cores.
//
// Measured: virtual time per message of the paper's programs (simulator/studies/patterns.h) over
// the core's own channels under the policies dc_on_demand, rc_on_demand and aqps; machine model
// connect-ib, one rank per host. Parameters that differ from the defaults: dc_initiators is 28 with
// dc_on_demand, as many as the paper's DC-RDMA-OD has for data; with aqps it is 8, the default, as
// many as the paper's AQPS has in all (4 for data, 2 for credits, 2 for control messages; here all
// share one pool), connect_max is 26 (its h), and channel_period is 1 ms, since the programs run
// for a fraction of a second. AQPS runs twice: by the costs of the model, which include a DC
// initiator's changes of target (channel_costs = measured), and by the published costs, which leave
// these out (connect-ib). Both are compared with the paper's figures. A program of one pattern runs
// twice, and the second run is measured: the first selection comes after a period, which hardly
// counts in the paper's runs of many periods. `repeat` is measured from its start.
// Bounds (--check): each change of time within Measured::margin of what is measured here. The
// paper's changes are beside it: they are smaller, since here only adapters take time, while the
// paper's software costs the same with each method.
// Source: Takagi et al., 4.3, figures 10 to 12.
#pragma once

#include <cstdint>

namespace adaptib::study {

enum class Program : std::uint8_t { one_to_all, all_to_one, repeat };

// Change of time at 64 ranks, in percent.
struct Change {
    double against_dc = 0;
    double against_rc = 0;
};

struct Measured {
    Change ours;               // by the model's costs
    Change by_published_costs; // by the paper's
    double margin = 1.5;       // points
};

// The body of main().
int channel_study(const char* name, const char* title, Program program, const Change& published,
                  const Measured& measured, int argc, char** argv);

} // namespace adaptib::study
