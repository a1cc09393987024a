// SPDX-License-Identifier: BSD-3-Clause
// Hands a descriptor of this process to processes of the job that may not take it from /proc.
//
// Purpose: the kernel lets a process open /proc/<pid>/fd of another one only if both have the same
// user and user namespace and the target is dumpable. A rank may be in its own user namespace
// (rootless containers), or give up rights after MPI_Init. These rules do not apply to a Unix
// socket: it has an abstract name, which needs no common directory and vanishes with its owner, and
// every process of the same network namespace reaches it. PMIx finds its server in the same way.
//
// Protocol: one datagram asks. It carries the key of the descriptor and one end of a socket pair,
// over which the server answers: with the descriptor, or with "wrong key". So the server never
// waits for a client, and a stranger cannot block others.
// Trust: the key decides, and only processes of the job know it (it is part of the published
// address). The client's user does not decide, because it may have changed since. The answer
// carries its sender's process number, attested by the kernel; the client rejects an answer of
// another process.
// Another datagram, also with the key, only wakes the server, which then calls a function.
// Threads: one, asleep until a client asks, since the owner may be computing. The thread allocates
// nothing by itself and blocks all signals. Fork: a child has no such thread, and its copy of this
// object ends none.
// May touch: base/, the system.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "base/units.h"

namespace adaptib::shm {

class DescriptorServer {
public:
    // Serves `descriptor`, which stays the caller's and outlives the server. `first_number`: the
    // name to try first. Null and errno: the system refuses such a socket or a thread.
    static std::unique_ptr<DescriptorServer> start(int descriptor, std::uint64_t key,
                                                   std::uint32_t first_number);
    ~DescriptorServer();
    DescriptorServer(const DescriptorServer&) = delete;
    DescriptorServer& operator=(const DescriptorServer&) = delete;

    // Number at the end of the socket's name.
    std::uint32_t number() const { return number_; }
    // The thread calls the function, which should be short, whenever it is woken. Null: it calls
    // nothing, and no call goes on when this returns.
    void listen(std::function<void()> woken);

private:
    DescriptorServer(int descriptor, std::uint64_t key) : descriptor_(descriptor), key_(key) {}
    int open_socket(std::uint32_t first_number);
    int start_thread();
    static void* run(void* self);
    void serve();
    void answer(int reply, bool entitled) const;
    void wake();

    int descriptor_;
    std::uint64_t key_;
    int socket_ = -1;
    std::uint32_t number_ = 0;
    pid_t owner_ = 0; // process that the thread belongs to
    bool running_ = false;
    std::atomic<bool> ends_{false};
    pthread_t thread_{};
    std::mutex mutex_; // of woken_, and held while it runs
    std::function<void()> woken_;
};

// Wakes the server of that number and key. It may be gone, or have too much to do for now.
void wake_server(std::uint32_t number, std::uint64_t key);

// Asks process `pid` for the descriptor that it serves under that number, and waits for the answer
// up to `limit`. Returns a descriptor of this process; or -1 and errno:
//   ECONNREFUSED      nobody serves there (any more), or another process does
//   EKEYREJECTED      it serves, but not for this key
//   EAGAIN, EMFILE, ENFILE, ENOMEM, ENOBUFS   a later try may succeed
//   else              the system's refusal
int request_descriptor(std::uint32_t number, std::uint32_t pid, std::uint64_t key,
                       Nanoseconds limit);

} // namespace adaptib::shm
