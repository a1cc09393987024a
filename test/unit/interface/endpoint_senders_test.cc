// SPDX-License-Identifier: BSD-3-Clause
// Senders of active messages and lost processes at endpoints that only receive: the data attached
// to a process is found at each of them.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common_adaptib_active.h"
#include "unit/interface/endpoints.h"

namespace adaptib::test {
namespace {

// Numbers of endpoints: of this process, and of the other one.
struct Numbers {
    int mine;
    std::uint32_t theirs;
};

class Senders : public Endpoints, public testing::WithParamInterface<Numbers> {
protected:
    struct Listener {
        opal_common_adaptib_core_t* endpoint = nullptr;
        std::vector<void*> senders; // the data of each message's sender
        std::vector<void*> lost;    // the data of each lost peer
    };

    void SetUp() override {
        begin(GetParam().mine, GetParam().theirs);
        listeners_.resize(static_cast<std::size_t>(GetParam().mine));
        for (std::uint32_t mine = 0; mine < listeners_.size(); ++mine) {
            Listener& listener = listeners_[mine];
            listener.endpoint = endpoint(mine);
            opal_common_adaptib_active_listen(
                endpoint(mine),
                [](void* context, opal_common_adaptib_peer_t* from, std::uint8_t, const void*,
                   std::size_t) {
                    auto* at = static_cast<Listener*>(context);
                    at->senders.push_back(opal_common_adaptib_peer_user_data(at->endpoint, from));
                },
                &listener);
            opal_common_adaptib_broken_listen(
                endpoint(mine),
                [](void* context, opal_common_adaptib_peer_t* peer) {
                    auto* at = static_cast<Listener*>(context);
                    at->lost.push_back(opal_common_adaptib_peer_user_data(at->endpoint, peer));
                },
                &listener);
        }
    }
    void TearDown() override {
        for (Listener& listener : listeners_) {
            opal_common_adaptib_active_listen(listener.endpoint, nullptr, nullptr);
            opal_common_adaptib_broken_listen(listener.endpoint, nullptr, nullptr);
        }
        Endpoints::TearDown();
    }
    // Sends an active message from each endpoint of the other process to each of this one.
    void send_to_all() {
        for (std::uint32_t theirs = 0; theirs < GetParam().theirs; ++theirs) {
            for (std::uint32_t mine = 0; mine < listeners_.size(); ++mine) {
                send(theirs, mine);
            }
        }
    }
    // Returns the same data as often as a listener should have it, once per endpoint of the sender.
    static std::vector<void*> once_per_endpoint(void* what) {
        return std::vector<void*>(GetParam().theirs, what);
    }

    int data_ = 0;
    std::vector<Listener> listeners_;

private:
    void send(std::uint32_t theirs, std::uint32_t mine) {
        const std::size_t before = listeners_[mine].senders.size();
        Core& core = others_->core(theirs);
        Peer* here = nullptr;
        ASSERT_TRUE(core.peers().get(endpoint_name(kSelf, mine), here).ok());
        int word = 5;
        TestRequest request;
        bool complete = false;
        ASSERT_TRUE(core.protocol()
                        .active()
                        .send(*here, 7, contiguous(&word, sizeof word), request.user, complete)
                        .ok());
        ASSERT_TRUE(run_both([&] {
            others_->clock.advance(std::chrono::microseconds{10}); // looks for the endpoint again
            return (complete || request.done) && listeners_[mine].senders.size() > before;
        }));
    }
};

TEST_P(Senders, OfFirstMessagesHaveTheDataOfTheirProcess) {
    opal_common_adaptib_process_set_user_data(core_, kOther, &data_);
    send_to_all();
    for (const Listener& listener : listeners_) {
        EXPECT_EQ(listener.senders, once_per_endpoint(&data_));
    }
}

TEST_P(Senders, ThatWereKnownBeforeGetItToo) {
    send_to_all();
    int next = 0;
    for (void* what :
         {static_cast<void*>(&data_), static_cast<void*>(&next), static_cast<void*>(nullptr)}) {
        for (Listener& listener : listeners_) {
            listener.senders.clear();
        }
        opal_common_adaptib_process_set_user_data(core_, kOther, what);
        send_to_all();
        for (const Listener& listener : listeners_) {
            EXPECT_EQ(listener.senders, once_per_endpoint(what));
        }
    }
}

// Nothing of this process names the other one, and no operation is under way.
TEST_P(Senders, WhoseConnectionsBreakAreReportedWithTheDataOfTheirProcess) {
    opal_common_adaptib_process_set_user_data(core_, kOther, &data_);
    send_to_all();
    for (const Listener& listener : listeners_) {
        for (std::uint32_t theirs = 0; theirs < GetParam().theirs; ++theirs) {
            Peer* peer = listener.endpoint->core->peers().find(endpoint_name(kOther, theirs));
            ASSERT_NE(peer, nullptr);
            listener.endpoint->protocol->lost().lose(*peer, "the test says so");
        }
    }
    ASSERT_TRUE(run([&] {
        return std::all_of(listeners_.begin(), listeners_.end(), [](const Listener& each) {
            return each.lost.size() == GetParam().theirs;
        });
    }));
    for (const Listener& listener : listeners_) {
        EXPECT_EQ(listener.lost, once_per_endpoint(&data_));
    }
    messages_.clear();
}

INSTANTIATE_TEST_SUITE_P(Numbers, Senders,
                         testing::Values(Numbers{1, 1}, Numbers{4, 1}, Numbers{1, 4}, Numbers{4, 2},
                                         Numbers{2, 4}),
                         [](const auto& info) {
                             return std::to_string(info.param.mine) + "Beside" +
                                    std::to_string(info.param.theirs);
                         });

} // namespace
} // namespace adaptib::test
