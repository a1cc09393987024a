// SPDX-License-Identifier: BSD-3-Clause
// TextFile: collects in text() all that is written to file().
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace adaptib::test {

class TextFile {
public:
    TextFile() : file_(open_memstream(&text_, &size_)) {}
    ~TextFile() {
        std::fclose(file_);
        std::free(text_);
    }
    TextFile(const TextFile&) = delete;
    TextFile& operator=(const TextFile&) = delete;
    std::FILE* file() { return file_; }
    std::string text() {
        std::fflush(file_);
        return {text_, size_};
    }

private:
    char* text_ = nullptr;
    std::size_t size_ = 0;
    std::FILE* file_;
};

} // namespace adaptib::test
