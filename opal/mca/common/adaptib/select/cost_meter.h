// SPDX-License-Identifier: BSD-3-Clause
// CostMeter: the costs of channels on this machine, from times of real traffic.
//
// Purpose: measures d, r, p and c of select/mapping.h without a calibration: the poller reports now
// and then how long a poll took and what it found. The medians of the last samples count, so an
// interruption changes nothing. A cost that was not measured yet is the model's.
// A time covers what the receiver does to find a message, hand it on and release its slot; not the
// handling of the message itself, which is the same for both channels, and varies more than the
// channels differ.
// Threads: one at a time.
// Source: Takagi et al., table 2, has these as constants of one cluster.
// May touch: base/, schedule/last_few.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "schedule/last_few.h"
#include "select/mapping.h"

namespace adaptib {

class CostMeter {
public:
    static constexpr std::size_t kSamples = 31;
    static constexpr std::size_t kMostLooks = 512; // per period, which may never find a message
    static constexpr double kMost = 100'000;       // ns: more than that is not the channel's

    // `rings` were polled, and `messages` taken from them (0: in vain). `clock`: the part of `took`
    // that reading the clock cost.
    void add_rings(Nanoseconds took, Nanoseconds clock, std::size_t rings, std::size_t messages);
    // `messages` were taken from the shared queue; not counted if there were none.
    void add_queue(Nanoseconds took, Nanoseconds clock, std::size_t messages);
    // A credit was returned.
    void add_credit(Nanoseconds took, Nanoseconds clock);

    // The measured costs, else the model's. `messages_per_credit`: as counted, or 0.
    ChannelCosts costs(const ChannelCosts& model, double messages_per_credit) const;
    // Makes the meter want new samples, since the costs at a program's start differ from later
    // ones.
    void begin_period() { looks_ = ring_looks_ = queue_looks_ = credits_ = 0; }
    // True if this period has few samples: of ring messages or queue messages, which a timed pass
    // takes, or of credits.
    bool wants_rings() const { return looks_ < kMostLooks && ring_looks_ < kSamples; }
    bool wants_queue() const { return looks_ < kMostLooks && queue_looks_ < kSamples; }
    bool wants_credits() const { return credits_ < kSamples; }
    std::uint64_t samples() const { return samples_; }

private:
    using Few = LastFew<double, kSamples>;
    void add(Few& to, double nanoseconds);

    Few poll_;   // polls of one ring in vain
    Few ring_;   // messages from a ring
    Few queue_;  // messages from the shared queue
    Few credit_; // credits
    std::uint64_t samples_ = 0;
    std::size_t looks_ = 0;       // passes timed in this period
    std::size_t ring_looks_ = 0;  // of them, with a message from a ring
    std::size_t queue_looks_ = 0; // of them, with one from the queue
    std::size_t credits_ = 0;
};

} // namespace adaptib
