// SPDX-License-Identifier: BSD-3-Clause
// The cores of a simulated world as ranks of a replay (simulated_ranks.h).
#include "simulator/studies/simulated_ranks.h"

#include <utility>

#include "simulator/studies/study.h"

namespace adaptib::study {

namespace {

// Longer than any pattern takes; a rank that still waits then waits for ever.
constexpr Nanoseconds kLimit = std::chrono::hours{1};

Data contiguous(void* base, Bytes bytes) { return {base, bytes, nullptr, nullptr, nullptr}; }

} // namespace

std::unique_ptr<SimulatedRanks> SimulatedRanks::create(sim::RanksOptions options,
                                                       std::string& text) {
    std::unique_ptr<sim::Ranks> below = sim::Ranks::create(std::move(options), text);
    if (below == nullptr) {
        return nullptr;
    }
    return std::unique_ptr<SimulatedRanks>(new SimulatedRanks(std::move(below)));
}

std::unique_ptr<SimulatedRanks> routed_ranks(sim::RanksOptions options, std::string& text) {
    if (!sim::Routes::compute(options.world.topology, options.world.routes, text)) {
        return nullptr;
    }
    return SimulatedRanks::create(std::move(options), text);
}

std::unique_ptr<SimulatedRanks> routed_ranks(const Study& study, sim::RanksOptions options) {
    std::string text;
    auto ranks = routed_ranks(std::move(options), text);
    if (ranks == nullptr) {
        study.fail(text);
    }
    return ranks;
}

SimulatedRanks::Operation& SimulatedRanks::take(Waiter& waiter) {
    if (free_.empty()) {
        operations_.emplace_back();
        free_.push_back(&operations_.back());
    }
    Operation& operation = *free_.back();
    free_.pop_back();
    operation.user = {};
    operation.user.complete = &SimulatedRanks::completed;
    operation.owner = this;
    operation.waiter = &waiter;
    return operation;
}

void SimulatedRanks::completed(UserRequest* user) {
    auto& operation = *reinterpret_cast<Operation*>(user);
    operation.owner->free_.push_back(&operation);
    operation.waiter->on_end(user->status == OPAL_COMMON_ADAPTIB_SUCCESS);
}

void SimulatedRanks::started(std::uint32_t rank, Operation& operation, Status status,
                             bool complete) {
    if (!status.ok()) {
        operation.user.status = OPAL_COMMON_ADAPTIB_ERROR;
    }
    if (!status.ok() || complete) {
        completed(&operation.user);
    }
    below_->wake(rank);
}

void SimulatedRanks::send(std::uint32_t rank, std::uint32_t to, std::int32_t tag, const void* data,
                          Bytes bytes, Waiter& waiter) {
    Operation& operation = take(waiter);
    Peer* const peer = below_->peer(rank, to);
    bool complete = false;
    Status status = Status::error(Reason::unreachable);
    if (peer != nullptr) {
        status = below_->core(rank).protocol().sends().send(
            peer, {0, static_cast<std::int32_t>(rank), tag},
            contiguous(const_cast<void*>(data), bytes), false, OpKind::non_blocking, operation.user,
            complete);
        below_->core(rank).protocol().ask_for_connections();
    }
    started(rank, operation, status, complete);
}

void SimulatedRanks::receive(std::uint32_t rank, std::uint32_t from, std::int32_t tag, void* data,
                             Bytes bytes, Waiter& waiter) {
    Operation& operation = take(waiter);
    bool complete = false;
    const Status status = below_->core(rank).protocol().receives().receive(
        {0, static_cast<std::int32_t>(from), tag}, contiguous(data, bytes), operation.user,
        complete);
    started(rank, operation, status, complete);
}

bool SimulatedRanks::run_until(const std::function<bool()>& condition) {
    return below_->run_until(condition, kLimit);
}

std::string SimulatedRanks::complaints() const {
    std::string all;
    for (std::size_t rank = 0; rank < below_->size(); ++rank) {
        for (const std::string& message : below_->messages(rank)) {
            all += "rank " + std::to_string(rank) + ": " + message + "\n";
        }
    }
    return all;
}

} // namespace adaptib::study
