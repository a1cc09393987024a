// SPDX-License-Identifier: BSD-3-Clause
// The list of counters of connections, paths, their costs and failures.
//
// Purpose: the further rows of stats/counters.h, and of the table of docs/counters.md
// (test/check/counters).
// A text's first words say what is counted (its unit), and its first sentence, which; the second
// sentence says when to look at the counter, or what to do about it.
// May touch: nothing; users of the list include common_adaptib.h for the kinds.
#pragma once

#define ADAPTIB_PATH_WEIGHT(X, N)                                                                  \
    X(path_weight_##N, "per mille", VALUE, 5,                                                      \
      "Per mille of a long message that path " #N                                                  \
      " carries in striping to the peer whose stripes were timed last. Look at it to see which "   \
      "share each path has learnt.")

#define ADAPTIB_RAIL_BYTES(X, N)                                                                   \
    X(rail_bytes_##N, "bytes", COUNTER, 5,                                                         \
      "Bytes of long messages, puts and gets that this process has moved over rail " #N            \
      ". Look at it to see whether all rails are used, and how much each carries.")

// X(name, unit, kind, level, help)
#define ADAPTIB_CONNECTION_COUNTERS(X)                                                             \
    X(connections_requested, "connections", COUNTER, 4,                                            \
      "Connections that this process requested. Compare it with the number of peers: if it is "    \
      "higher, connections are made again and again.")                                             \
    X(connections_accepted, "connections", COUNTER, 4,                                             \
      "Connections that peers requested and this process accepted. Look at it beside "             \
      "connections_requested to see which side begins.")                                           \
    X(connections_crossed, "connections", COUNTER, 6,                                              \
      "Connections that both sides requested at the same time. Look at it only to study the "      \
      "start of a job; such a pair becomes one connection.")                                       \
    X(connections_refused, "connections", COUNTER, 4,                                              \
      "Connections that peers requested and that found no room here. If it grows, raise "          \
      "connect_max, or see whether the device lacks queue pairs.")                                 \
    X(connections_retried, "connections", COUNTER, 5,                                              \
      "Connections that this process requested again after a refusal. If it grows, look at "       \
      "connections_refused of its peers.")                                                         \
    X(cm_connects_repeated, "queue pairs", COUNTER, 5,                                             \
      "Queue pairs' further attempts to connect through rdma_cm (connect_method). If it grows, "   \
      "look at the network and its manager: first attempts failed.")                               \
    X(connections_closed, "connections", COUNTER, 4,                                               \
      "Connections closed to make room for others. If it grows fast, raise connect_max.")          \
    X(connections_yielded, "connections", COUNTER, 4,                                              \
      "Connections in use that had to yield to a process that cannot do without one. If it "       \
      "grows, raise connect_max: there are too few connections for the traffic.")                  \
    X(connections_kept, "connections", LEVEL, 5,                                                   \
      "Connections that are closed and whose queue pairs and rings are kept, at most 128. Look "   \
      "at it if locked memory is short.")                                                          \
    X(connections_reused, "connections", COUNTER, 5,                                               \
      "Connections made from kept queue pairs and rings. Compare it with connections_closed: the " \
      "rest was made anew.")                                                                       \
    X(connections_shared, "connections", LEVEL, 4,                                                 \
      "Connections over dynamically connected queue pairs, which several peers share. Look at "    \
      "it to see whether DC is used (channel_policy).")                                            \
    X(initiators, "queue pairs", LEVEL, 4,                                                         \
      "Queue pairs that are dynamically connected initiators and exist now. Compare it with "      \
      "dc_initiators, which counts them for each port.")                                           \
    X(initiators_replaced, "queue pairs", COUNTER, 4,                                              \
      "Queue pairs that were dynamically connected initiators, failed, and were replaced. If it "  \
      "grows, look at paths_failed: each failure breaks the initiators of its path.")              \
    X(spread_trials, "trials", COUNTER, 5,                                                         \
      "Trials of several paths of a port whose first path was slow (striping policy auto). Look "  \
      "at it beside spread_kept if a port is slower than expected.")                               \
    X(spread_kept, "trials", COUNTER, 4,                                                           \
      "Trials of several paths of a port after which messages stayed on several paths. Look at "   \
      "it to see whether several paths help on this network.")                                     \
    X(spread_fallbacks, "trials", COUNTER, 4,                                                      \
      "Trials after which messages returned to the first path because several paths did not "      \
      "help, or no longer. Compare it with spread_kept to see whether several paths help for "     \
      "long.")                                                                                     \
    X(lanes_migrated, "connections", COUNTER, 4,                                                   \
      "Connections whose ring moved with its credit to another path because its own was slow. "    \
      "If it keeps growing, look for a slow or overloaded path.")                                  \
    X(ports_measured, "ports", COUNTER, 5,                                                         \
      "Ports whose rate to a peer was measured, as no stripes tell it. Look at it if the shares "  \
      "of rails are wrong (path_weight_0 and so on).")                                             \
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
      "Periods in which the busiest peers were searched, as there was no room for all. If it is "  \
      "0, each peer that is worth a connection has one.")                                          \
    X(selections_changed, "periods", COUNTER, 5,                                                   \
      "Periods in which the search chose other peers than before. If it is close to selections, "  \
      "the program changes its partners faster than channel_period.")                              \
    X(selection_bytes, "bytes", LEVEL, 6,                                                          \
      "Bytes of memory for the statistics by which the busiest peers are found. Look at it in "    \
      "jobs with very many processes.")                                                            \
    X(cost_ring_saves, "ps", VALUE, 5,                                                             \
      "Picoseconds that the ring of a connection saves per message (r of channel_policy aqps). "   \
      "Look at it if the choice of connected peers surprises.")                                    \
    X(cost_shared_ring_saves, "ps", VALUE, 6,                                                      \
      "Picoseconds that a ring over shared queue pairs saves per message (d of channel_policy "    \
      "aqps). Look at it if the choice of peers that share queue pairs surprises.")                \
    X(cost_poll, "ps", VALUE, 5,                                                                   \
      "Picoseconds that looking into an empty ring takes (p of channel_policy aqps). Look at it "  \
      "if the choice of connected peers surprises.")                                               \
    X(cost_credit, "ps", VALUE, 5,                                                                 \
      "Picoseconds that one return of credit takes (c of channel_policy aqps). Look at it if "     \
      "the choice of connected peers surprises.")                                                  \
    X(cost_samples, "times", COUNTER, 5,                                                           \
      "Times measured for the costs of channels. If it is 0, the costs are those of a model.")     \
    X(connections_timed, "connections", COUNTER, 5,                                                \
      "Connections that this process requested and that opened. Divide connect_nanoseconds by "    \
      "it for the mean time to connect.")                                                          \
    X(connect_nanoseconds, "ns", COUNTER, 5,                                                       \
      "Nanoseconds from this process's requests for connections until they were open, summed. "    \
      "Look at it if the start of a program is slow.")                                             \
    X(connect_nanoseconds_most, "ns", VALUE, 5,                                                    \
      "Nanoseconds from the request of a connection until it was open, the longest of all. Look "  \
      "at it if single first messages take very long.")                                            \
    X(connections_open, "connections", LEVEL, 4,                                                   \
      "Connections that are open now. Compare it with connect_max and with peers.")                \
    X(connections_most, "connections", LEVEL, 4,                                                   \
      "Connections that were open at the same time, at most. Look at it before connect_max is "    \
      "lowered.")                                                                                  \
    X(queue_pairs, "queue pairs", LEVEL, 4,                                                        \
      "Queue pairs of connections that exist now. Look at it if the adapter runs short of them.")  \
    X(queue_pairs_most, "queue pairs", LEVEL, 4,                                                   \
      "Queue pairs of connections that existed at the same time, at most. Compare it with what "   \
      "the adapter offers to all processes of the host.")                                          \
    X(queue_pairs_bytes, "bytes", LEVEL, 4,                                                        \
      "Bytes of memory of the queues of connections' queue pairs over RDMA devices, as the "       \
      "driver of ConnectX lays them out. It is locked: look at it if locked memory is short.")     \
    X(paths_most, "paths", VALUE, 4,                                                               \
      "Paths of one connection, at most, over all pairs of rails. Look at it to see whether all "  \
      "rails and LIDs are used (paths_per_port).")                                                 \
    X(buffers, "buffers", LEVEL, 5,                                                                \
      "Buffers of the shared queue and of the rings that peers write into. Look at it if memory "  \
      "is short.")                                                                                 \
    X(buffers_bytes, "bytes", LEVEL, 4,                                                            \
      "Bytes of memory of the shared queue's buffers and of the rings that peers write into. "     \
      "Look at it if memory is short: connect_max and ring_bytes limit it.")                       \
    X(paths_failed, "paths", COUNTER, 3,                                                           \
      "Paths to peers that were found to have failed. If it is not 0, look for bad cables, "       \
      "ports and switches; adaptib_top shows it while the job runs.")                              \
    X(paths_recovered, "paths", COUNTER, 3,                                                        \
      "Paths that had failed and came back. Compare it with paths_failed: the difference is "      \
      "what is still missing.")                                                                    \
    X(paths_suspected, "paths", COUNTER, 5,                                                        \
      "Paths that became suspect: unknown for a while whether they work. If it grows and "         \
      "paths_failed does not, paths are slow to answer at times, but work.")                       \
    X(path_probes, "datagrams", COUNTER, 5,                                                        \
      "Datagrams that probe paths which are not up. Look at it while a path is down: it grows "    \
      "as long as the path is tried.")                                                             \
    X(life_questions, "datagrams", COUNTER, 5,                                                     \
      "Datagrams that ask peers' responders whether their process lives. Look at it if a peer "    \
      "is given up: compare it with life_answers.")                                                \
    X(life_answers, "datagrams", COUNTER, 5,                                                       \
      "Datagrams with answers of peers' responders. If it stays behind life_questions, peers or "  \
      "paths to them are gone.")                                                                   \
    X(path_probes_answered, "datagrams", COUNTER, 5,                                               \
      "Datagrams of peers' probes that this process answered. Look at it if a peer does not "      \
      "find a path again.")                                                                        \
    X(datagram_restarts, "restarts", COUNTER, 4,                                                   \
      "Restarts of a rail's datagram queue pair after an error or a silence. If it is not 0, "     \
      "look at the kernel's log for errors of the device.")                                        \
    X(datagram_moves, "moves", COUNTER, 4,                                                         \
      "Moves of a peer's unacknowledged datagrams to another path. Look at it beside "             \
      "paths_failed: it shows that traffic without connections survives, too.")                    \
    X(no_path_nanoseconds, "ns", COUNTER, 3,                                                       \
      "Nanoseconds without any path known to work, summed over peers; added when the time ends. "  \
      "If it is not 0, processes stood still because of the network.")                             \
    X(alternate_paths_armed, "paths", COUNTER, 5,                                                  \
      "Paths loaded as alternate at both ends of a queue pair. If it is 0 although apm is set, "   \
      "the device or the network offers no alternate path.")                                       \
    X(path_migrations, "queue pairs", COUNTER, 4,                                                  \
      "Queue pairs that migrated to their alternate path. Look at it beside repairs: a "           \
      "migration needs no repair.")                                                                \
    X(path_migrations_failed, "queue pairs", COUNTER, 4,                                           \
      "Queue pairs whose alternate path could not be loaded or taken. If it is not 0, look at "    \
      "repairs, which take their place.")                                                          \
    X(connections_failed, "connections", COUNTER, 3,                                               \
      "Connections that broke or could not be made. If it is not 0, look at paths_failed, and "    \
      "at the notices on standard error.")                                                         \
    X(eager_limit_bytes, "bytes", VALUE, 4,                                                        \
      "Bytes of the largest message that goes through the ring of the local peer that was timed "  \
      "last. Look at it to see the learnt eager_limit.")                                           \
    X(copies_timed, "messages", COUNTER, 6,                                                        \
      "Messages whose copy into a ring was timed. If it is 0, the eager limit is not learnt "      \
      "yet.")                                                                                      \
    X(streams_timed, "streams", COUNTER, 6,                                                        \
      "Streams of messages to local peers that were timed, to choose their way of copying. Look "  \
      "at it only to study how copies are chosen: it grows while messages stream.")                \
    X(repairs, "connections", COUNTER, 3,                                                          \
      "Connections made anew because a path had failed or come back. Look at it beside "           \
      "paths_failed: it shows that the job survived the failures.")                                \
    X(repair_nanoseconds, "ns", COUNTER, 5,                                                        \
      "Nanoseconds from the beginning of repairs of connections until these were open, summed. "   \
      "Divide it by repairs for the mean pause after a failure.")                                  \
    X(messages_repeated, "messages", COUNTER, 4,                                                   \
      "Messages sent again into rings because their arrival was in doubt. Look at it after a "     \
      "failure; none of them is received twice.")                                                  \
    X(messages_repeated_bytes, "bytes", COUNTER, 4,                                                \
      "Bytes, without headers, of messages sent again because their arrival was in doubt. Look "   \
      "at it after a failure, for its cost.")                                                      \
    X(transfers_queued, "operations", COUNTER, 5,                                                  \
      "Operations that waited so that puts and gets took turns. Look at it if they are slower "    \
      "together than one after the other.")                                                        \
    X(transfer_stalls, "transfers", COUNTER, 5,                                                    \
      "Transfers (large messages and one-sided operations) that waited for room or a "             \
      "connection. If it is high, more is under way at a time than queue pairs take.")             \
    X(stripes_repeated, "stripes", COUNTER, 4,                                                     \
      "Stripes (parts of large messages and one-sided operations) that were transferred again. "   \
      "Look at it after a failure.")                                                               \
    X(stripes_repeated_bytes, "bytes", COUNTER, 4,                                                 \
      "Bytes of parts of large messages and one-sided operations that were transferred again. "    \
      "Look at it after a failure, for its cost.")                                                 \
    X(incidents_dropped, "incidents", COUNTER, 6,                                                  \
      "Incidents of rails, paths and peers that no MPI_T event has told of, since too many came "  \
      "up at a time. Look at it if events are counted; reports know of all incidents.")            \
    X(rings_open, "rings", LEVEL, 4,                                                               \
      "Rings that peers write into now. Look at it if memory is short: each has ring_bytes "       \
      "(verbs_ring_bytes over devices) at most.")                                                  \
    X(rings_shrunk, "rings", COUNTER, 5,                                                           \
      "Rings that were idle and released the memory by which they had grown. Look at it if "       \
      "memory changes while the job runs.")                                                        \
    X(peers, "peers", LEVEL, 4,                                                                    \
      "Peers that this process has had contact with. Compare it with connections_open to see "     \
      "how many have a connection.")
