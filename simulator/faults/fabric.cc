// SPDX-License-Identifier: BSD-3-Clause
// The decorated fabric and its rails (fault.h).
#include <algorithm>
#include <map>

#include "simulator/faults/queue_pair.h"

namespace adaptib::fault {

namespace {

class FaultRegion final : public MemoryRegion {
public:
    FaultRegion(std::unique_ptr<MemoryRegion> below, Bytes counted, FaultLog& log)
        : MemoryRegion(below->address(), below->length()), below_(std::move(below)),
          counted_(counted), log_(log) {
        local_key_ = below_->local_key();
        remote_key_ = below_->remote_key();
        log_.locked += counted_;
    }
    ~FaultRegion() override { log_.locked -= counted_; }

private:
    std::unique_ptr<MemoryRegion> below_;
    Bytes counted_;
    FaultLog& log_;
};

class FaultRail final : public Rail {
public:
    FaultRail(Node& node, Rail& below, std::uint32_t index)
        : node_(node), below_(below), index_(index) {
        info_ = below.info();
        info_.capabilities &= ~node.plan().lacks;
        info_.max_reads = std::min(info_.max_reads, node.plan().max_reads);
        info_.capabilities |=
            node.plan().cm_connects ? static_cast<std::uint32_t>(Capability::cm_connects) : 0u;
    }
    // The wrapper of a shared receive queue that an event from below names.
    SharedReceiveQueue* find_srq(const SharedReceiveQueue* below) const {
        const auto found = srqs_.find(below);
        return found == srqs_.end() ? nullptr : found->second;
    }

private:
    PortState state_impl() const override {
        static_cast<void>(node_.dead()); // applies faults whose time has come
        return node_.down(index_) ? PortState::down : below_.state();
    }
    RailAddress address_impl() const override {
        RailAddress address = below_.address();
        if (node_.plan().readdress) {
            node_.plan().readdress(index_, address);
        }
        return address;
    }
    bool is_reachable_impl(const RailAddress& remote) const override {
        return below_.is_reachable(remote);
    }
    std::string why_out_of_reach_impl(const RailAddress& remote) const override {
        return below_.why_out_of_reach(remote);
    }
    std::uint32_t subnet_match_impl(const RailAddress& remote) const override {
        return below_.subnet_match(remote);
    }
    std::uint32_t paths_to_impl(const RailAddress& remote) const override {
        return below_.paths_to(remote);
    }
    PathSpec path_to_impl(const RailAddress& remote, std::uint32_t index) const override {
        return below_.path_to(remote, index);
    }
    Bytes datagram_bytes_to_impl(const RailAddress& remote) const override {
        return std::min(below_.datagram_bytes_to(remote), node_.plan().peers_datagram_bytes);
    }
    bool dc_suits_impl(const RailAddress& remote) const override { return below_.dc_suits(remote); }
    std::string last_error_text_impl() const override { return below_.last_error_text(); }
    void refuse_impl(const RailAddress& remote, Reason why) override { below_.refuse(remote, why); }
    Status create_cq_impl(std::uint32_t depth, std::unique_ptr<CompletionQueue>& out) override;
    Status create_srq_impl(std::uint32_t depth, std::unique_ptr<SharedReceiveQueue>& out) override;
    Status create_qp_impl(const QpInit& init, std::unique_ptr<QueuePair>& out) override;
    Status create_ah_impl(const PathSpec& path, std::unique_ptr<AddressHandle>& out) override {
        Status status = node_.refuse(Site::create_ah, index_);
        status = status.ok() ? below_.create_ah(path, out) : status;
        if (status.ok()) {
            node_.add_handle(out.get());
        }
        return status;
    }
    Status prepare_path_impl(const PathSpec& path) override {
        const Status status = node_.refuse(Site::prepare_path, index_);
        return status.ok() ? below_.prepare_path(path) : status;
    }
    Reach reach_impl(const AddressHandle& handle) const override {
        return node_.plan().knows_processes ? below_.reach(handle) : Reach::unknown;
    }
    Status register_impl(void* address, Bytes length, std::uint32_t access,
                         std::unique_ptr<MemoryRegion>& out) override;
    Status allocate_sparse_impl(Bytes length, Bytes first, std::uint32_t access,
                                std::unique_ptr<MemoryRegion>& out) override {
        const Status status = node_.refuse(Site::allocate, index_);
        return status.ok() ? below_.allocate_sparse(length, first, access, out) : status;
    }
    Status allocate_impl(Bytes length, std::uint32_t access,
                         std::unique_ptr<MemoryRegion>& out) override {
        const Status status = node_.refuse(Site::allocate, index_);
        return status.ok() ? below_.allocate(length, access, out) : status;
    }

