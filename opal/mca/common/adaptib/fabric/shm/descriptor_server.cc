// SPDX-License-Identifier: BSD-3-Clause
// Both ends of passing a descriptor over a Unix socket (descriptor_server.h).
#include "fabric/shm/descriptor_server.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace adaptib::shm {

namespace {

constexpr std::uint64_t kRequestMagic = 0x7165'7220'6d68'7361u; // "ashm req"
constexpr std::uint64_t kWakeMagic = kRequestMagic + 1;
constexpr std::uint32_t kMostNames = 16;   // to try if some are taken
constexpr std::size_t kStack = 256 * kKiB; // address space; one page is used
constexpr useconds_t kPause = 10'000;      // microseconds after a socket error that may pass
constexpr char kGranted = 1;               // contents of an answer
constexpr char kWrongKey = 2;

struct Request {
    std::uint64_t magic;
    std::uint64_t key;
};

struct Name {
    sockaddr_un address{};
    socklen_t length = 0;
};

// A name that begins with a zero byte is not in a file system.
Name name_of(std::uint32_t number) {
    Name out;
    out.address.sun_family = AF_UNIX;
    const int n = std::snprintf(out.address.sun_path + 1, sizeof out.address.sun_path - 1,
                                "adaptib-%08x", number);
    out.length =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(n));
    return out;
}

const sockaddr* address_of(const Name& name) {
    return reinterpret_cast<const sockaddr*>(&name.address);
}

// A message of one piece, with room beside it for the kernel's control data.
template <std::size_t N> struct Message {
    explicit Message(void* data, std::size_t size) : piece{data, size} {
        header.msg_iov = &piece;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = sizeof control;
    }
    Message(const Message&) = delete;
    Message& operator=(const Message&) = delete;

    iovec piece;
    msghdr header{};
    alignas(cmsghdr) unsigned char control[N] = {};
};

ssize_t send_with(int socket, void* data, std::size_t size, int descriptor, int flags,
                  const Name* to) {
    Message<CMSG_SPACE(sizeof(int))> message(data, size);
    if (to != nullptr) {
        message.header.msg_name = const_cast<sockaddr*>(address_of(*to));
        message.header.msg_namelen = to->length;
    }
    cmsghdr* part = CMSG_FIRSTHDR(&message.header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
    ssize_t n = 0;
    do {
        n = sendmsg(socket, &message.header, flags | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n;
}

// Control data of a message; at most one descriptor, which becomes the caller's.
struct Beside {
    int descriptor = -1;
    pid_t sender = 0;
};

Beside beside(msghdr& header) {
    Beside out;
    for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr;
         part = CMSG_NXTHDR(&header, part)) {
        if (part->cmsg_level != SOL_SOCKET) {
            continue;
        }
        if (part->cmsg_type == SCM_RIGHTS && part->cmsg_len >= CMSG_LEN(sizeof(int))) {
            std::memcpy(&out.descriptor, CMSG_DATA(part), sizeof out.descriptor);
        } else if (part->cmsg_type == SCM_CREDENTIALS &&
                   part->cmsg_len >= CMSG_LEN(sizeof(ucred))) {
            ucred sender{};
            std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
            out.sender = sender.pid;
        }
    }
    return out;
}

int fail(int error) {
    errno = error;
    return -1;
}

// Opens the two ends over which an answer comes; the first end learns the sender's identity. False,
// and errno: refused.
bool open_pair(int (&pair)[2]) {
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return false;
    }
    const int yes = 1;
    if (setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) == 0) {
        return true;
    }
    const int error = errno;
    close(pair[0]);
    close(pair[1]);
    errno = error;
    return false;
}

// Returns 0, or the errno with which the system refuses the calls of a client, as a seccomp profile
// may. A process that cannot ask others does not offer a server, so that both ends of a pair know.
int try_asking() {
    int pair[2];
    if (!open_pair(pair)) {
        return errno;
    }
    char byte = 0;
    const int error = send_with(pair[1], &byte, 1, pair[1], MSG_DONTWAIT, nullptr) < 0 ? errno : 0;
    close(pair[0]);
    close(pair[1]);
    return error;
}

} // namespace

// -------------------------------------------------------------------------------------------------
// The server

std::unique_ptr<DescriptorServer> DescriptorServer::start(int descriptor, std::uint64_t key,
                                                          std::uint32_t first_number) {
    std::unique_ptr<DescriptorServer> server(new DescriptorServer(descriptor, key));
    int error = try_asking();
    error = error != 0 ? error : server->open_socket(first_number);
    error = error != 0 ? error : server->start_thread();
    if (error == 0) {
        return server;
    }
    server.reset();
    errno = error;
    return nullptr;
}

int DescriptorServer::open_socket(std::uint32_t first_number) {
    socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket_ < 0) {
        return errno;
    }
    for (std::uint32_t i = 0; i < kMostNames; ++i) {
        number_ = first_number + i;
        const Name name = name_of(number_);
        if (bind(socket_, address_of(name), name.length) == 0) {
            return 0;
        }
        if (errno != EADDRINUSE) {
            break;
        }
    }
    return errno;
}

