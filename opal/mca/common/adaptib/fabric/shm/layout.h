// SPDX-License-Identifier: BSD-3-Clause
// Format of a shared-memory segment, shared by its owner, peers and tools/adaptib_rails.
//
// Purpose: a process creates its segment as a file without a name (segment_file.h), and its peers
// map it. In it, in order:
//   Header | ProducerSlot[] | QueuePairEntry[] | SrqEntry[] | RegionEntry[] | granule ring | heap
// All offsets except the heap's are constants; the header names the ring's and the heap's. The file
// has its full size from the start; memory is committed piece by piece (segment.h, heap.h).
// Writers: the owner writes everything, except: producer slots, ring records and the words
// `reserve`, `committed` and `producers_end` (peers), the word `memory` (peers whose
// rings grow add to it), the lock of the atomics (peers), blocks that peers map, rail words
// (tools/adaptib_rails), the alive word and the closed bits of a dead owner (the process that
// notices), bounce-slot answers (the peer that served the request).
// Trust: a peer is a process of the same user; readers nevertheless check what it wrote.
// Threads: words that two processes touch are atomics; an atomic publishes all other fields.
// May touch: base/ only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace adaptib::shm {

inline constexpr std::uint64_t kMagic = 0x6269'7470'6164'6131u; // "1adaptib"
inline constexpr std::uint32_t kLayoutVersion = 7;

inline constexpr std::uint32_t kMaxRails = 16;
inline constexpr std::uint32_t kMaxProducers = 2048;
inline constexpr std::uint32_t kMaxQueuePairs = 8192;
inline constexpr std::uint32_t kMaxSrqs = 256;
inline constexpr std::uint32_t kMaxRegions = 65536;

inline constexpr Bytes kPage = 4096;
inline constexpr Bytes kGranule = kCacheLine;
// Payload of one record of the queue: a page and headers.
inline constexpr Bytes kDatagramBytes = 4096 + 256;

// -------------------------------------------------------------------------------------------------
// Rail words: zero means "active, at full speed", so that one comparison answers usable().

inline constexpr std::uint64_t kRailDown = 1ull << 63;
inline constexpr std::uint64_t kRailClosed = 1ull << 62;         // the segment's owner is gone
inline constexpr std::uint64_t kRailRateMask = (1ull << 48) - 1; // bytes per second, 0 = no limit

struct alignas(kCacheLine) RailEntry {
    std::atomic<std::uint64_t> word;
};

// Header::alive
inline constexpr std::uint32_t kEnded = 0; // ended; the process that noticed wrote this
inline constexpr std::uint32_t kAlive = 1;
inline constexpr std::uint32_t kLeft = 2; // the owner has closed the segment

struct Header {
    std::atomic<std::uint64_t> magic; // written last: before, the mapping is not yet a segment
    std::uint32_t version;
    std::uint32_t pid;
    std::uint64_t start_time; // of the process, clock ticks since boot
    std::uint64_t cookie;
    std::uint64_t job_key;
    std::uint64_t segment_bytes;
    std::uint64_t ring_offset;
    std::uint64_t ring_granules; // a power of two
    std::uint64_t heap_offset;
    std::uint32_t rails;

    alignas(kCacheLine) std::atomic<std::uint32_t> alive; // kEnded, kAlive or kRetained
    // Lock that makes atomics on private memory atomic among each other: 0, or its holder:
    // pid << 32 | producer slot + 1, or the segment's owner (atomic_lock.h).
    alignas(kCacheLine) std::atomic<std::uint64_t> atomic_lock;

    // The queue. Positions count granules from 0 and never wrap.
    alignas(kCacheLine) std::atomic<std::uint64_t> reserve; // producers: end of the reserved part
    // Consumer: start of the part that is not consumed.
    alignas(kCacheLine) std::atomic<std::uint64_t> consumed;
    alignas(kCacheLine) std::atomic<std::uint64_t> committed; // granules that have memory
    std::atomic<std::uint32_t> producers_end;                 // no slot at or above was ever used
    std::atomic<std::uint32_t> regions_end;                   // no entry at or above was ever used
    // Bytes of memory that the file has, as far as its owner and peers know.
    std::atomic<std::uint64_t> memory;
    std::atomic<std::uint64_t> memory_max; // limit of `memory` for growing rings

