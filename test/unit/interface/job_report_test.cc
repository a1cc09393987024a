// SPDX-License-Identifier: BSD-3-Clause
// The parameter `report` at the end of a process, through the C interface.
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "stats/process_report.h"
#include "unit/interface/process_core.h"

namespace adaptib::test {
namespace {

class JobReports : public ProcessCore {
protected:
    JobReports() {
        environment_.processes = 2;
        environment_.self = kJobName; // rank 0
        environment_.report_publish = publish;
        environment_.report_lookup = look_up_report;
    }

    static JobReports* self_of(void* context) {
        return static_cast<JobReports*>(static_cast<ProcessCore*>(context));
    }
    static int publish(void* context, const void* data, std::size_t size) {
        const auto* const bytes = static_cast<const std::byte*>(data);
        self_of(context)->sent_.assign(bytes, bytes + size);
        return kSuccess;
    }
    static int look_up_report(void* context, std::uint64_t name, void** data, std::size_t* size) {
        JobReports* const test = self_of(context);
        const auto found = test->reports_.find(name);
        if (found == test->reports_.end()) {
            return OPAL_COMMON_ADAPTIB_NOT_FOUND;
        }
        ++test->addresses_lent_;
        *data = found->second.data();
        *size = found->second.size();
        return kSuccess;
    }
    // Runs a process with this value of `report`, and returns what it says at its end.
    std::string said(const char* value) {
        set_text(process_parameters().report, value);
        EXPECT_EQ(acquire(), kSuccess);
        messages_.clear();
        release();
        std::string text;
        for (const Message& message : messages_) {
            EXPECT_EQ(message.severity, OPAL_COMMON_ADAPTIB_REPORT) << message.text;
            text += message.text;
        }
        return text;
    }

    static constexpr std::uint64_t kJobName = kJob << 32;
    std::vector<std::byte> sent_;
    std::map<std::uint64_t, std::vector<std::byte>> reports_;
};

TEST_F(JobReports, NoneSaysNothing) {
    EXPECT_EQ(said("none"), "");
    EXPECT_EQ(said("0"), "");
    EXPECT_TRUE(sent_.empty());
}

TEST_F(JobReports, RanksSaysThePageOfThisProcess) {
    const std::string text = said("ranks");
    EXPECT_EQ(text.rfind("adaptib report of process 0 on testhost", 0), 0U) << text;
    EXPECT_TRUE(sent_.empty());
}

TEST_F(JobReports, TheFirstProcessSumsUpAllThatReport) {
    reports_[kJobName | 1] = encode_report(report_of_process(kJobName | 1, "other"));
    for (const char* value : {"summary", "1", "true"}) {
        const std::string text = said(value);
        EXPECT_EQ(text.rfind("adaptib summary of the job: 2 processes on 2 hosts\n", 0), 0U)
            << text;
    }
    EXPECT_TRUE(sent_.empty());
}

TEST_F(JobReports, ReportsThatDoNotComeOrAreNoneAreMissing) {
    environment_.processes = 4;
    reports_[kJobName | 1] = {std::byte{1}, std::byte{2}};
    reports_[kJobName | 2] = encode_report(report_of_process(kJobName | 2, "other"));
    EXPECT_NE(said("summary").find("2 processes on 2 hosts; no report came from 2 processes"),
              std::string::npos);
}

TEST_F(JobReports, OtherProcessesPublishTheirsAndSayNothing) {
    environment_.self = kJobName | 2;
    EXPECT_EQ(said("summary"), "");
    ProcessReport report;
    ASSERT_TRUE(decode_report(sent_, report));
    EXPECT_EQ(report.name, kJobName | 2);
    EXPECT_EQ(report.host, "testhost");
}

TEST_F(JobReports, WithoutPublicationTheSummaryIsOfThisProcess) {
    environment_.report_publish = nullptr;
    environment_.report_lookup = nullptr;
    EXPECT_NE(said("summary").find("1 process on 1 host"), std::string::npos);
}

TEST_F(JobReports, ADirectoryGetsAFile) {
    std::string directory = testing::TempDir() + "adaptib_reports_XXXXXX";
    ASSERT_NE(mkdtemp(directory.data()), nullptr);
    EXPECT_EQ(said(directory.c_str()), "");
    std::ifstream file(directory + "/job-7-rank-0.json");
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_NE(text.str().find("\"schema\": \"adaptib-report\""), std::string::npos);
    EXPECT_NE(text.str().find("adaptib report of process 0 on testhost"), std::string::npos);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 1)
        << "nothing else is left";
    std::filesystem::remove_all(directory);
}

TEST_F(JobReports, ADirectoryThatIsNoneIsRefusedAtTheStart) {
    for (const char* bad : {"/no/such/directory", "sumary", "/dev/null"}) {
        set_text(process_parameters().report, bad);
        messages_.clear();
        EXPECT_EQ(acquire(), OPAL_COMMON_ADAPTIB_BAD_PARAM) << bad;
        ASSERT_EQ(messages_.size(), 1U);
        EXPECT_NE(messages_[0].text.find(std::string("\"") + bad + "\""), std::string::npos)
            << messages_[0].text;
        core_ = nullptr;
    }
}

} // namespace
} // namespace adaptib::test
