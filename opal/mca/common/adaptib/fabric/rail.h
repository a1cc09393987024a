// SPDX-License-Identifier: BSD-3-Clause
// Rail: one port of the process, and the maker of all objects that use it.
//
// Ownership: the fabric owns its rails. The unique_ptr that a create call returns owns the object,
//   which ends before the rail.
// Threads: one thread at a time uses a rail.
// Errors: Status; outputs are set only when it is ok.
// May touch: base/, and the headers of fabric/ on what a rail has and makes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/invariant.h"
#include "base/status.h"
#include "base/units.h"
#include "fabric/address_handle.h"
#include "fabric/capability.h"
#include "fabric/completion_queue.h"
#include "fabric/memory_region.h"
#include "fabric/queue_pair.h"
#include "fabric/rail_address.h"
#include "fabric/shared_receive_queue.h"

namespace adaptib {

class Rail {
public:
    virtual ~Rail() = default;
    const RailInfo& info() const { return info_; }
    PortState state() const { return state_impl(); }
    // How often its device was opened anew, after it was lost. Keys of regions and numbers of queue
    // pairs from before that mean nothing.
    std::uint8_t openings() const { return openings_; }
    RailAddress address() const { return address_impl(); }
    // Returns true if the owner of this address may be reached over this rail: the address is of
    // this kind of fabric and, where the fabric ends at the host, of this host, and the two
    // processes may open each other's memory as far as the addresses tell. Same result at both
    // ends; no system call. create_ah and QueuePair::modify report other obstacles.
    bool is_reachable(const RailAddress& remote) const { return is_reachable_impl(remote); }
    // Text for a person: why the address is not reachable, if there is more to say than "another
    // kind of fabric" or "another host". REQUIRES: !is_reachable(remote).
    std::string why_out_of_reach(const RailAddress& remote) const {
        return why_out_of_reach_impl(remote);
    }
    // Of several reachable rails, the one with the highest value is most likely on the same
    // network, judged by its address. Same result at both ends. REQUIRES: is_reachable(remote).
    std::uint32_t subnet_match(const RailAddress& remote) const {
        return subnet_match_impl(remote);
    }
    // Number of paths to a remote rail, at least 1; same result at both ends. Both ends of a
    // connection use the path of the same index, so that packets of one end arrive on the path that
    // the other expects.
    // REQUIRES: is_reachable(remote); index < paths_to(remote).
    std::uint32_t paths_to(const RailAddress& remote) const {
        const std::uint32_t paths = paths_to_impl(remote);
        ADAPTIB_INVARIANT(paths > 0, "a path leads to each rail", paths);
        return paths;
    }
    PathSpec path_to(const RailAddress& remote, std::uint32_t index) const {
        return path_to_impl(remote, index);
    }
    // Longest datagram that this rail and the remote one take: RailInfo::datagram_bytes, or less if
    // the remote one takes less. REQUIRES: is_reachable(remote).
    Bytes datagram_bytes_to(const RailAddress& remote) const {
        const Bytes bytes = datagram_bytes_to_impl(remote);
        ADAPTIB_INVARIANT(bytes <= info_.datagram_bytes,
                          "no remote rail makes datagrams longer than this one's", bytes,
                          info_.datagram_bytes);
        return bytes;
    }
    // Returns true if the DC queue pairs of both rails, which serve many peers alike, suit each
    // other. Same result at both ends. REQUIRES: is_reachable(remote).
    bool dc_suits(const RailAddress& remote) const { return dc_suits_impl(remote); }
    // Reason of the last call that this rail or one of its queue pairs refused, where the status
    // alone does not tell; empty if there is nothing to add.
    std::string last_error_text() const { return last_error_text_impl(); }
    // Tells the peer at that address, whose datagrams arrive here, that this process cannot reach
    // it and never replies: the peer gets the event peer_changed. Needs no path to the peer. Does
    // nothing in a fabric that has no means for it.
    void refuse(const RailAddress& remote, Reason why) { refuse_impl(remote, why); }

