// SPDX-License-Identifier: BSD-3-Clause
#include "connect/cm_connects.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace adaptib {

namespace {

constexpr Nanoseconds kGrace{2'000'000'000};
constexpr Nanoseconds kRepairGrace{10'000'000'000};
constexpr Nanoseconds kReportAfter{10'000'000'000};
constexpr Nanoseconds kFirstPause{10'000'000};
constexpr Nanoseconds kLongestPause{1'000'000'000};
constexpr std::uint32_t kMostDoublings = 7;

// Token that only the two processes know; unique to this attempt of theirs.
struct Token {
    std::uint64_t asker_key;
    std::uint64_t answerer_key;
    std::uint64_t asker;
    std::uint32_t asker_attempt;
    std::uint32_t answerer_attempt;
};
static_assert(sizeof(Token) == sizeof(CmConnectParams::token));

constexpr const char* kNoAnswer = "there is no answer";

bool waits(const Subchannel& subchannel) {
    return subchannel.qp != nullptr && (subchannel.cm_connect.step == CmConnectStep::under_way ||
                                        subchannel.cm_connect.step == CmConnectStep::again);
}

// Returns why a pending connect last failed.
std::string last_error_of(const Peer& peer) {
    for (const Subchannel& subchannel : peer.lanes.subchannels) {
        if (waits(subchannel) && !subchannel.cm_connect.why.empty()) {
            return subchannel.cm_connect.why;
        }
    }
    return kNoAnswer;
}

} // namespace

void CmConnects::prepare(Peer& peer, const ConnectBody& body, bool initiates) {
    leave(peer);
    peer.connection.cm_connect = {};
    peer.connection.cm_connect.initiates = initiates;
    peer.connection.cm_connect.began = context_.options.attended->now();
    Token token{context_.options.key, peer.contact.address.key, context_.options.self,
                peer.connection.number, body.connection};
    if (!initiates) {
        token = {peer.contact.address.key, context_.options.key, peer.contact.name, body.connection,
                 peer.connection.number};
    }
    std::memcpy(peer.connection.cm_connect.token.data(), &token, sizeof token);
}

bool CmConnects::begin(Peer& peer) {
    if (std::none_of(peer.lanes.subchannels.begin(), peer.lanes.subchannels.end(), waits)) {
        return false;
    }
    connecting_.push_back(peer);
    return true;
}

void CmConnects::leave(Peer& peer) {
    if (peer.connection.cm_connect_link.linked()) {
        connecting_.remove(peer);
    }
}

Peer* CmConnects::find(std::uint32_t rail, std::uint32_t qp_number, Subchannel*& subchannel) {
    for (Peer* peer = connecting_.front(); peer != nullptr; peer = connecting_.next(*peer)) {
        for (Subchannel& each : peer->lanes.subchannels) {
            if (each.has(rail, qp_number) && waits(each)) {
                subchannel = &each;
                return peer;
            }
        }
    }
    return nullptr;
}

void CmConnects::on_connected(std::uint32_t rail, std::uint32_t qp_number) {
    Subchannel* subchannel = nullptr;
    if (Peer* peer = find(rail, qp_number, subchannel); peer != nullptr) {
        subchannel->cm_connect.step = CmConnectStep::connected;
        peer->connection.cm_connect.first_cm_connected = std::min(
            peer->connection.cm_connect.first_cm_connected, context_.options.attended->now());
    }
}

void CmConnects::on_failed(std::uint32_t rail, std::uint32_t qp_number, const std::string& why) {
    Subchannel* subchannel = nullptr;
    if (find(rail, qp_number, subchannel) == nullptr) {
        return;
    }
    ++context_.counters.cm_connects_repeated;
    SubchannelCmConnect& cm_connect = subchannel->cm_connect;
    const Nanoseconds pause =
        std::min(kFirstPause * (std::int64_t{1} << std::min(cm_connect.failures, kMostDoublings)),
                 kLongestPause);
    const auto more = static_cast<std::int64_t>(
        context_.options.random->below(static_cast<std::uint64_t>(pause.count())));
    ++cm_connect.failures;
    cm_connect.step = CmConnectStep::again;
    cm_connect.again_at = context_.options.attended->now() + pause + Nanoseconds{more};
    cm_connect.why = why;
}

void CmConnects::advance(const Done& done) {
    for (std::size_t left = connecting_.size(); left > 0 && !connecting_.empty(); --left) {
        Peer& peer = *connecting_.pop_front();
        connecting_.push_back(peer);
        advance_one(peer, done);
    }
}

void CmConnects::advance_one(Peer& peer, const Done& done) {
    const Nanoseconds now = context_.options.attended->now();
    if (!peer.connection.cm_connect.initiates) {
        if (is_late(peer, now)) {
            done(peer, Outcome::failed,
                 "for " + whole_seconds_text(now - peer.connection.cm_connect.began) +
                     " the other side has not confirmed the connection");
        }
        return;
    }
    for (Subchannel& subchannel : peer.lanes.subchannels) {
        SubchannelCmConnect& cm_connect = subchannel.cm_connect;
        if (waits(subchannel) && now >= cm_connect.again_at) {
            if (cm_connect.step == CmConnectStep::under_way) {
                ++context_.counters.cm_connects_repeated;
                ++cm_connect.failures;
                cm_connect.why = kNoAnswer;
            }
            try_again(peer, subchannel);
        }
    }
    const bool late = is_late(peer, now);
    if (late || std::none_of(peer.lanes.subchannels.begin(), peer.lanes.subchannels.end(), waits)) {
        end(peer, done);
    } else if (!late_reported_ && now >= peer.connection.cm_connect.began + kReportAfter &&
               peer.connection.cm_connect.first_cm_connected == Nanoseconds::max()) {
        late_reported_ = true;
        const Nanoseconds patience = context_.options.liveness->patience();
        const bool limited = patience < Nanoseconds::max();
        context_.options.message(
            Severity::notice,
            "A connection to host " + peer.contact.address.host + " has not come up for " +
                whole_seconds_text(kReportAfter) + ": " + last_error_of(peer) + ". Attempts go on" +
                (limited ? ", for " + whole_seconds_text(patience) + " in all" : "") +
                " (opal_common_adaptib_partition_timeout; other connections may have the same "
                "problem).");
    }
}

void CmConnects::try_again(Peer& peer, Subchannel& subchannel) {
    const Status status =
        queue_pairs_.connect(peer, subchannel,
                             {static_cast<std::uint8_t>(subchannel.remote_rail),
                              static_cast<std::uint8_t>(subchannel.local_rail),
                              static_cast<std::uint8_t>(subchannel.path),
                              static_cast<std::uint8_t>(subchannel.unordered ? 1 : 0),
                              subchannel.cm_connect.remote_qp, 0, subchannel.remote_memory_key});
    if (!status.ok()) {
        queue_pairs_.lose_path(peer, subchannel, status);
    }
}

// Returns true if no error but silence of the other side holds up the connect.
bool CmConnects::is_unanswered(const Peer& peer) {
    const auto refused = [](const Subchannel& subchannel) {
        const std::string& why = subchannel.cm_connect.why;
        return waits(subchannel) && !why.empty() && why != kNoAnswer;
    };
    return std::none_of(peer.lanes.subchannels.begin(), peer.lanes.subchannels.end(), refused);
}

Nanoseconds CmConnects::ends_at(const Peer& peer) const {
    const PeerCmConnect& cm_connect = peer.connection.cm_connect;
    if (cm_connect.first_cm_connected != Nanoseconds::max()) {
        return cm_connect.first_cm_connected + kGrace;
    }
    const Nanoseconds patience = context_.options.liveness->patience();
    if (peer.interruption.repair.active && cm_connect.initiates) {
        return cm_connect.began + std::min(kRepairGrace, patience);
    }
    if (patience == Nanoseconds::max()) {
        return patience;
    }
    const Nanoseconds end = is_unanswered(peer)
                                ? context_.options.liveness->ends_at(peer, cm_connect.began)
                                : cm_connect.began + patience;
    return cm_connect.initiates ? end : end + kGrace; // the initiator knows more
}

// Returns true if the time limit is over. A peer that may be alive is waited for.
bool CmConnects::is_late(Peer& peer, Nanoseconds now) {
    const PeerCmConnect& cm_connect = peer.connection.cm_connect;
    if (now < ends_at(peer)) {
        return false;
    }
    const bool limited = cm_connect.first_cm_connected != Nanoseconds::max() ||
                         (peer.interruption.repair.active && cm_connect.initiates);
    return limited || !is_unanswered(peer) ||
           !context_.options.witness->may_live(peer, cm_connect.began);
}

Nanoseconds CmConnects::next_step() const {
    Nanoseconds next = Nanoseconds::max();
    for (const Peer* peer = connecting_.front(); peer != nullptr; peer = connecting_.next(*peer)) {
        next = std::min(next, ends_at(*peer));
        for (const Subchannel& subchannel : peer->lanes.subchannels) {
            if (peer->connection.cm_connect.initiates && waits(subchannel)) {
                next = std::min(next, subchannel.cm_connect.again_at);
            }
        }
    }
    return context_.options.attended->look_at(next);
}

// Ends the connect phase: all queue pairs are connected, or the others are not waited for any
// longer.
void CmConnects::end(Peer& peer, const Done& done) {
    const std::string why = last_error_of(peer);
    leave(peer);
    for (Subchannel& subchannel : peer.lanes.subchannels) {
        if (waits(subchannel)) {
            queue_pairs_.lose_path(
                peer, subchannel,
                subchannel.cm_connect.why.empty() ? why : std::string(subchannel.cm_connect.why));
        }
    }
    if (peer.lanes.live_subchannels() > 0) {
        done(peer, Outcome::connected, {});
    } else if (peer.interruption.repair.active) {
        done(peer, Outcome::no_path, {});
    } else {
        const Nanoseconds lasted =
            context_.options.attended->now() - peer.connection.cm_connect.began;
        done(peer, Outcome::failed,
             "for " + whole_seconds_text(lasted) + " no connection could be made: " + why);
    }
}

} // namespace adaptib
