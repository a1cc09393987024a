// SPDX-License-Identifier: BSD-3-Clause
// Hands a descriptor of this process to processes of the job that may not take it from /proc.
//
// Purpose: the kernel lets a process open /proc/<pid>/fd of another one only if both are of one
// user and one user namespace and the target is dumpable. A rank may be in a user namespace of its
// own (rootless containers), or give rights up after MPI_Init. A Unix socket knows none of these
// rules: it has an abstract name, which needs no directory in common and is gone with its owner,
// and is reached from the same network namespace. That is where PMIx, too, finds its server.
//
// Protocol: one datagram asks. It carries the key of the descriptor and one end of a socket pair,
// over which the answer comes: the descriptor, or that the key is wrong. So the server never waits
// for anybody, and a stranger holds nobody up.
// Trust: the key is known to processes of the job alone (it is part of the published address), and
// decides. The user of the asking process does not: it may have changed since. The answer carries
// its sender's process number, attested by the kernel; one of another process is not taken.
// Threads: one, asleep until it is asked: the owner may be computing. It allocates nothing. All
// signals are blocked in it. Fork: a child has no such thread, and its copy of this object ends
// none.
// May touch: base/, the system.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/units.h"

namespace adaptib::shm {

class DescriptorServer {
public:
    // Serves `descriptor`, which stays the caller's and outlives the server. `first_number`: the
    // name that is tried first. Null and errno: the system gives no such socket, or no thread.
    static std::unique_ptr<DescriptorServer> start(int descriptor, std::uint64_t key,
                                                   std::uint32_t first_number);
    ~DescriptorServer();
    DescriptorServer(const DescriptorServer&) = delete;
    DescriptorServer& operator=(const DescriptorServer&) = delete;

    // What its socket's name ends with.
    std::uint32_t number() const { return number_; }

private:
    DescriptorServer(int descriptor, std::uint64_t key) : descriptor_(descriptor), key_(key) {}
    int open_socket(std::uint32_t first_number);
    int start_thread();
    static void* run(void* self);
    void serve();
    void answer(int reply, bool entitled) const;

    int descriptor_;
    std::uint64_t key_;
    int socket_ = -1;
    std::uint32_t number_ = 0;
    pid_t owner_ = 0; // the process whose thread it is
    bool running_ = false;
    std::atomic<bool> ends_{false};
    pthread_t thread_{};
};

// Asks process `pid` for the descriptor that it serves by that number, and waits for the answer up
// to `limit`. Returns a descriptor of this process; or -1 and errno:
//   ECONNREFUSED      nobody serves there (any more), or it is another process
//   EKEYREJECTED      it serves, but not for this key
//   EAGAIN, EMFILE, ENFILE, ENOMEM, ENOBUFS   may go better later
//   else              what the system refuses
int request_descriptor(std::uint32_t number, std::uint32_t pid, std::uint64_t key,
                       Nanoseconds limit);

} // namespace adaptib::shm
