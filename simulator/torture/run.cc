// SPDX-License-Identifier: BSD-3-Clause
// The course of a run: turns, the end, the verdict (simulator/torture/runner.h).
#include "simulator/torture/run.h"

#include <algorithm>
#include <set>

#include "simulator/torture/payload.h"
#include "simulator/torture/runner.h"
#include "simulator/torture/shm_driver.h"
#include "simulator/torture/sim_driver.h"

namespace adaptib::torture {

Runner::Runner(const Program& program, std::unique_ptr<Driver> driver)
    : program_(program), driver_(std::move(driver)), random_(program.schedule ^ 0x72756e),
      left_(program.operations.size()) {}

Outcome Runner::outcome() {
    // Half of the programs without active messages have no user of them, as over the MTL alone.
    const bool active =
        std::any_of(program_.operations.begin(), program_.operations.end(),
                    [](const Operation& each) { return each.verb == Verb::active; });
    if (active || program_.schedule / 2 % 2 == 0) {
        driver_->listen(*this);
    }
    history_.holds_back = program_.holds_back();
    const auto rails = driver_->core(0).rails();
    has_atomics_ = std::all_of(rails.begin(), rails.end(), [](const auto& rail) {
        return rail->info().has(Capability::atomic64);
    });
    expose();
    drains_.resize(program_.ranks);
    said_before_ = driver_->messages(); // about parameters
    driver_->turn = [this](std::uint32_t rank) { on_turn(rank); };
    driver_->died = [this](std::uint32_t rank, bool told) { on_death(rank, told); };
    for (std::uint32_t rank = 0; rank < program_.ranks; ++rank) {
        driver_->wake(rank, 0);
    }
    if (!driver_->run([this] { return left_ == 0; })) {
        problem("nothing happens any more, and operations are left");
    }
    settle();
    for (auto& live : lives_) {
        cancel(*live);
    }
    constexpr int kInVain = 3; // messages held back come once a receive has asked for them
    for (int in_vain = 0; in_vain < (history_.holds_back ? kInVain : 1);) {
        in_vain = receive_what_is_left() ? 0 : in_vain + 1;
        settle();
    }
    look_at_buffers();
    look_at_ranks();
    look_at_the_end();
    ask_the_models();
    // The cores are destroyed after their regions, and before the buffers.
    for (auto& live : lives_) {
        live->key.reset();
    }
    keys_.clear();
    driver_.reset();
    return std::move(outcome_);
}

void Runner::expose() {
    ranks_.resize(program_.ranks);
    const Bytes bytes = program_.window_bytes();
    for (std::uint32_t rank = 0; rank < program_.ranks; ++rank) {
        Rank& self = ranks_[rank];
        memory_.memory.push_back({program_.schedule + rank, nullptr, bytes, {}});
        const std::byte* first = payload(program_.schedule + rank);
        self.memory.assign(first, first + bytes);
        self.words.assign(kWords, 0);
        self.most_connections = static_cast<std::uint64_t>(program_.parameters(rank).connect_max);
        expose(rank, self.memory.data(), bytes,
               OPAL_COMMON_ADAPTIB_REMOTE_READ | OPAL_COMMON_ADAPTIB_REMOTE_WRITE,
               self.memory_remote);
        expose(rank, self.words.data(), kWords * sizeof(std::uint64_t),
               OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC, self.words_remote);
    }
    for (const Operation& operation : program_.operations) {
        ranks_[operation.rank].list.push_back(&operation);
    }
}

void Runner::expose(std::uint32_t rank, void* base, Bytes bytes, std::uint32_t access,
                    Remote& remote) {
    keys_.push_back(std::make_unique<OpenWindow>());
    if (!driver_->expose(rank, base, bytes, access, *keys_.back(), remote).ok()) {
        problem("memory of rank " + std::to_string(rank) + " cannot be registered");
    }
}

// -------------------------------------------------------------------------------------------------
// Turns

// Starts some operations, one, or none.
void Runner::on_turn(std::uint32_t rank) {
    Rank& self = ranks_[rank];
    if (self.died || self.ending == Ending::gone) {
        return; // other endpoints of a process have the rest of their turn
    }
    tell_of_the_dead(rank);
    look_at_connections(rank);
    while (self.next < self.list.size() && random_.below(3) != 0) {
        if (!step(self, *self.list[self.next])) {
            break;
        }
        ++self.next;
        self.turns = 0;
        --left_;
        begun_ = driver_->time();
    }
    if (self.next < self.list.size()) {
        driver_->wake(rank, std::exchange(self.pause, 0) + 1 + random_.below(10));
    } else if (has_died_) {
        wait_for_the_dead(rank);
    }
}

// A process never has more connections with queue pairs of their own than connect_max allows.
void Runner::look_at_connections(std::uint32_t rank) {
    const std::uint64_t most = ranks_[rank].most_connections;
    std::uint64_t own = 0;
    if (most > 0) {
        driver_->core(rank).connections().limit().for_each(
            [&](const Peer& peer) { own += peer.connection.shared ? 0 : 1; });
    }
    if (own > most) {
        problem("rank " + std::to_string(rank) + " has " + std::to_string(own) +
                " connections, not " + std::to_string(most) + " at most");
        ranks_[rank].most_connections = 0; // said
    }
}

// Returns true if the operation is over or started, so that the next one has its turn.
bool Runner::step(Rank& self, const Operation& operation) {
    switch (operation.verb) {
    case Verb::wait: {
        const Live* live = find(operation.id);
        return live == nullptr || live->done || ++self.turns > operation.amount;
    }
    case Verb::compute:
        if (self.turns++ == 0) {
            driver_->compute(operation.rank, operation.amount);
            return false;
        }
        return true;
    case Verb::cancel:
        if (Live* live = find(operation.id); live != nullptr) {
            cancel(*live);
        }
        return true;
    case Verb::send:
    case Verb::ssend: send(operation); return true;
    case Verb::receive: receive(operation); return true;
    case Verb::probe: probe(operation); return true;
    case Verb::claim: claim(operation, pattern_of(operation), operation.bytes); return true;
    case Verb::active: send_active(operation); return true;
    case Verb::release: return release(self, operation);
    case Verb::end: return end(self, operation);
    case Verb::promote:
    case Verb::demote:
        driver_->switch_channel(operation.rank, static_cast<std::uint32_t>(operation.peer),
                                operation.verb == Verb::promote);
        return true;
    case Verb::put:
    case Verb::get:
    case Verb::add:
    case Verb::swap: break;
    }
    const bool emulated = (ranks_[static_cast<std::size_t>(operation.peer)].words_remote.access &
                           OPAL_COMMON_ADAPTIB_ATOMICS_EMULATED) != 0;
    return (is_atomic(operation.verb) && !has_atomics_ && !emulated) || one_sided(operation);
}

// -------------------------------------------------------------------------------------------------
// The end

// True if an operation is started and has its partner, but is not complete.
bool Runner::moving() {
    std::vector<std::size_t> waiting(program_.ranks, 0);
    for (const auto& live : lives_) {
        const Verb verb = live->operation->verb;
        if (concerns_the_dead(*live)) {
            continue;
        }
        if (!live->done && (verb == Verb::receive || verb == Verb::claim)) {
            ++waiting[live->operation->rank];
        } else if (!live->done && verb != Verb::send && verb != Verb::ssend) {
            return true;
        }
    }
    for (std::uint32_t rank = 0; rank < program_.ranks; ++rank) {
        // A receive that waits for the dead may be posted, or not.
        if (!has_died_ && waiting[rank] != driver_->posted(rank)) {
            return true;
        }
    }
    return false;
}

void Runner::settle() {
    constexpr int kTries = 100; // then it will not complete
    driver_->settle();
    for (int i = 0; i < kTries && moving(); ++i) {
        driver_->settle();
    }
    if (has_died_) {
        settle_the_dead();
    }
    if (!history_.holds_back) {
        history_.settled.push_back(now());
    }
}

bool Runner::receive_what_is_left() {
    bool found = false;
    for (std::uint32_t rank = 0; rank < program_.ranks; ++rank) {
        found = receive_what_is_left(rank, Envelope::kAnySource) || found;
    }
    return found;
}

bool Runner::receive_what_is_left(std::uint32_t rank, std::int32_t source) {
    bool found = false;
    std::set<std::uint32_t> contexts;
    std::set<std::int32_t> tags{Envelope::kAnyTag}; // and the tags that wildcards do not match
    for (const SentMessage& message : history_.messages) {
        contexts.insert(message.envelope.context);
        if (message.envelope.tag < 0) {
            tags.insert(message.envelope.tag);
        }
    }
    drains_[rank].verb = Verb::claim;
    drains_[rank].rank = rank;
    drains_[rank].peer = Envelope::kAnySource;
    for (const std::uint32_t context : contexts) {
        for (const std::int32_t tag : tags) {
            while (claim(drains_[rank], {context, source, tag}, kLongestPayload)) {
                found = true;
                begun_ = driver_->time();
            }
        }
    }
    return found;
}

void Runner::look_at_buffers() {
    for (const auto& live : lives_) {
        const Verb verb = live->operation->verb;
        if (!live->done || died(static_cast<std::int32_t>(live->operation->rank)) ||
            live->user.status == OPAL_COMMON_ADAPTIB_UNREACHABLE) {
            continue; // the models report it, or a process has died
        }
        if (verb == Verb::receive || verb == Verb::claim) {
            const Received& record = history_.receives[live->record];
            const bool cancelled = record.cancelled != kNever;
            const Bytes bytes = cancelled ? 0 : record.bytes;
            if (bytes <= record.room &&
                (!live->buffer.intact(bytes) ||
                 (!cancelled && live->buffer.digest(bytes) != live->digest))) {
                problem("receive " + std::to_string(record.id) +
                        ": its buffer was written outside of the message, or afterwards");
            }
        } else if (verb == Verb::get && !live->buffer.intact(live->buffer.bytes())) {
            problem("get " + std::to_string(live->operation->id) + " wrote outside of its buffer");
        }
    }
}

void Runner::look_at_ranks() {
    for (std::uint32_t rank = 0; rank < program_.ranks; ++rank) {
        memory_.memory[rank].data = ranks_[rank].memory.data();
        memory_.memory[rank].words = ranks_[rank].words;
        if (ranks_[rank].died) {
            continue;
        }
        if (driver_->posted(rank) + driver_->unexpected(rank) +
                driver_->core(rank).protocol().one_sided().under_way() >
            0) {
            problem("rank " + std::to_string(rank) + " is not done at the end");
        }
        if (driver_->counters(rank).bad_packets > 0) {
            problem("rank " + std::to_string(rank) + " has got bad packets");
        }
    }
}

// Once nothing holds operations up any more, all end soon.
void Runner::look_at_the_end() {
    const Nanoseconds since = std::max(begun_, driver_->held_up_until());
    const auto milliseconds = [](Nanoseconds time) {
        return std::to_string(time.count() / 1'000'000) + " ms";
    };
    if (ended_ > since + driver_->ends_within()) {
        problem("an operation ended " + milliseconds(ended_ - since) +
                " after the last one had begun and the last fault was over, not within " +
                milliseconds(driver_->ends_within()));
    }
}

void Runner::ask_the_models() {
    std::vector<std::string> said = driver_->messages();
    std::erase_if(said, [this](const std::string& text) {
        return std::find(said_before_.begin(), said_before_.end(), text) != said_before_.end();
    });
    drop_messages_about_the_gone(said);
    if (has_died_) {
        forget_the_dead();
    }
    for (const auto& list : {said, check(history_), check(memory_)}) {
        outcome_.problems.insert(outcome_.problems.end(), list.begin(), list.end());
    }
    Digest course;
    const auto add = [&course](const auto& records, auto member) {
        for (const auto& record : records) {
            course.add(reinterpret_cast<const std::byte*>(&(record.*member)), sizeof(Time));
        }
    };
    add(history_.messages, &SentMessage::completed);
    add(history_.receives, &Received::completed);
    add(history_.delivered, &DeliveredActive::when);
    add(memory_.puts, &MovedData::completed);
    add(memory_.gets, &MovedData::completed);
    add(memory_.atomics, &AtomicUpdate::completed);
    outcome_.faults = driver_->faults();
    outcome_.datagrams = driver_->datagrams();
    outcome_.time = driver_->time();
    outcome_.course = course.value();
    outcome_.messages = history_.messages.size() + history_.actives.size();
    outcome_.one_sided = memory_.puts.size() + memory_.gets.size() + memory_.atomics.size();
}

std::unique_ptr<Driver> open(const Program& program, std::string& problem,
                             const std::string& trace) {
    if (program.world.empty()) {
        problem = "only simulated worlds have traces";
        return trace.empty() ? open_shm(program, problem) : nullptr;
    }
    return open_sim(program, problem, trace);
}

Outcome run(const Program& program, std::unique_ptr<Driver> driver) {
    return Runner(program, std::move(driver)).outcome();
}

} // namespace adaptib::torture
