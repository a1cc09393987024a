// SPDX-License-Identifier: BSD-3-Clause
// The parameter table and its checks (base/parameters.h).
#include "base/parameters.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/units.h"

namespace adaptib {

namespace {

Parameters g_parameters;
bool g_defaults_set = false;

constexpr opal_common_adaptib_type_t kInt = OPAL_COMMON_ADAPTIB_TYPE_INT;
constexpr opal_common_adaptib_type_t kSize = OPAL_COMMON_ADAPTIB_TYPE_SIZE;
constexpr opal_common_adaptib_type_t kDouble = OPAL_COMMON_ADAPTIB_TYPE_DOUBLE;
constexpr opal_common_adaptib_type_t kString = OPAL_COMMON_ADAPTIB_TYPE_STRING;

// The level of a parameter that a job has no more: its help says what takes its place. Its value is
// the default, but for tests and simulations.
constexpr int kEnded = 0;

constexpr std::array kTable{
    opal_common_adaptib_parameter_t{
        "eager_limit", kInt, &g_parameters.eager_limit, "-1", "bytes", "-1..1048576", 4,
        "Sets the largest message to a local peer that is sent without a handshake (eager); a "
        "longer one is announced and, once its receive is posted, copied directly between the "
        "user's buffers (rendezvous). Leave it alone unless a benchmark of your own shows that "
        "another size is faster. Negative: the limit is learnt: 4096 until copies have been "
        "timed, and then the size up to which copying through the ring was faster here, from "
        "4096 to 65536, but at most a quarter of ring_bytes."},
    opal_common_adaptib_parameter_t{
        "verbs_eager_limit", kSize, &g_parameters.verbs_eager_limit, "8192", "bytes", "0..1048576",
        4,
        "Sets the largest message to a peer on an RDMA device that is sent without a handshake. "
        "Raise it if the program sends many messages just above it and receives them late; lower "
        "it to save copies. A message that does not fit half of verbs_ring_bytes always takes "
        "the handshake."},
    opal_common_adaptib_parameter_t{
        "rendezvous", kString, &g_parameters.rendezvous, "get", "", "get|put", 5,
        "Chooses how the data of a message above the eager limit is transferred. Change it if "
        "the adapters write faster than they read. get: the receiver reads it from the sender's "
        "buffer. put: the sender writes it into the receiver's buffer."},
    opal_common_adaptib_parameter_t{
        "small_one_sided", kString, &g_parameters.small_one_sided, "auto", "", "auto|direct", 5,
        "Chooses who executes atomics, and puts and gets of up to 64 KiB, on a local peer's "
        "private memory. Set it to direct if targets compute for long without calling MPI. "
        "direct: this process, through system calls. auto: the target, when a message asks it "
        "to, as long as that is faster for the size; if the target does not take the request up "
        "soon, this process executes the operation itself."},
    opal_common_adaptib_parameter_t{
        "long_copies", kString, &g_parameters.long_copies, "auto", "", "auto|alone|together|staged",
        5,
        "Chooses how long data (messages, puts and gets of 64 KiB and more) is copied between "
        "this process and a local peer. Change it only to compare, or if runs must be alike. "
        "alone: one of the two copies all of it, through the kernel. together: each of the two "
        "copies a part, at the same time, through the kernel. staged: both copy all of it, at "
        "the same time, through shared memory. auto: the way that was fastest for that size. "
        "While the peer is not in an MPI call, this process copies all of it whatever the value."},
    opal_common_adaptib_parameter_t{
        "atomics", kString, &g_parameters.atomics, "auto", "", "auto|adapter|target", 4,
        "Chooses where remote atomics on this process's memory are executed. Set it to adapter "
        "if their speed matters more than that each is executed once even when a path fails. "
        "adapter: by the RDMA adapter, without this process; an atomic that a path failure "
        "interrupts is in doubt and ends with an error. target: by this process, exactly once "
        "whatever fails, while it is in MPI calls. auto: target if fault_tolerance is on and a "
        "fabric has several rails, if the rails belong to several adapters (whose atomics are "
        "not atomic with each other's), or if an adapter has no atomics; adapter otherwise."},
    opal_common_adaptib_parameter_t{
        "multiplexing_policy", kString, &g_parameters.multiplexing_policy, "binding", "",
        "binding|round_robin|weighted_round_robin|window_round_robin", 4,
        "Chooses the rail that carries a message above the eager limit that striping does not "
        "cut. Change it if a host has fewer processes than rails and sends few long messages. "
        "binding: always the same rail of each process; the processes of a host are spread over "
        "the rails. round_robin: the next rail for each message. weighted_round_robin: each rail "
        "as often as its share of the total rate. window_round_robin: the next rail after "
        "`window` messages."},
    opal_common_adaptib_parameter_t{
        "striping_policy", kString, &g_parameters.striping_policy, "auto", "",
        "none|auto|even|weighted|adaptive|load_balanced|bss|epc", 3,
        "Chooses how messages of striping_threshold and more are cut over the rails. Change it "
        "as adaptib_advise says, or if the default is slower than one rail. none: not at all. "
        "auto: over ports in proportion to learnt rates, and over several paths of one port only "
        "where its first path is slow and more paths help. even: in equal parts. weighted: in "
        "proportion to nominal rates. adaptive: in proportion to learnt rates. load_balanced: "
        "the least loaded rails first. bss: over the few paths that proved fastest. epc: as "
        "adaptive if the sender waits for the message, and not cut if it does not."},
    opal_common_adaptib_parameter_t{
        "striping_threshold", kSize, &g_parameters.striping_threshold, "16384", "bytes",
        "1024..1073741824", 5,
        "Sets the smallest message that striping_policy cuts; multiplexing_policy chooses one "
        "rail for each shorter one. Lower it if messages below it are slower over several rails "
        "than over one long message's share. Messages up to the eager limit are never cut."},
    opal_common_adaptib_parameter_t{
        "min_stripe", kSize, &g_parameters.min_stripe, "0", "bytes", "0..1073741824", kEnded,
        "A part is no shorter than what its rail carries in a microsecond."},
    opal_common_adaptib_parameter_t{
        "interleave", kInt, &g_parameters.interleave, "100", "us", "0..1000000", kEnded,
        "Puts and gets take turns once both directions of a rail are wanted."},
    opal_common_adaptib_parameter_t{"adaptive_alpha", kDouble, &g_parameters.adaptive_alpha, "0.5",
                                    "", "0..1", kEnded,
                                    "The latest message counts as much as all before it."},
    opal_common_adaptib_parameter_t{
        "window", kInt, &g_parameters.window, "8", "messages", "1..1000000", 6,
        "Sets the number of messages that one rail carries before the next rail has its turn. "
        "Set it with the multiplexing policy window_round_robin, to the program's own window."},
    opal_common_adaptib_parameter_t{
        "bss_paths", kInt, &g_parameters.bss_paths, "0", "paths", "0..256", kEnded,
        "All paths are sorted; bss_batch says how many carry a message."},
    opal_common_adaptib_parameter_t{
        "bss_batch", kInt, &g_parameters.bss_batch, "0", "paths", "0..256", 6,
        "Sets the number of paths that carry one message with the striping policy bss: the "
        "fastest of all. Set it as adaptib_advise says. 0: half of them."},
    opal_common_adaptib_parameter_t{
        "paths_per_port", kInt, &g_parameters.paths_per_port, "0", "paths", "0..16", 3,
        "Limits the paths that are used between two ports, where there are several: LIDs of a "
        "port on InfiniBand (2^LMC), flow labels on RoCE. Raise it if routes of one path "
        "collide, as adaptib_advise says. Each further path takes one more queue pair in each "
        "connection; the striping policy auto uses it only where it helps. A connection has at "
        "most 16 paths over all ports. 0: all LIDs of the port, but no more than 8, or one flow "
        "label."},
    opal_common_adaptib_parameter_t{
        "connect", kString, &g_parameters.connect, "on_demand", "", "on_demand|partial|static", 4,
        "Chooses the processes that are connected at the start of the job; the others are "
        "connected on demand. Set it to static to measure without the time of first contacts. "
        "on_demand: none. partial: those whose ranks are a power of two apart. static: all. Of "
        "several endpoints, each is connected to those that it exchanges messages with; "
        "one-sided operations of further endpoints, which go to the target's first one, connect "
        "on demand."},
    opal_common_adaptib_parameter_t{
        "connect_method", kString, &g_parameters.connect_method, "datagrams", "",
        "datagrams|rdma_cm", 4,
        "Chooses how the queue pairs of two processes find each other over RDMA devices. Set it "
        "to rdma_cm, for all processes, where the fabric's administrator wants paths to be "
        "resolved by the subnet. datagrams: the two processes tell each other their addresses in "
        "datagrams. rdma_cm: through rdma_cm, which has the subnet or IP resolve the path; each "
        "device needs an IP address."},
    opal_common_adaptib_parameter_t{
        "connect_threshold", kInt, &g_parameters.connect_threshold, "16", "messages",
        "0..1000000000", 4,
        "Sets the number of messages to a peer before it gets a connection and a ring of its "
        "own; until then they take the queue that all peers share. Lower it if programs are "
        "short, raise it if many peers get few messages each. A message above the eager limit, "
        "or longer than one datagram, connects at once."},
    opal_common_adaptib_parameter_t{
        "connect_max", kInt, &g_parameters.connect_max, "0", "connections", "0..65536", 3,
        "Limits the number of peers that are connected at the same time. Set it if adapters or "
        "memory are short of queue pairs. 0: as many as the device takes. To connect a further "
        "peer, this process closes the connection that was idle longest; while none is idle, "
        "messages of all sizes to that peer take the shared queue."},
    opal_common_adaptib_parameter_t{"connect_pool", kInt, &g_parameters.connect_pool, "128",
                                    "connections", "0..65536", kEnded,
                                    "The queue pairs of 128 closed connections are kept."},
    opal_common_adaptib_parameter_t{
        "dc_initiators", kInt, &g_parameters.dc_initiators, "8", "initiators", "1..64", 5,
        "Sets the number of dynamically connected (DC) queue pairs of each port that send to all "
        "peers without a queue pair of their own (channel_policy); the same number receive from "
        "these. Raise it if a process sends to many such peers at a time: each then changes its "
        "target less often. With fewer, all stay in the adapter's cache."},
    opal_common_adaptib_parameter_t{
        "channel_policy", kString, &g_parameters.channel_policy, "aqps", "",
        "aqps|rc_on_demand|dc_on_demand|ud|fixed:shared_sendrecv|fixed:shared_ring|fixed:rc_ring",
        4,
        "Chooses the peers that are connected when there is no room for all (connect_max, the "
        "device). Change it to compare, or to ud where memory is very short. aqps: the busiest, "
        "searched for every channel_period; some of the others share dynamically connected (DC) "
        "queue pairs, where devices have them. rc_on_demand: the first to come that are not "
        "idle. ud, fixed:shared_sendrecv: none for small messages, which always take the shared "
        "queue; large messages and one-sided operations still connect. fixed:rc_ring: as "
        "rc_on_demand, but the first message connects. dc_on_demand, fixed:shared_ring: as "
        "rc_on_demand and fixed:rc_ring, but over DC queue pairs (dc_initiators); where devices "
        "have none, small messages take the shared queue, and a notice says so."},
    opal_common_adaptib_parameter_t{
        "channel_period", kInt, &g_parameters.channel_period, "1000", "milliseconds", "1..3600000",
        5,
        "Sets the time from one search for the busiest peers to the next (channel policy aqps). "
        "Lower it if the program changes its partners more often than that."},
    opal_common_adaptib_parameter_t{"channel_costs", kString, &g_parameters.channel_costs,
                                    "measured", "", "measured|connect-ib", kEnded,
                                    "The costs are measured while the job runs."},
    opal_common_adaptib_parameter_t{
        "ring_bytes", kSize, &g_parameters.ring_bytes, "262144", "bytes", "4096..16777216", 4,
        "Sets the size of the ring into which a connected peer writes its messages: the bytes of "
        "that peer that can be under way. Raise it if the counter send_stalls is high. Within a "
        "host, the ring takes memory only as far as it is used. Must be a multiple of 64, and at "
        "least twice eager_limit plus 256."},
    opal_common_adaptib_parameter_t{
        "verbs_ring_bytes", kSize, &g_parameters.verbs_ring_bytes, "131072", "bytes",
        "4096..16777216", 4,
        "Sets the size of the ring of a peer that is reached over RDMA devices, where this "
        "memory is locked. Raise it if the counter send_stalls is high, lower it if locked "
        "memory is short. Must be a multiple of 64."},
    opal_common_adaptib_parameter_t{
        "ring_max", kInt, &g_parameters.ring_max, "256", "rings", "0..65536", 5,
        "Limits the number of peers that write into rings of their own; further peers share the "
        "queue, which costs no memory per peer. Raise it if more peers than that are busy at a "
        "time. 0: all peers share the queue, as with the channel policy ud."},
    opal_common_adaptib_parameter_t{
        "ring_in_order", kString, &g_parameters.placement.ring_in_order, "auto", "", "auto|yes|no",
        5,
        "Says whether this process's RDMA devices place the packets of a write in order. Set it "
        "only if the vendor says so, or if ring_check has found damage. no: peers write messages "
        "of at most one packet into its rings; longer ones take the handshake. yes: of any "
        "length. auto: what the device says (ibv_query_qp_data_in_order); yes for soft-RoCE, and "
        "where the verbs library cannot tell, unless it is a ConnectX."},
    opal_common_adaptib_parameter_t{
        "ring_check", kString, &g_parameters.placement.ring_check, "off", "", "on|off", 9,
        "Adds a checksum to each message that this process writes into peers' rings over RDMA "
        "devices. Turn it on to find devices that place packets out of order, or damaged data. "
        "on: the reader ends the connection with an error instead of delivering a message that "
        "differs. off: no checksum."},
    opal_common_adaptib_parameter_t{
        "idle_looks", kInt, &g_parameters.idle_looks, "16", "looks", "0..100000", kEnded,
        "A progress call that found nothing looks into the rings 16 times more, unless the process "
        "yields its processor."},
    opal_common_adaptib_parameter_t{
        "endpoints", kInt, &g_parameters.endpoints, "1", "endpoints", "0..16", 3,
        "Sets the number of independent sets of queues, connections and locks of each process. "
        "Set it to the number of threads that communicate at the same time; must be a power of "
        "two. Over the MTL, a communicator belongs to one endpoint, in the order in which "
        "communicators are made, and threads that use different ones do not wait for each other; "
        "it is spread over all if it is made with the info keys mpi_assert_no_any_source and "
        "mpi_assert_no_any_tag. Over the BTL, and so for one-sided operations, each thread has "
        "an endpoint. 0: the processors that the process may run on, but no more than 8, if MPI "
        "was initialized with MPI_THREAD_MULTIPLE, and 1 otherwise."},
    opal_common_adaptib_parameter_t{"block_bytes", kSize, &g_parameters.block_bytes, "65536",
                                    "bytes", "1024..16777216", kEnded,
                                    "A block of packed data has 64 KiB."},
    opal_common_adaptib_parameter_t{
        "block_depth", kInt, &g_parameters.block_depth, "4", "blocks", "1..64", kEnded,
        "Four blocks of a message are packed or under way at the same time."},
    opal_common_adaptib_parameter_t{
        "registration_cache", kSize, &g_parameters.registration.cache, "1073741824", "bytes",
        "0..1099511627776", 4,
        "Limits the total size of buffers that stay registered with RDMA devices after use, so "
        "that the next transfer need not register them again. Lower it if locked memory is short "
        "(they count as such); raise it if the counter registrations_made keeps growing. Works "
        "only where Open MPI can report memory that is unmapped. 0: each transfer registers its "
        "buffer anew."},
    opal_common_adaptib_parameter_t{
        "accelerator_memory", kString, &g_parameters.registration.accelerator_memory, "staged", "",
        "staged|registered", 5,
        "Says how long messages leave and reach an accelerator's memory (Open MPI 5 and later, "
        "over the MTL). Set it to registered if the accelerator's driver hands its memory to RDMA "
        "devices as DMA buffers (CUDA 11.7, ROCm 5.6); this has not been tried on such hardware. "
        "staged: through host memory. registered: RDMA devices read and write there, where that "
        "can be had, and through host memory elsewhere."},
    opal_common_adaptib_parameter_t{
        "relaxed_ordering", kString, &g_parameters.registration.relaxed_ordering, "auto", "",
        "auto|on|off", 5,
        "Chooses whether RDMA devices may write the data of long messages and gets to memory in "
        "any order (PCIe relaxed ordering); messages in rings, credit and windows always keep "
        "theirs. Turn it on where long messages from other hosts are slower than the link; not "
        "yet measured on adapters. Buffers that peers write into over several adapters keep the "
        "order. auto: on AMD's EPYC from Naples to Milan, as with UCX. on: where the driver takes "
        "it. off: not used."},
    opal_common_adaptib_parameter_t{
        "frequent_buffers", kString, &g_parameters.frequent_buffers, "auto", "", "auto|off|always",
        6,
        "Chooses whether small messages of non-blocking sends over RDMA devices, and puts and "
        "gets of up to 8 KiB, go out without a copy if the program uses the same buffer again "
        "and again. Set it to always if the program does so from the start; not yet measured on "
        "adapters. Such a buffer is registered and stays so, as part of registration_cache, "
        "without which this does not work. off: messages are always copied, and puts and gets "
        "never. auto: a buffer of 128 bytes and more is registered after so many uses that "
        "further ones will probably save more than the registration costs; both are measured at "
        "the first use. Processors that copy fast gather nothing, nor does a kernel whose fork "
        "does not copy registered pages (before Linux 5.12). always: at its first use."},
    opal_common_adaptib_parameter_t{
        "frequent_buffers_max", kInt, &g_parameters.frequent_buffers_max, "4096", "buffers",
        "1..262144", 5,
        "Limits the frequently used buffers (frequent_buffers) per device fabric that are "
        "registered at the same time. Raise it if the counter frequent_evicted keeps growing. "
        "For further ones, those are given up that have not been used for some time."},
    opal_common_adaptib_parameter_t{
        "fabric", kString, &g_parameters.fabric, "auto", "", "auto|both|shm|verbs", 2,
        "Chooses the transports that carry the traffic. Set it to verbs to use devices within a "
        "host as well, or to shm to use none. auto: shared memory within a host and RDMA devices "
        "between hosts, but no devices where all processes of the job run on one host or where "
        "none can be used. both: the same, but devices are opened in every job, and it is an "
        "error if none can be used. shm: shared memory alone. verbs: RDMA devices alone, within "
        "a host as well."},
    opal_common_adaptib_parameter_t{
        "if_include", kString, &g_parameters.devices.include, "all", "", "all|device[:port],...", 3,
        "Names the RDMA devices or ports to use, in the order in which rails are numbered. Set "
        "it to leave the others to something else, or to compare rails. all: every active port "
        "of InfiniBand or RoCE, the nearest to the process first. device[:port],...: those of a "
        "list like mlx_a,mlx_b:1, which may differ from host to host."},
    opal_common_adaptib_parameter_t{
        "if_exclude", kString, &g_parameters.devices.exclude, "none", "", "none|device[:port],...",
        3,
        "Names the RDMA devices or ports not to use. Set it if a device is for storage or for "
        "management. none: no device is excluded. device[:port],...: those of a list as in "
        "if_include. Only one of if_include and if_exclude can be set."},
    opal_common_adaptib_parameter_t{
        "if_standby", kString, &g_parameters.devices.standby, "none", "", "none|device[:port],...",
        4,
        "Names the RDMA devices or ports that stand by: they are connected, and carry nothing "
        "while another one connects the same two processes. Set it if a port is to be used only "
        "when others fail. none: all carry traffic. device[:port],...: those of a list as in "
        "if_include, the same on all hosts."},
    opal_common_adaptib_parameter_t{
        "gid_index", kInt, &g_parameters.gid_index, "-1", "index", "-1..255", 3,
        "RoCE: chooses the entry of a port's GID table by which the port is addressed. Set it if "
        "ports have several addresses and the wrong one is chosen (adaptib_info shows them). "
        "Negative: chosen among the entries of routable RoCE (v2), an IPv4 address before a "
        "global address, and that before a link-local one."},
    opal_common_adaptib_parameter_t{
        "partition", kInt, &g_parameters.partition, "0", "P_Key", "0..65535", 3,
        "InfiniBand: chooses the P_Key of the partition that ports use. Set it, for example to "
        "0x8001, if the job belongs to a certain partition. 0: of the partitions that both ends "
        "of a connection have, full memberships first; datagrams use the first full membership "
        "in the port's table, or its first entry if it has none."},
    opal_common_adaptib_parameter_t{
        "service_level", kInt, &g_parameters.service_level, "0", "level", "0..15", 3,
        "Sets the service level (InfiniBand) or priority (RoCE) of the packets that RDMA devices "
        "send. Set it to what the fabric's administrator has reserved for MPI."},
    opal_common_adaptib_parameter_t{
        "traffic_class", kInt, &g_parameters.traffic_class, "-1", "class", "-1..255", 3,
        "Sets the traffic class in the global header of the packets that RDMA devices send; on "
        "RoCE it holds the DSCP and ECN bits of IP. Set it to what the network's administrator "
        "has reserved for RDMA. Negative: on RoCE v2 106 (DSCP 26, ECN), unless rdma_cm has one; "
        "otherwise 0."},
    opal_common_adaptib_parameter_t{
        "datagram_buffers", kInt, &g_parameters.datagram_buffers, "4096", "buffers", "256..65536",
        5,
        "Limits the buffers, of one MTU each, in which an RDMA device puts datagrams until the "
        "process takes them. Raise it if the counter datagram_repeated grows while many peers "
        "have no connection. A process begins with 256, or with one for each process of the job "
        "but at most 1024, and adds some when many datagrams arrive at once."},
    opal_common_adaptib_parameter_t{
        "shm_single_copy", kString, &g_parameters.shm_single_copy, "auto", "", "auto|cma|none", 3,
        "Chooses how large messages are copied between processes of one host. Set it to cma to "
        "be told where the kernel forbids it, as in some containers. cma: once, by the kernel's "
        "cross-memory attach; adaptib refuses to start where that is forbidden. none: twice, "
        "through shared memory. auto: as cma where the kernel allows it, and as none elsewhere."},
    opal_common_adaptib_parameter_t{
        "shm_rails", kInt, &g_parameters.shm_rails, "1", "rails", "1..8", 6,
        "Sets the number of virtual rails over shared memory. Raise it to try failures: the tool "
        "adaptib_rails can take each of them down, slow it down or bring it back while a job "
        "runs."},
    opal_common_adaptib_parameter_t{
        "shm_queue_bytes", kSize, &g_parameters.shm_queue_bytes, "262144", "bytes",
        "65536..67108864", kEnded,
        "The shared queue has 256 KiB; a peer that is busy gets a connection (connect_threshold)."},
    opal_common_adaptib_parameter_t{
        "shm_segment_max", kSize, &g_parameters.shm_segment_max, "268435456", "bytes",
        "16777216..17179869184", 5,
        "Limits the size of a process's shared-memory segment, which grows with its traffic. "
        "Raise it together with shm_memory, lower it if address space is limited."},
    opal_common_adaptib_parameter_t{
        "unexpected_memory", kSize, &g_parameters.unexpected_memory, "0", "bytes",
        "0..1099511627776", 4,
        "Limits the memory of each process for messages that arrive before their receive is "
        "posted (MTL only). Raise it if memory is free and the counter peers_restrained is not "
        "zero. A peer whose messages take half of it, or any peer once all of it is taken, has "
        "to announce its messages or to hold them back until enough has been received. 0: one "
        "sixteenth of the memory of the node, or of what a control group allows, divided by the "
        "job's processes on the node, but at least 16 MiB and at most 1 GiB."},
    opal_common_adaptib_parameter_t{
        "shm_memory", kSize, &g_parameters.shm_memory, "0", "bytes", "0..17179869184", 4,
        "Limits the memory that a process's shared-memory segment may have; beyond it, rings "
        "stop growing and further peers share the queue. Raise it if memory is free and the "
        "counter send_stalls is high. 0: one sixteenth of the memory of the node, or of what a "
        "control group allows, divided by the job's processes on the node."},
    opal_common_adaptib_parameter_t{
        "apm", kString, &g_parameters.apm, "auto", "", "auto|on|off", 5,
        "Chooses whether an adapter moves a queue pair to an alternate path by itself when the "
        "path in use fails (automatic path migration). Turn it off if an adapter does it badly. "
        "The alternate path is the adapter's other port or another LID of the same port. auto: "
        "used where devices have it. on: the same, with a notice where no device has it. off: "
        "not used."},
    opal_common_adaptib_parameter_t{
        "fault_tolerance", kString, &g_parameters.fault_tolerance, "on", "", "on|off", 3,
        "Chooses the reaction to a failed path. Turn it off if a job shall end when a path "
        "fails. on: the connection is made anew over the other paths, and over the failed one "
        "when it is back, and work whose outcome is in doubt is repeated. off: requests to that "
        "peer end with an error. Failed paths are probed in the background until they answer "
        "again."},
    opal_common_adaptib_parameter_t{
        "failure_timeout", kInt, &g_parameters.failure_timeout, "1000", "milliseconds",
        "20..3600000", 4,
        "Sets the time after which a silent path counts as failed. Lower it if a failover has to "
        "be faster, raise it if paths that are only slow are given up. A path is silent if its "
        "queue pair completes nothing of what was posted, and the peer answers over other paths "
        "but not over this one; or if a device does not even report that a datagram was sent. A "
        "path that answers may only be slow: it gets half as long again, and more for long "
        "transfers. A failure that a device reports counts at once."},
    opal_common_adaptib_parameter_t{
        "answer_timeout", kInt, &g_parameters.answer_timeout, "1000", "milliseconds", "1..1000000",
        5,
        "Sets the time that an RDMA device waits for an acknowledgement before it sends again, "
        "rounded up to the next step that devices know; each step is twice the one before. Raise "
        "it for soft-RoCE on hosts with more processes than processors, which may take longer "
        "than a tenth of a second to answer."},
    opal_common_adaptib_parameter_t{
        "answer_retries", kInt, &g_parameters.answer_retries, "6", "retries", "0..7", kEnded,
        "A device sends again six times; answer_timeout says when, and failure_timeout when a "
        "silent path counts as failed."},
    opal_common_adaptib_parameter_t{
        "partition_timeout", kInt, &g_parameters.partition_timeout, "300", "s", "0..2147483", 3,
        "Sets the time after which a silent peer of another host is given up if something waits "
        "for it; its requests then end with an error. Raise it to outlast long repairs of the "
        "network, lower it to end a job with a dead host sooner. A process that computes answers "
        "nothing itself, but its responder (a thread, where there are RDMA devices) answers for "
        "it, so others wait for it as long as it lives. A peer of the same host is given up only "
        "once its process has ended. 0: a silent peer is never given up."},
    opal_common_adaptib_parameter_t{
        "source_map", kString, &g_parameters.source_map, "none", "", "none|path...", 4,
        "Names a file into which each process writes, at its end, how many messages came from "
        "each source over time. Set it to see which rank sends when: simulator/studies/sources "
        "draws it. none: no file is written. path...: the file path..., followed by a dot and "
        "the process's rank."},
    opal_common_adaptib_parameter_t{
        "report", kString, &g_parameters.report, "none", "", "none|summary|ranks|path...", 2,
        "Chooses the report at the end of the job. Set it to summary to see whether adaptib is "
        "used and whether something failed. summary (or 1): one page on the whole job on "
        "standard error: messages and bytes by carrier, how evenly the processes worked, "
        "failures. ranks: a page of each process, with its connections, rails and paths. "
        "path...: a JSON file of each process in this directory, for adaptib_report. none (or "
        "0): no report."},
    opal_common_adaptib_parameter_t{
        "trace", kString, &g_parameters.trace.trace, "none", "", "none|path...", 3,
        "Records a timeline of messages, long transfers, connections, paths and repairs. Set it "
        "to a directory to see what waits for what. path...: each process keeps its latest "
        "events and writes them into a JSON file in this directory at its end, for Perfetto or "
        "another viewer of Chrome's trace event format; adaptib_report joins the files of a job. "
        "none: no events are kept."},
    opal_common_adaptib_parameter_t{
        "trace_events", kInt, &g_parameters.trace.trace_events, "65536", "events", "16..16777216",
        5,
        "Sets the number of events that each endpoint of a process keeps for the parameter "
        "trace; later ones replace the oldest. Raise it if adaptib_report says that earlier ones "
        "are lost. One takes 48 bytes."},
    opal_common_adaptib_parameter_t{
        "verbose", kInt, &g_parameters.verbose, "0", "lines", "0..1", 1,
        "Chooses what is shown at the start of the job. Set it to see what adaptib carries. 1: "
        "the first process tells on standard error what adaptib carries, over which rails, with "
        "which policies. 0: nothing."},
};

void set_default(const opal_common_adaptib_parameter_t& row, void* storage) {
    const std::string_view text = row.default_text;
    switch (row.type) {
    case kInt: std::from_chars(text.begin(), text.end(), *static_cast<int*>(storage)); break;
    case kSize:
        std::from_chars(text.begin(), text.end(), *static_cast<std::size_t*>(storage));
        break;
    case kDouble: *static_cast<double*>(storage) = std::strtod(row.default_text, nullptr); break;
    case kString: *static_cast<char**>(storage) = const_cast<char*>(row.default_text); break;
    }
}

// Returns the value of `row` inside `values`, which has the layout of the process's parameters.
const void* value_of(const opal_common_adaptib_parameter_t& row, const Parameters& values) {
    const auto offset =
        static_cast<const char*>(row.storage) - reinterpret_cast<const char*>(&g_parameters);
    return reinterpret_cast<const char*>(&values) + offset;
}

std::string value_text(const opal_common_adaptib_parameter_t& row, const void* value) {
    switch (row.type) {
    case kInt: return std::to_string(*static_cast<const int*>(value));
    case kSize: return std::to_string(*static_cast<const std::size_t*>(value));
    case kDouble: return std::to_string(*static_cast<const double*>(value));
    case kString: {
        const char* text = *static_cast<char* const*>(value);
        return text == nullptr ? "" : text;
    }
    }
    return "";
}

// A choice that ends with "..." shows the form of a list: any text matches it here, and the code
// that uses the parameter checks the text.
bool one_of(std::string_view choices, std::string_view word) {
    while (!choices.empty()) {
        const std::size_t end = std::min(choices.find('|'), choices.size());
        const std::string_view choice = choices.substr(0, end);
        if (choice == word || (choice.ends_with("...") && !word.empty())) {
            return true;
        }
        choices.remove_prefix(std::min(end + 1, choices.size()));
    }
    return false;
}

// Compares numbers as long double, which holds every int and every size_t exactly on x86-64 and
// closely enough elsewhere.
bool in_range(const opal_common_adaptib_parameter_t& row, const void* value) {
    const std::string text = value_text(row, value);
    const std::string_view range = row.range;
    if (row.type == kString) {
        return one_of(range, text);
    }
    const std::size_t dots = range.find("..");
    const long double number = std::strtold(text.c_str(), nullptr);
    const long double low = std::strtold(row.range, nullptr);
    const long double high = std::strtold(row.range + dots + 2, nullptr);
    return low <= number && number <= high;
}

std::string refusal(const std::string& name, const std::string& value, const std::string& why) {
    return "The parameter opal_common_adaptib_" + name + " has the value \"" + value +
           "\", which " + why;
}

bool check_pairs(const Parameters& values, std::string& text) {
    for (const auto& [name, bytes] : {std::pair{"ring_bytes", values.ring_bytes},
                                      std::pair{"verbs_ring_bytes", values.verbs_ring_bytes}}) {
        if (bytes % kCacheLine != 0) {
            text = refusal(name, std::to_string(bytes),
                           "is not a multiple of 64. Choose one that is, for example 131072.");
            return false;
        }
    }
    const Bytes eager_limit = first_eager_limit(values);
    if (values.ring_bytes < 2 * (eager_limit + 2 * kCacheLine)) {
        text = refusal("ring_bytes", std::to_string(values.ring_bytes),
                       "is less than twice opal_common_adaptib_eager_limit (" +
                           std::to_string(eager_limit) +
                           ") plus 256 bytes. Enlarge ring_bytes or lower eager_limit.");
        return false;
    }
    if ((values.shm_queue_bytes & (values.shm_queue_bytes - 1)) != 0) {
        text = refusal("shm_queue_bytes", std::to_string(values.shm_queue_bytes),
                       "is not a power of two. Choose one that is, for example 262144.");
        return false;
    }
    if (values.bss_paths > 0 && values.bss_batch > values.bss_paths) {
        text = refusal("bss_batch", std::to_string(values.bss_batch),
                       "is more than opal_common_adaptib_bss_paths (" +
                           std::to_string(values.bss_paths) +
                           "). Lower bss_batch or raise bss_paths.");
        return false;
    }
    constexpr Bytes kFixedPart = 8 * kMiB; // tables and bounce memory of a segment
    if (values.shm_segment_max < kFixedPart + 2 * (values.shm_queue_bytes + values.ring_bytes)) {
        text = refusal(
            "shm_segment_max", std::to_string(values.shm_segment_max),
            "is too small: a segment holds 8388608 bytes of tables, and twice the shared queue (" +
                std::to_string(values.shm_queue_bytes) +
                ") and a ring (ring_bytes). Enlarge shm_segment_max, or lower ring_bytes.");
        return false;
    }
    if (values.endpoints > 0 && !std::has_single_bit(static_cast<unsigned>(values.endpoints))) {
        text = refusal("endpoints", std::to_string(values.endpoints),
                       "is not a power of two. Choose 1, 2, 4, 8 or 16, or 0.");
        return false;
    }
    return true;
}

} // namespace

ReportKind report_kind(std::string_view value) {
    for (const std::string_view no : {"none", "0", "no", "false"}) {
        if (value == no) {
            return ReportKind::none;
        }
    }
    for (const std::string_view yes : {"summary", "1", "yes", "true"}) {
        if (value == yes) {
            return ReportKind::summary;
        }
    }
    return value == "ranks" ? ReportKind::ranks : ReportKind::directory;
}

std::size_t first_eager_limit(const Parameters& values) {
    constexpr Bytes kFirst = 4096;
    return values.eager_limit >= 0
               ? static_cast<Bytes>(values.eager_limit)
               : std::min<Bytes>(kFirst, values.ring_bytes / 2 - 2 * kCacheLine);
}

Parameters default_parameters() {
    Parameters values{};
    for (const auto& row : kTable) {
        set_default(row, const_cast<void*>(value_of(row, values)));
    }
    return values;
}

Parameters& process_parameters() {
    if (!g_defaults_set) {
        g_defaults_set = true;
        g_parameters = default_parameters();
        for (const auto& row : kTable) {
            if (row.type == kString) {
                *static_cast<char**>(row.storage) = strdup(row.default_text);
            }
        }
    }
    return g_parameters;
}

std::span<const opal_common_adaptib_parameter_t> parameter_table() {
    process_parameters();
    return kTable;
}

bool check_parameters(const Parameters& values, std::string& text) {
    for (const auto& row : kTable) {
        const void* value = value_of(row, values);
        if (!in_range(row, value)) {
            const std::string unit = row.unit[0] == '\0' ? "" : std::string(" ") + row.unit;
            text =
                refusal(row.name, value_text(row, value),
                        "is not allowed. Allowed: " + std::string(row.range) + unit +
                            "; default: " + row.default_text + ". Correct it where it is set " +
                            "(mpirun --mca, OMPI_MCA_* in the environment, or mca-params.conf).");
            return false;
        }
    }
    return check_pairs(values, text);
}

} // namespace adaptib
