// SPDX-License-Identifier: BSD-3-Clause
// Segments: the memory that a process shares, and the memory of peers that it maps.
//
// Purpose: OwnSegment is a file without a name, normally a memfd (segment_file.h), so that a killed
// process leaves nothing behind. The file has its full size at once, which costs nothing. Memory is
// committed before use, so that running out of memory is a Status and not a signal. The file's
// memory is bounded: its owner, and peers whose rings in it grow, take no more than the header
// grants. PeerSegment is another process's segment, opened (opening.h) and checked: its fixed part
// is mapped, and the used parts of its heap. It holds a producer slot there and ends with its last
// user.
// Ownership: the fabric owns its OwnSegment; queue pairs and address handles share PeerSegments.
// Threads: one thread at a time each.
// May touch: base/, fabric/rail_address.h, heap.h, layout.h, process.h, queue.h, segment_file.h,
// opening.h, descriptor_server.h, windows.h, the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "fabric/rail_address.h"
#include "fabric/shm/descriptor_server.h"
#include "fabric/shm/heap.h"
#include "fabric/shm/layout.h"
#include "fabric/shm/obstacle.h"
#include "fabric/shm/process.h"
#include "fabric/shm/queue.h"
#include "fabric/shm/segment_address.h"
#include "fabric/shm/segment_file.h"
#include "fabric/shm/windows.h"

namespace adaptib::shm {

struct SegmentOptions {
    Bytes segment_max = 0;
    Bytes memory_max = ~Bytes{0}; // limit of the file's memory for rings
    Bytes queue_bytes = 0;
    std::uint32_t rails = 1;
    std::uint64_t job_key = 0;
    std::uint64_t host = 0;       // ShmOptions
    bool server = true;           // ShmOptions::descriptor_server
    std::uint32_t user_space = 0; // ShmOptions
};

class OwnSegment {
public:
    static Status create(const SegmentOptions& options, std::unique_ptr<OwnSegment>& out,
                         std::string& error_text);
    ~OwnSegment();
    OwnSegment(const OwnSegment&) = delete;
    OwnSegment& operator=(const OwnSegment&) = delete;

    // Fixed part and the queue.
    std::byte* base() const { return base_; }
    Header* header() const { return header_of(base_); }
    std::byte* at(Bytes heap_offset) const { return heap_.at(heap_offset); }
    // Offset of [address, +length) in the segment's heap; false if it is not there.
    bool find(const void* address, Bytes length, Bytes& offset) const {
        return heap_.find(address, length, offset);
    }
    std::uint64_t cookie() const { return cookie_; }
    std::uint64_t host() const { return host_; }
    WireAddress wire_address(std::uint32_t rail) const;
    RailAddress address(std::uint32_t rail) const;

    // Makes sure that [offset, offset + length) of the fixed part has memory.
    Status commit(Bytes offset, Bytes length);
    // Gives the queue's ring more memory before producers reach the end, so that a producer which
    // cannot get memory itself does not need to. Does nothing if there is none: then producers get
    // an error.
    void commit_ahead();

    // Allocates zeroed memory of the heap (heap.h). A sparse block whose first part exceeds a page
    // is refused with no_memory if the file would exceed the memory that it may have.
    Status allocate(Bytes length, Bytes& offset);
    Status allocate_sparse(Bytes length, Bytes first, Bytes& offset);
    void release(Bytes offset);
    Status commit_block(Bytes offset, Bytes length);
    bool discard(Bytes offset, Bytes length);

    // Text for a person: reason of the last failure of commit() or allocate().
    const std::string& last_error_text() const { return last_error_text_; }
    Bytes heap_in_use() const { return heap_.in_use(); }
    Bytes memory() const { return memory_of_file(file_.fd); }

private:
    OwnSegment() = default;
    Status set_up(const SegmentOptions& options, std::string& error_text);
    std::uint64_t new_cookie() const;
    void become_visible(const SegmentOptions& options);
    Status heap_says(Status status);
    void note_memory();
    Status take_memory(Bytes offset, Bytes length);

