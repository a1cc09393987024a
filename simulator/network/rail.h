// SPDX-License-Identifier: BSD-3-Clause
// A rail of the simulated fabric: one port of the host, as one process sees it.
// Ownership: the fabric's.  Threads: one.
// May touch: base/, fabric/, simulator/network/.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "fabric/fabric.h"
#include "simulator/network/regions.h"
#include "simulator/network/topology.h"
#include "simulator/network/world.h"

namespace adaptib::sim {

class SimMemoryRegion final : public MemoryRegion {
public:
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    using Memory = std::unique_ptr<std::byte[], Free>;

    // `own`: memory that is freed with the region, or null.
    SimMemoryRegion(RegionTable& table, void* address, Bytes length, std::uint32_t key, Memory own)
        : MemoryRegion(address, length), table_(table), own_(std::move(own)) {
        local_key_ = remote_key_ = key;
    }
    ~SimMemoryRegion() override { table_.remove(remote_key_); }

private:
    RegionTable& table_;
    Memory own_;
};

class SimAddressHandle final : public AddressHandle {
public:
    explicit SimAddressHandle(Path& path) : path_(path) {}
    Path& path() const { return path_; }

private:
    Path& path_;
};

class SimRail final : public Rail {
public:
    SimRail(World& world, SimFabric& fabric, Process& process, PortIndex port, std::uint32_t index);

    World& world() { return world_; }
    Process& process() { return process_; }
    PortIndex port() const { return port_; }
    RegionTable& regions() { return regions_; }
    void raise(EventKind kind, std::uint32_t qp_number, SharedReceiveQueue* srq = nullptr);
    // Takes over the address that the port has now.
    void read_address();
    // Returns the path to a remote rail; null: no port has that address, or no route leads there.
    Path* path(const PathSpec& spec);
    // The same to an address that has just been told: it is newer than what the process knows of
    // its own port.
    Path* path_back(const RailAddress& told, std::uint32_t index);

private:
    PortState state_impl() const override;
    RailAddress address_impl() const override;
    bool is_reachable_impl(const RailAddress& remote) const override;
    std::uint32_t subnet_match_impl(const RailAddress& remote) const override;
    std::uint32_t paths_to_impl(const RailAddress&) const override { return info_.paths; }
    PathSpec path_to_impl(const RailAddress& remote, std::uint32_t index) const override;
    Status create_cq_impl(std::uint32_t depth, std::unique_ptr<CompletionQueue>& out) override;
    Status create_srq_impl(std::uint32_t depth, std::unique_ptr<SharedReceiveQueue>& out) override;
    Status create_qp_impl(const QpInit& init, std::unique_ptr<QueuePair>& out) override;
    Status create_ah_impl(const PathSpec& path, std::unique_ptr<AddressHandle>& out) override;
    Status register_impl(void* address, Bytes length, std::uint32_t access,
                         std::unique_ptr<MemoryRegion>& out) override;
    // The file is not used: memory of accelerators is reached at its address.
    Status register_file_impl(const FileRange&, void* address, Bytes length, std::uint32_t access,
                              std::unique_ptr<MemoryRegion>& out) override {
        return register_impl(address, length, access, out);
    }
    Status allocate_impl(Bytes length, std::uint32_t access,
                         std::unique_ptr<MemoryRegion>& out) override;
    Status check(const QpInit& init) const;

    World& world_;
    SimFabric& fabric_;
    Process& process_;
    PortIndex port_;
    std::uint32_t index_;
    Lid lid_; // as the process knows it
    std::uint16_t address_changes_ = 0;
    RegionTable regions_;
};

} // namespace adaptib::sim
