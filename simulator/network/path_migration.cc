// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/network/path_migration.h"

#include <utility>

namespace adaptib::sim {

Status PathMigration::modify(const QpAttributes& attributes, std::uint32_t mask) {
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
            if (!armed()) {
                return Status::error(Reason::bad_state);
            }
            break;
        }
    }
    if (loads) {
        Path* path = rail_.path(attributes.alternate_path);
        if (path == nullptr) {
            rail_.raise(EventKind::path_migration_error, qp_.number());
            return kOk;
        }
        alternate_ = path;
        attributes_.alternate_path = attributes.alternate_path;
    }
    if (asks && attributes.migration == MigrationState::rearm) {
        attributes_.migration = MigrationState::rearm;
        const MachineModel& machine = rail_.world().machine();
        rail_.world().simulator().schedule(arms_,
                                           adapter_done(machine.path_migration.load_alternate));
    } else if (asks) {
        migrate();
    }
    return kOk;
}

// Arms both ends once both have loaded a path; the end that is ready last does so.
void PathMigration::try_to_arm() {
    PathMigration* peer = listener_.peer_migration();
    if (peer == nullptr || attributes_.migration != MigrationState::rearm ||
        peer->attributes_.migration != MigrationState::rearm || peer->arms_.scheduled()) {
        return;
    }
    for (PathMigration* end : {this, peer}) {
        end->attributes_.migration = MigrationState::armed;
        end->rail_.raise(EventKind::armed, end->qp_.number());
    }
}

// Moves both ends to the alternate path; requests under way are sent again over it.
void PathMigration::migrate() {
    PathMigration* peer = listener_.peer_migration();
    take_alternate();
    if (peer != nullptr && peer != this && peer->armed()) {
        peer->take_alternate();
    }
}

void PathMigration::take_alternate() {
    attributes_.path = attributes_.alternate_path;
    attributes_.migration = MigrationState::migrated;
    const Nanoseconds done = adapter_done(rail_.world().machine().path_migration.migrate);
    listener_.take_path(*std::exchange(alternate_, nullptr), done);
    rail_.world().simulator().schedule(migrated_, done);
}

void PathMigration::report_migrated() { rail_.raise(EventKind::path_migrated, qp_.number()); }

// Returns the time at which the adapter has done work of that cost for this queue pair.
Nanoseconds PathMigration::adapter_done(Nanoseconds cost) {
    World& world = rail_.world();
    return world.adapter_of(rail_.port()).migration_done(world.simulator().now(), cost);
}

void PathMigration::cancel() {
    rail_.world().simulator().cancel(arms_);
    rail_.world().simulator().cancel(migrated_);
}

} // namespace adaptib::sim
