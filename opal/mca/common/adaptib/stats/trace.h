// SPDX-License-Identifier: BSD-3-Clause
// Trace: the latest events of a core, with their times, for a timeline of the whole job.
//
// Purpose: counters tell how much, a trace tells when. A core notes an event where it counts one;
// trace_json.h writes the events for a viewer. Off by default: Counters::trace is null then, and a
// place that notes events costs one branch.
// Shape: a ring of `capacity` events, whose memory the first events touch. When it is full, each
// event replaces the oldest one.
// Adding a kind: a line in ADAPTIB_TRACE_KINDS, and note_event() where it happens.
// Threads: one at a time (the core's lock).
// May touch: base/.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "base/spin.h"
#include "base/units.h"

namespace adaptib {

// X(kind, subject, phase, name, name of the value). What has a begin and an end is told apart from
// others of the same subject by its id.
#define ADAPTIB_TRACE_KINDS(X)                                                                     \
    X(message_sent, PEER, INSTANT, "message sent", "bytes")                                        \
    X(message_arrived, PEER, INSTANT, "message arrived", "bytes")                                  \
    X(message_unexpected, PEER, INSTANT, "message arrived before its receive", "bytes")            \
    X(active_sent, PEER, INSTANT, "active message sent", "bytes")                                  \
    X(active_arrived, PEER, INSTANT, "active message arrived", "bytes")                            \
    X(send_waits, PEER, INSTANT, "send waits for room", "")                                        \
    X(long_send, PEER, BEGIN, "long send", "bytes")                                                \
    X(long_send_cleared, PEER, INSTANT, "long send cleared", "bytes")                              \
    X(long_send_end, PEER, END, "long send", "bytes")                                              \
    X(long_receive, PEER, BEGIN, "long receive", "bytes")                                          \
    X(long_receive_end, PEER, END, "long receive", "bytes")                                        \
    X(copied_at_once, PEER, INSTANT, "data copied within the call", "bytes")                       \
    X(stripe, RAIL, BEGIN, "stripe", "bytes")                                                      \
    X(stripe_end, RAIL, END, "stripe", "bytes")                                                    \
    X(stripe_repeated, RAIL, INSTANT, "stripe transferred again", "bytes")                         \
    X(connect, PEER, BEGIN, "connection made", "")                                                 \
    X(connect_end, PEER, END, "connection made", "")                                               \
    X(connected, PEER, INSTANT, "connected", "")                                                   \
    X(unconnected, PEER, INSTANT, "no connection for now", "")                                     \
    X(repair, PEER, BEGIN, "connection repaired", "")                                              \
    X(repair_end, PEER, END, "connection repaired", "")                                            \
    X(unreachable, PEER, INSTANT, "no path has worked for so long", "ns")                          \
    X(path_up, RAIL, INSTANT, "path up", "")                                                       \
    X(path_suspect, RAIL, INSTANT, "path suspect", "")                                             \
    X(path_failed, RAIL, INSTANT, "path failed", "")                                               \
    X(peer_lost, PEER, INSTANT, "peer lost", "")

enum class TraceKind : std::uint8_t {
#define ADAPTIB_TRACE_KIND(kind, subject, phase, name, value) kind,
    ADAPTIB_TRACE_KINDS(ADAPTIB_TRACE_KIND)
#undef ADAPTIB_TRACE_KIND
};

// The peer, rail and value that an event is about. Unknown: 0, kNoRail.
struct TraceSubject {
    static constexpr std::uint8_t kNoRail = 0xff;

    std::uint64_t peer = 0;      // name of its process or endpoint
    std::uint64_t id = 0;        // of what begins or ends
    std::uint64_t value = 0;     // see ADAPTIB_TRACE_KINDS
    std::uint8_t rail = kNoRail; // of the core's rails
};

struct TraceEvent {
    std::uint64_t stamp = 0; // Trace::time() converts it
    TraceSubject subject;
    TraceKind kind{};
};

// Source of the stamps. ticks: the processor's counter, which takes a fraction of the time that the
// system's clock takes; converted at a rate that the clock tells. clock: for simulated time.
enum class TraceStamps : std::uint8_t { ticks, clock };

class Trace {
public:
    // REQUIRES: capacity > 0.
    Trace(const Clock& clock, std::size_t capacity, TraceStamps stamps)
        : clock_(clock), by_ticks_(stamps == TraceStamps::ticks && ticks() != 0),
          capacity_(capacity), events_(std::make_unique_for_overwrite<TraceEvent[]>(capacity)),
          began_(now()) {}

    // Inlined with the subject, which then is not put together before it is stored.
    [[gnu::always_inline]] void note(TraceKind kind, const TraceSubject& subject) {
        *next_ = {stamp(), subject, kind};
        ++noted_;
        if (++next_ == end_) {
            next_ = events_.get();
        }
    }

    // A moment by the clock and by the stamps.
    struct Moment {
        Nanoseconds time;
        std::uint64_t stamp;
    };
    Moment now() const { return {clock_.now(), stamp()}; }
    // Returns the time of an event by the clock. `later`: now(), after the event.
    Nanoseconds time(const TraceEvent& event, const Moment& later) const {
        if (!by_ticks_) {
            return Nanoseconds{static_cast<std::int64_t>(event.stamp)};
        }
        const double part = static_cast<double>(event.stamp - began_.stamp) /
                            static_cast<double>(later.stamp - began_.stamp + 1);
        return began_.time +
               std::chrono::duration_cast<Nanoseconds>(
                   part * std::chrono::duration<double, std::nano>(later.time - began_.time));
    }

    // Events that are left, oldest first.
    std::size_t size() const { return noted_ < capacity_ ? noted_ : capacity_; }
    const TraceEvent& at(std::size_t i) const { return events_[(lost() + i) % capacity_]; }
    // Events that later ones have replaced.
    std::size_t lost() const { return noted_ - size(); }

private:
    std::uint64_t stamp() const {
        return by_ticks_ ? ticks() : static_cast<std::uint64_t>(clock_.now().count());
    }

    const Clock& clock_;
    const bool by_ticks_;
    const std::size_t capacity_;
    const std::unique_ptr<TraceEvent[]> events_;
    TraceEvent* const end_ = events_.get() + capacity_;
    const Moment began_;
    TraceEvent* next_ = events_.get(); // place of the next event
    std::size_t noted_ = 0;
};

// Notes the event if there is a trace.
[[gnu::always_inline]] inline void note_event(Trace* trace, TraceKind kind,
                                              const TraceSubject& subject) {
    if (trace != nullptr) [[unlikely]] {
        trace->note(kind, subject);
    }
}

} // namespace adaptib
