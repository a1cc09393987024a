#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""adaptib over verbs beside Open MPI's other transports and bare verbs, in the emulated machine with soft-RoCE
(test/vm). Run by benchmarks/compare --vm.

One processor, whose time counts instructions (1 ns each): a run repeats within about 1 %, on any host. Two
ranks, one on the device a0 and one on b0, the ends of one wire; waiting ranks yield.

Transports:
  mtl, btl   adaptib over verbs, under pml/cm and under pml/ob1
  static     mtl with connections made at start (connect=static) instead of on demand
  ucx        pml/ucx over rc_verbs
  ofi        mtl/ofi over verbs;ofi_rxm
  tcp        btl/tcp, which no bound refers to: the kernel sends 64 KiB in one piece over such a wire, where
             soft-RoCE makes packets of 4 KiB, each with its own checksum
  raw_send, raw_write   bare verbs: send and receive, and writes whose last byte is polled; all of these
             yield as well (benchmarks/raw_verbs.c)
  raw_eager, raw_eager_ob1, raw_rendezvous   bare verbs again, with what a tagged message cannot do without: a
             header before the data (and that of pml/ob1) and a copy at both ends; or an announcement, a
             read and its end
  ib_send_lat_e, ib_write_bw   perftest; ib_send_lat sleeps until something comes (-e), since without it
             its two ends would poll for a whole time slice each

Metrics, and the bound of each, which both mtl and btl are to keep. A ratio is that of the times, or of the
rates the other way round, so that above 1 is always worse than the peer:
  latency    half a ping-pong over the bare wire: at most 1.00 against the better one of ucx and ofi, and at
             most 1.10 against the better one of raw_eager (btl: raw_eager_ob1) and raw_rendezvous; mtl at most 1.01 against static
  bandwidth  4 MiB in flight over a wire of 100 Mbit/s: at most 1.01 against the better one of ucx and ofi
             (all fill the wire), and 1.03 (0.97 times the rate) against ib_write_bw

With --rails A:B over two wires instead, the first of 100 Mbit/s, the second of B/A of that. Transports: mtl, btl, ucx
over both rails; even: the MTL with striping_policy even, which is shown only; first, second: the MTL over that rail
alone, second without latency; first_btl: the BTL, latency only. A ratio is of times again:
  bandwidth, put, get   rates in MB/s, put and get one by one with a flush each: of mtl (bandwidth: and btl) at most
             1.031 (0.97 times the rate) against the sum of first and second, at most 1.01 against ucx
  latency    half a ping-pong: mtl and btl at most 1.02 times their own first, at every size: a second rail does no harm.
             What is not striped has one rail of each rank; both ranks are of one host, over whose rails they are spread,
             and the second rail claims to be as fast as the first: so one has to find out and move

With --faults what fault tolerance costs while nothing fails: mtl and btl beside mtl_off and btl_off, the same with
fault_tolerance off, in turns, over two rails that nothing limits:
  latency, bandwidth   at most 1.01 times

