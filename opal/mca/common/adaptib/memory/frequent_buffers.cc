// SPDX-License-Identifier: BSD-3-Clause
// Counting, registering and giving up of buffers (memory/frequent_buffers.h).
#include "memory/frequent_buffers.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace adaptib {

FrequentBuffers::FrequentBuffers(FrequentBuffersOptions options, RegistrationCache& cache,
                                 Counters& counters)
    : options_(std::move(options)), cache_(cache), counters_(counters) {
    const bool possible = cache_.keeps() && options_.most > 0;
    if (options_.mode == FrequentBuffersOptions::Mode::off || !possible) {
        return;
    }
    options_.most = std::min(options_.most, UsageTable::kFull - 1);
    range_ = kMostBytes - kLeastBytes + 1;
    cache_.tell(this);
}

FrequentBuffers::~FrequentBuffers() {
    if (on()) {
        cache_.tell(nullptr);
    }
}

bool FrequentBuffers::count(const void* address, Bytes bytes, std::uint32_t access,
                            RegistrationCache::Use& out) {
    const std::size_t index = weight_index(bytes);
    if (weights_[index] == 0 && !learn_weight(index)) [[unlikely]] {
        return false;
    }
    cache_.settle();
    BufferUses& uses = uses_[size_class(bytes)];
    ++uses.uses;
    UsageTable::Slot* const slot = table_.find(address);
    if (slot == nullptr) {
        return add(address, bytes, access, out);
    }
    ++uses.reuses;
    return slot->is_frequent() ? gather(*slot, address, bytes, access, out)
                               : advance(*slot, address, bytes, access, out);
}

bool FrequentBuffers::gather(UsageTable::Slot& slot, const void* address, Bytes bytes,
                             std::uint32_t access, RegistrationCache::Use& out) {
    const std::uint32_t number = slot.value();
    if (!cache_.use_again(buffers_[number].place, address, bytes, access, out) &&
        !find_again(number, address, bytes, access, out)) {
        return false;
    }
    note_gathered(number, bytes);
    return true;
}

// The cache has dropped something since the buffer's registration was found, or that one is too
// short or lacks a right. Another registration may cover the buffer: merged ranges do.
bool FrequentBuffers::find_again(std::uint32_t number, const void* address, Bytes bytes,
                                 std::uint32_t access, RegistrationCache::Use& out) {
    if (cache_.find(address, bytes, access, out)) {
        buffers_[number].place = RegistrationCache::remember(out);
        return true;
    }
    release(number);
    return false;
}

bool FrequentBuffers::add(const void* address, Bytes bytes, std::uint32_t access,
                          RegistrationCache::Use& out) {
    UsageTable::Slot* const slot = table_.add(address);
    note_table();
    return slot != nullptr && advance(*slot, address, bytes, access, out);
}

bool FrequentBuffers::advance(UsageTable::Slot& slot, const void* address, Bytes bytes,
                              std::uint32_t access, RegistrationCache::Use& out) {
    if (!slot.advance(weights_[weight_index(bytes)])) [[likely]] {
        return false;
    }
    slot.set_progress(1); // if the buffer cannot be registered, it has to be used so often again
    return enlist(address, bytes, access, out);
}

// Registers a buffer that is worth it. The buffer may be forgotten meanwhile, by another thread,
// which unmaps memory nearby: then this message is copied, too.
bool FrequentBuffers::enlist(const void* address, Bytes bytes, std::uint32_t access,
                             RegistrationCache::Use& out) {
    std::uint32_t number = 0;
    if (pauses() || !free_number(number)) {
        return false;
    }
    auto* const memory = const_cast<void*>(address); // only `access` allows to write
    const bool registered = cache_.acquire(memory, bytes, access, out).ok();
    UsageTable::Slot* const slot = registered ? table_.find(address) : nullptr;
    if (!registered) {
        note_refused();
    }
    if (slot == nullptr || slot->is_frequent()) {
        out.reset();
        free_.push_back(number);
        return false;
    }
    pause_ = 0;
    ++counters_.frequent_registered;
    ++uses_[size_class(bytes)].buffers;
    buffers_[number] = {.address = address,
                        .place = RegistrationCache::remember(out),
                        .uses = std::max(registered_at(bytes), 1u) - 1,
                        .size_class = size_class(bytes)};
    table_.make_frequent(*slot, number);
    note_gathered(number, bytes);
    note_table();
    return true;
}

bool FrequentBuffers::pauses() {
    if (pausing_ == 0) {
        return false;
    }
    --pausing_;
    return true;
}

void FrequentBuffers::note_refused() {
    ++counters_.frequent_refused;
    pause_ = std::clamp(2 * pause_, 1u, kLongestPause);
    pausing_ = pause_;
}

