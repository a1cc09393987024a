// SPDX-License-Identifier: BSD-3-Clause
// Segments: the memory that a process shares, and the memory of peers that it maps.
//
// Purpose: OwnSegment is a file without a name, as a rule a memfd (segment_file.h): a killed
// process leaves nothing behind. The file has its full size at once, which costs nothing; memory is
// committed before it is used, so that running out of it is a Status and not a signal, and what the
// file may have in all is bounded: its owner, and peers whose rings in it grow, take no more than
// the header grants. PeerSegment is another process's segment, opened (opening.h) and checked: its
// fixed part is mapped, and what is used of its heap. It holds the producer slot there and ends
// with its last user.
// Ownership: the fabric owns its OwnSegment; PeerSegments are shared by queue pairs and address handles.
// Threads: one thread at a time each.
// May touch: base/, fabric/fabric.h, heap.h, layout.h, process.h, queue.h, segment_file.h,
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
#include "fabric/fabric.h"
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
    Bytes memory_max = ~Bytes{0}; // of the file, beyond which no ring grows or is made
    Bytes queue_bytes = 0;
    std::uint32_t rails = 1;
    std::uint64_t job_key = 0;
    std::uint64_t entropy = 0;    // made into a cookie that no other living segment has
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

    // The fixed part and the queue.
    std::byte* base() const { return base_; }
    Header* header() const { return header_of(base_); }
    std::byte* at(Bytes heap_offset) const { return heap_.at(heap_offset); }
    // Where in the segment's heap [address, +length) lies; false if it does not.
    bool find(const void* address, Bytes length, Bytes& offset) const {
        return heap_.find(address, length, offset);
    }
    std::uint64_t cookie() const { return cookie_; }
    std::uint64_t host() const { return host_; }
    WireAddress wire_address(std::uint32_t rail) const;
    RailAddress address(std::uint32_t rail) const;

    // Makes sure that [offset, offset + length) of the fixed part has memory.
    Status commit(Bytes offset, Bytes length);
    // More of the queue's ring, before producers come to the end of what has memory; one that cannot get it finds it
    // done. Nothing if there is none: producers are told.
    void commit_ahead();

    // Zeroed memory of the heap (heap.h). A sparse block with more than a page at first is refused,
    // with no_memory, where the file has as much as it may have.
    Status allocate(Bytes length, Bytes& offset);
    Status allocate_sparse(Bytes length, Bytes first, Bytes& offset);
    void release(Bytes offset);
    Status commit_block(Bytes offset, Bytes length);
    bool discard(Bytes offset, Bytes length);

    // What the last failure of commit() or allocate() was about, for a person.
    const std::string& trouble() const { return trouble_; }
    Bytes heap_in_use() const { return heap_.in_use(); }
    Bytes memory() const { return memory_of_file(file_.fd); }

private:
    OwnSegment() = default;
    Status set_up(const SegmentOptions& options, std::string& error_text);
    void become_visible(const SegmentOptions& options);
    Status heap_says(Status status);
    void note_memory();
    Status take_memory(Bytes offset, Bytes length);

    std::byte* base_ = nullptr;
    SegmentFile file_;
    std::unique_ptr<DescriptorServer> server_; // null: the system gives none
    Visibility visibility_;
    bool made_ = false; // there is a header, and memory for it
    std::uint32_t pid_ = 0;
    std::uint64_t start_time_ = 0;
    std::uint64_t cookie_ = 0;
    std::uint64_t host_ = 0;
    Bytes size_ = 0;
    std::vector<bool> pages_; // of the fixed part: committed
    Bytes mapped_ = 0;        // at base_
    Heap heap_;
    std::string trouble_;
};

class PeerSegment {
public:
    // ok; unreachable (another host, not there); version; no_permission; no_memory: may go better
    // later; peer_gone. `obstacle` says more of all but the first and the last.
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

    // The address's fields; false when it is not one of this fabric's.
    static bool decode(const RailAddress& address, WireAddress& out);
    // The fixed part and the queue.
    std::byte* base() const { return base_; }
    Header* header() const { return header_of(base_); }
    // A range of its heap. Null: it has none such, or there is no address space for it.
    std::byte* at(Bytes offset, Bytes length) { return windows_.at(offset, length); }
    // The range of a sparse block has memory from now on, out of what the header grants.
    Status commit(Bytes offset, Bytes length);
    std::uint32_t pid() const { return pid_; }
    std::uint64_t cookie() const { return cookie_; }
    const Visibility& visibility() const { return address_.visibility; }
    Bytes size() const { return size_; }
    Producer& producer() { return producer_; }
    std::uint32_t own_pid() const { return own_pid_; }

    bool gone() const { return header()->alive.load(std::memory_order_acquire) != kAlive; }
    // It is gone, and has closed its segment itself.
    bool left() const { return header()->alive.load(std::memory_order_acquire) == kLeft; }
    // Looks for the process; when it has ended, marks its segment closed for all who map it.
    bool check_alive();
    // Why the segment's owner will never answer this process; Reason::none: nothing is known
    // against it.
    Obstacle refusal() const {
        return Obstacle::unpack(slot_->refused.load(std::memory_order_acquire));
    }
    // True once when it is gone, or there is a refusal.
    bool is_news() {
        return !told_ && (gone() || slot_->refused.load(std::memory_order_acquire) != 0) &&
               (told_ = true);
    }

    bool single_copy = true; // cleared when the system forbids it for this peer

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
    bool told_ = false; // that it is gone, or has refused this process
    Producer producer_;
};

} // namespace adaptib::shm
