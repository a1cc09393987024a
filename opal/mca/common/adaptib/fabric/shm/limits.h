// SPDX-License-Identifier: BSD-3-Clause
// The numbers of the shm fabric that are not part of the segment's format.
// May touch: base/ only.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace adaptib::shm {

inline constexpr std::uint32_t kMaxDepth = 65536;
inline constexpr std::uint32_t kMaxCqDepth = 1u << 22;
inline constexpr std::uint32_t kMaxReads = 16;
inline constexpr Bytes kMaxMessage = 2 * kGiB;
inline constexpr Bytes kMaxInline = kKiB;

// Cross-memory attach copies that much between two looks at whether it still may.
inline constexpr Bytes kCopyPiece = 4 * kMiB;

// The copy pipeline: bounce slots of a process, and of them those that one queue pair may fill.
inline constexpr Bytes kBounceBytes = 64 * kKiB;
inline constexpr std::uint32_t kBounceSlots = 32;
inline constexpr std::uint32_t kBounceSlotsPerQp = 4;

// Records taken from the queue in one poll, and polls between two rounds of looking after the rest.
inline constexpr std::uint32_t kRecordsPerPoll = 64;
inline constexpr std::uint32_t kPollsPerRound = 256;
// One peer is looked at (is the process still there?) this often.
inline constexpr Nanoseconds kPeerLookInterval{10'000'000};
// Datagrams without a receive that wait outside the queue, per queue pair. Above, the queue waits.
inline constexpr Bytes kHeldBytes = kMiB;
// The longest that a queue pair going to ERR, or a region that ends, waits for a peer that is copying.
inline constexpr Nanoseconds kFenceLimit{1'000'000'000};
// How often it looks meanwhile whether that peer is still there.
inline constexpr Nanoseconds kFenceLook{1'000'000};
// Tries to get the lock of a target's atomics before the request waits for the next poll.
inline constexpr std::uint32_t kLockSpins = 1000;

} // namespace adaptib::shm
