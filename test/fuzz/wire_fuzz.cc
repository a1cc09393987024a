// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: all data that arrives from outside. The first byte chooses the stage:
//
//     0  the checks of messages and of published addresses, on raw bytes
//     1  a ring full of the input, read until nothing or garbage is left
//     2  live cores (live_core.h)
#include <memory>

#include "base/address.h"
#include "channel/ring_reader.h"
#include "fuzz/input.h"
#include "fuzz/live_core.h"

namespace adaptib::fuzz {

namespace {

void check_address(const std::vector<std::byte>& blob) {
    ProcessAddress address;
    if (decode(blob.data(), blob.size(), address).ok()) {
        require(encode(address) == blob, "an address that is understood is what it says");
        require(!address.rails.empty() && address.rails.size() <= kMaxRails, "rails are 1 to 8");
    }
}

void check_bytes(Input& input) {
    if (input.flag()) {
        // Also checks the input behind a valid magic and version.
        std::vector<std::byte> blob = encode(ProcessAddress{});
        blob.resize(6);
        const std::vector<std::byte> rest = input.rest();
        check_address(rest);
        blob.insert(blob.end(), rest.begin(), rest.end());
        blob.shrink_to_fit();
        check_address(blob);
        return;
    }
    auto header = input.take<MessageHeader>();
    if (input.flag()) {
        header.magic = kHeaderMagic;
    }
    const std::vector<std::byte> body = input.rest();
    if (check_message(header, body.data(), body.size())) {
        require(header.length <= body.size(), "an accepted message is there");
        require(body_bytes(header.type) <= header.length, "an accepted message has its body");
        require(check_header(header, body.size()), "an accepted message has a good header");
    }
}

constexpr std::uint64_t kUnits = 64;

struct Free {
    void operator()(void* memory) const { std::free(memory); }
};

// Fills a ring with messages as a writer stores or posts them, one behind the other; the input may
// corrupt any of them.
void fill_with_messages(Input& input, std::byte* memory) {
    std::uint64_t unit = 0;
    std::uint32_t number = kBeforeFirst + 1;
    while (!input.empty() && unit < kUnits) {
        constexpr RingFormat kWays[] = {RingFormat::stored, RingFormat::posted, RingFormat::counted,
                                        RingFormat::compact};
        constexpr std::uint16_t kMagics[] = {kHeaderMagic, kTailedMagic, kCountedMagic,
                                             kCompactMagic};
        const std::uint32_t kind = input.below(4);
        const RingFormat format = kWays[kind];
        MessageHeader header;
        header.type = static_cast<MessageType>(
            input.below(static_cast<std::uint32_t>(MessageType::count_) + 1));
        header.magic = kMagics[kind];
        header.length = input.take<std::uint16_t>() % 1024;
        header.sequence = input.take<std::uint8_t>();
        const std::uint64_t units = ring_units_for(header.length, format);
        if (unit + units > kUnits) {
            return;
        }
        std::byte* at = memory + unit * kRingUnit;
        std::memset(at, static_cast<int>(header.sequence), units * kRingUnit);
        if (format == RingFormat::compact) {
            header.sequence = number + input.below(2);
            const std::uint64_t word = ring_compact_word(header);
            std::memcpy(at, &word, sizeof word);
            number = header.sequence + 1;
            unit += units;
            continue;
        }
        number = header.sequence + 1;
        std::memcpy(at, &header, sizeof header);
        std::uint64_t tail = ring_tail_word(header.head_word(), header.sequence);
        const auto spoil = input.take<std::uint8_t>();
        tail ^= spoil == 255 ? 1u : 0u;
        if (format != RingFormat::stored) {
            std::memcpy(at + ring_posted_bytes(header.length, format) - sizeof tail, &tail,
                        sizeof tail);
        }
        if (spoil == 254) {
            header.length = input.take<std::uint32_t>();
            std::memcpy(at, &header, sizeof header);
        }
        unit += units;
    }
}

void read_ring(Input& input) {
    const std::unique_ptr<std::byte, Free> memory(
        static_cast<std::byte*>(std::aligned_alloc(kCacheLine, kUnits * kRingUnit)));
    std::memset(memory.get(), 0, kUnits * kRingUnit);
    if (input.flag()) {
        input.copy(memory.get(), kUnits * kRingUnit);
    } else {
        fill_with_messages(input, memory.get());
    }
    RingReader reader(memory.get(), kUnits);
    MessageHeader header;
    const std::byte* body = nullptr;
    std::uint64_t messages = 0;
    unsigned sum = 0;
    while (reader.poll(header, body) == RingReader::Found::message) {
        require(++messages <= kUnits, "no more messages than lines");
        for (std::uint32_t i = 0; i < header.length; ++i) {
            sum += static_cast<unsigned>(body[i]); // lets a sanitizer check each byte's address
        }
        static_cast<void>(check_message(header, body, header.length));
        const std::uint64_t before = reader.consumed();
        reader.consume(header.sequence);
        require(reader.consumed() > before, "a message that is consumed gives back its lines");
        if (reader.credit_due()) {
            reader.credit_returned();
        }
    }
    require(sum <= 255u * kUnits * kRingUnit, "no byte is read twice");
    require(reader.consumed() <= 2 * kUnits, "a ring is read once");
}

} // namespace

} // namespace adaptib::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    adaptib::fuzz::Input input(data, size);
    switch (input.below(3)) {
    case 0: adaptib::fuzz::check_bytes(input); break;
    case 1: adaptib::fuzz::read_ring(input); break;
    default: adaptib::fuzz::run_live_cores(input); break;
    }
    return 0;
}
