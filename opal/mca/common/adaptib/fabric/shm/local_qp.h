// SPDX-License-Identifier: BSD-3-Clause
// Common part of RC and UD queue pairs: states, receiving, completions.
//
// Purpose: the state machine of fabric/README.md, and the completions of send requests.
// A queue pair is always in one of 5 states (QpState); its entry in the segment tells peers whether
// it receives (receiver.h).
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, fabric/fabric.h and this folder.
#pragma once

#include <cstdint>

#include "base/invariant.h"
#include "fabric/fabric.h"
#include "fabric/qp_rules.h"
#include "fabric/shm/completion.h"
#include "fabric/shm/context.h"
#include "fabric/shm/layout.h"
#include "fabric/shm/receiver.h"

namespace adaptib::shm {

class LocalQueuePair : public QueuePair {
public:
    LocalQueuePair(Context& context, std::uint32_t rail, const QpInit& init);
    ~LocalQueuePair() override;

    // Takes a number and an entry of the table. REQUIRES: no other call came before.
    Status enter();

    // Delivers a record to this queue pair. False: not taken, the queue has to wait.
    bool deliver(const RecordView& record);
    // Does the waiting work; false when none is left.
    bool progress();
    // Called when a polled completion covers the first `count` send requests.
    void release_sends(std::uint64_t count) {
        ADAPTIB_INVARIANT(count <= posted_, "requests that are released were posted", count,
                          posted_);
        if (count > released_) {
            released_ = count;
        }
    }
    // Moves to ERR and flushes all requests and receives; no effect in ERR.
    void enter_error();
    // Target's side of fencing: the connected peer, if it is touching this process's memory now;
    // otherwise nothing.
    virtual BusyInitiator busy_initiator() const { return {}; }

    std::uint32_t rail() const { return rail_; }
    bool active = false; // in the context's list

protected:
    // Returns true if the record comes from a sender that this queue pair listens to.
    virtual bool accepts(const RecordView& record) const = 0;
    // Move to RTR: resolves the path. If the status is not ok, nothing may have changed.
    virtual Status connect(const QpAttributes& attributes) = 0;
    virtual void disconnect() = 0;
    virtual void ready_to_send() {} // RTS is reached, attributes_ are complete
    virtual void serve(const RecordView& record) = 0;
    virtual bool progress_sends() = 0;
    virtual void flush_sends() = 0;
    virtual void drop_sends() = 0;
    virtual std::uint32_t remote_number() const { return 0; }

    bool receives() const {
        return state_ == QpState::ready_to_receive || state_ == QpState::ready_to_send;
    }
    void publish(); // writes state and access to the table
    void fence();
    void complete_send(std::uint64_t wr_id, Opcode opcode, WorkStatus status,
                       std::uint64_t release);
    // A success completes only if the request is signaled; errors always complete.
    bool wants_completion(std::uint32_t flags) const {
        return signal_all_ || (flags & kSignaled) != 0;
    }
    bool send_queue_full() const { return posted_ - released_ >= send_depth_; }
    Status check_list(const SendWork& work, Bytes longest, Bytes& length) const {
        return check_gather(work, max_gather_, inline_bytes_, longest, length);
    }

    Context& context_;
    std::uint32_t rail_;
    QueuePairEntry* entry_ = nullptr;
    QpState state_ = QpState::reset;
    bool broken_ = false; // was ready to send and then had an error
    QpAttributes attributes_;
    std::uint64_t posted_ = 0;   // send requests accepted
    std::uint64_t released_ = 0; // of them, covered by polled completions

private:
    Status modify_impl(const QpAttributes& attributes, std::uint32_t mask) final;
    QpAttributes query_impl() const final;
    Status post_receive_impl(const ReceiveWork& work) final;
    void reset();
    void set_state(QpState to);

    ShmCompletionQueue* send_cq_;
    std::uint32_t send_depth_;
    std::uint32_t max_gather_;
    Bytes inline_bytes_;
    bool signal_all_;
    std::uint64_t epoch_ = 0; // records before this position belong to an earlier connection
    Receiver receiver_;
};

} // namespace adaptib::shm
