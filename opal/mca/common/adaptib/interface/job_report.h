// SPDX-License-Identifier: BSD-3-Clause
// JobReport: the report of this process at its end, as the parameter `report` asks for it.
//
// Purpose: `ranks` shows a text of each process. `summary` shows one page of the whole job: each
// process publishes its report, and the job's first process looks all of them up, for a bounded
// time. A directory takes a JSON file of each process.
// Threads: one; no lock of an endpoint is held.
// May touch: base/, stats/, the C interface.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common_adaptib.h"
#include "stats/process_report.h"

namespace adaptib {

class JobReport {
public:
    explicit JobReport(const opal_common_adaptib_environment_t& environment)
        : environment_(environment) {}

    // Returns false, after a message, if a directory is asked for that cannot be written.
    bool check() const;
    bool wanted() const;
    bool wants_texts() const;
    // `texts`: if wants_texts(), Core::report() of each endpoint, after all that was sent has
    // arrived. `peers`: likewise Core::peer_traffic() of all endpoints. `histories`: of those that
    // have one. `setup`: a line on what carries what, for the summary; may be empty.
    void write(std::span<const std::string> texts, std::vector<PeerTraffic> peers,
               std::vector<EndpointHistory> histories, const std::string& setup) const;

private:
    void say(opal_common_adaptib_severity_t severity, const std::string& text) const;
    void write_file(const ProcessReport& own, std::span<const std::string> texts) const;
    void summarize(const ProcessReport& own, const std::string& setup) const;
    bool look_up(std::uint64_t name, ProcessReport& out) const;

    const opal_common_adaptib_environment_t& environment_;
};

} // namespace adaptib
