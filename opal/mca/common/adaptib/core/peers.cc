// SPDX-License-Identifier: BSD-3-Clause
// First contact with a peer, and the end of it.
#include <algorithm>

#include "core/core.h"
#include "core/peer_text.h"

namespace adaptib {

// A failed peer keeps its record; operations started to it fail at once.
Status Core::get_peer(std::uint64_t name, Peer*& out, Why why) {
    if (name == environment_.self) {
        out = nullptr;
        return kOk;
    }
    Peer* peer = peers_.find(name);
    if (peer == nullptr) {
        return make_peer(name, why, out);
    }
    protocol_->keep_peer(*peer);
    const bool fails_at_once = peer->state == ConnectState::failed;
    if (peer->datagram.handle == nullptr && !peer->datagram.coming && !fails_at_once) {
        ProcessAddress address;
        Status status = look_up(name, address);
        if (status.ok()) {
            status = wake_peer(*peer, why, address);
        }
        if (!status.ok()) {
            return status;
        }
    }
    out = peer;
    return kOk;
}

Status Core::get_loopback(Peer*& out) { return get_loopback(loopback_, 0, out); }

Status Core::get_loopback(std::unique_ptr<Peer>& loopback, std::uint32_t fabric, Peer*& out) {
    if (loopback != nullptr && loopback->state == ConnectState::failed &&
        loopback->one_sided == 0) {
        loopback.reset(); // an operation outside a registered range has failed it
    }
    if (loopback == nullptr) {
        AttachedFabric& attached = fabrics_[fabric];
        ProcessAddress self;
        Status status = decode(address_.data(), address_.size(), self, environment_.wire_version);
        auto peer = new_peer(self, routes_->to_itself(fabric));
        if (status.ok()) {
            status = connections_->open_loopback(*peer);
        }
        if (!status.ok()) {
            return status;
        }
        attached.used = true;
        loopback = std::move(peer);
    }
    out = loopback.get();
    return kOk;
}

Peer* Core::find_peer(std::uint64_t name, std::uint32_t fabric) const {
    Peer* peer = peers_.find(name);
    return peer == nullptr || peer->route.fabric == fabric ? peer : amo_peers_.find(name);
}

Status Core::get_for_atomics(Peer& peer, Peer*& out) {
    if (peer.route.fabric == routes_->last_fabric()) {
        out = &peer;
        return kOk;
    }
    Peer* amo_peer = amo_peers_.find(peer.name);
    if (amo_peer == nullptr) {
        return make_amo_peer(peer, Why::user, out);
    }
    protocol_->keep_peer(*amo_peer);
    const bool fails_at_once = amo_peer->state == ConnectState::failed;
    if (amo_peer->datagram.handle == nullptr && !amo_peer->datagram.coming && !fails_at_once) {
        if (const Status status = wake_peer(*amo_peer, Why::user, amo_peer->address);
            !status.ok()) {
            return status;
        }
    }
    out = amo_peer;
    return kOk;
}

// If the last fabric does not reach the peer, all processes reach it over one and the same fabric:
// it is its own amo_peer.
Status Core::make_amo_peer(const Peer& peer, Why why, Peer*& out) {
    PeerRoute route;
    if (!routes_->route_over(routes_->last_fabric(), peer.address, route)) {
        out = peers_.find(peer.name);
        return kOk;
    }
    AttachedFabric& attached = fabrics_[route.fabric];
    auto amo_peer = new_peer(peer.address, route);
    if (const Status status = wake_peer(*amo_peer, why, peer.address); !status.ok()) {
        return status;
    }
    attached.used = true;
    out = &amo_peers_.add(std::move(amo_peer));
    paths_->add(*out);
    return kOk;
}

Status Core::look_up(std::uint64_t name, ProcessAddress& out) {
    std::vector<std::byte> blob;
    Status status = environment_.bootstrap->lookup(name, blob);
    if (status.ok()) {
        status = decode(blob.data(), blob.size(), out, environment_.wire_version);
    }
    if (status.ok() && out.name != name) {
        status = Status::error(Reason::bad_wire);
    }
    if (status.ok()) {
        return kOk;
    }
    std::string text =
        peer_text(name, "") + " cannot be reached from host " + environment_.host + ": ";
    if (status.reason() == Reason::version) {
        text += "it speaks wire version " + std::to_string(out.version) + " and this process " +
                std::to_string(environment_.wire_version) +
                ". Install the same release of adaptib on all hosts of the job.";
    } else {
        text += std::string("its published address is missing or malformed (") +
                reason_text(status.reason()) +
                "). Check that all processes of the job select adaptib.";
    }
    environment_.message(Severity::failure, text);
    return status;
}

void Core::refuse_peer(const ProcessAddress& address, Why why, const std::string& obstacle) {
    const std::string text = peer_text(address.name, address.host) +
                             " cannot be reached from host " + environment_.host + obstacle;
    if (why != Why::offer) {
        environment_.message(Severity::failure, text);
    } else if (!left_reported_) {
        left_reported_ = true;
        environment_.message(Severity::notice,
                             text + " This process, and others like it, are left to the job's "
                                    "other transports, if there are any.");
    }
}

std::unique_ptr<Peer> Core::new_peer(const ProcessAddress& address, const PeerRoute& route) {
    AttachedFabric& attached = fabrics_[route.fabric];
    auto peer = std::make_unique<Peer>(address, route, *attached.datagrams, attached.eager_limit,
                                       counters_);
    peer->life.ended = ended_.contains(address.name);
    peer->try_send_active_max = protocol_->active_max();
    peer->ring_bytes = attached.ring_bytes;
    if (attached.most_eager > attached.eager_limit) {
        peer->copy_choice = std::make_unique<CopyChoice>(*attached.fabric->copy_costs(),
                                                         attached.eager_limit, attached.most_eager);
        peer->stream_choices = std::make_unique<StreamChoices>();
        peer->allow(Allowance::all);
        peer->try_send_active_max = CopyChoice::kTimedFrom - 1;
    }
    if (attached.target_assisted) {
        peer->assist_choices = std::make_unique<AssistChoices>();
    }
    if (attached.cooperative_copies) {
        peer->cooperative_copy_choices = std::make_unique<CooperativeCopyChoices>();
        peer->cooperative_copy_choices->only = attached.only_copies;
    }
    return peer;
}

Status Core::make_peer(std::uint64_t name, Why why, Peer*& out) {
    ProcessAddress address;
    if (Status status = look_up(name, address); !status.ok()) {
        return status;
    }
    PeerRoute route;
    if (!routes_->choose(address, route)) {
        refuse_peer(address, why,
                    ": no rail of one process can talk to a rail of the other. " +
                        routes_->why_none(address) + advice(Reason::unreachable));
        return Status::error(Reason::unreachable);
    }
    AttachedFabric& attached = fabrics_[route.fabric];
    auto peer = new_peer(address, route);
    if (Status status = wake_peer(*peer, why, address); !status.ok()) {
        return status;
    }
    attached.used = true;
    out = &peers_.add(std::move(peer));
    paths_->add(*out);
    counters_.peers = peers_.size();
    return kOk;
}

// Returns ok also if the path to the peer has to be waited for, and always for a peer that has sent
// something (core/contacts.h).
Status Core::wake_peer(Peer& peer, Why why, const ProcessAddress& address) {
    peer.address = address;
    peer.datagram.key = address.key;
    peer.datagram.name = address.name;
    std::size_t pair = 0;
    const Status status = datagram_paths_->open(peer, pair);
    if (status.ok()) {
        return status;
    }
    if (why == Why::datagram || contacts_->may_be_reached(peer, status)) {
        contacts_->add(peer, status);
        return kOk;
    }
    refuse_peer(address, why, " over " + contacts_->why_unreached(peer, status));
    return status;
}

// A finished peer keeps its record, so that its sequence numbers continue should it come back; its
// connection, rings and mappings are released.
void Core::tear_down_peers() {
    release_left_peers();
    std::vector<Peer*> disconnected;
    std::swap(disconnected, disconnected_);
    for (Peer* peer : disconnected) {
        if (peer->state == ConnectState::failed) {
            continue;
        }
        if (peer->repair.wanted || peer->interrupted) {
            peer->teardown_pending =
                false; // our answer may be lost; finish once it is under way again
            continue;
        }
        if ((peer->ring_out != nullptr && !peer->ring_out->settled()) ||
            !connections_->drained(*peer)) {
            disconnected_.push_back(peer); // our answer to its disconnect is under way
            continue;
        }
        connections_->close(*peer, ConnectState::idle);
        const std::unique_ptr<ConnectBody> early = std::move(peer->early_request);
        const DatagramLink* link = peer->datagram.link.get();
        if (peer->released && early == nullptr && peer->early == nullptr &&
            (link == nullptr || !link->busy())) {
            peer->datagram.handle.reset();
        }
        protocol_->on_torn_down(*peer);
        if (early != nullptr) {
            connections_->on_early_request(*peer, *early);
        }
    }
}

} // namespace adaptib
