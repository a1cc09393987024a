// SPDX-License-Identifier: BSD-3-Clause
// Faults at their times (simulator/network/timeline.h).
#include "simulator/network/timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

namespace adaptib::sim {

namespace {

using Kind = Fault::Kind;

struct Word {
    Kind kind;
    const char* noun;
    const char* verb;
    bool value; // a number follows
};
constexpr std::array kWords{
    Word{Kind::port_down, "port", "down", false}, Word{Kind::port_up, "port", "up", false},
    Word{Kind::link_down, "link", "down", false}, Word{Kind::link_up, "link", "up", false},
    Word{Kind::slow, "port", "slow", true},       Word{Kind::cut, "host", "group", true},
    Word{Kind::kill, "process", "dies", false},
};

// Number of links of cables. They come first; a link without a reverse one is inside an adapter.
std::size_t cable_directions(const Topology& topology) {
    return static_cast<std::size_t>(
        std::count_if(topology.links.begin(), topology.links.end(),
                      [](const Link& link) { return link.reverse != kNoIndex; }));
}

bool parse(const std::string& line, Fault& out) {
    std::istringstream words(line);
    std::int64_t when = -1;
    std::string noun;
    std::string verb;
    std::string rest;
    if (!(words >> when >> noun >> out.where >> verb) || when < 0) {
        return false;
    }
    out.when = Nanoseconds{when};
    const auto* word = std::find_if(kWords.begin(), kWords.end(), [&](const Word& w) {
        return noun == w.noun && verb == w.verb;
    });
    if (word == kWords.end() || (word->value && !(words >> out.value)) || (words >> rest)) {
        return false;
    }
    out.kind = word->kind;
    return true;
}

} // namespace

std::string to_text(const std::vector<Fault>& faults) {
    std::string text;
    for (const Fault& fault : faults) {
        const auto* word = std::find_if(kWords.begin(), kWords.end(),
                                        [&](const Word& w) { return w.kind == fault.kind; });
        text += std::to_string(fault.when.count()) + " " + word->noun + " " +
                std::to_string(fault.where) + " " + word->verb +
                (word->value ? " " + std::to_string(fault.value) : "") + "\n";
    }
    return text;
}

bool from_text(std::string_view lines, std::vector<Fault>& out, std::string& text) {
    std::vector<Fault> faults;
    std::istringstream input{std::string(lines)};
    std::string line;
    for (int number = 1; std::getline(input, line); ++number) {
        Fault fault;
        if (line.empty() || line[0] == '#') {
            continue;
        }
        if (!parse(line, fault)) {
            text = "line " + std::to_string(number) + ": \"" + line +
                   "\" is no fault. For example: \"1500 port 3 down\", \"1500 port 3 slow 8\", "
                   "\"1500 link 3 up\", \"1500 host 2 group 1\", \"1500 process 4 dies\".";
            return false;
        }
        faults.push_back(fault);
    }
    out = std::move(faults);
    return true;
}

std::vector<Fault> random_faults(const Topology& topology, std::uint32_t processes,
                                 const FaultRates& rates, Random& random) {
    std::vector<Fault> faults;
    const auto number_of = [&](double mean) {
        const double whole = std::floor(mean);
        return static_cast<int>(whole) + (random.unit() < mean - whole ? 1 : 0);
    };
    const auto add = [&](double mean, Kind begins, Kind ends, std::size_t places,
                         std::uint32_t value, std::uint32_t value_after, bool comes_back) {
        for (int i = number_of(mean); i > 0 && places > 0; --i) {
            Fault fault;
            fault.kind = begins;
            fault.value = value;
            fault.where = static_cast<std::uint32_t>(random.below(places));
            fault.when = Nanoseconds{static_cast<std::int64_t>(
                random.unit() * static_cast<double>(rates.until.count()))};
            faults.push_back(fault);
            if (comes_back) {
                fault.kind = ends;
                fault.value = value_after;
                fault.when += Nanoseconds{static_cast<std::int64_t>(
                    2 * random.unit() * static_cast<double>(rates.lasts.count()))};
                faults.push_back(fault);
            }
        }
    };
    add(rates.ports, Kind::port_down, Kind::port_up, topology.ports.size(), 0, 0, true);
    add(rates.links, Kind::link_down, Kind::link_up, cable_directions(topology), 0, 0, true);
    add(rates.slowed, Kind::slow, Kind::slow, topology.ports.size(),
        static_cast<std::uint32_t>(2 + random.below(15)), 1, true);
    add(rates.partitions, Kind::cut, Kind::cut, topology.hosts.size(), 1, 0, true);
    add(rates.deaths, Kind::kill, Kind::kill, processes, 0, 0, false);
    std::stable_sort(faults.begin(), faults.end(),
                     [](const Fault& a, const Fault& b) { return a.when < b.when; });
    return faults;
}

class Timeline::Due final : public Event {
public:
    Due(Timeline& timeline, const Fault& fault) : timeline_(timeline), fault_(fault) {}

private:
    void happen() override { timeline_.apply(fault_); }

    Timeline& timeline_;
    Fault fault_;
};

Timeline::Timeline(World& world) : world_(world) {}

Timeline::~Timeline() = default;

bool Timeline::schedule(World& world, const std::vector<Fault>& faults,
                        std::unique_ptr<Timeline>& out, std::string& text) {
    std::unique_ptr<Timeline> timeline(new Timeline(world));
    for (const Fault& fault : faults) {
        const Topology& topology = world.topology();
        const std::size_t places = fault.kind == Kind::kill  ? world.processes()
                                   : fault.kind == Kind::cut ? topology.hosts.size()
                                   : fault.kind == Kind::link_down || fault.kind == Kind::link_up
                                       ? cable_directions(topology)
                                       : topology.ports.size();
        if (fault.where >= places) {
            text = to_text({fault});
            text.back() = '"'; // replaces the newline
            text.insert(0, "\"");
            text.append(" names what the world has not: it has ")
                .append(std::to_string(places))
                .append(" of them.");
            return false;
        }
        timeline->due_.push_back(std::make_unique<Due>(*timeline, fault));
        world.simulator().schedule(*timeline->due_.back(), fault.when);
    }
    out = std::move(timeline);
    return true;
}

void Timeline::apply(const Fault& fault) {
    switch (fault.kind) {
    case Kind::port_down: world_.set_port(fault.where, false); break;
    case Kind::port_up: world_.set_port(fault.where, true); break;
    case Kind::link_down: world_.set_link(fault.where, false); break;
    case Kind::link_up: world_.set_link(fault.where, true); break;
    case Kind::slow: world_.slow_port(fault.where, fault.value); break;
    case Kind::cut: world_.set_group(fault.where, fault.value); break;
    case Kind::kill: world_.kill(world_.process(fault.where)); break;
    }
}

} // namespace adaptib::sim
