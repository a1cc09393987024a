// SPDX-License-Identifier: BSD-3-Clause
// Trace: the latest events, with their times; and their JSON for viewers of timelines.
#include "stats/trace.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "adaptib_config.h"
#include "base/process_name.h"
#include "base/text_file.h"
#include "stats/trace_json.h"

namespace adaptib {
namespace {

using std::chrono::microseconds;

constexpr std::uint64_t kPeer = (std::uint64_t{1} << 32u) + 5;
constexpr std::uint64_t kSelf = (std::uint64_t{1} << 32u) + 2;

TEST(Trace, KeepsTheLatestEvents) {
    ManualClock clock;
    Trace trace(clock, 4, TraceStamps::clock);
    EXPECT_EQ(trace.size(), 0u);
    for (std::uint64_t i = 0; i < 10; ++i) {
        clock.advance(Nanoseconds{100});
        trace.note(TraceKind::message_sent, {.peer = kPeer, .value = i});
        EXPECT_EQ(trace.size(), std::min<std::size_t>(i + 1, 4));
        EXPECT_EQ(trace.lost(), i < 4 ? 0 : i - 3);
        EXPECT_EQ(trace.at(trace.size() - 1).subject.value, i);
    }
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(trace.at(i).subject.value, 6 + i);
        EXPECT_EQ(trace.time(trace.at(i), trace.now()), Nanoseconds{700 + 100 * int(i)});
    }
}

TEST(Trace, NothingIsNotedWithoutOne) {
    note_event(nullptr, TraceKind::peer_lost, {});
    ManualClock clock;
    Trace trace(clock, 1, TraceStamps::clock);
    note_event(&trace, TraceKind::peer_lost, {.peer = kPeer});
    EXPECT_EQ(trace.size(), 1u);
}

// The times of events lie between those of the clock around them, whatever the stamps count.
TEST(Trace, TicksBecomeTimesOfTheClock) {
    const MonotonicClock clock;
    Trace trace(clock, 100, TraceStamps::ticks);
    std::vector<Nanoseconds> around{clock.now()};
    for (int i = 0; i < 20; ++i) {
        trace.note(TraceKind::connected, {});
        around.push_back(clock.now());
        std::this_thread::sleep_for(microseconds{500});
    }
    const Trace::Moment later = trace.now();
    constexpr Nanoseconds kInexact{100'000}; // some rounding, and a disturbance of the ends
    for (std::size_t i = 0; i < 20; ++i) {
        const Nanoseconds time = trace.time(trace.at(i), later);
        EXPECT_GE(time, around[i] - kInexact) << i;
        EXPECT_LE(time, around[i + 1] + kInexact) << i;
    }
}

class TraceJson : public testing::Test {
protected:
    std::string text(std::size_t endpoints = 1) {
        TraceOfProcess process{kSelf, "host\"1", Nanoseconds{1000}, 77, {}};
        for (std::size_t i = 0; i < endpoints; ++i) {
            process.endpoints.push_back({i, &trace_, {"left", "right"}});
        }
        std::string all;
        write_trace_json({&process, 1}, [&](const std::string& piece) { all += piece; });
        return all;
    }
    void note(TraceKind kind, const TraceSubject& subject) {
        clock_.advance(microseconds{2});
        trace_.note(kind, subject);
    }
    std::size_t count(const std::string& all, const std::string& part) {
        std::size_t found = 0;
        for (std::size_t at = all.find(part); at != std::string::npos;
             at = all.find(part, at + 1)) {
            ++found;
        }
        return found;
    }

    ManualClock clock_;
    Trace trace_{clock_, 8, TraceStamps::clock};
};

TEST_F(TraceJson, OneTrackForEachPeerAndRail) {
    note(TraceKind::message_sent, {.peer = kPeer, .value = 64});
    note(TraceKind::stripe, {.peer = kPeer, .id = 9, .value = 4096, .rail = 1});
    note(TraceKind::stripe_end, {.peer = kPeer, .id = 9, .value = 4096, .rail = 1});
    note(TraceKind::path_failed, {.peer = kPeer, .rail = 1});
    const std::string peer = R"("pid":2,"tid":1,"args":{)";
    const std::string rail = R"("pid":2,"tid":2,"args":{)";
    const std::string stripe =
        R"("cat":"stripe","name":"stripe rail right","id2":{"local":"0x9"},)";
    EXPECT_EQ(text(),
              R"({"displayTimeUnit":"ns","otherData":{"schema":"adaptib-trace","version":1,)"
              R"("adaptib":")" ADAPTIB_VERSION
              R"(","started_ns":77,"events_lost":0},"traceEvents":[
{"ph":"M","name":"process_name","pid":2,"tid":0,"args":{"name":"rank 2 on host\"1"}},
{"ph":"M","name":"thread_name",)" +
                  peer + R"("name":"with rank 5"}},
{"ph":"i","s":"t","name":"message sent","ts":1.000,)" +
                  peer + R"("bytes":64}},
{"ph":"M","name":"thread_name",)" +
                  rail + R"("name":"rail right"}},
{"ph":"b",)" + stripe +
                  "\"ts\":3.000," + rail + R"("peer":"rank 5","bytes":4096}},
{"ph":"e",)" + stripe +
                  "\"ts\":5.000," + rail + R"("peer":"rank 5","bytes":4096}},
{"ph":"i","s":"t","name":"path failed","ts":7.000,)" +
                  rail + R"("peer":"rank 5"}}
]}
)");
}

