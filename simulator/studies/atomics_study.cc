// SPDX-License-Identifier: BSD-3-Clause
// Atomics executed by adapters, or by the process that owns the memory (the parameter `atomics`).
//
// Measured: a fetch-and-add of one process at a time, to another host, until the old value has
// arrived; and 1 to 15 hosts that add to one counter, with 8 additions under way at each. All
// processes are in calls of MPI all the time, so a target serves as soon as its core runs; a target
// that computes would not, which no table shows. Machine model `connect-ib`, complete cores, two
// adapters per host.
// Bounds (--check):
//   every addition counts once, and each returns a value of its own
//   one at a time, target-assisted additions take 1.36 times as long as the adapter's, within 3 %
#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "simulator/studies/simulated_ranks.h"
#include "simulator/studies/study.h"

namespace {

using namespace adaptib;
using namespace adaptib::study;
using namespace std::chrono_literals;

constexpr std::uint64_t kWarm = 100; // additions of each origin before the timed ones

class Counter {
public:
    Counter(const Study& study, const char* atomics, std::size_t origins, std::size_t under_way)
        : study_(study), old_(origins), slots_(origins * under_way) {
        sim::RanksOptions options;
        options.ranks = origins + 1;
        options.seed = options.world.seed = study.seed();
        options.world.machine = *sim::machine("connect-ib");
        options.world.topology =
            sim::crossbar(static_cast<std::uint32_t>(options.ranks), {.adapters = 2},
                          sim::links_of(options.world.machine));
        options.parameters.atomics = const_cast<char*>(atomics);
        options.program = [this](std::size_t rank) { go_on(rank); };
        ranks_ = routed_ranks(study, std::move(options));
        Protocol& protocol = ranks_->below().core(0).protocol();
        if (!protocol.memory()
                 .open_window(window_, &word_, sizeof word_, kLocalWrite | kRemoteAtomic)
                 .ok()) {
            study.fail("the counter cannot be registered");
        }
        remote_.base = reinterpret_cast<std::uintptr_t>(&word_);
        remote_.bytes = sizeof word_;
        remote_.access = protocol.one_sided().advertised_access(OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC);
        remote_.key_count = window_.memory().key_count();
        window_.memory().copy_remote_keys(remote_.keys);
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            slots_[i].owner = this;
            slots_[i].rank = 1 + i % origins;
        }
        for (std::size_t i = 0; i < origins; ++i) { // once, as for a program's windows
            if (!keys_.emplace_back()
                     .make(ranks_->below().core(i + 1).rails(), slots_.data(),
                           slots_.size() * sizeof(Slot), kLocalWrite)
                     .ok()) {
                study.fail("memory for old values cannot be registered");
            }
        }
    }

    // Microseconds per addition, with `each` additions per origin.
    double run(std::uint64_t each) {
        play(kWarm);
        const Nanoseconds begin = ranks_->now(1);
        play(each);
        const double all = static_cast<double>(each * old_.size());
        return 1e-3 * static_cast<double>((last_ - begin).count()) / all;
    }
    // Number of additions that did not count once, or that failed.
    std::uint64_t wrong() {
        std::vector<std::uint64_t> seen;
        for (const auto& of_one : old_) {
            seen.insert(seen.end(), of_one.begin(), of_one.end());
        }
        std::sort(seen.begin(), seen.end());
        std::uint64_t count = bad_ + (word_ == seen.size() ? 0 : 1);
        for (std::uint64_t i = 0; i < seen.size(); ++i) {
            count += seen[i] == i ? 0 : 1;
        }
        return count;
    }

private:
    struct Slot {
        UserRequest user{}; // first member: the core returns a pointer to it
        Counter* owner = nullptr;
        std::size_t rank = 0;
        std::uint64_t old = 0;
        bool busy = false;
    };

