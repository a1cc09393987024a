// SPDX-License-Identifier: BSD-3-Clause
// Conformance: datagrams.
#include <algorithm>
#include <cstring>
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

class Ud : public Fixture {
protected:
    void SetUp() override {
        Fixture::SetUp();
        if (!IsSkipped() && !HasFatalFailure() && !has(Capability::ud)) {
            GTEST_SKIP() << "the rail lacks ud";
        }
    }
    End& ud_end(std::size_t node, EndOptions options = {}, std::uint64_t key = kTestKey) {
        options.type = QpType::ud;
        End& e = end(node, options);
        start_ud(e, key);
        return e;
    }
    SendWork datagram(std::uint64_t wr_id, const std::vector<Gather>& gather,
                      const AddressHandle& to, const End& target, std::uint64_t key = kTestKey) {
        SendWork work = send_work(wr_id, gather);
        work.address_handle = &to;
        work.remote_qp = target.qp->number();
        work.remote_access_key = key;
        return work;
    }
    // Sends until one datagram arrives, since datagrams may get lost.
    bool send_until_received(End& from, const SendWork& work, End& to) {
        const std::size_t before = to.receive->got.size();
        const int attempts = has(Capability::reliable_ud) ? 1 : 50;
        for (int attempt = 0; attempt < attempts; ++attempt) {
            if (run(from, work) != WorkStatus::success) {
                return false;
            }
            if (wait_for(*to.receive, before + 1, has(Capability::reliable_ud) ? kLong : kQuiet)) {
                return true;
            }
        }
        return false;
    }
};
ADAPTIB_CONFORMANCE(Ud);

TEST_P(Ud, DatagramsOfEveryLength) {
    const std::vector<Bytes> lengths = boundary_lengths(info().datagram_bytes);
    const Bytes room = info().datagram_bytes + 64;
    End& a = ud_end(0);
    End& b = ud_end(1);
    AddressHandle& to = handle(0, 1);
    Buffer& source = memory(0, room);
    Buffer& target = memory(1, room);
    for (const Bytes length : lengths) {
        fill(source.data(), length, length);
        std::fill(target.data(), target.data() + room, std::byte{0xee});
        const std::vector<Gather> gather{source.gather(0, length)};
        WorkCompletion done;
        do { // a duplicate of an earlier datagram may take the receive
            ASSERT_EQ(post_receive(b, length, {target.gather(0, info().datagram_bytes)}), kOk);
            ASSERT_TRUE(send_until_received(a, datagram(1, gather, to, b), b)) << length;
            done = b.receive->got.front();
            b.receive->got.clear();
        } while (!has(Capability::reliable_ud) && done.length != length);
        EXPECT_EQ(done.wr_id, length);
        EXPECT_EQ(done.status, WorkStatus::success);
        EXPECT_EQ(done.kind, WorkKind::receive);
        EXPECT_EQ(done.length, length);
        EXPECT_EQ(done.source_qp, a.qp->number());
        EXPECT_EQ(done.qp_number, b.qp->number());
        ASSERT_TRUE(holds(target.data(), length, length));
        ASSERT_TRUE(all_equal(target.data() + length, room - length, std::byte{0xee}));
    }
}

TEST_P(Ud, ImmediateData) {
    End& a = ud_end(0);
    End& b = ud_end(1);
    AddressHandle& to = handle(0, 1);
    Buffer& target = memory(1, info().datagram_bytes);
    ASSERT_EQ(post_receive(b, 1, {target.gather(0, target.size())}), kOk);
    SendWork work = datagram(1, {}, to, b);
    work.opcode = Opcode::send_imm;
    work.immediate = 0xa1b2c3d4;
    ASSERT_TRUE(send_until_received(a, work, b));
    EXPECT_EQ(b.receive->got[0].kind, WorkKind::receive_imm);
    EXPECT_EQ(b.receive->got[0].immediate, 0xa1b2c3d4u);
    EXPECT_EQ(b.receive->got[0].length, 0u);
}

