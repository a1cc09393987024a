// SPDX-License-Identifier: BSD-3-Clause
// The conformance suite over the RDMA devices of this machine, hardware or soft-RoCE.
//
// Purpose: two fabrics in one process. By default both use all devices, and a rail reaches itself.
// ADAPTIB_VERBS_RAILS="a0,a1/b0,b1" puts one fabric on the devices before the slash and the other
// on those behind it; the devices must be connected pairwise. The suite is skipped where there is
// no device, unless that variable names some.
// May touch: fabric/, fabric/verbs/verbs_fabric.h.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "conformance/world.h"
#include "fabric/verbs/verbs_fabric.h"

namespace adaptib::conformance {
namespace {

class VerbsWorld final : public World {
public:
    Status set_up(const std::array<std::string, 2>& devices, std::string& error) {
        for (std::size_t node = 0; node < devices.size(); ++node) {
            VerbsOptions options;
            options.if_include = devices[node];
            if (const Status status = open_verbs_fabric(options, fabrics_[node], error);
                !status.ok()) {
                return status;
            }
        }
        const std::string name = fabrics_[0]->rails()[0]->info().name;
        const std::string device = name.substr(0, name.find(':'));
        soft_ = std::filesystem::exists("/sys/class/infiniband/" + device + "/parent");
        if (fabrics_[0]->rails().size() != fabrics_[1]->rails().size()) {
            error = "ADAPTIB_VERBS_RAILS gives the two nodes different numbers of rails";
            return Status::error(Reason::bad_argument);
        }
        return kOk;
    }

    std::size_t nodes() const override { return fabrics_.size(); }
    Fabric& fabric(std::size_t node) override { return *fabrics_[node]; }

    bool run_until(const std::function<bool()>& predicate, Nanoseconds limit) override {
        const Nanoseconds end = clock_.now() + limit;
        while (!predicate()) {
            if (clock_.now() >= end) {
                return false;
            }
            std::this_thread::yield(); // soft-RoCE needs this processor for its work
        }
        return true;
    }

    // Statuses that soft-RoCE reports differently: Linux 6.1, and for a local fault of a send Linux
    // 6.12, which flushes the failed request, too.
    bool may_report(WorkStatus other, WorkStatus status) const override {
        if (!soft_) {
            return false;
        }
        switch (status) {
        case WorkStatus::local_protection_error:
            return other == WorkStatus::local_qp_error || other == WorkStatus::flushed;
        case WorkStatus::local_length_error: return other == WorkStatus::local_qp_error;
        case WorkStatus::remote_invalid_request: return other == WorkStatus::remote_operation_error;
        default: return false;
        }
    }
    std::string known_defect(const std::string& test) const override {
        return soft_ && test == "RcErrors.EverythingBehindTheFailedOneIsFlushed"
                   ? "soft-RoCE stops for ever when a request fails locally behind some that wait "
                     "for "
                     "a receive"
                   : "";
    }
    // A fence stops soft-RoCE for ever when it has to retransmit.
    bool fences() const override { return !soft_; }
    bool can_end_nodes() const override { return true; }
    bool end_node(std::size_t node) override {
        fabrics_[node].reset();
        return true;
    }

private:
    MonotonicClock clock_;
    bool soft_ = false; // the device is built on a network interface (rdma link add)
    std::array<std::unique_ptr<Fabric>, 2> fabrics_;
};

std::unique_ptr<World> make_world(std::string& error, std::string& skip) {
    std::array<std::string, 2> devices;
    const char* given = std::getenv("ADAPTIB_VERBS_RAILS");
    if (given != nullptr) {
        const std::string text = given;
        const std::size_t slash = text.find('/');
        if (slash == std::string::npos) {
            error = "ADAPTIB_VERBS_RAILS is \"" + text + "\", not like \"a0,a1/b0,b1\"";
            return nullptr;
        }
        devices = {text.substr(0, slash), text.substr(slash + 1)};
    }
    auto world = std::make_unique<VerbsWorld>();
    const Status status = world->set_up(devices, error);
    if (status.ok()) {
        return world;
    }
    if (given == nullptr &&
        (status.reason() == Reason::no_device || status.reason() == Reason::not_supported ||
         status.reason() == Reason::no_permission || status.reason() == Reason::locked_memory)) {
        skip = error;
    }
    return nullptr;
}

[[maybe_unused]] const bool kAdded = add_world({"verbs", make_world});

} // namespace
} // namespace adaptib::conformance
