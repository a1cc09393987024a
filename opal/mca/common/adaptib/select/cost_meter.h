// SPDX-License-Identifier: BSD-3-Clause
// What channels cost on this machine, from times taken of real traffic.
//
// Purpose: d, r, p and c of select/mapping.h without anybody calibrating: whoever polls says now and then how long
// that took and what came of it. Medians of the last samples count, so that an interruption changes nothing. What
// was not measured yet is the model's.
// A time is what the receiver does to find a message, hand it on and give its place back; not what the message itself
// takes, which is the same whichever channel it came by, and varies more than channels differ.
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
    static constexpr std::size_t kMostLooks = 512; // of a period: some of them never find a message
    static constexpr double kMost = 100'000;       // ns: beyond, it was not the channel

    // `rings` were polled; `messages` came from them (0: in vain). `clock`: of `took`, the clock itself.
    void add_rings(Nanoseconds took, Nanoseconds clock, std::size_t rings, std::size_t messages);
    // `messages` came from the shared queue; not counted if there were none.
    void add_queue(Nanoseconds took, Nanoseconds clock, std::size_t messages);
    // A credit was returned.
    void add_credit(Nanoseconds took, Nanoseconds clock);

    // The model's, but for what has been measured. `messages_per_credit`: as seen, or 0.
    ChannelCosts costs(const ChannelCosts& model, double messages_per_credit) const;
    // What comes now is to be known, too: of a start, what comes later differs.
    void begin_period() { looks_ = ring_looks_ = queue_looks_ = credits_ = 0; }
    // Since then there were few samples of what a pass can time: messages from rings, or from the queue; of credits.
    bool wants_rings() const { return looks_ < kMostLooks && ring_looks_ < kSamples; }
    bool wants_queue() const { return looks_ < kMostLooks && queue_looks_ < kSamples; }
    bool wants_credits() const { return credits_ < kSamples; }
    std::uint64_t samples() const { return samples_; }

private:
    using Few = LastFew<double, kSamples>;
    void add(Few& to, double nanoseconds);

    Few poll_;   // one ring in vain
    Few ring_;   // a message from a ring
    Few queue_;  // a message from the shared queue
    Few credit_; // one
    std::uint64_t samples_ = 0;
    std::size_t looks_ = 0;       // of this period: passes timed,
    std::size_t ring_looks_ = 0;  // those with a message from a ring,
    std::size_t queue_looks_ = 0; // from the queue;
    std::size_t credits_ = 0;
};

} // namespace adaptib
