// SPDX-License-Identifier: BSD-3-Clause
// Start, the thread, packets in and out, events of the fabric.
#include "engine.h"

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <semaphore>
#include <sstream>
#include <string>
#include <thread>

namespace adaptib::hca {
namespace {

constexpr std::int64_t kPollingPause = 200'000; // ns
constexpr std::int64_t kTimerTick = 1'000'000;
constexpr std::int64_t kKeptLimit = 500'000'000; // then a packet to a full inbox is lost
constexpr std::size_t kKeptPackets = 32;

const char* environment(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr || *value == '\0' ? nullptr : value;
}

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, ',');) {
        parts.push_back(part);
    }
    return parts;
}

// ADAPTIB_HCA_HOST: a name, or NAME,NAME...@VARIABLE, whose number chooses among them in turn.
int chosen_host(const Topology& topology) {
    const char* const given = environment("ADAPTIB_HCA_HOST");
    if (given == nullptr) {
        return topology.hosts.empty() ? -1 : 0;
    }
    const std::string text = given;
    const std::size_t at = text.find('@');
    const std::vector<std::string> names = split(text.substr(0, at));
    if (names.empty()) {
        return -1;
    }
    const char* const number = at == std::string::npos ? nullptr : environment(given + at + 1);
    const std::size_t turn = number == nullptr ? 0 : std::strtoul(number, nullptr, 10);
    return topology.host(names[turn % names.size()]);
}

} // namespace

std::int64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

Engine* Engine::get() {
    static Engine* const engine = []() -> Engine* {
        const char* const path = environment("ADAPTIB_HCA_TOPOLOGY");
        if (path == nullptr) {
            return nullptr;
        }
        try {
            Topology topology = parse_topology(path);
            const int host = chosen_host(topology);
            if (host < 0) {
                throw TopologyError(std::string(path) + ": ADAPTIB_HCA_HOST is no host of it");
            }
            return new Engine(std::move(topology), static_cast<unsigned>(host), shared_path(path));
        } catch (const std::exception& error) {
            std::fprintf(stderr, "virtual adapter: %s\n", error.what());
            return nullptr;
        }
    }();
    return engine;
}

Engine::Engine(Topology read, unsigned host, const std::string& path)
    : topology(std::move(read)), shared_(std::make_unique<Shared>(path)),
      links_(topology, *shared_), host_(host), random_(static_cast<std::uint32_t>(now_ns())) {
    for (std::size_t number = 0; number < topology.devices.size(); ++number) {
        const DeviceDescription& description = topology.devices[number];
        if (description.host != host) {
            continue;
        }
        auto* const device = new Device;
        device->description = &description;
        device->number = static_cast<int>(number);
        switch (static_cast<Transport>(description.rule(Rule::transport))) {
        case Transport::infiniband:
            device->device.node_type = IBV_NODE_CA;
            device->device.transport_type = IBV_TRANSPORT_IB;
            break;
        case Transport::iwarp:
            device->device.node_type = IBV_NODE_RNIC;
            device->device.transport_type = IBV_TRANSPORT_IWARP;
            break;
        case Transport::unspecified:
            device->device.node_type = IBV_NODE_UNSPECIFIED;
            device->device.transport_type = IBV_TRANSPORT_UNSPECIFIED;
            break;
        }
        std::snprintf(device->device.name, sizeof device->device.name, "%s",
                      description.name.c_str());
        std::snprintf(device->device.dev_name, sizeof device->device.dev_name, "uverbs%zu", number);
        devices_.push_back(device);
    }
}

