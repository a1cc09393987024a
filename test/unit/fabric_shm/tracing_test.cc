// SPDX-License-Identifier: BSD-3-Clause
// Permission for peers to attach: when a process gives it, and that it takes the permission back.
// The test plays the kernel's part, as few test machines have Yama.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "fabric/shm/shm_fabric.h"
#include "fabric/shm/tracing.h"
#include "fabric/shm/visibility.h"

namespace adaptib::shm {
namespace {

using SingleCopy = ShmOptions::SingleCopy;

class PlayedYama final : public Yama {
public:
    explicit PlayedYama(int scope) : scope_(scope) { assume_yama(this); }
    ~PlayedYama() { assume_yama(nullptr); }
    PlayedYama(const PlayedYama&) = delete;
    PlayedYama& operator=(const PlayedYama&) = delete;
    int scope() const override { return scope_; }
    bool let_attach(bool everybody) override {
        said.push_back(everybody);
        return !refuses;
    }

    std::vector<bool> said;
    bool refuses = false;

private:
    int scope_;
};

std::unique_ptr<Fabric> open_with(SingleCopy copy) {
    static MonotonicClock clock;
    ShmOptions options;
    options.clock = &clock;
    options.single_copy = copy;
    std::unique_ptr<Fabric> fabric;
    std::string error;
    EXPECT_TRUE(open_shm_fabric(options, fabric, error).ok()) << error;
    return fabric;
}

TEST(Tracing, PeersMayAttachAsLongAsThereIsAFabric) {
    for (const SingleCopy copy : {SingleCopy::automatic, SingleCopy::cma}) {
        PlayedYama yama(1);
        {
            const std::unique_ptr<Fabric> fabric = open_with(copy);
            EXPECT_EQ(yama.said, std::vector<bool>{true});
        }
        EXPECT_EQ(yama.said, (std::vector<bool>{true, false}));
    }
}

TEST(Tracing, NobodyIsToldWhereThereIsNoSingleCopy) {
    PlayedYama yama(1);
    open_with(SingleCopy::none).reset();
    EXPECT_TRUE(yama.said.empty());
}

// -1: no Yama. 0: any process that may signal this one may attach. 2 and 3: only processes with a
// capability, or none, may attach, whatever this process says.
TEST(Tracing, NothingIsSaidWhereItMakesNoDifference) {
    for (const int scope : {-1, 0, 2, 3}) {
        PlayedYama yama(scope);
        open_with(SingleCopy::automatic).reset();
        EXPECT_TRUE(yama.said.empty()) << scope;
    }
}

TEST(Tracing, TheLastFabricOfTheProcessTakesItBack) {
    PlayedYama yama(1);
    std::unique_ptr<Fabric> first = open_with(SingleCopy::automatic);
    std::unique_ptr<Fabric> second = open_with(SingleCopy::automatic);
    first.reset();
    EXPECT_EQ(yama.said, (std::vector<bool>{true, true}));
    second.reset();
    EXPECT_EQ(yama.said, (std::vector<bool>{true, true, false}));
}

TEST(Tracing, WhatWasRefusedIsNotTakenBack) {
    PlayedYama yama(1);
    yama.refuses = true;
    open_with(SingleCopy::automatic).reset();
    EXPECT_EQ(yama.said, std::vector<bool>{true});
}

TEST(Tracing, WhereYamaForbidsItTheUserIsToldSo) {
    const Visibility here = own_visibility();
    for (const int scope : {-1, 0, 1, 2, 3}) {
        const PlayedYama yama(scope);
        EXPECT_EQ(why_not_attach(here, here).find("ptrace_scope is " + std::to_string(scope)) !=
                      std::string::npos,
                  scope > 1)
            << scope;
    }
}

TEST(Tracing, AForkedChildDoesNotTakeItsParentsBack) {
    PlayedYama yama(1);
    AttachPermission permission;
    ASSERT_TRUE(permission.given());
    const pid_t child = fork();
    if (child == 0) {
        permission.~AttachPermission();
        _exit(yama.said.size() == 1 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

// On this kernel: it accepts the calls, or has no Yama.
TEST(Tracing, TheKernelsOwn) {
    const int scope = yama().scope();
    EXPECT_EQ(scope >= 0, access("/proc/sys/kernel/yama/ptrace_scope", F_OK) == 0);
    const bool taken = yama().let_attach(true);
    EXPECT_EQ(taken, scope >= 0);
    EXPECT_EQ(yama().let_attach(false), taken);
}

} // namespace
} // namespace adaptib::shm