    alignas(kCacheLine) RailEntry rail[kMaxRails];
};

// -------------------------------------------------------------------------------------------------
// The queue

inline constexpr std::uint64_t kSlotClaiming = 1ull << 63;

// One per process that sends to this one. `intent` names the granules that its owner is about to
// reserve (position << 16 | count); the owner writes it before the reservation. So the consumer can
// tell granules that a killed process reserved and never published from those of a slow process.
struct alignas(kCacheLine) ProducerSlot {
    // 0: free; pid; with kSlotClaiming while the slot is being filled in.
    std::atomic<std::uint64_t> owner;
    std::atomic<std::uint64_t> start_time;
    std::atomic<std::uint64_t> cookie; // of the producer's own segment
    std::atomic<std::uint64_t> intent;
    // The segment's owner writes here why it cannot map the producer's segment and so cannot answer
    // it (obstacle.h). 0: it can, or has not given up.
    std::atomic<std::uint64_t> refused;
};

enum class RecordType : std::uint8_t {
    skip = 1, // skips to the end of the ring
    datagram, // UD
    message,  // RC send, or a fragment of one
    notice,   // RC write with immediate: the data is already there
    request,  // copy pipeline (copy_pipeline.h)
    broken,   // the sending queue pair met an error that the target's queue pair shares
};

enum RecordFlag : std::uint8_t {
    kRecordFirst = 1u << 0,
    kRecordLast = 1u << 1,
    kRecordImmediate = 1u << 2,
};

struct RecordHeader {
    std::atomic<std::uint64_t> state; // 0, or position + 1 once the record is complete
    RecordType type;
    std::uint8_t flags;
    std::uint16_t producer; // slot index
    std::uint32_t length;   // of the payload that follows (notice: of the data written)
    std::uint32_t target_qp;
    std::uint32_t source_qp;
    std::uint32_t immediate;
    std::uint32_t key; // datagram: Q_Key
};
static_assert(sizeof(RecordHeader) == 32, "small datagrams share the first line with the header");

// -------------------------------------------------------------------------------------------------
// Queue pairs

// bit 0: receives; 1..7: low bits of the packet number that it expects first; 8..15: access;
// 16..39: number of the remote queue pair; 40..63: own number. Everything but the access must be as
// the initiator expects.
inline constexpr std::uint64_t kQpReceives = 1;
inline constexpr std::uint64_t kQpAccessMask = 0xff00;

constexpr std::uint64_t qp_word(std::uint32_t number, std::uint32_t remote, std::uint32_t psn,
                                std::uint32_t access, bool receives) {
    return static_cast<std::uint64_t>(number) << 40 | static_cast<std::uint64_t>(remote) << 16 |
           static_cast<std::uint64_t>(access & 0xffu) << 8 |
           static_cast<std::uint64_t>(psn & 0x7fu) << 1 | (receives ? kQpReceives : 0);
}
constexpr std::uint32_t qp_word_number(std::uint64_t word) {
    return static_cast<std::uint32_t>(word >> 40);
}
constexpr std::uint32_t qp_word_access(std::uint64_t word) {
    return static_cast<std::uint32_t>((word & kQpAccessMask) >> 8);
}

struct alignas(kCacheLine) QueuePairEntry {
    std::atomic<std::uint64_t> word;
    std::atomic<std::uint64_t> remote_cookie;
    std::atomic<std::uint32_t> srq;          // index + 1; 0: its own receive queue
    std::atomic<std::uint32_t> rnr_timer;    // code of the IBA
    std::atomic<std::uint32_t> target_reads; // reads and atomics that it serves; 0: none

    // Read by the initiator: messages taken, and the fate of the one that was refused.
    alignas(kCacheLine) std::atomic<std::uint64_t> acknowledged;
    std::atomic<std::uint64_t> refused; // message number << 8 | WorkStatus, 0 = none
    std::atomic<std::uint64_t> posted;  // receives ever posted to its own receive queue

