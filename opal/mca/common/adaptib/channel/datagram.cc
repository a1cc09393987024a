// SPDX-License-Identifier: BSD-3-Clause
// The datagram channel (channel/datagram.h).
#include "channel/datagram.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/invariant.h"

namespace adaptib {

Status DatagramChannel::create(RailList rails, std::uint32_t first, const Identity& identity,
                               const Clock& clock, Counters& counters,
                               std::unique_ptr<DatagramChannel>& out, std::uint32_t most_receives,
                               std::uint32_t first_receives, bool gathers) {
    for (const Rail* rail : rails) {
        if (!rail->info().has(Capability::ud)) {
            return Status::error(Reason::not_supported);
        }
    }
    std::unique_ptr<DatagramChannel> channel(new DatagramChannel(first, identity, clock, counters));
    if (Status status = channel->sender_.open(rails, most_receives, first_receives, gathers);
        !status.ok()) {
        return status;
    }
    out = std::move(channel);
    return kOk;
}

std::byte* DatagramChannel::reserve(const DatagramTarget& target) {
    const bool full = target.link != nullptr && !target.link->may_send();
    if (full || sender_.slots().none_for_messages()) {
        return nullptr;
    }
    return sender_.slots().at(sender_.slots().next()) + sizeof(DatagramHeader) +
           sizeof(MessageHeader);
}

// `lent`: null: the payload is in the slot.
Status DatagramChannel::commit(DatagramTarget& target, const MessageHeader& header,
                               LentPayload* lent) {
    if (target.handle == nullptr) {
        return target.coming ? Status::again(Reason::not_connected)
                             : Status::error(Reason::peer_gone);
    }
    if (target.numbered) {
        if (target.link == nullptr) {
            target.link = std::make_unique<DatagramLink>(target);
        }
        if (!target.link->may_send()) {
            return Status::again(Reason::no_credit);
        }
    }
    SendSlots& slots = sender_.slots();
    ADAPTIB_INVARIANT(!slots.none_free(), "a message that is committed has a slot", target.name);
    ADAPTIB_INVARIANT(header.length <= capacity(), "a message fits into a datagram", header.length,
                      capacity());
    const std::uint32_t slot = slots.next();
    DatagramHeader prefix = sender_.prefix_for(target);
    DatagramLink* link = target.link.get();
    Nanoseconds now{0};
    if (link != nullptr) {
        now = clock_.now();
        prefix.number = link->add(slot, now);
    }
    slots.put(slot, target.name, prefix, header);
    if (link != nullptr) {
        slots.retain(slot);
    }
    if (lent != nullptr) [[unlikely]] {
        slots.lend(slot, target.port, *lent);
    }
    slots.set_posted_at(slot, now);
    const Status status = sender_.post(target, slot);
    if (status.ok()) {
        slots.take();
        if (link != nullptr) {
            if (lent != nullptr) [[unlikely]] {
                link->lend(now);
            }
            retransmitter_.on_sent(*link);
        }
        return status;
    }
    if (lent != nullptr) {
        slots.take_loan_back(slot, *lent);
    }
    if (link != nullptr) {
        slots.take_back(slot);
        link->take_back();
        if (retransmitter_.tolerant() && status.is_error() &&
            status.reason() != Reason::peer_gone) {
            retransmitter_.on_failed_send(target.port, target.name, WorkStatus::local_qp_error);
            return Status::again(Reason::queue_full);
        }
    }
    return status;
}

bool DatagramChannel::send_probe(const DatagramTarget& target, std::uint32_t port,
                                 std::unique_ptr<AddressHandle> handle, std::uint32_t qp,
                                 const MessageHeader& header, const void* body) {
    ADAPTIB_INVARIANT(handle != nullptr && header.length <= capacity(),
                      "a probe has a way, and fits into a datagram", port, header.length);
    const Nanoseconds now = clock_.now();
    retransmitter_.restart_if_stuck(port, now); // probes are not repeated, which would reveal it
    SendSlots& slots = sender_.slots();
    if (slots.none_free()) {
        return false;
    }
    const std::uint32_t slot = slots.next();
    DatagramHeader prefix = sender_.prefix_for(target);
    prefix.rail = sender_.published(port);
    slots.put(slot, target.name, prefix, header);
    std::memcpy(slots.at(slot) + sizeof prefix + sizeof header, body, header.length);
    slots.set_posted_at(slot, now);
    if (!sender_.post(port, *handle, qp, target.key, slot).ok()) {
        return false;
    }
    slots.take();
    sender_.port(port).retire(std::move(handle));
    return true;
}

// -------------------------------------------------------------------------------------------------
// Arriving

void DatagramChannel::handle_receive(std::uint32_t port, const WorkCompletion& completion,
                                     const Receiver& receiver) {
    const std::byte* at = sender_.port(port).receive_at(DatagramPort::index_of(completion));
    DatagramHeader prefix;
    MessageHeader header;
    if (completion.length < sizeof prefix) {
        ++counters_.bad_packets;
        return;
    }
    std::memcpy(&prefix, at, sizeof prefix);
    const Bytes rest = completion.length - sizeof prefix;
    const bool acknowledges = rest == 0; // and carries nothing else
    if (prefix.magic != kHeaderMagic || prefix.version != kWireVersion ||
        prefix.target_key != sender_.identity().key || (!acknowledges && rest < sizeof header)) {
        ++counters_.bad_packets;
        return;
    }
    if (acknowledges) {
        receiver({prefix, port, nullptr, nullptr});
        return;
    }
    const std::byte* body = at + sizeof prefix + sizeof header;
    std::memcpy(&header, at + sizeof prefix, sizeof header);
    if (!check_message(header, body, rest - sizeof header)) {
        ++counters_.bad_packets;
        return;
    }
    if (is_probe(header.type)) {
        if (probe_) {
            probe_(prefix.source, prefix.source_key, port, prefix.rail, header, body);
        }
        return;
    }
    receiver({prefix, port, &header, body});
}

bool DatagramChannel::accept(DatagramTarget& source, const DatagramArrival& arrival) {
    if (source.numbered) {
        if (!retransmitter_.accept(source, arrival)) {
            return false;
        }
    } else if (arrival.header == nullptr) {
        ++counters_.bad_packets;
        return false;
    }
    ADAPTIB_INVARIANT(arrival.header != nullptr, "what is delivered has a message", source.name,
                      arrival.port);
    if (is_sequenced(arrival.header->type)) {
        ++counters_.datagram_received;
    }
    return true;
}

std::size_t DatagramChannel::poll(const Receiver& receiver, std::size_t limit) {
    std::size_t taken = poll_port(0, receiver, limit);
    if (ports() > 1) {
        next_port_ = next_port_ + 1 < ports() ? next_port_ + 1 : 1;
        taken += poll_port(next_port_, receiver, limit);
    }
    retransmitter_.acknowledge_alone();
    return taken;
}

std::size_t DatagramChannel::poll_port(std::uint32_t number, const Receiver& receiver,
                                       std::size_t limit) {
    DatagramPort& port = sender_.port(number);
    std::size_t taken = 0;
    while (taken < limit) {
        const std::size_t room = std::min(batch_.size(), limit - taken);
        const std::size_t count = port.poll(std::span(batch_).first(room));
        ADAPTIB_INVARIANT(count <= room, "a poll gives no more than it is asked for", count, room);
        std::size_t received = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const WorkCompletion& completion = batch_[i];
            if (!port.is_current(completion)) [[unlikely]] {
                continue; // from before the restart of the queue pair
            }
            if (DatagramPort::is_send(completion)) {
                const std::uint32_t slot = DatagramPort::index_of(completion);
                sender_.on_ended(slot, number);
                if (completion.status != WorkStatus::success) [[unlikely]] {
                    retransmitter_.on_failed_send(number, sender_.slots().target_of(slot),
                                                  completion.status);
                }
                continue;
            }
            ++received;
            if (completion.status == WorkStatus::success) {
                handle_receive(number, completion, receiver);
            } else {
                port.set_broken(true);
            }
            if (!port.is_current(completion)) [[unlikely]] {
                continue; // all receives have been posted again
            }
            // The receive just taken leaves room for this one; a queue pair in the error state is
            // restarted, or past help.
            if (!port.post_receive(DatagramPort::index_of(completion)).ok()) {
                ++counters_.bad_packets;
            }
        }
        taken += count;
        port.on_polled(received, count < room);
        if (count < room) {
            break;
        }
    }
    if (port.broken() && clock_.now() >= port.mend_at()) [[unlikely]] {
        retransmitter_.mend(number);
    }
    return taken;
}

Status DatagramChannel::make_anew(std::uint32_t port) {
    sender_.slots().read_keys(port);
    return sender_.port(port).make_anew();
}

bool DatagramChannel::on_fatal(std::uint32_t port, std::uint32_t qp_number) {
    if (port >= ports() || sender_.port(port).qp_number() != qp_number) {
        return false;
    }
    sender_.port(port).set_broken(true);
    return true;
}

} // namespace adaptib