    static void completed(UserRequest* user) {
        auto* slot = reinterpret_cast<Slot*>(user);
        slot->owner->take(*slot);
    }
    void take(Slot& slot) {
        slot.busy = false;
        --busy_;
        bad_ += slot.user.status == OPAL_COMMON_ADAPTIB_SUCCESS ? 0 : 1;
        old_[slot.rank - 1].push_back(slot.old);
        last_ = std::max(last_, ranks_->now(static_cast<std::uint32_t>(slot.rank)));
    }
    void play(std::uint64_t each) {
        goal_ += each;
        for (std::size_t rank = 1; rank <= old_.size(); ++rank) {
            ranks_->below().wake(rank);
        }
        const bool ended = ranks_->below().run_until(
            [&] {
                return busy_ == 0 && std::all_of(old_.begin(), old_.end(), [&](const auto& of) {
                           return of.size() == goal_;
                       });
            },
            60s);
        if (!ended) {
            study_.fail("additions did not end");
        }
    }
    void go_on(std::size_t rank) {
        for (Slot& slot : slots_) {
            while (slot.rank == rank && !slot.busy && started(rank) < goal_) {
                start(slot);
            }
        }
    }
    std::uint64_t started(std::size_t rank) const {
        return old_[rank - 1].size() + static_cast<std::uint64_t>(std::count_if(
                                           slots_.begin(), slots_.end(), [&](const Slot& slot) {
                                               return slot.rank == rank && slot.busy;
                                           }));
    }
    void start(Slot& slot) {
        const opal_common_adaptib_one_sided_t what{
            OPAL_COMMON_ADAPTIB_FETCH_ADD, &slot.old, nullptr, remote_.base, &remote_,
            sizeof(std::uint64_t),         1,         0};
        bool complete = false;
        slot.user.complete = completed;
        slot.busy = true;
        ++busy_;
        const Status status = ranks_->below().core(slot.rank).protocol().one_sided().start(
            *ranks_->below().peer(slot.rank, 0), what, &keys_[slot.rank - 1], slot.user, complete);
        ranks_->below().core(slot.rank).protocol().ask_for_connections();
        if (!status.ok()) {
            study_.fail("an addition cannot be started");
        }
        if (complete) {
            take(slot);
        }
    }

    const Study& study_;
    std::uint64_t word_ = 0;
    std::vector<std::vector<std::uint64_t>> old_; // by origin
    std::vector<Slot> slots_;
    std::unique_ptr<SimulatedRanks> ranks_;
    OpenWindow window_; // ends before the ranks, as the keys do
    std::deque<Registration> keys_;
    opal_common_adaptib_remote_t remote_{};
    std::uint64_t goal_ = 0;
    std::uint64_t bad_ = 0;
    std::size_t busy_ = 0;
    Nanoseconds last_{0};
};

} // namespace

int main(int argc, char** argv) {
    Study study("atomics", "Atomics of adapters, and of the target",
                "machine model connect-ib, two adapters");
    study.parse(argc, argv);
    const std::uint64_t each = study.quick() ? 200 : 2000;
    constexpr std::array kWays{"adapter", "target"};
    std::array<double, 2> alone{};
    std::uint64_t wrong = 0;
    for (std::size_t way = 0; way < kWays.size(); ++way) {
        Counter counter(study, kWays[way], 1, 1);
        alone[way] = counter.run(each);
        wrong += counter.wrong();
        study.row(std::string("fetch-and-add, one at a time, ") + kWays[way], "us", alone[way]);
    }
    const double ratio = alone[1] / alone[0];
    study.row("  the target's, of the adapter's", "", ratio, {}, around(1.36, 0.03));
    Panel panel;
    panel.title = "Additions to one counter";
    panel.unit = "M/s";
    panel.log = panel.bytes = false;
    for (const char* way : kWays) {
        for (const std::size_t origins :
             {std::size_t{1}, std::size_t{3}, std::size_t{7}, std::size_t{15}}) {
            Counter counter(study, way, origins, 8);
            const double rate = 1 / counter.run(each);
            wrong += counter.wrong();
            panel[way].points.emplace_back(static_cast<double>(origins), rate);
            study.row(std::to_string(origins) + " origins, 8 under way each, " + way, "M/s", rate);
        }
    }
    study.row("additions lost, doubled or wrong", "", static_cast<double>(wrong), {}, Bound{0, 0});
    study.note(
        "The model's adapters serve several queue pairs side by side, one word or not; real ones "
        "do not.");
    study.panel(panel);
    return study.finish("a fetch-and-add takes " + number_text(alone[0]) + " us by the adapter, " +
                        number_text(alone[1]) + " us by the target: " + number_text(ratio) +
                        " times");
}