int DescriptorServer::start_thread() {
    owner_ = getpid();
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    if (const int error = pthread_attr_init(&attributes); error != 0) {
        return error;
    }
    pthread_attr_setstacksize(&attributes,
                              std::max(kStack, static_cast<std::size_t>(PTHREAD_STACK_MIN)));
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread_, &attributes, &DescriptorServer::run, this);
    if (error == EINVAL) { // much thread-local memory, which lies on the stack
        error = pthread_create(&thread_, nullptr, &DescriptorServer::run, this);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    running_ = error == 0;
    return error;
}

// A forked child has the socket, too; a shutdown there would end the parent's.
DescriptorServer::~DescriptorServer() {
    if (running_ && getpid() == owner_) {
        ends_.store(true, std::memory_order_release);
        shutdown(socket_, SHUT_RDWR); // recvmsg returns
        pthread_join(thread_, nullptr);
    }
    if (socket_ >= 0) {
        close(socket_);
    }
}

void* DescriptorServer::run(void* self) {
    static_cast<DescriptorServer*>(self)->serve();
    return nullptr;
}

void DescriptorServer::serve() {
    while (!ends_.load(std::memory_order_acquire)) {
        Request request{};
        Message<CMSG_SPACE(sizeof(int))> message(&request, sizeof request);
        message.header.msg_controllen = CMSG_LEN(sizeof(int)); // no room for a second descriptor
        const ssize_t n = recvmsg(socket_, &message.header, MSG_CMSG_CLOEXEC);
        if (n < 0) {
            if (errno == EBADF || errno == ENOTSOCK) {
                return; // the program has closed a descriptor that is not its own
            }
            if (errno != EINTR) {
                usleep(kPause);
            }
            continue;
        }
        const int reply = beside(message.header).descriptor;
        const bool entitled = n == sizeof request && request.key == key_;
        if (reply >= 0) {
            answer(reply, entitled && request.magic == kRequestMagic);
            close(reply);
        } else if (entitled && request.magic == kWakeMagic) {
            wake();
        }
    }
}

void DescriptorServer::listen(std::function<void()> woken) {
    const std::lock_guard guard(mutex_);
    woken_ = std::move(woken);
}

void DescriptorServer::wake() {
    const std::lock_guard guard(mutex_);
    if (woken_) {
        woken_();
    }
}

void DescriptorServer::answer(int reply, bool entitled) const {
    char byte = entitled ? kGranted : kWrongKey;
    if (entitled) {
        static_cast<void>(send_with(reply, &byte, 1, descriptor_, MSG_DONTWAIT, nullptr));
    } else {
        static_cast<void>(send(reply, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
    }
}

// -------------------------------------------------------------------------------------------------
// The client

namespace {

// Returns 0 or an errno.
int ask(std::uint32_t number, std::uint64_t key, int reply, Nanoseconds limit) {
    const int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (from < 0) {
        return errno;
    }
    // The server's queue may be full of other requests for a moment.
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(limit).count();
    const timeval wait{static_cast<time_t>(micros / 1'000'000),
                       static_cast<suseconds_t>(std::max<std::int64_t>(micros % 1'000'000, 1))};
    setsockopt(from, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    Request request{kRequestMagic, key};
    const Name name = name_of(number);
    const int error = send_with(from, &request, sizeof request, reply, 0, &name) < 0 ? errno : 0;
    close(from);
    return error;
}

int take_answer(int from, std::uint32_t pid, Nanoseconds limit) {
    pollfd wait{from, POLLIN, 0};
    const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
    if (poll(&wait, 1, static_cast<int>(millis) + 1) <= 0) {
        return fail(EAGAIN);
    }
    char byte = 0;
    Message<CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))> message(&byte, 1);
    const ssize_t n = recvmsg(from, &message.header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0) {
        return -1;
    }
    if (n == 0) { // request dropped: the server ends, or has no descriptor left
        return fail(EAGAIN);
    }
    const Beside came = beside(message.header);
    if (static_cast<std::uint32_t>(came.sender) != pid) {
        if (came.descriptor >= 0) {
            close(came.descriptor);
        }
        return fail(ECONNREFUSED);
    }
    if (byte == kWrongKey) {
        return fail(EKEYREJECTED);
    }
    // The kernel omits a descriptor if this process has no room for it.
    return came.descriptor >= 0 ? came.descriptor : fail(EMFILE);
}

} // namespace

void wake_server(std::uint32_t number, std::uint64_t key) {
    const int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (from >= 0) {
        const Request request{kWakeMagic, key};
        const Name name = name_of(number);
        static_cast<void>(sendto(from, &request, sizeof request, MSG_DONTWAIT | MSG_NOSIGNAL,
                                 address_of(name), name.length));
        close(from);
    }
}

int request_descriptor(std::uint32_t number, std::uint32_t pid, std::uint64_t key,
                       Nanoseconds limit) {
    int pair[2];
    if (!open_pair(pair)) {
        return -1;
    }
    int error = ask(number, key, pair[1], limit);
    close(pair[1]);
    const int found = error != 0 ? fail(error) : take_answer(pair[0], pid, limit);
    error = errno;
    close(pair[0]);
    errno = error;
    return found;
}

} // namespace adaptib::shm
