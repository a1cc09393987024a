// SPDX-License-Identifier: BSD-3-Clause
#include "capacities.h"

#include <algorithm>
#include <bit>
#include <cerrno>

namespace adaptib::hca {
namespace {

constexpr std::uint32_t round_up(std::uint32_t value, std::uint32_t to) {
    return (value + to - 1) / to * to;
}

// A request in a send queue of mlx5: what each has before its list, or before inline data.
struct Mlx5Entry {
    static constexpr std::uint32_t kBlock = 64;
    static constexpr std::uint32_t kLongest = 1024;
    static constexpr std::uint32_t kInlineHeader = 4;

    Mlx5Entry(ibv_qp_type type, const ibv_qp_cap& cap) : overhead(type == IBV_QPT_UD ? 64 : 192) {
        const std::uint32_t list = overhead + cap.max_send_sge * 16;
        const std::uint32_t data =
            cap.max_inline_data == 0 ? 0
                                     : overhead + round_up(kInlineHeader + cap.max_inline_data, 16);
        bytes = round_up(std::max(list, data), kBlock);
    }

    std::uint32_t overhead; // of all calls that a queue pair of its kind has by default
    std::uint32_t bytes;
};

// Likewise of mlx4, where an entry is a power of two and inline data has a header in each 64 bytes.
struct Mlx4Entry {
    Mlx4Entry(ibv_qp_type type, const ibv_qp_cap& cap) : header(type == IBV_QPT_UD ? 64 : 32) {
        const std::uint32_t parts = (cap.max_inline_data + header % 64 + 59) / 60;
        const std::uint32_t list =
            std::max(round_up(cap.max_inline_data + 4 * parts, 16), cap.max_send_sge * 16);
        bytes = std::max(64U, std::bit_ceil(std::max(header + list, 64U)));
    }
    std::uint32_t places() const { return bytes - header; }

    std::uint32_t header;
    std::uint32_t bytes;
};

std::uint32_t inline_of(InlineReturned rule, ibv_qp_type type, const ibv_qp_cap& cap) {
    switch (rule) {
    case InlineReturned::asked: return cap.max_inline_data;
    case InlineReturned::nothing: return 0;
    case InlineReturned::mlx5: {
        const Mlx5Entry entry(type, cap);
        return entry.bytes - entry.overhead - Mlx5Entry::kInlineHeader;
    }
    case InlineReturned::mlx4: {
        const Mlx4Entry entry(type, cap);
        return entry.places() - 4 * (round_up(entry.places(), 64) / 64);
    }
    case InlineReturned::rxe: return std::max(cap.max_inline_data, cap.max_send_sge * 16);
    case InlineReturned::power_of_two: break;
    }
    return cap.max_inline_data == 0 ? 0 : std::bit_ceil(cap.max_inline_data);
}

// Entries of a list that fit where the inline data does.
std::uint32_t entries_of(InlineReturned rule, ibv_qp_type type, const ibv_qp_cap& cap) {
    switch (rule) {
    case InlineReturned::mlx4: return Mlx4Entry(type, cap).places() / 16;
    case InlineReturned::rxe: return std::max(cap.max_inline_data / 16, cap.max_send_sge);
    default: return cap.max_send_sge;
    }
}

// Logarithm of the units that an entry takes (providers/irdma/uk.c irdma_get_wqe_shift)
std::uint32_t irdma_shift(std::uint32_t entries, std::uint32_t inline_bytes) {
    if (entries <= 1 && inline_bytes <= 8) {
        return 0;
    }
    if (entries < 4 && inline_bytes <= 39) {
        return 1;
    }
    return entries < 8 && inline_bytes <= 101 ? 2 : 3;
}

std::uint32_t depth_of(Depth rule, ibv_qp_type type, const ibv_qp_cap& cap) {
    const std::uint32_t asked = cap.max_send_wr;
    if (asked == 0) {
        return 0;
    }
    switch (rule) {
    case Depth::asked: return asked;
    case Depth::power_of_two: return std::bit_ceil(asked);
    case Depth::one_less: return std::bit_ceil(asked + 1) - 1;
    case Depth::mlx5: {
        const std::uint32_t bytes = Mlx5Entry(type, cap).bytes;
        return std::bit_ceil(asked * bytes) / bytes;
    }
    case Depth::mlx4: {
        const std::uint32_t spare = 2048 / Mlx4Entry(type, cap).bytes + 1;
        return std::bit_ceil(asked + spare) - spare;
    }
    case Depth::irdma: break;
    }
    constexpr std::uint32_t kReserved = 258;
    const std::uint32_t shift = irdma_shift(cap.max_send_sge + 1, cap.max_inline_data);
    return (std::bit_ceil((asked << shift) + kReserved) - kReserved) >> shift;
}

} // namespace

int fit(const DeviceDescription& device, ibv_qp_type type, bool shared, ibv_qp_cap& cap) {
    const auto most_wr = static_cast<std::uint32_t>(device.limit(Rule::max_qp_wr));
    const auto most_sge = static_cast<std::uint32_t>(device.limit(Rule::max_sge));
    if (cap.max_send_wr > most_wr || cap.max_send_sge > most_sge ||
        (!shared && (cap.max_recv_wr > most_wr || cap.max_recv_sge > most_sge)) ||
        cap.max_inline_data > device.rule(Rule::max_inline)) {
        return EINVAL;
    }
    // mlx5_calc_sq_size() counts blocks; the others do not look.
    const auto block = static_cast<std::uint32_t>(device.rule(Rule::entry_block));
    const Mlx5Entry entry(type, cap);
    if (block != 0 &&
        std::bit_ceil(cap.max_send_wr * std::min(entry.bytes, Mlx5Entry::kLongest)) / block >
            most_wr) {
        return EINVAL;
    }
    const auto returned = static_cast<InlineReturned>(device.rule(Rule::inline_returned));
    const std::uint32_t data = inline_of(returned, type, cap);
    const std::uint32_t depth =
        depth_of(static_cast<Depth>(device.rule(Rule::send_depth)), type, cap);
    cap.max_send_sge = entries_of(returned, type, cap);
    cap.max_send_wr = depth;
    cap.max_inline_data = data;
    return 0;
}

int fit_completions(const DeviceDescription& device, std::int64_t wanted) {
    if (wanted <= 0 || wanted > device.rule(Rule::max_cqe)) {
        return 0;
    }
    const auto asked = static_cast<std::uint32_t>(wanted);
    switch (static_cast<Depth>(device.rule(Rule::cqe_depth))) {
    case Depth::power_of_two: return static_cast<int>(std::bit_ceil(asked));
    case Depth::one_less: return static_cast<int>(std::bit_ceil(asked + 1) - 1);
    default: return static_cast<int>(asked);
    }
}

} // namespace adaptib::hca
