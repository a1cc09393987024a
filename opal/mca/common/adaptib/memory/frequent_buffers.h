// SPDX-License-Identifier: BSD-3-Clause
// FrequentBuffers: which small messages the adapter fetches from the user's buffer, instead of from
// a copy.
//
// Purpose: a small message to a peer over a device is copied into registered memory, because to
// register its buffer would cost more than the copy. Most programs send from the same few buffers
// again and again; such a buffer is registered once, and its further messages are gathered: header
// from memory of the core, data from the buffer.
// One-sided operations use the same table: a small put or get from a buffer that is not registered
// is copied through registered memory (memory/bounce_buffers.h), until its buffer is worth a
// registration. That takes fewer uses, since a copied one needs a request and a completion, too.
// When: a buffer is worth its registration after n uses (GatherCosts::least_uses). It is registered
// after a quarter of them, since a buffer that was used so often is probably used again. What a use
// adds depends on its size, so a buffer may have messages of different sizes. The costs are
// measured at the first use.
// Safety: nothing is gathered from memory whose registration may be stale. Registrations are the
// cache's, which drops those of unmapped memory; use() settles it first, so a range that was
// forgotten before the call is not found in it. A buffer whose registration the cache has dropped,
// for whatever reason, has to earn another one. A registration that is handed out stays until its
// Use ends.
// A refused registration (the limit of locked memory) is not tried again for a while: the next
// buffer that is worth one is copied, then the next two, four, up to 1024.
// Ownership: refers to the cache and the counters, which outlive it.
// Errors: none; what cannot be gathered is copied.
// Threads: one at a time (the core's lock).
// Source: Rashti and Afsahi, section 3.
// May touch: base/, stats/, memory/.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/invariant.h"
#include "base/units.h"
#include "memory/gather_costs.h"
#include "memory/registration_cache.h"
#include "memory/usage_table.h"
#include "stats/counters.h"

namespace adaptib {

struct FrequentBuffersOptions {
    enum class Mode : std::uint8_t { automatic, off, always };

    Mode mode = Mode::off;     // always: a buffer is registered at its first use
    std::uint32_t most = 4096; // buffers that are registered
    // Called once, at the first use of a buffer. Empty: costs are assumed.
    std::function<GatherCosts()> costs;
    const char* why_off = ""; // for the report, if the user has not turned it off
};

// Uses by size of the message, for the report.
struct BufferUses {
    std::uint64_t uses = 0;
    std::uint64_t reuses = 0;   // of a buffer that was known
    std::uint64_t gathered = 0; // from a registered buffer
    std::uint64_t buffers = 0;  // that became frequent
    std::uint64_t most = 0;     // uses of one of these buffers
};

class FrequentBuffers final : ForgottenMemory {
public:
    static constexpr Bytes kLeastBytes = 128;        // shorter messages are copied faster
    static constexpr Bytes kMostBytes = 64 * kKiB;   // longer ones do not come here
    static constexpr std::uint32_t kSpeculation = 4; // a buffer is registered after n/4 uses

    // Remains off if the cache does not keep registrations.
    FrequentBuffers(FrequentBuffersOptions options, RegistrationCache& cache, Counters& counters);
    ~FrequentBuffers();
    FrequentBuffers(const FrequentBuffers&) = delete;
    FrequentBuffers& operator=(const FrequentBuffers&) = delete;

    bool on() const { return range_ > 0; }

    enum class Kind : std::uint8_t { message, one_sided };
    // Counts a use of the buffer for a message, or a put or get, of `bytes`. Returns true if the
    // message is to be gathered: `out` then keeps the buffer's registration, which has the rights
    // of `access` (0: to be read by the adapter), until the adapter is done with it. False: the
    // message is to be copied.
    // REQUIRES: `out` is empty; it stays so if the message is to be copied.
    bool use(const void* address, Bytes bytes, std::uint32_t access, RegistrationCache::Use& out,
             Kind kind = Kind::message) {
        return bytes - kLeastBytes < range_ &&
               count({address, bytes, access, weights_[static_cast<std::size_t>(kind)]}, out);
    }
    // The user says that messages of `bytes` will be sent from the buffer again and again:
    // registers it now, unless that never pays for the size.
    void expect(const void* address, Bytes bytes);

