// SPDX-License-Identifier: BSD-3-Clause
#include "connect/queue_pairs.h"

#include <algorithm>
#include <utility>

namespace adaptib {

namespace {

// Soft-RoCE leaves a slot free and rounds up, so 256 would be 511, with completions for as many.
constexpr std::uint32_t kSendDepth = 255;
constexpr Nanoseconds kFirstSilence{1'000'000'000};
constexpr std::uint32_t kMostSilenceDoublings = 4;

// As many as both ends take: a target refuses more, which ends the connection. One where the target
// takes none, so that the first is refused, and does not wait.
std::uint32_t reads_to(const RailInfo& here, const AddressRail& there) {
    return std::min(here.max_reads, std::max<std::uint32_t>(there.max_reads, 1));
}

} // namespace

// Gives the peer a subchannel for each path of the route, whose rails may have changed. REQUIRES:
// none has a queue pair.
void QueuePairs::set_subchannels(Peer& peer) {
    if (peer.lanes.subchannels.empty()) {
        peer.lanes.subchannels.resize(peer.contact.route.count);
        peer.lanes.scheduler = make_scheduler(context_.options.scheduler);
    }
    for (std::uint32_t i = 0; i < peer.contact.route.count; ++i) {
        Subchannel& subchannel = peer.lanes.subchannels[i];
        subchannel.local_rail = peer.contact.route.pairs[i].local;
        subchannel.remote_rail = peer.contact.route.pairs[i].remote;
        subchannel.path = peer.contact.route.pairs[i].path;
        subchannel.standby = context_.rails[subchannel.local_rail]->info().standby;
        const BytesPerSecond here = context_.rails[subchannel.local_rail]->info().rate;
        const BytesPerSecond there{peer.contact.address.rails[subchannel.remote_rail].rate *
                                   std::uint64_t{1'000'000}};
        const bool known = here.value > 0 && there.value > 0;
        subchannel.rate.value =
            known ? std::min(here.value, there.value) : std::max(here.value, there.value);
    }
}

Status QueuePairs::make_all(Peer& peer) {
    if (peer.lanes.live_subchannels() == 0) {
        set_subchannels(peer);
        peer.control.lane = kNoControlLane;
    }
    bool any = peer.interruption.repair.active;
    for (std::uint32_t i = 0; i < peer.lanes.subchannels.size() && !any; ++i) {
        any = context_.listener.is_usable(peer, i);
    }
    static_cast<void>(prepare(peer)); // meanwhile
    Status first = kOk;
    for (std::uint32_t i = 0; i < peer.lanes.subchannels.size(); ++i) {
        Subchannel& subchannel = peer.lanes.subchannels[i];
        if (subchannel.qp != nullptr || (any && !context_.listener.is_usable(peer, i))) {
            continue;
        }
        const Status status = make(peer, subchannel);
        if (status.wants_room() && !peer.interruption.repair.active) {
            drop_all(peer);
            return status;
        }
        if (!status.ok()) {
            first = first.ok() ? status : first;
            lose_path(peer, subchannel, status);
        }
    }
    return peer.lanes.live_subchannels() > 0 ? kOk : first;
}

Status QueuePairs::create(std::uint32_t rail, std::unique_ptr<QueuePair>& out) {
    QpInit init;
    init.type = QpType::rc;
    init.send_cq = context_.cqs[rail].get();
    init.receive_cq = context_.cqs[rail].get();
    init.send_depth = send_depth(rail);
    init.inline_bytes = context_.inline_bytes(rail);
    init.max_gather = std::min(kRingGather, context_.rails[rail]->info().max_gather);
    return context_.rails[rail]->create_qp(init, out);
}

Status QueuePairs::begin(QueuePair& qp) {
    QpAttributes attributes;
    attributes.state = QpState::init;
    attributes.access = kRemoteRead | kRemoteWrite | kRemoteAtomic;
    return qp.modify(attributes, kQpState | kQpAccess);
}

// Reuses the kept queue pair, or makes a new one, for which kept ones of others are destroyed if
// need be.
Status QueuePairs::make(Peer& peer, Subchannel& subchannel) {
    if (peer.connection.shared) {
        return make_shared(peer, subchannel);
    }
    std::unique_ptr<QueuePair> qp = ConnectionPool::take(peer, subchannel);
    if (qp == nullptr || !begin(*qp).ok()) {
        Status status = kOk;
        do {
            qp.reset();
            status = create(subchannel.local_rail, qp);
            status = status.ok() ? begin(*qp) : status;
        } while (status.wants_room() && pool_.destroy_oldest());
        if (!status.ok()) {
            return status;
        }
    }
    subchannel.qp = std::move(qp);
    note_owner(peer, subchannel);
    if (peer.contact.name != context_.options.self) {
        ++context_.counters.queue_pairs;
        context_.counters.queue_pairs_bytes += subchannel.qp->queue_bytes();
    }
    count();
    return kOk;
}

Status QueuePairs::prepare(const Peer& peer) {
    Status out = kOk;
    for (const Subchannel& subchannel : peer.lanes.subchannels) {
        out = prepare(peer, subchannel) == kNotYet ? kNotYet : out;
    }
    return out;
}

Status QueuePairs::prepare(const Peer& peer, const Subchannel& subchannel) {
    const AddressRail& remote = peer.contact.address.rails[subchannel.remote_rail];
    Rail& local = *context_.rails[subchannel.local_rail];
    return local.prepare_path(local.path_to({remote.size, remote.bytes}, subchannel.path));
}

Status QueuePairs::connect(Peer& peer, Subchannel& subchannel, const ConnectSubchannel& remote) {
    const RailInfo& info = context_.rails[subchannel.local_rail]->info();
    const AddressRail& rail = peer.contact.address.rails[remote.rail];
    subchannel.remote_rail = remote.rail;
    subchannel.remote_memory_key = remote.memory_key;
    subchannel.unordered = remote.unordered != 0;
    if (peer.connection.shared) {
        return set_destination(peer, subchannel, remote);
    }
    if (const Status status = prepare(peer, subchannel); !status.ok()) {
        return status;
    }
    QpAttributes attributes;
    attributes.state = QpState::ready_to_receive;
    attributes.path =
        context_.rails[subchannel.local_rail]->path_to({rail.size, rail.bytes}, remote.path);
    attributes.remote_qp = remote.qp;
    attributes.receive_psn = remote.psn;
    attributes.max_target_reads = info.max_reads;
    attributes.timeout = context_.options.answer_timeout;
    attributes.retry_count = context_.options.answer_retries;
    attributes.send_psn = first_packet(peer.connection.number, subchannel.qp->number());
    attributes.max_reads = reads_to(info, rail);
    std::uint32_t migration = 0;
    if (context_.options.migration != nullptr && peer.contact.name != context_.options.self) {
        const auto index = static_cast<std::size_t>(&subchannel - peer.lanes.subchannels.data());
        migration = context_.options.migration->specify(peer, index, attributes);
    }
    if (needs_cm_connect(peer, subchannel)) {
        return start_cm_connect(peer, subchannel, attributes, kCmConnectRequired | migration);
    }
    const Status status =
        subchannel.qp->modify(attributes, kQpState | kQpPath | kQpRemote | kQpReceiveLimits);
    if (!status.ok()) {
        return status;
    }
    attributes.state = QpState::ready_to_send;
    return subchannel.qp->modify(attributes,
                                 kQpState | kQpRetry | kQpSendPsn | kQpSendLimits | migration);
}

Status QueuePairs::start_cm_connect(Peer& peer, Subchannel& subchannel,
                                    const QpAttributes& attributes, std::uint32_t mask) {
    subchannel.cm_connect.step = CmConnectStep::under_way;
    subchannel.cm_connect.remote_qp = attributes.remote_qp;
    subchannel.cm_connect.again_at =
        context_.options.attended->now() +
        kFirstSilence * (1 << std::min(subchannel.cm_connect.failures, kMostSilenceDoublings));
    CmConnectParams cm_connect;
    cm_connect.initiates = peer.connection.cm_connect.initiates;
    cm_connect.token = peer.connection.cm_connect.token;
    return subchannel.qp->cm_connect(attributes, mask, cm_connect);
}

bool QueuePairs::needs_cm_connect(const Peer& peer, const Subchannel& subchannel) const {
    return peer.contact.name != context_.options.self &&
           context_.rails[subchannel.local_rail]->info().has(Capability::cm_connects);
}

Status QueuePairs::make_shared(Peer& peer, Subchannel& subchannel) {
    Status status = kOk;
    do {
        status =
            context_.options.shared->make(subchannel.local_rail, subchannel.path, peer.contact.name,
                                          peer.connection.quiet_work, subchannel.qp);
    } while (status.wants_room() && pool_.destroy_oldest());
    if (status.ok()) {
        note_owner(peer, subchannel);
    }
    context_.counters.initiators = context_.options.shared->initiators();
    context_.counters.initiators_replaced = context_.options.shared->replaced();
    return status;
}

Status QueuePairs::set_destination(Peer& peer, Subchannel& subchannel,
                                   const ConnectSubchannel& remote) {
    const AddressRail& rail = peer.contact.address.rails[remote.rail];
    Rail& local = *context_.rails[subchannel.local_rail];
    std::unique_ptr<AddressHandle> handle;
    const Status status =
        local.create_ah(local.path_to({rail.size, rail.bytes}, remote.path), handle);
    if (status.ok()) {
        peer.shared_queue_pair(subchannel)
            ->set_destination(std::move(handle), remote.qp, peer.connection.access_key);
    }
    return status;
}

std::unique_ptr<QueuePair> QueuePairs::take(Peer& peer, Subchannel& subchannel) {
    const auto index = static_cast<std::size_t>(&subchannel - peer.lanes.subchannels.data());
    if (index == peer.control.lane) {
        peer.in.credit_work.begin(); // its completion may never be seen
    }
    if (subchannel.qp == nullptr) {
        return nullptr;
    }
    if (context_.options.migration != nullptr) {
        context_.options.migration->forget(subchannel);
    }
    owners_.remove(peer, subchannel);
    std::unique_ptr<QueuePair> qp = std::move(subchannel.qp);
    subchannel.cm_connect = {};
    subchannel.outstanding = {};
    subchannel.timed = {};
    subchannel.reads = 0;
    subchannel.silence = {};
    subchannel.completions = 0;
    subchannel.refused = false;
    if (peer.contact.name != context_.options.self && !peer.connection.shared) {
        --context_.counters.queue_pairs;
        context_.counters.queue_pairs_bytes -= qp->queue_bytes();
    }
    count();
    return qp;
}

void QueuePairs::drop_all(Peer& peer) {
    for (Subchannel& subchannel : peer.lanes.subchannels) {
        drop(peer, subchannel);
    }
}

void QueuePairs::fail_all(Peer& peer) {
    QpAttributes attributes;
    attributes.state = QpState::error;
    peer.interruption.repair.failed_at =
        std::min(peer.interruption.repair.failed_at, context_.options.clock->now());
    for (Subchannel& subchannel : peer.lanes.subchannels) {
        if (subchannel.qp != nullptr && !spares(peer, subchannel)) {
            // A queue pair in no state to fail has nothing outstanding either.
            static_cast<void>(subchannel.qp->modify(attributes, kQpState));
        }
    }
}

// Returns true if other peers use the queue pair, and it may work.
bool QueuePairs::spares(const Peer& peer, const Subchannel& subchannel) const {
    return peer.connection.shared &&
           (peer.session.state == ConnectState::failed ||
            context_.rails[subchannel.local_rail]->state() == PortState::active);
}

// Leaves out this process itself as a peer: that may end with its connection.
void QueuePairs::note_owner(Peer& peer, const Subchannel& subchannel) {
    if (peer.contact.name != context_.options.self) {
        owners_.add(peer, subchannel);
    }
}

void QueuePairs::lose_path(Peer& peer, Subchannel& subchannel, const std::string& why) {
    const auto index = static_cast<std::size_t>(&subchannel - peer.lanes.subchannels.data());
    drop(peer, subchannel);
    context_.listener.on_path_unconnected(peer, index, why);
}

void QueuePairs::lose_path(Peer& peer, Subchannel& subchannel, Status status) {
    lose_path(peer, subchannel,
              std::string("its queue pair could not be connected: ") +
                  reason_text(status.reason()));
}

void QueuePairs::count() {
    context_.counters.queue_pairs_most =
        std::max(context_.counters.queue_pairs_most, context_.counters.queue_pairs);
}

std::uint32_t QueuePairs::send_depth(std::uint32_t rail) const {
    return std::min(kSendDepth, context_.rails[rail]->info().max_send_depth);
}

} // namespace adaptib
