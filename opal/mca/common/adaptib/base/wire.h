// SPDX-License-Identifier: BSD-3-Clause
// The wire format: what crosses a fabric, byte by byte. Writers and readers share this file.
//
// A message is a MessageHeader, a body that its type defines, and, for some types, a payload.
//
//     ring record      | header 24 | body+payload, `length` bytes | pad | (tail 8) |  32-byte units
//                      | first word 8 | payload |    compact record (channel/ring_layout.h)
//     datagram         | DatagramHeader 40 | header 24 | body+payload, `length` bytes |
//
// Byte order is the host's (the address's magic checks it). What check_* refuse is dropped.
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

// Raise it with every change of this file or of base/address.h.
constexpr std::uint16_t kWireVersion = 38;

constexpr std::uint32_t kMaxRails = 8;
constexpr std::uint32_t kMaxSubchannels = 16; // of a connection: one per path between two rails
constexpr std::uint32_t kMaxAssisted = 65536; // longest target-assisted operation, in bytes
// Shortest copy that both ends take part in, in bytes; below, the helper rarely begins in time.
constexpr std::uint32_t kMinCooperative = 65536;
constexpr std::uint32_t kMinRingBytes = 4096;
constexpr std::uint32_t kMaxRingBytes = 16 * 1024 * 1024;

enum class MessageType : std::uint8_t {
    none = 0,      // an empty ring line
    skip,          // ring only: continue at the ring's first line
    eager,         // payload
    eager_sync,    // SyncBody, payload: answer with sync_ack when matched
    sync_ack,      // IdBody
    rendezvous,    // RendezvousBody. RTS
    clear_to_send, // ClearBody: write here (put), or send blocks (if packed); kClearPush. CTS, RTR
    block,         // BlockBody: a packed block can be read
    block_done,    // BlockDoneBody: the block has been read
    finish,        // IdBody: the receiver has read all bytes. FIN, ATS
    written,       // WrittenBody: the sender has written all bytes. FIN, ATP
    connect_request,  // ConnectBody; not sequenced; flags: kConnectNeeded, ..Awaited, ..Required
    connect_reply,    // ConnectBody; not sequenced
    connect_confirm,  // ConnectBody; not sequenced
    disconnect,       // IdBody, the disconnect's number; flags: kDisconnect...
    active,           // payload for the listener; flags: its tag
    fragment,         // FragmentBody, payload: a part of an announced message (kClearPush)
    connect_refuse,   // ConnectNote; not sequenced: no room for another connection, ask again later
    connect_close,    // ConnectNote; not sequenced: it is not needed, nothing is outstanding
    connect_keep,     // ConnectNote; not sequenced: the sender still needs it
    connect_yield,    // ConnectNote; not sequenced: others need it; post nothing new, then close it
    active_part,      // payload; further parts follow and, last, an active message
    operate,          // OperateBody, flags the Opcode, of a write the payload: a target-assisted op
    atomic,           // AtomicBody: the receiver carries it out and answers
    atomic_done,      // AtomicDoneBody
    cooperative_copy, // CooperativeCopyBody: the receiver takes part in the copy (cooperative copy)
    allowance,        // no body; flags: Allowance, which messages to be matched the sender takes
    region_query,     // RegionQueryBody: which keys does this memory of the receiver have?
    region_keys,      // RegionKeysBody, the answer
    slice,            // SliceBody, payload: a part of a message that is too long for a datagram
    probe,            // ProbeBody; neither sequenced nor numbered: does this path work?
    probe_answer,     // ProbeBody; likewise, back over the same path: the probe's direction works
    probe_thanks,     // ProbeBody; likewise: the answer's direction works, too
    life_question,    // LifeBody; likewise, to a responder: does this path work, are you alive?
    life_answer,      // LifeBody; likewise, to the asker over the same path: yes
    count_,
};

constexpr bool is_sequenced(MessageType type) {
    return (type < MessageType::connect_request || type > MessageType::connect_confirm) &&
           (type < MessageType::connect_refuse || type > MessageType::connect_yield) &&
           type < MessageType::slice;
}

// True for types that go only as datagrams, each over the path that it names.
constexpr bool is_probe(MessageType type) {
    return type >= MessageType::probe && type <= MessageType::life_answer;
}

constexpr std::uint16_t kHeaderMagic = 0xad1b;

// Field order: a ring's reader polls the first 8 bytes as one word, which is never zero.
struct alignas(8) MessageHeader {
    MessageType type = MessageType::none;
    std::uint8_t flags = 0;
    std::uint16_t magic = kHeaderMagic;
    std::uint32_t length = 0; // bytes of body and payload that follow
    // Number of this message among its sender's to its receiver (PSN of the dissertation, 4.2.2).
    std::uint32_t sequence = 0;
    std::uint32_t context = 0; // with source and tag the envelope, of eager* and rendezvous
    std::int32_t source = 0;
    std::int32_t tag = 0;

