// SPDX-License-Identifier: BSD-3-Clause
// ResponderPort: the datagram queue pair of one rail at which questions are answered
// (fabric/fabric.h, Answerer).
//
// Purpose: its objects of libibverbs, and what happens when its completion channel wakes: questions
// are taken, answered from buffers that were registered at the beginning, and receives posted
// again. Answers that would have to wait for a buffer, or for an address handle, are not given: who
// asks asks again. Address handles are kept, kHandles of them, by where they lead: making one is a
// call of the system on some devices. A queue pair that has failed is begun anew, once in
// kRestEvery; one whose device is gone stays as it is.
// Ownership: the responder's. Nothing is allocated after open().
// Threads: open() and the destructor while nobody else is there, set_port() any; the rest by the
// responder's thread.
// May touch: base/, fabric/, libibverbs.
#pragma once

#include <array>
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
    static constexpr std::uint32_t kAnswers = 32; // under way
    static constexpr std::size_t kHandles = 32;

    ResponderPort(VerbsRail& rail, const Answerer& answerer, std::uint64_t access_key);
    ~ResponderPort();
    ResponderPort(const ResponderPort&) = delete;
    ResponderPort& operator=(const ResponderPort&) = delete;

    // Errors: what the device says; nothing is left then but what the destructor gives back.
    Status open();
    std::uint32_t number() const { return qp_ == nullptr ? 0 : qp_->qp_num; }
    int descriptor() const { return channel_->fd; }
    // The rail's port is another: its LID, its GID, its partition. on_event() is to be called then.
    void set_port(const Port& port);

    // The channel is readable. At most `limit` questions; returns how many there were.
    std::size_t on_event(std::size_t limit);
    // Questions are left that no event will tell of.
    bool pending() const { return pending_; }
    // It is to be begun anew, which on_event() tries now and then.
    bool broken() const { return broken_; }

private:
    static constexpr Bytes kReceiveBytes = 320; // the GRH and a question, in whole cache lines
    static_assert(kReceiveBytes >= kGrhBytes + kMostQuestion);
    static constexpr std::chrono::seconds kRestEvery{1};

    struct Handle {
        ibv_ah_attr attributes{};
        ibv_ah* ah = nullptr;
        std::uint32_t under_way = 0;
        std::uint64_t used = 0;
    };

    Status make_queue_pair();
    bool start();
    void restart();
    bool has_moved();
    bool post_receive(std::uint32_t index);
    void take(const ibv_wc& completion);
    void answer(std::span<const std::byte> question, std::uint32_t asker);
    bool find_handle(const Answerer::Reply& reply, std::size_t& handle);
    std::byte* receive_at(std::uint32_t index) const;
    std::byte* answer_at(std::uint32_t index) const;

    VerbsRail& rail_;
    const Calls& calls_;
    const Answerer& answerer_;
    const std::uint32_t queue_key_;
    std::mutex port_lock_; // of the next two
    Port port_;
    bool moved_ = false; // to another partition: the queue pair is begun anew
    ibv_comp_channel* channel_ = nullptr;
    ibv_cq* cq_ = nullptr;
    ibv_qp* qp_ = nullptr;
    std::unique_ptr<MemoryRegion> memory_;
    std::array<Handle, kHandles> handles_;
    std::array<std::uint32_t, kAnswers> free_answers_{};
    std::array<std::size_t, kAnswers> handle_of_{}; // of an answer under way
    std::size_t free_count_ = 0;
    std::uint64_t life_ = 0; // of the queue pair: from one RESET to the next
    std::uint64_t answered_ = 0;
    unsigned unacknowledged_ = 0; // events
    bool pending_ = false;
    bool broken_ = false;
    std::chrono::steady_clock::time_point restart_at_{};
};

} // namespace adaptib::verbs
