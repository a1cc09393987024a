// SPDX-License-Identifier: BSD-3-Clause
// The wire format (base/wire.h) of the messages that make, repair and end connections.
// May touch: base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/wire.h"

namespace adaptib {

// Flags of connect_request. Without the first it is one of the connections made at job start.
constexpr std::uint8_t kConnectNeeded = 1;   // there is traffic for it
constexpr std::uint8_t kConnectAwaited = 2;  // a large message or a one-sided operation waits
constexpr std::uint8_t kConnectRequired = 4; // a put or get waits, and cannot go another way
constexpr Bytes kMeasureBytes = 4 * kKiB;

struct ConnectSubchannel {
    std::uint8_t rail; // the sender's rail
    std::uint8_t to;   // the receiver's rail
    std::uint8_t path; // index of the path between the two rails
    // 1: the sender's device may place the packets of a write in any order. A write into the ring
    // that is longer than one packet of the path may then be seen before it is complete.
    std::uint8_t unordered;
    std::uint32_t qp; // if access_key is set: the rail's DC target
    std::uint32_t psn;
    std::uint32_t memory_key; // of the sender's ring and credit, over this rail
};

// The three handshake messages (Yu, Gao, Panda, section 4.1) share one body.
struct ConnectBody {
    std::uint32_t connection;       // sequence number of the sender's attempt
    std::uint32_t answers;          // reply, confirm: the attempt of the other side
    std::uint32_t subchannel_count; // 0, in a request: the sender goes on without a connection
    std::uint32_t ring_bytes;       // 0: no ring is offered
    // Request: the sender's attempt whose connection it has fenced and now replaces; 0: none.
    std::uint32_t replaces;
    std::uint32_t expected;     // sequence number of the next message that the sender expects
    std::uint64_t ring_address; // where the other side writes its messages
    // The other side writes there how much of our messages it has consumed: its count, in units.
    std::uint64_t credit_address;
    // Key of the sender's DC targets; 0: the connection has queue pairs of its own.
    std::uint64_t access_key;
    // kMeasureBytes that the other side may write over at any time with the ring's key; 0: none.
    std::uint64_t measure_address;
    std::uint32_t key_epoch; // of the sender, 0..255
    std::uint32_t pad;
    ConnectSubchannel subchannels[kMaxSubchannels]; // only the first of them cross the wire
};

constexpr Bytes connect_bytes(std::uint32_t subchannel_count) {
    return offsetof(ConnectBody, subchannels) + subchannel_count * sizeof(ConnectSubchannel);
}

// Body of the other messages about a connection.
struct ConnectNote {
    std::uint32_t connection; // close, keep: the sender's attempt that became the connection
    std::uint32_t answers;    // attempt of the other side; refuse: the attempt that is refused
    // close: counts the connection's, of the sender; keep: the one answered; refuse: RefusalReason.
    std::uint32_t number;
    std::uint32_t expected; // refuse: as ConnectBody's
};

// Reads the body of connect_request, _reply or _confirm, whose length varies.
inline ConnectBody read_connect(const MessageHeader& header, const std::byte* from) {
    ConnectBody body{};
    std::memcpy(&body, from, header.length);
    return body;
}

// Checks the ranges of the body's fields, which its type alone does not bound.
bool check_body(const ConnectBody& body);

} // namespace adaptib
