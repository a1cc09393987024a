// SPDX-License-Identifier: BSD-3-Clause
// DatagramRetransmitter: makes sure that a channel's datagrams arrive, or finds out why they do
// not.
//
// Purpose: acknowledges what arrives, sends again what is not acknowledged, and judges targets that
// do not answer. With fault tolerance it asks the owner to move a target to another path: when its
// datagrams are not acknowledged, when one ends with an error, or when the adapter does not even
// complete the send. What each target has outstanding is the matter of its DatagramLink
// (channel/datagram_link.h).
// Ownership: uses the channel's sender. Knows targets that have something to do at a deadline;
// their owner calls forget() before one ends.
// Threads: one at a time.
// May touch: base/, stats/, channel/datagram_sender.h, channel/datagram_target.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/intrusive_list.h"
#include "base/status.h"
#include "base/wire.h"
#include "channel/datagram_sender.h"
#include "channel/datagram_target.h"
#include "stats/counters.h"

namespace adaptib {

// A datagram that has arrived.
struct DatagramArrival {
    const DatagramHeader& prefix;
    std::uint32_t port;          // of this process
    const MessageHeader* header; // null: there is no message, only the prefix's acknowledgement
    const std::byte* body;
};

class DatagramRetransmitter {
public:
    // Called when a datagram to process `to` ended with an error: it is lost, and the target cannot
    // accept later ones.
    using FailureHandler = std::function<void(std::uint64_t to, WorkStatus status)>;

    // Reason to doubt the path of a target.
    enum class PathFailure : std::uint8_t {
        unanswered, // sent several times, not acknowledged; maybe the peer is busy
        stuck,      // the adapter does not complete the sends
        failed,     // a datagram ended with an error; the port was restarted if need be
        given_up,   // nothing was acknowledged and the owner reported it lost; it is forgotten
    };
    // The owner's knowledge of a target that does not acknowledge.
    enum class Standing : std::uint8_t {
        doubtful, // nothing certain: it may be busy, or the path may be at fault
        present,  // it is alive and calls MPI, and the path is sound: datagrams were lost
        absent,   // it is alive, and datagrams have arrived in its queue: it does not listen
        lost,
    };
    // Judges a target; `since`: when its oldest unacknowledged datagram was first sent.
    using Judge = std::function<Standing(DatagramTarget& target, Nanoseconds since)>;
    // Must choose another path for the target by move(), if there is one, unless the target is
    // given up.
    using PathFailureHandler =
        std::function<void(DatagramTarget& target, PathFailure failure, WorkStatus status)>;
    // Called when a doubted target has acknowledged something.
    using AnswerHandler = std::function<void(DatagramTarget& target)>;
    // Called when a target has sent again what has arrived before: it may get no acknowledgements.
    using RepeatHandler = std::function<void(DatagramTarget& target)>;
    // Returns the target of a process; null: there is none (any more).
    using Finder = std::function<DatagramTarget*(std::uint64_t name)>;

    DatagramRetransmitter(DatagramSender& sender, const Clock& clock, Counters& counters)
        : sender_(sender), clock_(clock), counters_(counters) {}

    // ---- The owner

    // Sets the judge, which is called before something is sent again to a target that has not
    // answered twice; without a judge no target is lost.
    void judge_by(Judge judge) { judge_ = std::move(judge); }
    void on_failure(FailureHandler handler) { failure_ = std::move(handler); }
    void on_repeated(RepeatHandler handler) { repeated_ = std::move(handler); }
    // Turns fault tolerance on: targets are moved. A send that the adapter has not completed for
    // `timeout` is stuck; a target that acknowledges nothing for a part of that is doubted.
    void tolerate(Nanoseconds timeout, Finder find, PathFailureHandler handler,
                  AnswerHandler answered) {
        timeout_ = timeout;
        find_ = std::move(find);
        path_failure_ = std::move(handler);
        answered_ = std::move(answered);
    }
    bool tolerant() const { return static_cast<bool>(path_failure_); }

    // Sends the target's datagrams over `port`, by `handle`, to `qp` from now on; sends
    // unacknowledged ones again there.
    void move(DatagramTarget& target, std::uint32_t port, std::unique_ptr<AddressHandle> handle,
              std::uint32_t qp);
    // Sends the target's datagrams by another handle of the same path.
    void renew(DatagramTarget& target, std::unique_ptr<AddressHandle> handle) {
        sender_.port(target.port).retire(std::exchange(target.handle, std::move(handle)));
    }
    // Acknowledges and sends again what is due. deadline(): when that is next; max: never.
    void run_timers();
    Nanoseconds deadline() const;
    // Returns true if an unacknowledged message exists whose receiver cannot have left: a sequenced
    // one, other than the answer to a disconnect.
    bool owes(const DatagramTarget& target) const;
    // Called when the owner knows that the target listens again: what it lacks is sent soon.
    void listens(DatagramTarget& target);
    // Ends the target: drops what it has not acknowledged.
    void forget(DatagramTarget& target);
    // As forget(), and takes the target's handle away. The handle lives until the sends that use it
    // have ended.
    void release(DatagramTarget& target);

    // ---- The channel

    // Called when the link has sent a datagram, and so has a deadline.
    void on_sent(DatagramLink& link) {
        link.told();
        mind(link);
    }
    // Processes a datagram that has arrived from the target; returns true if it is to be delivered.
    // REQUIRES: the target's datagrams are numbered.
    bool accept(DatagramTarget& target, const DatagramArrival& arrival);
    // Sends acknowledgements of its own for arrivals of this poll, unless an answer has carried
    // them by now.
    void acknowledge_alone() {
        if (!alone_.empty()) {
            acknowledge_arrivals();
        }
    }
    void on_failed_send(std::uint32_t port, std::uint64_t to, WorkStatus status);
    // Called after a send or a receive has ended with an error and the whole batch has been taken.
    void mend(std::uint32_t port);
    // Restarts the port if the adapter has not completed a send for longer than the timeout. Not
    // where datagrams without numbers may be under way, which a restart would lose.
    void restart_if_stuck(std::uint32_t port, Nanoseconds now);

private:
    struct Failed {
        std::uint32_t port;
        std::uint64_t to;
        WorkStatus status;
    };

    bool may_restart() const { return tolerant() && !sender_.reliable(); }
    bool may_move(std::uint64_t to) const;
    void make_room();
    void doubt(DatagramTarget& target, PathFailure failure, WorkStatus status);
    void handle_refused(DatagramTarget& target, Status status);
    Status send_again(DatagramTarget& target, std::uint32_t slot, Nanoseconds now);
    void copy_payload(std::uint32_t slot);
    void end_loans(DatagramLink& link, Nanoseconds now);
    void acknowledge(DatagramTarget& target);
    void acknowledge_arrivals();
    void repeat(DatagramLink& link, std::uint32_t slot, Nanoseconds now);
    void give_up(DatagramTarget& target);
    void mind(DatagramLink& link);

    DatagramSender& sender_;
    const Clock& clock_;
    Counters& counters_;
    Judge judge_;
    FailureHandler failure_;
    RepeatHandler repeated_;
    Nanoseconds timeout_ = Nanoseconds::max();
    Finder find_;
    PathFailureHandler path_failure_; // empty: no fault tolerance
    AnswerHandler answered_;
    std::vector<DatagramTarget*> alone_; // owe acknowledgements that nothing else will carry
    std::vector<Failed> failed_;         // since the last poll
    IntrusiveList<DatagramLink, &DatagramLink::timer_link> minded_; // links with a deadline
};

} // namespace adaptib
