// SPDX-License-Identifier: BSD-3-Clause
// Counters: plain numbers about the work of a core, readable by any thread while the core runs.
//
// Purpose: one row per counter. The C glue registers each row as an MPI_T performance variable; the
// report prints the counters. Each core increments its own set: an endpoint of the process uses
// endpoint_counters(), and what a tool reads is made of all of them.
// Adding one: a line in ADAPTIB_COUNTERS.
// Threads: the core writes under its lock; a reader without the lock sees some recent value.
// May touch: base/ and the table type of common_adaptib.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "common_adaptib.h"

namespace adaptib {

class Trace;

#define ADAPTIB_PATH_WEIGHT(X, N)                                                                  \
    X(path_weight_##N, "per mille", VALUE, 5,                                                      \
      "Weight of path " #N " in striping to the peer whose stripes were timed last")

#define ADAPTIB_RAIL_BYTES(X, N)                                                                   \
    X(rail_bytes_##N, "bytes", COUNTER, 5,                                                         \
      "Bytes of long messages, puts and gets that this process has moved over rail " #N)

// X(name, unit, kind, level, help)
#define ADAPTIB_COUNTERS(X)                                                                        \
    X(datagram_sent, "messages", COUNTER, 4, "Messages sent through peers' shared queues")         \
    X(datagram_sent_bytes, "bytes", COUNTER, 4,                                                    \
      "Bytes of messages, without headers, sent through peers' shared queues")                     \
    X(datagram_received, "messages", COUNTER, 4, "Messages received through the shared queue")     \
    X(datagram_repeated, "datagrams", COUNTER, 5,                                                  \
      "Datagrams sent again because they were not acknowledged in time")                           \
    X(datagram_doubled, "datagrams", COUNTER, 6,                                                   \
      "Datagrams dropped because they had arrived before")                                         \
    X(datagram_acknowledgements, "datagrams", COUNTER, 6,                                          \
      "Datagrams sent only to acknowledge others")                                                 \
    X(datagrams_gathered, "messages", COUNTER, 4,                                                  \
      "Messages through peers' shared queues that devices gathered from the program's buffers")    \
    X(datagram_loans_ended, "messages", COUNTER, 5,                                                \
      "Messages of these whose payload was copied after all, as they were not acknowledged soon")  \
    X(ring_sent, "messages", COUNTER, 4, "Messages sent into peers' rings")                        \
    X(ring_sent_bytes, "bytes", COUNTER, 4,                                                        \
      "Bytes of messages, without headers, sent into peers' rings")                                \
    X(ring_received, "messages", COUNTER, 4, "Messages received from rings")                       \
    X(messages_gathered, "messages", COUNTER, 4,                                                   \
      "Messages into peers' rings that devices gathered from the program's buffers")               \
    X(self_sent, "messages", COUNTER, 4, "Messages that the process sent to itself")               \
    X(self_sent_bytes, "bytes", COUNTER, 4,                                                        \
      "Bytes of messages, without headers, that the process sent to itself")                       \
    X(rdma_read, "operations", COUNTER, 4,                                                         \
      "RDMA reads, or single copies within a host, of rendezvous data and gets")                   \
    X(rdma_read_bytes, "bytes", COUNTER, 4, "Bytes transferred by RDMA reads")                     \
    X(rdma_write, "operations", COUNTER, 4,                                                        \
      "RDMA writes, or single copies within a host, of rendezvous data and puts")                  \
    X(rdma_write_bytes, "bytes", COUNTER, 4, "Bytes transferred by RDMA writes")                   \
    X(rdma_atomic, "operations", COUNTER, 4, "Remote atomic operations")                           \
    X(operations_assisted, "operations", COUNTER, 5,                                               \
      "Small puts, gets and atomics that the target was asked to execute")                         \
    X(operations_taken_back, "operations", COUNTER, 5,                                             \
      "Operations that a target was asked to execute, and that this process executed because "     \
      "the target was slow")                                                                       \
    X(keys_replaced, "keys", COUNTER, 5,                                                           \
      "Keys of remote memory replaced because they belonged to another region than the address")   \
    X(operations_served, "operations", COUNTER, 5,                                                 \
      "Operations executed here because a peer asked for them")                                    \
    X(copies_offered, "messages", COUNTER, 5,                                                      \
      "Long copies in which the peer was asked to take part (cooperative copies)")                 \
    X(copies_cooperative, "messages", COUNTER, 5,                                                  \
      "Long copies within a host of which each end copied a part through the kernel")              \
    X(copies_staged, "messages", COUNTER, 5,                                                       \
      "Long copies within a host that both ends made through staging memory")                      \
    X(copies_crossed, "messages", COUNTER, 5,                                                      \
      "Long copies made alone because the peer was copying in the other direction")                \
    X(blocks_packed, "blocks", COUNTER, 5, "Pipeline blocks packed or unpacked")                   \
    X(registrations_made, "buffers", COUNTER, 5, "Buffers registered with the rails")              \
    X(registrations_found, "buffers", COUNTER, 5, "Buffers found registered from an earlier use")  \
    X(registrations_forgotten, "buffers", COUNTER, 6,                                              \
      "Buffers no longer kept registered because the program unmapped the memory")                 \
    X(registered_bytes, "bytes", LEVEL, 4, "Bytes of buffers that are registered now")             \
    X(frequent_known, "buffers", LEVEL, 5,                                                         \
      "Buffers of small messages whose uses are counted (frequent_buffers)")                       \
    X(frequent_now, "buffers", LEVEL, 4,                                                           \
      "Buffers that are used so often that their messages are not copied")                         \
    X(frequent_registered, "buffers", COUNTER, 5, "Buffers registered because of frequent use")    \
    X(frequent_refused, "buffers", COUNTER, 4,                                                     \
      "Frequently used buffers that could not be registered")                                      \
    X(frequent_evicted, "buffers", COUNTER, 5,                                                     \
      "Frequently used buffers given up for others (frequent_buffers_max)")                        \
    X(frequent_gathered, "messages", COUNTER, 4,                                                   \
      "Small messages for which a frequently used buffer was found registered")                    \
    X(frequent_gathered_bytes, "bytes", COUNTER, 4,                                                \
      "Bytes of small messages for which a frequently used buffer was found registered")           \
    X(one_sided_bounced, "operations", COUNTER, 5,                                                 \
      "Small puts and gets copied, since their buffers are not registered")                        \
    X(accelerator_direct, "messages", COUNTER, 4,                                                  \
      "Ends of long messages that adapters read or wrote in an accelerator's memory")              \
    X(accelerator_refused, "buffers", COUNTER, 4,                                                  \
      "Allocations of an accelerator's memory that adapters cannot reach; their data is copied")   \
    X(fragments_sent, "messages", COUNTER, 5,                                                      \
      "Parts of large messages sent to peers that could not be connected")                         \
    X(registrations_failed, "buffers", COUNTER, 3,                                                 \
      "Buffers that could not be registered; their data is copied where that is possible")         \
    X(unexpected, "messages", COUNTER, 4, "Messages that arrived before their receive was posted") \
    X(unexpected_now, "messages", LEVEL, 4, "Unexpected messages that wait for a receive now")     \
    X(unexpected_bytes, "bytes", LEVEL, 4,                                                         \
      "Memory that unexpected messages take now, including their records")                         \
    X(peers_restrained, "times", COUNTER, 3,                                                       \
      "Times that this process told a peer to hold its messages back (unexpected_memory)")         \
    X(sends_queued, "messages", COUNTER, 3,                                                        \
      "Messages held back because too many of their receiver wait there for a receive")            \
    X(posted_now, "receives", LEVEL, 4, "Posted receives that wait for a message now")             \
    X(early, "messages", COUNTER, 6,                                                               \
      "Messages that arrived before an earlier one of the same peer")                              \
    X(duplicates, "messages", COUNTER, 6,                                                          \
      "Messages dropped because they had been received before")                                    \
    X(send_stalls, "messages", COUNTER, 5,                                                         \
      "Messages that waited for credit, for room or for a connection")                             \
    X(credit_returns, "messages", COUNTER, 6,                                                      \
      "Returns of credit to writers of the rings here, each by a write of its own")                \
    X(credit_carried, "messages", COUNTER, 6, "Returns of credit that went along with messages")   \
    X(found_idle, "times", COUNTER, 6,                                                             \
      "Times that an idle progress call found a message when it looked again (idle_looks)")        \
    X(bad_packets, "packets", COUNTER, 3, "Malformed, foreign or stale packets dropped")           \
    X(connections_requested, "connections", COUNTER, 4, "Connections that this process requested") \
    X(connections_accepted, "connections", COUNTER, 4,                                             \
      "Connections that peers requested and this process accepted")                                \
    X(connections_crossed, "connections", COUNTER, 6,                                              \
      "Connections that both sides requested at the same time")                                    \
    X(connections_refused, "connections", COUNTER, 4,                                              \
      "Connections that peers requested and that found no room here")                              \
    X(connections_retried, "connections", COUNTER, 5,                                              \
      "Connections that this process requested again after a refusal")                             \
    X(cm_connects_repeated, "queue pairs", COUNTER, 5,                                             \
      "Further attempts of queue pairs to connect through rdma_cm (connect_method)")               \
    X(connections_closed, "connections", COUNTER, 4, "Connections closed to make room for others") \
    X(connections_yielded, "connections", COUNTER, 4,                                              \
      "Connections in use that had to yield to a process that cannot do without one")              \
    X(connections_kept, "connections", LEVEL, 5,                                                   \
      "Closed connections whose queue pairs and rings are kept (connect_pool)")                    \
    X(connections_reused, "connections", COUNTER, 5,                                               \
      "Connections made from kept queue pairs and rings")                                          \
    X(connections_shared, "connections", LEVEL, 4,                                                 \
      "Connections over dynamically connected queue pairs, which several peers share")             \
    X(initiators, "queue pairs", LEVEL, 4, "Dynamically connected initiators that exist now")      \
    X(initiators_replaced, "queue pairs", COUNTER, 4,                                              \
      "Dynamically connected initiators that failed and were replaced")                            \
    X(spread_trials, "trials", COUNTER, 5,                                                         \
      "Trials of several paths of a port whose first path was slow (striping policy auto)")        \
    X(spread_kept, "trials", COUNTER, 4,                                                           \
      "Trials of several paths of a port after which messages stayed on several paths")            \
    X(spread_fallbacks, "trials", COUNTER, 4,                                                      \
      "Returns of messages to the first path because several paths did not help, or no longer")    \
    X(lanes_migrated, "connections", COUNTER, 4,                                                   \
      "Rings moved with their credit to another path because theirs was slow (lane migration)")    \
    X(ports_measured, "ports", COUNTER, 5,                                                         \
      "Measurements of what a port carries to a peer, made where no stripes tell it")              \
    ADAPTIB_PATH_WEIGHT(X, 0)                                                                      \
    ADAPTIB_PATH_WEIGHT(X, 1)                                                                      \
    ADAPTIB_PATH_WEIGHT(X, 2)                                                                      \
    ADAPTIB_PATH_WEIGHT(X, 3)                                                                      \
    ADAPTIB_PATH_WEIGHT(X, 4)                                                                      \
    ADAPTIB_PATH_WEIGHT(X, 5)                                                                      \
    ADAPTIB_PATH_WEIGHT(X, 6)                                                                      \
    ADAPTIB_PATH_WEIGHT(X, 7)                                                                      \
    ADAPTIB_PATH_WEIGHT(X, 8)                                                                      \
    ADAPTIB_PATH_WEIGHT(X, 9)                                                                      \
    ADAPTIB_PATH_WEIGHT(X, 10)                                                                     \
    ADAPTIB_PATH_WEIGHT(X, 11)                                                                     \
    ADAPTIB_PATH_WEIGHT(X, 12)                                                                     \
    ADAPTIB_PATH_WEIGHT(X, 13)                                                                     \
    ADAPTIB_PATH_WEIGHT(X, 14)                                                                     \
    ADAPTIB_PATH_WEIGHT(X, 15)                                                                     \
    ADAPTIB_RAIL_BYTES(X, 0)                                                                       \
    ADAPTIB_RAIL_BYTES(X, 1)                                                                       \
    ADAPTIB_RAIL_BYTES(X, 2)                                                                       \
    ADAPTIB_RAIL_BYTES(X, 3)                                                                       \
    ADAPTIB_RAIL_BYTES(X, 4)                                                                       \
    ADAPTIB_RAIL_BYTES(X, 5)                                                                       \
    ADAPTIB_RAIL_BYTES(X, 6)                                                                       \
    ADAPTIB_RAIL_BYTES(X, 7)                                                                       \
    X(selections, "periods", COUNTER, 5,                                                           \
      "Searches for the busiest peers, made while there is no room for all")                       \
    X(selections_changed, "periods", COUNTER, 5, "Searches after which other peers were chosen")   \
    X(selection_bytes, "bytes", LEVEL, 6,                                                          \
      "Memory of the statistics by which the busiest peers are found")                             \
    X(cost_ring_saves, "ps", VALUE, 5,                                                             \
      "Time that the ring of a connection saves per message (r of channel_policy aqps)")           \
    X(cost_shared_ring_saves, "ps", VALUE, 6,                                                      \
      "Time that a ring over shared queue pairs saves per message (d)")                            \
    X(cost_poll, "ps", VALUE, 5, "Time that looking into an empty ring takes (p)")                 \
    X(cost_credit, "ps", VALUE, 5, "Time that one return of credit takes (c)")                     \
    X(cost_samples, "times", COUNTER, 5,                                                           \
      "Times measured for the costs of channels (channel_costs); 0: the costs are those of a "     \
      "model")                                                                                     \
    X(connections_timed, "connections", COUNTER, 5,                                                \
      "Connections that this process requested and that opened")                                   \
    X(connect_nanoseconds, "ns", COUNTER, 5,                                                       \
      "Time from the requests of this process for connections until they were open, summed")       \
    X(connect_nanoseconds_most, "ns", VALUE, 5,                                                    \
      "Longest time from the request of a connection until it was open")                           \
    X(connections_open, "connections", LEVEL, 4, "Connections that are open now")                  \
    X(connections_most, "connections", LEVEL, 4,                                                   \
      "Largest number of connections that were open at the same time")                             \
    X(queue_pairs, "queue pairs", LEVEL, 4, "Queue pairs of connections that exist now")           \
    X(queue_pairs_most, "queue pairs", LEVEL, 4,                                                   \
      "Largest number of queue pairs of connections at the same time")                             \
    X(queue_pairs_bytes, "bytes", LEVEL, 4,                                                        \
      "Memory of the send queues of connections' queue pairs, at 64 bytes per work request")       \
    X(paths_most, "paths", VALUE, 4,                                                               \
      "Largest number of paths of one connection, over all pairs of rails")                        \
    X(buffers, "buffers", LEVEL, 5,                                                                \
      "Buffers of the shared queue and of the rings that peers write into")                        \
    X(buffers_bytes, "bytes", LEVEL, 4,                                                            \
      "Memory of the buffers of the shared queue and of the rings that peers write into")          \
    X(paths_failed, "paths", COUNTER, 3, "Paths to peers that were found to have failed")          \
    X(paths_recovered, "paths", COUNTER, 3, "Failed paths that came back")                         \
    X(paths_suspected, "paths", COUNTER, 5,                                                        \
      "Paths that became suspect: unknown for a while whether they work")                          \
    X(path_probes, "datagrams", COUNTER, 5, "Probes sent over paths that are not up")              \
    X(life_questions, "datagrams", COUNTER, 5, "Questions sent to peers' responders")              \
    X(life_answers, "datagrams", COUNTER, 5, "Answers received from peers' responders")            \
    X(path_probes_answered, "datagrams", COUNTER, 5, "Probes of peers that this process answered") \
    X(datagram_restarts, "restarts", COUNTER, 4,                                                   \
      "Restarts of a rail's datagram queue pair after an error or a silence")                      \
    X(datagram_moves, "moves", COUNTER, 4,                                                         \
      "Changes of a peer's unacknowledged datagrams to another path")                              \
    X(no_path_nanoseconds, "ns", COUNTER, 3,                                                       \
      "Time without any path known to work, summed over peers; added when it ends")                \
    X(alternate_paths_armed, "paths", COUNTER, 5,                                                  \
      "Alternate paths loaded at both ends of a queue pair")                                       \
    X(path_migrations, "queue pairs", COUNTER, 4,                                                  \
      "Queue pairs that migrated to their alternate path")                                         \
    X(path_migrations_failed, "queue pairs", COUNTER, 4,                                           \
      "Queue pairs whose alternate path could not be loaded or taken")                             \
    X(connections_failed, "connections", COUNTER, 3,                                               \
      "Connections that broke or could not be made")                                               \
    X(eager_limit_bytes, "bytes", VALUE, 4,                                                        \
      "Largest message that goes through the ring of the local peer that was timed last")          \
    X(copies_timed, "messages", COUNTER, 6, "Messages whose copy into a ring was timed")           \
    X(streams_timed, "streams", COUNTER, 6,                                                        \
      "Streams of messages to local peers that were timed, to choose their way of copying")        \
    X(repairs, "connections", COUNTER, 3,                                                          \
      "Connections made anew because a path had failed or come back")                              \
    X(repair_nanoseconds, "ns", COUNTER, 5,                                                        \
      "Time from the beginning of repairs of connections until these were open, summed")           \
    X(messages_repeated, "messages", COUNTER, 4,                                                   \
      "Messages sent again into rings because their arrival was in doubt")                         \
    X(messages_repeated_bytes, "bytes", COUNTER, 4,                                                \
      "Bytes, without headers, of messages sent again because their arrival was in doubt")         \
    X(transfers_queued, "operations", COUNTER, 5,                                                  \
      "Transfers that waited so that puts and gets took turns (interleave)")                       \
    X(transfer_stalls, "transfers", COUNTER, 5,                                                    \
      "Waits of large messages and one-sided operations for room or a connection")                 \
    X(stripes_repeated, "stripes", COUNTER, 4,                                                     \
      "Parts of large messages and one-sided operations that were transferred again")              \
    X(stripes_repeated_bytes, "bytes", COUNTER, 4,                                                 \
      "Bytes of parts of large messages and one-sided operations that were transferred again")     \
    X(rings_open, "rings", LEVEL, 4, "Rings that peers write into now")                            \
    X(rings_shrunk, "rings", COUNTER, 5,                                                           \
      "Idle rings that released the memory by which they had grown")                               \
    X(peers, "peers", LEVEL, 4, "Peers that this process has had contact with")

struct Counters {
#define ADAPTIB_FIELD(name, unit, kind, level, help) std::uint64_t name = 0;
    ADAPTIB_COUNTERS(ADAPTIB_FIELD)
#undef ADAPTIB_FIELD
    Trace* trace = nullptr; // takes events beside the numbers; null: nobody asked for them
};

// The weights of paths among the counters, by number of the path: the part of a long message that
// the path would carry.
#define ADAPTIB_WEIGHT(i) &Counters::path_weight_##i
constexpr std::array<std::uint64_t Counters::*, 16> kPathWeights{
    ADAPTIB_WEIGHT(0),  ADAPTIB_WEIGHT(1),  ADAPTIB_WEIGHT(2),  ADAPTIB_WEIGHT(3),
    ADAPTIB_WEIGHT(4),  ADAPTIB_WEIGHT(5),  ADAPTIB_WEIGHT(6),  ADAPTIB_WEIGHT(7),
    ADAPTIB_WEIGHT(8),  ADAPTIB_WEIGHT(9),  ADAPTIB_WEIGHT(10), ADAPTIB_WEIGHT(11),
    ADAPTIB_WEIGHT(12), ADAPTIB_WEIGHT(13), ADAPTIB_WEIGHT(14), ADAPTIB_WEIGHT(15)};
#undef ADAPTIB_WEIGHT

// Bytes over each rail among the counters, by number of the rail.
#define ADAPTIB_BYTES(i) &Counters::rail_bytes_##i
constexpr std::array<std::uint64_t Counters::*, 8> kRailBytes{
    ADAPTIB_BYTES(0), ADAPTIB_BYTES(1), ADAPTIB_BYTES(2), ADAPTIB_BYTES(3),
    ADAPTIB_BYTES(4), ADAPTIB_BYTES(5), ADAPTIB_BYTES(6), ADAPTIB_BYTES(7)};
#undef ADAPTIB_BYTES

// Returns the counters of an endpoint of this process, whose number is below kMaxEndpoints.
Counters& endpoint_counters(std::uint32_t endpoint);
inline Counters& process_counters() { return endpoint_counters(0); }

// Returns the rows, whose values lie in the counters of endpoint 0.
std::span<const opal_common_adaptib_counter_t> counter_table();

// Returns the value of a row for the whole process: the sum over its endpoints, or of a VALUE the
// largest one. Any thread.
std::uint64_t process_value(const opal_common_adaptib_counter_t& row);

// Formats the counters for a reader, in a few lines: messages and bytes by carrier, connections.
// `who` names the process.
std::string traffic_report(const Counters& counters, const std::string& who);

} // namespace adaptib
