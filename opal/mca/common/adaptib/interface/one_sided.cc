// SPDX-License-Identifier: BSD-3-Clause
// The C interface over the core (common_adaptib_one_sided.h): registration, puts, gets and atomics.
// May touch: every folder of the core; no header of Open MPI.
#include "common_adaptib_one_sided.h"

#include <memory>
#include <new>

#include "interface/handle.h"

using namespace adaptib;

// Memory registered for atomics may back an MPI window: its own registration (window) ends at
// deregister, so no peer reaches it afterwards. Other memory uses the cache (transfer). If one
// region covers all memory (exposed), the range is only listed (lent).
struct opal_common_adaptib_region {
    OpenWindow window;
    RegistrationCache::Use transfer;
    const Registration* exposed = nullptr; // ExposedMemory::exposed
    LentMemory::Range lent;                // if so

    const Registration& memory() const {
        if (exposed != nullptr) {
            return *exposed;
        }
        const bool is_window = window.memory().key_count() > 0;
        return is_window ? window.memory() : transfer.registration();
    }
};

namespace {

// Null: the memory is too short, or there is none for the list; it is reached all the same.
std::unique_ptr<opal_common_adaptib_region> lend(ExposedMemory& registry,
                                                 const Registration& exposed, void* base,
                                                 Bytes bytes, std::uint32_t rights) {
    std::unique_ptr<opal_common_adaptib_region> made;
    if (LentMemory::is_worth_lending(bytes) && (rights & (kRemoteRead | kRemoteWrite)) != 0) {
        made.reset(new (std::nothrow) opal_common_adaptib_region);
    }
    if (made != nullptr) {
        made->exposed = &exposed;
        made->lent.begin = reinterpret_cast<std::uintptr_t>(base);
        made->lent.length = bytes;
        made->lent.access = rights;
        registry.lent().lend(made->lent);
    }
    return made;
}

} // namespace

