// SPDX-License-Identifier: BSD-3-Clause
// ExposedMemory: memory of this process that peers may reach, and that transfers may use.
//
// Purpose: keeps the registrations of each fabric: the region of all memory where the rails allow
// one, else the registration cache; and the staging pool. A peer's memory is registered with the
// rails of its fabric alone. Windows, and memory that the user registers, are reached by peers of
// all fabrics. A buffer that cannot be registered is counted, and the first one reported; its
// caller copies the data through staging blocks instead.
// Ownership: registrations belong to their users, who give them up before this object is destroyed;
// refers to the rails, the counters and the listener.
// Threads: one at a time (the core's lock); forget() may be called by any thread.
// May touch: base/, fabric/, stats/, memory/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/invariant.h"
#include "base/severity.h"
#include "base/status.h"
#include "fabric/rail.h"
#include "memory/accelerator_memory.h"
#include "memory/bounce_buffers.h"
#include "memory/frequent_buffers.h"
#include "memory/lent_memory.h"
#include "memory/registration.h"
#include "memory/registration_cache.h"
#include "memory/staging.h"
#include "memory/window.h"
#include "stats/counters.h"

namespace adaptib {

class ExposedMemory {
public:
    struct Options {
        Bytes registration_cache = 0; // RegistrationCache's max_bytes
        Bytes block_bytes = 0;        // of a staging block
        FrequentBuffersOptions frequent{};
        // With which the costs of copied and gathered messages are measured, unless `frequent`
        // gives them. Null: not measured.
        const Clock* clock = nullptr;
        std::function<bool()> still_watched{}; // RegistrationCache's
    };

    // `fabrics`: the range of rails of each fabric.
    ExposedMemory(const Options& options, RailList rails, std::span<const RailRange> fabrics,
                  Counters& counters, MessageFunction message);

    // --- Memory of the user ----------------------------------------------------------------------
    // Returns the registration by which all peers can reach the memory for transfers already: the
    // region of all memory. Null: the caller has to register the memory. That is always so for
    // memory that atomics may reach (a window): after its deregistration no peer may reach it.
    const Registration* exposed(const void* address, Bytes length, std::uint32_t access) const {
        const bool exists = length <= kWholeMemory &&
                            reinterpret_cast<std::uintptr_t>(address) <= kWholeMemory - length;
        const bool transfer = (access & kRemoteAtomic) == 0;
        return reaches_.size() == 1 && exists && transfer ? reaches_[0].all() : nullptr;
    }
    // Lists exposed() memory that its user promises to keep mapped until the user takes it back.
    LentMemory& lent() { return lent_; }
    // Registers memory for transfers with any peer, as long as `out` lives; the registration may
    // stay in the cache afterwards. Counts failures, and reports the first one.
    Status register_memory(RegistrationCache::Use& out, void* address, Bytes length,
                           std::uint32_t access) {
        return acquire(all_rails_ ? *all_rails_ : reaches_[0].registrations, out, address, length,
                       access);
    }
    // Finds a registration with these rights by register_memory(), or any that the cache keeps with
    // the same rails. Returns false if there is none.
    bool find_registered(std::uint64_t address, Bytes length, std::uint32_t access,
                         RegistrationCache::Use& out) {
        const auto* const begin = reinterpret_cast<const void*>(address);
        RegistrationCache& cache = all_rails_ ? *all_rails_ : reaches_[0].registrations;
        return cache.find(begin, length, access, out);
    }
    // Registers a window: memory that atomics may reach, too, be they executed by adapters or by
    // this process. Its registration ends with `out`.
    Status open_window(OpenWindow& out, void* address, Bytes length, std::uint32_t access);
    const WindowTable& windows() const { return windows_; }
    // The program unmaps memory (RegistrationCache::forget; any thread).
    void forget(const void* address, Bytes length) noexcept {
        for (Reach& known : reaches_) {
            known.registrations.forget(address, length);
        }
        if (all_rails_) {
            all_rails_->forget(address, length);
        }
    }
    // Drops the registrations of memory that forget() has named.
    void settle();

    // --- Memory of transfers with the peers of one fabric ----------------------------------------
    // Returns the region of all memory. Null: buffers are registered one by one.
    const Registration* whole(std::uint32_t fabric) const { return whole_[fabric]; }
    // Returns a registration of the buffer with the fabric's rails: the region of all memory, or
    // `own`. Null: the buffer cannot be registered.
    const Registration* registered(std::uint32_t fabric, RegistrationCache::Use& own, void* address,
                                   Bytes length, std::uint32_t access) {
        Reach& known = reach(fabric);
        if (known.has_whole) [[likely]] {
            return &known.whole;
        }
        return acquire(known.registrations, own, address, length, access).ok() ? &own.registration()
                                                                               : nullptr;
    }
    // Formats the uses of buffers as a table per fabric; empty if there were none.
    std::string frequent_report() const;
    // Decides whether a small message is gathered from its buffer. Off for fabrics with the region
    // of all memory: their rails share memory.
    FrequentBuffers& frequent(std::uint32_t fabric) { return reach(fabric).frequent; }
    // Buffers for small puts and gets whose own are not registered, if frequent(fabric) is on.
    BounceBuffers& bounce(std::uint32_t fabric) { return reach(fabric).bounce; }
    // Returns true if messages to the peers of any fabric may be gathered.
    bool any_frequent() const {
        return std::any_of(reaches_.begin(), reaches_.end(),
                           [](const Reach& known) { return known.frequent.on(); });
    }
    // Memory of accelerators that the fabric's rails reach.
    AcceleratorMemory& accelerator(std::uint32_t fabric) { return reach(fabric).accelerator; }
    // Tells where data on accelerators lies (AcceleratorMemory::use_by).
    void use_accelerators(const opal_common_adaptib_accelerators_t* accelerators) {
        for (Reach& known : reaches_) {
            known.accelerator.use_by(accelerators);
        }
    }
    StagingPool& staging(std::uint32_t fabric) { return reach(fabric).staging; }

private:
    // Local memory as registered with the rails of one fabric.
    struct Reach {
        Reach(RailList rails, RailRange of, const Options& options, Counters& counters);
        // Returns the region of all memory; null: buffers are registered one by one.
        const Registration* all() const { return has_whole ? &whole : nullptr; }

        RegistrationCache registrations; // declared before its users
        StagingPool staging;
        Registration whole;
        bool has_whole = false;
        FrequentBuffers frequent;
        BounceBuffers bounce;
        AcceleratorMemory accelerator;
    };

    Reach& reach(std::uint32_t fabric) {
        ADAPTIB_INVARIANT(fabric < whole_.size(), "a peer is of one of the fabrics", fabric,
                          whole_.size());
        return reaches_[fabric];
    }
    Status acquire(RegistrationCache& cache, RegistrationCache::Use& out, void* address,
                   Bytes length, std::uint32_t access);
    Status registered_or_reported(Status status, Bytes length);

    RailList rails_;
    Counters& counters_;
    MessageFunction message_;
    std::deque<Reach> reaches_;                  // one per fabric
    std::vector<const Registration*> whole_;     // Reach::all() of each fabric
    std::optional<RegistrationCache> all_rails_; // if there are several fabrics
    LentMemory lent_;
    WindowTable windows_;
    bool registration_reported_ = false;
};

} // namespace adaptib
