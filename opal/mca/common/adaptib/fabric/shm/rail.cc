// SPDX-License-Identifier: BSD-3-Clause
// Creates the objects of a rail.
#include "fabric/shm/rail.h"

#include <utility>

#include "base/invariant.h"
#include "fabric/qp_rules.h"
#include "fabric/shm/completion.h"
#include "fabric/shm/rc.h"
#include "fabric/shm/ud.h"

namespace adaptib::shm {

namespace {

template <class T, class... Arguments> std::unique_ptr<T> make(Arguments&&... arguments) {
    return std::make_unique<T>(std::forward<Arguments>(arguments)...);
}

} // namespace

// -------------------------------------------------------------------------------------------------
// Memory

ShmMemoryRegion::ShmMemoryRegion(Context& context, void* address, Bytes length, std::uint32_t key,
                                 Bytes offset)
    : MemoryRegion(address, length), context_(context), offset_(offset) {
    ADAPTIB_INVARIANT(context.regions().find(key) != nullptr,
                      "a region is in the table before it is used", key);
    local_key_ = key;
    remote_key_ = key;
}

ShmMemoryRegion::~ShmMemoryRegion() {
    ADAPTIB_INVARIANT(context_.regions().find(remote_key_) != nullptr,
                      "a region that ends is in the table", remote_key_);
    context_.regions().remove(remote_key_);
    if (offset_ == kPrivate) {
        context_.fence_user_memory();
    } else {
        context_.release_block(offset_);
    }
}

Status ShmMemoryRegion::commit_impl(Bytes offset, Bytes length) {
    ADAPTIB_INVARIANT(is_within(offset, length, 0, length_), "a region commits its own memory",
                      offset, length, length_);
    return offset_ == kPrivate ? kOk : context_.segment().commit_block(offset_ + offset, length);
}

bool ShmMemoryRegion::discard_impl(Bytes offset, Bytes length) {
    ADAPTIB_INVARIANT(is_within(offset, length, 0, length_), "a region discards its own memory",
                      offset, length, length_);
    return offset_ != kPrivate && context_.segment().discard(offset_ + offset, length);
}

Status ShmRail::register_impl(void* address, Bytes length, std::uint32_t access,
                              std::unique_ptr<MemoryRegion>& out) {
    const auto base = reinterpret_cast<std::uintptr_t>(address);
    if (!region_is_sane(address, length, access)) {
        return Status::error(Reason::bad_argument);
    }
    if (address == nullptr && length == kWholeMemory &&
        (!info_.has(Capability::whole_memory) || (access & kRemoteAtomic) != 0)) {
        return Status::error(Reason::not_supported);
    }
    // Peers can map memory of another rail's allocate() over this rail, too.
    Bytes offset = kPrivate;
    static_cast<void>(context_.segment().find(address, length, offset));
    ADAPTIB_AUDIT(offset == kPrivate || context_.segment().at(offset) == address,
                  "memory of the segment has one offset", offset, address);
    std::uint32_t key = 0;
    const Status status = context_.regions().add(base, length, index_, access, offset, key);
    if (status.ok()) {
        out = make<ShmMemoryRegion>(context_, address, length, key, kPrivate);
    }
    return status;
}

Status ShmRail::allocate_impl(Bytes length, std::uint32_t access,
                              std::unique_ptr<MemoryRegion>& out) {
    return allocate(length, length, false, access, out);
}

Status ShmRail::allocate_sparse_impl(Bytes length, Bytes first, std::uint32_t access,
                                     std::unique_ptr<MemoryRegion>& out) {
    return allocate(length, first, true, access, out);
}

Status ShmRail::allocate(Bytes length, Bytes first, bool sparse, std::uint32_t access,
                         std::unique_ptr<MemoryRegion>& out) {
    if (length == 0 || !access_is_sane(access)) {
        return Status::error(Reason::bad_argument);
    }
    Bytes offset = 0;
    OwnSegment& segment = context_.segment();
    if (const Status status = sparse ? segment.allocate_sparse(length, first, offset)
                                     : segment.allocate(length, offset);
        !status.ok()) {
        context_.note_no_memory();
        return status;
    }
    std::byte* at = segment.at(offset);
    std::uint32_t key = 0;
    const Status status = context_.regions().add(reinterpret_cast<std::uintptr_t>(at), length,
                                                 index_, access, offset, key);
    if (!status.ok()) {
        context_.segment().release(offset);
        return status;
    }
    out = make<ShmMemoryRegion>(context_, at, length, key, offset);
    return kOk;
}

// -------------------------------------------------------------------------------------------------
// Rail

ShmRail::ShmRail(Context& context, std::uint32_t index, BytesPerSecond rate)
    : context_(context), index_(index) {
    ADAPTIB_INVARIANT(index < kMaxRails, "a segment has room for the rail", index);
    info_.name = "shm" + std::to_string(index);
    info_.link_layer = LinkLayer::memory;
    for (const Capability c :
         {Capability::rc, Capability::ud, Capability::srq, Capability::rdma_read,
          Capability::rdma_write, Capability::write_imm, Capability::atomic64,
          Capability::reliable_ud, Capability::direct, Capability::sees_regions}) {
        info_.capabilities |= static_cast<std::uint32_t>(c);
    }
    if (context.single_copy().allowed()) {
        info_.capabilities |= static_cast<std::uint32_t>(Capability::whole_memory);
    }
    info_.rate = rate;
    info_.datagram_bytes = kDatagramBytes;
    info_.max_message_bytes = kMaxMessage;
    info_.inline_bytes = kMaxInline;
    info_.max_gather = kMaxGather;
    info_.max_send_depth = kMaxDepth;
    info_.max_cq_depth = kMaxCqDepth;
    info_.max_reads = kMaxReads;
    info_.synchronous_rma = true;
}

PortState ShmRail::state_impl() const {
    return (context_.rails().word(index_) & kRailDown) != 0 ? PortState::down : PortState::active;
}

RailAddress ShmRail::address_impl() const { return context_.segment().address(index_); }

bool ShmRail::is_reachable_impl(const RailAddress& remote) const {
    WireAddress wire{};
    if (!PeerSegment::decode(remote, wire)) {
        return false;
    }
    const WireAddress own = context_.segment().wire_address(index_);
    ADAPTIB_AUDIT(reach_each_other(own, wire) == reach_each_other(wire, own),
                  "both ends come to the same result", own.pid, wire.pid);
    return reach_each_other(own, wire);
}

std::string ShmRail::why_out_of_reach_impl(const RailAddress& remote) const {
    WireAddress wire{};
    if (!PeerSegment::decode(remote, wire)) {
        return {};
    }
    const WireAddress own = context_.segment().wire_address(index_);
    return own.host == wire.host ? why_not_open(own.visibility, wire.visibility) : std::string();
}

Status ShmRail::create_cq_impl(std::uint32_t depth, std::unique_ptr<CompletionQueue>& out) {
    if (depth == 0 || depth > kMaxCqDepth) {
        return Status::error(Reason::bad_argument);
    }
    out = make<ShmCompletionQueue>(context_, index_);
    return kOk;
}

Status ShmRail::create_srq_impl(std::uint32_t depth, std::unique_ptr<SharedReceiveQueue>& out) {
    if (depth == 0 || depth > kMaxDepth) {
        return Status::error(Reason::bad_argument);
    }
    std::uint32_t index = 0;
    const Status status = context_.srqs().add(index);
    if (status.ok()) {
        out = make<ShmSharedReceiveQueue>(context_, index_, index, depth);
    }
    return status;
}

Status ShmRail::check(const QpInit& init) const {
    if (const Status status = check_init(init, info_); !status.ok()) {
        return status;
    }
    const auto* send = static_cast<ShmCompletionQueue*>(init.send_cq);
    const auto* receive = static_cast<ShmCompletionQueue*>(init.receive_cq);
    const auto* srq = static_cast<ShmSharedReceiveQueue*>(init.srq);
    if (send->rail() != index_ || receive->rail() != index_ ||
        (srq != nullptr && srq->rail() != index_)) {
        return Status::error(Reason::bad_argument);
    }
    return kOk;
}

Status ShmRail::create_qp_impl(const QpInit& init, std::unique_ptr<QueuePair>& out) {
    if (const Status status = check(init); !status.ok()) {
        return status;
    }
    std::unique_ptr<LocalQueuePair> qp;
    if (init.type == QpType::rc) {
        qp = make<RcQueuePair>(context_, index_, init);
    } else {
        qp = make<UdQueuePair>(context_, index_, init);
    }
    const Status status = qp->enter();
    if (status.ok()) {
        ADAPTIB_INVARIANT(qp->number() != 0, "a queue pair has a number other than 0",
                          qp->number());
        out = std::move(qp);
    }
    return status;
}

Status ShmRail::create_ah_impl(const PathSpec& path, std::unique_ptr<AddressHandle>& out) {
    std::shared_ptr<PeerSegment> peer;
    std::uint32_t rail = 0;
    const Status status = context_.peers().open(path.remote, peer, rail);
    if (status.ok()) {
        out = make<ShmAddressHandle>(std::move(peer), rail, index_);
    }
    return status;
}

// A word in shared memory tells whether the peer's rail takes datagrams; the system tells whether
// its process lives.
Reach ShmRail::reach_impl(const AddressHandle& handle) const {
    const auto& to = static_cast<const ShmAddressHandle&>(handle);
    ADAPTIB_INVARIANT(to.rail == index_ && to.peer != nullptr,
                      "a rail is asked about its own handles", to.rail, index_);
    if (!to.peer->check_alive()) {
        return Reach::ended;
    }
    const std::uint64_t word =
        context_.rails().word(index_) |
        to.peer->header()->rail[to.peer_rail].word.load(std::memory_order_acquire);
    return (word & (kRailDown | kRailClosed)) != 0 ? Reach::cut_off : Reach::good;
}

} // namespace adaptib::shm
