// SPDX-License-Identifier: BSD-3-Clause
// Checks of what only some devices have.
#include <algorithm>
#include <thread>

#include "fabric/await_handle.h"
#include "selftest/checks.h"

namespace adaptib::selftest {

namespace {

constexpr std::uint64_t kDcKey = 0x5e1f7e5700dc0001;

bool await_event(Context& context, EventKind kind, std::uint32_t qp_number) {
    const MonotonicClock clock;
    const Nanoseconds end = clock.now() + kPatience;
    Event event;
    while (clock.now() < end) {
        if (context.fabric.poll_event(event) && event.kind == kind &&
            event.qp_number == qp_number) {
            return true;
        }
        std::this_thread::yield();
    }
    return false;
}

// Sends messages of one length and checks them, with receives posted before.
void exchange_messages(Context& context, Link& link, std::uint64_t count, std::uint64_t seed) {
    constexpr Bytes kLength = 5000;
    for (std::uint64_t i = 0; i < count; ++i) {
        if (!context.initiator) {
            link.post_receive(i, 0, kLength);
        }
        context.partner.meet();
        if (context.initiator) {
            fill(link.memory(), kLength, seed + i);
            link.run(Opcode::send, link.gather(0, kLength));
        } else {
            require_success(link.received(), "a receive");
            require_bytes(link.memory(), kLength, seed + i, "a message");
        }
        context.partner.meet();
    }
}

// Gives the queue pair an alternate path; the peer does the same.
void load_alternate(Context& context, Link& link) {
    QpAttributes wanted = link.attributes(QpState::ready_to_send);
    wanted.alternate_path = context.rail.path_to(context.remote.address, 1);
    wanted.migration = MigrationState::rearm;
    require(link.queue_pair().modify(wanted, kQpAlternatePath | kQpMigration), "an alternate path",
            &context.rail);
    if (!await_event(context, EventKind::armed, link.queue_pair().number())) {
        throw Failed("an alternate path was loaded at both ends and is not reported as armed");
    }
}

// One end of a dynamic connection, with its queues.
struct DynamicEnd {
    std::unique_ptr<CompletionQueue> queue;
    std::unique_ptr<SharedReceiveQueue> receives;
    std::unique_ptr<MemoryRegion> region;
    std::unique_ptr<AddressHandle> handle;
    std::unique_ptr<QueuePair> qp;
};

QpAttributes dynamic_attributes(const Context& context, QpState state) {
    QpAttributes out;
    out.state = state;
    out.access = kRemoteWrite | kRemoteRead;
    out.access_key = kDcKey;
    out.path = context.rail.path_to(context.remote.address, 0);
    out.max_reads = out.max_target_reads = std::clamp(context.rail.info().max_reads, 1u, 4u);
    out.retry_count = 5;
    return out;
}

void make_dynamic(Context& context, DynamicEnd& end) {
    Rail& rail = context.rail;
    require(rail.create_cq(64, end.queue), "a completion queue", &rail);
    require(rail.allocate(kLinkMemory, kLocalWrite | kRemoteWrite, end.region),
            "registration of memory", &rail);
    QpInit init;
    init.type = context.initiator ? QpType::dc_initiator : QpType::dc_target;
    init.send_cq = init.receive_cq = end.queue.get();
    init.send_depth = 16;
    if (!context.initiator) {
        require(rail.create_srq(16, end.receives), "a shared receive queue", &rail);
        init.srq = end.receives.get();
    }
    require(rail.create_qp(init, end.qp), "a DC queue pair", &rail);
    if (context.initiator) {
        require(end.qp->modify(dynamic_attributes(context, QpState::init), kQpState), "INIT");
        require(end.qp->modify(dynamic_attributes(context, QpState::ready_to_receive), kQpState),
                "RTR");
        require(end.qp->modify(dynamic_attributes(context, QpState::ready_to_send),
                               kQpState | kQpRetry | kQpSendPsn | kQpSendLimits),
                "RTS");
        require(await_ah(rail, rail.path_to(context.remote.address, 0), end.handle),
                "an address handle", &rail);
        return;
    }
    require(
        end.qp->modify(dynamic_attributes(context, QpState::init), kQpState | kQpAccess | kQpKey),
        "INIT");
    require(end.qp->modify(dynamic_attributes(context, QpState::ready_to_receive),
                           kQpState | kQpPath | kQpReceiveLimits),
            "RTR");
}

WorkCompletion next(CompletionQueue& queue, const std::string& what) {
    const MonotonicClock clock;
    const Nanoseconds end = clock.now() + kPatience;
    WorkCompletion out;
    while (queue.poll({&out, 1}) == 0) {
        if (clock.now() >= end) {
            throw Failed(what + " has no completion");
        }
        std::this_thread::yield();
    }
    return out;
}

void send_dynamic(DynamicEnd& end, std::uint32_t target) {
    auto* const memory = static_cast<std::byte*>(end.region->address());
    fill(memory, 6000, 21);
    const Gather source{memory, 6000, end.region->local_key()};
    SendWork work;
    work.flags = kSignaled;
    work.gather = &source;
    work.gather_count = 1;
    work.address_handle = end.handle.get();
    work.remote_qp = target;
    work.remote_access_key = kDcKey;
    require(end.qp->post_send(work), "a request of a DC initiator");
    require_success(next(*end.queue, "a request of a DC initiator"), "a message over DC");
}

void receive_dynamic(DynamicEnd& end) {
    auto* const memory = static_cast<std::byte*>(end.region->address());
    require_success(next(*end.queue, "a receive of a DC target"), "a receive over DC");
    require_bytes(memory, 6000, 21, "a message over DC");
}

} // namespace

Outcome check_shared_receives(Context& context) {
    if (!context.rail.info().has(Capability::srq) || !context.remote.info.has(Capability::srq)) {
        return {Verdict::note, "the device has no shared receive queues: each connection needs "
                               "receives of its own"};
    }
    LinkOptions options;
    options.shared_receives = true;
    Link link(context.rail, context.remote, context.partner, options);
    exchange_messages(context, link, 20, 100);
    return {};
}

Outcome check_dynamic(Context& context) {
    if (!context.rail.info().has(Capability::dc) || !context.remote.info.has(Capability::dc)) {
        return {Verdict::skipped, "the device has no dynamic connections"};
    }
    DynamicEnd end;
    make_dynamic(context, end);
    if (!context.initiator) {
        const Gather scatter{end.region->address(), 6000, end.region->local_key()};
        require(end.receives->post({1, &scatter, 1}), "a receive");
    }
    const std::uint32_t target = context.partner.exchange(end.qp->number());
    if (context.initiator) {
        send_dynamic(end, target);
    } else {
        receive_dynamic(end);
    }
    context.partner.meet();
    return {};
}

Outcome check_migration(Context& context) {
    const bool has = context.rail.info().has(Capability::migration) &&
                     context.remote.info.has(Capability::migration);
    if (!has || context.rail.paths_to(context.remote.address) < 2) {
        return {Verdict::skipped, has ? "there is one path only (LMC is 0)"
                                      : "the device has no automatic path migration"};
    }
    Link link(context.rail, context.remote, context.partner);
    exchange_messages(context, link, 5, 200);
    load_alternate(context, link);
    context.partner.meet();
    if (context.initiator) {
        QpAttributes go;
        go.migration = MigrationState::migrated;
        require(link.queue_pair().modify(go, kQpMigration), "migration", &context.rail);
    }
    exchange_messages(context, link, 5, 300);
    if (!await_event(context, EventKind::path_migrated, link.queue_pair().number())) {
        throw Failed("a queue pair migrated without an event");
    }
    context.partner.meet();
    return {};
}

} // namespace adaptib::selftest
