// SPDX-License-Identifier: BSD-3-Clause
#include "core/fabrics_wanted.h"

#include <unistd.h>

#include <string_view>
#include <utility>

#include "adaptib_config.h"
#include "fabric/shm/copy_costs.h"
#include "fabric/shm/node_memory.h"
#include "fabric/shm/shm_fabric.h"
#if ADAPTIB_HAVE_VERBS
#include "fabric/verbs/verbs_fabric.h"
#endif

namespace adaptib {

namespace {

ShmOptions shm_options(const FabricsWanted& wanted) {
    const Parameters& parameters = wanted.parameters;
    ShmOptions options;
    options.rails = static_cast<std::uint32_t>(parameters.shm_rails);
    options.segment_max = parameters.shm_segment_max;
    options.memory_max = parameters.shm_memory != 0 ? parameters.shm_memory
                                                    : shm::default_memory(wanted.local_processes);
    options.queue_bytes = parameters.shm_queue_bytes;
    const std::string_view single_copy = parameters.shm_single_copy;
    options.single_copy = single_copy == "cma"    ? ShmOptions::SingleCopy::cma
                          : single_copy == "none" ? ShmOptions::SingleCopy::none
                                                  : ShmOptions::SingleCopy::automatic;
    if (parameters.eager_limit < 0 && options.single_copy != ShmOptions::SingleCopy::none) {
        options.copy_costs = wanted.first != nullptr ? wanted.first->copy_costs()
                                                     : shm::measure_copies(wanted.clock);
    }
    options.job_key = wanted.job;
    options.clock = &wanted.clock;
    return options;
}

#if ADAPTIB_HAVE_VERBS
// Errors: bad_argument if this build lacks what was asked for.
Status choose_method(const Parameters& parameters, VerbsOptions& options, std::string& text) {
    if (std::string_view(parameters.connect_method) != "rdma_cm") {
        return kOk;
    }
    options.rdma_cm = rdma_cm_library();
    if (options.rdma_cm != nullptr) {
        return kOk;
    }
    text = "opal_common_adaptib_connect_method is rdma_cm, but this adaptib was built without "
           "librdmacm (Debian package: librdmacm-dev)";
    return Status::error(Reason::bad_argument);
}

// UCX decides alike (ucs_cpu_prefer_relaxed_order).
bool gains_from_relaxed_ordering() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_is("znver1") != 0 || __builtin_cpu_is("znver2") != 0 ||
           __builtin_cpu_is("znver3") != 0;
#else
    return false;
#endif
}

VerbsOptions verbs_options(const Parameters& parameters) {
    const auto chosen = [](const char* text, std::string_view none) {
        return text == none ? std::string() : std::string(text);
    };
    VerbsOptions options;
    options.if_include = chosen(parameters.devices.include, "all");
    options.if_exclude = chosen(parameters.devices.exclude, "none");
    options.if_standby = chosen(parameters.devices.standby, "none");
    options.gid_index = parameters.gid_index;
    options.partition = static_cast<std::uint16_t>(parameters.partition);
    options.service_level = static_cast<std::uint8_t>(parameters.service_level);
    options.traffic_class = parameters.traffic_class;
    const std::string_view relaxed = parameters.registration.relaxed_ordering;
    options.relaxed_ordering =
        relaxed == "on" || (relaxed == "auto" && gains_from_relaxed_ordering());
    options.locked_bytes = kVerbsDatagramMemory + parameters.verbs_ring_bytes;
    return options;
}
#endif

Status open_verbs(const Parameters& parameters, std::unique_ptr<Fabric>& fabric,
                  std::string& text) {
#if ADAPTIB_HAVE_VERBS
    VerbsOptions options = verbs_options(parameters);
    const Status status = choose_method(parameters, options, text);
    return status.ok() ? open_verbs_fabric(options, fabric, text) : status;
#else
    static_cast<void>(parameters);
    static_cast<void>(fabric);
    text = "this adaptib was built without libibverbs (Debian package: libibverbs-dev)";
    return Status::error(Reason::no_device);
#endif
}

// True if the parent, the process that started this one, is in another process namespace. Then the
// job's other processes are, too, each in its own: they count as hosts of their own, whatever Open
// MPI says.
bool is_in_own_container() { return getppid() == 0; }

// Adds to `text`, the reason of `status`, which fabric cannot be used on which host.
Status refused(Status status, const char* what, const char* host, std::string& text) {
    text = std::string(what) + " of host " + host + " cannot be used: " + text;
    return status;
}

} // namespace

Status FabricsWanted::open(std::vector<std::unique_ptr<Fabric>>& fabrics, std::string& left_out,
                           std::string& text) const {
    const std::string_view chosen = parameters.fabric;
    std::unique_ptr<Fabric> fabric;
    if (chosen != "verbs") {
        const Status status = open_shm_fabric(shm_options(*this), fabric, text);
        if (!status.ok()) {
            return refused(status, "The shared-memory fabric", host, text);
        }
        fabrics.push_back(std::move(fabric));
    }
    if (chosen == "shm") {
        left_out = "opal_common_adaptib_fabric is shm: RDMA devices are not used.";
        return kOk;
    }
    if (chosen == "auto" && one_host && !is_in_own_container()) {
        left_out =
            "All processes of this job were started on one host, so RDMA devices are not used; "
            "--mca opal_common_adaptib_fabric both uses them, too.";
        return kOk;
    }
    const Status status = open_verbs(parameters, fabric, text);
    if (status.ok()) {
        fabrics.push_back(std::move(fabric));
        return kOk;
    }
    // If the user explicitly asked for something that is missing, that is an error.
    if (chosen == "auto" && status.reason() != Reason::bad_argument) {
        left_out = std::string("The RDMA devices of host ") + host + " are not used: " + text + ".";
        return kOk;
    }
    return refused(status, "The RDMA devices", host, text);
}

} // namespace adaptib
