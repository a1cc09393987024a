// SPDX-License-Identifier: BSD-3-Clause
// Counting, registering and giving up of buffers (memory/frequent_buffers.h).
#include "memory/frequent_buffers.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/invariant.h"

namespace adaptib {

FrequentBuffers::FrequentBuffers(FrequentBuffersOptions options, RegistrationCache& cache,
                                 Counters& counters)
    : options_(std::move(options)), cache_(cache), counters_(counters) {
    const bool possible = cache_.keeps() && options_.most > 0;
    if (options_.mode == FrequentBuffersOptions::Mode::off || !possible) {
        return;
    }
    range_ = kMostBytes - kLeastBytes + 1;
    cache_.tell(this);
}

FrequentBuffers::~FrequentBuffers() {
    if (on()) {
        cache_.tell(nullptr);
    }
}

bool FrequentBuffers::count(const Wanted& wanted, RegistrationCache::Use& out) {
    if (wanted.weight() == 0 && !learn_weight(wanted)) [[unlikely]] {
        ++unpaid_;
        return false;
    }
    cache_.settle();
    BufferUses& uses = uses_[size_class(wanted.bytes)];
    ++uses.uses;
    UsageTable::Slot* const slot = table_.find(wanted.address);
    if (slot == nullptr) {
        return add(wanted, out);
    }
    ++uses.reuses;
    return slot->is_frequent() ? gather(*slot, wanted, out) : advance(*slot, wanted, out);
}

bool FrequentBuffers::gather(UsageTable::Slot& slot, const Wanted& wanted,
                             RegistrationCache::Use& out) {
    const std::uint32_t number = slot.value();
    ADAPTIB_INVARIANT(buffers_[number].address != nullptr, "a frequent buffer has a number in use",
                      number, wanted.address);
    if (!cache_.use_again(buffers_[number].place, wanted.address, wanted.bytes, wanted.access,
                          out) &&
        !find_again(number, wanted, out)) {
        return false;
    }
    note_gathered(number, wanted.bytes);
    return true;
}

// The cache has dropped something since the buffer's registration was found, or that one is too
// short or lacks a right. Another registration may cover the buffer: merged ranges do.
bool FrequentBuffers::find_again(std::uint32_t number, const Wanted& wanted,
                                 RegistrationCache::Use& out) {
    if (cache_.find(wanted.address, wanted.bytes, wanted.access, out)) {
        buffers_[number].place = RegistrationCache::remember(out);
        return true;
    }
    release(number);
    return false;
}

bool FrequentBuffers::add(const Wanted& wanted, RegistrationCache::Use& out) {
    UsageTable::Slot* const slot = table_.add(wanted.address);
    note_table();
    return slot != nullptr && advance(*slot, wanted, out);
}

bool FrequentBuffers::advance(UsageTable::Slot& slot, const Wanted& wanted,
                              RegistrationCache::Use& out) {
    if (!slot.advance(wanted.weight())) [[likely]] {
        return false;
    }
    slot.set_progress(1); // if the buffer cannot be registered, it has to be used so often again
    if (!enlist(wanted, out)) {
        return false;
    }
    note_gathered(table_.find(wanted.address)->value(), wanted.bytes);
    return true;
}

// Registers a buffer that is worth it. The buffer may be forgotten meanwhile, by another thread,
// which unmaps memory nearby: then this message is copied, too.
bool FrequentBuffers::enlist(const Wanted& wanted, RegistrationCache::Use& out) {
    std::uint32_t number = 0;
    if (pauses() || !free_number(number)) {
        return false;
    }
    auto* const memory = const_cast<void*>(wanted.address); // only `access` allows to write
    const bool registered = cache_.acquire(memory, wanted.bytes, wanted.access, out).ok();
    UsageTable::Slot* const slot = registered ? table_.find(wanted.address) : nullptr;
    if (!registered) {
        note_refused();
    }
    if (slot == nullptr || slot->is_frequent()) {
        out.reset();
        free_.push_back(number);
        return false;
    }
    ADAPTIB_INVARIANT(buffers_[number].address == nullptr, "a number is of one buffer at a time",
                      number, buffers_[number].address);
    pause_ = 0;
    ++counters_.frequent_registered;
    ++uses_[size_class(wanted.bytes)].buffers;
    buffers_[number] = {.address = wanted.address,
                        .place = RegistrationCache::remember(out),
                        .uses = uses_to_register(wanted.weight()) - 1,
                        .size_class = size_class(wanted.bytes)};
    table_.make_frequent(*slot, number);
    ADAPTIB_INVARIANT(table_.frequent() + free_.size() == buffers_.size(),
                      "each number is free or of a frequent buffer", table_.frequent(),
                      free_.size(), buffers_.size());
    note_table();
    return true;
}

void FrequentBuffers::expect(const void* address, Bytes bytes) {
    const Wanted wanted{address, bytes, 0, weights_[0]};
    if (bytes - kLeastBytes >= range_ || (wanted.weight() == 0 && !learn_weight(wanted))) {
        return;
    }
    cache_.settle();
    UsageTable::Slot* slot = table_.find(address);
    slot = slot != nullptr ? slot : table_.add(address);
    if (slot != nullptr && !slot->is_frequent()) {
        RegistrationCache::Use use; // ends here: the registration stays in the cache
        static_cast<void>(enlist(wanted, use));
    }
    note_table();
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
        ADAPTIB_INVARIANT(buffers_[number].address != nullptr,
                          "a buffer is given up while no number is free", number);
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
        ADAPTIB_INVARIANT(slot->is_frequent() && slot->value() == number,
                          "the slot of a frequent buffer names it", number);
        table_.make_ordinary(*slot);
    }
    end(buffers_[number]);
    free_.push_back(number);
    ADAPTIB_INVARIANT(table_.frequent() + free_.size() == buffers_.size(),
                      "each number is free or of a frequent buffer", table_.frequent(),
                      free_.size(), buffers_.size());
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

std::uint32_t FrequentBuffers::registered_at(Bytes bytes, Kind kind) {
    const Wanted wanted{nullptr, bytes, 0, weights_[static_cast<std::size_t>(kind)]};
    if (bytes - kLeastBytes >= range_ || (wanted.weight() == 0 && !learn_weight(wanted))) {
        return GatherCosts::kNever;
    }
    return uses_to_register(wanted.weight());
}

// Measures the costs, if they are not known yet. Returns false if the size never pays.
bool FrequentBuffers::learn_weight(const Wanted& wanted) {
    if (!costs_known_) {
        costs_known_ = true;
        set_weights();
    }
    return wanted.weight() != 0;
}

std::uint32_t FrequentBuffers::weight_of(std::uint32_t least_uses) const {
    if (options_.mode == FrequentBuffersOptions::Mode::always) {
        return UsageTable::kFull;
    }
    const std::uint32_t at = (least_uses - 1) / kSpeculation + 1;
    return least_uses < UsageTable::kFull ? (UsageTable::kFull + at - 1) / at : 0;
}

void FrequentBuffers::set_weights() {
    const bool always = options_.mode == FrequentBuffersOptions::Mode::always;
    const GatherCosts costs = !always && options_.costs ? options_.costs() : GatherCosts::assumed();
    for (std::size_t i = kLeastBytes >> kWeightShift; i < kWeights; ++i) {
        const Bytes bytes = i << kWeightShift;
        weights_[0][i] = weight_of(costs.least_uses(bytes));
        weights_[1][i] = weight_of(costs.least_uses_one_sided(bytes));
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

// Formats from which use on each of a few sizes is registered.
template <typename F> std::string sizes_text(F&& registered_at) {
    std::string text;
    for (const Bytes bytes : {512u, 2048u, 8192u, 16384u}) {
        const std::uint32_t uses = registered_at(bytes);
        text += (text.empty() ? "" : ", ") + std::to_string(bytes) + " B " +
                (uses == 0 ? "never" : "from use " + std::to_string(uses));
    }
    return text;
}

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

std::string FrequentBuffers::explanation() const {
    if (!on()) {
        return *options_.why_off == '\0' ? ""
                                         : std::string("off, since ") + options_.why_off + "\n";
    }
    if (!costs_known_) {
        return "none of 128 bytes or more could be gathered or registered\n";
    }
    std::string text;
    for (const std::size_t kind : {0u, 1u}) {
        text += kind == 0 ? "messages are gathered: " : "    puts and gets are not copied: ";
        text += sizes_text([&](Bytes bytes) {
            const std::uint32_t weight = weights_[kind][weight_index(bytes)];
            return weight == 0 ? 0 : uses_to_register(weight);
        });
        text += "\n";
    }
    return text + "    not counted, since their size never pays: " + std::to_string(unpaid_) + "\n";
}

std::string buffer_uses_text(const std::array<BufferUses, FrequentBuffers::kClasses>& uses) {
    std::string rows;
    for (std::size_t i = 0; i < uses.size(); ++i) {
        rows += uses[i].uses > 0 ? row_text(i, uses[i]) : "";
    }
    return rows.empty() ? rows
                        : "  bytes         uses   reused frequent    most uses  gathered\n" + rows;
}

} // namespace adaptib
