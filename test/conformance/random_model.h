// SPDX-License-Identifier: BSD-3-Clause
// One connection of a random program, with a model of its required effects.
//
// Purpose: draws operations, posts them, applies each to a model when the queue pair accepts it (a
// queue pair executes in posting order), and compares every byte at completion and at the end.
// Ownership: borrows its ends and buffers from the fixture.
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/random.h"
#include "conformance/harness.h"

namespace adaptib::conformance {

struct RandomLimits {
    Bytes remote_bytes = 96 * 1024; // target memory for writes, reads and atomics
    Bytes largest = 24 * 1024;      // length of one operation, at most
    std::uint32_t send_slots = 24;  // operations outstanding, at most
    std::uint32_t receive_slots = 16;
    std::uint32_t max_gather = 1;
    Bytes inline_bytes = 0;
    bool read = false;
    bool write = false;
    bool write_imm = false;
    bool fences = true;
    bool atomics = false;
};

class RandomConnection {
public:
    // Sizes: `local` send_slots x largest; `remote` remote_bytes, all zero; `receives`
    // receive_slots x largest.
    RandomConnection(End& a, End& b, Buffer& local, Buffer& remote, Buffer& receives,
                     const RandomLimits& limits, std::uint64_t seed);

    // Posts one operation. Returns false when the queue is full, or when the operation would have
    // to wait for a read or an atomic and the world lacks fences.
    bool post_one();
    // Posts one receive if there is a free slot.
    void post_receive_one();
    // Takes the polled completions and checks them.
    void take_completions();
    // Posts a signaled operation that covers all before it.
    bool post_last();

    bool all_done() const { return outstanding_.empty() && expected_.empty(); }
    std::size_t receives_wanted() const { return expected_.size(); }
    // Compares the target's memory with the model.
    void compare_memory() const;

private:
    struct Operation {
        std::uint64_t wr_id = 0;
        bool signalled = false;
        Opcode opcode = Opcode::send;
        std::uint32_t slot = 0;
        std::vector<Gather> gather;
        std::vector<std::byte> result; // bytes that a read or an atomic must return
    };
    struct Message {
        std::vector<std::byte> payload; // empty with write_imm
        Bytes length = 0;
        bool has_immediate = false;
        std::uint32_t immediate = 0;
    };

    Opcode draw_opcode();
    Bytes draw_length();
    std::vector<Gather> draw_gather(std::uint32_t slot, Bytes length);
    bool post(Opcode opcode, Bytes length, bool last);
    void apply(const SendWork& work, Operation& operation, const std::vector<std::byte>& payload);
    void finish(const Operation& operation);
    void check_received(const WorkCompletion& done);

    End& a_;
    End& b_;
    Buffer& local_;
    Buffer& remote_;
    Buffer& receives_;
    RandomLimits limits_;
    Random random_;
    std::vector<std::byte> model_;             // of remote_
    std::deque<Operation> outstanding_;        // oldest first
    std::deque<Message> expected_;             // messages sent, not yet received
    std::vector<std::vector<Gather>> scatter_; // by receive slot; empty = free
    std::deque<std::uint64_t> posted_;         // receive slots in posting order
    std::uint64_t next_id_ = 1;
    std::uint32_t next_slot_ = 0;
};

} // namespace adaptib::conformance
