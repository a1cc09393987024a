// SPDX-License-Identifier: BSD-3-Clause
// prctl(PR_SET_PTRACER), and the file that tells whether it is needed.
#include "fabric/shm/tracing.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>

#include "base/invariant.h"

namespace adaptib::shm {

namespace {

constexpr int kDescendantsAndNamed = 1; // scope in which PR_SET_PTRACER makes a difference

// Number of AttachPermissions of this process. The kernel keeps one permission for all.
std::atomic<int> g_permissions{0};
Yama* g_played = nullptr;

class KernelYama final : public Yama {
public:
    int scope() const override {
        const int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            return -1;
        }
        char digit = 0;
        const ssize_t n = read(fd, &digit, 1);
        close(fd);
        return n == 1 && digit >= '0' && digit <= '9' ? digit - '0' : -1;
    }
    bool let_attach(bool everybody) override {
        return prctl(PR_SET_PTRACER, everybody ? PR_SET_PTRACER_ANY : 0, 0, 0, 0) == 0;
    }
};

} // namespace

Yama& yama() {
    static KernelYama kernel;
    return g_played != nullptr ? *g_played : kernel;
}

void assume_yama(Yama* played) { g_played = played; }

AttachPermission::AttachPermission()
    : pid_(getpid()), given_(yama().scope() == kDescendantsAndNamed && yama().let_attach(true)) {
    g_permissions += given_ ? 1 : 0;
}

// A forked child has a copy of the object, but the permission is its parent's.
AttachPermission::~AttachPermission() {
    if (!given_ || getpid() != pid_) {
        return;
    }
    const int left = --g_permissions;
    ADAPTIB_INVARIANT(left >= 0, "a permission ends once", left);
    if (left == 0) {
        static_cast<void>(yama().let_attach(false));
    }
}

} // namespace adaptib::shm