    // The first 8 bytes as one word, composed in a register: loading as one word what has just been
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
    std::uint8_t rail = 0;    // index, among the sender's published rails, of the one used
    std::uint32_t number = 0; // of this sender's datagrams to this target, if datagrams get lost
    std::uint64_t target_key = 0; // the random key that the target published
    std::uint64_t source = 0;     // the sender's process name
    std::uint64_t source_key = 0; // the key that the sender published
    // Acknowledgment, if datagrams get lost: the sender has received all the target's numbers
    // before `expected` and, for each set bit i of `arrived`, number expected + 1 + i.
    std::uint32_t expected = 0;
    std::uint32_t arrived = 0;
};
static_assert(sizeof(DatagramHeader) == 40 && kWireVersion < 256);

// -------------------------------------------------------------------------------------------------
// Bodies

struct SyncBody {
    std::uint64_t send_id;
};

struct IdBody {
    std::uint64_t id;
};

// Flags of MessageType::disconnect: announced, answered, revoked; final: the sender's process ends.
constexpr std::uint8_t kDisconnect = 0;
constexpr std::uint8_t kDisconnectAck = 1;
constexpr std::uint8_t kDisconnectRevoked = 2;
constexpr std::uint8_t kDisconnectFinal = 3;

// The keys of a process's memory are those of one key epoch: a new one begins each time that one of
// its devices was lost and is open again (Rail::openings), and keys of earlier ones mean
// nothing. Every message that has keys names their epoch, and the handshake of a connection the
// epoch from which on keys are good for it.
constexpr bool epoch_before(std::uint8_t a, std::uint8_t b) {
    return static_cast<std::int8_t>(a - b) < 0;
}

enum class SourceKind : std::uint8_t {
    direct = 1, // all bytes lie at `address`
    packed = 2, // the sender packs blocks on demand; address and keys are zero
};

struct RendezvousBody {
    std::uint64_t bytes;
    std::uint64_t send_id;
    std::uint64_t address;
    SourceKind kind;
    OpKind op_kind; // kind of operation; the receiver plans its reads by it
    std::uint8_t key_epoch;
    std::uint8_t reserved;
    std::uint32_t key_count;       // rails with a key: 0..kMaxRails
    std::uint32_t keys[kMaxRails]; // only the first key_count cross the wire
};

constexpr Bytes rendezvous_bytes(std::uint32_t key_count) {
    return offsetof(RendezvousBody, keys) + key_count * sizeof(std::uint32_t);
}

struct ClearBody {
    std::uint64_t send_id;
    std::uint64_t receive_id;
    std::uint64_t wanted;  // bytes that the receiver takes
    std::uint64_t address; // put: destination; 0 for a packed source
    std::uint8_t key_count;
    std::uint8_t key_epoch;
    std::uint16_t block_depth; // blocks of a packed source that the receiver can take at a time
    std::uint32_t block_bytes; // longest block that it can take
    std::uint32_t keys[kMaxRails];
};

// Flag of clear_to_send: there is no connection; the sender sends the message as fragments.
constexpr std::uint8_t kClearPush = 1;

