// SPDX-License-Identifier: BSD-3-Clause
// Opening a peer's segment where /proc is closed, and predicting that from both addresses.
#include "fabric/shm/opening.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fabric/shm/process.h"
#include "fabric/shm/queue.h"
#include "fabric/shm/segment.h"
#include "fabric/shm/visibility.h"
#include "unit/fabric_shm/take_away.h"

namespace adaptib::shm {
namespace {

constexpr int kNotHere = 77; // exit status: the machine does not allow what the test needs

std::unique_ptr<OwnSegment> create(bool server = true) {
    SegmentOptions options;
    options.segment_max = 16 * kMiB;
    options.queue_bytes = kMiB;
    options.server = server;
    std::unique_ptr<OwnSegment> out;
    std::string error;
    EXPECT_TRUE(OwnSegment::create(options, out, error).ok()) << error;
    return out;
}

bool enter_user_space() { return unshare(CLONE_NEWUSER) == 0; }

// Goes on in a child that is there, since the system admits only children.
bool enter_time_space() {
    constexpr int kNewTime = 0x80; // CLONE_NEWTIME
    if (unshare(kNewTime) != 0 ||
        !(std::ofstream("/proc/self/timens_offsets") << "boottime 1000 0" << std::flush)) {
        return false;
    }
    const pid_t child = fork();
    int status = 0;
    if (child != 0) {
        waitpid(child, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    return true;
}

bool drop_the_right_to_look() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2]{};
    if (syscall(SYS_capget, &header, data) != 0) {
        return false;
    }
    data[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective &= ~CAP_TO_MASK(CAP_SYS_PTRACE);
    return syscall(SYS_capset, &header, data) == 0;
}

// Runs `work` in a child that has gone through `change`; skips the test if `change` fails.
void in_child(bool (*change)(), const std::function<bool()>& work) {
    const pid_t child = fork();
    if (child == 0) {
        _exit(!change() ? kNotHere : work() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
    if (WEXITSTATUS(status) == kNotHere) {
        GTEST_SKIP() << "not allowed here";
    }
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

bool opens(const OwnSegment& segment, std::shared_ptr<PeerSegment>& peer) {
    return PeerSegment::open(segment.address(0), 99, peer, segment.host()).ok();
}

bool is_refused(const OwnSegment& segment) {
    std::shared_ptr<PeerSegment> peer;
    Obstacle obstacle;
    const Status status = PeerSegment::open(segment.address(0), 99, peer, segment.host(), obstacle);
    const std::string text = Obstacle::unpack(obstacle.pack()).text(1, true); // as the peer gets it
    return status == Status::error(Reason::no_permission) &&
           obstacle.step == Obstacle::Step::request && obstacle.error == EACCES &&
           text.find("/proc/1/fd: Permission denied") != std::string::npos &&
           text.find("it has none") != std::string::npos;
}

TEST(Opening, FromAnotherUserNamespace) {
    const auto segment = create();
    in_child(enter_user_space, [&] {
        std::shared_ptr<PeerSegment> peer;
        return opens(*segment, peer) && peer->check_alive() && peer->cookie() == segment->cookie();
    });
}

TEST(Opening, FromAnotherUserNamespaceWithoutAServerIsRefused) {
    const auto segment = create(false);
    in_child(enter_user_space, [&] { return is_refused(*segment); });
}

// A stranger there may have the server's name, and would learn the key.
TEST(Opening, FromAnotherNetworkNamespaceNoKeyIsSent) {
    const auto segment = create();
    const auto enter = [] { return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0; };
    in_child(enter, [&] {
        sockaddr_un name{};
        name.sun_family = AF_UNIX;
        const int length =
            std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "adaptib-%08x",
                          static_cast<unsigned>(segment->wire_address(0).visibility.server));
        const int stranger = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        char byte = 0;
        return bind(stranger, reinterpret_cast<sockaddr*>(&name),
                    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path)) + 1 +
                        static_cast<socklen_t>(length)) == 0 &&
               is_refused(*segment) && recv(stranger, &byte, 1, MSG_DONTWAIT) < 0 &&
               errno == EAGAIN;
    });
}

// Start times of processes differ there, so each would take the other for another one.
TEST(Opening, FromAnotherTimeNamespaceIsAsFromAnotherHost) {
    const auto segment = create();
    const WireAddress wire = segment->wire_address(0);
    EXPECT_EQ(read_host_identity(), host_identity());
    in_child(enter_time_space, [&] {
        std::shared_ptr<PeerSegment> peer;
        return process_start_time(wire.pid) != wire.start_time &&
               PeerSegment::open(encode(wire), 99, peer, read_host_identity()) ==
                   Status::error(Reason::unreachable);
    });
}

// The owner sets PR_SET_DUMPABLE to 0 after publishing its address; setuid does the same.
TEST(Opening, OfAProcessThatIsNotDumpableAnyMore) {
    const auto served = create();
    const auto alone = create(false);
    const int before = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    ASSERT_EQ(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), 0);
    in_child(drop_the_right_to_look, [&] {
        std::shared_ptr<PeerSegment> peer;
        return is_refused(*alone) && opens(*served, peer);
    });
    EXPECT_EQ(prctl(PR_SET_DUMPABLE, before, 0, 0, 0), 0);
}

// A sender commits memory of the queue itself while the owner computes.
TEST(Opening, TheQueueGrowsWithoutProc) {
    const auto segment = create();
    in_child(enter_user_space, [&] {
        std::shared_ptr<PeerSegment> peer;
        if (!opens(*segment, peer)) {
            return false;
        }
        RecordFields fields{};
        fields.type = RecordType::datagram;
        for (int i = 0; i < 100; ++i) { // only 64 KiB have memory from the start
            if (peer->producer().push(fields, 4096, [](std::byte*) {}) != Push::ok) {
                return false;
            }
        }
        return true;
    });
}

// The owner has left MPI and goes on, with another file or none under the segment's
// descriptor number.
TEST(Opening, OfAProcessThatHasClosedItsSegment) {
    auto segment = create();
    const RailAddress old = segment->address(0);
    const auto number = static_cast<int>(segment->wire_address(0).fd);
    segment.reset();
    for (const bool reused : {false, true}) {
        if (reused) {
            ASSERT_EQ(dup2(STDIN_FILENO, number), number);
        }
        in_child(enter_user_space, [&] {
            std::shared_ptr<PeerSegment> peer;
            return PeerSegment::open(old, 99, peer) == Status::error(Reason::peer_gone);
        });
    }
    close(number);
}

// -------------------------------------------------------------------------------------------------
// Prediction from addresses

struct Pair {
    Visibility a;
    Visibility b;
    bool open;
    const char* why;
};

TEST(Visible, BothEndsComeToTheSameResult) {
    constexpr std::uint32_t kBoth = kWayProc | kWayServer;
    const std::vector<Pair> pairs = {
        {{1, 1, 5, kBoth}, {1, 1, 6, kBoth}, true, ""},
        {{1, 1, 5, kBoth}, {2, 1, 6, kBoth}, true, ""}, // rootless containers
        {{1, 1, 5, kWayServer}, {1, 1, 6, kBoth}, true, ""},
        {{1, 1, 0, kWayProc}, {1, 2, 6, kBoth}, true, ""},
        {{0, 1, 0, kWayProc}, {2, 1, 6, kWayProc}, true, ""}, // unknown: the peers try it
        {{1, 1, 5, kBoth, 7}, {2, 1, 6, kBoth, 7}, true, ""},
        {{1, 1, 5, kBoth, 7}, {1, 1, 6, kBoth, 0}, true, ""}, // a container on the machine
        {{1, 1, 5, kBoth, 7}, {1, 1, 6, kBoth, 8}, false, "one boot id"},
        {{1, 0, 5, kBoth}, {2, 1, 6, kBoth}, false, "different network namespaces"},
        {{1, 1, 5, kBoth}, {2, 2, 6, kBoth}, false, "different network namespaces"},
        {{1, 1, 5, kBoth}, {2, 1, 0, kWayProc}, false, "has no Unix socket"},
        {{1, 1, 5, kBoth}, {2, 2, 6, kBoth}, false, "different user namespaces"},
        {{1, 1, 5, 0}, {1, 1, 0, kWayProc}, false, "not dumpable"},
        {{1, 1, 5, kWayServer}, {1, 2, 0, kBoth}, false, "not dumpable"},
    };
    for (const Pair& each : pairs) {
        EXPECT_EQ(can_open_each_other(each.a, each.b), each.open);
        EXPECT_EQ(can_open_each_other(each.b, each.a), each.open);
        if (!each.open) {
            EXPECT_NE(why_not_open(each.a, each.b).find(each.why), std::string::npos)
                << why_not_open(each.a, each.b);
            EXPECT_NE(why_not_open(each.b, each.a).find(each.why), std::string::npos);
        }
    }
}

TEST(Visible, MachinesHaveTheirNames) {
    constexpr std::uint32_t kMachine = 0xefff'fffe;
    EXPECT_NE(machine_number(kMachine, "a"), 0u);
    EXPECT_NE(machine_number(kMachine, "a"), machine_number(kMachine, "b"));
    EXPECT_EQ(machine_number(kMachine, "a"), machine_number(kMachine, "a"));
    EXPECT_EQ(machine_number(kMachine + 1, "a"), 0u) << "a container";
    in_child([] { return unshare(CLONE_NEWUTS) == 0; },
             [] { return own_visibility().machine == 0; });
}

TEST(Visible, AProcessKnowsWhereItStands) {
    const Visibility here = own_visibility();
    EXPECT_NE(here.user_space, 0u);
    EXPECT_NE(here.network, 0u);
    EXPECT_EQ(here.ways, kWayProc);
    in_child(enter_user_space, [&] {
        const Visibility there = own_visibility();
        return there.user_space != here.user_space && there.network == here.network;
    });
}

TEST(Visible, TheAddressSaysIt) {
    for (const bool server : {true, false}) {
        const auto segment = create(server);
        const WireAddress wire = segment->wire_address(0);
        EXPECT_EQ(wire.visibility.ways, kWayProc | (server ? kWayServer : 0u));
        EXPECT_EQ(wire.visibility.user_space, own_visibility().user_space);
        EXPECT_EQ(wire.visibility.server != 0, server);
    }
}

// A process that cannot ask a descriptor server offers none, so both ends of a pair know that
// this way is closed.
TEST(Visible, WhoCannotAskOthersIsNotAskedEither) {
    in_child([] { return take_away(SYS_socketpair, EPERM); },
             [] { return create()->wire_address(0).visibility.ways == kWayProc; });
    in_child([] { return take_away(SYS_bind, EACCES); },
             [] { return create()->wire_address(0).visibility.ways == kWayProc; });
}

} // namespace
} // namespace adaptib::shm
