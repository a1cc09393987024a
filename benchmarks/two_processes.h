// SPDX-License-Identifier: BSD-3-Clause
// Two processes as production opens them (interface/process.h), in one real process and one thread,
// for benchmarks that count instructions.
//
// Purpose: opens both, lets each find the other, and counts requests that are not complete.
// Ownership: owns the processes. The requests that the user starts outlive them.
// Threads: one.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>

#include "common_adaptib.h"
#include "common_adaptib_two_sided.h"
#include "interface/process.h"

namespace adaptib::bench {

// A request that counts `*left` down when it is complete.
struct Request {
    opal_common_adaptib_request_t user{};
    int* left = nullptr;

    Request() {
        user.complete = [](opal_common_adaptib_request_t* request) {
            --*reinterpret_cast<Request*>(request)->left;
        };
    }
};

class TwoProcesses {
public:
    static constexpr std::uint64_t kJob = std::uint64_t{7} << 32;

    // Opens both with the parameters of process_parameters(); false: one cannot be opened.
    // `threads`: calls take locks. `watches`: memory is watched, so that registrations are kept;
    // none may be unmapped.
    bool open(bool threads, bool watches) {
        threads_ = threads;
        watches_ = watches;
        for (std::uint32_t i = 0; i < 2; ++i) {
            processes_[i] = std::make_unique<Process>(environment(i));
            if (processes_[i]->open() != OPAL_COMMON_ADAPTIB_SUCCESS) {
                return false;
            }
            published_[kJob | i] = processes_[i]->address();
        }
        return true;
    }
    void close() {
        for (auto& process : processes_) {
            process.reset();
        }
    }
    Process& operator[](std::uint32_t i) { return *processes_[i]; }
    // Returns the same endpoint of the other process, as a peer of process i's; null: none.
    opal_common_adaptib_peer_t* peer_of(std::uint32_t i, std::uint32_t endpoint) {
        opal_common_adaptib_peer_t* peer = nullptr;
        const int code = opal_common_adaptib_peer_at(processes_[i]->endpoint(endpoint),
                                                     kJob | (1 - i), endpoint, &peer);
        return code == OPAL_COMMON_ADAPTIB_SUCCESS ? peer : nullptr;
    }

private:
    opal_common_adaptib_environment_t environment(std::uint32_t i) {
        opal_common_adaptib_environment_t environment{};
        environment.context = this;
        environment.self = kJob | i;
        environment.local_rank = i;
        environment.local_processes = 2;
        environment.host_name = "host";
        environment.one_host = true;
        environment.threads = &threads_;
        environment.lookup = [](void* context, std::uint64_t name, void** address,
                                std::size_t* size) {
            auto& found = static_cast<TwoProcesses*>(context)->published_[name];
            *address = found.data();
            *size = found.size();
            return found.empty() ? -1 : 0;
        };
        environment.lookup_release = [](void*, void*) {};
        if (watches_) {
            environment.watch_memory = [](void*) { return true; };
        }
        environment.message = [](void*, opal_common_adaptib_severity_t, const char* text) {
            std::fprintf(stderr, "%s\n", text);
        };
        return environment;
    }

    std::map<std::uint64_t, AddressBlob> published_;
    bool threads_ = false;
    bool watches_ = false;
    std::array<std::unique_ptr<Process>, 2> processes_; // end first: they look up addresses
};

} // namespace adaptib::bench
