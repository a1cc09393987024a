// SPDX-License-Identifier: BSD-3-Clause
#include "interface/process.h"

#include <sched.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <string_view>
#include <utility>

#include "base/process_name.h"
#include "base/text_file.h"
#include "core/derived_options.h"
#include "core/fabrics_wanted.h"
#include "interface/handle.h"
#include "interface/output_directory.h"
#include "stats/live_counters.h"

namespace adaptib {

namespace {

constexpr bool kAlone = false;
constexpr bool kSeveral = true;

// Idle passes of a thread's progress between two looks at the endpoints that are not its own, and
// passes that bring no such look off if the thread is never idle.
constexpr std::uint32_t kLookWhenIdle = 16;
constexpr std::uint32_t kLookAnyway = 1024;

// Passes between two polls of an endpoint of the thread's own that wants no progress: others may
// want something of it, such as a connection, or room in a ring.
constexpr std::uint32_t kPollQuiet = 32;

// The passes of progress that a thread has made and has seen others make.
struct Watcher {
    std::uint32_t passes = 0;
    std::uint32_t idle = 0; // passes in a row
    std::uint32_t busy = 0;
    std::array<std::uint32_t, kMaxEndpoints> seen; // passes of each endpoint when it looked last
};
[[gnu::tls_model("initial-exec")]] thread_local Watcher t_watcher;

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

// The path of a spawned job's process has the job's number before the rank. Those of further
// endpoints end with their number.
std::string source_map_path(std::uint64_t process, std::uint32_t endpoint) {
    const std::uint64_t job = spawned_job_of(process);
    return std::string(process_parameters().source_map) + "." +
           (job > 0 ? std::to_string(job) + "." : "") + std::to_string(rank_of(process)) +
           (endpoint > 0 ? ".endpoint" + std::to_string(endpoint) : "");
}

void tell_ended(opal_common_adaptib_core& endpoint, std::uint64_t name) {
    for (std::uint32_t its = 0; its < kMaxEndpoints; ++its) {
        endpoint.core->on_process_ended(endpoint_name(name, its));
    }
}

bool maps_sources() { return std::string_view(process_parameters().source_map) != "none"; }

std::vector<std::string> rail_names(const opal_common_adaptib_core& endpoint) {
    std::vector<std::string> names;
    for (const auto& rail : endpoint.core->rails()) {
        names.push_back(rail->info().name);
    }
    return names;
}

// Processors that this process may run on.
std::uint32_t processors() {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<std::uint32_t>(CPU_COUNT(&set))
                                                       : 1;
}

// Prepares the delivery of an endpoint's incidents, if the environment hears of them.
void deliver_incidents(opal_common_adaptib_core& endpoint, Counters& counters) {
    counters.incidents = nullptr;
    if (endpoint.process.environment().incident != nullptr) {
        endpoint.incidents = std::make_unique<IncidentDelivery>(endpoint, counters);
        counters.incidents = &endpoint.incidents->queue();
    }
}

// Makes the core of an endpoint call its listeners.
void listen_to(opal_common_adaptib_core& endpoint) {
    listen_to_active(&endpoint);
    listen_to_broken(&endpoint);
    if (endpoint.incidents != nullptr) {
        endpoint.incidents->queue().wake();
    }
}

// Gives up the lock of the endpoint during a look-up, which may take long.
class EndpointBootstrap final : public Bootstrap {
public:
    EndpointBootstrap(opal_common_adaptib_core& endpoint, CallbackBootstrap& process)
        : endpoint_(endpoint), process_(process) {}

