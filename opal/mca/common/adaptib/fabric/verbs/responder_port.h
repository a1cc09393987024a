// SPDX-License-Identifier: BSD-3-Clause
// ResponderPort: the datagram queue pair of one rail at which questions are answered
// (fabric/answerer.h).
//
// Purpose: owns its objects of libibverbs and works when its completion channel wakes: takes
// questions, answers them from buffers that were registered at the start, and posts the receives
// again. It gives no answer that would have to wait for a buffer or for an address handle, which it
// shares with the device's rails: the peer asks again. It restarts a failed queue pair, at most
// once in kRestEvery; a queue pair whose device is gone stays as it is.
// Ownership: the responder's. Nothing is allocated after open(), except for address handles.
// Threads: open() and the destructor run while no other thread uses the object; set_port() on any
// thread; the rest on the responder's thread.
// May touch: base/, fabric/, libibverbs.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "fabric/verbs/rail.h"

namespace adaptib::verbs {

class ResponderPort {
public:
    static constexpr std::uint32_t kReceives = 128;
    static constexpr std::uint32_t kAnswers = 32; // in flight

    ResponderPort(VerbsRail& rail, const Answerer& answerer, std::uint64_t access_key);
    ~ResponderPort();
    ResponderPort(const ResponderPort&) = delete;
    ResponderPort& operator=(const ResponderPort&) = delete;

    // Errors: as the device reports; then only the destructor may follow.
    Status open();
    std::uint32_t number() const { return number_; } // any thread; changes if it has to be replaced
    int descriptor() const { return channel_->fd; }
    // Returns true if the device was lost and is open again: nothing arrives here any more.
    bool lost() const { return openings_ != rail_.openings(); }
    // Takes over a changed port of the rail: its LID, GID or partition. The caller then calls
    // on_event().
    void set_port(const Port& port);

    // Called when the channel is readable. Takes questions in batches, until there are `limit` or
    // more; returns their number.
    std::size_t on_event(std::size_t limit);
    // Returns true if questions are left that no event will report.
    bool pending() const { return pending_; }
    // Returns true if the queue pair has failed; on_event() tries to restart it now and then.
    bool broken() const { return broken_; }

private:
    static constexpr Bytes kReceiveBytes = 320; // the GRH and a question, in whole cache lines
    static_assert(kReceiveBytes >= kGrhBytes + kMostQuestion);
    static constexpr std::chrono::seconds kRestEvery{1};

    Status make_queue_pair();
    bool start();
    void restart();
    bool replace();
    bool has_moved();
    bool post_receive(std::uint32_t index);
    void take(const ibv_wc& completion);
    void answer(std::span<const std::byte> question, std::uint32_t asker);
    SharedAh find_handle(const Answerer::Reply& reply);
    std::byte* receive_at(std::uint32_t index) const;
    std::byte* answer_at(std::uint32_t index) const;

    VerbsRail& rail_;
    const Calls& calls_;
    const Answerer& answerer_;
    const std::uint32_t queue_key_;
    const std::uint8_t openings_; // of the rail's device, when this was made
    std::mutex port_lock_;        // protects the next two
    Port port_;
    bool moved_ = false; // to another partition: the queue pair restarts
    ibv_comp_channel* channel_ = nullptr;
    ibv_cq* cq_ = nullptr;
    ibv_qp* qp_ = nullptr;
    std::atomic<std::uint32_t> number_{0}; // of qp_
    std::unique_ptr<MemoryRegion> memory_;
    std::array<std::uint32_t, kAnswers> free_answers_{};
    std::array<SharedAh, kAnswers> handles_; // of answers in flight
    std::size_t free_count_ = 0;
    std::uint64_t life_ = 0;      // counts the queue pair's lives, from one RESET to the next
    unsigned unacknowledged_ = 0; // events
    bool pending_ = false;
    bool broken_ = false;
    std::chrono::steady_clock::time_point restart_at_{};
};

} // namespace adaptib::verbs
