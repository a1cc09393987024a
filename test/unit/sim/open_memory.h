// SPDX-License-Identifier: BSD-3-Clause
// Memory of the ranks of a simulated world, open to the other ranks, and operations on it.
// Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simulator/torture/ranks.h"
#include "unit/core/test_request.h"

namespace adaptib::sim {

class OpenMemory {
public:
    OpenMemory(Ranks& ranks, Bytes bytes) : ranks_(ranks), keys_(ranks.size()) {
        for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
            memory_.emplace_back(bytes);
            EXPECT_TRUE(ranks.core(rank)
                            .protocol()
                            .memory()
                            .open_window(keys_[rank], memory_[rank].data(), bytes,
                                         kLocalWrite | kRemoteWrite | kRemoteRead)
                            .ok());
        }
    }
    void start(std::size_t from, std::size_t to, opal_common_adaptib_operation_t operation,
               std::vector<std::byte>& local, test::TestRequest& request, Bytes offset = 0) {
        opal_common_adaptib_remote_t remote{};
        remote.base = reinterpret_cast<std::uintptr_t>(memory_[to].data());
        remote.bytes = memory_[to].size();
        keys_[to].memory().copy_remote_keys(remote.keys);
        remote.key_count = keys_[to].memory().key_count();
        remote.access = OPAL_COMMON_ADAPTIB_REMOTE_WRITE | OPAL_COMMON_ADAPTIB_REMOTE_READ;
        opal_common_adaptib_one_sided_t asked{};
        asked.operation = operation;
        asked.local = local.data();
        asked.bytes = local.size();
        asked.remote = &remote;
        asked.remote_address = remote.base + offset;
        request.done = false;
        bool complete = false;
        EXPECT_TRUE(ranks_.core(from)
                        .protocol()
                        .one_sided()
                        .start(*ranks_.peer(from, to), asked, nullptr, request.user, complete)
                        .ok());
        request.done = complete;
        ranks_.wake(from);
    }
    const std::vector<std::byte>& of(std::size_t rank) const { return memory_[rank]; }

private:
    Ranks& ranks_;
    std::vector<std::vector<std::byte>> memory_;
    std::vector<OpenWindow> keys_;
};

} // namespace adaptib::sim