    Node& node_;
    Rail& below_;
    std::uint32_t index_;
    std::map<const SharedReceiveQueue*, SharedReceiveQueue*> srqs_; // looked up, not iterated over
};

Status FaultRail::create_cq_impl(std::uint32_t depth, std::unique_ptr<CompletionQueue>& out) {
    Status status = node_.refuse(Site::create_cq, index_);
    std::unique_ptr<CompletionQueue> below;
    if (status.ok()) {
        status = below_.create_cq(depth, below);
    }
    if (status.ok()) {
        out = std::make_unique<FaultCq>(node_, index_, std::move(below));
    }
    return status;
}

Status FaultRail::create_srq_impl(std::uint32_t depth, std::unique_ptr<SharedReceiveQueue>& out) {
    Status status = node_.refuse(Site::create_srq, index_);
    std::unique_ptr<SharedReceiveQueue> below;
    if (status.ok()) {
        status = below_.create_srq(depth, below);
    }
    if (status.ok()) {
        const SharedReceiveQueue* key = below.get();
        out = std::make_unique<FaultSrq>(node_, index_, std::move(below));
        srqs_[key] = out.get();
    }
    return status;
}

// The queue pair below has room for twice as many requests: doubled and late datagrams.
Status FaultRail::create_qp_impl(const QpInit& init, std::unique_ptr<QueuePair>& out) {
    Status status = node_.refuse(Site::create_qp, index_);
    QpInit inner = init;
    if (init.send_cq != nullptr) {
        inner.send_cq = static_cast<FaultCq*>(init.send_cq)->below();
    }
    if (init.receive_cq != nullptr) {
        inner.receive_cq = static_cast<FaultCq*>(init.receive_cq)->below();
    }
    if (init.srq != nullptr) {
        inner.srq = static_cast<FaultSrq*>(init.srq)->below();
    }
    inner.signal_all = true;
    if (init.send_depth <= info_.max_send_depth / 2) {
        inner.send_depth = 2 * init.send_depth;
    }
    std::unique_ptr<QueuePair> below;
    if (status.ok()) {
        status = below_.create_qp(inner, below);
    }
    if (status.ok()) {
        out = std::make_unique<FaultQp>(node_, below_, index_, init, std::move(below));
    }
    return status;
}

Status FaultRail::register_impl(void* address, Bytes length, std::uint32_t access,
                                std::unique_ptr<MemoryRegion>& out) {
    Status status = node_.refuse(Site::register_memory, index_);
    if (!status.ok()) {
        return status;
    }
    const Bytes limit = node_.plan().locked_limit;
    const bool all = address == nullptr && length == kWholeMemory; // pins nothing
    if (!all && (length > limit || node_.log().locked > limit - length)) {
        node_.note(Fault::register_fails, index_);
        return Status::error(Reason::no_memory);
    }
    std::unique_ptr<MemoryRegion> below;
    status = below_.register_memory(address, length, access, below);
    if (status.ok()) {
        out = std::make_unique<FaultRegion>(std::move(below), all ? 0 : length, node_.log());
    }
    return status;
}

class FaultFabric final : public Fabric, private Answerer {
public:
    FaultFabric(std::unique_ptr<Fabric> below, const FaultPlan& plan, const Clock& clock,
                FaultLog& log, Wake wake)
        : node_(plan, clock, log, below->rails().size(), std::move(wake)),
          below_(std::move(below)) {
        for (std::uint32_t i = 0; i < below_->rails().size(); ++i) {
            rails_.push_back(std::make_unique<FaultRail>(node_, *below_->rails()[i], i));
        }
        notices_ = below_->notices();
    }
    ~FaultFabric() override { rails_.clear(); }

private:
    bool poll_event_impl(Event& out) override {
        if (node_.dead()) {
            return false;
        }
        if (node_.take_event(out)) {
            return true;
        }
        if (!below_->poll_event(out)) {
            return false;
        }
        if (out.srq != nullptr) {
            out.srq = static_cast<FaultRail&>(*rails_[out.rail]).find_srq(out.srq);
        }
        return true;
    }

    Status respond_impl(const Answerer& answerer, std::uint64_t access_key) override {
        answerer_ = &answerer;
        return below_->respond(*this, access_key);
    }
    std::uint32_t responder_qp_impl(std::uint32_t rail) const override {
        return below_->responder_qp(rail);
    }
    // A rail that is down or silent does not answer, nor does a dead node.
    Reply answer(std::uint32_t rail, std::span<const std::byte> question,
                 std::span<std::byte> reply) const noexcept override {
        const bool mute = node_.frozen() || node_.down(rail) || node_.silent(rail);
        return mute ? Reply{} : answerer_->answer(rail, question, reply);
    }

    const Answerer* answerer_ = nullptr;
    Node node_;
    std::unique_ptr<Fabric> below_; // uses the node until it ends
};

} // namespace

std::unique_ptr<Fabric> with_faults(std::unique_ptr<Fabric> below, const FaultPlan& plan,
                                    const Clock& clock, FaultLog& log, Wake wake) {
    return std::make_unique<FaultFabric>(std::move(below), plan, clock, log, std::move(wake));
}

} // namespace adaptib::fault
