// SPDX-License-Identifier: BSD-3-Clause
// State that the processes on one topology share: who is there, what state the ports are in, the
// events of the fabric, and an inbox of packets for each process.
//
// Purpose: one file, mapped by all. Only packets pass between processes; none reads another one's
// memory.
// Ownership: the file stays until someone removes it; what a process that ended left in it is
// reused.
// Threads: inboxes have a robust lock for senders, so that a killed sender leaves it usable; the
// receiver is one thread at a time (the engine's lock).
// Errors: std::system_error from the constructor.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "packet.h"
#include "topology.h"

namespace adaptib::hca {

inline constexpr unsigned kProcesses = 128; // number 0 is nobody's: queue pairs 0 and 1 are special
inline constexpr unsigned kInboxSlots = 256;
inline constexpr unsigned kEvents = 1024;
inline constexpr unsigned kPortPaths = 8; // LIDs of a port at most

struct Slot {
    PacketHeader header;
    std::array<std::uint8_t, kMaxMtu> payload;
};

// Kinds of objects that devices count.
enum class Object : std::uint8_t { qp, cq, pd, mr, ah, srq };
inline constexpr std::size_t kObjectKinds = 6;
using ObjectCounts = std::array<std::atomic<std::uint32_t>, kObjectKinds>;

struct Inbox {
    pthread_mutex_t senders;
    std::atomic<std::int32_t> pid;
    std::atomic<std::uint32_t> host;
    std::atomic<std::uint32_t> head;
    std::atomic<std::uint32_t> tail;
    std::atomic<std::uint32_t> sleeping; // the receiver waits on doorbell
    std::atomic<std::uint32_t> doorbell;
    std::array<ObjectCounts, kPorts> objects; // of the process, by number of the device
    std::array<Slot, kInboxSlots> slots;
};

// Faults and changes of a port, as `control` sets them.
struct PortState {
    std::atomic<std::uint8_t> down;
    std::atomic<std::uint8_t> silent;     // its device does nothing any more, and says nothing
    std::atomic<std::uint32_t> loss;      // packets of a million that vanish on arrival
    std::atomic<std::uint16_t> lid;       // that the subnet manager gave it; 0: the topology file's
    std::atomic<std::uint32_t> mac;       // number of its present MAC address, over Ethernet
    std::atomic<std::uint8_t> silent_arp; // it answers no ARP
    std::atomic<std::uint32_t> arp_lost;  // so many of the next ARP exchanges with it fail
    // Of a million UDP source ports: packets from these do not reach it.
    std::atomic<std::uint32_t> lost_flows;
    // Of a device's first port: how often the device was removed and came back. Odd: it is away.
    std::atomic<std::uint32_t> removals;
    // Microseconds by which a packet to each of the port's LIDs is late at most; 0: it is in time.
    std::array<std::atomic<std::uint32_t>, kPortPaths> delay;
};

// A link between ports and switches.
struct LinkState {
    std::atomic<std::uint8_t> down;     // packets onto it vanish
    std::atomic<std::uint64_t> packets; // that it has carried
    std::atomic<std::uint64_t> bytes;
    std::atomic<std::int64_t> free_at; // when it has carried all that was put onto it
};

// An asynchronous event (an ibv_event_type) of a port, numbered from 1.
struct FabricEvent {
    std::atomic<std::uint32_t> port;
    std::atomic<std::uint32_t> type;
};

struct SharedState {
    std::uint32_t magic;
    std::atomic<std::uint32_t> events_written;
    std::array<FabricEvent, kEvents> events;
    std::array<PortState, kPorts> ports;
    std::array<LinkState, kLinks> links;
    std::array<Inbox, kProcesses> inboxes;
};

class Shared {
public:
    // path: file of the shared state; it is made if it is missing.
    explicit Shared(const std::string& path);
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;

    // Takes a free inbox for this process; 0 if all are taken.
    unsigned join(unsigned host);
    void leave(unsigned process);
    // Objects of a kind that a process has on a device.
    std::atomic<std::uint32_t>& objects(unsigned process, unsigned device, Object kind) {
        return inbox(process).objects[device][static_cast<std::size_t>(kind)];
    }
    // Those of all processes that are alive.
    std::uint64_t all_objects(unsigned device, Object kind);

    // Puts a packet into a process's inbox. false: no room now.
    bool send(unsigned process, const PacketHeader& header, const std::uint8_t* payload);
    // Oldest packet in the inbox, or null; pop() gives its slot back.
    const Slot* front(unsigned process) const;
    void pop(unsigned process);
    // Waits for a packet or for ring().
    void wait(unsigned process, std::int64_t nanoseconds);
    void ring(unsigned process);

    // Lowest LID of a port: the topology file's, unless `control` changed it. 0 over Ethernet.
    std::uint16_t lid(const PortDescription& port) const;
    void raise(unsigned port, std::uint32_t type);
    SharedState& state() { return *state_; }

private:
    Inbox& inbox(unsigned process) const { return state_->inboxes[process]; }

    int file_ = -1;
    SharedState* state_ = nullptr;
};

// File of the shared state of a topology file: ADAPTIB_HCA_FABRIC, or one in /dev/shm whose name
// holds user, device and inode of the topology file.
std::string shared_path(const std::string& topology_path);

} // namespace adaptib::hca
