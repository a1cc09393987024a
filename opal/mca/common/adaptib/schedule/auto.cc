// SPDX-License-Identifier: BSD-3-Clause
// Striping as the routes need it: over ports always, over the paths of a port while that helps.
//
// The rates of ports add up. So a transfer is cut in proportion to the learnt rates of the ports,
// such that all finish at the same time, including what they have under way, and a long transfer is
// planned in rounds. (That is what `adaptive` does, which plans where each port has one path.) The
// paths of one port share its rate. The first of them carries the port's whole part as long as it
// is about as fast as the port. If the first path is slow, all paths of the port are tried for a
// few transfers, in proportion to learnt weights. If these transfers were slower, the port returns
// to its first path, and the next trial comes later each time. (A rule that returns unless the
// trial was clearly faster returns too early: a single pair gains little while others still
// collide.) While a port spreads, it tests the first path alone now and then: a route that is free
// again is as good, and one stripe costs less than many.
// A time shows the speed of a path only if it is long compared with the fixed cost of a request. So
// a part that the port carries in less than kJudged is not judged and does not spread; it takes the
// fastest known path.
// Source: the rules are new; Vishnu, 7.1 and 8.2, always spreads. simulator/studies shows what they
// gain and cost.
#include "base/invariant.h"
#include "schedule/policies.h"

namespace adaptib {

namespace {

constexpr double kJudged = 25e-6; // seconds at the port's rate
constexpr double kSlow = 1.2;     // a trial begins with Port::whole_time above this
constexpr double kHelps = 1.0;    // spreading stays with spread_time below this part of whole_time
constexpr double kAsGood = 1.05;  // spreading ends with a time below this part of spread_time
constexpr double kMemory = 0.5;   // weight of the known time against a new one
constexpr double kAgeing = 1.0 / 32;
constexpr std::uint32_t kTrial = 8; // transfers
constexpr std::uint32_t kFirstPause = 16;
constexpr std::uint32_t kLongestPause = 2048;
constexpr std::uint32_t kLook = 64; // while spreading: transfers between tests of the first path

class Auto final : public Policy {
public:
    explicit Auto(const SchedulerOptions& options)
        : min_stripe_(options.min_stripe), port_weights_(options.alpha, kAgeing),
          path_weights_(options.alpha, kAgeing), of_single_paths_(make_adaptive(options)) {}

    // One time alone teaches nothing about a port with one path.
    bool learns_from_whole() const override { return several_paths_; }

    void plan(const TransferShape& transfer, std::span<const SubchannelStats> up,
              StripePlan& out) override {
        several_paths_ = share_ports(up);
        if (!several_paths_) {
            of_single_paths_->plan(transfer, up, out);
            return;
        }
        gather(transfer, up);
        port_weights_.of(transfer.length).grow();
        path_weights_.grow();
        const double parts = level_ports(transfer, up);
        shares_.clear();
        for (const Share& port_share : port_shares_) {
            Port& port = ports_[port_share.path->port];
            const double part = static_cast<double>(transfer.length) * (port_share.weight / parts);
            const bool judged = part >= port.rate * kJudged;
            if (port.paths == 1 || !judged || !turn_of_spreading(port)) {
                shares_.push_back({judged ? port.first : port.heaviest, part});
            } else {
                spread(transfer, up, port_share.path->port, part);
            }
        }
        const std::size_t from = out.size();
        divide(transfer.length, min_stripe_, shares_, out);
        ADAPTIB_INVARIANT(out.size() > from, "a transfer has a stripe", transfer.length);
        age_ports(transfer, std::span<const Stripe>(out).subspan(from));
    }

    Bytes round(const TransferShape&) const override {
        if (!several_paths_) {
            return kRound;
        }
        const auto carries = [](const Port& port) { return port.first != nullptr; };
        const auto spreads = [](const Port& port) { return port.spread; };
        const bool cut = std::count_if(ports_.begin(), ports_.end(), carries) != 1 ||
                         std::any_of(ports_.begin(), ports_.end(), spreads);
        return cut ? kRound : 0;
    }

    bool learn(std::span<const StripeTime> times) override {
        if (!several_paths_) {
            return of_single_paths_->learn(times);
        }
        port_times_.clear();
        for (std::uint32_t number = 0; number < ports_.size(); ++number) {
            learn_of_port(number, times);
        }
        return port_weights_.learn(port_times_, true);
    }

    void on_return(std::uint64_t returned, std::uint64_t stayed) override {
        of_single_paths_->on_return(returned, stayed);
        std::uint64_t ports_returned = 0;
        std::uint64_t ports_stayed = 0;
        for (std::size_t i = 0; i < port_of_.size() && i < 64; ++i) {
            const std::uint64_t port = port_of_[i] < 64 ? std::uint64_t{1} << port_of_[i] : 0;
            ports_returned |= (returned >> i & 1) != 0 ? port : 0;
            ports_stayed |= (stayed >> i & 1) != 0 ? port : 0;
        }
        port_weights_.come_back(ports_returned & ~ports_stayed, ports_stayed);
        for (std::uint32_t number = 0; number < ports_.size(); ++number) {
            std::uint64_t of_port = 0;
            for (std::size_t i = 0; i < port_of_.size() && i < 64; ++i) {
                of_port |= port_of_[i] == number ? std::uint64_t{1} << i : 0;
            }
            path_weights_.come_back(returned & of_port, stayed & of_port);
        }
    }

