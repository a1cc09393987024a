// SPDX-License-Identifier: BSD-3-Clause
// Measures what the endpoints of a process cost that nobody uses, and what they cost once they are
// used: memory, descriptors, device objects, threads, and the time of an idle pass of progress.
//
//     adaptib_bench_idle_endpoints [FABRIC]      a value of the parameter `fabric`: shm (default),
//                                                both, verbs
//
// Each line is for one endpoint: the difference between a process with K endpoints and one with a
// single endpoint, divided by K - 1. In both only the first is used; "used" is the same after a
// probe at each of them. "pass" is an idle pass of the process.
// Bound of the exit status, over shm: 1 MiB of memory for an unused endpoint.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "base/clock.h"
#include "base/parameters.h"
#include "common_adaptib.h"
#include "common_adaptib_two_sided.h"
#include "interface/process.h"
#include "unit/interface/resources.h"

namespace {

using namespace adaptib;
using test::Resources;
using test::resources_now;

constexpr std::uint64_t kSelf = std::uint64_t{7} << 32;
constexpr std::int64_t kBound = 1 << 20;
constexpr int kPasses = 20'000;
constexpr int kRounds = 5;
constexpr std::array kCounts{2u, 4u, 16u};

struct Figures {
    Resources unused;
    Resources used;
    double pass = 0; // ns, while all but the first are unused
};

opal_common_adaptib_environment_t environment() {
    opal_common_adaptib_environment_t environment{};
    environment.self = kSelf;
    environment.host_name = "bench";
    environment.one_host = true;
    environment.lookup = [](void*, std::uint64_t, void**, std::size_t*) { return -1; };
    environment.lookup_release = [](void*, void*) {};
    environment.message = [](void*, opal_common_adaptib_severity_t, const char* text) {
        std::fprintf(stderr, "idle_endpoints: %s\n", text);
    };
    return environment;
}

// Uses an endpoint as a program does that looks for a message.
void probe(opal_common_adaptib_core_t* endpoint) {
    const opal_common_adaptib_envelope_t pattern{0, OPAL_COMMON_ADAPTIB_ANY_SOURCE, 1};
    opal_common_adaptib_probe_t found{};
    if (opal_common_adaptib_probe(endpoint, nullptr, &pattern, &found) !=
        OPAL_COMMON_ADAPTIB_NOT_FOUND) {
        std::fputs("idle_endpoints: an endpoint cannot be used\n", stderr);
        std::exit(2);
    }
}

[[gnu::noinline]] void step_idle_passes(opal_common_adaptib_core_t* core) {
    for (int pass = 0; pass < kPasses; ++pass) {
        opal_common_adaptib_progress(core);
    }
}

double time_of_a_pass(opal_common_adaptib_core_t* core) {
    const MonotonicClock clock;
    double least = std::numeric_limits<double>::max();
    for (int round = 0; round < kRounds; ++round) {
        const Nanoseconds start = clock.now();
        step_idle_passes(core);
        least = std::min(least, static_cast<double>((clock.now() - start).count()) / kPasses);
    }
    return least;
}

Figures measure(std::uint32_t count) {
    process_parameters().endpoints = static_cast<int>(count);
    const opal_common_adaptib_environment_t with = environment();
    const Resources before = resources_now();
    opal_common_adaptib_core_t* core = nullptr;
    if (opal_common_adaptib_core_acquire(&with, &core) != OPAL_COMMON_ADAPTIB_SUCCESS ||
        opal_common_adaptib_endpoints(core) != count) {
        std::fputs("idle_endpoints: the process cannot be opened\n", stderr);
        std::exit(2);
    }
    Figures figures;
    figures.unused = resources_now() - before;
    probe(core);
    figures.pass = time_of_a_pass(core);
    for (std::uint32_t i = 1; i < count; ++i) {
        probe(opal_common_adaptib_endpoint(core, i));
    }
    figures.used = resources_now() - before;
    opal_common_adaptib_core_release(core);
    return figures;
}

void show(const char* what, std::uint32_t count, const Resources& cost, double share) {
    const auto of_one = [share](std::int64_t all) { return static_cast<double>(all) / share; };
    std::printf("%-24s %2u %9.2f %9.2f %7.1f %8.1f %8.1f", what, count, of_one(cost.heap) / 1024,
                of_one(cost.shared) / 1024, of_one(cost.files), of_one(cost.devices),
                of_one(cost.threads));
}

} // namespace

int main(int count, char** arguments) {
    process_parameters().fabric = const_cast<char*>(count > 1 ? arguments[1] : "shm");
    const bool shm = count < 2;
    measure(kCounts.back()); // what stays for good, such as buffers of the C library
    const Figures first = measure(1);
    std::printf("%-24s %2s %9s %9s %7s %8s %8s %9s\n", "for one endpoint", "of", "heap, KiB",
                "shm, KiB", "files", "devices", "threads", "pass, ns");
    show("the only one", 1, first.used, 1);
    std::printf(" %9.1f\n", first.pass);
    std::int64_t most = 0;
    for (const std::uint32_t endpoints : kCounts) {
        const Figures figures = measure(endpoints);
        const auto more = static_cast<std::int64_t>(endpoints - 1);
        const Resources unused = figures.unused - first.unused;
        most = std::max(most, (unused.heap + unused.shared) / more);
        show("a further one, unused", endpoints, unused, static_cast<double>(more));
        std::printf(" %9.1f\n", figures.pass);
        show("a further one, used", endpoints, figures.used - first.used,
             static_cast<double>(more));
        std::printf("\n");
    }
    std::printf("an unused endpoint takes %lld bytes of memory (bound over shm: %lld)\n",
                static_cast<long long>(most), static_cast<long long>(kBound));
    return shm && most > kBound ? 1 : 0;
}
