// SPDX-License-Identifier: BSD-3-Clause
// Attempts to make a failing program smaller (simulator/torture/shrink.h).
#include "simulator/torture/shrink.h"

#include <algorithm>
#include <map>
#include <utility>

namespace adaptib::torture {

namespace {

class Shrinker {
public:
    Shrinker(Program program, const std::function<bool(const Program&)>& fails, int trials)
        : best_(std::move(program)), fails_(fails), trials_(trials) {}

    Program shrink() {
        bool smaller = true;
        while (smaller && trials_ > 0) {
            smaller = drop_operations();
            smaller = drop_ranks() || smaller;
            smaller = drop_endpoints() || smaller;
            smaller = drop_settings(&Program::settings) || smaller;
            smaller = drop_settings(&Program::world) || smaller;
            smaller = drop_settings(&Program::faults) || smaller;
            smaller = simplify_operations() || smaller;
        }
        return best_;
    }

private:
    // Leaving an operation out changes the turns of all that follow, so other schedules are tried,
    // too.
    bool accept(Program smaller) {
        constexpr int kSchedules = 4;
        for (int i = 0; i < kSchedules && trials_-- > 0; ++i, ++smaller.schedule) {
            if (fails_(smaller)) {
                best_ = std::move(smaller);
                return true;
            }
        }
        return false;
    }

    bool drop_operations() {
        bool dropped = false;
        for (std::size_t chunk = std::max<std::size_t>(1, best_.operations.size() / 2); chunk > 0;
             chunk /= 2) {
            for (std::size_t at = 0; at < best_.operations.size() && trials_ > 0;) {
                Program smaller = best_;
                const auto first = smaller.operations.begin() + static_cast<std::ptrdiff_t>(at);
                const auto length = std::min(chunk, smaller.operations.size() - at);
                smaller.operations.erase(first, first + static_cast<std::ptrdiff_t>(length));
                if (accept(smaller)) {
                    dropped = true;
                } else {
                    at += chunk;
                }
            }
        }
        return dropped;
    }

    // Drops ranks that take part in nothing, and renumbers the others.
    bool drop_ranks() {
        std::map<std::uint32_t, std::uint32_t> number;
        for (const Operation& operation : best_.operations) {
            number[operation.rank];
            if (operation.peer >= 0) {
                number[static_cast<std::uint32_t>(operation.peer)];
            }
        }
        std::uint32_t next = 0;
        for (auto& [rank, to] : number) {
            to = next++;
        }
        if (next == best_.ranks || next == 0) {
            return false;
        }
        Program smaller = best_;
        smaller.ranks = next;
        drop_endpoints_of(smaller, number);
        drop_settings_of(smaller.settings, number);
        drop_settings_of(smaller.faults, number);
        for (Operation& operation : smaller.operations) {
            operation.rank = number[operation.rank];
            if (operation.peer >= 0) {
                operation.peer =
                    static_cast<std::int32_t>(number[static_cast<std::uint32_t>(operation.peer)]);
            }
        }
        return accept(smaller);
    }

    // Leaves the processes with the endpoints that are among the ranks `kept`.
    static void drop_endpoints_of(Program& program,
                                  const std::map<std::uint32_t, std::uint32_t>& kept) {
        std::uint32_t rank = 0;
        for (std::uint32_t& count : program.endpoints) {
            const auto first = kept.lower_bound(rank);
            rank += std::exchange(count, 0);
            count = static_cast<std::uint32_t>(std::distance(first, kept.lower_bound(rank)));
        }
        std::erase(program.endpoints, 0u);
    }

    // Renumbers the ranks of settings, and drops those of other ranks.
    static void drop_settings_of(std::vector<Setting>& list,
                                 const std::map<std::uint32_t, std::uint32_t>& number) {
        std::vector<Setting> kept;
        for (Setting setting : list) {
            const auto found = number.find(static_cast<std::uint32_t>(setting.rank));
            if (found != number.end()) {
                setting.rank = static_cast<std::int32_t>(found->second);
            }
            if (found != number.end() || setting.rank == Setting::kAllRanks) {
                kept.push_back(setting);
            }
        }
        list = std::move(kept);
    }

    // Makes each rank a process.
    bool drop_endpoints() {
        Program smaller = best_;
        smaller.endpoints.clear();
        return !best_.endpoints.empty() && accept(smaller);
    }

    bool drop_settings(std::vector<Setting> Program::*list) {
        bool dropped = false;
        for (std::size_t at = 0; at < (best_.*list).size();) {
            Program smaller = best_;
            auto& settings = smaller.*list;
            std::string problem;
            if (settings[at].name == "machine") {
                ++at; // without a machine there is no world
                continue;
            }
            settings.erase(settings.begin() + static_cast<std::ptrdiff_t>(at));
            if (smaller.check_all_parameters(problem) && accept(smaller)) {
                dropped = true;
            } else {
                ++at;
            }
        }
        return dropped;
    }

    bool simplify_operations() {
        bool simpler = false;
        for (std::size_t at = 0; at < best_.operations.size() && trials_ > 0; ++at) {
            simpler = simplify(at, [](Operation& o) { o.element = o.stride = 0; }) || simpler;
            simpler = simplify(at, [](Operation& o) { o.own_key = 0; }) || simpler;
            simpler = simplify(at, [](Operation& o) { o.bytes = 0; }) || simpler;
            simpler = simplify(at, [](Operation& o) { o.bytes /= 2; }) || simpler;
            simpler = simplify(at, [](Operation& o) { o.bytes -= std::min<Bytes>(o.bytes, 1); }) ||
                      simpler;
            simpler = simplify(at, [](Operation& o) { o.offset = 0; }) || simpler;
            simpler = simplify(at,
                               [](Operation& o) {
                                   if (o.verb == Verb::wait || o.verb == Verb::compute) {
                                       o.amount = std::min<std::uint64_t>(o.amount, 1);
                                   }
                               }) ||
                      simpler;
        }
        return simpler;
    }
    template <class Change> bool simplify(std::size_t at, Change&& change) {
        Program smaller = best_;
        change(smaller.operations[at]);
        return smaller.operations[at] != best_.operations[at] && accept(smaller);
    }

    Program best_;
    const std::function<bool(const Program&)>& fails_;
    int trials_;
};

} // namespace

Program shrink(Program program, const std::function<bool(const Program&)>& fails, int trials) {
    return Shrinker(std::move(program), fails, trials).shrink();
}

} // namespace adaptib::torture
