// SPDX-License-Identifier: BSD-3-Clause
#include "core/datagram_handlers.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace adaptib {

namespace {

constexpr std::int64_t kLooks = 8; // polls, at least, before a timeout counts as a failure

} // namespace

void DatagramHandlers::listen() {
    for (std::uint32_t i = 0; i < parts_.fabrics.size(); ++i) {
        listen(i);
    }
}

void DatagramHandlers::listen(std::uint32_t fabric) {
    DatagramChannel& datagrams = *parts_.fabrics[fabric].datagrams;
    datagrams.retransmitter().judge_by(
        [this, fabric](const DatagramTarget& target, Nanoseconds since) {
            Peer* peer = parts_.peers.find(target.name, fabric);
            return peer == nullptr ? DatagramChannel::Standing::doubtful
                                   : parts_.watch.standing_of(*peer, since);
        });
    datagrams.retransmitter().on_repeated([this, fabric](const DatagramTarget& target) {
        if (Peer* peer = parts_.peers.find(target.name, fabric); peer != nullptr) {
            parts_.datagram_paths.renew_handle(*peer);
        }
    });
    datagrams.retransmitter().on_failure([this, fabric](std::uint64_t to, WorkStatus why) {
        if (Peer* peer = parts_.peers.find(to, fabric);
            peer != nullptr && !parts_.departures.takes(*peer)) {
            parts_.protocol.lost().lose(
                *peer, std::string(work_status_text(why)) + " on rail " +
                           peer->contact.channel.rail(peer->contact.datagram.port).info().name);
        }
    });
    datagrams.on_probe([this, fabric](std::uint64_t from, std::uint64_t key, std::uint32_t port,
                                      std::uint8_t rail, const MessageHeader& header,
                                      const std::byte* body) {
        on_probe(fabric, from, key, port, rail, header, body);
    });
    if (parts_.paths.on()) {
        tolerate_faults(fabric);
    }
    parts_.fabrics[fabric].receiver = [this, fabric](const DatagramArrival& arrival) {
        on_datagram(fabric, arrival);
    };
}

void DatagramHandlers::tolerate_faults(std::uint32_t fabric) {
    const auto find = [this, fabric](std::uint64_t name) -> DatagramTarget* {
        Peer* peer = parts_.peers.find(name, fabric);
        return peer == nullptr || peer->contact.datagram.handle == nullptr
                   ? nullptr
                   : &peer->contact.datagram;
    };
    const auto path_failed = [this, fabric](DatagramTarget& target,
                                            DatagramChannel::PathFailure failure,
                                            WorkStatus status) {
        Peer* peer = parts_.peers.find(target.name, fabric);
        if (peer != nullptr && !peer->session.lost() && !parts_.departures.takes(*peer)) {
            parts_.datagram_paths.on_failure(*peer, failure, status);
        }
    };
    const auto answered = [this, fabric](DatagramTarget& target) {
        Peer* peer = parts_.peers.find(target.name, fabric);
        if (peer != nullptr && DatagramPaths::heard_over(
                                   *peer, target.pair)) { // else the answer is for an earlier path
            parts_.paths.report_success(*peer, target.pair);
        }
    };
    parts_.attended.at_most(failure_timeout_ / kLooks);
    parts_.fabrics[fabric].datagrams->retransmitter().tolerate(failure_timeout_, find, path_failed,
                                                               answered);
}

void DatagramHandlers::on_datagram(std::uint32_t fabric, const DatagramArrival& arrival) {
    Peer* peer = parts_.peers.sender_of(fabric, arrival.prefix.source, arrival.prefix.source_key);
    if (peer != nullptr && peer->contact.channel.accept(peer->contact.datagram, arrival)) {
        hand_over(*peer, *arrival.header, arrival.body);
    }
}

void DatagramHandlers::hand_over(Peer& peer, const MessageHeader& header, const std::byte* body) {
    if (is_sequenced(header.type)) {
        parts_.delivery.hand_over(peer, header, body);
        return;
    }
    if (header.type == MessageType::slice) [[unlikely]] {
        on_slice(peer, header, body);
        return;
    }
    if (Handshake::may_say_fenced(peer, header.type)) [[unlikely]] {
        parts_.rings.empty(peer);
        if (peer.session.lost()) {
            return; // what was in the ring has broken the connection
        }
    }
    parts_.connections.on_handshake(peer, header, body);
    parts_.connections.handle_events();
}

// Collects the slices of a message, each of which arrives once. All were in one ring before.
void DatagramHandlers::on_slice(Peer& peer, const MessageHeader& header, const std::byte* body) {
    const auto slice = read_body<SliceBody>(body);
    const Bytes bytes = header.length - sizeof slice;
    std::vector<SlicedMessage>& all = peer.contact.sliced;
    auto message = std::find_if(all.begin(), all.end(), [&](const SlicedMessage& each) {
        return each.header.sequence == header.sequence;
    });
    Bytes kept = 0;
    for (const SlicedMessage& each : all) {
        kept += each.body.size();
    }
    if (message == all.end() && kept + slice.length <= peer.in.ring_bytes) {
        message = all.insert(all.end(), {header, std::vector<std::byte>(slice.length)});
        message->header.type = slice.type;
        message->header.flags = slice.flags;
        message->header.length = slice.length;
    }
    if (message == all.end() || message->body.size() != slice.length) {
        ++parts_.counters.bad_packets;
        return;
    }
    std::memcpy(message->body.data() + slice.offset, body + sizeof slice, bytes);
    message->arrived += bytes;
    if (message->arrived < slice.length) {
        return;
    }
    const SlicedMessage whole = std::move(*message);
    all.erase(message);
    if (check_message(whole.header, whole.body.data(), whole.body.size())) {
        parts_.delivery.hand_over(peer, whole.header, whole.body.data());
    } else {
        ++parts_.counters.bad_packets;
    }
}

void DatagramHandlers::on_life_answer(Peer& peer, std::size_t pair, const LifeBody& body) {
    if (parts_.watch.life().on_answer(peer, pair, body) && parts_.paths.watches(peer)) {
        parts_.probes.on_answer(peer, pair, body);
    }
}

// A life_question does not belong here: it goes to a responder.
void DatagramHandlers::on_probe(std::uint32_t fabric, std::uint64_t from, std::uint64_t key,
                                std::uint32_t port, std::uint8_t rail, const MessageHeader& header,
                                const std::byte* body) {
    Peer* peer = parts_.peers.sender_of(fabric, from, key);
    if (peer == nullptr || peer->session.lost()) {
        return;
    }
    if (header.type == MessageType::life_question) {
        ++parts_.counters.bad_packets;
        return;
    }
    const bool asked = header.type == MessageType::life_answer;
    const std::uint16_t path =
        asked ? read_body<LifeBody>(body).path : read_body<ProbeBody>(body).path;
    const PeerRoute::Pair rails{
        static_cast<std::uint8_t>(parts_.fabrics[fabric].rails.first + port), rail,
        static_cast<std::uint8_t>(path)};
    const auto end = peer->contact.route.pairs.begin() + peer->contact.route.total;
    const auto pair = std::find(peer->contact.route.pairs.begin(), end, rails);
    if (pair == end) {
        ++parts_.counters.bad_packets;
        return;
    }
    const auto number = static_cast<std::size_t>(pair - peer->contact.route.pairs.begin());
    if (asked) {
        on_life_answer(*peer, number, read_body<LifeBody>(body));
    } else if (parts_.paths.watches(*peer)) {
        parts_.probes.on_probe(*peer, number, header.type, read_body<ProbeBody>(body));
    }
}

} // namespace adaptib