int opal_common_adaptib_register(opal_common_adaptib_core_t* core, void* base, size_t bytes,
                                 uint32_t access, opal_common_adaptib_region_t** region,
                                 opal_common_adaptib_remote_t* remote) noexcept {
    // Ordered, since programs and osc/rdma poll on such memory.
    const std::uint32_t rights = kLocalWrite | kOrdered | access_of(access);
    // Registers whole words: osc/rdma changes a shorter element by the word that contains it.
    if ((rights & kRemoteAtomic) != 0) {
        constexpr std::uintptr_t kWord = sizeof(std::uint64_t);
        const auto begin = reinterpret_cast<std::uintptr_t>(base);
        const std::uintptr_t first = begin / kWord * kWord;
        base = reinterpret_cast<void*>(first);
        bytes = round_up(begin + bytes, kWord) - first;
    }
    const Guard guard(core);
    Protocol& protocol = *core->protocol;
    ExposedMemory& registry = protocol.memory();
    std::unique_ptr<opal_common_adaptib_region> made;
    const Registration* memory = registry.exposed(base, bytes, rights);
    if (memory == nullptr) {
        made.reset(new (std::nothrow) opal_common_adaptib_region);
        if (made == nullptr) {
            return OPAL_COMMON_ADAPTIB_NO_MEMORY;
        }
        const Status status = (rights & kRemoteAtomic) != 0
                                  ? registry.open_window(made->window, base, bytes, rights)
                                  : registry.register_memory(made->transfer, base, bytes, rights);
        if (!status.ok()) {
            return status.reason() == Reason::bad_argument ? OPAL_COMMON_ADAPTIB_BAD_PARAM
                                                           : OPAL_COMMON_ADAPTIB_NO_MEMORY;
        }
        memory = &made->memory();
    } else {
        made = lend(registry, *memory, base, bytes, rights);
    }
    remote->base = reinterpret_cast<std::uintptr_t>(base);
    remote->bytes = bytes;
    memory->copy_remote_keys(remote->keys);
    remote->key_count = memory->key_count();
    remote->key_epoch = protocol.transfers().key_epoch();
    remote->reserved = 0;
    remote->access = protocol.one_sided().advertised_access(access);
    *region = made.release();
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

void opal_common_adaptib_deregister(opal_common_adaptib_core_t* core,
                                    opal_common_adaptib_region_t* region) noexcept {
    const Guard guard(core);
    if (region != nullptr && region->exposed != nullptr) {
        core->protocol->memory().lent().take_back(region->lent);
    }
    delete region;
}

namespace {

const Registration* memory_of(const opal_common_adaptib_one_sided_t& operation) {
    return operation.region == nullptr ? nullptr : &operation.region->memory();
}

// Finds the peer record that the operation goes to.
Status target_of(opal_common_adaptib_core_t* core, opal_common_adaptib_peer_t* peer,
                 const opal_common_adaptib_one_sided_t& operation, Peer*& out) {
    Core& inner = *core->core;
    Peer* to = peer_of(core, peer);
    const bool atomic = operation.operation == OPAL_COMMON_ADAPTIB_FETCH_ADD ||
                        operation.operation == OPAL_COMMON_ADAPTIB_COMPARE_SWAP;
    const bool emulated = (operation.remote->access & OPAL_COMMON_ADAPTIB_ATOMICS_EMULATED) != 0;
    if (!atomic || emulated || inner.fabrics() == 1) [[likely]] {
        out = to;
        return to == nullptr ? inner.peers().get_loopback(out) : kOk;
    }
    return to == nullptr ? inner.peers().get_loopback_for_atomics(out)
                         : inner.peers().get_for_atomics(*to, out);
}

[[gnu::always_inline]] inline int try_rma(opal_common_adaptib_core_t* core,
                                          opal_common_adaptib_peer_t* peer,
                                          const opal_common_adaptib_one_sided_t* operation) {
    OneSidedOperations& one_sided = core->protocol->one_sided();
    Peer* to = peer_of(core, peer);
    bool done = false;
    if (to != nullptr && OneSidedOperations::is_plain(*operation)) [[likely]] {
        if (to->transfers.synchronous) [[likely]] {
            done = one_sided.try_plain_rma(*to, *operation, memory_of(*operation));
        }
    } else {
        done = target_of(core, peer, *operation, to).ok() &&
               one_sided.try_rma(*to, *operation, memory_of(*operation));
    }
    return done ? OPAL_COMMON_ADAPTIB_COMPLETE : OPAL_COMMON_ADAPTIB_AGAIN;
}

[[gnu::always_inline]] inline std::uint64_t flush_mark(opal_common_adaptib_core_t* core) {
    FlushEpochs& epochs = core->protocol->one_sided().flush_epochs();
    return epochs.under_way() > 0 ? epochs.mark() : 0;
}

[[gnu::noinline]] std::uint64_t locked_flush_mark(opal_common_adaptib_core_t* core) {
    const Guard guard(core);
    return flush_mark(core);
}

} // namespace

int opal_common_adaptib_try_rma(opal_common_adaptib_core_t* core, opal_common_adaptib_peer_t* peer,
                                const opal_common_adaptib_one_sided_t* operation) noexcept {
    return guarded<try_rma>(core, peer, operation);
}

int opal_common_adaptib_rma_start(opal_common_adaptib_core_t* core,
                                  opal_common_adaptib_peer_t* peer,
                                  const opal_common_adaptib_one_sided_t* operation,
                                  opal_common_adaptib_request_t* request) noexcept {
    const Guard guard(core);
    Peer* to = nullptr;
    if (const Status status = target_of(core, peer, *operation, to); !status.ok()) {
        return code_of(status);
    }
    bool complete = false;
    const Status status = core->protocol->one_sided().start(*to, *operation, memory_of(*operation),
                                                            *request, complete);
    core->protocol->ask_for_connections();
    return code_of(status, complete);
}

uint64_t opal_common_adaptib_flush_mark(opal_common_adaptib_core_t* core) noexcept {
    return *core->threads ? locked_flush_mark(core) : flush_mark(core);
}

bool opal_common_adaptib_flush_passed(opal_common_adaptib_core_t* core, uint64_t mark) noexcept {
    const Guard guard(core);
    return core->protocol->one_sided().flush_epochs().passed(mark);
}
