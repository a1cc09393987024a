// SPDX-License-Identifier: BSD-3-Clause
// The wire format: what crosses a fabric, byte by byte. Shared by whoever writes and whoever reads.
//
// A message is a MessageHeader, a body that its type defines, and for eager messages the payload.
//
//     ring record      | header 24 | body+payload, `length` bytes | pad | (tail 8) |   whole 32-byte units
//                      | first word 8 | payload |   a brief one (channel/ring.h)
//     datagram         | DatagramHeader 40 | header 24 | body+payload, `length` bytes |
//
// Byte order is the host's (both ends are checked to agree: the address's magic). Nothing that arrives
// is used before check_header / read_body have accepted it; what they refuse is counted and dropped.
// May touch: base/ only.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/stripe.h"
#include "base/units.h"

namespace adaptib {

// Raised with every change of anything in this file or in base/address.h.
constexpr std::uint16_t kWireVersion = 29;

constexpr std::uint32_t kMaxRails = 8;
constexpr std::uint32_t kMaxSubchannels =
    16;                                     // of a connection: one for each path between two rails
constexpr std::uint32_t kMostAsked = 65536; // bytes of an operation that the target is asked for
constexpr std::uint32_t kMinRingBytes = 4096;
constexpr std::uint32_t kMaxRingBytes = 16 * 1024 * 1024;

enum class MessageType : std::uint8_t {
    none = 0,      // an empty ring line
    skip,          // ring only: go on at the ring's first line
    eager,         // payload
    eager_sync,    // SyncBody, payload: answer with sync_ack when matched
    sync_ack,      // IdBody
    rendezvous,    // RendezvousBody: request-to-send
    clear_to_send, // ClearBody: write here (put), or send blocks (packed source); flags: kClearPush
    block,         // BlockBody: a packed block can be read
    block_done,    // BlockDoneBody
    finish,        // IdBody: the receiver has read all
    written,       // WrittenBody: the sender has written all
    connect_request, // ConnectBody; not sequenced; flags: kConnectNeeded, ..Awaited, ..Required
    connect_reply,   // ConnectBody; not sequenced
    connect_confirm, // ConnectBody; not sequenced
    goodbye,         // IdBody, the goodbye's number; flags: said, answered or revoked
    active,          // payload for the listener; flags: its tag
    fragment,        // FragmentBody, payload: a part of an announced message (kClearPush)
    connect_refuse,  // ConnectNote; not sequenced: no room for another connection, ask again later
    connect_close, // ConnectNote; not sequenced: the connection is not needed, nothing is under way
    connect_keep,  // ConnectNote; not sequenced: it is needed
    connect_yield, // ConnectNote; not sequenced: others need it; nothing new goes on it, it is closed
    active_part,   // payload; the rest follows in further parts and, at last, an active message
    operate,       // OperateBody, flags the Opcode, of a write the payload: do it for the sender
    atomic,        // AtomicBody: carry it out for the sender, and answer
    atomic_done,   // AtomicDoneBody
    share,         // ShareBody: copy a part of it
    allowance,     // nothing; flags, Allowance: what it takes of messages to be matched
    probe,         // ProbeBody; neither sequenced nor numbered: does this path work?
    probe_answer,  // ProbeBody; likewise: it does, this way; over the same path
    probe_thanks,  // ProbeBody; likewise: and the other way
    life_question, // LifeBody; likewise, to a responder: does this path work, and do you live?
    life_answer,   // LifeBody; likewise: yes; to who asked, over the same path
    count_,
};

constexpr bool is_sequenced(MessageType type) {
    return (type < MessageType::connect_request || type > MessageType::connect_confirm) &&
           (type < MessageType::connect_refuse || type > MessageType::connect_yield) &&
           type < MessageType::probe;
}

// Only as a datagram, and over a path of its own.
constexpr bool is_probe(MessageType type) {
    return type >= MessageType::probe && type <= MessageType::life_answer;
}

constexpr std::uint16_t kHeaderMagic = 0xad1b;

// Field order: the first 8 bytes are the word that a ring's reader polls; it is never zero.
struct alignas(8) MessageHeader {
    MessageType type = MessageType::none;
    std::uint8_t flags = 0;
    std::uint16_t magic = kHeaderMagic;
    std::uint32_t length = 0;   // bytes of body and payload that follow
    std::uint32_t sequence = 0; // of the peer (PSN of the dissertation, 4.2.2)
    std::uint32_t context = 0;  // envelope, of eager* and rendezvous
    std::int32_t source = 0;
    std::int32_t tag = 0;

