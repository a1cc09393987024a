// SPDX-License-Identifier: BSD-3-Clause
// Both ends of passing a descriptor over a Unix socket (descriptor_server.h).
#include "fabric/shm/descriptor_server.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/invariant.h"

namespace adaptib::shm {

namespace {

constexpr std::uint64_t kRequestMagic = 0x7165'7220'6d68'7361u; // "ashm req"
constexpr std::uint64_t kAnswerMagic = kRequestMagic + 2;
constexpr std::uint32_t kMostNames = 16;     // to try if some are taken
constexpr std::size_t kStack = 256 * kKiB;   // address space; one page is used
constexpr useconds_t kPause = 10'000;        // microseconds after a socket error that may pass
constexpr std::chrono::seconds kEndLimit{1}; // for which the thread's end is waited

struct Packet {
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
    ADAPTIB_INVARIANT(n > 0 && static_cast<std::size_t>(n) < sizeof out.address.sun_path - 1,
                      "a socket has room for its name", n);
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

// Receives a packet, and at most one descriptor beside it, which becomes the caller's; -1: none.
ssize_t receive_with(int socket, Packet& packet, int& descriptor, int flags) {
    Message<CMSG_SPACE(sizeof(int))> message(&packet, sizeof packet);
    message.header.msg_controllen = CMSG_LEN(sizeof(int)); // no room for a second descriptor
    const ssize_t n = recvmsg(socket, &message.header, flags | MSG_CMSG_CLOEXEC);
    descriptor = -1;
    const cmsghdr* const part = n > 0 ? CMSG_FIRSTHDR(&message.header) : nullptr;
    if (part != nullptr && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS &&
        part->cmsg_len >= CMSG_LEN(sizeof(int))) {
        std::memcpy(&descriptor, CMSG_DATA(part), sizeof descriptor);
    }
    return n;
}

int fail(int error) {
    errno = error;
    return -1;
}

// Makes the socket refuse all but packets with the key. The kernel looks at what comes while its
// sender sends, before it takes room in the queue, and drops it with its descriptors: what that
// costs, the sender pays. Each guess takes the same time, however much of it is right. Returns 0 or
// an errno.
int refuse_strangers(int socket, std::uint64_t key) {
    std::uint32_t half[2]; // a filter loads 32 bits, in network order
    std::memcpy(half, &key, sizeof half);
    constexpr std::uint32_t kAt = offsetof(Packet, key);
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, sizeof(Packet), 0, 8),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kAt),
        BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, ntohl(half[0])),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kAt + sizeof half[0]),
        BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, ntohl(half[1])),
        BPF_STMT(BPF_ALU | BPF_OR | BPF_X, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, sizeof(Packet)),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    const sock_fprog program{sizeof filter / sizeof filter[0], filter};
    return setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0 ? 0
                                                                                           : errno;
}

// Opens the two ends over which an answer comes, with the key, to the first. False, and errno:
// refused.
bool open_pair(int (&pair)[2], std::uint64_t key) {
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return false;
    }
    const int error = refuse_strangers(pair[0], key);
    if (error == 0) {
        return true;
    }
    close(pair[0]);
    close(pair[1]);
    errno = error;
    return false;
}

