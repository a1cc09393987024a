// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/shm/copy_pipeline.h"

#include <algorithm>
#include <cstring>

#include "base/invariant.h"

namespace adaptib::shm {

bool CopyPipeline::reap(const SendWork& work, Attempt& a, WorkStatus& status) {
    const bool may_fault = (work.flags & kMayFault) != 0;
    std::size_t done = 0;
    bool good = true;
    for (; done < pieces_.size() && good; ++done) {
        const Piece& piece = pieces_[done];
        const BounceAnswer answer = pool_.answer(piece.slot);
        if (answer == BounceAnswer::none) {
            break;
        }
        switch (answer) {
        case BounceAnswer::done:
            if (!empty_slot(work, piece, a)) {
                good = a.faulted = may_fault;
                status = good ? status : WorkStatus::local_protection_error;
            }
            break;
        case BounceAnswer::not_ready: a.moved = std::min(a.moved, piece.offset); break;
        case BounceAnswer::invalid_request:
            status = WorkStatus::remote_invalid_request;
            good = false;
            break;
        default:
            good = a.faulted = may_fault;
            status = good ? status : WorkStatus::remote_access_error;
            break;
        }
        pool_.give(piece.slot);
    }
    pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(done));
    return good;
}

bool CopyPipeline::request(const SendWork& work, Bytes length, std::uint32_t own_number,
                           Attempt& a) {
    ADAPTIB_INVARIANT(!a.faulted, "a request that has met a fault asks for nothing more", a.moved,
                      length);
    ADAPTIB_INVARIANT(a.moved <= length, "a request moves no more than its length", a.moved,
                      length);
    Asked asked = Asked::yes;
    while (asked == Asked::yes && a.moved < length && pieces_.size() < kBounceSlotsPerQp) {
        asked = request_piece(work, length, own_number, a);
    }
    ADAPTIB_INVARIANT(pieces_.size() <= kBounceSlotsPerQp,
                      "a queue pair fills no more slots than it may", pieces_.size());
    a.faulted = asked == Asked::local_fault && (work.flags & kMayFault) != 0;
    return asked != Asked::local_fault || a.faulted;
}

// Copies the data of a read, or the old value of an atomic, to its destination. False: local memory
// is not mapped.
bool CopyPipeline::empty_slot(const SendWork& work, const Piece& piece, const Attempt& a) const {
    const std::span<const Gather> gather{work.gather, work.gather_count};
    if (work.opcode == Opcode::compare_swap || work.opcode == Opcode::fetch_add) {
        ADAPTIB_INVARIANT(gather.size() == 1 && piece.length == 8,
                          "an atomic has one entry, of 8 bytes", gather.size(), piece.length);
        std::memcpy(gather[0].address, &pool_.header(piece.slot)->result, 8);
    } else if (work.opcode == Opcode::read && a.unpinned) {
        return copy_checked(Direction::from_peer, own_pid_, pool_.data(piece.slot), gather,
                            piece.offset, piece.length) == CopyResult::ok;
    } else if (work.opcode == Opcode::read) {
        scatter_in(gather, piece.offset, pool_.data(piece.slot), piece.length);
    }
    return true;
}

// Copies the data of a write into the slot. False: local memory is not mapped.
bool CopyPipeline::fill_slot(const SendWork& work, Bytes length, const Attempt& a,
                             std::byte* slot) const {
    if (work.opcode != Opcode::write && work.opcode != Opcode::write_imm) {
        return true;
    }
    const std::span<const Gather> gather{work.gather, work.gather_count};
    if (a.unpinned) {
        return copy_checked(Direction::to_peer, own_pid_, slot, gather, a.moved, length) ==
               CopyResult::ok;
    }
    gather_out(gather, a.moved, slot, length);
    return true;
}

// Sends the next piece. later: there is no slot, or no room in the target's queue.
CopyPipeline::Asked CopyPipeline::request_piece(const SendWork& work, Bytes length,
                                                std::uint32_t own_number, Attempt& a) {
    std::uint32_t slot = 0;
    if (!pool_.take(slot)) {
        return Asked::later;
    }
    // The last 8 bytes of a published write stay in one piece: pieces before it end at addresses
    // that are multiples of 8.
    Bytes part = length - a.moved;
    if (part > kBounceBytes) {
        part = kBounceBytes - (work.remote_address + a.moved) % 8;
    }
    const bool last = a.moved + part == length;
    const bool publish = last && (work.flags & kPublish) != 0 && part >= 8 &&
                         (work.remote_address + length) % 8 == 0;
    if (!fill_slot(work, part, a, pool_.data(slot))) {
        pool_.give(slot);
        return Asked::local_fault;
    }
    BounceRequest request{};
    request.slot_offset = pool_.offset(slot);
    request.tag = pool_.tag(slot);
    request.remote_address = work.remote_address + a.moved;
    request.compare_add = work.compare_add;
    request.swap = work.swap;
    request.remote_key = work.remote_key;
    request.length = static_cast<std::uint32_t>(part);
    request.opcode = static_cast<std::uint32_t>(work.opcode);
    request.flags = (publish ? +kBouncePublish : 0u) | (a.unpinned ? +kBounceChecked : 0u);
    RecordFields fields;
    fields.type = RecordType::request;
    fields.length = sizeof request;
    fields.target_qp = peer_.number();
    fields.source_qp = own_number;
    const Push push =
        peer_.segment().producer().push(fields, sizeof request, [&](std::byte* payload) {
            std::memcpy(payload, &request, sizeof request);
        });
    if (push != Push::ok) {
        pool_.give(slot);
        return Asked::later;
    }
    pieces_.push_back({slot, a.moved, part});
    a.moved += part;
    return Asked::yes;
}

void CopyPipeline::abandon() {
    for (const Piece& piece : pieces_) {
        pool_.abandon(piece.slot, peer_.shared_segment());
    }
    pieces_.clear();
}

} // namespace adaptib::shm
