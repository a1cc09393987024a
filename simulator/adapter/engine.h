// SPDX-License-Identifier: BSD-3-Clause
// The adapters of this process: receives packets, runs timers, knows the objects.
//
// Purpose: a thread does what an adapter does by itself, whether or not the program calls. A
// program that polls does it as well, so that no thread has to wake up meanwhile.
// Threads: `lock` guards everything but what is said to need none.
// Ownership: one per process, made at the first call, never destroyed.
// May touch: shared.h, queue_pair.h.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "late_packets.h"
#include "links.h"
#include "queue_pair.h"
#include "shared.h"

namespace adaptib::hca {

std::int64_t now_ns();

class Engine {
public:
    // Null where the environment names no topology or no host; says on stderr what is wrong.
    static Engine* get();

    std::mutex lock;
    const Topology topology;
    const std::vector<Device*>& devices() const { return devices_; }

    void start(); // at the first open device
    void stop();  // at the end of the process
    // Handles packets and timers.
    void progress();
    void progress_if_free();

    // Sends to a queue pair of another process or of this one. false: no room now; send again.
    bool transmit(PacketHeader& header, const std::uint8_t* payload);
    bool port_down(unsigned port) const { return ports()[port].down.load() != 0; }
    bool port_silent(unsigned port) const { return ports()[port].silent.load() != 0; }
    // Lowest LID of a port, which may change; 0 over Ethernet.
    std::uint16_t lid(const PortDescription& port) const { return shared_->lid(port); }
    // Number of a port's MAC address.
    std::uint32_t mac(unsigned port) const { return ports()[port].mac.load(); }
    // Needs no lock. Returns true if the port answers a question for its MAC address now.
    bool answers_arp(unsigned port) const;
    // Port that a destination LID leads to now; null: the LID is nobody's.
    const PortDescription* by_lid(std::uint16_t lid) const;

    // Counts an object of a device. Result: 0, or the error at a limit.
    int count(const Device& device, Object kind);
    void discount(const Device& device, Object kind) {
        --shared_->objects(process_, static_cast<unsigned>(device.number), kind);
    }
    // How often a device was removed and came back; odd: it is away.
    std::uint32_t removals(const Device& device) const {
        return ports()[device.description->ports.front().number].removals.load();
    }
    // Returns true if the device was removed since it was opened.
    bool gone(const Context& context) const {
        return removals(*context.device) != context.removals;
    }

    // Objects.
    void add(Context* context) { contexts_.insert(context); }
    void remove(Context* context) { contexts_.erase(context); }
    std::uint32_t new_queue_pair_number();
    void add(QueuePair* qp) { queue_pairs_[qp->ex.qp_base.qp_num] = qp; }
    void remove(QueuePair* qp);
    void schedule(QueuePair* qp);
    // Looks at the queue pairs' timers at that time, if not before.
    void look_at(std::int64_t time) { timers_at_ = std::min(timers_at_, time); }
    void unschedule(QueuePair* qp) { std::erase(scheduled_, qp); }
    std::uint32_t add(MemoryRegion* region);
    void remove(MemoryRegion* region) { regions_.erase(region->mr.lkey); }

    // Address of a part of a registered region; null where key, domain, range or rights forbid it.
    std::uint8_t* memory(std::uint32_t key, const ibv_pd* pd, std::uint64_t address,
                         std::uint64_t length, int access) const;
    // Rights to a region; 0: there is none.
    int access(std::uint32_t key) const {
        const auto found = regions_.find(key);
        return found == regions_.end() ? 0 : found->second->access;
    }
    // Copy to or from a list, from an offset on. false: a local protection error.
    bool scatter(const std::vector<ibv_sge>& places, const ibv_pd* pd, std::uint64_t offset,
                 const std::uint8_t* data, std::uint64_t length) const;
    // again: the packet was sent before. The peer may have it already and the program may thus have
    // unmapped the memory, which a real adapter would hold pinned.
    bool gather(const std::vector<ibv_sge>& places, const ibv_pd* pd, std::uint64_t offset,
                std::uint8_t* data, std::uint64_t length, bool again = false) const;

private:
    struct Kept {
        PacketHeader header;
        std::vector<std::uint8_t> payload;
        std::int64_t since;
    };

    Engine(Topology read, unsigned host, const std::string& path);
    void run();
    void handle(const Slot& slot);
    bool is_addressed(const PacketHeader& packet) const;
    std::int64_t lateness(const PacketHeader& packet);
    void deliver(const PacketHeader& packet, const std::uint8_t* payload);
    void flush_kept();
    void fabric_events();
    void fabric_event(unsigned port, ibv_event_type type);
    void take_away(Context& context);
    std::int64_t idle_time(std::int64_t now) const;
    std::array<PortState, kPorts>& ports() const { return shared_->state().ports; }

    std::unique_ptr<Shared> shared_;
    Links links_;
    unsigned host_;
    unsigned process_ = 0;
    std::uint32_t events_seen_ = 0;
    std::vector<Device*> devices_;
    std::unordered_set<Context*> contexts_;
    std::unordered_map<std::uint32_t, QueuePair*> queue_pairs_;
    std::unordered_map<std::uint32_t, MemoryRegion*> regions_;
    std::unordered_map<unsigned, std::deque<Kept>> kept_; // by process
    LatePackets late_;
    std::vector<QueuePair*> scheduled_;
    std::minstd_rand random_;
    std::uint32_t next_number_ = 0;
    std::uint32_t next_key_ = 1;
    std::int64_t timers_at_ = 0;
    std::atomic<std::int64_t> polled_at_{0};
};

// memory.cc: copies from or to registered memory that the program may have unmapped already, whose
// pages a real adapter would have pinned. false: it has.
bool copy_pinned(std::uint8_t* to, const std::uint8_t* from, std::uint64_t bytes);

// completion.cc
void complete(CompletionQueue& cq, const Completion& completion, bool solicited);
inline void complete(CompletionQueue& cq, const ibv_wc& wc, bool solicited) {
    complete(cq, Completion{wc}, solicited);
}
// Takes the oldest completion. false: there is none.
bool take(CompletionQueue& cq, Completion& completion);

} // namespace adaptib::hca
