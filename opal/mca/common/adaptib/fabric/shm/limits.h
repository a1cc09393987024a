// SPDX-License-Identifier: BSD-3-Clause
// Numbers of the shm fabric that are not part of the segment's format.
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

// Bytes that cross-memory attach copies between two checks that it is still allowed.
inline constexpr Bytes kCopyPiece = 4 * kMiB;

// Copy pipeline: bounce slots of a process, and how many of them one queue pair may fill.
inline constexpr Bytes kBounceBytes = 64 * kKiB;
inline constexpr std::uint32_t kBounceSlots = 32;
inline constexpr std::uint32_t kBounceSlotsPerQp = 4;

// Records taken from the queue in one poll; polls between two rounds of rare work.
inline constexpr std::uint32_t kRecordsPerPoll = 64;
inline constexpr std::uint32_t kPollsPerRound = 256;
// Interval at which one peer is checked: is its process still alive?
inline constexpr Nanoseconds kPeerLookInterval{10'000'000};
// Datagrams without a receive that a queue pair keeps outside the queue. Above that, the queue
// waits.
inline constexpr Bytes kMaxQueuedBytes = kMiB;
// Longest time that a queue pair going to ERR, or a region of the segment being destroyed, waits
// for a peer that is copying (initiator_fence.h).
inline constexpr Nanoseconds kFenceLimit{1'000'000'000};
// Interval at which the waiting process checks that the peer is alive.
inline constexpr Nanoseconds kFenceLook{1'000'000};
// Attempts to take the lock of a target's atomics before the request waits for the next poll.
inline constexpr std::uint32_t kLockSpins = 1000;

} // namespace adaptib::shm
