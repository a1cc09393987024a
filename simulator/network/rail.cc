// SPDX-License-Identifier: BSD-3-Clause
// The simulated fabric and its rails: creates objects and checks their arguments.
#include "simulator/network/rail.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "fabric/qp_rules.h"
#include "simulator/network/queues.h"
#include "simulator/network/rc.h"
#include "simulator/network/responder.h"
#include "simulator/network/sim_fabric.h"
#include "simulator/network/ud.h"

namespace adaptib::sim {

namespace {

constexpr std::uint32_t kMaxCqDepth = 1u << 20;
constexpr Bytes kMaxMessage = 2 * kGiB;
// Limit of one region that a rail allocates; no process has more memory.
constexpr Bytes kMostMemory = Bytes{1} << 40;
constexpr Bytes kPage = 4096;
constexpr std::uint32_t kAddressMagic = 0x736d6c64;

struct WireAddress {
    std::uint32_t magic = kAddressMagic;
    std::uint32_t lid = 0;
    std::uint32_t port = 0; // as a GID, it stays what it is
};

bool decode(const RailAddress& address, WireAddress& out) {
    if (address.size != sizeof out) {
        return false;
    }
    std::memcpy(&out, address.bytes.data(), sizeof out);
    return out.magic == kAddressMagic;
}

bool refuses_right(const RailInfo& info, std::uint32_t access) {
    return (access & kRemoteAtomic) != 0 && !info.has(Capability::atomic64);
}

} // namespace

// -------------------------------------------------------------------------------------------------
// Fabric

SimFabric::SimFabric(World& world, Process& process) : world_(world), process_(process) {
    const Host& host = world.topology().hosts[process.host()];
    for (const PortIndex port : host.ports) {
        rails_.push_back(std::make_unique<SimRail>(world, *this, process, port,
                                                   static_cast<std::uint32_t>(rails_.size())));
    }
}

SimFabric::~SimFabric() {
    responders_.clear();
    rails_.clear();
    process_.seen(events_.size());
    world_.leave(this);
}

Status SimFabric::respond_impl(const Answerer& answerer, std::uint64_t access_key) {
    if (!world_.options().responders) {
        return Status::error(Reason::not_supported);
    }
    for (std::uint32_t i = 0; i < rails_.size(); ++i) {
        auto& rail = static_cast<SimRail&>(*rails_[i]);
        Responding& responding = responders_.emplace_back();
        responding.cq = std::make_unique<SimCompletionQueue>(rail);
        QpInit init;
        init.type = QpType::ud;
        init.send_cq = init.receive_cq = responding.cq.get();
        init.send_depth = init.receive_depth = 1;
        responding.responder = std::make_unique<Responder>(rail, init, i, answerer, access_key);
        if (const Status status = responding.responder->enter(); !status.ok()) {
            responders_.clear();
            return status;
        }
    }
    return kOk;
}

std::uint32_t SimFabric::responder_qp_impl(std::uint32_t rail) const {
    return rail < responders_.size() ? responders_[rail].responder->number() : 0;
}

void SimFabric::raise(const adaptib::Event& event) {
    if (world_.trace) {
        world_.tell("host %u rail %u event %d qp %u", process_.host(), event.rail,
                    static_cast<int>(event.kind), event.qp_number);
    }
    events_.push_back(event);
    process_.add_unseen();
}

void SimFabric::port_changed(PortIndex port, bool up) {
    raise_on(port, up ? EventKind::port_active : EventKind::port_error);
}

void SimFabric::address_changed(PortIndex port) { raise_on(port, EventKind::address_changed); }

void SimFabric::raise_on(PortIndex port, EventKind kind) {
    for (std::uint32_t i = 0; i < rails_.size(); ++i) {
        if (static_cast<SimRail&>(*rails_[i]).port() == port) {
            raise({kind, i, 0, nullptr});
        }
    }
}

bool SimFabric::poll_event_impl(adaptib::Event& out) {
    if (events_.empty()) {
        return false;
    }
    out = events_.front();
    events_.pop_front();
    process_.seen(1);
    if (out.kind == EventKind::port_active || out.kind == EventKind::address_changed) {
        static_cast<SimRail&>(*rails_[out.rail]).read_address(); // as over verbs
    }
    return true;
}

// -------------------------------------------------------------------------------------------------
// Rail

SimRail::SimRail(World& world, SimFabric& fabric, Process& process, PortIndex port,
                 std::uint32_t index)
    : world_(world), fabric_(fabric), process_(process), port_(port), index_(index),
      lid_(world.topology().ports[port].lid) {
    const MachineModel& m = world.machine();
    const Port& at = world.topology().ports[port];
    info_.name = world.topology().nodes[at.adapter].name + ":" + std::to_string(at.number);
    info_.adapter = world.topology().nodes[at.adapter].name;
    info_.port = static_cast<std::uint8_t>(at.number);
    info_.link_layer = LinkLayer::simulated;
    const auto offer = [this](bool has, Capability c) {
        info_.capabilities |= has ? static_cast<std::uint32_t>(c) : 0u;
    };
    offer(m.offers.rc, Capability::rc);
    offer(m.offers.ud, Capability::ud);
    offer(m.offers.dc && m.offers.srq, Capability::dc);
    offer(m.offers.srq, Capability::srq);
    offer(m.offers.read, Capability::rdma_read);
    offer(m.offers.rc, Capability::rdma_write);
    offer(m.offers.rc, Capability::write_imm);
    offer(m.offers.atomics, Capability::atomic64);
    offer(m.offers.migration, Capability::migration);
    offer(m.offers.reliable_ud, Capability::reliable_ud);
    info_.rate = world.topology().links[at.link].rate;
    info_.paths = 1u << world.topology().lmc;
    info_.datagram_bytes = m.limits.mtu;
    info_.max_message_bytes = kMaxMessage;
    info_.inline_bytes = m.limits.inline_bytes;
    info_.target_change = m.dc.connect + m.dc.disconnect;
    info_.max_gather = std::min(m.limits.max_gather, kMaxGather); // a queue here keeps no more
    info_.max_send_depth = m.limits.max_send_depth;
    info_.max_cq_depth = kMaxCqDepth;
    info_.max_reads = m.limits.max_reads;
    info_.places_in_order = info_.target_places_in_order = world.options().scrambled_writes == 0;
    info_.packet_life = world.options().packet_life;
}

PortState SimRail::state_impl() const {
    return world_.network().port_up(port_) ? PortState::active : PortState::down;
}

void SimRail::read_address() {
    const Lid now = world_.topology().ports[port_].lid;
    if (std::exchange(lid_, now) != now) {
        ++address_changes_;
    }
}

RailAddress SimRail::address_impl() const {
    RailAddress address;
    const WireAddress words{.lid = lid_, .port = port_};
    address.size = sizeof words;
    address.changes = address_changes_;
    std::memcpy(address.bytes.data(), &words, sizeof words);
    return address;
}

bool SimRail::is_reachable_impl(const RailAddress& remote) const {
    WireAddress at;
    return decode(remote, at);
}

// 1 if a route leads to the remote rail: both are in one network.
std::uint32_t SimRail::subnet_match_impl(const RailAddress& remote) const {
    WireAddress at;
    return decode(remote, at) && world_.network().leads(port_, at.lid) ? 1 : 0;
}

PathSpec SimRail::path_to_impl(const RailAddress& remote, std::uint32_t index) const {
    PathSpec path;
    path.remote = remote;
    path.lid_offset = static_cast<std::uint8_t>(index);
    path.source_path_bits = static_cast<std::uint8_t>(index);
    return path;
}

Path* SimRail::path(const PathSpec& spec) {
    WireAddress at;
    if (!decode(spec.remote, at) || spec.lid_offset >= info_.paths) {
        return nullptr;
    }
    PortIndex from = port_;
    if (spec.source_port != 0 && spec.source_port != info_.port) {
        const auto& ports = world_.topology().ports;
        const auto other = std::find_if(ports.begin(), ports.end(), [&](const Port& port) {
            return port.adapter == ports[port_].adapter && port.number == spec.source_port;
        });
        if (other == ports.end()) {
            return nullptr;
        }
        from = static_cast<PortIndex>(other - ports.begin());
    }
    const Lid lid = at.port == port_ ? lid_ : at.lid; // as over verbs (path.cc)
    return world_.network().path(from, lid + spec.lid_offset);
}

Path* SimRail::path_back(const RailAddress& told, std::uint32_t index) {
    WireAddress at;
    return decode(told, at) && index < info_.paths ? world_.network().path(port_, at.lid + index)
                                                   : nullptr;
}

void SimRail::raise(EventKind kind, std::uint32_t qp_number, SharedReceiveQueue* srq) {
    fabric_.raise({kind, index_, qp_number, srq});
}

Status SimRail::create_cq_impl(std::uint32_t depth, std::unique_ptr<CompletionQueue>& out) {
    if (depth == 0 || depth > kMaxCqDepth) {
        return Status::error(Reason::bad_argument);
    }
    out = std::make_unique<SimCompletionQueue>(*this);
    return kOk;
}

Status SimRail::create_srq_impl(std::uint32_t depth, std::unique_ptr<SharedReceiveQueue>& out) {
    if (!info_.has(Capability::srq)) {
        return Status::error(Reason::not_supported);
    }
    if (depth == 0 || depth > info_.max_send_depth) {
        return Status::error(Reason::bad_argument);
    }
    out = std::make_unique<SimSharedReceiveQueue>(*this, depth);
    return kOk;
}

Status SimRail::check(const QpInit& init) const {
    if (const Status status = check_init(init, info_); !status.ok()) {
        return status;
    }
    const auto here = [this](SimRail& rail) { return &rail == this; };
    if (!here(static_cast<SimCompletionQueue*>(init.send_cq)->rail()) ||
        !here(static_cast<SimCompletionQueue*>(init.receive_cq)->rail()) ||
        (init.srq != nullptr && !here(static_cast<SimSharedReceiveQueue*>(init.srq)->rail()))) {
        return Status::error(Reason::bad_argument);
    }
    return kOk;
}

Status SimRail::create_qp_impl(const QpInit& init, std::unique_ptr<QueuePair>& out) {
    if (const Status status = check(init); !status.ok()) {
        return status;
    }
    std::unique_ptr<SimQueuePair> qp;
    if (init.type == QpType::ud) {
        qp = std::make_unique<UdQueuePair>(*this, init);
    } else {
        qp = std::make_unique<RcQueuePair>(*this, init);
    }
    const Status status = qp->enter();
    if (status.ok()) {
        process_.charge(world_.machine().processor.queue_pair);
        out = std::move(qp);
    }
    return status;
}

Status SimRail::create_ah_impl(const PathSpec& spec, std::unique_ptr<AddressHandle>& out) {
    Path* way = path(spec);
    if (way == nullptr) {
        return Status::error(Reason::unreachable);
    }
    out = std::make_unique<SimAddressHandle>(*way);
    return kOk;
}

Status SimRail::register_impl(void* address, Bytes length, std::uint32_t access,
                              std::unique_ptr<MemoryRegion>& out) {
    const auto base = reinterpret_cast<std::uintptr_t>(address);
    if (!region_is_sane(address, length, access)) {
        return Status::error(Reason::bad_argument);
    }
    if ((address == nullptr && length == kWholeMemory) || refuses_right(info_, access)) {
        return Status::error(Reason::not_supported);
    }
    std::uint32_t key = 0;
    const Status status = regions_.add(base, length, access, false, key);
    if (status.ok()) {
        const auto pages = static_cast<std::int64_t>((length + kPage - 1) / kPage);
        process_.charge(world_.machine().processor.registration +
                        world_.machine().processor.registration_page * pages);
        out = std::make_unique<SimMemoryRegion>(regions_, address, length, key, nullptr);
    }
    return status;
}

Status SimRail::allocate_impl(Bytes length, std::uint32_t access,
                              std::unique_ptr<MemoryRegion>& out) {
    if (length == 0 || !access_is_sane(access)) {
        return Status::error(Reason::bad_argument);
    }
    if (refuses_right(info_, access)) {
        return Status::error(Reason::not_supported);
    }
    if (length > kMostMemory) {
        return Status::error(Reason::no_memory);
    }
    // With many ranks in this process, calloc keeps the untouched pages of large memory free of
    // cost.
    SimMemoryRegion::Memory memory(static_cast<std::byte*>(std::calloc(length + kCacheLine, 1)));
    std::uint32_t key = 0;
    if (memory == nullptr) {
        return Status::error(Reason::no_memory);
    }
    auto* at = reinterpret_cast<std::byte*>(
        round_up(reinterpret_cast<std::uintptr_t>(memory.get()), kCacheLine));
    const Status status =
        regions_.add(reinterpret_cast<std::uintptr_t>(at), length, access, true, key);
    if (status.ok()) {
        out = std::make_unique<SimMemoryRegion>(regions_, at, length, key, std::move(memory));
    }
    return status;
}

} // namespace adaptib::sim
