// SPDX-License-Identifier: BSD-3-Clause
// RetryTimer: the pauses of a reliable queue pair, and how often it has tried.
//
// Purpose: a queue pair that has to wait (no answer, no receive at the target, a busy target, the
// doorbell) pauses until a time, or until the target posts a receive. The timer counts the tries
// against the limits of the queue pair's attributes.
// Invariants: a paused queue pair has this event scheduled, unless it waits for a posted receive.
// Ownership: the queue pair's.  Threads: one.
// Source: InfiniBand Architecture, vol. 1, 9.7 (reliable service).
// May touch: base/, fabric/, simulator/network/simulator.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "fabric/qp_attributes.h"
#include "simulator/network/simulator.h"

namespace adaptib::sim {

class RetryTimer final : public Event {
public:
    enum class Pause : std::uint8_t { none, no_answer, no_receive, target_busy, doorbell };

    class Listener {
    public:
        // The pause is over.
        virtual void on_retry(Pause why) = 0;

    protected:
        ~Listener() = default;
    };

    RetryTimer(Simulator& simulator, Listener& listener)
        : simulator_(simulator), listener_(listener) {}

    bool paused() const { return pause_ != Pause::none; }
    void wait(Pause why, Nanoseconds until) {
        pause_ = why;
        simulator_.schedule(*this, until);
    }
    void no_answer(const QpAttributes& attributes) {
        ++tries_;
        wait(Pause::no_answer, simulator_.now() + timeout(attributes.timeout));
    }
    void no_receive(Nanoseconds until) {
        ++rnr_tries_;
        wait(Pause::no_receive, until);
    }
    // Pauses until receive_posted(), and at least until that time.
    void no_receive_until_posted(Nanoseconds until) {
        ++rnr_tries_;
        pause_ = Pause::no_receive;
        receive_until_ = until;
    }
    void receive_posted() {
        if (pause_ == Pause::no_receive && !scheduled()) {
            simulator_.schedule(*this, std::max(simulator_.now(), receive_until_));
        }
    }
    // Counts the tries from 0 again.
    void answered() { tries_ = rnr_tries_ = 0; }
    // Ends the pause without a call of the listener.
    void cancel() {
        simulator_.cancel(*this);
        pause_ = Pause::none;
    }

    // Returns true if the last try without an answer was the last one that is allowed.
    bool gives_up(const QpAttributes& attributes) const {
        return attributes.timeout != 0 && tries_ > attributes.retry_count;
    }
    bool gives_up_on_receive(const QpAttributes& attributes) const {
        return !waits_for_ever(attributes) && rnr_tries_ >= attributes.rnr_retry;
    }
    static bool waits_for_ever(const QpAttributes& attributes) {
        return attributes.rnr_retry == kForEver;
    }

private:
    static constexpr std::uint8_t kForEver = 7; // rnr_retry
    // Interval of retries that never end (timeout 0).
    static constexpr std::uint8_t kUsualTimeout = 14;

    static Nanoseconds timeout(std::uint8_t code) {
        return Nanoseconds{std::int64_t{4096} << ((code != 0 ? code : kUsualTimeout) & 31)};
    }
    void happen() override { listener_.on_retry(std::exchange(pause_, Pause::none)); }

    Simulator& simulator_;
    Listener& listener_;
    Pause pause_ = Pause::none;
    std::uint32_t tries_ = 0;
    std::uint32_t rnr_tries_ = 0;
    Nanoseconds receive_until_{0};
};

} // namespace adaptib::sim
