// SPDX-License-Identifier: BSD-3-Clause
// Memory of this process that peers may reach (memory/exposed_memory.h).
#include "memory/exposed_memory.h"

#include <algorithm>
#include <utility>

#include "memory/gather_trial.h"

namespace adaptib {

namespace {

constexpr std::size_t kStagingKept = 16;

// Registers all memory once, if the rails can: then no buffer needs a registration of its own.
bool registers_all(RailList list, RailRange of, Registration& whole) {
    constexpr std::uint32_t kAccess = kLocalWrite | kRemoteRead | kRemoteWrite;
    const auto those = list.subspan(of.first, of.count);
    const bool possible = std::all_of(those.begin(), those.end(), [](const Rail* rail) {
        return rail->info().has(Capability::whole_memory);
    });
    return possible && whole.make(list, of, nullptr, kWholeMemory, kAccess).ok();
}

// Returns true if a buffer may stay registered though nobody has asked for it: the pages of small
// buffers, stacks among them, hold other data, too, which a child of fork needs.
bool copies_at_fork(RailList those) {
    return std::all_of(those.begin(), those.end(),
                       [](const Rail* rail) { return rail->info().copies_at_fork; });
}

FrequentBuffersOptions frequent_options(const ExposedMemory::Options& options, RailList list,
                                        RailRange of, bool has_whole) {
    FrequentBuffersOptions frequent = options.frequent;
    const bool by_itself = frequent.mode == FrequentBuffersOptions::Mode::automatic;
    const bool user_off = frequent.mode == FrequentBuffersOptions::Mode::off;
    if (!user_off && !has_whole && options.registration_cache == 0) {
        frequent.why_off = "no registration is kept (registration_cache, or no memory hooks)";
    }
    if (has_whole) {
        frequent.mode = FrequentBuffersOptions::Mode::off;
    } else if (by_itself && !copies_at_fork(list.subspan(of.first, of.count))) {
        frequent.mode = FrequentBuffersOptions::Mode::off;
        frequent.why_off = "fork would take registered pages from a process (Linux before 5.12)";
    }
    if (!frequent.costs && options.clock != nullptr) {
        frequent.costs = [clock = options.clock, list, of] {
            return measure_gather_costs(*clock, gather_trial(list, of));
        };
    }
    return frequent;
}

} // namespace

ExposedMemory::Reach::Reach(RailList list, RailRange of, const Options& options, Counters& counters)
    : registrations(list, of, options.registration_cache, counters, options.still_watched),
      staging(list, of, options.block_bytes, kStagingKept, registrations),
      has_whole(registers_all(list, of, whole)),
      frequent(frequent_options(options, list, of, has_whole), registrations, counters),
      bounce(list, of), accelerator(list, of, counters) {}

ExposedMemory::ExposedMemory(const Options& options, RailList rails,
                             std::span<const RailRange> fabrics, Counters& counters,
                             MessageFunction message)
    : rails_(rails), counters_(counters), message_(std::move(message)) {
    for (const RailRange& of : fabrics) {
        whole_.push_back(reaches_.emplace_back(rails, of, options, counters).all());
    }
    if (fabrics.size() > 1) {
        const RailRange all{0, static_cast<std::uint32_t>(rails.size())};
        all_rails_.emplace(rails, all, options.registration_cache, counters, options.still_watched);
    }
}

Status ExposedMemory::acquire(RegistrationCache& cache, RegistrationCache::Use& out, void* address,
                              Bytes length, std::uint32_t access) {
    return registered_or_reported(cache.acquire(address, length, access, out), length);
}

Status ExposedMemory::registered_or_reported(Status status, Bytes length) {
    if (status.ok()) [[likely]] {
        return status;
    }
    ++counters_.registrations_failed;
    if (!registration_reported_) {
        registration_reported_ = true;
        message_(Severity::notice,
                 "A buffer of " + std::to_string(length) +
                     " bytes cannot be registered: " + reason_text(status.reason()) +
                     ". Messages from such buffers are copied instead, which is slower, and "
                     "windows in such memory are refused. Locked memory may be limited: see "
                     "\"ulimit -l\". This notice appears only once.");
    }
    return status;
}

// If a rail has no room, cached registrations that nobody uses are dropped, and it tries again.
Status ExposedMemory::open_window(OpenWindow& out, void* address, Bytes length,
                                  std::uint32_t access) {
    Status status = windows_.open(out, rails_, address, length, access);
    if (status.wants_room()) {
        for (Reach& known : reaches_) {
            known.registrations.make_room();
        }
        if (all_rails_) {
            all_rails_->make_room();
        }
        status = windows_.open(out, rails_, address, length, access);
    }
    return registered_or_reported(status, length);
}

std::string ExposedMemory::frequent_report() const {
    std::string text;
    for (const Reach& known : reaches_) {
        const std::string table =
            known.frequent.explanation() + buffer_uses_text(known.frequent.uses());
        text += table.empty() ? table : "  buffers of small messages over devices: " + table;
    }
    return text;
}

void ExposedMemory::settle() {
    for (Reach& known : reaches_) {
        known.registrations.settle();
    }
    if (all_rails_) {
        all_rails_->settle();
    }
}

} // namespace adaptib
