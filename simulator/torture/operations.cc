// SPDX-License-Identifier: BSD-3-Clause
// Starts and records operations, and handles their completions (simulator/torture/runner.h).
#include <algorithm>

#include "simulator/torture/payload.h"
#include "simulator/torture/runner.h"

namespace adaptib::torture {

Runner::Live* Runner::find(std::uint32_t id) {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second;
}

Runner::Live& Runner::make(const Operation& operation, Bytes bytes) {
    lives_.push_back(std::make_unique<Live>());
    Live& live = *lives_.back();
    live.runner = this;
    live.operation = &operation;
    live.peer = operation.peer;
    live.buffer = Buffer(bytes, operation.element, operation.stride);
    live.user.complete = [](UserRequest* request) {
        Live& ended = *reinterpret_cast<Live*>(request);
        ended.runner->on_completed(ended);
    };
    if (operation.id != 0) {
        by_id_[operation.id] = &live;
    }
    return live;
}

void Runner::started(Live& live, const Started& how) {
    if (!how.status.ok() && died(live.peer)) {
        live.done = true;
        live.user.status = OPAL_COMMON_ADAPTIB_UNREACHABLE;
    } else if (!how.status.ok()) {
        problem("operation " + std::to_string(live.operation->id) +
                " was refused: " + reason_text(how.status.reason()));
    } else if (how.complete) {
        on_completed(live);
    }
}

// --- two-sided -----------------------------------------------------------------------------------

void Runner::send(const Operation& operation) {
    Live& live = make(operation, operation.bytes);
    reuse_buffer(live);
    live.buffer.fill(payload_of(operation));
    live.record = history_.messages.size();
    const auto to = static_cast<std::uint32_t>(operation.peer);
    const Envelope envelope{operation.context, static_cast<std::int32_t>(operation.rank),
                            operation.tag};
    const bool synchronous = operation.verb == Verb::ssend;
    history_.messages.push_back({operation.id, to, envelope, operation.bytes, payload_of(operation),
                                 synchronous, now(), kNever, 0});
    started(live,
            driver_->send(operation.rank,
                          {to, envelope, live.buffer.data(), synchronous, operation.at_once != 0},
                          live.user));
}

void Runner::reuse_buffer(Live& live) {
    std::vector<Buffer>& spare = ranks_[live.operation->rank].spare;
    if (program_.schedule % 2 == 0 && live.operation->element == 0 && !spare.empty() &&
        live.buffer.take_over(spare.back())) {
        spare.pop_back();
    }
}

// The memory stays as long as the cores, which may have registered it.
void Runner::give_back_buffer(Live& live) {
    if (live.operation->element == 0) {
        ranks_[live.operation->rank].spare.push_back(std::move(live.buffer));
    }
}

Received& Runner::record_receive(Live& live, const Operation& operation, const Envelope& pattern) {
    live.record = history_.receives.size();
    Received& record = history_.receives.emplace_back();
    record.id = operation.id;
    record.rank = operation.rank;
    record.pattern = pattern;
    record.room = live.buffer.bytes();
    record.posted = now();
    return record;
}

void Runner::receive(const Operation& operation) {
    Live& live = make(operation, operation.bytes);
    Received& record = record_receive(live, operation, pattern_of(operation));
    const Started how =
        driver_->receive(operation.rank, record.pattern, live.buffer.data(), live.user);
    record.at_once = how.matched;
    started(live, how);
}

void Runner::cancel(Live& live) {
    if (!live.done && live.operation->verb == Verb::receive &&
        driver_->cancel(live.operation->rank, live.user)) {
        live.done = true;
        history_.receives[live.record].cancelled = now();
        if (live.user.status != OPAL_COMMON_ADAPTIB_CANCELLED || !live.buffer.intact(0)) {
            problem("receive " + std::to_string(live.operation->id) +
                    " was cancelled with status " + std::to_string(live.user.status) +
                    ", or its buffer was written");
        }
    }
}

void Runner::note_probe(const Operation& operation, const Envelope& pattern, bool found,
                        const Found& what) {
    history_.probes.push_back(
        {operation.id, operation.rank, pattern, now(), found, what.source, what.tag, what.bytes});
}

void Runner::probe(const Operation& operation) {
    Found found;
    const Envelope pattern = pattern_of(operation);
    const bool there = driver_->find(operation.rank, pattern, found);
    note_probe(operation, pattern, there, found);
}

bool Runner::claim(const Operation& operation, const Envelope& pattern, Bytes room) {
    Found found;
    if (!driver_->claim(operation.rank, pattern, found)) {
        note_probe(operation, pattern, false, found);
        return false;
    }
    Live& live = make(operation, std::min<Bytes>(room, found.bytes + 20));
    live.peer = found.source;
    Received& record = record_receive(live, operation, pattern);
    record.at_once = true;
    started(live, driver_->receive_claimed(operation.rank, *found.message, live.buffer.data(),
                                           live.user));
    return true;
}

// --- active messages and one-sided -------------------------------------------------------------

void Runner::send_active(const Operation& operation) {
    const Bytes bytes =
        std::min<Bytes>(operation.bytes, driver_->core(operation.rank).protocol().active().most());
    Live& live = make(operation, bytes);
    live.buffer.fill(payload_of(operation));
    live.record = history_.actives.size();
    const auto to = static_cast<std::uint32_t>(operation.peer);
    const auto tag = static_cast<std::uint8_t>(operation.tag);
    history_.actives.push_back(
        {operation.id, operation.rank, to, tag, bytes, payload_of(operation), now(), kNever, 0});
    started(live, driver_->send_active(operation.rank, to, tag, live.buffer.data(),
                                       operation.at_once != 0, live.user));
}

void Runner::on_active(std::uint32_t rank, std::uint64_t from, std::uint8_t tag,
                       const std::byte* bytes, Bytes length) {
    Digest digest;
    digest.add(bytes, length);
    history_.delivered.push_back(
        {driver_->endpoints().rank_named(from), rank, tag, length, digest.value(), now()});
}

// Releases a peer as MPI_Comm_disconnect requires: once all operations between the two are complete
// on this side. Returns false if they are not, and the operation has turns left: then this side
// cancels its receives, and receives what has been sent.
bool Runner::release(Rank& self, const Operation& operation) {
    const auto peer = static_cast<std::uint32_t>(operation.peer);
    if (operation.rank == peer) {
        return true;
    }
    constexpr std::uint64_t kLookEvery = 64; // turns
    if (operation.amount > 0 && self.turns % kLookEvery == 0) {
        for (auto& live : lives_) {
            if (live->operation->rank == operation.rank &&
                live->operation->peer == operation.peer) {
                cancel(*live);
            }
        }
        receive_what_is_left(operation.rank, operation.peer);
    }
    if (is_done_with(operation.rank, peer)) {
        driver_->release(operation.rank, peer);
        return true;
    }
    return ++self.turns > operation.amount;
}

bool Runner::is_done_with(std::uint32_t self, std::uint32_t peer) const {
    const auto source = static_cast<std::int32_t>(peer);
    std::int64_t left = 0;
    for (const auto& live : lives_) {
        const Operation& other = *live->operation;
        left += !live->done && other.rank == self && other.peer == source ? 1 : 0;
    }
    for (const SentMessage& message : history_.messages) {
        left += message.receiver == self && message.envelope.source == source ? 1 : 0;
    }
    for (const Received& receive : history_.receives) {
        const bool its = receive.rank == self && receive.source == source;
        left -= its && receive.completed != kNever ? 1 : 0;
    }
    return left == 0;
}

OneSidedOperation Runner::describe(Live& live, const Operation& operation) {
    const Rank& target = ranks_[static_cast<std::size_t>(operation.peer)];
    OneSidedOperation what{};
    if (is_atomic(operation.verb)) {
        const AtomicUpdate& update = memory_.atomics[live.record];
        what.operation =
            update.swap ? OPAL_COMMON_ADAPTIB_COMPARE_SWAP : OPAL_COMMON_ADAPTIB_FETCH_ADD;
        what.local = &live.old;
        what.remote = &target.words_remote;
        what.remote_address = what.remote->base + update.word * sizeof(std::uint64_t);
        what.bytes = sizeof(std::uint64_t);
        what.operand = update.operand;
        what.compare = update.compare;
    } else {
        what.operation =
            operation.verb == Verb::put ? OPAL_COMMON_ADAPTIB_PUT : OPAL_COMMON_ADAPTIB_GET;
        what.local = live.buffer.base();
        what.remote = &target.memory_remote;
        what.remote_address = what.remote->base + operation.offset;
        what.bytes = operation.bytes;
    }
    return what;
}

// Returns false if there is no memory for the operation now; it has to be tried again.
bool Runner::one_sided(const Operation& operation) {
    Live* live = find(operation.id); // exists already if it is tried again
    if (live == nullptr) {
        live = &make(operation, is_atomic(operation.verb) ? 0 : operation.bytes);
        record_one_sided(*live, operation);
    }
    const OneSidedOperation what = describe(*live, operation);
    const Registration* region = nullptr;
    if (operation.own_key != 0 && what.bytes > 0 &&
        live->key.make(driver_->core(operation.rank).rails(), what.local, what.bytes, kLocalWrite)
            .ok()) {
        region = &live->key;
    }
    const Started how =
        driver_->one_sided(operation.rank, static_cast<std::uint32_t>(operation.peer), what, region,
                           operation.at_once != 0, live->user);
    constexpr std::uint64_t kTries = 10000;
    if (how.status.reason() == Reason::no_memory && ++ranks_[operation.rank].turns < kTries) {
        return false;
    }
    started(*live, how);
    return true;
}

void Runner::record_one_sided(Live& live, const Operation& operation) {
    const auto target = static_cast<std::uint32_t>(operation.peer);
    const auto word = static_cast<std::uint32_t>(operation.tag) % kWords;
    if (is_atomic(operation.verb)) {
        live.record = memory_.atomics.size();
        memory_.atomics.push_back({operation.id, target, word, operation.verb == Verb::swap,
                                   operation.amount, last_seen_[{target, word}], 0, now(), kNever,
                                   0});
    } else {
        auto& list = operation.verb == Verb::put ? memory_.puts : memory_.gets;
        live.record = list.size();
        list.push_back({operation.id, target, operation.offset, operation.bytes,
                        payload_of(operation), live.buffer.base(), now(), kNever, 0});
        if (operation.verb == Verb::put) {
            live.buffer.fill(payload_of(operation));
        }
    }
}

// --- completion ----------------------------------------------------------------------------------

void Runner::on_completed(Live& live) {
    ended_ = driver_->time();
    if (live.done) {
        problem("operation " + std::to_string(live.operation->id) + " was reported twice");
        return;
    }
    live.done = true;
    const Time time = now();
    const int status = live.user.status;
    const auto close = [&](auto& record) {
        record.completed = time;
        record.status = status;
    };
    switch (live.operation->verb) {
    case Verb::send:
    case Verb::ssend:
        close(history_.messages[live.record]);
        live.buffer.scramble();
        give_back_buffer(live);
        break;
    case Verb::active:
        close(history_.actives[live.record]);
        live.buffer.scramble();
        break;
    case Verb::put:
        close(memory_.puts[live.record]);
        live.buffer.scramble();
        break;
    case Verb::get: close(memory_.gets[live.record]); break;
    case Verb::add:
    case Verb::swap: {
        AtomicUpdate& update = memory_.atomics[live.record];
        close(update);
        update.old = live.old;
        last_seen_[{update.target, update.word}] =
            update.swap ? update.old : update.old + update.operand;
        break;
    }
    default: complete_receive(live, time);
    }
    live.key.reset();
}

void Runner::complete_receive(Live& live, Time time) {
    Received& record = history_.receives[live.record];
    record.completed = time;
    record.status = live.user.status;
    record.source = live.user.source;
    record.tag = live.user.tag;
    record.bytes = live.user.bytes;
    if (record.bytes <= record.room) {
        live.digest = record.digest = live.buffer.digest(record.bytes);
    }
}

} // namespace adaptib::torture
