// SPDX-License-Identifier: BSD-3-Clause
// Objects that programs hold by pointers of libibverbs. Each begins with the public structure.
//
// Ownership: the program's, from its create call to its destroy call.
// Threads: under the engine's lock but where said.
// May touch: infiniband/verbs.h, topology.h.
#pragma once

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <unordered_set>
#include <utility>
#include <vector>

#include "neighbours.h"
#include "topology.h"

// Entry points of these names stand behind macros of the header.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace adaptib::hca {

// Notices for a program: a queue, and a file that is readable while it holds something.
template <typename Notice> class Notices {
public:
    Notices() : file_(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {}
    ~Notices() { close(file_); }
    Notices(const Notices&) = delete;
    Notices& operator=(const Notices&) = delete;

    int file() const { return file_; }
    void push(const Notice& notice) {
        queue_.push_back(notice);
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = write(file_, &one, sizeof one);
    }
    // Takes one off the file, without the lock. false: errno says why there is none.
    bool await() const {
        std::uint64_t value = 0;
        return read(file_, &value, sizeof value) == sizeof value;
    }
    // Takes what await() found; false: forgotten meanwhile.
    bool pop(Notice& notice) {
        if (queue_.empty()) {
            return false;
        }
        notice = queue_.front();
        queue_.pop_front();
        return true;
    }
    // There is nothing any more: what waits is dropped, poll() says POLLERR for ever, as at a pipe
    // that nobody reads, and await() fails.
    void end() {
        queue_.clear();
        ended_ = true;
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = write(file_, &one, sizeof one); // who waits
        int ends[2] = {-1, -1};
        if (pipe2(ends, O_CLOEXEC) == 0) {
            close(ends[0]);
            dup3(ends[1], file_, O_CLOEXEC);
            close(ends[1]);
        }
    }
    bool ended() const { return ended_; }

    // Removes the notices of an object that is about to go.
    template <typename Predicate> void forget(Predicate about) {
        for (auto left = std::erase_if(queue_, about); left > 0; --left) {
            await();
        }
    }

private:
    int file_;
    std::atomic<bool> ended_{false};
    std::deque<Notice> queue_;
};

struct Device {
    ibv_device device{};
    // What verbs_device of the real library has behind it; libmlx5 looks there whether a device
    // is its own.
    std::array<void*, 8> driver{};
    const DeviceDescription* description = nullptr;
    int number = 0;
};

struct Channel;

struct Context {
    verbs_context verbs{};
    Device* device = nullptr;
    Notices<ibv_async_event> events;
    bool fatal = false;
    std::uint32_t removals = 0; // of the device, when it was opened
    bool removed = false;       // it has heard so, and hears nothing more
    std::unordered_set<Channel*> channels;
};

struct ProtectionDomain {
    ibv_pd pd{};
    unsigned users = 0;
};

// A file as this process sees it; the adapter reaches its memory in this way.
class MappedFile {
public:
    MappedFile() = default;
    // Maps [offset, offset + length) for reading and writing; address() is null if that fails.
    MappedFile(int file, std::uint64_t offset, std::uint64_t length);
    MappedFile(MappedFile&& other) noexcept
        : map_(std::exchange(other.map_, nullptr)), ahead_(other.ahead_), length_(other.length_) {}
    MappedFile& operator=(MappedFile&&) = delete;
    ~MappedFile();
    std::uint8_t* address() const { return map_ == nullptr ? nullptr : map_ + ahead_; }

private:
    std::uint8_t* map_ = nullptr;
    std::uint64_t ahead_ = 0; // bytes of the map before the range
    std::uint64_t length_ = 0;
};

struct MemoryRegion {
    ibv_mr mr{};
    std::uint64_t iova = 0;
    int access = 0;
    MappedFile file{}; // of a region that was registered by a file
};

struct CompletionQueue;

struct Channel {
    ibv_comp_channel channel{};
    Notices<CompletionQueue*> events;
};

class QueuePair;

struct Completion {
    ibv_wc wc{};
    std::uint64_t nanoseconds = 0;
    // Places of a send queue that are free again when the program takes the completion.
    QueuePair* sender = nullptr;
    unsigned places = 0;
};

struct CompletionQueue {
    ibv_cq_ex ex{};
    std::deque<Completion> entries;
    std::atomic<unsigned> count{0}; // of entries, for a look without the lock
    bool armed = false;
    bool solicited_only = false;
    bool overrun = false;
    bool resized = false; // and not polled since
    unsigned users = 0;
    unsigned delivered = 0; // events that the program took, of the queue and of its completions
    unsigned async_delivered = 0;
    Completion current; // of ibv_start_poll
};

struct ReceiveWork {
    std::uint64_t id = 0;
    std::vector<ibv_sge> places;
};

struct SharedReceiveQueue {
    ibv_srq srq{};
    std::deque<ReceiveWork> work;
    unsigned max_wr = 0;
    unsigned max_sge = 0;
    unsigned limit = 0;
    unsigned users = 0;
    unsigned async_delivered = 0;
};

struct AddressHandle {
    ibv_ah ah{};
    ibv_ah_attr attributes{};
    EthernetPath ethernet;
};

inline Device* of(ibv_device* device) { return reinterpret_cast<Device*>(device); }
inline Context* of(ibv_context* context) {
    return reinterpret_cast<Context*>(reinterpret_cast<std::uint8_t*>(context) -
                                      offsetof(verbs_context, context));
}
inline ProtectionDomain* of(ibv_pd* pd) { return reinterpret_cast<ProtectionDomain*>(pd); }
inline MemoryRegion* of(ibv_mr* mr) { return reinterpret_cast<MemoryRegion*>(mr); }
inline Channel* of(ibv_comp_channel* channel) { return reinterpret_cast<Channel*>(channel); }
inline CompletionQueue* of(ibv_cq* cq) { return reinterpret_cast<CompletionQueue*>(cq); }
inline CompletionQueue* of(ibv_cq_ex* cq) { return reinterpret_cast<CompletionQueue*>(cq); }
inline SharedReceiveQueue* of(ibv_srq* srq) { return reinterpret_cast<SharedReceiveQueue*>(srq); }
inline AddressHandle* of(ibv_ah* ah) { return reinterpret_cast<AddressHandle*>(ah); }

inline ibv_cq* public_cq(CompletionQueue& cq) { return reinterpret_cast<ibv_cq*>(&cq.ex); }

} // namespace adaptib::hca
