// SPDX-License-Identifier: BSD-3-Clause
// Sends messages from one buffer, copied or gathered, each step in a function of its own, for
// callgrind to count instructions (benchmarks/gathered.py). Two processes as production opens them
// (interface/process.h), in one real process and one thread, over RDMA devices.
//
//     adaptib_bench_gathered CHANNEL MODE BYTES
//         CHANNEL  ring or datagrams
//         MODE     the parameter `frequent_buffers`: off or always
//     adaptib_bench_gathered uses
//         calls FrequentBuffers::use() alone: of a frequent buffer, of one that is counted, and off
//
// Its output is numbers by name, as pairs of words: messages, or calls; bytes that the sender
// copied for a message.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/parameters.h"
#include "benchmarks/two_processes.h"
#include "common_adaptib.h"
#include "common_adaptib_two_sided.h"
#include "interface/process.h"
#include "memory/frequent_buffers.h"
#include "unit/null_rail.h"

namespace {

using namespace adaptib;
using bench::Request;
using Handle = opal_common_adaptib_core_t;
using PeerHandle = opal_common_adaptib_peer_t;

constexpr int kWindow = 8; // fits the ring, and what a peer may have unacknowledged
constexpr int kWindows = 256;
constexpr int kWarmUp = 64;  // windows: there is a connection, and the buffer is frequent
constexpr int kCounted = 32; // passes of the sender after each window
constexpr int kPasses = 1'000'000;
constexpr int kUses = 4096;
constexpr std::size_t kMost = 16384;
constexpr int kRing = 512 * 1024;
constexpr std::int32_t kTag = 7;

struct Side {
    Handle* handle = nullptr;
    PeerHandle* peer = nullptr;
    std::array<Request, kWindow> requests;
    int left = 0; // requests that are not complete
};

struct Bench {
    bench::TwoProcesses processes;
    std::array<Side, 2> sides;
    Side& sender = sides[0];
    Side& receiver = sides[1];
    std::vector<std::byte> out = std::vector<std::byte>(kMost, std::byte{1});
    std::array<std::vector<std::byte>, kWindow> in;
    std::size_t bytes = 0;
};

// As the MTL does for a non-blocking send: the fast path first. Returns false if the request is not
// complete yet.
[[gnu::always_inline]] inline bool send(Bench& bench, Request& request) {
    Side& side = bench.sender;
    if (opal_common_adaptib_try_isend(side.handle, side.peer, 0, 0, kTag, bench.out.data(),
                                      bench.bytes) == OPAL_COMMON_ADAPTIB_COMPLETE) {
        return true;
    }
    const opal_common_adaptib_envelope_t envelope{0, 0, kTag};
    const opal_common_adaptib_data_t data{bench.out.data(), bench.bytes, nullptr, nullptr, nullptr};
    return opal_common_adaptib_send(
               side.handle, side.peer, &envelope, &data, OPAL_COMMON_ADAPTIB_MODE_STANDARD,
               OPAL_COMMON_ADAPTIB_NON_BLOCKING, &request.user) == OPAL_COMMON_ADAPTIB_COMPLETE;
}

int progress(Side& side) { return opal_common_adaptib_progress(side.handle); }

// The counted functions.

extern "C" [[gnu::noinline]] bool step_send(Bench& bench, Request& request) {
    return send(bench, request);
}

// Passes in which the sender takes completions and acknowledgments.
extern "C" [[gnu::noinline]] void step_passes(Side& side) {
    for (int pass = 0; pass < kCounted; ++pass) {
        opal_common_adaptib_progress(side.handle);
    }
}

bool open_sides(Bench& bench) {
    bool good = bench.processes.open(false, true);
    for (std::uint32_t i = 0; i < bench.sides.size() && good; ++i) {
        Side& side = bench.sides[i];
        side.handle = bench.processes[i].endpoint(0);
        side.peer = bench.processes.peer_of(i, 0);
        good = side.peer != nullptr;
    }
    return good;
}

void post_receive(Bench& bench, std::size_t i) {
    Side& side = bench.receiver;
    side.requests[i].left = &side.left;
    ++side.left;
    opal_common_adaptib_recv_contig(side.handle, side.peer, 0, 0, kTag, bench.in[i].data(), kMost,
                                    &side.requests[i].user);
}

template <bool kIsCounted> bool run_window(Bench& bench) {
    Side& sender = bench.sender;
    for (std::size_t i = 0; i < kWindow; ++i) {
        post_receive(bench, i);
    }
    for (Request& request : sender.requests) {
        request.left = &sender.left;
        ++sender.left;
        sender.left -= (kIsCounted ? step_send : send)(bench, request) ? 1 : 0;
    }
    for (int pass = 0; bench.receiver.left > 0 && pass < kPasses; ++pass) {
        progress(bench.receiver);
        if (!kIsCounted) {
            progress(sender);
        }
    }
    for (int pass = 0; pass < kCounted; ++pass) {
        progress(bench.receiver); // sends credit, and acknowledges
    }
    if (kIsCounted) {
        step_passes(sender);
    }
    for (int pass = 0; sender.left > 0 && pass < kPasses; ++pass) {
        progress(sender);
        progress(bench.receiver);
    }
    return sender.left == 0 && bench.receiver.left == 0 &&
           std::memcmp(bench.in[0].data(), bench.out.data(), bench.bytes) == 0;
}

// Messages of all channels, and those of them that were gathered.
struct Traffic {
    std::uint64_t messages = 0;
    std::uint64_t gathered = 0;
};
Traffic traffic() {
    const Counters& of = endpoint_counters(0);
    return {of.ring_sent + of.datagram_sent, of.messages_gathered + of.datagrams_gathered};
}

int run_messages(char* channel, char* mode, const char* bytes) {
    static char verbs[] = "verbs";
    static Bench bench;
    Parameters& parameters = process_parameters();
    parameters.fabric = verbs;
    parameters.frequent_buffers = mode;
    parameters.connect_threshold = std::string(channel) == "ring" ? 0 : 1'000'000'000;
    parameters.verbs_eager_limit = kMost;
    parameters.verbs_ring_bytes = kRing;
    bench.bytes = static_cast<std::size_t>(std::atol(bytes));
    for (auto& memory : bench.in) {
        memory.resize(kMost);
    }
    bool good = bench.bytes <= kMost && open_sides(bench);
    for (int i = 0; i < kWarmUp && good; ++i) {
        good = run_window<false>(bench);
    }
    const Traffic before = traffic();
    for (int i = 0; i < kWindows && good; ++i) {
        good = run_window<true>(bench);
    }
    const Traffic after = traffic();
    constexpr int kMessages = kWindow * kWindows;
    const std::uint64_t gathered = after.gathered - before.gathered;
    std::printf("messages %d copied %llu\n", kMessages,
                static_cast<unsigned long long>(bench.bytes * (kMessages - gathered) / kMessages));
    bench.processes.close();
    return good ? 0 : 1;
}

// ---- use() alone

[[gnu::always_inline]] inline bool use(FrequentBuffers& buffers, const std::byte* memory) {
    RegistrationCache::Use one;
    return buffers.use(memory, 1024, 0, one);
}

extern "C" [[gnu::noinline]] bool step_use_frequent(FrequentBuffers& buffers, const std::byte* at) {
    return use(buffers, at);
}

extern "C" [[gnu::noinline]] bool step_use_counted(FrequentBuffers& buffers, const std::byte* at) {
    return use(buffers, at);
}

extern "C" [[gnu::noinline]] bool step_use_off(FrequentBuffers& buffers, const std::byte* at) {
    return use(buffers, at);
}

extern "C" [[gnu::noinline]] const void* step_lookup(UsageTable& table, const std::byte* at) {
    asm volatile("" : "+r"(at)); // keeps the lookup in the loop
    return table.find(at);
}

// Costs with which a buffer becomes frequent after very many uses.
GatherCosts dear() {
    GatherCosts costs = GatherCosts::assumed();
    costs.handling = 0;
    costs.registration.fill(2e7);
    return costs;
}

int run_uses() {
    using Mode = FrequentBuffersOptions::Mode;
    static const std::array<std::byte, 4096> memory{};
    Counters counters;
    test::FreeRail rail;
    Rail* rails[1] = {&rail};
    const auto run = [&](Mode mode, auto&& step) {
        RegistrationCache cache(rails, RailRange{0, 1}, kMiB, counters);
        FrequentBuffers buffers({mode, 16, dear}, cache, counters);
        use(buffers, memory.data());
        int frequent = 0;
        for (int i = 0; i < kUses; ++i) {
            frequent += step(buffers, memory.data()) ? 1 : 0;
        }
        return frequent;
    };
    UsageTable table;
    table.add(memory.data());
    bool good = run(Mode::always, step_use_frequent) == kUses &&
                run(Mode::automatic, step_use_counted) == 0 && run(Mode::off, step_use_off) == 0;
    for (int i = 0; i < kUses; ++i) {
        good = step_lookup(table, memory.data()) != nullptr && good;
    }
    std::printf("calls %d\n", kUses);
    return good ? 0 : 1;
}

} // namespace

int main(int count, char** arguments) {
    if (count == 2 && std::string(arguments[1]) == "uses") {
        return run_uses();
    }
    if (count != 4) {
        std::fputs("adaptib_bench_gathered CHANNEL MODE BYTES | uses\n", stderr);
        return 2;
    }
    return run_messages(arguments[1], arguments[2], arguments[3]);
}