    std::byte* base_ = nullptr;
    SegmentFile file_;
    std::unique_ptr<DescriptorServer> server_; // null: the system refuses one
    Visibility visibility_;
    bool made_ = false; // the header exists and has memory
    std::uint32_t pid_ = 0;
    std::uint64_t start_time_ = 0;
    std::uint64_t cookie_ = 0;
    std::uint64_t answer_key_ = 0;
    std::uint64_t host_ = 0;
    Bytes size_ = 0;
    std::vector<bool> pages_; // of the fixed part: has memory
    Bytes mapped_ = 0;        // at base_
    Heap heap_;
    std::string last_error_text_;
};

class PeerSegment {
public:
    // ok; unreachable (another host, or not there); version; no_permission; no_memory (a later try
    // may succeed); peer_gone. `obstacle` says more about all but the first and the last.
    static Status open(const RailAddress& address, std::uint64_t own_cookie,
                       std::shared_ptr<PeerSegment>& out, std::uint64_t own_host,
                       Obstacle& obstacle);
    static Status open(const RailAddress& address, std::uint64_t own_cookie,
                       std::shared_ptr<PeerSegment>& out,
                       std::uint64_t own_host = host_identity()) {
        Obstacle obstacle;
        return open(address, own_cookie, out, own_host, obstacle);
    }
    ~PeerSegment();
    PeerSegment(const PeerSegment&) = delete;
    PeerSegment& operator=(const PeerSegment&) = delete;

    // Reads the address's fields; false if the address is not of this fabric.
    static bool decode(const RailAddress& address, WireAddress& out);
    // Fixed part and the queue.
    std::byte* base() const { return base_; }
    Header* header() const { return header_of(base_); }
    // Local address of a range of the peer's heap. Null: the range is not in the file, or there is
    // no address space for it.
    std::byte* at(Bytes offset, Bytes length) { return windows_.at(offset, length); }
    // Gives the range of a sparse block memory, within what the header grants.
    Status commit(Bytes offset, Bytes length);
    std::uint32_t pid() const { return pid_; }
    std::uint64_t cookie() const { return cookie_; }
    const Visibility& visibility() const { return address_.visibility; }
    Bytes size() const { return size_; }
    Producer& producer() { return producer_; }
    std::uint32_t own_pid() const { return own_pid_; }

    bool gone() const { return header()->alive.load(std::memory_order_acquire) != kAlive; }
    // The peer is gone because it has closed its segment itself.
    bool left() const { return header()->alive.load(std::memory_order_acquire) == kLeft; }
    // Checks the process. If it has ended, marks its segment.
    bool check_alive();
    // Marks the segment closed for all processes that map it, unless it is gone: the process has
    // ended, or is about to.
    void mark_ended();
    // Reason why the segment's owner never replies to this process; Reason::none: it has not
    // refused.
    Obstacle refusal() const {
        return Obstacle::unpack(slot_->refused.load(std::memory_order_acquire));
    }
    // Returns true once, after the peer is gone or has refused this process.
    bool is_news() {
        return !reported_ && (gone() || slot_->refused.load(std::memory_order_acquire) != 0) &&
               (reported_ = true);
    }

    bool single_copy = true; // cleared when the system forbids attach for this peer

private:
    PeerSegment() = default;
    Status map_file(int fd, const WireAddress& wire, Obstacle& obstacle);
    Status check(const WireAddress& wire);
    Status claim_slot(int fd, std::uint64_t own_cookie, Obstacle& obstacle);

    std::byte* base_ = nullptr;
    Bytes mapped_ = 0; // at base_
    Windows windows_;
    std::uint32_t pid_ = 0;
    WireAddress address_{};
    std::uint64_t start_time_ = 0;
    std::uint64_t cookie_ = 0;
    Bytes size_ = 0;
    std::uint32_t own_pid_ = 0;
    ProducerSlot* slot_ = nullptr;
    bool reported_ = false; // is_news() has reported
    Producer producer_;
};

} // namespace adaptib::shm
