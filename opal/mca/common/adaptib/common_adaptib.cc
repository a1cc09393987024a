// SPDX-License-Identifier: BSD-3-Clause
// The C interface over the core (common_adaptib.h): handles, the lock, and what only a real process
// has, its clock, its seed and its fabric.
//
// Every function is noexcept. What could throw runs out of memory only: making the core and first contact
// with a peer answer with NO_MEMORY; in the middle of the protocol it ends the process.
// May touch: every folder of the core; no header of Open MPI.
#include "common_adaptib.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/core.h"
#include "core/open_fabrics.h"

using namespace adaptib;

namespace {

class CallbackBootstrap final : public Bootstrap {
public:
    explicit CallbackBootstrap(const opal_common_adaptib_environment_t& environment)
        : environment_(environment) {}

    Status lookup(std::uint64_t name, std::vector<std::byte>& blob) override {
        void* address = nullptr;
        std::size_t size = 0;
        if (environment_.lookup(environment_.context, name, &address, &size) != 0) {
            return Status::error(Reason::unreachable);
        }
        const auto* bytes = static_cast<const std::byte*>(address);
        blob.assign(bytes, bytes + size);
        environment_.lookup_release(environment_.context, address);
        return kOk;
    }

private:
    opal_common_adaptib_environment_t environment_;
};

} // namespace

struct opal_common_adaptib_core {
    explicit opal_common_adaptib_core(const opal_common_adaptib_environment_t& from)
        : threads(from.threads), environment(from), bootstrap(from) {}

    // What every call looks at: one cache line.
    alignas(kCacheLine) Protocol* protocol = nullptr; // core's
    bool threads;
    bool twins = false;  // peers may have some: there are several fabrics
    bool inside = false; // somebody is in progress
    std::unique_ptr<Core> core;

    opal_common_adaptib_environment_t environment;
    int references = 1;
    opal_common_adaptib_active_t active = nullptr;
    void* active_context = nullptr;
    std::mutex mutex;
    MonotonicClock clock;
    Random random{0};
    CallbackBootstrap bootstrap;
    std::string source_map; // the file that it goes to; empty: none
};

namespace {

opal_common_adaptib_core* g_core = nullptr;

// Takes the lock if there are threads.
class Guard {
public:
    explicit Guard(opal_common_adaptib_core* core) : core_(core->threads ? core : nullptr) {
        if (core_ != nullptr) {
            core_->mutex.lock();
        }
    }
    ~Guard() {
        if (core_ != nullptr) {
            core_->mutex.unlock();
        }
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

private:
    opal_common_adaptib_core* core_;
};

// Reports what has completed, without the lock.
int report_completed(CompletedList& list) {
    int count = 0;
    while (!list.empty()) {
        UserRequest* user = list.pop();
        user->complete(user);
        ++count;
    }
    return count;
}

int code_of(Status status) {
    if (status.ok()) {
        return OPAL_COMMON_ADAPTIB_SUCCESS;
    }
    if (status.is_again()) {
        return OPAL_COMMON_ADAPTIB_AGAIN;
    }
    switch (status.reason()) {
    case Reason::no_memory: return OPAL_COMMON_ADAPTIB_NO_MEMORY;
    case Reason::bad_key:
    case Reason::bad_argument: return OPAL_COMMON_ADAPTIB_BAD_PARAM;
    case Reason::unreachable:
    case Reason::version:
    case Reason::no_device:
    case Reason::no_permission:
    case Reason::peer_gone: return OPAL_COMMON_ADAPTIB_UNREACHABLE;
    default: return OPAL_COMMON_ADAPTIB_ERROR;
    }
}

int code_of(Status status, bool complete) {
    return status.ok() && complete ? OPAL_COMMON_ADAPTIB_COMPLETE : code_of(status);
}

Envelope envelope_of(const opal_common_adaptib_envelope_t& from) {
    return {load_piece(from.context), load_piece(from.source), load_piece(from.tag)};
}

// A process sends to itself through the core's own handle.
Peer* peer_of(opal_common_adaptib_core* core, opal_common_adaptib_peer_t* peer) {
    const bool self = static_cast<void*>(peer) == static_cast<void*>(core);
    return self ? nullptr : reinterpret_cast<Peer*>(peer);
}

opal_common_adaptib_peer_t* handle_of(opal_common_adaptib_core* core, Peer* peer) {
    return peer == nullptr ? reinterpret_cast<opal_common_adaptib_peer_t*>(core)
                           : reinterpret_cast<opal_common_adaptib_peer_t*>(peer);
}

void tell(const opal_common_adaptib_environment_t& environment,
          opal_common_adaptib_severity_t severity, const std::string& text) {
    environment.message(environment.context, severity, text.c_str());
}

std::uint64_t system_seed() {
    std::uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) {
        seed = static_cast<std::uint64_t>(MonotonicClock().now().count());
    }
    return seed;
}

// The version that this process publishes; another one only to test that peers refuse it.
std::uint16_t published_version() {
    const char* text = std::getenv("ADAPTIB_TEST_WIRE_VERSION");
    return text == nullptr ? kWireVersion : static_cast<std::uint16_t>(std::atoi(text));
}

// Processes that the job spawns, whose ranks begin with 0 again, have the number of their job before it.
std::string source_map_path(const std::string& path, std::uint64_t self) {
    constexpr std::uint64_t kFirstJob = 1;
    const std::uint64_t job = self >> 32 & 0xffff;
    return path + "." + (job > kFirstJob ? std::to_string(job) + "." : "") +
           std::to_string(self & 0xffffffffu);
}

// False: nothing can be written there, which was told. What is there already is kept until the end.
bool can_write(opal_common_adaptib_core& core, const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "a");
    if (file == nullptr) {
        tell(core.environment, OPAL_COMMON_ADAPTIB_FAILURE,
             "The parameter opal_common_adaptib_source_map has the value \"" +
                 std::string(process_parameters().source_map) + "\", but " + path +
                 " cannot be written: " + std::strerror(errno) +
                 ". Name a path in a directory that each host has, or none.");
        return false;
    }
    std::fclose(file);
    return true;
}

