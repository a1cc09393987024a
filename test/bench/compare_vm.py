#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""adaptib over verbs beside Open MPI's other transports and bare verbs, in the emulated machine with soft-RoCE
(test/vm). Run by test/bench/compare --vm.

One processor, whose time counts instructions (1 ns each): a run repeats within about 1 %, on any host. Two
ranks, one on the device a0 and one on b0, the ends of one wire; waiting ranks yield.

Transports:
  mtl, btl   adaptib over verbs, under pml/cm and under pml/ob1
  ucx        pml/ucx over rc_verbs
  ofi        mtl/ofi over verbs;ofi_rxm
  tcp        btl/tcp, which no bound refers to: the kernel sends 64 KiB in one piece over such a wire, where
             soft-RoCE makes packets of 4 KiB, each with its own checksum
  raw_send, raw_write   bare verbs: send and receive, and writes whose last byte is polled; both yield as
             well (test/bench/raw_verbs.c)
  ib_send_lat_e, ib_write_bw   perftest; ib_send_lat sleeps until something comes (-e), since without it
             its two ends would poll for a whole time slice each

Metrics, and the bound of each, which both mtl and btl are to keep. A ratio is that of the times, or of the
rates the other way round, so that above 1 is always worse than the peer:
  latency    half a ping-pong over the bare wire: at most 1.00 against the better one of ucx and ofi, and at
             most 1.10 against the better one of raw_send and raw_write
  bandwidth  4 MiB in flight over a wire of 100 Mbit/s: at most 1.01 against the better one of ucx and ofi
             (all fill the wire), and 1.03 (0.97 times the rate) against ib_write_bw

--check: exit status 1 if a bound is broken in the median of the rounds, 2 if something could not be measured.
The last line is the ratio that is worst against its bound.
"""

import argparse
import collections
import os
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chart  # noqa: E402
from compare import number, size_text  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OURS = ("mtl", "btl")
PEERS = ("ucx", "ofi")
BARE = {"latency": ("raw_send", "raw_write"), "bandwidth": ("ib_write_bw",)}
SHOWN = {"latency": OURS + PEERS + ("tcp", "raw_send", "raw_write", "ib_send_lat_e"),
         "bandwidth": OURS + PEERS + ("tcp", "ib_write_bw")}
TITLE = {"latency": "latency, one way (us)", "bandwidth": "bandwidth over 100 Mbit/s (MB/s)"}
# (metric, whether against bare verbs) -> bound
BOUNDS = {("latency", False): 1.0, ("latency", True): 1.1,
          ("bandwidth", False): 1.01, ("bandwidth", True): 1.03}
RATE = "100mbit"
COLORS = {"mtl": "#0b5cad", "btl": "#12a096", "ucx": "#8f4fbf", "ofi": "#d9822b", "tcp": "#b0413e",
          "raw_send": "#66727f", "raw_write": "#1f2933", "ib_write_bw": "#66727f"}

Cell = collections.namedtuple("Cell", "metric size transport peer ratio bound")


def measure(options):
    """(metric, size) -> transport -> values of the rounds"""
    guest = [os.path.join(TOP, "test/bench/compare_guest"), str(options.rounds),
             str(options.repetitions), options.sizes or "-", RATE, options.bandwidth_sizes or "-"]
    command = [os.path.join(TOP, "test/vm/run"), "--deterministic", "--rails", "1", "--seconds",
               str(options.seconds), "--"] + guest + options.transports.split(",")
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            words = line.split()
            if len(words) == 4:
                print(f"compare: {line.strip()}", file=sys.stderr)
                found[words[1], int(words[2])][words[0]].append(float(words[3]))
    if process.returncode != 0:
        raise RuntimeError(f"the virtual machine gave exit status {process.returncode}")
    return found


def cells_of(found):
    cells = []
    for (metric, size), row in sorted(found.items()):
        rate = metric == "bandwidth"
        medians = {name: statistics.median(values) for name, values in row.items()}
        best = max if rate else min
        for bare, others in ((False, PEERS), (True, BARE[metric])):
            there = [name for name in others if name in medians]
            if not there:
                continue
            peer = best(there, key=medians.get)
            for ours in OURS:
                if ours in medians:
                    one, other = medians[ours], medians[peer]
                    ratio = other / one if rate else one / other
                    cells.append(Cell(metric, size, ours, peer, ratio, BOUNDS[metric, bare]))
    return cells


def print_tables(found, cells):
    for metric, columns in SHOWN.items():
        sizes = sorted(size for name, size in found if name == metric)
        if not sizes:
            continue
        columns = [c for c in columns if any(c in found[metric, size] for size in sizes)]
        print(f"\n{TITLE[metric]}")
        print(f"{'':8}" + "".join(f"{c:>14}" for c in columns))
        for size in sizes:
            row = found[metric, size]
            print(f"{size_text(size):>8}" + "".join(
                f"{number(statistics.median(row[c])) if c in row else '-':>14}" for c in columns))
            for cell in cells:
                if (cell.metric, cell.size) == (metric, size):
                    mark = "!" if cell.ratio > cell.bound else ""
                    print(f"{'':8}{cell.transport} {cell.ratio:.2f} to {cell.peer}, bound "
                          f"{cell.bound:.2f} {mark}".rstrip())


def write_picture(path, found, cells, rounds):
    def curve_of(metric, columns):
        return [(COLORS[c], "", {size: statistics.median(row[c])
                                 for (name, size), row in found.items() if name == metric and c in row})
                for c in columns if c in COLORS]

    def ratios(transport, bare):
        return {c.size: c.ratio for c in cells if c.metric == "latency" and c.transport == transport
                and (c.peer in BARE["latency"]) == bare}

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


def main():
    parser = argparse.ArgumentParser(
        prog="test/bench/compare --vm", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, fewer sizes: some minutes")
    parser.add_argument("--check", action="store_true", help="exit status 1 if a bound is broken")
    parser.add_argument("--sizes", metavar="BYTES,...", help="of latency")
    parser.add_argument("--bandwidth-sizes", metavar="BYTES,...")
    parser.add_argument("--transports", default="mtl,ucx,btl,raw,ofi,perftest,tcp",
                        metavar="NAME,...", help="mtl, btl, ucx, ofi, tcp, raw, perftest")
    parser.add_argument("--rounds", type=int, default=0, help="3, or 1 with --quick, when absent")
    parser.add_argument("--output", metavar="FILE.svg", help="where to draw the picture")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.repetitions = 100 if options.quick else 200
    if options.sizes is None:
        options.sizes = "8,4096,65536" if options.quick else "8,64,1024,4096,16384,65536,262144"
    if options.bandwidth_sizes is None:
        options.bandwidth_sizes = "1048576" if options.quick else "65536,1048576"
    options.seconds = 1200 * options.rounds
    try:
        found = measure(options)
    except RuntimeError as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    cells = cells_of(found)
    print_tables(found, cells)
    if options.output:
        write_picture(options.output, found, cells, options.rounds)
    if not cells:
        print("nothing that a bound applies to was measured", file=sys.stderr)
        return 2
    broken = [cell for cell in cells if cell.ratio > cell.bound]
    worst = max(cells, key=lambda cell: cell.ratio / cell.bound)
    print(f"\n{len(cells)} bounds, {len(broken)} broken (!)")
    print(f"worst ratio {worst.ratio:.2f} at {worst.size} B against {worst.peer} ({worst.metric}, "
          f"{worst.transport}), bound {worst.bound:.2f}")
    return 1 if options.check and broken else 0


if __name__ == "__main__":
    sys.exit(main())
