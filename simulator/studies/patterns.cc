// SPDX-License-Identifier: BSD-3-Clause
// Communication patterns (patterns.h).
#include "simulator/studies/patterns.h"

#include <bit>
#include <map>
#include <utility>

namespace adaptib::study {

namespace {

constexpr std::uint32_t kReceivedBetweenBarriers = 128;
constexpr int kRepeats = 5;

Pattern empty(std::string_view name, std::uint32_t ranks, std::size_t steps) {
    Pattern pattern;
    pattern.name = name;
    pattern.ranks.assign(ranks, std::vector<Step>(steps));
    return pattern;
}

// Adds a message from `from` to `to`, in that step of both.
void add(Pattern& pattern, std::size_t step, std::uint32_t from, std::uint32_t to, Bytes bytes) {
    pattern.ranks[from][step].sends.push_back({to, bytes});
    pattern.ranks[to][step].receives.push_back({from, bytes});
}

// Makes rounds of one step, with a barrier where it is due; `received` is the number of messages
// that the busiest rank receives in a round.
template <typename Round>
Pattern rounds_of(std::string_view name, std::uint32_t ranks, std::uint32_t rounds,
                  std::uint32_t received, Round round) {
    Pattern pattern = empty(name, ranks, 0);
    const Pattern barrier = dissemination_barrier(ranks);
    std::uint32_t since = 0;
    for (std::uint32_t i = 0; i < rounds; ++i) {
        Pattern one = empty(name, ranks, 1);
        round(one);
        pattern.append(one);
        since += received;
        if (since > kReceivedBetweenBarriers) {
            pattern.append(barrier);
            since = 0;
        }
    }
    return pattern;
}

} // namespace

std::uint64_t Pattern::messages() const {
    std::uint64_t count = 0;
    for (const auto& rank : ranks) {
        for (const Step& step : rank) {
            count += step.sends.size();
        }
    }
    return count;
}

Bytes Pattern::bytes() const {
    Bytes sum = 0;
    for (const auto& rank : ranks) {
        for (const Step& step : rank) {
            for (const Message& send : step.sends) {
                sum += send.bytes;
            }
        }
    }
    return sum;
}

void Pattern::append(const Pattern& next) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        ranks[rank].insert(ranks[rank].end(), next.ranks[rank].begin(), next.ranks[rank].end());
    }
}

Pattern displaced_ring(std::uint32_t ranks, Bytes bytes, std::uint32_t steps) {
    if (steps == 0) {
        steps = ranks - 1;
    }
    Pattern pattern = empty("displaced_ring", ranks, steps);
    for (std::uint32_t step = 0; step < steps; ++step) {
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            add(pattern, step, rank, (rank + 1 + step % (ranks - 1)) % ranks, bytes);
        }
    }
    return pattern;
}

Pattern alltoall_pairwise(std::uint32_t ranks, Bytes bytes) {
    if (!std::has_single_bit(ranks)) {
        Pattern pattern = displaced_ring(ranks, bytes);
        pattern.name = "alltoall";
        return pattern;
    }
    Pattern pattern = empty("alltoall", ranks, ranks - 1);
    for (std::uint32_t step = 1; step < ranks; ++step) {
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            add(pattern, step - 1, rank, rank ^ step, bytes);
        }
    }
    return pattern;
}

Pattern allgather_ring(std::uint32_t ranks, Bytes bytes) {
    Pattern pattern = empty("allgather", ranks, ranks - 1);
    for (std::uint32_t step = 0; step + 1 < ranks; ++step) {
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            add(pattern, step, rank, (rank + 1) % ranks, bytes);
        }
    }
    return pattern;
}

Pattern allreduce_doubling(std::uint32_t ranks, Bytes bytes) {
    const std::uint32_t core = std::bit_floor(ranks);
    const std::uint32_t extra = ranks - core;
    const auto doublings = static_cast<std::size_t>(std::countr_zero(core));
    Pattern pattern = empty("allreduce", ranks, doublings + (extra != 0 ? 2 : 0));
    const std::size_t first = extra != 0 ? 1 : 0;
    for (std::uint32_t rank = 0; rank < extra; ++rank) {
        add(pattern, 0, core + rank, rank, bytes);
        add(pattern, first + doublings, rank, core + rank, bytes);
    }
    for (std::size_t step = 0; step < doublings; ++step) {
        for (std::uint32_t rank = 0; rank < core; ++rank) {
            add(pattern, first + step, rank, rank ^ (1u << step), bytes);
        }
    }
    return pattern;
}

Pattern onetoall(std::uint32_t ranks, Bytes bytes, std::uint32_t rounds) {
    return rounds_of("onetoall", ranks, rounds, 1, [&](Pattern& one) {
        for (std::uint32_t rank = 1; rank < ranks; ++rank) {
            add(one, 0, 0, rank, bytes);
        }
    });
}

Pattern alltoone(std::uint32_t ranks, Bytes bytes, std::uint32_t rounds) {
    return rounds_of("alltoone", ranks, rounds, ranks - 1, [&](Pattern& one) {
        for (std::uint32_t rank = 1; rank < ranks; ++rank) {
            add(one, 0, rank, 0, bytes);
        }
    });
}

