// SPDX-License-Identifier: BSD-3-Clause
// Runs each step of the hot paths many times, each in a function of its own, for callgrind to count
// instructions (benchmarks/instructions). Two complete cores in one process and one thread, over
// shared memory: no step waits, so the counts repeat exactly.
//
//     adaptib_bench_instructions
//     adaptib_bench_instructions --trace    the same with a trace of each core (parameter `trace`)
#include <array>
#include <cstdio>
#include <cstring>
#include <vector>

#include "protocol/ring_sends.h"
#include "stats/trace.h"
#include "unit/core/cores.h"
#include "unit/core/window.h"

namespace {

using namespace adaptib;
using namespace adaptib::test;

constexpr int kSteps = 4096;
constexpr int kInFlight = 16; // messages that fit the ring
constexpr Bytes kShort = 8;
constexpr Bytes kLong = 4096;
constexpr Bytes kSegment = 64 * kMiB;  // valgrind has little address space
constexpr std::size_t kEvents = 65536; // default of the parameter trace_events

struct Bench {
    const MonotonicClock clock;
    std::array<Trace, 2> traces{Trace{clock, kEvents, TraceStamps::ticks},
                                Trace{clock, kEvents, TraceStamps::ticks}};
    Options options;
    Cores world;
    Core& sender = world.core(0);
    Core& receiver = world.core(1);
    std::vector<std::byte> out = pattern(kLong, 1);
    std::array<std::byte, kLong> in{};
    std::array<TestRequest, kInFlight> requests;
    Peer* peer = nullptr;
    const Envelope envelope{0, 0, 7};

    explicit Bench(bool traced) : options(make_options(traced)), world(2, options) {
        exchange(world, kShort, 64);
        peer = world.peer(0, 1);
        receiver.protocol().active().listen(
            [](void*, Peer&, std::uint8_t, const std::byte*, Bytes) {}, nullptr);
    }
    Options make_options(bool traced);
};

Options Bench::make_options(bool traced) {
    Options made;
    made.parameters.connect_threshold = 0;
    made.parameters.shm_segment_max = kSegment;
    if (traced) {
        made.traces = {&traces[0], &traces[1]};
    }
    return made;
}

// The counted functions. Each returns false if its step did not go the fast way.

extern "C" [[gnu::noinline]] bool step_send(Bench& bench, Bytes bytes) {
    return RingSends::try_send(*bench.peer, bench.envelope, bench.out.data(), bytes);
}

// The interface to the components notes a message that has gone the fast way.
extern "C" [[gnu::noinline]] bool step_note_sent(Bench& bench, Bytes bytes) {
    note_event(bench.world.counters(0).trace, TraceKind::message_sent,
               {.peer = bench.peer->contact.name, .value = bytes});
    return true;
}

extern "C" [[gnu::noinline]] bool step_post(Bench& bench, TestRequest& request, Bytes bytes) {
    bool complete = false;
    return bench.receiver.protocol()
               .receives()
               .receive(bench.envelope, contiguous(bench.in.data(), bytes), request.user, complete)
               .ok() &&
           !complete;
}

extern "C" [[gnu::noinline]] bool step_arrival(Bench& bench) {
    return bench.receiver.progress() > 0;
}

extern "C" [[gnu::noinline]] bool step_send_active(Bench& bench, Bytes bytes) {
    return ActiveMessages::try_send(*bench.peer, 5, bench.out.data(), bytes, nullptr, 0);
}

extern "C" [[gnu::noinline]] bool step_arrival_active(Bench& bench) {
    return bench.receiver.progress() > 0;
}

extern "C" [[gnu::noinline]] bool step_idle_pass(Bench& bench) {
    return bench.receiver.progress() == 0;
}

extern "C" [[gnu::noinline]] bool step_put(Bench& bench,
                                           const opal_common_adaptib_one_sided_t& put) {
    return bench.peer->transfers.synchronous &&
           bench.sender.protocol().one_sided().try_plain_rma(*bench.peer, put, nullptr);
}

extern "C" [[gnu::noinline]] bool step_send_long(Bench& bench, Bytes bytes) {
    return RingSends::try_send(*bench.peer, bench.envelope, bench.out.data(), bytes);
}

extern "C" [[gnu::noinline]] bool step_arrival_long(Bench& bench) {
    return bench.receiver.progress() > 0;
}

// Takes what has arrived but is not reported yet, and what the sender owes in return.
void settle(Bench& bench) {
    while (bench.receiver.progress() > 0) {
    }
    CompletedList& completed = bench.receiver.protocol().completed();
    while (!completed.empty()) {
        completed.pop();
    }
    bench.sender.progress();
}

template <typename Send, typename Arrival>
bool messages(Bench& bench, Bytes bytes, bool posted, Send&& send, Arrival&& arrival) {
    bool good = true;
    for (int round = 0; round < kSteps / kInFlight; ++round) {
        for (TestRequest& request : bench.requests) {
            good = (!posted || step_post(bench, request, bytes)) && good;
        }
        for (int i = 0; i < kInFlight; ++i) {
            good = send() && good;
            good = step_note_sent(bench, bytes) && good;
            good = arrival() && good;
        }
        settle(bench);
    }
    return good;
}

bool all(bool traced) {
    Bench bench(traced);
    const auto report = [](const char* what, bool good) {
        if (!good) {
            std::fprintf(stderr, "instructions: %s: not every step goes the fast way\n", what);
        }
        return good;
    };
    bool good = report("send", messages(
                                   bench, kShort, true, [&] { return step_send(bench, kShort); },
                                   [&] { return step_arrival(bench); }));
    good =
        report("active", messages(
                             bench, kShort, false, [&] { return step_send_active(bench, kShort); },
                             [&] { return step_arrival_active(bench); })) &&
        good;
    good = report("long", messages(
                              bench, 1024, true, [&] { return step_send_long(bench, 1024); },
                              [&] { return step_arrival_long(bench); })) &&
           good;
    bool idle = true;
    for (int i = 0; i < kSteps; ++i) {
        idle = step_idle_pass(bench) && idle;
    }
    const Window window(bench.world, 1, bench.in.data(), kLong);
    const opal_common_adaptib_one_sided_t put =
        operation(OPAL_COMMON_ADAPTIB_PUT, bench.out.data(), window, 0, kShort);
    bool puts = true;
    for (int i = 0; i < kSteps; ++i) {
        puts = step_put(bench, put) && puts;
    }
    return report("idle pass", idle) && report("put", puts) && good;
}

} // namespace

int main(int argc, char** argv) {
    if (!all(argc > 1 && std::strcmp(argv[1], "--trace") == 0)) {
        return 1;
    }
    std::printf("%d steps of each kind\n", kSteps);
    return 0;
}
