// SPDX-License-Identifier: BSD-3-Clause
// The C interface over the core (common_adaptib.h): parameters and counters, progress, peers, and
// the core's life with what only a real process has: its clock, its seed and its fabrics.
//
// Every function is noexcept. Only lack of memory could throw: making the core and first contact
// with a peer then return NO_MEMORY; elsewhere in the protocol the process ends.
// May touch: every folder of the core; no header of Open MPI.
#include "common_adaptib.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/open_fabrics.h"
#include "interface/handle.h"

using namespace adaptib;

namespace {

opal_common_adaptib_core* g_core = nullptr;

// Runs the completion functions, without the lock.
int report_completed(CompletedList& list) {
    int count = 0;
    while (!list.empty()) {
        UserRequest* user = list.pop();
        user->complete(user);
        ++count;
    }
    return count;
}

void report(const opal_common_adaptib_environment_t& environment,
            opal_common_adaptib_severity_t severity, const std::string& text) {
    environment.message(environment.context, severity, text.c_str());
}

std::uint64_t system_seed() {
    std::uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) {
        seed = static_cast<std::uint64_t>(MonotonicClock().now().count());
    }
    return seed;
}

// The wire version that this process publishes; a different one only to test that peers refuse it.
std::uint16_t published_version() {
    const char* text = std::getenv("ADAPTIB_TEST_WIRE_VERSION");
    return text == nullptr ? kWireVersion : static_cast<std::uint16_t>(std::atoi(text));
}

// Ranks of spawned jobs begin with 0 again, so the path of such a process has its job's number
// before the rank.
std::string source_map_path(const std::string& path, std::uint64_t self) {
    constexpr std::uint64_t kFirstJob = 1;
    const std::uint64_t job = self >> 32 & 0xffff;
    return path + "." + (job > kFirstJob ? std::to_string(job) + "." : "") +
           std::to_string(self & 0xffffffffu);
}

// Returns false, after a message, if the file cannot be written. Existing content is kept until the
// end.
bool can_write(opal_common_adaptib_core& core, const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "a");
    if (file == nullptr) {
        report(core.environment, OPAL_COMMON_ADAPTIB_FAILURE,
               "The parameter opal_common_adaptib_source_map has the value \"" +
                   std::string(process_parameters().source_map) + "\", but " + path +
                   " cannot be written: " + std::strerror(errno) +
                   ". Name a path in a directory that each host has, or none.");
        return false;
    }
    std::fclose(file);
    return true;
}

void write_source_map(opal_common_adaptib_core& core) {
    const std::string text = core.core->source_map();
    std::FILE* file = std::fopen(core.source_map.c_str(), "w");
    bool written = file != nullptr;
    written = written && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written = (file == nullptr || std::fclose(file) == 0) && written;
    if (!written) {
        report(core.environment, OPAL_COMMON_ADAPTIB_NOTICE,
               core.source_map + " could not be written: " + std::strerror(errno));
    }
}

int open_core(opal_common_adaptib_core& core) {
    const Parameters& parameters = process_parameters();
    std::string text;
    if (!check_parameters(parameters, text)) {
        report(core.environment, OPAL_COMMON_ADAPTIB_FAILURE, text);
        return OPAL_COMMON_ADAPTIB_BAD_PARAM;
    }
    if (std::string_view(parameters.source_map) != "none") {
        core.source_map = source_map_path(parameters.source_map, core.environment.self);
        if (!can_write(core, core.source_map)) {
            return OPAL_COMMON_ADAPTIB_BAD_PARAM;
        }
    }
    core.random = Random(system_seed());
    std::vector<std::unique_ptr<Fabric>> fabrics;
    std::string left_out;
    const FabricsWanted wanted{parameters,
                               core.environment.host_name,
                               core.environment.self >> 32,
                               core.environment.one_host,
                               core.environment.local_processes,
                               core.clock,
                               core.random};
    Status status = open_fabrics(wanted, fabrics, left_out, text);
    if (status.ok()) {
        Core::Environment environment;
        environment.self = core.environment.self;
        environment.local_rank = core.environment.local_rank;
        environment.local_processes = std::max(core.environment.local_processes, 1u);
        environment.host = core.environment.host_name;
        environment.left_out = left_out;
        environment.wire_version = published_version();
        environment.bootstrap = &core.bootstrap;
        environment.clock = &core.clock;
        environment.maps_sources = !core.source_map.empty();
        environment.timed = true;
        environment.yields = core.environment.yields;
        environment.random = &core.random;
        environment.counters = &process_counters();
        if (core.environment.watch_memory != nullptr) {
            environment.watch_memory = [&core] {
                return core.environment.watch_memory(core.environment.context);
            };
        }
        environment.message = [&core](Severity severity, const std::string& message) {
            report(core.environment,
                   severity == Severity::notice ? OPAL_COMMON_ADAPTIB_NOTICE
                                                : OPAL_COMMON_ADAPTIB_FAILURE,
                   message);
        };
        status = Core::create(parameters, environment, std::move(fabrics), core.core, text);
    }
    if (status.ok()) {
        core.protocol = &core.core->protocol();
    } else {
        report(core.environment, OPAL_COMMON_ADAPTIB_FAILURE, text);
    }
    return code_of(status);
}

} // namespace

