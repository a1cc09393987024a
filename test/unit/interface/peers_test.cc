// SPDX-License-Identifier: BSD-3-Clause
// Peers through the C interface: who can be reached and who cannot, data attached to a peer, and
// processes that end.
#include <string>
#include <vector>

#include "common_adaptib_two_sided.h"
#include "unit/interface/other_process.h"

namespace adaptib::test {
namespace {

class Peers : public TwoProcesses {
protected:
    using Getter = decltype(&opal_common_adaptib_peer_get);

    // Expects a refusal that leaves the output alone.
    void expect_unreachable(std::uint64_t name, Getter getter = opal_common_adaptib_peer_get) {
        int mark = 0;
        auto* const before = reinterpret_cast<opal_common_adaptib_peer_t*>(&mark);
        opal_common_adaptib_peer_t* peer = before;
        EXPECT_EQ(getter(core_, name, &peer), kUnreachable);
        EXPECT_EQ(peer, before);
    }
    int send(opal_common_adaptib_peer_t* peer, std::int32_t tag, int& word, Request& request) {
        const opal_common_adaptib_envelope_t envelope{0, 90, tag};
        const auto data = data_of(&word, sizeof word);
        return opal_common_adaptib_send(core_, peer, &envelope, &data,
                                        OPAL_COMMON_ADAPTIB_MODE_STANDARD,
                                        OPAL_COMMON_ADAPTIB_BLOCKING, &request.user);
    }
    int receive(opal_common_adaptib_peer_t* peer, std::int32_t tag, int& word, Request& request) {
        return opal_common_adaptib_recv_contig(core_, peer, 0, 0, tag, &word, sizeof word,
                                               &request.user);
    }
    // Sends a word to the other process and receives its answer.
    void exchange(opal_common_adaptib_peer_t* peer, int word) {
        int there = 0;
        int back = 0;
        TestRequest received;
        TestRequest answered;
        Request sent;
        Request answer;
        ASSERT_TRUE(others_->receive(0, 90, 1, contiguous(&there, sizeof there), received).ok());
        ASSERT_EQ(receive(peer, 2, back, answer), kSuccess);
        const int code = send(peer, 1, word, sent);
        ASSERT_TRUE(code == kComplete || code == kSuccess);
        ASSERT_TRUE(run_both([&] { return received.done; }));
        EXPECT_EQ(there, word);
        Peer* self_there = nullptr;
        ASSERT_TRUE(other_core().peers().get(kSelf, self_there).ok());
        bool complete = false;
        ASSERT_TRUE(other_core()
                        .protocol()
                        .sends()
                        .send(self_there, {0, 0, 2}, contiguous(&there, sizeof there), false,
                              OpKind::blocking, answered.user, complete)
                        .ok());
        ASSERT_TRUE(run_both([&] {
            return answer.reported > 0 && (complete || answered.done) &&
                   (code == kComplete || sent.reported > 0);
        }));
        EXPECT_EQ(back, word);
        EXPECT_EQ(answer.user.status, kSuccess);
    }
};

TEST_F(Peers, MessagesTravelBothWays) {
    begin();
    opal_common_adaptib_peer_t* peer = other();
    for (int round = 1; round <= 30; ++round) {
        exchange(peer, round);
    }
    EXPECT_EQ(other(), peer) << "one handle";
    EXPECT_TRUE(messages_.empty());
    EXPECT_TRUE(others_->messages(0).empty());
}

TEST_F(Peers, AProcessThatPublishedNothingIsUnreachable) {
    begin();
    expect_unreachable(kOther + 55);
    expect_message(OPAL_COMMON_ADAPTIB_FAILURE,
                   {"Process 55 of job 7 cannot be reached from host testhost",
                    "its published address is missing or malformed"});
    expect_unreachable(kOther + 55, opal_common_adaptib_peer_offer);
    EXPECT_EQ(messages_.size(), 1u);
}

TEST_F(Peers, AMalformedAddressIsUnreachable) {
    begin();
    const std::vector<std::byte> good = published_[kOther];
    std::vector<std::byte> bad[] = {{}, {good.begin(), good.begin() + 1}, good, good};
    bad[2].pop_back();
    bad[3].push_back(std::byte{0});
    for (const auto& each : bad) {
        published_[kOther] = each;
        expect_unreachable(kOther);
        expect_message(OPAL_COMMON_ADAPTIB_FAILURE, {"missing or malformed"});
    }
    published_[kOther + 1] = good;
    expect_unreachable(kOther + 1);
    expect_message(OPAL_COMMON_ADAPTIB_FAILURE, {"Process 1 of job 7"});
    published_[kOther] = good;
    exchange(other(), 5);
}

TEST_F(Peers, AnotherWireVersionIsUnreachableByName) {
    Options options;
    options.wire_versions = {kWireVersion + 1};
    begin(options);
    expect_unreachable(kOther);
    expect_message(OPAL_COMMON_ADAPTIB_FAILURE,
                   {"it speaks wire version " + std::to_string(kWireVersion + 1),
                    "Install the same release of adaptib"});
}

// Processes that no rail reaches: a component without another transport learns of each of them, a
// component that offers them to other transports of the first one.
TEST_F(Peers, OfferedPeersOutOfReachAreNotedOnce) {
    Options options;
    options.hosts = {5, 5};
    options.far = false;
    begin(options, 2);
    for (const std::uint64_t name : {kOther, kOther + 1}) {
        expect_unreachable(name);
        expect_message(OPAL_COMMON_ADAPTIB_FAILURE,
                       {"no rail of one process can talk to a rail of the other"});
    }
    expect_unreachable(kOther, opal_common_adaptib_peer_offer);
    expect_message(OPAL_COMMON_ADAPTIB_NOTICE,
                   {"This process, and others like it, are left to the job's other transports"});
    expect_unreachable(kOther + 1, opal_common_adaptib_peer_offer);
    EXPECT_TRUE(messages_.empty());
}

TEST_F(Peers, DataOfTheUsersIsKeptUntilItIsReplaced) {
    begin();
    opal_common_adaptib_peer_t* peer = other();
    EXPECT_EQ(opal_common_adaptib_peer_user_data(core_, peer), nullptr);
    int mine = 0;
    int next = 0;
    opal_common_adaptib_process_set_user_data(core_, kOther, &mine);
    exchange(peer, 5);
    EXPECT_EQ(opal_common_adaptib_peer_user_data(core_, other()), &mine);
    opal_common_adaptib_process_set_user_data(core_, kOther, &next);
    EXPECT_EQ(opal_common_adaptib_peer_user_data(core_, peer), &next);
    opal_common_adaptib_process_set_user_data(core_, kOther, nullptr);
    EXPECT_EQ(opal_common_adaptib_peer_user_data(core_, peer), nullptr);
    opal_common_adaptib_process_set_user_data(core_, kOther, nullptr);
    EXPECT_EQ(opal_common_adaptib_peer_user_data(core_, peer), nullptr);
}

TEST_F(Peers, DataBelongsToOneProcess) {
    begin({}, 2);
    int mine = 0;
    opal_common_adaptib_process_set_user_data(core_, kOther + 1, &mine);
    EXPECT_EQ(opal_common_adaptib_peer_user_data(core_, other()), nullptr);
    opal_common_adaptib_peer_t* second = nullptr;
    ASSERT_EQ(opal_common_adaptib_peer_get(core_, kOther + 1, &second), kSuccess);
    EXPECT_EQ(opal_common_adaptib_peer_user_data(core_, second), &mine);
}

// The process itself is a peer without a record.
TEST_F(Peers, ThisProcessIsAPeerWithoutData) {
    begin();
    opal_common_adaptib_peer_t* peer = self();
    EXPECT_EQ(self(), peer);
    int mine = 0;
    opal_common_adaptib_process_set_user_data(core_, kSelf, &mine);
    EXPECT_EQ(opal_common_adaptib_peer_user_data(core_, peer), nullptr);
    EXPECT_EQ(opal_common_adaptib_peer_migrate(core_, peer), 0u);
    opal_common_adaptib_peer_release(core_, peer);
    EXPECT_EQ(self(), peer);
}

TEST_F(Peers, NothingMigratesWhereThereAreNoAlternatePaths) {
    begin();
    exchange(other(), 5);
    EXPECT_EQ(opal_common_adaptib_peer_migrate(core_, other()), 0u);
}

TEST_F(Peers, APeerMayBeReleasedAndGotAgain) {
    begin();
    for (int life = 1; life <= 3; ++life) {
        opal_common_adaptib_peer_t* peer = other();
        for (int round = 0; round < 20; ++round) {
            exchange(peer, life * 100 + round);
        }
        opal_common_adaptib_peer_release(core_, peer);
    }
    EXPECT_TRUE(messages_.empty());
}

// The runtime has told that the process has ended: all that waits for it ends, its listener is
// called once, and one message says why.
TEST_F(Peers, WhatWaitsForAProcessThatEndedEndsWithAnError) {
    begin();
    struct Loss {
        int calls = 0;
        opal_common_adaptib_peer_t* peer = nullptr;
    } loss;
    opal_common_adaptib_broken_listen(
        core_,
        [](void* context, opal_common_adaptib_peer_t* peer) {
            auto* at = static_cast<Loss*>(context);
            ++at->calls;
            at->peer = peer;
        },
        &loss);
    opal_common_adaptib_peer_t* peer = other();
    exchange(peer, 5);
    int word = 0;
    Request waiting;
    Request any;
    waiting.user.source = 0x5a5a;
    waiting.user.tag = 0x5a5a;
    ASSERT_EQ(receive(peer, 7, word, waiting), kSuccess);
    ASSERT_EQ(receive(nullptr, 8, word, any), kSuccess);
    others_->end(0);
    opal_common_adaptib_process_ended(core_, kOther);
    ASSERT_TRUE(run([&] { return waiting.reported > 0 && loss.calls > 0; }));
    EXPECT_EQ(waiting.user.status, kUnreachable);
    EXPECT_EQ(waiting.user.source, 0);
    EXPECT_EQ(waiting.user.tag, 7);
    EXPECT_EQ(any.reported, 0) << "another process may send it";
    EXPECT_EQ(loss.peer, peer);
    expect_message(OPAL_COMMON_ADAPTIB_FAILURE,
                   {"The connection to process 0 on host testhost is broken"});

    // Nothing that is started afterwards gets further.
    Request late;
    EXPECT_EQ(send(peer, 1, word, late), kUnreachable);
    EXPECT_EQ(receive(peer, 1, word, late), kUnreachable);
    const opal_common_adaptib_envelope_t envelope{0, 0, 1};
    opal_common_adaptib_probe_t found{};
    EXPECT_EQ(opal_common_adaptib_probe(core_, peer, &envelope, &found), kUnreachable);
    opal_common_adaptib_message_t* message = nullptr;
    EXPECT_EQ(opal_common_adaptib_matched_probe(core_, peer, &envelope, &found, &message),
              kUnreachable);
    EXPECT_EQ(opal_common_adaptib_probe(core_, nullptr, &envelope, &found),
              OPAL_COMMON_ADAPTIB_NOT_FOUND);
    EXPECT_EQ(opal_common_adaptib_try_send(core_, peer, 0, 90, 1, &word, sizeof word),
              OPAL_COMMON_ADAPTIB_AGAIN);
    for (int pass = 0; pass < 1000; ++pass) {
        opal_common_adaptib_progress(core_);
    }
    EXPECT_EQ(loss.calls, 1);
    EXPECT_EQ(late.reported, 0);
    EXPECT_EQ(opal_common_adaptib_cancel(core_, &any.user), kSuccess);
}

// Messages that a process had sent before it ended are received first.
TEST_F(Peers, TheLastMessageOfAProcessThatEndedIsReceived) {
    begin();
    opal_common_adaptib_peer_t* peer = other();
    exchange(peer, 5);
    int last = 77;
    int got = 0;
    TestRequest sent;
    bool complete = false;
    Peer* self_there = nullptr;
    ASSERT_TRUE(other_core().peers().get(kSelf, self_there).ok());
    ASSERT_TRUE(other_core()
                    .protocol()
                    .sends()
                    .send(self_there, {0, 0, 7}, contiguous(&last, sizeof last), false,
                          OpKind::blocking, sent.user, complete)
                    .ok());
    ASSERT_TRUE(complete);
    others_->end(0);
    opal_common_adaptib_process_ended(core_, kOther);
    Request received;
    const int code = receive(peer, 7, got, received);
    ASSERT_TRUE(code == kComplete || code == kSuccess);
    ASSERT_TRUE(code == kComplete || run([&] { return received.reported > 0; }));
    EXPECT_EQ(received.user.status, kSuccess);
    EXPECT_EQ(got, 77);
}

} // namespace
} // namespace adaptib::test