    Status create_cq(std::uint32_t depth, std::unique_ptr<CompletionQueue>& out) {
        return made(create_cq_impl(depth, out), out);
    }
    Status create_srq(std::uint32_t depth, std::unique_ptr<SharedReceiveQueue>& out) {
        return made(create_srq_impl(depth, out), out);
    }
    Status create_qp(const QpInit& init, std::unique_ptr<QueuePair>& out) {
        return made(create_qp_impl(init, out), out);
    }
    // Never waits. kNotYet, kUnanswered: call again. A handle leads where the path led when it was
    // made: a later one may lead to another port.
    Status create_ah(const PathSpec& path, std::unique_ptr<AddressHandle>& out) {
        return made(create_ah_impl(path, out), out);
    }
    // Call it until it is ok before QueuePair::modify sets a path: otherwise that call may wait for
    // the system to find the path. kNotYet, kUnanswered: call again.
    Status prepare_path(const PathSpec& path) { return prepare_path_impl(path); }
    // REQUIRES: the handle is of this rail. May ask the system (some microseconds).
    Reach reach(const AddressHandle& handle) const { return reach_impl(handle); }
    // Registers the caller's memory for local use and, as `access` says, for remote use, until the
    // region is destroyed.
    Status register_memory(void* address, Bytes length, std::uint32_t access,
                           std::unique_ptr<MemoryRegion>& out) {
        const Status status = made(register_impl(address, length, access, out), out);
        ADAPTIB_INVARIANT(!status.ok() || (out->address() == address && out->length() == length),
                          "a region is the memory that it was made for", address, length);
        return status;
    }
    // Registers memory that the processor cannot reach: an accelerator's, which has that file and
    // that address. not_supported: the rail cannot do that.
    Status register_file(const FileRange& file, void* address, Bytes length, std::uint32_t access,
                         std::unique_ptr<MemoryRegion>& out) {
        return made(register_file_impl(file, address, length, access, out), out);
    }
    // Allocates zeroed memory, aligned to a cache line. The region owns it; it is registered.
    Status allocate(Bytes length, std::uint32_t access, std::unique_ptr<MemoryRegion>& out) {
        return made(allocate_impl(length, access, out), out);
    }
    // As allocate(), but page-aligned, and only the first bytes need memory now: the owner adds
    // more by MemoryRegion::commit, peers by QueuePair::commit. A fabric that cannot do that gives
    // the whole region memory at once. REQUIRES: first <= length.
    Status allocate_sparse(Bytes length, Bytes first, std::uint32_t access,
                           std::unique_ptr<MemoryRegion>& out) {
        ADAPTIB_INVARIANT(first <= length, "the first part of a region lies in it", first, length);
        return made(allocate_sparse_impl(length, first, access, out), out);
    }

protected:
    RailInfo info_;
    std::uint8_t openings_ = 0;

private:
    // Passes the status of a call on that makes an object.
    template <class Object> static Status made(Status status, const std::unique_ptr<Object>& out) {
        ADAPTIB_INVARIANT(!status.ok() || out != nullptr, "a call that succeeds makes an object",
                          status.reason());
        return status;
    }

    virtual PortState state_impl() const = 0;
    virtual RailAddress address_impl() const = 0;
    virtual bool is_reachable_impl(const RailAddress& remote) const = 0;
    virtual std::string why_out_of_reach_impl(const RailAddress&) const { return {}; }
    virtual std::uint32_t subnet_match_impl(const RailAddress&) const { return 0; }
    virtual std::uint32_t paths_to_impl(const RailAddress&) const { return 1; }
    virtual PathSpec path_to_impl(const RailAddress& remote, std::uint32_t) const {
        PathSpec path;
        path.remote = remote;
        return path;
    }
    virtual Bytes datagram_bytes_to_impl(const RailAddress&) const { return info_.datagram_bytes; }
    virtual bool dc_suits_impl(const RailAddress&) const { return true; }
    virtual std::string last_error_text_impl() const { return {}; }
    virtual void refuse_impl(const RailAddress&, Reason) {}
    virtual Status create_cq_impl(std::uint32_t, std::unique_ptr<CompletionQueue>&) = 0;
    virtual Status create_srq_impl(std::uint32_t, std::unique_ptr<SharedReceiveQueue>&) = 0;
    virtual Status create_qp_impl(const QpInit&, std::unique_ptr<QueuePair>&) = 0;
    virtual Status create_ah_impl(const PathSpec&, std::unique_ptr<AddressHandle>&) = 0;
    virtual Status prepare_path_impl(const PathSpec&) { return kOk; }
    virtual Reach reach_impl(const AddressHandle&) const { return Reach::unknown; }
    virtual Status register_impl(void*, Bytes, std::uint32_t, std::unique_ptr<MemoryRegion>&) = 0;
    virtual Status register_file_impl(const FileRange&, void*, Bytes, std::uint32_t,
                                      std::unique_ptr<MemoryRegion>&) {
        return Status::error(Reason::not_supported);
    }
    virtual Status allocate_impl(Bytes, std::uint32_t, std::unique_ptr<MemoryRegion>&) = 0;
    virtual Status allocate_sparse_impl(Bytes length, Bytes, std::uint32_t access,
                                        std::unique_ptr<MemoryRegion>& out) {
        return allocate_impl(length, access, out);
    }
};

// Rails of a process, of one or several fabrics; owned elsewhere.
using RailList = std::span<Rail* const>;

// Key epoch (base/wire.h) of the process that has these rails.
inline std::uint8_t key_epoch_of(RailList rails) {
    std::uint8_t epoch = 0;
    for (const Rail* rail : rails) {
        epoch = static_cast<std::uint8_t>(epoch + rail->openings());
    }
    return epoch;
}

// Consecutive rails of such a list: those of one fabric.
struct RailRange {
    std::uint32_t first = 0;
    std::uint32_t count = 0;

    std::uint32_t end() const { return first + count; }
};

} // namespace adaptib
