// SPDX-License-Identifier: BSD-3-Clause
// Rules of queue pairs (fabric/qp_rules.h).
#include "fabric/qp_rules.h"

#include <array>

#include "base/invariant.h"

namespace adaptib {

namespace {

struct Transition {
    QpType type;
    QpState from;
    QpState to;
    std::uint32_t required;
    std::uint32_t optional;
};

constexpr std::uint32_t kMigrationMask = kQpAlternatePath | kQpMigration;

constexpr std::array kTransitions{
    Transition{QpType::rc, QpState::reset, QpState::init, kQpAccess, 0},
    Transition{QpType::rc, QpState::init, QpState::init, 0, kQpAccess},
    Transition{QpType::rc, QpState::init, QpState::ready_to_receive,
               kQpPath | kQpRemote | kQpReceiveLimits, kQpAccess | kQpAlternatePath},
    Transition{QpType::rc, QpState::ready_to_receive, QpState::ready_to_send,
               kQpRetry | kQpSendPsn | kQpSendLimits, kQpAccess | kMigrationMask},
    Transition{QpType::rc, QpState::ready_to_send, QpState::ready_to_send, 0,
               kQpAccess | kMigrationMask},
    Transition{QpType::ud, QpState::reset, QpState::init, kQpKey, 0},
    Transition{QpType::ud, QpState::init, QpState::init, 0, kQpKey},
    Transition{QpType::ud, QpState::init, QpState::ready_to_receive, 0, kQpKey},
    Transition{QpType::ud, QpState::ready_to_receive, QpState::ready_to_send, kQpSendPsn, kQpKey},
    Transition{QpType::ud, QpState::ready_to_send, QpState::ready_to_send, 0, kQpKey},
    Transition{QpType::dc_initiator, QpState::reset, QpState::init, 0, 0},
    Transition{QpType::dc_initiator, QpState::init, QpState::init, 0, 0},
    Transition{QpType::dc_initiator, QpState::init, QpState::ready_to_receive, 0, 0},
    Transition{QpType::dc_initiator, QpState::ready_to_receive, QpState::ready_to_send,
               kQpRetry | kQpSendPsn | kQpSendLimits, 0},
    Transition{QpType::dc_initiator, QpState::ready_to_send, QpState::ready_to_send, 0, 0},
    Transition{QpType::dc_target, QpState::reset, QpState::init, kQpAccess | kQpKey, 0},
    Transition{QpType::dc_target, QpState::init, QpState::init, 0, kQpAccess | kQpKey},
    Transition{QpType::dc_target, QpState::init, QpState::ready_to_receive,
               kQpPath | kQpReceiveLimits, 0},
};

// Waiting times of the IBA's RNR timer codes, in tenths of a microsecond.
constexpr std::array<std::int64_t, 32> kRnrTenths{
    6553600, 100,    200,    300,    400,    600,     800,     1200,    1600,    2400,   3200,
    4800,    6400,   9600,   12800,  19200,  25600,   38400,   51200,   76800,   102400, 153600,
    204800,  307200, 409600, 614400, 819200, 1228800, 1638400, 2457600, 3276800, 4915200};

const Transition* find_transition(QpType type, QpState from, QpState to) {
    for (const Transition& t : kTransitions) {
        if (t.type == type && t.from == from && t.to == to) {
            return &t;
        }
    }
    return nullptr;
}

} // namespace

Status check_transition(QpType type, QpState from, const QpAttributes& attributes,
                        std::uint32_t mask, bool migration, QpState& to) {
    ADAPTIB_INVARIANT(from <= QpState::error, "a queue pair is in one of five states", from);
    const QpState wanted = (mask & kQpState) != 0 ? attributes.state : from;
    const std::uint32_t rest = mask & ~static_cast<std::uint32_t>(kQpState);
    if (wanted > QpState::error) {
        return Status::error(Reason::bad_argument);
    }
    if (wanted == QpState::error || wanted == QpState::reset) {
        if (rest != 0) {
            return Status::error(Reason::bad_argument);
        }
        to = wanted;
        return kOk;
    }
    const Transition* t = find_transition(type, from, wanted);
    if (t == nullptr) {
        return Status::error(Reason::bad_state);
    }
    if ((rest & t->required) != t->required || (rest & ~(t->required | t->optional)) != 0) {
        return Status::error(Reason::bad_argument);
    }
    if (!migration && (rest & kMigrationMask) != 0) {
        return Status::error(Reason::not_supported);
    }
    to = wanted;
    return kOk;
}

void apply_attributes(const QpAttributes& from, std::uint32_t mask, QpAttributes& to) {
    if ((mask & kQpAccess) != 0) {
        to.access = from.access;
    }
    if ((mask & kQpKey) != 0) {
        to.access_key = from.access_key;
    }
    if ((mask & kQpPath) != 0) {
        to.path = from.path;
    }
    if ((mask & kQpAlternatePath) != 0) {
        to.alternate_path = from.alternate_path;
    }
    if ((mask & kQpRemote) != 0) {
        to.remote_qp = from.remote_qp;
        to.receive_psn = from.receive_psn;
    }
    if ((mask & kQpReceiveLimits) != 0) {
        to.max_target_reads = from.max_target_reads;
        to.rnr_timer = from.rnr_timer;
    }
    if ((mask & kQpRetry) != 0) {
        to.timeout = from.timeout;
        to.retry_count = from.retry_count;
        to.rnr_retry = from.rnr_retry;
    }
    if ((mask & kQpSendPsn) != 0) {
        to.send_psn = from.send_psn;
    }
    if ((mask & kQpSendLimits) != 0) {
        to.max_reads = from.max_reads;
    }
}

WorkKind work_kind(Opcode opcode) {
    switch (opcode) {
    case Opcode::send:
    case Opcode::send_imm: return WorkKind::send;
    case Opcode::write:
    case Opcode::write_imm: return WorkKind::write;
    case Opcode::read: return WorkKind::read;
    case Opcode::compare_swap: return WorkKind::compare_swap;
    case Opcode::fetch_add: return WorkKind::fetch_add;
    }
    return WorkKind::send;
}

Nanoseconds rnr_time(std::uint32_t code) { return Nanoseconds{kRnrTenths[code & 31] * 100}; }

bool access_is_sane(std::uint32_t access) {
    constexpr std::uint32_t kEvery =
        kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kOrdered;
    const bool remote_change = (access & (kRemoteWrite | kRemoteAtomic)) != 0;
    return (access & ~kEvery) == 0 && (!remote_change || (access & kLocalWrite) != 0);
}

bool region_is_sane(const void* address, Bytes length, std::uint32_t access) {
    const auto base = reinterpret_cast<std::uintptr_t>(address);
    return length != 0 && base + length >= base && access_is_sane(access);
}

Status check_init(const QpInit& init, const RailInfo& info) {
    if (init.type > QpType::dc_target || init.send_cq == nullptr || init.receive_cq == nullptr ||
        init.send_depth > info.max_send_depth || init.receive_depth > info.max_send_depth ||
        init.max_gather > info.max_gather || init.inline_bytes > info.inline_bytes) {
        return Status::error(Reason::bad_argument);
    }
    const Capability needed = init.type == QpType::rc   ? Capability::rc
                              : init.type == QpType::ud ? Capability::ud
                                                        : Capability::dc;
    if (!info.has(needed)) {
        return Status::error(Reason::not_supported);
    }
    return init.type == QpType::dc_target && init.srq == nullptr
               ? Status::error(Reason::bad_argument)
               : kOk;
}

Status check_gather(const SendWork& work, std::uint32_t max_gather, Bytes inline_bytes,
                    Bytes longest, Bytes& length) {
    if (work.gather_count > max_gather || (work.gather_count > 0 && work.gather == nullptr)) {
        return Status::error(Reason::bad_argument);
    }
    length = 0;
    for (std::uint32_t i = 0; i < work.gather_count; ++i) {
        if (work.gather[i].length > longest - length) {
            return Status::error(Reason::bad_argument);
        }
        length += work.gather[i].length;
    }
    return (work.flags & kInline) != 0 && length > inline_bytes
               ? Status::error(Reason::bad_argument)
               : kOk;
}

} // namespace adaptib
