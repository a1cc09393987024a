// SPDX-License-Identifier: BSD-3-Clause
// The path repository (recovery/path_repository.h).
#include "recovery/path_repository.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/invariant.h"
#include "base/process_name.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kSecond{1'000'000'000};
constexpr Nanoseconds kSettled = 10 * kSecond; // a path that was up for so long starts over
constexpr Nanoseconds kFirstRest{50'000'000};
constexpr Nanoseconds kAnnounceFirst{50'000'000}; // thanks, or a question, may tell it sooner
constexpr Nanoseconds kMostRest = 60 * kSecond;
// A queue pair that carries nothing fails by timeouts, which take longer.
constexpr Nanoseconds kTrial{100'000'000};

std::string seconds_text(Nanoseconds time) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f s", std::chrono::duration<double>(time).count());
    return text;
}

std::string count_text(std::size_t count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

const char* state_text(PathState state) {
    switch (state) {
    case PathState::up: return "up";
    case PathState::suspect: return "suspect";
    case PathState::failed: return "failed";
    }
    return "unknown";
}

// Messages of the peer come over the control lane. Where nothing is sent but their credit, nothing
// else tells that its queue pair works.
bool receives_over(const Peer& peer, std::size_t pair) {
    return peer.control.lane == pair && peer.in.ring && peer.in.ring->consumed() > 0;
}

[[maybe_unused]] std::size_t count_not_up(const PeerPaths& paths) {
    return static_cast<std::size_t>(
        std::count_if(paths.records.begin(), paths.records.end(),
                      [](const PathRecord& record) { return record.state != PathState::up; }));
}

} // namespace

void PathRepository::add(Peer& peer) {
    ADAPTIB_INVARIANT(peer.health.paths == nullptr && !peer.health.troubled_link.linked(),
                      "of a peer that is new nothing is known", peer.contact.name);
    peers_.push_back(peer);
    for (std::size_t pair = 0; on() && pair < peer.contact.route.total; ++pair) {
        const std::uint8_t rail = peer.contact.route.pairs[pair].local;
        if (rail_down_[rail]) {
            change(peer, pair, PathState::failed, "its rail is down", false);
        } else if (rail_silent_[rail]) {
            change(peer, pair, PathState::failed, "nobody has answered over its rail", false);
        } else if (rails_[rail]->openings() > 0) { // the probe tells the peer the new numbers
            change(peer, pair, PathState::suspect, "its device was opened again", false);
        }
    }
}

// Returns true if the peer was heard over the path, or its queue pair has completed something.
bool PathRepository::carries(const Peer& peer, std::size_t pair) {
    const PeerRoute::Pair& rails = peer.contact.route.pairs[pair];
    const DatagramTarget& datagrams = peer.contact.datagram;
    const bool heard = datagrams.heard.count() > 0 && datagrams.heard_rail == rails.remote &&
                       datagrams.heard_port == rails.local - peer.contact.route.local.first;
    return heard ||
           (pair < peer.lanes.subchannels.size() && peer.lanes.subchannels[pair].completions > 0);
}

// Called when a path over the rail has failed.
void PathRepository::look_at_rail(std::uint32_t rail) {
    if (rail_carried_[rail] || rail_silent_[rail] || rail_down_[rail]) {
        return;
    }
    std::size_t failed = 0;
    for (Peer* peer = peers_.front(); peer != nullptr; peer = peers_.next(*peer)) {
        bool fails = false;
        for (std::size_t pair = 0; pair < peer->contact.route.total; ++pair) {
            if (peer->contact.route.pairs[pair].local != rail) {
                continue;
            }
            if (carries(*peer, pair)) {
                rail_carried_[rail] = true;
                return;
            }
            fails = fails || (state(*peer, pair) == PathState::failed &&
                              peer->contact.route.local.count > 1);
        }
        failed += fails ? 1 : 0;
    }
    if (failed >= kSilentPeers) {
        rail_silent_[rail] = true;
        observer_.on_path_line("rail " + options_.host + "/" + rails_[rail]->info().name +
                               " leads nowhere: " + std::to_string(failed) +
                               " processes have not answered over it, and none has; further ones "
                               "are reached over other rails until one answers");
    }
}

void PathRepository::remove(Peer& peer) {
    if (peer.health.troubled_link.linked()) {
        troubled_.remove(peer);
    }
    if (peer.health.paths_link.linked()) {
        peers_.remove(peer);
    }
    peer.health.paths.reset();
}

void PathRepository::forget(Peer& peer) {
    if (peer.health.troubled_link.linked()) {
        troubled_.remove(peer);
    }
    peer.health.paths.reset();
}

std::size_t PathRepository::usable_count(const Peer& peer) const {
    std::size_t count = 0;
    for (std::size_t pair = 0; pair < peer.contact.route.total; ++pair) {
        count += usable(peer, pair) ? 1 : 0;
    }
    return count;
}

