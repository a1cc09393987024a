// SPDX-License-Identifier: BSD-3-Clause
// The fabric interface: verbs-shaped, implemented by verbs (hardware), shm (one host) and sim.
//
// Purpose: everything that the core asks of a wire. Each call mirrors one of libibverbs, so that
// the verbs fabric is thin and an RDMA engineer recognizes it. The semantics are those of the
// InfiniBand Architecture, vol. 1, ch. 9-11; fabric/README.md states them call by call. Anything
// that a device may lack is a capability flag that the core asks for (RailInfo::has), never an
// #ifdef.
//
// Shape: every object has public non-virtual calls over private virtual *_impl.
// Ownership: the unique_ptr that a create call returns owns the object. Children are destroyed
//   first: queue pairs before the queues, memory regions and address handles that they use; those
//   before their rail; rails before the fabric.
// Threads: one thread at a time uses an object (under the caller's lock). Nothing here blocks,
//   except that a fabric without an engine of its own (shm) may copy data inside post_send.
//   that a fabric without an engine of its own (shm) may copy data inside post_send.
// Errors: Status; outputs are set only when it is ok.
// May touch: base/ only.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/copy_costs.h"
#include "base/status.h"
#include "base/units.h"

namespace adaptib {

// -------------------------------------------------------------------------------------------------
// Capabilities and properties of a rail

enum class Capability : std::uint32_t {
    rc = 1u << 0,  // reliable connected queue pairs
    ud = 1u << 1,  // datagrams
    dc = 1u << 2,  // dynamically connected initiators and targets (not without srq)
    srq = 1u << 3, // shared receive queues
    rdma_read = 1u << 4,
    rdma_write = 1u << 5,
    write_imm = 1u << 6,   // write with immediate
    atomic64 = 1u << 7,    // 64-bit compare-and-swap and fetch-and-add
    migration = 1u << 8,   // automatic path migration
    reliable_ud = 1u << 9, // datagrams of one sender are not lost, duplicated or reordered
    direct = 1u << 10,     // peers can map memory of Rail::allocate (QueuePair::map)
    // One region can cover all memory that the process has or will have (register_memory of
    // kWholeMemory at null, without kRemoteAtomic). Nothing is pinned; an access to an unmapped
    // address ends as remote_access_error.
    whole_memory = 1u << 11,
    // Connected queue pairs come up by QueuePair::cm_connect(); modify() only connects one with
    // itself.
    cm_connects = 1u << 12,
    sees_regions = 1u << 13, // the initiator can look up the target's regions (QueuePair::find_key)
};

constexpr Bytes kWholeMemory = Bytes{1} << 62;

enum class LinkLayer : std::uint8_t { infiniband, ethernet, memory, simulated };
enum class PortState : std::uint8_t { down, active };

struct RailInfo {
    std::string name; // "mlx5_0:1", "shm0"; unique within the fabric
    LinkLayer link_layer = LinkLayer::memory;
    std::uint32_t capabilities = 0;
    BytesPerSecond rate{}; // nominal, one direction; 0 = unknown
    int numa_node = -1;    // -1 = unknown
    // Distance from the process in hwloc's units (10: its own NUMA node); 10 also if unknown.
    std::uint32_t distance = 10;
    std::uint32_t paths = 1;     // 2^LMC on InfiniBand; flow labels on RoCE
    std::string adapter;         // device that the rail is a port of; empty: the rail is no port
    std::uint8_t port = 0;       // port number on that device, from 1
    Bytes datagram_bytes = 0;    // payload of one datagram
    Bytes max_message_bytes = 0; // of one RC work request
    Bytes inline_bytes = 0;
    std::uint32_t max_gather = 1;     // scatter/gather entries of one work request
    std::uint32_t max_send_depth = 0; // work requests outstanding on one queue pair
    std::uint32_t max_cq_depth = 0;
    std::uint32_t max_queue_pairs = 0; // per process; 0 = unknown
    std::uint32_t max_reads = 0;       // outstanding RDMA reads and atomics of one queue pair
    // Capability::dc: time to switch an initiator to another target; 0 = unknown.
    Nanoseconds target_change{0};

