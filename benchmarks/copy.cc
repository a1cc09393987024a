// SPDX-License-Identifier: BSD-3-Clause
// Cost of copying on this host: the source of copy_start and copy_rate of the machine model `here`.
//
// Measures memcpy between two buffers of one size, 8 bytes to 4 MiB, and shows the median for each
// size. copy_start is the time of the smallest copy, less its bytes / copy_rate; copy_rate is the
// rate at 1 MiB, where the two buffers exceed the first-level cache.
// Bound (--check): the model is within a factor of 3 of the measurement, both ways.
//
//     copy [--quick] [--check]
#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/clock.h"
#include "benchmarks/median.h"
#include "benchmarks/options.h"
#include "simulator/network/machine.h"

namespace {

using namespace adaptib;

constexpr double kBound = 3.0;
constexpr Bytes kSizes[] = {8, 64, 512, 4 * kKiB, 32 * kKiB, 256 * kKiB, kMiB, 4 * kMiB};
constexpr Bytes kStartSize = 8;
constexpr Bytes kRateSize = kMiB;

// Nanoseconds of one copy, averaged over a batch of about 100 us.
double sample(const Clock& clock, std::vector<std::byte>& from, std::vector<std::byte>& to) {
    const Bytes size = from.size();
    const Bytes copies = std::max<Bytes>(2, 500'000 / std::max<Bytes>(size, 50));
    const Nanoseconds start = clock.now();
    for (Bytes i = 0; i < copies; ++i) {
        std::memcpy(to.data(), from.data(), size);
        // Keeps the compiler from dropping copies.
        asm volatile("" : : "r"(to.data()), "r"(from.data()) : "memory");
    }
    return static_cast<double>((clock.now() - start).count()) / static_cast<double>(copies);
}

double median_of(int samples, Bytes size) {
    const MonotonicClock clock;
    std::vector<std::byte> from(size, std::byte{1});
    std::vector<std::byte> to(size, std::byte{2});
    std::vector<double> times;
    sample(clock, from, to);
    for (int i = 0; i < samples; ++i) {
        times.push_back(sample(clock, from, to));
    }
    return bench::median(std::move(times));
}

bool within(const char* what, double measured, double model) {
    const double ratio = std::max(measured / model, model / measured);
    std::printf("%-28s measured %8.2f, model %8.2f, factor %.2f, bound %.1f\n", what, measured,
                model, ratio, kBound);
    return ratio <= kBound;
}

} // namespace

int main(int argc, char** argv) {
    bench::Options options;
    if (!bench::read_options(argc, argv, options)) {
        return 2;
    }
    double start = 0;
    double rate = 0;
    std::printf("%10s %12s %10s\n", "bytes", "ns", "GB/s");
    for (const Bytes size : kSizes) {
        const double time = median_of(options.quick ? 101 : 1001, size);
        std::printf("%10llu %12.1f %10.2f\n", static_cast<unsigned long long>(size), time,
                    static_cast<double>(size) / time);
        start = size == kStartSize ? time : start;
        rate = size == kRateSize ? static_cast<double>(size) / time : rate;
    }
    const sim::MachineModel& here = *sim::machine("here");
    const bool starts = within("copy_start, ns", start - kStartSize / rate,
                               static_cast<double>(here.processor.copy_start.count()));
    const bool rates =
        within("copy_rate, GB/s", rate, static_cast<double>(here.processor.copy_rate.value) * 1e-9);
    std::printf("a copy takes %.1f ns and 1 ns for %.1f bytes\n", start - kStartSize / rate, rate);
    return options.check && !(starts && rates) ? 1 : 0;
}
