// SPDX-License-Identifier: BSD-3-Clause
// Memory by the rules of C++ (explorer.h): what each thread knows, which stores a load may return,
// and accesses that nothing orders.
//
// Purpose: keeps the history of the watched memory in one execution, and tells the explorer, which
// chooses, what there is to choose from.
// Threads are numbers, 0 to kMostThreads; 0 is the execution's set-up and its end.
// Failures: a race is kept in fault() until the next execution; results are worth nothing then.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "explorer.h"
#include "machine.h"

namespace adaptib::model {

constexpr int kThreads = kMostThreads + 1;

// Times of each thread, by its number of steps.
struct Times {
    std::array<std::uint32_t, kThreads> at{};

    void join(const Times& other) {
        for (int i = 0; i < kThreads; ++i) {
            at[i] = std::max(at[i], other.at[i]);
        }
    }
    bool knows(int thread, std::uint32_t time) const { return at[thread] >= time; }
};

// Knowledge of a thread: of all that happens before (for races), and of the stores that it must not
// load anything older than (a seq_cst fence adds to these alone).
struct Knowledge {
    Times happened;
    Times coherent;

    void join(const Knowledge& other) {
        happened.join(other.happened);
        coherent.join(other.coherent);
    }
};

class Memory {
public:
    static constexpr std::size_t kBytes = 512 * 1024;

    Memory();
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    // An execution: all memory is zero and free; its threads know what thread 0 has done; thread 0
    // knows what they have done.
    void begin();
    void start_threads(int count);
    void end_threads(int count);

    // Takes zeroed memory, with a name for the steps of a failure.
    std::byte* take(const std::string& name, std::size_t bytes, std::size_t alignment);
    bool has(const void* at) const {
        const auto* place = static_cast<const std::byte*>(at);
        return place >= arena_ && place < arena_ + kBytes;
    }
    std::size_t offset_of(const void* at) const {
        return static_cast<std::size_t>(static_cast<const std::byte*>(at) - arena_);
    }
    // The newest value, whoever stored it.
    std::uint64_t newest(std::size_t offset, std::size_t size) const;
    std::string name_of(std::size_t offset) const;
    const std::string& fault() const { return fault_; } // empty: none

    // The memory is given back: a later access is a fault.
    void end(std::size_t begin, std::size_t end);
    // Accesses that are not atomic.
    void plain(int thread, std::size_t begin, std::size_t end, bool write);

    // Atomic accesses. A load returns the newest store or one of those before it.
    struct Met {
        std::uint64_t value = 0;  // of the store that was loaded, or changed
        std::uint64_t number = 0; // of that store, among all of the place
        bool is_new = false;      // the thread loads that store for the first time
        Changed changed;          // only of change()
    };
    // Returns the number of stores that the load may return. `known`: none that the thread has
    // loaded before, unless it is the newest.
    int choices(int thread, std::size_t offset, int size, int order, bool known);
    // Loads the store that is `back` before the newest. REQUIRES: choices() has been asked.
    Met load(int thread, std::size_t offset, int order, int back);
    // A load of the newest value and a store, in one.
    Met change(int thread, std::size_t offset, int size, int order, int order_if_none,
               const Change& change);
    void fence(int thread, int order);
    // The part of a seq_cst fence that membarrier(2) makes another thread do.
    void fence_total(int thread);

    // A mutex: what the thread knows goes to the next one that has it.
    Knowledge release(int thread) {
        tick(thread);
        return views_[thread].knows;
    }
    void acquire(int thread, const Knowledge& released) { views_[thread].knows.join(released); }

private:
    struct Store {
        std::uint64_t value = 0;
        int thread = 0;
        std::uint32_t time = 0;
        bool total = false; // seq_cst
        Knowledge message;  // what a load with acquire learns
        Times seen;         // when each thread first loaded it; 0: not
    };
    // Bytes that are accessed by atomic operations.
    struct Location {
        std::size_t offset = 0;
        int size = 0;
        bool plain = false;     // written otherwise since
        std::uint64_t past = 0; // stores before that
        std::vector<Store> stores;
        Times written; // otherwise, before
        Times stored, loaded;
    };
    // Accesses of one byte that are not atomic.
    struct Byte {
        std::uint32_t execution = 0;
        bool ended = false;
        int location = -1;
        int writer = 0;
        std::uint32_t written = 0;
        Times read;
    };
    struct View {
        Knowledge knows, released, acquired;
    };

    Byte& byte(std::size_t offset) {
        Byte& out = bytes_[offset];
        if (out.execution != execution_) {
            out = {};
            out.execution = execution_;
        }
        return out;
    }
    Location& location(int thread, std::size_t offset, int size);
    std::uint32_t tick(int thread) {
        Knowledge& knows = views_[thread].knows;
        return knows.coherent.at[thread] = ++knows.happened.at[thread];
    }
    void check_lives(std::size_t offset);
    void race(int thread, const char* what, std::size_t offset, int other);

    std::byte* arena_ = nullptr;
    std::size_t used_ = 0;
    std::uint32_t execution_ = 0;
    std::vector<Byte> bytes_;
    std::vector<Location> locations_;
    std::size_t locations_used_ = 0;
    std::array<View, kThreads> views_;
    Times total_;                              // what all later seq_cst fences know
    std::map<std::size_t, std::string> names_; // by offset
    std::string fault_;
};

} // namespace adaptib::model
