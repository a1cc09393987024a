// SPDX-License-Identifier: BSD-3-Clause
// The operations of a driver, in the steps of interface/two_sided.cc (simulator/torture/driver.h).
#include "simulator/torture/driver.h"

#include <string>
#include <string_view>

#include "protocol/ring_sends.h"
#include "simulator/torture/program.h"

namespace adaptib::torture {

fault::FaultPlan fault_plan(const Program& program, std::uint32_t rank) {
    using fault::Fault;
    const std::map<std::string, Fault> kinds{{"datagram_doubled", Fault::datagram_doubled},
                                             {"datagram_delayed", Fault::datagram_delayed},
                                             {"request_fails", Fault::request_fails},
                                             {"request_fails_done", Fault::request_fails_done},
                                             {"completion_delayed", Fault::completion_delayed},
                                             {"send_refused", Fault::send_refused},
                                             {"create_qp_fails", Fault::create_qp_fails},
                                             {"modify_fails", Fault::modify_fails},
                                             {"commit_fails", Fault::commit_fails},
                                             {"cm_connect_fails", Fault::cm_connect_fails}};
    const std::map<std::string, Capability> capabilities{
        {"lacks_whole_memory", Capability::whole_memory},
        {"lacks_direct", Capability::direct},
        {"lacks_reliable_ud", Capability::reliable_ud}};
    Nanoseconds until = Nanoseconds::max();
    fault::FaultPlan plan;
    plan.seed = program.schedule + rank;
    plan.knows_processes = true; // ranks compute for longer than partition_timeout
    for (const Setting& setting : program.faults) {
        if (!setting.is_of(rank)) {
            continue;
        }
        constexpr std::string_view kOnce = "_nth";
        const bool once = setting.name.ends_with(kOnce);
        const std::string name =
            setting.name.substr(0, setting.name.size() - (once ? kOnce.size() : 0));
        if (const auto kind = kinds.find(name); kind != kinds.end()) {
            fault::PlannedFault& row = plan.faults.emplace_back();
            row.fault = kind->second;
            if (once) {
                row.nth = std::stoull(setting.value);
            } else {
                row.rate = std::stod(setting.value) / 1000;
            }
            row.delay = {20, Nanoseconds{5000}};
            row.reason = kind->second == Fault::modify_fails ? Reason::no_device : row.reason;
            row.from = Nanoseconds{1}; // a core that cannot begin is no fault of its
        } else if (const auto lack = capabilities.find(setting.name); lack != capabilities.end()) {
            plan.lacks |= static_cast<std::uint32_t>(lack->second);
        } else if (setting.name == "cm_connects") {
            plan.cm_connects = true;
        } else if (setting.name == "until") {
            until = std::chrono::milliseconds{std::stoul(setting.value)};
        }
    }
    for (fault::PlannedFault& row : plan.faults) {
        row.until = until;
    }
    return plan;
}

std::size_t Driver::progress(std::uint32_t rank) {
    const std::size_t events = core(rank).progress();
    CompletedList completed;
    std::swap(completed, core(rank).protocol().completed());
    std::size_t reported = 0;
    for (; !completed.empty(); ++reported) {
        UserRequest* request = completed.pop();
        request->complete(request);
    }
    return events + reported;
}

Status Driver::peer(std::uint32_t rank, std::uint32_t to, Peer*& out) {
    out = nullptr;
    if (rank == to) {
        return kOk;
    }
    const Status status = core(rank).peers().get(endpoints().name(to), out);
    if (status.ok()) {
        peers_[{rank, to}] = out;
    }
    return status;
}

void Driver::release(std::uint32_t rank, std::uint32_t to) {
    if (const auto known = peers_.find({rank, to}); known != peers_.end()) {
        core(rank).protocol().disconnects().release(*known->second);
        peers_.erase(known);
    }
}

void Driver::leave(std::uint32_t rank) {
    Core& own = core(rank);
    own.peers().for_each([&](Peer& peer) { own.protocol().disconnects().leave(peer); });
}

void Driver::report_ended(std::uint32_t rank, std::uint32_t gone) {
    core(rank).on_process_ended(endpoints().name(gone));
}

void Driver::switch_channel(std::uint32_t rank, std::uint32_t to, bool connected) {
    const auto known = peers_.find({rank, to});
    if (known == peers_.end() || known->second == nullptr) {
        return;
    }
    Peer& other = *known->second;
    if (connected) {
        core(rank).selection().promote(other);
    } else {
        core(rank).selection().demote(other);
    }
    if (!other.lanes.subchannels.empty()) { // if the connection stays, its control lane migrates
        const auto next =
            static_cast<std::uint32_t>((other.control.lane + 1) % other.lanes.subchannels.size());
        core(rank).connections().migrate_control_lane(other, next);
    }
}

Started Driver::send(std::uint32_t rank, const Send& what, UserRequest& request) {
    Started started;
    Peer* to = nullptr;
    started.status = peer(rank, what.to, to);
    if (!started.status.ok()) {
        return started;
    }
    Protocol& protocol = core(rank).protocol();
    if (what.at_once && to != nullptr && !what.synchronous && what.data.base != nullptr &&
        RingSends::try_isend(*to, what.envelope, what.data.base, what.data.bytes)) {
        note_event(counters(rank).trace, TraceKind::message_sent,
                   {.peer = to->contact.name, .value = what.data.bytes});
        request.status = OPAL_COMMON_ADAPTIB_SUCCESS;
        started.complete = true;
        return started;
    }
    started.status = protocol.sends().send(to, what.envelope, what.data, what.synchronous,
                                           OpKind::non_blocking, request, started.complete);
    protocol.ask_for_connections();
    return started;
}

Started Driver::receive(std::uint32_t rank, const Envelope& pattern, const Data& data,
                        UserRequest& request) {
    Started started;
    Peer* from = nullptr; // if it is not known, the receive does not end with it
    if (pattern.source >= 0) {
        started.status = peer(rank, static_cast<std::uint32_t>(pattern.source), from);
        if (!started.status.ok()) {
            return started;
        }
    }
    const std::size_t before = posted(rank);
    started.status =
        core(rank).protocol().receives().receive(pattern, data, request, started.complete, from);
    started.matched = posted(rank) == before;
    return started;
}

bool Driver::find(std::uint32_t rank, const Envelope& pattern, Found& found) {
    const InboundMessage* message = core(rank).protocol().receives().find(pattern);
    if (message != nullptr) {
        found = {message->envelope.source, message->envelope.tag, message->length, nullptr};
    }
    return message != nullptr;
}

bool Driver::claim(std::uint32_t rank, const Envelope& pattern, Found& found) {
    InboundMessage* message = core(rank).protocol().receives().take(pattern);
    if (message != nullptr) {
        found = {message->envelope.source, message->envelope.tag, message->length, message};
    }
    return message != nullptr;
}

Started Driver::receive_claimed(std::uint32_t rank, InboundMessage& message, const Data& data,
                                UserRequest& request) {
    Started started;
    started.status =
        core(rank).protocol().receives().receive_taken(message, data, request, started.complete);
    core(rank).protocol().ask_for_connections();
    started.matched = true;
    return started;
}

bool Driver::cancel(std::uint32_t rank, UserRequest& request) {
    return core(rank).protocol().receives().cancel(request);
}

Started Driver::send_active(std::uint32_t rank, std::uint32_t to, std::uint8_t tag,
                            const Data& data, bool at_once, UserRequest& request) {
    Started started;
    Peer* target = nullptr;
    started.status = peer(rank, to, target);
    if (!started.status.ok()) {
        return started;
    }
    Protocol& protocol = core(rank).protocol();
    const Bytes half = data.bytes / 2;
    const auto* base = static_cast<const std::byte*>(data.base);
    if (at_once && base != nullptr &&
        protocol.active().try_send(*target, tag, base, half, base + half, data.bytes - half)) {
        note_event(counters(rank).trace, TraceKind::active_sent,
                   {.peer = target->contact.name, .value = data.bytes});
        request.status = OPAL_COMMON_ADAPTIB_SUCCESS;
        started.complete = true;
        return started;
    }
    if (!at_once && base != nullptr &&
        protocol.sends().gathered().try_send_active(
            *target,
            {tag, base, data.bytes / 8, base + data.bytes / 8, data.bytes - data.bytes / 8},
            request)) {
        return started;
    }
    started.status = protocol.active().send(*target, tag, data, request, started.complete);
    protocol.ask_for_connections();
    return started;
}

Started Driver::one_sided(std::uint32_t rank, std::uint32_t to, const OneSidedOperation& operation,
                          const Registration* region, bool at_once, UserRequest& request) {
    Started started;
    Peer* target = nullptr;
    started.status = rank == to ? core(rank).peers().get_loopback(target) : peer(rank, to, target);
    if (!started.status.ok()) {
        return started;
    }
    Protocol& protocol = core(rank).protocol();
    if (at_once && protocol.one_sided().try_rma(*target, operation, region)) {
        request.status = OPAL_COMMON_ADAPTIB_SUCCESS;
        started.complete = true;
        return started;
    }
    started.status =
        protocol.one_sided().start(*target, operation, region, request, started.complete);
    protocol.ask_for_connections();
    return started;
}

Status Driver::expose(std::uint32_t rank, void* base, Bytes bytes, std::uint32_t access,
                      OpenWindow& own, Remote& remote) {
    const auto wants = [access](std::uint32_t right) { return (access & right) != 0; };
    const std::uint32_t rights = kLocalWrite |
                                 (wants(OPAL_COMMON_ADAPTIB_REMOTE_READ) ? kRemoteRead : 0u) |
                                 (wants(OPAL_COMMON_ADAPTIB_REMOTE_WRITE) ? kRemoteWrite : 0u) |
                                 (wants(OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC) ? kRemoteAtomic : 0u);
    Protocol& protocol = core(rank).protocol();
    const Registration* memory = protocol.memory().exposed(base, bytes, rights);
    if (memory == nullptr) {
        if (const Status status = protocol.memory().open_window(own, base, bytes, rights);
            !status.ok()) {
            return status;
        }
        memory = &own.memory();
    }
    remote.base = reinterpret_cast<std::uintptr_t>(base);
    remote.bytes = bytes;
    memory->copy_remote_keys(remote.keys);
    remote.key_count = memory->key_count();
    remote.access = protocol.one_sided().advertised_access(access);
    return kOk;
}

void Driver::listen(Listener& listener) {
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
        ears_.push_back(std::make_unique<Ear>(Ear{&listener, rank}));
        core(rank).protocol().active().listen(
            [](void* context, Peer& from, std::uint8_t tag, const std::byte* bytes, Bytes length) {
                const auto* ear = static_cast<const Ear*>(context);
                ear->listener->on_active(ear->rank, from.contact.name, tag, bytes, length);
            },
            ears_.back().get());
    }
}

std::size_t Driver::posted(std::uint32_t rank) {
    core(rank).protocol().update_levels();
    return counters(rank).posted_now;
}

std::size_t Driver::unexpected(std::uint32_t rank) {
    core(rank).protocol().update_levels();
    return counters(rank).unexpected_now;
}

} // namespace adaptib::torture
