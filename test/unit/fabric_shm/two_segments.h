// SPDX-License-Identifier: BSD-3-Clause
// Two segments of one process, of an initiator and a target, for tests of the parts of a queue pair
// without a fabric.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fabric/shm/connected_peer.h"
#include "fabric/shm/regions.h"
#include "fabric/shm/segment.h"

namespace adaptib::test {

inline constexpr std::uint32_t kInitiatorQp = 1u << shm::kQpIndexBits;
inline constexpr std::uint32_t kTargetQp = 2u << shm::kQpIndexBits;
inline constexpr std::uint32_t kPsn = 5;

class TwoSegments : public testing::Test {
protected:
    void SetUp() override {
        initiator_ = create();
        target_ = create();
        ASSERT_NE(initiator_, nullptr);
        ASSERT_NE(target_, nullptr);
        ASSERT_TRUE(target_->commit(shm::kQueuePairsOffset, sizeof(shm::QueuePairEntry)).ok());
        regions_ = shm::RegionTable(target_.get());
        peer_ = std::make_unique<shm::ConnectedPeer>(own_rail_, initiator_->cookie());
        peer_->attach(open(*target_, *initiator_), 0, kTargetQp);
        peer_->expect(kInitiatorQp, kPsn);
        entry().remote_cookie.store(initiator_->cookie());
        grant(kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic);
        entry().target_reads.store(1);
    }

    static std::unique_ptr<shm::OwnSegment> create() {
        shm::SegmentOptions options;
        options.segment_max = 16 * kMiB;
        options.queue_bytes = 64 * kKiB;
        options.job_key = 0x7e57;
        options.server = false;
        std::unique_ptr<shm::OwnSegment> out;
        std::string error;
        EXPECT_TRUE(shm::OwnSegment::create(options, out, error).ok()) << error;
        return out;
    }
    static std::shared_ptr<shm::PeerSegment> open(shm::OwnSegment& owner, shm::OwnSegment& own) {
        std::shared_ptr<shm::PeerSegment> out;
        EXPECT_TRUE(shm::PeerSegment::open(owner.address(0), own.cookie(), out).ok());
        return out;
    }

    // Entry of the target's queue pair.
    shm::QueuePairEntry& entry() { return *shm::queue_pairs_of(target_->base()); }
    void grant(std::uint32_t access) {
        entry().word.store(shm::qp_word(kTargetQp, kInitiatorQp, kPsn, access, true));
    }
    // Registers memory of the target; 0: refused.
    std::uint32_t register_memory(void* base, Bytes length, std::uint32_t access) {
        std::uint32_t key = 0;
        EXPECT_TRUE(
            regions_
                .add(reinterpret_cast<std::uintptr_t>(base), length, 0, access, shm::kPrivate, key)
                .ok());
        return key;
    }

    std::atomic<std::uint64_t> own_rail_{0};
    std::unique_ptr<shm::OwnSegment> initiator_;
    std::unique_ptr<shm::OwnSegment> target_;
    shm::RegionTable regions_; // of the target
    std::unique_ptr<shm::ConnectedPeer> peer_;
};

} // namespace adaptib::test
