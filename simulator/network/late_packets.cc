// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/network/late_packets.h"

#include <cstring>
#include <utility>

#include "simulator/network/rail.h"
#include "simulator/network/rc.h"
#include "simulator/network/world.h"

namespace adaptib::sim {

namespace {

constexpr std::uint64_t kLatest = 2000; // nanoseconds

} // namespace

class LatePackets::Packet final : public Event {
public:
    Packet(SimRail& rail, std::uint32_t qp, std::uint32_t key, std::uint64_t address,
           std::vector<std::byte> bytes)
        : rail_(rail), qp_(qp), key_(key), address_(address), bytes_(std::move(bytes)) {}

    bool placed() const { return placed_; }
    bool is_of(const SimRail& rail, std::uint32_t qp) const { return &rail_ == &rail && qp_ == qp; }
    // A region that has ended meanwhile takes nothing more.
    void place() {
        placed_ = true;
        if (rail_.regions().find(key_, address_, bytes_.size(), kRemoteWrite) != nullptr) {
            std::memcpy(reinterpret_cast<void*>(address_), bytes_.data(), bytes_.size());
            rail_.process().wake();
        }
    }

private:
    void happen() override { place(); }

    SimRail& rail_;
    const std::uint32_t qp_;
    const std::uint32_t key_;
    const std::uint64_t address_;
    const std::vector<std::byte> bytes_;
    bool placed_ = false;
};

// A write of an initiator that is gone.
class LatePackets::Survivor final : public Event {
public:
    Survivor(World& world, const Path& path, std::uint32_t target, const SendWork& work,
             std::vector<std::byte> bytes)
        : world_(world), path_(path), target_(target), key_(work.remote_key),
          access_key_(work.remote_access_key), address_(work.remote_address),
          bytes_(std::move(bytes)) {}

private:
    void happen() override {
        SimQueuePair* const at = world_.adapter_of(path_.to).find(target_);
        if (at != nullptr && !world_.network().stale(path_) && at->type() == QpType::dc_target) {
            static_cast<RcQueuePair*>(at)->serve_late(access_key_, key_, address_, bytes_);
        }
    }

    World& world_;
    const Path& path_;
    const std::uint32_t target_;
    const std::uint32_t key_;
    const std::uint64_t access_key_;
    const std::uint64_t address_;
    const std::vector<std::byte> bytes_;
};

LatePackets::LatePackets(World& world) : world_(world) {}
LatePackets::~LatePackets() = default;

bool LatePackets::draw(const SendWork& work, Bytes bytes, Bytes& at, Bytes& length) {
    const double share = world_.options().scrambled_writes;
    const Bytes packet = world_.machine().limits.mtu;
    if (share == 0 || (work.flags & kPublish) == 0 || bytes <= packet ||
        world_.random().unit() >= share) {
        return false;
    }
    at = world_.random().below((bytes - 1) / packet) * packet; // not the last one
    length = packet;
    return true;
}

void LatePackets::outlive(const Path& path, std::uint32_t target, const SendWork& work,
                          std::span<const Gather> list) {
    const WorldOptions& options = world_.options();
    if (options.outliving_writes == 0 || world_.random().unit() >= options.outliving_writes) {
        return;
    }
    Bytes length = 0;
    for (const Gather& part : list) {
        length += part.length;
    }
    std::vector<std::byte> bytes(length);
    const Gather whole{bytes.data(), length, 0};
    copy_gather(list, {&whole, 1});
    survivors_.push_back(std::make_unique<Survivor>(world_, path, target, work, std::move(bytes)));
    const auto most = static_cast<std::uint64_t>(2 * options.packet_life.count());
    const Nanoseconds late{static_cast<std::int64_t>(world_.random().below(most))};
    world_.simulator().schedule(*survivors_.back(), world_.simulator().now() + late);
}

void LatePackets::place_all(const SimRail& rail, std::uint32_t qp) {
    for (const std::unique_ptr<Packet>& packet : packets_) {
        if (!packet->placed() && packet->is_of(rail, qp)) {
            packet->place();
        }
    }
    drop_placed();
}

void LatePackets::drop_placed() {
    std::erase_if(packets_, [](const auto& packet) { return packet->placed(); });
}

void LatePackets::hold_back(SimRail& rail, std::uint32_t qp, const SendWork& work,
                            std::uint64_t address, const std::vector<std::byte>& before) {
    drop_placed();
    auto* const at = reinterpret_cast<std::byte*>(address);
    std::vector<std::byte> bytes(at, at + before.size());
    std::memcpy(at, before.data(), before.size());
    packets_.push_back(
        std::make_unique<Packet>(rail, qp, work.remote_key, address, std::move(bytes)));
    const auto late = static_cast<std::int64_t>(1 + world_.random().below(kLatest));
    world_.simulator().schedule(*packets_.back(), world_.simulator().now() + Nanoseconds{late});
}

} // namespace adaptib::sim
