// SPDX-License-Identifier: BSD-3-Clause
// Requests of a reliable queue pair, in posting order.
//
// A request is queued, on the wire, arrived or answered:
//
//     [0 .. arrived)     arrived at the target; answered where `known` is set
//     [arrived .. sent)  on the wire, in order of `arrives`
//     [sent ..)          queued
//
// Ownership: the queue pair's.  Threads: one.
// May touch: base/, fabric/.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/growing_ring.h"
#include "base/units.h"
#include "fabric/completion_queue.h"
#include "fabric/receive_queue.h"
#include "fabric/work.h"

namespace adaptib::sim {

struct Request {
    SendWork work; // its gather list is the next member
    std::array<Gather, kMaxGather> gather{};
    std::vector<std::byte> inlined;
    Bytes length = 0;
    std::uint64_t old_value = 0; // atomics
    Nanoseconds ready{0};        // when the adapter sees the request
    Nanoseconds arrives{0};
    Nanoseconds answered{0}; // when the answer arrives
    bool known = false;      // `answered` is set
    bool carried_out = false;
    WorkStatus status = WorkStatus::success;

    std::span<const Gather> list() const { return {gather.data(), work.gather_count}; }
    bool returns_data() const {
        return work.opcode == Opcode::read || work.opcode == Opcode::compare_swap ||
               work.opcode == Opcode::fetch_add;
    }
    // Bytes that leave with the request.
    Bytes outwards() const { return returns_data() ? 0 : length; }
};

class RequestList {
public:
    explicit RequestList(std::uint32_t depth) : requests_(depth) {}

    bool empty() const { return requests_.empty(); }
    bool full() const { return requests_.full(); }
    std::size_t size() const { return requests_.size(); }
    Request& operator[](std::size_t i) { return requests_[i]; }
    Request& front() { return requests_.front(); }
    std::size_t arrived() const { return arrived_; }
    std::size_t sent() const { return sent_; }

    Request& push() { return requests_.push(); }
    // Returns true unless the request has to wait for requests that return data.
    bool may_leave(const Request& request, std::uint32_t max_reads) const {
        return !((request.work.flags & kFence) != 0 && reads_out_ > 0) &&
               !(request.returns_data() && reads_out_ >= max_reads);
    }
    // The first queued request leaves; it arrives at that time, or when the one before it does.
    void put_on_wire(Request& request, Nanoseconds arrives) {
        request.arrives = last_arrival_ = std::max(arrives, last_arrival_);
        reads_out_ += request.returns_data() ? 1 : 0;
        ++sent_;
    }
    // The first request on the wire has arrived.
    void arrive() { ++arrived_; }
    // The request that arrived last is answered at once, whatever is asked for.
    void tell_last() { telling_ = std::min(telling_, arrived_ - 1); }
    // A request was refused or cannot be sent: nothing follows it.
    void halt() { halted_ = true; }
    bool halted() const { return halted_; }
    // Queues the requests from `first` on again.
    void take_back(std::size_t first);
    // Removes the first request.
    void pop();
    void clear();

    // Reads and atomics that have arrived and whose answer has not.
    std::uint32_t answering(Nanoseconds now) {
        std::uint32_t count = 0;
        for (std::size_t i = 0; i < arrived_; ++i) {
            const Request& request = requests_[i];
            count += request.returns_data() && (!request.known || request.answered > now) ? 1 : 0;
        }
        return count;
    }

    // Index of the request whose long response is on its way.
    std::size_t responding() const { return responding_; }
    void respond_to(std::size_t index) { responding_ = index; }

    // Returns true if a request for which tells(request) is true has been answered, with all before
    // it; `when` becomes the time at which all these answers have arrived.
    template <class Tells> bool next_to_tell(Tells&& tells, Nanoseconds& when) {
        while (telling_ < requests_.size() && !tells(requests_[telling_])) {
            ++telling_;
        }
        if (telling_ >= arrived_) {
            return false;
        }
        when = Nanoseconds{0};
        for (std::size_t i = 0; i <= telling_; ++i) {
            if (!requests_[i].known) {
                return false;
            }
            when = std::max(when, requests_[i].answered);
        }
        return true;
    }

private:
    GrowingRing<Request> requests_;
    std::size_t arrived_ = 0;
    std::size_t sent_ = 0;
    std::size_t telling_ = 0; // the first request that tells is this one or a later one
    std::size_t responding_ = 0;
    bool halted_ = false;
    std::uint32_t reads_out_ = 0; // of [0, sent_), those that return data
    Nanoseconds last_arrival_{0};
};

inline void RequestList::take_back(std::size_t first) {
    for (std::size_t i = first; i < sent_; ++i) {
        requests_[i].known = false;
        reads_out_ -= requests_[i].returns_data() ? 1 : 0;
    }
    sent_ = std::min(sent_, first);
    arrived_ = std::min(arrived_, first);
}

inline void RequestList::pop() {
    if (sent_ > 0) {
        reads_out_ -= requests_.front().returns_data() ? 1 : 0;
        --sent_;
    }
    arrived_ -= arrived_ > 0 ? 1 : 0;
    telling_ -= telling_ > 0 ? 1 : 0;
    responding_ -= responding_ > 0 ? 1 : 0;
    requests_.pop();
}

inline void RequestList::clear() {
    requests_.clear();
    arrived_ = sent_ = telling_ = responding_ = 0;
    halted_ = false;
    reads_out_ = 0;
    last_arrival_ = Nanoseconds{0};
}

} // namespace adaptib::sim
