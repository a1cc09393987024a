// SPDX-License-Identifier: BSD-3-Clause
// TextFile: collects in text() all that is written to file(). run_tool(): runs a tool with two.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

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

struct ToolResult {
    int status = -1;
    std::string out;
    std::string complaints;
};

// Runs a tool as its user does: run(argc, argv, out, complaints) with this name and arguments.
template <typename Run>
ToolResult run_tool(const char* name, const std::vector<std::string>& arguments, Run&& run) {
    std::vector<const char*> argv{name};
    for (const std::string& argument : arguments) {
        argv.push_back(argument.c_str());
    }
    const auto argc = static_cast<int>(argv.size());
    argv.push_back(nullptr);
    TextFile out;
    TextFile complaints;
    const int status = run(argc, argv.data(), out.file(), complaints.file());
    return {status, out.text(), complaints.text()};
}

} // namespace adaptib::test
