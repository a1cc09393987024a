// SPDX-License-Identifier: BSD-3-Clause
// Model of the descriptor server (fabric/shm/descriptor_server.h): its thread, the thread that ends
// it, and a client, over files and sockets of the model.
//
// Invariants:
//   * the destructor returns, whatever the thread does, and so does each call of a client;
//   * a number is not used after it was closed, and all files are closed once (a number is given
//     once, so that each use shows; in a program it may be another file's by then);
//   * a client gets the descriptor with the key, unless its call meets the end of the server.
#include "fabric/shm/descriptor_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "model.h"
#include "stand_in/heap.h"
#include "stand_in/system.h"
#include "stand_in/threads.h"

namespace adaptib::model {
namespace {

using namespace adaptib::shm;

constexpr ServerKeys kKeys{0x1111'2222'3333'4444, 0x5555'6666'7777'8888};

// -------------------------------------------------------------------------------------------------
// The system. A call is a step of a file, and one of the socket behind it.

constexpr std::size_t kFiles = 16; // of each thread
constexpr std::size_t kSockets = 8;

// In the word of a socket:
constexpr std::uint64_t kShut = 1;         // shut down
constexpr std::uint64_t kDead = 2;         // closed
constexpr std::uint64_t kAnswerer = 0x100; // counts files whose owners may still answer
constexpr std::uint64_t kAnswerers = 0xf00;
constexpr unsigned kFirst = 16;  // bit of the number of the first packet in its queue; 0: none
constexpr unsigned kSecond = 20; // and of the next one
constexpr std::uint64_t kNumber = 0xf;

struct System {
    std::array<std::atomic<std::uint64_t>, kFiles*(kMostThreads + 1)> closed; // by file
    std::array<std::atomic<std::uint64_t>, kSockets> sockets;
    std::atomic<std::uint64_t> slow_ends; // from now on nothing takes long
    std::atomic<std::uint64_t> exits;     // the process
};

// Behind a number: a socket, or the file that is served (socket 0).
struct File {
    std::size_t socket = 0;
    bool answers = false; // the end of a pair over which an answer is sent
    bool slow = false;    // takes long to close
};

struct Packet {
    std::array<std::uint64_t, 2> data{}; // magic, key
    std::size_t size = 0;
    bool passes = false; // a file
    File file;
};

// What an execution has made so far; nothing here changes once its number is known to others.
struct Made {
    std::array<File, kFiles*(kMostThreads + 1)> files{};
    std::array<int, kMostThreads + 1> of_thread{};
    std::size_t sockets = 1;
    std::array<Packet, kNumber + 1> packets{};
    std::uint64_t packet = 0;
    int server = -1;      // its socket's number
    bool robbed = false;  // the program closes it
    bool noticed = false; // and the server's thread has been told so
    bool slow = false;    // descriptors that the server gets take long to close
};

System* g_system = nullptr;
Made g_made;

std::uint64_t look(const std::atomic<std::uint64_t>& word) {
    return word.load(std::memory_order_acquire);
}

File& file_of(int number) { return g_made.files[static_cast<std::size_t>(number)]; }
std::atomic<std::uint64_t>& closed(int number) {
    return g_system->closed[static_cast<std::size_t>(number)];
}
std::atomic<std::uint64_t>& socket_of(const File& file) { return g_system->sockets[file.socket]; }

int open_file(const File& file) {
    const auto thread = static_cast<std::size_t>(machine_thread());
    const int number = static_cast<int>(thread * kFiles) + g_made.of_thread[thread]++;
    check(g_made.of_thread[thread] <= static_cast<int>(kFiles), "the model has too few files");
    file_of(number) = file;
    return number;
}

std::size_t open_socket() {
    check(g_made.sockets < kSockets, "the model has too few sockets");
    return g_made.sockets++;
}

// False, and errno, if the number was closed.
bool use(int number) {
    if (number >= 0 && look(closed(number)) == 0) {
        return true;
    }
    check(g_made.robbed && number == g_made.server, "a descriptor is used after it was closed");
    errno = EBADF;
    return false;
}

// The file is gone: nobody answers over it any more.
void drop(const File& file) {
    if (file.answers) {
        step(socket_of(file), [](std::uint64_t word) { return word - kAnswerer; });
    }
}

void drop_packet(std::uint64_t number) {
    if (g_made.packets[number].passes) {
        drop(g_made.packets[number].file);
    }
}

// Returns 0 or an errno; EAGAIN: there is no room.
int send(std::atomic<std::uint64_t>& to, Packet packet) {
    const std::uint64_t number = ++g_made.packet;
    check(number <= kNumber, "the model has too few packets");
    g_made.packets[number] = packet;
    if (packet.passes && packet.file.answers) {
        step(socket_of(packet.file), [](std::uint64_t word) { return word + kAnswerer; });
    }
    int error = 0;
    step(to, [&](std::uint64_t word) {
        const bool full = (word >> kSecond & kNumber) != 0;
        error = (word & kDead) != 0   ? ECONNREFUSED
                : (word & kShut) != 0 ? EPIPE
                : full                ? EAGAIN
                                      : 0;
        const bool first = (word >> kFirst & kNumber) == 0;
        return error != 0 ? word : word | number << (first ? kFirst : kSecond);
    });
    if (error != 0) {
        drop_packet(number);
    }
    return error;
}

// Takes the first packet; 0: there is none. `word`: what the socket was.
std::uint64_t take(std::atomic<std::uint64_t>& from, std::uint64_t& word) {
    word = step(from, [](std::uint64_t now) {
        const std::uint64_t second = now >> kSecond & kNumber;
        return (now & ~(kNumber << kFirst | kNumber << kSecond)) | second << kFirst;
    });
    return word >> kFirst & kNumber;
}

int refuse(int error) {
    errno = error;
    return -1;
}

} // namespace

extern "C" {

int socket(int, int, int) noexcept { return open_file({open_socket()}); }

int socketpair(int, int, int, int* out) noexcept {
    const std::size_t made = open_socket();
    out[0] = open_file({made});
    out[1] = open_file({made, true, false});
    step(g_system->sockets[made], [](std::uint64_t) { return kAnswerer; });
    return 0;
}

int setsockopt(int number, int, int, const void*, socklen_t) noexcept {
    return use(number) ? 0 : -1;
}

int bind(int number, const sockaddr*, socklen_t) noexcept {
    g_made.server = number;
    return 0;
}

int shutdown(int number, int) noexcept {
    if (!use(number)) {
        return -1;
    }
    step(socket_of(file_of(number)), [](std::uint64_t word) { return word | kShut; });
    return 0;
}

int close(int number) {
    const File& file = file_of(number);
    if (file.slow) {
        wait_until([] { return look(g_system->slow_ends) != 0; });
    }
    const auto close_it = [](std::uint64_t) { return std::uint64_t{1}; };
    if (step(closed(number), close_it) != 0) {
        check(g_made.robbed && number == g_made.server && !g_made.noticed,
              "a descriptor is closed twice");
        return refuse(EBADF);
    }
    drop(file);
    if (number == g_made.server && !g_made.robbed) { // as long as a call uses it, it is not gone
        const std::uint64_t left = step(socket_of(file), [](std::uint64_t) { return kDead; });
        drop_packet(left >> kFirst & kNumber);
        drop_packet(left >> kSecond & kNumber);
    }
    return 0;
}

ssize_t sendmsg(int number, const msghdr* message, int) {
    Packet packet;
    packet.size = message->msg_iov->iov_len;
    std::memcpy(packet.data.data(), message->msg_iov->iov_base, packet.size);
    const cmsghdr* const part = CMSG_FIRSTHDR(message);
    int passed = -1;
    std::memcpy(&passed, CMSG_DATA(part), sizeof passed);
    if (!use(number) || !use(passed)) {
        return -1;
    }
    packet.passes = true;
    packet.file = file_of(passed);
    // A reply is one packet.
    const bool named = message->msg_name != nullptr;
    const int error = send(socket_of(file_of(named ? g_made.server : number)), packet);
    return error != 0 ? refuse(error) : static_cast<ssize_t>(packet.size);
}

ssize_t sendto(int number, const void* data, std::size_t size, int, const sockaddr*, socklen_t) {
    Packet packet;
    packet.size = size;
    std::memcpy(packet.data.data(), data, size);
    const int error = use(number) ? send(socket_of(file_of(g_made.server)), packet) : errno;
    return error != 0 ? refuse(error) : static_cast<ssize_t>(size);
}

ssize_t recvmsg(int number, msghdr* message, int flags) {
    if (!use(number)) {
        g_made.noticed = true;
        return -1;
    }
    std::atomic<std::uint64_t>& from = socket_of(file_of(number));
    std::uint64_t word = 0;
    std::uint64_t taken = 0;
    bool exits = false;
    wait_until([&] {
        taken = take(from, word);
        const bool ready = taken != 0 || (word & kShut) != 0 || (flags & MSG_DONTWAIT) != 0;
        exits = !ready && look(g_system->exits) != 0;
        return ready || exits;
    });
    message->msg_controllen = 0;
    if (taken == 0) {
        return exits ? refuse(EINTR) : 0;
    }
    const Packet& packet = g_made.packets[taken];
    std::memcpy(message->msg_iov->iov_base, packet.data.data(), packet.size);
    if (packet.passes) {
        const int passed = open_file(packet.file);
        file_of(passed).slow = g_made.slow && number == g_made.server;
        message->msg_controllen = CMSG_SPACE(sizeof passed);
        cmsghdr* const part = CMSG_FIRSTHDR(message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(sizeof passed);
        std::memcpy(CMSG_DATA(part), &passed, sizeof passed);
    }
    return static_cast<ssize_t>(packet.size);
}

// Of a pair's end: until there is an answer, or nobody is left who could send one.
int poll(pollfd* watched, nfds_t, int) {
    wait_until([&] {
        const std::uint64_t word = look(socket_of(file_of(watched->fd)));
        return (word >> kFirst & kNumber) != 0 || (word & kAnswerers) == 0;
    });
    return 1;
}
}

// -------------------------------------------------------------------------------------------------

namespace {

struct Program {
    explicit Program(Execution& execution)
        : ends(execution.make<std::atomic<std::uint64_t>>("end of the server")) {
        begin_threads(execution);
        g_made = {};
        g_system = &execution.make<System>("system");
        const WatchedHeap heap(execution);
        served = open_file({});
        server = DescriptorServer::start(served, kKeys, 0);
        check(server != nullptr, "there is no server");
    }
    // The owner's last steps: what it served may be another file soon.
    void end() {
        ends.store(1, std::memory_order_relaxed);
        server.reset();
        close(served);
        g_system->slow_ends.store(1, std::memory_order_release);
        g_system->exits.store(1, std::memory_order_release);
    }
    void ask() {
        const int found = request_descriptor(0, kKeys, Nanoseconds{1});
        if (found < 0) {
            check(ends.load(std::memory_order_relaxed) != 0, "a request is lost");
            return;
        }
        check(file_of(found).socket == 0, "the client gets another file");
        close(found);
    }

    int served = -1;
    std::unique_ptr<DescriptorServer> server;
    std::atomic<std::uint64_t>& ends;
};

Program& make(Execution& execution) {
    auto* const made = new Program(execution);
    execution.after([] {
        for (std::size_t thread = 0; thread < g_made.of_thread.size(); ++thread) {
            for (int i = 0; i < g_made.of_thread[thread]; ++i) {
                check(look(closed(static_cast<int>(thread * kFiles) + i)) == 1,
                      "a descriptor is not closed");
            }
        }
    });
    return *made;
}

// The server ends while a client asks.
void asked(Execution& execution) {
    Program& program = make(execution);
    execution.thread([&program] { program.end(); });
    execution.thread([&program] { program.ask(); });
}

// The client has sent a descriptor that takes long to close: longer than the owner waits.
void slow(Execution& execution) {
    Program& program = make(execution);
    g_made.slow = true;
    execution.thread([&program] { program.end(); });
    execution.thread([&program] { program.ask(); });
}

// The program closes the server's descriptor, which is not its own. Until a call on it fails, the
// server cannot know.
void robbed(Execution& execution) {
    Program& program = make(execution);
    g_made.robbed = true;
    execution.thread([&program] {
        close(g_made.server);
        program.end();
    });
    execution.thread([] { // a request without a descriptor, to which there is no answer
        const int from = socket(AF_UNIX, SOCK_DGRAM, 0);
        const std::array<std::uint64_t, 2> request{0, kKeys.request};
        static_cast<void>(sendto(from, request.data(), sizeof request, 0, nullptr, 0));
        close(from);
    });
}

} // namespace

const std::vector<Model>& models() {
    static const std::vector<Model> all = {
        {"slow", {.preemptions = 2}, slow}, {"robbed", {}, robbed}, {"asked", {}, asked}};
    return all;
}

} // namespace adaptib::model
