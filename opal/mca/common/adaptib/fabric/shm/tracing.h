// SPDX-License-Identifier: BSD-3-Clause
// Permission for peers to attach to this process, where Yama, a security module of the kernel,
// requires one.
//
// Purpose: with kernel.yama.ptrace_scope 1, Ubuntu's default, a process may attach only to its
// descendants and to processes that have named it, or everybody, by prctl(PR_SET_PTRACER). That
// rule covers cross-memory attach. All other protection of the process stays as it is: same user,
// same namespaces, dumpable.
// Threads: any.
// May touch: base/, the system.
#pragma once

namespace adaptib::shm {

// Yama as the system offers it.
class Yama {
public:
    // kernel.yama.ptrace_scope; -1: this kernel has no Yama, or the value cannot be read.
    virtual int scope() const = 0;
    // Lets everybody attach besides (true), or nobody (false). Returns false if refused.
    virtual bool let_attach(bool everybody) = 0;

protected:
    ~Yama() = default;
};
Yama& yama();
// Replaces the kernel's Yama for tests; null: the kernel's again. REQUIRES: no AttachPermission
// exists.
void assume_yama(Yama* played);

// While an object of this class lives, everybody may attach to this process, where Yama requires a
// permission for that.
class AttachPermission {
public:
    AttachPermission();
    ~AttachPermission();
    AttachPermission(const AttachPermission&) = delete;
    AttachPermission& operator=(const AttachPermission&) = delete;

    // Returns true if Yama required the permission and granted it.
    bool given() const { return given_; }

private:
    int pid_;
    bool given_;
};

} // namespace adaptib::shm
