// SPDX-License-Identifier: BSD-3-Clause
// Histories: their bounds, how samples thin out without losing bytes, and their JSON.
#include "stats/run_history.h"

#include <gtest/gtest.h>

#include "base/json_writer.h"
#include "stats/run_history_json.h"

namespace adaptib {
namespace {

class Histories : public testing::Test {
protected:
    // Looks as timers do: more often than a sample is due.
    void pass(std::size_t looks, std::uint64_t bytes) {
        for (std::size_t i = 0; i < looks; ++i) {
            clock_.advance(RunHistory::kFirstInterval / 2);
            counters_.rail_bytes_0 += bytes;
            if (clock_.now() >= history_.due()) {
                history_.sample(clock_.now());
            }
        }
    }
    std::string json() const {
        JsonWriter json;
        write_history(json, {0, &history_, 5, {"one", "two"}});
        return json.result();
    }

    ManualClock clock_;
    Counters counters_;
    RunHistory history_{clock_, counters_};
};

TEST_F(Histories, TakeASampleEachInterval) {
    pass(20, 1);
    ASSERT_EQ(history_.samples().size(), 11u); // with that of the start
    for (std::size_t i = 1; i < 11; ++i) {
        EXPECT_EQ(history_.samples()[i].at - history_.samples()[i - 1].at,
                  RunHistory::kFirstInterval);
        EXPECT_EQ(history_.samples()[i].rail_bytes[0], 2 * i);
    }
}

TEST_F(Histories, HalveTheirResolutionWhenFull) {
    pass(2 * (RunHistory::kMostSamples - 1), 1);
    EXPECT_EQ(history_.samples().size(), RunHistory::kMostSamples);
    EXPECT_EQ(history_.interval(), RunHistory::kFirstInterval);
    pass(2, 1);
    EXPECT_EQ(history_.samples().size(), RunHistory::kMostSamples / 2 + 1);
    EXPECT_EQ(history_.interval(), 2 * RunHistory::kFirstInterval);
}

TEST_F(Histories, AreBoundedAndCoverTheWholeTimeEvenly) {
    pass(100000, 3);
    EXPECT_GT(history_.samples().size(), RunHistory::kMostSamples / 2);
    EXPECT_LE(history_.samples().size(), RunHistory::kMostSamples);
    EXPECT_EQ(history_.samples().front().at, Nanoseconds{0});
    for (std::size_t i = 1; i < history_.samples().size(); ++i) {
        EXPECT_EQ(history_.samples()[i].at - history_.samples()[i - 1].at, history_.interval());
    }
    history_.end();
    EXPECT_EQ(history_.samples().back().rail_bytes[0], counters_.rail_bytes_0);
}

TEST_F(Histories, KeepTheLatestIncidents) {
    for (std::size_t i = 0; i < RunHistory::kMostIncidents + 10; ++i) {
        clock_.advance(RunHistory::kTogether);
        history_.note({.peer = i, .kind = IncidentKind::repair});
    }
    EXPECT_EQ(history_.incidents(), RunHistory::kMostIncidents);
    EXPECT_EQ(history_.lost(), 10u);
    EXPECT_EQ(history_.incident(0).peer, 10u);
    EXPECT_EQ(history_.incident(0).at, 11 * RunHistory::kTogether);
    EXPECT_EQ(history_.incident(RunHistory::kMostIncidents - 1).peer,
              RunHistory::kMostIncidents + 9);
    note_incident(counters_, {}); // nobody asks for them
}

TEST_F(Histories, CountIncidentsThatFollowEachOther) {
    const auto note = [&](std::uint64_t peer, IncidentKind kind, int lasted, std::uint8_t rail) {
        clock_.advance(Nanoseconds{1000});
        history_.note({.peer = peer, .lasted = Nanoseconds{lasted}, .kind = kind, .rail = rail});
    };
    for (std::uint64_t peer = 1; peer <= 1000; ++peer) { // as those of a port that goes down
        note(peer, IncidentKind::repair, 0, Incident::kNoRail);
        note(peer, IncidentKind::repaired, peer == 7 ? 5000 : 4000, Incident::kNoRail);
    }
    ASSERT_EQ(history_.incidents(), 2u);
    EXPECT_EQ(history_.incident(0).count, 1000u);
    EXPECT_EQ(history_.incident(1).count, 1000u);
    EXPECT_EQ(history_.incident(1).peer, 1u);
    EXPECT_EQ(history_.incident(1).lasted, Nanoseconds{5000});
    note(1, IncidentKind::path_failed, 0, 0);
    note(1, IncidentKind::path_failed, 0, 1);
    EXPECT_EQ(history_.incidents(), 4u) << "over other rails";
    EXPECT_EQ(history_.lost(), 0u);
    clock_.advance(RunHistory::kTogether);
    note(1, IncidentKind::repair, 0, Incident::kNoRail);
    ASSERT_EQ(history_.incidents(), 5u) << "later";
    EXPECT_EQ(history_.incident(4).count, 1u);
}

TEST_F(Histories, SayWhatAnIncidentHas) {
    history_.note({.kind = IncidentKind::rail_down, .rail = 1});
    EXPECT_EQ(json().find("\"rank\""), std::string::npos) << json();
    EXPECT_EQ(json().find("\"count\""), std::string::npos) << json();
    history_.note({.kind = IncidentKind::rail_down, .rail = 1});
    EXPECT_NE(json().find("\"count\": 2"), std::string::npos) << json();
}

TEST_F(Histories, HaveTheBytesOfPaths) {
    history_.add_path_bytes(3, 100);
    pass(2, 1);
    history_.add_path_bytes(3, 20);
    pass(2, 1);
    EXPECT_EQ(history_.samples()[1].path_bytes[3], 100u);
    EXPECT_EQ(history_.samples()[2].path_bytes[3], 120u);
    EXPECT_NE(json().find("\"path\": 3"), std::string::npos) << json();
    EXPECT_NE(json().find("\"bytes\": [0, 100, 20]"), std::string::npos) << json();
}

TEST_F(Histories, WriteBytesOfEachIntervalAndLeaveOutWhatIsUnused) {
    counters_.path_weight_1 = 250;
    pass(4, 7);
    EXPECT_EQ(json().find("two"), std::string::npos) << json();
    history_.note({.peer = std::uint64_t{3} << 32 | 2,
                   .lasted = Nanoseconds{4000},
                   .kind = IncidentKind::repaired,
                   .rail = 1});
    const std::string text = json();
    EXPECT_NE(text.find("\"time_us\": [0, 10000, 20000]"), std::string::npos) << text;
    EXPECT_NE(text.find("\"bytes\": [0, 14, 14]"), std::string::npos) << text;
    EXPECT_NE(text.find("two"), std::string::npos) << "an incident names it: " << text;
    const std::size_t weights = text.find("\"per_mille\": [0, 250, 250]");
    ASSERT_NE(weights, std::string::npos) << text;
    EXPECT_NE(text[text.find_last_of("{}", weights)], '}') << "of the object of its path: " << text;
    EXPECT_NE(text.find("\"kind\": \"repaired\""), std::string::npos) << text;
    EXPECT_NE(text.find("\"lasted_us\": 4"), std::string::npos) << text;
    EXPECT_NE(text.find("\"rank\": 2"), std::string::npos) << text;
    EXPECT_NE(text.find("\"incidents_lost\": 0"), std::string::npos) << text;
}

TEST(Incidents, HaveNames) {
    EXPECT_EQ(incident_text(IncidentKind::path_up), "path up");
    EXPECT_EQ(incident_text(IncidentKind::peer_lost), "peer lost");
}

} // namespace
} // namespace adaptib
