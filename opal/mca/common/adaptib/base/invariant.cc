// SPDX-License-Identifier: BSD-3-Clause
#include "base/invariant.h"

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

namespace adaptib {

namespace {

std::atomic<void (*)()> print_more{nullptr};

} // namespace

void on_broken_invariant(void (*print)()) { print_more.store(print, std::memory_order_release); }

void report_broken_invariant(const InvariantSite& site,
                             std::initializer_list<std::uint64_t> values) {
    std::fprintf(stderr, "adaptib: an invariant does not hold, so the process ends: %s. (%s:%d: %s",
                 site.invariant, site.file, site.line, site.condition);
    if (values.size() != 0) {
        std::fprintf(stderr, "; %s =", site.values);
    }
    const char* between = " ";
    for (const std::uint64_t value : values) {
        std::fprintf(stderr, "%s%" PRIu64, between, value);
        between = ", ";
    }
    std::fputs(")\n", stderr);
    // Once: what it prints may break an invariant, too.
    if (void (*const print)() = print_more.exchange(nullptr, std::memory_order_acquire)) {
        print();
    }
    std::abort();
}

} // namespace adaptib
