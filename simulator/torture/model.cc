// SPDX-License-Identifier: BSD-3-Clause
// The rules of matching, as bounds on the times of arrival (simulator/torture/model.h).
#include "simulator/torture/model.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

#include "simulator/torture/payload.h"

namespace adaptib::torture {

namespace {

std::string text_of(const Envelope& envelope) {
    const auto wild = [](bool any, std::int32_t value) {
        return any ? std::string("any") : std::to_string(value);
    };
    return "context " + std::to_string(envelope.context) + " source " +
           wild(envelope.source == Envelope::kAnySource, envelope.source) + " tag " +
           wild(envelope.tag == Envelope::kAnyTag, envelope.tag);
}

std::string text_of(const SentMessage& message) {
    return "message " + std::to_string(message.id) + " (" + text_of(message.envelope) + " to " +
           std::to_string(message.receiver) + ", " + std::to_string(message.bytes) + " bytes)";
}

std::string text_of(const Received& receive) {
    return "receive " + std::to_string(receive.id) + " (at " + std::to_string(receive.rank) + ", " +
           text_of(receive.pattern) + ", room " + std::to_string(receive.room) + ")";
}

std::string text_of(const Probed& probe) {
    return "probe " + std::to_string(probe.id) + " (at " + std::to_string(probe.rank) + ", " +
           text_of(probe.pattern) + ")";
}

// A message, its taker, and the bounds of its time of arrival.
struct Arrival {
    const SentMessage* message = nullptr;
    const Received* taker = nullptr;
    Time after = 0;
    Time before = kNever;
    std::vector<std::size_t> later; // messages that arrived after this one
    std::size_t earlier = 0;        // number of messages that have this one in `later`

    Time taken() const { return taker == nullptr ? kNever : taker->posted; }
};

// The events at one rank in one context.
class Matching {
public:
    Matching(const History& history, std::vector<std::string>& problems)
        : history_(history), problems_(problems) {}

    void add(const SentMessage& message) {
        by_envelope_[{message.envelope.source, message.envelope.tag}].push_back(arrivals_.size());
        arrivals_.push_back({&message, nullptr, message.started, kNever, {}, 0});
    }
    void add(const Received& receive) { receives_.push_back({&receive, kNobody}); }
    void add(const Probed& probe) { probes_.push_back(&probe); }

    void check() {
        const std::size_t before = problems_.size();
        identify();
        if (problems_.size() == before) { // otherwise the takers are guesses
            bound_by_senders();
            bound_by_receives();
            bound_by_probes();
            if (!history_.holds_back) {
                bound_by_actives();
            }
            solve();
        }
    }

private:
    static constexpr std::size_t kNobody = ~std::size_t{0};
    struct Receive {
        const Received* what;
        std::size_t arrival; // kNobody: cancelled
    };

    // Bounds the arrival: it happened before `time`.
    static void before(Arrival& arrival, Time time) {
        arrival.before = std::min(arrival.before, time);
    }
    static void after(Arrival& arrival, Time time) {
        arrival.after = std::max(arrival.after, time);
    }
    void order(std::size_t first, std::size_t second) {
        arrivals_[first].later.push_back(second);
        ++arrivals_[second].earlier;
    }

    // The k-th receive that got an envelope got the k-th message of that envelope.
    void identify() {
        std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> taken;
        for (Receive& receive : receives_) {
            const Received& what = *receive.what;
            if (what.cancelled != kNever) {
                if (what.completed != kNever) {
                    problems_.push_back(text_of(what) + " was cancelled, and completed");
                }
                continue;
            }
            if (what.completed == kNever) {
                problems_.push_back(text_of(what) + " never completed");
                continue;
            }
            const auto envelope = std::make_pair(what.source, what.tag);
            const auto& sent = by_envelope_[envelope];
            const std::size_t number = taken[envelope]++;
            if (number >= sent.size()) {
                problems_.push_back(text_of(what) + " got source " + std::to_string(what.source) +
                                    " tag " + std::to_string(what.tag) +
                                    ", which was not sent (so often)");
                continue;
            }
            receive.arrival = sent[number];
            arrivals_[receive.arrival].taker = &what;
            compare(what, *arrivals_[receive.arrival].message);
        }
        for (const Arrival& arrival : arrivals_) {
            if (arrival.taker == nullptr) {
                problems_.push_back(text_of(*arrival.message) + " was never received");
            }
        }
    }

    void compare(const Received& receive, const SentMessage& message) {
        if (const std::string wrong = difference(receive, message); !wrong.empty()) {
            problems_.push_back(text_of(receive) + " got " + text_of(message) + ": " + wrong);
        }
    }

