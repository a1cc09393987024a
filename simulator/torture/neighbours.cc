// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/torture/neighbours.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace adaptib::torture {

namespace {

constexpr std::uint64_t kShortest = 250; // ns; times are this, doubled up to kDoublings times
constexpr std::uint64_t kDoublings = 16;

// A connection of a rank to itself has no other path, and is not repaired.
bool uses_itself(const Program& program) {
    return std::any_of(program.operations.begin(), program.operations.end(), [](const auto& each) {
        return (each.verb == Verb::put || each.verb == Verb::get || each.verb == Verb::add ||
                each.verb == Verb::swap) &&
               each.peer == static_cast<std::int32_t>(each.rank);
    });
}

std::uint32_t ports_of_a_host(const Program& program) {
    std::uint32_t count = 1;
    for (const Setting& each : program.world) {
        count *= each.name == "adapters" || each.name == "ports"
                     ? static_cast<std::uint32_t>(std::stoul(each.value))
                     : 1;
    }
    return count;
}

} // namespace

Program Neighbours::prepared(Program program) {
    if (!program.world.empty()) { // an adapter's could end with an error
        std::erase_if(program.settings, [](const Setting& each) { return each.name == "atomics"; });
        program.settings.push_back({"atomics", "target"});
    }
    return program;
}

Program Neighbours::numbered(Program program) {
    if (!program.world.empty() && !has_setting(program.world, "datagram_loss")) {
        program.world.push_back({"datagram_loss", "0"});
    }
    return prepared(std::move(program));
}

Neighbours::Neighbours(Program program, const Outcome& outcome) : program_(std::move(program)) {
    if (has_setting(program_.world, "datagram_loss")) {
        add_datagrams(outcome.datagrams);
    }
    add_faults();
    if (!program_.world.empty()) {
        add_timed(outcome.time);
    }
    add_pairs();
}

void Neighbours::add(std::vector<Setting> Program::*list, const std::string& name,
                     std::uint64_t value, std::int32_t rank, bool is_time) {
    changes_.push_back({list, {name, std::to_string(value), rank}, is_time});
}

void Neighbours::apply(const Change& change, Program& program) {
    (program.*change.list).push_back(change.setting);
    const bool kills = change.setting.name.find("death_") != std::string::npos;
    const std::uint64_t patience = program.least_patience();
    if (kills && patience > 0) { // who waits for the dead waits so long
        program.settings.push_back({"partition_timeout", std::to_string(patience)});
    }
}

void Neighbours::add_datagrams(std::uint64_t count) {
    constexpr std::uint64_t kMost = 200;
    for (std::uint64_t i = 1; i <= std::min(count, kMost); ++i) {
        const std::string number = std::to_string(i);
        add(&Program::world, "lost_" + number, 1);
        for (const char* kind : {"late_", "twice_"}) {
            for (std::uint64_t doublings = 0; doublings <= kDoublings; ++doublings) {
                add(&Program::world, kind + number, kShortest << doublings, Setting::kAllRanks,
                    true);
            }
        }
    }
}

void Neighbours::add_faults() {
    struct Kind {
        const char* name;
        std::uint64_t most;
        bool fails; // something that datagrams without numbers, or shared memory, do not have
    };
    constexpr std::array<Kind, 7> kKinds{{{"completion_delayed", 30, false},
                                          {"send_refused", 30, false},
                                          {"commit_fails", 10, false},
                                          {"request_fails", 30, true},
                                          {"request_fails_done", 30, true},
                                          {"create_qp_fails", 10, true},
                                          {"modify_fails", 20, true}}};
    const bool may_fail = has_setting(program_.world, "datagram_loss") && !uses_itself(program_);
    for (const auto& [name, most, fails] : kKinds) {
        for (std::uint64_t nth = 1; nth <= most && (may_fail || !fails); ++nth) {
            for (std::uint32_t rank = 0; rank < program_.ranks; ++rank) {
                add(&Program::faults, name + std::string("_nth"), nth,
                    static_cast<std::int32_t>(rank));
            }
        }
    }
}

void Neighbours::add_timed(Nanoseconds until) {
    constexpr std::uint64_t kTimes = 40;
    constexpr std::int64_t kMost = 20'000'000; // ns; what comes later waits for time
    const auto last = static_cast<std::uint64_t>(std::min(until.count(), kMost));
    std::vector<std::string> kinds{"pause_"};
    if (has_setting(program_.world, "datagram_loss")) {
        kinds.insert(kinds.end(), {"outage_", "silence_", "told_death_"});
        if (!program_.lacks_responders()) { // else who only receives never knows
            kinds.emplace_back("death_");
        }
    }
    const auto add_kind = [&](const std::string& kind, std::uint32_t count) {
        for (std::uint32_t which = 0; which < count; ++which) {
            for (std::uint64_t i = 1; i <= kTimes; ++i) {
                add(&Program::world, kind + std::to_string(which), last * i / kTimes,
                    Setting::kAllRanks, true);
            }
        }
    };
    for (const std::string& kind : kinds) {
        add_kind(kind, program_.ranks);
    }
    // Ports of two hosts that get another address at the same time do not find each other.
    const auto& around = program_.around;
    if (std::find(around.begin(), around.end(), "address") != around.end()) {
        add_kind("address_", ports_of_a_host(program_));
    }
}

void Neighbours::add_pairs() {
    const auto is_of = [this](std::uint32_t change, const std::string& kind) {
        const std::string& name = changes_[change].setting.name;
        return name.starts_with(kind + "_") &&
               name.find_first_not_of("0123456789nth", kind.size() + 1) == std::string::npos;
    };
    const auto count = static_cast<std::uint32_t>(changes_.size());
    for (std::size_t i = 0; i + 1 < program_.around.size(); i += 2) {
        for (std::uint32_t one = 0; one < count; ++one) {
            for (std::uint32_t other = 0; other < count && is_of(one, program_.around[i]);
                 ++other) {
                if (one != other && is_of(other, program_.around[i + 1])) {
                    pairs_.emplace_back(one, other);
                }
            }
        }
    }
}

Program Neighbours::at(std::uint64_t number) const {
    Program program = program_;
    if (number < changes_.size()) {
        apply(changes_[number], program);
    } else {
        const auto [one, other] = pairs_[number - changes_.size()];
        apply(changes_[one], program);
        apply(changes_[other], program);
    }
    return program;
}

Program Neighbours::pair(std::uint64_t seed) const {
    Random random(seed);
    Program program = program_;
    for (std::uint64_t left = random.below(8) == 0 ? 3 : 2; left > 0; --left) {
        Change change = changes_[random.below(changes_.size())];
        if (change.is_time) { // any, not just those of the single ones
            const std::uint64_t value = std::stoull(change.setting.value);
            change.setting.value = std::to_string(value / 2 + random.below(value + 1));
        }
        apply(change, program);
    }
    return program;
}

} // namespace adaptib::torture
