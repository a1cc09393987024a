// SPDX-License-Identifier: BSD-3-Clause
// Rules of queue pairs and memory that all fabrics share: the legal transitions and the attributes
// that each needs (the table of fabric/README.md), which access rights go together, and which
// arguments are wrong by themselves.
// Source: ibv_modify_qp(3), ibv_reg_mr(3).
// Threads: functions without state.
// May touch: base/, fabric/fabric.h.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "fabric/fabric.h"

namespace adaptib {

// Checks that modify(attributes, mask) is a legal transition of a queue pair in state `from`; sets
// `to` to the new state. Errors: bad_argument (a required attribute is absent, or one is
// superfluous), bad_state (no such transition), not_supported (migration on a rail that has none).
Status check_transition(QpType type, QpState from, const QpAttributes& attributes,
                        std::uint32_t mask, bool migration, QpState& to);

// Copies the attributes that `mask` names, except kQpState and kQpMigration, which the caller
// handles.
void apply_attributes(const QpAttributes& from, std::uint32_t mask, QpAttributes& to);

WorkKind work_kind(Opcode opcode);

// Time that a sender waits after it found no receive posted (InfiniBand Architecture, vol. 1, table
// 45).
Nanoseconds rnr_time(std::uint32_t code);

// Remote write or atomic access requires local write access.
bool access_is_sane(std::uint32_t access);

// Returns true if [address, +length) with these rights can be a memory region: it is not empty and
// does not wrap.
bool region_is_sane(const void* address, Bytes length, std::uint32_t access);

// Finds what is wrong with a QpInit by itself, given the limits and capabilities of a rail. The
// fabric checks whose the queues are. Errors: bad_argument, not_supported.
Status check_init(const QpInit& init, const RailInfo& info);

// Checks a request's gather list and kInline; sets the total length of the entries. `longest`
// limits one message. Errors: bad_argument.
Status check_gather(const SendWork& work, std::uint32_t max_gather, Bytes inline_bytes,
                    Bytes longest, Bytes& length);

} // namespace adaptib
