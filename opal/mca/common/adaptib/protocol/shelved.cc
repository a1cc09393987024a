// SPDX-License-Identifier: BSD-3-Clause
// Shelved operations: the record of a waiting put, get or atomic of which nothing is posted lies in
// the words of its request. So the core needs no memory for them, however many wait.
#include <algorithm>

#include "protocol/one_sided_operations.h"

namespace adaptib {

ShelvedOneSided::ShelvedOneSided(OneSidedOperation& operation)
    : local(operation.rma.local), registration(operation.rma.registration),
      remote(operation.rma.remote), remote_key_count(operation.rma.remote_key_count),
      connection(operation.rma.connection), planned(operation.rma.planned()),
      keys(operation.rma.keys), opcode(operation.rma.opcode), access(operation.rma.access),
      length(operation.rma.length), compare_add(operation.rma.compare_add),
      swap(operation.rma.swap), epoch(operation.epoch) {
    shelved = true;
    own.take(operation.own);
    std::copy(std::begin(operation.rma.remote_keys), std::end(operation.rma.remote_keys),
              remote_keys);
    if (planned) {
        subchannel = operation.rma.plan.front().subchannel;
    }
}

void ShelvedOneSided::restore(OneSidedOperation& operation) {
    TransferPlan& rma = operation.rma;
    operation.user = &user();
    operation.epoch = epoch;
    operation.own.take(own);
    rma.opcode = opcode;
    rma.op_kind = OpKind::non_blocking;
    rma.one_sided = true;
    rma.keys = keys;
    rma.access = access;
    rma.local = local;
    rma.registration = registration;
    rma.remote = remote;
    std::copy(std::begin(remote_keys), std::end(remote_keys), rma.remote_keys);
    rma.remote_key_count = remote_key_count;
    rma.length = length;
    rma.compare_add = compare_add;
    rma.swap = swap;
    rma.connection = connection;
    if (planned) {
        rma.plan.push_back({subchannel, 0, length});
        rma.covered = length;
        rma.rounds = 1;
    }
}

WaitingTransfer& OneSidedOperation::shelve() { return operations.shelve(*this); }

WaitingTransfer& OneSidedOperations::shelve(OneSidedOperation& operation) {
    const TransferPlan& rma = operation.rma;
    const bool whole =
        rma.plan.empty() ? rma.covered == 0 : rma.plan.size() == 1 && rma.covered == rma.length;
    // Of operations with bounce buffers there are few, since those are few.
    if (operation.bounce.data != nullptr || !whole || rma.posted > 0 || rma.outstanding > 0 ||
        !rma.remaining.empty() || !rma.progress.empty()) {
        return operation;
    }
    UserRequest& user = *operation.user;
    auto* const shelved = new (user.core) ShelvedOneSided(operation);
    operations_.remove(operation.id);
    pool_.destroy(&operation);
    return *shelved;
}

Transfer* OneSidedOperations::unshelve(Peer& peer, WaitingTransfer& record) {
    OneSidedOperation* const operation = pool_.create<OneSidedOperation>(*this, transfers_, peer);
    if (operation == nullptr) {
        return nullptr;
    }
    auto& shelved = static_cast<ShelvedOneSided&>(record);
    shelved.restore(*operation);
    operation->id = operations_.add(operation);
    shelved.~ShelvedOneSided();
    return operation;
}

void OneSidedOperations::fail_shelved(Peer& peer, WaitingTransfer& record) {
    auto& shelved = static_cast<ShelvedOneSided&>(record);
    UserRequest& user = shelved.user();
    flush_epochs_.leave(shelved.epoch);
    shelved.~ShelvedOneSided();
    --peer.transfers.one_sided;
    --peer.transfers.users;
    --peer.transfers.rma_operations;
    completions_.complete(user, OPAL_COMMON_ADAPTIB_UNREACHABLE, 0);
}

void OneSidedOperations::forget(Peer& peer) {
    if (peer.transfers.waiting == nullptr) {
        return;
    }
    peer.transfers.waiting->for_each([&](WaitingTransfer& transfer) {
        if (transfer.shelved) {
            peer.transfers.waiting->remove(transfer);
            static_cast<ShelvedOneSided&>(transfer).~ShelvedOneSided();
        }
    });
}

} // namespace adaptib
