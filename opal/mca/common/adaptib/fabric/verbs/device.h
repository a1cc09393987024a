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

#include "base/intrusive_list.h"
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

// An object of a device that is made anew when the device was lost and is back.
class Renewed {
public:
    // Makes it in the device as it is open now; nothing that it had before is left. Returns 0 or
    // the error number.
    virtual int renew() = 0;
    // Takes renew() back, whether it succeeded or not: the object has nothing in the device.
    virtual void take_back() = 0;
    ListLink<Renewed> link;

protected:
    ~Renewed() = default;
};

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

    // The device has failed, or was removed: nothing of it works any more.
    void lose() { lost_ = true; }
    bool lost() const { return lost_; }
    // Opens a device that was lost and is back. What was made in it before stays, and works no
    // more. Errors: as open().
    Status open_again(ibv_device* device, std::string& error_text);
    // Takes the last open_again() back. REQUIRES: nothing of it is left.
    void close_again();
    // Makes memory regions and queues anew. Queue pairs are not: those of before are in ERR.
    // Returns false, and nothing is made, if the device has no room.
    bool renew();
    // Regions and queues, which renew() makes anew.
    IntrusiveList<Renewed, &Renewed::link>& renewed() { return renewed_; }
    // Returns true if the device was lost, or is about to be: asks the system, since its event may
    // not have been read yet.
    bool is_away() const;
    // Keeps a queue of a lost device, which its queue pairs may refer to, for as long as those may
    // live.
    void keep(ibv_cq* cq) { kept_cqs_.push_back(cq); }
    void keep(ibv_srq* srq) { kept_srqs_.push_back(srq); }

    const Calls& calls() const { return calls_; }
    const Mlx5Calls* mlx5() const { return mlx5_; } // null: libmlx5 does not drive this device
    ibv_context* context() const { return now_.context; }
    ibv_pd* pd() const { return now_.pd; }
    AddressHandles& handles() const { return *now_.handles; }
    const ibv_device_attr& limits() const { return now_.limits; }
    // True: places of a send queue are free once requests are done (send_places.h).
    bool frees_places_early() const;
    // True: the receive queue of a queue pair is memory of the process. The system flushes it at
    // the move to ERR, but not what comes into it after that, and leaves it alone at RESET.
    bool keeps_receives() const;
    // False: resizing a completion queue may wait for seconds, or free it.
    bool resizes_safely() const;
    const std::string& name() const { return name_; }
    int numa_node() const { return numa_node_; }
    std::uint32_t distance() const { return distance_; }

private:
    struct Opened {
        ibv_context* context = nullptr;
        ibv_pd* pd = nullptr;
        std::unique_ptr<AddressHandles> handles; // of `pd`
        ibv_device_attr limits{};
    };

    Device(const Calls& calls, ibv_device* device, std::uint32_t distance);
    Status open(ibv_device* device, Opened& out, std::string& error_text) const;
    void close(Opened& opened) const;

    const Calls& calls_;
    const Mlx5Calls* mlx5_ = nullptr;
    std::string name_;
    int numa_node_ = -1;
    std::uint32_t distance_ = 10;
    IntrusiveList<Renewed, &Renewed::link> renewed_;
    bool lost_ = false;
    Opened now_;
    std::vector<Opened> before_; // it was lost; kept, since objects of it may live
    std::vector<ibv_cq*> kept_cqs_;
    std::vector<ibv_srq*> kept_srqs_;
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
    std::string names() const;                       // "mlx5_0, mlx5_1"
    ibv_device* find(const std::string& name) const; // null: there is none
    // Distance of a chosen device from the process (fabric/verbs/locality.h).
    std::uint32_t distance(ibv_device* device) const;
    bool empty() const { return devices_.empty(); }
    const std::vector<ibv_device*>& devices() const { return devices_; } // all, by name

    const std::vector<Wanted>& included() const { return included_; }
    const std::vector<Wanted>& excluded() const { return excluded_; }
    const std::vector<Wanted>& standby() const { return standby_; }

private:
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
