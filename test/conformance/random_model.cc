// SPDX-License-Identifier: BSD-3-Clause
// One connection of a random program; see random_model.h.
#include "conformance/random_model.h"

#include <algorithm>
#include <cstring>

namespace adaptib::conformance {

namespace {

constexpr std::byte kCanary{0xc7};

std::vector<std::byte> collect(const std::vector<Gather>& gather) {
    std::vector<std::byte> all;
    for (const Gather& g : gather) {
        const auto* from = static_cast<const std::byte*>(g.address);
        all.insert(all.end(), from, from + g.length);
    }
    return all;
}

} // namespace

RandomConnection::RandomConnection(End& a, End& b, Buffer& local, Buffer& remote, Buffer& receives,
                                   const RandomLimits& limits, std::uint64_t seed)
    : a_(a), b_(b), local_(local), remote_(remote), receives_(receives), limits_(limits),
      random_(seed), model_(limits.remote_bytes, std::byte{0}), scatter_(limits.receive_slots) {}

Opcode RandomConnection::draw_opcode() {
    for (;;) {
        const auto opcode = static_cast<Opcode>(random_.below(7));
        const bool atomic = opcode == Opcode::compare_swap || opcode == Opcode::fetch_add;
        if ((opcode == Opcode::read && !limits_.read) ||
            (opcode == Opcode::write && !limits_.write) ||
            (opcode == Opcode::write_imm && !limits_.write_imm) || (atomic && !limits_.atomics)) {
            continue;
        }
        return opcode;
    }
}

Bytes RandomConnection::draw_length() {
    switch (random_.below(6)) {
    case 0: return random_.below(9);
    case 1: return random_.below(limits_.largest + 1);
    case 2: return limits_.largest - random_.below(3);
    case 3: return 4096 - 8 + random_.below(17);
    default: return random_.below(700);
    }
}

std::vector<Gather> RandomConnection::draw_gather(std::uint32_t slot, Bytes length) {
    // Pieces lie one behind the other; the slot is exactly as long as the largest operation.
    std::vector<Gather> gather;
    const std::uint64_t pieces = 1 + random_.below(limits_.max_gather);
    Bytes at = 0;
    for (std::uint64_t i = 0; i < pieces; ++i) {
        const Bytes piece = i + 1 == pieces ? length - at : random_.below(length - at + 1);
        gather.push_back(local_.gather(slot * limits_.largest + at, piece));
        at += piece;
    }
    if (pieces > 1 && random_.below(2) == 0) {
        std::reverse(gather.begin(), gather.end());
    }
    return gather;
}

bool RandomConnection::post_one() {
    const Opcode opcode = draw_opcode();
    return post(opcode, draw_length(), false);
}

bool RandomConnection::post_last() { return post(Opcode::send, draw_length(), true); }

bool RandomConnection::post(Opcode opcode, Bytes length, bool last) {
    const bool reads_before = std::any_of(outstanding_.begin(), outstanding_.end(),
                                          [](const Operation& o) { return !o.result.empty(); });
    if (outstanding_.size() >= limits_.send_slots || (reads_before && !limits_.fences)) {
        return false;
    }
    const bool atomic = opcode == Opcode::compare_swap || opcode == Opcode::fetch_add;
    const bool rdma =
        atomic || opcode == Opcode::read || opcode == Opcode::write || opcode == Opcode::write_imm;
    const bool incoming = atomic || opcode == Opcode::read;
    Operation operation;
    operation.wr_id = next_id_ * 3;
    operation.opcode = opcode;
    operation.slot = next_slot_;
    std::byte* const slot = local_.data() + operation.slot * limits_.largest;
    if (atomic) {
        length = 8;
        operation.gather = {local_.gather(operation.slot * limits_.largest, 8)};
    } else {
        operation.gather = draw_gather(operation.slot, length);
    }
    fill(slot, std::max<Bytes>(length, 8), random_.next());

    SendWork work;
    work.wr_id = operation.wr_id;
    work.opcode = opcode;
    work.gather = operation.gather.data();
    work.gather_count = static_cast<std::uint32_t>(operation.gather.size());
    work.immediate = static_cast<std::uint32_t>(random_.next());
    // At least one in send_slots / 2 requests is signaled, so that slots become free again.
    operation.signalled = last || random_.below(4) == 0 ||
                          next_id_ % (limits_.send_slots / 2) == 0 || (incoming && !limits_.fences);
    work.flags = operation.signalled ? +kSignaled : 0u;
    if (limits_.fences && (reads_before || random_.below(8) == 0)) {
        work.flags |= kFence; // without it, this request could overtake outstanding reads
    }
    if (!incoming && length <= limits_.inline_bytes && random_.below(2) == 0) {
        work.flags |= kInline;
    }
    if (rdma) {
        Bytes offset = random_.below(limits_.remote_bytes - std::max<Bytes>(length, 8) + 1);
        if (atomic) {
            offset &= ~Bytes{7};
            std::uint64_t now = 0;
            std::memcpy(&now, model_.data() + offset, 8);
            work.compare_add = random_.below(2) == 0 ? now : random_.next();
            work.swap = random_.next();
        } else if (opcode == Opcode::write && length >= 8 && random_.below(3) == 0) {
            offset = (offset + length) / 8 * 8 - length; // aligns the end
            if (offset < limits_.remote_bytes) {
                work.flags |= kPublish;
            } else {
                offset = 0;
            }
        }
        work.remote_address = remote_.remote(offset);
        work.remote_key = remote_.key();
    }
    const std::vector<std::byte> payload =
        incoming ? std::vector<std::byte>{} : collect(operation.gather);
    const Status status = a_.qp->post_send(work);
    if (status.is_again()) {
        return false;
    }
    if (!status.ok()) {
        ADD_FAILURE() << "post_send: " << testing::PrintToString(status);
        return false;
    }
    if ((work.flags & kInline) != 0) {
        std::memset(slot, 0x5a, length); // post_send has taken the payload
    }
    apply(work, operation, payload);
    outstanding_.push_back(std::move(operation));
    ++next_id_;
    next_slot_ = (next_slot_ + 1) % limits_.send_slots;
    return true;
}

void RandomConnection::apply(const SendWork& work, Operation& operation,
                             const std::vector<std::byte>& payload) {
    std::byte* const at = work.remote_key == 0 && work.remote_address == 0
                              ? nullptr
                              : model_.data() + (work.remote_address - remote_.remote());
    switch (work.opcode) {
    case Opcode::send:
    case Opcode::send_imm:
        expected_.push_back(
            {payload, payload.size(), work.opcode == Opcode::send_imm, work.immediate});
        break;
    case Opcode::write_imm:
        expected_.push_back({{}, payload.size(), true, work.immediate});
        [[fallthrough]];
    case Opcode::write: std::copy(payload.begin(), payload.end(), at); break;
    case Opcode::read: {
        Bytes length = 0;
        for (const Gather& g : operation.gather) {
            length += g.length;
        }
        operation.result.assign(at, at + length);
        break;
    }
    case Opcode::compare_swap:
    case Opcode::fetch_add: {
        operation.result.assign(at, at + 8);
        std::uint64_t value = 0;
        std::memcpy(&value, at, 8);
        if (work.opcode == Opcode::fetch_add) {
            value += work.compare_add;
        } else if (value == work.compare_add) {
            value = work.swap;
        }
        std::memcpy(at, &value, 8);
        break;
    }
    }
}

void RandomConnection::post_receive_one() {
    for (std::uint64_t slot = 0; slot < scatter_.size(); ++slot) {
        if (!scatter_[slot].empty()) {
            continue;
        }
        std::byte* const start = receives_.data() + slot * limits_.largest;
        std::memset(start, static_cast<int>(kCanary), limits_.largest);
        std::vector<Gather> scatter;
        const std::uint64_t pieces = 1 + random_.below(limits_.max_gather);
        Bytes at = 0;
        for (std::uint64_t i = 0; i < pieces; ++i) {
            const Bytes rest = limits_.largest - at;
            const Bytes piece = i + 1 == pieces ? rest : random_.below(std::min<Bytes>(rest, 999));
            scatter.push_back(receives_.gather(slot * limits_.largest + at, piece));
            at += piece;
        }
        ReceiveWork work;
        work.wr_id = slot;
        work.scatter = scatter.data();
        work.scatter_count = static_cast<std::uint32_t>(scatter.size());
        const Status status = b_.qp->post_receive(work);
        EXPECT_EQ(status, kOk);
        if (status.ok()) {
            scatter_[slot] = std::move(scatter);
            posted_.push_back(slot);
        }
        return;
    }
}

void RandomConnection::finish(const Operation& operation) {
    if (operation.result.empty()) {
        return;
    }
    EXPECT_EQ(collect(operation.gather) == operation.result, true)
        << "request " << operation.wr_id << ", opcode " << static_cast<int>(operation.opcode)
        << " brought other bytes than it should, length " << operation.result.size();
}

void RandomConnection::check_received(const WorkCompletion& done) {
    ASSERT_EQ(done.status, WorkStatus::success);
    ASSERT_FALSE(posted_.empty());
    ASSERT_FALSE(expected_.empty()) << "a receive for nothing";
    ASSERT_EQ(done.wr_id, posted_.front()) << "receives out of order";
    posted_.pop_front();
    const Message message = std::move(expected_.front());
    expected_.pop_front();
    EXPECT_EQ(done.kind, message.has_immediate ? WorkKind::receive_imm : WorkKind::receive);
    EXPECT_EQ(done.length, message.length);
    if (message.has_immediate) {
        EXPECT_EQ(done.immediate, message.immediate);
    }
    const std::vector<std::byte> got = collect(scatter_[done.wr_id]);
    EXPECT_TRUE(std::equal(message.payload.begin(), message.payload.end(), got.begin()))
        << "a message of " << message.length << " bytes arrived changed";
    EXPECT_TRUE(all_equal(got.data() + message.payload.size(), got.size() - message.payload.size(),
                          kCanary))
        << "behind a message of " << message.payload.size() << " bytes";
    scatter_[done.wr_id].clear();
}

void RandomConnection::take_completions() {
    while (!a_.send->got.empty()) {
        const WorkCompletion done = a_.send->got.front();
        a_.send->got.pop_front();
        ASSERT_EQ(done.status, WorkStatus::success) << "request " << done.wr_id;
        // The completion covers unsignaled requests before it; no signaled one may be skipped.
        for (;;) {
            ASSERT_FALSE(outstanding_.empty()) << "completion of unknown request " << done.wr_id;
            const Operation operation = std::move(outstanding_.front());
            outstanding_.pop_front();
            finish(operation);
            if (operation.wr_id == done.wr_id) {
                ASSERT_TRUE(operation.signalled) << "unsignalled request " << done.wr_id;
                break;
            }
            ASSERT_FALSE(operation.signalled) << "request " << operation.wr_id << " was left out";
        }
    }
    while (!b_.receive->got.empty()) {
        const WorkCompletion done = b_.receive->got.front();
        b_.receive->got.pop_front();
        ASSERT_NO_FATAL_FAILURE(check_received(done));
    }
}

void RandomConnection::compare_memory() const {
    const auto [model_at, real_at] = std::mismatch(model_.begin(), model_.end(), remote_.data());
    EXPECT_EQ(model_at - model_.begin(), static_cast<std::ptrdiff_t>(model_.size()))
        << "the target's memory differs from the model there";
}

} // namespace adaptib::conformance
