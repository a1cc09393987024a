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
    CompletedList& list() { return list_; }

private:
    CompletedList list_;
    UserRequest* starting_ = nullptr; // the request whose start is under way
    bool started_complete_ = false;
};

} // namespace adaptib
