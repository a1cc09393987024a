// SPDX-License-Identifier: BSD-3-Clause
// Schedulers: which subchannel carries which bytes of a transfer.
//
// Purpose: numbers in, plan out, without I/O. Short transfers are whole, over the subchannel that the
// multiplexing policy names; from the striping threshold on they may be cut into stripes, as the striping
// policy says, which may learn from how long stripes took: of reads, of writes and of both at once apart (Mix). A policy is a file in this folder (README.md).
// Threads: one at a time; the state is the peer's own.
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
    std::uint32_t position = 0;   // spreads the processes of one host over the subchannels (home.h)
    Bytes striping_threshold = 0; // shorter transfers are not striped
    Bytes min_stripe = 0;         // 0: what a path carries in the time that a stripe costs
    std::uint32_t window = 8;     // window_round_robin: transfers before the next subchannel's turn
    double alpha = 0.5;           // adaptive, bss: how much a new measurement counts, 0..1
    std::uint32_t bss_paths = 0;  // bss: paths that take part, 0: all
    std::uint32_t bss_batch = 0;  // bss: paths that carry one transfer, 0: half of them
};

// What a policy has found out about the paths of single ports, counted.
struct Spreading {
    std::uint64_t trials = 0;  // the routed path was slow: all were tried
    std::uint64_t spreads = 0; // of them, that were faster
    std::uint64_t fallbacks =
        0; // back to the routed path: trials that did not help, and hot spots gone
};

// One way to choose; see policies.h for what is asked of its functions.
class Policy {
public:
    virtual ~Policy() = default;
    virtual void plan(const TransferView& transfer, std::span<const SubchannelView> up,
                      std::vector<Stripe>& out) = 0;
    // Whether that told how the ports, or where each has one path the paths, compare.
    virtual bool learn(std::span<const StripeTime>) { return false; }
    // Subchannels (bits, of the first 64) that the last transfer had to do without, and those that it had as well.
    virtual void on_return(std::uint64_t /* returned */, std::uint64_t /* stayed */) {}
    // How much of a transfer to plan at once: what follows profits from what was learnt meanwhile. 0: all
    virtual Bytes round(const TransferView&) const { return 0; }
    // The part of a long transfer that the subchannel would carry, of all: for people to see.
    virtual double weight(std::uint32_t) const { return 0; }
    // What was learnt of the rate of the subchannel's port, in a unit of its own; 0: nothing.
    virtual double learnt(std::uint32_t) const { return 0; }
    // Whether the time of a transfer that went over one subchannel tells it something, too.
    virtual bool learns_from_whole() const { return false; }
    virtual Spreading spreading() const { return {}; }
};

// What a port was found to carry to the peer, in any unit: between the two.
struct PortRate {
    std::uint32_t port = 0;
    double least = 0;
    double most = 0;
};

class Scheduler {
public:
    static constexpr std::uint32_t kNews = 8; // so many lessons are worth a look at the home
    // `striping`: for each Mix one; or none.
    Scheduler(const SchedulerOptions& options, std::unique_ptr<Policy> multiplexing,
              std::array<std::unique_ptr<Policy>, 3> striping);

    // Appends stripes that cover [0, length) exactly, in order, none longer than its subchannel's
    // max_stripe, none empty. REQUIRES: up is not empty, length > 0.
    void plan(const TransferView& transfer, std::span<const SubchannelView> up,
              std::vector<Stripe>& out);
    // The subchannel that carries what is not cut (home.h), by what is known now of writes; if none was striped, of both
    // or of reads. For a connection that begins; plan() changes it when another one was better for some dozen
    // transfers. REQUIRES: up is not empty.
    std::uint32_t choose_home(std::span<const SubchannelView> up);
    // That, since it was chosen last.
    std::uint32_t home() const { return home_path_; }
    // All ports were measured: that counts until enough is learnt of stripes. The home changes when another one was
    // better, and faster for sure, several times in a row.
    enum class Verdict : std::uint8_t { stays, doubted, changed };
    Verdict judge_home(std::span<const SubchannelView> up, std::span<const PortRate> measured);
    // In the unit of judge_home(); 0: it was not measured, or does not count any more.
    double measured(std::uint32_t port) const;
    // How often something was learnt of stripes.
    std::uint64_t lessons() const { return lessons_; }
    // How much of the transfer to plan now, at least; the rest when no more than that is under way. Not more
    // than `most` where that can still be cut, or there is nothing to choose.
    Bytes round(const TransferView& transfer, std::span<const SubchannelView> up,
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
    // Of the transfer that was just planned.
    Mix mix() const { return mix_; }
    // Times of stripes of one transfer, or of one round of it, of those whose time is known well.
    void learn(Mix mix, std::span<const StripeTime> times) {
        if (striping(mix) != nullptr && striping(mix)->learn(times)) {
            ++news_;
            ++lessons_;
        }
    }
    // Whether learn() is to hear of the transfer that was just planned with so many stripes.
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
    static Mix mix_of(const TransferView& transfer, std::span<const SubchannelView> up);
    void look_for_returned(std::span<const SubchannelView> up);
    std::size_t best_home(std::span<const SubchannelView> up) const;
    void set_home(std::span<const SubchannelView> up, std::size_t home);
    void doubt_home(std::span<const SubchannelView> up, std::size_t better, std::uint32_t most);
    const PortRate* rate_of(std::uint32_t port) const;

    std::uint32_t position_;
    Bytes threshold_;
    std::unique_ptr<Policy> multiplexing_;            // null: the home
    std::array<std::unique_ptr<Policy>, 3> striping_; // by Mix; null: none
    Mix mix_ = Mix::reads;                            // of the last transfer planned
    bool wants_whole_ = false;                        // of that
    std::uint64_t up_ = 0;                            // subchannels that it had
    std::size_t home_ = ~std::size_t{0};              // of these; an index into them
    std::uint32_t home_path_ = 0;                     // that subchannel
    std::uint32_t news_ = 0;                          // since home_ was looked at again
    std::uint32_t doubts_ = 0;
    std::uint32_t changes_ = 0; // of mind, by doubts
    std::uint64_t lessons_ = 0;
    std::vector<PortRate> measured_; // empty: what stripes have taught is newer
};

// Their names, as the parameters take them.
std::vector<std::string_view> multiplexing_policies();
std::vector<std::string_view> striping_policies();

// Null if a policy does not exist.
std::unique_ptr<Scheduler> make_scheduler(const SchedulerOptions& options);

} // namespace adaptib
