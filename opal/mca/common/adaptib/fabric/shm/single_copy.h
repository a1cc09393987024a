// SPDX-License-Identifier: BSD-3-Clause
// Use of cross-memory attach by this process.
//
// Purpose: it is used until the system forbids it, for all processes or for one peer; the first
// time that happens, a notice says why.
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, segment.h.
#pragma once

#include <string>
#include <vector>

#include "fabric/shm/segment.h"

namespace adaptib::shm {

class SingleCopy {
public:
    explicit SingleCopy(std::vector<std::string>& notices) : notices_(notices) {}

    // PeerSegment::single_copy says so for one peer.
    bool allowed() const { return allowed_; }
    void turn_off() { allowed_ = false; }
    // The system forbids it with this peer (null: with any process).
    void forbid(PeerSegment* peer, const std::string& why);

private:
    std::vector<std::string>& notices_;
    bool allowed_ = true;
    bool noticed_ = false;
};

} // namespace adaptib::shm
