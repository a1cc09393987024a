// SPDX-License-Identifier: BSD-3-Clause
// The machine models and the source of each number.
//
// AQPS: Takagi et al., Adaptive Transport Service Selection for MPI with InfiniBand Network, 2015.
// Vishnu: the dissertation on multi-path communication over InfiniBand. Rashti: Rashti and Afsahi
// on buffer reuse, 2011. Zambre: Zambre et al. on multiple endpoints with libibverbs. MB are 10^6
// bytes, as in the papers' rates. "Assumed" marks numbers without a source; a study that depends on
// one has to vary it.
#include "simulator/network/machine.h"

#include <algorithm>

namespace adaptib::sim {

namespace {

// Mellanox Connect-IB, one port, Xeon E5-2680 v2 at 2.8 GHz (AQPS, table 3).
constexpr MachineModel kConnectIb = {
    .name = "connect-ib",
    .processor =
        {
            // Zambre 3.1: ibv_post_send of mlx5, this adapter's driver, every 296 cycles at 2.5
            // GHz.
            .post = Nanoseconds{118},
            // AQPS, table 2: a message found by polling memory is d = 0.1 us faster than one that
            // arrives by a completion, which costs taking it and posting the next receive. The
            // split is assumed.
            .post_receive = Nanoseconds{40},
            .poll_empty = Nanoseconds{10}, // AQPS, table 2: p
            .poll_completion = Nanoseconds{60},
            // AQPS, table 2: a credit packet costs its sender c = 0.3 us: a post, a completion, and
            // a rest. Half of the rest (assumed) arises only if the packet is signaled.
            .signal = Nanoseconds{60},
            .copy_start = Nanoseconds{20}, // assumed
            .copy_rate = {6'000'000'000},  // assumed: one core of that processor, beyond its caches
            // Rashti, table 2: in the fast path registering 4 KiB pays off from n = 60 uses on, by
            // equation 3, n = R / (C - V). With C - V = 0.85 us for a copy of 4 KiB (assumed: its
            // processor copies at 4.8 GB/s) R is 51 us.
            .registration = Nanoseconds{51'000},
            .registration_page = Nanoseconds{250}, // assumed: pinning a page
        },
    .adapter =
        {
            // These four and the wire are assumed, so that 8 bytes written into polled memory take
            // 0.8 us, as is common for this adapter; AQPS's figures show times of whole programs
            // only.
            .doorbell = Nanoseconds{350},
            .work_request = Nanoseconds{30},
            .receive_work = Nanoseconds{30},
            .ack = Nanoseconds{200},
            .engines = 1,
            .engine_rate = {0},
            .port_rate = {6'790'000'000}, // AQPS, table 3
            .bus_rate = {15'750'000'000}, // AQPS, table 3: PCI Express 3.0, 16 lanes
            .bus_half_duplex = false,
            // AQPS 4.3: with 26 RC and 8 DC queue pairs (h of table 2, chosen for that) no context
            // is fetched again, with the 63 + 8 of RC-RDMA-OD on 64 ranks some are. This is the
            // lower bound; a DC queue pair counts twice here, as an initiator and a target.
            .qp_cache = 42,
            .qp_miss = Nanoseconds{300}, // assumed: a read over the bus
        },
    .wire =
        {
            .cable = Nanoseconds{15},           // assumed: 3 m
            .switch_latency = Nanoseconds{170}, // assumed: an FDR switch
        },
    .limits =
        {
            .mtu = 4096,         // the largest of InfiniBand
            .inline_bytes = 128, // Rashti 5.1.1: PIO up to this size
            .max_gather = 30,    // assumed, as the next two
            .max_reads = 16,
            .max_send_depth = 16'384,
        },
    .dc =
        {
            // AQPS, table 2: r - d, the extra time of a message over DC compared to RC. Assumed: it
            // occupies the adapters, one half each.
            .message = Nanoseconds{50},
            // Fitted, both equal, so that DC on demand takes 0.76/0.81 of the time of RC on demand
            // in onetoall on 64 ranks, as in AQPS 4.3 (simulator/studies/onetoall_study.cc).
            .connect = Nanoseconds{127},
            .disconnect = Nanoseconds{127},
            .nack_backoff = Nanoseconds{1'000}, // assumed; AQPS 2.1 says what happens, not how long
            // AQPS 4.3, alltoone: a rank accepts as many connections as it has DC queue pairs.
            .responders = 1,
        },
    .path_migration =
        {
            // AQPS does not use migration: the values of infinihost.
            .migrate = Nanoseconds{29'000},
            .load_alternate = Nanoseconds{25'000},
        },
    .offers =
        {
            .rc = true,
            .ud = true,
            .dc = true,
            .srq = true,
            .read = true,
            .atomics = true,
            .migration = true,
            .reliable_ud = true,
        },
};

// Mellanox InfiniHost MT23108, 4x, one port in use, on a PCI-X bus of its own; Xeon 3.0 GHz, PC2100
// memory, InfiniScale switch (Vishnu 4.3.1; 5.3.1 IA32).
constexpr MachineModel kInfinihost = {
    .name = "infinihost",
    .processor =
        {
            .post = Nanoseconds{400}, // assumed, as the next four
            .post_receive = Nanoseconds{200},
            .poll_empty = Nanoseconds{30},
            .poll_completion = Nanoseconds{250},
            .signal = Nanoseconds{150},
            .copy_start = Nanoseconds{50},       // assumed
            .copy_rate = {1'050'000'000},        // PC2100: 2.1 GB/s; a copied byte counts twice
            .registration = Nanoseconds{51'000}, // as connect-ib (Rashti, table 2, a similar host)
            .registration_page = Nanoseconds{500}, // assumed
        },
    .adapter =
        {
            // Vishnu 4.3.2: the smallest latency is "around 6 us". The post takes 0.4 of it, two
            // copies 0.1, the adapters' work 1.4 (assumed), the wire 0.2; the rest is the way over
            // PCI-X and back.
            .doorbell = Nanoseconds{3'900},
            .work_request = Nanoseconds{700},
            .receive_work = Nanoseconds{700},
            // Assumed: of the order of a post, with which Vishnu 6.2.1 compares it.
            .ack = Nanoseconds{1'000},
            .engines = 1,
            // Vishnu 4.3.2: the peak of one rail in one direction; the port itself is 4x (2.3).
            .engine_rate = {884'000'000},
            .port_rate = {1'000'000'000},
            // Vishnu 4.3.2: the peak of both directions. PCI-X has one set of wires for both.
            .bus_rate = {943'000'000},
            .bus_half_duplex = true,
            .qp_cache = 128,               // assumed
            .qp_miss = Nanoseconds{1'000}, // assumed: a read over PCI-X
        },
    .wire =
        {
            .cable = Nanoseconds{25},           // assumed: 5 m
            .switch_latency = Nanoseconds{120}, // Vishnu 7.2.2: 0.12 us a switch block
        },
    .limits =
        {
            .mtu = 2048,         // Vishnu 2.2.1
            .inline_bytes = 128, // assumed, as the next three
            .max_gather = 30,
            .max_reads = 4,
            .max_send_depth = 16'384,
        },
    .dc =
        {
            .message = Nanoseconds{0},
            .connect = Nanoseconds{0},
            .disconnect = Nanoseconds{0},
            .nack_backoff = Nanoseconds{0},
            .responders = 0,
        },
    .path_migration =
        {
            // Vishnu 9.4.5: the migrations of 2,048 queue pairs take almost 60 ms, 29 us each.
            // 9.4.3: the transition to ARMED takes a sixth less with many queue pairs.
            .migrate = Nanoseconds{29'000},
            .load_alternate = Nanoseconds{25'000},
        },
    .offers =
        {
            .rc = true,
            .ud = true,
            .dc = false,
            .srq = true,
            .read = true,
            .atomics = true,
            .migration = true, // Vishnu 9.4.1
            .reliable_ud = true,
        },
};

// Mellanox InfiniHost III MT25208, DDR, one port, 8x PCI Express; Xeon 3.6 GHz, a switch of 144
// ports (Vishnu 7.2.1 and 8.4.1).
constexpr MachineModel kInfinihost3 = {
    .name = "infinihost-iii",
    .processor =
        {
            .post = Nanoseconds{400}, // assumed: as infinihost, as are the next four
            .post_receive = Nanoseconds{200},
            .poll_empty = Nanoseconds{30},
            .poll_completion = Nanoseconds{250},
            .signal = Nanoseconds{150},
            .copy_start = Nanoseconds{50}, // assumed
            // one channel of DDR2-533, 4.2 GB/s; a copied byte counts twice.
            .copy_rate = {2'100'000'000},
            .registration = Nanoseconds{51'000},   // as connect-ib
            .registration_page = Nanoseconds{500}, // assumed
        },
    .adapter =
        {
            // Assumed, as the next three; with two cables and a switch 3 us from end to end.
            .doorbell = Nanoseconds{1'400},
            .work_request = Nanoseconds{400},
            .receive_work = Nanoseconds{400},
            .ack = Nanoseconds{1'000},
            .engines = 1,
            .engine_rate = {0},
            // 4x DDR without its coding (2.3); 8x PCI Express carries as much. The switch's links
            // are the same, so that a link with two flows is a hot spot.
            .port_rate = {2'000'000'000},
            .bus_rate = {0},
            .bus_half_duplex = false,
            .qp_cache = 0, // assumed: all
            .qp_miss = Nanoseconds{0},
        },
    .wire =
        {
            .cable = Nanoseconds{25},           // assumed: 5 m
            .switch_latency = Nanoseconds{120}, // Vishnu 7.2.2: 0.12 us a switch block
        },
    .limits =
        {
            .mtu = 2048,         // Vishnu 2.2.1
            .inline_bytes = 128, // assumed, as the next three
            .max_gather = 30,
            .max_reads = 4,
            .max_send_depth = 16'384,
        },
    .dc =
        {
            .message = Nanoseconds{0},
            .connect = Nanoseconds{0},
            .disconnect = Nanoseconds{0},
            .nack_backoff = Nanoseconds{0},
            .responders = 0,
        },
    .path_migration =
        {
            .migrate = Nanoseconds{29'000},        // as infinihost
            .load_alternate = Nanoseconds{25'000}, // as infinihost
        },
    .offers =
        {
            .rc = true,
            .ud = true,
            .dc = false,
            .srq = true,
            .read = true,
            .atomics = true,
            .migration = true,
            .reliable_ud = true,
        },
};

// IBM's 12x adapter on the GX+ bus at 950 MHz, one port; Power6, DDR2 at 533 MHz (Vishnu 2.3.1,
// 6.3.1).
constexpr MachineModel kIbm12x = {
    .name = "ibm-12x",
    .processor =
        {
            .post = Nanoseconds{400}, // assumed, as the next four
            .post_receive = Nanoseconds{200},
            .poll_empty = Nanoseconds{20},
            .poll_completion = Nanoseconds{200},
            .signal = Nanoseconds{100},
            .copy_start = Nanoseconds{50}, // assumed
            // one channel of DDR2-533, 4.2 GB/s; a copied byte counts twice.
            .copy_rate = {2'100'000'000},
            .registration = Nanoseconds{51'000},   // as connect-ib
            .registration_page = Nanoseconds{500}, // assumed
        },
    .adapter =
        {
            // Vishnu gives no number for the latency of small messages. Assumed: 3.2 us with these
            // and the wire.
            .doorbell = Nanoseconds{1'400},
            .work_request = Nanoseconds{500},
            .receive_work = Nanoseconds{500},
            .ack = Nanoseconds{1'000},
            // Vishnu 2.3.1: several engines. 6.3.2: up to 4 queue pairs raise the bandwidth, each
            // keeps one engine busy.
            .engines = 4,
            .engine_rate = {1'661'000'000}, // Vishnu 6.3.2: the peak of one queue pair
            // Vishnu 6.3.2: the peak of four queue pairs. 12x is 3 GB/s (2.3.1) with headers.
            .port_rate = {2'745'000'000},
            .bus_rate = {3'800'000'000}, // Vishnu 2.3.1: 7.6 GB/s; assumed: half for each direction
            .bus_half_duplex = false,
            .qp_cache = 0, // assumed
            .qp_miss = Nanoseconds{0},
        },
    .wire =
        {
            .cable = Nanoseconds{25},           // assumed: 5 m
            .switch_latency = Nanoseconds{120}, // Vishnu 7.2.2
        },
    .limits =
        {
            .mtu = 2048,       // Vishnu 2.2.1
            .inline_bytes = 0, // assumed, as the next three
            .max_gather = 30,
            .max_reads = 4,
            .max_send_depth = 16'384,
        },
    .dc =
        {
            .message = Nanoseconds{0},
            .connect = Nanoseconds{0},
            .disconnect = Nanoseconds{0},
            .nack_backoff = Nanoseconds{0},
            .responders = 0,
        },
    .path_migration =
        {
            .migrate = Nanoseconds{0},
            .load_alternate = Nanoseconds{0},
        },
    .offers =
        {
            .rc = true,
            .ud = true,
            .dc = false,
            .srq = false, // assumed, as the next three
            .read = true,
            .atomics = false,
            .migration = false,
            .reliable_ud = true,
        },
};

// The shared-memory path of the host of the table in the top README: two cores of one socket. There
// the processors act as adapters: the sender's work for a message is in `post`, and the receiver
// finds the message in memory. Measured by `benchmarks/compare --rounds 13` and
// `adaptib_bench_copy`.
constexpr MachineModel kHere = {
    .name = "here",
    .processor =
        {
            // compare, rate: 14.43 million messages/s of 8 bytes, by the slower of the two sides.
            .post = Nanoseconds{69},
            .post_receive = Nanoseconds{3},
            .poll_empty = Nanoseconds{10}, // assumed: one ring and the table (ProgressEngine::pass)
            // compare, latency: 8 bytes take 212 ns; less the post and 140 ns for the cache line
            // (line).
            .poll_completion = Nanoseconds{3},
            .signal = Nanoseconds{0},
            .copy_start = Nanoseconds{3},   // adaptib_bench_copy
            .copy_rate = {26'000'000'000},  // adaptib_bench_copy: 1 MiB
            .registration = Nanoseconds{0}, // nothing is pinned (Capability::whole_memory)
            .registration_page = Nanoseconds{0},
        },
    .adapter =
        {
            .doorbell = Nanoseconds{0},
            .work_request = Nanoseconds{0},
            .receive_work = Nanoseconds{0},
            .ack = Nanoseconds{0},
            .engines = 1,
            .engine_rate = {0},
            .port_rate = {10'169'000'000}, // compare, bandwidth: 1 MiB, one copy by the kernel
            .bus_rate = {0},               // compare, bidirectional: twice as much
            .bus_half_duplex = false,
            .qp_cache = 0,
            .qp_miss = Nanoseconds{0},
        },
    .wire =
        {
            // compare, line: a cache line in 0.14 us, as two cables and no switch.
            .cable = Nanoseconds{70},
            .switch_latency = Nanoseconds{0},
        },
    .limits =
        {
            .mtu = 4096 + 256,    // a page and headers, as fabric/shm
            .inline_bytes = 1024, // fabric/shm/limits.h, as the next three
            .max_gather = 8,
            .max_reads = 16,
            .max_send_depth = 65'536,
        },
    .dc =
        {
            .message = Nanoseconds{0},
            .connect = Nanoseconds{0},
            .disconnect = Nanoseconds{0},
            .nack_backoff = Nanoseconds{0},
            .responders = 0,
        },
    .path_migration =
        {
            .migrate = Nanoseconds{0},
            .load_alternate = Nanoseconds{0},
        },
    .offers =
        {
            .rc = true,
            .ud = true,
            .dc = false,
            .srq = true,
            .read = true,
            .atomics = true,
            .migration = false,
            .reliable_ud = true, // as fabric/shm
        },
};

constexpr MachineModel kMachines[] = {kConnectIb, kInfinihost, kInfinihost3, kIbm12x, kHere};

} // namespace

std::span<const MachineModel> machines() { return kMachines; }

const MachineModel* machine(std::string_view name) {
    const auto* const found =
        std::find_if(std::begin(kMachines), std::end(kMachines),
                     [name](const MachineModel& candidate) { return candidate.name == name; });
    return found == std::end(kMachines) ? nullptr : found;
}

} // namespace adaptib::sim
