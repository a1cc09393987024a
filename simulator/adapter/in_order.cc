// SPDX-License-Identifier: BSD-3-Clause
#include "in_order.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace adaptib::hca {

std::uint64_t next_in_order(std::uintptr_t to, std::uint64_t bytes) {
    constexpr std::uint64_t kLine = 64;
    constexpr std::uint64_t kWord = 8;
    const std::uint64_t in_line = std::min(kLine - to % kLine, bytes);
    return in_line == bytes && bytes > kWord ? bytes - kWord : in_line;
}

bool copy_in_order(std::uint8_t* to, const std::uint8_t* from, std::uint64_t bytes) {
    std::array<iovec, 128> pieces;
    while (bytes > 0) {
        std::size_t count = 0;
        std::uint64_t all = 0;
        for (; count < pieces.size() && all < bytes; ++count) {
            std::uint8_t* const at = to + all;
            pieces[count] = {at, next_in_order(reinterpret_cast<std::uintptr_t>(at), bytes - all)};
            all += pieces[count].iov_len;
        }
        const iovec remote{const_cast<std::uint8_t*>(from), all};
        if (process_vm_readv(getpid(), pieces.data(), count, &remote, 1, 0) !=
            static_cast<ssize_t>(all)) {
            return false;
        }
        to += all;
        from += all;
        bytes -= all;
    }
    return true;
}

} // namespace adaptib::hca
