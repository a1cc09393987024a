// SPDX-License-Identifier: BSD-3-Clause
// Creation of a core: rails and their queues, plans and parts, in the order of their dependencies.
//
// May touch: the same as core/core.h.
#include <algorithm>

#include "core/core.h"
#include "core/derived_options.h"

namespace adaptib {

namespace {

// Least length that active messages may have. Without a ring, those that no datagram can hold are
// sent in parts.
constexpr Bytes kActiveMax = CopyCosts::kSizes.back() + 256; // with the sender's headers

} // namespace

Core::Core(const Environment& environment)
    : environment_(environment), connection_reactions_(*environment.clock, environment.message),
      path_reactions_(environment.message), protocol_reactions_(broken_, environment.message),
      fabrics_(environment_) {}

Status Core::create(const Parameters& parameters, const Environment& environment,
                    std::vector<std::unique_ptr<Fabric>> fabrics, std::unique_ptr<Core>& out,
                    std::string& text) {
    std::unique_ptr<Core> core(new Core(environment));
    if (Status status = core->open(parameters, std::move(fabrics), text); !status.ok()) {
        return status;
    }
    out = std::move(core);
    return kOk;
}

Status Core::create(const Parameters& parameters, const Environment& environment,
                    std::unique_ptr<Fabric> fabric, std::unique_ptr<Core>& out, std::string& text) {
    std::vector<std::unique_ptr<Fabric>> fabrics;
    fabrics.push_back(std::move(fabric));
    return create(parameters, environment, std::move(fabrics), out, text);
}

Status Core::open(const Parameters& parameters, std::vector<std::unique_ptr<Fabric>> fabrics,
                  std::string& text) {
    if (Status status = fabrics_.attach(parameters, std::move(fabrics), text); !status.ok()) {
        return status;
    }
    open_migration(parameters);
    const std::uint32_t depth = completion_depth(rails());
    ProcessAddress address;
    address.version = environment_.wire_version;
    address.name = environment_.self;
    address.key = environment_.random->next();
    address.host = environment_.host;
    open_paths(parameters);
    const ChannelPlan channels = plan(parameters);
    open_sharing(parameters, channels);
    if (Status status = fabrics_.open_rails(
            {paths_->on(), attended_, path_reactions_, shared_.get(), migration_.get()}, depth,
            address, text);
        !status.ok()) {
        return status;
    }
    address_ = encode(address);
    open_connections(parameters, address.key, channels);
    open_protocol(parameters, depth, channels);
    open_peers();
    open_selection(parameters, channels);
    open_progress(parameters);
    begin_reactions();
    handlers_->listen();
    progress_->events().report_notices();
    check_threshold(parameters);
    return kOk;
}

// Warns, once in a job, by its first process, if the user set a striping threshold that has no
// effect on messages: those up to the eager limit are never cut.
void Core::check_threshold(const Parameters& parameters) {
    const Bytes threshold = parameters.striping_threshold;
    if (threshold == default_parameters().striping_threshold ||
        std::string_view(parameters.striping_policy) == "none" ||
        !environment_.is_first_process()) {
        return;
    }
    for (const AttachedFabric& attached : fabrics_.all()) {
        const bool fixed = attached.device || parameters.eager_limit >= 0;
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
void Core::check_atomics(const Parameters& parameters, std::span<const RailRange> fabrics) {
    if (std::string_view(parameters.atomics) == "adapter" && environment_.is_first_process() &&
        has_several_adapters(rails(), fabrics)) {
        environment_.message(
            Severity::notice,
            "opal_common_adaptib_atomics is \"adapter\", and there are rails of several "
            "adapters: atomics on one word that come through different adapters are not atomic "
            "with each other. Use \"target\" or \"auto\", or the rails of one adapter.");
    }
}

void Core::open_migration(const Parameters& parameters) {
    const std::string_view apm = parameters.apm;
    const RailList rails = fabrics_.rails();
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
    migration_ =
        std::make_unique<MigrationAgent>(rails, std::move(adapters), *environment_.counters);
}

void Core::open_paths(const Parameters& parameters) {
    if (parameters.partition_timeout > 0) {
        liveness_ = Liveness(std::chrono::seconds(parameters.partition_timeout));
    }
    PathRepository::Options options;
    options.on = std::string_view(parameters.fault_tolerance) == "on";
    options.host = environment_.host;
    options.clock = &attended_;
    paths_ =
        std::make_unique<PathRepository>(options, rails(), *environment_.counters, path_reactions_);
    failure_timeout_ = std::chrono::milliseconds(parameters.failure_timeout);
    datagram_paths_.emplace(rails(), *paths_, liveness_, path_reactions_);
    watch_.emplace(
        ProcessWatch::Options{environment_.clock, &attended_, environment_.random, &liveness_},
        rails(), *paths_, *datagram_paths_, *environment_.counters);
    PathProbes::Options probes;
    probes.timeout = failure_timeout_;
    probes.liveness = &liveness_;
    probes.witness = &*watch_;
    probes.life = &watch_->life();
    probes.clock = &attended_;
    probes.random = environment_.random;
    contacts_.emplace(rails(), *datagram_paths_, liveness_, *environment_.clock, path_reactions_);
    probes_ =
        std::make_unique<PathProbes>(probes, *paths_, *environment_.counters, *datagram_paths_);
}

ChannelPlan Core::plan(const Parameters& parameters) {
    ChannelPlan channels = plan_channels(parameters, channel_bounds(rails()));
    for (const std::string& notice : channels.notices) {
        environment_.message(Severity::notice, notice);
    }
    return channels;
}

void Core::open_sharing(const Parameters& parameters, const ChannelPlan& channels) {
    if (channels.sharing == Sharing::never) {
        return;
    }
    SharedQueuePairs::Options options;
    options.initiators = static_cast<std::uint32_t>(parameters.dc_initiators);
    options.self = environment_.self & 0xffffffffu;
    options.access_key = environment_.random->next() | 1;
    options.answer_timeout = answer_code(std::chrono::milliseconds(parameters.answer_timeout));
    options.answer_retries = static_cast<std::uint8_t>(parameters.answer_retries);
    options.inline_bytes = kRingInline;
    shared_ = std::make_unique<SharedQueuePairs>(options, rails(), fabrics_.cqs());
}

void Core::open_connections(const Parameters& parameters, std::uint64_t key,
                            const ChannelPlan& channels) {
    ConnectOptions connect;
    connect.self = environment_.self;
    connect.key = key;
    connect.ring_max = channels.rings;
    connect.scheduler = scheduler_options(parameters, environment_.local_rank);
    connect.fault_tolerance = paths_->on();
    connect.failure_timeout = failure_timeout_;
    connect.answer_timeout = answer_code(std::chrono::milliseconds(parameters.answer_timeout));
    connect.answer_retries = static_cast<std::uint8_t>(parameters.answer_retries);
    connect.liveness = &liveness_;
    connect.witness = &*watch_;
    connect.connect_max = channels.connections;
    connect.connect_pool = channels.kept;
    connect.clock = environment_.clock;
    connect.attended = &attended_;
    connect.random = environment_.random;
    connect.migration = migration_.get();
    connect.chosen_idle = std::min(connect.chosen_idle, channels.period);
    connect.own_pause = channels.period;
    connect.measure = environment_.measure;
    connect.sharing = channels.sharing;
    connect.shared = shared_.get();
    connections_ = std::make_unique<ConnectionManager>(
        connect, rails(), fabrics_.cqs(), *environment_.counters, connection_reactions_);
    startup_.emplace(
        Startup::Options{environment_.self, startup_mode(parameters), channels.connections},
        connection_reactions_);
}

void Core::open_selection(const Parameters& parameters, const ChannelPlan& channels) {
    const bool measured =
        channels.selects && std::string_view(parameters.channel_costs) == "measured";
    if (environment_.timed && measured) {
        meter_ = std::make_unique<CostMeter>();
    }
    ChannelSelection::Options options;
    options.selects = channels.selects;
    options.period = channels.period;
    options.sharing = channels.sharing;
    options.rings = channels.rings;
    options.costs =
        measured && shared_ != nullptr ? model_costs(parameters, rails()) : ChannelCosts{};
    options.meter = meter_.get();
    selection_.emplace(options, peers_->peers(), *connections_, *environment_.counters);
    if (channels.selects) {
        selection_->note_costs();
    }
}

void Core::open_protocol(const Parameters& parameters, std::uint32_t depth,
                         const ChannelPlan& channels) {
    const std::vector<AttachedFabric>& fabrics = fabrics_.all();
    Protocol::Options protocol;
    protocol.eager_limit = first_eager_limit(parameters);
    // One limit for all peers: the best one for peers of other hosts costs those of this host
    // little.
    protocol.active_eager = std::max_element(fabrics.begin(), fabrics.end(), [](auto& a, auto& b) {
                                return a.eager_limit < b.eager_limit;
                            })->eager_limit;
    protocol.active_max = fabrics[0].datagrams->capacity();
    for (const AttachedFabric& attached : fabrics) {
        protocol.active_max = std::min(protocol.active_max, attached.datagrams->capacity());
    }
    const std::vector<RailRange> ranges = fabrics_.ranges();
    protocol.active_max = std::max(protocol.active_max, kActiveMax);
    protocol.put = std::string_view(parameters.rendezvous) == "put";
    protocol.connect_threshold = channels.connect_threshold;
    protocol.block_bytes = parameters.block_bytes;
    protocol.block_depth = static_cast<std::size_t>(parameters.block_depth);
    protocol.clock = environment_.clock;
    const bool cached = wants_registration_cache(parameters, rails()) &&
                        environment_.watch_memory && environment_.watch_memory();
    protocol.registration_cache = cached ? parameters.registration_cache : 0;
    protocol.self = environment_.self;
    protocol.unexpected_most = unexpected_memory(parameters, environment_.local_processes);
    protocol.serves_atomics = serves_atomics(parameters, rails(), ranges, paths_->on());
    check_atomics(parameters, ranges);
    protocol.transfers.clock = environment_.clock;
    protocol.transfers.interleave = std::chrono::microseconds{parameters.interleave};
    protocol.transfers.max_outstanding = depth / 2; // the rest: signaled ring writes and flushes
    protocol_ = std::make_unique<Protocol>(protocol, rails(), ranges, *connections_,
                                           *environment_.counters, protocol_reactions_);
}

void Core::open_peers() {
    PeerDirectory::Options options;
    options.self = environment_.self;
    options.host = environment_.host;
    options.wire_version = environment_.wire_version;
    options.bootstrap = environment_.bootstrap;
    options.address = &address_;
    options.message = environment_.message;
    peers_.emplace(options,
                   PeerDirectory::Parts{fabrics_.all(), fabrics_.routes(), *paths_,
                                        *datagram_paths_, *contacts_, watch_->ended(),
                                        *connections_, *protocol_, *environment_.counters});
}

void Core::open_progress(const Parameters& parameters) {
    progress_.emplace(ProgressEngine::Options{static_cast<std::uint32_t>(parameters.idle_looks),
                                              failure_timeout_},
                      environment_,
                      ProgressEngine::Parts{fabrics_, attended_, shared_.get(), *paths_,
                                            migration_.get(), *datagram_paths_, *contacts_, *watch_,
                                            *probes_, *peers_, *connections_, *protocol_, *startup_,
                                            *selection_, meter_.get(), broken_, path_reactions_,
                                            path_reactions_});
    handlers_.emplace(failure_timeout_,
                      DatagramHandlers::Parts{fabrics_.all(), attended_, *peers_, *paths_,
                                              *datagram_paths_, *watch_, *probes_, *connections_,
                                              *protocol_, progress_->delivery(),
                                              progress_->departures(), *environment_.counters});
}

void Core::begin_reactions() {
    Departures& departures = progress_->departures();
    connection_reactions_.begin({rails(), *paths_, *datagram_paths_, *watch_, *peers_,
                                 *connections_, *protocol_, *progress_, *environment_.counters});
    path_reactions_.begin({rails(), shared_.get(), *paths_, migration_.get(), *datagram_paths_,
                           *peers_, *connections_, *protocol_, departures});
    protocol_reactions_.begin(departures);
}

} // namespace adaptib
