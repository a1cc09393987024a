// SPDX-License-Identifier: BSD-3-Clause
// The conformance suite over shm: several fabrics in one process, which know of each other no more
// than separate processes would.
//
// Purpose: worlds with single copy, with the copy pipeline, with several rails and with a small
// queue. They switch rails as tools/adaptib_rails does: by the rail word in the node's segment.
// May touch: fabric/, fabric/shm/{shm_fabric,segment,layout}.h, the system (mmap).
#include "conformance/shm_world.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "fabric/shm/segment.h"

namespace adaptib::conformance {
namespace {

// The header of a node's segment, as a tool of the same user sees it.
class SegmentView {
public:
    explicit SegmentView(const RailAddress& address) {
        shm::WireAddress wire{};
        if (!shm::PeerSegment::decode(address, wire)) {
            return;
        }
        const std::string path = "/proc/self/fd/" + std::to_string(wire.fd);
        const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
        if (fd < 0) {
            return;
        }
        void* map = mmap(nullptr, shm::kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (map != MAP_FAILED) {
            header_ = shm::header_of(static_cast<std::byte*>(map));
        }
    }
    ~SegmentView() {
        if (header_ != nullptr) {
            munmap(header_, shm::kPage);
        }
    }
    SegmentView(const SegmentView&) = delete;
    SegmentView& operator=(const SegmentView&) = delete;

    bool set_rail(std::size_t rail, std::uint64_t word) {
        if (header_ == nullptr || rail >= header_->rails) {
            return false;
        }
        header_->rail[rail].word.store(word, std::memory_order_release);
        return true;
    }

private:
    shm::Header* header_ = nullptr;
};

class ShmWorld final : public World {
public:
    Status set_up(std::size_t nodes, ShmOptions options, const Wrap& wrap, std::string& error) {
        options.clock = &clock_;
        options.job_key = 0x5eed;
        pipeline_ = options.single_copy == ShmOptions::SingleCopy::none;
        for (std::size_t node = 0; node < nodes; ++node) {
            std::unique_ptr<Fabric> fabric;
            const Status status = open_shm_fabric(options, fabric, error);
            if (!status.ok()) {
                error = std::string(reason_text(status.reason())) + ": " + error;
                return status;
            }
            if (wrap) {
                fabric = wrap(std::move(fabric), clock_);
            }
            views_.push_back(std::make_unique<SegmentView>(fabric->rails()[0]->address()));
            fabrics_.push_back(std::move(fabric));
        }
        return kOk;
    }

    std::size_t nodes() const override { return fabrics_.size(); }
    Fabric& fabric(std::size_t node) override { return *fabrics_[node]; }

    bool run_until(const std::function<bool()>& predicate, Nanoseconds limit) override {
        const Nanoseconds end = clock_.now() + limit;
        for (std::uint64_t round = 0;; ++round) {
            if (predicate()) {
                return true;
            }
            if (clock_.now() >= end) {
                return false;
            }
            if (round % 4096 == 4095) {
                std::this_thread::yield();
            }
        }
    }

    bool can_switch_rails() const override { return true; }
    bool switch_rail(std::size_t node, std::size_t rail, bool up) override {
        return views_[node]->set_rail(rail, up ? 0 : shm::kRailDown);
    }
    bool can_slow_rails() const override { return true; }
    bool slow_rail(std::size_t node, std::size_t rail, std::uint32_t factor) override {
        constexpr std::uint64_t kFast = 4'000'000'000; // assumed bytes/s of a rail at factor 1
        return views_[node]->set_rail(rail, factor <= 1 ? 0 : kFast / factor);
    }
    bool rma_now_works(bool allocated) const override {
        return allocated || (!pipeline_ && fabrics_[0]->notices().empty());
    }
    bool can_end_nodes() const override { return true; }
    bool end_node(std::size_t node) override {
        fabrics_[node].reset();
        return true;
    }

private:
    MonotonicClock clock_;
    bool pipeline_ = false;
    std::vector<std::unique_ptr<Fabric>> fabrics_;
    std::vector<std::unique_ptr<SegmentView>> views_;
};

} // namespace

WorldFactory shm_world(const char* name, std::size_t nodes, const ShmOptions& options,
                       const Wrap& wrap) {
    return {name, [nodes, options, wrap](std::string& error, std::string& skip) {
                auto world = std::make_unique<ShmWorld>();
                const Status status = world->set_up(nodes, options, wrap, error);
                if (!status.ok()) {
                    if (status == Status::error(Reason::no_permission)) {
                        skip = error;
                    }
                    world.reset();
                }
                return std::unique_ptr<World>(std::move(world));
            }};
}

ShmOptions shm_options(std::uint32_t rails, ShmOptions::SingleCopy single_copy, Bytes queue_bytes) {
    ShmOptions o;
    o.rails = rails;
    o.single_copy = single_copy;
    o.queue_bytes = queue_bytes;
    return o;
}

namespace {

using Copy = ShmOptions::SingleCopy;

[[maybe_unused]] const bool kAdded =
    add_world(shm_world("shm_single_copy", 3, shm_options(1, Copy::cma, kMiB))) &&
    add_world(shm_world("shm_pipeline", 2, shm_options(1, Copy::none, kMiB))) &&
    add_world(shm_world("shm_rails", 2, shm_options(3, Copy::automatic, kMiB))) &&
    add_world(shm_world("shm_small_queue", 3, shm_options(1, Copy::none, 64 * kKiB)));

} // namespace
} // namespace adaptib::conformance
