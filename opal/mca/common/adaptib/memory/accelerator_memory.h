// SPDX-License-Identifier: BSD-3-Clause
// AcceleratorMemory: allocations in the memory of accelerators that rails reach directly.
//
// Purpose: the data of a long message that lies on an accelerator goes between there and the
// network without a copy through host memory. A registration costs much, so that of the whole
// allocation is kept; the least recently used one goes when there are more than kMost. Allocations
// are told apart by a number of the accelerator's library, since nobody tells that memory there is
// freed: with each new allocation, those that do not exist any more are given up. Until then an
// accelerator keeps memory that was freed.
// Off until use_by() tells where data lies; off for rails that cannot do it.
// Ownership: a Use keeps its registration as long as it lives.
// Threads: one at a time (the core's lock).
// May touch: base/, fabric/, stats/, memory/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "base/data.h"
#include "fabric/rail.h"
#include "memory/accelerator_export.h"
#include "memory/registration.h"
#include "stats/counters.h"

namespace adaptib {

class AcceleratorMemory {
public:
    using Place = opal_common_adaptib_accelerator_place_t;
    using Export = bool (*)(void* base, Bytes bytes, ExportedMemory& out);

    static constexpr std::size_t kMost = 64; // allocations registered at a time

    struct Use {
        std::shared_ptr<const Registration> registration; // null: none
        std::byte* address = nullptr;                     // of the data
    };

    AcceleratorMemory(RailList rails, RailRange with, Counters& counters)
        : rails_(rails), with_(with), counters_(counters) {}

    // The functions stay; null: off.
    void use_by(const opal_common_adaptib_accelerators_t* accelerators,
                Export exports = export_accelerator_memory) {
        accelerators_ = accelerators;
        export_ = exports;
    }
    // Finds and registers the memory of data that is not contiguous in host memory. Without a
    // registration in the result, the data has to be copied.
    Use use(const Data& data);

private:
    struct Allocation {
        Place place;
        std::shared_ptr<const Registration> registration; // null: refused, and not tried again
    };

    std::shared_ptr<const Registration> registered(const Place& place);
    std::shared_ptr<const Registration> make(const Place& place);

    RailList rails_;
    RailRange with_;
    Counters& counters_;
    const opal_common_adaptib_accelerators_t* accelerators_ = nullptr;
    Export export_ = nullptr;
    std::list<Allocation> known_; // the most recently used one first
};

} // namespace adaptib
