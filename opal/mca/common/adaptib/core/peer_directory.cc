// SPDX-License-Identifier: BSD-3-Clause
#include "core/peer_directory.h"

#include "core/peer_text.h"

namespace adaptib {

namespace {

// Returns true if the peer has been released, and its address was given up.
bool sleeps(const Peer& peer) {
    return peer.contact.datagram.handle == nullptr && !peer.contact.datagram.coming &&
           !peer.session.lost();
}

} // namespace

// A failed peer keeps its record; operations started to it fail at once.
Status PeerDirectory::get(std::uint64_t name, Peer*& out, Why why) {
    if (name == options_.self) {
        out = nullptr;
        return kOk;
    }
    Peer* peer = peers_.find(name);
    if (peer == nullptr) {
        return make_peer(name, why, out);
    }
    parts_.protocol.keep(*peer);
    if (sleeps(*peer)) {
        ProcessAddress address;
        Status status = look_up(name, address);
        if (status.ok() && sleeps(*peer)) {
            status = wake_peer(*peer, why, address);
        }
        if (!status.ok()) {
            return status;
        }
    }
    out = peer;
    return kOk;
}

Status PeerDirectory::get_loopback(std::unique_ptr<Peer>& loopback, std::uint32_t fabric,
                                   Peer*& out) {
    if (loopback != nullptr && loopback->session.lost()) {
        parts_.protocol.end_lost_peers();
        if (loopback->transfers.one_sided == 0) {
            parts_.protocol.events().forget(*loopback);
            loopback.reset(); // an operation outside a registered range has failed it
        }
    }
    if (loopback == nullptr) {
        AttachedFabric& attached = parts_.fabrics[fabric];
        ProcessAddress self;
        Status status =
            decode(options_.address->data(), options_.address->size(), self, options_.wire_version);
        auto peer = new_peer(self, parts_.routes.to_itself(fabric));
        if (status.ok()) {
            status = parts_.connections.open_loopback(*peer);
        }
        if (!status.ok()) {
            return status;
        }
        attached.use();
        loopback = std::move(peer);
    }
    out = loopback.get();
    return kOk;
}

Status PeerDirectory::get_for_atomics(Peer& peer, Peer*& out) {
    if (peer.contact.route.fabric == parts_.routes.last_fabric()) {
        out = &peer;
        return kOk;
    }
    Peer* amo_peer = amo_peers_.find(peer.contact.name);
    if (amo_peer == nullptr) {
        return make_amo_peer(peer, Why::user, out);
    }
    parts_.protocol.keep(*amo_peer);
    if (sleeps(*amo_peer)) {
        if (const Status status = wake_peer(*amo_peer, Why::user, amo_peer->contact.address);
            !status.ok()) {
            return status;
        }
    }
    out = amo_peer;
    return kOk;
}

// If the last fabric does not reach the peer, all processes reach it over one and the same fabric:
// it is its own amo_peer.
Status PeerDirectory::make_amo_peer(const Peer& peer, Why why, Peer*& out) {
    PeerRoute route;
    if (!parts_.routes.route_over(parts_.routes.last_fabric(), peer.contact.address, route)) {
        out = peers_.find(peer.contact.name);
        return kOk;
    }
    AttachedFabric& attached = parts_.fabrics[route.fabric];
    auto amo_peer = new_peer(peer.contact.address, route);
    if (const Status status = wake_peer(*amo_peer, why, peer.contact.address); !status.ok()) {
        return status;
    }
    attached.use();
    out = &amo_peers_.add(std::move(amo_peer));
    parts_.paths.add(*out);
    return kOk;
}

Peer* PeerDirectory::sender_of(std::uint32_t fabric, std::uint64_t from, std::uint64_t from_key) {
    Peer* peer = peers_.find(from);
    if (peer == nullptr && !make_peer(from, Why::datagram, peer).ok()) {
        ++parts_.counters.bad_packets;
        return nullptr;
    }
    if (peer->contact.route.fabric !=
        fabric) { // the datagram is for its amo_peer, if it may have one
        Peer* amo_peer = amo_peers_.find(from);
        if (amo_peer == nullptr && fabric == parts_.routes.last_fabric()) {
            static_cast<void>(make_amo_peer(*peer, Why::datagram, amo_peer));
        }
        peer = amo_peer != nullptr && amo_peer->contact.route.fabric == fabric ? amo_peer : nullptr;
    }
    if (peer == nullptr || peer->contact.address.key != from_key) {
        ++parts_.counters.bad_packets;
        return nullptr;
    }
    if (sleeps(*peer)) {
        static_cast<void>(wake_peer(*peer, Why::datagram, peer->contact.address));
    }
    return peer;
}

Status PeerDirectory::look_up(std::uint64_t name, ProcessAddress& out) {
    std::vector<std::byte> blob;
    Status status = options_.bootstrap->lookup(name, blob);
    if (status.ok()) {
        status = decode(blob.data(), blob.size(), out, options_.wire_version);
    }
    if (status.ok() && out.name != name) {
        status = Status::error(Reason::bad_wire);
    }
    if (status.ok()) {
        return kOk;
    }
    std::string text = peer_text(name, "") + " cannot be reached from host " + options_.host + ": ";
    if (status.reason() == Reason::version) {
        text += "it speaks wire version " + std::to_string(out.version) + " and this process " +
                std::to_string(options_.wire_version) +
                ". Install the same release of adaptib on all hosts of the job.";
    } else {
        text += std::string("its published address is missing or malformed (") +
                reason_text(status.reason()) +
                "). Check that all processes of the job select adaptib.";
    }
    options_.message(Severity::failure, text);
    return status;
}

void PeerDirectory::refuse_peer(const ProcessAddress& address, Why why,
                                const std::string& obstacle) {
    const std::string text = peer_text(address.name, address.host) +
                             " cannot be reached from host " + options_.host + obstacle;
    if (why != Why::offer) {
        options_.message(Severity::failure, text);
    } else if (!left_reported_) {
        left_reported_ = true;
        options_.message(Severity::notice,
                         text + " This process, and others like it, are left to the job's "
                                "other transports, if there are any.");
    }
}

std::unique_ptr<Peer> PeerDirectory::new_peer(const ProcessAddress& address,
                                              const PeerRoute& route) {
    AttachedFabric& attached = parts_.fabrics[route.fabric];
    auto peer = std::make_unique<Peer>(address, route, *attached.datagrams, attached.eager_limit,
                                       parts_.counters);
    peer->health.life.ended = parts_.ended.contains(address.name);
    peer->out.try_send_active_below = parts_.protocol.active().most() + 1;
    peer->in.ring_bytes = attached.ring_bytes;
    if (attached.most_eager > attached.eager_limit) {
        peer->flow.learnt_limit = std::make_unique<EagerLimit>(
            *attached.fabric->copy_costs(), attached.eager_limit, attached.most_eager);
        peer->flow.stream_choices = std::make_unique<StreamChoices>();
        peer->allow(Allowance::all);
        peer->out.try_send_active_below = EagerLimit::kTimedFrom;
    }
    peer->transfers.synchronous = attached.fabric->rails()[0]->info().synchronous_rma;
    peer->transfers.whole_memory = parts_.protocol.memory().whole(route.fabric);
    if (attached.target_assisted) {
        peer->transfers.assist_choices = std::make_unique<AssistChoices>();
    }
    if (attached.cooperative_copies) {
        peer->transfers.cooperative_copy_choices = std::make_unique<CooperativeCopyChoices>();
        peer->transfers.cooperative_copy_choices->only = attached.only_copies;
    }
    return peer;
}

Status PeerDirectory::make_peer(std::uint64_t name, Why why, Peer*& out) {
    ProcessAddress address;
    if (Status status = look_up(name, address); !status.ok()) {
        return status;
    }
    // A look-up may give up the lock meanwhile (base/bootstrap.h).
    if (out = peers_.find(name); out != nullptr) {
        return kOk;
    }
    PeerRoute route;
    if (!parts_.routes.choose(address, route)) {
        refuse_peer(address, why,
                    ": no rail of one process can talk to a rail of the other. " +
                        parts_.routes.why_none(address) + advice(Reason::unreachable));
        return Status::error(Reason::unreachable);
    }
    AttachedFabric& attached = parts_.fabrics[route.fabric];
    auto peer = new_peer(address, route);
    if (Status status = wake_peer(*peer, why, address); !status.ok()) {
        return status;
    }
    attached.use();
    out = &peers_.add(std::move(peer));
    parts_.paths.add(*out);
    parts_.counters.peers = peers_.size();
    return kOk;
}

// Returns ok also if the path to the peer has to be waited for, and always for a peer that has sent
// something (core/contacts.h).
Status PeerDirectory::wake_peer(Peer& peer, Why why, const ProcessAddress& address) {
    peer.contact.address = address;
    peer.contact.datagram.key = address.key;
    peer.contact.datagram.name = address.name;
    std::size_t pair = 0;
    const Status status = parts_.datagram_paths.open(peer, pair);
    if (status.ok()) {
        return status;
    }
    if (why == Why::datagram || may_be_reached(status)) {
        parts_.contacts.add(peer, status);
        return kOk;
    }
    refuse_peer(address, why, " over " + parts_.contacts.why_unreached(peer, status));
    return status;
}

void PeerDirectory::clear() {
    peers_.clear();
    amo_peers_.clear();
    parts_.counters.peers = 0;
}

} // namespace adaptib
