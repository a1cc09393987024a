// SPDX-License-Identifier: BSD-3-Clause
// The core of this process as the C components have it: acquired, used and released through the C
// interface, over shared memory alone.
//
// Purpose: a fixture that gives the core its environment: it looks up the addresses that the test
// has published, and notes the messages to the user. A test may set parameters before it acquires.
// May touch: the C interface, base/parameters.h, gtest.
#pragma once

#include <chrono>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/parameters.h"
#include "common_adaptib.h"

namespace adaptib::test {

constexpr int kSuccess = OPAL_COMMON_ADAPTIB_SUCCESS;
constexpr int kComplete = OPAL_COMMON_ADAPTIB_COMPLETE;
constexpr int kAgain = OPAL_COMMON_ADAPTIB_AGAIN;
constexpr int kUnreachable = OPAL_COMMON_ADAPTIB_UNREACHABLE;

class ProcessCore : public testing::Test {
protected:
    static constexpr std::uint64_t kJob = 7;
    static constexpr std::uint64_t kSelf = kJob << 32 | 90;
    static constexpr std::chrono::seconds kPatience{20};

    struct Message {
        opal_common_adaptib_severity_t severity;
        std::string text;
    };

    ProcessCore() : parameters_before_(process_parameters()) {
        set_text(process_parameters().fabric, "shm");
        environment_.context = this;
        environment_.self = kSelf;
        environment_.host_name = "testhost";
        environment_.one_host = true;
        environment_.lookup = look_up;
        environment_.lookup_release = release_address;
        environment_.message = note_message;
    }
    ~ProcessCore() override {
        EXPECT_EQ(core_, nullptr) << "the test has not released its core";
        EXPECT_EQ(addresses_lent_, 0);
        process_parameters() = parameters_before_;
    }
    void TearDown() override { release(); }

    // Sets a parameter of the table until the test ends; the text must live as long.
    static void set_text(char*& parameter, const char* value) {
        parameter = const_cast<char*>(value);
    }

    int acquire() { return opal_common_adaptib_core_acquire(&environment_, &core_); }
    void release() {
        if (core_ != nullptr) {
            opal_common_adaptib_core_release(std::exchange(core_, nullptr));
        }
    }
    opal_common_adaptib_peer_t* self() {
        opal_common_adaptib_peer_t* peer = nullptr;
        EXPECT_EQ(opal_common_adaptib_peer_get(core_, kSelf, &peer), OPAL_COMMON_ADAPTIB_SUCCESS);
        return peer;
    }
    // Makes progress until `condition`; false if it does not come true in many passes.
    bool run(const std::function<bool()>& condition) {
        const auto end = std::chrono::steady_clock::now() + kPatience;
        bool good = condition();
        while (!good && std::chrono::steady_clock::now() < end) {
            opal_common_adaptib_progress(core_);
            good = condition();
        }
        return good;
    }
    // Expects one message, of that severity, with these parts.
    void expect_message(opal_common_adaptib_severity_t severity,
                        const std::vector<std::string_view>& parts) {
        ASSERT_EQ(messages_.size(), 1u);
        EXPECT_EQ(messages_[0].severity, severity);
        for (const std::string_view part : parts) {
            EXPECT_NE(messages_[0].text.find(part), std::string::npos)
                << "\"" << part << "\" is not in: " << messages_[0].text;
        }
        messages_.clear();
    }

    opal_common_adaptib_environment_t environment_{};
    opal_common_adaptib_core_t* core_ = nullptr;
    std::map<std::uint64_t, std::vector<std::byte>> published_;
    std::vector<Message> messages_;
    std::atomic<int> addresses_lent_{0};

private:
    static int look_up(void* context, std::uint64_t name, void** address, std::size_t* size) {
        auto* test = static_cast<ProcessCore*>(context);
        const auto found = test->published_.find(name);
        if (found == test->published_.end()) {
            return -1;
        }
        *address = found->second.data();
        *size = found->second.size();
        ++test->addresses_lent_;
        return 0;
    }
    static void release_address(void* context, void*) {
        --static_cast<ProcessCore*>(context)->addresses_lent_;
    }
    static void note_message(void* context, opal_common_adaptib_severity_t severity,
                             const char* text) {
        static_cast<ProcessCore*>(context)->messages_.push_back({severity, text});
    }

    Parameters parameters_before_;
};

// A request that knows how often it has been reported as complete.
struct Request {
    opal_common_adaptib_request_t user{};
    int reported = 0;

    Request() {
        user.complete = [](opal_common_adaptib_request_t* request) {
            ++reinterpret_cast<Request*>(request)->reported;
        };
    }
};

inline opal_common_adaptib_data_t data_of(void* base, std::size_t bytes) {
    return {base, bytes, nullptr, nullptr, nullptr};
}

} // namespace adaptib::test
