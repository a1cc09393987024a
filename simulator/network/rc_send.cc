// SPDX-License-Identifier: BSD-3-Clause
// RC: requests leave, are answered, or are sent again (simulator/network/rc.h).
#include <algorithm>

#include "fabric/qp_rules.h"
#include "simulator/network/rc.h"

namespace adaptib::sim {

namespace {

bool local_access(const RegionTable& regions, const Request& request) {
    Bytes allocated = 0;
    return (request.work.flags & kInline) != 0 ||
           regions.allows(request.list(),
                          request.returns_data() ? static_cast<std::uint32_t>(kLocalWrite) : 0u,
                          allocated);
}

} // namespace

// -------------------------------------------------------------------------------------------------
// Leaving

void RcQueuePair::pump() {
    while (state_ == QpState::ready_to_send && !process().dead() && !requests_.halted() &&
           !outgoing_.leaving() && !retries_.paused() && requests_.sent() < requests_.size()) {
        Request& request = requests_[requests_.sent()];
        if (!requests_.may_leave(request, attributes_.max_reads) ||
            (is_initiator() && (!is_heard(request) || !retarget(request)))) {
            return;
        }
        if (!local_access(rail_.regions(), request)) {
            request.status = WorkStatus::local_protection_error;
            requests_.halt();
            add_to_wire(request, simulator_.now());
            return;
        }
        launch(request);
    }
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
    outgoing_.begin_at(start);
}

void RcQueuePair::on_flow_begins() {
    if (!world_.network().up(*path_)) {
        no_answer();
        return;
    }
    outgoing_.start(path_.links(), requests_[requests_.sent()].outwards(),
                    path_.links().empty() ? machine_.adapter.port_rate : BytesPerSecond{});
}

void RcQueuePair::on_flow_through() {
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
    RcQueuePair* at = world_.network().up(*path_) && world_.connections_pass() ? target() : nullptr;
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
            retries_.wait(Pause::target_busy,
                          simulator_.now() + back->latency + machine_.dc.nack_backoff);
            return false;
        case Outcome::refused: reject(request, refusal, back->latency); return false;
        }
    }
    if (!world_.network().up(*back)) {
        no_answer();
        return false;
    }
    retries_.answered();
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
    requests_.halt();
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
    outgoing_.stop();
    if (response_.active() && requests_.responding() >= first) {
        world_.network().flows().stop(response_);
    }
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
    if (migration_.armed()) {
        migration_.migrate();
        return;
    }
    take_back_unanswered();
    retries_.no_answer(attributes_);
}

void RcQueuePair::no_receive(RcQueuePair& at, Request& request) {
    const Path* back = way_back(at);
    if (retries_.gives_up_on_receive(attributes_)) {
        reject(request, WorkStatus::rnr_retry_exceeded, back->latency);
        return;
    }
    take_back(requests_.arrived());
    const Nanoseconds until = simulator_.now() + back->latency + rnr_time(at.attributes_.rnr_timer);
    if (RetryTimer::waits_for_ever(attributes_) && !is_initiator()) {
        retries_.no_receive_until_posted(until);
        at.wait_for_receive();
    } else {
        retries_.no_receive(until);
    }
}

void RcQueuePair::on_retry(Pause why) {
    if (why == Pause::no_answer && retries_.gives_up(attributes_)) {
        settle();
        if (!requests_.empty() && state_ == QpState::ready_to_send) {
            fail(WorkStatus::retry_exceeded);
        }
        return;
    }
    pump();
}

void RcQueuePair::path_changed() {
    if (path_.get() == nullptr || state_ != QpState::ready_to_send || process().dead()) {
        return;
    }
    const bool up = world_.network().up(*path_);
    RcQueuePair* at = response_.active() ? target() : nullptr;
    const bool response_up =
        !response_.active() || (at != nullptr && world_.network().up(*way_back(*at)));
    if ((outgoing_.active() && !up) || !response_up) {
        no_answer();
    }
}

} // namespace adaptib::sim
