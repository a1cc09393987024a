// SPDX-License-Identifier: BSD-3-Clause
// Functions of libibverbs that the model does not have. They are there so that programs, and the
// drivers that they are linked with, load. Arguments do not matter to them, nor the header's types.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>

// Fails.
#define ADAPTIB_ABSENT(name)                                                                       \
    extern "C" int adaptib_absent_##name() __asm__(#name);                                         \
    int adaptib_absent_##name() {                                                                  \
        errno = EOPNOTSUPP;                                                                        \
        return EOPNOTSUPP;                                                                         \
    }
#define ADAPTIB_ABSENT_OBJECT(name)                                                                \
    extern "C" void* adaptib_absent_##name() __asm__(#name);                                       \
    void* adaptib_absent_##name() {                                                                \
        errno = EOPNOTSUPP;                                                                        \
        return nullptr;                                                                            \
    }

// Ends the process, since nothing is known of the function; unless the adapter has it.
#define ADAPTIB_UNKNOWN(name)                                                                      \
    extern "C" [[gnu::weak]] void adaptib_unknown_##name() __asm__(#name);                         \
    void adaptib_unknown_##name() {                                                                \
        std::fputs("The virtual adapter has no " #name ".\n", stderr);                             \
        std::abort();                                                                              \
    }

// A driver registers itself by it; there is no device for drivers.
#define ADAPTIB_DRIVER(name)                                                                       \
    extern "C" void adaptib_driver_##name() __asm__(#name);                                        \
    void adaptib_driver_##name() {}
