// SPDX-License-Identifier: BSD-3-Clause
// The core's life after creation (core/open.cc): unfinished work, report and end.
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
    progress_->events().report_notices();
}

// Three kinds of peers may be gone, and then answer nothing: one that has begun to disconnect, one
// that has received our answer to its disconnect, and one that was asked for a connection that
// nobody needs any more. What is unfinished with them counts as last words. This process still
// acknowledges what it has received, so that others do not wait for that.
Core::Left Core::left() {
    bool owed = protocol_->retry_due() || connections_->retry_due();
    bool last_words = progress_->departures().any();
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

std::string Core::source_map() {
    MessageSources* const sources = progress_->timers().sources();
    if (sources == nullptr) {
        return "";
    }
    sources->note(environment_.clock->now());
    return sources->text(environment_.self);
}

std::string Core::report() const {
    std::string text = traffic_report(*environment_.counters,
                                      "process " + std::to_string(environment_.self & 0xffffffffu) +
                                          " on " + environment_.host);
    for (const Rail* rail : rails()) {
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
