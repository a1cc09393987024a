// SPDX-License-Identifier: BSD-3-Clause
// SourceMap: counting and text (select/source_map.h).
#include "select/source_map.h"

#include "base/invariant.h"
#include "base/process_name.h"

namespace adaptib {

void SourceMap::look(Nanoseconds now) {
    const auto unit_of = [&](Nanoseconds time) {
        const Nanoseconds before = time - start_ - Nanoseconds{1};
        return before.count() < 0 ? 0 : static_cast<std::uint64_t>(before / unit_);
    };
    ADAPTIB_INVARIANT(unit_of(now) >= now_, "units follow each other", now_, now);
    while (unit_of(now) >= kUnitsMost) {
        unit_ *= 2;
        decltype(counts_) coarser;
        for (const auto& [key, messages] : counts_) {
            coarser[{key.first / 2, key.second}] += messages;
        }
        counts_ = std::move(coarser);
    }
    now_ = static_cast<std::uint32_t>(unit_of(now));
    due_ = start_ + (now_ + 1) * unit_;
    due_ += due_ <= now ? unit_ : Nanoseconds{0};
    ADAPTIB_INVARIANT(now_ < kUnitsMost && due_ > now, "a unit is one of few, and ends later", now_,
                      due_, now);
}

void SourceMap::add(std::uint64_t source, std::uint64_t messages) {
    if (messages > 0) {
        counts_[{now_, process_of(source)}] += messages;
    }
}

std::string SourceMap::text(std::uint64_t self) const {
    std::string text = "# adaptib: messages by source and time\n# receiver " +
                       std::to_string(rank_of(self)) + "\n# unit_ns " +
                       std::to_string(unit_.count()) + "\n# units " + std::to_string(now_ + 1) +
                       "\n# unit\tsource\tmessages\n";
    for (const auto& [key, messages] : counts_) {
        const std::uint64_t source = key.second;
        const bool ours = job_of(source) == job_of(self);
        text += std::to_string(key.first) + "\t" +
                (ours ? "" : std::to_string(job_of(source)) + ":") +
                std::to_string(rank_of(source)) + "\t" + std::to_string(messages) + "\n";
    }
    return text;
}

} // namespace adaptib