TEST_F(TraceJson, AnEndWhoseBeginIsLostIsLeftOut) {
    note(TraceKind::long_send, {.peer = kPeer, .id = 1});
    note(TraceKind::repair, {.peer = kPeer, .id = 1});
    for (int i = 0; i < 5; ++i) {
        note(TraceKind::connected, {.peer = kPeer});
    }
    note(TraceKind::repair, {.peer = kPeer, .id = 1}); // goes on: it has begun once
    note(TraceKind::repair_end, {.peer = kPeer, .id = 1});
    const std::string kept = text();
    EXPECT_EQ(count(kept, "\"ph\":\"b\""), 1u) << kept;
    EXPECT_EQ(count(kept, "\"ph\":\"e\""), 1u) << kept;
    note(TraceKind::long_send_end, {.peer = kPeer, .id = 1});
    const std::string lost = text();
    EXPECT_EQ(count(lost, "long send"), 0u) << lost;
    EXPECT_EQ(count(lost, "\"events_lost\":2"), 1u) << lost;
}

TEST_F(TraceJson, WhatHasBegunHasBegunAtItsEndpoint) {
    note(TraceKind::repair, {.peer = kPeer, .id = 1});
    const std::string all = text(2);
    EXPECT_EQ(count(all, "\"ph\":\"b\""), 2u) << all;
}

TEST_F(TraceJson, ARailBehindTheLastIsNone) {
    note(TraceKind::path_up, {.peer = kPeer, .rail = 2});
    EXPECT_EQ(count(text(), "\"no rail\""), 1u) << text();
}

TEST_F(TraceJson, EndpointsHaveTracksOfTheirOwn) {
    note(TraceKind::connected, {.peer = endpoint_name(kPeer, 3)});
    note(TraceKind::path_up, {.peer = kPeer}); // of no rail that is known
    const std::string all = text(2);
    for (const std::string part :
         {"\"with rank 5 (endpoint 3) of endpoint 0\"",
          "\"with rank 5 (endpoint 3) of endpoint 1\"", "\"no rail of endpoint 1\"", "\"tid\":4"}) {
        EXPECT_EQ(count(all, part) > 0, true) << part << all;
    }
    EXPECT_EQ(count(all, "process_name"), 1u);
}

TEST_F(TraceJson, AFileThatCannotBeWrittenIsTold) {
    EXPECT_FALSE(write_trace_file("/no/such/directory/trace.json", {}));
    EXPECT_EQ(errno, ENOENT);
}

// A stranger may have made the name, in a directory of many users.
TEST_F(TraceJson, AFileReplacesALinkAndAPipe) {
    const std::string path = testing::TempDir() + "trace-" + std::to_string(getpid()) + ".json";
    const std::string other = path + ".other";
    const auto content = [](const std::string& of) {
        std::ifstream file(of);
        return std::string{std::istreambuf_iterator<char>(file), {}};
    };
    ASSERT_TRUE(write_text_file(other, "kept"));
    ASSERT_EQ(symlink(other.c_str(), path.c_str()), 0);
    EXPECT_TRUE(write_text_file(path, "new"));
    EXPECT_EQ(content(path), "new");
    EXPECT_TRUE(write_trace_file(path, {}));
    EXPECT_NE(content(path), "new");
    unlink(path.c_str());
    ASSERT_EQ(symlink(other.c_str(), path.c_str()), 0);
    EXPECT_TRUE(write_trace_file(path, {}));
    EXPECT_EQ(content(other), "kept");
    unlink(path.c_str());
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_TRUE(write_text_file(path, "new"));
    EXPECT_EQ(content(path), "new");
    unlink(path.c_str());
    unlink(other.c_str());
}

TEST_F(TraceJson, AFileIsNotMadeLargerThanTheLimit) { // the system would end the process
    const std::string path = testing::TempDir() + "trace-" + std::to_string(getpid()) + ".json";
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    rlimit small = before;
    small.rlim_cur = 64;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    errno = 0;
    const bool trace = write_trace_file(path, {});
    const int refusal = errno;
    errno = 0;
    const bool text = write_text_file(path, std::string(65, 'x'));
    const int text_refusal = errno;
    const bool fits = write_text_file(path, std::string(64, 'x'));
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_FALSE(trace);
    EXPECT_EQ(refusal, EFBIG);
    EXPECT_FALSE(text);
    EXPECT_EQ(text_refusal, EFBIG);
    EXPECT_TRUE(fits);
    unlink(path.c_str());
}

} // namespace
} // namespace adaptib
