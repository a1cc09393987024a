// SPDX-License-Identifier: BSD-3-Clause
// LentMemory: which memory of this process its user has promised to keep mapped for peers'
// transfers.
//
// Purpose: where peers can reach all of a process's memory, a registration for a transfer costs
// nothing and says nothing, so a copy into or out of such memory has to let the system check that
// it is mapped. The user of the BTL has promised that, from registration to deregistration: memory
// that is listed here is copied by the processor alone (protocol/intranode/synchronous_rma.cc).
// Ownership: the list refers to ranges that their users own.
// Threads: one at a time, under the core's lock.
// May touch: base/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/units.h"
#include "base/wire.h"

namespace adaptib {

class LentMemory {
public:
    struct Range {
        std::uintptr_t begin = 0;
        Bytes length = 0;
        std::uint32_t access = 0;
        ListLink<Range> link;
    };

    // Returns false if peers do not copy so little cooperatively.
    static bool is_worth_lending(Bytes length) { return length >= kMinCooperative; }

    // The range is listed until it is taken back.
    void lend(Range& range) { ranges_.push_back(range); }
    void take_back(Range& range) { ranges_.remove(range); }

    // The memory, if one range with these rights covers it. Null: none of the kMostLooks ranges
    // that have been lent longest does. A message's data is fetched in the order of the messages,
    // so the range is mostly the first one.
    std::byte* find(std::uint64_t address, Bytes length, std::uint32_t access) const {
        std::size_t looks = 0;
        for (const Range* range = ranges_.front(); range != nullptr && looks < kMostLooks;
             range = ranges_.next(*range), ++looks) {
            if ((range->access & access) == access &&
                is_within(address, length, range->begin, range->length)) {
                return reinterpret_cast<std::byte*>(address);
            }
        }
        return nullptr;
    }

private:
    static constexpr std::size_t kMostLooks = 64;

    IntrusiveList<Range, &Range::link> ranges_;
};

} // namespace adaptib