bool PathRepository::without_path(const Peer& peer, Nanoseconds& since) const {
    if (peer.health.paths == nullptr || !peer.health.paths->without) {
        return false;
    }
    since = peer.health.paths->without_since;
    return true;
}

std::string PathRepository::path_text(const Peer& peer, std::size_t pair) const {
    const PeerRoute::Pair rails = peer.contact.route.pairs[pair];
    return options_.host + "/" + rails_[rails.local]->info().name + " -> " +
           peer.contact.address.host + "/" + peer.contact.address.rails[rails.remote].name +
           (rails.path == 0 ? "" : " by path " + std::to_string(rails.path));
}

std::string PathRepository::report() const {
    std::string text;
    const Nanoseconds now = options_.clock->now();
    for (const Peer* peer = peers_.front(); peer != nullptr; peer = peers_.next(*peer)) {
        if (peer->health.paths == nullptr) {
            continue;
        }
        for (std::size_t pair = 0; pair < peer->health.paths->records.size(); ++pair) {
            const PathRecord& record = peer->health.paths->records[pair];
            if (record.since.count() == 0) {
                continue;
            }
            text += "  path " + path_text(*peer, pair) + " of process " +
                    rank_text(peer->contact.name) + ": " + state_text(record.state) + " since " +
                    seconds_text(now - record.since) + ", failed " +
                    count_text(record.failures, "time") + ", came back " +
                    count_text(record.recoveries, "time");
            text += record.last_error.empty() ? "\n" : "; last: " + record.last_error + "\n";
        }
        const PeerPaths& paths = *peer->health.paths;
        const Nanoseconds without =
            paths.without_total + (paths.without ? now - paths.without_since : Nanoseconds{0});
        if (without.count() > 0) {
            text += "  process " + rank_text(peer->contact.name) +
                    ": no path that was known to work for " + seconds_text(without) + "\n";
        }
    }
    return text;
}

PathRecord& PathRepository::record_of(Peer& peer, std::size_t pair) {
    if (peer.health.paths == nullptr) {
        peer.health.paths = std::make_unique<PeerPaths>();
        peer.health.paths->records.resize(peer.contact.route.total);
        for (std::size_t i = peer.contact.route.count; i < peer.contact.route.total; ++i) {
            peer.health.paths->records[i].worked = false;
        }
    }
    ADAPTIB_INVARIANT(pair < peer.health.paths->records.size(), "a peer has a record for each path",
                      peer.contact.name, pair, peer.health.paths->records.size());
    return peer.health.paths->records[pair];
}

void PathRepository::say(const std::string& line) {
    const Nanoseconds now = options_.clock->now();
    if (lines_ == 0 || now >= lines_since_ + kSecond) {
        run_timers();
        lines_since_ = now;
        lines_ = 0;
    }
    ADAPTIB_INVARIANT(lines_ <= kLinesPerSecond && (left_out_ == 0 || lines_ == kLinesPerSecond),
                      "lines are left out once there were many", lines_, left_out_);
    if (lines_ < kLinesPerSecond) {
        ++lines_;
        observer_.on_path_line(line);
    } else {
        ++left_out_;
    }
}

Nanoseconds PathRepository::deadline() const {
    return left_out_ > 0 ? lines_since_ + kSecond : Nanoseconds::max();
}

void PathRepository::run_timers() {
    if (left_out_ > 0 && options_.clock->now() >= deadline()) {
        observer_.on_path_line(count_text(left_out_, "further path") + " of host " + options_.host +
                               " changed state as well; the report lists all of them");
        left_out_ = 0;
    }
}

