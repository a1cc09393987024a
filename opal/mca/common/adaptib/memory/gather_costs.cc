// SPDX-License-Identifier: BSD-3-Clause
// Costs of gathered and copied messages: the rule, assumed values, measurement
// (memory/gather_costs.h).
#include "memory/gather_costs.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/invariant.h"

namespace adaptib {

namespace {

constexpr Bytes kPage = 4096;
constexpr Nanoseconds kLimit = std::chrono::milliseconds{1};
constexpr Nanoseconds kRegistrationLimit = kLimit / 2;
constexpr int kTimes = 3;
constexpr int kCopies = 8; // in a batch, to places one behind the other
constexpr int kLookups = 256;
constexpr Bytes kPages = 5; // of the longer registration
// A gathered message takes some 1250 instructions more than a copied one takes besides the copy,
// and a lookup 30 to 36 (benchmarks/gathered).
constexpr double kHandlingLookups = 40;

double pages_of(Bytes bytes) { return static_cast<double>(bytes / kPage + 1); }

// Times by the clock, until the limit.
class Stopwatch {
public:
    explicit Stopwatch(const Clock& clock) : clock_(clock), start_(clock.now()) {}
    bool within(Nanoseconds limit) const { return clock_.now() - start_ < limit; }
    // Keeps the least time of a part of a batch.
    template <typename F> void keep_least(double& least, int parts, F&& batch) const {
        const Nanoseconds start = clock_.now();
        batch();
        const auto took = static_cast<double>((clock_.now() - start).count()) / parts;
        least = std::min(least, took);
    }

private:
    const Clock& clock_;
    const Nanoseconds start_;
};

struct FreeMemory {
    void operator()(void* memory) const { std::free(memory); }
};

constexpr double kUnknown = std::numeric_limits<double>::max();

// Returns the least time of a registration of so many pages; kUnknown if the rail refuses.
double time_registration(const Stopwatch& watch, const GatherTrial& trial, void* memory,
                         Bytes pages) {
    double least = kUnknown;
    for (int time = 0; time < kTimes && (time == 0 || watch.within(kRegistrationLimit)); ++time) {
        bool registered = false;
        watch.keep_least(least, 1, [&] { registered = trial.registration(memory, pages * kPage); });
        if (!registered) {
            return kUnknown;
        }
    }
    return least;
}

void measure_registrations(const Stopwatch& watch, const GatherTrial& trial, GatherCosts& costs) {
    const std::unique_ptr<void, FreeMemory> memory(std::aligned_alloc(kPage, kPages * kPage));
    if (memory == nullptr) {
        return;
    }
    std::fill_n(static_cast<std::byte*>(memory.get()), kPages * kPage, std::byte{1});
    const double one = time_registration(watch, trial, memory.get(), 1);
    const double several = time_registration(watch, trial, memory.get(), kPages);
    if (one == kUnknown || several == kUnknown) {
        return;
    }
    const double page = std::max(several - one, 0.0) / (kPages - 1);
    for (std::size_t i = 0; i < costs.registration.size(); ++i) {
        costs.registration[i] = one + page * (pages_of(GatherCosts::kSizes[i]) - 1);
    }
}

void measure_copies(const Stopwatch& watch, const GatherTrial& trial, GatherCosts& costs) {
    constexpr Bytes kLargest = GatherCosts::kSizes.back();
    const std::vector<std::byte> from(kLargest, std::byte{1});
    std::vector<std::byte> to(kLargest * kCopies);
    for (std::size_t i = 0; i < costs.copy.size(); ++i) {
        const Bytes bytes = GatherCosts::kSizes[i];
        double least = kUnknown;
        for (int time = 0; time < kTimes && watch.within(kLimit); ++time) {
            watch.keep_least(least, kCopies, [&] {
                for (Bytes part = 0; part < kCopies; ++part) {
                    trial.copy(to.data() + part * bytes, from.data(), bytes);
                }
            });
        }
        costs.copy[i] = least < kUnknown ? least : costs.copy[i];
    }
}

void measure_lookup(const Stopwatch& watch, const GatherTrial& trial, GatherCosts& costs) {
    double least = kUnknown;
    for (int time = 0; time < kTimes && watch.within(kLimit); ++time) {
        watch.keep_least(least, kLookups, [&] {
            for (int part = 0; part < kLookups; ++part) {
                trial.lookup();
            }
        });
    }
    if (least < kUnknown) {
        costs.lookup = least;
        costs.handling = kHandlingLookups * least;
    }
}

} // namespace

std::uint32_t GatherCosts::least_uses(Bytes bytes, double handled) const {
    ADAPTIB_INVARIANT(bytes >= kSizes[0], "shorter messages have no costs", bytes);
    const std::size_t at = index(bytes);
    const double saved = copy[at] - lookup - handled;
    if (saved <= 0) {
        return kNever;
    }
    const double uses = std::floor(registration[at] / saved) + 1;
    return uses < kNever ? static_cast<std::uint32_t>(uses) : kNever;
}

GatherCosts GatherCosts::assumed() {
    constexpr double kStart = 10;      // ns a copy
    constexpr double kByte = 1.0 / 16; // ns a byte
    constexpr double kRegistration = 16'000;
    constexpr double kOnePage = 100;
    GatherCosts costs;
    costs.lookup = 10;
    costs.handling = 150;
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
        costs.copy[i] = kStart + kByte * static_cast<double>(kSizes[i]);
        costs.registration[i] = kRegistration + kOnePage * pages_of(kSizes[i]);
    }
    return costs;
}

GatherCosts measure_gather_costs(const Clock& clock, const GatherTrial& trial) {
    GatherCosts costs = GatherCosts::assumed();
    const Stopwatch watch(clock);
    measure_registrations(watch, trial, costs);
    measure_lookup(watch, trial, costs);
    measure_copies(watch, trial, costs);
    return costs;
}

} // namespace adaptib
