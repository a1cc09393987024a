// SPDX-License-Identifier: BSD-3-Clause
// Data: callers cannot tell the two kinds of message bytes apart.
#include "base/data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace adaptib {
namespace {

// Bytes behind a packer that processes at most `most` bytes a call, and only whole elements.
struct Packed {
    std::vector<std::byte> bytes;
    std::size_t element = 1;
    std::size_t most = 1000;
    std::size_t fail_at = SIZE_MAX; // calls from this offset on are errors
    int calls = 0;

    explicit Packed(std::size_t size) : bytes(size) {}

    Data data() { return {nullptr, bytes.size(), &Packed::pack, &Packed::unpack, this}; }

private:
    std::size_t step(std::size_t offset, std::size_t length) {
        ++calls;
        const std::size_t end = std::min(offset + std::min(length, most), bytes.size());
        const std::size_t whole = end == bytes.size() ? end : end - end % element;
        return whole > offset ? whole - offset : 0;
    }
    static int pack(void* context, std::size_t offset, void* to, std::size_t* length) {
        auto& self = *static_cast<Packed*>(context);
        *length = self.step(offset, *length);
        if (offset + *length > self.fail_at) {
            return -1;
        }
        std::copy_n(self.bytes.data() + offset, *length, static_cast<std::byte*>(to));
        return 0;
    }
    static int unpack(void* context, std::size_t offset, const void* from, std::size_t* length) {
        auto& self = *static_cast<Packed*>(context);
        *length = self.step(offset, *length);
        if (offset + *length > self.fail_at) {
            return -1;
        }
        std::copy_n(static_cast<const std::byte*>(from), *length, self.bytes.data() + offset);
        return 0;
    }
};

std::vector<std::byte> numbers(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        bytes[i] = static_cast<std::byte>(i * 7 + 1);
    }
    return bytes;
}

std::vector<std::byte> part(const std::vector<std::byte>& bytes, std::size_t from,
                            std::size_t length) {
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(from);
    return {begin, begin + static_cast<std::ptrdiff_t>(length)};
}

TEST(Data, KnowsWhatIsContiguous) {
    std::byte byte{};
    EXPECT_TRUE(is_contiguous({&byte, 1, nullptr, nullptr, nullptr}));
    EXPECT_TRUE(is_contiguous({&byte, 0, nullptr, nullptr, nullptr}));
    EXPECT_TRUE(is_contiguous({nullptr, 0, nullptr, nullptr, nullptr}));
    Packed packed(1);
    EXPECT_FALSE(is_contiguous(packed.data()));
}

TEST(Data, ContiguousBytesAreCopiedFromAndToTheirOffset) {
    std::vector<std::byte> bytes = numbers(100);
    const std::vector<std::byte> before = bytes;
    const Data data{bytes.data(), bytes.size(), nullptr, nullptr, nullptr};
    std::vector<std::byte> out(30);
    EXPECT_EQ(gather_some(data, 70, out.data(), 30), 30u);
    EXPECT_EQ(out, part(before, 70, 30));
    EXPECT_TRUE(gather_all(data, 1, out.data(), 30).ok());
    EXPECT_EQ(out, part(before, 1, 30));
    const std::vector<std::byte> in(10, std::byte{0xee});
    EXPECT_TRUE(scatter(data, 90, in.data(), 10).ok());
    EXPECT_EQ(part(bytes, 0, 90), part(before, 0, 90));
    EXPECT_EQ(part(bytes, 90, 10), in);
}

TEST(Data, AnEmptyMessageNeedsNoBuffer) {
    const Data data{nullptr, 0, nullptr, nullptr, nullptr};
    std::byte byte{};
    EXPECT_EQ(gather_some(data, 0, &byte, 0), 0u);
    EXPECT_TRUE(gather_all(data, 0, &byte, 0).ok());
    EXPECT_TRUE(scatter(data, 0, &byte, 0).ok());
}

TEST(Data, APackerIsCalledUntilAllIsThere) {
    Packed packed(100);
    packed.bytes = numbers(100);
    packed.most = 7;
    std::vector<std::byte> out(50);
    EXPECT_EQ(gather_some(packed.data(), 25, out.data(), 50), 50u);
    EXPECT_EQ(out, part(packed.bytes, 25, 50));
    EXPECT_EQ(packed.calls, 8);
    EXPECT_TRUE(gather_all(packed.data(), 50, out.data(), 50).ok());
    EXPECT_EQ(out, part(packed.bytes, 50, 50));
}

TEST(Data, APackerThatCannotSplitAnElementStopsShort) {
    Packed packed(60);
    packed.bytes = numbers(60);
    packed.element = 12;
    std::vector<std::byte> out(30);
    EXPECT_EQ(gather_some(packed.data(), 0, out.data(), 30), 24u);
    EXPECT_EQ(part(out, 0, 24), part(packed.bytes, 0, 24));
    EXPECT_EQ(gather_all(packed.data(), 0, out.data(), 30), Status::error(Reason::internal));
    EXPECT_TRUE(gather_all(packed.data(), 0, out.data(), 24).ok());
    EXPECT_EQ(gather_some(packed.data(), 48, out.data(), 12), 12u);
    EXPECT_EQ(gather_some(packed.data(), 0, out.data(), 11), 0u) << "less than one element";
}

TEST(Data, APackersErrorIsReportedAndWhatCameBeforeItIsCounted) {
    Packed packed(60);
    packed.most = 10;
    packed.fail_at = 30;
    std::vector<std::byte> out(60);
    EXPECT_EQ(gather_some(packed.data(), 0, out.data(), 60), 30u);
    EXPECT_EQ(gather_some(packed.data(), 30, out.data(), 30), 0u);
    EXPECT_TRUE(gather_all(packed.data(), 0, out.data(), 60).is_error());
    EXPECT_TRUE(scatter(packed.data(), 0, out.data(), 60).is_error());
    EXPECT_TRUE(scatter(packed.data(), 0, out.data(), 30).ok());
}

TEST(Data, AnUnpackerIsCalledUntilAllIsTaken) {
    Packed packed(100);
    packed.most = 9;
    const std::vector<std::byte> in = numbers(60);
    EXPECT_TRUE(scatter(packed.data(), 40, in.data(), 60).ok());
    EXPECT_EQ(part(packed.bytes, 40, 60), in);
    EXPECT_EQ(part(packed.bytes, 0, 40), std::vector<std::byte>(40));
    EXPECT_EQ(packed.calls, 7);
}

TEST(Data, AnUnpackerThatTakesNothingIsAnErrorNotALoop) {
    Packed packed(60);
    packed.element = 20;
    const std::vector<std::byte> in = numbers(60);
    EXPECT_EQ(scatter(packed.data(), 0, in.data(), 19), Status::error(Reason::internal));
}

} // namespace
} // namespace adaptib
