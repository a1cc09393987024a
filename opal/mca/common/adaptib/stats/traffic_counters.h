// SPDX-License-Identifier: BSD-3-Clause
// The list of counters of messages, copies, registrations and receives.
//
// Purpose: the first rows of stats/counters.h, and of the table of docs/counters.md
// (test/check/counters).
// A text's first words say what is counted (its unit), and its first sentence, which; the second
// sentence says when to look at the counter, or what to do about it.
// May touch: nothing; users of the list include common_adaptib.h for the kinds.
#pragma once

// X(name, unit, kind, level, help)
#define ADAPTIB_TRAFFIC_COUNTERS(X)                                                                \
    X(datagram_sent, "messages", COUNTER, 4,                                                       \
      "Messages sent through peers' shared queues. Compare it with ring_sent to see how much of "  \
      "the traffic has no connection.")                                                            \
    X(datagram_sent_bytes, "bytes", COUNTER, 4,                                                    \
      "Bytes of messages, without headers, sent through peers' shared queues. Look at it if "      \
      "connections are limited (connect_max) and bandwidth is low.")                               \
    X(datagram_received, "messages", COUNTER, 4,                                                   \
      "Messages received through the shared queue. Compare it with ring_received to see how "      \
      "much arrives without a connection.")                                                        \
    X(datagram_repeated, "datagrams", COUNTER, 5,                                                  \
      "Datagrams sent again because they were not acknowledged in time. Look at it if messages "   \
      "are slow: it grows if the network drops packets or receivers lack datagram_buffers.")       \
    X(datagram_doubled, "datagrams", COUNTER, 6,                                                   \
      "Datagrams dropped because they had arrived before. Look at it beside datagram_repeated: "   \
      "high values mean that acknowledgements come late, not that data is lost.")                  \
    X(datagram_acknowledgements, "datagrams", COUNTER, 6,                                          \
      "Datagrams sent only to acknowledge others. Look at it if the message rate without "         \
      "connections is low: traffic in both directions needs few of these.")                        \
    X(datagrams_gathered, "messages", COUNTER, 4,                                                  \
      "Messages through peers' shared queues that devices gathered from the program's buffers. "   \
      "Look at it to see whether frequent_buffers saves copies for peers without a connection.")   \
    X(datagram_loans_ended, "messages", COUNTER, 5,                                                \
      "Messages gathered for shared queues whose payload was copied after all, as they were not "  \
      "acknowledged soon. Look at it beside datagrams_gathered: if it is nearly as high, "         \
      "gathering saves nothing.")                                                                  \
    X(ring_sent, "messages", COUNTER, 4,                                                           \
      "Messages sent into peers' rings. Look at it to see whether adaptib carries the small "      \
      "messages, and over connections.")                                                           \
    X(ring_sent_bytes, "bytes", COUNTER, 4,                                                        \
      "Bytes of messages, without headers, sent into peers' rings. Divide it by ring_sent for "    \
      "the mean size of eager messages.")                                                          \
    X(ring_received, "messages", COUNTER, 4,                                                       \
      "Messages received from rings. Compare it with unexpected to see how many receives were "    \
      "posted in time.")                                                                           \
    X(messages_gathered, "messages", COUNTER, 4,                                                   \
      "Messages into peers' rings that devices gathered from the program's buffers. Look at it "   \
      "to see whether frequent_buffers saves copies.")                                             \
    X(self_sent, "messages", COUNTER, 4,                                                           \
      "Messages that the process sent to itself. Look at it if the program's counts of messages "  \
      "differ from those of the channels.")                                                        \
    X(self_sent_bytes, "bytes", COUNTER, 4,                                                        \
      "Bytes of messages, without headers, that the process sent to itself. Look at it if the "    \
      "program's count of bytes differs from that of the channels.")                               \
    X(rdma_read, "operations", COUNTER, 4,                                                         \
      "Operations that read remote memory by RDMA, or by one copy within a host, for long "        \
      "messages and gets. Compare it with rdma_write to see which end moves the data "             \
      "(rendezvous).")                                                                             \
    X(rdma_read_bytes, "bytes", COUNTER, 4,                                                        \
      "Bytes transferred by RDMA reads, or by one copy within a host. Look at it to see how "      \
      "much of the data needs no copy by way of a ring.")                                          \
    X(rdma_write, "operations", COUNTER, 4,                                                        \
      "Operations that write remote memory by RDMA, or by one copy within a host, for long "       \
      "messages and puts. Compare it with rdma_read to see which end moves the data "              \
      "(rendezvous).")                                                                             \
    X(rdma_write_bytes, "bytes", COUNTER, 4,                                                       \
      "Bytes transferred by RDMA writes, or by one copy within a host. Look at it to see how "     \
      "much of the data needs no copy by way of a ring.")                                          \
    X(rdma_atomic, "operations", COUNTER, 4,                                                       \
      "Operations that were remote atomics. Look at it to see whether one-sided programs use "     \
      "atomics of this transport.")                                                                \
    X(operations_assisted, "operations", COUNTER, 5,                                               \
      "Operations (small puts, gets and atomics) that the target was asked to execute. Look at "   \
      "it beside operations_taken_back if one-sided operations within a host are slow.")           \
    X(operations_taken_back, "operations", COUNTER, 5,                                             \
      "Operations that a target was asked to execute, and that this process executed because "     \
      "the target was slow. Look at it if targets compute for long: high values suggest "          \
      "small_one_sided = direct.")                                                                 \
    X(keys_replaced, "keys", COUNTER, 5,                                                           \
      "Keys of remote memory replaced because they belonged to another region than the address. "  \
      "Look at it if one-sided operations fail: it grows only if a program or Open MPI mixes "     \
      "regions up.")                                                                               \
    X(operations_served, "operations", COUNTER, 5,                                                 \
      "Operations executed here because a peer asked for them. Look at it if this process is "     \
      "slower than others: peers take its time.")                                                  \
    X(copies_offered, "messages", COUNTER, 5,                                                      \
      "Messages with a long copy in which the peer was asked to take part (cooperative copies). "  \
      "Compare it with copies_cooperative to see how often the peer did.")                         \
    X(copies_cooperative, "messages", COUNTER, 5,                                                  \
      "Messages with a long copy within a host of which each end copied a part through the "       \
      "kernel. Look at it to see which way long_copies chose.")                                    \
    X(copies_staged, "messages", COUNTER, 5,                                                       \
      "Messages with a long copy within a host that both ends made through staging memory. Look "  \
      "at it to see which way long_copies chose.")                                                 \
    X(copies_crossed, "messages", COUNTER, 5,                                                      \
      "Messages with a long copy made alone because the peer was copying in the other "            \
      "direction. Look at it if exchanges in both directions have less bandwidth than one "        \
      "direction.")                                                                                \
    X(blocks_packed, "blocks", COUNTER, 5,                                                         \
      "Blocks of non-contiguous messages packed or unpacked for the pipeline. Look at it if "      \
      "derived datatypes are slow: each block is one more copy.")                                  \
    X(registrations_made, "buffers", COUNTER, 5,                                                   \
      "Buffers registered with the rails. Look at it if long messages are slow: if it keeps "      \
      "growing, raise registration_cache or reuse buffers.")                                       \
    X(registrations_found, "buffers", COUNTER, 5,                                                  \
      "Buffers found registered from an earlier use. Compare it with registrations_made for the "  \
      "success of the registration cache.")                                                        \
    X(registrations_forgotten, "buffers", COUNTER, 6,                                              \
      "Buffers no longer kept registered because the program unmapped the memory. Look at it if "  \
      "registrations_made keeps growing: high values mean that the program frees its buffers "     \
      "all the time.")                                                                             \
    X(registered_bytes, "bytes", LEVEL, 4,                                                         \
      "Bytes of buffers that are registered now. Compare it with registration_cache and with "     \
      "the limit of locked memory.")                                                               \
    X(frequent_known, "buffers", LEVEL, 5,                                                         \
      "Buffers of small messages whose uses are counted (frequent_buffers). Look at it if "        \
      "frequent_now stays at 0: 0 here, too, means that no message qualifies.")                    \
    X(frequent_now, "buffers", LEVEL, 4,                                                           \
      "Buffers that are used so often that their messages are not copied. Compare it with "        \
      "frequent_buffers_max.")                                                                     \
    X(frequent_registered, "buffers", COUNTER, 5,                                                  \
      "Buffers registered because of frequent use. Look at it beside frequent_evicted: if both "   \
      "grow, the program uses too many buffers in turn.")                                          \
    X(frequent_refused, "buffers", COUNTER, 4,                                                     \
      "Buffers in frequent use that could not be registered. Look at it if locked memory is "      \
      "limited: the messages of these buffers are copied.")                                        \
    X(frequent_evicted, "buffers", COUNTER, 5,                                                     \
      "Buffers in frequent use that were given up for others (frequent_buffers_max). If it "       \
      "keeps growing, raise frequent_buffers_max.")                                                \
    X(frequent_gathered, "messages", COUNTER, 4,                                                   \
      "Messages (small ones) for which a frequently used buffer was found registered. Compare "    \
      "it with ring_sent to see how many of the messages benefit.")                                \
    X(frequent_gathered_bytes, "bytes", COUNTER, 4,                                                \
      "Bytes of small messages for which a frequently used buffer was found registered. Compare "  \
      "it with ring_sent_bytes to see how many of the bytes are not copied.")                      \
    X(one_sided_bounced, "operations", COUNTER, 5,                                                 \
      "Operations (small puts and gets) that were copied, since their buffers are not "            \
      "registered. Look at it if small one-sided operations over RDMA devices are slow.")          \
    X(accelerator_direct, "messages", COUNTER, 4,                                                  \
      "Messages of which an adapter read or wrote one end in an accelerator's memory; a message "  \
      "counts at each such end. Look at it to see whether accelerator_memory has an effect.")      \
    X(accelerator_refused, "buffers", COUNTER, 4,                                                  \
      "Buffers (allocations of an accelerator's memory) that adapters cannot reach; their data "   \
      "is copied. Look at it if messages from an accelerator's memory are slow.")                  \
    X(fragments_sent, "messages", COUNTER, 5,                                                      \
      "Messages that carried a part of a large one to a peer that could not be connected. Look "   \
      "at it if large messages are slow: it grows while there is no room for connections "         \
      "(connect_max).")                                                                            \
    X(registrations_failed, "buffers", COUNTER, 3,                                                 \
      "Buffers that could not be registered; their data is copied where that is possible. If it "  \
      "is not 0, raise the limit of locked memory (\"ulimit -l\").")                               \
    X(unexpected, "messages", COUNTER, 4,                                                          \
      "Messages that arrived before their receive was posted. Look at it if memory or latency "    \
      "grows: programs that post receives early keep it low.")                                     \
    X(unexpected_now, "messages", LEVEL, 4,                                                        \
      "Messages that arrived unexpectedly and wait for a receive now. If it keeps growing, a "     \
      "process receives too late, or never.")                                                      \
    X(unexpected_bytes, "bytes", LEVEL, 4,                                                         \
      "Bytes of memory that unexpected messages take now, including their records. Compare it "    \
      "with unexpected_memory, the limit.")                                                        \
    X(peers_restrained, "times", COUNTER, 3,                                                       \
      "Times that this process told a peer to hold its messages back (unexpected_memory). If it "  \
      "is not 0, post receives earlier, or raise unexpected_memory.")                              \
    X(sends_queued, "messages", COUNTER, 3,                                                        \
      "Messages held back because too many of their receiver wait there for a receive. If it is "  \
      "not 0, look at unexpected_now of the receivers.")                                           \
    X(posted_now, "receives", LEVEL, 4,                                                            \
      "Receives that are posted and wait for a message now. Look at it if a program hangs: it "    \
      "tells which processes wait.")                                                               \
    X(early, "messages", COUNTER, 6,                                                               \
      "Messages that arrived before an earlier one of the same peer. Look at it only to study "    \
      "how several paths change the order.")                                                       \
    X(duplicates, "messages", COUNTER, 6,                                                          \
      "Messages dropped because they had been received before. Look at it after a path has "       \
      "failed: what was in doubt may arrive twice.")                                               \
    X(send_stalls, "messages", COUNTER, 5,                                                         \
      "Messages that waited for credit, for room or for a connection. If it is high, raise "       \
      "ring_bytes, or have receivers call MPI more often.")                                        \
    X(credit_returns, "messages", COUNTER, 6,                                                      \
      "Messages that only returned credit to the writer of a ring here. Compare it with "          \
      "credit_carried: traffic in one direction needs many of these.")                             \
    X(credit_carried, "messages", COUNTER, 6,                                                      \
      "Messages that returned credit along with their contents. Compare it with credit_returns.")  \
    X(found_idle, "times", COUNTER, 6,                                                             \
      "Times that an idle progress call found a message when it looked again. Look at it if "      \
      "latency surprises: if it stays low, messages come later than that.")                        \
    X(bad_packets, "packets", COUNTER, 3,                                                          \
      "Packets dropped because they were malformed, foreign or stale. If it grows while no path "  \
      "fails, other programs or releases may send to these queue pairs.")