Pattern repeat(std::uint32_t ranks, Bytes bytes, std::uint32_t rounds) {
    Pattern pattern = empty("repeat", ranks, 0);
    const Pattern out = onetoall(ranks, bytes, rounds);
    const Pattern in = alltoone(ranks, bytes, rounds);
    for (int i = 0; i < kRepeats; ++i) {
        pattern.append(out);
        pattern.append(in);
    }
    return pattern;
}

Pattern ping_pong(Bytes bytes, std::uint32_t rounds) {
    Pattern pattern = empty("ping_pong", 2, std::size_t{2} * rounds);
    for (std::uint32_t step = 0; step < 2 * rounds; ++step) {
        add(pattern, step, step % 2, 1 - step % 2, bytes);
    }
    return pattern;
}

Pattern stream(Bytes bytes, std::uint32_t window, std::uint32_t rounds, bool both_ways) {
    Pattern pattern = empty("stream", 2, std::size_t{2} * rounds);
    for (std::uint32_t step = 0; step < 2 * rounds; step += 2) {
        for (std::uint32_t i = 0; i < window; ++i) {
            add(pattern, step, 0, 1, bytes);
            if (both_ways) {
                add(pattern, step, 1, 0, bytes);
            }
        }
        add(pattern, step + 1, 1, 0, 4);
        if (both_ways) {
            add(pattern, step + 1, 0, 1, 4);
        }
    }
    return pattern;
}

Pattern dissemination_barrier(std::uint32_t ranks) {
    Pattern pattern = empty("barrier", ranks, static_cast<std::size_t>(std::bit_width(ranks - 1)));
    for (std::size_t step = 0; step < pattern.steps(); ++step) {
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            add(pattern, step, rank, (rank + (1u << step)) % ranks, 0);
        }
    }
    return pattern;
}

namespace {

struct Maker {
    std::string_view name;
    Pattern (*make)(std::uint32_t ranks, Bytes bytes, std::uint32_t rounds);
};

constexpr Maker kMakers[] = {
    {"displaced_ring",
     [](std::uint32_t n, Bytes b, std::uint32_t) { return displaced_ring(n, b); }},
    {"alltoall", [](std::uint32_t n, Bytes b, std::uint32_t) { return alltoall_pairwise(n, b); }},
    {"allgather", [](std::uint32_t n, Bytes b, std::uint32_t) { return allgather_ring(n, b); }},
    {"allreduce", [](std::uint32_t n, Bytes b, std::uint32_t) { return allreduce_doubling(n, b); }},
    {"onetoall", onetoall},
    {"alltoone", alltoone},
    {"repeat", repeat},
};

} // namespace

Pattern make_pattern(std::string_view name, std::uint32_t ranks, Bytes bytes,
                     std::uint32_t rounds) {
    for (const Maker& maker : kMakers) {
        if (maker.name == name) {
            return maker.make(ranks, bytes, rounds);
        }
    }
    return {};
}

std::vector<std::string_view> pattern_names() {
    std::vector<std::string_view> names;
    for (const Maker& maker : kMakers) {
        names.push_back(maker.name);
    }
    return names;
}

namespace {

std::string text_of(std::size_t rank, std::size_t step, const char* what) {
    return "rank " + std::to_string(rank) + ", step " + std::to_string(step) + ": " + what;
}

// The sizes of one step's messages by (source, destination), in order.
using Sizes = std::map<std::pair<std::size_t, std::size_t>, std::vector<Bytes>>;

std::string difference(std::size_t step, const Sizes& sent, const Sizes& received) {
    for (const auto& [pair, sizes] : sent) {
        const auto found = received.find(pair);
        if (found == received.end() || found->second != sizes) {
            return text_of(pair.first, step, "sends what is not received");
        }
    }
    for (const auto& [pair, sizes] : received) {
        if (!sent.contains(pair)) {
            return text_of(pair.second, step, "receives what is not sent");
        }
    }
    return {};
}

std::string problem_of_step(const Pattern& pattern, std::size_t step) {
    Sizes sent;
    Sizes received;
    for (std::size_t rank = 0; rank < pattern.size(); ++rank) {
        const Step& here = pattern.ranks[rank][step];
        for (const Message& send : here.sends) {
            sent[{rank, send.peer}].push_back(send.bytes);
            if (send.peer >= pattern.size() || send.peer == rank) {
                return text_of(rank, step, "sends to a rank that is none");
            }
        }
        for (const Message& receive : here.receives) {
            received[{receive.peer, rank}].push_back(receive.bytes);
        }
    }
    return difference(step, sent, received);
}

} // namespace

std::string problem_of(const Pattern& pattern) {
    for (std::size_t rank = 0; rank < pattern.size(); ++rank) {
        if (pattern.ranks[rank].size() != pattern.steps()) {
            return text_of(rank, 0, "not as many steps as rank 0");
        }
    }
    for (std::size_t step = 0; step < pattern.steps(); ++step) {
        if (std::string text = problem_of_step(pattern, step); !text.empty()) {
            return text;
        }
    }
    return {};
}

} // namespace adaptib::study
