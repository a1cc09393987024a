// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/torture/happenings.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "simulator/torture/address_changes.h"

namespace adaptib::torture {

namespace {

// Returns true if `name` is `prefix` and a number.
bool split(const std::string& name, std::string_view prefix, std::uint64_t& number) {
    if (!name.starts_with(prefix) || name.size() == prefix.size()) {
        return false;
    }
    const std::string digits = name.substr(prefix.size());
    if (digits.find_first_not_of("0123456789") != std::string::npos) {
        return false;
    }
    number = std::stoull(digits);
    return true;
}

} // namespace

std::vector<sim::PortIndex> host_ports(const sim::World& world) {
    std::vector<sim::PortIndex> all;
    for (const sim::Host& host : world.topology().hosts) {
        all.insert(all.end(), host.ports.begin(), host.ports.end());
    }
    return all;
}

void set_works(sim::World& world, sim::PortIndex port, Outage how, bool works) {
    if (how == Outage::silent) {
        world.set_link(world.topology().ports[port].link, works);
    } else {
        world.set_port(port, works);
    }
}

void Happenings::read(const std::vector<Setting>& world) {
    for (const Setting& setting : world) {
        const std::string& name = setting.name;
        std::uint64_t number = 0;
        const auto time = [&] { return Nanoseconds{std::stoll(setting.value)}; };
        if (split(name, "late_", number)) {
            fates_[number].later = time();
        } else if (split(name, "twice_", number)) {
            fates_[number].twice = true;
            fates_[number].second = time();
        } else if (split(name, "lost_", number)) {
            fates_[number].lost = true;
        } else if (split(name, "outage_", number)) {
            timed_.push_back({Kind::outage, number, time()});
        } else if (split(name, "silence_", number)) {
            timed_.push_back({Kind::silence, number, time()});
        } else if (split(name, "address_", number)) {
            timed_.push_back({Kind::address, number, time()});
        } else if (split(name, "pause_", number)) {
            timed_.push_back({Kind::pause, number, time()});
        } else if (split(name, "death_", number)) {
            timed_.push_back({Kind::death, number, time()});
        } else if (split(name, "told_death_", number)) {
            timed_.push_back({Kind::told_death, number, time()});
        } else if (name == "outage_lasts") {
            outage_lasts_ = time();
        } else if (name == "pause_lasts") {
            pause_lasts_ = time();
        }
    }
}

bool Happenings::outages() const {
    return std::any_of(timed_.begin(), timed_.end(),
                       [](const Timed& each) { return each.ends() || each.kind == Kind::address; });
}

bool Happenings::addresses() const {
    return std::any_of(timed_.begin(), timed_.end(),
                       [](const Timed& each) { return each.kind == Kind::address; });
}

bool Happenings::deaths() const {
    return std::any_of(timed_.begin(), timed_.end(),
                       [](const Timed& each) { return each.kills(); });
}

bool Happenings::untold_deaths() const {
    return std::any_of(timed_.begin(), timed_.end(),
                       [](const Timed& each) { return each.kind == Kind::death; });
}

void Happenings::begin(sim::Ranks& ranks, std::function<void(std::uint32_t, bool)> died) {
    ranks_ = &ranks;
    died_ = std::move(died);
    for (const Timed& each : timed_) {
        sim::Simulator& simulator = ranks.world().simulator();
        simulator.schedule(changes_.emplace_back(*this, each, false), each.at);
        if (each.ends()) {
            simulator.schedule(changes_.emplace_back(*this, each, true), each.at + outage_lasts_);
        }
    }
}

void Happenings::Change::happen() {
    sim::World& world = owner.ranks_->world();
    const Nanoseconds now = world.simulator().now();
    if (what.kind == Kind::pause) {
        const std::size_t rank = what.number % owner.ranks_->size();
        owner.ranks_->compute(rank, owner.pause_lasts_);
        owner.last_ = std::max(owner.last_, now + owner.pause_lasts_);
        return;
    }
    owner.last_ = std::max(owner.last_, now);
    if (what.kills()) {
        const std::size_t rank = what.number % owner.ranks_->size();
        owner.ranks_->kill(rank);
        owner.died_(static_cast<std::uint32_t>(rank), what.kind == Kind::told_death);
        return;
    }
    const std::vector<sim::PortIndex> all = host_ports(world);
    const sim::PortIndex port = all[what.number % all.size()];
    if (what.kind == Kind::address) {
        give_new_lid(world, port);
        return;
    }
    set_works(world, port, what.kind == Kind::silence ? Outage::silent : Outage::reported, end);
}

sim::Fate Happenings::fate() {
    const auto its = fates_.find(++datagrams_);
    return its == fates_.end() ? sim::Fate{} : its->second;
}

} // namespace adaptib::torture
