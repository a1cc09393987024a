// SPDX-License-Identifier: BSD-3-Clause
// The sanitizers that a test is built with: what their checks need, or find first, is no fault.
// May touch: nothing.
#pragma once

namespace adaptib::test {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAsan = true;
inline constexpr bool kTsan = false;
#elif defined(__SANITIZE_THREAD__)
inline constexpr bool kAsan = false;
inline constexpr bool kTsan = true;
#elif defined(__has_feature)
inline constexpr bool kAsan = __has_feature(address_sanitizer);
inline constexpr bool kTsan = __has_feature(thread_sanitizer);
#else
inline constexpr bool kAsan = false;
inline constexpr bool kTsan = false;
#endif

} // namespace adaptib::test
