// SPDX-License-Identifier: BSD-3-Clause
// Sends 2-byte messages from one thread over several endpoints in turn, each step in a function of
// its own, for callgrind to count instructions (benchmarks/endpoints.py). Two processes as
// production opens them (interface/process.h), in one real process and one thread; over shared
// memory no step waits.
//
//     adaptib_bench_endpoints K THREADS [FABRIC]
//         THREADS  1 if calls take locks, as with MPI_THREAD_MULTIPLE; with K > 1 they always do
//         FABRIC   the parameter `fabric` (shm)
//
// Its output is how many steps of each kind it made, as pairs of words.
// Source: Zambre et al., Evaluating Multiple Endpoints for MPI with libibverbs (2.1).
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/parameters.h"
#include "benchmarks/two_processes.h"
#include "common_adaptib.h"
#include "common_adaptib_two_sided.h"
#include "interface/process.h"

namespace {

using namespace adaptib;
using bench::Request;
using Handle = opal_common_adaptib_core_t;
using PeerHandle = opal_common_adaptib_peer_t;

constexpr int kWindow = 64;
constexpr int kWindows = 256;
constexpr int kSingles = 4096;
constexpr int kIdlePasses = 4096;
constexpr int kWarmUp = 512;     // of each endpoint: a lock is then biased, a ring connected
constexpr int kUncounted = 4096; // windows: the costs of the channels are then known
constexpr int kPasses = 100'000;
constexpr int kSettle = 20'000; // passes until credit and the like has arrived
constexpr std::size_t kShort = 2;
constexpr std::size_t kSegment = std::size_t{16} << 20; // valgrind has little address space
constexpr std::int32_t kTag = 7;

// All endpoints of a process, and the peers that they send to.
struct Side {
    std::vector<Handle*> endpoints;
    std::vector<PeerHandle*> peers; // by endpoint: the same endpoint of the other process
    std::array<Request, kWindow> requests;
    std::array<std::array<std::byte, kShort>, kWindow> in{};
    std::array<std::byte, kShort> out{};
    int left = 0; // receives that are not complete
};

struct Bench {
    bench::TwoProcesses processes;
    bool threads = false;
    bool waits = false; // for room
    std::array<Side, 2> sides;
    Side& sender = sides[0];
    Side& receiver = sides[1];
    std::uint32_t count = 1;
};

// Each returns false if its step did not go the fast way.

[[gnu::always_inline]] inline bool post(Side& side, std::uint32_t endpoint) {
    return opal_common_adaptib_try_send(side.endpoints[endpoint], side.peers[endpoint], 0, 0, kTag,
                                        side.out.data(), kShort) == OPAL_COMMON_ADAPTIB_COMPLETE;
}

[[gnu::always_inline]] inline bool receive(Side& side, std::uint32_t endpoint, int number) {
    Request& request = side.requests[static_cast<std::size_t>(number)];
    request.left = &side.left;
    ++side.left;
    return opal_common_adaptib_recv_contig(side.endpoints[endpoint], side.peers[endpoint], 0, 0,
                                           kTag, side.in[static_cast<std::size_t>(number)].data(),
                                           kShort, &request.user) == OPAL_COMMON_ADAPTIB_SUCCESS;
}

[[gnu::always_inline]] inline int progress(Side& side) {
    return opal_common_adaptib_progress(side.endpoints[0]);
}

// The counted functions.

extern "C" [[gnu::noinline]] bool step_post(Side& side, std::uint32_t endpoint) {
    return post(side, endpoint);
}

extern "C" [[gnu::noinline]] bool step_receive(Side& side, std::uint32_t endpoint, int number) {
    return receive(side, endpoint, number);
}

// Passes of the receiver while a window arrives.
extern "C" [[gnu::noinline]] bool step_poll_window(Side& side) { return progress(side) > 0; }

// Passes of the sender until the answer to a window has arrived.
extern "C" [[gnu::noinline]] bool step_poll_answer(Side& side) { return progress(side) > 0; }

// Passes of the receiver that find one message, with no other receive posted.
extern "C" [[gnu::noinline]] bool step_poll_single(Side& side) { return progress(side) > 0; }

// Passes of the receiver that find nothing (over devices, at times a datagram's acknowledgment),
// with no receive posted.
extern "C" [[gnu::noinline]] bool step_poll_idle(Side& side) { return progress(side) == 0; }

// The same, with a receive posted on each endpoint.
extern "C" [[gnu::noinline]] bool step_poll_waiting(Side& side) { return progress(side) == 0; }

bool open_sides(Bench& bench, const char* count, char* fabric) {
    process_parameters().endpoints = std::atoi(count);
    process_parameters().fabric = fabric;
    process_parameters().connect_threshold = 0;
    process_parameters().shm_segment_max = kSegment;
    if (!bench.processes.open(bench.threads, false)) {
        return false;
    }
    bench.count = bench.processes[0].endpoints();
    for (std::uint32_t i = 0; i < bench.sides.size(); ++i) {
        Side& side = bench.sides[i];
        for (std::uint32_t endpoint = 0; endpoint < bench.count; ++endpoint) {
            side.endpoints.push_back(bench.processes[i].endpoint(endpoint));
            side.peers.push_back(bench.processes.peer_of(i, endpoint));
            if (side.peers.back() == nullptr) {
                return false;
            }
        }
    }
    return true;
}

// Sends a message, whichever way it goes.
bool exchange(Side& from, Side& to, std::uint32_t endpoint) {
    const opal_common_adaptib_envelope_t envelope{0, 0, kTag};
    const opal_common_adaptib_data_t data{from.out.data(), kShort, nullptr, nullptr, nullptr};
    receive(to, endpoint, 0);
    Request request;
    int sends = 1;
    request.left = &sends;
    if (opal_common_adaptib_send(from.endpoints[endpoint], from.peers[endpoint], &envelope, &data,
                                 OPAL_COMMON_ADAPTIB_MODE_STANDARD,
                                 OPAL_COMMON_ADAPTIB_NON_BLOCKING,
                                 &request.user) == OPAL_COMMON_ADAPTIB_COMPLETE) {
        sends = 0;
    }
    for (int pass = 0; (to.left > 0 || sends > 0) && pass < kPasses; ++pass) {
        progress(from);
        progress(to);
    }
    return to.left == 0 && sends == 0;
}

// Sends messages both ways until the fast path takes them.
bool warm_up(Bench& bench) {
    for (int round = 0; round < kWarmUp; ++round) {
        for (std::uint32_t endpoint = 0; endpoint < bench.count; ++endpoint) {
            if (!exchange(bench.sender, bench.receiver, endpoint) ||
                !exchange(bench.receiver, bench.sender, endpoint)) {
                return false;
            }
        }
    }
    return true;
}

// Posts a message of a window. Over devices the sender polls while there is no room.
template <bool kCounted> bool post_one(Bench& bench, std::uint32_t endpoint) {
    for (int pass = 0; pass < (bench.waits ? kPasses : 1); ++pass) {
        if ((kCounted ? step_post : post)(bench.sender, endpoint)) {
            return true;
        }
        kCounted ? step_poll_answer(bench.sender) : progress(bench.sender);
        progress(bench.receiver);
    }
    return false;
}

bool post_answer(Bench& bench) {
    for (int pass = 0; pass < (bench.waits ? kPasses : 1); ++pass) {
        if (post(bench.receiver, 0)) {
            return true;
        }
        progress(bench.receiver);
    }
    return false;
}

template <bool kCounted> bool run_window(Bench& bench) {
    const auto endpoint = [&](int number) {
        return static_cast<std::uint32_t>(number) % bench.count;
    };
    bool good = true;
    for (int i = 0; i < kWindow; ++i) {
        good = (kCounted ? step_receive : receive)(bench.receiver, endpoint(i), i) && good;
    }
    good = receive(bench.sender, 0, 0) && good;
    for (int i = 0; i < kWindow; ++i) {
        good = post_one<kCounted>(bench, endpoint(i)) && good;
    }
    for (int pass = 0; bench.receiver.left > 0 && pass < kPasses; ++pass) {
        kCounted ? step_poll_window(bench.receiver) : progress(bench.receiver);
    }
    good = post_answer(bench) && good;
    for (int pass = 0; bench.sender.left > 0 && pass < kPasses; ++pass) {
        kCounted ? step_poll_answer(bench.sender) : progress(bench.sender);
    }
    return good && bench.receiver.left == 0 && bench.sender.left == 0;
}

bool run_single(Bench& bench, std::uint32_t endpoint) {
    const bool good = receive(bench.receiver, endpoint, 0) && post_one<false>(bench, endpoint);
    for (int pass = 0; bench.receiver.left > 0 && pass < kPasses; ++pass) {
        step_poll_single(bench.receiver);
    }
    return good && bench.receiver.left == 0;
}

bool run_windows(Bench& bench) {
    bool good = true;
    for (int i = 0; i < kUncounted && good; ++i) {
        good = run_window<false>(bench);
    }
    for (int i = 0; i < kWindows && good; ++i) {
        good = run_window<true>(bench);
    }
    return good;
}

bool run_singles(Bench& bench) {
    bool good = true;
    for (int i = 0; i < kSingles && good; ++i) {
        good = run_single(bench, static_cast<std::uint32_t>(i) % bench.count);
        progress(bench.sender);
    }
    return good;
}

bool run_idle_passes(Bench& bench) {
    Side& side = bench.receiver;
    bool good = true;
    for (int pass = 0; bench.waits && pass < kSettle; ++pass) {
        progress(bench.sender);
        progress(bench.receiver);
    }
    for (int i = 0; i < kIdlePasses; ++i) {
        good = (step_poll_idle(side) || bench.waits) && good;
    }
    for (std::uint32_t i = 0; i < bench.count; ++i) {
        good = receive(side, i, static_cast<int>(i)) && good;
    }
    for (int i = 0; i < kIdlePasses; ++i) {
        good = (step_poll_waiting(side) || bench.waits) && good;
    }
    for (std::uint32_t i = 0; i < bench.count; ++i) {
        const int code = opal_common_adaptib_cancel(side.endpoints[i], &side.requests[i].user);
        good = code == OPAL_COMMON_ADAPTIB_SUCCESS && good;
    }
    return good;
}

bool run_all(Bench& bench) {
    const auto report = [](const char* what, bool good) {
        if (!good) {
            std::fprintf(stderr, "endpoints: %s: not every step goes the fast way\n", what);
        }
        return good;
    };
    const bool windows = report("windows", run_windows(bench));
    const bool singles = windows && report("singles", run_singles(bench));
    const bool idle = singles && report("idle passes", run_idle_passes(bench));
    std::printf("window %d windows %d singles %d idle_passes %d\n", kWindow, kWindows, kSingles,
                kIdlePasses);
    return idle;
}

} // namespace

int main(int count, char** arguments) {
    if (count != 3 && count != 4) {
        std::fputs("adaptib_bench_endpoints K THREADS [FABRIC]\n", stderr);
        return 2;
    }
    static Bench bench;
    bench.threads = std::atoi(arguments[2]) != 0;
    bench.waits = count == 4;
    char* const fabric = count == 4 ? arguments[3] : const_cast<char*>("shm");
    if (!open_sides(bench, arguments[1], fabric) || !warm_up(bench)) {
        std::fputs("endpoints: the processes cannot be connected\n", stderr);
        return 1;
    }
    const bool good = run_all(bench);
    for (const std::uint32_t i : {0u, 1u}) {
        bench.processes[i].end();
    }
    return good ? 0 : 1;
}
