// SPDX-License-Identifier: BSD-3-Clause
// Writing a text into a file.
// Threads: any.
// May touch: the C library.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "base/file_limit.h"

namespace adaptib {

// Opens a new file, for writing, in place of what has that name: in a directory that others may
// write to, that may be a stranger's link to a file of this user, or a pipe that nobody reads.
// Returns null, and sets errno, if there can be no such file.
inline std::FILE* replace_file(const std::string& path) {
    static_cast<void>(unlink(path.c_str()));
    return std::fopen(path.c_str(), "wx"); // fails if the name is there again
}

// Replaces the file. Returns false, and sets errno, if not all could be written.
inline bool write_text_file(const std::string& path, const std::string& text) {
    if (text.size() > file_limit()) {
        errno = EFBIG;
        return false;
    }
    std::FILE* const file = replace_file(path);
    if (file == nullptr) {
        return false;
    }
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    return std::fclose(file) == 0 && written;
}

} // namespace adaptib