    bool has(Capability c) const { return (capabilities & static_cast<std::uint32_t>(c)) != 0; }
};

// Address of a rail. Rail::address makes it; the peer receives it unchanged.
struct RailAddress {
    static constexpr std::size_t kMaxBytes = 64;
    std::uint16_t size = 0;
    std::array<std::byte, kMaxBytes> bytes{};
};

// One route from this rail to a remote one (architecture: path).
struct PathSpec {
    RailAddress remote;
    std::uint8_t source_path_bits = 0; // InfiniBand: LMC path, source
    std::uint8_t lid_offset = 0;       // InfiniBand: LMC path, destination
    std::uint8_t gid_index = 0;        // RoCE
    std::uint32_t flow_label = 0;      // RoCE
    std::uint8_t service_level = 0;
    // Alternate paths: the port of the adapter to send from; 0: the rail's own.
    std::uint8_t source_port = 0;
};

// -------------------------------------------------------------------------------------------------
// Work requests and completions

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

// Completion statuses of verbs (ibv_wc_status), with the names of verbs.
enum class WorkStatus : std::uint8_t {
    success,
    local_length_error,
    local_qp_error,
    local_protection_error,
    flushed,
    bad_response,
    local_access_error,
    remote_invalid_request,
    remote_access_error,
    remote_operation_error,
    retry_exceeded,
    rnr_retry_exceeded,
    remote_aborted,
    fatal,
    response_timeout,
    general_error,
};

enum class WorkKind : std::uint8_t {
    send,
    write,
    read,
    compare_swap,
    fetch_add,
    receive,
    receive_imm
};

// After an error only wr_id, status, qp_number and vendor_error are valid.
struct WorkCompletion {
    std::uint64_t wr_id = 0;
    WorkStatus status = WorkStatus::success;
    WorkKind kind = WorkKind::send;
    std::uint32_t qp_number = 0;
    std::uint32_t vendor_error = 0;
    Bytes length = 0;            // receives
    std::uint32_t immediate = 0; // receives with immediate
    std::uint32_t source_qp = 0; // UD
};

const char* work_status_text(WorkStatus status);

// Returns true if the path to the target failed: another path, or a new queue pair, may carry the
// same request. Otherwise the request itself is wrong.
constexpr bool is_path_failure(WorkStatus status) {
    switch (status) {
    case WorkStatus::local_qp_error:
    case WorkStatus::flushed:
    case WorkStatus::bad_response:
    case WorkStatus::retry_exceeded:
    case WorkStatus::rnr_retry_exceeded:
    case WorkStatus::remote_aborted:
    case WorkStatus::fatal:
    case WorkStatus::response_timeout:
    case WorkStatus::general_error: return true;
    default: return false;
    }
}

// -------------------------------------------------------------------------------------------------
// Memory

enum Access : std::uint32_t {
    kLocalWrite = 1u << 0,
    kRemoteWrite = 1u << 1,
    kRemoteRead = 1u << 2,
    kRemoteAtomic = 1u << 3,
};

// Range of the target's memory, and the rights that its region must grant.
struct RemoteRange {
    std::uint64_t address = 0;
    Bytes length = 0;
    std::uint32_t access = 0; // bits of Access
};

class MemoryRegion {
public:
    virtual ~MemoryRegion() = default;
    void* address() const { return address_; }
    Bytes length() const { return length_; }
    std::uint32_t local_key() const { return local_key_; }
    std::uint32_t remote_key() const { return remote_key_; }
    // Both apply to regions from Rail::allocate_sparse.
    // commit() gives the range memory.
    // discard() zeroes the range and frees its whole pages. It returns false, and changes nothing,
    // if such memory cannot be freed.
    Status commit(Bytes offset, Bytes length) { return commit_impl(offset, length); }
    bool discard(Bytes offset, Bytes length) { return discard_impl(offset, length); }

protected:
    MemoryRegion(void* address, Bytes length) : address_(address), length_(length) {}

