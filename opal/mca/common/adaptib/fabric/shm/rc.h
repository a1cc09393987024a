// SPDX-License-Identifier: BSD-3-Clause
// Reliable connected queue pairs.
//
// Purpose: the initiator's side. post_send performs a request at once if it can, without a queue
// entry (attempt() on the stack). Otherwise the request becomes an Op, which progress() tries
// again.
// An Op is always in one of 3 phases: waiting (not or partly executed), issued (a message in the
// target's queue, not yet acknowledged), over (status known). Ops are issued in order and retired
// in order.
// Fencing: while an initiator touches the target's memory, its own table entry says busy. The
// initiator reads the target's entry and regions after it has set busy; the target reads busy after
// it has changed its entry or regions (both sequentially consistent). So at least one of the two
// sees the other. Once modify() to ERR or RESET, or the destruction of a region, has returned,
// nothing touches that memory any more. (Fencing does not cover a peer's stores through map().)
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, fabric/fabric.h and this folder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fabric/shm/local_qp.h"
#include "fabric/shm/process.h"

namespace adaptib::shm {

class RcQueuePair final : public LocalQueuePair {
public:
    RcQueuePair(Context& context, std::uint32_t rail, const QpInit& init);
    ~RcQueuePair() override;

    PeerSegment* busy_peer() const override {
        const bool busy = peer_entry_ != nullptr && !peer_->gone() &&
                          peer_entry_->busy.load(std::memory_order_seq_cst) != 0;
        return busy ? peer_.get() : nullptr;
    }

private:
    static constexpr Nanoseconds kNever{-1};

    // Progress of a request's execution.
    struct Attempt {
        Bytes moved = 0;           // bytes copied, sent, or handed to the pipeline
        bool data_done = false;    // write with immediate: only the notice is left
        std::uint64_t message = 0; // its number, which the target acknowledges; 0: not issued
        // Time at which a missing reply becomes retry_exceeded.
        Nanoseconds give_up{kNever};
        Nanoseconds rnr_since{kNever};
        std::uint32_t lock_waits = 0;
        bool unpinned = false; // cross-memory attach failed at an address: the target copies
    };
    enum class Step : std::uint8_t { over, issued, wait };
    enum class Phase : std::uint8_t { waiting, issued, over };
    struct Op {
        SendWork work;
        std::array<Gather, kMaxGather> gather;
        Bytes length = 0;
        Attempt attempt;
        Phase phase = Phase::waiting;
        WorkStatus status = WorkStatus::success;
        std::uint64_t release = 0;
        Nanoseconds ready_at{0}; // slowed rail: may start then; 0: not computed
        std::vector<std::byte> inline_data;
    };
    // Facts that serve_request() found in its last write, or read, of private memory, while no
    // request waited.
    struct alignas(kCacheLine) Known {
        std::uint32_t local_key = 0;
        std::uint32_t remote_key = 0;
        std::uint64_t word = 0; // word of the target's entry, including the access right
        RegionRange local;      // length 0: nothing is known
        RegionRange remote;
    };
    static_assert(sizeof(Known) == kCacheLine);
    struct Piece { // part of the op at next_, in the copy pipeline
        std::uint32_t slot;
        Bytes offset;
        Bytes length;
    };

    // QueuePair
    Status post_send_impl(const SendWork& work) override;
    Status rma_now_impl(const RmaWork& work) override;
    Status serve_rma_impl(const SendWork& work) override;
    Status serve_copy_impl(const RmaWork& work) override;
    Status find_key_impl(const RemoteRange& range, std::uint32_t& key) override;
    bool target_lives_impl() const override;
    void* map_impl(std::uint64_t address, Bytes length, std::uint32_t key) override;
    Status commit_impl(std::uint64_t address, Bytes length, std::uint32_t key) override;
    bool usable_impl() const override;
    FastPathGuard fast_path_guard_impl() const override;
    // LocalQueuePair
    bool accepts(const RecordView& record) const override;
    Status connect(const QpAttributes& attributes) override;
    void disconnect() override;
    void ready_to_send() override;
    void serve(const RecordView& record) override;
    bool progress_sends() override;
    void flush_sends() override;
    void drop_sends() override;
    std::uint32_t remote_number() const override { return remote_number_; }

    // rc.cc: life of a request
    Status check(const SendWork& work, Bytes& length) const;
    void enqueue(const SendWork& work, Bytes length, const Attempt& attempt, Step step);
    void conclude(const SendWork& work, WorkStatus status, std::uint64_t release);
    void fail(std::uint64_t wr_id, Opcode opcode, WorkStatus status, std::uint64_t release);
    bool retire();
    void issue();
    bool slowed(Op& op);
    Step attempt(const SendWork& work, Bytes length, Attempt& a, WorkStatus& status);
    Step stall(Attempt& a, WorkStatus& status);

