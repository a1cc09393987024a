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
// A learned eager limit is at most 1/kRingShare of a ring, since several messages are under way at
// a time.
constexpr Bytes kRingShare = 4;
constexpr std::size_t kMostLearnt = CopyCosts::kSizes.back(); // the highest learned eager limit

constexpr std::int64_t kLooks = 8; // polls, at least, before a timeout counts as a failure

} // namespace

Core::Core(const Environment& environment)
    : environment_(environment), counters_(*environment.counters) {}

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
    fabrics_.reserve(fabrics.size()); // an AttachedFabric must not move
    std::size_t room = kMaxRails;
    for (std::unique_ptr<Fabric>& fabric : fabrics) {
        const std::size_t others = fabrics.size() - fabrics_.size() - 1; // each gets at least one
        if (Status status = attach(parameters, std::move(fabric), room - others, text);
            !status.ok()) {
            return status;
        }
        room = kMaxRails - rails_.size();
    }
    std::vector<RailRange> ranges;
    for (const AttachedFabric& attached : fabrics_) {
        ranges.push_back(attached.rails);
    }
    routes_.emplace(Routes::Options{environment_.self, environment_.host, environment_.left_out,
                                    static_cast<std::uint32_t>(parameters.paths_per_port)},
                    rails_, ranges);
    open_migration(parameters);
    const std::uint32_t depth = completion_depth(rails_);
    ProcessAddress address;
    address.version = environment_.wire_version;
    address.name = environment_.self;
    address.key = environment_.random->next();
    address.host = environment_.host;
    open_paths(parameters);
    const ChannelPlan channels = plan(parameters);
    cqs_.resize(rails_.size());
    open_sharing(parameters, channels);
    if (Status status = open_rails(depth, address, text); !status.ok()) {
        return status;
    }
    address_ = encode(address);
    open_connections(parameters, address.key, channels);
    open_protocol(parameters, depth, channels);
    open_peers();
    open_selection(parameters, channels);
    open_rings(parameters);
    for (std::uint32_t i = 0; i < fabrics_.size(); ++i) {
        listen(i);
    }
    events_->report_notices();
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
    for (const AttachedFabric& attached : fabrics_) {
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
        has_several_adapters(rails_, fabrics)) {
        environment_.message(
            Severity::notice,
            "opal_common_adaptib_atomics is \"adapter\", and there are rails of several "
            "adapters: atomics on one word that come through different adapters are not atomic "
            "with each other. Use \"target\" or \"auto\", or the rails of one adapter.");
    }
}

// Attaches the fabric's first rails, as many as there is room for.
Status Core::attach(const Parameters& parameters, std::unique_ptr<Fabric> fabric, std::size_t room,
                    std::string& text) {
    const auto rails = fabric->rails();
    if (rails.empty()) {
        text = "The fabric has no rail that is up.";
        return Status::error(Reason::no_device);
    }
    RailRange range;
    range.first = static_cast<std::uint32_t>(rails_.size());
    range.count = static_cast<std::uint32_t>(std::min(rails.size(), room));
    for (std::size_t i = 0; i < range.count; ++i) {
        rails_.push_back(rails[i].get());
    }
    if (rails.size() > range.count) {
        environment_.message(Severity::notice,
                             "Of " + std::to_string(rails.size()) + " rails from " +
                                 rails[0]->info().name + " on, the first " +
                                 std::to_string(range.count) + " are used: there is room for " +
                                 std::to_string(kMaxRails) + " rails of all kinds.");
    }
    const LinkLayer link = rails[0]->info().link_layer;
    const bool device = link == LinkLayer::infiniband || link == LinkLayer::ethernet;
    Bytes eager_limit = parameters.verbs_eager_limit;
    Bytes most_eager = 0;
    if (!device) {
        eager_limit = first_eager_limit(parameters);
        counters_.eager_limit_bytes = eager_limit;
        if (parameters.eager_limit < 0 && fabric->copy_costs()) {
            most_eager = std::min(parameters.ring_bytes / kRingShare, kMostLearnt);
        }
    }
    const bool direct = rails[0]->info().has(Capability::direct);
    const bool target_assisted = direct && std::string_view(parameters.small_one_sided) == "auto";
    const std::string_view long_copies = parameters.long_copies;
    const bool cooperative_copies = direct && long_copies != "alone";
    AttachedFabric attached;
    attached.fabric = std::move(fabric);
    attached.poll_hint = attached.fabric->poll_hint();
    attached.rails = range;
    attached.eager_limit = eager_limit;
    attached.device = device;
    attached.most_eager = most_eager;
    attached.cooperative_copies = cooperative_copies;
    if (long_copies == "together") {
        attached.only_copies = CooperativeCopyChoices::kCooperative;
    } else if (long_copies == "staged") {
        attached.only_copies = CooperativeCopyChoices::kStaged;
    }
    attached.ring_bytes = device ? parameters.verbs_ring_bytes : parameters.ring_bytes;
    attached.target_assisted = target_assisted;
    fabrics_.push_back(std::move(attached));
    return kOk;
}

