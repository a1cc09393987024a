// SPDX-License-Identifier: BSD-3-Clause
#include "core/core_opener.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/process_name.h"
#include "core/derived_options.h"

namespace adaptib {

namespace {

// Least length that active messages may have. Without a ring, those that no datagram can hold are
// sent in parts.
constexpr Bytes kActiveMax = CopyCosts::kSizes.back() + 256; // with the sender's headers

Placement placement(const Parameters& parameters) {
    const std::string_view said = parameters.placement.ring_in_order;
    return said == "yes"  ? Placement::in_order
           : said == "no" ? Placement::any_order
                          : Placement::as_device_says;
}

} // namespace

CoreOpener::CoreOpener(const Parameters& parameters, CoreParts& parts)
    : parameters_(parameters), parts_(parts), environment_(parts.environment),
      counters_(*parts.environment.counters),
      failure_timeout_(std::chrono::milliseconds(parameters.failure_timeout)) {}

Status CoreOpener::open(std::vector<std::unique_ptr<Fabric>> fabrics, std::string& text) {
    if (Status status = parts_.fabrics.attach(parameters_, std::move(fabrics), text);
        !status.ok()) {
        return status;
    }
    open_migration();
    const std::uint32_t depth = completion_depth(rails());
    ProcessAddress address;
    address.version = environment_.wire_version;
    address.name = environment_.self;
    address.key = environment_.random->next();
    address.host = environment_.host;
    open_paths();
    plan();
    watch_memory();
    open_sharing();
    if (Status status =
            parts_.fabrics.open_rails({parts_.paths->on(), parts_.attended, parts_.path_reactions,
                                       parts_.shared.get(), parts_.migration.get()},
                                      depth, address, text);
        !status.ok()) {
        return status;
    }
    parts_.address = encode(address);
    open_connections(address.key);
    open_protocol(depth);
    open_peers();
    open_selection();
    open_progress();
    begin_reactions();
    parts_.handlers->listen();
    parts_.progress->events().report_notices();
    check_threshold();
    return kOk;
}

// Warns, once in a job, by its first process, if the user set a striping threshold that has no
// effect on messages: those up to the eager limit are never cut.
void CoreOpener::check_threshold() {
    const Bytes threshold = parameters_.striping_threshold;
    if (threshold == default_parameters().striping_threshold ||
        std::string_view(parameters_.striping_policy) == "none" ||
        !environment_.is_first_process()) {
        return;
    }
    for (const AttachedFabric& attached : parts_.fabrics.all()) {
        const bool fixed = attached.device || parameters_.eager_limit >= 0;
        if (fixed && threshold < attached.eager_limit) {
            environment_.message(
                Severity::notice,
                "opal_common_adaptib_striping_threshold (" + std::to_string(threshold) +
                    ") is below opal_common_adaptib_" + (attached.device ? "verbs_" : "") +
                    "eager_limit (" + std::to_string(attached.eager_limit) +
                    "): messages up to that limit are never striped; only puts and gets are, from "
                    "the threshold on. Lower that limit to have such messages striped, too.");
        }
    }
}

// Warns, once in a job, by its first process, if the user chose atomics that are not atomic with
// each other.
void CoreOpener::check_atomics(std::span<const RailRange> fabrics) {
    if (std::string_view(parameters_.atomics) == "adapter" && environment_.is_first_process() &&
        has_several_adapters(rails(), fabrics)) {
        environment_.message(
            Severity::notice,
            "opal_common_adaptib_atomics is \"adapter\", and there are rails of several "
            "adapters: atomics on one word that come through different adapters are not atomic "
            "with each other. Use \"target\" or \"auto\", or the rails of one adapter.");
    }
}

void CoreOpener::open_migration() {
    const std::string_view apm = parameters_.apm;
    const RailList rails = parts_.fabrics.rails();
    const bool able = std::any_of(rails.begin(), rails.end(), [](const Rail* rail) {
        return rail->info().has(Capability::migration);
    });
    if (apm == "off" || !able) {
        if (apm == "on") {
            environment_.message(Severity::notice,
                                 "opal_common_adaptib_apm is on, but no rail of host " +
                                     environment_.host + " has automatic path migration.");
        }
        return;
    }
    std::vector<std::uint8_t> adapters;
    for (std::uint32_t rail = 0; rail < rails.size(); ++rail) {
        adapters.push_back(first_of_adapter(rails, rail));
    }
    parts_.migration = std::make_unique<MigrationAgent>(rails, std::move(adapters), counters_);
}

void CoreOpener::open_paths() {
    if (parameters_.partition_timeout > 0) {
        parts_.liveness = Liveness(std::chrono::seconds(parameters_.partition_timeout));
    }
    PathRepository::Options options;
    options.on = std::string_view(parameters_.fault_tolerance) == "on";
    options.host = environment_.host;
    options.clock = &parts_.attended;
    parts_.paths =
        std::make_unique<PathRepository>(options, rails(), counters_, parts_.path_reactions);
    parts_.datagram_paths.emplace(rails(), *parts_.paths, parts_.liveness, parts_.lost,
                                  parts_.path_reactions);
    parts_.watch.emplace(ProcessWatch::Options{environment_.clock, &parts_.attended,
                                               environment_.random, &parts_.liveness},
                         rails(), *parts_.paths, *parts_.datagram_paths, counters_);
    PathProbes::Options probes;
    probes.timeout = failure_timeout_;
    probes.liveness = &parts_.liveness;
    probes.witness = &*parts_.watch;
    probes.life = &parts_.watch->life();
    probes.clock = &parts_.attended;
    probes.random = environment_.random;
    parts_.contacts.emplace(rails(), *parts_.datagram_paths, parts_.liveness, *environment_.clock,
                            parts_.lost, parts_.peer_events, environment_.message);
    parts_.probes =
        std::make_unique<PathProbes>(probes, *parts_.paths, counters_, *parts_.datagram_paths);
}

void CoreOpener::plan() {
    channels_ = plan_channels(parameters_, channel_bounds(rails()));
    for (const std::string& notice : channels_.notices) {
        environment_.message(Severity::notice, notice);
    }
}

void CoreOpener::open_sharing() {
    if (channels_.sharing == Sharing::never) {
        return;
    }
    SharedQueuePairs::Options options;
    options.initiators = static_cast<std::uint32_t>(parameters_.dc_initiators);
    options.self = rank_of(environment_.self);
    options.access_key = environment_.random->next() | 1;
    options.answer_timeout = answer_code(std::chrono::milliseconds(parameters_.answer_timeout));
    options.answer_retries = static_cast<std::uint8_t>(parameters_.answer_retries);
    options.inline_bytes = kRingInline;
    parts_.shared = std::make_unique<SharedQueuePairs>(options, rails(), parts_.fabrics.cqs());
}

void CoreOpener::open_connections(std::uint64_t key) {
    ConnectOptions connect;
    connect.self = environment_.self;
    connect.key = key;
    connect.ring_max = channels_.rings;
    connect.placement = placement(parameters_);
    connect.ring_check = std::string_view(parameters_.placement.ring_check) == "on";
    connect.scheduler = scheduler_options(parameters_, environment_.local_rank);
    connect.fault_tolerance = parts_.paths->on();
    connect.failure_timeout = failure_timeout_;
    connect.answer_timeout = answer_code(std::chrono::milliseconds(parameters_.answer_timeout));
    connect.answer_retries = static_cast<std::uint8_t>(parameters_.answer_retries);
    connect.liveness = &parts_.liveness;
    connect.witness = &*parts_.watch;
    connect.connect_max = channels_.connections;
    connect.connect_pool = channels_.kept;
    connect.clock = environment_.clock;
    connect.attended = &parts_.attended;
    connect.random = environment_.random;
    connect.migration = parts_.migration.get();
    connect.chosen_idle = std::min(connect.chosen_idle, channels_.period);
    connect.own_pause = channels_.period;
    connect.measure = environment_.measure;
    connect.message = environment_.message;
    connect.sharing = channels_.sharing;
    connect.shared = parts_.shared.get();
    parts_.connections = std::make_unique<ConnectionManager>(
        connect, rails(), parts_.fabrics.cqs(), counters_, parts_.connection_reactions);
    parts_.startup.emplace(Startup::Options{environment_.self, startup_mode(parameters_),
                                            channels_.connections, environment_.message});
}

void CoreOpener::open_selection() {
    const bool measured =
        channels_.selects && std::string_view(parameters_.channel_costs) == "measured";
    if (environment_.timed && measured) {
        parts_.meter = std::make_unique<CostMeter>();
    }
    ChannelSelection::Options options;
    options.selects = channels_.selects;
    options.period = channels_.period;
    options.sharing = channels_.sharing;
    options.rings = channels_.rings;
    options.costs =
        measured && parts_.shared != nullptr ? model_costs(parameters_, rails()) : ChannelCosts{};
    options.meter = parts_.meter.get();
    parts_.selection.emplace(options, parts_.peers->peers(), *parts_.connections, counters_);
    if (channels_.selects) {
        parts_.selection->note_costs();
    }
}

// Open MPI watches memory by new code at the beginning of munmap() and the like, which no other
// thread may be inside of meanwhile: REQUIRES: no fabric has a responder yet.
void CoreOpener::watch_memory() {
    watches_memory_ = wants_registration_cache(parameters_, rails()) && environment_.watch_memory &&
                      environment_.watch_memory();
}

void CoreOpener::open_protocol(std::uint32_t depth) {
    const std::vector<AttachedFabric>& fabrics = parts_.fabrics.all();
    Protocol::Options protocol;
    protocol.eager_limit = first_eager_limit(parameters_);
    // One limit for all peers: the best one for peers of other hosts costs those of this host
    // little.
    protocol.active_eager = std::max_element(fabrics.begin(), fabrics.end(), [](auto& a, auto& b) {
                                return a.eager_limit < b.eager_limit;
                            })->eager_limit;
    protocol.active_max = fabrics[0].datagrams->capacity();
    for (const AttachedFabric& attached : fabrics) {
        protocol.active_max = std::min(protocol.active_max, attached.datagrams->capacity());
    }
    const std::vector<RailRange> ranges = parts_.fabrics.ranges();
    protocol.active_max = std::max(protocol.active_max, kActiveMax);
    protocol.put = std::string_view(parameters_.rendezvous) == "put";
    protocol.connect_threshold = channels_.connect_threshold;
    protocol.block_bytes = parameters_.block_bytes;
    protocol.block_depth = static_cast<std::size_t>(parameters_.block_depth);
    protocol.clock = environment_.clock;
    protocol.lock = environment_.lock;
    protocol.registration_cache = watches_memory_ ? parameters_.registration.cache : 0;
    protocol.still_watched = environment_.still_watches_memory;
    protocol.frequent = frequent_options(parameters_);
    protocol.frequent.costs = environment_.gather_costs;
    protocol.measures = environment_.timed ? environment_.clock : nullptr;
    protocol.self = environment_.self;
    protocol.message = environment_.message;
    protocol.unexpected_most = unexpected_memory(parameters_, environment_.local_processes);
    protocol.serves_atomics = serves_atomics(parameters_, rails(), ranges, parts_.paths->on());
    check_atomics(ranges);
    protocol.transfers.clock = environment_.clock;
    protocol.transfers.interleave = std::chrono::microseconds{parameters_.interleave};
    protocol.transfers.max_outstanding = depth / 2; // the rest: signaled ring writes and flushes
    parts_.protocol = std::make_unique<Protocol>(protocol, rails(), ranges, *parts_.connections,
                                                 parts_.lost, parts_.peer_events, counters_);
}

void CoreOpener::open_peers() {
    PeerDirectory::Options options;
    options.self = environment_.self;
    options.host = environment_.host;
    options.wire_version = environment_.wire_version;
    options.bootstrap = environment_.bootstrap;
    options.address = &parts_.address;
    options.message = environment_.message;
    parts_.peers.emplace(options,
                         PeerDirectory::Parts{parts_.fabrics.all(), parts_.fabrics.routes(),
                                              *parts_.paths, *parts_.datagram_paths,
                                              *parts_.contacts, parts_.watch->ended(),
                                              *parts_.connections, *parts_.protocol, counters_});
}

void CoreOpener::open_progress() {
    parts_.progress.emplace(
        ProgressEngine::Options{
            static_cast<std::uint32_t>(parameters_.idle_looks), failure_timeout_,
            answer_time(answer_code(std::chrono::milliseconds(parameters_.answer_timeout)))},
        environment_,
        ProgressEngine::Parts{parts_.fabrics, parts_.attended, parts_.shared.get(), *parts_.paths,
                              parts_.migration.get(), *parts_.datagram_paths, *parts_.contacts,
                              *parts_.watch, *parts_.probes, *parts_.peers, *parts_.connections,
                              *parts_.protocol, *parts_.startup, *parts_.selection,
                              parts_.meter.get(), parts_.path_reactions});
    parts_.handlers.emplace(
        failure_timeout_, DatagramHandlers::Parts{
                              parts_.fabrics.all(), parts_.attended, *parts_.peers, *parts_.paths,
                              *parts_.datagram_paths, *parts_.watch, *parts_.probes,
                              *parts_.connections, *parts_.protocol, parts_.progress->delivery(),
                              parts_.progress->rings(), parts_.progress->departures(), counters_});
}

void CoreOpener::begin_reactions() {
    Departures& departures = parts_.progress->departures();
    parts_.connection_reactions.begin({rails(), *parts_.paths, *parts_.datagram_paths,
                                       *parts_.watch, *parts_.connections, *parts_.protocol,
                                       *parts_.progress, counters_});
    parts_.path_reactions.begin({rails(), parts_.shared.get(), *parts_.paths,
                                 parts_.migration.get(), *parts_.datagram_paths, *parts_.peers,
                                 *parts_.connections, *parts_.protocol, departures, counters_});
}

} // namespace adaptib
