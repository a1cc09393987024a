// SPDX-License-Identifier: BSD-3-Clause
// First contact with a peer, and the end of it.
#include "core/core.h"

namespace adaptib {

namespace {

const char* advice(Reason reason) {
    switch (reason) {
    case Reason::no_memory:
        return "Raise the limits of address space (ulimit -v) and of open files (ulimit -n), or lower "
               "opal_common_adaptib_shm_segment_max.";
    case Reason::no_permission:
        return "All processes of the job must belong to one user and be dumpable (no setuid program, "
               "no program file without read permission).";
    default:
        return "Processes of other hosts or containers need another transport, for example "
               "--mca pml ob1 --mca btl tcp,self.";
    }
}

} // namespace

std::string Core::peer_text(std::uint64_t name, const std::string& host) const {
    return "Process " + std::to_string(name & 0xffffffffu) + " of job " +
           std::to_string(name >> 32) + (host.empty() ? "" : " on host " + host);
}

// A peer that failed keeps its record, and what is started to it fails at once.
Status Core::get_peer(std::uint64_t name, Peer*& out) {
    if (name == environment_.self) {
        out = nullptr;
        return kOk;
    }
    Peer* peer = peers_.find(name);
    if (peer == nullptr) {
        return make_peer(name, Why::user, out);
    }
    protocol_->keep_peer(*peer);
    if (peer->datagram.handle == nullptr) {
        ProcessAddress address;
        Status status = look_up(name, address);
        if (status.ok()) {
            status = wake_peer(*peer, Why::user, address);
        }
        if (!status.ok()) {
            return status;
        }
    }
    out = peer;
    return kOk;
}

Status Core::get_loopback(Peer*& out) {
    if (loopback_ != nullptr && loopback_->state == ConnectState::failed &&
        loopback_->one_sided == 0) {
        loopback_.reset(); // an operation outside of a registered range broke it
    }
    if (loopback_ == nullptr) {
        ProcessAddress self;
        Status status = decode(address_.data(), address_.size(), self, environment_.wire_version);
        auto peer = std::make_unique<Peer>(self, DatagramTarget{}, *datagrams_, counters_);
        if (status.ok()) {
            status = connections_->open_loopback(*peer);
        }
        if (!status.ok()) {
            return status;
        }
        loopback_ = std::move(peer);
    }
    out = loopback_.get();
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

Status Core::make_peer(std::uint64_t name, Why why, Peer*& out) {
    ProcessAddress address;
    if (Status status = look_up(name, address); !status.ok()) {
        return status;
    }
    auto peer = std::make_unique<Peer>(address, DatagramTarget{}, *datagrams_, counters_);
    if (Status status = wake_peer(*peer, why, address); !status.ok()) {
        return status;
    }
    out = &peers_.add(std::move(peer));
    counters_.peers = peers_.size();
    return kOk;
}

// A process that has ended after its last message to us is nobody's trouble; one that a user wants is.
Status Core::wake_peer(Peer& peer, Why why, const ProcessAddress& address) {
    PathSpec path;
    path.remote.size = address.rails[0].size;
    path.remote.bytes = address.rails[0].bytes;
    Rail& rail = datagrams_->rail();
    const Status status = rail.create_ah(path, peer.datagram.handle);
    if (!status.ok()) {
        if (why == Why::datagram && status.reason() == Reason::peer_gone) {
            return status;
        }
        environment_.message(Severity::failure,
                             peer_text(address.name, address.host) +
                                 " cannot be reached from host " + environment_.host +
                                 " over rail " + rail.info().name + ": " +
                                 reason_text(status.reason()) + ". " + advice(status.reason()));
        return status;
    }
    peer.datagram.qp = address.rails[0].datagram_qp;
    peer.datagram.key = address.key;
    peer.datagram.name = address.name;
    peer.address = address;
    return kOk;
}

// A finished peer keeps its record, so that its sequence numbers go on should it come back; its
// connection, rings and mappings go.
void Core::finish_peers() {
    std::vector<Peer*> finished;
    std::swap(finished, finished_);
    for (Peer* peer : finished) {
        if (peer->state == ConnectState::failed) {
            continue;
        }
        if (peer->ring_out != nullptr && !peer->ring_out->settled()) {
            finished_.push_back(peer); // our answer to its goodbye is under way
            continue;
        }
        connections_->close(*peer, ConnectState::idle);
        const std::unique_ptr<ConnectBody> early = std::move(peer->early_request);
        const DatagramLink* link = peer->datagram.link.get();
        if (peer->released && early == nullptr && peer->early == nullptr &&
            (link == nullptr || link->deadline() == Nanoseconds::max())) {
            peer->datagram.handle.reset();
        }
        protocol_->on_parted(*peer);
        if (early != nullptr) {
            connections_->on_handshake(*peer, MessageType::connect_request, *early);
        }
    }
}

} // namespace adaptib