void write_source_map(opal_common_adaptib_core& core) {
    const std::string text = core.core->source_map();
    std::FILE* file = std::fopen(core.source_map.c_str(), "w");
    bool written = file != nullptr;
    written = written && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written = (file == nullptr || std::fclose(file) == 0) && written;
    if (!written) {
        tell(core.environment, OPAL_COMMON_ADAPTIB_NOTICE,
             core.source_map + " could not be written: " + std::strerror(errno));
    }
}

int open_core(opal_common_adaptib_core& core) {
    const Parameters& parameters = process_parameters();
    std::string text;
    if (!check_parameters(parameters, text)) {
        tell(core.environment, OPAL_COMMON_ADAPTIB_FAILURE, text);
        return OPAL_COMMON_ADAPTIB_BAD_PARAM;
    }
    if (std::string_view(parameters.source_map) != "none") {
        core.source_map = source_map_path(parameters.source_map, core.environment.self);
        if (!can_write(core, core.source_map)) {
            return OPAL_COMMON_ADAPTIB_BAD_PARAM;
        }
    }
    core.random = Random(system_seed());
    std::vector<std::unique_ptr<Fabric>> fabrics;
    std::string left_out;
    const FabricsWanted wanted{parameters,
                               core.environment.host_name,
                               core.environment.self >> 32,
                               core.environment.one_host,
                               core.clock,
                               core.random};
    Status status = open_fabrics(wanted, fabrics, left_out, text);
    if (status.ok()) {
        Core::Environment environment;
        environment.self = core.environment.self;
        environment.local_rank = core.environment.local_rank;
        environment.host = core.environment.host_name;
        environment.left_out = left_out;
        environment.wire_version = published_version();
        environment.bootstrap = &core.bootstrap;
        environment.clock = &core.clock;
        environment.maps_sources = !core.source_map.empty();
        environment.timed = true;
        environment.yields = core.environment.yields;
        environment.random = &core.random;
        environment.counters = &process_counters();
        if (core.environment.watch_memory != nullptr) {
            environment.watch_memory = [&core] {
                return core.environment.watch_memory(core.environment.context);
            };
        }
        environment.message = [&core](Severity severity, const std::string& message) {
            tell(core.environment,
                 severity == Severity::notice ? OPAL_COMMON_ADAPTIB_NOTICE
                                              : OPAL_COMMON_ADAPTIB_FAILURE,
                 message);
        };
        status = Core::create(parameters, environment, std::move(fabrics), core.core, text);
    }
    if (status.ok()) {
        core.protocol = &core.core->protocol();
        core.twins = core.core->fabrics() > 1;
    } else {
        tell(core.environment, OPAL_COMMON_ADAPTIB_FAILURE, text);
    }
    return code_of(status);
}

} // namespace