    void* address_;
    Bytes length_;
    std::uint32_t local_key_ = 0;
    std::uint32_t remote_key_ = 0;

private:
    virtual Status commit_impl(Bytes, Bytes) { return kOk; }
    virtual bool discard_impl(Bytes, Bytes) { return false; }
};

// -------------------------------------------------------------------------------------------------
// Queues

class CompletionQueue {
public:
    virtual ~CompletionQueue() = default;
    // Takes up to out.size() completions, oldest first; returns their number.
    std::size_t poll(std::span<WorkCompletion> out) { return poll_impl(out); }

private:
    virtual std::size_t poll_impl(std::span<WorkCompletion> out) = 0;
};

class SharedReceiveQueue {
public:
    virtual ~SharedReceiveQueue() = default;
    Status post(const ReceiveWork& work) { return post_impl(work); }
    // Raises the event srq_limit once, when fewer than `limit` receives are posted. 0 disarms it.
    Status arm_limit(std::uint32_t limit) { return arm_limit_impl(limit); }

private:
    virtual Status post_impl(const ReceiveWork& work) = 0;
    virtual Status arm_limit_impl(std::uint32_t limit) = 0;
};

// State of the process behind an address handle, and of the path to it, as far as the host's system
// or the fabric knows without asking that process.
enum class Reach : std::uint8_t {
    unknown, // only a reply could tell
    ended,   // the process has ended; AddressHandle::standing() says so from now on
    cut_off, // the process lives; a datagram sent to it now is lost
    good,    // the process lives; earlier datagrams are in its queue or were taken
};

class AddressHandle {
public:
    virtual ~AddressHandle() = default;
    // Returns true if the peer is known to run on the one processor that this process may run on:
    // the two take turns, and each spends time of both. Asks the system each time (some
    // microseconds).
    bool shares_processor() const { return shares_processor_impl(); }
    // State of the peer, without a system call. ok: nothing is known against it; no_device: it has
    // closed its fabric; peer_gone: it has ended without closing; any other reason: it has refused
    // this process (Rail::refuse), and `text` explains that to a person.
    Status standing(std::string& text) const { return standing_impl(text); }

private:
    virtual bool shares_processor_impl() const { return false; }
    virtual Status standing_impl(std::string&) const { return kOk; }
};

// -------------------------------------------------------------------------------------------------
// Queue pairs

enum class QpType : std::uint8_t { rc, ud, dc_initiator, dc_target };
enum class QpState : std::uint8_t { reset, init, ready_to_receive, ready_to_send, error };
enum class MigrationState : std::uint8_t { migrated, rearm, armed };

// Memory words that show whether QueuePair::usable() still holds, without calling it.
// `faults` is shared by all queue pairs of a fabric. It is nonzero while one of them has an error,
// or while a rail is not well: a rail of this process as of the last poll, a rail of a peer as of
// the last look for events or of some hundred polls ago.
// `target` belongs to the queue pair at the other end.
// A default-constructed guard is never open.
struct FastPathGuard {
    const std::atomic<std::uint64_t>* faults = &kShut;
    const std::atomic<std::uint64_t>* target = nullptr;
    std::uint64_t expected = 0;