struct BlockBody {
    std::uint64_t receive_id;
    std::uint64_t offset; // in the packed stream
    std::uint64_t address;
    std::uint32_t length;
    std::uint32_t block; // repeated in block_done
    std::uint32_t key_count;
    std::uint8_t key_epoch;
    std::uint8_t pad[3];
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

// A part of a message that is too long for a datagram; sequence and envelope are the message's.
struct SliceBody {
    MessageType type; // of the message
    std::uint8_t flags;
    std::uint16_t pad;
    std::uint32_t length;
    std::uint32_t offset; // of this part in the message's body and payload
};

// A target-assisted put, get or atomic. The target does nothing if the initiator has withdrawn the
// offer in its answer slot (channel/ring_memory.h). The target checks key, range and rights as an
// adapter would.
struct OperateBody {
    std::uint64_t number;         // of the initiator's offers to this peer
    std::uint64_t remote_address; // in the target's memory
    std::uint64_t compare_add;
    std::uint64_t swap;
    std::uint32_t remote_key;
    std::uint32_t length; // 1..kMaxAssisted
};

// Cooperative copy (protocol/intranode/synchronous_rma.cc): the sender of this message reads the
// data from the receiver's memory, or writes it there, and both ends take part in the copy. The
// receiver does nothing if the offer is over. It checks key, range and rights as an adapter would.
struct CooperativeCopyBody {
    std::uint64_t number; // of the sender's offers to this peer, 1..SharedWork::kNumbers
    std::uint64_t theirs; // address in the receiver's memory
    std::uint64_t ours;   // address in the sender's memory
    std::uint32_t length;
    std::uint32_t their_key;
    std::uint32_t our_key;
    std::uint8_t opcode; // for the receiver: Opcode::write or read
    // 0: each end copies a part, from buffer to buffer. Otherwise all data goes through that many
    // units, of SharedWork::kUnit each, of the sender's staging memory at `staging`.
    std::uint8_t staging_units;
    std::uint8_t pad[2];
    std::uint64_t send_id; // of the receiver's send that is copied; 0: the memory is a window's
    std::uint64_t staging;
    std::uint32_t staging_key;
    std::uint32_t pad_more;
};

// A target-assisted atomic on a word of a window (protocol/emulated_atomics.h).
struct AtomicBody {
    std::uint64_t id; // the initiator's; the answer repeats it
    std::uint64_t remote_address;
    std::uint64_t compare_add;
    std::uint64_t swap;
    std::uint32_t remote_key; // the last of the window's keys
    std::uint8_t opcode;      // Opcode: compare_swap or fetch_add
    std::uint8_t pad[3];
};

struct AtomicDoneBody {
    std::uint64_t id;
    std::uint64_t old;
    std::uint32_t done; // 0: no window has such a word
    std::uint32_t pad;
};

// An initiator looks for the keys of memory of the receiver: of the window of a put, get or atomic
// (protocol/region_keys.h), or of any memory whose keys it has, but from an earlier key epoch.
struct RegionQueryBody {
    std::uint64_t id; // the initiator's; the answer repeats it
    std::uint64_t address;
    std::uint64_t bytes;
    std::uint32_t access; // rights that the memory must have (fabric/rail.h)
    std::uint32_t pad;
};

struct RegionKeysBody {
    std::uint64_t id;
    std::uint32_t key_count; // 0: there is no such memory
    std::uint32_t keys[kMaxRails];
    std::uint8_t key_epoch;
    std::uint8_t pad[3];
};

enum class RefusalReason : std::uint32_t {
    no_room, // the sender has no connection, and no room for another one
    broken,  // the sender has given up this peer
    no_path, // the sender can use none of the paths offered; it has fenced the connection as well
    over,    // a reply to a request from before a disconnect that is over
};

// Probe of recovery/path_probes.h. Its path is the pair of rails over which it is sent.
struct ProbeBody {
    std::uint32_t nonce;             // random, of the question; probe_answer and _thanks repeat it
    std::uint8_t size;               // of `bytes`, the part in use
    std::uint8_t path;               // index of the path between the two rails
    std::uint16_t changes;           // RailAddress::changes
    std::array<std::byte, 64> bytes; // RailAddress of the sender's rail, as it is now
    // That rail's queue pairs, as AddressRail's.
    std::uint32_t datagram_qp;
    std::uint32_t responder_qp;
};

// Question and answer of recovery/life_watch.h.
struct LifeBody {
    std::uint32_t sequence; // counts the asker's questions to the process, not 0; repeated back
    std::uint8_t size;      // of `bytes`, the part in use
    std::uint8_t path;      // as in ProbeBody
    std::uint16_t changes;  // RailAddress::changes
    std::uint64_t beats;    // answer: grows while the process calls MPI
    std::array<std::byte, 64> bytes; // RailAddress of the sender's rail; size 0: unchanged
};

constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 56;

// -------------------------------------------------------------------------------------------------
// Checked reading

// True for a header that can be acted on: its magic is right, its type known (not skip, which only
// the ring handles), its envelope without wildcards, and its length within the `available` bytes
// after it: at least that of the type's body, and exactly that for types without payload.
bool check_header(const MessageHeader& header, Bytes available);

// True if source and tag are those of a message, without wildcards.
constexpr bool is_envelope(std::int32_t source, std::int32_t tag) {
    return source >= 0 && tag != INT32_MIN;
}
constexpr bool is_envelope(const MessageHeader& header) {
    return is_envelope(header.source, header.tag);
}

// Bytes of a type's fixed body: without a rendezvous's keys, or a connection's subchannels.
Bytes body_bytes(MessageType type);

// Copies a body out. REQUIRES: check_header accepted the header that announced it.
template <typename Body> Body read_body(const std::byte* from) {
    static_assert(std::is_trivially_copyable_v<Body>);
    Body body;
    std::memcpy(&body, from, sizeof body);
    return body;
}

// Likewise for a rendezvous body, whose length varies.
inline RendezvousBody read_rendezvous(const MessageHeader& header, const std::byte* from) {
    RendezvousBody body{};
    std::memcpy(&body, from, header.length);
    return body;
}

// Check the ranges of a body's fields, which its type alone does not bound.
bool check_body(const RendezvousBody& body);
bool check_body(const ClearBody& body);
bool check_body(const BlockBody& body);
bool check_body(const RegionKeysBody& body);
bool check_body(const SliceBody& body, Bytes payload);
bool check_body(const ProbeBody& body);
bool check_body(const LifeBody& body);

// Checks a whole message, header and body, as it lies in a ring or a datagram.
bool check_message(const MessageHeader& header, const std::byte* body, Bytes available);

// Serial-number order of sequence numbers (RFC 1982): true if a is before b.
constexpr bool sequence_before(std::uint32_t a, std::uint32_t b) {
    return static_cast<std::int32_t>(a - b) < 0;
}

} // namespace adaptib
