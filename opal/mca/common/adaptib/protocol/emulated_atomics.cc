// SPDX-License-Identifier: BSD-3-Clause
// Atomics that the target's processor executes (protocol/emulated_atomics.h).
#include "protocol/emulated_atomics.h"

#include <atomic>
#include <cstring>
#include <vector>

#include "protocol/count_rma.h"

namespace adaptib {

namespace {

std::uint64_t carry_out(std::uint64_t address, Opcode opcode, std::uint64_t compare_add,
                        std::uint64_t swap) {
    std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(address));
    if (opcode == Opcode::fetch_add) {
        return word.fetch_add(compare_add);
    }
    std::uint64_t old = compare_add;
    word.compare_exchange_strong(old, swap);
    return old;
}

} // namespace

EmulatedAtomics::~EmulatedAtomics() {
    atomics_.for_each([this](EmulatedAtomic* atomic) { pool_.destroy(atomic); });
}

// -------------------------------------------------------------------------------------------------
// Initiator

bool EmulatedAtomics::execute_here(const opal_common_adaptib_one_sided_t& operation,
                                   Opcode opcode) {
    const opal_common_adaptib_remote_t& remote = *operation.remote;
    if (!windows_.has_word(WindowTable::name_of(remote.keys, remote.key_count),
                           operation.remote_address)) {
        return false;
    }
    const std::uint64_t old =
        carry_out(operation.remote_address, opcode, compare_add_of(operation), operation.operand);
    std::memcpy(operation.local, &old, sizeof old);
    count_rma(counters_, opcode, sizeof old);
    return true;
}

Status EmulatedAtomics::start(Peer& peer, const opal_common_adaptib_one_sided_t& operation,
                              Opcode opcode, UserRequest& user, bool& complete_now) {
    if (peer.contact.name == self_) {
        if (!execute_here(operation, opcode)) {
            return Status::error(Reason::bad_key);
        }
        complete_now = true;
        user.status = OPAL_COMMON_ADAPTIB_SUCCESS;
        user.bytes = operation.bytes;
        return kOk;
    }
    EmulatedAtomic* atomic = pool_.create<EmulatedAtomic>(peer);
    if (atomic == nullptr) {
        return Status::error(Reason::no_memory);
    }
    const opal_common_adaptib_remote_t& remote = *operation.remote;
    atomic->user = &user;
    atomic->local = operation.local;
    AtomicBody& body = atomic->body;
    body.id = atomics_.add(atomic);
    atomic->epoch = flush_epochs_.enter();
    body.remote_address = operation.remote_address;
    body.compare_add = compare_add_of(operation);
    body.swap = operation.operand;
    body.remote_key = WindowTable::name_of(remote.keys, remote.key_count);
    body.opcode = static_cast<std::uint8_t>(opcode);
    ++peer.transfers.one_sided;
    completions_.begin(user);
    atomic->queued = peer.session.disconnect_sent; // sent when the disconnect is over
    if (!atomic->queued) {
        send(*atomic);
    }
    complete_now = completions_.end();
    return kOk;
}

void EmulatedAtomics::send(EmulatedAtomic& atomic) {
    Peer& peer = atomic.peer;
    const AtomicBody body = atomic.body;
    atomic.queued = false;
    count_rma(counters_, peer, static_cast<Opcode>(body.opcode), sizeof(std::uint64_t));
    ++counters_.operations_assisted;
    flow_.send_one_sided(peer, MessageType::atomic, &body, sizeof body);
}

void EmulatedAtomics::send_queued(const Peer& peer) {
    if (atomics_.size() == 0) {
        return;
    }
    std::vector<EmulatedAtomic*> queued;
    atomics_.for_each([&](EmulatedAtomic* atomic) {
        if (&atomic->peer == &peer && atomic->queued) {
            queued.push_back(atomic);
        }
    });
    // Sends them in the order of their slots, mostly that of their starts; callers cannot rely on
    // it.
    for (EmulatedAtomic* atomic : queued) {
        if (peer.session.lost()) {
            return; // they end with the peer
        }
        send(*atomic);
    }
}

void EmulatedAtomics::end(EmulatedAtomic& atomic, int status) {
    UserRequest& user = *atomic.user;
    --atomic.peer.transfers.one_sided;
    atomics_.remove(atomic.body.id);
    flush_epochs_.leave(atomic.epoch);
    pool_.destroy(&atomic);
    completions_.complete(user, status,
                          status == OPAL_COMMON_ADAPTIB_SUCCESS ? sizeof(std::uint64_t) : 0);
}

void EmulatedAtomics::fail(const Peer& peer) {
    std::vector<EmulatedAtomic*> lost;
    atomics_.for_each([&](EmulatedAtomic* atomic) {
        if (&atomic->peer == &peer) {
            lost.push_back(atomic);
        }
    });
    for (EmulatedAtomic* atomic : lost) {
        end(*atomic, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    }
}

void EmulatedAtomics::on_atomic_done(Peer& peer, const AtomicDoneBody& body) {
    EmulatedAtomic* atomic = atomics_.find(body.id);
    if (atomic == nullptr || &atomic->peer != &peer) {
        ++counters_.bad_packets;
        return;
    }
    if (body.done == 0) {
        region_keys_.report_refused(peer, static_cast<Opcode>(atomic->body.opcode),
                                    sizeof body.old);
        end(*atomic, OPAL_COMMON_ADAPTIB_BAD_PARAM);
        return;
    }
    std::memcpy(atomic->local, &body.old, sizeof body.old);
    end(*atomic, OPAL_COMMON_ADAPTIB_SUCCESS);
}

void EmulatedAtomics::for_each_peer(const std::function<void(const Peer&)>& f) const {
    atomics_.for_each([&](EmulatedAtomic* atomic) { f(atomic->peer); });
}

// -------------------------------------------------------------------------------------------------
// Target

void EmulatedAtomics::on_atomic(Peer& peer, const AtomicBody& body) {
    AtomicDoneBody done{};
    done.id = body.id;
    const auto opcode = static_cast<Opcode>(body.opcode);
    const bool known = opcode == Opcode::compare_swap || opcode == Opcode::fetch_add;
    if (known && windows_.has_word(body.remote_key, body.remote_address)) {
        done.old = carry_out(body.remote_address, opcode, body.compare_add, body.swap);
        done.done = 1;
        ++counters_.operations_served;
    } else {
        ++counters_.bad_packets;
    }
    flow_.send_one_sided(peer, MessageType::atomic_done, &done, sizeof done);
}

} // namespace adaptib
