// SPDX-License-Identifier: BSD-3-Clause
// Opens the shm fabric.
#include "fabric/shm/shm_fabric.h"

#include <unistd.h>

#include <cstring>
#include <optional>
#include <utility>

#include "base/invariant.h"
#include "fabric/shm/context.h"
#include "fabric/shm/process.h"
#include "fabric/shm/rail.h"
#include "fabric/shm/tracing.h"

namespace adaptib {

namespace {

class ShmFabric final : public Fabric {
public:
    ShmFabric(std::unique_ptr<shm::OwnSegment> segment, const ShmOptions& options, bool forbidden)
        : context_(std::move(segment), *options.clock, options.rails, notices_) {
        poll_hint_ = &context_.poll_hint();
        if (forbidden) {
            context_.single_copy().forbid(nullptr, "process_vm_readv is forbidden here");
        } else if (options.single_copy == ShmOptions::SingleCopy::none) {
            context_.single_copy().turn_off();
        } else {
            copy_costs_ = options.copy_costs;
            permission_.emplace(); // before a peer knows this process's address
        }
        for (std::uint32_t i = 0; i < options.rails; ++i) {
            rails_.push_back(std::make_unique<shm::ShmRail>(context_, i, options.rate));
        }
    }
    ~ShmFabric() override { rails_.clear(); }

private:
    bool poll_event_impl(Event& out) override {
        const bool found = context_.next_event(out);
        ADAPTIB_INVARIANT(!found || out.rail < rails_.size(), "an event names a rail of its fabric",
                          out.rail, rails_.size());
        return found;
    }

    std::optional<shm::AttachPermission> permission_;
    shm::Context context_;
};

// Tries cross-memory attach within this process: anything that a seccomp filter or an old kernel
// forbids fails here, too. Failures by the rules of ptrace show with the first peer.
shm::CopyResult probe_single_copy() {
    std::uint64_t from = 1;
    std::uint64_t to = 0;
    const Gather gather{&to, sizeof to, 0};
    return shm::copy_memory(shm::Direction::from_peer, static_cast<std::uint32_t>(getpid()),
                            reinterpret_cast<std::uintptr_t>(&from), {&gather, 1}, 0, sizeof to);
}

} // namespace

Status open_shm_fabric(const ShmOptions& options, std::unique_ptr<Fabric>& out,
                       std::string& error_text) {
    if (options.clock == nullptr || options.rails == 0 || options.rails > shm::kMaxRails) {
        error_text =
            "the shm fabric needs a clock and 1 to " + std::to_string(shm::kMaxRails) + " rails";
        return Status::error(Reason::bad_argument);
    }
    shm::SegmentOptions wanted;
    wanted.segment_max = options.segment_max;
    wanted.memory_max = options.memory_max;
    wanted.queue_bytes = options.queue_bytes;
    wanted.rails = options.rails;
    wanted.job_key = options.job_key;
    wanted.host = options.host;
    wanted.user_space = options.user_space;
    wanted.server = options.descriptor_server;
    const bool forbidden = options.single_copy != ShmOptions::SingleCopy::none &&
                           probe_single_copy() != shm::CopyResult::ok;
    if (forbidden && options.single_copy == ShmOptions::SingleCopy::cma) {
        error_text = "cross-memory attach (process_vm_readv) is forbidden here";
        return Status::error(Reason::no_permission);
    }
    std::unique_ptr<shm::OwnSegment> segment;
    if (const Status status = shm::OwnSegment::create(wanted, segment, error_text); !status.ok()) {
        return status;
    }
    out = std::make_unique<ShmFabric>(std::move(segment), options, forbidden);
    return kOk;
}

} // namespace adaptib
