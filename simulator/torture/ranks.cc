// SPDX-License-Identifier: BSD-3-Clause
// Cores over a simulated world (simulator/torture/ranks.h).
#include "simulator/torture/ranks.h"

#include <algorithm>
#include <utility>

#include "stats/trace_json.h"

namespace adaptib::sim {

namespace {

constexpr int kPasses = 64;               // passes of progress in one turn
constexpr std::size_t kCreditPasses = 64; // until credit is returned that can be
constexpr int kStirPasses = 66 * 1024; // passes after which a core has done all its occasional work

// True if one of the next passes returns credit.
bool owes_credit(Core& core) {
    bool owes = false;
    core.peers().for_each([&](Peer& peer) {
        owes = owes || (peer.in.ring.has_value() && peer.in.ring->credit_due() &&
                        peer.takes_credit() && !peer.in.credit_work.under_way());
    });
    return owes;
}

} // namespace

Ranks::Ranks(RanksOptions options)
    : options_(std::move(options)), endpoints_(options_.ranks, options_.endpoints),
      world_(std::exchange(options_.world, {})) {}

Ranks::~Ranks() {
    for (const std::unique_ptr<Rank>& rank : ranks_) {
        if (rank->process != nullptr) {
            rank->process->watch(nullptr);
        }
    }
    ranks_.clear();
}

std::unique_ptr<Ranks> Ranks::create(RanksOptions options, std::string& text) {
    std::unique_ptr<Ranks> ranks(new Ranks(std::move(options)));
    if (!ranks->start(text)) {
        ranks.reset();
    }
    return ranks;
}

bool Ranks::start(std::string& text) {
    const auto host_count = static_cast<std::uint32_t>(world_.topology().hosts.size());
    std::vector<std::uint32_t> on_host(host_count);
    for (std::size_t i = 0; i < options_.ranks; ++i) {
        ranks_.push_back(std::make_unique<Rank>(*this, i, options_.seed * 1'000'003 + i));
        Rank& rank = *ranks_.back();
        const std::uint32_t host =
            options_.hosts.empty() ? static_cast<std::uint32_t>(i % host_count) : options_.hosts[i];
        Rank& thread = thread_of(i);
        thread.endpoints.push_back(&rank);
        World::Attached attached;
        if (&thread == &rank) {
            attached = world_.attach(host);
        } else {
            attached = {world_.attach(*thread.process), thread.process};
        }
        rank.process = attached.process;
        if (options_.wrap) {
            attached.fabric = options_.wrap(i, std::move(attached.fabric));
        }
        Core::Environment environment;
        environment.self = name(i);
        environment.local_rank =
            options_.counts_by_host ? on_host[host]++ : static_cast<std::uint32_t>(i);
        environment.host = world_.topology().hosts[host].name;
        environment.bootstrap = &table_;
        environment.clock = rank.process;
        environment.random = &rank.random;
        environment.maps_sources = options_.maps_sources;
        environment.measure = options_.measure;
        environment.gather_costs = options_.gather_costs;
        environment.watch_memory = [this] { return options_.keeps_registrations; };
        if (options_.trace_events > 0) {
            rank.trace =
                std::make_unique<Trace>(*rank.process, options_.trace_events, TraceStamps::clock);
            rank.counters.trace = rank.trace.get();
        }
        environment.counters = &rank.counters;
        environment.message = [&rank](Severity, const std::string& message) {
            rank.messages.push_back(message);
        };
        Parameters parameters = options_.parameters;
        if (options_.parameters_of) {
            options_.parameters_of(i, parameters);
        }
        if (!Core::create(parameters, environment, std::move(attached.fabric), rank.core, text)
                 .ok()) {
            return false;
        }
        rank.process->watch(&thread);
        table_.blobs[name(i)] = rank.core->address();
    }
    for (std::size_t i = 0; i < options_.ranks; ++i) {
        core(i).startup().begin(endpoints_.process(i),
                                static_cast<std::uint32_t>(endpoints_.processes()),
                                endpoints_.count(endpoints_.process(i)));
        if (core(i).deadline() != Nanoseconds::max()) {
            wake(i);
        }
    }
    return true;
}

Peer* Ranks::peer(std::size_t from, std::size_t to) {
    Peer* peer = nullptr;
    return core(from).peers().get(name(to), peer).ok() ? peer : nullptr;
}

bool Ranks::write_trace(const std::string& path) {
    std::vector<TraceOfProcess> processes;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
        if (endpoints_.index(i) == 0) {
            processes.push_back(
                {name(i), world_.topology().hosts[process(i).host()].name, {}, 0, {}});
        }
        TraceOfEndpoint endpoint{endpoints_.index(i), ranks_[i]->trace.get(), {}};
        for (const auto& rail : core(i).rails()) {
            endpoint.rails.push_back(rail->info().name);
        }
        processes[endpoints_.process(i)].endpoints.push_back(std::move(endpoint));
    }
    return write_trace_file(path, processes);
}

// -------------------------------------------------------------------------------------------------
// Turns

void Ranks::Rank::happen() { ranks.turn(*this); }

void Ranks::Rank::on_activity() {
    vain = 0;
    const Nanoseconds when_free = std::max(process->now(), away_until);
    if (in_turn) {
        again = true;
    } else if (!scheduled() || when() > when_free) {
        ranks.world_.simulator().schedule(*this, when_free);
    }
}

