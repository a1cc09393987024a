// SPDX-License-Identifier: BSD-3-Clause
// Two ways of opening a peer's segment (opening.h).
#include "fabric/shm/opening.h"

#include <cerrno>

#include "fabric/shm/descriptor_server.h"
#include "fabric/shm/process.h"

namespace adaptib::shm {

namespace {

// The server sleeps and answers at once; on a crowded machine the caller tries again later.
constexpr Nanoseconds kAnswerLimit{50'000'000};

bool is_refusal(int error) { return error == EACCES || error == EPERM; }

bool may_pass(int error) {
    switch (error) {
    case EMFILE:
    case ENFILE:
    case EINTR:
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM: return true;
    default: return false;
    }
}

// Returns true if the process lives but /proc does not show it: hidepid hides processes that this
// one may not look into.
bool is_hidden(const WireAddress& wire) {
    return process_start_time(wire.pid) == 0 && process_alive(wire.pid, wire.start_time);
}

// /proc is readable and the file is not there: if the process lives, it has closed its segment.
Status why_not_there(const WireAddress& wire) {
    if (process_start_time(wire.pid) == wire.start_time) {
        return Status::error(Reason::peer_gone);
    }
    return Status::error(process_alive(wire.pid, wire.start_time) ? Reason::unreachable
                                                                  : Reason::peer_gone);
}

Status ask_server(const WireAddress& wire, int& fd, Obstacle& obstacle) {
    int error = ENOTSUP;
    if (can_ask_server(wire)) {
        const int found = request_descriptor(wire.visibility.server, {wire.cookie, wire.answer_key},
                                             kAnswerLimit);
        error = errno;
        if (found >= 0) {
            fd = found;
            return kOk;
        }
    }
    obstacle.step = Obstacle::Step::request;
    obstacle.request_error = error;
    if (error == ECONNREFUSED || !process_alive(wire.pid, wire.start_time)) {
        return Status::error(Reason::peer_gone);
    }
    return Status::error(may_pass(error) ? Reason::no_memory : Reason::no_permission);
}

} // namespace

bool can_ask_server(const WireAddress& wire) {
    return (wire.visibility.ways & kWayServer) != 0 &&
           own_visibility().network == wire.visibility.network;
}

Status open_segment_of(const WireAddress& wire, int& fd, Obstacle& obstacle) {
    obstacle = {Obstacle::Step::open, Reason::none, 0};
    const int found = open_descriptor_of(wire.pid, wire.fd);
    if (found >= 0) {
        fd = found;
        return kOk;
    }
    obstacle.error = errno;
    if (may_pass(obstacle.error)) {
        return Status::error(Reason::no_memory);
    }
    if (!is_refusal(obstacle.error) && !is_hidden(wire)) {
        return why_not_there(wire);
    }
    return ask_server(wire, fd, obstacle);
}

} // namespace adaptib::shm
