// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/torture/spread.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "simulator/torture/endpoints.h"

namespace adaptib::torture {

namespace {

class Spread {
public:
    Spread(Program& program, std::uint64_t seed) : program_(program), random_(seed) {}

    void run() {
        draw_counts();
        one_thread_ = !program_.world.empty() && random_.below(2) == 0;
        if (one_thread_) {
            program_.world.push_back({"one_thread", "1"});
        }
        std::vector<Operation> all;
        for (Operation& operation : program_.operations) {
            place(operation, all);
        }
        program_.operations = std::move(all);
    }

private:
    // Gives one process several endpoints at least, but all together not too many.
    void draw_counts() {
        constexpr std::array<std::uint32_t, 3> kCounts{1, 2, 4};
        constexpr std::uint32_t kMostRanks = 40;
        auto& counts = program_.endpoints;
        counts.assign(program_.ranks, 1);
        std::uint32_t ranks = program_.ranks;
        const auto give = [&](std::uint32_t process, std::uint32_t count) {
            if (ranks - counts[process] + count <= kMostRanks) {
                ranks += count - counts[process];
                counts[process] = count;
            }
        };
        for (std::uint32_t process = 0; process < counts.size(); ++process) {
            give(process, kCounts[random_.below(kCounts.size())]);
        }
        if (ranks == counts.size()) {
            give(static_cast<std::uint32_t>(random_.below(counts.size())), 4);
        }
        program_.ranks = ranks;
        endpoints_ = sim::Endpoints(ranks, counts);
    }

    std::uint32_t number() { return static_cast<std::uint32_t>(random_.below(4)); }

    void place(Operation& operation, std::vector<Operation>& all) {
        switch (operation.verb) {
        case Verb::send:
        case Verb::ssend:
        case Verb::receive:
        case Verb::probe:
        case Verb::claim: {
            const auto [known, is_new] = of_context_.try_emplace(operation.context, 0);
            if (is_new) {
                known->second = number();
            }
            place(operation, known->second, known->second);
            break;
        }
        case Verb::wait:
        case Verb::cancel: operation.rank = of_operation_[operation.id]; break;
        case Verb::end: operation.rank = endpoints_.rank(operation.rank, 0); break;
        case Verb::compute:
            if (!one_thread_ && random_.below(2) == 0) { // all threads of the process compute
                const std::uint32_t process = operation.rank;
                for (std::uint32_t i = 0; i + 1 < endpoints_.count(process); ++i) {
                    operation.rank = endpoints_.rank(process, i);
                    all.push_back(operation);
                }
                operation.rank = endpoints_.rank(process, endpoints_.count(process) - 1);
            } else {
                operation.rank = endpoints_.rank(operation.rank, number());
            }
            break;
        case Verb::release: {
            const bool answers = released_.rank == static_cast<std::uint32_t>(operation.peer) &&
                                 released_.peer == static_cast<std::int32_t>(operation.rank);
            released_ = operation;
            released_at_ = answers ? released_at_ : number();
            place(operation, released_at_, released_at_);
            break;
        }
        case Verb::active:
        case Verb::put:
        case Verb::get:
        case Verb::add:
        case Verb::swap:
        case Verb::promote:
        case Verb::demote: {
            const std::uint32_t from = number();
            const bool own = operation.peer == static_cast<std::int32_t>(operation.rank);
            place(operation, from, own || random_.below(2) == 0 ? from : number());
            break;
        }
        }
        of_operation_.try_emplace(operation.id, operation.rank);
        all.push_back(operation);
    }
    void place(Operation& operation, std::uint32_t from, std::uint32_t to) {
        operation.rank = endpoints_.rank(operation.rank, from);
        if (operation.peer >= 0) { // else any source
            operation.peer = static_cast<std::int32_t>(
                endpoints_.rank(static_cast<std::uint32_t>(operation.peer), to));
        }
    }

    Program& program_;
    Random random_;
    sim::Endpoints endpoints_;
    bool one_thread_ = false; // of each process, which has the turns of all its endpoints
    std::map<std::uint32_t, std::uint32_t> of_context_;
    std::map<std::uint32_t, std::uint32_t> of_operation_; // rank of each, by id
    Operation released_;                                  // the last one, before it was placed
    std::uint32_t released_at_ = 0;
};

} // namespace

void spread_over_endpoints(Program& program, std::uint64_t seed) { Spread(program, seed).run(); }

} // namespace adaptib::torture
