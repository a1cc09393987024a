// SPDX-License-Identifier: BSD-3-Clause
// Processes that die without a word, at a time that the world gives (simulator/torture/runner.h).
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "simulator/torture/runner.h"

namespace adaptib::torture {

void Runner::on_death(std::uint32_t rank, bool told) {
    const sim::Endpoints& endpoints = driver_->endpoints();
    const std::uint32_t process = endpoints.process(rank);
    for (std::uint32_t i = 0; i < endpoints.count(process); ++i) {
        if (const std::uint32_t its = endpoints.rank(process, i);
            !ranks_[its].died && ranks_[its].ending != Ending::gone) {
            note_death(its, told);
        }
    }
}

void Runner::note_death(std::uint32_t rank, bool told) {
    Rank& dead = ranks_[rank];
    dead.died = has_died_ = true;
    left_ -= dead.list.size() - dead.next;
    dead.next = dead.list.size();
    const std::uint64_t most = std::uint64_t{1} << random_.below(20);
    for (std::uint32_t other = 0; other < program_.ranks; ++other) {
        if (driver_->endpoints().process(other) == driver_->endpoints().process(rank)) {
            continue;
        }
        if (told) {
            ranks_[other].untold.push_back(rank);
        }
        driver_->wake(other, random_.below(most));
    }
}

// The runtime tells each rank at another time.
void Runner::tell_of_the_dead(std::uint32_t rank) {
    std::vector<std::uint32_t>& untold = ranks_[rank].untold;
    if (untold.empty()) {
        return;
    }
    if (random_.below(4) > 0) {
        driver_->wake(rank, 1 + random_.below(1000));
        return;
    }
    for (const std::uint32_t each : std::exchange(untold, {})) {
        driver_->report_ended(rank, each);
    }
}

// Polls as a process does that waits, while something of the rank waits for one that has died. Over
// a connection only a return of credit after many passes finds that out.
void Runner::wait_for_the_dead(std::uint32_t rank) {
    constexpr int kPasses = 1024;
    constexpr std::uint64_t kTicks = 100'000; // of a longer time not all counts (base/clock.h)
    if (!waits_for_the_dead(rank)) {
        return;
    }
    for (int i = 0; i < kPasses && is_connected_with_the_dead(rank); ++i) {
        driver_->progress(rank);
    }
    driver_->core(rank).run_timers();
    driver_->wake(rank, kTicks);
}

bool Runner::is_connected_with_the_dead(std::uint32_t rank) {
    bool connected = false;
    driver_->core(rank).peers().for_each([&](const Peer& peer) {
        const std::uint32_t its = driver_->endpoints().rank_named(peer.contact.name);
        connected = connected || (ranks_[its].died && peer.session.connected());
    });
    return connected;
}

// Returns true if an operation of the rank waits for one that has died, or may: a receive from any
// source that has its message, and is not complete.
bool Runner::waits_for_the_dead(std::uint32_t rank) {
    std::size_t receives = 0;
    for (const auto& live : lives_) {
        if (live->done || live->operation->rank != rank) {
            continue;
        }
        if (died(live->peer)) {
            return true;
        }
        receives += live->peer == Envelope::kAnySource ? 1 : 0;
    }
    return receives > 0 && driver_->posted(rank) < receives;
}

bool Runner::waits_for_the_dead() {
    for (std::uint32_t rank = 0; rank < program_.ranks; ++rank) {
        if (!ranks_[rank].died && waits_for_the_dead(rank)) {
            return true;
        }
    }
    return false;
}

// Runs until all that the living want of the dead has ended with an error, or should have.
void Runner::settle_the_dead() {
    for (std::uint32_t rank = 0; rank < program_.ranks; ++rank) {
        if (!ranks_[rank].died) {
            driver_->wake(rank, 0);
        }
    }
    driver_->run([this] {
        return !waits_for_the_dead() ||
               driver_->time() >
                   std::max(begun_, driver_->held_up_until()) + driver_->ends_within();
    });
    for (const auto& live : lives_) {
        if (!live->done && !ranks_[live->operation->rank].died && died(live->peer)) {
            problem("operation " + std::to_string(live->operation->id) + " still waits for rank " +
                    std::to_string(live->peer) + ", which has died");
        }
    }
}

// The living have got of the dead what those have sent, each at most once; all else has ended as
// unreachable.
void Runner::judge_what_came_of_the_dead() {
    std::vector<const SentMessage*> sent;
    for (const SentMessage& message : history_.messages) {
        if (died(message.envelope.source)) {
            sent.push_back(&message);
        } else if (ranks_[message.receiver].died && message.completed != kNever &&
                   message.status != OPAL_COMMON_ADAPTIB_SUCCESS &&
                   message.status != OPAL_COMMON_ADAPTIB_UNREACHABLE) {
            problem("message " + std::to_string(message.id) + " to rank " +
                    std::to_string(message.receiver) + ", which has died, ended with status " +
                    std::to_string(message.status));
        }
    }
    for (const Received& receive : history_.receives) {
        if (ranks_[receive.rank].died || receive.completed == kNever || !died(receive.source) ||
            receive.status == OPAL_COMMON_ADAPTIB_UNREACHABLE) {
            continue;
        }
        const auto its = std::find_if(sent.begin(), sent.end(), [&](const SentMessage* message) {
            return message->receiver == receive.rank &&
                   message->envelope.source == receive.source &&
                   message->envelope.tag == receive.tag && difference(receive, *message).empty();
        });
        if (its == sent.end()) {
            problem("receive " + std::to_string(receive.id) + " got what rank " +
                    std::to_string(receive.source) + ", which has died, has not sent (so often)");
        } else {
            sent.erase(its);
        }
    }
}

// Messages of the dead, and to them, may have arrived or not. What the others did among themselves
// has to be right all the same.
void Runner::forget_the_dead() {
    judge_what_came_of_the_dead();
    const auto dead = [this](std::uint32_t rank) { return ranks_[rank].died; };
    std::erase_if(history_.messages, [&](const SentMessage& message) {
        return dead(message.receiver) || died(message.envelope.source);
    });
    for (const auto& live : lives_) { // of those from any source that ended with an error
        const Verb verb = live->operation->verb;
        if ((verb == Verb::receive || verb == Verb::claim) && died(live->peer)) {
            history_.receives[live->record].source = live->peer;
        }
    }
    std::erase_if(history_.receives, [&](const Received& receive) {
        return dead(receive.rank) || died(receive.pattern.source) || died(receive.source);
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
    forget_memory_of_the_dead();
}

// Memory to which one that died has put something is as unknown as its own.
void Runner::forget_memory_of_the_dead() {
    std::set<std::uint32_t> unknown;
    std::set<std::uint32_t> ids;
    for (const Operation& operation : program_.operations) {
        const bool puts = operation.verb == Verb::put || is_atomic(operation.verb);
        if (puts && ranks_[operation.rank].died) {
            unknown.insert(static_cast<std::uint32_t>(operation.peer));
        }
        if (ranks_[operation.rank].died) {
            ids.insert(operation.id);
        }
    }
    for (std::uint32_t rank = 0; rank < program_.ranks; ++rank) {
        if (ranks_[rank].died) {
            unknown.insert(rank);
        }
    }
    const auto concerns = [&](const auto& record) {
        return ids.contains(record.id) || unknown.contains(record.target);
    };
    std::erase_if(memory_.puts, concerns);
    std::erase_if(memory_.gets, concerns);
    std::erase_if(memory_.atomics, concerns);
    for (const std::uint32_t rank : unknown) {
        memory_.memory[rank].bytes = 0;
        memory_.memory[rank].words.assign(kWords, 0);
    }
}

} // namespace adaptib::torture