    void bound_by_senders() {
        std::map<std::int32_t, std::size_t> last;
        for (std::size_t i = 0; i < arrivals_.size(); ++i) {
            Arrival& arrival = arrivals_[i];
            const SentMessage& message = *arrival.message;
            if (const auto found = last.find(message.envelope.source); found != last.end()) {
                order(found->second, i);
            }
            last[message.envelope.source] = i;
            const auto settled =
                std::upper_bound(history_.settled.begin(), history_.settled.end(), message.started);
            if (settled != history_.settled.end()) {
                before(arrival, *settled);
            }
            if (message.synchronous && message.completed != kNever) {
                if (arrival.taken() > message.completed) {
                    problems_.push_back(text_of(message) +
                                        " is synchronous, and completed before its receive");
                }
                before(arrival, message.completed);
            }
        }
    }

    void bound_by_receives() {
        for (const Receive& receive : receives_) {
            const Received& what = *receive.what;
            if (receive.arrival != kNobody) {
                Arrival& own = arrivals_[receive.arrival];
                if (what.at_once) {
                    before(own, what.posted);
                } else {
                    after(own, what.posted);
                    before(own, what.completed);
                }
            }
            for (std::size_t i = 0; i < arrivals_.size(); ++i) {
                Arrival& other = arrivals_[i];
                if (i == receive.arrival || other.taken() < what.posted ||
                    !envelope_matches(what.pattern, other.message->envelope)) {
                    continue;
                }
                if (receive.arrival != kNobody) {
                    order(receive.arrival, i);
                } else {
                    after(other, what.cancelled);
                }
            }
        }
    }

    void bound_by_probes() {
        for (const Probed* probe : probes_) {
            const std::size_t shown = probe->found ? shown_by(*probe) : kNobody;
            if (probe->found && shown == kNobody) {
                continue;
            }
            for (std::size_t i = 0; i < arrivals_.size(); ++i) {
                Arrival& other = arrivals_[i];
                if (i == shown) {
                    before(other, probe->when);
                } else if (other.taken() > probe->when &&
                           envelope_matches(probe->pattern, other.message->envelope)) {
                    if (shown != kNobody) {
                        order(shown, i);
                    } else {
                        after(other, probe->when);
                    }
                }
            }
        }
    }

    // Returns the first message of the shown envelope that no earlier receive took.
    std::size_t shown_by(const Probed& probe) {
        const Envelope envelope{probe.pattern.context, probe.source, probe.tag};
        for (const std::size_t i : by_envelope_[{probe.source, probe.tag}]) {
            const Arrival& arrival = arrivals_[i];
            if (arrival.taken() < probe.when) {
                continue;
            }
            if (!envelope_matches(probe.pattern, envelope) ||
                arrival.message->bytes != probe.bytes) {
                problems_.push_back(text_of(probe) + " shows " + std::to_string(probe.bytes) +
                                    " bytes, " + text_of(envelope) + "; there is " +
                                    text_of(*arrival.message));
                return kNobody;
            }
            return i;
        }
        problems_.push_back(text_of(probe) +
                            " shows a message that is not there: " + text_of(envelope));
        return kNobody;
    }

    // The k-th active message of a sender was the k-th one delivered (check_actives).
    void bound_by_actives() {
        for (Arrival& arrival : arrivals_) {
            const SentMessage& message = *arrival.message;
            const auto sender = static_cast<std::uint32_t>(message.envelope.source);
            std::size_t number = 0;
            for (const SentActive& active : history_.actives) {
                if (active.sender == sender && active.receiver == message.receiver &&
                    active.started < message.started) {
                    ++number;
                }
            }
            for (const DeliveredActive& delivery : history_.delivered) {
                if (delivery.sender != sender || delivery.receiver != message.receiver) {
                    continue;
                }
                if (number > 0) {
                    --number;
                    after(arrival, delivery.when);
                } else {
                    before(arrival, delivery.when);
                    break;
                }
            }
        }
    }

