// SPDX-License-Identifier: BSD-3-Clause
// QueuePair: one end of a connection, or a source and destination of datagrams.
//
// Ownership: Rail::create_qp makes a queue pair, and its caller owns it. The queues, regions and
//   address handles that it uses outlive it.
// Threads: one thread at a time uses a queue pair. Nothing here blocks, except that a fabric
//   without an engine of its own (shm) may copy data inside post_send.
// May touch: base/, memory_region.h, qp_attributes.h, work.h.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/invariant.h"
#include "base/status.h"
#include "base/units.h"
#include "fabric/memory_region.h"
#include "fabric/qp_attributes.h"
#include "fabric/work.h"

namespace adaptib {

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

class QueuePair {
public:
    virtual ~QueuePair() = default;
    // A DC target gets its number on the way to RTR and may have 0 before.
    std::uint32_t number() const { return number_; }
    QpType type() const { return type_; }
    // Memory of its queues, as far as it is known; a device's is locked.
    Bytes queue_bytes() const { return queue_bytes_; }

    Status modify(const QpAttributes& attributes, std::uint32_t mask) {
        return modify_impl(attributes, mask);
    }
    QpAttributes query() const { return query_impl(); }
    // Capability::cm_connects, RC: connects with queue pair remote_qp of the rail path.remote, from
    // INIT to RTS, through a network service (rdma_cm) that finds the path and introduces the two
    // ends.
    // ok: the attempt has begun. The end with CmConnectParams::initiates gets an event:
    // cm_connected, when both ends are in RTS, or cm_failed (Rail::last_error_text() says why).
    // That end may call cm_connect() again after cm_failed, or after a long wait; the other end may
    // do so until it learns by other means that the two are connected.
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
    // done, no completion follows. again: not possible now, not this way, or never
    // (RailInfo::synchronous_rma); use post_send.
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
    FastPathGuard fast_path_guard() const {
        const FastPathGuard guard = fast_path_guard_impl();
        ADAPTIB_INVARIANT(guard.target != nullptr ||
                              guard.faults->load(std::memory_order_relaxed) != 0,
                          "a guard without a target is shut", number_);
        return guard;
    }

protected:
    explicit QueuePair(QpType type) : type_(type) {}
    std::uint32_t number_ = 0;
    Bytes queue_bytes_ = 0;

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

} // namespace adaptib