void PathRepository::change(Peer& peer, std::size_t pair, PathState to, const std::string& why,
                            bool line) {
    PathRecord& record = record_of(peer, pair);
    const PathState was = record.state;
    if (was == to) {
        return;
    }
    const Nanoseconds now = options_.clock->now();
    const Nanoseconds since = record.since;
    const Nanoseconds took = now - since;
    ADAPTIB_INVARIANT(now >= since && record.recoveries <= record.failures,
                      "a path comes back no more often than it fails, and later", since,
                      record.recoveries, record.failures);
    PeerPaths& paths = *peer.health.paths;
    ADAPTIB_INVARIANT(was == PathState::up || paths.not_up > 0, "a path that is not up is counted",
                      peer.contact.name, pair, was);
    paths.not_up += was == PathState::up ? 1 : 0;
    paths.not_up -= to == PathState::up ? 1 : 0;
    const bool back = to == PathState::up && record.failures > record.recoveries;
    record.worked = record.worked || to == PathState::up;
    record.state = to;
    record.since = now;
    record.nonce = 0;
    record.asked = 0;
    record.ignored = 0;
    record.unjudged = false;
    record.interval = Nanoseconds{0};
    record.ask_at = now;
    if (to == PathState::failed) {
        // A path that answers, and yet fails again and again, is asked ever later.
        const bool settled =
            record.recoveries == record.failures && now - record.recovered >= kSettled;
        const bool again = record.rest.count() > 0 && !settled;
        record.rest = again ? std::min(record.rest * 2, kMostRest) : kFirstRest;
        record.ask_at = now + record.rest;
    } else if (was == PathState::failed && record.rest > kFirstRest &&
               paths.not_up < paths.records.size()) {
        // Its port flaps, and there are other paths.
        record.ask_at = std::max(now, since + record.rest);
    }
    if (to != PathState::up) {
        record.last_error = why;
    }
    if (to == PathState::failed) {
        ++record.failures;
        ++counters_.paths_failed;
    } else if (to == PathState::suspect) {
        ++counters_.paths_suspected;
    } else if (back) {
        record.recoveries = record.failures;
        record.recovered = now;
        ++counters_.paths_recovered;
    }
    note_without(peer);
    if (line && to == PathState::failed) {
        say("path " + path_text(peer, pair) + " down: " + why + "; " +
            count_text(usable_count(peer), "path") + " left");
    } else if (line && back) {
        say("path " + path_text(peer, pair) + " up again" +
            (was == PathState::failed ? " after " + seconds_text(took) : "") + "; " +
            count_text(usable_count(peer), "path"));
    }
    observer_.on_path_changed(peer, pair, was, to, why);
}

void PathRepository::note_without(Peer& peer) {
    PeerPaths& paths = *peer.health.paths;
    const Nanoseconds now = options_.clock->now();
    const bool without = paths.not_up == paths.records.size();
    ADAPTIB_INVARIANT(paths.not_up <= paths.records.size() && now >= paths.without_since,
                      "no more paths are down than there are", paths.not_up, paths.records.size());
    ADAPTIB_AUDIT(count_not_up(paths) == paths.not_up, "the paths that are not up are counted",
                  count_not_up(paths), paths.not_up);
    if (without && !paths.without) {
        paths.without_since = now;
    } else if (!without && paths.without) {
        const Nanoseconds took = now - paths.without_since;
        paths.without_total += took;
        counters_.no_path_nanoseconds += static_cast<std::uint64_t>(took.count());
    }
    paths.without = without;
    note_trouble(peer);
}

void PathRepository::note_trouble(Peer& peer) {
    const PeerPaths& paths = *peer.health.paths;
    const bool troubled =
        paths.not_up > 0 || std::any_of(paths.records.begin(), paths.records.end(),
                                        [](const PathRecord& each) { return each.unannounced(); });
    const bool linked = peer.health.troubled_link.linked();
    if (troubled && !linked) {
        troubled_.push_back(peer);
    } else if (!troubled && linked) {
        troubled_.remove(peer);
    }
}

void PathRepository::report_suspect(Peer& peer, std::size_t pair, const std::string& why) {
    if (watches(peer) && state(peer, pair) == PathState::up) {
        change(peer, pair, PathState::suspect, why, true);
    }
}

void PathRepository::report_failure(Peer& peer, std::size_t pair, const std::string& why,
                                    bool line) {
    if (watches(peer)) {
        change(peer, pair, PathState::failed, why, line);
        look_at_rail(peer.contact.route.pairs[pair].local);
    }
}

void PathRepository::report_queue_pair_failure(Peer& peer, std::size_t pair, const std::string& why,
                                               bool carried, bool line) {
    if (watches(peer)) {
        PathRecord& record = record_of(peer, pair);
        const Nanoseconds lasted = options_.clock->now() - peer.connection.activity.turn_began;
        carried = carried || receives_over(peer, pair);
        const bool vain = !carried && lasted >= kTrial;
        record.vain = carried ? 0 : record.vain + (vain ? 1 : 0);
        change(peer, pair, PathState::failed, why, line);
        look_at_rail(peer.contact.route.pairs[pair].local);
    }
}

void PathRepository::report_carried(Peer& peer, std::size_t pair) {
    if (watches(peer)) {
        record_of(peer, pair).vain = 0;
        report_success(peer, pair);
    }
}

