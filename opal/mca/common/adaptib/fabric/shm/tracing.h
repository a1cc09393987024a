// SPDX-License-Identifier: BSD-3-Clause
// Permission for peers to attach to this process, where Yama, a security module of the kernel, asks
// for one.
//
// Purpose: with kernel.yama.ptrace_scope 1, Ubuntu's default, a process attaches only to its
// descendants, and to processes that have named it, or everybody, by prctl(PR_SET_PTRACER).
// Cross-memory attach is under that rule.
// Everything else that protects the process stays as it is: same user, same namespaces, dumpable.
// Threads: any.
// May touch: the system.
#pragma once

namespace adaptib::shm {

// What there is of it in the system.
class Yama {
public:
    // kernel.yama.ptrace_scope; -1: this kernel has no Yama, or it cannot be read.
    virtual int scope() const = 0;
    // Who may attach besides: everybody (true), or nobody. False: refused.
    virtual bool let_attach(bool everybody) = 0;

protected:
    ~Yama() = default;
};
Yama& yama();
// Another one than the kernel's, for tests; null: the kernel's. While there is no AttachPermission.
void assume_yama(Yama* played);

// Everybody may attach to this process as long as one of these lives, where that has to be said.
class AttachPermission {
public:
    AttachPermission();
    ~AttachPermission();
    AttachPermission(const AttachPermission&) = delete;
    AttachPermission& operator=(const AttachPermission&) = delete;

    // It had to be said, and was.
    bool given() const { return given_; }

private:
    int pid_;
    bool given_;
};

} // namespace adaptib::shm
