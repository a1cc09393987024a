// SPDX-License-Identifier: BSD-3-Clause
// Checks of datagrams, which show lost packets, and of the time that packets take.
#include <algorithm>
#include <cstring>
#include <vector>

#include "selftest/checks.h"

namespace adaptib::selftest {

namespace {

constexpr std::uint64_t kWindow = 64;
constexpr std::uint64_t kWindows = 128;
constexpr std::uint64_t kDatagrams = kWindow * kWindows;
constexpr Bytes kDatagram = 256;
constexpr Nanoseconds kLate{20'000'000};
constexpr std::uint64_t kLostOfThousand = 10; // that many are a fault; fewer are worth a note

void send_window(Link& link, std::uint64_t first) {
    for (std::uint64_t i = 0; i < kWindow; ++i) {
        std::byte* const at = link.memory() + i * kDatagram;
        fill(at, kDatagram, first + i);
        const std::uint64_t number = first + i;
        std::memcpy(at, &number, 8);
        link.post(Opcode::send, i, link.gather(i * kDatagram, kDatagram));
    }
    for (std::uint64_t i = 0; i < kWindow; ++i) {
        require_success(link.sent(), "a datagram");
    }
}

// Arrived datagrams of the window that begins with `first`.
struct Arrivals {
    std::uint64_t good = 0;
    std::uint64_t late = 0;
    std::uint64_t twice = 0;
};

void take(Link& link, const WorkCompletion& done, std::uint64_t first, std::vector<bool>& seen,
          Arrivals& arrivals) {
    require_success(done, "a receive of a datagram");
    const Bytes offset = done.wr_id * kDatagram;
    std::uint64_t number = 0;
    std::memcpy(&number, link.memory() + offset, 8);
    std::vector<std::byte> expected(kDatagram);
    fill(expected.data(), kDatagram, number);
    std::memcpy(expected.data(), &number, 8);
    if (done.length != kDatagram || number >= kDatagrams ||
        std::memcmp(expected.data(), link.memory() + offset, kDatagram) != 0) {
        throw Failed("a datagram arrived with wrong data");
    }
    arrivals.twice += seen[number] ? 1 : 0;
    arrivals.late += number < first ? 1 : 0;
    arrivals.good += seen[number] ? 0 : 1;
    seen[number] = true;
    link.post_receive(done.wr_id, offset, kDatagram);
}

Outcome judge(const Arrivals& arrivals) {
    const std::uint64_t lost = kDatagrams - arrivals.good;
    if (arrivals.twice > 0) {
        return {Verdict::note, std::to_string(arrivals.twice) + " datagrams arrived twice"};
    }
    if (lost == 0 && arrivals.late == 0) {
        return {};
    }
    const std::string text = std::to_string(lost) + " of " + std::to_string(kDatagrams) +
                             " datagrams were lost, " + std::to_string(arrivals.late) +
                             " came more than 20 ms late: look at the link's error counters";
    const bool many = lost * 1000 >= kDatagrams * kLostOfThousand;
    return {many ? Verdict::failed : Verdict::note, text};
}

// Half of a round trip in microseconds: median and the 99th of a hundred.
struct RoundTrip {
    double median = 0;
    double late = 0;
};

void answer_round_trips(Link& link, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
        require_success(link.received(), "a receive");
        link.post_receive(0, 0, 64);
        link.run(Opcode::send, link.gather(64, 8));
    }
}

RoundTrip measure_round_trips(Link& link, std::uint64_t count) {
    const MonotonicClock clock;
    std::vector<Nanoseconds> times;
    for (std::uint64_t i = 0; i < count; ++i) {
        const Nanoseconds begin = clock.now();
        link.run(Opcode::send, link.gather(64, 8));
        require_success(link.received(), "a receive");
        times.push_back(clock.now() - begin);
        link.post_receive(0, 0, 64);
    }
    std::sort(times.begin(), times.end());
    return {static_cast<double>(times[times.size() / 2].count()) / 2000,
            static_cast<double>(times[times.size() * 99 / 100].count()) / 2000};
}

std::string microseconds(double value) { return std::to_string(value).substr(0, 6) + " us"; }

} // namespace

Outcome check_datagrams(Context& context) {
    LinkOptions options;
    options.type = QpType::ud;
    options.receive_depth = 2 * kWindow;
    Link link(context.rail, context.remote, context.partner, options);
    Arrivals arrivals;
    std::vector<bool> seen(kDatagrams);
    for (std::uint64_t i = 0; !context.initiator && i < 2 * kWindow; ++i) {
        link.post_receive(i, i * kDatagram, kDatagram);
    }
    for (std::uint64_t window = 0; window < kWindows; ++window) {
        context.partner.meet();
        if (context.initiator) {
            send_window(link, window * kWindow);
            continue;
        }
        const std::uint64_t wanted = arrivals.good + kWindow;
        WorkCompletion done;
        while (arrivals.good < wanted && link.received_within(kLate, done)) {
            take(link, done, window * kWindow, seen, arrivals);
        }
    }
    context.partner.meet();
    return context.initiator ? Outcome{} : judge(arrivals);
}

Outcome check_round_trip(Context& context) {
    constexpr std::uint64_t kWarm = 50;
    constexpr std::uint64_t kCount = 400;
    constexpr double kSlow = 1000; // microseconds, far above any network in one building
    Link link(context.rail, context.remote, context.partner);
    link.post_receive(0, 0, 64);
    context.partner.meet();
    if (!context.initiator) {
        answer_round_trips(link, kWarm + kCount);
        context.partner.meet();
        return {};
    }
    measure_round_trips(link, kWarm);
    const RoundTrip measured = measure_round_trips(link, kCount);
    context.partner.meet();
    const std::string text = "half a round trip of 8 bytes takes " + microseconds(measured.median) +
                             ", 1 of 100 more than " + microseconds(measured.late);
    if (measured.median > kSlow) {
        return {Verdict::failed, "packets are late: " + text};
    }
    return {Verdict::ok, text};
}

} // namespace adaptib::selftest
