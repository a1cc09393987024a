// SPDX-License-Identifier: BSD-3-Clause
// Work requests: what a queue pair, or a shared receive queue, is asked to do.
//
// Ownership: value types. A work request refers to its gather list and its address handle, which
//   belong to the caller; fabric/README.md (Posting) says how long the memory that the list names
//   belongs to the fabric.
// Threads: value types.
// May touch: base/.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace adaptib {

enum class Opcode : std::uint8_t {
    send,
    send_imm,
    write,
    write_imm,
    read,
    // Remote 8 bytes == compare_add ? swap : unchanged; the old value goes to the gather entry.
    compare_swap,
    // Remote 8 bytes += compare_add; the old value goes to the gather entry.
    fetch_add,
};

enum SendFlag : std::uint32_t {
    kSignaled = 1u << 0,
    kInline = 1u << 1, // post_send copies the payload; no local key needed
    kFence = 1u << 2,  // wait for this queue pair's earlier reads and atomics
    // The last 8 bytes (8-byte aligned at the target) become visible after all the others, so that
    // a poller that sees them may read the rest. Adapters write in address order, which gives this
    // for free.
    kPublish = 1u << 3,
    // Write, read: if the system cannot reach the memory of one end, the request ends as
    // memory_fault, and the queue pair goes on. Part of the destination may have changed.
    kMayFault = 1u << 4,
};

struct Gather {
    void* address = nullptr;
    Bytes length = 0;
    std::uint32_t local_key = 0;
};

class AddressHandle;

struct SendWork {
    std::uint64_t wr_id = 0;
    Opcode opcode = Opcode::send;
    std::uint32_t flags = 0;
    const Gather* gather = nullptr;
    std::uint32_t gather_count = 0;
    std::uint32_t immediate = 0;
    std::uint64_t remote_address = 0; // write, read, atomics
    std::uint32_t remote_key = 0;
    std::uint64_t compare_add = 0;
    std::uint64_t swap = 0;
    const AddressHandle* address_handle = nullptr; // UD, DC
    std::uint32_t remote_qp = 0;                   // UD, DC
    std::uint64_t remote_access_key = 0;           // UD: Q_Key, DC: access key
};

// Zero-length write. Its completion tells that everything posted before it has arrived.
constexpr SendWork empty_write(std::uint64_t wr_id, std::uint64_t address, std::uint32_t key) {
    SendWork work;
    work.wr_id = wr_id;
    work.opcode = Opcode::write;
    work.flags = kSignaled;
    work.remote_address = address;
    work.remote_key = key;
    return work;
}

// Work of QueuePair::rma_now(): one contiguous piece of local memory, one of remote memory.
struct RmaWork {
    Opcode opcode = Opcode::write; // write, read, compare_swap, fetch_add
    std::uint32_t local_key = 0;
    void* local = nullptr;
    Bytes length = 0;
    std::uint64_t remote_address = 0;
    std::uint32_t remote_key = 0;
    std::uint64_t compare_add = 0;
    std::uint64_t swap = 0;
};

struct ReceiveWork {
    std::uint64_t wr_id = 0;
    const Gather* scatter = nullptr;
    std::uint32_t scatter_count = 0;
};

} // namespace adaptib
