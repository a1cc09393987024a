// SPDX-License-Identifier: BSD-3-Clause
// Checks of data and of memory.
#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "selftest/checks.h"

namespace adaptib::selftest {

namespace {

constexpr Bytes kHalf = kLinkMemory / 2;
constexpr std::array<Bytes, 6> kLengths{0, 1, 64, 4097, 65536, 300000};

using Word = std::atomic_ref<std::uint64_t>;

std::uint64_t& word_at(std::byte* memory, Bytes offset) {
    return *reinterpret_cast<std::uint64_t*>(memory + offset);
}

std::uint64_t load(std::byte* memory, Bytes offset) {
    return Word(word_at(memory, offset)).load(std::memory_order_acquire);
}

// Waits until the word has the value; false: it does not come.
bool comes(std::byte* memory, Bytes offset, std::uint64_t value) {
    const MonotonicClock clock;
    const Nanoseconds end = clock.now() + kPatience;
    while (load(memory, offset) != value) {
        if (clock.now() >= end) {
            return false;
        }
        std::this_thread::yield();
    }
    return true;
}

// The initiator's part of check_path with one length.
void move_data(Context& context, Link& link, Bytes length, std::uint64_t seed) {
    const std::string size = std::to_string(length) + " bytes";
    fill(link.memory(), length, seed);
    context.partner.meet(); // the receive is posted
    link.run(Opcode::send, link.gather(0, length));
    context.partner.meet(); // it was checked
    fill(link.memory(), length, seed + 1);
    link.run(Opcode::write, link.gather(0, length));
    context.partner.meet(); // written
    context.partner.meet(); // it was checked, and other data lies there
    link.run(Opcode::read, link.gather(kHalf, length));
    require_bytes(link.memory() + kHalf, length, seed + 2, "a read of " + size);
}

// The target's.
void expect_data(Context& context, Link& link, Bytes length, std::uint64_t seed) {
    const std::string size = std::to_string(length) + " bytes";
    link.post_receive(1, 0, kHalf);
    context.partner.meet();
    const WorkCompletion done = link.received();
    require_success(done, "a receive");
    if (done.length != length) {
        throw Failed("a message of " + size + " arrived as " + std::to_string(done.length));
    }
    require_bytes(link.memory(), length, seed, "a message of " + size);
    context.partner.meet();
    context.partner.meet();
    require_bytes(link.memory(), length, seed + 1, "a write of " + size);
    fill(link.memory(), length, seed + 2);
    context.partner.meet();
}

// Writes of a round number in each word, which the target looks at while they arrive. The target
// answers each with a write of the number. Returns how many it saw end before the rest was there.
constexpr std::uint64_t kRounds = 400;
constexpr Bytes kAnswer = kLinkMemory - 8;

void write_rounds(Link& link, Bytes length) {
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
        std::fill_n(&word_at(link.memory(), 0), length / 8, round);
        link.run(Opcode::write, link.gather(0, length));
        if (!comes(link.memory(), kAnswer, round)) {
            throw Failed("the target has not seen a write whose completion is there");
        }
    }
}

std::uint64_t watch_rounds(Link& link, Bytes length) {
    std::uint64_t early = 0;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
        if (!comes(link.memory(), length - 8, round)) {
            throw Failed("a write has not arrived");
        }
        bool whole = true;
        for (Bytes at = 0; at < length; at += 8) {
            whole = whole && load(link.memory(), at) == round;
        }
        early += whole ? 0 : 1;
        for (Bytes at = 0; at < length; at += 8) {
            if (!comes(link.memory(), at, round)) {
                throw Failed("a part of a write has not arrived");
            }
        }
        word_at(link.memory(), kHalf) = round;
        link.run(Opcode::write, link.gather(kHalf, 8), kAnswer);
    }
    return early;
}