TEST_P(Ud, GatherInlineAndOneQueuePairForManyTargets) {
    EndOptions options;
    options.max_gather = std::min(info().max_gather, 3u);
    options.inline_bytes = std::min<Bytes>(info().inline_bytes, 32);
    const Bytes piece = std::min<Bytes>(info().datagram_bytes / 3, 10);
    End& a = ud_end(0, options);
    Buffer& source = memory(0, 64);
    fill(source.data(), 64, 1);
    std::vector<Gather> gather;
    for (std::uint32_t i = 0; i < options.max_gather; ++i) {
        gather.push_back(source.gather(i * piece, piece));
    }
    for (std::size_t node = 0; node < nodes(); ++node) {
        for (int i = 0; i < 2; ++i) {
            End& b = ud_end(node);
            Buffer& target = memory(node, info().datagram_bytes);
            ASSERT_EQ(post_receive(b, 1, {target.gather(0, target.size())}), kOk);
            SendWork work = datagram(1, gather, handle(0, node), b);
            if (i == 1 && options.inline_bytes >= gather.size() * piece) {
                work.flags |= kInline;
            }
            ASSERT_TRUE(send_until_received(a, work, b)) << "node " << node;
            EXPECT_EQ(b.receive->got[0].length, gather.size() * piece);
            EXPECT_TRUE(holds(target.data(), gather.size() * piece, 1));
        }
    }
}

TEST_P(Ud, WrongKeyIsDroppedInSilence) {
    End& a = ud_end(0);
    End& b = ud_end(1, {}, 0x77);
    AddressHandle& to = handle(0, 1);
    Buffer& source = memory(0, 64);
    Buffer& target = memory(1, info().datagram_bytes);
    ASSERT_EQ(post_receive(b, 5, {target.gather(0, target.size())}), kOk);
    const std::vector<Gather> gather{source.gather(0, 64)};
    for (std::uint64_t i = 0; i < 10; ++i) {
        EXPECT_EQ(run(a, datagram(i, gather, to, b, 0x78)), WorkStatus::success);
    }
    EXPECT_TRUE(stays_empty({b.receive}));
    EXPECT_EQ(b.qp->query().state, QpState::ready_to_send);
    ASSERT_TRUE(send_until_received(a, datagram(11, gather, to, b, 0x77), b));
    EXPECT_EQ(b.receive->got[0].wr_id, 5u) << "the receive was not used up";
}

TEST_P(Ud, UnknownTargetsAreDroppedInSilence) {
    End& a = ud_end(0);
    End& gone = ud_end(1);
    EndOptions options;
    options.type = QpType::ud;
    End& never_started = end(1, options);
    AddressHandle& to = handle(0, 1);
    Buffer& source = memory(0, 64);
    const std::vector<Gather> gather{source.gather(0, 64)};
    const SendWork to_gone = datagram(1, gather, to, gone);
    destroy(gone);
    SendWork to_nobody = to_gone;
    to_nobody.remote_qp = 0xabcdef;
    // Sends more than any queue holds: dropped datagrams must not pile up.
    for (int i = 0; i < 3000; ++i) {
        ASSERT_EQ(run(a, to_gone), WorkStatus::success) << i;
        ASSERT_EQ(run(a, to_nobody), WorkStatus::success) << i;
        ASSERT_EQ(run(a, datagram(2, gather, to, never_started)), WorkStatus::success) << i;
    }
    End& b = ud_end(1);
    Buffer& target = memory(1, info().datagram_bytes);
    ASSERT_EQ(post_receive(b, 1, {target.gather(0, target.size())}), kOk);
    EXPECT_TRUE(send_until_received(a, datagram(1, gather, to, b), b));
}

