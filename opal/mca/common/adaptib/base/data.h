// SPDX-License-Identifier: BSD-3-Clause
// The bytes of a message in user memory: contiguous, or behind pack and unpack functions.
//
// Purpose: one place that knows the two cases of opal_common_adaptib_data_t.
// May touch: the data type of common_adaptib.h.
#pragma once

#include <cstddef>
#include <cstring>

#include "base/copy.h"
#include "base/status.h"
#include "base/units.h"
#include "common_adaptib.h"

namespace adaptib {

using Data = opal_common_adaptib_data_t;

// Copies member by member, each in one load and store (base/copy.h).
inline void assign(Data& to, const Data& from) {
    to.base = load_member(from.base);
    to.bytes = load_member(from.bytes);
    to.pack = load_member(from.pack);
    to.unpack = load_member(from.unpack);
    to.context = load_member(from.context);
}

inline bool is_contiguous(const Data& data) { return data.base != nullptr || data.bytes == 0; }

// Copies up to `length` bytes from `offset` on. Contiguous data gives all of them; a packer may
// stop short of an element that does not fit. Returns the bytes copied, 0 only on an error of the
// packer.
inline std::size_t gather_some(const Data& data, std::size_t offset, std::byte* to,
                               std::size_t length) {
    if (data.base != nullptr) {
        copy_small(to, static_cast<const std::byte*>(data.base) + offset, length);
        return length;
    }
    std::size_t done = 0;
    while (done < length) {
        std::size_t step = length - done;
        if (data.pack(data.context, offset + done, to + done, &step) < 0 || step == 0) {
            break;
        }
        done += step;
    }
    return done;
}

// Copies exactly [offset, offset + length), which ends on an element or at the end of the data.
inline Status gather_all(const Data& data, std::size_t offset, std::byte* to, std::size_t length) {
    return gather_some(data, offset, to, length) == length ? kOk : Status::error(Reason::internal);
}

// Writes `length` bytes at `offset`. REQUIRES: offset + length <= data.bytes.
inline Status scatter(const Data& data, std::size_t offset, const std::byte* from,
                      std::size_t length) {
    if (data.base != nullptr) [[likely]] {
        copy_small(static_cast<std::byte*>(data.base) + offset, from, length);
        return kOk;
    }
    std::size_t done = 0;
    while (done < length) {
        std::size_t step = length - done;
        if (data.unpack(data.context, offset + done, from + done, &step) < 0 || step == 0) {
            return Status::error(Reason::internal);
        }
        done += step;
    }
    return kOk;
}

} // namespace adaptib
