// SPDX-License-Identifier: BSD-3-Clause
// IdTable: ids for objects that a peer refers to.
//
// Purpose: a request or transfer that a peer answers gets a 64-bit id: slot and generation. A
// stale, duplicated or forged id finds nothing, so no packet can reach an object that is gone.
// Cost: O(1); grows by doubling, never shrinks. Ownership: the caller's; the table holds pointers.
// Threads: one at a time.
// May touch: nothing.
#pragma once

#include <cstdint>
#include <vector>

namespace adaptib {

template <typename T> class IdTable {
public:
    // Returns an id for `object`, valid until remove() and never zero.
    std::uint64_t add(T* object) {
        if (free_ == kNone) {
            slots_.push_back(Slot{});
            free_ = static_cast<std::uint32_t>(slots_.size() - 1);
        }
        const std::uint32_t index = free_;
        Slot& slot = slots_[index];
        free_ = slot.next_free;
        slot.object = object;
        ++used_;
        return id_of(index);
    }

    // Null if the id is not in use, or not any more.
    T* find(std::uint64_t id) const {
        const auto index = static_cast<std::uint32_t>(id);
        if (index >= slots_.size() ||
            slots_[index].generation != static_cast<std::uint32_t>(id >> 32)) {
            return nullptr;
        }
        return slots_[index].object;
    }

    void remove(std::uint64_t id) {
        if (find(id) == nullptr) {
            return;
        }
        const auto index = static_cast<std::uint32_t>(id);
        Slot& slot = slots_[index];
        slot.object = nullptr;
        ++slot.generation;
        if (slot.generation == 0) {
            slot.generation = 1;
        }
        slot.next_free = free_;
        free_ = index;
        --used_;
    }

    // Removes the objects for which is(object) is true.
    template <typename F> void remove_if(F&& is) {
        for (std::uint32_t i = 0; i < slots_.size() && used_ > 0; ++i) {
            if (slots_[i].object != nullptr && is(slots_[i].object)) {
                remove(id_of(i));
            }
        }
    }

    std::size_t size() const { return used_; }

    template <typename F> void for_each(F&& f) const {
        for (const Slot& slot : slots_) {
            if (slot.object != nullptr) {
                f(slot.object);
            }
        }
    }

private:
    static constexpr std::uint32_t kNone = UINT32_MAX;

    struct Slot {
        T* object = nullptr;
        std::uint32_t generation = 1;
        std::uint32_t next_free = kNone;
    };

    std::uint64_t id_of(std::uint32_t index) const {
        return (static_cast<std::uint64_t>(slots_[index].generation) << 32) | index;
    }

    std::vector<Slot> slots_;
    std::uint32_t free_ = kNone;
    std::size_t used_ = 0;
};

} // namespace adaptib