void Ranks::wake(std::size_t rank, Nanoseconds when) {
    Rank& at = thread_of(rank);
    when = std::max({when, at.process->now(), at.away_until});
    if (at.in_turn && when == at.process->now()) {
        at.again = true;
    } else if (!at.scheduled() || at.when() > when) {
        world_.simulator().schedule(at, when);
    }
}

void Ranks::compute(std::size_t rank, Nanoseconds time) {
    Rank& at = thread_of(rank);
    at.away_until = std::max(at.process->now(), at.away_until) + time;
    wake(rank, at.away_until);
}

void Ranks::kill(std::size_t rank) {
    const std::uint32_t process = endpoints_.process(rank);
    for (std::uint32_t i = 0; i < endpoints_.count(process); ++i) {
        if (const std::uint32_t endpoint = endpoints_.rank(process, i); alive(endpoint)) {
            world_.kill(this->process(endpoint));
        }
    }
}

std::size_t Ranks::pass(Rank& rank) {
    std::size_t events = 0;
    for (Rank* endpoint : rank.endpoints) {
        events += pass_of_endpoint(*endpoint);
    }
    return events;
}

std::size_t Ranks::pass_of_endpoint(Rank& rank) {
    const auto rings = static_cast<std::int64_t>(rank.core->ring_poller().polled());
    rank.process->charge(options_.ring_poll * rings / 2);
    const std::size_t events = rank.core->progress();
    if (events > 0) { // otherwise the rank waits
        rank.process->charge(options_.ring_poll * rings / 2);
    }
    CompletedList& completed = rank.core->protocol().completed();
    while (!completed.empty()) {
        UserRequest* user = completed.pop();
        user->complete(user);
    }
    if (options_.program) {
        options_.program(rank.number);
    }
    return events;
}

// True until each idle ring has been polled, in turn, since the last event, all that is complete
// has been reported, and credit that can be returned has been.
bool Ranks::goes_on(const Rank& rank) {
    if (computes(rank)) {
        return false;
    }
    const bool waits =
        std::all_of(rank.endpoints.begin(), rank.endpoints.end(), [&](const Rank* endpoint) {
            return rank.vain > endpoint->core->ring_poller().cold() &&
                   endpoint->core->protocol().completed().empty();
        });
    return !waits || rank.again || rank.process->unseen() > 0 ||
           (rank.vain < kCreditPasses &&
            std::any_of(rank.endpoints.begin(), rank.endpoints.end(),
                        [](const Rank* endpoint) { return owes_credit(*endpoint->core); }));
}

// The time of the next turn that the rank has by itself, after one; max: it waits for something.
// Devices, peers and faults wake it when they do something (Activity, fault::Wake).
Nanoseconds Ranks::sleeps_until(const Rank& rank) {
    if (computes(rank)) {
        return rank.away_until;
    }
    if (goes_on(rank)) {
        return rank.process->now();
    }
    Nanoseconds due = Nanoseconds::max();
    for (const Rank* endpoint : rank.endpoints) {
        due = std::min(due, endpoint->core->deadline());
    }
    return due;
}

void Ranks::turn(Rank& rank) {
    if (rank.process->dead()) {
        return;
    }
    if (computes(rank)) { // the turn was scheduled before the computing began
        wake(rank.number);
        return;
    }
    rank.in_turn = true;
    if (rank.process->idle()) {
        for (Rank* endpoint : rank.endpoints) { // an idle rank has polled all the time, in vain
            endpoint->core->protocol().transfers().on_polled();
        }
    }
    rank.process->begin_turn();
    for (Rank* endpoint : rank.endpoints) {
        if (endpoint->core->deadline() <= rank.process->now()) {
            endpoint->core->run_timers();
        }
    }
    int passes = 0;
    std::size_t events = 0;
    do {
        rank.again = false;
        events = pass(rank);
        rank.vain = events > 0 ? 0 : rank.vain + 1;
    } while (goes_on(rank) && ++passes < kPasses);
    rank.in_turn = false;
    if (const Nanoseconds next = sleeps_until(rank); next != Nanoseconds::max()) {
        wake(rank.number, next);
    }
}

// Called when nothing is under way: occasional work of the cores may start something. Returns false
// if it does not.
bool Ranks::stir() {
    for (const std::unique_ptr<Rank>& rank : ranks_) {
        if (!rank->endpoints.empty() && !rank->process->dead() && !computes(*rank)) {
            rank->in_turn = true;
            for (int i = 0; i < kStirPasses; ++i) {
                pass(*rank);
            }
            rank->in_turn = false;
            if (std::exchange(rank->again, false) || rank->process->unseen() > 0) {
                wake(rank->number);
            }
        }
    }
    return !world_.simulator().idle();
}

bool Ranks::run_until(const std::function<bool()>& condition, Nanoseconds limit) {
    Simulator& simulator = world_.simulator();
    const Nanoseconds end = simulator.now() + limit;
    idle_ = false;
    while (!condition()) {
        if (simulator.idle() && !stir() && !condition()) {
            idle_ = true;
            return false;
        }
        if (!simulator.idle()) {
            if (simulator.next() > end) {
                return false;
            }
            simulator.step();
        }
    }
    return true;
}

} // namespace adaptib::sim
