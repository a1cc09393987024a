// SPDX-License-Identifier: BSD-3-Clause
// A rail of the verbs fabric: one port of one device.
//
// Purpose: creates objects and checks their arguments. Each object is one object of libibverbs, and
// each call is one call of it. Where that is not enough, the fabric adds:
//   * datagrams: a scatter entry before the caller's takes the 40 bytes of the GRH, which nobody
//     reads;
//   * completions of a queue pair that is reset or destroyed are removed from its queues, since a
//     provider may leave them there and numbers are reused;
//   * the first error completion moves the queue pair to ERR, so that SQE never shows and providers
//     that stop half-way flush the rest;
//   * qp_fatal for a queue pair found in ERR without a completion that tells why, since not every
//     device raises an event;
//   * a completion queue grows as queue pairs are created, so that all of them can fail at once; if
//     the device cannot resize, the queue is deep from the start, and a queue pair without room is
//     refused;
//   * RESET to ERR, which adapters do not support, goes through INIT;
//   * address handles are shared, and made by a thread where that may take long
//     (address_handles.h);
//   * DC queue pairs are those of libmlx5 (dc.h).
// Ownership: the fabric's.  Threads: one.
// May touch: base/, fabric/, libibverbs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/verbs/cm_service.h"
#include "fabric/verbs/device.h"
#include "fabric/verbs/port.h"

namespace adaptib::verbs {

class VerbsQueuePair;

// Judges an answer of Calls::writes_in_order: true if the device places the packets of a write in
// order.
bool trusts_order(const Device& device, int answer);

// Limits of a rail's DC queue pairs that no call reports (dc.h).
struct DcLimits {
    Bytes inline_bytes = 0;       // of an initiator
    std::uint32_t max_reads = 0;  // of an initiator
    bool places_in_order = false; // a target
};

constexpr std::uint32_t kMaxGather = 16; // so that a request's entries fit on the stack
constexpr Bytes kGrhBytes = 40;

class VerbsRail final : public Rail {
public:
    VerbsRail(Device& device, const Port& port, const VerbsOptions& options, std::uint32_t index,
              std::uint64_t owner);
    ~VerbsRail() override;

    // Finds out by trial which queue pairs the rail has and how many inline bytes they take.
    // Errors: none, or no memory for them; error_text continues a sentence that begins with the
    // rail's name.
    Status probe(std::string& error_text);
    // Opens the rdma_cm service if the options ask for one. Errors: not possible; error_text as
    // above.
    Status open_cm_service(std::string& error_text);
    CmService* cm_service() const { return cm_service_.get(); } // null: none

    Device& device() const { return device_; }
    const Calls& calls() const { return device_.calls(); }
    const Port& port() const { return port_; }
    const VerbsOptions& options() const { return options_; }
    std::uint32_t index() const { return index_; }
    const ibv_sge& grh() const { return grh_; }
    const DcLimits& dc_limits() const { return dc_limits_; }

    // Returns true if the device can resize completion queues.
    bool queues_grow() const { return queues_grow_; }

    // After events: the port is down; its state, LID, GID or partition key may have changed.
    void set_down() { down_ = true; }
    // `anew`: the device was lost, and is open again.
    void read_again(bool anew = false);
    // Called when a completion queue has failed: the rail is down for good.
    void break_down() { broken_ = report_broken_ = down_ = true; }
    bool broken() const { return broken_; }
    // Returns true once, if that still has to be reported.
    bool take_broken() { return std::exchange(report_broken_, false); }

    // Queue pairs that wait for ARMED, which no event reports.
    std::vector<VerbsQueuePair*>& rearming() { return rearming_; }
    // Queue pairs found in ERR whose reason nothing has reported.
    std::vector<const VerbsQueuePair*>& suspects() { return suspects_; }
    // Queue pairs in ERR from which no completion can come.
    std::vector<std::uint32_t>& fatal() { return fatal_; }

    // Text that Rail::last_error_text() returns.
    std::string& error_text_out() { return last_error_text_; }
    // Status of a call that failed to pin memory; sets the trouble text.
    Status refuse(int error, Bytes needed);

private:
    PortState state_impl() const override;
    RailAddress address_impl() const override;
    bool is_reachable_impl(const RailAddress& remote) const override;
    std::uint32_t subnet_match_impl(const RailAddress& remote) const override;
    std::uint32_t paths_to_impl(const RailAddress& remote) const override;
    PathSpec path_to_impl(const RailAddress& remote, std::uint32_t index) const override;
    Bytes datagram_bytes_to_impl(const RailAddress& remote) const override;
    bool dc_suits_impl(const RailAddress& remote) const override;
    std::string last_error_text_impl() const override { return last_error_text_; }
    Status create_cq_impl(std::uint32_t depth, std::unique_ptr<CompletionQueue>& out) override;
    Status create_srq_impl(std::uint32_t depth, std::unique_ptr<SharedReceiveQueue>& out) override;
    Status create_qp_impl(const QpInit& init, std::unique_ptr<QueuePair>& out) override;
    Status create_ah_impl(const PathSpec& path, std::unique_ptr<AddressHandle>& out) override;
    Status prepare_path_impl(const PathSpec& path) override;
    Status register_impl(void* address, Bytes length, std::uint32_t access,
                         std::unique_ptr<MemoryRegion>& out) override;
    Status register_file_impl(const FileRange& file, void* address, Bytes length,
                              std::uint32_t access, std::unique_ptr<MemoryRegion>& out) override;
    Status allocate_impl(Bytes length, std::uint32_t access,
                         std::unique_ptr<MemoryRegion>& out) override;
    Status check(const QpInit& init);
    void probe_dc();

    Device& device_;
    Port port_;
    const VerbsOptions& options_;
    std::uint32_t index_;
    std::uint64_t owner_;
    bool down_ = false;
    bool broken_ = false;
    bool report_broken_ = false;
    bool queues_grow_ = true;
    std::unique_ptr<MemoryRegion> grh_region_;
    ibv_sge grh_{};
    std::vector<VerbsQueuePair*> rearming_;
    std::vector<const VerbsQueuePair*> suspects_;
    std::vector<std::uint32_t> fatal_;
    std::string last_error_text_;
    DcLimits dc_limits_;
    std::string dc_lacks_; // reason why there is no DC
    std::unique_ptr<CmService> cm_service_;
};

} // namespace adaptib::verbs
