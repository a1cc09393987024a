// SPDX-License-Identifier: BSD-3-Clause
// RequestFlow: the long request of a queue pair that is on its way out as a flow.
//
// Purpose: a queue pair sends its long requests one after another. Each waits for the engine, and
// then moves its bytes as a flow.
// Invariants: leaving() from begin_at() until the last byte has left, or stop().
// Ownership: the queue pair's.  Threads: one.
// May touch: base/, simulator/network/{simulator,flows}.h.
#pragma once

#include <span>

#include "simulator/network/flows.h"
#include "simulator/network/simulator.h"

namespace adaptib::sim {

class RequestFlow final : public Flow, private Event {
public:
    class Listener {
    public:
        // The engine takes the request now: start(), or stop().
        virtual void on_flow_begins() = 0;
        // The last byte has left.
        virtual void on_flow_through() = 0;

    protected:
        ~Listener() = default;
    };

    RequestFlow(Simulator& simulator, Flows& flows, Listener& listener)
        : simulator_(simulator), flows_(flows), listener_(listener) {}

    bool leaving() const { return leaving_; }
    void begin_at(Nanoseconds when) {
        leaving_ = true;
        simulator_.schedule(*this, when);
    }
    void start(std::span<const LinkIndex> links, Bytes bytes, BytesPerSecond limit) {
        flows_.start(*this, links, bytes, limit);
    }
    void stop() {
        simulator_.cancel(*this);
        if (active()) {
            flows_.stop(*this);
        }
        leaving_ = false;
    }

private:
    void happen() override { listener_.on_flow_begins(); }
    void on_through() override {
        leaving_ = false;
        listener_.on_flow_through();
    }

    Simulator& simulator_;
    Flows& flows_;
    Listener& listener_;
    bool leaving_ = false;
};

} // namespace adaptib::sim
