// SPDX-License-Identifier: BSD-3-Clause
// A rail: its limits, and creation of objects.
#include "fabric/verbs/rail.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/invariant.h"
#include "fabric/qp_rules.h"
#include "fabric/verbs/dc.h"
#include "fabric/verbs/errors.h"
#include "fabric/verbs/memory.h"
#include "fabric/verbs/qp.h"
#include "fabric/verbs/queues.h"

namespace adaptib::verbs {

namespace {

constexpr std::array<Bytes, 6> kInlineSteps{512, 256, 128, 64, 32, 0};
constexpr std::uint32_t kProbeDepth = 16;

std::uint32_t limit(int value) { return value > 0 ? static_cast<std::uint32_t>(value) : 0; }

// Memory that a queue of requests pins, for an error text: about the hardware's size of a request.
Bytes queue_bytes(std::uint32_t depth, std::uint32_t gather) {
    return Bytes{depth} * (64 + Bytes{16} * gather);
}

// Makes the processes of a host take different routes. A process takes the same ones to all peers
// behind a port, which so share their address handles.
std::uint16_t flow_of(std::uint64_t owner) {
    return static_cast<std::uint16_t>((owner * 0x9e3779b97f4a7c15) >> 48);
}

bool is_connectx(const Device& device) {
    constexpr std::uint32_t kMellanox = 0x02c9;
    return device.limits().vendor_id == kMellanox || device.mlx5() != nullptr;
}

// Connects a queue pair in RESET with itself. Returns true if it is in RTS then.
bool connect_with_itself(const Device& device, const Port& port, const VerbsOptions& options,
                         ibv_qp* qp) {
    PathVector found;
    std::string why;
    const PathSpec path = path_to(port, encode_address(port, 0, nullptr), 0);
    if (!path_vector(port, path, options, Traffic::connection, found, why).ok()) {
        return false;
    }
    ibv_qp_attr a{};
    a.pkey_index = found.pkey_index;
    a.port_num = port.number;
    a.path_mtu = found.mtu;
    a.ah_attr = found.attributes;
    a.dest_qp_num = qp->qp_num;
    const auto move = [&](ibv_qp_state state, int mask) {
        a.qp_state = state;
        return device.calls().modify_qp(qp, &a, IBV_QP_STATE | mask) == 0;
    };
    return move(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) &&
           move(IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) &&
           move(IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                 IBV_QP_MAX_QP_RD_ATOMIC);
}

// Asks a queue pair that is connected with itself: ConnectX tells only in RTS. Connections get the
// same answer: libmlx5 asks firmware about the queue pair (mlx5_query_qp_data_in_order), and this
// one differs from theirs in destination and packet numbers alone. Adaptive routing belongs to a
// service level of InfiniBand, which is the same, too, unless rdma_cm chooses it for each path.
bool places_in_order(const Device& device, const Port& port, const VerbsOptions& options,
                     ibv_qp* qp) {
    const bool any_level =
        options.rdma_cm != nullptr && !port.ethernet() && options.service_level == 0;
    if (any_level && is_connectx(device)) {
        return false;
    }
    return trusts_order(device, device.calls().writes_in_order(qp)) ||
           (connect_with_itself(device, port, options, qp) &&
            trusts_order(device, device.calls().writes_in_order(qp)));
}

// Lowers inline_bytes to what the queue pair really got: some drivers accept any and give none.
bool try_qp(const VerbsRail& rail, RailInfo& info, ibv_cq* cq, ibv_qp_type type,
            Bytes& inline_bytes, int& error) {
    const Device& device = rail.device();
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = type;
    const std::uint32_t depth = std::min(kProbeDepth, info.max_send_depth);
    init.cap = {depth, depth, info.max_gather, info.max_gather + (type == IBV_QPT_UD ? 1u : 0u),
                static_cast<std::uint32_t>(inline_bytes)};
    errno = 0;
    ibv_qp* qp = device.calls().create_qp(device.pd(), &init);
    if (qp == nullptr) {
        error = error_number(-1);
        return false;
    }
    inline_bytes = std::min<Bytes>(inline_bytes, init.cap.max_inline_data);
    if (type == IBV_QPT_RC) {
        info.places_in_order = places_in_order(device, rail.port(), rail.options(), qp);
    }
    device.calls().destroy_qp(qp);
    return true;
}

// Adds what AddressHandles has found out.
void explain(Status status, const VerbsRail& rail, const PathVector& path,
             std::string& error_text) {
    if (status != kUnanswered) {
        return;
    }
    const std::uint32_t index = path.attributes.grh.sgid_index;
    ibv_gid_entry entry{};
    const bool there = rail.calls().query_gid_ex(rail.device().context(), rail.port().number, index,
                                                 &entry, 0) == 0;
    error_text = there ? "no answer to ARP or neighbor discovery from " +
                             gid_address_text(path.attributes.grh.dgid)
                       : "the port's GID " + std::to_string(index) +
                             " is empty: its network interface lacks the address now";
}

// Some drivers refuse relaxed ordering.
bool takes_region(Rail& rail) {
    std::unique_ptr<MemoryRegion> memory;
    std::unique_ptr<MemoryRegion> trial;
    return rail.allocate(kCacheLine, kLocalWrite, memory).ok() &&
           rail.register_memory(memory->address(), kCacheLine, kLocalWrite, trial).ok();
}

// Finds the inline limit by trial, because no call reports it.
bool try_inline(const VerbsRail& rail, ibv_cq* cq, ibv_qp_type type, RailInfo& info, int& error) {
    for (Bytes step : kInlineSteps) {
        if (try_qp(rail, info, cq, type, step, error)) {
            info.inline_bytes = std::min(info.inline_bytes, step);
            return true;
        }
    }
    return false;
}

} // namespace

// Drivers that do not know the question answer "not guaranteed". Of these, soft-RoCE copies packet
// after packet. Where the library lacks the question (rdma-core before 39), ConnectX may place in
// any order; other devices count as ones that place in order, as for Open MPI's and UCX's
// transports that poll on memory.
bool trusts_order(const Device& device, int answer) {
    return answer > 0 || device.limits().vendor_id == kSoftRoceVendor ||
           (answer < 0 && !is_connectx(device));
}

VerbsRail::VerbsRail(Device& device, const Port& port, const VerbsOptions& options,
                     std::uint32_t index, std::uint64_t owner)
    : device_(device), port_(port), options_(options), index_(index), owner_(owner) {
    const ibv_device_attr& d = device_.limits();
    port_.flow = flow_of(owner_);
    info_.name = device_.name() + ":" + std::to_string(port_.number);
    info_.link_layer = port_.ethernet() ? LinkLayer::ethernet : LinkLayer::infiniband;
    info_.rate = port_rate(port_.attributes);
    info_.packet_life = packet_life(port_.attributes);
    info_.numa_node = device_.numa_node();
    info_.distance = device_.distance();
    info_.paths = port_.ethernet() ? kRocePaths : 1u << port_.attributes.lmc;
    info_.adapter = device_.name();
    info_.port = port_.number;
    info_.standby = port_.standby;
    info_.copies_at_fork = calls().is_fork_initialized() == IBV_FORK_UNNEEDED;
    // A receive of a datagram needs one entry for the GRH.
    std::uint32_t gather = std::min(kMaxGather, limit(d.max_sge) - (limit(d.max_sge) > 1 ? 1 : 0));
    for (const int other : {d.max_sge_rd, d.max_srq_sge}) {
        gather = other > 0 ? std::min(gather, limit(other)) : gather;
    }
    info_.max_gather = std::max(gather, 1u);
    info_.max_send_depth = limit(d.max_qp_wr);
    info_.max_queue_pairs = limit(d.max_qp);
    info_.max_cq_depth = limit(d.max_cqe);
    info_.max_reads = std::min({limit(d.max_qp_rd_atom), limit(d.max_qp_init_rd_atom), 255u});
}

VerbsRail::~VerbsRail() {
    ADAPTIB_INVARIANT(rearming_.empty() && suspects_.empty(), "queue pairs end before their rail",
                      rearming_.size(), suspects_.size());
}

// -------------------------------------------------------------------------------------------------
// Trial of what the device really offers

Status VerbsRail::probe(std::string& error_text) {
    ADAPTIB_INVARIANT(info_.capabilities == 0 && grh_region_ == nullptr, "a rail is tried once",
                      info_.capabilities);
    const auto fail = [&](const char* what, int error) {
        const Status status =
            memory_status(error, queue_bytes(kProbeDepth, kMaxGather), error_text);
        if (error_text.empty()) {
            error_text = std::string(what) + ": " + std::strerror(error);
        }
        return status;
    };
    error_text.clear();
    errno = 0;
    ibv_cq* cq = calls().create_cq(device_.context(), kProbeDepth, nullptr, nullptr, 0);
    if (cq == nullptr) {
        return fail("cannot create a completion queue", error_number(-1));
    }
    queues_grow_ = device_.resizes_safely() && calls().resize_cq(cq, 2 * kProbeDepth) == 0;
    int error = 0;
    info_.inline_bytes = kInlineSteps[0];
    const bool rc = try_inline(*this, cq, IBV_QPT_RC, info_, error);
    const bool ud = try_inline(*this, cq, IBV_QPT_UD, info_, error);
    calls().destroy_cq(cq);
    if (!rc && !ud) {
        return fail("cannot create a queue pair", error);
    }
    if (!ud) { // as HiSilicon's HIP08
        const Status status = fail("has no datagrams (UD), which adaptib needs", error);
        return status.wants_room() ? status : Status::error(Reason::not_supported);
    }
    const ibv_device_attr& d = device_.limits();
    const auto offer = [this](bool has, Capability c) {
        info_.capabilities |= has ? static_cast<std::uint32_t>(c) : 0u;
    };
    offer(rc, Capability::rc);
    offer(ud, Capability::ud);
    offer(d.max_srq > 0, Capability::srq);
    offer(rc, Capability::rdma_write);
    offer(rc, Capability::write_imm);
    offer(rc && info_.max_reads > 0, Capability::rdma_read);
    offer(rc && info_.max_reads > 0 && d.atomic_cap != IBV_ATOMIC_NONE, Capability::atomic64);
    // The device of soft-RoCE claims this; only its port tells the truth.
    offer(rc && (d.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG) != 0 &&
              (port_.attributes.port_cap_flags & IBV_PORT_AUTO_MIGR_SUP) != 0,
          Capability::migration);
    info_.datagram_bytes = ud ? mtu_bytes(port_.attributes.active_mtu) : 0;
    info_.max_message_bytes = rc ? port_.attributes.max_msg_sz : 0;
    if (ud) {
        if (const Status status = allocate(kGrhBytes, kLocalWrite, grh_region_); !status.ok()) {
            error_text = last_error_text_.empty() ? std::string("cannot register memory: ") +
                                                        reason_text(status.reason())
                                                  : last_error_text_;
            return status;
        }
        grh_ = {reinterpret_cast<std::uintptr_t>(grh_region_->address()), kGrhBytes,
                grh_region_->local_key()};
    }
    info_.relaxes_order = options_.relaxed_ordering;
    info_.relaxes_order = info_.relaxes_order && takes_region(*this);
    last_error_text_.clear(); // the caller has not asked for this trial
    probe_dc();
    return kOk;
}

// Tries both ends, with an SRQ and, where the rail has them, atomics. Users of DC need no more than
// these flags.
void VerbsRail::probe_dc() {
    dc_limits_ = {info_.inline_bytes, info_.max_reads, false};
    if (!info_.has(Capability::rc) || !info_.has(Capability::srq)) {
        dc_lacks_ = info_.has(Capability::rc) ? "the device has no shared receive queues"
                                              : "the device has no connected queue pairs";
        return;
    }
    if (try_dc(*this, dc_limits_, dc_lacks_)) {
        info_.capabilities |= static_cast<std::uint32_t>(Capability::dc);
        info_.inline_bytes = dc_limits_.inline_bytes;
        info_.target_places_in_order = dc_limits_.places_in_order;
    }
    last_error_text_.clear(); // the caller has not asked for this trial
}

Status VerbsRail::open_cm_service(std::string& error_text) {
    ADAPTIB_INVARIANT(cm_service_ == nullptr, "a rail has one service", index_);
    if (options_.rdma_cm == nullptr) {
        return kOk;
    }
    if (!info_.has(Capability::rc)) {
        error_text = "has no connected queue pairs for rdma_cm";
        return Status::error(Reason::not_supported);
    }
    const Status status = open_rdma_cm(*this, *options_.rdma_cm, cm_service_, error_text);
    info_.capabilities |= status.ok() ? static_cast<std::uint32_t>(Capability::cm_connects) : 0u;
    return status;
}

// -------------------------------------------------------------------------------------------------
// Rail's interface

PortState VerbsRail::state_impl() const {
    return down_ || !port_.active() ? PortState::down : PortState::active;
}

RailAddress VerbsRail::address_impl() const {
    return encode_address(port_, owner_,
                          cm_service_ == nullptr ? nullptr : &cm_service_->address());
}

// Counts equal leading bits of the GID: on InfiniBand of the subnet prefix, on RoCE of the whole
// GID with its IP address.
std::uint32_t VerbsRail::subnet_match_impl(const RailAddress& remote) const {
    WireAddress wire{};
    if (!decode_address(remote, wire) || wire.link_layer != port_.attributes.link_layer) {
        return 0;
    }
    const std::size_t bytes = port_.ethernet() ? sizeof wire.gid : sizeof wire.gid / 2;
    for (std::size_t i = 0; i < bytes; ++i) {
        const auto other = static_cast<std::uint8_t>(wire.gid[i] ^ port_.gid.gid.raw[i]);
        if (other != 0) {
            return 1 + static_cast<std::uint32_t>(8 * i) +
                   static_cast<std::uint32_t>(std::countl_zero(other));
        }
    }
    return 1 + static_cast<std::uint32_t>(8 * bytes);
}

std::uint32_t VerbsRail::paths_to_impl(const RailAddress& remote) const {
    return verbs::paths_to(port_, remote);
}

PathSpec VerbsRail::path_to_impl(const RailAddress& remote, std::uint32_t index) const {
    return verbs::path_to(port_, remote, index);
}

Bytes VerbsRail::datagram_bytes_to_impl(const RailAddress& remote) const {
    WireAddress wire{};
    return decode_address(remote, wire) ? std::min(info_.datagram_bytes, mtu_bytes(wire.mtu))
                                        : info_.datagram_bytes;
}

// A DC queue pair has one MTU and one P_Key for all peers.
bool VerbsRail::dc_suits_impl(const RailAddress& remote) const {
    WireAddress wire{};
    std::string why;
    return decode_address(remote, wire) &&
           wire.mtu == static_cast<std::uint8_t>(port_.attributes.active_mtu) &&
           check_datagrams(port_.partitions, decode_partitions(remote), why);
}

// Does not check that both are on one network: that shows when a connection is made, and
// path_vector then says what is wrong.
bool VerbsRail::is_reachable_impl(const RailAddress& remote) const {
    WireAddress wire{};
    return decode_address(remote, wire);
}

// A port that is not active tells neither its GID nor its partition: it keeps the old ones.
void VerbsRail::read_again(bool anew) {
    Port port;
    std::string why;
    const bool read = read_port(device_, port_.number, options_, port, why).ok();
    if (anew) {
        rearming_.clear();
        suspects_.clear();
        fatal_.clear();
        grh_.lkey = grh_region_ == nullptr ? 0 : grh_region_->local_key();
        broken_ = report_broken_ = false;
        down_ = true;
        ++port_.changes; // its queue pairs have other numbers
        ++openings_;
    }
    if (read) {
        down_ = broken_ || !port.active();
        if (port.active()) {
            renew_port(port_, port);
        }
    }
}

Status VerbsRail::refuse(int error, Bytes needed) {
    ADAPTIB_INVARIANT(error > 0, "a failure has an error number", error);
    return memory_status(error, needed, last_error_text_);
}

Status VerbsRail::create_cq_impl(std::uint32_t depth, std::unique_ptr<CompletionQueue>& out) {
    if (depth == 0 || depth > info_.max_cq_depth) {
        return Status::error(Reason::bad_argument);
    }
    auto made = std::make_unique<VerbsCompletionQueue>(*this);
    if (const int error = made->create(depth); error != 0) {
        return refuse(error, queue_bytes(depth, 0));
    }
    out = std::move(made);
    return kOk;
}

Status VerbsRail::create_srq_impl(std::uint32_t depth, std::unique_ptr<SharedReceiveQueue>& out) {
    if (!info_.has(Capability::srq)) {
        return Status::error(Reason::not_supported);
    }
    if (depth == 0 || depth > limit(device_.limits().max_srq_wr)) {
        return Status::error(Reason::bad_argument);
    }
    auto made = std::make_unique<VerbsSharedReceiveQueue>(*this, depth);
    if (const int error = made->create(); error != 0) {
        return refuse(error, queue_bytes(depth, info_.max_gather));
    }
    out = std::move(made);
    return kOk;
}

Status VerbsRail::check(const QpInit& init) {
    if (const Status status = check_init(init, info_); !status.ok()) {
        if (init.type >= QpType::dc_initiator && !info_.has(Capability::dc)) {
            last_error_text_ = "no DC queue pairs: " + dc_lacks_;
        }
        return status;
    }
    // A datagram's receive has an entry for the GRH before it, a connection's has not.
    if (init.type == QpType::ud && init.srq != nullptr) {
        return Status::error(Reason::not_supported);
    }
    const auto elsewhere = [this](const VerbsRail& rail) { return &rail != this; };
    if (elsewhere(static_cast<VerbsCompletionQueue*>(init.send_cq)->rail()) ||
        elsewhere(static_cast<VerbsCompletionQueue*>(init.receive_cq)->rail()) ||
        (init.srq != nullptr &&
         elsewhere(static_cast<VerbsSharedReceiveQueue*>(init.srq)->rail()))) {
        return Status::error(Reason::bad_argument);
    }
    return kOk;
}

Status VerbsRail::create_qp_impl(const QpInit& init, std::unique_ptr<QueuePair>& out) {
    if (const Status status = check(init); !status.ok()) {
        return status;
    }
    if (device_.lost()) { // its completion queues may be none
        return Status::error(Reason::no_device);
    }
    std::unique_ptr<VerbsQueuePair> made = init.type >= QpType::dc_initiator
                                               ? new_dc_queue_pair(*this, init)
                                               : std::make_unique<VerbsQueuePair>(*this, init);
    ADAPTIB_INVARIANT(made != nullptr, "a rail with DC makes DC queue pairs", init.type);
    if (const int error = made->create(); error != 0) {
        return refuse(error, bytes_of_queues({init.send_depth, init.receive_depth, init.max_gather,
                                              init.max_gather,
                                              static_cast<std::uint32_t>(init.inline_bytes)}));
    }
    out = std::move(made);
    return kOk;
}

Status VerbsRail::create_ah_impl(const PathSpec& path, std::unique_ptr<AddressHandle>& out) {
    PathVector found;
    if (const Status checked =
            path_vector(port_, path, options_, Traffic::datagrams, found, last_error_text_);
        !checked.ok()) {
        return checked;
    }
    SharedAh ah;
    const Status status = device_.handles().find(found.attributes, port_.ethernet(), ah);
    if (status.ok()) {
        out = std::make_unique<VerbsAddressHandle>(std::move(ah));
    }
    explain(status, *this, found, last_error_text_);
    return status;
}

// Other errors show when the path is used.
Status VerbsRail::prepare_path_impl(const PathSpec& path) {
    PathVector found;
    if (!port_.ethernet() ||
        !path_vector(port_, path, options_, Traffic::connection, found, last_error_text_).ok()) {
        return kOk;
    }
    const Status status = device_.handles().prepare(found.attributes);
    explain(status, *this, found, last_error_text_);
    return status;
}

Status VerbsRail::register_impl(void* address, Bytes length, std::uint32_t access,
                                std::unique_ptr<MemoryRegion>& out) {
    return register_memory_of(*this, address, length, access, out);
}

Status VerbsRail::register_file_impl(const FileRange& file, void* address, Bytes length,
                                     std::uint32_t access, std::unique_ptr<MemoryRegion>& out) {
    return register_file_of(*this, file, address, length, access, out);
}

Status VerbsRail::allocate_impl(Bytes length, std::uint32_t access,
                                std::unique_ptr<MemoryRegion>& out) {
    return allocate_memory(*this, length, access, out);
}

} // namespace adaptib::verbs
