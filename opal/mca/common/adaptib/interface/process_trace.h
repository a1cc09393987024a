// SPDX-License-Identifier: BSD-3-Clause
// ProcessTrace: the traces of this process's endpoints (stats/trace.h), and their file, as the
// parameter `trace` asks for it.
//
// Threads: one; no lock of an endpoint is held.
// May touch: base/, stats/, the C interface.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process_name.h"
#include "common_adaptib.h"
#include "stats/trace.h"

namespace adaptib {

class ProcessTrace {
public:
    ProcessTrace(const opal_common_adaptib_environment_t& environment, const Clock& clock)
        : environment_(environment), clock_(clock) {}
    ~ProcessTrace();

    // Returns false, after a message, if the directory cannot be written.
    bool check() const;
    bool wanted() const;
    // Returns the trace of an endpoint, which is empty; null if none is wanted.
    Trace* begin(std::uint32_t endpoint);
    // Writes the file. `rails`: names of the rails of each endpoint, whether it was used or not.
    void write(std::span<const std::vector<std::string>> rails) const;

private:
    void say(opal_common_adaptib_severity_t severity, const std::string& text) const;

    const opal_common_adaptib_environment_t& environment_;
    const Clock& clock_;
    std::array<std::unique_ptr<Trace>, kMaxEndpoints> traces_;
    Nanoseconds start_{};      // by clock_
    std::int64_t started_ = 0; // the same moment, in nanoseconds since 1970
};

} // namespace adaptib
