// SPDX-License-Identifier: BSD-3-Clause
// One process's part of a test of the shm fabric: a fabric, queues and memory, and the card that
// tells the other process about them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "fabric/shm/shm_fabric.h"

namespace adaptib::test {

inline constexpr std::uint32_t kAll = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;
inline constexpr Nanoseconds kLong{20'000'000'000};
inline constexpr Bytes kBuffer = 3 * kMiB + 40;

// One process's fabric, completion queue, RC queue pairs, private buffer and shared buffer.
struct Node {
    explicit Node(ShmOptions::SingleCopy copy = ShmOptions::SingleCopy::automatic,
                  const Clock* other_clock = nullptr, std::uint32_t rails = 1)
        : words(kBuffer / 8) {
        ShmOptions options;
        options.rails = rails;
        options.single_copy = copy;
        options.job_key = 0x7e57;
        options.clock = other_clock != nullptr ? other_clock : &clock;
        // Children of a process that has a thread must not start one under ThreadSanitizer.
        options.descriptor_server = false;
        std::string error;
        ok = open_shm_fabric(options, fabric, error).ok() && rail().create_cq(1024, cq).ok() &&
             rail().register_memory(words.data(), kBuffer, kAll, own).ok() &&
             rail().allocate(kBuffer, kAll, shared).ok();
    }
    ~Node() {
        qps.clear();
        ah.reset();
        cq.reset();
        own.reset();
        shared.reset();
    }
    Rail& rail(std::size_t i = 0) { return *fabric->rails()[i]; }

    QueuePair* add_qp(QpType type) {
        QpInit init;
        init.type = type;
        init.send_cq = init.receive_cq = cq.get();
        init.send_depth = 128;
        init.receive_depth = 128;
        init.inline_bytes = 64;
        qps.emplace_back();
        return rail().create_qp(init, qps.back()).ok() ? qps.back().get() : nullptr;
    }
    static bool connect(QueuePair& qp, const RailAddress& to, std::uint32_t number,
                        std::uint8_t timeout = 10) {
        QpAttributes a;
        a.access = kAll;
        a.path.remote = to;
        a.remote_qp = number;
        a.timeout = timeout;
        a.retry_count = 1;
        a.state = QpState::init;
        bool good = qp.modify(a, kQpState | kQpAccess).ok();
        a.state = QpState::ready_to_receive;
        good = good && qp.modify(a, kQpState | kQpPath | kQpRemote | kQpReceiveLimits).ok();
        a.state = QpState::ready_to_send;
        return good && qp.modify(a, kQpState | kQpRetry | kQpSendPsn | kQpSendLimits).ok();
    }
    // Polls until one completion is there; false after `limit`.
    bool wait(WorkCompletion& out, Nanoseconds limit = kLong) {
        const Nanoseconds end = clock.now() + limit;
        while (clock.now() < end) {
            if (cq->poll({&out, 1}) == 1) {
                return true;
            }
        }
        return false;
    }
    WorkStatus run(QueuePair& qp, SendWork work) {
        work.flags |= kSignaled;
        WorkCompletion done;
        if (!qp.post_send(work).ok() || !wait(done)) {
            return WorkStatus::general_error;
        }
        return done.status;
    }
    static SendWork rdma(Opcode opcode, const Gather& gather, std::uint64_t address,
                         std::uint32_t key) {
        SendWork work;
        work.opcode = opcode;
        work.gather = &gather;
        work.gather_count = 1;
        work.remote_address = address;
        work.remote_key = key;
        return work;
    }

    MonotonicClock clock;
    std::vector<std::uint64_t> words;
    std::unique_ptr<Fabric> fabric;
    std::unique_ptr<CompletionQueue> cq;
    std::unique_ptr<MemoryRegion> own;
    std::unique_ptr<MemoryRegion> shared;
    std::unique_ptr<AddressHandle> ah;
    std::vector<std::unique_ptr<QueuePair>> qps;
    bool ok = false;
};

// Addresses and keys that one process tells another.
struct Card {
    RailAddress address;
    std::uint32_t qp[4] = {};
    std::uint64_t own = 0;
    std::uint64_t shared = 0;
    std::uint32_t own_key = 0;
    std::uint32_t shared_key = 0;
};

inline Card card_of(Node& node) {
    Card card;
    card.address = node.rail().address();
    for (std::size_t i = 0; i < node.qps.size() && i < 4; ++i) {
        card.qp[i] = node.qps[i]->number();
    }
    card.own = reinterpret_cast<std::uintptr_t>(node.own->address());
    card.shared = reinterpret_cast<std::uintptr_t>(node.shared->address());
    card.own_key = node.own->remote_key();
    card.shared_key = node.shared->remote_key();
    return card;
}

} // namespace adaptib::test
