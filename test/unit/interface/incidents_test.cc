// SPDX-License-Identifier: BSD-3-Clause
// Incidents as the environment of a process hears of them: without the lock, in progress or at the
// end, and with the peer, the rail and the endpoint.
#include <vector>

#include "base/process_name.h"
#include "stats/counters.h"
#include "stats/run_history.h"
#include "unit/interface/process_core.h"

namespace adaptib::test {
namespace {

class IncidentsHeard : public ProcessCore {
protected:
    IncidentsHeard() {
        environment_.incident = [](void* context, const opal_common_adaptib_incident_t* incident) {
            auto* test = static_cast<IncidentsHeard*>(context);
            test->heard_.push_back(*incident);
            // The listener may call the core, as MPI functions that it calls do.
            if (test->core_ != nullptr) {
                opal_common_adaptib_progress(test->core_);
                test->self();
            }
        };
    }
    // Something happens in an endpoint's core, which has its lock then.
    static void happen(const Incident& incident, std::uint32_t endpoint = 0) {
        note_incident(endpoint_counters(endpoint), incident);
    }

    std::vector<opal_common_adaptib_incident_t> heard_;
};

TEST_F(IncidentsHeard, InProgressAndNotBefore) {
    ASSERT_EQ(acquire(), kSuccess);
    happen({.peer = kJob << 32 | 5, .lasted = Nanoseconds{33}, .kind = IncidentKind::repaired});
    happen({.kind = IncidentKind::rail_down, .rail = 1});
    EXPECT_TRUE(heard_.empty());
    EXPECT_GT(opal_common_adaptib_progress(core_), 0);
    ASSERT_EQ(heard_.size(), 2u);
    EXPECT_EQ(heard_[0].kind, static_cast<std::uint32_t>(IncidentKind::repaired));
    EXPECT_EQ(heard_[0].rank, 5);
    EXPECT_EQ(heard_[0].job, static_cast<std::int32_t>(kJob)) << "a spawned job";
    EXPECT_EQ(heard_[0].rail, -1);
    EXPECT_EQ(heard_[0].lasted_ns, 33u);
    EXPECT_EQ(heard_[1].rank, -1);
    EXPECT_EQ(heard_[1].job, -1);
    EXPECT_EQ(heard_[1].rail, 1);
    opal_common_adaptib_progress(core_);
    EXPECT_EQ(heard_.size(), 2u) << "each once";
}

TEST_F(IncidentsHeard, AtTheEndIfNobodyMakesProgress) {
    ASSERT_EQ(acquire(), kSuccess);
    happen({.peer = kJob << 32 | 5, .kind = IncidentKind::peer_lost});
    release();
    ASSERT_EQ(heard_.size(), 1u);
    EXPECT_EQ(heard_[0].kind, static_cast<std::uint32_t>(IncidentKind::peer_lost));
}

TEST_F(IncidentsHeard, WithThreads) {
    static constexpr bool kThreads = true;
    environment_.threads = &kThreads;
    process_parameters().endpoints = 1;
    ASSERT_EQ(acquire(), kSuccess);
    happen({.peer = endpoint_name(kJob << 32 | 5, 3), .kind = IncidentKind::repair});
    opal_common_adaptib_progress(core_);
    ASSERT_EQ(heard_.size(), 1u);
    EXPECT_EQ(heard_[0].rank, 5);
    EXPECT_EQ(heard_[0].endpoint, 0u);
}

TEST_F(IncidentsHeard, OfEachEndpoint) {
    process_parameters().endpoints = 2;
    ASSERT_EQ(acquire(), kSuccess);
    opal_common_adaptib_core_t* second = opal_common_adaptib_endpoint(core_, 1);
    opal_common_adaptib_peer_t* peer = nullptr;
    static_cast<void>(opal_common_adaptib_peer_get(second, kSelf, &peer)); // opens it
    happen({.kind = IncidentKind::rail_up, .rail = 0}, 1);
    EXPECT_TRUE(run([this] { return !heard_.empty(); }));
    EXPECT_EQ(heard_[0].endpoint, 1u);
}

TEST_F(IncidentsHeard, ByNobodyIfNobodyListens) {
    environment_.incident = nullptr;
    ASSERT_EQ(acquire(), kSuccess);
    EXPECT_EQ(process_counters().incidents, nullptr);
    happen({.kind = IncidentKind::rail_down});
    EXPECT_EQ(opal_common_adaptib_progress(core_), 0);
}

} // namespace
} // namespace adaptib::test