--check: exit status 1 if a bound is broken in the median of the rounds, 2 if something could not be measured.
The last line is the ratio that is worst against its bound.
"""

import argparse
import collections
import os
import re
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chart  # noqa: E402
from compare import number, size_text  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OURS = ("mtl", "btl")
PEERS = ("ucx", "ofi")
BARE = {("latency", "mtl"): ("raw_eager", "raw_rendezvous"),
        ("latency", "btl"): ("raw_eager_ob1", "raw_rendezvous"),
        ("bandwidth", "mtl"): ("ib_write_bw",), ("bandwidth", "btl"): ("ib_write_bw",)}
SHOWN = {"latency": OURS + ("static",) + PEERS + ("tcp", "raw_send", "raw_write", "raw_eager",
                                                  "raw_eager_ob1", "raw_rendezvous", "ib_send_lat_e"),
         "bandwidth": OURS + PEERS + ("tcp", "ib_write_bw")}
TITLE = {"latency": "latency, one way (us)", "bandwidth": "bandwidth over 100 Mbit/s (MB/s)"}
# (metric, True if compared with bare verbs) -> bound
BOUNDS = {("latency", False): 1.0, ("latency", True): 1.1,
          ("bandwidth", False): 1.01, ("bandwidth", True): 1.03}
STATIC_BOUND = 1.01
RATE = "100mbit"
COLORS = {"mtl": "#0b5cad", "btl": "#12a096", "ucx": "#8f4fbf", "ofi": "#d9822b", "tcp": "#b0413e",
          "raw_write": "#66727f", "raw_eager": "#1f2933", "raw_rendezvous": "#a3aab2",
          "ib_write_bw": "#66727f"}

# With --rails
RAILS_SHOWN = ("mtl", "btl", "even", "first", "second", "first_btl", "ucx")
ALONE = {"mtl": "first", "btl": "first_btl"}
RAILS_TITLE = {"bandwidth": "bandwidth (MB/s)", "put": "puts (MB/s)", "get": "gets (MB/s)",
               "latency": "latency, one way (us)"}
SUM_BOUND = 1 / 0.97
NO_HARM_BOUND = 1.02
UCX_BOUND = 1.01

# With --faults
FAULTS_SHOWN = ("mtl", "mtl_off", "btl", "btl_off")
FAULTS_TITLE = {"latency": "latency, one way (us)", "bandwidth": "bandwidth (MB/s)"}
FAULTS_BOUND = 1.01

Cell = collections.namedtuple("Cell", "metric size transport peer ratio bound")


def guest_command(options):
    if options.rails:
        words = ["rails", str(options.rounds), ",".join(rail_rates(options.rails)),
                 options.bandwidth_sizes, options.sizes or "-"]
    else:
        rate = "none" if options.faults else RATE
        words = [str(options.rounds), str(options.repetitions), options.sizes or "-", rate,
                 options.bandwidth_sizes or "-"]
    return [os.path.join(TOP, "benchmarks/compare_guest")] + words + options.transports.split(",")


def rail_rates(ratio):
    first, second = (int(part) for part in ratio.split(":"))
    return "100mbit", f"{100 * second // first}mbit"


def measure(options):
    """(metric, size) -> transport -> values of the rounds"""
    command = [os.path.join(TOP, "test/vm/run"), "--deterministic", "--rails",
               "2" if options.rails or options.faults else "1", "--seconds",
               str(options.seconds), "--"] + guest_command(options)
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    environment = dict(os.environ, COMPARE_RAILS="0,1") if options.faults else None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout:
            words = line.split()
            if len(words) == 4:
                print(f"compare: {line.strip()}", file=sys.stderr)
                metric, size, value = words[1], int(words[2]), float(words[3])
                value = size / value if metric in ("put", "get") else value
                found[metric, size][words[0]].append(value)
    if process.returncode != 0:
        raise RuntimeError(f"the virtual machine gave exit status {process.returncode}")
    return found


def cells_of(found):
    cells = []
    for (metric, size), row in sorted(found.items()):
        rate = metric == "bandwidth"
        medians = {name: statistics.median(values) for name, values in row.items()}
        best = max if rate else min
        for ours in OURS:
            for bare, others in ((False, PEERS), (True, BARE[metric, ours])):
                there = [name for name in others if name in medians]
                if ours in medians and there:
                    peer = best(there, key=medians.get)
                    one, other = medians[ours], medians[peer]
                    ratio = other / one if rate else one / other
                    cells.append(Cell(metric, size, ours, peer, ratio, BOUNDS[metric, bare]))
        if metric == "latency" and "static" in medians and "mtl" in medians:
            cells.append(Cell(metric, size, "mtl", "static", medians["mtl"] / medians["static"],
                              STATIC_BOUND))
    return cells


def faults_cells(found):
    cells = []
    for (metric, size), row in sorted(found.items()):
        medians = {name: statistics.median(values) for name, values in row.items()}
        for ours in OURS:
            off = ours + "_off"
            if ours in medians and off in medians:
                slower = (off, ours) if metric == "bandwidth" else (ours, off)
                cells.append(Cell(metric, size, ours, off, medians[slower[0]] / medians[slower[1]],
                                  FAULTS_BOUND))
    return cells


def rails_cells(found):
    cells = []
    for (metric, size), row in sorted(found.items()):
        medians = {name: statistics.median(values) for name, values in row.items()}
        for ours in OURS:
            peer = ALONE[ours]
            if metric != "latency" and {ours, "first", "second"} <= set(medians):
                both = medians["first"] + medians["second"]
                cells.append(Cell(metric, size, ours, "sum", both / medians[ours], SUM_BOUND))
            elif metric == "latency" and {ours, peer} <= set(medians):
                cells.append(Cell(metric, size, ours, peer, medians[ours] / medians[peer],
                                  NO_HARM_BOUND))
        if metric != "latency" and "ucx" in medians and "mtl" in medians:
            cells.append(Cell(metric, size, "mtl", "ucx", medians["ucx"] / medians["mtl"], UCX_BOUND))
    return cells


def print_tables(found, cells, options):
    titles, shown = TITLE, SHOWN
    if options.rails:
        titles, shown = RAILS_TITLE, {name: RAILS_SHOWN for name in RAILS_TITLE}
    elif options.faults:
        titles, shown = FAULTS_TITLE, {name: FAULTS_SHOWN for name in FAULTS_TITLE}
    digits = 3 if options.faults else 2
    for metric, columns in shown.items():
        sizes = sorted(size for name, size in found if name == metric)
        if not sizes:
            continue
        columns = [c for c in columns if any(c in found[metric, size] for size in sizes)]
        print(f"\n{titles[metric]}")
        print(f"{'':8}" + "".join(f"{c:>15}" for c in columns))
        for size in sizes:
            row = found[metric, size]
            print(f"{size_text(size):>8}" + "".join(
                f"{number(statistics.median(row[c])) if c in row else '-':>15}" for c in columns))
            for cell in cells:
                if (cell.metric, cell.size) == (metric, size):
                    mark = "!" if cell.ratio > cell.bound else ""
                    print(f"{'':8}{cell.transport} {cell.ratio:.{digits}f} to {cell.peer}, bound "
                          f"{cell.bound:.2f} {mark}".rstrip())


def write_picture(path, found, cells, rounds):
    def curve_of(metric, columns):
        return [(COLORS[c], "", {size: statistics.median(row[c])
                                 for (name, size), row in found.items() if name == metric and c in row})
                for c in columns if c in COLORS]

    def ratios(transport, bare):
        peers = BARE["latency", transport] if bare else PEERS
        return {c.size: c.ratio for c in cells if c.metric == "latency" and c.transport == transport
                and c.peer in peers}

    panels = [
        chart.curves("Latency, one way", "us", curve_of("latency", SHOWN["latency"])),
        chart.curves("Latency, ours / theirs", "better peer's; dashed: bare verbs'",
                     [(COLORS[t], dash, ratios(t, bare)) for t in OURS
                      for bare, dash in ((False, ""), (True, "6 3"))],
                     log=False, rule=(1.0, "the same")),
        chart.bars("Bandwidth over 100 Mbit/s", "MB/s", [
            (size_text(size), [(COLORS[c], statistics.median(row[c]))
                               for c in SHOWN["bandwidth"] if c in row])
            for (metric, size), row in sorted(found.items()) if metric == "bandwidth"]),
    ]
    with open(path, "w", encoding="utf-8") as file:
        file.write(chart.sheet(
            "adaptib over soft-RoCE, in an emulated machine",
            f"time counts instructions, 1 ns each; medians of {rounds} alternating rounds",
            [(color, name) for name, color in COLORS.items()], panels))
    print(f"compare: wrote {path}", file=sys.stderr)


def set_defaults(options):
    if options.transports is None:
        options.transports = "mtl,ucx,btl,raw,ofi,static,perftest,tcp"
        if options.rails or options.faults:
            options.transports = ",".join(RAILS_SHOWN if options.rails else FAULTS_SHOWN)
    # Measurements that rates limit always give the same result: more rounds are of no use.
    options.rounds = options.rounds or (1 if options.quick or options.rails else 3)
    options.repetitions = 100 if options.quick else 200
    if options.rails:
        latencies = ("16384,65536,1048576", "8,1024,4096,8192,16384,32768,65536,262144,1048576,4194304")
        bandwidths = ("1048576,4194304", "1048576,4194304")
    else:
        latencies = ("8,4096,65536", "8,64,1024,4096,8192,16384,65536,262144")
        bandwidths = ("1048576", "65536,1048576")
    if options.sizes is None:
        options.sizes = latencies[0 if options.quick else 1]
    if options.bandwidth_sizes is None:
        options.bandwidth_sizes = bandwidths[0 if options.quick else 1]
    options.seconds = (3600 if options.rails else 1200) * options.rounds


def main():
    parser = argparse.ArgumentParser(
        prog="benchmarks/compare --vm", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, fewer sizes: some minutes")
    parser.add_argument("--check", action="store_true", help="exit status 1 if a bound is broken")
    parser.add_argument("--rails", metavar="A:B", help="two rails whose rates are so, as 1:1 or 4:1")
    parser.add_argument("--faults", action="store_true", help="fault tolerance on against off")
    parser.add_argument("--sizes", metavar="BYTES,...", help="of latency")
    parser.add_argument("--bandwidth-sizes", metavar="BYTES,...")
    parser.add_argument("--transports", metavar="NAME,...",
                        help="mtl, btl, static, ucx, ofi, tcp, raw, perftest; with --rails "
                             "mtl, btl, even, first, second, first_btl, ucx; with --faults mtl, mtl_off, btl, btl_off")
    parser.add_argument("--rounds", type=int, default=0, help="3, or 1 with --quick, when absent")
    parser.add_argument("--output", metavar="FILE.svg", help="where to draw the picture")
    options = parser.parse_args()
    if options.rails and options.faults:
        parser.error("--rails or --faults")
    if (options.rails or options.faults) and options.output:
        parser.error("there is no picture of --rails, nor of --faults")
    if options.rails and not re.fullmatch(r"[1-9][0-9]?:[1-9][0-9]?", options.rails):
        parser.error("--rails: two whole numbers, as 4:1")
    set_defaults(options)
    try:
        found = measure(options)
    except RuntimeError as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    cells_from = rails_cells if options.rails else faults_cells if options.faults else cells_of
    cells = cells_from(found)
    print_tables(found, cells, options)
    if options.output:
        write_picture(options.output, found, cells, options.rounds)
    if not cells:
        print("nothing that a bound applies to was measured", file=sys.stderr)
        return 2
    broken = [cell for cell in cells if cell.ratio > cell.bound]
    worst = max(cells, key=lambda cell: cell.ratio / cell.bound)
    print(f"\n{len(cells)} bounds, {len(broken)} broken (!)")
    print(f"worst ratio {worst.ratio:.{3 if options.faults else 2}f} at {worst.size} B against {worst.peer} ({worst.metric}, "
          f"{worst.transport}), bound {worst.bound:.2f}")
    return 1 if options.check and broken else 0


if __name__ == "__main__":
    sys.exit(main())
