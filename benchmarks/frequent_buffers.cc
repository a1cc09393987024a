// SPDX-License-Identifier: BSD-3-Clause
// Cost of asking whether a small message's buffer is a frequent one.
//
// Measures, with 100 and 100,000 buffers known, a fifth of them frequent, in random order:
//   find     the lookup alone (UsageTable::find)
//   chained  the same, each lookup of an address that depends on the result of the one before
//   gather   FrequentBuffers::use() of a frequent buffer, and the end of that use
//   count    the same of a buffer that is not frequent and never becomes so
// and, with 100,000 messages that each come from another buffer:
//   once     the same of a buffer that is not known
// Bounds (--check): find at most 10 ns; 100,000 buffers known in a table of at most 1 MiB; once at
// most 20 ns.
//
//     frequent_buffers [--quick] [--check]
#include <cstdio>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "benchmarks/median.h"
#include "benchmarks/options.h"
#include "memory/frequent_buffers.h"
#include "unit/null_rail.h"

namespace {

using namespace adaptib;

constexpr std::uintptr_t kBase = 0x7f00'0000'0000;
constexpr Bytes kApart = 4096;
constexpr Bytes kMessage = 1024;
constexpr std::size_t kKnown[] = {100, 100'000};
constexpr std::size_t kLookups = 1 << 16;
constexpr double kFindBound = 10;
constexpr double kOnceBound = 20;

const void* address_of(std::uintptr_t number) { return reinterpret_cast<const void*>(number); }
const void* address(std::size_t number) { return address_of(kBase + number * kApart); }

// A buffer of kMessage bytes is frequent after very many uses, a longer one at once.
GatherCosts costs() {
    GatherCosts costs = GatherCosts::assumed();
    costs.handling = 0; // so that short messages pay, too
    costs.registration.fill(2e7);
    costs.registration[GatherCosts::index(2 * kMessage)] = 1;
    return costs;
}

class Buffers {
public:
    explicit Buffers(std::size_t count)
        : frequent_({FrequentBuffersOptions::Mode::automatic, 200'000, costs}, cache_, counters_) {
        // Of each five one is frequent, so that the table grows.
        for (std::size_t i = 0; known() < count && i < 2 * count; ++i) {
            use(address(i), i % 5 == 0 ? 2 * kMessage : kMessage);
            (i % 5 == 0 ? gathered_ : counted_).push_back(address(i));
        }
        shuffle(gathered_);
        shuffle(counted_);
        all_ = gathered_;
        all_.insert(all_.end(), counted_.begin(), counted_.end());
        shuffle(all_);
    }

    bool use(const void* buffer, Bytes bytes) {
        RegistrationCache::Use use;
        return frequent_.use(buffer, bytes, 0, use);
    }
    std::size_t known() const { return frequent_.table().known(); }
    Bytes table_bytes() const { return frequent_.table().bytes(); }
    const std::vector<const void*>& all() const { return all_; }
    const std::vector<const void*>& gathered() const { return gathered_; }
    const std::vector<const void*>& counted() const { return counted_; }

private:
    void shuffle(std::vector<const void*>& list) {
        for (std::size_t i = list.size(); i > 1; --i) {
            std::swap(list[i - 1], list[random_.below(i)]);
        }
    }

    Random random_{1};
    Counters counters_;
    test::FreeRail rail_;
    Rail* rails_[1] = {&rail_};
    RegistrationCache cache_{rails_, RailRange{0, 1}, kGiB * 1024, counters_};
    FrequentBuffers frequent_;
    std::vector<const void*> all_;
    std::vector<const void*> gathered_;
    std::vector<const void*> counted_;
};

// Returns the median of nanoseconds for each call of f(buffer), which go through the list.
template <class F> double time_each(int samples, const std::vector<const void*>& list, F&& f) {
    const MonotonicClock clock;
    std::vector<double> times;
    std::size_t at = 0;
    for (int sample = 0; sample < samples; ++sample) {
        const Nanoseconds start = clock.now();
        for (std::size_t i = 0; i < kLookups; ++i) {
            f(list[at]);
            at = at + 1 < list.size() ? at + 1 : 0;
        }
        times.push_back(static_cast<double>((clock.now() - start).count()) / kLookups);
    }
    return bench::median(times);
}

template <class T> void keep(const T& value) { asm volatile("" : : "r"(value)); }

// Adds the same buffers to a table alone.
void add_all(UsageTable& table, const Buffers& buffers) {
    for (std::size_t i = 0; i < buffers.all().size(); ++i) {
        if (UsageTable::Slot* const slot = table.add(address(i)); slot != nullptr && i % 5 == 0) {
            table.make_frequent(*slot, static_cast<std::uint32_t>(i));
        }
    }
}

double measure(std::size_t count, int samples, bool& within) {
    Buffers buffers(count);
    UsageTable table;
    add_all(table, buffers);
    const double find =
        time_each(samples, buffers.all(), [&](const void* buffer) { keep(table.find(buffer)); });
    const volatile std::uintptr_t none = 0;
    std::uintptr_t before = 0;
    const double chained = time_each(samples, buffers.all(), [&](const void* buffer) {
        const auto number = reinterpret_cast<std::uintptr_t>(buffer) + before;
        before = reinterpret_cast<std::uintptr_t>(table.find(address_of(number))) & none;
        keep(before);
    });
    std::size_t gathered = 0;
    const double gather = time_each(samples, buffers.gathered(), [&](const void* buffer) {
        gathered += buffers.use(buffer, 2 * kMessage);
    });
    const double counted = time_each(samples, buffers.counted(), [&](const void* buffer) {
        gathered += buffers.use(buffer, kMessage);
    });
    const bool right = gathered == static_cast<std::size_t>(samples) * kLookups;
    if (!right) {
        std::fprintf(stderr, "frequent_buffers: %zu of %zu messages gathered\n", gathered,
                     static_cast<std::size_t>(samples) * kLookups);
    }
    std::printf("%8zu %8llu %7.1f %8.1f %7.1f %7.1f\n", buffers.known(),
                static_cast<unsigned long long>(buffers.table_bytes() / kKiB), find, chained,
                gather, counted);
    within = within && right && find <= kFindBound && buffers.known() >= count &&
             buffers.table_bytes() <= kMiB;
    return find;
}

double measure_once(int samples) {
    Buffers buffers(0);
    std::size_t number = 0;
    return time_each(samples, {nullptr},
                     [&](const void*) { keep(buffers.use(address(number++), kMessage)); });
}

} // namespace

int main(int argc, char** argv) {
    bench::Options options;
    if (!bench::read_options(argc, argv, options)) {
        return 2;
    }
    const int samples = options.quick ? 15 : 51;
    std::printf("   known      KiB    find  chained  gather   count (ns)\n");
    bool within = true;
    double find = 0;
    for (const std::size_t count : kKnown) {
        find = measure(count, samples, within);
    }
    const double once = measure_once(samples);
    within = within && once <= kOnceBound;
    std::printf("once %.1f ns\n", once);
    std::printf("frequent_buffers: a lookup among %zu takes %.1f ns, bound %.0f\n", kKnown[1], find,
                kFindBound);
    return options.check && !within ? 1 : 0;
}