Outcome judge_placement(const Context& context, std::uint64_t early) {
    const std::string seen = std::to_string(early) + " of " + std::to_string(kRounds) +
                             " writes showed their last word before the rest";
    if (context.rail.info().places_in_order && early > 0) {
        return {Verdict::failed, "the device places the packets of a write out of order and does "
                                 "not say so (" +
                                     seen +
                                     "): run jobs with opal_common_adaptib_ring_in_order=no"};
    }
    if (!context.rail.info().places_in_order) {
        return {Verdict::note, "the device says that it places the packets of a write out of "
                               "order; " +
                                   seen + ". Rings take messages of one packet only"};
    }
    return {Verdict::ok, ""};
}

void add_words(Link& link, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
        const Gather old = link.gather(kHalf, 8);
        SendWork work;
        work.opcode = Opcode::fetch_add;
        work.gather = &old;
        work.gather_count = 1;
        work.remote_address = link.remote_address();
        work.remote_key = link.remote_key();
        work.compare_add = 1;
        link.post(work);
        require_success(link.sent(), "fetch_add");
    }
}

void swap_word(Link& link, std::uint64_t expected, std::uint64_t value) {
    const Gather old = link.gather(kHalf, 8);
    SendWork work;
    work.opcode = Opcode::compare_swap;
    work.gather = &old;
    work.gather_count = 1;
    work.remote_address = link.remote_address(8);
    work.remote_key = link.remote_key();
    work.compare_add = expected;
    work.swap = value;
    link.post(work);
    require_success(link.sent(), "compare_swap");
    if (word_at(link.memory(), kHalf) != expected) {
        throw Failed("compare_swap returned a wrong old value");
    }
}

std::uint32_t announced_depth(const RailInfo& info) {
    return std::min({info.max_send_depth, info.max_cq_depth - 16, std::uint32_t{8192}});
}

// Halves the depth until a queue pair gets it: some devices count blocks, of which a request takes
// several.
std::uint32_t given_depth(Rail& rail, std::uint32_t depth) {
    std::unique_ptr<CompletionQueue> queue;
    require(rail.create_cq(depth + 16, queue), "a completion queue", &rail);
    QpInit init;
    init.send_cq = init.receive_cq = queue.get();
    init.receive_depth = 128;
    for (; depth > 0; depth /= 2) {
        std::unique_ptr<QueuePair> qp;
        init.send_depth = depth;
        if (rail.create_qp(init, qp).ok()) {
            return depth;
        }
    }
    throw Failed("a queue pair is refused, of whatever depth");
}

} // namespace

Outcome check_path(Context& context) {
    Link link(context.rail, context.remote, context.partner, {.path = context.path});
    for (const Bytes length : kLengths) {
        if (context.initiator) {
            move_data(context, link, length, 10 * length);
        } else {
            expect_data(context, link, length, 10 * length);
        }
        context.partner.meet();
    }
    return {};
}

Outcome check_placement(Context& context) {
    Link link(context.rail, context.remote, context.partner);
    std::uint64_t early = 0;
    for (const Bytes packets : {Bytes{3}, Bytes{7}}) {
        const Bytes length = packets * context.rail.info().datagram_bytes / 64 * 64;
        const Bytes common = std::min(length, context.partner.exchange(length));
        std::fill_n(&word_at(link.memory(), 0), kLinkMemory / 8, 0);
        context.partner.meet();
        if (context.initiator) {
            write_rounds(link, common);
        } else {
            early = std::max(early, watch_rounds(link, common));
        }
        context.partner.meet();
    }
    return context.initiator ? Outcome{} : judge_placement(context, early);
}

