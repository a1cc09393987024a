// SPDX-License-Identifier: BSD-3-Clause
// The table of policies; for each transfer the choice between multiplexing and striping; the
// control lane, and when it changes.
#include "schedule/scheduler.h"

#include <array>

#include "base/invariant.h"
#include "schedule/control_lane.h"
#include "schedule/policies.h"

namespace adaptib {

namespace {

struct Row {
    std::string_view name;
    PolicyMaker make;
};

std::unique_ptr<Policy> make_none(const SchedulerOptions&) { return nullptr; }

constexpr std::array<Row, 4> kMultiplexing{{{"binding", make_none}, // control_lane.h
                                            {"round_robin", make_round_robin},
                                            {"weighted_round_robin", make_weighted_round_robin},
                                            {"window_round_robin", make_window_round_robin}}};
constexpr std::array<Row, 8> kStriping{{{"none", make_none},
                                        {"auto", make_auto},
                                        {"even", make_even},
                                        {"weighted", make_weighted},
                                        {"adaptive", make_adaptive},
                                        {"load_balanced", make_load_balanced},
                                        {"bss", make_bss},
                                        {"epc", make_epc}}};

Row added_striping{}; // add_striping_policy(); without a name: none

std::vector<std::string_view> names_of(std::span<const Row> rows) {
    std::vector<std::string_view> names;
    for (const Row& row : rows) {
        names.push_back(row.name);
    }
    return names;
}

PolicyMaker maker_of(std::span<const Row> rows, std::string_view name) {
    for (const Row& row : rows) {
        if (row.name == name) {
            return row.make;
        }
    }
    return nullptr;
}

// Returns true if the stripes cover [0, length) in order, over subchannels in `up` that carry them.
[[maybe_unused]] bool covers(std::span<const Stripe> plan, Bytes length,
                             std::span<const SubchannelStats> up) {
    Bytes end = 0;
    for (const Stripe& stripe : plan) {
        const auto path =
            std::find_if(up.begin(), up.end(), [&stripe](const SubchannelStats& each) {
                return each.index == stripe.subchannel;
            });
        if (path == up.end() || stripe.offset != end || stripe.length == 0 ||
            stripe.length > path->max_stripe) {
            return false;
        }
        end += stripe.length;
    }
    return end == length;
}

} // namespace

Scheduler::Scheduler(const SchedulerOptions& options, std::unique_ptr<Policy> multiplexing,
                     std::array<std::unique_ptr<Policy>, 3> striping)
    : position_(options.position), threshold_(options.striping_threshold),
      multiplexing_(std::move(multiplexing)), striping_(std::move(striping)) {
    ADAPTIB_INVARIANT((striping_[0] == nullptr) == (striping_[1] == nullptr) &&
                          (striping_[0] == nullptr) == (striping_[2] == nullptr),
                      "each mix has a policy, or none has", position_);
}

void Scheduler::plan(const TransferShape& transfer, std::span<const SubchannelStats> up,
                     StripePlan& out) {
    ADAPTIB_INVARIANT(!up.empty(), "a transfer is planned while a subchannel is up",
                      transfer.length);
    [[maybe_unused]] const std::size_t from = out.size();
    wants_whole_ = false;
    look_for_returned(up);
    if (news_ >= kNews) [[unlikely]] {
        constexpr std::uint32_t kDoublings = 6;
        measured_.clear();
        doubt_control_lane(up, best_control_lane(up), kDoubts << std::min(changes_, kDoublings));
    }
    mix_ = mix_of(transfer, up);
    Policy* const policy = striping(mix_);
    const bool whole = policy == nullptr || transfer.length < threshold_;
    if (transfer.length < kLeastSpread || up.size() == 1 || (whole && multiplexing_ == nullptr)) {
        append_stripes(up[control_lane_], 0, transfer.length, out);
    } else if (whole) {
        multiplexing_->plan(transfer, up, out);
    } else {
        policy->plan(transfer, up, out);
        wants_whole_ = policy->learns_from_whole();
    }
    ADAPTIB_AUDIT(covers(std::span<const Stripe>(out).subspan(from), transfer.length, up),
                  "a plan covers the transfer once, in order, in stripes that can be carried",
                  transfer.length, out.size() - from, up.size());
}

Mix Scheduler::mix_of(const TransferShape& transfer, std::span<const SubchannelStats> up) {
    const auto opposite = static_cast<std::size_t>(other(transfer.direction));
    for (const SubchannelStats& path : up) {
        if (path.outstanding[opposite] > 0) {
            return Mix::both;
        }
    }
    return transfer.direction == Direction::read ? Mix::reads : Mix::writes;
}

std::size_t Scheduler::best_control_lane(std::span<const SubchannelStats> up) const {
    if (!measured_.empty()) {
        return control_lane_of(up, position_,
                               [this](const SubchannelStats& path) { return measured(path.port); });
    }
    Mix known = Mix::reads;
    for (const Mix mix : {Mix::both, Mix::writes}) {
        known =
            striping(mix) != nullptr && striping(mix)->learnt(up.front().index) > 0 ? mix : known;
    }
    const auto learnt = [policy = striping(known)](const SubchannelStats& path) {
        return policy == nullptr ? 0 : policy->learnt(path.index);
    };
    return control_lane_of(up, position_, learnt);
}

void Scheduler::set_control_lane(std::span<const SubchannelStats> up, std::size_t control_lane) {
    ADAPTIB_INVARIANT(control_lane < up.size(), "the control lane is up", control_lane, up.size());
    control_lane_ = control_lane;
    control_lane_path_ = up[control_lane].index;
    doubts_ = 0;
}

std::uint32_t Scheduler::choose_control_lane(std::span<const SubchannelStats> up) {
    look_for_returned(up); // else takes_control_lane() would answer for those of an earlier look
    set_control_lane(up, best_control_lane(up));
    return control_lane_path_;
}

// Changes the control lane after `most` doubts in a row, not at the first one, since the ring and
// its credit move with the lane. plan() waits longer after each change, so that rails whose rates
// are at the limit do not move the lane for ever.
void Scheduler::doubt_control_lane(std::span<const SubchannelStats> up, std::size_t better,
                                   std::uint32_t most) {
    ADAPTIB_INVARIANT(better < up.size() && most > 0, "a lane that is better is up", better,
                      up.size(), most);
    news_ = 0;
    doubts_ = better == control_lane_ ? 0 : doubts_ + 1;
    if (doubts_ >= most) {
        ++changes_;
        set_control_lane(up, better);
    }
}

const PortRate* Scheduler::rate_of(std::uint32_t port) const {
    const auto found = std::find_if(measured_.begin(), measured_.end(),
                                    [port](const PortRate& each) { return each.port == port; });
    return found == measured_.end() ? nullptr : &*found;
}

double Scheduler::measured(std::uint32_t port) const {
    const PortRate* const rate = rate_of(port);
    return rate == nullptr ? 0 : (rate->least + rate->most) / 2;
}

// Needs kDoubts each time: the caller, which measures, lengthens its intervals itself.
Scheduler::Verdict Scheduler::judge_control_lane(std::span<const SubchannelStats> up,
                                                 std::span<const PortRate> measured) {
    look_for_returned(up);
    measured_.assign(measured.begin(), measured.end());
    ADAPTIB_INVARIANT(control_lane_ < up.size(), "the control lane is up", control_lane_,
                      up.size());
    const std::size_t before = control_lane_;
    const std::size_t better = best_control_lane(up);
    const PortRate* const there = rate_of(up[better].port);
    const PortRate* const here = rate_of(up[control_lane_].port);
    const bool faster = there != nullptr && here != nullptr && there->least > here->most;
    doubt_control_lane(up, faster ? better : control_lane_, kDoubts);
    return control_lane_ != before ? Verdict::changed
           : doubts_ > 0           ? Verdict::doubted
                                   : Verdict::stays;
}

// Tells the policies which paths have failed and are up again, so that such a path begins with
// little. Chooses the control lane anew if the set of paths has changed.
void Scheduler::look_for_returned(std::span<const SubchannelStats> up) {
    std::uint64_t now = 0;
    for (const SubchannelStats& path : up) {
        now |= path.index < 64 ? std::uint64_t{1} << path.index : 0;
    }
    const std::uint64_t returned = now & ~up_;
    if (returned != 0 && up_ != 0 && striping(Mix::reads) != nullptr) [[unlikely]] {
        for (const Mix mix : kMixes) {
            striping(mix)->on_return(returned, now & up_);
        }
    }
    if (now != up_ || control_lane_ >= up.size()) [[unlikely]] {
        set_control_lane(up, best_control_lane(up));
    }
    up_ = now;
}

std::vector<std::string_view> multiplexing_policies() { return names_of(kMultiplexing); }
std::vector<std::string_view> striping_policies() {
    std::vector<std::string_view> names = names_of(kStriping);
    if (added_striping.make != nullptr) {
        names.push_back(added_striping.name);
    }
    return names;
}

void add_striping_policy(std::string_view name, PolicyMaker make) { added_striping = {name, make}; }

std::unique_ptr<Scheduler> make_scheduler(const SchedulerOptions& options) {
    const PolicyMaker multiplexing = maker_of(kMultiplexing, options.multiplexing);
    const PolicyMaker known = maker_of(kStriping, options.striping);
    const PolicyMaker striping =
        known == nullptr ? maker_of({&added_striping, 1}, options.striping) : known;
    if (multiplexing == nullptr || striping == nullptr) {
        return nullptr;
    }
    return std::make_unique<Scheduler>(
        options, multiplexing(options),
        std::array{striping(options), striping(options), striping(options)});
}

} // namespace adaptib
