// SPDX-License-Identifier: BSD-3-Clause
// RC: requests leave, are answered, or are sent again (simulator/network/rc.h).
#include <algorithm>

#include "fabric/qp_rules.h"
#include "simulator/network/rc.h"

namespace adaptib::sim {

namespace {

constexpr std::uint8_t kForEver = 7;       // rnr_retry
constexpr std::uint8_t kUsualTimeout = 14; // interval of retries that never end (timeout 0)

} // namespace

// -------------------------------------------------------------------------------------------------
// Leaving

void RcQueuePair::pump() {
    while (state_ == QpState::ready_to_send && !process().dead() && !halted_ && !leaving_ &&
           pause_ == Pause::none && requests_.sent() < requests_.size()) {
        Request& request = requests_[requests_.sent()];
        if (!requests_.may_leave(request, attributes_.max_reads) ||
            (is_initiator() && (!is_heard(request) || !retarget(request)))) {
            return;
        }
        if (!local_access(request)) {
            request.status = WorkStatus::local_protection_error;
            halted_ = true;
            add_to_wire(request, simulator_.now());
            return;
        }
        launch(request);
    }
}

bool RcQueuePair::local_access(const Request& request) {
    Bytes allocated = 0;
    return (request.work.flags & kInline) != 0 ||
           rail_.regions().allows(
               request.list(),
               request.returns_data() ? static_cast<std::uint32_t>(kLocalWrite) : 0u, allocated);
}

void RcQueuePair::launch(Request& request) {
    if (request.outwards() <= machine_.limits.mtu) {
        add_to_wire(request,
                    send_packet(*path_, request.outwards(), request.ready, remote()).arrives);
        return;
    }
    const Nanoseconds start = std::max({request.ready, engine_.free_at, simulator_.now()}) +
                              machine_.adapter.work_request + dc_work() +
                              world_.adapter_of(rail_.port()).use(number_);
    engine_.free_at = start;
    leaving_ = true;
    simulator_.schedule(flow_begins_, start);
}

void RcQueuePair::begin_flow() {
    if (!world_.network().up(*path_)) {
        no_answer();
        return;
    }
    world_.network().flows().start(flow_, links_, requests_[requests_.sent()].outwards(),
                                   links_.empty() ? machine_.adapter.port_rate : BytesPerSecond{});
}

void RcQueuePair::flow_through() {
    leaving_ = false;
    Wire& in = world_.wire_in(path_->to);
    in.handled_at = std::max(simulator_.now() + path_->latency, in.handled_at) +
                    machine_.adapter.receive_work + dc_work() +
                    world_.adapter_of(path_->to).use(remote());
    add_to_wire(requests_[requests_.sent()], in.handled_at);
    pump();
}

void RcQueuePair::add_to_wire(Request& request, Nanoseconds arrives) {
    requests_.put_on_wire(request, arrives);
    if (requests_.sent() - requests_.arrived() == 1) {
        simulator_.schedule(arrives_, request.arrives);
    }
}

// -------------------------------------------------------------------------------------------------
// Arriving

void RcQueuePair::arrivals() {
    while (requests_.arrived() < requests_.sent() &&
           requests_[requests_.arrived()].arrives <= simulator_.now()) {
        if (!arrival(requests_[requests_.arrived()])) {
            return;
        }
    }
    if (requests_.arrived() < requests_.sent()) {
        simulator_.schedule(arrives_, requests_[requests_.arrived()].arrives);
    }
}

// Returns false if no later request arrives now.
bool RcQueuePair::arrival(Request& request) {
    if (request.status != WorkStatus::success) { // it never left
        reject(request, request.status, Nanoseconds{0});
        return false;
    }
    if (world_.trace) {
        world_.tell("%s qp %u opcode %d of %llu bytes arrives", rail_.info().name.c_str(), number_,
                    static_cast<int>(request.work.opcode),
                    static_cast<unsigned long long>(request.length));
    }
    RcQueuePair* at = world_.network().up(*path_) ? target() : nullptr;
    Path* back = at == nullptr ? nullptr : way_back(*at);
    if (back == nullptr) {
        no_answer();
        return false;
    }
    if (!request.carried_out) {
        WorkStatus refusal = WorkStatus::success;
        const Outcome outcome = carry_out(*at, request, refusal);
        if (state_ != QpState::ready_to_send) {
            return false; // the target was this queue pair itself
        }
        switch (outcome) {
        case Outcome::done: request.carried_out = true; break;
        case Outcome::nobody: no_answer(); return false;
        case Outcome::no_receive: no_receive(*at, request); return false;
        case Outcome::busy:
            take_back(requests_.arrived());
            wait(Pause::target_busy, simulator_.now() + back->latency + machine_.dc.nack_backoff);
            return false;
        case Outcome::refused: reject(request, refusal, back->latency); return false;
        }
    }
    if (!world_.network().up(*back)) {
        no_answer();
        return false;
    }
    tries_ = rnr_tries_ = 0;
    requests_.arrive();
    if (!request.returns_data()) {
        answer(request, WorkStatus::success, machine_.adapter.ack + back->latency);
    } else if (request.length <= machine_.limits.mtu) {
        const Passage passage = at->send_packet(*back, request.length, simulator_.now(), number_);
        answer(request, WorkStatus::success, passage.arrives - simulator_.now());
    } else {
        respond();
    }
    return true;
}

void RcQueuePair::answer(Request& request, WorkStatus status, Nanoseconds after) {
    request.status = status;
    request.answered = simulator_.now() + after;
    request.known = true;
    plan_settling();
}

// Ends with this request: the target refuses it, or it cannot be sent. No request follows it.
void RcQueuePair::reject(Request& request, WorkStatus status, Nanoseconds after) {
    take_back(requests_.arrived() + 1);
    requests_.arrive();
    requests_.tell_last();
    halted_ = true;
    answer(request, status, after);
}

// Sends long responses to reads back one after another.
void RcQueuePair::respond() {
    if (response_.active()) {
        return;
    }
    for (std::size_t i = 0; i < requests_.arrived(); ++i) {
        Request& request = requests_[i];
        if (request.known || !request.returns_data()) {
            continue;
        }
        RcQueuePair* at = target();
        if (at == nullptr) {
            no_answer();
            return;
        }
        requests_.respond_to(i);
        const std::span<const LinkIndex> links = links_back(*at);
        world_.network().flows().start(response_, links, request.length,
                                       links.empty() ? machine_.adapter.port_rate
                                                     : BytesPerSecond{});
        return;
    }
}

void RcQueuePair::response_through() {
    Request& request = requests_[requests_.responding()];
    answer(request, WorkStatus::success, path_->latency + machine_.adapter.receive_work);
    respond();
}

// -------------------------------------------------------------------------------------------------
// No answer

// Queues the requests from `first` on again.
void RcQueuePair::take_back(std::size_t first) {
    simulator_.cancel(arrives_);
    simulator_.cancel(flow_begins_);
    if (flow_.active()) {
        world_.network().flows().stop(flow_);
    }
    if (response_.active() && requests_.responding() >= first) {
        world_.network().flows().stop(response_);
    }
    leaving_ = false;
    if (first < requests_.arrived()) {
        simulator_.cancel(settles_);
    }
    requests_.take_back(first);
    plan_settling();
}

// Takes back all unanswered requests: also those whose responses are under way.
void RcQueuePair::take_back_unanswered() {
    take_back(response_.active() ? requests_.responding() : requests_.arrived());
}

void RcQueuePair::no_answer() {
    if (attributes_.migration == MigrationState::armed) {
        migrate();
        return;
    }
    take_back_unanswered();
    ++tries_;
    wait(Pause::no_answer, simulator_.now() + timeout());
}

void RcQueuePair::no_receive(RcQueuePair& at, Request& request) {
    const Path* back = way_back(at);
    if (attributes_.rnr_retry != kForEver && rnr_tries_ >= attributes_.rnr_retry) {
        reject(request, WorkStatus::rnr_retry_exceeded, back->latency);
        return;
    }
    take_back(requests_.arrived());
    ++rnr_tries_;
    rnr_until_ = simulator_.now() + back->latency + rnr_time(at.attributes_.rnr_timer);
    if (attributes_.rnr_retry == kForEver && !is_initiator()) {
        pause_ = Pause::no_receive; // until the target posts one
        at.wait_for_receive();
    } else {
        wait(Pause::no_receive, rnr_until_);
    }
}

void RcQueuePair::wait(Pause why, Nanoseconds until) {
    pause_ = why;
    simulator_.schedule(resumes_, until);
}

void RcQueuePair::resume() {
    const Pause why = std::exchange(pause_, Pause::none);
    if (why == Pause::no_answer && attributes_.timeout != 0 && tries_ > attributes_.retry_count) {
        settle();
        if (!requests_.empty() && state_ == QpState::ready_to_send) {
            fail(WorkStatus::retry_exceeded);
        }
        return;
    }
    pump();
}

Nanoseconds RcQueuePair::timeout() const {
    const std::uint8_t code = attributes_.timeout != 0 ? attributes_.timeout : kUsualTimeout;
    return Nanoseconds{std::int64_t{4096} << (code & 31)};
}

void RcQueuePair::path_changed() {
    if (path_ == nullptr || state_ != QpState::ready_to_send || process().dead()) {
        return;
    }
    const bool up = world_.network().up(*path_);
    RcQueuePair* at = response_.active() ? target() : nullptr;
    const bool response_up =
        !response_.active() || (at != nullptr && world_.network().up(*way_back(*at)));
    if ((flow_.active() && !up) || !response_up) {
        no_answer();
    }
}

} // namespace adaptib::sim
