// SPDX-License-Identifier: BSD-3-Clause
// Directories that parameters name for the files of a job's processes.
//
// Threads: any.
// May touch: base/, the C library.
#pragma once

#include <cstdint>
#include <string>

namespace adaptib {

// Returns why files cannot be made in the directory; empty: they can.
std::string unwritable(const std::string& directory);
// Returns "DIRECTORY/PREFIXrank-N.json"; the process of a spawned job has the job's number, too.
std::string path_of_process(const std::string& directory, const std::string& prefix,
                            std::uint64_t process);
// Returns the path of a file that becomes `path` when it is complete (publish_file), so that a
// reader never finds half of it.
inline std::string unfinished(const std::string& path) { return path + ".part"; }
// Returns false, and sets errno, if there is no such file, or it cannot be renamed.
bool publish_file(const std::string& path);

} // namespace adaptib
