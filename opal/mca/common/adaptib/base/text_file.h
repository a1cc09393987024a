// SPDX-License-Identifier: BSD-3-Clause
// Writing a text into a file.
// Threads: any.
// May touch: the C library.
#pragma once

#include <cerrno>
#include <cstdio>
#include <string>

#include "base/file_limit.h"

namespace adaptib {

// Replaces the file's content. Returns false, and sets errno, if not all could be written.
inline bool write_text_file(const std::string& path, const std::string& text) {
    if (text.size() > file_limit()) {
        errno = EFBIG;
        return false;
    }
    std::FILE* const file = std::fopen(path.c_str(), "w");
    if (file == nullptr) {
        return false;
    }
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    return std::fclose(file) == 0 && written;
}

} // namespace adaptib
