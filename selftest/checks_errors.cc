// SPDX-License-Identifier: BSD-3-Clause
// Checks of how devices report what goes wrong, on which failover relies.
#include <thread>

#include "selftest/checks.h"

namespace adaptib::selftest {

namespace {

void write_with_wrong_key(Link& link) {
    const Gather source = link.gather(0, 8);
    SendWork work;
    work.opcode = Opcode::write;
    work.gather = &source;
    work.gather_count = 1;
    work.remote_address = link.remote_address();
    work.remote_key = link.remote_key() ^ 0x00ff0100u;
    link.post(work);
}

// The next completion has to have that status.
void expect(Link& link, WorkStatus wanted, const std::string& what) {
    const WorkCompletion done = link.sent();
    if (done.status != wanted) {
        throw Failed(what + " ends with \"" + work_status_text(done.status) + "\" in place of \"" +
                     work_status_text(wanted) + "\"");
    }
}

} // namespace

// A write with a wrong key ends with the right error, what is behind it is flushed, and the queue
// pairs can be connected again.
Outcome check_wrong_key(Context& context) {
    Link link(context.rail, context.remote, context.partner);
    if (context.initiator) {
        write_with_wrong_key(link);
        link.post(Opcode::write, 2, link.gather(0, 8), 64);
        expect(link, WorkStatus::remote_access_error, "a write with a wrong key");
        expect(link, WorkStatus::flushed, "a request behind a failed one");
    }
    try {
        link.reconnect();
    } catch (const Failed& why) {
        return {Verdict::note,
                std::string("an errored queue pair cannot be used again: ") + why.what()};
    }
    if (context.initiator) {
        fill(link.memory(), 4096, 11);
        link.run(Opcode::write, link.gather(0, 4096));
    }
    context.partner.meet();
    if (!context.initiator) {
        require_bytes(link.memory(), 4096, 11, "a write after the queue pair's reset");
    }
    return {};
}

// A message waits for its receive.
Outcome check_not_ready(Context& context) {
    Link link(context.rail, context.remote, context.partner);
    if (context.initiator) {
        fill(link.memory(), 1000, 12);
        link.run(Opcode::send, link.gather(0, 1000));
        return {};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    link.post_receive(1, 0, 1000);
    require_success(link.received(), "a receive that was posted after its message came");
    require_bytes(link.memory(), 1000, 12, "a message that waited for its receive");
    return {};
}

// A request to a queue pair that is gone ends within a bounded time.
Outcome check_lost_peer(Context& context) {
    Link link(context.rail, context.remote, context.partner);
    if (!context.initiator) {
        link.destroy_queue_pair();
        context.partner.meet();
        context.partner.meet();
        return {};
    }
    context.partner.meet();
    const MonotonicClock clock;
    const Nanoseconds begin = clock.now();
    link.post(Opcode::write, 1, link.gather(0, 8));
    expect(link, WorkStatus::retry_exceeded, "a write to a queue pair that is gone");
    const auto milliseconds = (clock.now() - begin).count() / 1'000'000;
    context.partner.meet();
    return {Verdict::ok, "reported after " + std::to_string(milliseconds) + " ms"};
}

} // namespace adaptib::selftest