// Two short writes in a row. The target, which polls for the second, answers each round.
Outcome check_write_order(Context& context) {
    Link link(context.rail, context.remote, context.partner);
    std::uint64_t early = 0;
    std::fill_n(&word_at(link.memory(), 0), kLinkMemory / 8, 0);
    context.partner.meet();
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
        if (!context.initiator) {
            if (!comes(link.memory(), 64, round)) {
                throw Failed("a write has not arrived");
            }
            early += load(link.memory(), 0) == round ? 0 : 1;
            word_at(link.memory(), kHalf) = round;
            link.run(Opcode::write, link.gather(kHalf, 8), kAnswer);
            continue;
        }
        word_at(link.memory(), kHalf) = round;
        link.post(Opcode::write, 1, link.gather(kHalf, 8), 0);
        link.post(Opcode::write, 2, link.gather(kHalf, 8), 64);
        require_success(link.sent(), "a write");
        require_success(link.sent(), "a write");
        if (!comes(link.memory(), kAnswer, round)) {
            throw Failed("the target has not seen a write whose completion is there");
        }
    }
    context.partner.meet();
    if (early == 0) {
        return {};
    }
    return {Verdict::note, "a write may become visible before one that was posted earlier (" +
                               std::to_string(early) + " of " + std::to_string(kRounds) +
                               "); adaptib does not rely on it"};
}

Outcome check_immediate(Context& context) {
    if (!context.rail.info().has(Capability::write_imm)) {
        return {Verdict::skipped, "the device has no write with immediate"};
    }
    constexpr std::uint32_t kValue = 0x12345678;
    Link link(context.rail, context.remote, context.partner);
    if (!context.initiator) {
        link.post_receive(7, 0, 8);
        context.partner.meet();
        const WorkCompletion done = link.received();
        require_success(done, "a receive");
        if (done.immediate != kValue || done.wr_id != 7) {
            throw Failed("a write arrived with a wrong immediate value");
        }
        require_bytes(link.memory() + kHalf, 5000, 3, "a write with immediate");
        return {};
    }
    context.partner.meet();
    fill(link.memory(), 5000, 3);
    const Gather source = link.gather(0, 5000);
    SendWork work;
    work.opcode = Opcode::write_imm;
    work.gather = &source;
    work.gather_count = 1;
    work.immediate = kValue;
    work.remote_address = link.remote_address(kHalf);
    work.remote_key = link.remote_key();
    link.post(work);
    require_success(link.sent(), "a write with immediate");
    return {};
}

// As much inline data, and as many pieces, as the device says it takes.
Outcome check_limits(Context& context) {
    const std::uint32_t pieces = std::clamp(context.rail.info().max_gather, 1u, 30u);
    const Bytes inlined = std::min<Bytes>(context.rail.info().inline_bytes, 512);
    LinkOptions options;
    options.gather = pieces;
    options.inline_bytes = inlined;
    Link link(context.rail, context.remote, context.partner, options);
    const Bytes length = context.partner.exchange(Bytes{pieces} * 64);
    if (!context.initiator) {
        context.partner.meet();
        require_bytes(link.memory(), length, 5, "a write from several pieces of memory");
        require_bytes(link.memory() + kHalf, context.partner.exchange(Bytes{0}), 6,
                      "a write of inline data");
        return {};
    }
    std::vector<Gather> gathers;
    for (std::uint32_t piece = 0; piece < pieces; ++piece) {
        gathers.push_back(link.gather(Bytes{piece} * 128, 64));
    }
    std::vector<std::byte> data(Bytes{pieces} * 64);
    fill(data.data(), data.size(), 5);
    for (std::uint32_t piece = 0; piece < pieces; ++piece) {
        std::copy_n(data.data() + Bytes{piece} * 64, 64, link.memory() + Bytes{piece} * 128);
    }
    SendWork work;
    work.opcode = Opcode::write;
    work.gather = gathers.data();
    work.gather_count = pieces;
    work.remote_address = link.remote_address();
    work.remote_key = link.remote_key();
    link.post(work);
    require_success(link.sent(), "a write from " + std::to_string(pieces) + " pieces of memory");
    if (inlined > 0) {
        fill(data.data(), std::min<Bytes>(inlined, data.size()), 6);
        const Gather source{data.data(), std::min<Bytes>(inlined, data.size()), 0};
        work.gather = &source;
        work.gather_count = 1;
        work.flags = kInline;
        work.remote_address = link.remote_address(kHalf);
        link.post(work);
        require_success(link.sent(), "a write of inline data");
    }
    context.partner.meet();
    context.partner.exchange(inlined > 0 ? std::min<Bytes>(inlined, data.size()) : Bytes{0});
    return {};
}