bool Core::migrates(std::uint32_t rail) const {
    return migration_ != nullptr && rails_[rail]->info().has(Capability::migration);
}

std::uint8_t Core::rail_flags(std::uint32_t rail) const {
    const bool shares = shared_ != nullptr && shared_->is_open(rail);
    return static_cast<std::uint8_t>((migrates(rail) ? kRailMigrates : 0) |
                                     (shares ? kRailShares : 0));
}

void Core::open_migration(const Parameters& parameters) {
    const std::string_view apm = parameters.apm;
    const bool able = std::any_of(rails_.begin(), rails_.end(), [](const Rail* rail) {
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
    for (std::uint32_t rail = 0; rail < rails_.size(); ++rail) {
        adapters.push_back(first_of_adapter(rails_, rail));
    }
    migration_ = std::make_unique<MigrationAgent>(rails_, std::move(adapters), counters_);
}

// Opens the queues of each rail, and fills in how peers reach it.
Status Core::open_rails(std::uint32_t depth, ProcessAddress& address, std::string& text) {
    PathListener& paths = *this;
    for (AttachedFabric& attached : fabrics_) {
        Rail& first = *rails_[attached.rails.first];
        const RailList all = RailList(rails_).subspan(attached.rails.first, attached.rails.count);
        // Datagrams use the first rail alone if paths never change.
        const bool several =
            paths_->on() && std::all_of(all.begin(), all.end(), [](const Rail* rail) {
                return rail->info().has(Capability::ud);
            });
        Status status = DatagramChannel::create(several ? all : all.first(1), attached.rails.first,
                                                {address.name, address.key}, attended_, counters_,
                                                attached.datagrams);
        if (status.ok()) {
            open_responder(attached, address);
        }
        Rail* failed = &first;
        for (std::uint32_t i = attached.rails.first; i < attached.rails.end() && status.ok(); ++i) {
            failed = rails_[i];
            status = rails_[i]->create_cq(depth, cqs_[i]);
            if (status.ok()) {
                attached.filters.emplace_back(i, *cqs_[i], paths);
                open_target(i);
                const RailAddress at = rails_[i]->address();
                attached.addresses.push_back(at);
                const std::uint32_t port = i - attached.rails.first;
                const bool datagrams = port < attached.datagrams->ports();
                address.rails.push_back(
                    {at.size, at.bytes, datagrams ? attached.datagrams->qp_number(port) : 0,
                     datagrams ? attached.fabric->responder_qp(port) : 0, routes_->paths_of(i),
                     first_of_adapter(rails_, i), rail_flags(i), routes_->published_rate(i),
                     rails_[i]->info().name});
            }
        }
        if (!status.ok()) {
            const std::string why = failed->last_error_text();
            text = "The rail " + failed->info().name +
                   " cannot be used: " + reason_text(status.reason()) + "." +
                   (why.empty() ? "" : " " + why + ".");
            return status;
        }
    }
    return kOk;
}

void Core::open_paths(const Parameters& parameters) {
    if (parameters.partition_timeout > 0) {
        liveness_ = Liveness(std::chrono::seconds(parameters.partition_timeout));
    }
    PathRepository::Options options;
    options.on = std::string_view(parameters.fault_tolerance) == "on";
    options.host = environment_.host;
    options.clock = &attended_;
    PathObserver& observer = *this;
    paths_ = std::make_unique<PathRepository>(options, rails_, counters_, observer);
    failure_timeout_ = std::chrono::milliseconds(parameters.failure_timeout);
    PeerFailureListener& failures = *this;
    datagram_paths_.emplace(rails_, *paths_, liveness_, failures);
    watch_.emplace(
        ProcessWatch::Options{environment_.clock, &attended_, environment_.random, &liveness_},
        rails_, *paths_, *datagram_paths_, counters_);
    PathProbes::Options probes;
    probes.timeout = failure_timeout_;
    probes.liveness = &liveness_;
    probes.witness = &*watch_;
    probes.life = &watch_->life();
    probes.clock = &attended_;
    probes.random = environment_.random;
    ContactListener& contact_events = *this;
    contacts_.emplace(rails_, *datagram_paths_, liveness_, *environment_.clock, contact_events);
    probes_ = std::make_unique<PathProbes>(probes, *paths_, counters_, *datagram_paths_);
    silence_ = std::make_unique<SilenceWatch>(
        SilenceWatch::Options{failure_timeout_, environment_.clock}, *paths_);
}

ChannelPlan Core::plan(const Parameters& parameters) {
    ChannelPlan channels = plan_channels(parameters, channel_bounds(rails_));
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
    shared_ = std::make_unique<SharedQueuePairs>(options, rails_, cqs_);
}

// A rail that has no room for a DC target is used like one without dynamically connected queue
// pairs.
void Core::open_target(std::uint32_t rail) {
    const RailInfo& info = rails_[rail]->info();
    if (shared_ == nullptr || !connects_dynamically(info)) {
        return;
    }
    if (const Status status = shared_->open(rail); !status.ok()) {
        environment_.message(
            Severity::notice,
            "Rail " + info.name + " of host " + environment_.host +
                " has no dynamically connected target (" + reason_text(status.reason()) +
                "): its peers get queue pairs of their own, as far as there is room.");
    }
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
    ConnectionListener& connection_events = *this;
    connections_ =
        std::make_unique<ConnectionManager>(connect, rails_, cqs_, counters_, connection_events);
    StartupListener& startup_events = *this;
    startup_.emplace(
        Startup::Options{environment_.self, startup_mode(parameters), channels.connections},
        startup_events);
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
        measured && shared_ != nullptr ? model_costs(parameters, rails_) : ChannelCosts{};
    options.meter = meter_.get();
    selection_.emplace(options, peers_->peers(), *connections_, counters_);
    if (channels.selects) {
        selection_->note_costs();
    }
    if (environment_.maps_sources) {
        sources_.emplace(peers_->peers(), environment_.clock->now());
    }
}

void Core::open_protocol(const Parameters& parameters, std::uint32_t depth,
                         const ChannelPlan& channels) {
    Protocol::Options protocol;
    protocol.eager_limit = first_eager_limit(parameters);
    // One limit for all peers: the best one for peers of other hosts costs those of this host
    // little.
    protocol.active_eager =
        std::max_element(fabrics_.begin(), fabrics_.end(), [](auto& a, auto& b) {
            return a.eager_limit < b.eager_limit;
        })->eager_limit;
    protocol.active_max = fabrics_[0].datagrams->capacity();
    std::vector<RailRange> ranges;
    for (const AttachedFabric& attached : fabrics_) {
        protocol.active_max = std::min(protocol.active_max, attached.datagrams->capacity());
        ranges.push_back(attached.rails);
    }
    protocol.active_max = std::max(protocol.active_max, kActiveMax);
    protocol.put = std::string_view(parameters.rendezvous) == "put";
    protocol.connect_threshold = channels.connect_threshold;
    protocol.block_bytes = parameters.block_bytes;
    protocol.block_depth = static_cast<std::size_t>(parameters.block_depth);
    protocol.clock = environment_.clock;
    const bool cached = wants_registration_cache(parameters, rails_) && environment_.watch_memory &&
                        environment_.watch_memory();
    protocol.registration_cache = cached ? parameters.registration_cache : 0;
    protocol.self = environment_.self;
    protocol.unexpected_most = unexpected_memory(parameters, environment_.local_processes);
    protocol.serves_atomics = serves_atomics(parameters, rails_, ranges, paths_->on());
    check_atomics(parameters, ranges);
    protocol.transfers.clock = environment_.clock;
    protocol.transfers.interleave = std::chrono::microseconds{parameters.interleave};
    protocol.transfers.max_outstanding = depth / 2; // the rest: signaled ring writes and flushes
    ProtocolListener& protocol_events = *this;
    protocol_ = std::make_unique<Protocol>(protocol, rails_, ranges, *connections_, counters_,
                                           protocol_events);
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
                   PeerDirectory::Parts{fabrics_, *routes_, *paths_, *datagram_paths_, *contacts_,
                                        watch_->ended(), *connections_, *protocol_, counters_});
}

void Core::open_rings(const Parameters& parameters) {
    delivery_.emplace(*protocol_, *environment_.clock);
    credit_.emplace(*connections_, rails_, meter_.get(), *environment_.clock, counters_);
    rings_.emplace(RingPoller::Options{static_cast<std::uint32_t>(parameters.idle_looks),
                                       environment_.tight_ticks, environment_.yields},
                   *protocol_, *delivery_, *credit_, counters_);
    departures_.emplace(fabrics_, *peers_, *paths_, *connections_, *protocol_, *rings_);
    PathListener& path_failures = *this;
    PeerFailureListener& peer_failures = *this;
    events_.emplace(environment_.host, environment_.message,
                    FabricEvents::Parts{fabrics_, rails_, shared_.get(), *paths_, migration_.get(),
                                        *datagram_paths_, *connections_, *peers_, *departures_,
                                        path_failures, peer_failures});
}

void Core::listen(std::uint32_t fabric) {
    DatagramChannel& datagrams = *fabrics_[fabric].datagrams;
    datagrams.retransmitter().judge_by(
        [this, fabric](const DatagramTarget& target, Nanoseconds since) {
            Peer* peer = peers_->find(target.name, fabric);
            return peer == nullptr ? DatagramChannel::Standing::doubtful
                                   : watch_->standing_of(*peer, since);
        });
    datagrams.retransmitter().on_failure([this, fabric](std::uint64_t to, WorkStatus why) {
        if (Peer* peer = peers_->find(to, fabric); peer != nullptr && !departures_->leaves(*peer)) {
            protocol_->on_peer_failed(
                *peer, std::string(work_status_text(why)) + " on rail " +
                           peer->contact.channel.rail(peer->contact.datagram.port).info().name);
        }
    });
    datagrams.on_probe([this, fabric](std::uint64_t from, std::uint64_t key, std::uint32_t port,
                                      std::uint8_t rail, const MessageHeader& header,
                                      const std::byte* body) {
        on_probe(fabric, from, key, port, rail, header, body);
    });
    if (paths_->on()) {
        tolerate_faults(fabric);
    }
    datagrams.retransmitter().resolve_by([this, fabric](std::uint64_t from, std::uint64_t key) {
        Peer* peer = peers_->sender_of(fabric, from, key);
        return peer == nullptr ? nullptr : &peer->contact.datagram;
    });
    fabrics_[fabric].receiver = [this, fabric](std::uint64_t from, std::uint64_t key,
                                               const MessageHeader& header, const std::byte* body) {
        on_datagram(fabric, from, key, header, body);
    };
}

void Core::tolerate_faults(std::uint32_t fabric) {
    const auto find = [this, fabric](std::uint64_t name) -> DatagramTarget* {
        Peer* peer = peers_->find(name, fabric);
        return peer == nullptr || peer->contact.datagram.handle == nullptr
                   ? nullptr
                   : &peer->contact.datagram;
    };
    const auto path_failed = [this, fabric](DatagramTarget& target,
                                            DatagramChannel::PathFailure failure,
                                            WorkStatus status) {
        Peer* peer = peers_->find(target.name, fabric);
        if (peer != nullptr && peer->session.state != ConnectState::failed &&
            !departures_->leaves(*peer)) {
            datagram_paths_->on_failure(*peer, failure, status);
        }
    };
    const auto answered = [this, fabric](DatagramTarget& target) {
        Peer* peer = peers_->find(target.name, fabric);
        if (peer != nullptr && DatagramPaths::heard_over(
                                   *peer, target.pair)) { // else the answer is for an earlier path
            paths_->report_success(*peer, target.pair);
        }
    };
    if (fabrics_[fabric].datagrams->linked()) { // else lost datagrams stay lost
        attended_.at_most(failure_timeout_ / kLooks);
        fabrics_[fabric].datagrams->retransmitter().tolerate(failure_timeout_, find, path_failed,
                                                             answered);
    }
}

void Core::open_responder(AttachedFabric& attached, const ProcessAddress& address) {
    const auto& rails = attached.fabric->rails();
    if (rails[0]->info().link_layer == LinkLayer::memory) {
        return; // the operating system says whether processes of this host live
    }
    auto answerer = std::make_unique<LifeAnswerer>(address.name, address.key, attached.rails.first);
    for (std::uint32_t i = 0; i < attached.rails.count; ++i) {
        answerer->set_address(i, rails[i]->address());
    }
    if (attached.fabric->respond(*answerer, address.key).ok()) {
        attached.answerer = std::move(answerer);
    }
}

} // namespace adaptib
