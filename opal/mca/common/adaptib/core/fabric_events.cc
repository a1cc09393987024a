// SPDX-License-Identifier: BSD-3-Clause
#include "core/fabric_events.h"

#include <algorithm>

namespace adaptib {

void FabricEvents::poll() {
    for (AttachedFabric& attached : parts_.fabrics) {
        poll(attached);
        report_notices(attached);
    }
}

void FabricEvents::report_notices() {
    for (AttachedFabric& attached : parts_.fabrics) {
        report_notices(attached);
    }
}

void FabricEvents::report_notices(AttachedFabric& attached) {
    const std::vector<std::string>& notices = attached.fabric->notices();
    while (attached.notices_reported < notices.size()) {
        message_(Severity::notice, notices[attached.notices_reported++]);
    }
}

void FabricEvents::poll(AttachedFabric& attached) {
    Event event;
    while (attached.fabric->poll_event(event)) {
        if (event.rail >= attached.rails.count) {
            continue; // a rail beyond kMaxRails, which is not used
        }
        const std::uint32_t index = attached.rails.first + event.rail;
        const std::string& rail = parts_.rails[index]->info().name;
        switch (event.kind) {
        case EventKind::port_error:
        case EventKind::device_fatal: {
            const bool port = event.kind == EventKind::port_error;
            note(IncidentKind::rail_down, index);
            if (parts_.migration != nullptr) {
                parts_.migration->rail_failed(index);
            }
            parts_.paths.rail_failed(index, port ? "the port went down" : "the device failed");
            if (!parts_.paths.on()) {
                message_(Severity::notice, "Rail " + rail + " of host " + host_ +
                                               (port ? " went down." : "'s device failed."));
            } else if (!port) {
                report_lost(attached, index);
            }
            fail_peers_on(index);
            if (!port) {
                fail_loopbacks_on(index);
            }
            parts_.protocol.end_lost_peers();
            break;
        }
        case EventKind::device_restored: on_device_restored(attached, event.rail); break;
        case EventKind::port_active:
            note(IncidentKind::rail_up, index);
            on_address_changed(attached, event.rail); // perhaps while it was down
            parts_.paths.rail_restored(index);
            if (parts_.migration != nullptr) {
                parts_.migration->rail_restored(index);
            }
            if (!parts_.paths.on()) {
                message_(Severity::notice, "Rail " + rail + " of host " + host_ + " is up again.");
            }
            break;
        case EventKind::qp_fatal:
            if (renew_target(index, event.qp_number) ||
                attached.datagrams->on_fatal(event.rail, event.qp_number)) {
                break;
            }
            if (parts_.paths.on()) {
                parts_.path_failures.on_path_failed(index, event.qp_number, WorkStatus::flushed, 0);
            }
            break;
        case EventKind::armed:
        case EventKind::path_migrated:
        case EventKind::path_migration_error:
            if (parts_.migration != nullptr) {
                parts_.migration->on_event(event.kind, index, event.qp_number,
                                           [this](Peer& peer, std::size_t subchannel) {
                                               parts_.paths.report_success(peer, subchannel);
                                           });
            }
            break;
        case EventKind::address_changed: on_address_changed(attached, event.rail); break;
        case EventKind::cm_connected:
            parts_.connections.cm_connects().on_connected(index, event.qp_number);
            break;
        case EventKind::peer_changed: parts_.departures.on_peers_changed(); break;
        case EventKind::cm_failed:
            parts_.connections.cm_connects().on_failed(index, event.qp_number,
                                                       parts_.rails[index]->last_error_text());
            break;
        default: break;
        }
    }
    for (std::uint32_t rail = 0; rail < attached.numbers.size(); ++rail) {
        if (attached.numbers_now(rail) != attached.numbers[rail]) {
            on_renumbered(attached, rail);
        }
    }
}

// Returns the name of the rail's device.
std::string FabricEvents::device_of(std::uint32_t rail) const {
    const RailInfo& info = parts_.rails[rail]->info();
    return info.adapter.empty() ? info.name : info.adapter;
}

// A device that is reset comes back as another one: this process's context, and with it all queue
// pairs and registrations, is gone. The fabric makes them anew, but for those of rdma_cm.
void FabricEvents::report_lost(const AttachedFabric& attached, std::uint32_t rail) {
    const std::string device = device_of(rail);
    if (std::find(lost_.begin(), lost_.end(), device) != lost_.end()) {
        return; // it has several ports
    }
    lost_.push_back(device);
    bool left = false;
    for (std::uint32_t i = attached.rails.first; i < attached.rails.end(); ++i) {
        left = left || (!parts_.paths.rail_down(i) && device_of(i) != device);
    }
    const bool comes_back = !parts_.rails[rail]->info().has(Capability::cm_connects);
    std::string text =
        "Device " + device + " of host " + host_ + " has failed, or was reset or removed. ";
    if (!comes_back) {
        text += "This process, which connects by rdma_cm, cannot use it again, not even when it is "
                "back; ";
    }
    if (left) {
        text += "Traffic takes the other rails";
    } else {
        const Nanoseconds patience = parts_.datagram_paths.patience();
        text += "There is no other rail to other hosts: what needs them waits";
        text += patience == Nanoseconds::max() ? ""
                                               : ", for at most " + whole_seconds_text(patience) +
                                                     " (opal_common_adaptib_partition_timeout)";
    }
    message_(Severity::notice, text + (comes_back ? ", until the device is back." : "."));
}

// The fabric has made memory regions and completion queues anew. Peers learn the new numbers of
// queue pairs from the probes of the paths, which begin once the port is active. They ask for the
// new keys.
void FabricEvents::on_device_restored(AttachedFabric& attached, std::uint32_t rail) {
    const std::uint32_t index = attached.rails.first + rail;
    Status status = kOk;
    if (rail < attached.datagrams->ports()) {
        status = attached.datagrams->make_anew(rail);
    }
    attached.note_responder(rail);
    if (status.ok() && parts_.shared != nullptr && parts_.shared->is_open(index)) {
        status = parts_.shared->make_anew(index);
    }
    if (!status.ok()) {
        message_(Severity::failure,
                 "Rail " + parts_.rails[index]->info().name + " of host " + host_ +
                     " is back, but cannot be used: " + reason_text(status.reason()) + ".");
    }
    const bool first = std::erase(lost_, device_of(index)) > 0; // of the device's ports
    if (status.ok() && first) {
        message_(Severity::notice, "Device " + device_of(index) + " of host " + host_ +
                                       " is back, and was opened again.");
    }
    // Address handles of before are another context's.
    parts_.peers.for_each([&](Peer& peer) {
        if (peer.contact.datagram.port == rail &&
            peer.contact.route.local.first == attached.rails.first) {
            parts_.datagram_paths.renew_handle(peer);
        }
    });
}

// Fails the peers that lose data with a rail that is down: datagrams under way, or messages in a
// ring, if these cannot move to another path.
void FabricEvents::fail_peers_on(std::uint32_t rail) {
    const std::string& name = parts_.rails[rail]->info().name;
    parts_.peers.for_each([&](Peer& peer) {
        const bool connected = peer.session.connected();
        const std::size_t chosen = connected ? parts_.connections.chosen_subchannel(peer) : 0;
        const bool ring =
            connected && peer.lanes.subchannels[chosen].local_rail == rail &&
            !(parts_.migration != nullptr && parts_.migration->rides_out(peer, chosen, rail));
        const bool datagrams =
            !parts_.datagram_paths.moves(peer) && rail == peer.contact.route.local.first;
        if (!peer.session.lost() && (datagrams || (ring && !peer.session.repairable))) {
            parts_.protocol.lost().lose(peer, "rail " + name + " is down");
        }
    });
}

// This process's connections to itself are not repaired. Further operations make them anew.
void FabricEvents::fail_loopbacks_on(std::uint32_t rail) {
    parts_.peers.for_each_loopback([&](Peer& peer) {
        const bool uses = std::any_of(
            peer.lanes.subchannels.begin(), peer.lanes.subchannels.end(),
            [&](const Subchannel& each) { return each.local_rail == rail && each.qp != nullptr; });
        if (uses && !peer.session.lost()) {
            parts_.protocol.lost().lose(peer, "the device of rail " +
                                                  parts_.rails[rail]->info().name + " was lost");
        }
    });
}

// Replaces a rail's DC target, which all peers write over, after a bad request has failed it. The
// peers retry until it is back.
bool FabricEvents::renew_target(std::uint32_t rail, std::uint32_t qp_number) {
    Status status = kOk;
    if (parts_.shared == nullptr || !parts_.shared->renew_target(rail, qp_number, status)) {
        return false;
    }
    if (!status.ok()) {
        message_(Severity::failure, "Rail " + parts_.rails[rail]->info().name + " of host " +
                                        host_ + " has lost its dynamically connected target (" +
                                        reason_text(status.reason()) +
                                        "): peers can no longer reach it.");
    }
    return true;
}

// The LID, GID or partition of a rail has changed. Queue pairs and address handles still have the
// old one, so all paths over the rail are made anew, as after a port error. They are probed at
// once; what is sent over them tells the rail's new address. Many such events change nothing (a
// further address of the host). A change while the port is down shows only when it is active again.
void FabricEvents::on_address_changed(AttachedFabric& attached, std::uint32_t rail) {
    const std::uint32_t index = attached.rails.first + rail;
    const RailAddress now = parts_.rails[index]->address();
    RailAddress& told = attached.addresses[rail];
    if (now == told) {
        return;
    }
    told = now;
    note(IncidentKind::rail_changed, index);
    if (attached.answerer != nullptr) {
        attached.answerer->set_address(rail, now);
    }
    if (rail < attached.datagrams->ports()) {
        attached.datagrams->renew(rail);
    }
    if (parts_.paths.on()) {
        if (!parts_.paths.rail_down(index)) { // else it is back when the port is
            parts_.paths.rail_failed(index, "its address has changed");
            parts_.paths.rail_restored(index);
        }
        parts_.paths.rail_readdressed(index);
    } else {
        message_(Severity::notice, "The address of rail " + parts_.rails[index]->info().name +
                                       " of host " + host_ + " has changed.");
    }
}

// Queue pairs of datagrams were replaced. The probes of the paths over the rail tell their numbers.
void FabricEvents::on_renumbered(AttachedFabric& attached, std::uint32_t rail) {
    attached.numbers[rail] = attached.numbers_now(rail);
    attached.note_responder(rail);
    const std::uint32_t index = attached.rails.first + rail;
    parts_.peers.for_each([&](Peer& peer) {
        for (std::size_t pair = 0; pair < peer.contact.route.total; ++pair) {
            if (peer.contact.route.pairs[pair].local == index) {
                parts_.paths.report_suspect(peer, pair, "its datagrams have another queue pair");
            }
        }
    });
}

} // namespace adaptib