    double weight(std::uint32_t subchannel) const override {
        if (!several_paths_) {
            return of_single_paths_->weight(subchannel);
        }
        if (subchannel >= port_of_.size()) {
            return 0;
        }
        const std::uint32_t number = port_of_[subchannel];
        const double share = port_weights_.last().part(number);
        const Port& port = ports_[number];
        if (!port.spread) {
            return subchannel == port.first_index ? share : 0;
        }
        double of_port = 0;
        for (std::uint32_t i = 0; i < port_of_.size(); ++i) {
            of_port += port_of_[i] == number ? path_weights_.known(i) : 0;
        }
        return share * path_weights_.known(subchannel) / of_port;
    }
    double learnt(std::uint32_t subchannel) const override {
        if (!several_paths_) {
            return of_single_paths_->learnt(subchannel);
        }
        return subchannel < port_of_.size() ? port_weights_.last().known(port_of_[subchannel]) : 0;
    }
    Spreading spreading() const override { return spreading_; }

private:
    struct Port {
        // For the transfer that is being planned:
        const SubchannelStats* first = nullptr; // null: no path of the port is up
        const SubchannelStats* heaviest = nullptr;
        std::uint32_t paths = 0;
        const SubchannelStats* whole = nullptr; // the port as if it were one path
        SubchannelStats sum;                    // target of `whole` if there are several paths
        // Kept between transfers:
        std::uint32_t first_index = 0;
        double rate = 1;
        bool spread = false;
        double whole_time = 0;   // on the first path, in units of that at `rate`; 0: unknown
        double spread_time = 0;  // over all paths, likewise
        std::uint32_t trial = 0; // transfers left
        std::uint32_t pause = 0;
        std::uint32_t next_pause = kFirstPause;
        std::uint32_t look = kLook;
    };

    // Collects the paths that each port has now, and what they have under way.
    void gather(const TransferShape& transfer, std::span<const SubchannelStats> up) {
        const auto direction = static_cast<std::size_t>(transfer.direction);
        for (Port& port : ports_) {
            port.first = nullptr;
            port.paths = 0;
        }
        make_room(up);
        for (const SubchannelStats& path : up) {
            port_of_[path.index] = path.port;
            Port& port = ports_[path.port];
            if (port.paths++ == 0) {
                port.first = port.heaviest = port.whole = &path;
                port.first_index = path.index;
                port.rate = nominal_rate(path, up);
                continue;
            }
            if (port.paths == 2) {
                path_weights_.of(port.first_index, 1.0);
                port.sum = *port.first;
                port.whole = &port.sum;
            }
            port.sum.outstanding[direction] += path.outstanding[direction];
            if (path_weights_.of(path.index, 1.0) > path_weights_.known(port.heaviest->index)) {
                port.heaviest = &path;
            }
        }
    }

    void make_room(std::span<const SubchannelStats> up) {
        std::size_t ports = ports_.size();
        std::size_t paths = port_of_.size();
        for (const SubchannelStats& path : up) {
            ports = std::max<std::size_t>(ports, path.port + 1);
            paths = std::max<std::size_t>(paths, path.index + 1);
        }
        if (ports > ports_.size() || paths > port_of_.size()) {
            ports_.resize(ports);
            port_of_.resize(paths);
        }
    }

    // Fills port_shares_ with the ports that get a part of the transfer. Returns the sum of their
    // weights.
    double level_ports(const TransferShape& transfer, std::span<const SubchannelStats> up) {
        port_shares_.clear();
        PathWeights& weights = port_weights_.of(transfer.length);
        for (const Port& port : ports_) {
            if (port.first != nullptr) {
                const double known = weights.known(port.whole->port);
                port_shares_.push_back(
                    {port.whole,
                     known > 0 ? known
                               : weights.of(port.whole->port, first_weight(*port.first, up))});
            }
        }
        if (port_shares_.size() > 1) {
            level(transfer, port_shares_);
        }
        double sum = 0;
        for (const Share& share : port_shares_) {
            sum += share.weight;
        }
        ADAPTIB_INVARIANT(sum > 0, "the ports together carry a transfer", port_shares_.size());
        return sum;
    }

    // Ages the other ports if one port carries all of the transfer: nothing is learnt of them then.
    void age_ports(const TransferShape& transfer, std::span<const Stripe> plan) {
        const std::uint32_t carrier = port_of_[plan.front().subchannel];
        const auto elsewhere = [&](const Stripe& stripe) {
            return port_of_[stripe.subchannel] != carrier;
        };
        if (std::any_of(plan.begin(), plan.end(), elsewhere)) {
            return;
        }
        const auto direction = static_cast<std::size_t>(transfer.direction);
        for (std::uint32_t number = 0; number < ports_.size(); ++number) {
            const Port& port = ports_[number];
            if (port.first != nullptr && number != carrier &&
                port.whole->outstanding[direction] == 0) {
                port_weights_.age(number, carrier, transfer.length,
                                  least_stripe(*port.first, min_stripe_));
            }
        }
    }

