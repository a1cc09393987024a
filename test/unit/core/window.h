// SPDX-License-Identifier: BSD-3-Clause
// One-sided operations between the cores of a test: memory that other cores may reach, and
// operations on it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "cores.h"
#include "memory/window.h"

namespace adaptib::test {

inline constexpr std::uint32_t kAll = OPAL_COMMON_ADAPTIB_REMOTE_READ |
                                      OPAL_COMMON_ADAPTIB_REMOTE_WRITE |
                                      OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC;

// Memory of one node that the others may reach.
struct Window {
    Window(Cores& world, std::size_t node, void* base, std::size_t bytes,
           std::uint32_t access = kAll) {
        Protocol& protocol = world.core(node).protocol();
        EXPECT_TRUE(protocol.memory()
                        .open_window(open, base, bytes,
                                     kLocalWrite | kRemoteRead | kRemoteWrite | kRemoteAtomic)
                        .ok());
        remote.base = reinterpret_cast<std::uintptr_t>(base);
        remote.bytes = bytes;
        remote.access = protocol.one_sided().advertised_access(access);
        remote.key_count = open.memory().key_count();
        open.memory().copy_remote_keys(remote.keys);
    }

    OpenWindow open;
    opal_common_adaptib_remote_t remote{};
};

inline opal_common_adaptib_one_sided_t operation(opal_common_adaptib_operation_t kind, void* local,
                                                 const Window& window, std::uint64_t offset,
                                                 std::size_t bytes) {
    return {kind, local, nullptr, window.remote.base + offset, &window.remote, bytes, 0, 0};
}

inline Peer* target(Cores& world, std::size_t from, std::size_t to) {
    Peer* peer = nullptr;
    if (from == to) {
        EXPECT_TRUE(world.core(from).peers().get_loopback(peer).ok());
        return peer;
    }
    return world.peer(from, to);
}

inline Status start(Cores& world, std::size_t from, std::size_t to,
                    const opal_common_adaptib_one_sided_t& what, TestRequest& request) {
    bool complete = false;
    const Status status = world.core(from).protocol().one_sided().start(
        *target(world, from, to), what, nullptr, request.user, complete);
    world.core(from).protocol().ask_for_connections();
    request.done = complete;
    return status;
}

} // namespace adaptib::test