    // rc_message.cc: requests that go through the target's queue
    Step send_message(const SendWork& work, Bytes length, Attempt& a, WorkStatus& status);
    Step send_notice(const SendWork& work, Bytes length, Attempt& a, WorkStatus& status);
    Step wait_for_room(Push push, Attempt& a, WorkStatus& status);
    bool receive_ready(Attempt& a, WorkStatus& status, Step& step);
    WorkStatus message_state(std::uint64_t message, bool& over) const;

    // rc_memory.cc: requests that touch the target's memory
    Step transfer_data(const SendWork& work, Bytes length, Attempt& a, WorkStatus& status);
    Step do_atomic(const SendWork& work, Attempt& a, WorkStatus& status);
    template <Opcode kOpcode> bool rma_now_known(const RmaWork& work);
    bool rma_now_any(const RmaWork& work);
    bool may_rma_now(const RmaWork& work) const;
    bool finds_target_of(const RmaWork& work);
    bool rma_now_shared(const RmaWork& work);
    bool rma_now_private(const RmaWork& work);
    Known& known_of(Opcode opcode) { return known_[opcode == Opcode::read ? 1 : 0]; }
    std::uint64_t atomic_shared(const SendWork& work);
    CopyResult atomic_private(const SendWork& work, std::uint64_t& old);
    CopyResult copy_private(const SendWork& work, Bytes offset, Bytes length);
    void copy_shared(const SendWork& work, std::byte* remote, Bytes offset, Bytes part, Bytes tail);
    Step handle_copy_error(CopyResult result, Attempt& a, WorkStatus& status, bool& bounce);
    bool find_remote(std::uint64_t address, Bytes length, std::uint32_t key, std::uint32_t access);
    bool try_lock_atomics();
    bool lock_atomics(Attempt& a);
    void unlock_atomics();
    Step remote_error(WorkStatus which, WorkStatus& status);
    std::byte* in_segment(std::uint64_t address) const {
        return region_.mapped + (address - region_.base);
    }

    // pipeline.cc: requests where cross-memory attach is forbidden or cannot reach the memory;
    // target side of the copy pipeline and of QueuePair::serve_rma
    enum class Asked : std::uint8_t { yes, later, local_fault };
    Step bounce(const SendWork& work, Bytes length, Attempt& a, WorkStatus& status);
    bool reap(const SendWork& work, Attempt& a, WorkStatus& status);
    Asked request_piece(const SendWork& work, Bytes length, Attempt& a);
    bool fill_slot(const SendWork& work, Bytes length, const Attempt& a, std::byte* slot) const;
    bool empty_slot(const SendWork& work, const Piece& piece, const Attempt& a) const;
    void abandon_pieces();
    BounceAnswer serve_request(const BounceRequest& request, std::byte* data, std::uint64_t& old);
    BounceAnswer serve_checked(const BounceRequest& request, std::byte* data) const;
    const RegionView* find_served(std::uint32_t key, std::uint64_t address, Bytes length,
                                  std::uint32_t access) const;
    BounceAnswer serve_atomic(const BounceRequest& request, bool shared, std::uint64_t& old);
    bool atomic_checked(const BounceRequest& request, std::uint64_t& old) const;
    std::uint32_t own_pid() const { return context_.segment().header()->pid; }

    std::uint64_t rails_word() const {
        return own_rail_word_.load(std::memory_order_acquire) |
               peer_rail_word_->load(std::memory_order_acquire);
    }
    // Returns true if the target's entry is as this connection expects.
    bool connected() const {
        return (peer_entry_->word.load(std::memory_order_seq_cst) & ~kQpAccessMask) ==
                   expected_word_ &&
               peer_entry_->remote_cookie.load(std::memory_order_acquire) == own_cookie_;
    }
    bool reachable() const {
        return (rails_word() & (kRailDown | kRailClosed)) == 0 && connected();
    }
    void begin_touching() { entry_->busy.store(1, std::memory_order_seq_cst); }
    void end_touching() { entry_->busy.store(0, std::memory_order_release); }

    // Constant while connected. usable() reads two cache lines of this object: this one and the
    // first.
    alignas(kCacheLine) QueuePairEntry* peer_entry_ = nullptr;
    const std::atomic<std::uint64_t>& own_rail_word_;
    std::atomic<std::uint64_t>* peer_rail_word_ = nullptr;
    const RegionEntry* peer_regions_ = nullptr;
    std::uint64_t expected_word_ = 0; // of the target's entry, from RTS on
    std::uint64_t own_cookie_;
    std::uint32_t peer_pid_ = 0;
    std::uint32_t peer_rail_ = 0;
    std::uint32_t remote_number_ = 0;
    std::shared_ptr<PeerSegment> peer_;

    std::array<Known, 2> known_; // of writes and of reads; for this connection
    RegionView region_;          // the remote region used last
    std::uint64_t messages_ = 0; // sent on this connection
    GrowingRing<Op> ops_;
    std::size_t next_ = 0; // the first op that is not issued
    std::vector<Piece> pieces_;
};

} // namespace adaptib::shm