void Engine::start() {
    if (process_ != 0) {
        return;
    }
    process_ = shared_->join(host_);
    if (process_ == 0) {
        std::fprintf(stderr, "virtual adapter: %u processes use it already\n", kProcesses - 1);
        return;
    }
    events_seen_ = shared_->state().events_written.load();
    next_number_ = random_() & 0xffff;
    next_key_ = random_() & 0xffffff;
    std::atexit([] { Engine::get()->stop(); });
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // the program's signals are for its threads
    // The C library makes a heap for the thread now, rather than while Open MPI changes the code of
    // munmap().
    std::binary_semaphore begun{0};
    std::thread([this, &begun] {
        ::operator delete(::operator new(1));
        begun.release();
        run();
    }).detach();
    begun.acquire();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Engine::stop() { shared_->leave(process_); }

void Engine::run() {
    for (;;) {
        std::int64_t pause = 0;
        {
            const std::lock_guard guard(lock);
            progress();
            pause = idle_time(now_ns());
        }
        if (now_ns() - polled_at_.load(std::memory_order_relaxed) < kPollingPause) {
            const timespec span{0, std::min(pause, kPollingPause)};
            nanosleep(&span, nullptr);
        } else {
            shared_->wait(process_, pause);
        }
    }
}

std::int64_t Engine::idle_time(std::int64_t now) const {
    if (!kept_.empty() || !scheduled_.empty()) {
        return 50'000;
    }
    const std::int64_t due = late_.empty() ? now + 100'000'000 : late_.next_due();
    for (const auto& [number, qp] : queue_pairs_) {
        if (qp->waits()) {
            return std::max<std::int64_t>(std::min(due, timers_at_) - now, 20'000);
        }
    }
    return std::max<std::int64_t>(due - now, 20'000);
}

void Engine::progress_if_free() {
    polled_at_.store(now_ns(), std::memory_order_relaxed);
    if (lock.try_lock()) {
        progress();
        lock.unlock();
    }
}

void Engine::progress() {
    if (process_ == 0) {
        return;
    }
    for (unsigned budget = kInboxSlots; budget > 0; --budget) {
        const Slot* const slot = shared_->front(process_);
        if (slot == nullptr) {
            break;
        }
        handle(*slot);
        shared_->pop(process_);
    }
    if (!late_.empty()) {
        late_.release(now_ns(), [this](const PacketHeader& packet, const std::uint8_t* payload) {
            if (!port_down(packet.target_port) && !port_silent(packet.target_port)) {
                deliver(packet, payload);
            }
        });
    }
    if (!kept_.empty()) {
        flush_kept();
    }
    if (!scheduled_.empty()) {
        std::vector<QueuePair*> ready;
        ready.swap(scheduled_);
        for (QueuePair* qp : ready) {
            qp->queued = false;
            qp->pump();
        }
    }
    if (events_seen_ != shared_->state().events_written.load()) {
        fabric_events();
    }
    if (const std::int64_t now = now_ns(); now >= timers_at_) {
        timers_at_ = now + kTimerTick;
        for (const auto& [number, qp] : queue_pairs_) {
            qp->check_timers(now);
        }
    }
}

void Engine::handle(const Slot& slot) {
    const PacketHeader& packet = slot.header;
    const std::uint32_t loss = ports()[packet.target_port].loss.load();
    if (port_down(packet.target_port) || port_silent(packet.target_port) ||
        (loss != 0 && random_() % 1'000'000 < loss) || !is_addressed(packet)) {
        return;
    }
    const std::int64_t late = lateness(packet);
    const std::int64_t due = late > 0 ? std::max(packet.due, now_ns() + late) : packet.due;
    if ((due > 0 && due > now_ns()) || late_.holds_before(packet)) {
        late_.hold(packet, slot.payload.data(), due);
        return;
    }
    deliver(packet, slot.payload.data());
}

const PortDescription* Engine::by_lid(std::uint16_t lid) const {
    return topology.by_lid(lid, [this](const PortDescription& port) { return this->lid(port); });
}

// The port's LID or MAC address may have changed since the packet got its own.
bool Engine::is_addressed(const PacketHeader& packet) const {
    const PortDescription& port = *topology.ports[packet.target_port];
    if (port.ethernet) {
        const std::uint32_t lost = ports()[port.number].lost_flows.load();
        constexpr std::uint32_t kSpread = 2654435761; // Knuth's: neighbours fall far apart
        return packet.target_mac == mac(port.number) &&
               (lost == 0 || packet.udp_port * kSpread % 1'000'000 >= lost);
    }
    const unsigned first = lid(port);
    return packet.target_lid >= first && packet.target_lid < first + (1U << port.lmc);
}

bool Engine::answers_arp(unsigned port) const {
    PortState& state = ports()[port];
    if (port_down(port) || port_silent(port) || state.silent_arp.load() != 0) {
        return false;
    }
    for (std::uint32_t lost = state.arp_lost.load(); lost > 0;) {
        if (state.arp_lost.compare_exchange_weak(lost, lost - 1)) {
            return false;
        }
    }
    return true;
}

// Nanoseconds by which this packet comes late.
std::int64_t Engine::lateness(const PacketHeader& packet) {
    const PortDescription& port = *topology.ports[packet.target_port];
    const unsigned path = port.ethernet ? 0 : (packet.target_lid - lid(port)) % kPortPaths;
    const std::uint32_t most = ports()[packet.target_port].delay[path].load();
    return most == 0 ? 0 : static_cast<std::int64_t>(random_() % (most + 1)) * 1000;
}

void Engine::deliver(const PacketHeader& packet, const std::uint8_t* payload) {
    const PortDescription& port = *topology.ports[packet.target_port];
    const auto found = queue_pairs_.find(packet.target_qpn);
    if (found != queue_pairs_.end() && packet.payload <= port.active_mtu &&
        found->second->uses(packet.target_port)) {
        found->second->handle(packet, payload);
    }
}

bool Engine::transmit(PacketHeader& header, const std::uint8_t* payload) {
    const unsigned process = header.target_qpn >> 16;
    if (port_down(header.source_port) || port_down(header.target_port) || process >= kProcesses ||
        shared_->state().inboxes[process].pid.load() == 0) {
        return true; // and is lost
    }
    const auto kept = kept_.find(process);
    if (kept != kept_.end() && kept->second.size() >= kKeptPackets) {
        return false;
    }
    if (const Links::Fate fate = links_.send(header, now_ns(), header.due);
        fate != Links::Fate::goes) {
        return fate == Links::Fate::lost;
    }
    if (kept != kept_.end() || !shared_->send(process, header, payload)) {
        kept_[process].push_back({header, {payload, payload + header.payload}, now_ns()});
    }
    return true;
}

void Engine::flush_kept() {
    for (auto entry = kept_.begin(); entry != kept_.end();) {
        std::deque<Kept>& queue = entry->second;
        while (!queue.empty() &&
               (shared_->send(entry->first, queue.front().header, queue.front().payload.data()) ||
                now_ns() - queue.front().since > kKeptLimit)) {
            queue.pop_front();
        }
        entry = queue.empty() ? kept_.erase(entry) : std::next(entry);
    }
}

void Engine::fabric_events() {
    SharedState& state = shared_->state();
    const std::uint32_t written = state.events_written.load();
    for (; events_seen_ != written; ++events_seen_) {
        const FabricEvent& event = state.events[events_seen_ % kEvents];
        fabric_event(event.port.load(), static_cast<ibv_event_type>(event.type.load()));
    }
}

void Engine::fabric_event(unsigned port, ibv_event_type type) {
    const PortDescription& description = *topology.ports[port];
    for (Context* context : contexts_) {
        if (context->device->number != static_cast<int>(description.device) || context->removed) {
            continue;
        }
        ibv_async_event event{};
        event.event_type = type;
        event.element.port_num = description.index;
        context->events.push(event);
        context->fatal = context->fatal || type == IBV_EVENT_DEVICE_FATAL;
        if (type == IBV_EVENT_DEVICE_FATAL && gone(*context)) {
            take_away(*context);
        }
    }
    if (type == IBV_EVENT_DEVICE_FATAL) {
        for (const auto& [number, qp] : queue_pairs_) {
            if (of(qp->ex.qp_base.context)->fatal) {
                qp->fail(IBV_WC_WR_FLUSH_ERR);
            }
        }
    }
}

// Nothing of a removed device works any more, and nothing tells that but its files.
void Engine::take_away(Context& context) {
    context.removed = true;
    for (Channel* channel : context.channels) {
        channel->events.end();
    }
    std::erase_if(queue_pairs_, [&](const auto& entry) {
        const bool its = of(entry.second->ex.qp_base.context) == &context;
        if (its) {
            unschedule(entry.second);
        }
        return its;
    });
}

int Engine::count(const Device& device, Object kind) {
    static constexpr Rule kLimits[] = {Rule::max_qp, Rule::max_cq, Rule::max_pd,
                                       Rule::max_mr, Rule::max_ah, Rule::max_srq};
    const DeviceDescription& description = *device.description;
    const auto number = static_cast<unsigned>(device.number);
    std::uint64_t own = 0;
    for (std::size_t each = 0; each < kObjectKinds; ++each) {
        own += shared_->objects(process_, number, static_cast<Object>(each)).load();
    }
    const auto allowed = static_cast<std::uint64_t>(description.rule(Rule::cgroup_objects));
    if (allowed != 0 && own >= allowed) {
        return EAGAIN;
    }
    ++shared_->objects(process_, number, kind);
    const auto most =
        static_cast<std::uint64_t>(description.rule(kLimits[static_cast<std::size_t>(kind)]));
    const bool unlimited = kind == Object::ah && most == 0;
    if (!unlimited && most < static_cast<std::uint64_t>(kAny) &&
        shared_->all_objects(number, kind) > most) {
        discount(device, kind);
        return static_cast<int>(description.rule(Rule::full_error));
    }
    return 0;
}

std::uint32_t Engine::new_queue_pair_number() {
    std::uint32_t number = 0;
    do {
        number = (process_ << 16) | (next_number_++ & 0xffff);
    } while (queue_pairs_.contains(number));
    return number;
}

void Engine::remove(QueuePair* qp) {
    queue_pairs_.erase(qp->ex.qp_base.qp_num);
    qp->end_sessions();
    unschedule(qp);
}

void Engine::schedule(QueuePair* qp) {
    if (!qp->queued) {
        qp->queued = true;
        scheduled_.push_back(qp);
    }
}

} // namespace adaptib::hca
