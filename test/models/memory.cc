// SPDX-License-Identifier: BSD-3-Clause
#include "memory.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace adaptib::model {

namespace {

bool acquires(int order) {
    return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME || order == __ATOMIC_ACQ_REL ||
           order == __ATOMIC_SEQ_CST;
}
bool releases(int order) {
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

} // namespace

Memory::Memory() {
    arena_ = static_cast<std::byte*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    bytes_.resize(kBytes);
}

Memory::~Memory() { munmap(arena_, kBytes); }

void Memory::begin() {
    ++execution_;
    std::memset(arena_, 0, used_);
    used_ = 0;
    locations_used_ = 0;
    views_ = {};
    total_ = {};
    names_.clear();
    fault_.clear();
}

void Memory::start_threads(int count) {
    for (int i = 1; i <= count; ++i) {
        views_[i].knows = views_[0].knows;
    }
}

void Memory::end_threads(int count) {
    for (int i = 1; i <= count; ++i) {
        views_[0].knows.join(views_[i].knows);
    }
}

std::byte* Memory::take(const std::string& name, std::size_t bytes, std::size_t alignment) {
    used_ = (used_ + alignment - 1) / alignment * alignment;
    std::byte* const at = arena_ + used_;
    names_[used_] = name;
    used_ += bytes;
    if (used_ > kBytes) {
        std::fprintf(stderr, "explorer: the model takes too much memory\n");
        std::abort();
    }
    return at;
}

std::uint64_t Memory::newest(std::size_t offset, std::size_t size) const {
    std::uint64_t value = 0;
    std::memcpy(&value, arena_ + offset, std::min(size, sizeof value));
    return value;
}

std::string Memory::name_of(std::size_t offset) const {
    auto at = names_.upper_bound(offset);
    if (at == names_.begin()) {
        return "?";
    }
    --at;
    return at->second + "+" + std::to_string(offset - at->first);
}

void Memory::race(int thread, const char* what, std::size_t offset, int other) {
    if (fault_.empty()) {
        fault_ = "data race: thread " + std::to_string(thread) + " " + what + " " +
                 name_of(offset) + ", which thread " + std::to_string(other) +
                 " accesses without order";
    }
}

void Memory::end(std::size_t begin, std::size_t end) {
    for (std::size_t offset = begin; offset < end; ++offset) {
        byte(offset).ended = true;
    }
}

void Memory::check_lives(std::size_t offset) {
    if (byte(offset).ended && fault_.empty()) {
        fault_ = name_of(offset) + " is used after it was freed";
    }
}

void Memory::plain(int thread, std::size_t begin, std::size_t end, bool write) {
    const std::uint32_t time = tick(thread);
    const Times& happened = views_[thread].knows.happened;
    const char* const what = write ? "writes" : "reads";
    for (std::size_t offset = begin; offset < end; ++offset) {
        check_lives(offset);
        Byte& byte = this->byte(offset);
        if (byte.written != 0 && !happened.knows(byte.writer, byte.written)) {
            race(thread, what, offset, byte.writer);
        }
        for (int i = 0; i < kThreads && write; ++i) {
            if (!happened.knows(i, byte.read.at[i])) {
                race(thread, what, offset, i);
            }
        }
        if (byte.location >= 0) {
            Location& atomic = locations_[static_cast<std::size_t>(byte.location)];
            for (int i = 0; i < kThreads; ++i) {
                if (!happened.knows(i, atomic.stored.at[i]) ||
                    (write && !happened.knows(i, atomic.loaded.at[i]))) {
                    race(thread, what, offset, i);
                }
            }
            atomic.plain = atomic.plain || write;
        }
        if (write) {
            byte.writer = thread;
            byte.written = time;
            byte.read = {};
        } else {
            byte.read.at[thread] = time;
        }
    }
}

// The history of bytes that are accessed atomically, whose last writer by other means this thread
// knows.
Memory::Location& Memory::location(int thread, std::size_t offset, int size) {
    if (byte(offset).location < 0) {
        if (locations_used_ == locations_.size()) {
            locations_.emplace_back();
        }
        Location& made = locations_[locations_used_];
        made.offset = offset;
        made.size = size;
        made.plain = true;
        made.past = 0;
        made.stores.clear();
        made.stored = made.loaded = made.written = {};
        for (int i = 0; i < size; ++i) {
            byte(offset + static_cast<std::size_t>(i)).location = static_cast<int>(locations_used_);
        }
        ++locations_used_;
    }
    Location& out = locations_[static_cast<std::size_t>(byte(offset).location)];
    if ((out.offset != offset || out.size != size) && fault_.empty()) {
        fault_ = "atomic accesses of several sizes to " + name_of(offset);
    }
    check_lives(offset);
    if (out.plain) { // the newest value is that of the memory
        out.plain = false;
        for (int i = 0; i < size; ++i) {
            const Byte& each = byte(offset + static_cast<std::size_t>(i));
            out.written.at[each.writer] = std::max(out.written.at[each.writer], each.written);
        }
        out.past += out.stores.size();
        out.stores.clear();
        out.stores.emplace_back();
        out.stores.back().value = newest(offset, static_cast<std::size_t>(size));
    }
    for (int i = 0; i < kThreads; ++i) {
        if (!views_[thread].knows.happened.knows(i, out.written.at[i])) {
            race(thread, "atomically accesses", offset, i);
        }
    }
    return out;
}

int Memory::choices(int thread, std::size_t offset, int size, int order, bool known) {
    tick(thread);
    const Location& location = this->location(thread, offset, size);
    const Times& coherent = views_[thread].knows.coherent;
    const int newest = static_cast<int>(location.stores.size()) - 1;
    // The oldest store that the thread may see.
    int oldest = newest;
    for (; oldest > 0; --oldest) {
        const Store& store = location.stores[static_cast<std::size_t>(oldest)];
        bool seen =
            coherent.knows(store.thread, store.time) || (store.total && order == __ATOMIC_SEQ_CST);
        for (int i = 0; i < kThreads && !seen; ++i) {
            seen = store.seen.at[i] != 0 && coherent.knows(i, store.seen.at[i]);
        }
        if (seen) {
            break;
        }
    }
    while (known && oldest < newest &&
           location.stores[static_cast<std::size_t>(oldest)].seen.at[thread] != 0) {
        ++oldest;
    }
    return newest - oldest + 1;
}

Memory::Met Memory::load(int thread, std::size_t offset, int order, int back) {
    View& view = views_[thread];
    const std::uint32_t time = view.knows.happened.at[thread];
    Location& location = locations_[static_cast<std::size_t>(byte(offset).location)];
    const std::size_t index = location.stores.size() - 1 - static_cast<std::size_t>(back);
    Store& store = location.stores[index];
    const bool is_new = store.seen.at[thread] == 0;
    if (is_new) {
        store.seen.at[thread] = time;
    }
    location.loaded.at[thread] = time;
    if (acquires(order)) {
        view.knows.join(store.message);
    }
    view.acquired.join(store.message);
    return {store.value, location.past + index, is_new, {}};
}

Memory::Met Memory::change(int thread, std::size_t offset, int size, int order, int order_if_none,
                           const Change& change) {
    const std::uint32_t time = tick(thread);
    Location& location = this->location(thread, offset, size);
    View& view = views_[thread];
    Store& last = location.stores.back();
    const Met out{last.value, location.past + location.stores.size(), false, change(last.value)};
    const Changed& changed = out.changed;
    if (changed.loads) {
        if (last.seen.at[thread] == 0) {
            last.seen.at[thread] = time;
        }
        location.loaded.at[thread] = time;
        if (acquires(changed.stores ? order : order_if_none)) {
            view.knows.join(last.message);
        }
        view.acquired.join(last.message);
    }
    if (!changed.stores) {
        return out;
    }
    for (int i = 0; i < size; ++i) {
        const Byte& each = byte(offset + static_cast<std::size_t>(i));
        for (int t = 0; t < kThreads; ++t) {
            if (!view.knows.happened.knows(t, each.read.at[t])) {
                race(thread, "atomically stores", offset, t);
            }
        }
    }
    Store made;
    made.value = changed.value;
    made.thread = thread;
    made.time = time;
    made.total = order == __ATOMIC_SEQ_CST;
    made.message = releases(order) ? view.knows : view.released;
    if (changed.loads) { // continues the sequence that a release began
        made.message.join(last.message);
    }
    made.seen.at[thread] = time;
    location.stored.at[thread] = time;
    location.stores.push_back(made);
    std::memcpy(arena_ + offset, &changed.value, static_cast<std::size_t>(size));
    return out;
}

void Memory::fence(int thread, int order) {
    tick(thread);
    View& view = views_[thread];
    if (acquires(order)) {
        view.knows.join(view.acquired);
    }
    if (order == __ATOMIC_SEQ_CST) {
        fence_total(thread);
    }
    if (releases(order)) {
        view.released = view.knows;
    }
}

void Memory::fence_total(int thread) {
    Times& coherent = views_[thread].knows.coherent;
    coherent.join(total_);
    total_.join(coherent);
}

} // namespace adaptib::model
