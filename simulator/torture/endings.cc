// SPDX-License-Identifier: BSD-3-Clause
// Processes that end before the others, in good order or without a word
// (simulator/torture/runner.h).
#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/process_name.h"
#include "simulator/torture/runner.h"

namespace adaptib::torture {

// A process ends as one does that calls MPI_Finalize, or that was spawned: it disconnects from all
// peers, or from some, which release it as well, at the same time or once it is gone; the others
// are told that it leaves. Returns false while that lasts. A process with which others have still
// to do something for long lives on.
bool Runner::end(Rank& self, const Operation& operation) {
    constexpr std::uint64_t kTries = 60;
    constexpr std::uint64_t kDoublings = 18; // of the pause between two tries
    if (program_.world.empty() || (++self.turns > kTries && self.ending == Ending::none)) {
        return true;
    }
    self.pause = std::uint64_t{1} << std::min(self.turns, kDoublings);
    const std::uint32_t process = driver_->endpoints().process(operation.rank);
    switch (self.ending) {
    case Ending::none:
        if (is_over(process)) {
            disconnect(process);
            self.ending = Ending::disconnecting;
            self.ending_since = driver_->time();
            self.turns = 0;
        }
        return false;
    case Ending::disconnecting:
        if (has_sent_all(self, process)) {
            for (std::uint32_t i = 0; i < driver_->endpoints().count(process); ++i) {
                driver_->leave(driver_->endpoints().rank(process, i));
            }
            self.ending = Ending::leaving;
            self.ending_since = driver_->time();
            self.turns = 0;
        }
        return false;
    case Ending::leaving:
        if (!has_sent_all(self, process)) {
            return false;
        }
        for (std::uint32_t i = 0; i < driver_->endpoints().count(process); ++i) {
            ranks_[driver_->endpoints().rank(process, i)].ending = Ending::gone;
        }
        driver_->kill(operation.rank);
        for (const auto& [rank, to] : std::exchange(self.released_late, {})) {
            driver_->release(rank, to);
            driver_->wake(rank, 0);
        }
        return true;
    case Ending::gone: break;
    }
    return true;
}

// Returns true if nothing of the process is under way, or begins later.
bool Runner::is_over(std::uint32_t process) {
    const sim::Endpoints& endpoints = driver_->endpoints();
    for (std::uint32_t rank = 0; rank < program_.ranks; ++rank) {
        const Rank& each = ranks_[rank];
        const bool own = endpoints.process(rank) == process;
        // Of its own only the operation that ends it is left.
        if (own && each.list.size() - each.next > (endpoints.index(rank) == 0 ? 1 : 0)) {
            return false;
        }
        for (std::size_t i = each.next; !own && !each.died && i < each.list.size(); ++i) {
            const Operation& later = *each.list[i];
            const bool names = has_peer(later) && later.peer >= 0 &&
                               endpoints.process(static_cast<std::size_t>(later.peer)) == process;
            if (names) {
                return false;
            }
        }
    }
    if (!cancels_or_waits(process)) {
        return false;
    }
    bool over = true;
    for (std::uint32_t i = 0; i < endpoints.count(process); ++i) {
        const std::uint32_t rank = endpoints.rank(process, i);
        over = !receive_what_is_left(rank, Envelope::kAnySource) && all_arrived(rank) && over;
    }
    return over;
}

// Cancels the receives of the process, and those that can only get its messages. Returns false if
// another operation with it is under way.
bool Runner::cancels_or_waits(std::uint32_t process) {
    const sim::Endpoints& endpoints = driver_->endpoints();
    bool over = true;
    for (std::size_t i = 0; i < lives_.size(); ++i) {
        Live& live = *lives_[i];
        const Operation& operation = *live.operation;
        const bool its = endpoints.process(operation.rank) == process ||
                         (operation.peer >= 0 &&
                          endpoints.process(static_cast<std::size_t>(operation.peer)) == process);
        if (live.done || !its || died(static_cast<std::int32_t>(operation.rank)) ||
            died(operation.peer)) {
            continue;
        }
        cancel(live);
        over = live.done && over;
    }
    return over;
}

// Returns true if the rank has got all messages that were sent to it.
bool Runner::all_arrived(std::uint32_t rank) const {
    std::int64_t left = 0;
    for (const SentMessage& message : history_.messages) {
        left += message.receiver == rank && !died(message.envelope.source) ? 1 : 0;
    }
    for (const Received& receive : history_.receives) {
        const bool got = receive.rank == rank && receive.completed != kNever;
        left -= got && !died(receive.source) ? 1 : 0;
    }
    for (const SentActive& active : history_.actives) {
        left += active.receiver == rank && !ranks_[active.sender].died ? 1 : 0;
    }
    for (const DeliveredActive& active : history_.delivered) {
        left -= active.receiver == rank && !ranks_[active.sender].died ? 1 : 0;
    }
    return left == 0;
}

bool Runner::has_got_all_active(std::uint32_t rank, std::uint32_t from) const {
    const auto is_its = [&](const auto& active) {
        return active.receiver == rank && active.sender == from;
    };
    return std::count_if(history_.actives.begin(), history_.actives.end(), is_its) ==
           std::count_if(history_.delivered.begin(), history_.delivered.end(), is_its);
}

void Runner::disconnect(std::uint32_t process) {
    const sim::Endpoints& endpoints = driver_->endpoints();
    const std::uint64_t most = random_.below(3); // 0: from none; 1: from some; 2: from all
    for (std::uint32_t rank = 0; rank < program_.ranks; ++rank) {
        const Rank& each = ranks_[rank];
        if (endpoints.process(rank) == process || each.died || each.ending == Ending::gone) {
            continue;
        }
        for (std::uint32_t i = 0; i < endpoints.count(process); ++i) {
            const std::uint32_t own = endpoints.rank(process, i);
            if (most == 0 || (most == 1 && random_.below(2) == 0) || !is_done_with(rank, own) ||
                !has_got_all_active(rank, own)) {
                continue;
            }
            driver_->release(own, rank);
            driver_->wake(own, 0);
            if (random_.below(2) == 0) {
                driver_->release(rank, own);
                driver_->wake(rank, 0);
            } else {
                ranks_[endpoints.rank(process, 0)].released_late.emplace_back(rank, own);
            }
        }
    }
}

// Returns true if all that the process has sent is known to have arrived, or was awaited for long
// enough: peers that have disconnected, or been told, may acknowledge nothing any more.
bool Runner::has_sent_all(const Rank& first, std::uint32_t process) {
    constexpr std::array<Nanoseconds, 3> kLimits{Nanoseconds{0}, std::chrono::seconds{1},
                                                 std::chrono::minutes{20}}; // by Core::Unsent
    bool all = true;
    for (std::uint32_t i = 0; i < driver_->endpoints().count(process); ++i) {
        const std::uint32_t rank = driver_->endpoints().rank(process, i);
        const auto left = static_cast<std::size_t>(driver_->core(rank).unsent());
        all = driver_->time() >= first.ending_since + kLimits[left] && all;
        driver_->wake(rank, first.pause);
    }
    return all;
}

// -------------------------------------------------------------------------------------------------
// Deaths

void Runner::die(const Operation& operation) {
    const sim::Endpoints& endpoints = driver_->endpoints();
    const std::uint32_t process = endpoints.process(operation.rank);
    for (std::uint32_t i = 0; i < endpoints.count(process); ++i) {
        const std::uint32_t rank = endpoints.rank(process, i);
        Rank& dead = ranks_[rank];
        dead.died = true;
        left_ -= dead.list.size() - dead.next;
        dead.next = dead.list.size();
        for (std::uint32_t other = 0; operation.amount > 0 && other < program_.ranks; ++other) {
            if (endpoints.process(other) != process) {
                ranks_[other].dead.push_back(rank);
                driver_->wake(other, random_.below(operation.amount));
            }
        }
    }
    has_died_ = true;
    driver_->kill(operation.rank);
}

// The runtime tells each rank at another time.
void Runner::tell_of_the_dead(std::uint32_t rank) {
    std::vector<std::uint32_t>& dead = ranks_[rank].dead;
    if (dead.empty()) {
        return;
    }
    if (random_.below(4) > 0) {
        driver_->wake(rank, 1 + random_.below(1000));
        return;
    }
    for (const std::uint32_t each : std::exchange(dead, {})) {
        driver_->report_ended(rank, each);
    }
}

// Polls as a process does that waits, while something of the rank waits for one that has died. Over
// a connection only a return of credit after many passes finds that out.
void Runner::wait_for_the_dead(std::uint32_t rank) {
    constexpr int kPasses = 1024;
    constexpr std::uint64_t kTicks = 400'000; // of a longer time not all counts (base/clock.h)
    bool waits = false;
    bool connected = false;
    for (const auto& live : lives_) {
        if (live->operation->rank == rank && waits_for_the_dead(*live)) {
            const auto to = static_cast<std::size_t>(live->operation->peer);
            const Peer* peer = driver_->core(rank).peers().find(driver_->endpoints().name(to));
            connected = connected || (peer != nullptr && peer->session.state == ConnectState::open);
            waits = true;
        }
    }
    for (int i = 0; connected && i < kPasses; ++i) {
        driver_->progress(rank);
    }
    if (waits) {
        driver_->core(rank).run_timers();
        driver_->wake(rank, kTicks);
    }
}

bool Runner::waits_for_the_dead(const Live& live) const {
    const Operation& operation = *live.operation;
    return !live.done && !ranks_[operation.rank].died && died(operation.peer);
}

bool Runner::waits_for_the_dead() const {
    return std::any_of(lives_.begin(), lives_.end(),
                       [this](const auto& live) { return waits_for_the_dead(*live); });
}

// What a rank wants of one that has died ends with an error.
void Runner::look_at_what_waits_for_the_dead() {
    for (const auto& live : lives_) {
        if (waits_for_the_dead(*live)) {
            problem("operation " + std::to_string(live->operation->id) + " still waits for rank " +
                    std::to_string(live->operation->peer) + ", which has died");
        }
    }
}

// Messages of the dead, and to them, may have arrived or not. What the others did among themselves
// has to be right all the same.
void Runner::forget_the_dead() {
    const auto dead = [this](std::uint32_t rank) { return ranks_[rank].died; };
    std::set<std::uint32_t> ids;
    for (const Operation& operation : program_.operations) {
        if (has_peer(operation) && (dead(operation.rank) || died(operation.peer))) {
            ids.insert(operation.id);
        }
    }
    std::erase_if(history_.messages, [&](const SentMessage& message) {
        return dead(message.receiver) || died(message.envelope.source);
    });
    std::erase_if(history_.receives, [&](const Received& receive) {
        return dead(receive.rank) || died(receive.pattern.source) ||
               (receive.completed != kNever && died(receive.source));
    });
    std::erase_if(history_.probes, [&](const Probed& probe) {
        return dead(probe.rank) || died(probe.pattern.source) ||
               (probe.found && died(probe.source));
    });
    std::erase_if(history_.actives, [&](const SentActive& active) {
        return dead(active.sender) || dead(active.receiver);
    });
    std::erase_if(history_.delivered, [&](const DeliveredActive& active) {
        return dead(active.sender) || dead(active.receiver);
    });
    const auto concerns = [&](const auto& record) { return ids.contains(record.id); };
    std::erase_if(memory_.puts, concerns);
    std::erase_if(memory_.gets, concerns);
    std::erase_if(memory_.atomics, concerns);
    for (std::uint32_t rank = 0; rank < program_.ranks; ++rank) {
        if (dead(rank)) {
            memory_.memory[rank].bytes = 0;
            memory_.memory[rank].words.assign(kWords, 0);
        }
    }
}

// Drops messages about processes that are gone, and theirs. Those that have ended in good order
// may only be missed, where the last that they have said was lost.
void Runner::drop_messages_about_the_gone(std::vector<std::string>& said) const {
    for (std::uint32_t rank = 0; rank < program_.ranks; ++rank) {
        const bool died = ranks_[rank].died;
        if (!died && ranks_[rank].ending != Ending::gone) {
            continue;
        }
        const std::string its = "rocess " + rank_text(driver_->endpoints().name(rank)) + " ";
        const std::string own = "rank " + std::to_string(rank) + ": ";
        std::erase_if(said, [&](const std::string& text) {
            return (died && text.starts_with(own)) ||
                   (text.find(its) != std::string::npos &&
                    (died || text.find(" has been silent ") != std::string::npos));
        });
    }
}

} // namespace adaptib::torture