    bool open() const {
        return faults->load(std::memory_order_relaxed) == 0 &&
               target->load(std::memory_order_acquire) == expected;
    }

private:
    static constexpr std::atomic<std::uint64_t> kShut{1};
};

struct QpInit {
    QpType type = QpType::rc;
    CompletionQueue* send_cq = nullptr;
    CompletionQueue* receive_cq = nullptr;
    // null: the queue pair has its own receive queue, which a DC target cannot have.
    SharedReceiveQueue* srq = nullptr;
    std::uint32_t send_depth = 0;
    std::uint32_t receive_depth = 0; // ignored with an srq
    std::uint32_t max_gather = 1;
    Bytes inline_bytes = 0;
    bool signal_all = false;
};

// Attributes of QueuePair::modify. The table of ibv_modify_qp(3) says which transition requires
// which; a missing required attribute, or a superfluous one, is bad_argument.
enum QpMask : std::uint32_t {
    kQpState = 1u << 0,
    kQpAccess = 1u << 1,
    kQpKey = 1u << 2,
    kQpPath = 1u << 3,
    kQpRemote = 1u << 4,        // remote_qp and receive_psn
    kQpReceiveLimits = 1u << 5, // max_target_reads and rnr_timer
    kQpRetry = 1u << 6,         // timeout, retry_count, rnr_retry
    kQpSendPsn = 1u << 7,
    kQpSendLimits = 1u << 8, // max_reads
    kQpAlternatePath = 1u << 9,
    kQpMigration = 1u << 10,
};

struct QpAttributes {
    QpState state = QpState::reset;
    std::uint32_t access = 0;     // Access
    std::uint64_t access_key = 0; // UD: Q_Key, DC target: access key
    PathSpec path;
    PathSpec alternate_path;
    MigrationState migration = MigrationState::migrated;
    std::uint32_t remote_qp = 0;
    std::uint32_t send_psn = 0;
    std::uint32_t receive_psn = 0;
    std::uint32_t max_reads = 1;        // as initiator
    std::uint32_t max_target_reads = 1; // as target
    std::uint8_t timeout = 14;          // 4.096 us x 2^timeout per try; 0 = forever
    std::uint8_t retry_count = 6;
    std::uint8_t rnr_retry = 7; // 7 = forever
    std::uint8_t rnr_timer = 12;
};

// Attributes that QueuePair::cm_connect requires and those that it may take besides. The connection
// service chooses the packet numbers.
constexpr std::uint32_t kCmConnectRequired =
    kQpPath | kQpRemote | kQpReceiveLimits | kQpRetry | kQpSendLimits;
constexpr std::uint32_t kCmConnectOptional = kQpAlternatePath | kQpMigration;

// Lets the two ends of a connection recognize each other in QueuePair::cm_connect.
struct CmConnectParams {
    bool asks = false; // this end initiates the connection; the other one waits for it
    // Same at both ends, different for each connection, known to nobody else.
    std::array<std::byte, 32> token{};
};

class QueuePair {
public:
    virtual ~QueuePair() = default;
    // A DC target gets its number on the way to RTR and may have 0 before.
    std::uint32_t number() const { return number_; }
    QpType type() const { return type_; }

    Status modify(const QpAttributes& attributes, std::uint32_t mask) {
        return modify_impl(attributes, mask);
    }
    QpAttributes query() const { return query_impl(); }
    // Capability::cm_connects, RC: connects with queue pair remote_qp of the rail path.remote, from
    // INIT to RTS, through a network service (rdma_cm) that finds the path and introduces the two
    // ends.
    // ok: the attempt has begun. The end with CmConnectParams::asks gets an event: cm_connected,
    // when both ends are in RTS, or cm_failed (Rail::last_error_text() says why). That end may call
    // cm_connect() again after cm_failed, or after a long wait; the other end may do so until it
    // learns by other means that the two are connected.
    // Errors: those that another try would not change.
    Status cm_connect(const QpAttributes& attributes, std::uint32_t mask,
                      const CmConnectParams& params) {
        return cm_connect_impl(attributes, mask, params);
    }

    // ok: accepted; a completion follows if the request is signaled or fails. again(queue_full):
    // the send queue (UD over shm: or the target's queue) is full. error(bad_state): not ready to
    // send.
    Status post_send(const SendWork& work) { return post_send_impl(work); }
    Status post_receive(const ReceiveWork& work) { return post_receive_impl(work); }
    // Performs a write, read or atomic inside the call, where the processor copies the data. ok:
    // done, no completion follows. again: not possible now, not this way, or never; use post_send.
    Status rma_now(const RmaWork& work) { return rma_now_impl(work); }
    // Target side of a write, read or atomic: does to this process's memory what the peer's queue
    // pair would do, by the same rules. gather[0], the only entry, is memory of the core: it holds
    // the data to write, or receives the data read or the old value. Not ok: nothing was done.
    Status serve_rma(const SendWork& work) { return serve_rma_impl(work); }
    // Target side of a part of a peer's write or read, copied directly between the peer's memory
    // and this process's memory, without memory of the core. `work` is a read if the peer writes
    // and a write if the peer reads; its local key is the key by which the peer knows the memory.
    // Neither side may be memory that a rail has allocated. Not ok: part of the destination may
    // have changed.
    Status serve_copy(const RmaWork& work) { return serve_copy_impl(work); }
    // Capability::sees_regions, RC: leaves `key` unchanged if it names a region of the target that
    // covers the range and grants the rights; otherwise sets it to the key of another live region
    // that does.
    // Errors: bad_key (no region does), bad_state (not ready to send, or the target is not).
    Status find_key(const RemoteRange& range, std::uint32_t& key) {
        return find_key_impl(range, key);
    }
    // Returns false once the process at the other end is known to have ended. May ask the system.
    bool target_lives() const { return target_lives_impl(); }

