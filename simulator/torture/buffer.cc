// SPDX-License-Identifier: BSD-3-Clause
// Pieces, guards and gaps (simulator/torture/buffer.h).
#include "simulator/torture/buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "simulator/torture/payload.h"

namespace adaptib::torture {

Buffer::Buffer(Bytes bytes, Bytes element, Bytes stride)
    : bytes_(bytes), element_(element), stride_(std::max(element, stride)) {
    const Bytes length = element == 0 ? bytes : (bytes + element - 1) / element * stride_;
    memory_.assign(length + 2 * kGuard, kUntouched);
}

Data Buffer::data() {
    if (element_ == 0) {
        return {base(), bytes_, nullptr, nullptr, nullptr};
    }
    return {nullptr, bytes_, &Buffer::pack, &Buffer::unpack, this};
}

template <class Visit> void Buffer::for_each_piece(Bytes from, Bytes to, Visit&& visit) const {
    if (element_ == 0) {
        visit(kGuard + from, to - from);
        return;
    }
    while (from < to) {
        const Bytes inside = from % element_;
        const Bytes length = std::min(element_ - inside, to - from);
        visit(kGuard + from / element_ * stride_ + inside, length);
        from += length;
    }
}

void Buffer::fill(std::uint64_t seed) {
    const std::byte* from = payload(seed);
    for_each_piece(0, bytes_, [&](Bytes place, Bytes length) {
        std::memcpy(&memory_[place], from, length);
        from += length;
    });
}

void Buffer::scramble() { std::fill(memory_.begin(), memory_.end(), std::byte{0xe7}); }

bool Buffer::take_over(Buffer& spare) {
    if (spare.memory_.size() < memory_.size()) {
        return false;
    }
    memory_ = std::move(spare.memory_);
    spare = Buffer();
    return true;
}

std::uint64_t Buffer::digest(Bytes length) const {
    Digest digest;
    for_each_piece(0, length,
                   [&](Bytes place, Bytes piece) { digest.add(&memory_[place], piece); });
    return digest.value();
}

bool Buffer::intact(Bytes length) const {
    const auto untouched = [this](Bytes from, Bytes to) {
        return std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(from),
                           memory_.begin() + static_cast<std::ptrdiff_t>(to),
                           [](std::byte byte) { return byte == kUntouched; });
    };
    Bytes end = 0;
    bool intact = true;
    for_each_piece(0, length, [&](Bytes place, Bytes piece) {
        intact = intact && untouched(end, place);
        end = place + piece;
    });
    return intact && untouched(end, memory_.size());
}

// Packs whole elements only, as a convertor does, except for the last one.
int Buffer::pack(void* context, std::size_t offset, void* to, std::size_t* length) {
    const auto& self = *static_cast<const Buffer*>(context);
    Bytes end = std::min<Bytes>(offset + *length, self.bytes_);
    if (end != self.bytes_) {
        end -= end % self.element_;
    }
    *length = end > offset ? end - offset : 0;
    auto* out = static_cast<std::byte*>(to);
    self.for_each_piece(offset, offset + *length, [&](Bytes place, Bytes piece) {
        std::memcpy(out, &self.memory_[place], piece);
        out += piece;
    });
    return 0;
}

int Buffer::unpack(void* context, std::size_t offset, const void* from, std::size_t* length) {
    auto& self = *static_cast<Buffer*>(context);
    const auto* in = static_cast<const std::byte*>(from);
    self.for_each_piece(offset, offset + *length, [&](Bytes place, Bytes piece) {
        std::memcpy(&self.memory_[place], in, piece);
        in += piece;
    });
    return 0;
}

} // namespace adaptib::torture
