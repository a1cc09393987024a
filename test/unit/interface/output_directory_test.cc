// SPDX-License-Identifier: BSD-3-Clause
#include "interface/output_directory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/process_name.h"

namespace adaptib::test {
namespace {

TEST(OutputDirectory, AFileHasTheRankAndTheJobOfASpawnedProcess) {
    EXPECT_EQ(path_of_process("/tmp", "report-", 7), "/tmp/report-rank-7.json");
    const std::uint64_t spawned = std::uint64_t{3} << 32u | 7;
    ASSERT_NE(spawned_job_of(spawned), 0u);
    EXPECT_EQ(path_of_process("/tmp", "report-", spawned),
              "/tmp/report-job-" + std::to_string(spawned_job_of(spawned)) + "-rank-7.json");
}

} // namespace
} // namespace adaptib::test
