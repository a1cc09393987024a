// SPDX-License-Identifier: BSD-3-Clause
// Completions: requests that have ended.
//
// Purpose: reports each request exactly once: to the call that starts it if it ends within that
// call (begin() to end()), otherwise through the list, which the user takes requests from.
// Ownership: requests belong to the user, who leaves them untouched until they are reported.
// Threads: one at a time (the core's lock).
// May touch: base/, request.h.
#pragma once

#include "base/units.h"
#include "protocol/request.h"

namespace adaptib {

class Completions {
public:
    // The start of the request begins. REQUIRES: no other start is under way.
    void begin(UserRequest& user) {
        starting_ = &user;
        started_complete_ = false;
    }
    // The start is over. Returns true if the request has ended meanwhile.
    bool end() {
        starting_ = nullptr;
        return started_complete_;
    }
    void complete(UserRequest& user, int status, Bytes bytes) {
        user.status = status;
        user.bytes = bytes;
        if (&user == starting_) {
            started_complete_ = true;
        } else {
            list_.push(user);
        }
    }
    // Ends a receive. `failure`: SUCCESS, or the status of a receive that did not get its data.
    void complete_receive(ReceiveRequest& request, const Envelope& envelope, Bytes message_bytes,
                          Bytes received, int failure) {
        UserRequest& user = request.user();
        user.source = envelope.source;
        user.tag = envelope.tag;
        const bool truncated =
            failure == OPAL_COMMON_ADAPTIB_SUCCESS && message_bytes > request.data.bytes;
        complete(user, truncated ? +OPAL_COMMON_ADAPTIB_TRUNCATED : failure, received);
    }
    CompletedList& list() { return list_; }

private:
    CompletedList list_;
    UserRequest* starting_ = nullptr; // the request whose start is under way
    bool started_complete_ = false;
};

} // namespace adaptib