    Status lookup(std::uint64_t name, AddressBlob& address) override {
        const Unlocked unlocked(&endpoint_);
        return process_.lookup(name, address);
    }
    std::uint32_t endpoints_of(std::uint64_t process) override {
        const Unlocked unlocked(&endpoint_);
        std::uint32_t count = 1;
        static_cast<void>(process_.count_endpoints(process, count));
        return count;
    }

private:
    opal_common_adaptib_core& endpoint_;
    CallbackBootstrap& process_;
};

} // namespace

// -------------------------------------------------------------------------------------------------
// Addresses

Status CallbackBootstrap::record_of(std::uint64_t process, AddressBlob& record) {
    void* address = nullptr;
    std::size_t size = 0;
    if (environment_.lookup(environment_.context, process, &address, &size) != 0) {
        return Status::error(Reason::unreachable);
    }
    const auto* bytes = static_cast<const std::byte*>(address);
    record.assign(bytes, bytes + size);
    environment_.lookup_release(environment_.context, address);
    return kOk;
}

Status CallbackBootstrap::lookup(std::uint64_t name, AddressBlob& address) {
    const std::uint64_t process = process_of(name);
    {
        const std::lock_guard guard(mutex_);
        if (const auto found = counted_.extract(process); !found.empty()) {
            return address_in(found.mapped(), endpoint_of(name), address);
        }
    }
    AddressBlob record;
    const Status status = record_of(process, record);
    return status.ok() ? address_in(record, endpoint_of(name), address) : status;
}

Status CallbackBootstrap::count_endpoints(std::uint64_t process, std::uint32_t& count) {
    AddressBlob record;
    std::uint32_t found = 0;
    Status status = record_of(process_of(process), record);
    if (status.ok()) {
        status = addresses_in(record, found);
    }
    if (status.ok()) {
        count = found;
        const std::lock_guard guard(mutex_);
        counted_[process_of(process)] = std::move(record); // its address is wanted next
    }
    return status;
}

// -------------------------------------------------------------------------------------------------
// Life

Process::Process(const opal_common_adaptib_environment_t& environment)
    : environment_(environment) {}

void Process::report(opal_common_adaptib_severity_t severity, const std::string& text) const {
    environment_.message(environment_.context, severity, text.c_str());
}

// Showing a message may take long, and the caller holds the lock of an endpoint.
void Process::report_later(opal_common_adaptib_severity_t severity, const std::string& text) {
    const std::lock_guard guard(mutex_);
    pending_.emplace_back(severity, text);
    has_pending_.store(true, std::memory_order_relaxed);
}

void Process::say_pending_now() {
    std::vector<std::pair<opal_common_adaptib_severity_t, std::string>> messages;
    {
        const std::lock_guard guard(mutex_);
        messages.swap(pending_);
        has_pending_.store(false, std::memory_order_relaxed);
    }
    for (const auto& [severity, text] : messages) {
        report(severity, text);
    }
}

// The parameter has been checked: 0, or a power of two.
std::uint32_t Process::wanted_endpoints() const {
    constexpr std::uint32_t kMost = 8; // where nobody has asked for a number
    if (process_parameters().endpoints > 0) {
        return static_cast<std::uint32_t>(process_parameters().endpoints);
    }
    const bool threads = environment_.threads != nullptr && *environment_.threads;
    return threads ? std::min(std::bit_floor(processors()), kMost) : 1;
}

int Process::open() {
    std::string text;
    if (!check_parameters(process_parameters(), text)) {
        report(OPAL_COMMON_ADAPTIB_FAILURE, text);
        return OPAL_COMMON_ADAPTIB_BAD_PARAM;
    }
    if ((maps_sources() && !can_write_source_map()) || !job_report_.check() || !trace_.check()) {
        return OPAL_COMMON_ADAPTIB_BAD_PARAM;
    }
    static_cast<void>(share_counters(environment_.self));
    const std::uint32_t wanted = wanted_endpoints();
    if (const int code = open_endpoints(wanted); code != OPAL_COMMON_ADAPTIB_SUCCESS) {
        return code;
    }
    if (endpoints() < wanted) {
        report(OPAL_COMMON_ADAPTIB_NOTICE,
               "Only " + std::to_string(endpoints()) + " of the " + std::to_string(wanted) +
                   " endpoints that opal_common_adaptib_endpoints asks for could be opened; the "
                   "message before this one says why. The job goes on with these.");
    }
    publish();
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

void Process::publish() {
    std::vector<AddressBlob> addresses;
    for (const auto& endpoint : all()) {
        addresses.push_back(endpoint->core->address());
    }
    address_ = encode_record(addresses);
}

// If not all can be opened, begins again with fewer, which then have their part of the limits.
int Process::open_endpoints(std::uint32_t wanted) {
    for (std::uint32_t of = wanted;;) {
        int code = OPAL_COMMON_ADAPTIB_SUCCESS;
        while (endpoints() < of && code == OPAL_COMMON_ADAPTIB_SUCCESS) {
            code = add_endpoint(of);
        }
        if (code == OPAL_COMMON_ADAPTIB_SUCCESS || endpoints_.empty()) {
            return code;
        }
        of = std::bit_floor(endpoints());
        endpoints_.clear();
        for (std::uint32_t vain = 0; vain < wanted; ++vain) {
            endpoint_counters(vain) = {};
        }
    }
}

// Makes and opens the next of `of` endpoints.
int Process::add_endpoint(std::uint32_t of) {
    const bool* threads = environment_.threads != nullptr ? environment_.threads : &kAlone;
    auto made = std::make_unique<opal_common_adaptib_core>(*this, endpoints(),
                                                           of > 1 ? &kSeveral : threads);
    made->parameters = part_of_limits(process_parameters(), of);
    made->local_cores = std::max(environment_.local_processes, 1u) * of;
    std::string text;
    const int code = open_endpoint(*made, text);
    say_pending();
    if (code != OPAL_COMMON_ADAPTIB_SUCCESS) {
        report(OPAL_COMMON_ADAPTIB_FAILURE, text);
        return code;
    }
    endpoints_.push_back(std::move(made));
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

void Process::use_accelerators(const opal_common_adaptib_accelerators_t* accelerators) {
    const bool wanted =
        std::string_view(process_parameters().registration.accelerator_memory) == "registered";
    for (const auto& endpoint : all()) {
        const Guard guard(endpoint.get());
        endpoint->protocol->memory().use_accelerators(wanted ? accelerators : nullptr);
    }
}

void Process::note_ended(std::uint64_t name) {
    for (const auto& endpoint : all()) {
        tell_ended(*endpoint, name);
    }
}

// The answer holds for all endpoints, and a second question would be refused.
bool Process::watches_memory() {
    const std::lock_guard guard(watching_);
    if (!watches_memory_) {
        watches_memory_ = environment_.watch_memory(environment_.context);
    }
    return *watches_memory_;
}

int Process::open_endpoint(opal_common_adaptib_core& made, std::string& text) {
    made.random = Random(system_seed());
    std::vector<std::unique_ptr<Fabric>> fabrics;
    std::string left_out;
    FabricsWanted wanted{made.parameters,       environment_.host_name, job_of(environment_.self),
                         environment_.one_host, made.local_cores,       clock_};
    if (made.index > 0) {
        wanted.first = &endpoints_.front()->core->nearest_fabric();
    }
    std::unique_ptr<Core> core;
    Status status = wanted.open(fabrics, left_out, text);
    if (status.ok()) {
        Core::Environment environment;
        environment.self = endpoint_name(environment_.self, made.index);
        environment.local_rank = environment_.local_rank;
        environment.local_processes = made.local_cores;
        environment.host = environment_.host_name;
        environment.left_out = left_out;
        environment.wire_version = published_version();
        made.bootstrap = std::make_unique<EndpointBootstrap>(made, bootstrap_);
        environment.bootstrap = made.bootstrap.get();
        environment.clock = &clock_;
        environment.lock = &made.lock;
        environment.maps_sources = maps_sources();
        environment.timed = true;
        environment.yields = environment_.yields;
        environment.random = &made.random;
        environment.counters = &endpoint_counters(made.index);
        made.trace = trace_.begin(made.index);
        environment.counters->trace = made.trace;
        environment.counters->history = history_.begin(made.index);
        deliver_incidents(made, *environment.counters);
        environment.is_news = [this](std::uint64_t process) { return lost_.insert(process); };
        if (environment_.watch_memory != nullptr) {
            environment.watch_memory = [this] { return watches_memory(); };
        }
        if (environment_.still_watches_memory != nullptr) {
            environment.still_watches_memory = [this] {
                return environment_.still_watches_memory(environment_.context);
            };
        }
        environment.message = [this, endpoint = &made](Severity severity,
                                                       const std::string& message) {
            const opal_common_adaptib_severity_t how = severity == Severity::notice
                                                           ? OPAL_COMMON_ADAPTIB_NOTICE
                                                           : OPAL_COMMON_ADAPTIB_FAILURE;
            if (*endpoint->threads) {
                report_later(how, message);
            } else {
                report(how, message);
            }
        };
        status = Core::create(made.parameters, environment, std::move(fabrics), core, text);
    }
    if (!status.ok()) {
        return code_of(status);
    }
    made.core = std::move(core);
    made.protocol = &made.core->protocol();
    listen_to(made);
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

void Process::end() {
    const std::string setup = setup_.empty() ? "" : "  " + setup_ + "\n";
    std::vector<std::string> texts;
    std::vector<PeerTraffic> peers;
    std::vector<EndpointHistory> histories;
    for (const auto& endpoint : all()) {
        {
            const Guard guard(endpoint.get());
            endpoint->core->leave(kFlushLimit);
        }
        report_completed(endpoint->protocol->completed());
        if (job_report_.wants_texts()) {
            texts.push_back(endpoint->core->report() + setup);
            for (const PeerTraffic& row : endpoint->core->peer_traffic()) {
                merge_traffic(peers, row);
            }
        }
        if (endpoint_counters(endpoint->index).history != nullptr) {
            histories.push_back(history_.end(endpoint->index, rail_names(*endpoint)));
        }
        if (maps_sources()) {
            write_source_map(endpoint->index);
        }
    }
    if (job_report_.wanted()) {
        job_report_.write(texts, std::move(peers), std::move(histories), setup);
    }
    if (trace_.wanted()) {
        write_trace();
    }
}

void Process::write_trace() const {
    std::vector<std::vector<std::string>> rails(endpoints());
    for (const auto& endpoint : all()) {
        rails[endpoint->index] = rail_names(*endpoint);
    }
    trace_.write(rails);
}

void Process::set_up(const std::string& carries) {
    const opal_common_adaptib_core& first = *endpoints_.front();
    {
        const std::lock_guard guard(mutex_);
        if (!setup_.empty()) {
            return;
        }
        setup_ = "adaptib carries " + carries + "; " + first.core->setup_text(first.parameters);
    }
    if (process_parameters().verbose > 0 && rank_of(environment_.self) == 0) {
        report(OPAL_COMMON_ADAPTIB_REPORT, setup_ + "\n");
    }
}

void Process::see_threads(const bool* threads) {
    if (endpoints() == 1) {
        endpoints_.front()->threads = threads;
    }
}

// -------------------------------------------------------------------------------------------------
// Progress

int Process::progress() {
    Watcher& watcher = t_watcher;
    int events = 0;
    ++watcher.passes;
    for (const auto& endpoint : all()) {
        if (!endpoint->lock.is_mine()) {
            continue;
        }
        if (endpoint->wants_progress.load(std::memory_order_relaxed) ||
            (watcher.passes + endpoint->index) % kPollQuiet == 0) {
            events += progress_with_lock(endpoint.get(), Polled::own);
        } else { // the thread looks after it
            endpoint->passes.store(endpoint->passes.load(std::memory_order_relaxed) + 1,
                                   std::memory_order_relaxed);
        }
    }
    watcher.idle = events > 0 ? 0 : watcher.idle + 1;
    if (events > 0 ? ++watcher.busy % kLookAnyway != 0 : watcher.idle % kLookWhenIdle != 0) {
        return events;
    }
    say_pending();
    for (const auto& endpoint : all()) {
        if (endpoint->lock.is_mine()) {
            continue;
        }
        std::uint32_t& seen = watcher.seen[endpoint->index];
        if (seen == endpoint->passes.load(std::memory_order_relaxed)) {
            events += progress_with_lock(endpoint.get(), Polled::other);
        }
        seen = endpoint->passes.load(std::memory_order_relaxed);
    }
    return events;
}

// -------------------------------------------------------------------------------------------------
// Source maps

// Returns false, after a message, if the file cannot be made. An old one is kept until the end.
bool Process::can_write_source_map() {
    const std::string path = source_map_path(environment_.self, 0);
    const std::string directory = std::filesystem::path(path).parent_path();
    const std::string why = unwritable(directory.empty() ? "." : directory);
    if (!why.empty()) {
        report(OPAL_COMMON_ADAPTIB_FAILURE,
               "The parameter opal_common_adaptib_source_map has the value \"" +
                   std::string(process_parameters().source_map) + "\", but " + path +
                   " cannot be written: " + why +
                   ". Name a path in a directory that each host has, or none.");
        return false;
    }
    return true;
}

void Process::write_source_map(std::uint32_t endpoint) {
    const std::string path = source_map_path(environment_.self, endpoint);
    if (!write_text_file(path, endpoints_[endpoint]->core->source_map())) {
        report(OPAL_COMMON_ADAPTIB_NOTICE, path + " could not be written: " + std::strerror(errno));
    }
}

} // namespace adaptib
