// SPDX-License-Identifier: BSD-3-Clause
// The datagram channel (channel/datagram.h).
#include "channel/datagram.h"

#include <algorithm>
#include <utility>

namespace adaptib {

namespace {

// Blocks of send slots: room for 256 targets that do not answer
constexpr std::size_t kMostBlocks = 64;
constexpr std::uint32_t kReceiveSlots = 64;
constexpr std::uint32_t kLostReceiveSlots = 256; // if a datagram that finds no receive is lost
constexpr Nanoseconds kMendEvery{10'000'000};
constexpr std::uint64_t kSendTag = std::uint64_t{1} << 32; // wr_id: a send slot, not a receive slot

// wr_id: incarnation of the port's queue pair.
constexpr std::uint64_t life_tag(std::uint32_t life) { return std::uint64_t{life} << 33; }

} // namespace

Status DatagramChannel::create(RailList rails, std::uint32_t first, const Identity& identity,
                               const Clock& clock, Counters& counters,
                               std::unique_ptr<DatagramChannel>& out) {
    for (const Rail* rail : rails) {
        if (!rail->info().has(Capability::ud)) {
            return Status::error(Reason::not_supported);
        }
    }
    std::unique_ptr<DatagramChannel> channel(new DatagramChannel(first, identity, clock, counters));
    if (Status status = channel->open(rails); !status.ok()) {
        return status;
    }
    out = std::move(channel);
    return kOk;
}

DatagramChannel::~DatagramChannel() {
    for (Port& port : ports_) {
        port.qp.reset();
        port.retired.clear();
    }
}

Status DatagramChannel::open(RailList rails) {
    Bytes datagram_bytes = rails[0]->info().datagram_bytes;
    for (const Rail* rail : rails) {
        datagram_bytes = std::min(datagram_bytes, rail->info().datagram_bytes);
        reliable_ = reliable_ && rail->info().has(Capability::reliable_ud);
    }
    // A datagram that moves from one rail to another may be lost or arrive twice.
    reliable_ = reliable_ && rails.size() == 1;
    slot_bytes_ = round_up(datagram_bytes, kCacheLine);
    capacity_ = datagram_bytes - sizeof(DatagramHeader) - sizeof(MessageHeader);
    ports_.resize(rails.size());
    for (std::size_t i = 0; i < rails.size(); ++i) {
        ports_[i].rail = rails[i];
    }
    Status status = add_slots();
    for (std::size_t i = 0; i < rails.size() && status.ok(); ++i) {
        status = open_port(ports_[i], reliable_ || i > 0 ? kReceiveSlots : kLostReceiveSlots);
    }
    return status;
}

// Adds kSendSlots slots, which all ports send from.
Status DatagramChannel::add_slots() {
    SendBlock block;
    Status status = ports_[0].rail->allocate(kSendSlots * slot_bytes_, 0, block.memory);
    block.keys[0] = status.ok() ? block.memory->local_key() : 0;
    for (std::size_t i = 1; i < ports_.size() && status.ok(); ++i) {
        status = ports_[i].rail->register_memory(block.memory->address(), block.memory->length(), 0,
                                                 block.regions[i]);
        block.keys[i] = status.ok() ? block.regions[i]->local_key() : 0;
    }
    if (!status.ok()) {
        return status;
    }
    ++counters_.buffers;
    counters_.buffers_bytes += block.memory->length();
    blocks_.push_back(std::move(block));
    free_sends_.reserve(blocks_.size() * kSendSlots);
    for (std::uint32_t i = 0; i < kSendSlots; ++i) {
        free_sends_.push_back(static_cast<std::uint32_t>(sends_.size()));
        sends_.emplace_back();
    }
    return kOk;
}

// Adds slots if targets that do not answer occupy half of them, so that the others do not run
// short.
void DatagramChannel::make_room() {
    std::size_t kept = 0;
    for (DatagramLink* link = minded_.front(); link != nullptr; link = minded_.next(*link)) {
        kept += link->target.doubted ? link->kept() : 0;
    }
    if (2 * kept >= sends_.size() && blocks_.size() < kMostBlocks) {
        static_cast<void>(add_slots()); // if that fails, the others wait
    }
}

Status DatagramChannel::open_port(Port& port, std::uint32_t receives) {
    port.receives = receives;
    port.receive_bytes = round_up(port.rail->info().datagram_bytes, kCacheLine);
    Status status =
        port.rail->allocate(receives * port.receive_bytes, kLocalWrite, port.receive_memory);
    if (status.ok()) {
        ++counters_.buffers;
        counters_.buffers_bytes += port.receive_memory->length();
        status = port.rail->create_cq(kSendSlots + receives, port.cq);
    }
    if (!status.ok()) {
        return status;
    }
    QpInit init;
    init.type = QpType::ud;
    init.send_cq = port.cq.get();
    init.receive_cq = port.cq.get();
    init.send_depth = kSendSlots;
    init.receive_depth = receives;
    if (status = port.rail->create_qp(init, port.qp); !status.ok()) {
        return status;
    }
    return start(port);
}

// Brings the queue pair from RESET to RTS and posts its receives.
Status DatagramChannel::start(Port& port) {
    QpAttributes attributes;
    attributes.state = QpState::init;
    attributes.access_key = identity_.key;
    Status status = port.qp->modify(attributes, kQpState | kQpKey);
    attributes.state = QpState::ready_to_receive;
    if (status.ok()) {
        status = port.qp->modify(attributes, kQpState);
    }
    attributes.state = QpState::ready_to_send;
    if (status.ok()) {
        status = port.qp->modify(attributes, kQpState | kQpSendPsn);
    }
    for (std::uint32_t i = 0; i < port.receives && status.ok(); ++i) {
        status = post_receive(port, i);
    }
    return status;
}

// Restarts the same queue pair, since its number is published; all work under way ends by that.
void DatagramChannel::restart(std::uint32_t number) {
    Port& port = ports_[number];
    QpAttributes attributes;
    attributes.state = QpState::reset;
    port.broken = !port.qp->modify(attributes, kQpState).ok();
    port.mend_at = clock_.now() + kMendEvery; // in case the device is gone
    if (port.broken) {
        return;
    }
    ++port.life;
    ++counters_.datagram_restarts;
    for (std::uint32_t slot = 0; slot < sends_.size(); ++slot) {
        if (sends_[slot].under_way_over(number)) {
            over(slot, number);
        }
    }
    port.broken = !start(port).ok();
    port.mend_at = port.broken ? port.mend_at : Nanoseconds{0};
}

Status DatagramChannel::post_receive(Port& port, std::uint32_t index) {
    auto* base = static_cast<std::byte*>(port.receive_memory->address());
    const Gather scatter{base + index * port.receive_bytes, port.rail->info().datagram_bytes,
                         port.receive_memory->local_key()};
    ReceiveWork work;
    work.wr_id = life_tag(port.life) | index;
    work.scatter = &scatter;
    work.scatter_count = 1;
    return port.qp->post_receive(work);
}

std::byte* DatagramChannel::reserve(Bytes) {
    if (free_sends_.empty()) {
        return nullptr;
    }
    return slot_at(free_sends_.back()) + sizeof(DatagramHeader) + sizeof(MessageHeader);
}

// Returns a header without a number.
DatagramHeader DatagramChannel::prefix_for(const DatagramTarget& target) const {
    DatagramHeader prefix;
    prefix.target_key = target.key;
    prefix.source = identity_.name;
    prefix.source_key = identity_.key;
    prefix.rail = static_cast<std::uint8_t>(first_ + target.port);
    if (target.link != nullptr) {
        prefix.expected = target.link->expected();
        prefix.arrived = target.link->bits();
    }
    return prefix;
}

// Fills in all but the data behind the message header.
void DatagramChannel::fill(std::uint32_t slot, const DatagramTarget& target,
                           const DatagramHeader& prefix, const MessageHeader& header) {
    std::byte* at = slot_at(slot);
    std::memcpy(at, &prefix, sizeof prefix);
    std::memcpy(at + sizeof prefix, &header, sizeof header);
    const auto bytes = static_cast<std::uint32_t>(sizeof prefix + sizeof header + header.length);
    sends_[slot] = {target.name, bytes, 0, false, Nanoseconds{0}};
}

Status DatagramChannel::commit(DatagramTarget& target, const MessageHeader& header) {
    if (target.handle == nullptr) {
        return target.coming ? Status::again(Reason::not_connected)
                             : Status::error(Reason::peer_gone);
    }
    if (!reliable_) {
        if (target.link == nullptr) {
            target.link = std::make_unique<DatagramLink>(target);
        }
        if (!target.link->may_send()) {
            return Status::again(Reason::no_credit);
        }
    }
    const std::uint32_t slot = free_sends_.back();
    DatagramHeader prefix = prefix_for(target);
    DatagramLink* link = target.link.get();
    Nanoseconds now{0};
    if (link != nullptr) {
        now = clock_.now();
        prefix.number = link->add(slot, now);
    }
    fill(slot, target, prefix, header);
    sends_[slot].kept = link != nullptr;
    sends_[slot].posted = now;
    const Status status = post(target, slot);
    if (status.ok()) {
        free_sends_.pop_back();
        if (link != nullptr) {
            link->told();
            mind(*link);
        }
    } else if (link != nullptr) {
        sends_[slot].kept = false;
        link->take_back();
        if (path_failure_ && status.is_error() && status.reason() != Reason::peer_gone) {
            ports_[target.port].broken = true; // the next poll handles it
            failed_.push_back({target.port, target.name, WorkStatus::local_qp_error});
            return Status::again(Reason::queue_full);
        }
    }
    return status;
}

Status DatagramChannel::post(const DatagramTarget& target, std::uint32_t slot) {
    return post(target.port, *target.handle, target.qp, target.key, slot);
}

Status DatagramChannel::post(std::uint32_t number, const AddressHandle& handle, std::uint32_t qp,
                             std::uint64_t key, std::uint32_t slot) {
    Port& port = ports_[number];
    const Gather gather{slot_at(slot), sends_[slot].bytes, blocks_[slot / kSendSlots].keys[number]};
    SendWork work;
    work.wr_id = life_tag(port.life) | kSendTag | slot;
    work.opcode = Opcode::send;
    work.flags = kSignaled;
    work.gather = &gather;
    work.gather_count = 1;
    work.address_handle = &handle;
    work.remote_qp = qp;
    work.remote_access_key = key;
    const Status status = port.qp->post_send(work);
    if (status.ok()) {
        sends_[slot].under_way |= bit_of(number);
        ++port.posts;
    }
    return status;
}

void DatagramChannel::release(std::uint32_t slot) {
    if (sends_[slot].under_way == 0 && !sends_[slot].kept) {
        free_sends_.push_back(slot);
    }
}

// Called when the port has completed its send of the slot.
void DatagramChannel::over(std::uint32_t slot, std::uint32_t port) {
    sends_[slot].under_way &= static_cast<std::uint8_t>(~bit_of(port));
    ++ports_[port].ended;
    release(slot);
}

// -------------------------------------------------------------------------------------------------
// Arriving

void DatagramChannel::handle_receive(std::uint32_t port, const WorkCompletion& completion,
                                     const Receiver& receiver) {
    const auto index = static_cast<std::uint32_t>(completion.wr_id);
    const auto* at = static_cast<const std::byte*>(ports_[port].receive_memory->address()) +
                     index * ports_[port].receive_bytes;
    DatagramHeader prefix;
    MessageHeader header;
    if (completion.length < sizeof prefix) {
        ++counters_.bad_packets;
        return;
    }
    std::memcpy(&prefix, at, sizeof prefix);
    const Bytes rest = completion.length - sizeof prefix;
    const bool acknowledges = !reliable_ && rest == 0; // and carries nothing else
    if (prefix.magic != kHeaderMagic || prefix.version != kWireVersion ||
        prefix.target_key != identity_.key || (!acknowledges && rest < sizeof header)) {
        ++counters_.bad_packets;
        return;
    }
    if (acknowledges) {
        static_cast<void>(accept(prefix, acknowledges, port));
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
    if (!reliable_ && !accept(prefix, acknowledges, port)) {
        return;
    }
    if (is_sequenced(header.type)) {
        ++counters_.datagram_received;
    }
    receiver(prefix.source, prefix.source_key, header, body);
}

void DatagramChannel::handle_failed_send(std::uint32_t port, std::uint64_t to, WorkStatus status) {
    // A datagram needs no answer: retry_exceeded comes only from a fabric that knows that the
    // target's process has ended.
    if (!path_failure_ || reliable_ || status == WorkStatus::retry_exceeded) {
        if (failure_) {
            failure_(to, status);
        }
        return;
    }
    ports_[port].broken = true;
    if (status != WorkStatus::flushed) {
        failed_.push_back({port, to, status});
    }
}

std::size_t DatagramChannel::poll(const Receiver& receiver, std::size_t limit) {
    std::size_t taken = poll_port(0, receiver, limit);
    if (ports_.size() > 1) {
        next_port_ = next_port_ + 1 < ports_.size() ? next_port_ + 1 : 1;
        taken += poll_port(next_port_, receiver, limit);
    }
    if (!alone_.empty()) {
        acknowledge_alone();
    }
    return taken;
}

std::size_t DatagramChannel::poll_port(std::uint32_t number, const Receiver& receiver,
                                       std::size_t limit) {
    Port& port = ports_[number];
    std::size_t taken = 0;
    while (taken < limit) {
        const std::size_t room = std::min(batch_.size(), limit - taken);
        const std::size_t count = port.cq->poll(std::span(batch_).first(room));
        for (std::size_t i = 0; i < count; ++i) {
            const WorkCompletion& completion = batch_[i];
            if (completion.wr_id >> 33 != port.life) [[unlikely]] {
                continue; // from before the restart of the queue pair
            }
            if ((completion.wr_id & kSendTag) != 0) {
                const auto slot = static_cast<std::uint32_t>(completion.wr_id);
                over(slot, number);
                if (completion.status != WorkStatus::success) [[unlikely]] {
                    handle_failed_send(number, sends_[slot].to, completion.status);
                }
                continue;
            }
            if (completion.status == WorkStatus::success) {
                handle_receive(number, completion, receiver);
            } else {
                port.broken = true;
            }
            if (completion.wr_id >> 33 != port.life) [[unlikely]] {
                continue; // all receives have been posted again
            }
            // The receive just taken leaves room for this one; a queue pair in the error state is
            // restarted, or past help.
            if (!post_receive(port, static_cast<std::uint32_t>(completion.wr_id)).ok()) {
                ++counters_.bad_packets;
            }
        }
        taken += count;
        if (count < room) {
            break;
        }
    }
    if (port.broken && clock_.now() >= port.mend_at) [[unlikely]] {
        mend(number);
    }
    return taken;
}

bool DatagramChannel::on_fatal(std::uint32_t port, std::uint32_t qp_number) {
    if (port >= ports_.size() || ports_[port].qp->number() != qp_number) {
        return false;
    }
    ports_[port].broken = true;
    return true;
}

// Called after a send or a receive has ended with an error and the whole batch has been taken.
void DatagramChannel::mend(std::uint32_t number) {
    ports_[number].broken = false;
    if (ports_[number].qp->query().state != QpState::ready_to_send) {
        restart(number);
    }
    for (const Failed& failed : std::exchange(failed_, {})) {
        DatagramTarget* target = find_(failed.to);
        if (target != nullptr && target->port == failed.port) {
            doubt(*target, PathFailure::failed, failed.status);
        }
    }
}

} // namespace adaptib