    // The first 8 bytes as one word, put together in a register: reading back as one what has just been
    // stored in pieces would wait for every earlier store of the processor.
    std::uint64_t head_word() const {
        static_assert(std::endian::native == std::endian::little,
                      "adaptib is not written for big-endian processors");
        return static_cast<std::uint64_t>(type) | (std::uint64_t{flags} << 8) |
               (std::uint64_t{magic} << 16) | (std::uint64_t{length} << 32);
    }
};
static_assert(sizeof(MessageHeader) == 24 && std::is_trivially_copyable_v<MessageHeader>);

struct alignas(8) DatagramHeader {
    std::uint16_t magic = kHeaderMagic;
    std::uint8_t version = kWireVersion;
    std::uint8_t rail = 0;        // the sender's, as it published them, that this was sent over
    std::uint32_t number = 0;     // of this sender's to this target, where datagrams get lost
    std::uint64_t target_key = 0; // the random key that the target published
    std::uint64_t source = 0;     // the sender's process name
    std::uint64_t source_key = 0; // the key that the sender published
    // Then also what the sender has had from the target: all numbers before the first, and, bit i, that
    // number + 1 + i.
    std::uint32_t expected = 0;
    std::uint32_t arrived = 0;
};
static_assert(sizeof(DatagramHeader) == 40 && kWireVersion < 256);

// ---------------------------------------------------------------------------------------------------
// Bodies

struct SyncBody {
    std::uint64_t send_id;
};

struct IdBody {
    std::uint64_t id;
};

// Flags of goodbye.
constexpr std::uint8_t kGoodbye = 0;
constexpr std::uint8_t kGoodbyeAnswer = 1;
constexpr std::uint8_t kGoodbyeRevoked = 2;

enum class SourceKind : std::uint8_t {
    direct = 1, // all bytes lie at `address`
    packed = 2, // the sender packs blocks on demand; address and keys are zero
};

struct RendezvousBody {
    std::uint64_t bytes;
    std::uint64_t send_id;
    std::uint64_t address;
    SourceKind kind;
    Marker marker; // how the sender waits: who reads plans by it
    std::uint16_t reserved;
    std::uint32_t key_count;       // rails with a key: 0..kMaxRails
    std::uint32_t keys[kMaxRails]; // only those that there are cross the wire
};

constexpr Bytes rendezvous_bytes(std::uint32_t key_count) {
    return offsetof(RendezvousBody, keys) + key_count * sizeof(std::uint32_t);
}

struct ClearBody {
    std::uint64_t send_id;
    std::uint64_t receive_id;
    std::uint64_t wanted;  // bytes that the receiver takes
    std::uint64_t address; // put: where to; 0 for a packed source
    std::uint16_t key_count;
    std::uint16_t block_depth; // so many blocks of a packed source it can take at a time ...
    std::uint32_t block_bytes; // ... and none that is longer
    std::uint32_t keys[kMaxRails];
};

// Flag of clear_to_send: the sender is to put the message itself into fragments; there is no connection.
constexpr std::uint8_t kClearPush = 1;

struct BlockBody {
    std::uint64_t receive_id;
    std::uint64_t offset; // in the packed stream
    std::uint64_t address;
    std::uint32_t length;
    std::uint32_t block; // comes back in block_done
    std::uint32_t key_count;
    std::uint32_t pad;
    std::uint32_t keys[kMaxRails];
};

struct BlockDoneBody {
    std::uint64_t send_id;
    std::uint32_t block;
    std::uint32_t pad;
};

struct WrittenBody {
    std::uint64_t receive_id;
    std::uint64_t bytes;
};

struct FragmentBody {
    std::uint64_t receive_id;
    std::uint64_t offset; // in the packed stream
};

// A put, get or atomic that the target is asked for. It does nothing if the offer in the sender's answer
// slot (channel/ring_memory.h) has been taken back; the access is checked as if it came over the fabric.
struct OperateBody {
    std::uint64_t number;         // of the sender's offers to this peer
    std::uint64_t remote_address; // at the target
    std::uint64_t compare_add;
    std::uint64_t swap;
    std::uint32_t remote_key;
    std::uint32_t length; // 1..kMostAsked
};

// Data that the sender of this reads from the memory of its receiver, or writes there, and that both are to copy
// (protocol/together.cc). Nothing happens if the offer is over; the access is checked as if it came over the fabric.
struct ShareBody {
    std::uint64_t number; // of the sender's offers to this peer, SharedWork::kNumbers
    std::uint64_t theirs; // the receiver's memory
    std::uint64_t ours;
    std::uint32_t length;
    std::uint32_t their_key;
    std::uint32_t our_key;
    std::uint8_t opcode; // what the receiver does: Opcode::write or read
    // 0: each copies a part, from buffer to buffer. Otherwise all goes through so many units of memory
    // of the sender's, SharedWork::kUnit each, at `staging`.
    std::uint8_t staging_units;
    std::uint8_t pad[2];
    std::uint64_t send_id; // of the receiver's message that this is; 0: the memory is a window's
    std::uint64_t staging;
    std::uint32_t staging_key;
    std::uint32_t pad_more;
};

// An atomic on a word of a window, which the target carries out (protocol/atomic.cc).
struct AtomicBody {
    std::uint64_t id; // of the sender's; the answer repeats it
    std::uint64_t remote_address;
    std::uint64_t compare_add;
    std::uint64_t swap;
    std::uint32_t remote_key; // the window's last
    std::uint8_t opcode;      // Opcode: compare_swap or fetch_add
    std::uint8_t pad[3];
};

struct AtomicDoneBody {
    std::uint64_t id;
    std::uint64_t old;
    std::uint32_t done; // 0: there is no such word
    std::uint32_t pad;
};

// Flag of connect_request: there is traffic for it; else it is one of those that the job begins with.
constexpr std::uint8_t kConnectNeeded = 1;
// And something large or one-sided waits for it.
constexpr std::uint8_t kConnectAwaited = 2;
// And a put or get, which has no other way.
constexpr std::uint8_t kConnectRequired = 4;

constexpr Bytes kMeasureBytes = 4 * kKiB;

struct ConnectSubchannel {
    std::uint16_t rail; // the sender's rail
    std::uint16_t path; // of those between the two rails
    std::uint32_t qp;   // with an access key: the rail's target
    std::uint32_t psn;
    std::uint32_t memory_key; // of the sender's ring and credit, over this rail
};

// The three handshake messages (Yu, Gao, Panda, section 4.1) share one body.
struct ConnectBody {
    std::uint32_t connection;       // sequence number of the sender's attempt
    std::uint32_t answers;          // reply, confirm: the attempt of the other side
    std::uint32_t subchannel_count; // 1..kMaxSubchannels
    std::uint32_t ring_bytes;       // 0: no ring is offered
    std::uint32_t replaces;         // request: of the sender's attempts the one whose connection it
                                    // has fenced, and replaces; 0: none
    std::uint32_t expected;     // the next message that the sender has not got from the other side
    std::uint64_t ring_address; // where the other side writes its messages
    std::uint64_t credit_address; // where the other side writes what it has consumed of ours
    std::uint64_t access_key; // of the sender's targets, if the connection is over queue pairs that
        // are shared (dynamically connected); 0: it has queue pairs of its own
    std::uint64_t
        measure_address; // kMeasureBytes that the other side may write over at any time, with
                         // the ring's key (connect/measure.cc); 0: none
    ConnectSubchannel subchannels[kMaxSubchannels];
};

// What else is said about a connection.
struct ConnectNote {
    std::uint32_t connection; // close, keep: the sender's attempt that became the connection
    std::uint32_t answers;    // that of the other side; refuse: the one that is refused
    std::uint32_t number;   // close, keep: of the sender's closes of this connection, or the one it
                            // answers; refuse: RefusalReason
    std::uint32_t expected; // refuse: as ConnectBody's
};

enum class RefusalReason : std::uint32_t {
    no_room, // there is no connection at the sender's end, nor room for another one
    broken,  // the sender has given up whom it refuses
    no_path, // none of those offered can be used by the sender; it has fenced the connection as well
    over,    // a reply: what it answers was asked for before a goodbye that is over
};

// Of recovery/path_probes.h. The path is the pair of rails that the probe was sent over.
struct ProbeBody {
    std::uint32_t nonce;             // random, of the question; an answer and its thanks repeat it
    std::uint16_t size;              // of bytes
    std::uint16_t path;              // of those between the two rails
    std::array<std::byte, 64> bytes; // RailAddress: where the sender's rail is reached now
};

// Of recovery/life_watch.h.
struct LifeBody {
    std::uint32_t sequence; // of the asker's questions to the process; the answer repeats it. Not 0
    std::uint16_t size;     // of bytes
    std::uint16_t path;     // as in ProbeBody
    std::uint64_t beats;    // answer: grows while the process calls MPI
    std::array<std::byte, 64> bytes; // where the sender's rail is reached now; size 0: where it was
};

constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 56;

// ---------------------------------------------------------------------------------------------------
// Checked reading

// A header that can be acted on: known type (a ring's own skip is not one), magic, body and payload within `available` bytes after
// the header, at least as long as the type's body and, for types without payload, exactly so.
bool check_header(const MessageHeader& header, Bytes available);

// What a message with an envelope has in it when it is not to be taken for a pattern.
constexpr bool is_envelope(std::int32_t source, std::int32_t tag) {
    return source >= 0 && tag != INT32_MIN;
}
constexpr bool is_envelope(const MessageHeader& header) {
    return is_envelope(header.source, header.tag);
}

// Bytes of the fixed body of a type; of a rendezvous without its keys.
Bytes body_bytes(MessageType type);

// Copies a body out. REQUIRES: check_header accepted the header that announced it.
template <typename Body> Body read_body(const std::byte* from) {
    static_assert(std::is_trivially_copyable_v<Body>);
    Body body;
    std::memcpy(&body, from, sizeof body);
    return body;
}

// The same for a rendezvous, whose length varies.
inline RendezvousBody read_rendezvous(const MessageHeader& header, const std::byte* from) {
    RendezvousBody body{};
    std::memcpy(&body, from, header.length);
    return body;
}

// Ranges that the type alone does not give.
bool check_body(const RendezvousBody& body);
bool check_body(const ClearBody& body);
bool check_body(const BlockBody& body);
bool check_body(const ConnectBody& body);
bool check_body(const ProbeBody& body);
bool check_body(const LifeBody& body);

// One call for a whole message as it lies in a ring or a datagram: header and body. For a fuzzer, and
// for whoever hands bytes to the protocol.
bool check_message(const MessageHeader& header, const std::byte* body, Bytes available);

// Serial-number order of sequence numbers (RFC 1982): is a before b?
constexpr bool sequence_before(std::uint32_t a, std::uint32_t b) {
    return static_cast<std::int32_t>(a - b) < 0;
}

} // namespace adaptib
