// SPDX-License-Identifier: BSD-3-Clause
// The C interface over the core (common_adaptib.h): parameters and counters, life, progress, peers.
//
// Every function is noexcept. Only lack of memory could throw: making the core and first contact
// with a peer then return NO_MEMORY; elsewhere in the protocol the process ends.
// May touch: every folder of the core; no header of Open MPI.
#include "common_adaptib.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process_name.h"
#include "interface/handle.h"
#include "stats/incident.h"

using namespace adaptib;

namespace {

Process* g_process = nullptr;

} // namespace

// -------------------------------------------------------------------------------------------------
// Parameters, counters and kinds of incidents

const opal_common_adaptib_parameter_t* opal_common_adaptib_parameters(size_t* count) noexcept {
    const auto table = parameter_table();
    *count = table.size();
    return table.data();
}

int opal_common_adaptib_parameters_check(char* text, size_t text_size) noexcept {
    std::string why;
    if (check_parameters(process_parameters(), why)) {
        return OPAL_COMMON_ADAPTIB_SUCCESS;
    }
    std::snprintf(text, text_size, "%s", why.c_str());
    return OPAL_COMMON_ADAPTIB_BAD_PARAM;
}

const opal_common_adaptib_counter_t* opal_common_adaptib_counters(size_t* count) noexcept {
    const auto table = counter_table();
    *count = table.size();
    return table.data();
}

uint64_t opal_common_adaptib_counter_value(const opal_common_adaptib_counter_t* counter) noexcept {
    return process_value(*counter);
}

const opal_common_adaptib_incident_kind_t*
opal_common_adaptib_incident_kinds(size_t* count) noexcept {
    const auto table = incident_table();
    *count = table.size();
    return table.data();
}

// -------------------------------------------------------------------------------------------------
// Life