    // Capability::direct, RC: returns the local address of [remote_address, +length) if the key
    // allows remote writes and the memory came from the target's Rail::allocate; otherwise null.
    // The address is valid until the queue pair is reset. A caller that stores through it checks
    // usable() before each message. When that is false, the caller goes back to post_send, whose
    // completion tells what is wrong.
    void* map(std::uint64_t remote_address, Bytes length, std::uint32_t remote_key) {
        return map_impl(remote_address, length, remote_key);
    }
    // Gives the same range memory, if it is of the target's Rail::allocate_sparse. Errors:
    // no_memory.
    Status commit(std::uint64_t remote_address, Bytes length, std::uint32_t remote_key) {
        return commit_impl(remote_address, length, remote_key);
    }
    // False if the queue pair is not ready to send, its rail is down or slowed, or its target has
    // ended.
    bool usable() const { return usable_impl(); }
    // While the guard is open, the caller need not ask usable(). Once the guard is closed, the
    // caller asks usable() and takes a new guard. Valid until the queue pair is reset or destroyed.
    FastPathGuard fast_path_guard() const { return fast_path_guard_impl(); }

protected:
    explicit QueuePair(QpType type) : type_(type) {}
    std::uint32_t number_ = 0;

private:
    virtual Status modify_impl(const QpAttributes& attributes, std::uint32_t mask) = 0;
    virtual QpAttributes query_impl() const = 0;
    virtual Status cm_connect_impl(const QpAttributes&, std::uint32_t, const CmConnectParams&) {
        return Status::error(Reason::not_supported);
    }
    virtual Status post_send_impl(const SendWork& work) = 0;
    virtual Status post_receive_impl(const ReceiveWork& work) = 0;
    virtual Status rma_now_impl(const RmaWork&) { return Status::again(Reason::none); }
    virtual Status serve_rma_impl(const SendWork&) { return Status::error(Reason::not_supported); }
    virtual Status serve_copy_impl(const RmaWork&) { return Status::error(Reason::not_supported); }
    virtual Status find_key_impl(const RemoteRange&, std::uint32_t&) {
        return Status::error(Reason::not_supported);
    }
    virtual bool target_lives_impl() const { return true; }
    virtual void* map_impl(std::uint64_t, Bytes, std::uint32_t) { return nullptr; }
    virtual Status commit_impl(std::uint64_t, Bytes, std::uint32_t) { return kOk; }
    virtual bool usable_impl() const { return true; }
    virtual FastPathGuard fast_path_guard_impl() const { return {}; }

