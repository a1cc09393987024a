// SPDX-License-Identifier: BSD-3-Clause
// Checks of packets that arrive (base/wire.h).
#include "base/wire.h"

#include "base/wire_connect.h"

namespace adaptib {

Bytes body_bytes(MessageType type) {
    switch (type) {
    case MessageType::eager_sync: return sizeof(SyncBody);
    case MessageType::sync_ack:
    case MessageType::finish:
    case MessageType::disconnect: return sizeof(IdBody);
    case MessageType::rendezvous: return rendezvous_bytes(0);
    case MessageType::clear_to_send: return sizeof(ClearBody);
    case MessageType::block: return sizeof(BlockBody);
    case MessageType::block_done: return sizeof(BlockDoneBody);
    case MessageType::written: return sizeof(WrittenBody);
    case MessageType::fragment: return sizeof(FragmentBody);
    case MessageType::slice: return sizeof(SliceBody);
    case MessageType::operate: return sizeof(OperateBody);
    case MessageType::atomic: return sizeof(AtomicBody);
    case MessageType::atomic_done: return sizeof(AtomicDoneBody);
    case MessageType::region_query: return sizeof(RegionQueryBody);
    case MessageType::region_keys: return sizeof(RegionKeysBody);
    case MessageType::cooperative_copy: return sizeof(CooperativeCopyBody);
    case MessageType::probe:
    case MessageType::probe_answer:
    case MessageType::probe_thanks: return sizeof(ProbeBody);
    case MessageType::life_question:
    case MessageType::life_answer: return sizeof(LifeBody);
    case MessageType::connect_refuse:
    case MessageType::connect_close:
    case MessageType::connect_keep:
    case MessageType::connect_yield: return sizeof(ConnectNote);
    case MessageType::connect_request:
    case MessageType::connect_reply:
    case MessageType::connect_confirm: return connect_bytes(0);
    case MessageType::none:
    case MessageType::skip:
    case MessageType::eager:
    case MessageType::active:
    case MessageType::active_part:
    case MessageType::allowance:
    case MessageType::count_: break;
    }
    return 0;
}

bool check_header(const MessageHeader& header, Bytes available) {
    if (header.magic != kHeaderMagic || header.type == MessageType::none ||
        header.type == MessageType::skip || header.type >= MessageType::count_ ||
        header.length > available) {
        return false;
    }
    const bool has_envelope = header.type == MessageType::eager ||
                              header.type == MessageType::eager_sync ||
                              header.type == MessageType::rendezvous;
    if (has_envelope && !is_envelope(header)) {
        return false; // wildcards
    }
    const Bytes body = body_bytes(header.type);
    if (header.type == MessageType::rendezvous) {
        return header.length >= body && header.length <= sizeof(RendezvousBody);
    }
    if (header.type >= MessageType::connect_request &&
        header.type <= MessageType::connect_confirm) {
        return header.length >= body && header.length <= sizeof(ConnectBody);
    }
    const bool has_payload =
        header.type == MessageType::eager || header.type == MessageType::eager_sync ||
        header.type == MessageType::active || header.type == MessageType::active_part ||
        header.type == MessageType::fragment || header.type == MessageType::slice ||
        header.type == MessageType::operate;
    return has_payload ? header.length >= body : header.length == body;
}

bool check_body(const RendezvousBody& body) {
    if (body.bytes > kMaxMessageBytes || body.key_count > kMaxRails ||
        body.op_kind > OpKind::collective) {
        return false;
    }
    if (body.kind == SourceKind::direct) {
        return body.key_count > 0 && body.address + body.bytes >= body.address;
    }
    return body.kind == SourceKind::packed;
}

bool check_body(const ClearBody& body) {
    return body.wanted <= kMaxMessageBytes && body.key_count <= kMaxRails &&
           body.address + body.wanted >= body.address;
}

bool check_body(const BlockBody& body) {
    return body.key_count > 0 && body.key_count <= kMaxRails && body.length > 0 &&
           body.offset <= kMaxMessageBytes && body.address + body.length >= body.address;
}

bool check_body(const ConnectBody& body) {
    if (body.subchannel_count > kMaxSubchannels) {
        return false;
    }
    for (std::uint32_t i = 0; i < body.subchannel_count; ++i) {
        const ConnectSubchannel& each = body.subchannels[i];
        if (each.rail >= kMaxRails || each.to >= kMaxRails || each.path >= kMaxSubchannels ||
            each.unordered > 1) {
            return false;
        }
    }
    const bool ring = body.ring_bytes >= kMinRingBytes && body.ring_bytes <= kMaxRingBytes;
    return (body.ring_bytes == 0 || ring) && body.ring_bytes % kCacheLine == 0 &&
           body.ring_address % kCacheLine == 0 && body.credit_address % kCacheLine == 0 &&
           body.measure_address % kCacheLine == 0;
}

bool check_body(const SliceBody& body, Bytes payload) {
    return is_sequenced(body.type) && payload > 0 && body.length <= kMaxRingBytes &&
           body.offset <= body.length && payload <= body.length - body.offset;
}

bool check_body(const ProbeBody& body) {
    return body.nonce != 0 && body.size <= body.bytes.size() && body.path < kMaxSubchannels;
}

bool check_body(const LifeBody& body) {
    return body.sequence != 0 && body.size <= body.bytes.size() && body.path < kMaxSubchannels;
}

bool check_body(const RegionKeysBody& body) { return body.key_count <= kMaxRails; }

bool check_message(const MessageHeader& header, const std::byte* body, Bytes available) {
    if (!check_header(header, available)) {
        return false;
    }
    switch (header.type) {
    case MessageType::rendezvous: {
        const RendezvousBody read = read_rendezvous(header, body);
        return check_body(read) && header.length == rendezvous_bytes(read.key_count);
    }
    case MessageType::clear_to_send: return check_body(read_body<ClearBody>(body));
    case MessageType::block: return check_body(read_body<BlockBody>(body));
    case MessageType::region_keys: return check_body(read_body<RegionKeysBody>(body));
    case MessageType::slice:
        return check_body(read_body<SliceBody>(body), header.length - sizeof(SliceBody));
    case MessageType::connect_request:
    case MessageType::connect_reply:
    case MessageType::connect_confirm: {
        const ConnectBody read = read_connect(header, body);
        const bool any = read.subchannel_count > 0 || header.type == MessageType::connect_request;
        return any && check_body(read) && header.length == connect_bytes(read.subchannel_count);
    }
    case MessageType::probe:
    case MessageType::probe_answer:
    case MessageType::probe_thanks: return check_body(read_body<ProbeBody>(body));
    case MessageType::life_question:
    case MessageType::life_answer: return check_body(read_body<LifeBody>(body));
    default: return true;
    }
}

} // namespace adaptib