TEST_P(Ud, BadRequestsAreRefused) {
    End& a = ud_end(0);
    End& b = ud_end(1);
    AddressHandle& to = handle(0, 1);
    Buffer& source = memory(0, info().datagram_bytes + 1);
    Buffer& target = memory(1, info().datagram_bytes);
    const Status bad = Status::error(Reason::bad_argument);
    const std::vector<Gather> too_long{source.gather(0, source.size())};
    EXPECT_EQ(a.qp->post_send(datagram(1, too_long, to, b)), bad);
    const std::vector<Gather> gather{source.gather(0, 8)};
    SendWork work = datagram(1, gather, to, b);
    work.address_handle = nullptr;
    EXPECT_EQ(a.qp->post_send(work), bad);
    for (const Opcode opcode : {Opcode::write, Opcode::read, Opcode::write_imm, Opcode::fetch_add,
                                Opcode::compare_swap}) {
        work = datagram(1, gather, to, b);
        work.opcode = opcode;
        work.remote_address = target.remote();
        work.remote_key = target.key();
        EXPECT_TRUE(a.qp->post_send(work).is_error()) << static_cast<int>(opcode);
    }
    EXPECT_EQ(a.qp->map(target.remote(), 8, target.key()), nullptr) << "RC only";
    ASSERT_EQ(post_receive(b, 1, {target.gather(0, target.size())}), kOk);
    EXPECT_TRUE(send_until_received(a, datagram(1, gather, to, b), b)) << "still usable";
}

TEST_P(Ud, ReliableOnesArriveOnceAndInOrder) {
    ADAPTIB_NEEDS(reliable_ud);
    constexpr std::uint64_t kMessages = 2000;
    EndOptions options;
    options.receive_depth = 64;
    End& b = ud_end(1, options);
    std::vector<End*> senders;
    std::vector<Buffer*> sources;
    for (std::size_t node = 0; node < nodes(); ++node) {
        senders.push_back(&ud_end(node));
        sources.push_back(&memory(node, 8 * kMessages));
    }
    Buffer& target = memory(1, 64 * 8);
    for (std::uint64_t slot = 0; slot < 64; ++slot) {
        ASSERT_EQ(post_receive(b, slot, {target.gather(slot * 8, 8)}), kOk);
    }
    std::vector<AddressHandle*> handles;
    // The payload's upper half names the sender, since QP numbers are unique only within a rail.
    for (std::size_t node = 0; node < nodes(); ++node) {
        handles.push_back(&handle(node, 1));
        for (std::uint64_t i = 0; i < kMessages; ++i) {
            const std::uint64_t value = node << 32 | i;
            std::memcpy(sources[node]->data() + 8 * i, &value, 8);
        }
    }
    std::vector<std::uint64_t> next(nodes(), 0);
    std::vector<std::uint64_t> arrived(nodes(), 0);
    const bool all = wait([&] {
        for (std::size_t node = 0; node < nodes(); ++node) {
            for (int burst = 0; burst < 20 && next[node] < kMessages; ++burst) {
                const std::vector<Gather> gather{sources[node]->gather(next[node] * 8, 8)};
                SendWork work = datagram(next[node], gather, *handles[node], b);
                work.flags = next[node] % 8 == 7 ? +kSignaled : 0u;
                if (!senders[node]->qp->post_send(work).ok()) {
                    break;
                }
                ++next[node];
            }
        }
        while (!b.receive->got.empty()) {
            const WorkCompletion done = b.receive->got.front();
            b.receive->got.pop_front();
            EXPECT_EQ(done.status, WorkStatus::success);
            std::uint64_t value = 0;
            std::memcpy(&value, target.data() + done.wr_id * 8, 8);
            const std::size_t node = value >> 32;
            if (node >= nodes()) {
                ADD_FAILURE() << "payload " << value;
                return true;
            }
            EXPECT_EQ(value & 0xffffffffu, arrived[node]) << "from node " << node;
            EXPECT_EQ(done.source_qp, senders[node]->qp->number());
            ++arrived[node];
            EXPECT_EQ(post_receive(b, done.wr_id, {target.gather(done.wr_id * 8, 8)}), kOk);
        }
        return arrived == std::vector<std::uint64_t>(nodes(), kMessages) || HasFailure();
    });
    EXPECT_TRUE(all) << arrived[0] << " and " << arrived[1] << " arrived";
}

