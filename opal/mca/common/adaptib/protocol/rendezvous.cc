// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/rendezvous.h"

#include <algorithm>

namespace adaptib {

namespace {

constexpr int kFragmentsInARow = 8; // then the peer's other pending sends have their turn

} // namespace

// -------------------------------------------------------------------------------------------------
// A message is announced (an RTS), or is matched; who moves the data, and how; how it ends

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
    const bool open = peer.session.is_open();
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
        if (peer.session.is_idle() && peer.connection.without.times > 0) {
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
        if (transfer.peer.session.is_open()) {
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

// -------------------------------------------------------------------------------------------------
// The receiver reads: straight into the user's buffer, or block by block to unpack

void Rendezvous::start_read(ReceiveTransfer& transfer) {
    TransferPlan& rma = transfer.rma;
    rma.opcode = Opcode::read;
    rma.op_kind = transfer.source.op_kind;
    rma.local = transfer.local;
    rma.registration = transfer.memory;
    rma.remote = transfer.source.address;
    rma.remote_key_count = transfer.source.key_count;
    rma.keys.epoch = transfer.source.key_epoch;
    std::copy(std::begin(transfer.source.keys), std::end(transfer.source.keys), rma.remote_keys);
    rma.length = transfer.wanted;
    transfers_.start_transfer(transfer);
}

// True if the system could not reach the memory of one end: pages that a signal handler opens at
// the first access, say. Each end's processor then copies its own buffer, which its user has
// promised to be there; no address that a peer names is touched so.
bool Rendezvous::needs_processors(const Transfer& transfer) {
    return transfer.rma.failure == TransferFailure::fault && !transfer.peer.session.lost();
}

void Rendezvous::on_read(ReceiveTransfer& transfer) {
    if (!transfer.failed && needs_processors(transfer)) [[unlikely]] {
        ask_for_fragments(transfer);
        return;
    }
    transfer.failed = transfer.failed || transfer.rma.failed;
    end_receive(transfer);
}

// Takes memory for as many blocks as can be under way at a time. Returns false if there is none.
bool Rendezvous::take_blocks(ReceiveTransfer& transfer) {
    if (transfer.memory != nullptr) {
        return true; // the data needs no unpacking
    }
    StagingPool& pool = staging(transfer.peer);
    const bool known =
        transfer.source.kind == SourceKind::direct; // else the sender decides how long blocks are
    const std::size_t all = (transfer.wanted + options_.block_bytes - 1) / options_.block_bytes;
    transfer.spare.resize(known ? std::min(all, options_.block_depth) : options_.block_depth);
    for (std::unique_ptr<StagingBlock>& block : transfer.spare) {
        if (!pool.take(block).ok()) {
            give_blocks(transfer);
            return false;
        }
    }
    return true;
}

void Rendezvous::give_blocks(ReceiveTransfer& transfer) {
    for (std::unique_ptr<StagingBlock>& block : transfer.spare) {
        if (block != nullptr) {
            staging(transfer.peer).give(std::move(block));
        }
    }
    transfer.spare.clear();
}

// Keeps up to block_depth blocks under way.
void Rendezvous::start_block_reads(ReceiveTransfer& transfer) {
    const RendezvousBody source = transfer.source;
    const std::uint64_t id = transfer.id;
    // A block that cannot be read may end the transfer.
    while (receives_.find(id) != nullptr && !transfer.failed &&
           transfer.active.size() < options_.block_depth && transfer.started < transfer.wanted) {
        const Bytes length = std::min(options_.block_bytes, transfer.wanted - transfer.started);
        const Bytes offset = transfer.started;
        transfer.started += length;
        start_block_read(transfer, offset, length, source.address + offset, source.keys,
                         source.key_count, source.key_epoch, 0);
    }
}

// Reads [offset, offset + length) of the stream from `remote`. REQUIRES: fewer than block_depth
// blocks are under way.
void Rendezvous::start_block_read(ReceiveTransfer& transfer, Bytes offset, Bytes length,
                                  std::uint64_t remote, const std::uint32_t* keys,
                                  std::uint32_t key_count, std::uint8_t key_epoch,
                                  std::uint32_t remote_block) {
    transfer.active.push_back(
        std::make_unique<BlockRead>(*this, transfers_, transfer.peer, transfer));
    BlockRead* block = transfer.active.back().get();
    block->offset = offset;
    block->length = length;
    block->remote_block = remote_block;
    TransferPlan& rma = block->rma;
    rma.opcode = Opcode::read;
    rma.op_kind = transfer.source.op_kind;
    rma.remote = remote;
    rma.remote_key_count = key_count;
    rma.keys.epoch = key_epoch;
    std::copy_n(keys, kMaxRails, rma.remote_keys);
    rma.length = length;
    if (transfer.memory != nullptr) {
        rma.local = transfer.local + offset;
        rma.registration = transfer.memory;
    } else {
        block->memory = std::move(transfer.spare.back());
        transfer.spare.pop_back();
        rma.local = block->memory->data();
        rma.registration = &block->memory->registration;
    }
    transfers_.start_transfer(*block);
}

// Reads a block again that could not be read into the user's buffer, to be copied there. Returns
// false if there is no memory for it.
bool Rendezvous::read_aside(BlockRead& block) {
    std::vector<std::unique_ptr<StagingBlock>>& spare = block.transfer.spare;
    if (!spare.empty()) {
        block.memory = std::move(spare.back());
        spare.pop_back();
    } else if (!staging(block.peer).take(block.memory).ok()) {
        return false;
    }
    block.rma.begin_again();
    block.rma.failed = false;
    block.rma.failure = TransferFailure::path;
    block.rma.local = block.memory->data();
    block.rma.registration = &block.memory->registration;
    transfers_.start_transfer(block);
    return true;
}

void Rendezvous::on_block_read(BlockRead& block) {
    ReceiveTransfer& transfer = block.transfer;
    const bool own = block.memory == nullptr; // the user's buffer
    if (!transfer.failed && needs_processors(block)) [[unlikely]] {
        if (own && read_aside(block)) {
            return;
        }
        if (!own && transfer.mode == ReceiveTransfer::Mode::read_blocks) {
            transfer.rma.failure = TransferFailure::fault;
        }
    }
    const bool begins_again = transfer.rma.failure == TransferFailure::fault;
    transfer.failed = transfer.failed || (block.rma.failed && !begins_again);
    if (!transfer.failed && !block.rma.failed) {
        if (block.memory != nullptr) {
            ++counters_.blocks_packed;
            const Status status =
                scatter(transfer.request->data, block.offset, block.memory->data(), block.length);
            transfer.failed = !status.ok();
        }
        transfer.received += block.length;
        if (transfer.mode == ReceiveTransfer::Mode::packed) {
            const BlockDoneBody body{transfer.source.send_id, block.remote_block, 0};
            flow_.send_control(transfer.peer, MessageType::block_done, &body, sizeof body);
        }
    }
    if (block.memory != nullptr) {
        transfer.spare.push_back(std::move(block.memory));
    }
    std::erase_if(transfer.active, [&](const auto& each) { return each.get() == &block; });
    if (!transfer.failed && needs_processors(transfer)) [[unlikely]] {
        if (transfer.active.empty()) {
            transfer.received = 0;
            ask_for_fragments(transfer);
        }
    } else if (transfer.failed ? transfer.active.empty() : transfer.received == transfer.wanted) {
        end_receive(transfer);
    } else if (transfer.mode == ReceiveTransfer::Mode::read_blocks) {
        start_block_reads(transfer);
    }
}

// -------------------------------------------------------------------------------------------------
// The sender packs non-contiguous data block by block; the receiver reads and releases each block

// Fills and announces every free block, while there is data left. Without memory for any block, the
// message goes in fragments.
void Rendezvous::pack_blocks(SendTransfer& transfer) {
    const auto blocks = static_cast<std::uint32_t>(transfer.blocks.size());
    for (std::uint32_t i = 0; i < blocks && transfer.announced < transfer.wanted; ++i) {
        if (transfer.blocks[i].length == 0 && !pack_block(transfer, i)) {
            break;
        }
    }
    const bool any_busy = std::any_of(transfer.blocks.begin(), transfer.blocks.end(),
                                      [](const auto& block) { return block.length > 0; });
    if (!any_busy && transfer.blocks[0].memory == nullptr) {
        start_fragments(transfer);
    } else if (!any_busy) {
        options_.message(Severity::failure,
                         "A message could not be sent, since its data type cannot be packed.");
        Peer& peer = transfer.peer;
        const WrittenBody given_up{transfer.receive_id, 0};
        end_send(transfer, true);
        flow_.send_control(peer, MessageType::written, &given_up, sizeof given_up);
    }
}

// Returns false if nothing could be packed. May pack more than is wanted, since a packer stops at
// the end of an element; the excess is not announced.
bool Rendezvous::pack_block(SendTransfer& transfer, std::uint32_t index) {
    SendTransfer::Block& block = transfer.blocks[index];
    if (block.memory == nullptr && !staging(transfer.peer).take(block.memory).ok()) {
        return false;
    }
    const Data& data = transfer.request->data;
    const Bytes packed =
        gather_some(data, transfer.packed, block.memory->data(),
                    std::min<Bytes>(transfer.block_bytes, data.bytes - transfer.packed));
    if (packed == 0) {
        return false;
    }
    ++counters_.blocks_packed;
    block.length = std::min(packed, transfer.wanted - transfer.announced);
    BlockBody body{};
    body.receive_id = transfer.receive_id;
    body.offset = transfer.announced;
    body.address = reinterpret_cast<std::uintptr_t>(block.memory->data());
    body.length = static_cast<std::uint32_t>(block.length);
    body.block = index;
    body.key_count = block.memory->registration.key_count();
    body.key_epoch = transfers_.key_epoch();
    block.memory->registration.copy_remote_keys(body.keys);
    transfer.packed += packed;
    transfer.announced += block.length;
    flow_.send_control(transfer.peer, MessageType::block, &body, sizeof body);
    return true;
}

void Rendezvous::on_block(Peer& peer, const BlockBody& body) {
    ReceiveTransfer* transfer = receives_.find(body.receive_id);
    if (transfer == nullptr || &transfer->peer != &peer ||
        transfer->mode != ReceiveTransfer::Mode::packed || body.offset != transfer->started ||
        body.length > transfer->wanted - transfer->started ||
        (transfer->memory == nullptr &&
         (body.length > options_.block_bytes || transfer->spare.empty()))) {
        ++counters_.bad_packets;
        return;
    }
    transfer->started += body.length;
    start_block_read(*transfer, body.offset, body.length, body.address, body.keys, body.key_count,
                     body.key_epoch, body.block);
}

void Rendezvous::on_block_done(Peer& peer, const BlockDoneBody& body) {
    SendTransfer* transfer = sends_.find(body.send_id);
    if (transfer == nullptr || &transfer->peer != &peer || body.block >= transfer->blocks.size() ||
        transfer->blocks[body.block].length == 0) {
        ++counters_.bad_packets;
        return;
    }
    transfer->delivered += transfer->blocks[body.block].length;
    transfer->blocks[body.block].length = 0;
    if (transfer->delivered == transfer->wanted) {
        end_send(*transfer, false);
    } else {
        pack_blocks(*transfer);
    }
}

// -------------------------------------------------------------------------------------------------
// The sender writes into the receiver's buffer and says when all of it is there (put)

void Rendezvous::start_write(SendTransfer& transfer) {
    TransferPlan& rma = transfer.rma;
    rma.opcode = Opcode::write;
    rma.local = transfer.local;
    rma.registration = transfer.memory;
    rma.length = transfer.wanted;
    rma.op_kind = transfer.request->op_kind;
    transfers_.start_transfer(transfer);
}

// A write's completion means that its data is in the receiver's memory, on every rail.
void Rendezvous::on_write_done(SendTransfer& transfer) {
    if (needs_processors(transfer)) [[unlikely]] {
        start_fragments(transfer);
        return;
    }
    Peer& receiver = transfer.peer;
    const bool written = !transfer.rma.failed;
    const WrittenBody body{transfer.receive_id, transfer.wanted};
    end_send(transfer, !written);
    if (written) {
        flow_.send_control(receiver, MessageType::written, &body, sizeof body);
    }
}

// Fewer bytes than wanted: the sender has given up.
void Rendezvous::on_written(Peer& peer, const WrittenBody& body) {
    ReceiveTransfer* transfer = receives_.find(body.receive_id);
    const bool whole = transfer != nullptr && body.bytes == transfer->wanted;
    if (transfer == nullptr || &transfer->peer != &peer ||
        (transfer->mode != ReceiveTransfer::Mode::written &&
         (whole || (transfer->mode != ReceiveTransfer::Mode::packed &&
                    transfer->mode != ReceiveTransfer::Mode::pushed)))) {
        ++counters_.bad_packets;
        return;
    }
    transfer->failed = transfer->failed || !whole;
    transfer->sender_ended = true;
    if (transfer->active.empty()) {
        end_receive(*transfer);
    }
}

// -------------------------------------------------------------------------------------------------
// Fragments: the way of a message if there is no connection and no room for one, no memory to pack
// into or unpack from, or if the system cannot reach the buffer of one end. The receiver asks for
// fragments (kClearPush), or the sender finds that it has to send them. Fragments go among the
// sender's other messages, over the same channel.

void Rendezvous::ask_for_fragments(ReceiveTransfer& transfer) {
    if (transfer.undecided_link.linked()) {
        undecided_.remove(transfer);
    }
    transfer.mode = ReceiveTransfer::Mode::pushed;
    ClearBody clear{};
    clear.send_id = transfer.source.send_id;
    clear.receive_id = transfer.id;
    clear.wanted = transfer.wanted;
    flow_.send_control(transfer.peer, MessageType::clear_to_send, &clear, sizeof clear, kClearPush);
}

void Rendezvous::start_fragments(SendTransfer& transfer) {
    transfer.pushing = true;
    transfer.packed = transfer.announced = 0;
    flow_.stall(transfer.peer, transfer.fragments);
}

// Packs the next bytes, for one fragment. Returns their number; 0: they cannot be packed. May pack
// more than is wanted, since a packer stops at the end of an element.
Bytes Rendezvous::fill_fragment(SendTransfer& transfer, Bytes room) {
    const Data& data = transfer.request->data;
    const Bytes most = std::min<Bytes>(room, data.bytes - transfer.packed);
    fragment_.resize(std::max<std::size_t>(fragment_.size(), most));
    return gather_some(data, transfer.packed, fragment_.data(), most);
}

bool Rendezvous::transmit(PendingSend& send) {
    SendTransfer& transfer = static_cast<SendTransfer::Fragments&>(send).transfer;
    Peer& peer = transfer.peer;
    for (int i = 0; i < kFragmentsInARow; ++i) {
        const Bytes most = peer.message_capacity() - sizeof(FragmentBody);
        if (peer.reserve(most + sizeof(FragmentBody)) == nullptr) {
            return false;
        }
        const Bytes packed = fill_fragment(transfer, most);
        if (packed == 0) {
            const WrittenBody given_up{transfer.receive_id, 0};
            end_send(transfer, true);
            flow_.send_control(peer, MessageType::written, &given_up, sizeof given_up);
            return true;
        }
        const Bytes bytes = std::min(packed, transfer.wanted - transfer.announced);
        const FragmentBody body{transfer.receive_id, transfer.announced};
        MessageHeader header;
        header.type = MessageType::fragment;
        header.length = static_cast<std::uint32_t>(sizeof body + bytes);
        std::byte* to = peer.reserve(header.length);
        if (to == nullptr) {
            return false;
        }
        std::memcpy(to, &body, sizeof body);
        std::memcpy(to + sizeof body, fragment_.data(), bytes);
        const Status status = peer.commit(header);
        if (status.is_again()) {
            return false;
        }
        if (!status.ok()) {
            lost_.lose(peer, reason_text(status.reason())); // the transfer ends with it
            return true;
        }
        ++counters_.fragments_sent;
        transfer.packed += packed;
        transfer.announced += bytes;
        if (transfer.announced == transfer.wanted) {
            end_send(transfer, false);
            return true;
        }
    }
    peer.out.pending.add(transfer.fragments); // behind the others
    return true;
}

// A receiver that cannot unpack still takes the rest, so that both sides end.
void Rendezvous::on_fragment(Peer& peer, const MessageHeader& header, const std::byte* body) {
    const auto fragment = read_body<FragmentBody>(body);
    const Bytes bytes = header.length - sizeof fragment;
    ReceiveTransfer* transfer = receives_.find(fragment.receive_id);
    const auto expects = [](const ReceiveTransfer& each) {
        return each.mode == ReceiveTransfer::Mode::pushed ||
               each.mode == ReceiveTransfer::Mode::written ||
               (each.mode == ReceiveTransfer::Mode::packed && each.started == 0);
    };
    if (transfer == nullptr || &transfer->peer != &peer || !expects(*transfer) ||
        fragment.offset != transfer->received || bytes == 0 ||
        bytes > transfer->wanted - transfer->received) {
        ++counters_.bad_packets;
        return;
    }
    // Was `packed` if the sender lacks block memory, `written` if it cannot write.
    transfer->mode = ReceiveTransfer::Mode::pushed;
    if (!transfer->failed) {
        transfer->failed =
            !scatter(transfer->request->data, transfer->received, body + sizeof fragment, bytes)
                 .ok();
    }
    transfer->received += bytes;
    if (transfer->received == transfer->wanted) {
        transfer->sender_ended = true;
        end_receive(*transfer);
    }
}

} // namespace adaptib
