// SPDX-License-Identifier: BSD-3-Clause
// In place of the system: a call's effect on a word that calls of several threads meet at. It is
// one step, meets the newest value, and sees what the calls before it have stored, as under a lock
// of the kernel or in a device.
#pragma once

#include <atomic>
#include <cstdint>

#include "machine.h"

namespace adaptib::model {

// f returns the new value. Returns the old one.
template <typename F> std::uint64_t step(std::atomic<std::uint64_t>& word, F&& f) {
    return machine_change(&word, sizeof word, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE,
                          [&f](std::uint64_t before) {
                              const std::uint64_t after = f(before);
                              return Changed{after, after != before, true};
                          });
}

} // namespace adaptib::model
