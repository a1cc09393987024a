// SPDX-License-Identifier: BSD-3-Clause
// Reports of processes, in bytes and as JSON, and the summary of a job that is made of them.
#include "stats/job_summary.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/process_name.h"
#include "stats/counters.h"

namespace adaptib {
namespace {

constexpr std::uint64_t kJob = std::uint64_t{1} << 32;

std::size_t row_of(const std::string& name) {
    const auto table = counter_table();
    for (std::size_t i = 0; i < table.size(); ++i) {
        if (name == table[i].name) {
            return i;
        }
    }
    ADD_FAILURE() << "no counter " << name;
    return 0;
}

ProcessReport report_of(std::uint32_t rank, const std::string& host,
                        const std::vector<std::pair<std::string, std::uint64_t>>& values) {
    ProcessReport report{
        kJob | rank, host, std::vector<std::uint64_t>(counter_table().size(), 0), {}, {}};
    for (const auto& [name, value] : values) {
        report.values[row_of(name)] = value;
    }
    return report;
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(ProcessReport, TravelsAsBytes) {
    const ProcessReport sent = report_of(7, "node3", {{"ring_sent", 5}, {"peers", 2}});
    const std::vector<std::byte> bytes = encode_report(sent);
    ProcessReport got;
    ASSERT_TRUE(decode_report(bytes, got));
    EXPECT_EQ(got.name, sent.name);
    EXPECT_EQ(got.host, sent.host);
    EXPECT_EQ(got.values, sent.values);
}

TEST(ProcessReport, RefusesBytesThatAreNone) {
    const std::vector<std::byte> good = encode_report(report_of(7, "node3", {}));
    ProcessReport got;
    for (std::size_t length = 0; length < good.size(); ++length) {
        EXPECT_FALSE(decode_report({good.data(), length}, got)) << length;
    }
    for (const std::size_t at : {std::size_t{0}, std::size_t{4}, std::size_t{6}}) {
        std::vector<std::byte> bad = good; // magic, length of the host, number of values
        bad[at] ^= std::byte{1};
        EXPECT_FALSE(decode_report(bad, got)) << at;
    }
    std::vector<std::byte> longer = good;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(decode_report(longer, got));
}

TEST(ProcessReport, IsJsonWithUnits) {
    const std::vector<std::string> texts{"first \"endpoint\"\n", "second\n"};
    const std::string json = report_json(report_of(7, "node3", {{"ring_sent_bytes", 99}}), texts);
    EXPECT_TRUE(has(json, "\"schema\": \"adaptib-report\"")) << json;
    EXPECT_TRUE(has(json, "\"rank\": 7"));
    EXPECT_TRUE(has(json, "\"host\": \"node3\""));
    EXPECT_TRUE(has(json, "\"first \\\"endpoint\\\"\\u000a\""));
    EXPECT_TRUE(has(json,
                    "\"ring_sent_bytes\": {\n      \"value\": 99,\n      \"unit\": \"bytes\",\n"
                    "      \"kind\": \"counter\""))
        << json;
}

TEST(ProcessReport, IsJsonWithARowForEachPeer) {
    ProcessReport report = report_of(7, "node3", {});
    PeerTraffic peer;
    peer.process = kJob | 4;
    peer.host = "node5";
    peer.fabric = "verbs";
    peer.ring = {2, 20};
    peer.rma.reads = {3, 3000};
    report.peers.push_back(peer);
    const std::string json = report_json(report, {});
    EXPECT_TRUE(has(json, "\"rank\": 4,\n      \"host\": \"node5\",\n      \"fabric\": \"verbs\",\n"
                          "      \"ring_sent\": 2,\n      \"ring_sent_bytes\": 20,"))
        << json;
    EXPECT_TRUE(has(json, "\"rdma_read_bytes\": 3000,"));
}

TEST(ProcessReport, ItsListsAreBesideEachOther) {
    const std::string endpoint = "{}";
    const std::string json = report_json(report_of(7, "node3", {}), {&endpoint, 1});
    for (const char* list : {"endpoints", "peers", "history"}) {
        EXPECT_TRUE(has(json, std::string("\n  \"") + list + "\": [")) << list << " in " << json;
    }
}

TEST(JobSummary, SumsCarriersAndSpreadsProcesses) {
    const std::vector<ProcessReport> reports{
        report_of(0, "a", {{"ring_sent", 10}, {"ring_sent_bytes", 1000}, {"connections_most", 1}}),
        report_of(1, "a", {{"ring_sent", 30}, {"ring_sent_bytes", 1000}, {"connections_most", 3}}),
        report_of(2, "b", {{"datagram_sent", 20}, {"datagram_sent_bytes", 2000}})};
    const std::string text = job_summary(reports, 3);
    EXPECT_TRUE(has(text, "adaptib summary of the job: 3 processes on 2 hosts\n")) << text;
    EXPECT_TRUE(
        has(text, "  rings                                    40               2000   50.0 %"))
        << text;
    EXPECT_TRUE(
        has(text, "  shared queues                            20               2000   50.0 %"))
        << text;
    EXPECT_TRUE(has(text, "  messages sent                            10                 20"
                          "                 30 (process 1 on a)\n"))
        << text;
    EXPECT_TRUE(has(text, "connections, at most                      0                  1"
                          "                  3 (process 1 on a)"))
        << text;
    EXPECT_TRUE(has(text, "no failures")) << text;
}

TEST(JobSummary, NamesTheProcessWithTheMostTrouble) {
    const std::vector<ProcessReport> reports{report_of(0, "a", {{"paths_failed", 1}}),
                                             report_of(5, "b", {{"paths_failed", 4}})};
    const std::string text = job_summary(reports, 2);
    EXPECT_TRUE(has(text, "worth a look\n    paths_failed: 5 paths, most in process 5 on b (4). "))
        << text;
    EXPECT_FALSE(has(text, "no failures"));
    EXPECT_FALSE(has(text, "repairs:")) << "what is 0 is not shown";
}

TEST(JobSummary, SaysHowManyProcessesAreMissing) {
    EXPECT_TRUE(has(job_summary(std::vector{report_of(0, "a", {})}, 4),
                    "1 process on 1 host; no report came from 3 processes"));
    EXPECT_FALSE(has(job_summary(std::vector{report_of(0, "a", {})}, 0), "no report came"));
    EXPECT_TRUE(has(job_summary({}, 2), "no report came from 2 processes"));
}

TEST(JobSummary, TakesLessThanASecondForAThousandProcesses) {
    std::vector<ProcessReport> reports;
    for (std::uint32_t rank = 0; rank < 1024; ++rank) {
        reports.push_back(report_of(rank, "node" + std::to_string(rank / 32),
                                    {{"ring_sent", rank}, {"bad_packets", rank % 3}}));
    }
    const auto begin = std::chrono::steady_clock::now();
    const std::string text = job_summary(reports, 1024);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{1});
    EXPECT_TRUE(has(text, "1024 processes on 32 hosts"));
    EXPECT_LT(text.size(), 4000U);
}

} // namespace
} // namespace adaptib
