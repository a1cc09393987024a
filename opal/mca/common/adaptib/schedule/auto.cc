// SPDX-License-Identifier: BSD-3-Clause
// Striping as the routes need it: over ports always, over the paths of one port only while that helps.
//
// Ports add their rates up: a transfer is cut in proportion to what is learnt of each (as adaptive does). The
// paths of one port share its rate: one of them, the first, carries all as long as it is about as fast as the
// port. Where it is slow, all paths of the port are tried, in proportion to learnt weights, for a few
// transfers; where these were not clearly faster it is back to the first path, and the next trial comes later
// each time. While spread, the first path is looked at now and then: routes that are free again are as good,
// and one stripe costs less than many.
// A time tells how fast a path is only where it is long against what a request takes anyway: transfers that
// the port carries in less than kJudged are not judged, and do not spread; they take the fastest path known.
// Source: the rules are ours, beyond Vishnu 7.1 and 8.2, which always spread; test/study/hot_spots_study.cc
// and contention_free_study.cc have what they gain and cost.
#include "schedule/policies.h"

namespace adaptib {

namespace {

constexpr double kJudged = 25e-6; // seconds at the port's rate
constexpr double kSlow = 1.2;     // times what the port's rate allows
constexpr double kHelps = 0.95;   // of the time on the first path
constexpr double kAsGood = 1.05;  // of the time when spread
constexpr double kMemory = 0.5;   // of what is known, against a new time
constexpr double kAgeing = 1.0 / 32;
constexpr std::uint32_t kTrial = 4; // transfers
constexpr std::uint32_t kFirstPause = 8;
constexpr std::uint32_t kLongestPause = 1024;
constexpr std::uint32_t kLook = 64; // spread: transfers between looks at the first path

class Auto final : public Policy {
public:
    explicit Auto(const SchedulerOptions& options)
        : min_stripe_(options.min_stripe), port_weights_(options.alpha, kAgeing),
          path_weights_(options.alpha, kAgeing) {}

    bool learns_from_whole() const override { return true; }

    void plan(const TransferView& transfer, std::span<const SubchannelView> up,
              std::vector<Stripe>& out) override {
        gather(up);
        double weights = 0;
        for (const Port& port : ports_) {
            if (port.first != nullptr) {
                weights += port_weights_.of(port.first->port, port.rate);
            }
        }
        shares_.clear();
        for (Port& port : ports_) {
            if (port.first == nullptr) {
                continue;
            }
            const double weight = port_weights_.known(port.first->port);
            const double part = static_cast<double>(transfer.length) * (weight / weights);
            const bool judged = part >= port.rate * kJudged;
            if (port.paths == 1 || !judged || !turn_of_spreading(port)) {
                shares_.push_back({judged ? port.first : port.heaviest, weight});
                continue;
            }
            for (const SubchannelView& path : up) {
                if (path.port == port.first->port) {
                    const double of_port = path_weights_.known(path.index) / port.weight;
                    shares_.push_back({&path, weight * of_port});
                }
            }
        }
        divide(transfer.length, min_stripe_, shares_, out);
    }

    void learn(std::span<const StripeTime> times) override {
        port_times_.clear();
        for (std::uint32_t number = 0; number < ports_.size(); ++number) {
            learn_of_port(number, times);
        }
        if (port_times_.size() > 1) {
            port_weights_.learn(port_times_);
        }
    }

    double weight(std::uint32_t subchannel) const override {
        if (subchannel >= port_of_.size()) {
            return 0;
        }
        const std::uint32_t number = port_of_[subchannel];
        const double share = port_weights_.known(number) / std::max(1.0, port_weights_.sum());
        const Port& port = ports_[number];
        if (!port.spread) {
            return subchannel == port.first_index ? share : 0;
        }
        return share * path_weights_.known(subchannel) / port.weight;
    }
    Spreading spreading() const override { return spreading_; }

private:
    struct Port {
        // Of the transfer that is planned:
        const SubchannelView* first = nullptr;
        const SubchannelView* heaviest = nullptr;
        std::uint32_t paths = 0;
        double weight = 0; // of its paths, together
        // Known:
        std::uint32_t first_index = 0;
        double rate = 1;
        bool spread = false;
        double whole_time = 0;   // on the first path, of what the rate allows; 0: not known
        double spread_time = 0;  // over all
        std::uint32_t trial = 0; // transfers left
        std::uint32_t pause = 0;
        std::uint32_t next_pause = kFirstPause;
        std::uint32_t look = kLook;
    };

    // Which paths each port has now.
    void gather(std::span<const SubchannelView> up) {
        for (Port& port : ports_) {
            port.first = nullptr;
            port.paths = 0;
            port.weight = 0;
        }
        for (const SubchannelView& path : up) {
            if (path.port >= ports_.size()) {
                ports_.resize(path.port + 1);
            }
            if (path.index >= port_of_.size()) {
                port_of_.resize(path.index + 1);
            }
            port_of_[path.index] = path.port;
            Port& port = ports_[path.port];
            const double weight = path_weights_.of(path.index, 1.0);
            if (port.first == nullptr) {
                port.first = port.heaviest = &path;
                port.first_index = path.index;
                port.rate = std::max(1.0, static_cast<double>(path.rate.value));
            } else if (weight > path_weights_.known(port.heaviest->index)) {
                port.heaviest = &path;
            }
            ++port.paths;
            port.weight += weight;
        }
    }

    static bool turn_of_spreading(Port& port) {
        if (!port.spread) {
            return false;
        }
        if (port.trial == 0 && --port.look == 0) {
            port.look = kLook;
            return false;
        }
        return true;
    }

    void learn_of_port(std::uint32_t number, std::span<const StripeTime> times) {
        Port& port = ports_[number];
        path_times_.clear();
        StripeTime all{number, 0, 0};
        for (const StripeTime& time : times) {
            if (time.subchannel < port_of_.size() && port_of_[time.subchannel] == number &&
                time.seconds > 0) {
                path_times_.push_back(time);
                all.length += time.length;
                all.seconds = std::max(all.seconds, time.seconds);
            }
        }
        if (path_times_.empty()) {
            return;
        }
        port_times_.push_back(all);
        if (path_times_.size() > 1) {
            path_weights_.learn(path_times_);
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
                port.spread = true;
                port.trial = kTrial;
                port.spread_time = 0;
                ++spreading_.trials;
            }
            return;
        }
        remember(port.spread_time, time);
        if (port.trial == 0 || --port.trial > 0) {
            return;
        }
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

    void end_spreading(Port& port) {
        port.spread = false;
        port.whole_time = 0;
        port.trial = 0;
        ++spreading_.fallbacks;
    }

    Bytes min_stripe_;
    PathWeights port_weights_;
    PathWeights path_weights_;
    std::vector<Port> ports_;            // by number
    std::vector<std::uint32_t> port_of_; // by subchannel
    std::vector<Share> shares_;          // scratch of plan
    std::vector<StripeTime> port_times_; // scratch of learn
    std::vector<StripeTime> path_times_; //
    Spreading spreading_;
};

} // namespace

std::unique_ptr<Policy> make_auto(const SchedulerOptions& options) {
    return std::make_unique<Auto>(options);
}

} // namespace adaptib
