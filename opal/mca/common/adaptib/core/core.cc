// SPDX-License-Identifier: BSD-3-Clause
// The core's life (core/core.h).
#include "core/core.h"

#include <algorithm>

namespace adaptib {

namespace {

constexpr std::uint32_t kCompletionDepth = 4096;

} // namespace

Core::Core(const Environment& environment, std::unique_ptr<Fabric> fabric)
    : environment_(environment), counters_(*environment.counters), fabric_(std::move(fabric)) {}

Status Core::create(const Parameters& parameters, const Environment& environment,
                    std::unique_ptr<Fabric> fabric, std::unique_ptr<Core>& out, std::string& text) {
    std::unique_ptr<Core> core(new Core(environment, std::move(fabric)));
    if (Status status = core->open(parameters, text); !status.ok()) {
        return status;
    }
    out = std::move(core);
    return kOk;
}

Status Core::open(const Parameters& parameters, std::string& text) {
    const auto rails = fabric_->rails();
    if (rails.empty()) {
        text = "The fabric has no rail that is up.";
        return Status::error(Reason::no_device);
    }
    ProcessAddress address;
    address.version = environment_.wire_version;
    address.name = environment_.self;
    address.key = environment_.random->next();
    address.host = environment_.host;
    Rail& first = *rails[0];
    Status status = DatagramChannel::create(first, {address.name, address.key}, *environment_.clock,
                                            counters_, datagrams_);
    const std::size_t rail_count = std::min<std::size_t>(rails.size(), kMaxRails);
    std::uint32_t depth = kCompletionDepth;
    for (std::size_t i = 0; i < rail_count; ++i) {
        depth = std::min(depth, rails[i]->info().max_cq_depth);
    }
    for (std::size_t i = 0; i < rail_count && status.ok(); ++i) {
        status = rails[i]->create_cq(depth, cqs_.emplace_back());
    }
    if (!status.ok()) {
        text = "The rail " + first.info().name +
               " cannot be used: " + reason_text(status.reason()) + ".";
        return status;
    }
    for (std::size_t i = 0; i < rail_count; ++i) {
        const RailAddress at = rails[i]->address();
        address.rails.push_back({at.size, at.bytes, i == 0 ? datagrams_->qp_number() : 0});
    }
    address_ = encode(address);
    PathListener& paths = *this;
    ConnectionListener& connection_events = *this;
    ProtocolListener& protocol_events = *this;
    for (std::uint32_t rail = 0; rail < rail_count; ++rail) {
        filters_.emplace_back(rail, *cqs_[rail], paths);
    }
    ConnectionManager::Options connect;
    connect.self = environment_.self;
    connect.ring_bytes = parameters.ring_bytes;
    connect.ring_max = static_cast<std::uint64_t>(parameters.ring_max);
    connect.scheduler = scheduler_options(parameters);
    connections_ =
        std::make_unique<ConnectionManager>(connect, rails, cqs_, counters_, connection_events);
    Protocol::Options protocol;
    protocol.eager_limit = parameters.eager_limit;
    protocol.active_max = datagrams_->capacity();
    protocol.put = std::string_view(parameters.rendezvous) == "put";
    protocol.connect_threshold = static_cast<std::uint32_t>(parameters.connect_threshold);
    protocol.block_depth = static_cast<std::size_t>(parameters.block_depth);
    protocol.clock = environment_.clock;
    protocol.registration_cache = registration_cache_bytes(parameters);
    protocol.max_outstanding = depth / 2; // the rest is for signaled ring writes and flushes
    protocol_ = std::make_unique<Protocol>(protocol, rails, parameters.block_bytes, *connections_,
                                           counters_, protocol_events);
    datagrams_->on_failure([this](std::uint64_t to, WorkStatus why) {
        if (Peer* peer = peers_.find(to); peer != nullptr) {
            protocol_->on_peer_failed(*peer, std::string(work_status_text(why)) + " on rail " +
                                                 datagrams_->rail().info().name);
        }
    });
    datagrams_->resolve_by([this](std::uint64_t from, std::uint64_t key) {
        Peer* peer = sender_of(from, key);
        return peer == nullptr ? nullptr : &peer->datagram;
    });
    receiver_ = [this](std::uint64_t from, std::uint64_t key, const MessageHeader& header,
                       const std::byte* body) { on_datagram(from, key, header, body); };
    for (const std::string& notice : fabric_->notices()) {
        environment_.message(Severity::notice, notice);
    }
    return kOk;
}

SchedulerOptions Core::scheduler_options(const Parameters& parameters) const {
    SchedulerOptions options;
    options.multiplexing = parameters.multiplexing_policy;
    options.striping = parameters.striping_policy;
    options.position = static_cast<std::uint32_t>(environment_.self);
    options.striping_threshold = parameters.striping_threshold;
    options.min_stripe = parameters.min_stripe;
    options.window = static_cast<std::uint32_t>(parameters.window);
    options.alpha = parameters.adaptive_alpha;
    options.bss_paths = static_cast<std::uint32_t>(parameters.bss_paths);
    options.bss_batch = static_cast<std::uint32_t>(parameters.bss_batch);
    return options;
}

// Rails that reach all memory need no registrations.
Bytes Core::registration_cache_bytes(const Parameters& parameters) const {
    const auto rails = fabric_->rails();
    const bool all = std::all_of(rails.begin(), rails.end(), [](const auto& rail) {
        return rail->info().has(Capability::whole_memory);
    });
    const bool kept = !all && parameters.registration_cache > 0 && environment_.watch_memory;
    return kept && environment_.watch_memory() ? parameters.registration_cache : 0;
}

// Queue pairs go before the memory that they use.
Core::~Core() {
    if (protocol_ != nullptr) {
        peers_.for_each([this](Peer& peer) {
            connections_->close(peer, ConnectState::failed);
            protocol_->forget(peer);
        });
    }
    if (loopback_ != nullptr) {
        connections_->close(*loopback_, ConnectState::failed);
    }
    protocol_.reset();
    peers_.clear();
    counters_.peers = 0;
}

void Core::drain(Nanoseconds limit) {
    const Nanoseconds end = environment_.clock->now() + limit;
    do {
        progress();
    } while ((protocol_->retry_due() || connections_->retry_due() || datagrams_->unacknowledged() ||
              !drained_rings()) &&
             environment_.clock->now() < end);
}

bool Core::drained_rings() {
    bool drained = finished_.empty();
    peers_.for_each([&](Peer& peer) {
        if (peer.state == ConnectState::open && peer.ring_out != nullptr) {
            drained = peer.ring_out->flushed() && drained;
        }
    });
    return drained;
}

std::string Core::report() const {
    return traffic_report(counters_, "process " + std::to_string(environment_.self & 0xffffffffu) +
                                         " on " + environment_.host);
}

// ---------------------------------------------------------------------------------------------------
// What the parts tell

void Core::on_ring_offered(Peer& peer) { hot_.emplace_back(peer); }

void Core::on_ring_withdrawn(Peer& peer) {
    std::erase_if(hot_, [&](const HotRing& ring) { return ring.peer == &peer; });
    std::erase(cold_, &peer);
}

void Core::on_connected(Peer& peer) { protocol_->on_connected(peer); }

void Core::on_connect_failed(Peer& peer, Status status, const std::string& what) {
    protocol_->on_peer_failed(peer, what + " (" + reason_text(status.reason()) + ")");
}

void Core::on_notice(const std::string& text) { environment_.message(Severity::notice, text); }

void Core::on_path_failed(std::uint32_t rail, std::uint32_t qp_number, WorkStatus status) {
    const auto look = [&](Peer& peer) {
        for (const Subchannel& subchannel : peer.subchannels) {
            // One that was answered and takes its end down has no use for the connection any more.
            if (subchannel.local_rail == rail && subchannel.qp->number() == qp_number &&
                !peer.finishing) {
                protocol_->on_peer_failed(peer, std::string(work_status_text(status)) +
                                                    " on rail " +
                                                    fabric_->rails()[rail]->info().name);
            }
        }
    };
    peers_.for_each(look);
    if (loopback_ != nullptr) {
        look(*loopback_);
    }
}

void Core::on_failure(const std::string& text) { environment_.message(Severity::failure, text); }

void Core::on_peer_finished(Peer& peer) { finished_.push_back(&peer); }

} // namespace adaptib