TEST_P(Ud, FullQueueSaysAgainAndRecovers) {
    ADAPTIB_NEEDS(reliable_ud);
    EndOptions options;
    options.receive_depth = 64;
    End& a = ud_end(0);
    End& b = ud_end(1, options);
    AddressHandle& to = handle(0, 1);
    Buffer& source = memory(0, 8 * 100'200);
    Buffer& target = memory(1, 64 * 8);
    std::uint64_t taken = 0;
    // The test does not poll, and the target posts no receive.
    for (; taken < 100'000; ++taken) {
        std::memcpy(source.data() + taken * 8, &taken, 8);
        const std::vector<Gather> gather{source.gather(taken * 8, 8)};
        SendWork work = datagram(taken, gather, to, b);
        work.flags = taken % 8 == 7 ? +kSignaled : 0u;
        const Status status = a.qp->post_send(work);
        if (!status.ok()) {
            ASSERT_EQ(status, Status::again(Reason::queue_full));
            break;
        }
    }
    ASSERT_GT(taken, 0u);
    ASSERT_LT(taken, 100'000u) << "the queue never filled";
    EXPECT_TRUE(stays_empty({b.receive}));
    for (std::uint64_t slot = 0; slot < 64; ++slot) {
        ASSERT_EQ(post_receive(b, slot, {target.gather(slot * 8, 8)}), kOk);
    }
    std::uint64_t arrived = 0;
    const std::uint64_t total = taken + 100;
    const bool all = wait([&] {
        while (taken < total) {
            std::memcpy(source.data() + taken * 8, &taken, 8);
            const std::vector<Gather> gather{source.gather(taken * 8, 8)};
            if (!a.qp->post_send(datagram(taken, gather, to, b)).ok()) {
                break;
            }
            ++taken;
        }
        while (!b.receive->got.empty()) {
            const WorkCompletion done = b.receive->got.front();
            b.receive->got.pop_front();
            std::uint64_t value = 0;
            std::memcpy(&value, target.data() + done.wr_id * 8, 8);
            EXPECT_EQ(value, arrived++);
            EXPECT_EQ(post_receive(b, done.wr_id, {target.gather(done.wr_id * 8, 8)}), kOk);
        }
        return arrived == total || HasFailure();
    });
    EXPECT_TRUE(all) << arrived << " of " << total;
}

TEST_P(Ud, WaitingDatagramsDoNotHoldConnectionsUp) {
    ADAPTIB_NEEDS(reliable_ud);
    ADAPTIB_NEEDS(rc);
    End& a = ud_end(0);
    End& b = ud_end(1);
    Pair p = rc_pair();
    AddressHandle& to = handle(0, 1);
    Buffer& source = memory(0, 64);
    Buffer& target = memory(1, 64);
    const std::vector<Gather> gather{source.gather(0, 64)};
    for (std::uint64_t i = 0; i < 4; ++i) {
        ASSERT_EQ(a.qp->post_send(datagram(i, gather, to, b)), kOk);
    }
    for (std::uint64_t i = 0; i < 100; ++i) {
        ASSERT_EQ(post_receive(p.b, i, {target.gather(0, 64)}), kOk);
        ASSERT_EQ(run(p.a, send_work(i, gather)), WorkStatus::success);
    }
    for (std::uint64_t i = 0; i < 4; ++i) {
        ASSERT_EQ(post_receive(b, i, {target.gather(0, 64)}), kOk);
    }
    EXPECT_TRUE(wait_for(*b.receive, 4));
}

} // namespace
} // namespace adaptib::conformance
