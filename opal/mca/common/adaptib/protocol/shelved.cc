// SPDX-License-Identifier: BSD-3-Clause
// Shelved operations: the record of a waiting put, get or atomic of which nothing is posted lies in
// the words of its request. So the core needs no memory for them, however many wait.
#include <algorithm>

#include "protocol/protocol.h"

namespace adaptib {

ShelvedOneSided::ShelvedOneSided(OneSided& operation)
    : local(operation.move.local), registration(operation.move.registration),
      remote(operation.move.remote), remote_key_count(operation.move.remote_key_count),
      connection(operation.move.connection), planned(operation.move.planned()),
      keys_found(operation.move.keys_found), opcode(operation.move.opcode),
      access(operation.move.access), length(operation.move.length),
      compare_add(operation.move.compare_add), swap(operation.move.swap), epoch(operation.epoch) {
    shelved = true;
    own.take(operation.own);
    std::copy(std::begin(operation.move.remote_keys), std::end(operation.move.remote_keys),
              remote_keys);
    if (planned) {
        subchannel = operation.move.plan.front().subchannel;
    }
}

void ShelvedOneSided::restore(OneSided& operation) {
    Move& move = operation.move;
    operation.user = &user();
    operation.epoch = epoch;
    operation.own.take(own);
    move.opcode = opcode;
    move.marker = Marker::non_blocking;
    move.one_sided = true;
    move.keys_found = keys_found;
    move.access = access;
    move.local = local;
    move.registration = registration;
    move.remote = remote;
    std::copy(std::begin(remote_keys), std::end(remote_keys), move.remote_keys);
    move.remote_key_count = remote_key_count;
    move.length = length;
    move.compare_add = compare_add;
    move.swap = swap;
    move.connection = connection;
    if (planned) {
        move.plan.push_back({subchannel, 0, length});
        move.covered = length;
        move.rounds = 1;
    }
}

WaitingTransfer& OneSided::shelve() { return protocol.shelve(*this); }

// Shelves an operation of which nothing is posted and which, if planned, goes over one subchannel.
// Returns the record that waits: the shelved one, or else the operation itself.
WaitingTransfer& Protocol::shelve(OneSided& operation) {
    const Move& move = operation.move;
    const bool whole = move.plan.empty() ? move.covered == 0
                                         : move.plan.size() == 1 && move.covered == move.length;
    if (!whole || move.posted > 0 || move.outstanding > 0 || !move.left.empty() ||
        !move.progress.empty()) {
        return operation;
    }
    UserRequest& user = *operation.user;
    auto* const shelved = new (user.core) ShelvedOneSided(operation);
    one_sided_.remove(operation.id);
    pool_.destroy(&operation);
    return *shelved;
}

// Returns the mover of a waiting record. Null: there is no memory now.
Mover* Protocol::unshelve(Peer& peer, WaitingTransfer& transfer) {
    if (!transfer.shelved) {
        return static_cast<Mover*>(&transfer);
    }
    OneSided* const operation = pool_.create<OneSided>(*this, peer);
    if (operation == nullptr) {
        return nullptr;
    }
    auto& shelved = static_cast<ShelvedOneSided&>(transfer);
    shelved.restore(*operation);
    operation->id = one_sided_.add(operation);
    shelved.~ShelvedOneSided();
    return operation;
}

// REQUIRES: the record waits nowhere any more.
void Protocol::fail_shelved(Peer& peer, ShelvedOneSided& shelved) {
    UserRequest& user = shelved.user();
    flush_epochs_.leave(shelved.epoch);
    shelved.~ShelvedOneSided();
    --peer.one_sided;
    --peer.users;
    --peer.moves;
    complete(user, OPAL_COMMON_ADAPTIB_UNREACHABLE, 0);
}

// Destroys shelved records at the end, so that no registration is left in use.
void Protocol::forget_waiting(Peer& peer) {
    if (peer.waiting == nullptr) {
        return;
    }
    peer.waiting->for_each([&](WaitingTransfer& transfer) {
        if (transfer.shelved) {
            peer.waiting->remove(transfer);
            static_cast<ShelvedOneSided&>(transfer).~ShelvedOneSided();
        }
    });
}

} // namespace adaptib
