// SPDX-License-Identifier: BSD-3-Clause
// A rail of the verbs fabric: one port of one device.
//
// Purpose: creates objects and checks what they are asked for; each is one object of libibverbs, and
// each call is one call of it. Where that does not do, the fabric adds:
//   * datagrams: a scatter entry before the caller's takes the GRH, whose 40 bytes no one reads;
//   * completions of a queue pair that is reset or destroyed are taken out of its queues, since a
//     provider may leave them there and numbers are used again;
//   * the first error completion moves the queue pair to ERR, so that SQE is not seen and providers
//     that stop half-way flush the rest;
//   * qp_fatal for a queue pair that is found in ERR without a completion that tells why, since not every
//     device raises an event;
//   * a completion queue is made larger as queue pairs come, so that all can fail at once; where the device
//     does not do that it is deep from the beginning, and the queue pair that has no room is refused;
//   * RESET to ERR, which the adapter does not know, goes by INIT;
//   * DC queue pairs are libmlx5's (dc.h).
// Ownership: the fabric's.  Threads: one.
// May touch: base/, fabric/, libibverbs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/verbs/device.h"
#include "fabric/verbs/meeting_point.h"
#include "fabric/verbs/port.h"

namespace adaptib::verbs {

class VerbsQueuePair;

// What no call tells of a rail's DC queue pairs (dc.h).
struct DcLimits {
    Bytes inline_bytes = 0;      // of an initiator
    std::uint32_t max_reads = 0; // the same
};

constexpr std::uint32_t kMaxGather = 16; // so that a request's entries fit on the stack
constexpr Bytes kGrhBytes = 40;

class VerbsRail final : public Rail {
public:
    VerbsRail(const Device& device, const Port& port, const VerbsOptions& options,
              std::uint32_t index, std::uint64_t owner);
    ~VerbsRail() override;

    // Tries what queue pairs there are, and how much they take inline. Errors: it has none, or no memory
    // for them; error_text goes on behind the rail's name.
    Status probe(std::string& error_text);
    // If the options want one. Errors: there is none; error_text as above.
    Status open_meeting_point(std::string& error_text);
    MeetingPoint* meeting_point() const { return meeting_point_.get(); } // null: there is none

    const Device& device() const { return device_; }
    const Calls& calls() const { return device_.calls(); }
    const Port& port() const { return port_; }
    const VerbsOptions& options() const { return options_; }
    std::uint32_t index() const { return index_; }
    const ibv_sge& grh() const { return grh_; }
    const DcLimits& dc_limits() const { return dc_limits_; }

    // Whether a completion queue can be made larger.
    bool queues_grow() const { return queues_grow_; }

    // Events: the port's state; its LID, GID or partition key may be another.
    void set_down() { down_ = true; }
    void read_again();
    // A completion queue takes nothing any more: the rail is down for good.
    void break_down() { broken_ = tell_broken_ = down_ = true; }
    bool broken() const { return broken_; }
    // Whether that is still to be told.
    bool take_broken() { return std::exchange(tell_broken_, false); }

    // Queue pairs that wait for ARMED, which no event tells.
    std::vector<VerbsQueuePair*>& rearming() { return rearming_; }
    // Queue pairs found in ERR that nobody has told the reason of.
    std::vector<const VerbsQueuePair*>& suspects() { return suspects_; }
    // Queue pairs in ERR of which no completion can come.
    void add_fatal(std::uint32_t qp_number) { fatal_.push_back(qp_number); }
    std::vector<std::uint32_t>& fatal() { return fatal_; }

    // What Rail::trouble() is to say.
    std::string& told_trouble() { return trouble_; }
    // Memory would have had to be pinned.
    Status refuse(int error, Bytes needed);

private:
    PortState state_impl() const override;
    RailAddress address_impl() const override;
    bool reaches_impl(const RailAddress& remote) const override;
    std::uint32_t likeness_impl(const RailAddress& remote) const override;
    std::uint32_t paths_to_impl(const RailAddress& remote) const override;
    PathSpec path_to_impl(const RailAddress& remote, std::uint32_t index) const override;
    std::string trouble_impl() const override { return trouble_; }
    Status create_cq_impl(std::uint32_t depth, std::unique_ptr<CompletionQueue>& out) override;
    Status create_srq_impl(std::uint32_t depth, std::unique_ptr<SharedReceiveQueue>& out) override;
    Status create_qp_impl(const QpInit& init, std::unique_ptr<QueuePair>& out) override;
    Status create_ah_impl(const PathSpec& path, std::unique_ptr<AddressHandle>& out) override;
    Status register_impl(void* address, Bytes length, std::uint32_t access,
                         std::unique_ptr<MemoryRegion>& out) override;
    Status allocate_impl(Bytes length, std::uint32_t access,
                         std::unique_ptr<MemoryRegion>& out) override;
    Status check(const QpInit& init);
    void describe();
    void probe_dc();
    bool try_qp(ibv_cq* cq, ibv_qp_type type, Bytes inline_bytes, int& error);
    bool try_inline(ibv_cq* cq, ibv_qp_type type, int& error);

    const Device& device_;
    Port port_;
    const VerbsOptions& options_;
    std::uint32_t index_;
    std::uint64_t owner_;
    bool down_ = false;
    bool broken_ = false;
    bool tell_broken_ = false;
    bool queues_grow_ = true;
    std::unique_ptr<MemoryRegion> grh_region_;
    ibv_sge grh_{};
    std::vector<VerbsQueuePair*> rearming_;
    std::vector<const VerbsQueuePair*> suspects_;
    std::vector<std::uint32_t> fatal_;
    std::string trouble_;
    DcLimits dc_limits_;
    std::string dc_lacks_; // why there is no DC
    std::unique_ptr<MeetingPoint> meeting_point_;
};

} // namespace adaptib::verbs
