// SPDX-License-Identifier: BSD-3-Clause
// Mapping of the shared state, and inboxes.
#include "shared.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <system_error>

namespace adaptib::hca {
namespace {

constexpr std::uint32_t kMagic = 0x41484306;

[[noreturn]] void fail(const std::string& what) {
    throw std::system_error(errno, std::generic_category(), what);
}

void init_lock(pthread_mutex_t& mutex) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

// Waits at most 0.2 s: a stopped process may hold the lock.
bool lock(pthread_mutex_t& mutex) {
    int result = pthread_mutex_trylock(&mutex);
    if (result == EBUSY) {
        timespec until{};
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 200000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        result = pthread_mutex_timedlock(&mutex, &until);
    }
    if (result == EOWNERDEAD) {
        pthread_mutex_consistent(&mutex);
        result = 0;
    }
    return result == 0;
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* limit) {
    return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, limit,
                   nullptr, 0);
}

bool alive(std::int32_t pid) { return pid != 0 && (kill(pid, 0) == 0 || errno == EPERM); }

} // namespace

Shared::Shared(const std::string& path) {
    file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file_ < 0 || flock(file_, LOCK_EX) != 0) {
        fail(path);
    }
    struct stat status {};
    if (fstat(file_, &status) != 0 ||
        (status.st_size == 0 && ftruncate(file_, sizeof(SharedState)) != 0)) {
        fail(path);
    }
    void* const mapped =
        mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (mapped == MAP_FAILED) {
        fail(path);
    }
    state_ = static_cast<SharedState*>(mapped);
    if (state_->magic != kMagic) {
        for (Inbox& inbox : state_->inboxes) {
            init_lock(inbox.senders);
        }
        state_->magic = kMagic;
    }
    flock(file_, LOCK_UN);
}

unsigned Shared::join(unsigned host) {
    unsigned found = 0;
    flock(file_, LOCK_EX);
    for (unsigned process = 1; process < kProcesses && found == 0; ++process) {
        if (!alive(inbox(process).pid.load())) {
            found = process;
        }
    }
    if (found != 0) {
        Inbox& mine = inbox(found);
        if (lock(mine.senders)) {
            mine.host = host;
            mine.head.store(mine.tail.load());
            mine.sleeping = 0;
            for (ObjectCounts& device : mine.objects) {
                for (auto& count : device) {
                    count = 0;
                }
            }
            mine.pid = getpid();
            pthread_mutex_unlock(&mine.senders);
        } else {
            found = 0;
        }
    }
    flock(file_, LOCK_UN);
    return found;
}

void Shared::leave(unsigned process) { inbox(process).pid = 0; }

std::uint64_t Shared::all_objects(unsigned device, Object kind) {
    std::uint64_t sum = 0;
    for (unsigned process = 1; process < kProcesses; ++process) {
        const std::uint32_t count = objects(process, device, kind).load();
        sum += count != 0 && alive(inbox(process).pid.load()) ? count : 0;
    }
    return sum;
}

bool Shared::send(unsigned process, const PacketHeader& header, const std::uint8_t* payload) {
    Inbox& target = inbox(process);
    if (target.tail.load() - target.head.load() >= kInboxSlots || !lock(target.senders)) {
        return false;
    }
    const std::uint32_t tail = target.tail.load(std::memory_order_relaxed);
    const bool room = tail - target.head.load() < kInboxSlots;
    if (room) {
        Slot& slot = target.slots[tail % kInboxSlots];
        slot.header = header;
        std::memcpy(slot.payload.data(), payload, header.payload);
        target.tail.store(tail + 1);
    }
    pthread_mutex_unlock(&target.senders);
    if (room && target.sleeping.load() != 0) {
        ring(process);
    }
    return room;
}

const Slot* Shared::front(unsigned process) const {
    Inbox& mine = inbox(process);
    const std::uint32_t head = mine.head.load(std::memory_order_relaxed);
    return head == mine.tail.load() ? nullptr : &mine.slots[head % kInboxSlots];
}

void Shared::pop(unsigned process) { inbox(process).head.fetch_add(1); }

void Shared::wait(unsigned process, std::int64_t nanoseconds) {
    Inbox& mine = inbox(process);
    const std::uint32_t bell = mine.doorbell.load();
    mine.sleeping = 1;
    if (front(process) == nullptr) {
        const timespec limit{nanoseconds / 1000000000, nanoseconds % 1000000000};
        futex(mine.doorbell, FUTEX_WAIT, bell, &limit);
    }
    mine.sleeping = 0;
}

void Shared::ring(unsigned process) {
    inbox(process).doorbell.fetch_add(1);
    futex(inbox(process).doorbell, FUTEX_WAKE, 1, nullptr);
}

std::uint16_t Shared::lid(const PortDescription& port) const {
    const std::uint16_t changed = state_->ports[port.number].lid.load();
    return changed == 0 ? port.lid : changed;
}

void Shared::raise(unsigned port, std::uint32_t type) {
    flock(file_, LOCK_EX);
    const std::uint32_t number = state_->events_written.load();
    FabricEvent& event = state_->events[number % kEvents];
    event.port = port;
    event.type = type;
    state_->events_written = number + 1;
    flock(file_, LOCK_UN);
    for (unsigned process = 1; process < kProcesses; ++process) {
        if (inbox(process).pid.load() != 0) {
            ring(process);
        }
    }
}

std::string shared_path(const std::string& topology_path) {
    if (const char* const given = std::getenv("ADAPTIB_HCA_FABRIC"); given != nullptr) {
        return given;
    }
    struct stat status {};
    if (stat(topology_path.c_str(), &status) != 0) {
        fail(topology_path);
    }
    return "/dev/shm/adaptib-hca-" + std::to_string(getuid()) + "-" +
           std::to_string(status.st_dev) + "-" + std::to_string(status.st_ino);
}

} // namespace adaptib::hca
