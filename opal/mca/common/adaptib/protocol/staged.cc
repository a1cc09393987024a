// SPDX-License-Identifier: BSD-3-Clause
// Long data that both ends copy through staging memory, by their processors (protocol/together.cc
// says when).
//
// The staging memory lies in the segment of the end that began, and holds a few units. The end that
// has the data fills it in a ring, the other one empties it, and both do so at the same time: with a
// get, or a message, the other end fills, with a put the one that began. The end that began counts
// its units in AnswerSlot::moved; the other end takes each unit by compare-and-swap on the shared
// word, and counts it as done there: from there on it is in staging memory, or in place.
//
// The end that began takes back what the other end does not take within kPatience, waits for what
// it has taken, and copies the rest alone. So the staging memory, which is given back then, is not
// touched any more.
//
// The other end's memory is a window's, which is accessed by the rules of its key, or that of a
// message that it sends itself and that is not over: there is no need for the system to look
// whether it is mapped.
#include <algorithm>

#include "base/pieces.h"
#include "base/spin.h"
#include "channel/ring_memory.h"
#include "protocol/protocol.h"

namespace adaptib {

namespace {

constexpr Bytes kUnit = SharedWork::kUnit;
// For the other end to take a unit: a unit takes it 0.5 to 4 us. With one that is not in MPI at all
// that is lost.
constexpr Nanoseconds kPatience{5'000};
constexpr std::uint32_t kLooksPerTime = 32;     // between two looks at the clock
constexpr std::uint32_t kMostLooks = 1u << 14;  // whatever the clock says
constexpr std::uint32_t kMostServed = 1u << 13; // looks for a unit, some 50 us, at the other end

Bytes unit_bytes(std::uint32_t unit, Bytes length) {
    return std::min(kUnit, length - unit * kUnit);
}

void close(AnswerSlot& slot) {
    slot.shared_word().fetch_or(SharedWork{.closed = true}.word(), std::memory_order_acq_rel);
}

// The next unit, if there is one and the offer stands.
bool take_unit(AnswerSlot& slot, std::uint64_t number, std::uint32_t units, std::uint32_t unit) {
    std::uint64_t word = slot.shared_word().load(std::memory_order_acquire);
    for (;;) {
        SharedWork work = SharedWork::of(word);
        if (work.number != number || work.closed || work.back != unit || unit >= units) {
            return false;
        }
        ++work.back;
        if (slot.shared_word().compare_exchange_weak(word, work.word(), std::memory_order_acq_rel,
                                                     std::memory_order_acquire)) {
            return true;
        }
    }
}

} // namespace

// ---------------------------------------------------------------------------------------------------
// Who begins

bool Protocol::move_staged(Peer& peer, const ExecuteWork& work, const Registration& region,
                           std::span<const std::uint32_t> remote_keys, std::uint64_t send_id) {
    std::unique_ptr<StagingBlock> block;
    const Subchannel* const only = peer.only_subchannel();
    const auto depth =
        static_cast<std::uint32_t>(std::min<Bytes>(options_.block_bytes / kUnit, 64));
    if (only == nullptr || depth < 2 || !staging(peer).take(block).ok()) {
        return move_alone(peer, work, region, remote_keys);
    }
    ShareBody body{};
    body.send_id = send_id;
    body.staging = reinterpret_cast<std::uintptr_t>(block->data());
    body.staging_key = block->registration.remote_key(only->local_rail);
    body.staging_units = static_cast<std::uint8_t>(depth);
    AnswerSlot* const slot = offer_share(peer, work, remote_keys, body);
    Bytes moved = 0;
    if (slot != nullptr) {
        moved = pump_staged(peer, work, body.number, *slot, block->data(), depth);
        count_move(work.opcode, moved);
        counters_.copies_staged += moved > 0 ? 1 : 0;
    }
    staging(peer).give(std::move(block));
    return moved == work.length ||
           execute_part(peer, work, moved, work.length - moved, region, remote_keys);
}

// Returns how much is in place, from the beginning on. The other end touches nothing any more.
Bytes Protocol::pump_staged(const Peer& peer, const ExecuteWork& work, std::uint64_t number,
                            AnswerSlot& slot, std::byte* staging, std::uint32_t depth) {
    const bool read = work.opcode == Opcode::read;
    const std::uint32_t units = SharedWork::units_of(work.length);
    auto* const local = static_cast<std::byte*>(work.local);
    std::uint32_t moved = 0;
    std::uint32_t done = 0; // what the other end had done when it was last looked at
    Nanoseconds give_up{0};
    for (std::uint32_t look = 1;; ++look) {
        const SharedWork state = SharedWork::of(slot.shared_word().load(std::memory_order_acquire));
        if (state.number != number || state.done > state.back || state.back > units) {
            ++counters_.bad_packets; // the slot lies where the peer writes
            close(slot);
            return 0;
        }
        if (state.done != done) {
            done = state.done;
            look = 1;
            give_up = Nanoseconds{0};
        }
        if (read ? moved < done : !state.closed && moved < std::min(units, done + depth)) {
            std::byte* const user = local + moved * kUnit;
            std::byte* const slot_at = staging + moved % depth * kUnit;
            const Bytes bytes = unit_bytes(moved, work.length);
            copy_few(read ? user : slot_at, read ? slot_at : user, bytes);
            slot.moved_word().store(++moved, std::memory_order_release);
            continue;
        }
        const bool over = state.closed || state.refused || done == units;
        if (over && (state.refused || done == state.back)) {
            close(slot);
            return std::min(done * kUnit, work.length);
        }
        if (!worth_waiting(peer, look)) {
            close(slot);
            return 0; // who does it again finds nobody
        }
        if (look % kLooksPerTime == 0 && !state.closed) {
            const Nanoseconds now = options_.clock->now();
            if (give_up.count() == 0) {
                give_up = now + kPatience;
            } else if (now >= give_up || look >= kMostLooks) {
                close(slot);
            }
        }
        look_once_more();
    }
}

// ---------------------------------------------------------------------------------------------------
// The other end

// The place of our message that the offer names. Null: it names none, or one that is over.
const std::byte* Protocol::find_sent(const Peer& peer, const ShareBody& body) {
    const SendTransfer* const transfer = sends_.find(body.send_id);
    if (transfer == nullptr || &transfer->peer != &peer || !transfer->sent ||
        transfer->kind != SourceKind::direct || static_cast<Opcode>(body.opcode) != Opcode::write) {
        return nullptr;
    }
    const Data& data = transfer->request->data;
    const auto begin = reinterpret_cast<std::uintptr_t>(data.base);
    const bool inside = body.theirs >= begin && body.theirs - begin <= data.bytes &&
                        body.length <= data.bytes - (body.theirs - begin);
    return inside ? static_cast<const std::byte*>(data.base) + (body.theirs - begin) : nullptr;
}

// REQUIRES: the body has been checked. What the peer sees as a read is a write here.
void Protocol::serve_staged(Peer& peer, const ShareBody& body, QueuePair& qp, AnswerSlot& slot) {
    const bool read = static_cast<Opcode>(body.opcode) == Opcode::write;
    const std::uint32_t units = SharedWork::units_of(body.length);
    const std::uint32_t depth = body.staging_units;
    auto* const staging =
        static_cast<std::byte*>(qp.map(body.staging, depth * kUnit, body.staging_key));
    const std::byte* const sent = body.send_id != 0 ? find_sent(peer, body) : nullptr;
    if (staging == nullptr || (body.send_id != 0 && sent == nullptr)) {
        return; // it does not wait for long
    }
    std::uint32_t unit = 0;
    for (std::uint32_t look = 0; unit < units && look < kMostServed; ++look) {
        const std::uint64_t moved = slot.moved_word().load(std::memory_order_acquire);
        if (read ? unit >= moved + depth : unit >= moved) {
            const SharedWork work =
                SharedWork::of(slot.shared_word().load(std::memory_order_relaxed));
            if (work.number != body.number || work.closed) {
                return;
            }
            look_once_more();
            continue;
        }
        if (!take_unit(slot, body.number, units, unit)) {
            return;
        }
        std::byte* const slot_at = staging + unit % depth * kUnit;
        const Bytes bytes = unit_bytes(unit, body.length);
        if (sent != nullptr) {
            copy_few(slot_at, sent + unit * kUnit, bytes);
        } else {
            const Gather gather{slot_at, bytes, 0};
            SendWork work;
            work.opcode = read ? Opcode::read : Opcode::write;
            work.gather = &gather;
            work.gather_count = 1;
            work.remote_address = body.theirs + unit * kUnit;
            work.remote_key = body.their_key;
            if (!qp.serve(work).ok()) {
                slot.shared_word().fetch_or(SharedWork{.refused = true}.word(),
                                            std::memory_order_acq_rel);
                return;
            }
        }
        slot.shared_word().fetch_add(SharedWork{.done = 1}.word(), std::memory_order_acq_rel);
        count_move(static_cast<Opcode>(body.opcode), bytes);
        ++unit;
        look = 0;
    }
}

} // namespace adaptib