// A path that was spare may not have been probed yet.
bool PathRepository::pair_anew(Peer& peer, std::span<const std::uint8_t> order) {
    const std::vector<std::uint8_t> numbers = adaptib::pair_anew(peer.contact.route, order);
    if (numbers.empty()) {
        return false;
    }
    ADAPTIB_INVARIANT(numbers.size() == peer.contact.route.total, "each pair gets one number",
                      numbers.size(), peer.contact.route.total);
    if (peer.health.paths != nullptr) {
        std::vector<PathRecord> records;
        for (const std::uint8_t number : numbers) {
            ADAPTIB_INVARIANT(number < peer.health.paths->records.size(),
                              "a pair that gets another number has a record", number,
                              peer.health.paths->records.size());
            records.push_back(std::move(peer.health.paths->records[number]));
            records.back().worked =
                records.back().worked || records.size() <= peer.contact.route.count;
        }
        peer.health.paths->records = std::move(records);
    }
    const auto taken = std::find(numbers.begin(), numbers.end(), peer.contact.datagram.pair);
    ADAPTIB_INVARIANT(taken != numbers.end(), "the path of the datagrams stays one of the pairs",
                      peer.contact.name, peer.contact.datagram.pair);
    peer.contact.datagram.pair = static_cast<std::uint8_t>(taken - numbers.begin());
    peer.health.life.questions.clear();
    return true;
}

void PathRepository::report_success(Peer& peer, std::size_t pair, bool line) {
    const std::uint8_t rail = peer.contact.route.pairs[pair].local;
    if (state(peer, pair) != PathState::up && !rail_down_[rail]) {
        rail_carried_[rail] = true;
        rail_silent_[rail] = false;
        change(peer, pair, PathState::up, "", line);
    }
}

void PathRepository::end_rests(Peer& peer) {
    if (peer.health.paths == nullptr) {
        return;
    }
    for (PathRecord& record : peer.health.paths->records) {
        if (record.state == PathState::failed && record.interval.count() == 0) { // not asked yet
            record.ask_at = std::min(record.ask_at, options_.clock->now());
        }
    }
}

void PathRepository::rail_failed(std::uint32_t rail, const std::string& why) {
    ADAPTIB_INVARIANT(rail < rail_down_.size(), "a port is of a rail", rail, rail_down_.size());
    if (!on() || rail_down_[rail]) {
        return;
    }
    rail_down_[rail] = true;
    std::size_t taken = 0;
    std::size_t of = 0;
    std::size_t left = 0;
    for (Peer* peer = peers_.front(); peer != nullptr; peer = peers_.next(*peer)) {
        const std::size_t before = taken;
        for (std::size_t pair = 0; pair < peer->contact.route.total; ++pair) {
            if (peer->contact.route.pairs[pair].local == rail &&
                state(*peer, pair) != PathState::failed) {
                ++taken;
                change(*peer, pair, PathState::failed, why, false);
            }
        }
        of += taken > before ? 1 : 0;
        left += usable_count(*peer);
    }
    observer_.on_path_line("rail " + options_.host + "/" + rails_[rail]->info().name +
                           " down: " + why + "; with it " + count_text(taken, "path") + " to " +
                           std::to_string(of) + (of == 1 ? " process" : " processes") + ", " +
                           count_text(left, "path") + " left");
}

void PathRepository::rail_restored(std::uint32_t rail) {
    ADAPTIB_INVARIANT(rail < rail_down_.size(), "a port is of a rail", rail, rail_down_.size());
    if (!on() || !rail_down_[rail]) {
        return;
    }
    rail_down_[rail] = false;
    observer_.on_path_line("rail " + options_.host + "/" + rails_[rail]->info().name +
                           " up again; its paths are tried");
    for (Peer* peer = peers_.front(); peer != nullptr; peer = peers_.next(*peer)) {
        for (std::size_t pair = 0; pair < peer->contact.route.total; ++pair) {
            if (peer->contact.route.pairs[pair].local == rail &&
                state(*peer, pair) == PathState::failed) {
                change(*peer, pair, PathState::suspect, "its rail is up again", false);
            }
        }
    }
}

// Spare pairs over the rail are not asked either; the peer learns its address with another one. An
// answer to an earlier question does not show that the peer knows it.
void PathRepository::rail_readdressed(std::uint32_t rail) {
    if (!on()) {
        return;
    }
    for (Peer* peer = peers_.front(); peer != nullptr; peer = peers_.next(*peer)) {
        for (std::size_t pair = 0; pair < peer->contact.route.total; ++pair) {
            PathRecord& record = record_of(*peer, pair);
            if (peer->contact.route.pairs[pair].local == rail && record.worked) {
                record.announce_every = kAnnounceFirst;
                record.announce_at = options_.clock->now() + record.announce_every;
                record.nonce = 0;
            }
        }
        note_trouble(*peer);
    }
}

void PathRepository::report_announced(Peer& peer, std::size_t pair) {
    if (peer.health.paths == nullptr) {
        return;
    }
    for (std::size_t other = 0; other < peer.contact.route.total; ++other) {
        if (peer.contact.route.pairs[other].local == peer.contact.route.pairs[pair].local) {
            peer.health.paths->records[other].announce_every = Nanoseconds{0};
        }
    }
    note_trouble(peer);
}

} // namespace adaptib
