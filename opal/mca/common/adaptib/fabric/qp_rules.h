// SPDX-License-Identifier: BSD-3-Clause
// The rules of queue pairs and memory that fabrics have in common: which transitions there are and what
// they need (the table of fabric/README.md), which rights go together, what arguments show to be wrong.
// Source: ibv_modify_qp(3), ibv_reg_mr(3).
// Threads: functions without state.
// May touch: base/, fabric/fabric.h.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "fabric/fabric.h"

namespace adaptib {

// Whether modify(attributes, mask) is a legal move of a queue pair in state `from`; sets where it leads.
// Errors: bad_argument (a required attribute is absent, one is superfluous), bad_state (no such
// transition), not_supported (migration on a rail that has none).
Status check_transition(QpType type, QpState from, const QpAttributes& attributes,
                        std::uint32_t mask, bool migration, QpState& to);

// Copies what `mask` names; kQpState and kQpMigration are the caller's affair.
void apply_attributes(const QpAttributes& from, std::uint32_t mask, QpAttributes& to);

WorkKind work_kind(Opcode opcode);

// How long a sender waits that met no receive (InfiniBand Architecture, vol. 1, table 45).
Nanoseconds rnr_time(std::uint32_t code);

// What a remote process may change, this one must be allowed to.
bool access_is_sane(std::uint32_t access);

// Whether [address, +length) with these rights can be a memory region: not empty, without a wrap.
bool region_is_sane(const void* address, Bytes length, std::uint32_t access);

// What QpInit alone shows to be wrong on a rail with these limits and capabilities; whose the queues are
// is the fabric's affair. Errors: bad_argument, not_supported.
Status check_init(const QpInit& init, const RailInfo& info);

// What a request's gather list and kInline show to be wrong; sets the length of all entries. `longest`: of
// one message. Errors: bad_argument.
Status check_gather(const SendWork& work, std::uint32_t max_gather, Bytes inline_bytes,
                    Bytes longest, Bytes& length);

} // namespace adaptib