int opal_common_adaptib_core_acquire(const opal_common_adaptib_environment_t* environment,
                                     opal_common_adaptib_core_t** core) noexcept {
    if (g_process != nullptr) {
        ++g_process->references;
        if (environment->threads != nullptr && *environment->threads) {
            g_process->see_threads(environment->threads);
        }
        *core = g_process->endpoint(0);
        return OPAL_COMMON_ADAPTIB_SUCCESS;
    }
    try {
        auto made = std::make_unique<Process>(*environment);
        if (const int code = made->open(); code != OPAL_COMMON_ADAPTIB_SUCCESS) {
            return code;
        }
        g_process = made.release();
    } catch (const std::bad_alloc&) {
        return OPAL_COMMON_ADAPTIB_NO_MEMORY;
    }
    *core = g_process->endpoint(0);
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

uint32_t opal_common_adaptib_endpoints(opal_common_adaptib_core_t* core) noexcept {
    return core->process.endpoints();
}

opal_common_adaptib_core_t* opal_common_adaptib_endpoint(opal_common_adaptib_core_t* core,
                                                         uint32_t index) noexcept {
    return index < core->process.endpoints() ? core->process.endpoint(index) : nullptr;
}

uint32_t opal_common_adaptib_endpoint_index(opal_common_adaptib_core_t* core) noexcept {
    return core->index;
}

void opal_common_adaptib_quiesce_messages(opal_common_adaptib_core_t* core) noexcept {
    for (const auto& endpoint : core->process.all()) {
        CompletedList completed;
        {
            const Guard guard(endpoint.get());
            endpoint->inside = true;
            endpoint->core->quiesce_messages(Process::kFlushLimit);
            endpoint->inside = false;
            completed = std::exchange(endpoint->protocol->completed(), {});
        }
        report_completed(completed);
    }
}

void opal_common_adaptib_core_release(opal_common_adaptib_core_t* core) noexcept {
    Process& process = core->process;
    if (--process.references > 0) {
        return;
    }
    process.end();
    g_process = nullptr;
    delete &process;
}

const void* opal_common_adaptib_core_address(opal_common_adaptib_core_t* core,
                                             size_t* size) noexcept {
    *size = core->process.address().size();
    return core->process.address().data();
}

bool opal_common_adaptib_rail_name(opal_common_adaptib_core_t* core, uint32_t rail, char* name,
                                   size_t name_size) noexcept {
    const RailList rails = core->process.endpoint(0)->core->rails();
    if (rail >= rails.size()) {
        return false;
    }
    std::snprintf(name, name_size, "%s", rails[rail]->info().name.c_str());
    return true;
}

void opal_common_adaptib_core_carries(opal_common_adaptib_core_t* core, const char* what) noexcept {
    core->process.set_up(what);
}

void opal_common_adaptib_memory_released(opal_common_adaptib_core_t* core, const void* base,
                                         size_t bytes) noexcept {
    for (const auto& endpoint : core->process.all()) {
        endpoint->protocol->memory().forget(base, bytes);
    }
}

void opal_common_adaptib_process_ended(opal_common_adaptib_core_t* core,
                                       std::uint64_t name) noexcept {
    core->process.note_ended(name);
}

namespace {

// One thread at a time is inside; it gives up the lock while an active message's handler runs.
[[gnu::always_inline]] inline int progress_once(opal_common_adaptib_core_t* core, bool again) {
    core->inside = true;
    const auto events = static_cast<int>(core->core->progress(again));
    core->inside = false;
    return events;
}

[[gnu::noinline]] int report_all(opal_common_adaptib_core_t* core) {
    CompletedList completed = std::exchange(core->protocol->completed(), {});
    return report_completed(completed);
}

[[gnu::noinline]] int progress_of_threads(opal_common_adaptib_core_t* core) {
    return core->process.endpoints() > 1 ? core->process.progress()
                                         : progress_with_lock(core, Polled::only);
}

} // namespace

int adaptib::report_completed(CompletedList& list) {
    int count = 0;
    while (!list.empty()) {
        UserRequest* user = list.pop();
        user->complete(user);
        ++count;
    }
    return count;
}

opal_common_adaptib_core& adaptib::endpoint_of(const TaggedReceives& receives) {
    const auto endpoints = g_process->all();
    return **std::find_if(endpoints.begin(), endpoints.end(),
                          [&](const std::unique_ptr<opal_common_adaptib_core>& each) {
                              return &each->protocol->receives() == &receives;
                          });
}

namespace {

// Returns true if the endpoint is to be polled in the next pass, too: a request is under way, or
// active messages are to be served as soon as they arrive.
bool still_wants_progress(const opal_common_adaptib_core& core) {
    return core.wants_progress.load(std::memory_order_relaxed) &&
           (core.active != nullptr || core.core->awaits_progress());
}

} // namespace

int adaptib::progress_with_lock(opal_common_adaptib_core* core, Polled which) {
    CompletedList completed;
    int events = 0;
    if (which == Polled::other ? !core->lock.try_lock_to_help() : !core->lock.try_lock()) {
        return 0;
    }
    if (!core->inside) {
        core->passes.store(core->passes.load(std::memory_order_relaxed) + 1,
                           std::memory_order_relaxed);
        events = progress_once(core, false); // other threads may wait for the lock
        completed = std::exchange(core->protocol->completed(), {});
        if (which != Polled::only) {
            core->wants_progress.store((events > 0 && completed.empty()) ||
                                           still_wants_progress(*core),
                                       std::memory_order_relaxed);
        }
    }
    core->lock.unlock();
    core->process.say_pending();
    return events + report_completed(completed);
}

int opal_common_adaptib_progress(opal_common_adaptib_core_t* core) noexcept {
    if (*core->threads) [[unlikely]] {
        return progress_of_threads(core);
    }
    if (core->inside) [[unlikely]] {
        return 0;
    }
    const int events = progress_once(core, true);
    return core->protocol->completed().empty() ? events : events + report_all(core);
}

void opal_common_adaptib_connect_start(opal_common_adaptib_core_t* core, uint32_t rank,
                                       uint32_t count) noexcept {
    for (const auto& endpoint : core->process.all()) {
        const Guard guard(endpoint.get());
        endpoint->core->expect(count);
        endpoint->core->startup().begin(rank, count, core->process.endpoints());
    }
}

namespace {

// A malformed address is as good as none.
int code_of_contact(Status status) {
    return status.reason() == Reason::bad_wire ? OPAL_COMMON_ADAPTIB_UNREACHABLE : code_of(status);
}

int get_peer(opal_common_adaptib_core_t* core, uint64_t name, PeerDirectory::Why why,
             opal_common_adaptib_peer_t** peer) {
    try {
        const Guard guard(core);
        Peer* found = nullptr;
        const Status status = core->core->peers().get(name, found, why);
        if (status.ok()) {
            *peer = handle_of(core, found);
        }
        return code_of_contact(status);
    } catch (const std::bad_alloc&) {
        return OPAL_COMMON_ADAPTIB_NO_MEMORY;
    }
}

} // namespace

int opal_common_adaptib_peer_get(opal_common_adaptib_core_t* core, uint64_t name,
                                 opal_common_adaptib_peer_t** peer) noexcept {
    return get_peer(core, name, PeerDirectory::Why::user, peer);
}

int opal_common_adaptib_peer_offer(opal_common_adaptib_core_t* core, uint64_t name,
                                   opal_common_adaptib_peer_t** peer) noexcept {
    return get_peer(core, name, PeerDirectory::Why::offer, peer);
}

int opal_common_adaptib_peer_endpoints(opal_common_adaptib_core_t* core, uint64_t name,
                                       uint32_t* count) noexcept {
    try {
        return code_of_contact(core->process.bootstrap().count_endpoints(name, *count));
    } catch (const std::bad_alloc&) {
        return OPAL_COMMON_ADAPTIB_NO_MEMORY;
    }
}

int opal_common_adaptib_peer_at(opal_common_adaptib_core_t* core, uint64_t name, uint32_t endpoint,
                                opal_common_adaptib_peer_t** peer) noexcept {
    return endpoint < kMaxEndpoints
               ? get_peer(core, endpoint_name(name, endpoint), PeerDirectory::Why::user, peer)
               : OPAL_COMMON_ADAPTIB_UNREACHABLE; // a name has no room for it
}

namespace {

// Replaces the data that the endpoint's peers of this process have kept.
void replace_user_data(opal_common_adaptib_core* core, std::uint64_t process, void* what) {
    const Guard guard(core, false);
    for (std::uint32_t its = 0; its < kMaxEndpoints; ++its) {
        if (Peer* peer = core->core->peers().find(endpoint_name(process, its)); peer != nullptr) {
            peer->contact.user_data = what;
        }
    }
}

} // namespace

void opal_common_adaptib_process_set_user_data(opal_common_adaptib_core_t* core, uint64_t name,
                                               void* what) noexcept {
    if (core->process.user_data().exchange(process_of(name), what) != nullptr) {
        for (const auto& endpoint : core->process.all()) {
            replace_user_data(endpoint.get(), process_of(name), what);
        }
    }
}

namespace {

// As opal_common_adaptib_peer_user_data(), for every case. Keeps a copy in the peer.
[[gnu::noinline]] void* find_user_data(opal_common_adaptib_core* core,
                                       opal_common_adaptib_peer_t* peer) {
    const Guard guard(core, false);
    Peer* of = peer_of(core, peer);
    if (of == nullptr) {
        return nullptr;
    }
    if (of->contact.user_data == nullptr) { // so far
        of->contact.user_data = core->process.user_data().of(process_of(of->contact.name));
    }
    return of->contact.user_data;
}

} // namespace

// Open MPI 5 asks for it with each active message. Where one thread calls, a known answer takes no
// lock and no stack.
void* opal_common_adaptib_peer_user_data(opal_common_adaptib_core_t* core,
                                         opal_common_adaptib_peer_t* peer) noexcept {
    if (!*core->threads) [[likely]] {
        const Peer* of = peer_of(core, peer);
        if (of != nullptr && of->contact.user_data != nullptr) [[likely]] {
            return of->contact.user_data;
        }
    }
    return find_user_data(core, peer);
}

namespace {

void report_broken(void* context, Peer& peer) {
    auto* core = static_cast<opal_common_adaptib_core*>(context);
    const Unlocked unlocked(core);
    core->broken(core->broken_context, handle_of(core, &peer));
}

} // namespace

void opal_common_adaptib_broken_listen(opal_common_adaptib_core_t* core,
                                       opal_common_adaptib_broken_t handler,
                                       void* context) noexcept {
    const Guard guard(core);
    core->broken = handler;
    core->broken_context = context;
    listen_to_broken(core);
}

void adaptib::listen_to_broken(opal_common_adaptib_core* core) {
    core->core->lost().listen(core->broken == nullptr ? nullptr : report_broken, core);
}

void opal_common_adaptib_peer_release(opal_common_adaptib_core_t* core,
                                      opal_common_adaptib_peer_t* peer) noexcept {
    const Guard guard(core);
    if (Peer* released = peer_of(core, peer); released != nullptr) {
        core->protocol->disconnects().release(*released);
        if (Peer* amo_peer = core->core->peers().find_amo_peer(released->contact.name);
            amo_peer != nullptr) {
            core->protocol->disconnects().release(*amo_peer);
        }
    }
}

std::size_t opal_common_adaptib_peer_migrate(opal_common_adaptib_core_t* core,
                                             opal_common_adaptib_peer_t* peer) noexcept {
    const Guard guard(core);
    Peer* to = peer_of(core, peer);
    return to == nullptr ? 0 : core->core->migrate_paths(*to);
}