void FrequentBuffers::note_gathered(std::uint32_t number, Bytes bytes) {
    Buffer& buffer = buffers_[number];
    ++buffer.uses;
    buffer.used = true;
    ++uses_[size_class(bytes)].gathered;
    ++counters_.frequent_gathered;
    counters_.frequent_gathered_bytes += bytes;
}

bool FrequentBuffers::free_number(std::uint32_t& number) {
    if (free_.empty() && buffers_.size() < options_.most) {
        free_.push_back(static_cast<std::uint32_t>(buffers_.size()));
        buffers_.emplace_back();
    }
    if (free_.empty() && !give_up_one()) {
        return false;
    }
    number = free_.back();
    free_.pop_back();
    return true;
}

// Gives up a buffer that was not used since the hand passed it last. Its registration stays in the
// cache, as one that nobody uses.
bool FrequentBuffers::give_up_one() {
    for (std::uint32_t step = 0; step < kHandSteps; ++step) {
        const std::uint32_t number = hand_;
        hand_ = number + 1 < buffers_.size() ? number + 1 : 0;
        if (!std::exchange(buffers_[number].used, false)) {
            ++counters_.frequent_evicted;
            release(number);
            return true;
        }
    }
    return false;
}

// Makes a frequent buffer an ordinary one.
void FrequentBuffers::release(std::uint32_t number) {
    if (UsageTable::Slot* const slot = table_.find(buffers_[number].address)) {
        table_.make_ordinary(*slot);
    }
    end(buffers_[number]);
    free_.push_back(number);
    note_table();
}

void FrequentBuffers::end(Buffer& buffer) {
    std::uint64_t& most = uses_[buffer.size_class].most;
    most = std::max<std::uint64_t>(most, buffer.uses);
    buffer = Buffer();
}

void FrequentBuffers::on_forgotten(std::uintptr_t begin, std::uintptr_t end_of) {
    table_.forget(begin, end_of, [this](std::uint32_t number) {
        end(buffers_[number]);
        free_.push_back(number);
    });
    note_table();
}

std::uint32_t FrequentBuffers::registered_at(Bytes bytes) {
    const std::size_t index = weight_index(bytes);
    if (bytes - kLeastBytes >= range_ || (weights_[index] == 0 && !learn_weight(index))) {
        return GatherCosts::kNever;
    }
    return (UsageTable::kFull + weights_[index] - 1) / weights_[index];
}

// Measures the costs, if they are not known yet. Returns false if the size never pays.
bool FrequentBuffers::learn_weight(std::size_t index) {
    if (!costs_known_) {
        costs_known_ = true;
        set_weights();
    }
    return weights_[index] != 0;
}

void FrequentBuffers::set_weights() {
    const bool always = options_.mode == FrequentBuffersOptions::Mode::always;
    const GatherCosts costs = !always && options_.costs ? options_.costs() : GatherCosts::assumed();
    for (std::size_t i = kLeastBytes >> kWeightShift; i < kWeights; ++i) {
        const std::uint32_t uses = costs.least_uses(i << kWeightShift);
        const std::uint32_t at = (uses + kSpeculation - 1) / kSpeculation;
        if (always) {
            weights_[i] = UsageTable::kFull;
        } else if (uses < UsageTable::kFull) {
            weights_[i] = (UsageTable::kFull + at - 1) / at;
        }
    }
}

void FrequentBuffers::note_table() {
    counters_.frequent_known += table_.known() - known_told_;
    counters_.frequent_now += table_.frequent() - frequent_told_;
    known_told_ = table_.known();
    frequent_told_ = table_.frequent();
}

std::array<BufferUses, FrequentBuffers::kClasses> FrequentBuffers::uses() const {
    auto uses = uses_;
    for (const Buffer& buffer : buffers_) {
        std::uint64_t& most = uses[buffer.size_class].most;
        most = std::max<std::uint64_t>(most, buffer.uses);
    }
    return uses;
}

namespace {

double percent(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string row_text(std::size_t index, const BufferUses& row) {
    const Bytes from = FrequentBuffers::kLeastBytes << index;
    char text[128];
    std::snprintf(text, sizeof(text), "%7llu %12llu %8.2f%% %8llu %12llu %8.2f%%\n",
                  static_cast<unsigned long long>(from), static_cast<unsigned long long>(row.uses),
                  percent(row.reuses, row.uses), static_cast<unsigned long long>(row.buffers),
                  static_cast<unsigned long long>(row.most), percent(row.gathered, row.uses));
    return text;
}

} // namespace

std::string buffer_uses_text(const std::array<BufferUses, FrequentBuffers::kClasses>& uses) {
    std::string rows;
    for (std::size_t i = 0; i < uses.size(); ++i) {
        rows += uses[i].uses > 0 ? row_text(i, uses[i]) : "";
    }
    return rows.empty() ? rows
                        : "  bytes         uses   reused frequent    most uses  gathered\n" + rows;
}

} // namespace adaptib
