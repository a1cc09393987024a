// SPDX-License-Identifier: BSD-3-Clause
#include "core/core.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/process_name.h"
#include "core/core_opener.h"
#include "core/peer_traffic_rows.h"
#include "core/setup_text.h"
#include "fabric/rail_text.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kLastWords = std::chrono::milliseconds{20};

// The learned weights of the paths to peers that have several.
std::string weights_report(const PeerDirectory& directory, const PathRepository& paths) {
    constexpr std::size_t kMostPeers = 16;
    std::string text;
    std::size_t peers = 0;
    directory.for_each([&](const Peer& peer) {
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
        const bool connected = peer.session.is_open();
        for (std::uint32_t i = 0; i < peer.contact.route.count; ++i) {
            text += "  path " + paths.path_text(peer, i) + " of process " +
                    rank_text(peer.contact.name) + ":";
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

} // namespace

Status Core::create(const Parameters& parameters, const Environment& environment,
                    std::vector<std::unique_ptr<Fabric>> fabrics, std::unique_ptr<Core>& out,
                    std::string& text) {
    std::unique_ptr<Core> core(new Core(environment));
    CoreOpener opener(parameters, core->parts_);
    if (Status status = opener.open(std::move(fabrics), text); !status.ok()) {
        return status;
    }
    out = std::move(core);
    return kOk;
}

Status Core::create(const Parameters& parameters, const Environment& environment,
                    std::unique_ptr<Fabric> fabric, std::unique_ptr<Core>& out, std::string& text) {
    std::vector<std::unique_ptr<Fabric>> fabrics;
    fabrics.push_back(std::move(fabric));
    return create(parameters, environment, std::move(fabrics), out, text);
}

// Queue pairs are destroyed before the memory that they use, and before the address handles of
// sends under way.
Core::~Core() {
    if (parts_.protocol != nullptr) {
        parts_.peers->for_each([this](Peer& peer) {
            parts_.connections->close(peer, ConnectState::failed);
            parts_.protocol->forget(peer);
            peer.contact.channel.retransmitter().release(peer.contact.datagram);
            parts_.paths->remove(peer);
            parts_.watch->life().forget(peer);
        });
    }
    if (parts_.peers) {
        parts_.peers->for_each_loopback([this](Peer& loopback) {
            parts_.connections->close(loopback, ConnectState::failed);
            parts_.protocol->forget(loopback);
            loopback.contact.channel.retransmitter().release(loopback.contact.datagram);
        });
    }
    for (AttachedFabric& attached : parts_.fabrics.all()) {
        if (attached.datagrams != nullptr) {
            attached.datagrams->drop_loans();
        }
    }
    parts_.protocol.reset();
    if (parts_.peers) {
        parts_.peers->clear();
    }
}

void Core::expect(std::uint32_t processes) { parts_.fabrics.expect(processes); }

std::size_t Core::migrate_paths(Peer& peer) {
    return parts_.migration == nullptr ? 0 : parts_.migration->migrate(peer);
}

void Core::take_arrived(Nanoseconds limit) {
    constexpr std::size_t kSettled = 128; // idle passes, enough to poll the shared queue, too
    const Nanoseconds start = parts_.environment.clock->now();
    for (std::size_t idle = 0;
         idle < kSettled && parts_.environment.clock->now() - start < limit;) {
        idle = progress() == 0 ? idle + 1 : 0;
    }
}

void Core::quiesce_messages(Nanoseconds limit) {
    const Nanoseconds start = parts_.environment.clock->now();
    parts_.lost.expect_all(true);
    const auto left = [this] {
        std::vector<Peer*> found;
        parts_.peers->for_each([&](Peer& peer) {
            if (parts_.protocol->sends().has_messages_of(peer)) {
                found.push_back(&peer);
            }
        });
        return found;
    };
    if (parts_.protocol->receives().posted() > 0 || !left().empty()) {
        take_arrived(limit);
    }
    const auto wait = [&](Nanoseconds until) {
        while (!left().empty() && parts_.environment.clock->now() - start < until) {
            if (progress() == 0) {
                parts_.environment.clock->yield();
            }
        }
    };
    parts_.protocol->receives().drop_receives();
    wait(limit);
    for (Peer* peer : left()) {
        if (peer->transfers.one_sided == 0) {
            parts_.lost.lose(*peer, "this process ends while messages are still under way");
        }
    }
    parts_.protocol->end_lost_peers();
    wait(2 * limit);
    parts_.lost.expect_all(false);
}

void Core::drain(Nanoseconds limit) {
    const Nanoseconds start = parts_.environment.clock->now();
    for (bool goes_on = true; goes_on;) {
        const bool idle = progress() == 0;
        const Unsent left = unsent();
        const Nanoseconds lasted = parts_.environment.clock->now() - start;
        goes_on = left != Unsent::none && lasted < (left == Unsent::data ? limit : kLastWords);
        if (goes_on && idle) {
            parts_.environment.clock->yield(); // to a process that has to take the data
        }
    }
    parts_.progress->events().report_notices();
}

void Core::leave(Nanoseconds limit) {
    drain(limit);
    bool told = false;
    parts_.peers->for_each([&](Peer& peer) {
        told = (parts_.datagram_paths->reports_paths(peer) &&
                parts_.protocol->disconnects().leave(peer)) ||
               told;
    });
    if (told) {
        drain(kLastWords);
    }
}

// Three kinds of peers may be gone, and then answer nothing: one that has begun to disconnect, one
// that has received our answer to its disconnect, and one that was asked for a connection that
// nobody needs any more. What is unfinished with them counts as last words. This process still
// acknowledges what it has received, so that others do not wait for that.
Core::Unsent Core::unsent() {
    bool owed = parts_.protocol->retry_due() || parts_.connections->retry_due();
    bool last_words = parts_.peer_events.any();
    parts_.peers->for_each([&](Peer& peer) {
        const DatagramLink* link = peer.contact.datagram.link.get();
        const auto& ring = peer.out.ring != nullptr ? peer.out.ring : peer.connection.ring_closing;
        const bool ring_flushed =
            !peer.session.connected() || ring == nullptr || ring->poster().flushed();
        const bool owes =
            !ring_flushed || peer.contact.channel.retransmitter().owes(peer.contact.datagram);
        owed = owed || (owes && !peer.ending.disconnect_received);
        // A disconnect that both sides have begun ends with the peer's answer, which holds up what
        // the peer sends to others if nobody is here to take it.
        last_words =
            last_words || owes || (link != nullptr && link->busy()) ||
            (peer.disconnecting() && peer.ending.failure.empty() && !peer.health.life.left);
    });
    return owed ? Unsent::data : last_words ? Unsent::last_words : Unsent::none;
}

std::string Core::source_map() {
    MessageSources* const sources = parts_.progress->timers().sources();
    if (sources == nullptr) {
        return "";
    }
    sources->note(parts_.environment.clock->now());
    return sources->text(parts_.environment.self);
}

std::string Core::setup_text(const Parameters& parameters) const {
    return adaptib::setup_text(parts_.fabrics, parameters);
}

std::string Core::report() const {
    std::string text = traffic_report(*parts_.environment.counters,
                                      "process " + rank_text(parts_.environment.self) + " on " +
                                          parts_.environment.host);
    for (const Rail* rail : rails()) {
        text += "  rail " + rail_text(rail->info()) + "\n";
    }
    text += parts_.protocol->memory().frequent_report();
    return text + parts_.paths->report() + weights_report(*parts_.peers, *parts_.paths);
}

std::vector<PeerTraffic> Core::peer_traffic() const {
    return peer_traffic_rows(*parts_.peers, parts_.fabrics);
}

} // namespace adaptib
