// SPDX-License-Identifier: BSD-3-Clause
// Opens the verbs fabric.
#include "fabric/verbs/verbs_fabric.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "base/invariant.h"
#include "fabric/verbs/device.h"
#include "fabric/verbs/errors.h"
#include "fabric/verbs/events.h"
#include "fabric/verbs/port.h"
#include "fabric/verbs/rail.h"
#include "fabric/verbs/responder.h"

namespace adaptib {

namespace verbs {

namespace {

// Number that distinguishes this fabric from others on the same port.
std::uint64_t new_owner() {
    static std::atomic<std::uint32_t> count{0};
    return static_cast<std::uint64_t>(getpid()) << 32 | ++count;
}

constexpr std::chrono::seconds kLookEvery{1}; // for devices that were lost
constexpr std::chrono::seconds kLookWithoutRoom{2};

class VerbsFabric final : public Fabric {
public:
    VerbsFabric(const Calls& calls, const VerbsOptions& options)
        : calls_(calls), options_(options), owner_(new_owner()) {}
    ~VerbsFabric() override {
        responder_.reset();
        rails_.clear();
    }

    Status set_up(std::string& error_text);

private:
    bool poll_event_impl(Event& out) override;
    Status respond_impl(const Answerer& answerer, std::uint64_t access_key) override;
    std::uint32_t responder_qp_impl(std::uint32_t rail) const override {
        return responder_ == nullptr ? 0 : responder_->number(rail);
    }

    void prepare_fork();
    void look_for_lost();
    void open_again(Device& device, ibv_device* found);
    void take_again(Device& device, ibv_device* found);
    Status add_device(const DeviceList& list, ibv_device* device, std::string& error_text);
    Status add_port(Device& device, std::uint8_t number, bool standby, std::string& why);
    void leave_out(Status status, const std::string& text, bool report);

