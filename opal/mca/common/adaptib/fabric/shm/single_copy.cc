// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/shm/single_copy.h"

namespace adaptib::shm {

void SingleCopy::forbid(PeerSegment* peer, const std::string& why) {
    if (peer == nullptr) {
        allowed_ = false;
    } else {
        peer->single_copy = false;
    }
    if (noticed_) {
        return;
    }
    noticed_ = true;
    notices_.push_back(
        "single copy: off, " + why +
        "; large messages are copied twice. To allow it: sysctl "
        "kernel.yama.ptrace_scope=1 or 0, a container with CAP_SYS_PTRACE, a seccomp "
        "profile that permits process_vm_readv and process_vm_writev");
}

} // namespace adaptib::shm
