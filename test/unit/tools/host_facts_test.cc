// SPDX-License-Identifier: BSD-3-Clause
// What adaptib_info says of hosts with all kinds of limits, and of this one.
#include "tools/info/host_facts.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace adaptib::test {
namespace {

constexpr Bytes kNeeded = 3 * kMiB;

HostFacts good_host() {
    HostFacts facts;
    facts.name = "node1";
    facts.kernel = "6.1.0-18-amd64";
    facts.locked_memory = facts.locked_most = kUnlimited;
    facts.descriptors = 4096;
    facts.descriptors_most = 1048576;
    return facts;
}

const Finding& find(const Findings& findings, const std::string& topic) {
    static const Finding kNone{"none", Verdict::problem, "there is no such finding", ""};
    for (const Finding& finding : findings) {
        if (finding.topic == topic) {
            return finding;
        }
    }
    return kNone;
}

TEST(HostFacts, AGoodHostHasNothingToDo) {
    for (const Finding& finding : judge_host(good_host(), kNeeded)) {
        EXPECT_EQ(finding.verdict, Verdict::good) << finding.topic << ": " << finding.text;
        EXPECT_EQ(finding.advice, "");
    }
}

TEST(HostFacts, LockedMemoryIsJudgedByWhatDevicesNeed) {
    HostFacts facts = good_host();
    facts.locked_memory = facts.locked_most = 64 * kKiB;
    EXPECT_EQ(find(judge_host(facts, 0), "locked memory").verdict, Verdict::good);
    const Findings findings = judge_host(facts, kNeeded);
    const Finding& low = find(findings, "locked memory");
    EXPECT_EQ(low.verdict, Verdict::problem);
    EXPECT_NE(low.text.find("64 KiB"), std::string::npos) << low.text;
    EXPECT_NE(low.text.find("3 MiB"), std::string::npos) << low.text;
    EXPECT_NE(low.advice.find("memlock unlimited"), std::string::npos) << low.advice;

    facts.locked_memory = 8 * kMiB;
    EXPECT_EQ(find(judge_host(facts, kNeeded), "locked memory").verdict, Verdict::note);
    facts.may_lock_any = true;
    EXPECT_EQ(find(judge_host(facts, kNeeded), "locked memory").verdict, Verdict::good);
}

TEST(HostFacts, ARefusedCopyIsExplainedByItsCause) {
    HostFacts facts = good_host();
    facts.copy_error = EPERM;
    facts.ptrace_scope = 3;
    const Findings by_scope = judge_host(facts, 0);
    EXPECT_EQ(find(by_scope, "copies between processes").verdict, Verdict::note);
    EXPECT_NE(find(by_scope, "copies between processes").advice.find("ptrace_scope"),
              std::string::npos);
    facts.ptrace_scope = 1;
    const Findings by_filter = judge_host(facts, 0);
    EXPECT_NE(find(by_filter, "copies between processes").advice.find("seccomp"),
              std::string::npos);
}

TEST(HostFacts, AnOldKernelMattersWithDevicesOnly) {
    HostFacts facts = good_host();
    for (const char* old : {"5.11.3", "4.18.0-513.el8.x86_64", "3.10.0"}) {
        facts.kernel = old;
        EXPECT_EQ(find(judge_host(facts, kNeeded), "kernel").verdict, Verdict::note) << old;
        EXPECT_EQ(find(judge_host(facts, 0), "kernel").verdict, Verdict::good) << old;
    }
    facts.kernel = "5.12.0";
    EXPECT_EQ(find(judge_host(facts, kNeeded), "kernel").verdict, Verdict::good);
}

TEST(HostFacts, ContainersAndFewDescriptorsAreNoted) {
    HostFacts facts = good_host();
    facts.own_users = true;
    facts.descriptors = 256;
    const Findings findings = judge_host(facts, 0);
    EXPECT_EQ(find(findings, "container").verdict, Verdict::note);
    EXPECT_EQ(find(findings, "descriptors").verdict, Verdict::note);
}

TEST(HostFacts, ThisHostCanBeRead) {
    const HostFacts facts = read_host_facts();
    EXPECT_FALSE(facts.name.empty());
    EXPECT_FALSE(facts.kernel.empty());
    EXPECT_GE(facts.processors, 1U);
    EXPECT_GT(facts.descriptors, 0U);
    EXPECT_GE(facts.descriptors_most, facts.descriptors);
    EXPECT_GE(facts.ptrace_scope, -1);
}

} // namespace
} // namespace adaptib::test
