// SPDX-License-Identifier: BSD-3-Clause
#include "interface/output_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/process_name.h"

namespace adaptib {

std::string unwritable(const std::string& directory) {
    struct stat found {};
    const bool there = stat(directory.c_str(), &found) == 0;
    if (there && !S_ISDIR(found.st_mode)) {
        return "is no directory";
    }
    return there && access(directory.c_str(), W_OK | X_OK) == 0 ? "" : std::strerror(errno);
}

std::string path_of_process(const std::string& directory, const std::string& prefix,
                            std::uint64_t process) {
    const std::uint64_t job = spawned_job_of(process);
    return directory + "/" + prefix + (job > 0 ? "job-" + std::to_string(job) + "-" : "") +
           "rank-" + std::to_string(rank_of(process)) + ".json";
}

bool publish_file(const std::string& path) {
    return std::rename(unfinished(path).c_str(), path.c_str()) == 0;
}

} // namespace adaptib
