// SPDX-License-Identifier: BSD-3-Clause
// Sending datagrams (channel/datagram_sender.h).
#include "channel/datagram_sender.h"

#include <algorithm>

#include "base/invariant.h"

namespace adaptib {

namespace {

constexpr std::uint32_t kReceiveSlots = 64;
// Receives made in advance for the first contacts of a large job; further ones are added when they
// are missed. With datagrams of 4 KiB they take 4 MiB.
constexpr std::uint32_t kMostExpected = 1024;

} // namespace

Status DatagramSender::open(RailList rails, std::uint32_t most_receives,
                            std::uint32_t first_receives, bool gathers) {
    ADAPTIB_INVARIANT(!rails.empty() && rails.size() <= kMaxRails && ports_.empty(),
                      "a sender opens once, with a port on each of its rails", rails.size());
    gathers_ = gathers;
    datagram_bytes_ = rails[0]->info().datagram_bytes;
    for (const Rail* rail : rails) {
        datagram_bytes_ = std::min(datagram_bytes_, rail->info().datagram_bytes);
        reliable_ = reliable_ && rail->info().has(Capability::reliable_ud);
    }
    // A datagram that moves from one rail to another may be lost or arrive twice.
    reliable_ = reliable_ && rails.size() == 1;
    ports_.resize(rails.size());
    Status status = slots_.open(rails, datagram_bytes_);
    for (std::size_t i = 0; i < rails.size() && status.ok(); ++i) {
        const std::uint32_t first = reliable_ || i > 0 ? kReceiveSlots : first_receives;
        status = ports_[i].open(
            *rails[i], {SendSlots::kBlock, gathers ? SendSlots::kMostPieces : 1},
            {first, reliable_ ? first : std::max(first, most_receives)}, identity_.key, counters_);
        gathers_ = gathers_ && ports_[i].pieces() == SendSlots::kMostPieces;
    }
    return status;
}

void DatagramSender::expect(std::uint32_t processes) {
    if (!reliable_) {
        ports_[0].want_receives(std::min(processes, kMostExpected));
    }
}

DatagramHeader DatagramSender::prefix_for(const DatagramTarget& target) const {
    DatagramHeader prefix;
    prefix.target_key = target.key;
    prefix.source = identity_.name;
    prefix.source_key = identity_.key;
    prefix.rail = published(target.port);
    if (target.link != nullptr) {
        prefix.expected = target.link->expected();
        prefix.arrived = target.link->bits();
    }
    return prefix;
}

Status DatagramSender::post(std::uint32_t port, const AddressHandle& handle, std::uint32_t qp,
                            std::uint64_t key, std::uint32_t slot) {
    ADAPTIB_AUDIT(port < ports_.size() && slot < slots_.size(),
                  "a slot of the channel is posted on a port of the channel", port, slot);
    SendSlots::Pieces memory;
    const Status status =
        ports_[port].post(handle, qp, key, slots_.pieces(slot, port, memory), slot);
    if (status.ok()) {
        slots_.on_posted(slot, port);
    }
    return status;
}

// Restarts the same queue pair if that is possible, since its number is published.
void DatagramSender::restart(std::uint32_t number) {
    DatagramPort& port = ports_[number];
    if (!port.reset(clock_.now())) {
        return;
    }
    ++counters_.datagram_restarts;
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
        if (slots_.posted_on(slot, number)) {
            on_ended(slot, number);
        }
    }
    port.start_again();
}

void DatagramSender::drop_retired() {
    for (DatagramPort& port : ports_) {
        port.drop_retired();
    }
}

} // namespace adaptib