    // Spreads a port's part over all of its paths.
    void spread(const TransferShape& transfer, std::span<const SubchannelStats> up,
                std::uint32_t number, double part) {
        path_shares_.clear();
        for (const SubchannelStats& path : up) {
            if (path.port == number) {
                path_shares_.push_back({&path, path_weights_.known(path.index)});
            }
        }
        TransferShape part_of = transfer;
        part_of.length = std::max<Bytes>(static_cast<Bytes>(part), 1);
        level(part_of, path_shares_);
        shares_.insert(shares_.end(), path_shares_.begin(), path_shares_.end());
    }

    static bool turn_of_spreading(Port& port) {
        if (!port.spread) {
            return false;
        }
        ADAPTIB_INVARIANT(port.look > 0, "the first path of a port is tested in turn", port.trial);
        if (port.trial == 0 && --port.look == 0) {
            port.look = kLook;
            return false;
        }
        return true;
    }

    void learn_of_port(std::uint32_t number, std::span<const StripeTime> times) {
        Port& port = ports_[number];
        path_times_.clear();
        StripeTime all{number, 0, 0, 0};
        for (const StripeTime& time : times) {
            if (time.subchannel < port_of_.size() && port_of_[time.subchannel] == number &&
                time.seconds > 0) {
                path_times_.push_back(time);
                all.length += time.length;
                all.ahead += time.ahead;
                all.seconds = std::max(all.seconds, time.seconds);
            }
        }
        if (path_times_.empty()) {
            return;
        }
        port_times_.push_back(all);
        if (path_times_.size() > 1) {
            path_weights_.learn(path_times_, false);
        }
        const double least = static_cast<double>(all.length) / port.rate;
        const bool whole =
            path_times_.size() == 1 && path_times_.front().subchannel == port.first_index;
        if (least >= kJudged && (whole || path_times_.size() > 1)) {
            judge(port, whole, all.seconds / least);
        }
    }

    static void remember(double& known, double time) {
        known = known == 0 ? time : kMemory * known + (1 - kMemory) * time;
    }

    void judge(Port& port, bool whole, double time) {
        if (whole) {
            remember(port.whole_time, time);
            if (port.spread && port.trial == 0 && time < kAsGood * port.spread_time) {
                end_spreading(port);
            } else if (!port.spread && port.pause > 0) {
                --port.pause;
            } else if (!port.spread && port.whole_time > kSlow) {
                begin_trial(port);
            }
            return;
        }
        remember(port.spread_time, time);
        if (port.trial == 0 || --port.trial > 0) {
            return;
        }
        ADAPTIB_INVARIANT(port.spread, "a port that is on trial spreads", port.first_index);
        if (port.spread_time < kHelps * port.whole_time) {
            port.look = kLook;
            port.next_pause = kFirstPause;
            ++spreading_.spreads;
        } else {
            port.pause = port.next_pause;
            port.next_pause = std::min(2 * port.next_pause, kLongestPause);
            end_spreading(port);
        }
    }

    // Begins with equal shares. Paths with a common bottleneck seem faster the more they carry,
    // since the last stripe has the bottleneck alone. An error learnt in this way in one trial
    // would grow in the next.
    void begin_trial(Port& port) {
        ADAPTIB_INVARIANT(!port.spread && port.trial == 0, "a port has one trial at a time",
                          port.first_index, port.trial);
        const auto number = static_cast<std::uint32_t>(&port - ports_.data());
        for (std::uint32_t i = 0; i < port_of_.size(); ++i) {
            if (port_of_[i] == number) {
                path_weights_.forget(i);
            }
        }
        port.spread = true;
        port.trial = kTrial;
        port.spread_time = 0;
        ++spreading_.trials;
    }

    void end_spreading(Port& port) {
        ADAPTIB_INVARIANT(port.spread, "a port that ends spreading spreads", port.first_index);
        port.spread = false;
        port.whole_time = 0;
        port.trial = 0;
        ++spreading_.fallbacks;
    }

    Bytes min_stripe_;
    WeightsByLength port_weights_;
    PathWeights path_weights_;
    std::vector<Port> ports_;                 // by number
    std::vector<std::uint32_t> port_of_;      // by subchannel
    bool several_paths_ = false;              // some port had several in the last plan
    std::unique_ptr<Policy> of_single_paths_; // plans if not
    std::vector<Share> shares_;               // scratch of plan
    std::vector<Share> port_shares_;          // scratch of plan
    std::vector<Share> path_shares_;          // scratch of plan
    std::vector<StripeTime> port_times_;      // scratch of learn
    std::vector<StripeTime> path_times_;      // scratch of learn
    Spreading spreading_;
};

} // namespace

std::unique_ptr<Policy> make_auto(const SchedulerOptions& options) {
    return std::make_unique<Auto>(options);
}

} // namespace adaptib
