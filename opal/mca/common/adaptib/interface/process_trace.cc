// SPDX-License-Identifier: BSD-3-Clause
#include "interface/process_trace.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

#include "base/invariant.h"
#include "base/parameters.h"
#include "interface/output_directory.h"
#include "stats/trace_json.h"

namespace adaptib {

namespace {

const char* directory() { return process_parameters().trace.trace; }

// The events of each endpoint that a broken invariant prints, and the traces that have them.
constexpr std::size_t kLastEvents = 20;
std::array<std::atomic<const Trace*>, kMaxEndpoints> printed{};

void print_traces() {
    for (const auto& each : printed) {
        if (const Trace* trace = each.load(std::memory_order_acquire)) {
            print_last_events(*trace, kLastEvents);
        }
    }
}

} // namespace

ProcessTrace::~ProcessTrace() {
    for (auto& each : printed) {
        each.store(nullptr, std::memory_order_release);
    }
}

bool ProcessTrace::wanted() const { return std::string_view(directory()) != "none"; }

void ProcessTrace::say(opal_common_adaptib_severity_t severity, const std::string& text) const {
    environment_.message(environment_.context, severity, text.c_str());
}

bool ProcessTrace::check() const {
    const std::string why = wanted() ? unwritable(directory()) : "";
    if (why.empty()) {
        return true;
    }
    say(OPAL_COMMON_ADAPTIB_FAILURE,
        "The parameter opal_common_adaptib_trace has the value \"" + std::string(directory()) +
            "\", but no file can be made there on host " + environment_.host_name + ": " + why +
            ". Name a directory that each host has, or none.");
    return false;
}

Trace* ProcessTrace::begin(std::uint32_t endpoint) {
    if (!wanted()) {
        return nullptr;
    }
    if (started_ == 0) {
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        started_ = std::chrono::duration_cast<Nanoseconds>(now).count();
        start_ = clock_.now();
    }
    traces_[endpoint] = std::make_unique<Trace>(clock_, process_parameters().trace.trace_events,
                                                TraceStamps::ticks);
    printed[endpoint].store(traces_[endpoint].get(), std::memory_order_release);
    on_broken_invariant(&print_traces);
    return traces_[endpoint].get();
}

void ProcessTrace::write(std::span<const std::vector<std::string>> rails) const {
    TraceOfProcess process{environment_.self, environment_.host_name, start_, started_, {}};
    for (std::size_t i = 0; i < rails.size(); ++i) {
        if (traces_[i] != nullptr) {
            process.endpoints.push_back({i, traces_[i].get(), rails[i]});
        }
    }
    const std::string path = path_of_process(directory(), "trace-", environment_.self);
    if (!write_trace_file(unfinished(path), {&process, 1}) || !publish_file(path)) {
        say(OPAL_COMMON_ADAPTIB_NOTICE, path + " could not be written: " + std::strerror(errno));
    }
}

} // namespace adaptib
