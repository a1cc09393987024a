// SPDX-License-Identifier: BSD-3-Clause
// Hands a descriptor of this process to processes of the job that may not take it from /proc.
//
// Purpose: the kernel lets a process open /proc/<pid>/fd of another one only if both have the same
// user and user namespace and the target is dumpable. A rank may be in its own user namespace
// (rootless containers), or give up rights after MPI_Init. These rules do not apply to a Unix
// socket: it has an abstract name, which needs no common directory and vanishes with its owner, and
// every process of the same network namespace reaches it. PMIx finds its server in the same way.
//
// Protocol: one datagram asks. It carries the request key, and one end of a socket pair, over which
// the server answers with the descriptor and the answer key.
// Trust: the keys decide, and only processes of the job know them (they are part of the published
// address). The client's user does not decide, because it may have changed since. A filter of the
// socket drops datagrams without the key before they are queued: strangers, who can read the
// socket's name in /proc/net/unix, cannot fill the queue, wake the thread, or make it close a
// descriptor of theirs, and nobody tells them whether a key is right. Once the server has ended, a
// stranger may take its name, and gets requests of those who do not know that yet. So the request
// key opens nothing but a living server, and the client's end has such a filter for the answer key.
// A process of the job may send a descriptor that takes long to close. Then the thread sleeps, and
// peers without another way get no answer meanwhile; but the destructor waits a second at most, and
// leaves the thread to itself after that. It stays harmless: it owns what it uses, and the library
// is never unloaded.
// Threads: one, asleep until a client asks, since the owner may be computing. It allocates nothing
// by itself and blocks all signals. Fork: a child has no such thread, and its copy of this object
// ends none.
// May touch: base/, the system.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "base/units.h"

namespace adaptib::shm {

// Drawn at random, each for itself.
struct ServerKeys {
    std::uint64_t request = 0;
    std::uint64_t answer = 0;
};

class DescriptorServer {
public:
    // Serves `descriptor`, which stays the caller's and outlives the server. `first_number`: the
    // name to try first; the keys must not follow from it. Null and errno: the system refuses such
    // a socket, its filter, or a thread.
    static std::unique_ptr<DescriptorServer> start(int descriptor, ServerKeys keys,
                                                   std::uint32_t first_number);
    ~DescriptorServer();
    DescriptorServer(const DescriptorServer&) = delete;
    DescriptorServer& operator=(const DescriptorServer&) = delete;

    // Number at the end of the socket's name.
    std::uint32_t number() const;

private:
    struct Service;

    DescriptorServer() = default;
    int start_thread();
    static void* run(void* of);

    std::shared_ptr<Service> service_;
    pid_t owner_ = 0; // process that the thread belongs to; 0: there is none
    pthread_t thread_{};
};

// Asks for the descriptor that is served under that number, and waits for the answer up to `limit`.
// Returns a descriptor of this process; or -1 and errno:
//   ECONNREFUSED      nobody serves there (any more)
//   EAGAIN            no answer: it has too much to do, or serves for other keys
//   EMFILE, ENFILE, ENOMEM, ENOBUFS   a later try may succeed
//   else              the system's refusal
int request_descriptor(std::uint32_t number, ServerKeys keys, Nanoseconds limit);

} // namespace adaptib::shm
