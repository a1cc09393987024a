// SPDX-License-Identifier: BSD-3-Clause
// Scheduler: decides which subchannel carries which bytes of a transfer.
//
// Purpose: numbers in, a plan out, without I/O. A transfer below the striping threshold goes whole
// over the subchannel that the multiplexing policy names. From the threshold on, the striping
// policy may cut it into stripes. That policy may learn from the times of stripes: of reads, of
// writes and of both at once separately (Mix). Each policy is a file in this folder (README.md).
// Threads: one at a time; each peer has a scheduler of its own.
// Source: Vishnu, chapters 4 to 8 (the policies' names).
// May touch: base/ only.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/stripe.h"

namespace adaptib {

struct SchedulerOptions {
    std::string multiplexing = "binding";
    std::string striping = "none";
    std::uint32_t position =
        0; // spreads the processes of one host over the subchannels (control_lane.h)
    Bytes striping_threshold = 0; // shorter transfers are not striped
    Bytes min_stripe = 0;         // 0: what a path carries in the time that a stripe costs
    std::uint32_t window = 8;     // window_round_robin: transfers before the next subchannel's turn
    double alpha = 0.5;           // policies that learn: weight of a new measurement, 0..1
    std::uint32_t bss_paths = 0;  // bss: paths that take part, 0: all
    std::uint32_t bss_batch = 0;  // bss: paths that carry one transfer, 0: half of them
};

// Counts of a policy's decisions about the paths of single ports.
struct Spreading {
    std::uint64_t trials = 0;    // the first path of a port was slow, so all were tried
    std::uint64_t spreads = 0;   // trials that were faster
    std::uint64_t fallbacks = 0; // returns to the first path: a failed trial, or a hot spot gone
};

// A policy of multiplexing or striping; policies.h says when plan() is called.
class Policy {
public:
    virtual ~Policy() = default;
    virtual void plan(const TransferShape& transfer, std::span<const SubchannelStats> up,
                      StripePlan& out) = 0;
    // Learns from the times of stripes. Returns true if they compare several ports (auto), or
    // several paths (the other policies).
    virtual bool learn(std::span<const StripeTime>) { return false; }
    // Reports that the subchannels `returned`, without which the last transfer had to do, are up
    // again. `stayed`: those that are up now and were so then. (Bits, of the first 64.)
    virtual void on_return(std::uint64_t /* returned */, std::uint64_t /* stayed */) {}
    // Returns how much of a transfer to plan at once: the rest profits from what is learnt
    // meanwhile. 0: all
    virtual Bytes round(const TransferShape&) const { return 0; }
    // Returns the fraction of a long transfer that the subchannel would carry; for display only.
    virtual double weight(std::uint32_t) const { return 0; }
    // Returns the learnt rate of the subchannel's port, in a unit of the policy's own; 0: unknown.
    virtual double learnt(std::uint32_t) const { return 0; }
    // Returns true if the policy also learns from the time of a transfer over one subchannel.
    virtual bool learns_from_whole() const { return false; }
    virtual Spreading spreading() const { return {}; }
};

// The measured rate of a port to the peer, in any unit: between `least` and `most`.
struct PortRate {
    std::uint32_t port = 0;
    double least = 0;
    double most = 0;
};

// Below this length every transfer takes one subchannel, the control lane: the atomics of one
// process have to go through one adapter, and other short transfers gain nothing from a second one.
constexpr Bytes kLeastSpread = 64;

class Scheduler {
public:
    static constexpr std::uint32_t kNews = 8; // lessons between two looks at the control lane
    // `striping`: one policy for each Mix, or none (three null pointers). `multiplexing`: null for
    // the control lane.
    Scheduler(const SchedulerOptions& options, std::unique_ptr<Policy> multiplexing,
              std::array<std::unique_ptr<Policy>, 3> striping);

