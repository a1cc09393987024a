// SPDX-License-Identifier: BSD-3-Clause
// Windows: memory of this process that atomics of peers reach.
//
// Purpose: before this process carries out an atomic for a peer (protocol/emulated_atomics.h), it
// checks that the word lies in a window that still exists. The name in the request says which
// window, but it may be another window's (protocol/region_keys.h says why), so it only says where
// to look first. A peer that has the description of another window asks for the keys of the one
// that contains its operation's memory.
// Ownership: a window belongs to its user, who resets it before the table is destroyed.
// Threads: one at a time.
// May touch: base/, memory/registration.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "base/invariant.h"
#include "memory/registration.h"

namespace adaptib {

class WindowTable;

class OpenWindow {
public:
    OpenWindow() = default;
    ~OpenWindow() { reset(); }
    OpenWindow(const OpenWindow&) = delete;
    OpenWindow& operator=(const OpenWindow&) = delete;

    const Registration& memory() const { return memory_; }
    void reset();

private:
    friend class WindowTable;

    bool contains(std::uint64_t address, Bytes length) const {
        return is_within(address, length, base_, length_);
    }

    Registration memory_;
    std::uint32_t name_ = 0;
    std::uint64_t base_ = 0;
    Bytes length_ = 0;
    WindowTable* table_ = nullptr;
};

class WindowTable {
public:
    // Registers the memory with the rails (at least one). Errors: as Registration::make.
    Status open(OpenWindow& out, RailList rails, void* address, Bytes length,
                std::uint32_t access) {
        out.reset();
        const Status status = out.memory_.make(rails, address, length, access);
        if (!status.ok()) {
            return status;
        }
        std::uint32_t keys[kMaxRails];
        out.memory_.copy_remote_keys(keys);
        out.name_ = name_of(keys, out.memory_.key_count());
        windows_.emplace(out.name_, &out);
        out.base_ = reinterpret_cast<std::uintptr_t>(address);
        out.length_ = length;
        out.table_ = this;
        return kOk;
    }

    // The key that names a window: its last nonzero one, when it was opened. Two windows may have
    // the same name, if a device has failed.
    template <typename Keys> static std::uint32_t name_of(const Keys& keys, std::uint32_t count) {
        std::uint32_t name = 0;
        for (std::uint32_t i = 0; i < count; ++i) {
            name = keys[i] != 0 ? keys[i] : name;
        }
        return name;
    }

    // True if the window of that name, or else any other, contains the aligned word.
    bool has_word(std::uint32_t name, std::uint64_t address) const {
        if (address % sizeof(std::uint64_t) != 0) {
            return false;
        }
        const auto named = windows_.find(name);
        return (named != windows_.end() &&
                named->second->contains(address, sizeof(std::uint64_t))) ||
               find(address, sizeof(std::uint64_t)) != nullptr;
    }

    // Returns a window that contains the memory; null: there is none.
    const OpenWindow* find(std::uint64_t address, Bytes length) const {
        const auto found = std::find_if(windows_.begin(), windows_.end(), [&](const auto& each) {
            return each.second->contains(address, length);
        });
        return found == windows_.end() ? nullptr : found->second;
    }

private:
    friend class OpenWindow;

    void close(const OpenWindow& window) {
        const auto [first, last] = windows_.equal_range(window.name_);
        const auto its =
            std::find_if(first, last, [&](const auto& each) { return each.second == &window; });
        ADAPTIB_INVARIANT(its != last, "a window is listed until it is closed", window.name_);
        windows_.erase(its);
    }

    std::unordered_multimap<std::uint32_t, const OpenWindow*> windows_;
};

inline void OpenWindow::reset() {
    if (table_ != nullptr) {
        table_->close(*this);
        table_ = nullptr;
        memory_.reset();
    }
}

} // namespace adaptib
