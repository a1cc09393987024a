// SPDX-License-Identifier: BSD-3-Clause
// The life of a process's core: acquiring, sharing and releasing it, alone; parameters that are
// refused; what is written at the end.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "common_adaptib_two_sided.h"
#include "interface/handle.h"
#include "unit/interface/process_core.h"

namespace adaptib::test {
namespace {

class CoreLife : public ProcessCore {
protected:
    // Counts the messages that the process sent to itself, as a component reads it.
    static std::uint64_t self_sent() {
        std::size_t count = 0;
        const auto* table = opal_common_adaptib_counters(&count);
        for (std::size_t i = 0; i < count; ++i) {
            if (std::string_view(table[i].name) == "self_sent") {
                return *table[i].value;
            }
        }
        ADD_FAILURE() << "no such counter";
        return 0;
    }
    int send_to_self() {
        const opal_common_adaptib_envelope_t envelope{0, 0, 1};
        int word = 1;
        const auto data = data_of(&word, sizeof word);
        Request request;
        return opal_common_adaptib_send(core_, self(), &envelope, &data,
                                        OPAL_COMMON_ADAPTIB_MODE_STANDARD,
                                        OPAL_COMMON_ADAPTIB_BLOCKING, &request.user);
    }
};

TEST_F(CoreLife, AlwaysBeginsAnew) {
    for (int life = 0; life < 3; ++life) {
        ASSERT_EQ(acquire(), OPAL_COMMON_ADAPTIB_SUCCESS);
        EXPECT_EQ(opal_common_adaptib_progress(core_), 0);
        release();
    }
    EXPECT_TRUE(messages_.empty());
}

TEST_F(CoreLife, TheAddressStaysWhereItIs) {
    ASSERT_EQ(acquire(), OPAL_COMMON_ADAPTIB_SUCCESS);
    std::size_t size = 0;
    const void* address = opal_common_adaptib_core_address(core_, &size);
    ASSERT_NE(address, nullptr);
    EXPECT_GT(size, 0u);
    EXPECT_EQ(send_to_self(), OPAL_COMMON_ADAPTIB_COMPLETE);
    opal_common_adaptib_progress(core_);
    std::size_t again = 0;
    EXPECT_EQ(opal_common_adaptib_core_address(core_, &again), address);
    EXPECT_EQ(again, size);
}

TEST_F(CoreLife, TheSecondComponentSharesTheCore) {
    ASSERT_EQ(acquire(), OPAL_COMMON_ADAPTIB_SUCCESS);
    opal_common_adaptib_environment_t other{}; // nothing of it is used
    opal_common_adaptib_core_t* same = nullptr;
    ASSERT_EQ(opal_common_adaptib_core_acquire(&other, &same), OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(same, core_);
    opal_common_adaptib_core_release(same);
    EXPECT_EQ(send_to_self(), OPAL_COMMON_ADAPTIB_COMPLETE) << "the first one still has it";
}

// Threads may begin with the second component.
TEST_F(CoreLife, TheSecondComponentMayBringThreads) {
    ASSERT_EQ(acquire(), OPAL_COMMON_ADAPTIB_SUCCESS);
    static const bool several = true;
    opal_common_adaptib_environment_t other{};
    other.threads = &several;
    opal_common_adaptib_core_t* same = nullptr;
    ASSERT_EQ(opal_common_adaptib_core_acquire(&other, &same), OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(core_->threads, &several) << "calls take the lock";
    opal_common_adaptib_core_release(same);
    EXPECT_EQ(send_to_self(), OPAL_COMMON_ADAPTIB_COMPLETE);
    EXPECT_EQ(opal_common_adaptib_progress(core_), 0);
}

TEST_F(CoreLife, CountersCount) {
    ASSERT_EQ(acquire(), OPAL_COMMON_ADAPTIB_SUCCESS);
    const std::uint64_t before = self_sent();
    EXPECT_EQ(send_to_self(), OPAL_COMMON_ADAPTIB_COMPLETE);
    EXPECT_EQ(send_to_self(), OPAL_COMMON_ADAPTIB_COMPLETE);
    EXPECT_EQ(self_sent(), before + 2);
}

TEST_F(CoreLife, RefusedParametersAreReportedAndMakeNoCore) {
    process_parameters().shm_rails = 9;
    EXPECT_EQ(acquire(), OPAL_COMMON_ADAPTIB_BAD_PARAM);
    EXPECT_EQ(core_, nullptr);
    expect_message(OPAL_COMMON_ADAPTIB_FAILURE, {"opal_common_adaptib_shm_rails", "9"});
    process_parameters().shm_rails = 2;
    EXPECT_EQ(acquire(), OPAL_COMMON_ADAPTIB_SUCCESS) << "the next try counts for itself";
}

TEST_F(CoreLife, WithoutTheFabricThatWasAskedForThereIsNoCore) {
    set_text(process_parameters().fabric, "verbs");
    set_text(process_parameters().devices.include, "no_such_device0");
    EXPECT_LT(acquire(), 0);
    EXPECT_EQ(core_, nullptr);
    expect_message(OPAL_COMMON_ADAPTIB_FAILURE,
                   {"The RDMA devices of host testhost cannot be used: "});
}

TEST_F(CoreLife, AMapOfSourcesThatCannotBeWrittenIsRefused) {
    set_text(process_parameters().source_map, "/no-such-folder/map");
    EXPECT_EQ(acquire(), OPAL_COMMON_ADAPTIB_BAD_PARAM);
    EXPECT_EQ(core_, nullptr);
    expect_message(OPAL_COMMON_ADAPTIB_FAILURE,
                   {"opal_common_adaptib_source_map", "/no-such-folder/map.7.90 cannot be written",
                    "No such file or directory"});
}

// Its name ends in the job's number, if it is not the first job, and the rank.
TEST_F(CoreLife, TheMapOfSourcesIsWrittenAtTheEnd) {
    const std::string path = testing::TempDir() + "adaptib_map_" + std::to_string(getpid());
    const std::pair<std::uint64_t, std::string> processes[] = {
        {kSelf, path + ".7.90"}, {std::uint64_t{1} << 32 | 3, path + ".3"}};
    set_text(process_parameters().source_map, path.c_str());
    for (const auto& [name, file] : processes) {
        environment_.self = name;
        ASSERT_EQ(acquire(), OPAL_COMMON_ADAPTIB_SUCCESS);
        release();
        std::ifstream map(file);
        const std::string text{std::istreambuf_iterator<char>(map), {}};
        EXPECT_FALSE(text.empty()) << file;
        EXPECT_EQ(std::remove(file.c_str()), 0);
    }
    EXPECT_TRUE(messages_.empty());
}

TEST_F(CoreLife, TheMapOfSourcesReplacesALink) {
    const std::string path = testing::TempDir() + "adaptib_map_" + std::to_string(getpid());
    const std::string other = path + ".other";
    const std::string map = path + ".7.90";
    std::ofstream(other) << "kept";
    ASSERT_EQ(symlink(other.c_str(), map.c_str()), 0);
    set_text(process_parameters().source_map, path.c_str());
    ASSERT_EQ(acquire(), OPAL_COMMON_ADAPTIB_SUCCESS);
    release();
    EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(map)));
    std::ifstream file(other);
    EXPECT_EQ((std::string{std::istreambuf_iterator<char>(file), {}}), "kept");
    EXPECT_EQ(std::remove(map.c_str()), 0);
    EXPECT_EQ(std::remove(other.c_str()), 0);
}

TEST_F(CoreLife, TheLastReleaseWritesTheReport) {
    set_text(process_parameters().report, "ranks");
    ASSERT_EQ(acquire(), OPAL_COMMON_ADAPTIB_SUCCESS);
    opal_common_adaptib_core_t* same = nullptr;
    ASSERT_EQ(opal_common_adaptib_core_acquire(&environment_, &same), OPAL_COMMON_ADAPTIB_SUCCESS);
    opal_common_adaptib_core_release(same);
    EXPECT_TRUE(messages_.empty());
    release();
    expect_message(OPAL_COMMON_ADAPTIB_REPORT, {"testhost"});
}

// A receive that nothing answers is dropped, and its memory may go away.
TEST_F(CoreLife, QuiescedMessagesLeaveTheCoreToOthers) {
    ASSERT_EQ(acquire(), OPAL_COMMON_ADAPTIB_SUCCESS);
    auto request = std::make_unique<Request>();
    auto room = std::make_unique<int>();
    ASSERT_EQ(opal_common_adaptib_recv_contig(core_, nullptr, 0, 0, 5, room.get(), sizeof(int),
                                              &request->user),
              OPAL_COMMON_ADAPTIB_SUCCESS);
    opal_common_adaptib_quiesce_messages(core_);
    EXPECT_EQ(request->reported, 0);
    request.reset();
    room.reset();
    EXPECT_EQ(opal_common_adaptib_progress(core_), 0);
    EXPECT_TRUE(messages_.empty());
}

TEST_F(CoreLife, RailsHaveNames) {
    ASSERT_EQ(acquire(), OPAL_COMMON_ADAPTIB_SUCCESS);
    char name[64] = "";
    EXPECT_TRUE(opal_common_adaptib_rail_name(core_, 0, name, sizeof name));
    EXPECT_STREQ(name, "shm0");
    EXPECT_TRUE(opal_common_adaptib_rail_name(core_, 0, name, 3));
    EXPECT_STREQ(name, "sh");
    EXPECT_FALSE(opal_common_adaptib_rail_name(core_, 99, name, sizeof name));
}

// The user's function may call adaptib.
TEST_F(CoreLife, MessagesToTheUserComeWithoutTheLock) {
    static const bool several = true;
    static opal_common_adaptib_core_t* core = nullptr;
    static int heard = 0;
    static bool is_free = false;
    environment_.threads = &several;
    environment_.message = [](void*, opal_common_adaptib_severity_t, const char*) {
        ++heard;
        std::thread([] {
            is_free = core->lock.try_lock();
            if (is_free) {
                core->lock.unlock();
            }
        }).join();
    };
    process_parameters().endpoints = 1;
    ASSERT_EQ(acquire(), OPAL_COMMON_ADAPTIB_SUCCESS);
    core = core_;
    heard = 0;
    {
        const Guard guard(core_);
        Peer* peer = nullptr;
        ASSERT_TRUE(core_->core->peers().get_loopback(peer).ok());
        core_->core->lost().lose(*peer, "a test says so");
        core_->core->lost().report(*peer);
        EXPECT_EQ(heard, 0);
    }
    EXPECT_EQ(heard, 1);
    EXPECT_TRUE(is_free);
}

TEST_F(CoreLife, HintsAboutWhatItDoesNotKnowDoNoHarm) {
    ASSERT_EQ(acquire(), OPAL_COMMON_ADAPTIB_SUCCESS);
    int word = 0;
    opal_common_adaptib_memory_released(core_, &word, sizeof word);
    opal_common_adaptib_memory_released(core_, nullptr, 0);
    opal_common_adaptib_memory_released(core_, nullptr, std::numeric_limits<std::size_t>::max());
    opal_common_adaptib_process_ended(core_, kSelf + 1);
    opal_common_adaptib_process_ended(core_, 0);
    opal_common_adaptib_connect_start(core_, 0, 1);
    opal_common_adaptib_connect_start(core_, 5, 0);
    for (int pass = 0; pass < 1000; ++pass) {
        opal_common_adaptib_progress(core_);
    }
    EXPECT_EQ(send_to_self(), OPAL_COMMON_ADAPTIB_COMPLETE);
    EXPECT_TRUE(messages_.empty());
}

} // namespace
} // namespace adaptib::test