    QpType type_;
};

// -------------------------------------------------------------------------------------------------
// Rails and the fabric

class Rail {
public:
    virtual ~Rail() = default;
    const RailInfo& info() const { return info_; }
    PortState state() const { return state_impl(); }
    RailAddress address() const { return address_impl(); }
    // Returns true if the owner of this address may be reached over this rail: the address is of
    // this kind of fabric and, where the fabric ends at the host, of this host, and the two
    // processes may open each other's memory as far as the addresses tell. Same result at both
    // ends; no system call. create_ah and QueuePair::modify report other obstacles.
    bool is_reachable(const RailAddress& remote) const { return is_reachable_impl(remote); }
    // Text for a person: why the address is not reachable, if there is more to say than "another
    // kind of fabric" or "another host". REQUIRES: !reaches(remote).
    std::string why_out_of_reach(const RailAddress& remote) const {
        return why_out_of_reach_impl(remote);
    }
    // Of several reachable rails, the one with the highest value is most likely on the same
    // network, judged by its address. Same result at both ends. REQUIRES: reaches(remote).
    std::uint32_t subnet_match(const RailAddress& remote) const {
        return subnet_match_impl(remote);
    }
    // Number of paths to a remote rail, at least 1; same result at both ends. Both ends of a
    // connection use the path of the same index, so that packets of one end arrive on the path that
    // the other expects.
    // REQUIRES: reaches(remote); index < paths_to(remote).
    std::uint32_t paths_to(const RailAddress& remote) const { return paths_to_impl(remote); }
    PathSpec path_to(const RailAddress& remote, std::uint32_t index) const {
        return path_to_impl(remote, index);
    }
    // Reason of the last call that this rail or one of its queue pairs refused, where the status
    // alone does not tell; empty if there is nothing to add.
    std::string last_error_text() const { return last_error_text_impl(); }
    // Tells the peer at that address, whose datagrams arrive here, that this process cannot reach
    // it and never replies: the peer gets the event peer_changed. Needs no path to the peer. Does
    // nothing in a fabric that has no means for it.
    void refuse(const RailAddress& remote, Reason why) { refuse_impl(remote, why); }

    Status create_cq(std::uint32_t depth, std::unique_ptr<CompletionQueue>& out) {
        return create_cq_impl(depth, out);
    }
    Status create_srq(std::uint32_t depth, std::unique_ptr<SharedReceiveQueue>& out) {
        return create_srq_impl(depth, out);
    }
    Status create_qp(const QpInit& init, std::unique_ptr<QueuePair>& out) {
        return create_qp_impl(init, out);
    }
    Status create_ah(const PathSpec& path, std::unique_ptr<AddressHandle>& out) {
        return create_ah_impl(path, out);
    }
    // REQUIRES: the handle is of this rail. May ask the system (some microseconds).
    Reach reach(const AddressHandle& handle) const { return reach_impl(handle); }
    // Registers the caller's memory for local use and, as `access` says, for remote use, until the
    // region is destroyed.
    Status register_memory(void* address, Bytes length, std::uint32_t access,
                           std::unique_ptr<MemoryRegion>& out) {
        return register_impl(address, length, access, out);
    }
    // Allocates zeroed memory, aligned to a cache line. The region owns it; it is registered.
    Status allocate(Bytes length, std::uint32_t access, std::unique_ptr<MemoryRegion>& out) {
        return allocate_impl(length, access, out);
    }
    // As allocate(), but page-aligned, and only the first bytes need memory now: the owner adds
    // more by MemoryRegion::commit, peers by QueuePair::commit. A fabric that cannot do that gives
    // the whole region memory at once. REQUIRES: first <= length.
    Status allocate_sparse(Bytes length, Bytes first, std::uint32_t access,
                           std::unique_ptr<MemoryRegion>& out) {
        return allocate_sparse_impl(length, first, access, out);
    }

protected:
    RailInfo info_;

private:
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
    virtual std::string last_error_text_impl() const { return {}; }
    virtual void refuse_impl(const RailAddress&, Reason) {}
    virtual Status create_cq_impl(std::uint32_t, std::unique_ptr<CompletionQueue>&) = 0;
    virtual Status create_srq_impl(std::uint32_t, std::unique_ptr<SharedReceiveQueue>&) = 0;
    virtual Status create_qp_impl(const QpInit&, std::unique_ptr<QueuePair>&) = 0;
    virtual Status create_ah_impl(const PathSpec&, std::unique_ptr<AddressHandle>&) = 0;
    virtual Reach reach_impl(const AddressHandle&) const { return Reach::unknown; }
    virtual Status register_impl(void*, Bytes, std::uint32_t, std::unique_ptr<MemoryRegion>&) = 0;
    virtual Status allocate_impl(Bytes, std::uint32_t, std::unique_ptr<MemoryRegion>&) = 0;
    virtual Status allocate_sparse_impl(Bytes length, Bytes, std::uint32_t access,
                                        std::unique_ptr<MemoryRegion>& out) {
        return allocate_impl(length, access, out);
    }
};

// Rails of a process, of one or several fabrics; owned elsewhere.
using RailList = std::span<Rail* const>;

// Consecutive rails of such a list: those of one fabric.
struct RailRange {
    std::uint32_t first = 0;
    std::uint32_t count = 0;

