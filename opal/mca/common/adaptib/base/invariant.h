// SPDX-License-Identifier: BSD-3-Clause
// Invariants: what always holds, checked while the code runs.
//
// Purpose: a state that cannot be is found where it arises, not where it does harm. Each check says
// in words what holds, and gives the values that are compared:
//
//   ADAPTIB_INVARIANT(used <= size, "a ring holds no more than its size", used, size);
//
// Two levels:
//   ADAPTIB_INVARIANT  always on: for a comparison of values that are at hand. Where it does not
//                      hold, the process prints it, the values and the last lines of the trace, if
//                      there is one, and aborts
//   ADAPTIB_AUDIT      on in builds with a sanitizer or --enable-debug: for what takes a walk of a
//                      list, or a sum
// The values that a check gives have no side effects: it evaluates them only if its condition does
// not hold. Nothing that a peer, the user or the system gives is an invariant: the code checks it,
// and refuses it with an error.
// Threads: any.
// May touch: nothing.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace adaptib {

struct InvariantSite {
    const char* invariant; // in words
    const char* condition;
    const char* values; // their names
    const char* file;
    int line;
};

// A number, pointer, enumerator or duration as a number.
template <typename T> std::uint64_t invariant_value(const T& value) {
    if constexpr (std::is_pointer_v<T>) {
        return reinterpret_cast<std::uintptr_t>(value);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
        return static_cast<std::uint64_t>(value);
    } else {
        return static_cast<std::uint64_t>(value.count());
    }
}

[[noreturn, gnu::cold, gnu::noinline]] void
report_broken_invariant(const InvariantSite& site, std::initializer_list<std::uint64_t> values);

template <typename... Values>
[[noreturn, gnu::cold]] void invariant_broken(const InvariantSite& site, Values... values) {
    report_broken_invariant(site, {invariant_value(values)...});
}

// Sets a function that prints more behind an invariant that does not hold. Null: none.
void on_broken_invariant(void (*print)());

} // namespace adaptib

#define ADAPTIB_INVARIANT(condition, invariant, ...)                                               \
    do {                                                                                           \
        if (!(condition)) [[unlikely]] {                                                           \
            ::adaptib::invariant_broken({invariant, #condition, #__VA_ARGS__, __FILE__,            \
                                         __LINE__} __VA_OPT__(, ) __VA_ARGS__);                    \
        }                                                                                          \
    } while (false)

#if defined(ADAPTIB_AUDITS)
#define ADAPTIB_AUDIT(...) ADAPTIB_INVARIANT(__VA_ARGS__)
#else
#define ADAPTIB_AUDIT(...) static_cast<void>(0)
#endif
