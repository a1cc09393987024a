// SPDX-License-Identifier: BSD-3-Clause
// UserData: the data that the user of the C interface attaches to other processes.
//
// Purpose: a process with several endpoints knows another one as several peers, some of which only
// that process has contacted. The data belongs to the process, so that each of these peers has it.
// A peer keeps a copy (PeerContact::user_data), which is replaced along with the original: a peer
// copies while its endpoint's lock is held, and exchange() comes before the copies are replaced
// under the same locks.
//
// Ownership: the data is the user's. Threads: any.
// May touch: the standard library.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace adaptib {

class UserData {
public:
    // Attaches data to the process of that name; null: none. Returns the data from before.
    void* exchange(std::uint64_t process, void* what) {
        const std::lock_guard guard(mutex_);
        if (what != nullptr) {
            return std::exchange(data_[process], what);
        }
        const auto removed = data_.extract(process);
        return removed.empty() ? nullptr : removed.mapped();
    }
    void* of(std::uint64_t process) const {
        const std::lock_guard guard(mutex_);
        const auto found = data_.find(process);
        return found == data_.end() ? nullptr : found->second;
    }

private:
    mutable std::mutex mutex_;
    std::map<std::uint64_t, void*> data_; // none is null
};

} // namespace adaptib
