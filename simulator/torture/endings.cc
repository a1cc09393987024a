// SPDX-License-Identifier: BSD-3-Clause
// Processes that end before the others, in good order (simulator/torture/runner.h).
#include <algorithm>
#include <array>
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
            enter(self, Ending::disconnecting);
        }
        return false;
    case Ending::disconnecting:
        if (has_sent_all(self, process)) {
            for (std::uint32_t i = 0; i < driver_->endpoints().count(process); ++i) {
                driver_->leave(driver_->endpoints().rank(process, i));
            }
            enter(self, Ending::leaving);
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

void Runner::enter(Rank& self, Ending step) {
    self.ending = step;
    self.ending_since = driver_->time();
    self.turns = 0;
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
        for (std::size_t i = each.next; !own && i < each.list.size(); ++i) {
            const Operation& later = *each.list[i];
            const bool names = has_peer(later) && later.peer >= 0 &&
                               endpoints.process(static_cast<std::size_t>(later.peer)) == process;
            if (names) {
                return false;
            }
        }
    }
    if (!cancels_or_waits(process) || connects(process)) {
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
        if (live.done || !its) {
            continue;
        }
        cancel(live);
        over = live.done && over;
    }
    return over;
}

// Returns true if a connection with the process is being made: nobody would answer once it is gone.
bool Runner::connects(std::uint32_t process) {
    const sim::Endpoints& endpoints = driver_->endpoints();
    for (std::uint32_t rank = 0; rank < program_.ranks; ++rank) {
        if (ranks_[rank].ending == Ending::gone) {
            continue;
        }
        bool waits = false;
        driver_->core(rank).peers().for_each([&](const Peer& peer) {
            const bool its =
                endpoints.process(rank) == process || rank_of(peer.contact.name) == process;
            waits = waits || (its && peer.session.in_handshake());
        });
        if (waits) {
            return true;
        }
    }
    return false;
}

// Returns true if the rank has got all messages that were sent to it.
bool Runner::all_arrived(std::uint32_t rank) const {
    std::int64_t left = 0;
    for (const SentMessage& message : history_.messages) {
        left += message.receiver == rank ? 1 : 0;
    }
    for (const Received& receive : history_.receives) {
        left -= receive.rank == rank && receive.completed != kNever ? 1 : 0;
    }
    for (const SentActive& active : history_.actives) {
        left += active.receiver == rank ? 1 : 0;
    }
    for (const DeliveredActive& active : history_.delivered) {
        left -= active.receiver == rank ? 1 : 0;
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
        if (endpoints.process(rank) == process || each.ending == Ending::gone) {
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
            // With few connections the other one would keep one of them from a peer that needs it.
            if (each.most_connections > 0 || random_.below(2) == 0) {
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

// Drops messages about processes that are gone, and what the dead have said. Those that have ended
// in good order may only be missed, where the last that they have said was lost.
void Runner::drop_messages_about_the_gone(std::vector<std::string>& said) const {
    for (std::uint32_t rank = 0; rank < program_.ranks; ++rank) {
        const bool dead = ranks_[rank].died;
        if (!dead && ranks_[rank].ending != Ending::gone) {
            continue;
        }
        const std::string its = "rocess " + rank_text(driver_->endpoints().name(rank)) + " ";
        const std::string own = "rank " + std::to_string(rank) + ": ";
        std::erase_if(said, [&](const std::string& text) {
            return (dead && text.starts_with(own)) ||
                   (text.find(its) != std::string::npos &&
                    (dead || text.find(" has been silent ") != std::string::npos));
        });
    }
}

} // namespace adaptib::torture
