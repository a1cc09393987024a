// SPDX-License-Identifier: BSD-3-Clause
// Counters: what a core did, as plain numbers that anybody may read while it runs.
//
// Purpose: one row per counter; the C glue makes each an MPI_T performance variable, the report prints
// them. A core increments its own set; the process's core uses process_counters().
// Adding one: a line in ADAPTIB_COUNTERS.
// Threads: written under the core's lock; reads from elsewhere see some recent value.
// May touch: base/ and the table type of common_adaptib.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "common_adaptib.h"

namespace adaptib {

#define ADAPTIB_PATH_WEIGHT(X, N)                                                                  \
    X(path_weight_##N, "per mille", LEVEL, 5,                                                      \
      "Weight of path " #N " to the peer whose stripes were timed last")

// X(name, unit, kind, level, help)
#define ADAPTIB_COUNTERS(X)                                                                        \
    X(datagram_sent, "messages", COUNTER, 4, "Messages sent through peers' shared queues")         \
    X(datagram_sent_bytes, "bytes", COUNTER, 4,                                                    \
      "Bytes of messages, headers apart, sent through peers' shared queues")                       \
    X(datagram_received, "messages", COUNTER, 4, "Messages received through the shared queue")     \
    X(datagram_repeated, "datagrams", COUNTER, 5,                                                  \
      "Datagrams sent again, since they were not acknowledged in time")                            \
    X(datagram_doubled, "datagrams", COUNTER, 6, "Datagrams that had arrived before")              \
    X(datagram_acknowledgements, "datagrams", COUNTER, 6,                                          \
      "Datagrams that only acknowledged others")                                                   \
    X(ring_sent, "messages", COUNTER, 4, "Messages sent into peers' rings")                        \
    X(ring_sent_bytes, "bytes", COUNTER, 4,                                                        \
      "Bytes of messages, headers apart, sent into peers' rings")                                  \
    X(ring_received, "messages", COUNTER, 4, "Messages received from rings")                       \
    X(self_sent, "messages", COUNTER, 4, "Messages sent to the process itself")                    \
    X(self_sent_bytes, "bytes", COUNTER, 4,                                                        \
      "Bytes of messages, headers apart, sent to the process itself")                              \
    X(rdma_read, "operations", COUNTER, 4, "RDMA reads (or single copies) of rendezvous data")     \
    X(rdma_read_bytes, "bytes", COUNTER, 4, "Bytes moved by RDMA reads")                           \
    X(rdma_write, "operations", COUNTER, 4, "RDMA writes (or single copies) of rendezvous data")   \
    X(rdma_write_bytes, "bytes", COUNTER, 4, "Bytes moved by RDMA writes")                         \
    X(rdma_atomic, "operations", COUNTER, 4, "Remote atomic operations")                           \
    X(operations_asked, "operations", COUNTER, 5,                                                  \
      "Small puts, gets and atomics that their target was asked to do")                            \
    X(operations_taken_back, "operations", COUNTER, 5,                                             \
      "Those done here after all, since the target did not do them soon")                          \
    X(keys_replaced, "keys", COUNTER, 5,                                                           \
      "Keys of remote memory that were another region's than that of the address")                 \
    X(operations_served, "operations", COUNTER, 5, "Operations done for peers that asked")         \
    X(copies_offered, "messages", COUNTER, 5,                                                      \
      "Long messages that their sender was asked to copy together")                                \
    X(copies_shared, "messages", COUNTER, 5, "Those of which it copied a part")                    \
    X(copies_staged, "messages", COUNTER, 5, "Those that both ends copied through staging memory") \
    X(copies_crossed, "messages", COUNTER, 5,                                                      \
      "Long messages of senders that copied one in the other direction meanwhile")                 \
    X(blocks_packed, "blocks", COUNTER, 5, "Pipeline blocks packed or unpacked")                   \
    X(registrations_made, "buffers", COUNTER, 5, "Buffers registered with the rails")              \
    X(registrations_found, "buffers", COUNTER, 5,                                                  \
      "Buffers that were still registered from before")                                            \
    X(registrations_forgotten, "buffers", COUNTER, 6,                                              \
      "Kept registrations given up because the program unmapped the memory")                       \
    X(registered_bytes, "bytes", LEVEL, 4, "Bytes of buffers registered now")                      \
    X(fragments_sent, "messages", COUNTER, 5,                                                      \
      "Parts of large messages sent to peers that could not be connected")                         \
    X(registrations_failed, "buffers", COUNTER, 3,                                                 \
      "Buffers that could not be registered, and were copied where that is possible")              \
    X(unexpected, "messages", COUNTER, 4, "Messages that arrived before their receive was posted") \
    X(unexpected_now, "messages", LEVEL, 4, "Unexpected messages waiting now")                     \
    X(unexpected_bytes, "bytes", LEVEL, 4,                                                         \
      "Bytes that unexpected messages take now, with their records")                               \
    X(peers_restrained, "times", COUNTER, 3,                                                       \
      "Times that a peer was told to hold its messages back, since too many were unexpected")      \
    X(sends_held, "messages", COUNTER, 3,                                                          \
      "Messages held back, since their receiver has too many for which it has posted no receive")  \
    X(posted_now, "receives", LEVEL, 4, "Posted receives waiting now")                             \
    X(early, "messages", COUNTER, 6, "Messages that overtook an earlier one of the same peer")     \
    X(duplicates, "messages", COUNTER, 6, "Messages dropped because they had been taken before")   \
    X(send_stalls, "messages", COUNTER, 5,                                                         \
      "Messages that waited for credit, room or a connection")                                     \
    X(credit_returns, "messages", COUNTER, 6, "Credits returned to writers of our rings")          \
    X(credit_carried, "messages", COUNTER, 6, "Credits that went along with messages")             \
    X(found_idle, "times", COUNTER, 6,                                                             \
      "Times that something came while an idle pass looked into the rings again (idle_looks)")     \
    X(bad_packets, "packets", COUNTER, 3, "Malformed, foreign or stale packets dropped")           \
    X(connections_requested, "connections", COUNTER, 4, "Connections that this process asked for") \
    X(connections_accepted, "connections", COUNTER, 4, "Connections that peers asked for")         \
    X(connections_crossed, "connections", COUNTER, 6, "Connections that both sides asked for")     \
    X(connections_refused, "connections", COUNTER, 4,                                              \
      "Connections that peers asked for and that found no room here")                              \
    X(connections_retried, "connections", COUNTER, 5,                                              \
      "Connections that this process asked for again after a refusal")                             \
    X(meetings_repeated, "queue pairs", COUNTER, 5,                                                \
      "Times that queue pairs tried again to meet, with connect_method rdma_cm")                   \
    X(connections_closed, "connections", COUNTER, 4, "Connections closed to make room for others") \
    X(connections_yielded, "connections", COUNTER, 4,                                              \
      "Times that a connection in use was to end for somebody who could not do without one")       \
    X(connections_kept, "connections", LEVEL, 5,                                                   \
      "Closed connections whose queue pairs and rings are kept for the next time")                 \
    X(connections_reused, "connections", COUNTER, 5, "Connections made of what was kept")          \
    X(connections_shared, "connections", LEVEL, 4,                                                 \
      "Connections over dynamically connected queue pairs, which peers share")                     \
    X(initiators, "queue pairs", LEVEL, 4, "Dynamically connected initiators now")                 \
    X(initiators_replaced, "queue pairs", COUNTER, 4,                                              \
      "Dynamically connected initiators that failed and were made anew")                           \
    X(spread_trials, "trials", COUNTER, 5,                                                         \
      "Times that several paths of one port were tried, since the first was slow (auto)")          \
    X(spread_kept, "trials", COUNTER, 4, "Trials after which messages stayed on several paths")    \
    X(spread_fallbacks, "trials", COUNTER, 4,                                                      \
      "Times that messages went back to the first path: spreading did not help, or no more")       \
    X(homes_moved, "connections", COUNTER, 4,                                                      \
      "Rings and their credit moved to another path, since theirs was found to be slow")           \
    X(ports_measured, "ports", COUNTER, 5,                                                         \
      "Times that what a port carries to a peer was measured, since no stripes told it")           \
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
    X(selections, "periods", COUNTER, 5,                                                           \
      "Periods after which the busiest peers were looked for, there being no room for all")        \
    X(selections_changed, "periods", COUNTER, 5, "Those after which others were chosen")           \
    X(selection_bytes, "bytes", LEVEL, 6, "Memory of the statistics that this takes")              \
    X(cost_ring_saves, "ps", LEVEL, 5,                                                             \
      "What a connection's ring saves for a message, by which the busiest are chosen (r)")         \
    X(cost_shared_ring_saves, "ps", LEVEL, 6, "The same of a ring over shared queue pairs (d)")    \
    X(cost_poll, "ps", LEVEL, 5, "What it costs to look at a ring in vain (p)")                    \
    X(cost_credit, "ps", LEVEL, 5, "What it costs to return credit once (c)")                      \
    X(cost_samples, "times", COUNTER, 5, "Times that these are from; 0: they are a model's")       \
    X(connections_timed, "connections", COUNTER, 5,                                                \
      "Connections that this process asked for and got")                                           \
    X(connect_nanoseconds, "ns", COUNTER, 5, "Time from asking for these until they were open")    \
    X(connect_nanoseconds_most, "ns", LEVEL, 5, "The longest of these times")                      \
    X(connections_open, "connections", LEVEL, 4, "Connections open now")                           \
    X(connections_most, "connections", LEVEL, 4, "Most connections open at the same time")         \
    X(queue_pairs, "queue pairs", LEVEL, 4, "Queue pairs of connections now")                      \
    X(queue_pairs_most, "queue pairs", LEVEL, 4,                                                   \
      "Most queue pairs of connections at the same time")                                          \
    X(queue_pairs_bytes, "bytes", LEVEL, 4,                                                        \
      "Memory of these queue pairs' send queues, at 64 bytes a work request")                      \
    X(paths_most, "paths", LEVEL, 4, "Most paths of one connection, over all pairs of rails")      \
    X(buffers, "buffers", LEVEL, 5,                                                                \
      "Buffers of the shared queue, and of the rings that peers write into")                       \
    X(buffers_bytes, "bytes", LEVEL, 4, "Memory of these buffers")                                 \
    X(paths_failed, "paths", COUNTER, 3, "Paths to peers that were found to have failed")          \
    X(paths_recovered, "paths", COUNTER, 3, "Failed paths that came back")                         \
    X(paths_suspected, "paths", COUNTER, 5,                                                        \
      "Paths of which it was not known for a while whether they work")                             \
    X(path_probes, "datagrams", COUNTER, 5, "Questions over paths that are not up")                \
    X(life_questions, "datagrams", COUNTER, 5, "Questions to peers' responders")                   \
    X(life_answers, "datagrams", COUNTER, 5, "Answers of peers' responders")                       \
    X(path_probes_answered, "datagrams", COUNTER, 5, "Answers to questions over paths")            \
    X(datagram_restarts, "restarts", COUNTER, 4,                                                   \
      "Times that a rail's datagram queue pair was begun anew after an error or a silence")        \
    X(datagram_moves, "moves", COUNTER, 4, "Moves of a peer's datagrams to another path")          \
    X(no_path_nanoseconds, "ns", COUNTER, 3,                                                       \
      "Time in which no path to a peer was known to work, summed over peers, when it was over")    \
    X(alternate_paths_armed, "paths", COUNTER, 5,                                                  \
      "Alternate paths that were loaded at both ends of a queue pair")                             \
    X(path_migrations, "queue pairs", COUNTER, 4,                                                  \
      "Queue pairs that went over to their alternate path")                                        \
    X(path_migrations_failed, "queue pairs", COUNTER, 4,                                           \
      "Queue pairs whose alternate path could not be loaded or taken")                             \
    X(connections_failed, "connections", COUNTER, 3,                                               \
      "Connections that broke or could not be made")                                               \
    X(eager_limit_bytes, "bytes", LEVEL, 4,                                                        \
      "Messages up to this size go through the ring of the local peer that was timed last")        \
    X(copies_timed, "messages", COUNTER, 6, "Messages whose copy into a ring was timed")           \
    X(streams_timed, "streams", COUNTER, 6,                                                        \
      "Streams of messages to local peers that were timed, for the way that the next ones go")     \
    X(repairs, "connections", COUNTER, 3,                                                          \
      "Connections made anew since a path had failed or come back")                                \
    X(repair_nanoseconds, "ns", COUNTER, 5,                                                        \
      "Time from the beginning of these repairs until the connections were open again")            \
    X(messages_repeated, "messages", COUNTER, 4,                                                   \
      "Messages sent again into rings since their arrival was in doubt")                           \
    X(messages_repeated_bytes, "bytes", COUNTER, 4, "Bytes of these, headers apart")               \
    X(moves_held, "operations", COUNTER, 5,                                                        \
      "Transfers that waited for others of their direction, so that puts and gets took turns")     \
    X(transfer_stalls, "transfers", COUNTER, 5,                                                    \
      "Times that a large message or one-sided operation had to wait for room or a connection")    \
    X(stripes_repeated, "stripes", COUNTER, 4,                                                     \
      "Parts of large messages and one-sided operations moved again")                              \
    X(stripes_repeated_bytes, "bytes", COUNTER, 4, "Bytes of these")                               \
    X(rings_open, "rings", LEVEL, 4, "Rings that peers write into now")                            \
    X(rings_shrunk, "rings", COUNTER, 5,                                                           \
      "Times that an idle ring gave back the memory that it had grown by")                         \
    X(peers, "peers", LEVEL, 4, "Peers that this process has had contact with")

struct Counters {
#define ADAPTIB_FIELD(name, unit, kind, level, help) std::uint64_t name = 0;
    ADAPTIB_COUNTERS(ADAPTIB_FIELD)
#undef ADAPTIB_FIELD
};

// The weights of paths among them, by number: of each path the part of a long message that it would carry.
#define ADAPTIB_WEIGHT(i) &Counters::path_weight_##i
constexpr std::array<std::uint64_t Counters::*, 16> kPathWeights{
    ADAPTIB_WEIGHT(0),  ADAPTIB_WEIGHT(1),  ADAPTIB_WEIGHT(2),  ADAPTIB_WEIGHT(3),
    ADAPTIB_WEIGHT(4),  ADAPTIB_WEIGHT(5),  ADAPTIB_WEIGHT(6),  ADAPTIB_WEIGHT(7),
    ADAPTIB_WEIGHT(8),  ADAPTIB_WEIGHT(9),  ADAPTIB_WEIGHT(10), ADAPTIB_WEIGHT(11),
    ADAPTIB_WEIGHT(12), ADAPTIB_WEIGHT(13), ADAPTIB_WEIGHT(14), ADAPTIB_WEIGHT(15)};
#undef ADAPTIB_WEIGHT

// The counters of the process's core.
Counters& process_counters();

// Rows over process_counters().
std::span<const opal_common_adaptib_counter_t> counter_table();

// What carried how many messages and bytes, a few lines for a person. `who` names the process.
std::string traffic_report(const Counters& counters, const std::string& who);

} // namespace adaptib