    // Written as initiator: nonzero while this queue pair touches the target's memory (fencing,
    // rc.h).
    alignas(kCacheLine) std::atomic<std::uint64_t> busy;
};

struct alignas(kCacheLine) SrqEntry {
    std::atomic<std::uint64_t> available; // receives posted and not used yet
};

inline constexpr std::uint32_t kQpIndexBits = 13;
static_assert(kMaxQueuePairs == 1u << kQpIndexBits);
constexpr std::uint32_t qp_index(std::uint32_t number) { return number & (kMaxQueuePairs - 1); }

// -------------------------------------------------------------------------------------------------
// Memory regions: key = generation << 16 | index

inline constexpr std::uint64_t kRegionValid = 1;
// RegionEntry::offset of memory outside the segment.
inline constexpr std::uint64_t kPrivate = ~0ull;

struct RegionEntry {
    std::atomic<std::uint64_t> tag; // 0, or key << 32 | rail << 16 | access << 8 | kRegionValid
    std::atomic<std::uint64_t> base;
    std::atomic<std::uint64_t> length;
    std::atomic<std::uint64_t> offset; // in the segment, or kPrivate
};

constexpr std::uint64_t region_tag(std::uint32_t key, std::uint32_t rail, std::uint32_t access) {
    return static_cast<std::uint64_t>(key) << 32 | (rail & 0xffu) << 16 | (access & 0xffu) << 8 |
           kRegionValid;
}
constexpr std::uint32_t region_key(std::uint64_t tag) {
    return static_cast<std::uint32_t>(tag >> 32);
}
constexpr std::uint32_t region_rail(std::uint64_t tag) {
    return static_cast<std::uint32_t>(tag >> 16) & 0xffu;
}
constexpr std::uint32_t region_access(std::uint64_t tag) {
    return static_cast<std::uint32_t>(tag >> 8) & 0xffu;
}
// Returns true if the region has that key and rail and grants at least those rights.
constexpr bool region_is(std::uint64_t tag, std::uint32_t key, std::uint32_t rail,
                         std::uint32_t access) {
    const std::uint64_t wanted = region_tag(key, rail, access);
    return (tag & (~region_tag(0, 0, ~0u) | wanted)) == wanted;
}

// -------------------------------------------------------------------------------------------------
// Offsets

inline constexpr Bytes kProducersOffset = kPage;
inline constexpr Bytes kQueuePairsOffset = kProducersOffset + kMaxProducers * sizeof(ProducerSlot);
inline constexpr Bytes kSrqsOffset = kQueuePairsOffset + kMaxQueuePairs * sizeof(QueuePairEntry);
inline constexpr Bytes kRegionsOffset = kSrqsOffset + kMaxSrqs * sizeof(SrqEntry);
inline constexpr Bytes kRingOffset = kRegionsOffset + kMaxRegions * sizeof(RegionEntry);

static_assert(sizeof(Header) <= kPage);
static_assert(kQueuePairsOffset % kPage == 0 && kSrqsOffset % kPage == 0);
static_assert(kRegionsOffset % kPage == 0 && kRingOffset % kPage == 0);
static_assert(sizeof(ProducerSlot) == 64 && sizeof(QueuePairEntry) == 192);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

inline Header* header_of(std::byte* base) { return reinterpret_cast<Header*>(base); }
inline ProducerSlot* producers_of(std::byte* base) {
    return reinterpret_cast<ProducerSlot*>(base + kProducersOffset);
}
inline QueuePairEntry* queue_pairs_of(std::byte* base) {
    return reinterpret_cast<QueuePairEntry*>(base + kQueuePairsOffset);
}
inline SrqEntry* srqs_of(std::byte* base) {
    return reinterpret_cast<SrqEntry*>(base + kSrqsOffset);
}
inline RegionEntry* regions_of(std::byte* base) {
    return reinterpret_cast<RegionEntry*>(base + kRegionsOffset);
}

} // namespace adaptib::shm
