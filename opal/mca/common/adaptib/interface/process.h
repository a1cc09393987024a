// SPDX-License-Identifier: BSD-3-Clause
// Process: the endpoints of this process, and the things that they share.
//
// Purpose: an endpoint is a core with fabrics, peers, queues, matching and a lock of its own
// (handle.h), so that threads which use different endpoints share nothing on the hot path. A
// process has one, or several (parameter `endpoints`). Their addresses are published together, when
// the process starts, and the limits of the process are divided among them. All are
// opened with the process.
//
// Progress of several endpoints: a thread polls those that it was the last to use. It does so in
// each pass where a request is under way, otherwise in one pass of several, so that a thread that
// uses several in turn does not pay for all while it waits for one. When it has found nothing for
// some passes, it also polls the others that nobody has polled since it looked last, so that a
// thread which computes holds up nobody.
//
// Threads: any, once open() has returned.
// Source: Zambre et al., Scalable communication endpoints for MPI+threads, 2018.
// May touch: every folder of the core; no header of Open MPI.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/address_record.h"
#include "base/bootstrap.h"
#include "base/clock.h"
#include "base/parameters.h"
#include "base/random.h"
#include "common_adaptib.h"
#include "interface/job_report.h"
#include "interface/lost_processes.h"
#include "interface/process_history.h"
#include "interface/process_trace.h"
#include "interface/user_data.h"

namespace adaptib {

// Looks up a process's record, and takes the address of one endpoint out of it. Any thread.
class CallbackBootstrap final : public Bootstrap {
public:
    explicit CallbackBootstrap(const opal_common_adaptib_environment_t& environment)
        : environment_(environment) {}

    Status lookup(std::uint64_t name, AddressBlob& address) override;
    // Counts the endpoints of a process. Keeps its record for the next lookup().
    Status count_endpoints(std::uint64_t process, std::uint32_t& count);

private:
    Status record_of(std::uint64_t process, AddressBlob& record);

    const opal_common_adaptib_environment_t& environment_;
    std::mutex mutex_;                             // of fetched_
    std::map<std::uint64_t, AddressBlob> counted_; // records of count_endpoints(), by process
};

class Process {
public:
    explicit Process(const opal_common_adaptib_environment_t& environment);
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    // Opens the endpoints; a message says why it fails.
    int open();
    // Waits until all that was sent has arrived, for a bounded time; reports.
    void end();

    // Time for what was sent to arrive when the process ends.
    static constexpr Nanoseconds kFlushLimit = std::chrono::seconds{1};

    std::uint32_t endpoints() const { return static_cast<std::uint32_t>(endpoints_.size()); }
    opal_common_adaptib_core* endpoint(std::uint32_t index) { return endpoints_[index].get(); }
    std::span<const std::unique_ptr<opal_common_adaptib_core>> all() const { return endpoints_; }
    // Tells the endpoints that the process of that name has ended.
    void note_ended(std::uint64_t name);
    const AddressBlob& address() const { return address_; } // to publish
    CallbackBootstrap& bootstrap() { return bootstrap_; }
    const opal_common_adaptib_environment_t& environment() const { return environment_; }
    UserData& user_data() { return user_data_; }
    // Tells all endpoints where data on accelerators lies.
    void use_accelerators(const opal_common_adaptib_accelerators_t* accelerators);
    // Several threads may call from now on, if `threads` says so.
    void see_threads(const bool* threads);
    // Makes progress of several endpoints; returns the number of events.
    int progress();
    // Tells what adaptib carries, and over which rails, if the parameter verbose says so; the
    // report tells it, too. Of several calls, the first one counts.
    void set_up(const std::string& carries);
    // Gives the messages to the user that came up while a lock was held. Any thread, without one.
    void say_pending() {
        if (has_pending_.load(std::memory_order_relaxed)) [[unlikely]] {
            say_pending_now();
        }
    }

    int references = 1;

private:
    std::uint32_t wanted_endpoints() const;
    int add_endpoint(std::uint32_t of);
    int open_endpoint(opal_common_adaptib_core& made, std::string& text);
    int open_endpoints(std::uint32_t wanted);
    void publish();
    bool watches_memory();
    bool can_write_source_map();
    void write_source_map(std::uint32_t endpoint);
    void write_trace() const;
    void report(opal_common_adaptib_severity_t severity, const std::string& text) const;
    void report_later(opal_common_adaptib_severity_t severity, const std::string& text);
    void say_pending_now();

    const opal_common_adaptib_environment_t environment_;
    CallbackBootstrap bootstrap_{environment_};
    const JobReport job_report_{environment_};
    UserData user_data_;
    LostProcesses lost_;
    MonotonicClock clock_;
    ProcessTrace trace_{environment_, clock_};
    ProcessHistory history_{clock_};
    AddressBlob address_;
    std::string setup_; // empty: nothing was to be carried
    std::vector<std::unique_ptr<opal_common_adaptib_core>> endpoints_; // constant once open
    std::mutex watching_;                                              // of the next one
    std::optional<bool> watches_memory_; // none: has not been asked yet
    std::mutex mutex_;                   // of pending_ and setup_
    std::vector<std::pair<opal_common_adaptib_severity_t, std::string>> pending_;
    std::atomic<bool> has_pending_{false};
};

} // namespace adaptib
