// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous: an RTS (`rendezvous`) is sent, or is matched; who moves the data, and how; how it
// ends.
#include "protocol/rendezvous.h"

#include <algorithm>

namespace adaptib {

Rendezvous::~Rendezvous() {
    sends_.for_each([](SendTransfer* transfer) { delete transfer; });
    receives_.for_each([](ReceiveTransfer* transfer) { delete transfer; });
}

// Registers the data of a message for its transfer. Returns false if it is not contiguous, or
// cannot be registered.
template <typename Transferred>
bool Rendezvous::register_data(Transferred& transfer, const Data& data, Bytes bytes,
                               std::uint32_t access) {
    const std::uint32_t fabric = transfer.peer.contact.route.fabric;
    if (is_contiguous(data)) {
        transfer.local = static_cast<std::byte*>(data.base);
        transfer.memory = memory_.registered(fabric, transfer.own, data.base, bytes, access);
    } else {
        transfer.accelerator = memory_.accelerator(fabric).use(data);
        transfer.local = transfer.accelerator.address;
        transfer.memory = transfer.accelerator.registration.get();
    }
    return transfer.memory != nullptr;
}

// Prepares what the receiver needs to fetch the message: an address and keys, or, if the data is
// not contiguous or cannot be registered, a promise to pack it.
void Rendezvous::make_send_transfer(SendRequest& request) {
    auto transfer = std::make_unique<SendTransfer>(*this, transfers_, *request.peer);
    transfer->request = &request;
    transfer->kind = SourceKind::packed;
    if (register_data(*transfer, request.data, request.data.bytes, kRemoteRead)) {
        transfer->kind = SourceKind::direct;
    }
    transfer->id = sends_.add(transfer.get());
    note_event(
        counters_.trace, TraceKind::long_send,
        {.peer = request.peer->contact.name, .id = transfer->id, .value = request.data.bytes});
    request.transfer = transfer.release();
}

Status Rendezvous::announce(SendRequest& request) {
    Peer& peer = *request.peer;
    if (request.transfer == nullptr) {
        make_send_transfer(request);
    }
    const SendTransfer& transfer = *request.transfer;
    const std::uint32_t key_count = transfer.memory == nullptr ? 0 : transfer.memory->key_count();
    const Bytes length = rendezvous_bytes(key_count);
    std::byte* to = peer.reserve(length);
    if (to == nullptr) {
        return Status::again(Reason::queue_full);
    }
    RendezvousBody body{};
    body.bytes = request.data.bytes;
    body.send_id = transfer.id;
    body.kind = transfer.kind;
    body.op_kind = request.op_kind;
    if (transfer.kind == SourceKind::direct) {
        ADAPTIB_INVARIANT(transfer.memory != nullptr, "what is announced is registered",
                          body.bytes);
        body.address = reinterpret_cast<std::uintptr_t>(transfer.local);
        body.key_count = key_count;
        body.key_epoch = transfers_.key_epoch();
        transfer.memory->copy_remote_keys(body.keys);
    }
    std::memcpy(to, &body, length);
    MessageHeader header = header_of(request, length);
    const Status status = peer.commit(header);
    request.transfer->sent = status.ok();
    return status;
}

void Rendezvous::receive(Peer& peer, const RendezvousBody& source, ReceiveRequest& request,
                         Bytes wanted) {
    auto* transfer = new ReceiveTransfer(*this, transfers_, peer);
    transfer->request = &request;
    transfer->source = source;
    transfer->wanted = wanted;
    transfer->id = receives_.add(transfer);
    note_event(counters_.trace, TraceKind::long_receive,
               {.peer = peer.contact.name, .id = transfer->id, .value = wanted});
    ++peer.transfers.users;
    const bool open = peer.session.state == ConnectState::open;
    if (peer.session.connected() && (!open || peer.transfers.yields)) {
        ask_for_fragments(*transfer);
    } else if (open) {
        register_receive(*transfer);
        decide(*transfer);
    } else {
        undecided_.push_back(*transfer);
        events_.want_connection(peer);
        if (peer.session.connecting()) {
            register_receive(*transfer); // while the connection comes up
        }
    }
}

void Rendezvous::register_receive(ReceiveTransfer& transfer) {
    register_data(transfer, transfer.request->data, transfer.wanted, kLocalWrite | kRemoteWrite);
}

// REQUIRES: the peer is open.
void Rendezvous::decide(ReceiveTransfer& transfer) {
    const RendezvousBody& source = transfer.source;
    ClearBody clear{};
    clear.send_id = source.send_id;
    clear.receive_id = transfer.id;
    clear.wanted = transfer.wanted;
    clear.block_depth = static_cast<std::uint16_t>(options_.block_depth);
    clear.block_bytes = static_cast<std::uint32_t>(options_.block_bytes);
    if (!take_blocks(transfer)) {
        ask_for_fragments(transfer);
        return;
    }
    if (source.kind == SourceKind::packed) {
        transfer.mode = ReceiveTransfer::Mode::packed;
    } else if (transfer.memory == nullptr) {
        transfer.mode = ReceiveTransfer::Mode::read_blocks;
        start_block_reads(transfer);
        return;
    } else if (!options_.put) {
        transfer.mode = ReceiveTransfer::Mode::read;
        start_read(transfer);
        return;
    } else {
        transfer.mode = ReceiveTransfer::Mode::written;
        clear.address = reinterpret_cast<std::uintptr_t>(transfer.local);
        clear.key_count = static_cast<std::uint8_t>(transfer.memory->key_count());
        clear.key_epoch = transfers_.key_epoch();
        transfer.memory->copy_remote_keys(clear.keys);
    }
    flow_.send_control(transfer.peer, MessageType::clear_to_send, &clear, sizeof clear);
}

// Calls f for the peer's undecided transfers, in their order. Each leaves the list before its call.
template <typename F> void Rendezvous::for_each_undecided(Peer& peer, F&& f) {
    for (std::size_t left = undecided_.size(); left > 0 && !undecided_.empty(); --left) {
        ReceiveTransfer& transfer = *undecided_.pop_front();
        if (&transfer.peer == &peer) {
            f(transfer);
        } else {
            undecided_.push_back(transfer);
        }
    }
}

void Rendezvous::on_requested(Peer& peer) {
    if (!peer.session.connecting()) {
        for_each_undecided(peer, [&](ReceiveTransfer& each) { ask_for_fragments(each); });
        if (peer.session.state == ConnectState::idle && peer.connection.without.times > 0) {
            withdraw_transfers(peer); // it goes without a connection
        }
        return;
    }
    for (ReceiveTransfer* each = undecided_.front(); each != nullptr;
         each = undecided_.next(*each)) {
        if (&each->peer == &peer && each->memory == nullptr) {
            register_receive(*each);
        }
    }
}

void Rendezvous::on_connected(Peer& peer) {
    for_each_undecided(peer, [this](ReceiveTransfer& transfer) {
        if (transfer.peer.session.state == ConnectState::open) {
            if (transfer.memory == nullptr) { // the peer has asked for the connection
                register_receive(transfer);
            }
            decide(transfer);
        } else {
            ask_for_fragments(transfer);
        }
    });
}

void Rendezvous::on_unconnected(Peer& peer) {
    for_each_undecided(peer, [this](ReceiveTransfer& transfer) { ask_for_fragments(transfer); });
    withdraw_transfers(peer);
}

// Messages whose data was to go over a connection that has ended go in fragments, if they are
// contiguous at both ends.
void Rendezvous::withdraw_transfers(Peer& peer) {
    const auto waits = [&peer](const Transfer& transfer) {
        return &transfer.peer == &peer && transfer.waits() && transfer.rma.outstanding == 0;
    };
    const auto withdraw = [this](Transfer& transfer) {
        transfers_.stop_waiting(transfer);
        transfer.rma.plan.clear();
        transfer.rma.remaining.clear();
    };
    std::vector<std::uint64_t> ids;
    receives_.for_each([&](const ReceiveTransfer* transfer) {
        if (transfer->mode == ReceiveTransfer::Mode::read && waits(*transfer)) {
            ids.push_back(transfer->id);
        }
    });
    for (const std::uint64_t id : ids) {
        if (ReceiveTransfer* const transfer = receives_.find(id); transfer != nullptr) {
            withdraw(*transfer);
            ask_for_fragments(*transfer); // may end the peer's transfers
        }
    }
    sends_.for_each([&](SendTransfer* transfer) {
        if (transfer->cleared && !transfer->pushing && waits(*transfer)) {
            withdraw(*transfer);
            start_fragments(*transfer);
        }
    });
}

const Registration* Rendezvous::find_memory(const Peer& peer, std::uint64_t address,
                                            Bytes bytes) const {
    const Registration* found = nullptr;
    const auto look = [&](const std::byte* begin, Bytes length, const Registration* memory) {
        if (memory != nullptr &&
            is_within(address, bytes, reinterpret_cast<std::uintptr_t>(begin), length)) {
            found = memory;
        }
    };
    sends_.for_each([&](const SendTransfer* transfer) {
        if (&transfer->peer == &peer) {
            look(transfer->local, transfer->request->data.bytes, transfer->memory);
            for (const SendTransfer::Block& block : transfer->blocks) {
                if (block.memory != nullptr) {
                    look(block.memory->data(), block.length, &block.memory->registration);
                }
            }
        }
    });
    receives_.for_each([&](const ReceiveTransfer* transfer) {
        if (&transfer->peer == &peer && transfer->mode == ReceiveTransfer::Mode::written) {
            look(transfer->local, transfer->wanted, transfer->memory);
        }
    });
    return found;
}

std::span<std::byte> Rendezvous::data_of_send(const Peer& peer, std::uint64_t send_id) const {
    const SendTransfer* const transfer = sends_.find(send_id);
    if (transfer == nullptr || &transfer->peer != &peer || !transfer->sent ||
        transfer->kind != SourceKind::direct || transfer->accelerator.registration != nullptr) {
        return {};
    }
    const Data& data = transfer->request->data;
    return {static_cast<std::byte*>(data.base), data.bytes};
}

bool Rendezvous::has_blocks(const Peer& peer) const {
    bool found = false;
    sends_.for_each([&](const SendTransfer* transfer) {
        found = found || (&transfer->peer == &peer && transfer->kind == SourceKind::packed &&
                          transfer->cleared && !transfer->pushing);
    });
    receives_.for_each([&](const ReceiveTransfer* transfer) {
        found =
            found || (&transfer->peer == &peer && transfer->mode == ReceiveTransfer::Mode::packed);
    });
    return found;
}

void Rendezvous::on_clear_to_send(Peer& peer, std::uint8_t flags, const ClearBody& body) {
    SendTransfer* transfer = sends_.find(body.send_id);
    const bool put = body.address != 0;
    const bool push = flags == kClearPush;
    const bool blocks = body.block_depth > 0 && body.block_bytes > 0;
    if (transfer == nullptr || &transfer->peer != &peer || !transfer->sent || transfer->cleared ||
        body.wanted == 0 || body.wanted > transfer->request->data.bytes ||
        put != (transfer->kind == SourceKind::direct && !push) || !(put || push || blocks)) {
        ++counters_.bad_packets;
        return;
    }
    transfer->cleared = true;
    note_event(counters_.trace, TraceKind::long_send_cleared,
               {.peer = peer.contact.name, .value = body.wanted});
    ++peer.transfers.users;
    transfer->receive_id = body.receive_id;
    transfer->wanted = body.wanted;
    if (push) {
        start_fragments(*transfer);
    } else if (put) {
        transfer->rma.remote = body.address;
        transfer->rma.remote_key_count = body.key_count;
        transfer->rma.keys.epoch = body.key_epoch;
        std::copy(std::begin(body.keys), std::end(body.keys), transfer->rma.remote_keys);
        start_write(*transfer);
    } else {
        transfer->block_bytes = std::min<Bytes>(options_.block_bytes, body.block_bytes);
        transfer->blocks.resize(std::min<std::size_t>(options_.block_depth, body.block_depth));
        pack_blocks(*transfer);
    }
}

// Takes a FIN: the receiver has read the message, or as much of it as it has room for, or gives up.
void Rendezvous::on_finish(Peer& peer, const IdBody& body) {
    ++peer.flow.fins_received;
    SendTransfer* transfer = sends_.find(body.id);
    if (transfer == nullptr || &transfer->peer != &peer || !transfer->sent || transfer->pushing ||
        (transfer->cleared && transfer->kind == SourceKind::direct)) {
        ++counters_.bad_packets;
        return;
    }
    end_send(*transfer, false);
}

void Rendezvous::end_send(SendTransfer& transfer, bool failed) {
    SendRequest& request = *transfer.request;
    transfer.peer.transfers.users -= transfer.cleared ? 1 : 0;
    for (SendTransfer::Block& block : transfer.blocks) {
        if (block.memory != nullptr) {
            staging(transfer.peer).give(std::move(block.memory));
        }
    }
    note_event(counters_.trace, TraceKind::long_send_end,
               {.peer = transfer.peer.contact.name, .id = transfer.id, .value = transfer.wanted});
    sends_.remove(transfer.id);
    delete &transfer;
    completions_.complete(*request.user,
                          failed ? OPAL_COMMON_ADAPTIB_UNREACHABLE : OPAL_COMMON_ADAPTIB_SUCCESS,
                          failed ? 0 : request.data.bytes);
}

// REQUIRES: no block is active and no stripe outstanding.
void Rendezvous::end_receive(ReceiveTransfer& transfer) {
    ReceiveRequest& request = *transfer.request;
    const Bytes message_bytes = transfer.source.bytes;
    const Bytes wanted = transfer.wanted;
    const bool failed = transfer.failed;
    // A sender that packs ends with its last block, a sender that writes ends by itself. After a
    // failure, the sender has to be told.
    const bool tell =
        !transfer.sender_ended && (failed || transfer.mode == ReceiveTransfer::Mode::read ||
                                   transfer.mode == ReceiveTransfer::Mode::read_blocks);
    Peer& peer = transfer.peer;
    --peer.transfers.users;
    if (transfer.undecided_link.linked()) {
        undecided_.remove(transfer);
    }
    give_blocks(transfer);
    const IdBody body{transfer.source.send_id};
    note_event(counters_.trace, TraceKind::long_receive_end,
               {.peer = peer.contact.name, .id = transfer.id, .value = wanted});
    receives_.remove(transfer.id);
    delete &transfer;
    if (tell) {
        flow_.send_control(peer, MessageType::finish, &body, sizeof body);
    }
    const bool lost = peer.interruption.work_failed || peer.session.lost();
    const int failure = !failed ? OPAL_COMMON_ADAPTIB_SUCCESS
                        : lost  ? OPAL_COMMON_ADAPTIB_UNREACHABLE
                                : OPAL_COMMON_ADAPTIB_ERROR;
    completions_.complete_receive(request, request.envelope, message_bytes, failed ? 0 : wanted,
                                  failure);
}

void Rendezvous::on_rma_done(Transfer& transfer) {
    auto& its = static_cast<MessageTransfer&>(transfer);
    switch (its.part) {
    case MessageTransfer::Part::send: on_write_done(static_cast<SendTransfer&>(its)); break;
    case MessageTransfer::Part::receive: on_read(static_cast<ReceiveTransfer&>(its)); break;
    case MessageTransfer::Part::block: on_block_read(static_cast<BlockRead&>(its)); break;
    }
}

void Rendezvous::fail(Peer& peer) {
    std::vector<SendTransfer*> sends;
    sends_.for_each([&](SendTransfer* transfer) {
        if (&transfer->peer == &peer && transfer->rma.outstanding == 0) {
            sends.push_back(transfer);
        }
    });
    for (SendTransfer* transfer : sends) {
        end_send(*transfer, true);
    }
    std::vector<ReceiveTransfer*> receives;
    receives_.for_each([&](ReceiveTransfer* transfer) {
        if (&transfer->peer == &peer) {
            transfer->failed = true;
            if (transfer->rma.outstanding == 0 && transfer->active.empty()) {
                receives.push_back(transfer);
            }
        }
    });
    for (ReceiveTransfer* transfer : receives) {
        end_receive(*transfer);
    }
}

} // namespace adaptib
