// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs that connect through rdma_cm (fabric/fabric.h, Capability::meets; parameter
// connect_method).
//
// Request and reply tell each side which queue pairs the other one has. Then each queue pair of the
// requesting side connects to its counterpart through the network's own service; when the last one
// is connected, the requesting side confirms. So each connection has one initiator, decided by the
// handshake, and rdma_cm connects never cross.
//
// A failed connect is tried again, after a pause that doubles, with a random part. So is one
// without any event for a second (which doubles, too: the other side may be busy), since the
// message that it waits for may be lost, and the service is slow to repeat it. Limits:
//   * once the queue pairs of another path are connected: kGrace; then the connection does without
//     this path;
//   * in a repair: kRepairGrace; then both sides look for paths again;
//   * otherwise, if the network reports an error, partition_timeout; if there is just no answer, as
//     long as the peer may be alive (recovery/liveness.h): it answers when it calls MPI. Then the
//     peer is lost, at both ends.
// The confirmation tells the other side which paths there are.
#include <algorithm>
#include <cstring>
#include <string>

#include "connect/connection_manager.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kGrace{2'000'000'000};
constexpr Nanoseconds kRepairGrace{10'000'000'000};
constexpr Nanoseconds kTellAfter{10'000'000'000};
constexpr Nanoseconds kFirstPause{10'000'000};
constexpr Nanoseconds kFirstSilence{1'000'000'000};
constexpr Nanoseconds kLongestPause{1'000'000'000};
constexpr std::uint32_t kMostDoublings = 7;
constexpr std::uint32_t kMostSilenceDoublings = 4;

// Token that only the two processes know; unique to this attempt of theirs.
struct Token {
    std::uint64_t asker_key;
    std::uint64_t answerer_key;
    std::uint64_t asker;
    std::uint32_t asker_attempt;
    std::uint32_t answerer_attempt;
};
static_assert(sizeof(Token) == sizeof(Meeting::token));

constexpr const char* kNoAnswer = "there is no answer";

bool waits(const Subchannel& subchannel) {
    return subchannel.qp != nullptr && (subchannel.meeting.step == MeetingStep::under_way ||
                                        subchannel.meeting.step == MeetingStep::again);
}

// Returns why a pending connect last failed.
std::string trouble_of(const Peer& peer) {
    for (const Subchannel& subchannel : peer.subchannels) {
        if (waits(subchannel) && !subchannel.meeting.why.empty()) {
            return subchannel.meeting.why;
        }
    }
    return kNoAnswer;
}

} // namespace

bool ConnectionManager::has_to_meet(const Peer& peer, const Subchannel& subchannel) const {
    return peer.name != options_.self &&
           rails_[subchannel.local_rail]->info().has(Capability::meets);
}

// `body`: the request or reply of the other side.
void ConnectionManager::prepare_meeting(Peer& peer, const ConnectBody& body, bool asks) {
    leave_meeting(peer);
    peer.meeting = {};
    peer.meeting.asks = asks;
    peer.meeting.began = options_.attended->now();
    Token token{options_.key, peer.address.key, options_.self, peer.connection, body.connection};
    if (!asks) {
        token = {peer.address.key, options_.key, peer.name, body.connection, peer.connection};
    }
    std::memcpy(peer.meeting.token.data(), &token, sizeof token);
}

Status ConnectionManager::meet(Peer& peer, Subchannel& subchannel, const QpAttributes& attributes,
                               std::uint32_t mask) {
    subchannel.meeting.step = MeetingStep::under_way;
    subchannel.meeting.remote_qp = attributes.remote_qp;
    subchannel.meeting.again_at =
        options_.attended->now() +
        kFirstSilence * (1 << std::min(subchannel.meeting.failures, kMostSilenceDoublings));
    Meeting meeting;
    meeting.asks = peer.meeting.asks;
    meeting.token = peer.meeting.token;
    return subchannel.qp->meet(attributes, mask, meeting);
}

// Returns false if no queue pair has to connect through rdma_cm.
bool ConnectionManager::begin_meeting(Peer& peer) {
    if (std::none_of(peer.subchannels.begin(), peer.subchannels.end(), waits)) {
        return false;
    }
    meeting_.push_back(peer);
    return true;
}

void ConnectionManager::leave_meeting(Peer& peer) {
    if (peer.meeting_link.linked()) {
        meeting_.remove(peer);
    }
}

Peer* ConnectionManager::find_meeting(std::uint32_t rail, std::uint32_t qp_number,
                                      Subchannel*& subchannel) {
    for (Peer* peer = meeting_.front(); peer != nullptr; peer = meeting_.next(*peer)) {
        for (Subchannel& each : peer->subchannels) {
            if (each.has(rail, qp_number) && waits(each)) {
                subchannel = &each;
                return peer;
            }
        }
    }
    return nullptr;
}

void ConnectionManager::on_met(std::uint32_t rail, std::uint32_t qp_number) {
    Subchannel* subchannel = nullptr;
    if (Peer* peer = find_meeting(rail, qp_number, subchannel); peer != nullptr) {
        subchannel->meeting.step = MeetingStep::met;
        peer->meeting.first_met = std::min(peer->meeting.first_met, options_.attended->now());
    }
}

void ConnectionManager::on_not_met(std::uint32_t rail, std::uint32_t qp_number,
                                   const std::string& why) {
    Subchannel* subchannel = nullptr;
    if (find_meeting(rail, qp_number, subchannel) == nullptr) {
        return;
    }
    ++counters_.meetings_repeated;
    SubchannelMeeting& meeting = subchannel->meeting;
    const Nanoseconds pause =
        std::min(kFirstPause * (std::int64_t{1} << std::min(meeting.failures, kMostDoublings)),
                 kLongestPause);
    const auto more = static_cast<std::int64_t>(
        options_.random->below(static_cast<std::uint64_t>(pause.count())));
    ++meeting.failures;
    meeting.step = MeetingStep::again;
    meeting.again_at = options_.attended->now() + pause + Nanoseconds{more};
    meeting.why = why;
}

void ConnectionManager::move_meetings() {
    for (std::size_t left = meeting_.size(); left > 0 && !meeting_.empty(); --left) {
        Peer& peer = *meeting_.pop_front();
        meeting_.push_back(peer);
        move_meeting(peer);
    }
}

void ConnectionManager::move_meeting(Peer& peer) {
    const Nanoseconds now = options_.attended->now();
    if (!peer.meeting.asks) {
        if (is_late(peer, now)) {
            fail(peer, Status::error(Reason::unreachable),
                 "for " + whole_seconds_text(now - peer.meeting.began) +
                     " the other side has not confirmed the connection");
        }
        return;
    }
    for (Subchannel& subchannel : peer.subchannels) {
        SubchannelMeeting& meeting = subchannel.meeting;
        if (waits(subchannel) && now >= meeting.again_at) {
            if (meeting.step == MeetingStep::under_way) {
                ++counters_.meetings_repeated;
                ++meeting.failures;
                meeting.why = kNoAnswer;
            }
            try_again(peer, subchannel);
        }
    }
    const bool late = is_late(peer, now);
    if (late || std::none_of(peer.subchannels.begin(), peer.subchannels.end(), waits)) {
        end_meeting(peer);
    } else if (!told_meeting_late_ && now >= peer.meeting.began + kTellAfter &&
               peer.meeting.first_met == Nanoseconds::max()) {
        told_meeting_late_ = true;
        const Nanoseconds patience = options_.liveness->patience();
        const bool limited = patience < Nanoseconds::max();
        listener_.on_notice(
            "A connection to host " + peer.address.host + " has not come up for " +
            whole_seconds_text(kTellAfter) + ": " + trouble_of(peer) + ". Attempts go on" +
            (limited ? ", for " + whole_seconds_text(patience) + " in all" : "") +
            " (opal_common_adaptib_partition_timeout; other connections may have the same "
            "problem).");
    }
}

void ConnectionManager::try_again(Peer& peer, Subchannel& subchannel) {
    const Status status =
        connect_one(peer, subchannel,
                    {static_cast<std::uint16_t>(subchannel.remote_rail),
                     static_cast<std::uint16_t>(subchannel.path), subchannel.meeting.remote_qp, 0,
                     subchannel.remote_memory_key});
    if (!status.ok()) {
        lose_path(peer, subchannel, status);
    }
}

// Returns true if no error but silence of the other side holds up the connect.
bool ConnectionManager::is_unanswered(const Peer& peer) {
    const auto refused = [](const Subchannel& subchannel) {
        const std::string& why = subchannel.meeting.why;
        return waits(subchannel) && !why.empty() && why != kNoAnswer;
    };
    return std::none_of(peer.subchannels.begin(), peer.subchannels.end(), refused);
}

Nanoseconds ConnectionManager::meeting_ends(const Peer& peer) const {
    const PeerMeeting& meeting = peer.meeting;
    if (meeting.first_met != Nanoseconds::max()) {
        return meeting.first_met + kGrace;
    }
    const Nanoseconds patience = options_.liveness->patience();
    if (peer.repair.active && meeting.asks) {
        return meeting.began + std::min(kRepairGrace, patience);
    }
    if (patience == Nanoseconds::max()) {
        return patience;
    }
    const Nanoseconds end = is_unanswered(peer) ? options_.liveness->ends_at(peer, meeting.began)
                                                : meeting.began + patience;
    return meeting.asks ? end : end + kGrace; // the initiator knows more
}

// Returns true if the time limit is over. A peer that may be alive is waited for.
bool ConnectionManager::is_late(Peer& peer, Nanoseconds now) {
    const PeerMeeting& meeting = peer.meeting;
    if (now < meeting_ends(peer)) {
        return false;
    }
    const bool limited =
        meeting.first_met != Nanoseconds::max() || (peer.repair.active && meeting.asks);
    return limited || !is_unanswered(peer) || !options_.witness->may_live(peer, meeting.began);
}

Nanoseconds ConnectionManager::meeting_deadline() const {
    Nanoseconds next = Nanoseconds::max();
    for (const Peer* peer = meeting_.front(); peer != nullptr; peer = meeting_.next(*peer)) {
        next = std::min(next, meeting_ends(*peer));
        for (const Subchannel& subchannel : peer->subchannels) {
            if (peer->meeting.asks && waits(subchannel)) {
                next = std::min(next, subchannel.meeting.again_at);
            }
        }
    }
    return options_.attended->look_at(next);
}

// Ends the connect phase: all queue pairs are connected, or the others are not waited for any
// longer.
void ConnectionManager::end_meeting(Peer& peer) {
    const std::string why = trouble_of(peer);
    leave_meeting(peer);
    for (Subchannel& subchannel : peer.subchannels) {
        if (waits(subchannel)) {
            lose_path(peer, subchannel,
                      subchannel.meeting.why.empty() ? why : std::string(subchannel.meeting.why));
        }
    }
    if (peer.live_subchannels() > 0) {
        confirm(peer);
    } else if (peer.repair.active) {
        wait_for_path(peer);
    } else {
        fail(peer, Status::error(Reason::unreachable),
             "for " + whole_seconds_text(options_.attended->now() - peer.meeting.began) +
                 " no connection could be made: " + why);
        say_refused(peer, RefusalReason::broken); // in this order: see lose()
    }
}

} // namespace adaptib
