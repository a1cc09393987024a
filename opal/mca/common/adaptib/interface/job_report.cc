// SPDX-License-Identifier: BSD-3-Clause
#include "interface/job_report.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/parameters.h"
#include "base/process_name.h"
#include "base/text_file.h"
#include "interface/output_directory.h"
#include "stats/job_summary.h"

namespace adaptib {

namespace {

// Time that the job's first process waits for the reports of all others. A runtime may answer at
// once that there is none yet, so the process asks again.
constexpr Nanoseconds kCollectLimit = std::chrono::seconds{3};
constexpr Nanoseconds kBetweenLooks = std::chrono::milliseconds{1};

ReportKind kind() { return report_kind(process_parameters().report); }

} // namespace

void JobReport::say(opal_common_adaptib_severity_t severity, const std::string& text) const {
    environment_.message(environment_.context, severity, text.c_str());
}

bool JobReport::check() const {
    if (kind() != ReportKind::directory) {
        return true;
    }
    const char* const directory = process_parameters().report;
    const std::string why = unwritable(directory);
    if (why.empty()) {
        return true;
    }
    say(OPAL_COMMON_ADAPTIB_FAILURE,
        "The parameter opal_common_adaptib_report has the value \"" + std::string(directory) +
            "\", which is neither none, summary nor ranks, and no directory that can be written "
            "on host " +
            environment_.host_name + ": " + why +
            ". Name a directory that each host has, or one of these words.");
    return false;
}

bool JobReport::wanted() const { return kind() != ReportKind::none; }

bool JobReport::wants_texts() const {
    return kind() == ReportKind::ranks || kind() == ReportKind::directory;
}

void JobReport::write(std::span<const std::string> texts, std::vector<PeerTraffic> peers,
                      std::vector<EndpointHistory> histories, const std::string& setup) const {
    if (kind() == ReportKind::ranks) {
        for (const std::string& text : texts) {
            say(OPAL_COMMON_ADAPTIB_REPORT, text);
        }
        return;
    }
    ProcessReport own = report_of_process(environment_.self, environment_.host_name);
    if (kind() == ReportKind::directory) {
        own.peers = std::move(peers);
        sort_traffic(own.peers);
        own.histories = std::move(histories);
        write_file(own, texts);
    } else {
        summarize(own, setup);
    }
}

void JobReport::write_file(const ProcessReport& own, std::span<const std::string> texts) const {
    const std::string path = path_of_process(process_parameters().report, "", environment_.self);
    if (!write_text_file(unfinished(path), report_json(own, texts)) || !publish_file(path)) {
        say(OPAL_COMMON_ADAPTIB_NOTICE, path + " could not be written: " + std::strerror(errno));
    }
}

bool JobReport::look_up(std::uint64_t name, ProcessReport& out) const {
    void* data = nullptr;
    std::size_t size = 0;
    if (environment_.report_lookup(environment_.context, name, &data, &size) !=
        OPAL_COMMON_ADAPTIB_SUCCESS) {
        return false;
    }
    const bool good = decode_report({static_cast<const std::byte*>(data), size}, out);
    environment_.lookup_release(environment_.context, data);
    return good;
}

void JobReport::summarize(const ProcessReport& own, const std::string& setup) const {
    const MonotonicClock clock;
    const Nanoseconds limit = clock.now() + kCollectLimit;
    const bool first = rank_of(environment_.self) == 0;
    if (!first && environment_.report_publish != nullptr) {
        const std::vector<std::byte> bytes = encode_report(own);
        environment_.report_publish(environment_.context, bytes.data(), bytes.size());
    }
    if (!first) {
        return;
    }
    std::vector<ProcessReport> reports{own};
    std::vector<std::uint64_t> missing;
    for (std::uint32_t rank = 1; rank < environment_.processes; ++rank) {
        missing.push_back(job_of(environment_.self) << 32 | rank);
    }
    while (environment_.report_lookup != nullptr && !missing.empty() && clock.now() < limit) {
        std::erase_if(missing, [&](std::uint64_t name) {
            ProcessReport report;
            const bool found = clock.now() < limit && look_up(name, report);
            if (found) {
                reports.push_back(std::move(report));
            }
            return found;
        });
        std::this_thread::sleep_for(missing.empty() ? Nanoseconds{0} : kBetweenLooks);
    }
    say(OPAL_COMMON_ADAPTIB_REPORT, job_summary(reports, environment_.processes) + setup);
}

} // namespace adaptib