// As many requests at a time as the device says it takes, or as it really gives.
Outcome check_depth(Context& context) {
    const std::uint32_t announced = announced_depth(context.rail.info());
    const std::uint32_t given = given_depth(context.rail, announced);
    const std::uint32_t depth = std::min(given, context.partner.exchange(given));
    LinkOptions options;
    options.send_depth = depth;
    Link link(context.rail, context.remote, context.partner, options);
    if (context.initiator) {
        for (std::uint32_t i = 0; i < depth; ++i) {
            link.post(Opcode::write, i, link.gather(Bytes{i} % 1024 * 8, 8), Bytes{i} % 1024 * 8);
        }
        for (std::uint32_t i = 0; i < depth; ++i) {
            const WorkCompletion done = link.sent();
            require_success(done, "one of " + std::to_string(depth) + " writes");
            if (done.wr_id != i) {
                throw Failed("completions of one queue pair come out of order");
            }
        }
    }
    context.partner.meet();
    return given == announced
               ? Outcome{}
               : Outcome{Verdict::note, "a queue pair takes " + std::to_string(given) +
                                            " requests, not the " + std::to_string(announced) +
                                            " that the device announces"};
}

// The target's processor adds to the same word meanwhile, where that is allowed to go wrong.
Outcome check_atomics(Context& context) {
    constexpr std::uint64_t kAdds = 500;
    if (!context.rail.info().has(Capability::atomic64)) {
        return {Verdict::skipped, "the device has no atomics"};
    }
    Link link(context.rail, context.remote, context.partner);
    word_at(link.memory(), 0) = word_at(link.memory(), 8) = 0;
    context.partner.meet();
    if (context.initiator) {
        add_words(link, kAdds);
        swap_word(link, 0, 7);
        swap_word(link, 7, 9);
        context.partner.meet();
        context.partner.meet();
        add_words(link, kAdds);
        context.partner.meet();
        return {};
    }
    context.partner.meet();
    if (load(link.memory(), 0) != kAdds || load(link.memory(), 8) != 9) {
        throw Failed("atomics lost an update");
    }
    context.partner.meet();
    constexpr std::uint64_t kOwn = 20000;
    for (std::uint64_t own = 1; own <= kOwn; ++own) {
        Word(word_at(link.memory(), 0)).fetch_add(1);
        if (own % 64 == 0) {
            std::this_thread::yield();
        }
    }
    context.partner.meet();
    const std::uint64_t all = load(link.memory(), 0);
    const std::uint64_t expected = 2 * kAdds + kOwn;
    if (all == expected) {
        return {};
    }
    return {Verdict::note, "the device's atomics are not atomic with the processor's: " +
                               std::to_string(expected - all) +
                               " updates were lost; adaptib does not rely on it"};
}

const std::vector<Check>& checks() {
    static const std::vector<Check> all{
        {"placement", check_placement},
        {"write_order", check_write_order},
        {"immediate", check_immediate},
        {"limits", check_limits},
        {"depth", check_depth},
        {"atomics", check_atomics},
        {"datagrams", check_datagrams},
        {"address_handles", check_address_handles},
        {"round_trip", check_round_trip},
        {"wrong_key", check_wrong_key},
        {"not_ready", check_not_ready},
        {"lost_peer", check_lost_peer},
        {"shared_receives", check_shared_receives},
        {"dynamic_connections", check_dynamic},
        {"path_migration", check_migration},
    };
    return all;
}

} // namespace adaptib::selftest
