// SPDX-License-Identifier: BSD-3-Clause
// Automatic path migration. A queue pair is always in one of three states, MIGRATED, REARM, ARMED
// (fabric/README.md).
// Source: InfiniBand Architecture, vol. 1, 17.2.8; Vishnu, chapter 9.
#include "simulator/network/rc.h"

namespace adaptib::sim {

Status RcQueuePair::migrate_to(const QpAttributes& attributes, std::uint32_t mask) {
    const bool loads = (mask & kQpAlternatePath) != 0;
    const bool asks = (mask & kQpMigration) != 0;
    if (asks) {
        switch (attributes.migration) {
        case MigrationState::rearm:
            if (!loads && alternate_ == nullptr) {
                return Status::error(Reason::bad_argument);
            }
            break;
        case MigrationState::armed: return Status::error(Reason::bad_argument);
        case MigrationState::migrated:
            if (attributes_.migration != MigrationState::armed) {
                return Status::error(Reason::bad_state);
            }
            break;
        }
    }
    if (loads) {
        Path* path = rail_.path(attributes.alternate_path);
        if (path == nullptr) {
            rail_.raise(EventKind::path_migration_error, number_);
            return kOk;
        }
        alternate_ = path;
        attributes_.alternate_path = attributes.alternate_path;
    }
    if (asks && attributes.migration == MigrationState::rearm) {
        attributes_.migration = MigrationState::rearm;
        simulator_.schedule(
            arms_, world_.adapter_of(rail_.port())
                       .migration_done(simulator_.now(), machine_.path_migration.load_alternate));
    } else if (asks) {
        migrate();
    }
    return kOk;
}

// Arms both ends once both have loaded a path; the end that is ready last does so.
void RcQueuePair::try_to_arm() {
    RcQueuePair* peer = target();
    if (peer == nullptr || attributes_.migration != MigrationState::rearm ||
        peer->attributes_.migration != MigrationState::rearm || peer->arms_.scheduled()) {
        return;
    }
    for (RcQueuePair* end : {this, peer}) {
        end->attributes_.migration = MigrationState::armed;
        end->rail_.raise(EventKind::armed, end->number_);
    }
}

// Moves both ends to the alternate path; requests under way are sent again over it.
void RcQueuePair::migrate() {
    RcQueuePair* peer = target();
    take_alternate();
    if (peer != nullptr && peer != this && peer->attributes_.migration == MigrationState::armed) {
        peer->take_alternate();
    }
}

void RcQueuePair::take_alternate() {
    take_back_unanswered();
    use_path(*alternate_);
    attributes_.path = attributes_.alternate_path;
    attributes_.migration = MigrationState::migrated;
    alternate_ = nullptr;
    const Nanoseconds done = world_.adapter_of(rail_.port())
                                 .migration_done(simulator_.now(), machine_.path_migration.migrate);
    wait(Pause::target_busy, done);
    simulator_.schedule(migrated_, done);
}

void RcQueuePair::tell_migrated() { rail_.raise(EventKind::path_migrated, number_); }

} // namespace adaptib::sim