// -------------------------------------------------------------------------------------------------
// Parameters and counters

const opal_common_adaptib_parameter_t* opal_common_adaptib_parameters(size_t* count) noexcept {
    const auto table = parameter_table();
    *count = table.size();
    return table.data();
}

int opal_common_adaptib_parameters_check(char* text, size_t text_size) noexcept {
    std::string why;
    if (check_parameters(process_parameters(), why)) {
        return OPAL_COMMON_ADAPTIB_SUCCESS;
    }
    std::snprintf(text, text_size, "%s", why.c_str());
    return OPAL_COMMON_ADAPTIB_BAD_PARAM;
}

const opal_common_adaptib_counter_t* opal_common_adaptib_counters(size_t* count) noexcept {
    const auto table = counter_table();
    *count = table.size();
    return table.data();
}

// -------------------------------------------------------------------------------------------------
// Life

int opal_common_adaptib_core_acquire(const opal_common_adaptib_environment_t* environment,
                                     opal_common_adaptib_core_t** core) noexcept {
    if (g_core != nullptr) {
        ++g_core->references;
        const bool several = environment->threads != nullptr && *environment->threads;
        g_core->threads = several ? environment->threads : g_core->threads;
        *core = g_core;
        return OPAL_COMMON_ADAPTIB_SUCCESS;
    }
    try {
        auto made = std::make_unique<opal_common_adaptib_core>(*environment);
        if (const int code = open_core(*made); code != OPAL_COMMON_ADAPTIB_SUCCESS) {
            return code;
        }
        g_core = made.release();
    } catch (const std::bad_alloc&) {
        return OPAL_COMMON_ADAPTIB_NO_MEMORY;
    }
    *core = g_core;
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

namespace {

constexpr Nanoseconds kFlushLimit = std::chrono::seconds{1};

} // namespace

void opal_common_adaptib_quiesce_messages(opal_common_adaptib_core_t* core) noexcept {
    CompletedList completed;
    {
        const Guard guard(core);
        core->inside = true;
        core->core->quiesce_messages(kFlushLimit);
        core->inside = false;
        completed = std::exchange(core->protocol->completed(), {});
    }
    report_completed(completed);
}

void opal_common_adaptib_core_release(opal_common_adaptib_core_t* core) noexcept {
    if (--core->references > 0) {
        return;
    }
    core->core->drain(kFlushLimit);
    report_completed(core->core->protocol().completed());
    if (process_parameters().report) {
        report(core->environment, OPAL_COMMON_ADAPTIB_REPORT, core->core->report());
    }
    if (!core->source_map.empty()) {
        write_source_map(*core);
    }
    g_core = nullptr;
    delete core;
}

const void* opal_common_adaptib_core_address(opal_common_adaptib_core_t* core,
                                             size_t* size) noexcept {
    *size = core->core->address().size();
    return core->core->address().data();
}

void opal_common_adaptib_memory_released(opal_common_adaptib_core_t* core, const void* base,
                                         size_t bytes) noexcept {
    core->core->protocol().memory().forget(base, bytes);
}

void opal_common_adaptib_process_ended(opal_common_adaptib_core_t* core,
                                       std::uint64_t name) noexcept {
    core->core->on_process_ended(name);
}

namespace {

// One thread at a time is in progress; it gives up the lock while an active message's handler runs.
[[gnu::always_inline]] inline int progress_once(opal_common_adaptib_core_t* core, bool again) {
    core->inside = true;
    const auto events = static_cast<int>(core->core->progress(again));
    core->inside = false;
    return events;
}

[[gnu::noinline]] int progress_locked(opal_common_adaptib_core_t* core) {
    CompletedList completed;
    int events = 0;
    {
        const std::unique_lock lock(core->mutex, std::try_to_lock);
        if (!lock.owns_lock() || core->inside) {
            return 0;
        }
        events = progress_once(core, false); // other threads may wait for the lock
        completed = std::exchange(core->protocol->completed(), {});
    }
    return events + report_completed(completed);
}

[[gnu::noinline]] int report_all(opal_common_adaptib_core_t* core) {
    CompletedList completed = std::exchange(core->protocol->completed(), {});
    return report_completed(completed);
}

} // namespace

int opal_common_adaptib_progress(opal_common_adaptib_core_t* core) noexcept {
    if (*core->threads) [[unlikely]] {
        return progress_locked(core);
    }
    if (core->inside) [[unlikely]] {
        return 0;
    }
    const int events = progress_once(core, true);
    return core->protocol->completed().empty() ? events : events + report_all(core);
}

void opal_common_adaptib_connect_start(opal_common_adaptib_core_t* core, uint32_t rank,
                                       uint32_t count) noexcept {
    const Guard guard(core);
    core->core->startup().begin(rank, count);
}

namespace {

int get_peer(opal_common_adaptib_core_t* core, uint64_t name, PeerDirectory::Why why,
             opal_common_adaptib_peer_t** peer) noexcept {
    try {
        const Guard guard(core);
        Peer* found = nullptr;
        const Status status = core->core->peers().get(name, found, why);
        if (status.ok()) {
            *peer = handle_of(core, found);
        }
        return status.reason() == Reason::bad_wire ? OPAL_COMMON_ADAPTIB_UNREACHABLE
                                                   : code_of(status);
    } catch (const std::bad_alloc&) {
        return OPAL_COMMON_ADAPTIB_NO_MEMORY;
    }
}

} // namespace

int opal_common_adaptib_peer_get(opal_common_adaptib_core_t* core, uint64_t name,
                                 opal_common_adaptib_peer_t** peer) noexcept {
    return get_peer(core, name, PeerDirectory::Why::user, peer);
}

int opal_common_adaptib_peer_offer(opal_common_adaptib_core_t* core, uint64_t name,
                                   opal_common_adaptib_peer_t** peer) noexcept {
    return get_peer(core, name, PeerDirectory::Why::offer, peer);
}

void opal_common_adaptib_peer_set_user_data(opal_common_adaptib_core_t* core,
                                            opal_common_adaptib_peer_t* peer, void* what) noexcept {
    const Guard guard(core);
    if (Peer* of = peer_of(core, peer); of != nullptr) {
        of->contact.user_data = what;
    }
}

void* opal_common_adaptib_peer_user_data(opal_common_adaptib_core_t* core,
                                         opal_common_adaptib_peer_t* peer) noexcept {
    const Guard guard(core);
    const Peer* of = peer_of(core, peer);
    return of == nullptr ? nullptr : of->contact.user_data;
}

namespace {

void report_broken(void* context, Peer& peer) {
    auto* core = static_cast<opal_common_adaptib_core*>(context);
    if (*core->threads) {
        core->mutex.unlock();
    }
    core->broken(core->broken_context, handle_of(core, &peer));
    if (*core->threads) {
        core->mutex.lock();
    }
}

} // namespace

void opal_common_adaptib_broken_listen(opal_common_adaptib_core_t* core,
                                       opal_common_adaptib_broken_t handler,
                                       void* context) noexcept {
    const Guard guard(core);
    core->broken = handler;
    core->broken_context = context;
    core->core->broken().listen(handler == nullptr ? nullptr : report_broken, core);
}

void opal_common_adaptib_peer_release(opal_common_adaptib_core_t* core,
                                      opal_common_adaptib_peer_t* peer) noexcept {
    const Guard guard(core);
    if (Peer* released = peer_of(core, peer); released != nullptr) {
        core->core->protocol().disconnects().release(*released);
        if (Peer* amo_peer = core->core->peers().find_amo_peer(released->contact.name);
            amo_peer != nullptr) {
            core->core->protocol().disconnects().release(*amo_peer);
        }
    }
}

std::size_t opal_common_adaptib_peer_migrate(opal_common_adaptib_core_t* core,
                                             opal_common_adaptib_peer_t* peer) noexcept {
    const Guard guard(core);
    Peer* to = peer_of(core, peer);
    return to == nullptr ? 0 : core->core->migrate_paths(*to);
}
