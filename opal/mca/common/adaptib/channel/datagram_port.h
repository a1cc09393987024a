// SPDX-License-Identifier: BSD-3-Clause
// DatagramPort: the queue pair of a datagram channel on one rail, with its receives.
//
// Purpose: posts sends and receives, and tells whose completions are whose. The same queue pair is
// restarted when it breaks, since its number is published: all its work under way ends by that, and
// completions from before do not count. Keeps address handles until no send uses them.
// Ownership: owns the queue pair, its completion queue and the memory of the receives.
// Threads: one at a time.
// May touch: base/, fabric/, stats/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "fabric/fabric.h"
#include "stats/counters.h"

namespace adaptib {

class DatagramPort {
public:
    // Makes the queue pair, for at most `sends` at a time, and posts the receives. `key`: the
    // queue's key.
    Status open(Rail& rail, std::uint32_t sends, std::uint32_t receives, std::uint64_t key,
                Counters& counters);

    Rail& rail() const { return *rail_; }
    std::uint32_t qp_number() const { return qp_->number(); }
    bool ready() const { return qp_->query().state == QpState::ready_to_send; }

    // Sends `gather` to queue pair `remote_qp`, whose queue has `remote_key`. The completion has
    // the slot's number.
    Status post(const AddressHandle& handle, std::uint32_t remote_qp, std::uint64_t remote_key,
                const Gather& gather, std::uint32_t slot);
    // Posts receive `index` again.
    Status post_receive(std::uint32_t index);
    const std::byte* receive_at(std::uint32_t index) const {
        return static_cast<const std::byte*>(receive_memory_->address()) + index * receive_bytes_;
    }

    std::size_t poll(std::span<WorkCompletion> out) { return cq_->poll(out); }
    // Returns false for a completion from before the restart of the queue pair.
    bool is_current(const WorkCompletion& completion) const {
        return completion.wr_id >> kLifeShift == life_;
    }
    static bool is_send(const WorkCompletion& completion) {
        return (completion.wr_id & kSendTag) != 0;
    }
    // Returns the number of the slot, or of the receive.
    static std::uint32_t index_of(const WorkCompletion& completion) {
        return static_cast<std::uint32_t>(completion.wr_id);
    }
    // Called for each send that has ended; sends end in order.
    void on_ended() { ++ended_; }

    // Keeps the handle until all sends posted so far have ended.
    void retire(std::unique_ptr<AddressHandle> handle);
    void drop_retired();

    // A port is broken when some work has ended with an error; the owner mends it, not before
    // mend_at().
    bool broken() const { return broken_; }
    Nanoseconds mend_at() const { return mend_at_; }
    void set_broken(bool broken) { broken_ = broken; }
    // Breaks the port on purpose, to be mended at once.
    void renew() {
        broken_ = true;
        mend_at_ = Nanoseconds{0};
    }
    // Restarts the queue pair in two steps; between them the owner ends the sends under way.
    // Returns false if the device refuses: the port stays broken.
    bool reset(Nanoseconds now);
    void start_again();

private:
    static constexpr std::uint32_t kLifeShift = 33;
    // In wr_id: a send slot, not a receive slot
    static constexpr std::uint64_t kSendTag = std::uint64_t{1} << 32;

    // Address handle that the first `posts` sends may use.
    struct Retired {
        std::unique_ptr<AddressHandle> handle;
        std::uint64_t posts;
    };

    // In wr_id: incarnation of the queue pair.
    std::uint64_t life_tag() const { return std::uint64_t{life_} << kLifeShift; }
    Status start();

    Rail* rail_ = nullptr;
    std::uint64_t key_ = 0;
    std::unique_ptr<MemoryRegion> receive_memory_;
    std::unique_ptr<CompletionQueue> cq_;
    std::vector<Retired> retired_; // these outlive the queue pair
    std::unique_ptr<QueuePair> qp_;
    std::uint64_t posts_ = 0; // sends
    std::uint64_t ended_ = 0; // of these, which end in order
    std::uint32_t receives_ = 0;
    Bytes receive_bytes_ = 0; // of each
    // Incarnation of the queue pair; completions of earlier ones do not count
    std::uint32_t life_ = 0;
    bool broken_ = false;    // to be restarted ...
    Nanoseconds mend_at_{0}; // ... not before
};

} // namespace adaptib
