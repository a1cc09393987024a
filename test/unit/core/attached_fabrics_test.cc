// SPDX-License-Identifier: BSD-3-Clause
// Attaching fabrics: limits by the parameters, numbers of rails, and too many rails.
#include "core/attached_fabrics.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unit/null_rail.h"

namespace adaptib::test {
namespace {

using Way = WayChoice::Way;

class DescribedFabric final : public Fabric {
public:
    DescribedFabric(const RailInfo& info, std::size_t rails, bool timed = false) {
        for (std::size_t i = 0; i < rails; ++i) {
            rails_.push_back(std::make_unique<DescribedRail>(info));
        }
        if (timed) {
            copy_costs_.emplace();
        }
    }

private:
    bool poll_event_impl(Event&) override { return false; }
};

RailInfo rail(LinkLayer link, bool direct = false) {
    RailInfo info;
    info.name = "r";
    info.link_layer = link;
    info.capabilities = direct ? static_cast<std::uint32_t>(Capability::direct) : 0;
    return info;
}

class AttachedFabricsTest : public testing::Test {
protected:
    AttachedFabricsTest() {
        environment_.counters = &counters_;
        environment_.message = [this](Severity, const std::string& text) {
            messages_.push_back(text);
        };
        parameters_.eager_limit = 1000;
        parameters_.verbs_eager_limit = 2000;
        parameters_.ring_bytes = 3000;
        parameters_.verbs_ring_bytes = 4000;
    }

    void add(const RailInfo& info, std::size_t rails, bool timed = false) {
        waiting_.push_back(std::make_unique<DescribedFabric>(info, rails, timed));
    }
    AttachedFabrics& attach() {
        attached_.emplace(environment_);
        std::string text;
        EXPECT_TRUE(attached_->attach(parameters_, std::move(waiting_), text).ok()) << text;
        waiting_.clear();
        return *attached_;
    }

    Counters counters_;
    CoreEnvironment environment_;
    Parameters parameters_ = default_parameters();
    std::vector<std::string> messages_;
    std::vector<std::unique_ptr<Fabric>> waiting_;
    std::optional<AttachedFabrics> attached_;
};

TEST_F(AttachedFabricsTest, MemoryAndDevicesHaveLimitsOfTheirOwn) {
    struct Row {
        LinkLayer link;
        bool device;
        Bytes eager_limit;
        Bytes ring_bytes;
    };
    for (const Row& row :
         {Row{LinkLayer::memory, false, 1000, 3000}, Row{LinkLayer::infiniband, true, 2000, 4000},
          Row{LinkLayer::ethernet, true, 2000, 4000}}) {
        add(rail(row.link), 1);
        const AttachedFabric& attached = attach().all()[0];
        EXPECT_EQ(attached.device, row.device);
        EXPECT_EQ(attached.eager_limit, row.eager_limit);
        EXPECT_EQ(attached.ring_bytes, row.ring_bytes);
    }
}

TEST_F(AttachedFabricsTest, TheEagerLimitIsLearntWhereCopiesAreTimed) {
    struct Row {
        int eager_limit;
        LinkLayer link;
        bool timed;
        Bytes most;
    };
    for (const Row& row :
         {Row{-1, LinkLayer::memory, true, 3000 / 4}, Row{-1, LinkLayer::memory, false, 0},
          Row{1000, LinkLayer::memory, true, 0}, Row{-1, LinkLayer::infiniband, true, 0}}) {
        parameters_.eager_limit = row.eager_limit;
        add(rail(row.link), 1, row.timed);
        EXPECT_EQ(attach().all()[0].most_eager, row.most);
    }
}

TEST_F(AttachedFabricsTest, TheCounterHasTheEagerLimitWithinTheHost) {
    add(rail(LinkLayer::memory), 1);
    add(rail(LinkLayer::infiniband), 1);
    attach();
    EXPECT_EQ(counters_.eager_limit_bytes, 1000u);
}

TEST_F(AttachedFabricsTest, LongCopiesGoTheWaysThatTheUserAllows) {
    struct Row {
        const char* long_copies;
        bool direct;
        bool cooperative;
        std::optional<Way> only;
    };
    const std::vector<Row> rows{
        {"auto", true, true, std::nullopt},
        {"auto", false, false, std::nullopt},
        {"alone", true, false, std::nullopt},
        {"together", true, true, CooperativeCopyChoices::kCooperative},
        {"staged", true, true, CooperativeCopyChoices::kStaged},
    };
    for (const Row& row : rows) {
        parameters_.long_copies = const_cast<char*>(row.long_copies);
        add(rail(LinkLayer::memory, row.direct), 1);
        const AttachedFabric& attached = attach().all()[0];
        EXPECT_EQ(attached.cooperative_copies, row.cooperative) << row.long_copies;
        EXPECT_EQ(attached.only_copies, row.only) << row.long_copies;
    }
}

TEST_F(AttachedFabricsTest, SmallOneSidedOperationsMayBeAssistedWhereMemoryIsDirect) {
    struct Row {
        const char* small_one_sided;
        bool direct;
        bool assisted;
    };
    for (const Row& row :
         {Row{"auto", true, true}, Row{"auto", false, false}, Row{"direct", true, false}}) {
        parameters_.small_one_sided = const_cast<char*>(row.small_one_sided);
        add(rail(LinkLayer::memory, row.direct), 1);
        EXPECT_EQ(attach().all()[0].target_assisted, row.assisted) << row.small_one_sided;
    }
}

TEST_F(AttachedFabricsTest, EachFabricGetsARailIfThereAreTooMany) {
    add(rail(LinkLayer::infiniband), kMaxRails + 3);
    add(rail(LinkLayer::memory), 2);
    const AttachedFabrics& attached = attach();
    const std::vector<RailRange> ranges = attached.ranges();
    ASSERT_EQ(ranges.size(), 2u);
    EXPECT_EQ(ranges[0].count, kMaxRails - 1);
    EXPECT_EQ(ranges[1].first, kMaxRails - 1);
    EXPECT_EQ(ranges[1].count, 1u);
    EXPECT_EQ(attached.rails().size(), kMaxRails);
    EXPECT_EQ(attached.cqs().size(), kMaxRails);
    ASSERT_EQ(messages_.size(), 2u);
    EXPECT_TRUE(messages_[1].starts_with("Of 2 rails from r on, the first 1 are used"));
}

} // namespace
} // namespace adaptib::test