    // Appends stripes that cover [0, length) exactly, in order, none longer than its subchannel's
    // max_stripe, none empty. REQUIRES: up is not empty, length > 0.
    void plan(const TransferShape& transfer, std::span<const SubchannelStats> up, StripePlan& out);
    // Returns true if plan() would give a transfer of that length, whole, to control_lane(), and
    // learn nothing new: it is short, and `up` (bits) are the subchannels of the last look.
    bool takes_control_lane(Bytes length, std::uint64_t up) const {
        return length < kLeastSpread && up == up_ && news_ < kNews;
    }
    // Chooses the control lane (control_lane.h) of a new connection: by the measured rates if they
    // count, or by what is known of writes; if none was striped, of both directions at once or of
    // reads. plan() changes the lane when another one was better for some 30 lessons in a row,
    // later more.
    // REQUIRES: up is not empty.
    std::uint32_t choose_control_lane(std::span<const SubchannelStats> up);
    // Returns the control lane that was chosen last.
    std::uint32_t control_lane() const { return control_lane_path_; }
    // Judges the control lane by measured rates of all ports, which count until enough is learnt
    // from stripes. The lane changes when another one was better, and faster in spite of the
    // uncertainty of the rates, several times in a row (kDoubts).
    enum class Verdict : std::uint8_t { stays, doubted, changed };
    Verdict judge_control_lane(std::span<const SubchannelStats> up,
                               std::span<const PortRate> measured);
    // Returns the measured rate of the port, in the unit of judge_control_lane(); 0: it was not
    // measured, or the measurement does not count any more.
    double measured(std::uint32_t port) const;
    // Returns how often learn() has learnt something from stripes.
    std::uint64_t lessons() const { return lessons_; }
    // Returns how much of the transfer to plan now, at least; the caller plans the rest when no
    // more than that is under way. The result is not above `most` where a transfer of `most` bytes
    // can still be cut, or where only one subchannel is up.
    Bytes round(const TransferShape& transfer, std::span<const SubchannelStats> up,
                Bytes most = ~Bytes{0}) const {
        if (up.size() == 1) {
            return std::min(transfer.length, most);
        }
        const Policy* const policy = striping(mix_of(transfer, up));
        if (policy == nullptr || transfer.length < threshold_) {
            return transfer.length;
        }
        const Bytes some = policy->round(transfer);
        const Bytes wanted = some == 0 ? most : std::min(some, most);
        return std::min(transfer.length, std::max(wanted, threshold_));
    }
    // Returns the mix of the transfer that was just planned.
    Mix mix() const { return mix_; }
    // Learns from the stripes of one transfer, or of one round of it. `times`: those that are known
    // well.
    void learn(Mix mix, std::span<const StripeTime> times) {
        if (striping(mix) != nullptr && striping(mix)->learn(times)) {
            ++news_;
            ++lessons_;
        }
    }
    // Returns true if the caller is to report the times of the transfer that was just planned, with
    // so many stripes, to learn().
    bool wants_times(std::size_t stripes) const { return stripes > 1 || wants_whole_; }
    Spreading spreading(Mix mix) const {
        return striping(mix) == nullptr ? Spreading{} : striping(mix)->spreading();
    }
    double weight(Mix mix, std::uint32_t subchannel) const {
        return striping(mix) == nullptr ? 0 : striping(mix)->weight(subchannel);
    }

private:
    static constexpr std::uint32_t kDoubts = 4;

    Policy* striping(Mix mix) const { return striping_[static_cast<std::size_t>(mix)].get(); }
    static Mix mix_of(const TransferShape& transfer, std::span<const SubchannelStats> up);
    void look_for_returned(std::span<const SubchannelStats> up);
    std::size_t best_control_lane(std::span<const SubchannelStats> up) const;
    void set_control_lane(std::span<const SubchannelStats> up, std::size_t control_lane);
    void doubt_control_lane(std::span<const SubchannelStats> up, std::size_t better,
                            std::uint32_t most);
    const PortRate* rate_of(std::uint32_t port) const;

    std::uint32_t position_;
    Bytes threshold_;
    std::unique_ptr<Policy> multiplexing_;            // null: the control lane
    std::array<std::unique_ptr<Policy>, 3> striping_; // by Mix; null: none
    Mix mix_ = Mix::reads;                            // of the last transfer planned
    bool wants_whole_ = false;                        // of that transfer
    std::uint64_t up_ = 0;                            // subchannels at the last look (bits)
    std::size_t control_lane_ = ~std::size_t{0};      // the control lane, as an index into these
    std::uint32_t control_lane_path_ = 0;             // the same, as a subchannel
    std::uint32_t news_ = 0;    // lessons since control_lane_ was last reconsidered
    std::uint32_t doubts_ = 0;  // in a row
    std::uint32_t changes_ = 0; // of control_lane_, because of doubts
    std::uint64_t lessons_ = 0;
    std::vector<PortRate> measured_; // empty: none, or what stripes have taught is newer
};

// Return the names of the policies, as the parameters take them.
std::vector<std::string_view> multiplexing_policies();
std::vector<std::string_view> striping_policies();

using PolicyMaker = std::unique_ptr<Policy> (*)(const SchedulerOptions&);

// Adds a striping policy for the rest of the process, for simulations and tests: the functions
// above and below know it from then on. `name` stays valid. At most one; the next one replaces it.
// Threads: none may use the other functions meanwhile.
void add_striping_policy(std::string_view name, PolicyMaker make);

// Returns null if a policy does not exist.
std::unique_ptr<Scheduler> make_scheduler(const SchedulerOptions& options);

} // namespace adaptib
