// SPDX-License-Identifier: BSD-3-Clause
// Model of taking memory away from peers (fabric/shm/regions.h, initiator_fence.h): a peer that
// says busy, and then finds a region, has the memory until it is idle again; and what it finds is
// one region, never parts of two.
#include "fabric/shm/regions.h"

#include <memory>

#include "fabric/shm/initiator_fence.h"
#include "model.h"

namespace adaptib::model {
namespace {

using namespace adaptib::shm;

constexpr std::uint32_t kRail = 0;
constexpr std::uint32_t kAccess = 1;

struct Target {
    explicit Target(Execution& execution)
        : header(execution.make<Header>("header")),
          initiator(execution.make<QueuePairEntry>("initiator")),
          word(execution.make<std::uint64_t>("user memory")),
          table(execution.memory("regions", 2 * sizeof(RegionEntry), kCacheLine)),
          segment(table - kRegionsOffset, header), regions(&segment) {}

    Header& header;
    QueuePairEntry& initiator; // its entry in its own segment
    std::uint64_t& word;
    std::byte* table;
    OwnSegment segment;
    RegionTable regions;
};

std::uint32_t add(Target& target, std::uint64_t base, Bytes length) {
    std::uint32_t key = 0;
    // As far into the segment as it is long, to tell parts of two.
    check(target.regions.add(base, length, kRail, kAccess, length, key).ok(), "no region");
    return key;
}

Target& make(Execution& execution) {
    auto* const target = new Target(execution);
    execution.at_end([target] { delete target; });
    return *target;
}

const RegionEntry* table_of(const Target& target) {
    return reinterpret_cast<const RegionEntry*>(target.table);
}

// An initiator's write (fabric/shm/rc.h).
void write_once(Target& target, std::uint32_t key) {
    target.initiator.busy.store(1, std::memory_order_seq_cst);
    RegionView found;
    if (read_region(table_of(target), key, found)) {
        target.word = 8;
    }
    target.initiator.busy.store(0, std::memory_order_release);
}

// The target takes the memory back, as dereg_mr does, and uses it for something else.
void taken_back(Execution& execution) {
    Target& target = make(execution);
    const auto base = reinterpret_cast<std::uint64_t>(&target.word);
    const std::uint32_t key = add(target, base, sizeof target.word);
    execution.thread([&target, key] {
        target.regions.remove(key);
        InitiatorFence fence;
        BusyInitiator each{std::make_shared<PeerSegment>(), &target.initiator};
        std::vector<BusyInitiator> busy;
        if (each.busy()) {
            busy.push_back(each);
        }
        fence.wait(busy);
        target.word = 7; // the user's own
    });
    execution.thread([&target, key] {
        for (int i = 0; i < scaled(1); ++i) {
            write_once(target, key);
        }
    });
    execution.after([&target] { check(target.word == 7, "a peer wrote into memory taken back"); });
}

// The target does not wait long for a busy peer, and waits again before it uses the memory.
void left_busy(Execution& execution) {
    Target& target = make(execution);
    const std::uint32_t key = add(target, reinterpret_cast<std::uint64_t>(&target.word), 8);
    execution.thread([&target, key] {
        target.regions.remove(key);
        InitiatorFence fence;
        fence.wait_a_while({{std::make_shared<PeerSegment>(), &target.initiator}});
        fence.wait({});
        target.word = 7;
    });
    execution.thread([&target, key] { write_once(target, key); });
    execution.after([&target] { check(target.word == 7, "a peer wrote into memory taken back"); });
}

// The target takes a region away and registers another one in its place.
void replaced(Execution& execution) {
    Target& target = make(execution);
    const std::uint32_t first = add(target, 100, 10);
    execution.thread([&target, first] {
        target.regions.remove(first);
        static_cast<void>(add(target, 200, 20));
    });
    execution.thread([&target, first] {
        const std::uint32_t second = first + (1u << 16); // of the next generation
        RegionView found;
        if (read_region(table_of(target), first, found)) {
            check(found.base == 100 && found.length == 10 && found.offset == 10,
                  "a region is made of two");
        }
        if (read_region(table_of(target), second, found)) {
            check(found.base == 200 && found.length == 20 && found.offset == 20,
                  "a region is made of two");
        }
    });
}

} // namespace

const std::vector<Model>& models() {
    static const std::vector<Model> all = {{"taken_back", {}, taken_back},
                                           {"left_busy", {.leaps = 1}, left_busy},
                                           {"replaced", {}, replaced}};
    return all;
}

} // namespace adaptib::model
