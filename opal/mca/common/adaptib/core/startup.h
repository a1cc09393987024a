// SPDX-License-Identifier: BSD-3-Clause
// Startup: connections at the start of the job (parameter `connect`).
//
// Purpose: each process requests connections to peers at certain distances above it, and gets
// requests from peers below: at distances 1, 2, 4, ... (partial: at most 2 log2 N connections
// each), or up to half of the job (static: all). Where processes have several endpoints, each
// endpoint connects those of a peer that it exchanges messages with: number k, modulo the endpoints
// of each process, for each k below the larger number. It requests a few at a time, as progress is
// made; nothing waits for them.
// Threads: one at a time (the core's lock).
// Source: Yu, Gao, Panda, section 3 (partially static), 5 (the static baseline).
// May touch: peer/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/severity.h"
#include "peer/peer.h"

namespace adaptib {

class Startup {
public:
    enum class Mode : std::uint8_t { on_demand, partial, all };
    static constexpr std::size_t kAskedAtOnce = 16;

    struct Options {
        std::uint64_t self = 0; // name of this endpoint
        Mode mode = Mode::on_demand;
        std::uint64_t connections = 0; // most that it may have; 0: no limit but the device's
        MessageFunction message{};     // to people
    };
    // Requests a connection to the process, if there is room for one. `asked`: the peer, or null if
    // it was contacted and released since. Returns false if the process cannot be contacted; a
    // message has told why.
    using Connect = std::function<bool(std::uint64_t name, const Peer*& asked)>;
    // Returns the number of endpoints of a process, a power of two.
    using EndpointsOf = std::function<std::uint32_t(std::uint64_t process)>;

    explicit Startup(const Options& options) : options_(options) {}

    // Tells that this process is number `rank` of a job of `count`, whose names follow from its
    // own, and has so many endpoints. Connects the peers that the parameter `connect` names, as
    // progress is made. Call it once the addresses of those peers can be looked up; a second call
    // does nothing.
    void begin(std::uint32_t rank, std::uint32_t count, std::uint32_t endpoints);
    bool goes_on() const { return step_ < steps_; }
    // Returns true if the next request can be made.
    bool is_due() const;
    // Requests the next connections. REQUIRES: goes_on().
    void connect_some(const Connect& connect, const EndpointsOf& endpoints_of);

private:
    std::uint32_t distance(std::uint32_t step) const;
    std::uint64_t process_at(std::uint32_t step) const;
    bool connect_next(const Connect& connect, const EndpointsOf& endpoints_of);
    void warn_of_limit() const;

    Options options_;
    bool begun_ = false;
    std::uint32_t rank_ = 0;
    std::uint32_t count_ = 0;
    std::uint32_t endpoints_ = 1; // of this process
    std::uint32_t step_ = 0;      // next argument of distance()
    std::uint32_t steps_ = 0;
    std::uint32_t theirs_ = 0;       // endpoints of the process of this step; 0: not known yet
    std::uint32_t next_ = 0;         // the next one of these endpoints
    std::vector<const Peer*> asked_; // those that have not answered yet
};

} // namespace adaptib
