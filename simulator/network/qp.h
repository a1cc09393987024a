// SPDX-License-Identifier: BSD-3-Clause
// Common base of simulated queue pairs: states, the receive queue, completions.
//
// A queue pair is always in one of 5 states (QpState); fabric/README.md lists the transitions.
// Ownership: the caller's; other queue pairs find it by its number only, through the adapter.
// Threads: one.
// May touch: base/, fabric/, simulator/network/.
#pragma once

#include <cstdint>
#include <span>

#include "fabric/fabric.h"
#include "fabric/receive_queue.h"
#include "simulator/network/queues.h"
#include "simulator/network/rail.h"

namespace adaptib::sim {

// An event that is a member of `T` and calls one of its member functions.
template <class T, void (T::*kFunction)()> class MemberEvent final : public Event {
public:
    explicit MemberEvent(T& owner) : owner_(owner) {}

private:
    void happen() override { (owner_.*kFunction)(); }

    T& owner_;
};

// Time to send `bytes`, rounded up; `rate` 0 means no limit.
Nanoseconds wire_time(Bytes bytes, BytesPerSecond rate);

// REQUIRES: `to` has room for all bytes of `from`.
void copy_gather(std::span<const Gather> from, std::span<const Gather> to);

class SimQueuePair : public QueuePair {
public:
    SimQueuePair(SimRail& rail, const QpInit& init);
    ~SimQueuePair() override;
    // Takes a number from the adapter. REQUIRES: called before anything else.
    Status enter();

    Process& process() { return rail_.process(); }
    // Faults, reported by the world.
    virtual void path_changed() = 0;
    void process_died();
    // Called when the shared receive queue has a receive again.
    void receive_posted();

protected:
    struct Message {
        std::span<const Gather> source;
        Bytes length = 0;
        bool immediate = false;
        std::uint32_t value = 0;
        std::uint32_t source_qp = 0; // datagrams
    };
    enum class Answer : std::uint8_t { taken, no_receive, too_long, no_access };

    // Transition to RTR. Changes nothing unless it returns ok.
    virtual Status connect(const QpAttributes& attributes) = 0;
    virtual Status migrate_to(const QpAttributes&, std::uint32_t) { return kOk; } // kQpMigration
    virtual void stop_sending() = 0; // nothing more reaches the wire
    virtual void flush_sends() = 0;  // outstanding requests complete as flushed
    virtual void forget_sends() = 0; // drops outstanding requests without completions
    virtual void on_receive_posted() {}

    bool receives() const {
        return (state_ == QpState::ready_to_receive || state_ == QpState::ready_to_send) &&
               !rail_.process().dead();
    }
    // Takes a message into the next receive. On too_long and no_access the receive stays in the
    // queue.
    Answer take(const Message& message);
    // Rejects a message that cannot be taken: the receive completes with that status, the queue
    // pair goes to ERR.
    void refuse_receive(WorkStatus status);
    // Uses up a receive for a write with immediate; the receive's memory is not touched.
    Answer take_notice(Bytes written, std::uint32_t value);
    const QueuedReceive* next_receive();
    void wait_for_receive();
    // Moves to ERR where no completion reports it: raises qp_fatal.
    void fatal();
    void enter_error();

    // `copied`: bytes that the process copies when it takes the completion.
    void complete_send(std::uint64_t wr_id, Opcode opcode, WorkStatus status, Bytes copied = 0);
    // Returns how many of the bytes are in memory of the rail, from or into which the process
    // copies them, if such copies of puts and gets cost time.
    Bytes staged(std::span<const Gather> pieces) const;
    bool wants_completion(std::uint32_t flags) const {
        return signal_all_ || (flags & kSignaled) != 0;
    }
    // Refuses a request whose gather list is wrong; sets its length.
    Status check_list(const SendWork& work, Bytes& length) const;
    // Extra time that each end needs for a message of this queue pair's transport.
    Nanoseconds dc_work() const {
        const bool dc = type() == QpType::dc_initiator || type() == QpType::dc_target;
        return dc ? machine_.dc.message / 2 : Nanoseconds{0};
    }
    // Sends a packet through the engine and both wires. Returns when it has left, and when the
    // other end has handled it. `target` is the queue pair's number there, whose context may have
    // to be fetched.
    struct Passage {
        Nanoseconds left;
        Nanoseconds arrives;
    };
    Passage send_packet(Path& path, Bytes bytes, Nanoseconds ready, std::uint32_t target);
    // Hands a request to the adapter and charges the process. Returns when the adapter sees it.
    Nanoseconds post(const SendWork& work);

    SimRail& rail_;
    World& world_;
    const MachineModel& machine_;
    Simulator& simulator_;
    QpState state_ = QpState::reset;
    QpAttributes attributes_;
    std::uint32_t send_depth_;
    Engine& engine_;

private:
    Status modify_impl(const QpAttributes& attributes, std::uint32_t mask) final;
    QpAttributes query_impl() const final;
    Status post_receive_impl(const ReceiveWork& work) final;
    bool usable_impl() const final;
    void reset();
    void drop_receive();
    void complete_receive(const WorkCompletion& completion, Bytes copied);
    void flush_receives();
    void push(SimCompletionQueue& cq, const WorkCompletion& completion, Bytes copied);

    SimCompletionQueue& send_cq_;
    SimCompletionQueue& receive_cq_;
    SimSharedReceiveQueue* srq_;
    std::uint32_t max_gather_;
    Bytes inline_bytes_;
    bool signal_all_;
    ReceiveQueue receives_;
};

} // namespace adaptib::sim