// Returns 0, or the errno with which the system refuses the calls of a client, as a seccomp profile
// may. A process that cannot ask others does not offer a server, so that both ends of a pair know.
int try_asking() {
    int pair[2];
    if (!open_pair(pair, 0)) {
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

// The thread's state. The thread and the DescriptorServer own it together, since the thread may
// outlast the DescriptorServer.
struct DescriptorServer::Service {
    Service(int served, std::uint64_t key) : descriptor(served), answer_key(key) {}
    ~Service() { close_socket(); }
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    int open_socket(std::uint64_t key, std::uint32_t first_number);
    void close_socket();
    void serve();
    bool take_request();
    bool handle(std::uint64_t magic, int reply);

    const int descriptor;
    const std::uint64_t answer_key;
    int socket = -1;
    std::uint32_t number = 0;

    std::mutex mutex; // of the rest, and held while the thread answers
    std::condition_variable changed;
    bool ends = false;  // the thread shall end
    bool ended = false; // it has closed the socket
};

std::unique_ptr<DescriptorServer> DescriptorServer::start(int descriptor, ServerKeys keys,
                                                          std::uint32_t first_number) {
    ADAPTIB_INVARIANT(descriptor >= 0, "a server has a descriptor to serve", descriptor);
    std::unique_ptr<DescriptorServer> server(new DescriptorServer);
    server->service_ = std::make_shared<Service>(descriptor, keys.answer);
    int error = try_asking();
    error = error != 0 ? error : server->service_->open_socket(keys.request, first_number);
    error = error != 0 ? error : server->start_thread();
    if (error == 0) {
        return server;
    }
    server.reset();
    errno = error;
    return nullptr;
}

std::uint32_t DescriptorServer::number() const { return service_->number; }

int DescriptorServer::Service::open_socket(std::uint64_t key, std::uint32_t first_number) {
    ADAPTIB_INVARIANT(socket < 0, "a server has one socket", socket);
    socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket < 0) {
        return errno;
    }
    if (const int error = refuse_strangers(socket, key); error != 0) { // before it has a name
        return error;
    }
    for (std::uint32_t i = 0; i < kMostNames; ++i) {
        number = first_number + i;
        const Name name = name_of(number);
        if (bind(socket, address_of(name), name.length) == 0) {
            return 0;
        }
        if (errno != EADDRINUSE) {
            break;
        }
    }
    return errno;
}

void DescriptorServer::Service::close_socket() {
    if (socket >= 0) {
        close(std::exchange(socket, -1));
    }
}

int DescriptorServer::start_thread() {
    ADAPTIB_INVARIANT(owner_ == 0, "a server has one thread", owner_);
    auto its = std::make_unique<std::shared_ptr<Service>>(service_);
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
    int error = pthread_create(&thread_, &attributes, &DescriptorServer::run, its.get());
    if (error == EINVAL) { // much thread-local memory, which lies on the stack
        error = pthread_create(&thread_, nullptr, &DescriptorServer::run, its.get());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    if (error == 0) {
        static_cast<void>(its.release()); // the thread's
        owner_ = getpid();
    }
    return error;
}

// A forked child has the socket, too; a shutdown there would end the parent's. The mutex may be
// held by a thread that the child lacks.
DescriptorServer::~DescriptorServer() {
    if (owner_ == 0) {
        return;
    }
    if (getpid() != owner_) {
        service_->close_socket();
        return;
    }
    std::unique_lock lock(service_->mutex);
    service_->ends = true;
    if (service_->socket >= 0) {
        shutdown(service_->socket, SHUT_RDWR); // recvmsg returns
    }
    const bool ended =
        service_->changed.wait_for(lock, kEndLimit, [this] { return service_->ended; });
    lock.unlock();
    if (ended) {
        pthread_join(thread_, nullptr);
    } else {
        pthread_detach(thread_);
    }
}

void* DescriptorServer::run(void* of) {
    const std::unique_ptr<std::shared_ptr<Service>> its(static_cast<std::shared_ptr<Service>*>(of));
    (*its)->serve();
    return nullptr;
}

// The thread closes the socket, which may take as long as closing a descriptor in its queue.
void DescriptorServer::Service::serve() {
    while (take_request()) {
    }
    std::unique_lock lock(mutex);
    const int taken = std::exchange(socket, -1); // nobody shuts its number down from now on
    lock.unlock();
    if (taken >= 0) {
        close(taken);
    }
    lock.lock();
    ADAPTIB_INVARIANT(!ended && socket < 0, "the thread ends once, without its socket", ended,
                      socket);
    ended = true;
    changed.notify_one();
}

// Returns false if the thread ends.
bool DescriptorServer::Service::take_request() {
    Packet request{};
    int reply = -1;
    const ssize_t n = receive_with(socket, request, reply, 0);
    if (n < 0) {
        if (errno == EBADF || errno == ENOTSOCK) {
            const std::lock_guard guard(mutex);
            socket = -1; // the program has closed a descriptor that is not its own
            return false;
        }
        if (errno != EINTR) {
            usleep(kPause);
        }
        return true;
    }
    if (n == 0) { // shut down
        return false;
    }
    const bool goes_on = handle(request.magic, reply);
    if (reply >= 0) {
        close(reply); // sleeps if a process of the job has sent such a descriptor
    }
    return goes_on;
}

// Returns false if the thread shall end: then `descriptor` may be another file's already.
bool DescriptorServer::Service::handle(std::uint64_t magic, int reply) {
    const std::lock_guard guard(mutex);
    if (ends) {
        return false;
    }
    if (magic == kRequestMagic && reply >= 0) {
        Packet answer{kAnswerMagic, answer_key};
        static_cast<void>(
            send_with(reply, &answer, sizeof answer, descriptor, MSG_DONTWAIT, nullptr));
    }
    return true;
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
    Packet request{kRequestMagic, key};
    const Name name = name_of(number);
    const int error = send_with(from, &request, sizeof request, reply, 0, &name) < 0 ? errno : 0;
    close(from);
    return error == EPIPE ? ECONNREFUSED : error; // EPIPE: the server ends
}

int take_answer(int from, Nanoseconds limit) {
    pollfd wait{from, POLLIN, 0};
    const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
    if (poll(&wait, 1, static_cast<int>(millis) + 1) <= 0) {
        return fail(EAGAIN);
    }
    Packet answer{};
    int descriptor = -1;
    const ssize_t n = receive_with(from, answer, descriptor, MSG_DONTWAIT);
    if (n < 0) {
        return -1;
    }
    if (n == 0) { // request dropped: not the key, or the server ends or has no descriptor left
        return fail(EAGAIN);
    }
    // The kernel omits a descriptor if this process has no room for it.
    return descriptor >= 0 ? descriptor : fail(EMFILE);
}

} // namespace

int request_descriptor(std::uint32_t number, ServerKeys keys, Nanoseconds limit) {
    int pair[2];
    if (!open_pair(pair, keys.answer)) {
        return -1;
    }
    int error = ask(number, keys.request, pair[1], limit);
    close(pair[1]);
    const int found = error != 0 ? fail(error) : take_answer(pair[0], limit);
    error = errno;
    close(pair[0]);
    errno = error;
    return found;
}

} // namespace adaptib::shm
