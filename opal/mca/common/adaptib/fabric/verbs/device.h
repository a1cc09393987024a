// SPDX-License-Identifier: BSD-3-Clause
// Devices: the choice among those of the machine, and an open one.
//
// Ownership: the fabric owns its devices; everything created in a device ends before it.
// Threads: one.
// May touch: base/, fabric/, libibverbs, sysfs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "fabric/verbs/address_handles.h"
#include "fabric/verbs/verbs_calls.h"
#include "fabric/verbs/verbs_fabric.h"

namespace adaptib::verbs {

// One entry of if_include, if_exclude or if_standby.
struct Wanted {
    std::string device;
    int port = 0; // 0 = all
};

// Errors: bad_argument, with the text that names the entry.
Status parse_wanted(const std::string& list, std::vector<Wanted>& out, std::string& error_text);

constexpr std::uint32_t kSoftRoceVendor = 0xffffff; // RXE_VENDOR_ID of Linux

// An open device with its protection domain.
class Device {
public:
    // Errors: as libibverbs; error_text says what failed.
    // `distance`: from the process (fabric/verbs/locality.h). `mlx5`: libmlx5, or null.
    static Status open(const Calls& calls, const Mlx5Calls* mlx5, ibv_device* device,
                       std::uint32_t distance, std::unique_ptr<Device>& out,
                       std::string& error_text);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    const Calls& calls() const { return calls_; }
    const Mlx5Calls* mlx5() const { return mlx5_; } // null: libmlx5 does not drive this device
    ibv_context* context() const { return context_; }
    ibv_pd* pd() const { return pd_; }
    AddressHandles& handles() const { return *handles_; }
    const ibv_device_attr& limits() const { return limits_; }
    // True: places of a send queue are free once requests are done (send_places.h).
    bool frees_places_early() const;
    const std::string& name() const { return name_; }
    int numa_node() const { return numa_node_; }
    std::uint32_t distance() const { return distance_; }

private:
    Device(const Calls& calls, ibv_device* device, std::uint32_t distance);

    const Calls& calls_;
    const Mlx5Calls* mlx5_ = nullptr;
    std::string name_;
    int numa_node_ = -1;
    std::uint32_t distance_ = 10;
    ibv_context* context_ = nullptr;
    ibv_pd* pd_ = nullptr;
    std::unique_ptr<AddressHandles> handles_; // of `pd_`
    ibv_device_attr limits_{};
};

// Devices of the machine; their pointers end with the list.
class DeviceList {
public:
    explicit DeviceList(const Calls& calls) : calls_(calls) {}
    ~DeviceList();
    DeviceList(const DeviceList&) = delete;
    DeviceList& operator=(const DeviceList&) = delete;

    // Errors: no_device (the system has no RDMA support), no_permission, no_memory.
    Status read(std::string& error_text);
    // Chooses devices, in the order that their rails get. Errors: bad_argument (unknown device, or
    // both lists given).
    Status choose(const VerbsOptions& options, std::vector<ibv_device*>& out,
                  std::vector<std::string>& notices, std::string& error_text);
    std::string names() const; // "mlx5_0, mlx5_1"
    // Distance of a chosen device from the process (fabric/verbs/locality.h).
    std::uint32_t distance(ibv_device* device) const;
    bool empty() const { return devices_.empty(); }
    const std::vector<ibv_device*>& devices() const { return devices_; } // all, by name

    const std::vector<Wanted>& included() const { return included_; }
    const std::vector<Wanted>& excluded() const { return excluded_; }
    const std::vector<Wanted>& standby() const { return standby_; }

private:
    ibv_device* find(const std::string& name) const;
    void report_missing(const std::vector<Wanted>& list, const char* name,
                        std::vector<std::string>& notices) const;
    void put_standby_last(std::vector<ibv_device*>& out) const;
    void find_distances(const VerbsOptions& options, const std::vector<ibv_device*>& devices);

    const Calls& calls_;
    ibv_device** list_ = nullptr;
    std::vector<ibv_device*> devices_; // sorted by name
    // Distances from the process; empty if all devices are at one NUMA node.
    std::map<ibv_device*, std::uint32_t> distances_;
    std::vector<Wanted> included_;
    std::vector<Wanted> excluded_;
    std::vector<Wanted> standby_;
};

// Returns true if the lists choose this port.
bool port_wanted(const DeviceList& list, const std::string& device, int port);
// Returns true if the port is to be a standby.
bool is_standby(const DeviceList& list, const std::string& device, int port);

} // namespace adaptib::verbs