    const Calls& calls_;
    const VerbsOptions options_;
    const Mlx5Calls* mlx5_ = nullptr;
    const std::uint64_t owner_;
    std::vector<std::unique_ptr<Device>> devices_;
    std::chrono::steady_clock::time_point look_at_{}; // for lost devices, at the earliest
    EventReader events_;
    std::unique_ptr<Responder> responder_; // null: none; ends before the rails
    // Reason for the error if no rail is left.
    Status first_ = Status::error(Reason::no_device);
    std::string left_out_;
};

// Looks for devices that were lost, now and then. It opens them by their names. With rdma_cm, whose
// ids belong to the lost device, they stay lost.
void VerbsFabric::look_for_lost() {
    const auto now = std::chrono::steady_clock::now();
    const bool any = std::any_of(devices_.begin(), devices_.end(),
                                 [](const auto& device) { return device->lost(); });
    if (!any || options_.rdma_cm != nullptr || now < look_at_) {
        return;
    }
    look_at_ = now + kLookEvery;
    DeviceList list(calls_);
    std::string why;
    if (!list.read(why).ok()) {
        return;
    }
    for (const auto& device : devices_) {
        ibv_device* const found = device->lost() ? list.find(device->name()) : nullptr;
        if (found != nullptr) {
            open_again(*device, found);
        }
    }
}

// The responder's thread, which uses the device, rests meanwhile.
void VerbsFabric::open_again(Device& device, ibv_device* found) {
    if (responder_ != nullptr) {
        responder_->pause();
    }
    take_again(device, found);
    if (responder_ != nullptr) {
        responder_->resume(rails_);
    }
}

// The device may not be ready yet, or have no room, and a port may have no address yet: then the
// next look tries again.
void VerbsFabric::take_again(Device& device, ibv_device* found) {
    std::string why;
    if (!device.open_again(found, why).ok()) {
        return;
    }
    std::vector<VerbsRail*> its;
    for (const auto& each : rails_) {
        if (auto& rail = static_cast<VerbsRail&>(*each); &rail.device() == &device) {
            its.push_back(&rail);
        }
    }
    const auto is_there = [&](const VerbsRail* rail) {
        Port port;
        return read_port(device, rail->port().number, options_, port, why).ok() &&
               port.ethernet() == rail->port().ethernet();
    };
    if (!std::all_of(its.begin(), its.end(), is_there)) {
        device.close_again();
        return;
    }
    if (!device.renew()) {
        device.close_again();
        look_at_ = std::chrono::steady_clock::now() + kLookWithoutRoom;
        return;
    }
    for (VerbsRail* rail : its) {
        rail->read_again(true);
        events_.report(EventKind::device_restored, rail->index());
        if (rail->state() == PortState::active) {
            events_.report(EventKind::port_active, rail->index());
        }
    }
}

// Passes port changes on to the responder, which uses the same port as the rail.
bool VerbsFabric::poll_event_impl(Event& out) {
    if (!events_.next(rails_, devices_, out)) {
        look_for_lost(); // its events come with the next poll
        return false;
    }
    if (out.kind == EventKind::device_fatal) {
        look_at_ = std::chrono::steady_clock::now() + kLookEvery;
    }
    const bool read = out.kind == EventKind::port_active || out.kind == EventKind::address_changed;
    if (read && responder_ != nullptr) {
        ADAPTIB_INVARIANT(out.rail < rails_.size(), "an event names a rail of its fabric", out.rail,
                          rails_.size());
        responder_->set_port(out.rail, static_cast<VerbsRail&>(*rails_[out.rail]).port());
    }
    return true;
}

Status VerbsFabric::respond_impl(const Answerer& answerer, std::uint64_t access_key) {
    auto responder = std::make_unique<Responder>();
    const Status status = responder->start(rails_, answerer, access_key);
    if (status.ok()) {
        responder_ = std::move(responder);
    }
    return status;
}

void VerbsFabric::leave_out(Status status, const std::string& text, bool report) {
    if (left_out_.empty()) {
        first_ = status;
    }
    left_out_ += (left_out_.empty() ? "" : "; ") + text;
    if (report) {
        notices_.push_back(text + " (adaptib does not use it)");
    }
}

void VerbsFabric::prepare_fork() {
    if (!options_.fork_support || calls_.is_fork_initialized() != IBV_FORK_DISABLED) {
        return;
    }
    if (const int result = calls_.fork_init(); result != 0) {
        notices_.push_back(std::string("programs that this process starts by fork may damage its "
                                       "registered memory (ibv_fork_init: ") +
                           std::strerror(error_number(result)) + ")");
    }
}

Status VerbsFabric::add_port(Device& device, std::uint8_t number, bool standby, std::string& why) {
    Port port;
    if (const Status status = read_port(device, number, options_, port, why); !status.ok()) {
        return status;
    }
    if (!port.active()) {
        why = "is down";
        return Status::error(Reason::no_device);
    }
    port.standby = standby;
    auto rail = std::make_unique<VerbsRail>(device, port, options_,
                                            static_cast<std::uint32_t>(rails_.size()), owner_);
    if (const Status status = rail->probe(why); !status.ok()) {
        return status;
    }
    if (const Status status = rail->open_cm_service(why); !status.ok()) {
        return status;
    }
    ADAPTIB_INVARIANT(rail->index() == rails_.size(), "the index of a rail is its place",
                      rail->index(), rails_.size());
    rails_.push_back(std::move(rail));
    return kOk;
}

// Errors: only a port that if_include names and the device does not have. With any other fault, the
// device or port is left out.
Status VerbsFabric::add_device(const DeviceList& list, ibv_device* device,
                               std::string& error_text) {
    std::unique_ptr<Device> opened;
    std::string why;
    if (const Status status =
            Device::open(calls_, mlx5_, device, list.distance(device), opened, why);
        !status.ok()) {
        leave_out(status, why, true);
        return kOk;
    }
    const int ports = opened->limits().phys_port_cnt;
    for (const Wanted& wanted : list.included()) {
        if (wanted.device == opened->name() && wanted.port > ports) {
            error_text = "if_include names port " + std::to_string(wanted.port) + " of " +
                         wanted.device + ", which has " + std::to_string(ports);
            return Status::error(Reason::bad_argument);
        }
    }
    const std::size_t before = rails_.size();
    for (int number = 1; number <= ports; ++number) {
        if (!port_wanted(list, opened->name(), number)) {
            continue;
        }
        const Status status = add_port(*opened, static_cast<std::uint8_t>(number),
                                       is_standby(list, opened->name(), number), why);
        if (!status.ok()) {
            // A port without a cable is worth a notice only if it was asked for.
            const bool report = !list.included().empty() || why != "is down";
            leave_out(status, opened->name() + ":" + std::to_string(number) + " " + why, report);
        }
    }
    if (rails_.size() > before) {
        devices_.push_back(std::move(opened));
    }
    return kOk;
}

Status VerbsFabric::set_up(std::string& error_text) {
    if (options_.locked_bytes > 0 && beyond_memlock(options_.locked_bytes)) {
        error_text = verbs_memlock_text(options_.locked_bytes);
        return Status::error(Reason::locked_memory);
    }
    prepare_fork();
    DeviceList list(calls_);
    if (const Status status = list.read(error_text); !status.ok()) {
        return status;
    }
    mlx5_ = options_.mlx5 != nullptr || options_.calls != nullptr ? options_.mlx5 : mlx5_library();
    std::vector<ibv_device*> chosen;
    if (const Status status = list.choose(options_, chosen, notices_, error_text); !status.ok()) {
        return status;
    }
    for (ibv_device* device : chosen) {
        if (const Status status = add_device(list, device, error_text); !status.ok()) {
            return status;
        }
    }
    if (!rails_.empty()) {
        return kOk;
    }
    error_text = list.empty()     ? "this machine has no RDMA device"
                 : chosen.empty() ? "if_exclude leaves no RDMA device; there are: " + list.names()
                 : left_out_.empty() ? "if_exclude leaves no port of: " + list.names()
                                     : "no RDMA device can be used: " + left_out_;
    return first_;
}

} // namespace
} // namespace verbs

Status open_verbs_fabric(const VerbsOptions& options, std::unique_ptr<Fabric>& out,
                         std::string& error_text) {
    if (options.gid_index > 255 || options.service_level > 15 || options.traffic_class > 255) {
        error_text =
            "a GID index and a traffic class have to be below 256, and a service level below 16";
        return Status::error(Reason::bad_argument);
    }
    auto fabric = std::make_unique<verbs::VerbsFabric>(
        options.calls != nullptr ? *options.calls : verbs::library_calls(), options);
    if (const Status status = fabric->set_up(error_text); !status.ok()) {
        return status;
    }
    out = std::move(fabric);
    return kOk;
}

} // namespace adaptib
