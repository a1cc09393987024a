// SPDX-License-Identifier: BSD-3-Clause
// Shrunk programs with which torture once found an error, and a check that programs are repeatable.
#include <gtest/gtest.h>

#include "simulator/torture/program.h"
#include "simulator/torture/run.h"

namespace adaptib::torture {
namespace {

std::string failures(const std::string& text) {
    Program program;
    std::string problem;
    if (!read(text, program, problem)) {
        return problem;
    }
    std::unique_ptr<Driver> driver = open(program, problem);
    if (driver == nullptr) {
        return problem;
    }
    std::string all;
    for (const std::string& each : run(program, std::move(driver)).problems) {
        all += each + "\n";
    }
    return all;
}

// The credit of a ring was written inline, although the adapter takes nothing inline.
TEST(Programs, RingsOverAnAdapterWithoutInlineData) {
    EXPECT_EQ(failures("ranks 2\n"
                       "parameter eager_limit 100\n"
                       "parameter ring_bytes 4096\n"
                       "parameter verbs_ring_bytes 4096\n"
                       "parameter block_bytes 4096\n"
                       "world machine ibm-12x\n"
                       "0 send id=1 peer=1 tag=1 bytes=199576 element=8 stride=9\n"),
              "");
}

// The answer to a late request of the peer took the place of a confirmation that waited for room.
TEST(Programs, AConfirmationOwedIsNotForgotten) {
    EXPECT_EQ(failures("ranks 2\n"
                       "schedule 54522572981400\n"
                       "world machine ibm-12x\n"
                       "world datagram_loss 100\n"
                       "1 receive id=2 context=1\n"
                       "0 send id=1 peer=1 context=1 bytes=1985 element=4 stride=7 at_once=1\n"
                       "1 send id=6 context=2 at_once=1\n"
                       "1 send id=20 tag=2\n"
                       "1 send id=22 context=2 at_once=1\n"
                       "1 send id=23 context=2 tag=2 at_once=1\n"
                       "1 ssend id=25 context=1 at_once=1\n"
                       "1 ssend id=27 context=1 tag=2 at_once=1\n"
                       "1 send id=33 context=1 bytes=1985 at_once=1\n"
                       "1 send id=35 context=2 tag=2\n"
                       "1 send id=37 context=2 tag=1 at_once=1\n"
                       "1 send id=39 context=1 tag=1 at_once=1\n"
                       "1 send id=41 tag=2 at_once=1\n"
                       "1 send id=43 tag=1 at_once=1\n"
                       "1 send id=45 context=2 at_once=1\n"
                       "1 send id=46 tag=2 at_once=1\n"),
              "");
}

// Queue pairs were destroyed before the reply to a disconnect, which had only been
// posted, was sent.
TEST(Programs, ADisconnectIsAnsweredBeforeTheConnectionGoes) {
    EXPECT_EQ(failures("ranks 3\n"
                       "schedule 150792074967697\n"
                       "parameter connect_threshold 3\n"
                       "world machine connect-ib\n"
                       "1 send id=304 peer=2 tag=3 at_once=1\n"
                       "2 receive id=307 peer=-1 tag=-2147483648\n"
                       "2 active id=327 peer=1 tag=69\n"
                       "2 active id=328 peer=1 tag=174\n"
                       "2 active id=329 peer=1 tag=196\n"
                       "2 put id=493 bytes=1 at_once=1\n"
                       "2 release peer=1\n"
                       "1 release peer=2\n"
                       "2 send id=516 peer=1 tag=2 at_once=1\n"),
              "");
}

// A peer that had finished the disconnect asked for a connection anew, just before the core
// released the old one.
TEST(Programs, ARequestBehindTheDisconnectsIsKept) {
    EXPECT_EQ(failures("ranks 2\n"
                       "schedule 268206076846146\n"
                       "world machine here\n"
                       "0 receive id=6 peer=1 context=1 tag=1\n"
                       "0 receive id=8 peer=1 tag=1\n"
                       "0 receive id=10 peer=1 tag=1\n"
                       "1 send id=5 context=1 tag=1 at_once=1\n"
                       "1 send id=7 tag=1 at_once=1\n"
                       "1 send id=9 tag=1 at_once=1\n"
                       "0 send id=17 peer=1 context=1 at_once=1\n"
                       "0 compute amount=1\n"
                       "0 release peer=1\n"
                       "1 release\n"
                       "1 compute amount=1000\n"
                       "1 send id=21 tag=1 bytes=5059\n"
                       "0 compute amount=1000\n"),
              "");
}

// Connections that the job begins with are requested during a disconnect, and answered after it.
TEST(Programs, WhatWasAskedForBeforeTheDisconnectsIsOver) {
    EXPECT_EQ(failures("ranks 2\n"
                       "schedule 137559836108165\n"
                       "parameter connect static\n"
                       "0 active id=1 peer=1 tag=224 at_once=1\n"
                       "1 send id=7 tag=2\n"
                       "1 release\n"
                       "0 release peer=1\n"
                       "0 compute amount=1000\n"
                       "0 put id=9 peer=1 bytes=1\n"),
              "");
}

// A rank that has disconnected takes part in transfers with more messages than its ring holds.
TEST(Programs, WhoHasSentDisconnectGetsCredit) {
    EXPECT_EQ(failures("ranks 2\n"
                       "schedule 50499604525571\n"
                       "parameter eager_limit 0\n"
                       "parameter ring_bytes 16384\n"
                       "parameter verbs_ring_bytes 16384\n"
                       "parameter rendezvous put\n"
                       "parameter block_bytes 1024\n"
                       "world machine infinihost\n"
                       "0 send id=23 peer=1 tag=2 at_once=1\n"
                       "0 release peer=1\n"
                       "1 send id=60 tag=2 bytes=72605 element=8 stride=12 at_once=1\n"
                       "1 send id=72 context=1 bytes=3861 element=100 stride=195 at_once=1\n"
                       "1 send id=76 tag=-7 bytes=65424 element=4 stride=12 at_once=1\n"
                       "1 send id=94 context=2 tag=2 bytes=80465 element=1 stride=1 at_once=1\n"
                       "1 send id=96 tag=1 bytes=1 at_once=1\n"
                       "1 send id=98 context=1 tag=-7 bytes=16330 element=4 stride=8 at_once=1\n"
                       "1 send id=100 bytes=1 at_once=1\n"
                       "1 send id=102 context=2 tag=1 bytes=8138 element=4 stride=6\n"),
              "");
}

// A rank computes for half a minute, and ranks that send to it wait.
TEST(Programs, APeerThatComputesIsNotGivenUp) {
    EXPECT_EQ(failures("ranks 2\n"
                       "schedule 260544688803305\n"
                       "parameter eager_limit 1\n"
                       "parameter connect partial\n"
                       "parameter rendezvous put\n"
                       "world machine here\n"
                       "world hosts 1\n"
                       "world warp 82043\n"
                       "world datagram_loss 300\n"
                       "world datagram_late 10\n"
                       "0 receive id=4 peer=1 tag=1\n"
                       "1 send id=1 context=1 at_once=1\n"
                       "1 send id=3 tag=1\n"
                       "0 active id=10 peer=1 tag=45 bytes=3168\n"
                       "0 active id=11 peer=1 tag=119\n"
                       "0 active id=12 peer=1 tag=211 at_once=1\n"
                       "0 active id=13 peer=1 tag=13 at_once=1\n"
                       "0 active id=14 peer=1 tag=170 at_once=1\n"
                       "0 active id=15 peer=1 tag=163 at_once=1\n"
                       "0 active id=16 peer=1 tag=68 at_once=1\n"
                       "0 active id=17 peer=1 tag=254\n"
                       "0 active id=18 peer=1 tag=73\n"
                       "0 active id=19 peer=1 tag=225 at_once=1\n"
                       "1 claim id=32 context=1\n"
                       "0 send id=35 peer=1 context=1 tag=1\n"
                       "0 send id=37 peer=1 context=1 tag=1 at_once=1\n"
                       "1 receive id=34 context=1 tag=1\n"
                       "1 receive id=36 context=1 tag=1\n"
                       "1 compute amount=1\n"
                       "1 receive id=38 context=1 tag=1\n"
                       "0 ssend id=39 peer=1 context=1 tag=1 at_once=1\n"
                       "0 send id=42 peer=1 tag=1 bytes=2 at_once=1\n"
                       "1 receive id=40 context=1 tag=1 bytes=1\n"
                       "1 send id=46 tag=-7 at_once=1\n"
                       "0 ssend id=50 peer=1 context=1 tag=1 bytes=2 at_once=1\n"
                       "0 send id=52 peer=1 context=1 tag=1\n"
                       "1 receive id=49 context=1\n"
                       "1 receive id=51 context=1 tag=1\n"
                       "1 receive id=53 context=1 tag=1\n"
                       "1 wait id=43 amount=1\n"
                       "0 send id=232 peer=1 context=1 tag=1 at_once=1\n"
                       "0 send id=234 peer=1 context=1 tag=1 at_once=1\n"
                       "0 active id=326 peer=1 tag=129\n"
                       "0 active id=343 peer=1 tag=254 bytes=4855 at_once=1\n"
                       "0 active id=353 peer=1 tag=53 bytes=4571 at_once=1\n"),
              "");
}

// Two queue pairs of one connection, of different adapters, had the same number: the completion of
// one was taken for the other's, and the wrong half was read again.
TEST(Programs, QueuePairsOfTwoRailsWithTheSameNumber) {
    EXPECT_EQ(failures("ranks 2\n"
                       "schedule 130706470487854\n"
                       "parameter min_stripe 64\n"
                       "parameter striping_threshold 1024\n"
                       "world machine infinihost-iii\n"
                       "world hosts 1\n"
                       "world adapters 2\n"
                       "world failures 20\n"
                       "world datagram_loss 0\n"
                       "1 receive id=17 bytes=1024\n"
                       "0 send id=20 peer=1 bytes=2518 at_once=1\n"),
              "");
}

// Handshake messages that had waited for room were out of date when they went: a request without a
// queue pair, the confirmation of the next attempt. A connection that was refused while the other
// end waited for the answer to its own request was taken for open.
TEST(Programs, HandshakesWhilePortsFail) {
    for (const std::uint64_t seed : {351, 678, 1312, 5421}) {
        EXPECT_EQ(failures(print(random_program(seed))), "") << seed;
    }
}

// A request that another one had overtaken was kept in its place, and answered: nobody
// waited for that answer.
TEST(Programs, ALateRequestDoesNotReplaceTheNext) {
    EXPECT_EQ(failures("ranks 2\n"
                       "schedule 87998667442999\n"
                       "parameter ring_max 0\n"
                       "parameter block_bytes 5000\n"
                       "parameter block_depth 2\n"
                       "parameter apm off\n"
                       "parameter paths_per_port 2\n"
                       "world machine connect-ib\n"
                       "world ports 2\n"
                       "world lmc 5\n"
                       "world warp 454240\n"
                       "world datagram_loss 300\n"
                       "world datagram_twice 100\n"
                       "world datagram_late 300\n"
                       "world failures 20\n"
                       "world failure_pace 100000\n"
                       "0 get id=3 peer=1 at_once=1\n"
                       "0 put id=4 peer=1 bytes=1 at_once=1\n"
                       "1 put id=5 bytes=1 at_once=1\n"
                       "0 wait id=4 amount=1000\n"
                       "1 get id=6 bytes=26763 at_once=1\n"
                       "0 send id=7 peer=1 context=1 tag=1 at_once=1\n"
                       "0 send id=9 peer=1 tag=2 bytes=19896 element=8 stride=11 at_once=1\n"
                       "0 send id=11 peer=1 context=1 bytes=4064 element=24 stride=51\n"
                       "1 receive id=8 context=1 tag=1\n"
                       "1 receive id=10 tag=-2147483648 bytes=19898 element=8 stride=10\n"
                       "1 receive id=12 context=1\n"
                       "0 put id=13 peer=1 bytes=1 at_once=1\n"
                       "1 cancel id=12\n"
                       "0 active id=14 peer=1 tag=5\n"
                       "0 active id=15 peer=1 tag=127\n"
                       "0 active id=16 peer=1 tag=106\n"
                       "0 active id=17 peer=1 tag=9\n"
                       "0 active id=18 peer=1 tag=32 at_once=1\n"
                       "0 active id=19 peer=1 tag=166 at_once=1\n"
                       "0 active id=20 peer=1 tag=246\n"
                       "0 active id=21 peer=1 tag=95 at_once=1\n"
                       "0 active id=22 peer=1 tag=208 bytes=4420\n"
                       "0 active id=23 peer=1 tag=110 bytes=4777 at_once=1\n"
                       "0 active id=24 peer=1 tag=61\n"
                       "0 active id=25 peer=1 tag=211 at_once=1\n"
                       "0 active id=26 peer=1 tag=11 at_once=1\n"
                       "0 active id=28 peer=1 tag=35\n"
                       "0 active id=29 peer=1 tag=164 at_once=1\n"
                       "0 active id=30 peer=1 tag=52\n"
                       "0 active id=31 peer=1 tag=241 at_once=1\n"
                       "0 active id=32 peer=1 tag=202 at_once=1\n"),
              "");
}

// The target of an operation had not heard yet that the connection was open.
TEST(Programs, AnOperationIsAskedForBeforeTheTargetCanAnswer) {
    EXPECT_EQ(failures("ranks 2\n"
                       "schedule 5528617673040\n"
                       "0 put id=403 peer=1 at_once=1\n"
                       "1 swap id=404 peer=1 tag=2 amount=14951057229325043660\n"
                       "1 add id=405 amount=13152928617109418911 at_once=1\n"
                       "0 compute amount=1\n"
                       "1 put id=407\n"
                       "1 put id=408\n"
                       "1 add id=409 tag=1 amount=12131657071742684373 at_once=1\n"
                       "1 add id=412 tag=1 amount=12008978208683485477 at_once=1\n"
                       "1 swap id=443 amount=10086037118756256455 at_once=1\n"
                       "1 add id=459 amount=7449402680007131328 at_once=1\n"
                       "1 add id=491 tag=1 amount=8413788871564978493 at_once=1\n"
                       "1 add id=529 amount=8610311713087437227 at_once=1\n"),
              "");
}

// The initiator of a connection that was not open yet failed while there was no room for another
// one: the peer was lost. Now the connection is repaired once it is open.
TEST(Programs, AnInitiatorThatFailsWhileThereIsNoRoomForAnother) {
    EXPECT_EQ(failures("ranks 5\n"
                       "schedule 90\n"
                       "parameter connect_threshold 1\n"
                       "parameter channel_policy dc_on_demand\n"
                       "parameter dc_initiators 1\n"
                       "parameter atomics target\n"
                       "world machine connect-ib\n"
                       "world hosts 5\n"
                       "world datagram_loss 0\n"
                       "fault request_fails 300\n"
                       "fault create_qp_fails 500\n"
                       "fault until 1\n"
                       "0 send id=1 peer=1 bytes=100\n"
                       "0 send id=2 peer=1 bytes=100\n"
                       "0 send id=3 peer=1 bytes=100\n"
                       "0 send id=4 peer=2 bytes=100\n"
                       "0 send id=5 peer=2 bytes=100\n"
                       "0 send id=6 peer=3 bytes=100\n"
                       "0 send id=7 peer=3 bytes=100\n"
                       "0 send id=8 peer=4 bytes=100\n"
                       "0 send id=9 peer=4 bytes=100\n"
                       "0 send id=10 peer=1 bytes=100\n"),
              "");
}

// A disconnect waited for its empty write over the control lane, which then migrated: the write on
// the former lane was taken for complete, and its address handle was destroyed under it.
TEST(Programs, ADisconnectWhileTheControlLaneMigrates) {
    EXPECT_EQ(failures("ranks 4\n"
                       "schedule 235722114406726\n"
                       "parameter eager_limit 0\n"
                       "parameter ring_bytes 131072\n"
                       "parameter connect partial\n"
                       "parameter channel_policy fixed:shared_ring\n"
                       "parameter ring_bytes 12288 0\n"
                       "parameter connect on_demand 0\n"
                       "parameter ring_bytes 12288 1\n"
                       "parameter connect on_demand 1\n"
                       "world machine connect-ib\n"
                       "world adapters 2\n"
                       "world ports 2\n"
                       "world warp 531699\n"
                       "3 promote peer=1\n"
                       "3 active id=249 peer=1 tag=26\n"
                       "3 active id=250 peer=1 tag=46\n"
                       "2 send id=317 context=1 bytes=1 element=1 stride=3 at_once=1\n"
                       "3 send id=319 peer=1 at_once=1\n"
                       "1 send id=323 peer=3 at_once=1\n"
                       "0 send id=330 peer=2 context=1 at_once=1\n"
                       "1 receive id=333 peer=3 tag=-2147483648\n"
                       "3 send id=332 peer=1\n"
                       "3 compute amount=1\n"
                       "2 release amount=1000\n"
                       "1 promote peer=1\n"
                       "0 release peer=2 amount=1000\n"
                       "0 compute amount=1\n"
                       "2 receive id=336 peer=-1 context=2 tag=-2147483648\n"
                       "3 promote peer=3\n"
                       "3 receive id=338 peer=-1 tag=-2147483648\n"
                       "0 send id=335 peer=2 context=2 at_once=1\n"
                       "1 send id=337 peer=3 at_once=1\n"
                       "2 promote\n"
                       "2 send id=344 context=2 at_once=1\n"
                       "0 promote peer=2\n"
                       "1 receive id=348 peer=-1 tag=-2147483648\n"
                       "2 demote\n"
                       "2 wait id=344 amount=1000\n"),
              "");
}

// A migration of the control lane began behind the disconnect: its empty write found the queue pair
// of the peer, which had taken its side down, no more. A healthy path was taken for failed.
TEST(Programs, NoControlLaneMigratesBehindADisconnect) {
    EXPECT_EQ(failures("ranks 2\n"
                       "schedule 70193756057253\n"
                       "parameter connect partial\n"
                       "world machine ibm-12x\n"
                       "world adapters 2\n"
                       "world lmc 5\n"
                       "0 send id=5 peer=1 context=1 tag=2 at_once=1\n"
                       "1 send id=11 context=2 tag=1 at_once=1\n"
                       "0 release peer=1 amount=1000\n"
                       "1 release amount=1000\n"
                       "0 send id=35 peer=1 at_once=1\n"
                       "0 demote peer=1\n"
                       "0 compute amount=150000000\n"),
              "");
}

// The request for a connection was acknowledged, and the peer died before its reply: nothing asked
// whether it lives, and the receive waited for ever.
TEST(Programs, WhoWaitsInAHandshakeFindsOutThatThePeerIsDead) {
    EXPECT_EQ(failures("ranks 2\n"
                       "schedule 272316602742124\n"
                       "parameter connect partial\n"
                       "world machine connect-ib\n"
                       "world datagram_loss 300\n"
                       "world death_1 8376317\n"
                       "0 send id=126 peer=1 context=1 at_once=1\n"
                       "0 receive id=129 peer=1\n"),
              "");
}

// A cable was silent while rank 0 waited, and five questions were lost; the message came once the
// cable worked again, and nobody asked any more. Rank 0 waited for the next message long after: its
// peer, which computed, was given up with the first new question.
TEST(Programs, SilenceOfLongAgoIsNoEvidence) {
    const auto repeated = [](int times, const std::string& lines) {
        std::string all;
        for (int i = 0; i < times; ++i) {
            all += lines;
        }
        return all;
    };
    const std::string polls = "0 compute amount=400000\n0 wait id=99 amount=3000\n";
    EXPECT_EQ(failures("ranks 2\n"
                       "schedule 2\n"
                       "parameter partition_timeout 5\n"
                       "parameter connect_threshold 1000000000\n"
                       "parameter channel_policy ud\n"
                       "parameter ring_max 0\n"
                       "parameter connect on_demand\n"
                       "world machine infinihost\n"
                       "world hosts 2\n"
                       "world datagram_loss 0\n"
                       "world silence_0 50000000\n"
                       "world outage_lasts 3000000000\n"
                       "0 send id=1 peer=1 bytes=8\n"
                       "1 receive id=2 peer=0 bytes=8\n"
                       "1 send id=3 peer=0 bytes=8\n"
                       "0 receive id=4 peer=1 bytes=8\n" +
                       repeated(30, "0 compute amount=4000\n1 compute amount=4000\n") +
                       "0 receive id=99 peer=0 tag=9 bytes=8\n"
                       "0 receive id=5 peer=1 bytes=8\n" +
                       repeated(45, polls) +
                       "1 compute amount=16500000\n"
                       "1 send id=6 peer=0 bytes=8\n" +
                       repeated(100, polls) + "0 receive id=7 peer=1 bytes=8\n" +
                       repeated(40, polls) +
                       "1 compute amount=48000000\n"
                       "1 send id=8 peer=0 bytes=8\n"),
              "");
}

TEST(Programs, OneThatHasBegunToDisconnectIsFoundOutAboutToo) {
    EXPECT_EQ(failures("ranks 2\n"
                       "schedule 70907945211977\n"
                       "world machine ibm-12x\n"
                       "world death_1 140616546\n"
                       "1 send id=146 context=1 at_once=1\n"
                       "0 ssend id=156 peer=1 tag=1 at_once=1\n"
                       "1 release amount=1000\n"),
              "");
}

// Its credit is not written to it any more.
TEST(Programs, OneWithAConnectionThatHasBegunToDisconnectIsFoundOutAboutToo) {
    EXPECT_EQ(failures("ranks 2\n"
                       "schedule 270167312130828\n"
                       "world machine connect-ib\n"
                       "world death_1 33623407\n"
                       "1 send id=330 bytes=4033 at_once=1\n"
                       "1 release amount=1000\n"
                       "0 receive id=349 peer=-1 tag=-2147483648\n"
                       "0 receive id=351 peer=1\n"),
              "");
}

// The process has no room for messages that come before their receives, and dies.
TEST(Programs, ASendThatIsHeldBackEndsWithItsPeer) {
    EXPECT_EQ(failures("ranks 3\n"
                       "endpoints 2 1\n"
                       "schedule 67320430190612\n"
                       "parameter unexpected_memory 512\n"
                       "world machine infinihost-iii\n"
                       "world death_0 2314200134\n"
                       "2 send id=8 peer=1\n"
                       "2 swap id=9 amount=2317272361399015223 at_once=1\n"
                       "2 send id=12 peer=1 tag=-7 at_once=1\n"),
              "");
}

// A port got another address, and thanks told the peer so, which got lost. It never learned it.
TEST(Programs, APeerLearnsAnAddressThoughThanksAreLost) {
    EXPECT_EQ(failures("ranks 2\n"
                       "schedule 143716108676264\n"
                       "world machine ibm-12x\n"
                       "world hosts 4\n"
                       "world adapters 2\n"
                       "world ports 2\n"
                       "world datagram_loss 100\n"
                       "world datagram_twice 10\n"
                       "world datagram_late 10\n"
                       "world failures 100\n"
                       "world address_changes 500\n"),
              "");
}

// The only port of two processes got another address after their queue pairs were connected, and
// before their connection was open: they sent over the old one until the last retry.
TEST(Programs, AConnectionThatComesUpWhileItsPortMovesIsMadeAnew) {
    EXPECT_EQ(failures("ranks 4\n"
                       "endpoints 2 2\n"
                       "schedule 60602441191002\n"
                       "parameter connect partial\n"
                       "parameter channel_policy dc_on_demand\n"
                       "world machine connect-ib\n"
                       "world lmc 1\n"
                       "world failures 100\n"
                       "world failure_pace 1\n"
                       "world datagram_loss 0\n"
                       "world address_changes 500\n"
                       "2 send id=15 context=1 tag=2 at_once=1\n"
                       "1 put id=22 peer=3 bytes=1\n"),
              "");
    EXPECT_EQ(failures("ranks 5\n"
                       "endpoints 4 1\n"
                       "schedule 236639147158383\n"
                       "parameter channel_policy dc_on_demand\n"
                       "world machine connect-ib\n"
                       "world lmc 2\n"
                       "world failures 100\n"
                       "world failure_pace 1\n"
                       "world datagram_loss 0\n"
                       "world address_changes 500\n"
                       "world one_thread 1\n"
                       "4 send id=3 bytes=4033 at_once=1\n"
                       "0 receive id=4 peer=4 bytes=1\n"
                       "0 send id=17 at_once=1\n"),
              "");
}

// Each of two processes did without one of their two paths for a while, and neither asked the
// other one: they had no connection for seconds.
TEST(Programs, PathsThatRestAreAskedIfTheProcessesHaveNoneInCommon) {
    EXPECT_EQ(failures("ranks 2\n"
                       "schedule 176048150254543\n"
                       "parameter connect static\n"
                       "parameter paths_per_port 2\n"
                       "parameter unexpected_memory 1024\n"
                       "world machine connect-ib\n"
                       "world hosts 4\n"
                       "world lmc 2\n"
                       "world warp 585213\n"
                       "world failures 20\n"
                       "world failure_pace 10\n"
                       "world datagram_loss 0\n"
                       "world address_changes 500\n"
                       "fault request_fails 300\n"
                       "fault modify_fails 5\n"
                       "fault completion_delayed 5\n"
                       "fault send_refused 5\n"
                       "fault until 2000\n"
                       "0 send id=16 peer=1 context=1 tag=-7 bytes=122770 element=8 stride=15 "
                       "at_once=1\n"
                       "1 receive id=32 bytes=1\n"
                       "0 send id=37 peer=1 bytes=42754 at_once=1\n"),
              "");
}

TEST(Programs, RunTheSameWayEveryTime) {
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        const Program program = random_program(seed);
        Program again;
        std::string problem;
        ASSERT_TRUE(read(print(program), again, problem)) << problem;
        const Outcome first = run(program, open(program, problem));
        const Outcome second = run(again, open(again, problem));
        EXPECT_EQ(first.course, second.course) << "seed " << seed;
        EXPECT_EQ(first.messages, second.messages);
    }
}

} // namespace
} // namespace adaptib::torture