// ---------------------------------------------------------------------------------------------------
// Parameters and counters

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

// ---------------------------------------------------------------------------------------------------
// Life

int opal_common_adaptib_core_acquire(const opal_common_adaptib_environment_t* environment,
                                     opal_common_adaptib_core_t** core) noexcept {
    if (g_core != nullptr) {
        ++g_core->references;
        g_core->threads = g_core->threads || environment->threads;
        *core = g_core;
        return OPAL_COMMON_ADAPTIB_SUCCESS;
    }
    try {
        auto made = std::make_unique<opal_common_adaptib_core>(*environment);
        if (const int code = open_core(*made); code != OPAL_COMMON_ADAPTIB_SUCCESS) {
            return code;
        }
        g_core = made.release();
    } catch (const std::bad_alloc&) {
        return OPAL_COMMON_ADAPTIB_NO_MEMORY;
    }
    *core = g_core;
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

void opal_common_adaptib_core_release(opal_common_adaptib_core_t* core) noexcept {
    if (--core->references > 0) {
        return;
    }
    constexpr Nanoseconds kFlushLimit = std::chrono::seconds{1};
    core->core->drain(kFlushLimit);
    report_completed(core->core->protocol().completed());
    if (process_parameters().report) {
        tell(core->environment, OPAL_COMMON_ADAPTIB_REPORT, core->core->report());
    }
    if (!core->source_map.empty()) {
        write_source_map(*core);
    }
    g_core = nullptr;
    delete core;
}

const void* opal_common_adaptib_core_address(opal_common_adaptib_core_t* core,
                                             size_t* size) noexcept {
    *size = core->core->address().size();
    return core->core->address().data();
}

void opal_common_adaptib_memory_released(opal_common_adaptib_core_t* core, const void* base,
                                         size_t bytes) noexcept {
    core->core->protocol().forget_memory(base, bytes);
}

namespace {

// One thread at a time is in progress; it leaves the lock while an active message's handler runs.
[[gnu::always_inline]] inline int progress_once(opal_common_adaptib_core_t* core, bool again) {
    core->inside = true;
    const auto events = static_cast<int>(core->core->progress(again));
    core->inside = false;
    return events;
}

[[gnu::noinline]] int progress_locked(opal_common_adaptib_core_t* core) {
    CompletedList completed;
    int events = 0;
    {
        const std::unique_lock lock(core->mutex, std::try_to_lock);
        if (!lock.owns_lock() || core->inside) {
            return 0;
        }
        events = progress_once(core, false); // others may wait for the lock
        completed = std::exchange(core->protocol->completed(), {});
    }
    return events + report_completed(completed);
}

[[gnu::noinline]] int report_all(opal_common_adaptib_core_t* core) {
    CompletedList completed = std::exchange(core->protocol->completed(), {});
    return report_completed(completed);
}

} // namespace

int opal_common_adaptib_progress(opal_common_adaptib_core_t* core) noexcept {
    if (core->threads) [[unlikely]] {
        return progress_locked(core);
    }
    if (core->inside) [[unlikely]] {
        return 0;
    }
    const int events = progress_once(core, true);
    return core->protocol->completed().empty() ? events : events + report_all(core);
}

void opal_common_adaptib_connect_start(opal_common_adaptib_core_t* core, uint32_t rank,
                                       uint32_t count) noexcept {
    const Guard guard(core);
    core->core->start_connecting(rank, count);
}

int opal_common_adaptib_peer_get(opal_common_adaptib_core_t* core, uint64_t name,
                                 opal_common_adaptib_peer_t** peer) noexcept {
    try {
        const Guard guard(core);
        Peer* found = nullptr;
        const Status status = core->core->get_peer(name, found);
        if (status.ok()) {
            *peer = handle_of(core, found);
        }
        return status.reason() == Reason::bad_wire ? OPAL_COMMON_ADAPTIB_UNREACHABLE
                                                   : code_of(status);
    } catch (const std::bad_alloc&) {
        return OPAL_COMMON_ADAPTIB_NO_MEMORY;
    }
}

void opal_common_adaptib_peer_release(opal_common_adaptib_core_t* core,
                                      opal_common_adaptib_peer_t* peer) noexcept {
    const Guard guard(core);
    if (Peer* released = peer_of(core, peer); released != nullptr) {
        core->core->protocol().release_peer(*released);
        if (Peer* twin = core->core->twin_of(*released); twin != nullptr) {
            core->core->protocol().release_peer(*twin);
        }
    }
}

std::size_t opal_common_adaptib_peer_migrate(opal_common_adaptib_core_t* core,
                                             opal_common_adaptib_peer_t* peer) noexcept {
    const Guard guard(core);
    Peer* to = peer_of(core, peer);
    return to == nullptr ? 0 : core->core->migrate_paths(*to);
}

// ---------------------------------------------------------------------------------------------------
// Two-sided traffic

namespace {

// kCall(core, arguments...), which is inlined twice: without the lock, and behind a call with it, so that who has
// no threads does nothing for it.
template <auto kCall, typename... Arguments>
[[gnu::noinline]] auto locked(opal_common_adaptib_core* core, Arguments... arguments) {
    const Guard guard(core);
    return kCall(core, arguments...);
}
template <auto kCall, typename... Arguments>
[[gnu::always_inline]] inline auto guarded(opal_common_adaptib_core* core, Arguments... arguments) {
    if (core->threads) [[unlikely]] {
        return locked<kCall>(core, arguments...);
    }
    return kCall(core, arguments...);
}

// A send that needed no request.
void end_at_once(UserRequest& user, Bytes bytes) {
    user.kind = static_cast<std::uint32_t>(RequestKind::send);
    user.status = OPAL_COMMON_ADAPTIB_SUCCESS;
    user.bytes = bytes;
}

} // namespace

int opal_common_adaptib_send(opal_common_adaptib_core_t* core, opal_common_adaptib_peer_t* peer,
                             const opal_common_adaptib_envelope_t* envelope,
                             const opal_common_adaptib_data_t* data,
                             opal_common_adaptib_mode_t mode, opal_common_adaptib_marker_t marker,
                             opal_common_adaptib_request_t* request) noexcept {
    const Guard guard(core);
    Protocol& protocol = core->core->protocol();
    Peer* to = peer_of(core, peer);
    const Envelope from = envelope_of(*envelope);
    const bool synchronous = mode == OPAL_COMMON_ADAPTIB_MODE_SYNC;
    if (to != nullptr && !synchronous &&
        (Protocol::send_at_once(*to, from, *data) || protocol.send_timed(*to, from, *data)))
        [[likely]] {
        end_at_once(*request, data->bytes);
        return OPAL_COMMON_ADAPTIB_COMPLETE;
    }
    bool complete = false;
    const Status status = protocol.send(to, from, *data, synchronous, static_cast<Marker>(marker),
                                        *request, complete);
    return code_of(status, complete);
}

namespace {

[[gnu::always_inline]] inline int send_now(opal_common_adaptib_core_t* core,
                                           opal_common_adaptib_peer_t* peer, std::uint32_t context,
                                           std::int32_t source, std::int32_t tag, const void* base,
                                           std::size_t bytes) {
    Peer* to = peer_of(core, peer);
    const bool sent =
        to != nullptr && Protocol::send_at_once(*to, {context, source, tag}, base, bytes);
    return sent ? OPAL_COMMON_ADAPTIB_COMPLETE : OPAL_COMMON_ADAPTIB_AGAIN;
}

[[gnu::always_inline]] inline int start_receive(opal_common_adaptib_core_t* core,
                                                opal_common_adaptib_peer_t* peer,
                                                const Envelope& pattern, const Data& data,
                                                UserRequest& request) {
    bool complete = false;
    const Status status = core->protocol->receive(pattern, data, request, complete,
                                                  peer == nullptr ? nullptr : peer_of(core, peer));
    return code_of(status, complete);
}

[[gnu::always_inline]] inline int receive_at(opal_common_adaptib_core_t* core,
                                             opal_common_adaptib_peer_t* peer,
                                             std::uint32_t context, std::int32_t source,
                                             std::int32_t tag, void* base, std::size_t bytes,
                                             opal_common_adaptib_request_t* request) {
    const Data data{base, bytes, nullptr, nullptr, nullptr};
    return start_receive(core, peer, {context, source, tag}, data, *request);
}

} // namespace

int opal_common_adaptib_send_now(opal_common_adaptib_core_t* core, opal_common_adaptib_peer_t* peer,
                                 uint32_t context, int32_t source, int32_t tag, const void* base,
                                 size_t bytes) noexcept {
    return guarded<send_now>(core, peer, context, source, tag, base, bytes);
}

int opal_common_adaptib_receive(opal_common_adaptib_core_t* core, opal_common_adaptib_peer_t* peer,
                                const opal_common_adaptib_envelope_t* envelope,
                                const opal_common_adaptib_data_t* data,
                                opal_common_adaptib_request_t* request) noexcept {
    const Guard guard(core);
    return start_receive(core, peer, envelope_of(*envelope), *data, *request);
}

int opal_common_adaptib_receive_at(opal_common_adaptib_core_t* core,
                                   opal_common_adaptib_peer_t* peer, uint32_t context,
                                   int32_t source, int32_t tag, void* base, size_t bytes,
                                   opal_common_adaptib_request_t* request) noexcept {
    return guarded<receive_at>(core, peer, context, source, tag, base, bytes, request);
}

namespace {

int nothing_found(opal_common_adaptib_core* core, opal_common_adaptib_peer_t* peer) {
    Peer* from = peer == nullptr ? nullptr : peer_of(core, peer);
    const bool lost = from != nullptr && core->core->protocol().is_lost(*from);
    return lost ? OPAL_COMMON_ADAPTIB_UNREACHABLE : OPAL_COMMON_ADAPTIB_NOT_FOUND;
}

opal_common_adaptib_probe_t probe_of(const InboundMessage& message) {
    return {message.envelope.source, message.envelope.tag, message.length};
}

} // namespace

int opal_common_adaptib_probe(opal_common_adaptib_core_t* core, opal_common_adaptib_peer_t* peer,
                              const opal_common_adaptib_envelope_t* envelope,
                              opal_common_adaptib_probe_t* found) noexcept {
    const Guard guard(core);
    const InboundMessage* message = core->core->protocol().find(envelope_of(*envelope));
    if (message == nullptr) {
        return nothing_found(core, peer);
    }
    *found = probe_of(*message);
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

int opal_common_adaptib_matched_probe(opal_common_adaptib_core_t* core,
                                      opal_common_adaptib_peer_t* peer,
                                      const opal_common_adaptib_envelope_t* envelope,
                                      opal_common_adaptib_probe_t* found,
                                      opal_common_adaptib_message_t** message) noexcept {
    const Guard guard(core);
    InboundMessage* taken = core->core->protocol().take(envelope_of(*envelope));
    if (taken == nullptr) {
        return nothing_found(core, peer);
    }
    *found = probe_of(*taken);
    *message = reinterpret_cast<opal_common_adaptib_message_t*>(taken);
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

int opal_common_adaptib_matched_receive(opal_common_adaptib_core_t* core,
                                        opal_common_adaptib_message_t* message,
                                        const opal_common_adaptib_data_t* data,
                                        opal_common_adaptib_request_t* request) noexcept {
    const Guard guard(core);
    bool complete = false;
    const Status status = core->core->protocol().receive_taken(
        *reinterpret_cast<InboundMessage*>(message), *data, *request, complete);
    return code_of(status, complete);
}

int opal_common_adaptib_cancel(opal_common_adaptib_core_t* core,
                               opal_common_adaptib_request_t* request) noexcept {
    const Guard guard(core);
    return core->core->protocol().cancel(*request) ? OPAL_COMMON_ADAPTIB_SUCCESS
                                                   : OPAL_COMMON_ADAPTIB_NOT_FOUND;
}

// ---------------------------------------------------------------------------------------------------
// Active messages

namespace {

[[gnu::noinline]] void hand_over_unlocked(opal_common_adaptib_core* core, Peer& peer,
                                          std::uint8_t tag, const std::byte* payload,
                                          Bytes length) {
    core->mutex.unlock();
    core->active(core->active_context, handle_of(core, &peer), tag, payload, length);
    core->mutex.lock();
}

void hand_over(void* context, Peer& peer, std::uint8_t tag, const std::byte* payload,
               Bytes length) {
    auto* core = static_cast<opal_common_adaptib_core*>(context);
    if (core->threads) [[unlikely]] {
        hand_over_unlocked(core, peer, tag, payload, length);
        return;
    }
    core->active(core->active_context, handle_of(core, &peer), tag, payload, length);
}

} // namespace

void opal_common_adaptib_active_listen(opal_common_adaptib_core_t* core,
                                       opal_common_adaptib_active_t handler,
                                       void* context) noexcept {
    const Guard guard(core);
    core->active = handler;
    core->active_context = context;
    core->core->protocol().listen(handler == nullptr ? nullptr : hand_over, core);
}

size_t opal_common_adaptib_active_max(opal_common_adaptib_core_t* core) noexcept {
    return core->core->protocol().active_max();
}

const size_t* opal_common_adaptib_active_eager(opal_common_adaptib_core_t* core) noexcept {
    return &core->core->protocol().active_eager();
}

void opal_common_adaptib_active_not(opal_common_adaptib_core_t* core,
                                    opal_common_adaptib_peer_t* peer, size_t bytes) noexcept {
    const Guard guard(core);
    if (Peer* to = peer_of(core, peer); to != nullptr) {
        core->core->protocol().on_not_active(*to, bytes);
    }
}

namespace {

[[gnu::always_inline]] inline int active_send_now(opal_common_adaptib_core_t* core,
                                                  opal_common_adaptib_peer_t* peer,
                                                  std::uint8_t tag, const void* first,
                                                  std::size_t first_bytes, const void* second,
                                                  std::size_t second_bytes) {
    Peer* to = peer_of(core, peer);
    const bool sent =
        to != nullptr &&
        (Protocol::send_active_at_once(*to, tag, first, first_bytes, second, second_bytes) ||
         core->protocol->send_active_timed(*to, tag, first, first_bytes, second, second_bytes));
    return sent ? OPAL_COMMON_ADAPTIB_COMPLETE : OPAL_COMMON_ADAPTIB_AGAIN;
}

} // namespace

int opal_common_adaptib_active_send_now(opal_common_adaptib_core_t* core,
                                        opal_common_adaptib_peer_t* peer, uint8_t tag,
                                        const void* first, size_t first_bytes, const void* second,
                                        size_t second_bytes) noexcept {
    return guarded<active_send_now>(core, peer, tag, first, first_bytes, second, second_bytes);
}

int opal_common_adaptib_active_send(opal_common_adaptib_core_t* core,
                                    opal_common_adaptib_peer_t* peer, uint8_t tag,
                                    const opal_common_adaptib_data_t* data,
                                    opal_common_adaptib_request_t* request) noexcept {
    const Guard guard(core);
    Peer* to = peer_of(core, peer);
    if (to == nullptr) {
        return OPAL_COMMON_ADAPTIB_BAD_PARAM;
    }
    bool complete = false;
    const Status status = core->core->protocol().send_active(*to, tag, *data, *request, complete);
    return code_of(status, complete);
}

// ---------------------------------------------------------------------------------------------------
// One-sided traffic

// What may be a window's, which atomics reach, is registered for itself: nobody reaches it any more when
// it is gone. Other memory is registered for transfers, and may be kept.
struct opal_common_adaptib_region {
    OpenWindow window;
    RegistrationCache::Use transfer;

    const Registration& memory() const {
        const bool is_window = window.memory().key_count() > 0;
        return is_window ? window.memory() : transfer.registration();
    }
};

int opal_common_adaptib_register(opal_common_adaptib_core_t* core, void* base, size_t bytes,
                                 uint32_t access, opal_common_adaptib_region_t** region,
                                 opal_common_adaptib_remote_t* remote) noexcept {
    const std::uint32_t rights =
        kLocalWrite | ((access & OPAL_COMMON_ADAPTIB_REMOTE_READ) != 0 ? kRemoteRead : 0u) |
        ((access & OPAL_COMMON_ADAPTIB_REMOTE_WRITE) != 0 ? kRemoteWrite : 0u) |
        ((access & OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC) != 0 ? kRemoteAtomic : 0u);
    const Guard guard(core);
    Protocol& protocol = core->core->protocol();
    std::unique_ptr<opal_common_adaptib_region> made;
    const Registration* memory = protocol.exposed(base, bytes, rights);
    if (memory == nullptr) {
        made.reset(new (std::nothrow) opal_common_adaptib_region);
        if (made == nullptr) {
            return OPAL_COMMON_ADAPTIB_NO_MEMORY;
        }
        const Status status = (rights & kRemoteAtomic) != 0
                                  ? protocol.open_window(made->window, base, bytes, rights)
                                  : protocol.register_memory(made->transfer, base, bytes, rights);
        if (!status.ok()) {
            return status.reason() == Reason::bad_argument ? OPAL_COMMON_ADAPTIB_BAD_PARAM
                                                           : OPAL_COMMON_ADAPTIB_NO_MEMORY;
        }
        memory = &made->memory();
    }
    remote->base = reinterpret_cast<std::uintptr_t>(base);
    remote->bytes = bytes;
    memory->copy_remote_keys(remote->keys);
    remote->key_count = memory->key_count();
    remote->access = protocol.told_access(access);
    *region = made.release();
    return OPAL_COMMON_ADAPTIB_SUCCESS;
}

void opal_common_adaptib_deregister(opal_common_adaptib_core_t* core,
                                    opal_common_adaptib_region_t* region) noexcept {
    const Guard guard(core);
    delete region;
}

namespace {

const Registration* memory_of(const opal_common_adaptib_one_sided_t& operation) {
    return operation.region == nullptr ? nullptr : &operation.region->memory();
}

// The peer that the operation goes to.
Status target_of(opal_common_adaptib_core_t* core, opal_common_adaptib_peer_t* peer,
                 const opal_common_adaptib_one_sided_t& operation, Peer*& out) {
    Core& in = *core->core;
    Peer* to = peer_of(core, peer);
    const bool atomic = operation.operation == OPAL_COMMON_ADAPTIB_FETCH_ADD ||
                        operation.operation == OPAL_COMMON_ADAPTIB_COMPARE_SWAP;
    const bool asked = (operation.remote->access & OPAL_COMMON_ADAPTIB_ATOMICS_ASKED) != 0;
    if (!atomic || asked || in.fabrics() == 1) [[likely]] {
        out = to;
        return to == nullptr ? in.get_loopback(out) : kOk;
    }
    return to == nullptr ? in.get_loopback_for_atomics(out) : in.get_for_atomics(*to, out);
}

[[gnu::always_inline]] inline int start_now(opal_common_adaptib_core_t* core,
                                            opal_common_adaptib_peer_t* peer,
                                            const opal_common_adaptib_one_sided_t* operation) {
    Protocol& protocol = *core->protocol;
    const Registration* const memory = memory_of(*operation);
    Peer* to = peer_of(core, peer);
    bool done = false;
    if (to != nullptr && Protocol::is_plain(*operation)) [[likely]] {
        done = protocol.move_at_once(*to, *operation, memory);
    } else {
        done = target_of(core, peer, *operation, to).ok() &&
               protocol.one_sided_at_once(*to, *operation, memory);
    }
    return done ? OPAL_COMMON_ADAPTIB_COMPLETE : OPAL_COMMON_ADAPTIB_AGAIN;
}

[[gnu::always_inline]] inline std::size_t outstanding(opal_common_adaptib_core_t* core,
                                                      opal_common_adaptib_peer_t* peer) {
    const Peer* to = peer == nullptr ? nullptr : peer_of(core, peer);
    if (to == nullptr) {
        return core->protocol->one_sided_outstanding();
    }
    const Peer* twin = core->twins ? core->core->twin_of(*to) : nullptr;
    return to->one_sided + (twin == nullptr ? 0 : twin->one_sided);
}

} // namespace

int opal_common_adaptib_start_now(opal_common_adaptib_core_t* core,
                                  opal_common_adaptib_peer_t* peer,
                                  const opal_common_adaptib_one_sided_t* operation) noexcept {
    return guarded<start_now>(core, peer, operation);
}

int opal_common_adaptib_start(opal_common_adaptib_core_t* core, opal_common_adaptib_peer_t* peer,
                              const opal_common_adaptib_one_sided_t* operation,
                              opal_common_adaptib_request_t* request) noexcept {
    const Guard guard(core);
    Peer* to = nullptr;
    if (const Status status = target_of(core, peer, *operation, to); !status.ok()) {
        return code_of(status);
    }
    bool complete = false;
    const Status status = core->core->protocol().start_one_sided(
        *to, *operation, memory_of(*operation), *request, complete);
    return code_of(status, complete);
}

size_t opal_common_adaptib_outstanding(opal_common_adaptib_core_t* core,
                                       opal_common_adaptib_peer_t* peer) noexcept {
    return guarded<outstanding>(core, peer);
}
