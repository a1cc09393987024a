// SPDX-License-Identifier: BSD-3-Clause
// Choice and lifetime of devices.
#include "fabric/verbs/device.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "base/invariant.h"
#include "fabric/verbs/dc.h"
#include "fabric/verbs/errors.h"
#include "fabric/verbs/locality.h"

namespace adaptib::verbs {

namespace {

std::string trimmed(const std::string& text) {
    const std::size_t first = text.find_first_not_of(" \t");
    return first == std::string::npos
               ? ""
               : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Sorts "mlx5_2" before "mlx5_10".
bool by_name(const std::string& a, const std::string& b) {
    return a.size() != b.size() &&
                   a.find_last_not_of("0123456789") == b.find_last_not_of("0123456789") &&
                   a.compare(0, a.find_last_not_of("0123456789") + 1, b, 0,
                             b.find_last_not_of("0123456789") + 1) == 0
               ? a.size() < b.size()
               : a < b;
}

int numa_node_of(const ibv_device& device) {
    std::ifstream file(std::string(device.ibdev_path) + "/device/numa_node");
    int node = -1;
    return file >> node ? node : -1;
}

constexpr std::uint32_t kQlogic = 0x1175; // Intel's and Cornelis' adapters have it, too

bool matches(const std::vector<Wanted>& list, const std::string& device, int port) {
    return std::any_of(list.begin(), list.end(), [&](const Wanted& w) {
        return w.device == device && (w.port == 0 || w.port == port);
    });
}

} // namespace

Status parse_wanted(const std::string& list, std::vector<Wanted>& out, std::string& error_text) {
    out.clear();
    for (std::size_t at = 0; at <= list.size();) {
        const std::size_t comma = std::min(list.find(',', at), list.size());
        const std::string entry = trimmed(list.substr(at, comma - at));
        at = comma + 1;
        if (entry.empty()) {
            continue;
        }
        Wanted wanted;
        const std::size_t colon = entry.find(':');
        wanted.device = entry.substr(0, colon);
        if (colon != std::string::npos) {
            const char* const end = entry.data() + entry.size();
            const auto [stop, error] = std::from_chars(entry.data() + colon + 1, end, wanted.port);
            if (error != std::errc{} || stop != end || wanted.port < 1 || wanted.port > 255) {
                error_text = "\"" + entry + "\" is not a device or a device:port (mlx5_0:1)";
                return Status::error(Reason::bad_argument);
            }
        }
        out.push_back(wanted);
    }
    return kOk;
}

// -------------------------------------------------------------------------------------------------
// The list

DeviceList::~DeviceList() {
    if (list_ != nullptr) {
        calls_.free_device_list(list_);
    }
}

Status DeviceList::read(std::string& error_text) {
    ADAPTIB_INVARIANT(list_ == nullptr, "the list of devices is read once", list_);
    int count = 0;
    errno = 0;
    list_ = calls_.get_device_list(&count);
    if (list_ == nullptr) {
        const int error = error_number(-1);
        if (error == ENOSYS) {
            error_text = "this machine has no RDMA device (its kernel has loaded no RDMA modules)";
            return Status::error(Reason::no_device);
        }
        error_text = std::string("the RDMA devices cannot be listed: ") + std::strerror(error);
        return status_of(error);
    }
    devices_.assign(list_, list_ + count);
    std::sort(devices_.begin(), devices_.end(), [this](ibv_device* a, ibv_device* b) {
        return by_name(calls_.get_device_name(a), calls_.get_device_name(b));
    });
    return kOk;
}

ibv_device* DeviceList::find(const std::string& name) const {
    const auto found = std::find_if(devices_.begin(), devices_.end(), [&](ibv_device* device) {
        return name == calls_.get_device_name(device);
    });
    return found == devices_.end() ? nullptr : *found;
}

std::string DeviceList::names() const {
    std::string text;
    for (ibv_device* device : devices_) {
        text += (text.empty() ? "" : ", ") + std::string(calls_.get_device_name(device));
    }
    return text.empty() ? "none" : text;
}

Status DeviceList::choose(const VerbsOptions& options, std::vector<ibv_device*>& out,
                          std::vector<std::string>& notices, std::string& error_text) {
    if (Status status = parse_wanted(options.if_include, included_, error_text); !status.ok()) {
        return status;
    }
    if (Status status = parse_wanted(options.if_exclude, excluded_, error_text); !status.ok()) {
        return status;
    }
    if (Status status = parse_wanted(options.if_standby, standby_, error_text); !status.ok()) {
        return status;
    }
    if (!included_.empty() && !excluded_.empty()) {
        error_text = "if_include (" + options.if_include + ") and if_exclude (" +
                     options.if_exclude + ") exclude each other";
        return Status::error(Reason::bad_argument);
    }
    for (const Wanted& wanted : included_) {
        ibv_device* device = find(wanted.device);
        if (device == nullptr) {
            error_text = "if_include names " + wanted.device +
                         ", which is not there; the devices of this machine are: " + names();
            return Status::error(Reason::bad_argument);
        }
        if (std::find(out.begin(), out.end(), device) == out.end()) {
            out.push_back(device);
        }
    }
    report_missing(excluded_, "if_exclude", notices);
    report_missing(standby_, "if_standby", notices);
    if (included_.empty()) {
        out = devices_;
        std::erase_if(out, [this](ibv_device* device) {
            const char* name = calls_.get_device_name(device);
            return std::any_of(excluded_.begin(), excluded_.end(),
                               [&](const Wanted& w) { return w.device == name && w.port == 0; });
        });
    }
    find_distances(options, out);
    if (included_.empty()) {
        std::stable_sort(out.begin(), out.end(), [this](ibv_device* a, ibv_device* b) {
            return distance(a) < distance(b);
        });
    }
    put_standby_last(out);
    ADAPTIB_AUDIT(std::all_of(out.begin(), out.end(),
                              [&](ibv_device* device) {
                                  return std::count(out.begin(), out.end(), device) == 1;
                              }),
                  "a device is chosen once", out.size());
    return kOk;
}

void DeviceList::report_missing(const std::vector<Wanted>& list, const char* name,
                                std::vector<std::string>& notices) const {
    for (const Wanted& wanted : list) {
        if (find(wanted.device) == nullptr) {
            notices.push_back(std::string(name) + " names " + wanted.device +
                              ", which is not there; the devices of this machine are: " + names());
        }
    }
}

// Datagrams take the first rails, in whose place no standby should be.
void DeviceList::put_standby_last(std::vector<ibv_device*>& out) const {
    std::stable_partition(out.begin(), out.end(), [this](ibv_device* device) {
        const char* const name = calls_.get_device_name(device);
        return std::none_of(standby_.begin(), standby_.end(),
                            [&](const Wanted& w) { return w.device == name && w.port == 0; });
    });
}

// Leaves distances_ empty, without asking hwloc, if all devices are at the same node or none tells
// its node.
void DeviceList::find_distances(const VerbsOptions& options,
                                const std::vector<ibv_device*>& devices) {
    distances_.clear();
    std::map<ibv_device*, int> nodes;
    for (ibv_device* device : devices) {
        nodes[device] = numa_node_of(*device);
    }
    const bool apart = std::any_of(nodes.begin(), nodes.end(), [&](const auto& place) {
        return place.second != nodes.begin()->second;
    });
    if (!apart) {
        return;
    }
    std::optional<Locality> hwloc;
    if (!options.distance) {
        hwloc.emplace();
    }
    for (const auto& [device, node] : nodes) {
        const std::uint64_t far = options.distance ? options.distance(node) : hwloc->distance(node);
        distances_[device] = static_cast<std::uint32_t>(std::min<std::uint64_t>(far, UINT32_MAX));
    }
}

std::uint32_t DeviceList::distance(ibv_device* device) const {
    const auto known = distances_.find(device);
    return known == distances_.end() ? RailInfo{}.distance : known->second;
}

bool port_wanted(const DeviceList& list, const std::string& device, int port) {
    return list.included().empty() ? !matches(list.excluded(), device, port)
                                   : matches(list.included(), device, port);
}

bool is_standby(const DeviceList& list, const std::string& device, int port) {
    return matches(list.standby(), device, port);
}

// -------------------------------------------------------------------------------------------------
// One device

Device::Device(const Calls& calls, ibv_device* device, std::uint32_t distance)
    : calls_(calls), name_(calls.get_device_name(device)), numa_node_(numa_node_of(*device)),
      distance_(distance) {}

// Omni-Path and TrueScale: rvt_qp_is_avail of Linux's sw/rdmavt/qp.c; soft-RoCE: queue_full of
// rdma-core's providers/rxe/rxe.c.
bool Device::frees_places_early() const {
    return limits().vendor_id == kQlogic || limits().vendor_id == kSoftRoceVendor;
}

// rvt_error_qp and rvt_init_qp of Linux's sw/rdmavt/qp.c; post_recv of rdma-core's
// providers/hfi1verbs/verbs.c.
bool Device::keeps_receives() const { return limits().vendor_id == kQlogic; }

// bnxt_re_resize_cq of rdma-core's providers/bnxt_re/verbs.c: when the system refuses, it frees the
// memory of the queue in use.
bool Device::resizes_safely() const {
    constexpr std::uint32_t kBroadcom = 0x14e4;
    return limits().vendor_id != kBroadcom;
}

Device::~Device() {
    for (ibv_cq* cq : kept_cqs_) {
        calls_.destroy_cq(cq);
    }
    for (ibv_srq* srq : kept_srqs_) {
        calls_.destroy_srq(srq);
    }
    close(now_);
    for (Opened& opened : before_) {
        close(opened);
    }
}

void Device::close(Opened& opened) const {
    opened.handles.reset();
    if (opened.pd != nullptr) {
        calls_.dealloc_pd(opened.pd);
    }
    if (opened.context != nullptr) {
        calls_.close_device(opened.context);
    }
    opened = {};
}

Status Device::open(const Calls& calls, const Mlx5Calls* mlx5, ibv_device* device,
                    std::uint32_t distance, std::unique_ptr<Device>& out, std::string& error_text) {
    std::unique_ptr<Device> made(new Device(calls, device, distance));
    if (device->transport_type != IBV_TRANSPORT_IB || device->node_type != IBV_NODE_CA) {
        error_text =
            made->name_ + (device->transport_type == IBV_TRANSPORT_IWARP
                               ? " speaks iWARP, which has no datagrams (UD); adaptib needs "
                                 "InfiniBand or RoCE"
                               : " speaks neither InfiniBand nor RoCE, so it lacks their reliable "
                                 "connections (RC), as EFA and usNIC do");
        return Status::error(Reason::not_supported);
    }
    made->mlx5_ = mlx5_of(mlx5, device);
    const Status status = made->open(device, made->now_, error_text);
    if (status.ok()) {
        out = std::move(made);
    }
    return status;
}

// The device's end, or the caller, closes what was opened before an error.
Status Device::open(ibv_device* device, Opened& out, std::string& error_text) const {
    const auto fail = [&](const char* what, int result) {
        const int error = error_number(result);
        error_text = name_ + " " + what + ": " + std::strerror(error);
        return status_of(error);
    };
    errno = 0;
    out.context = calls_.open_device(device);
    if (out.context == nullptr) {
        return fail("cannot be opened", -1);
    }
    if (const int result = calls_.set_nonblocking(out.context); result != 0) {
        return fail("cannot deliver events", result);
    }
    if (const int result = calls_.query_device(out.context, &out.limits); result != 0) {
        return fail("does not report its limits", result);
    }
    errno = 0;
    out.pd = calls_.alloc_pd(out.context);
    if (out.pd == nullptr) {
        return fail("cannot allocate a protection domain", -1);
    }
    out.handles = std::make_unique<AddressHandles>(calls_, out.pd);
    return kOk;
}

Status Device::open_again(ibv_device* device, std::string& error_text) {
    ADAPTIB_INVARIANT(lost_, "a device is opened again once it is lost", before_.size());
    Opened opened;
    const Status status = open(device, opened, error_text);
    if (!status.ok()) {
        close(opened);
        return status;
    }
    before_.push_back(std::exchange(now_, std::move(opened)));
    lost_ = false;
    return kOk;
}

bool Device::renew() {
    for (Renewed* each = renewed_.front(); each != nullptr; each = renewed_.next(*each)) {
        if (each->renew() != 0) {
            for (Renewed* made = renewed_.front(); made != nullptr; made = renewed_.next(*made)) {
                made->take_back();
                if (made == each) {
                    return false;
                }
            }
        }
    }
    return true;
}

bool Device::is_away() const {
    ibv_device_attr unused{};
    return lost_ || calls_.query_device(now_.context, &unused) != 0;
}

void Device::close_again() {
    ADAPTIB_INVARIANT(!before_.empty(), "a device that is closed again was opened again", lost_);
    close(now_);
    now_ = std::move(before_.back());
    before_.pop_back();
    lost_ = true;
}

} // namespace adaptib::verbs
