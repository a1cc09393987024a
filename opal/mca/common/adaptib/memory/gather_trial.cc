// SPDX-License-Identifier: BSD-3-Clause
// Copies, registrations and lookups to be timed (memory/gather_trial.h).
#include "memory/gather_trial.h"

#include <cstring>
#include <memory>

#include "memory/registration.h"
#include "memory/usage_table.h"

namespace adaptib {

namespace {

// A table of buffers, which are only addresses.
class Lookups {
public:
    Lookups() {
        for (std::uintptr_t i = 0; i < kBuffers; ++i) {
            table_.add(address(i));
        }
    }
    void next() {
        at_ = (at_ + kStep) % kBuffers;
        const void* const found = table_.find(address(at_));
        asm volatile("" : : "r"(found)); // keeps the lookup
    }

private:
    static constexpr std::uintptr_t kBuffers = 2048;
    static constexpr std::uintptr_t kStep = 1021; // not one behind the other
    static constexpr std::uintptr_t kApart = 4096;

    static const void* address(std::uintptr_t number) {
        return reinterpret_cast<const void*>((number + 1) * kApart);
    }

    UsageTable table_;
    std::uintptr_t at_ = 0;
};

} // namespace

GatherTrial gather_trial(RailList rails, RailRange with) {
    GatherTrial trial;
    trial.copy = [](std::byte* to, const std::byte* from, Bytes length) {
        std::memcpy(to, from, length);
        asm volatile("" : : "r"(to) : "memory"); // keeps the copy: the memory may be read
    };
    trial.registration = [rails, with](void* address, Bytes length) {
        Registration registration;
        return registration.make(rails, with, address, length, 0).ok();
    };
    trial.lookup = [lookups = std::make_shared<Lookups>()] { lookups->next(); };
    return trial;
}

} // namespace adaptib
