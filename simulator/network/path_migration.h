// SPDX-License-Identifier: BSD-3-Clause
// PathMigration: automatic path migration of one queue pair.
//
// Purpose: keeps the alternate path that the queue pair has loaded, arms both ends once both have
// one, and moves both ends to it.
// A queue pair is always in one of three states, MIGRATED, REARM, ARMED (fabric/README.md); the
// state is a member of its attributes.
// Ownership: the queue pair's.  Threads: one.
// Source: InfiniBand Architecture, vol. 1, 17.2.8; Vishnu, chapter 9.
// May touch: base/, fabric/, simulator/network/.
#pragma once

#include <cstdint>

#include "simulator/network/network.h"
#include "simulator/network/qp.h"
#include "simulator/network/rail.h"

namespace adaptib::sim {

class PathMigration {
public:
    class Listener {
    public:
        // Migration at the other end; null: it is not there.
        virtual PathMigration* peer_migration() = 0;
        // Takes back the requests under way and uses that path from now on. Sends nothing before
        // `done`, when the adapter has taken the path over.
        virtual void take_path(Path& path, Nanoseconds done) = 0;

    protected:
        ~Listener() = default;
    };

    // `attributes`: of the queue pair.
    PathMigration(SimRail& rail, const QueuePair& qp, QpAttributes& attributes, Listener& listener)
        : rail_(rail), qp_(qp), attributes_(attributes), listener_(listener) {}

    // Loads a path, asks for arming or for the migration: kQpAlternatePath, kQpMigration.
    Status modify(const QpAttributes& attributes, std::uint32_t mask);
    bool armed() const { return attributes_.migration == MigrationState::armed; }
    // Moves both ends. REQUIRES: armed().
    void migrate();

    void cancel(); // reports nothing more
    void forget_alternate() { alternate_ = nullptr; }

private:
    void try_to_arm();
    void take_alternate();
    void report_migrated();
    Nanoseconds adapter_done(Nanoseconds cost);

    SimRail& rail_;
    const QueuePair& qp_;
    QpAttributes& attributes_;
    Listener& listener_;
    Path* alternate_ = nullptr;
    MemberEvent<PathMigration, &PathMigration::try_to_arm> arms_{*this};
    MemberEvent<PathMigration, &PathMigration::report_migrated> migrated_{*this};
};

} // namespace adaptib::sim
