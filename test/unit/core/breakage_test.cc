// SPDX-License-Identifier: BSD-3-Clause
// Connections that break or end in the middle of something, and malformed messages.
#include "base/wire_connect.h"
#include "common_adaptib_two_sided.h"
#include "cores.h"
#include "simulator/faults/fault.h"
#include "window.h"

namespace adaptib::test {
namespace {

TEST(Breakage, WithoutRoomToUnpackFragmentsCome) {
    Options options;
    options.parameters.connect_threshold = 0;
    options.parameters.shm_segment_max = 16 * kMiB;
    options.parameters.block_bytes = 16 * kMiB; // no block ever fits
    std::vector<std::byte> sent = pattern(100000, 1);
    Strided got(100000, 8, 16);
    TestRequest send;
    TestRequest receive;
    Cores world(2, options);
    ASSERT_TRUE(world.receive(1, 0, 1, got.data(), receive).ok());
    ASSERT_TRUE(world.send(0, 1, 1, contiguous(sent), send).ok());
    ASSERT_TRUE(world.run({&receive}));
    EXPECT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    for (std::size_t i = 0; i < sent.size(); ++i) {
        ASSERT_EQ(got.at(i), sent[i]) << i;
    }
    EXPECT_TRUE(world.run({&send}));
    EXPECT_GT(world.counters(0).fragments_sent, 0u);
}

// The channel breaks while the first of several blocks is announced.
TEST(Breakage, APeerThatBreaksWhileBlocksAreAnnouncedEndsTheSendOnce) {
    Options options;
    options.parameters.fault_tolerance = const_cast<char*>("off");
    options.parameters.block_bytes = 1024;
    Strided sent(100000, 8, 16);
    std::vector<std::byte> got(100000);
    TestRequest send;
    TestRequest receive;
    Cores world(2, options);
    Peer* peer = world.peer(0, 1);
    exchange(world, 10000, 2); // connects
    ASSERT_NE(peer->out.ring, nullptr);
    ASSERT_TRUE(world.receive(1, 0, 1, contiguous(got), receive).ok());
    ASSERT_TRUE(world.send(0, 1, 1, sent.data(), send).ok());
    for (int i = 0; i < 20; ++i) {
        world.progress(1); // sends the CTS
    }
    QpAttributes attributes;
    attributes.state = QpState::error;
    ASSERT_TRUE(peer->lanes.subchannels[0].qp->modify(attributes, kQpState).ok());
    for (int i = 0; i < 200; ++i) {
        world.progress(0);
    }
    EXPECT_TRUE(send.done);
    EXPECT_NE(send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
}

// One message is missing: those behind it must not take its place, in the same ring
// or over the queue.
TEST(Breakage, WhatAFailedPeerHasSentIsNotTaken) {
    for (const bool ring : {true, false}) {
        Cores world(2);
        if (ring) {
            exchange(world, 100, 40); // connects
        }
        ASSERT_EQ(world.peer(0, 1)->out.ring != nullptr, ring);
        std::vector<std::byte> sent = pattern(100, 1);
        std::vector<std::byte> got(100);
        TestRequest send;
        TestRequest receive;
        for (int i = 0; i < 3; ++i) {
            ASSERT_TRUE(world.send(0, 1, 1, contiguous(sent), send).ok());
        }
        world.core(1).lost().lose(*world.peer(1, 0), "a test says so");
        for (int i = 0; i < 200; ++i) {
            world.progress(1);
        }
        EXPECT_EQ(world.counters(1).unexpected_now, 0u);
        static_cast<void>(
            world.receive(1, OPAL_COMMON_ADAPTIB_ANY_SOURCE, 1, contiguous(got), receive));
        for (int i = 0; i < 200; ++i) {
            world.progress(1);
        }
        EXPECT_FALSE(receive.done && receive.user.status == OPAL_COMMON_ADAPTIB_SUCCESS);
    }
}

// A process that only waits for messages of a peer has no transfer in flight that could fail.
TEST(Breakage, TheUserIsToldOnceThatSomethingMayBeLost) {
    for (const bool under_way : {true, false}) {
        Cores world(2);
        exchange(world, 100, 40);
        std::vector<const Peer*> reported;
        world.core(0).lost().listen(
            [](void* list, Peer& peer) {
                static_cast<std::vector<const Peer*>*>(list)->push_back(&peer);
            },
            &reported);
        std::vector<std::byte> sent = pattern(100000, 1);
        TestRequest send;
        if (under_way) {
            ASSERT_TRUE(world.send(0, 1, 1, contiguous(sent), send).ok());
        }
        world.core(0).lost().lose(*world.peer(0, 1), "a test says so");
        EXPECT_TRUE(reported.empty()) << "not from the middle of something";
        for (int i = 0; i < 2000; ++i) {
            world.progress(0);
        }
        EXPECT_EQ(reported.size(), under_way ? 1u : 0u);
        EXPECT_EQ(send.done, under_way);
        TestRequest later; // an operation on the peer later reports it, too
        static_cast<void>(world.send(0, 1, 1, contiguous(sent), later));
        for (int i = 0; i < 2000; ++i) {
            world.progress(0);
        }
        EXPECT_EQ(reported, std::vector<const Peer*>{world.peer(0, 1)});
    }
}

// The channel breaks when the writer sends its ATP.
TEST(Breakage, APeerThatBreaksAfterAPutEndsTheSendOnce) {
    Options options;
    options.parameters.ring_max = 0;
    std::vector<std::byte> sent = pattern(100000, 1);
    TestRequest send;
    Cores world(2, options);
    Peer* peer = world.peer(0, 1);
    exchange(world, 10000, 1); // connects; each side's first transfer had slot 0, generation 1
    ASSERT_TRUE(world.send(0, 1, 1, contiguous(sent), send).ok());
    MessageHeader header;
    header.type = MessageType::clear_to_send;
    header.length = sizeof(ClearBody);
    header.sequence = peer->in.next_receive;
    ClearBody clear{};
    clear.send_id = std::uint64_t{2} << 32;
    clear.wanted = 8;
    clear.address = peer->in.credit_address; // memory that may be written
    clear.key_count = 1;
    clear.keys[0] = peer->lanes.subchannels[0].remote_memory_key;
    world.core(0).protocol().on_message(*peer, header, reinterpret_cast<std::byte*>(&clear));
    ASSERT_EQ(world.counters(0).bad_packets, 0u);
    peer->contact.datagram.handle.reset(); // later sends fail
    for (int i = 0; i < 200; ++i) {
        world.progress(0);
    }
    EXPECT_TRUE(send.done);
}

// More completions come between two passes than a completion queue has room for.
TEST(Breakage, ManyLargeReceivesAtOnce) {
    constexpr std::size_t kSenders = 20;
    constexpr std::size_t kEach = 250;
    Options options;
    options.parameters.connect_threshold = 0;
    options.parameters.shm_segment_max = 64 * kMiB;
    std::vector<std::byte> sent = pattern(9000, 1);
    std::vector<std::byte> got(9000);
    std::vector<TestRequest> sends(kSenders * (kEach + 1));
    std::vector<TestRequest> receives(kSenders * (kEach + 1));
    Cores world(kSenders + 1, options);
    for (std::size_t i = 0; i < sends.size(); ++i) {
        ASSERT_TRUE(world.send(1 + i % kSenders, 0, 1, contiguous(sent), sends[i]).ok());
    }
    ASSERT_TRUE(world.run([&] { return world.counters(0).unexpected == sends.size(); }));
    std::vector<TestRequest*> all;
    for (std::size_t i = 0; i < receives.size(); ++i) {
        ASSERT_TRUE(world
                        .receive(0, static_cast<std::int32_t>(1 + i % kSenders), 1, contiguous(got),
                                 receives[i])
                        .ok());
        all.push_back(&receives[i]);
    }
    EXPECT_TRUE(world.run(all));
    std::size_t bad = 0;
    for (TestRequest& receive : receives) {
        bad += receive.user.status == OPAL_COMMON_ADAPTIB_SUCCESS ? 0 : 1;
    }
    EXPECT_EQ(bad, 0u);
    EXPECT_EQ(world.counters(0).connections_failed, 0u);
}

// The receiver cannot unpack: the sender's request ends as well.
TEST(Breakage, AReceiveThatFailsLocallyEndsTheSend) {
    Options options;
    options.parameters.connect_threshold = 0;
    std::vector<std::byte> sent = pattern(100000, 1);
    TestRequest send;
    TestRequest receive;
    Cores world(2, options);
    const Data broken{nullptr, 50000, nullptr,
                      [](void*, std::size_t, const void*, std::size_t*) { return -1; }, nullptr};
    ASSERT_TRUE(world.receive(1, 0, 1, broken, receive).ok());
    ASSERT_TRUE(world.send(0, 1, 1, contiguous(sent), send).ok());
    ASSERT_TRUE(world.run({&receive}));
    EXPECT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_ERROR);
    EXPECT_TRUE(world.run({&send}));
}

// A peer that has disconnected connects again before the other end has seen the last reply.
TEST(Breakage, APeerThatMeetsAgainEarlyIsNotForgotten) {
    for (int offset = 0; offset < 9; ++offset) {
        SCOPED_TRACE(offset);
        std::vector<std::byte> sent = pattern(100000, 1);
        std::vector<std::byte> got(100000);
        TestRequest send;
        TestRequest receive;
        Cores world(2);
        exchange(world, 100000, 1);
        ASSERT_TRUE(world.run([&] {
            return world.counters(0).connections_open == 1 &&
                   world.counters(1).connections_open == 1;
        }));
        for (int i = 0; i < offset; ++i) {
            world.progress(1);
        }
        world.core(0).protocol().disconnects().release(*world.peer(0, 1));
        world.core(1).protocol().disconnects().release(*world.peer(1, 0));
        world.progress(1); // replies to 0's disconnect
        for (int i = 0; i < 10 && world.counters(0).connections_open == 1; ++i) {
            world.progress(0); // replies to 1's disconnect, and is done
        }
        ASSERT_EQ(world.counters(0).connections_open, 0u);
        ASSERT_EQ(world.counters(1).connections_open, 1u);
        ASSERT_TRUE(world.receive(1, 0, 1, contiguous(got), receive).ok());
        ASSERT_TRUE(world.send(0, 1, 1, contiguous(sent), send).ok());
        EXPECT_TRUE(world.run({&send, &receive}));
        EXPECT_EQ(world.counters(1).bad_packets, 0u);
        EXPECT_EQ(got, sent);
    }
}

// A peer that is done with the disconnect asks for a new connection, and this request overtakes the
// peer's reply to node 0's disconnect: when that reply comes, it does not take the connection down.
TEST(Breakage, ARequestThatOvertakesTheAnswerToADisconnectWaitsForIt) {
    Options options;
    options.parameters.connect_threshold = 1000000000;
    Cores world(2, options);
    exchange(world, 100, 1);
    Peer* peer = world.peer(0, 1);
    const auto arrive = [&](MessageHeader header, auto&& body) {
        header.length = sizeof body;
        header.sequence = peer->in.next_receive;
        const auto* bytes = reinterpret_cast<const std::byte*>(&body);
        if (is_sequenced(header.type)) {
            world.core(0).protocol().on_message(*peer, header, bytes);
        } else {
            world.core(0).connections().on_handshake(*peer, header, bytes);
        }
    };
    MessageHeader disconnect;
    disconnect.type = MessageType::disconnect;
    MessageHeader answer = disconnect;
    answer.flags = 1;
    MessageHeader request;
    request.type = MessageType::connect_request;
    request.flags = kConnectNeeded;
    request.length = sizeof(ConnectBody);
    ConnectBody asked{};
    asked.connection = 1;
    asked.subchannel_count = 1;
    asked.subchannels[0].qp = 8192;

    world.core(0).protocol().disconnects().release(*peer);
    arrive(disconnect, IdBody{1});
    ASSERT_TRUE(peer->session.disconnect_sent && peer->ending.disconnect_received);
    arrive(request, asked);
    EXPECT_EQ(peer->session.state, ConnectState::idle) << "it belongs to what follows";
    arrive(answer, IdBody{peer->ending.disconnect_number});
    world.progress(0);
    world.progress(0);
    EXPECT_FALSE(peer->session.disconnect_sent);
    EXPECT_EQ(peer->session.state, ConnectState::answered);
    EXPECT_EQ(world.counters(0).bad_packets, 0u);
}

// The reply to a disconnect waits for room in the shared queue when the replying end is done.
TEST(Breakage, AnAnswerThatFindsNoRoomIsNotLost) {
    Options options;
    options.parameters.connect_threshold = 1000000000;
    options.parameters.shm_queue_bytes = 65536;
    std::vector<std::byte> small = pattern(100, 1);
    std::vector<std::byte> filler; // leaves no room for anything larger
    std::vector<TestRequest> flood(3000);
    std::vector<std::byte> got(100);
    TestRequest send;
    TestRequest receive;
    Cores world(3, options);
    exchange(world, 100, 1);
    Peer* at0 = world.peer(0, 1);
    Peer* at1 = world.peer(1, 0);
    world.core(0).protocol().disconnects().release(*at0);
    ASSERT_TRUE(world.run([&] { return at0->ending.disconnect_acked; }));
    world.core(1).protocol().disconnects().release(*at1); // its disconnect lies in 0's queue
    for (TestRequest& request : flood) {
        ASSERT_TRUE(world.send(2, 1, 5, contiguous(filler), request).ok());
    }
    for (int i = 0; i < 100; ++i) {
        world.progress(2);
    }
    ASSERT_FALSE(flood.back().done);
    for (int i = 0; i < 10; ++i) {
        world.progress(0);
    }
    for (int i = 0; i < 5000; ++i) {
        world.progress();
    }
    EXPECT_FALSE(at1->session.disconnect_sent) << "it still waits for the answer";
    EXPECT_NE(at0->session.state, ConnectState::failed);
    ASSERT_TRUE(world.send(1, 0, 1, contiguous(small), send).ok());
    ASSERT_TRUE(world.receive(0, 1, 1, contiguous(got), receive).ok());
    EXPECT_TRUE(world.run({&send, &receive}));
}

// A peer is released before there was any traffic, and wanted again before the next progress.
TEST(Breakage, APeerWantedAgainAtOnceKeepsItsConnection) {
    Options options;
    options.parameters.connect_threshold = 0;
    std::vector<std::byte> sent = pattern(100000, 1);
    std::vector<std::byte> got(100000);
    TestRequest send;
    TestRequest receive;
    Cores world(2, options);
    world.core(0).protocol().disconnects().release(*world.peer(0, 1));
    std::vector<std::byte> small(8);
    TestRequest first[2];
    ASSERT_TRUE(world.receive(1, 0, 2, contiguous(small), first[1]).ok());
    ASSERT_TRUE(world.send(0, 1, 2, contiguous(small), first[0]).ok());
    ASSERT_TRUE(world.run({&first[0], &first[1]}));
    for (int i = 0; i < 20; ++i) {
        world.progress();
    }
    ASSERT_TRUE(world.receive(1, 0, 1, contiguous(got), receive).ok());
    ASSERT_TRUE(world.send(0, 1, 1, contiguous(sent), send).ok());
    EXPECT_TRUE(world.run({&send, &receive}));
}

// The reader takes a whole ring in one pass, with a disconnect at its end: the ring's writer still
// needs room for a reply.
TEST(Breakage, CreditIsReturnedBeforeADisconnectIsHeard) {
    for (std::size_t lines = 40; lines <= 64; ++lines) {
        SCOPED_TRACE(lines);
        Options options;
        options.parameters.connect_threshold = 0;
        options.parameters.eager_limit = 1024;
        options.parameters.ring_bytes = 4096; // 64 lines
        std::vector<std::byte> got(1024);
        std::vector<TestRequest> sends(8);
        std::vector<std::vector<std::byte>> data;
        Cores world(2, options);
        exchange(world, 8, 1);
        ASSERT_TRUE(world.run([&] {
            return world.counters(0).connections_open == 1 &&
                   world.counters(1).connections_open == 1;
        }));
        Peer* at0 = world.peer(0, 1);
        Peer* at1 = world.peer(1, 0);
        ASSERT_NE(at0->out.ring, nullptr);
        std::size_t next = 0;
        for (std::size_t left = lines; left > 0;) {
            const std::size_t part = std::min<std::size_t>(left, 16);
            data.push_back(pattern(part * 64 - 32, 1));
            ASSERT_TRUE(world.send(0, 1, 1, contiguous(data.back()), sends[next++]).ok());
            left -= part;
        }
        if (at0->out.has_pending()) {
            continue; // more than fits
        }
        world.core(0).protocol().disconnects().release(*at0);
        if (at0->out.has_pending()) {
            continue;
        }
        for (int i = 0; i < 100; ++i) {
            world.progress(1);
        }
        world.core(1).protocol().disconnects().release(*at1);
        EXPECT_TRUE(world.run([&] {
            return world.counters(0).connections_open == 0 &&
                   world.counters(1).connections_open == 0;
        }));
    }
}

TEST(Breakage, AnEnvelopeOfWildcardsIsRefused) {
    MessageHeader header;
    header.type = MessageType::eager;
    header.source = Envelope::kAnySource;
    header.tag = 1;
    EXPECT_FALSE(check_message(header, nullptr, 0));
    header.source = 0;
    header.tag = Envelope::kAnyTag;
    EXPECT_FALSE(check_message(header, nullptr, 0));
}

TEST(Breakage, ARingTooSmallForAMessageIsRefused) {
    ConnectBody body{};
    body.subchannel_count = 1;
    body.ring_bytes = 64;
    EXPECT_FALSE(check_body(body)); // its capacity would be 2^64 - 32
}

TEST(Breakage, AReceiveFromALostPeerEnds) {
    Cores world(3);
    exchange(world, 100, 3);
    std::vector<std::byte> got(100);
    TestRequest known;
    TestRequest anybody;
    TestRequest late;
    Peer* peer = world.peer(0, 1);
    Protocol& protocol = world.core(0).protocol();
    bool complete = false;
    ASSERT_TRUE(
        protocol.receives().receive({0, 1, 5}, contiguous(got), known.user, complete, peer).ok());
    ASSERT_TRUE(world.receive(0, Envelope::kAnySource, 5, contiguous(got), anybody).ok());
    world.core(0).lost().lose(*peer, "its cable was cut");
    protocol.end_lost_peers();
    ASSERT_EQ(world.messages(0).size(), 1u);
    EXPECT_NE(world.messages(0)[0].find("its cable was cut"), std::string::npos);
    ASSERT_TRUE(world.run({&known}));
    EXPECT_EQ(known.user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_EQ(protocol.receives().receive({0, 1, 5}, contiguous(got), late.user, complete, peer),
              Status::error(Reason::unreachable));
    EXPECT_TRUE(world.core(0).lost().is_lost(*peer));
    std::vector<std::byte> sent = pattern(100, 1);
    TestRequest other; // another peer may still answer
    ASSERT_TRUE(world.send(2, 0, 5, contiguous(sent), other).ok());
    ASSERT_TRUE(world.run({&anybody}));
    EXPECT_EQ(got, sent);
}

TEST(Breakage, WhoWaitsForCreditNoticesThatThePeerHasEnded) {
    std::vector<std::byte> sent = pattern(2000, 1);
    std::vector<TestRequest> requests(1000);
    Cores world(2);
    exchange(world, 100, 20);
    for (TestRequest& request : requests) {
        ASSERT_TRUE(world.send(0, 1, 5, contiguous(sent), request).ok());
    }
    ASSERT_FALSE(requests.back().done);
    world.end(1);
    for (int pass = 0; pass < 200000 && !requests.back().done; ++pass) {
        world.progress(0);
    }
    EXPECT_TRUE(requests.back().done);
    EXPECT_EQ(requests.back().user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_EQ(world.messages(0).size(), 1u);
}

// A message that fits the ring is complete for its sender once the write is posted.
TEST(Breakage, AMessageThatIsLostWithNobodyWaitingIsReported) {
    fault::FaultPlan plan;
    plan.lacks = static_cast<std::uint32_t>(Capability::direct); // the ring is written by requests
    fault::FaultLog log;
    Options options;
    options.parameters.fault_tolerance = const_cast<char*>("off"); // else it is sent again
    options.parameters.connect_threshold = 0;
    options.wrap = [&](std::size_t node, std::unique_ptr<Fabric> fabric, const Clock& clock) {
        return node == 0 ? fault::with_faults(std::move(fabric), plan, clock, log)
                         : std::move(fabric);
    };
    Cores world(2, options);
    exchange(world, 8, 3); // connects
    ASSERT_NE(world.peer(0, 1)->out.ring, nullptr);
    plan.faults.push_back(
        {.fault = fault::Fault::request_fails, .status = WorkStatus::response_timeout});
    std::vector<std::byte> sent = pattern(8, 1);
    TestRequest send;
    ASSERT_TRUE(world.send(0, 1, 1, contiguous(sent), send).ok());
    ASSERT_TRUE(send.done);
    for (int pass = 0; pass < 100; ++pass) {
        world.progress();
    }
    EXPECT_EQ(log.count(fault::Fault::request_fails), 1u);
    ASSERT_EQ(world.messages(0).size(), 1u);
    EXPECT_NE(world.messages(0)[0].find(work_status_text(WorkStatus::response_timeout)),
              std::string::npos);
}

// No message waits for room: a reply is missing, or something that the peer would send.
TEST(Breakage, WhoWaitsForAnAnswerNoticesThatThePeerHasEnded) {
    enum class Waits { receive, synchronous, announced };
    for (const Waits waits : {Waits::receive, Waits::synchronous, Waits::announced}) {
        for (const char* fault_tolerance : {"auto", "off"}) {
            // true: into the peer's ring; false: by requests.
            for (const bool stores : {true, false}) {
                SCOPED_TRACE(std::to_string(static_cast<int>(waits)) + " " + fault_tolerance +
                             (stores ? " stores" : " posts"));
                fault::FaultPlan plan;
                plan.lacks = static_cast<std::uint32_t>(stores ? Capability{} : Capability::direct);
                fault::FaultLog log;
                Options options;
                options.parameters.fault_tolerance = const_cast<char*>(fault_tolerance);
                options.wrap = [&](std::size_t, std::unique_ptr<Fabric> fabric,
                                   const Clock& clock) {
                    return fault::with_faults(std::move(fabric), plan, clock, log);
                };
                std::vector<std::byte> data(100'000);
                TestRequest request;
                Cores world(2, options);
                exchange(world, 100, 20);
                Peer* peer = world.peer(0, 1);
                ASSERT_EQ(peer->session.state, ConnectState::open);
                if (waits == Waits::receive) {
                    bool complete = false;
                    ASSERT_TRUE(
                        world.core(0)
                            .protocol()
                            .receives()
                            .receive({0, 1, 5}, contiguous(data), request.user, complete, peer)
                            .ok());
                } else {
                    const bool synchronous = waits == Waits::synchronous;
                    data.resize(synchronous ? 100 : data.size());
                    ASSERT_TRUE(world.send(0, 1, 5, contiguous(data), request, synchronous).ok());
                }
                for (int pass = 0; pass < 1000; ++pass) {
                    world.progress();
                }
                ASSERT_FALSE(request.done);
                world.end(1);
                for (int pass = 0; pass < 200'000 && !request.done; ++pass) {
                    world.progress(0);
                    world.clock.advance(Nanoseconds{1000});
                }
                ASSERT_TRUE(request.done);
                EXPECT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
                EXPECT_EQ(world.messages(0).size(), 1u);
            }
        }
    }
}

TEST(Breakage, TheTraceHasTheEndOfAConnectionThatCannotBeMade) {
    const ManualClock clock;
    Trace trace(clock, 100, TraceStamps::clock);
    fault::FaultPlan plan;
    fault::FaultLog log;
    Options options;
    options.parameters.connect_threshold = 0;
    options.traces = {&trace, nullptr};
    options.wrap = [&](std::size_t node, std::unique_ptr<Fabric> fabric, const Clock& of) {
        return node == 0 ? fault::with_faults(std::move(fabric), plan, of, log) : std::move(fabric);
    };
    std::vector<std::byte> sent(8);
    TestRequest send;
    Cores world(2, options);
    plan.faults.push_back(
        {.fault = fault::Fault::modify_fails, .nth = 2, .reason = Reason::bad_argument});
    ASSERT_TRUE(world.send(0, 1, 1, contiguous(sent), send).ok());
    ASSERT_TRUE(world.run([&] { return world.peer(0, 1)->session.state == ConnectState::failed; }));
    std::vector<TraceKind> kinds;
    for (std::size_t i = 0; i < trace.size(); ++i) {
        if (trace.at(i).kind == TraceKind::connect || trace.at(i).kind == TraceKind::connect_end) {
            kinds.push_back(trace.at(i).kind);
        }
    }
    EXPECT_EQ(kinds, (std::vector{TraceKind::connect, TraceKind::connect_end}));
}

// The first of several queued operations fails the peer, and with it the others.
TEST(Breakage, OperationsThatWereQueuedFailTogether) {
    fault::FaultPlan plan;
    plan.lacks = static_cast<std::uint32_t>(Capability::whole_memory);
    fault::FaultLog log;
    Options options;
    options.parameters.connect_threshold = 1'000'000'000;
    options.wrap = [&](std::size_t node, std::unique_ptr<Fabric> fabric, const Clock& clock) {
        return node == 0 ? fault::with_faults(std::move(fabric), plan, clock, log)
                         : std::move(fabric);
    };
    std::vector<std::byte> there(100'000);
    std::vector<std::byte> here(100'000);
    TestRequest puts[3];
    Cores world(2, options);
    exchange(world, 100, 1); // over the shared queue
    Peer* peer = world.peer(0, 1);
    ASSERT_EQ(peer->session.state, ConnectState::idle);
    const Window window(world, 1, there.data(), there.size());
    Protocol& protocol = world.core(0).protocol();
    protocol.disconnects().release(*peer);
    const auto put_all = operation(OPAL_COMMON_ADAPTIB_PUT, here.data(), window, 0, here.size());
    for (TestRequest& put : puts) {
        bool complete = false;
        ASSERT_TRUE(protocol.one_sided().start(*peer, put_all, nullptr, put.user, complete).ok());
        ASSERT_FALSE(complete);
    }
    plan.faults.push_back({.fault = fault::Fault::create_qp_fails, .reason = Reason::bad_argument});
    protocol.keep(*peer);
    world.progress(0); // asks for the connection
    world.progress(0);
    EXPECT_EQ(peer->session.state, ConnectState::failed);
    for (const TestRequest& put : puts) {
        EXPECT_TRUE(put.done);
        EXPECT_EQ(put.user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    }
}

// The message to be repeated was in a ring. No memory is left to write into that ring, and the
// shared queue takes nothing that long, so it goes in slices.
TEST(Breakage, AMessageThatNoRingTakesAgainArrives) {
    fault::FaultPlan plan;
    plan.lacks = static_cast<std::uint32_t>(Capability::direct); // the ring is written by requests
    fault::FaultLog log;
    Options options;
    options.parameters.connect_threshold = 0;
    options.parameters.eager_limit = 60'000;
    options.wrap = [&](std::size_t node, std::unique_ptr<Fabric> fabric, const Clock& clock) {
        return node == 0 ? fault::with_faults(std::move(fabric), plan, clock, log)
                         : std::move(fabric);
    };
    Cores world(2, options);
    exchange(world, 8, 3); // connects
    Peer* peer = world.peer(0, 1);
    ASSERT_NE(peer->out.ring, nullptr);
    ASSERT_TRUE(peer->session.repairable);
    plan.faults.push_back(
        {.fault = fault::Fault::request_fails, .status = WorkStatus::response_timeout});
    std::vector<std::byte> sent = pattern(50'000, 1);
    TestRequest send;
    ASSERT_TRUE(world.send(0, 1, 1, contiguous(sent), send, true).ok());
    ASSERT_EQ(peer->out.pending.front(), nullptr);
    plan.faults.push_back({.fault = fault::Fault::register_fails, .rate = 1});
    std::vector<std::byte> got(sent.size());
    TestRequest receive;
    ASSERT_TRUE(world.receive(1, 0, 1, contiguous(got), receive).ok());
    for (int pass = 0; pass < 20'000 && !(send.done && receive.done); ++pass) {
        world.progress();
        world.clock.advance(Nanoseconds{1000});
    }
    EXPECT_EQ(log.count(fault::Fault::request_fails), 1u);
    ASSERT_TRUE(send.done);
    ASSERT_TRUE(receive.done);
    EXPECT_EQ(send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(got, sent);
    EXPECT_NE(peer->session.state, ConnectState::failed);
}

// The sender packs for a receiver that unpacks; each end has parameters of its own.
TEST(Breakage, BlocksThatOneSideHasNoRoomForAreNotSent) {
    struct Side {
        int depth;
        std::size_t bytes;
    };
    constexpr Side kSmall{2, 1024};
    for (const Side large : {Side{8, 1024}, Side{2, 5000}, Side{64, 65536}}) {
        for (const std::size_t larger : {0u, 1u}) {
            SCOPED_TRACE(std::to_string(large.depth) + " " + std::to_string(large.bytes) + " " +
                         std::to_string(larger));
            Options options;
            options.parameters.connect_threshold = 0;
            options.parameters_of = [&](std::size_t node, Parameters& parameters) {
                const Side side = node == larger ? large : kSmall;
                parameters.block_depth = side.depth;
                parameters.block_bytes = side.bytes;
            };
            Strided sent(200'000, 8, 16);
            Strided got(200'000, 8, 16);
            for (std::size_t i = 0; i < 200'000; ++i) {
                sent.at(i) = static_cast<std::byte>(i * 7);
            }
            TestRequest send;
            TestRequest receive;
            Cores world(2, options);
            exchange(world, 10'000, 1); // connects
            ASSERT_TRUE(world.receive(1, 0, 1, got.data(), receive).ok());
            ASSERT_TRUE(world.send(0, 1, 1, sent.data(), send).ok());
            ASSERT_TRUE(world.run({&send, &receive}));
            EXPECT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
            EXPECT_TRUE(got.memory == sent.memory);
            EXPECT_EQ(world.counters(0).bad_packets, 0u);
            EXPECT_EQ(world.counters(1).bad_packets, 0u);
        }
    }
}

} // namespace
} // namespace adaptib::test