    // Places each message as early as the messages before it allow.
    void solve() {
        std::deque<std::size_t> ready;
        std::size_t placed = 0;
        for (std::size_t i = 0; i < arrivals_.size(); ++i) {
            if (arrivals_[i].earlier == 0) {
                ready.push_back(i);
            }
        }
        while (!ready.empty()) {
            const Arrival& arrival = arrivals_[ready.front()];
            ready.pop_front();
            ++placed;
            if (arrival.after >= arrival.before) {
                problems_.push_back(text_of(*arrival.message) + ", taken by " +
                                    text_of(*arrival.taker) + ", must have arrived after event " +
                                    std::to_string(arrival.after) + " and before event " +
                                    std::to_string(arrival.before));
            }
            for (const std::size_t i : arrival.later) {
                after(arrivals_[i], arrival.after);
                if (--arrivals_[i].earlier == 0) {
                    ready.push_back(i);
                }
            }
        }
        if (placed < arrivals_.size()) {
            std::string text = "no order of arrival explains who took";
            for (const Arrival& arrival : arrivals_) {
                if (arrival.earlier > 0) {
                    text +=
                        " " + text_of(*arrival.message) + " by " + text_of(*arrival.taker) + ";";
                }
            }
            problems_.push_back(text);
        }
    }

    const History& history_;
    std::vector<std::string>& problems_;
    std::vector<Arrival> arrivals_; // in the order of sending
    std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::size_t>> by_envelope_;
    std::vector<Receive> receives_; // in the order of posting
    std::vector<const Probed*> probes_;
};

void check_sends(const History& history, std::vector<std::string>& problems) {
    for (const SentMessage& message : history.messages) {
        if (message.completed == kNever) {
            problems.push_back(text_of(message) + ": the send never completed");
        } else if (message.status != OPAL_COMMON_ADAPTIB_SUCCESS) {
            problems.push_back(text_of(message) + ": the send ended with status " +
                               std::to_string(message.status));
        }
    }
}

void check_actives(const History& history, std::vector<std::string>& problems) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<const SentActive*>> sent;
    for (const SentActive& active : history.actives) {
        sent[{active.sender, active.receiver}].push_back(&active);
        if (active.completed == kNever || active.status != OPAL_COMMON_ADAPTIB_SUCCESS) {
            problems.push_back("active message " + std::to_string(active.id) +
                               " never completed, or with an error");
        }
    }
    for (const DeliveredActive& delivery : history.delivered) {
        auto& expected = sent[{delivery.sender, delivery.receiver}];
        const std::string where =
            std::to_string(delivery.sender) + " to " + std::to_string(delivery.receiver);
        if (expected.empty()) {
            problems.push_back("an active message from " + where + " that was not sent");
            continue;
        }
        const SentActive& active = *expected.front();
        expected.pop_front();
        if (delivery.tag != active.tag || delivery.bytes != active.bytes ||
            delivery.digest != payload_digest(active.payload, active.bytes) ||
            delivery.when < active.started) {
            problems.push_back("active message " + std::to_string(active.id) + " from " + where +
                               ": tag " + std::to_string(delivery.tag) + ", " +
                               std::to_string(delivery.bytes) +
                               " bytes were delivered in its turn");
        }
    }
    for (const auto& [pair, left] : sent) {
        for (const SentActive* active : left) {
            problems.push_back("active message " + std::to_string(active->id) +
                               " was never delivered");
        }
    }
}

} // namespace

std::string difference(const Received& receive, const SentMessage& message) {
    const Bytes expected = std::min(receive.room, message.bytes);
    const int status =
        message.bytes > receive.room ? OPAL_COMMON_ADAPTIB_TRUNCATED : OPAL_COMMON_ADAPTIB_SUCCESS;
    if (!envelope_matches(receive.pattern, message.envelope)) {
        return "they do not match";
    }
    if (receive.bytes != expected) {
        return std::to_string(receive.bytes) + " bytes arrived";
    }
    if (receive.status != status) {
        return "the status is " + std::to_string(receive.status);
    }
    if (receive.digest != payload_digest(message.payload, expected)) {
        return "the payload is another one";
    }
    return "";
}

std::vector<std::string> check(const History& history) {
    std::vector<std::string> problems;
    check_sends(history, problems);
    check_actives(history, problems);
    std::map<std::pair<std::uint32_t, std::uint32_t>, Matching> places; // by rank and context
    const auto place = [&](std::uint32_t rank, const Envelope& envelope) -> Matching& {
        return places.try_emplace({rank, envelope.context}, history, problems).first->second;
    };
    for (const SentMessage& message : history.messages) {
        place(message.receiver, message.envelope).add(message);
    }
    for (const Received& receive : history.receives) {
        place(receive.rank, receive.pattern).add(receive);
    }
    for (const Probed& probe : history.probes) {
        place(probe.rank, probe.pattern).add(probe);
    }
    for (auto& [where, matching] : places) {
        matching.check();
    }
    return problems;
}

} // namespace adaptib::torture
