// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets between two simulated cores (one_sided.h).
#include "simulator/studies/one_sided.h"

#include <algorithm>
#include <string>
#include <utility>

#include "memory/registration.h"
#include "protocol/protocol.h"

namespace adaptib::study {

namespace {

constexpr Bytes kMemory = 64 * kMiB; // more than one direction of an epoch
constexpr Nanoseconds kLimit = std::chrono::minutes{1};

sim::MachineModel registered(const char* name) {
    sim::MachineModel machine = *sim::machine(name);
    machine.processor.registration = machine.processor.registration_page = Nanoseconds{0};
    return machine;
}

} // namespace

std::vector<OneSidedHosts> one_sided_hosts() {
    sim::MachineModel em64t = registered("infinihost-iii");
    em64t.adapter.port_rate = {1'000'000'000}; // 4x
    em64t.adapter.engine_rate = {971'000'000}; // Vishnu 5.3.2: the peak of one port
    em64t.adapter.bus_rate = {1'500'000'000};  // the peak of two ports, in one direction
    return {{"IA32", registered("infinihost"), {}, {.adapters = 2}, 0},
            {"EM64T", em64t, {}, {.ports = 2}, 1},
            {"connect-ib", registered("connect-ib"), {}, {.adapters = 2}, 2}};
}

// Requests of one process, and its memory, which the other one puts to and gets from.
struct OneSidedPair::Side {
    struct Request {
        UserRequest user{}; // first member: the core returns a pointer to it
        Side* side = nullptr;
    };
    static void completed(UserRequest* user) {
        Side& side = *reinterpret_cast<Request*>(user)->side;
        --side.waiting;
        side.good = side.good && user->status == OPAL_COMMON_ADAPTIB_SUCCESS;
    }

    std::vector<std::byte> memory =
        std::vector<std::byte>(2 * kMemory); // the window, then data of its own
    Registration known;
    opal_common_adaptib_remote_t remote{};
    std::vector<Request> requests;
    std::size_t waiting = 0;
    bool good = true;
};

OneSidedPair::OneSidedPair(const Study& study, const sim::MachineModel& machine,
                           const sim::HostModel& host,
                           const std::function<void(Parameters&)>& parameters, std::uint64_t seed,
                           const std::function<GatherCosts()>& costs)
    : study_(study), registered_(!costs) {
    sim::RanksOptions options;
    options.keeps_registrations = !registered_;
    options.gather_costs = costs;
    options.seed = options.world.seed = seed;
    options.world.machine = machine;
    options.world.topology = sim::crossbar(2, host, sim::links_of(machine));
    parameters(options.parameters);
    std::string text;
    if (sim::Routes::compute(options.world.topology, options.world.routes, text)) {
        ranks_ = sim::Ranks::create(std::move(options), text);
    }
    if (ranks_ == nullptr) {
        study.fail(text);
    }
    for (std::size_t rank = 0; rank < 2; ++rank) {
        sides_.push_back(std::make_unique<Side>());
        Side& side = *sides_.back();
        if (!side.known
                 .make(ranks_->core(rank).rails(), side.memory.data(), side.memory.size(),
                       kLocalWrite | kRemoteRead | kRemoteWrite)
                 .ok()) {
            study.fail("memory cannot be registered");
        }
        side.remote.base = reinterpret_cast<std::uintptr_t>(side.memory.data());
        side.remote.bytes = kMemory;
        side.remote.access = OPAL_COMMON_ADAPTIB_REMOTE_READ | OPAL_COMMON_ADAPTIB_REMOTE_WRITE;
        side.remote.key_count = side.known.key_count();
        side.known.copy_remote_keys(side.remote.keys);
    }
    epoch({{true, 8}, {false, 8}}, true); // connects the two
}

// Regions end before their rails.
OneSidedPair::~OneSidedPair() { sides_.clear(); }

void OneSidedPair::start(std::size_t rank, const std::vector<Operation>& operations) {
    Side& side = *sides_[rank];
    const Side& target = *sides_[1 - rank];
    side.requests = std::vector<Side::Request>(operations.size());
    side.waiting = operations.size();
    Bytes at = 0;
    for (std::size_t i = 0; i < operations.size(); ++i) {
        const auto& [put, bytes] = operations[i];
        Side::Request& request = side.requests[i];
        request.user.complete = &Side::completed;
        request.side = &side;
        at = at + bytes > kMemory ? 0 : at;
        const opal_common_adaptib_one_sided_t what{put ? OPAL_COMMON_ADAPTIB_PUT
                                                       : OPAL_COMMON_ADAPTIB_GET,
                                                   side.memory.data() + kMemory + at,
                                                   nullptr,
                                                   target.remote.base + at,
                                                   &target.remote,
                                                   bytes,
                                                   0,
                                                   0};
        at += bytes;
        bool complete = false;
        const Status status = ranks_->core(rank).protocol().one_sided().start(
            *ranks_->peer(rank, 1 - rank), what, registered_ ? &side.known : nullptr, request.user,
            complete);
        ranks_->core(rank).protocol().ask_for_connections();
        if (!status.ok()) {
            study_.fail(std::string("an operation is refused: ") + reason_text(status.reason()));
        }
        if (complete) {
            Side::completed(&request.user);
        }
    }
    ranks_->wake(rank);
}

double OneSidedPair::epoch(const std::vector<Operation>& operations, bool both) {
    const Nanoseconds begin = both ? std::min(ranks_->now(0), ranks_->now(1)) : ranks_->now(0);
    for (std::size_t rank = 0; rank < (both ? 2u : 1u); ++rank) {
        start(rank, operations);
    }
    const auto over = [&](std::size_t rank) { return sides_[rank]->waiting == 0; };
    if (!ranks_->run_until([&] { return over(0) && over(1); }, kLimit) || !sides_[0]->good ||
        !sides_[1]->good) {
        study_.fail("an epoch does not end");
    }
    const Nanoseconds end = both ? std::max(ranks_->now(0), ranks_->now(1)) : ranks_->now(0);
    return 1e-3 * static_cast<double>((end - begin).count());
}

} // namespace adaptib::study
