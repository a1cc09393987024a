// SPDX-License-Identifier: BSD-3-Clause
// The migration agent (recovery/apm/migration_agent.h).
#include "recovery/apm/migration_agent.h"

#include <algorithm>

#include "base/invariant.h"
#include "recovery/apm/path_loading.h"
#include "stats/run_history.h"

namespace adaptib {

Ways MigrationAgent::ways(const Peer& peer, std::size_t index) const {
    return ways_of(peer.contact.route, index, adapters_, peer.contact.address.rails,
                   [&](const PeerRoute::Pair& pair) {
                       const AddressRail& remote = peer.contact.address.rails[pair.remote];
                       return rails_[pair.local]->paths_to({remote.size, remote.bytes});
                   });
}

std::uint32_t MigrationAgent::specify(Peer& peer, std::size_t index, QpAttributes& attributes) {
    Subchannel& subchannel = peer.lanes.subchannels[index];
    subchannel.migration = {};
    const bool able =
        rails_[subchannel.local_rail]->info().has(Capability::migration) &&
        (peer.contact.address.rails[subchannel.remote_rail].flags & kRailMigrates) != 0;
    const Ways list = ways(peer, index);
    if (!able || list.count < 2) {
        return 0;
    }
    const std::uint32_t number = subchannel.qp->number();
    known_[key(subchannel.local_rail, number)] = &peer;
    if (rails_[list.after(0).local]->state() != PortState::active) {
        subchannel.migration.state = MigrationStep::waiting;
        return 0;
    }
    subchannel.migration.state = MigrationStep::loading;
    return add_alternate(path_of(list.after(0), rails_, peer.contact.address.rails), attributes);
}

void MigrationAgent::forget(Subchannel& subchannel) {
    if (subchannel.qp != nullptr) {
        known_.erase(key(subchannel.local_rail, subchannel.qp->number()));
    }
    subchannel.migration = {};
}

Subchannel* MigrationAgent::find(const Place& place, std::size_t& index) const {
    const auto found = known_.find(key(place.rail, place.qp_number));
    if (found == known_.end() || found->second != place.peer) {
        return nullptr;
    }
    auto& all = place.peer->lanes.subchannels;
    const auto at = std::find_if(all.begin(), all.end(), [&](const Subchannel& subchannel) {
        return subchannel.local_rail == place.rail && subchannel.qp != nullptr &&
               subchannel.qp->number() == place.qp_number;
    });
    index = static_cast<std::size_t>(at - all.begin());
    return at == all.end() ? nullptr : &*at;
}

void MigrationAgent::on_event(EventKind kind, std::uint32_t rail, std::uint32_t qp_number,
                              const std::function<void(Peer&, std::size_t)>& moved) {
    const auto known = known_.find(key(rail, qp_number));
    if (known == known_.end()) {
        return;
    }
    const Place place{known->second, rail, qp_number};
    std::size_t index = 0;
    Subchannel* subchannel = find(place, index);
    if (subchannel == nullptr) {
        return;
    }
    SubchannelMigration& at = subchannel->migration;
    switch (kind) {
    case EventKind::armed:
        if (at.state == MigrationStep::loading) {
            ++counters_.alternate_paths_armed;
            at.state = MigrationStep::armed;
            if (at.returns ||
                rails_[ways(*place.peer, index).list[at.way].local]->state() != PortState::active) {
                due_.push_back(place); // or the port failed before
            }
        }
        break;
    case EventKind::path_migrated:
        ++counters_.path_migrations;
        note_incident(counters_, {.peer = place.peer->contact.name,
                                  .kind = IncidentKind::path_migrated,
                                  .rail = static_cast<std::uint8_t>(rail)});
        at.way = static_cast<std::uint8_t>((at.way + 1u) % ways(*place.peer, index).count);
        at.returns = at.returns && at.way != 0;
        at.state = MigrationStep::due;
        due_.push_back(place);
        moved(*place.peer, index);
        break;
    case EventKind::path_migration_error:
        ++counters_.path_migrations_failed;
        at.state = MigrationStep::none;
        break;
    default: break;
    }
}

bool MigrationAgent::rides_out(const Peer& peer, std::size_t index, std::uint32_t rail) const {
    const SubchannelMigration& at = peer.lanes.subchannels[index].migration;
    if (at.state == MigrationStep::none && at.way == 0) {
        return false;
    }
    const Ways all = ways(peer, index); // the next one may be another path of the same port
    const bool leaves = at.state == MigrationStep::armed && all.after(at.way).local != rail;
    return leaves || all.list[at.way].local != rail;
}

// Sorts the collected ones: the table has no order, but a simulation must be reproducible.
void MigrationAgent::collect(const std::function<bool(Peer&, std::size_t)>& wanted) {
    const std::size_t before = due_.size();
    for (const auto& [id, peer] : known_) {
        const Place place{peer, static_cast<std::uint32_t>(id >> 32),
                          static_cast<std::uint32_t>(id)};
        std::size_t index = 0;
        if (find(place, index) != nullptr && wanted(*peer, index)) {
            due_.push_back(place);
        }
    }
    std::sort(due_.begin() + static_cast<std::ptrdiff_t>(before), due_.end(),
              [](const Place& a, const Place& b) {
                  return key(a.rail, a.qp_number) < key(b.rail, b.qp_number);
              });
}

void MigrationAgent::rail_failed(std::uint32_t rail) {
    collect([&](Peer& peer, std::size_t index) {
        SubchannelMigration& at = peer.lanes.subchannels[index].migration;
        const Ways all = ways(peer, index);
        at.returns = at.returns && all.list[0].local != rail;
        return at.state == MigrationStep::armed && all.list[at.way].local == rail;
    });
}

// Queue pairs of the port that are on another one return: two of them share that one's rate.
void MigrationAgent::rail_restored(std::uint32_t rail) {
    collect([&](Peer& peer, std::size_t index) {
        SubchannelMigration& at = peer.lanes.subchannels[index].migration;
        const Ways all = ways(peer, index);
        at.returns = at.returns || (at.way != 0 && all.list[0].local == rail);
        return at.state == MigrationStep::waiting ? all.after(at.way).local == rail
                                                  : at.state == MigrationStep::armed && at.returns;
    });
}

std::size_t MigrationAgent::migrate(Peer& peer) {
    std::size_t asked = 0;
    for (Subchannel& subchannel : peer.lanes.subchannels) {
        if (subchannel.migration.state != MigrationStep::armed) {
            continue;
        }
        ADAPTIB_INVARIANT(subchannel.qp != nullptr, "a path is armed on a queue pair that exists",
                          peer.contact.name, subchannel.local_rail);
        asked += migrate_now(*subchannel.qp).ok() ? 1 : 0;
    }
    return asked;
}

void MigrationAgent::run() {
    for (std::size_t left = std::min(due_.size(), kBatch); left > 0; --left) {
        const Place place = due_.front();
        due_.pop_front();
        load_next(place);
    }
}

// Loads the next path, or migrates the queue pair if it is armed.
void MigrationAgent::load_next(const Place& place) {
    std::size_t index = 0;
    Subchannel* subchannel = find(place, index);
    if (subchannel == nullptr) {
        return;
    }
    SubchannelMigration& at = subchannel->migration;
    if (at.state == MigrationStep::armed) {
        static_cast<void>(migrate_now(*subchannel->qp)); // or the peer did so meanwhile
        return;
    }
    if (at.state != MigrationStep::due && at.state != MigrationStep::waiting) {
        return;
    }
    const PeerRoute::Pair next = ways(*place.peer, index).after(at.way);
    if (rails_[next.local]->state() != PortState::active) {
        at.state = MigrationStep::waiting;
        return;
    }
    const Status status =
        load_alternate(*subchannel->qp, path_of(next, rails_, place.peer->contact.address.rails));
    at.state = status.ok() ? MigrationStep::loading : MigrationStep::none;
    counters_.path_migrations_failed += status.ok() ? 0 : 1;
}

} // namespace adaptib
