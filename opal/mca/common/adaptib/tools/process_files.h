// SPDX-License-Identifier: BSD-3-Clause
// Files that running processes of this user have open, found through /proc.
//
// Threads: any.
// May touch: the system.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace adaptib {

// Calls f with the process, the path under /proc, and what the path names, of each open file of
// each process, or of `pid`. Leaves out processes whose files may not be seen.
void for_each_open_file(std::optional<std::uint32_t> pid,
                        const std::function<void(std::uint32_t pid, const std::string& path,
                                                 std::string_view target)>& f);

// Opens such a file, if it is a regular one, of this user or of any: root sees the files of all
// users, but shall look into a stranger's only if it is told to. Returns -1 and errno.
int open_process_file(const std::string& path, int flags, bool of_any);

// The whole text as a number; none if it is not one.
std::optional<std::uint64_t> number_of(const char* text, int base);

} // namespace adaptib
