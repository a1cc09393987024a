// SPDX-License-Identifier: BSD-3-Clause
// Target-assisted atomics: the target's processor executes them; the initiator asks by a message
// (parameter `atomics`).
//
// Exactly once: an adapter's atomic whose path fails before it completes may have been executed or
// not, and its result is lost in any case. A message has a sequence number: it is repeated after a
// failure, and the receiver drops it if it had arrived. The answer is such a message, too. The
// owner of the memory decides who executes atomics, and tells all initiators (access of the remote
// description). So all atomics on a word are executed in one way, by one process, and need no lock
// among each other; they are also atomic with those of the processor.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "protocol/protocol.h"

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

// -------------------------------------------------------------------------------------------------
// Initiator

// Executes an atomic on memory of this process. Returns false if the word is in no window any more.
bool Protocol::atomic_here(const opal_common_adaptib_one_sided_t& operation, Opcode opcode) {
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

// REQUIRES: the operation has been checked, the peer has not failed.
Status Protocol::start_atomic(Peer& peer, const opal_common_adaptib_one_sided_t& operation,
                              Opcode opcode, UserRequest& user, bool& complete_now) {
    if (peer.name == options_.self) {
        if (!atomic_here(operation, opcode)) {
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
    body.id = emulated_atomics_.add(atomic);
    atomic->epoch = flush_epochs_.enter();
    body.remote_address = operation.remote_address;
    body.compare_add = compare_add_of(operation);
    body.swap = operation.operand;
    body.remote_key = WindowTable::name_of(remote.keys, remote.key_count);
    body.opcode = static_cast<std::uint8_t>(opcode);
    ++peer.one_sided;
    starting_ = &user;
    started_complete_ = false;
    atomic->queued = peer.disconnect_sent; // sent when the disconnect is over
    if (!atomic->queued) {
        send_atomic(*atomic);
    }
    starting_ = nullptr;
    complete_now = started_complete_;
    return kOk;
}

// May fail the peer, and end the operation with it.
void Protocol::send_atomic(EmulatedAtomic& atomic) {
    Peer& peer = atomic.peer;
    const AtomicBody body = atomic.body;
    atomic.queued = false;
    count_rma(counters_, static_cast<Opcode>(body.opcode), sizeof(std::uint64_t));
    ++counters_.operations_assisted;
    flow_.send_control(peer, MessageType::atomic, &body, sizeof body);
    note_sent(peer);
}

void Protocol::send_queued_atomics(const Peer& peer) {
    if (emulated_atomics_.size() == 0) {
        return;
    }
    std::vector<EmulatedAtomic*> queued;
    emulated_atomics_.for_each([&](EmulatedAtomic* atomic) {
        if (&atomic->peer == &peer && atomic->queued) {
            queued.push_back(atomic);
        }
    });
    // Sends them in the order of their slots, mostly that of their starts; callers cannot rely on
    // it.
    for (EmulatedAtomic* atomic : queued) {
        if (peer.state == ConnectState::failed) {
            return; // all of them have ended
        }
        send_atomic(*atomic);
    }
}

void Protocol::end_atomic(EmulatedAtomic& atomic, int status) {
    UserRequest& user = *atomic.user;
    --atomic.peer.one_sided;
    emulated_atomics_.remove(atomic.body.id);
    flush_epochs_.leave(atomic.epoch);
    pool_.destroy(&atomic);
    complete(user, status, status == OPAL_COMMON_ADAPTIB_SUCCESS ? sizeof(std::uint64_t) : 0);
}

void Protocol::fail_atomics(const Peer& peer) {
    std::vector<EmulatedAtomic*> lost;
    emulated_atomics_.for_each([&](EmulatedAtomic* atomic) {
        if (&atomic->peer == &peer) {
            lost.push_back(atomic);
        }
    });
    for (EmulatedAtomic* atomic : lost) {
        end_atomic(*atomic, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    }
}

void Protocol::on_atomic_done(Peer& peer, const AtomicDoneBody& body) {
    EmulatedAtomic* atomic = emulated_atomics_.find(body.id);
    if (atomic == nullptr || &atomic->peer != &peer) {
        ++counters_.bad_packets;
        return;
    }
    if (body.done == 0) {
        report_refused(peer, static_cast<Opcode>(atomic->body.opcode), sizeof body.old);
        end_atomic(*atomic, OPAL_COMMON_ADAPTIB_BAD_PARAM);
        return;
    }
    std::memcpy(atomic->local, &body.old, sizeof body.old);
    end_atomic(*atomic, OPAL_COMMON_ADAPTIB_SUCCESS);
}

// -------------------------------------------------------------------------------------------------
// Target

void Protocol::on_atomic(Peer& peer, const AtomicBody& body) {
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
    flow_.send_control(peer, MessageType::atomic_done, &done, sizeof done);
    note_sent(peer);
}

} // namespace adaptib
