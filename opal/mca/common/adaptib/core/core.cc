// SPDX-License-Identifier: BSD-3-Clause
// The core's life after creation (core/open.cc): timers, unfinished work, report and end.
//
// May touch: the same as core/core.h.
#include "core/core.h"

#include <algorithm>
#include <thread>

#include "fabric/rail_text.h"

namespace adaptib {

// Queue pairs are destroyed before the memory that they use.
Core::~Core() {
    if (protocol_ != nullptr) {
        peers_->for_each([this](Peer& peer) {
            connections_->close(peer, ConnectState::failed);
            protocol_->forget(peer);
            paths_->remove(peer);
            watch_->life().forget(peer);
        });
    }
    if (peers_) {
        peers_->for_each_loopback([this](Peer& loopback) {
            connections_->close(loopback, ConnectState::failed);
            protocol_->forget(loopback);
        });
    }
    protocol_.reset();
    if (peers_) {
        peers_->clear();
    }
}

std::size_t Core::migrate_paths(Peer& peer) {
    return migration_ == nullptr ? 0 : migration_->migrate(peer);
}

void Core::quiesce_messages(Nanoseconds limit) {
    constexpr std::size_t kSettled = 128; // idle passes, enough to poll the shared queue, too
    const Nanoseconds start = environment_.clock->now();
    const auto left = [this] {
        std::vector<Peer*> found;
        peers_->for_each([&](Peer& peer) {
            if (protocol_->has_messages_of(peer)) {
                found.push_back(&peer);
            }
        });
        return found;
    };
    if (!protocol_->has_posted_receives() && left().empty()) {
        return;
    }
    for (std::size_t idle = 0; idle < kSettled && environment_.clock->now() - start < limit;) {
        idle = progress() == 0 ? idle + 1 : 0;
    }
    const auto wait = [&](Nanoseconds until) {
        while (!left().empty() && environment_.clock->now() - start < until) {
            if (progress() == 0) {
                std::this_thread::yield();
            }
        }
    };
    protocol_->drop_receives();
    wait(limit);
    for (Peer* peer : left()) {
        if (peer->transfers.one_sided == 0) {
            protocol_->on_peer_failed(*peer,
                                      "this process ends while messages are still under way");
        }
    }
    wait(2 * limit);
}

void Core::drain(Nanoseconds limit) {
    constexpr Nanoseconds kLastWords = std::chrono::milliseconds{20};
    const Nanoseconds start = environment_.clock->now();
    for (bool goes_on = true; goes_on;) {
        const bool idle = progress() == 0;
        const Left left = this->left();
        const Nanoseconds lasted = environment_.clock->now() - start;
        goes_on = left != Left::nothing && lasted < (left == Left::owed ? limit : kLastWords);
        if (goes_on && idle) {
            std::this_thread::yield(); // to a process that has to take the data
        }
    }
    events_->report_notices();
}

// Three kinds of peers may be gone, and then answer nothing: one that has begun to disconnect, one
// that has received our answer to its disconnect, and one that was asked for a connection that
// nobody needs any more. What is unfinished with them counts as last words. This process still
// acknowledges what it has received, so that others do not wait for that.
Core::Left Core::left() {
    bool owed = protocol_->retry_due() || connections_->retry_due();
    bool last_words = departures_->any();
    peers_->for_each([&](Peer& peer) {
        const DatagramLink* link = peer.contact.datagram.link.get();
        const bool ring_flushed = peer.session.state != ConnectState::open ||
                                  peer.out.ring == nullptr || peer.out.ring->poster().flushed();
        const bool owes =
            !ring_flushed || peer.contact.channel.retransmitter().owes(peer.contact.datagram);
        owed = owed || (owes && !peer.ending.disconnect_received);
        last_words = last_words || owes || (link != nullptr && link->busy());
    });
    return owed ? Left::owed : last_words ? Left::last_words : Left::nothing;
}

Nanoseconds Core::deadline() const {
    if (startup_->is_due() || watch_->ended().any_reported() ||
        (migration_ != nullptr && migration_->due())) {
        return Nanoseconds{0};
    }
    Nanoseconds answers = std::min(paths_->deadline(), watch_->life().deadline());
    if (!paths_->all_up()) {
        answers = std::min(answers, probes_->deadline());
    }
    for (const AttachedFabric& attached : fabrics_) {
        answers = std::min(answers, attached.datagrams->retransmitter().deadline());
    }
    const Nanoseconds next = std::min({connections_->deadline(), attended_.look_at(answers),
                                       forgive_unconnected_at_, contacts_->deadline()});
    return std::min(
        next, silence_->deadline(unsignaled_posts(), protocol_->transfers().work_outstanding()));
}

void Core::run_timers() {
    static_cast<void>(attended_.now()); // this process is polling, whether anything waits or not
    for (AttachedFabric& attached : fabrics_) {
        if (attached.answerer != nullptr) {
            attached.answerer->beat();
        }
        attached.datagrams->retransmitter().run_timers();
    }
    const Nanoseconds now = environment_.clock->now();
    events_->run_timers(now);
    if (!contacts_->empty()) [[unlikely]] {
        contacts_->retry(now);
    }
    if (watch_->ended().any_reported()) [[unlikely]] {
        departures_->end(watch_->take_ended(*peers_));
    }
    if (broken_.any()) [[unlikely]] {
        broken_.report([this](std::uint64_t name) { return peers_->find(name); });
    }
    if (watch_->is_due(now)) {
        departures_->end(watch_->find_ended(*peers_, *protocol_));
    }
    if (now >= shrink_rings_at_) {
        shrink_idle_rings(now);
    }
    if (selection_->is_due(now)) {
        selection_->select_channels(now);
    }
    if (sources_ && now >= sources_->due()) [[unlikely]] {
        sources_->note(now);
    }
    if (now >= forgive_unconnected_at_) [[unlikely]] {
        forgive_unconnected_at_ = Nanoseconds::max();
        peers_->for_each([this](Peer& peer) {
            if (std::exchange(peer.health.unconnected_paths, 0) != 0) {
                connections_->repairs().improve(peer);
            }
        });
    }
    if (silence_->due(unsignaled_posts(), protocol_->transfers().work_outstanding())) {
        watch_silence();
    }
    watch_->life().run_timers();
    probes_->run_timers();
    paths_->run_timers();
    connections_->limit().serve();
    connections_->handle_events();
    connections_->measurement().begin_some();
    if (migration_ != nullptr && migration_->due()) [[unlikely]] {
        migration_->run();
    }
    if (startup_->goes_on()) [[unlikely]] {
        startup_->connect_some();
        connections_->handle_events();
    }
}

void Core::watch_silence() {
    silence_->begin_look(unsignaled_posts());
    connections_->limit().for_each([this](Peer& peer) {
        if (datagram_paths_->reports_paths(peer)) {
            silence_->look_at(peer);
        }
    });
    silence_->end_look();
}

std::string Core::source_map() {
    if (!sources_) {
        return "";
    }
    sources_->note(environment_.clock->now());
    return sources_->text(environment_.self);
}

std::string Core::report() const {
    std::string text =
        traffic_report(counters_, "process " + std::to_string(environment_.self & 0xffffffffu) +
                                      " on " + environment_.host);
    for (const Rail* rail : rails_) {
        text += "  rail " + rail_text(rail->info()) + "\n";
    }
    return text + paths_->report() + weights_report();
}

// The learned weights of the paths to peers that have several.
std::string Core::weights_report() const {
    constexpr std::size_t kMostPeers = 16;
    std::string text;
    std::size_t peers = 0;
    peers_->for_each([&](const Peer& peer) {
        constexpr std::array<const char*, 3> kOf{" of reads", " of writes", " of both"}; // by Mix
        const Scheduler* const scheduler = peer.lanes.scheduler.get();
        if (peer.contact.route.count < 2 || scheduler == nullptr) {
            return;
        }
        std::array<double, 3> all{}; // by Mix
        double measured = 0;
        for (std::uint32_t i = 0; i < peer.contact.route.count; ++i) {
            for (const Mix mix : kMixes) {
                all[static_cast<std::size_t>(mix)] += scheduler->weight(mix, i);
            }
            measured += scheduler->measured(peer.contact.route.pairs[i].local);
        }
        if (all[0] + all[1] + all[2] + measured == 0 || ++peers > kMostPeers) {
            return;
        }
        const bool connected = peer.session.state == ConnectState::open;
        for (std::uint32_t i = 0; i < peer.contact.route.count; ++i) {
            text += "  path " + paths_->path_text(peer, i) + " of process " +
                    std::to_string(peer.contact.name & 0xffffffffu) + ":";
            const char* separator = " weight ";
            for (const Mix mix : kMixes) {
                const auto at = static_cast<std::size_t>(mix);
                if (all[at] == 0) {
                    continue;
                }
                char weight[32];
                std::snprintf(weight, sizeof weight, "%.3f", scheduler->weight(mix, i));
                text += separator + std::string(weight) + kOf[at];
                separator = ", ";
            }
            if (const double rate = scheduler->measured(peer.contact.route.pairs[i].local);
                rate > 0) {
                char megabytes[32];
                std::snprintf(megabytes, sizeof megabytes, "%.1f MB/s", 1e-6 * rate);
                text +=
                    (separator[0] == ',' ? ", measured " : " measured ") + std::string(megabytes);
            }
            text += connected && i == peer.control.lane ? "; carries the ring\n" : "\n";
        }
    });
    if (peers > kMostPeers) {
        text += "  weights of paths to further peers: " + std::to_string(peers - kMostPeers) + "\n";
    }
    return text;
}

} // namespace adaptib
