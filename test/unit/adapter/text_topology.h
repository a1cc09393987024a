// SPDX-License-Identifier: BSD-3-Clause
// A topology file that holds a given text.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <string>

namespace adaptib::hca {

// Ownership: the file goes with the object.
class TextTopology {
public:
    explicit TextTopology(const std::string& text)
        : path_(::testing::TempDir() + "adaptib_hosts." + std::to_string(::getpid()) + "." +
                std::to_string(made_++)) {
        std::FILE* const file = std::fopen(path_.c_str(), "w");
        if (file == nullptr) {
            ADD_FAILURE() << path_ << " cannot be written";
            return;
        }
        EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), file), text.size());
        std::fclose(file);
    }
    ~TextTopology() { std::remove(path_.c_str()); }
    TextTopology(const TextTopology&) = delete;
    TextTopology& operator=(const TextTopology&) = delete;

    const std::string& path() const { return path_; }

private:
    static inline int made_ = 0;
    const std::string path_;
};

} // namespace adaptib::hca