    const UsageTable& table() const { return table_; }
    // Returns the number of a use of the buffer at which it is registered: all uses from that one
    // on are gathered. GatherCosts::kNever: never. Measures the costs if they are not known.
    std::uint32_t registered_at(Bytes bytes, Kind kind = Kind::message);
    // Explains to a reader what was counted and from how many uses on messages are gathered; why
    // none are, if so. Empty if the user has turned it off.
    std::string explanation() const;

    // The uses of messages of 128 to 255 bytes, of 256 to 511 bytes, …; the last one is of all
    // longer ones.
    static constexpr std::size_t kClasses = 8;
    std::array<BufferUses, kClasses> uses() const;

private:
    // A frequent buffer. Its number is the value of its slot in the table.
    struct Buffer {
        const void* address = nullptr; // null: free
        RegistrationCache::Place place;
        std::uint32_t uses = 0;
        std::uint32_t size_class = 0;
        bool used = false; // since the hand passed
    };

    static constexpr Bytes kWeightedTo = 16 * kKiB; // longer messages weigh as much
    static constexpr std::uint32_t kWeightShift = 7;
    static constexpr std::size_t kWeights = (kWeightedTo >> kWeightShift) + 1;
    static std::size_t weight_index(Bytes bytes) {
        return (bytes < kWeightedTo ? bytes : kWeightedTo) >> kWeightShift;
    }
    // Progress that a use adds to its buffer, for each 128 bytes of the message. 0: the size never
    // pays, or the costs are not known yet.
    using Weights = std::array<std::uint32_t, kWeights>;
    // Memory that the adapter is to read or write.
    struct Wanted {
        const void* address;
        Bytes bytes;
        std::uint32_t access;
        const Weights& weights;
        std::uint32_t weight() const { return weights[weight_index(bytes)]; }
    };
    static constexpr std::uint32_t kLongestPause = 1024;
    static constexpr std::uint32_t kHandSteps = 64; // to find a buffer to give up, at most

    static std::uint32_t size_class(Bytes bytes) {
        const auto above = static_cast<std::uint32_t>(std::bit_width(bytes / kLeastBytes)) - 1;
        return above < kClasses ? above : kClasses - 1;
    }
    void on_forgotten(std::uintptr_t begin, std::uintptr_t end) override;
    bool count(const Wanted& wanted, RegistrationCache::Use& out);
    bool gather(UsageTable::Slot& slot, const Wanted& wanted, RegistrationCache::Use& out);
    bool find_again(std::uint32_t number, const Wanted& wanted, RegistrationCache::Use& out);
    bool add(const Wanted& wanted, RegistrationCache::Use& out);
    bool advance(UsageTable::Slot& slot, const Wanted& wanted, RegistrationCache::Use& out);
    bool enlist(const Wanted& wanted, RegistrationCache::Use& out);
    bool pauses();
    void note_refused();
    void note_gathered(std::uint32_t number, Bytes bytes);
    bool free_number(std::uint32_t& number);
    bool give_up_one();
    void release(std::uint32_t number);
    void end(Buffer& buffer);
    static std::uint32_t uses_to_register(std::uint32_t weight) {
        ADAPTIB_INVARIANT(weight > 0, "a size that pays has a weight", weight);
        return (UsageTable::kFull + weight - 1) / weight;
    }
    bool learn_weight(const Wanted& wanted);
    std::uint32_t weight_of(std::uint32_t least_uses) const;
    void set_weights();
    void note_table();

    FrequentBuffersOptions options_;
    RegistrationCache& cache_;
    Counters& counters_;
    Bytes range_ = 0; // sizes from kLeastBytes on that are counted; 0: off
    bool costs_known_ = false;
    UsageTable table_;
    std::array<Weights, 2> weights_{}; // by Kind
    std::uint64_t unpaid_ = 0;         // uses of sizes that never pay, which are not counted
    std::vector<Buffer> buffers_;
    std::vector<std::uint32_t> free_; // numbers of free ones among buffers_
    std::uint32_t hand_ = 0;          // of the clock that finds a buffer to give up
    std::size_t known_told_ = 0;      // in the counters, as is frequent_told_
    std::size_t frequent_told_ = 0;
    std::uint32_t pause_ = 0;   // the next one, after a refusal
    std::uint32_t pausing_ = 0; // buffers that are not registered before the next attempt
    std::array<BufferUses, kClasses> uses_{};
};

// Formats the uses as a table for a reader; empty if there were none.
std::string buffer_uses_text(const std::array<BufferUses, FrequentBuffers::kClasses>& uses);

} // namespace adaptib
