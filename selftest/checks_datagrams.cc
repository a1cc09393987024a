// SPDX-License-Identifier: BSD-3-Clause
// Checks of datagrams, which show lost packets, and of the time that packets take.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <iomanip>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "adaptib_config.h"
#include "fabric/await_handle.h"
#if ADAPTIB_HAVE_VERBS
#include "fabric/verbs/port.h"
#endif
#include "selftest/checks.h"

namespace adaptib::selftest {

namespace {

constexpr std::uint64_t kWindow = 64;
constexpr std::uint64_t kWindows = 128;
constexpr std::uint64_t kDatagrams = kWindow * kWindows;
constexpr Bytes kDatagram = 256;
constexpr Nanoseconds kLate{60'000'000};
constexpr std::uint64_t kLostOfThousand = 10; // that many are a fault; fewer are worth a note

constexpr Nanoseconds kBlocked{500'000'000}; // the system waits a second for ARP

std::string milliseconds(Nanoseconds time) {
    std::ostringstream out;
    out << std::fixed << std::setprecision(time.count() < 1'000'000 ? 3 : 0)
        << 1e-6 * static_cast<double>(time.count()) << " ms";
    return out.str();
}

// Makes an Ethernet port's address that of another host of the network, which there should not be.
// False: the port is InfiniBand's.
bool change_host([[maybe_unused]] RailAddress& address) {
#if ADAPTIB_HAVE_VERBS
    verbs::WireAddress wire{};
    if (verbs::decode_address(address, wire) && wire.link_layer == IBV_LINK_LAYER_ETHERNET) {
        std::uint8_t& host = wire.gid[sizeof wire.gid - 1];
        host = host < 128 ? 251 : 3;
        std::memcpy(address.bytes.data(), &wire, sizeof wire);
        return true;
    }
#endif
    return false;
}

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
    std::uint64_t in_window = 0; // of the present window
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
    arrivals.in_window += !seen[number] && number >= first ? 1 : 0;
    arrivals.good += seen[number] ? 0 : 1;
    seen[number] = true;
    link.post_receive(done.wr_id, offset, kDatagram);
}

Outcome judge(const Arrivals& arrivals) {
    const std::uint64_t lost = kDatagrams - arrivals.good;
    if (arrivals.twice > 0) {
        return {Verdict::note, std::to_string(arrivals.twice) + " datagrams arrived twice"};
    }
    if (lost == 0) {
        return {};
    }
    const std::string text = std::to_string(lost) + " of " + std::to_string(kDatagrams) +
                             " datagrams were lost: look at the link's error counters";
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
        WorkCompletion done;
        arrivals.in_window = 0;
        while (arrivals.in_window < kWindow && link.received_within(kLate, done)) {
            take(link, done, window * kWindow, seen, arrivals);
        }
    }
    context.partner.meet();
    WorkCompletion done;
    while (!context.initiator && arrivals.good < kDatagrams && link.received_within(kLate, done)) {
        take(link, done, 0, seen, arrivals);
    }
    return context.initiator ? Outcome{} : judge(arrivals);
}

// Asks for a handle to the partner's port, and on Ethernet for one to an address that answers no
// ARP or neighbor discovery, for which no call may wait.
Outcome check_address_handles(Context& context) {
    if (!context.initiator) {
        return {};
    }
    const MonotonicClock clock;
    Nanoseconds begin = clock.now();
    std::unique_ptr<AddressHandle> handle;
    const RailAddress& partner = context.remote.address;
    const std::uint32_t last = context.rail.paths_to(partner) - 1;
    require(await_ah(context.rail, context.rail.path_to(partner, last), handle),
            "an address handle", &context.rail);
    const std::string made = "made in " + milliseconds(clock.now() - begin);
    RailAddress nobody = partner;
    if (!change_host(nobody)) {
        return {Verdict::ok, made};
    }
    begin = clock.now();
    Nanoseconds longest{0};
    Status status = kNotYet;
    while (status == kNotYet && clock.now() - begin < kPatience) {
        const Nanoseconds call = clock.now();
        status = context.rail.create_ah(context.rail.path_to(nobody, 0), handle);
        longest = std::max(longest, clock.now() - call);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (longest > kBlocked) {
        throw Failed("a call for an address that does not answer took " + milliseconds(longest));
    }
    const std::string after = milliseconds(clock.now() - begin);
    if (status == kNotYet) {
        return {Verdict::note, made + "; after " + after +
                                   " the system still waits for an address that does not answer"};
    }
    return {Verdict::ok, made + (status.ok() ? "; another address of the network answered"
                                             : "; an address that does not answer is given up "
                                               "after " +
                                                   after)};
}

Outcome check_round_trip(Context& context) {
    constexpr std::uint64_t kWarm = 50;
    constexpr std::uint64_t kCount = 400;
    constexpr double kSlow = 2500; // microseconds, far above any network in one building
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
