// SPDX-License-Identifier: BSD-3-Clause
// DatagramPort: the queue pair of a datagram channel on one rail, with its receives.
//
// Purpose: posts sends and receives, and tells whose completions are whose. The same queue pair is
// restarted when it breaks, as long as its device is there, since its number is published: all its
// work under way ends by that, and completions from before do not count. Keeps address handles
// until no send uses them. Adds receives, up to a bound, when more datagrams arrive than the port
// can keep until it is polled.
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
    // Number of receives: at the start, and at most.
    struct Receives {
        std::uint32_t first = 0;
        std::uint32_t most = 0; // at least `first`
    };

    // Number of sends at a time, and pieces of each.
    struct Sends {
        std::uint32_t most = 0;
        std::uint32_t pieces = 1; // at most; less if the rail takes less
    };

    // Makes the queue pair and posts the receives. `key`: the queue's key.
    Status open(Rail& rail, const Sends& sends, const Receives& receives, std::uint64_t key,
                Counters& counters);

    Rail& rail() const { return *rail_; }
    std::uint32_t qp_number() const { return qp_->number(); }
    bool ready() const { return qp_->query().state == QpState::ready_to_send; }

    std::uint32_t pieces() const { return pieces_; } // of one send, at most
    // Sends the pieces to queue pair `remote_qp`, whose queue has `remote_key`. The completion has
    // the slot's number.
    Status post(const AddressHandle& handle, std::uint32_t remote_qp, std::uint64_t remote_key,
                std::span<const Gather> pieces, std::uint32_t slot);
    // Posts receive `index` again.
    Status post_receive(std::uint32_t index);
    const std::byte* receive_at(std::uint32_t index) const { return place_of(index); }
    std::uint32_t receives() const { return receives_; }
    // Adds receives until there are `count`, or as many as the bound and the memory allow.
    void want_receives(std::uint32_t count);

    std::size_t poll(std::span<WorkCompletion> out) { return cq_->poll(out); }
    // Called after the completions of a poll have been dealt with, of which `received` are
    // receives. `emptied`: the queue had no more. Doubles the receives if half of them were
    // waiting to be polled: datagrams that find none are lost.
    void on_polled(std::size_t received, bool emptied) {
        waiting_ += received;
        if (2 * waiting_ >= receives_) [[unlikely]] {
            want_receives(2 * receives_);
            waiting_ = 0;
        }
        waiting_ = emptied ? 0 : waiting_;
    }
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
    // The rail's device was lost and is back: makes another queue pair, with another number, which
    // the next poll starts. Errors: of the rail; the port stays broken.
    Status make_anew();
    // Restarts the queue pair in two steps; between them the owner ends the sends under way. Where
    // the device refuses to use it again, another one with another number takes its place.
    // Returns false if the device refuses all: the port stays broken.
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
    Status make_queue_pair();
    Status start();
    Status add_block();
    std::byte* place_of(std::uint32_t index) const {
        return static_cast<std::byte*>(receive_memory_[index / block_]->address()) +
               index % block_ * receive_bytes_;
    }

    Rail* rail_ = nullptr;
    Counters* counters_ = nullptr;
    std::uint64_t key_ = 0;
    std::vector<std::unique_ptr<MemoryRegion>> receive_memory_; // of block_ receives each
    std::unique_ptr<CompletionQueue> cq_;
    std::vector<Retired> retired_; // these outlive the queue pair
    std::unique_ptr<QueuePair> qp_;
    std::uint64_t posts_ = 0;    // sends
    std::uint64_t ended_ = 0;    // of these, which end in order
    std::uint32_t receives_ = 0; // block_ in each block
    std::uint32_t most_sends_ = 0;
    std::uint32_t most_receives_ = 0;
    std::uint32_t block_ = 1;
    std::size_t waiting_ = 0; // receives polled since the queue was last seen empty
    Bytes receive_bytes_ = 0; // of each receive
    std::uint32_t pieces_ = 1;
    // Incarnation of the queue pair; completions of earlier ones do not count
    std::uint32_t life_ = 0;
    bool broken_ = false;    // to be restarted ...
    Nanoseconds mend_at_{0}; // ... not before
};

} // namespace adaptib