    std::uint32_t end() const { return first + count; }
};

enum class EventKind : std::uint8_t {
    port_active,
    port_error,
    address_changed, // LID, GID or partition may have changed: Rail::address()
    qp_fatal,
    path_migrated,
    path_migration_error,
    armed, // a loaded alternate path is ready
    srq_limit,
    device_fatal,
    cm_connected, // QueuePair::cm_connect has succeeded
    cm_failed,    // it has failed; Rail::last_error_text() says why until the next poll_event
    peer_changed, // a peer is gone or refuses this process: AddressHandle::standing() tells
};

struct Event {
    EventKind kind = EventKind::port_active;
    std::uint32_t rail = 0;      // index into Fabric::rails
    std::uint32_t qp_number = 0; // events of queue pairs
    SharedReceiveQueue* srq = nullptr;
};

// Memory words, in two cache lines, that show whether a poll would find nothing.
struct PollHint {
    const std::atomic<std::uint64_t>* next = nullptr; // nonzero: something has arrived
    bool busy = true; // there is work to continue, or there are completions to take

    bool idle() const { return !busy && next->load(std::memory_order_acquire) == 0; }
};

// Source of a process's replies to questions that arrive while the process does something else.
class Answerer {
public:
    struct Reply {
        std::size_t length = 0;       // 0: no reply
        std::uint64_t access_key = 0; // of the queue pair that asked
        RailAddress to;               // address of that queue pair's rail
        std::uint32_t path = 0;       // index of the path to it (Rail::path_to)
    };
    // Writes the reply to a question that has reached a rail of the fabric into `reply`, which has
    // kMostQuestion bytes. Runs on any thread, at any time: takes no lock, allocates nothing, calls
    // nothing of the fabric.
    virtual Reply answer(std::uint32_t rail, std::span<const std::byte> question,
                         std::span<std::byte> reply) const noexcept = 0;

protected:
    ~Answerer() = default;
};
constexpr Bytes kMostQuestion = 256;

class Fabric {
public:
    virtual ~Fabric() = default;
    std::span<const std::unique_ptr<Rail>> rails() const { return rails_; }
    // Takes the next asynchronous event, if there is one.
    bool poll_event(Event& out) { return poll_event_impl(out); }
    // Gives each rail, as far as it can have one, a responder: a datagram queue pair with that
    // access key. It answers each question of up to kMostQuestion bytes with the answerer's reply,
    // to the queue pair that sent it, whatever this process does meanwhile. The answerer outlives
    // the fabric. Questions and replies may get lost, and there may be fewer replies than
    // questions. Not ok: there is no responder.
    Status respond(const Answerer& answerer, std::uint64_t access_key) {
        return respond_impl(answerer, access_key);
    }
    // Number of the rail's responder; 0: it has none.
    std::uint32_t responder_qp(std::uint32_t rail) const { return responder_qp_impl(rail); }
    // Notices for a person about how the fabric came up ("single copy: off, process_vm_readv is
    // forbidden ..."), one line each; empty when everything is as requested.
    const std::vector<std::string>& notices() const { return notices_; }
    // Measured cost of copies, where the processor copies the data; otherwise empty.
    const std::optional<CopyCosts>& copy_costs() const { return copy_costs_; }
    // While the poll hint is idle, the caller need not poll completion queues, except in one pass
    // of ten or so, because polls also do rare work. Null: there is no poll hint. Lives as long as
    // the fabric.
    const PollHint* poll_hint() const { return poll_hint_; }

protected:
    std::vector<std::unique_ptr<Rail>> rails_;
    std::vector<std::string> notices_;
    std::optional<CopyCosts> copy_costs_;
    const PollHint* poll_hint_ = nullptr;

private:
    virtual bool poll_event_impl(Event& out) = 0;
    virtual Status respond_impl(const Answerer&, std::uint64_t) {
        return Status::error(Reason::not_supported);
    }
    virtual std::uint32_t responder_qp_impl(std::uint32_t) const { return 0; }
};

} // namespace adaptib
