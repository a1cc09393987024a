// SPDX-License-Identifier: BSD-3-Clause
// Receiving side of a queue pair.
//
// Purpose: the receive queue (its own, or a shared one), and taking records out of the process's
// queue into posted receives. Records that find no receive wait in queued_, in order.
// A call that returns Taken::broken has completed the receive with an error and told the sender;
// the caller then moves the queue pair to ERR.
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, completion.h, context.h, layout.h, queue.h; in fabric/: qp_attributes.h and
// receive_queue.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/invariant.h"
#include "fabric/qp_attributes.h"
#include "fabric/receive_queue.h"
#include "fabric/shm/completion.h"
#include "fabric/shm/layout.h"
#include "fabric/shm/queue.h"

namespace adaptib::shm {

class Receiver {
public:
    enum class Taken : std::uint8_t { yes, no_receive, no_room, broken };

    // `owner` stands for the queue pair in the queues and in the context's list.
    Receiver(Context& context, LocalQueuePair* owner, std::uint32_t rail, const QpInit& init);

    // Sets the queue pair's number and entry. REQUIRES: no other call came before.
    void open(std::uint32_t number, QueuePairEntry* entry) {
        ADAPTIB_INVARIANT(entry_ == nullptr && entry != nullptr, "a receiver gets its entry once",
                          number);
        number_ = number;
        entry_ = entry;
    }
    // Starts to count and acknowledge the messages of a new connection.
    void restart();
    // Sets the key that datagrams must have.
    void set_key(std::uint64_t key) { key_ = static_cast<std::uint32_t>(key); }

    // Returns true if the queue pair has a receive queue of its own, and the list is not too long.
    bool allows(const ReceiveWork& work) const {
        return srq_ == nullptr && work.scatter_count <= max_gather_;
    }
    // REQUIRES: allows().
    Status post(const ReceiveWork& work);
    // Takes the record, or keeps it until there is a receive. no_room: neither.
    Taken deliver(const RecordView& record) {
        if (queued_.empty()) {
            const Taken taken = take(record.fields, record.payload);
            if (taken != Taken::no_receive) {
                return taken;
            }
        }
        return queue_record(record);
    }
    // Takes the kept records for which there is a receive. REQUIRES: the queue pair receives.
    Taken drain();

    void complete_flushed(std::uint64_t wr_id);
    // Completes all receives of its own as flushed, and drops the records that wait.
    void flush();
    // Drops receives and records without completions.
    void reset();
    // Takes the queue pair out of the queues.
    void forget();

private:
    Taken take(const RecordFields& fields, const std::byte* payload);
    Taken take_datagram(const RecordFields& fields, const std::byte* payload);
    Taken take_message(const RecordFields& fields, const std::byte* payload);
    Taken take_notice(const RecordFields& fields);
    Taken refuse(std::uint64_t wr_id, WorkStatus here, WorkStatus at_sender);
    Taken queue_record(const RecordView& record);
    void wait_for_receive();
    const QueuedReceive* peek_receive();
    void drop_receive();
    void complete(const WorkCompletion& completion);
    void acknowledge();

    Context& context_;
    LocalQueuePair* owner_;
    ShmCompletionQueue* cq_;
    ShmSharedReceiveQueue* srq_;
    QueuePairEntry* entry_ = nullptr;
    std::uint32_t number_ = 0;
    std::uint32_t rail_;
    std::uint32_t max_gather_;
    std::uint32_t key_ = 0;
    bool takes_datagrams_;

    bool assembling_ = false; // a message of several records is arriving
    QueuedReceive arriving_;
    Bytes arrived_ = 0;
    ReceiveQueue receives_;
    std::uint64_t posted_ = 0;
    std::uint64_t acknowledged_ = 0;

    struct QueuedRecord {
        RecordFields fields;
        std::vector<std::byte> payload;
    };
    std::deque<QueuedRecord> queued_;
    Bytes queued_bytes_ = 0;
};

} // namespace adaptib::shm
