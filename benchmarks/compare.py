#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""adaptib beside Open MPI's own transports, on one host. Run by benchmarks/compare.

Transports:
  mtl    --mca pml cm --mca mtl adaptib; one-sided operations with --mca btl adaptib,self --mca osc rdma
         added, so that both components share a core
  btl    --mca pml ob1 --mca btl adaptib,self --mca osc rdma
  vader  --mca pml ob1 --mca btl vader,self --mca osc rdma. Open MPI 5 calls it sm, with components of
         the framework smsc for single copies; it still takes the old name
  ucx    --mca pml ucx --mca osc ucx, with UCX_TLS=shm,self and any device allowed
Ranks are bound to cores, the eight of barrier and alltoall in turn: left to the kernel they are three and
five on two cores every now and then, which takes twice as long with any transport.

Metrics (their program is compare_mpi.c), and the bound of each, which both mtl and btl are to keep
against the better one of vader and ucx. A ratio is that of the times, or of the rates the other way
round, so that above 1 is always worse than the peer:
  line           half a round trip of a cache line between two pinned processes, without MPI: what
                 no latency can be below. No bound; the ratio of latency at its smallest size to it
                 is printed
  latency        half a ping-pong, 1 B to 4 MiB               at most 1.00 at every size
  rate           messages of 8 B, 64 in flight                at most 0.83 (1.2 times the rate)
  bandwidth      one direction, 4 KiB to 4 MiB                at most 1.00
  bidirectional  both directions, the sum                     at most 1.00
  put, get       with MPI_Win_flush, MPI_Win_create, 8 B to 1 MiB    at most 1.00
  fetch_and_op   the same, MPI_SUM of 8 bytes                 at most 1.00
  put_allocate, get_allocate, fetch_and_op_allocate           no bound: on one host osc/rdma maps the
                 memory of MPI_Win_allocate into all ranks and touches it without asking any BTL. In
                 windows of MPI_Win_create, puts, gets and fetching additions of other ranks are the
                 BTL's (only the lock of accumulates is a word that osc/rdma shares)
  depth_posted, depth_unexpected   latency of 8 B beside 0, 100 and 10,000 other posted receives, or
                 unexpected messages. mtl at most 1.25 times its own latency with none; beside it
                 ob1's matching, which is that of the BTL, too, and ucx's
  barrier, alltoall   8 ranks                                 at most 1.10
  turns_barrier, work_barrier, change_barrier, and of alltoall   no bound: what a barrier and an alltoall of 8 B
                 are made of where 8 ranks share fewer processors, each of which gives its own up when it waits: turns
                 of a rank, the time of one, and that between two ranks' turns. Only where asked for (--only turns)

Each run of a transport measures in short batches and gives the best one (the median one for barrier
and alltoall, where waiting is what is measured): on a machine that does other things as well, most
batches are disturbed. The runs of the transports take turns in rounds, since some transports are
faster in some jobs than in others; what is shown is the median of the rounds. Of barrier and alltoall a round is three
short jobs, and their median, since each is in one of several states for as long as it lasts. --median takes the
median of the batches, too: the better choice on a machine that is quiet.

A bound is broken if the ratio of the medians is beyond it and so are the ratios of three quarters of
the rounds; beyond it in fewer rounds it is shown as noise (~). --check: exit status 1 if any bound is
broken, 2 if something could not be measured. The last line is the ratio that is worst against
its bound.
"""

import argparse
import collections
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chart  # noqa: E402

OURS = ("mtl", "btl")
PEERS = ("vader", "ucx")
TRANSPORTS = OURS + PEERS

TWO_SIDED = {
    "mtl": "--mca pml cm --mca mtl adaptib",
    "btl": "--mca pml ob1 --mca btl adaptib,self",
    "vader": "--mca pml ob1 --mca btl vader,self",
    "ucx": "--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any",
}
ONE_SIDED = {
    "mtl": TWO_SIDED["mtl"] + " --mca btl adaptib,self --mca osc rdma",
    "btl": TWO_SIDED["btl"] + " --mca osc rdma",
    "vader": TWO_SIDED["vader"] + " --mca osc rdma",
    "ucx": TWO_SIDED["ucx"] + " --mca osc ucx",
}
PAIR = "-np 2 --bind-to core"
CROWD = "-np 8 --oversubscribe --bind-to core:overload-allowed --map-by core"

Part = collections.namedtuple("Part", "mpirun transports batch")
PARTS = {
    "line": Part(None, {"line": ""}, 0),
    "two": Part(PAIR, TWO_SIDED, 300),
    "one": Part(PAIR, ONE_SIDED, 300),
    "depth": Part(PAIR, {name: TWO_SIDED[name] for name in ("mtl", "vader", "ucx")}, 300),
    "crowd": Part(CROWD, TWO_SIDED, 5000),
    "turns": Part(CROWD, TWO_SIDED, 5000),
}

Metric = collections.namedtuple("Metric", "part title unit rate bound")
METRICS = {
    "line": Metric("line", "cache line, one way", "us", False, None),
    "latency": Metric("two", "latency, one way", "us", False, 1.0),
    "rate": Metric("two", "message rate, 64 in flight", "million/s", True, 1 / 1.2),
    "bandwidth": Metric("two", "bandwidth", "MB/s", True, 1.0),
    "bidirectional": Metric("two", "bandwidth of both directions", "MB/s", True, 1.0),
    "put": Metric("one", "put and flush", "us", False, 1.0),
    "get": Metric("one", "get and flush", "us", False, 1.0),
    "fetch_and_op": Metric("one", "fetch_and_op and flush", "us", False, 1.0),
    "put_allocate": Metric("one", "put, MPI_Win_allocate", "us", False, None),
    "get_allocate": Metric("one", "get, MPI_Win_allocate", "us", False, None),
    "fetch_and_op_allocate":
        Metric("one", "fetch_and_op, MPI_Win_allocate", "us", False, None),
    "depth_posted": Metric("depth", "latency of 8 B beside posted receives", "us", False, 1.25),
    "depth_unexpected":
        Metric("depth", "latency of 8 B beside unexpected messages", "us", False, 1.25),
    "barrier": Metric("crowd", "barrier of 8 ranks", "us", False, 1.1),
    "alltoall": Metric("crowd", "alltoall of 8 ranks", "us", False, 1.1),
    "turns_barrier": Metric("turns", "barrier of 8 ranks: turns of each", "turns", False, None),
    "work_barrier": Metric("turns", "a turn", "us", False, None),
    "change_barrier": Metric("turns", "from one turn to the next", "us", False, None),
    "turns_alltoall": Metric("turns", "alltoall of 8 B, 8 ranks: turns of each", "turns", False, None),
    "work_alltoall": Metric("turns", "a turn", "us", False, None),
    "change_alltoall": Metric("turns", "from one turn to the next", "us", False, None),
}


# A job of more ranks than cores stays in one of several states as long as it lasts, so many short
# jobs tell more than few long ones (TUNING.md, "A barrier").
CROWD_JOBS = 3


class Failure(Exception):
    """A run that gave no result."""


def fail_of(command, what, text):
    return Failure(f"{what}: {' '.join(command)}\n" + "\n".join(text.splitlines()[-20:]))


# --------------------------------------------------------------------------------------------------
# Runs


def stop(process):
    """Ends it, and returns what it said. mpirun ends its ranks when it is asked to end."""
    process.terminate()
    try:
        return process.communicate(timeout=10)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def run_once(command, seconds):
    """The output. Nothing that was started is left running, however this ends."""
    environment = dict(os.environ, UCX_TLS="shm,self")
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env=environment,
                          start_new_session=True) as process:
        try:
            text = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            raise fail_of(command, f"not ended within {seconds} s", stop(process)) from None
        except BaseException:
            stop(process)
            raise
    if process.returncode != 0:
        raise fail_of(command, f"exit status {process.returncode}", text)
    return text


def run(command, seconds):
    """MPI_Finalize crashes once in many runs on every transport: a lone failure is tried again."""
    try:
        return run_once(command, seconds)
    except Failure as failure:
        print(f"compare: trying again: {failure}", file=sys.stderr)
        return run_once(command, seconds)


def measure(options, part_name, transport, metrics):
    """(metric, size) -> value of a round: the median of its jobs"""
    jobs = CROWD_JOBS if PARTS[part_name].mpirun == CROWD and not options.quick else 1
    runs = [measure_job(options, part_name, transport, metrics) for _ in range(jobs)]
    return {key: statistics.median(values[key] for values in runs if key in values)
            for key in runs[0]}


def measure_job(options, part_name, transport, metrics):
    """(metric, size) -> value"""
    part = PARTS[part_name]
    batches = 15 if options.quick else 40
    if part.mpirun == CROWD:
        batches = 3 if options.quick else 5
    command = [options.program, part_name, str(part.batch or 1000), str(batches),
               ",".join(metrics), options.sizes if part_name in ("two", "one") else ""]
    if part.mpirun:
        command = ["mpirun"] + part.mpirun.split() + part.transports[transport].split() + command
    text = run(command, 120)
    best = not options.median and part.mpirun != CROWD
    values = {}
    for match in re.finditer(r"^(\w+) (\d+) ([\d.e+-]+) ([\d.e+-]+)$", text, re.MULTILINE):
        values[match[1], int(match[2])] = float(match[4] if best else match[3])
    asked = {metric for metric, _ in values}
    if asked != set(metrics) and not options.sizes:
        raise fail_of(command, f"no result for {', '.join(set(metrics) - asked)}", text)
    return values


def rounds_of(options, metrics):
    """(metric, size) -> transport -> values of the rounds"""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    parts = [name for name in PARTS if any(METRICS[m].part == name for m in metrics)]
    start = time.monotonic()
    for number in range(options.rounds):
        # --quick stays under a minute on a slow machine, too.
        elapsed = time.monotonic() - start
        if options.quick and number and elapsed * (number + 1) / number > 52:
            print(f"compare: {number} rounds in {elapsed:.0f} s, no further one", file=sys.stderr)
            break
        for part in parts:
            chosen = [m for m in metrics if METRICS[m].part == part]
            transports = list(PARTS[part].transports)
            turn = number % len(transports)
            for transport in transports[turn:] + transports[:turn]:
                print(f"compare: round {number + 1} of {options.rounds}, {part}, {transport}",
                      file=sys.stderr)
                for key, value in measure(options, part, transport, chosen).items():
                    found[key][transport].append(value)
    return found


# --------------------------------------------------------------------------------------------------
# Ratios and bounds

# One transport at one metric and size; verdict is "ok", "noise", "broken", or "" without a bound.
Cell = collections.namedtuple("Cell", "metric size transport peer ratio bound verdict")


def judged(metric, size, transport, peer, ours, theirs, rate, bound):
    """ours and theirs are the values of the rounds."""
    def ratio_of(one, other):
        return other / one if rate else one / other

    ratio = ratio_of(statistics.median(ours), statistics.median(theirs))
    verdict = ""
    if bound is not None:
        beyond = [ratio_of(a, b) > bound for a, b in zip(ours, theirs)]
        verdict = "ok"
        if ratio > bound:
            verdict = "broken" if sum(beyond) >= 0.75 * len(beyond) else "noise"
    return Cell(metric, size, transport, peer, ratio, bound, verdict)


def cells_of(found):
    cells = {}
    for (name, size), row in found.items():
        metric = METRICS[name]
        for ours in OURS:
            if ours not in row:
                continue
            if metric.part == "depth":
                empty = found[name, 0].get(ours)
                if size and empty:
                    cells[name, size, ours] = judged(name, size, ours, "an empty queue", row[ours],
                                                     empty, metric.rate, metric.bound)
                continue
            choose = max if metric.rate else min
            peers = [p for p in PEERS if p in row]
            if peers:
                peer = choose(peers, key=lambda p: statistics.median(row[p]))
                cells[name, size, ours] = judged(name, size, ours, peer, row[ours], row[peer],
                                                 metric.rate, metric.bound)
    return cells


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def number(value):
    """Four digits, without an exponent."""
    digits = max(0, 3 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:.{min(digits, 4)}f}"


def label_of(name, size):
    if METRICS[name].part == "depth":
        return f"{size:,}"
    return size_text(size) if size else ""


def print_table(metrics, found, cells):
    marks = {"ok": " ", "noise": "~", "broken": "!", "": " "}
    for name in metrics:
        sizes = sorted(size for metric, size in found if metric == name)
        if not sizes:
            continue
        metric = METRICS[name]
        bound = "" if metric.bound is None else f", bound {metric.bound:.2f}"
        print(f"\n{metric.title} ({metric.unit}){bound}")
        if name == "line":
            print(f"{'':8}{number(statistics.median(found[name, sizes[0]]['line'])):>10}")
            continue
        print(f"{'':8}" + "".join(f"{t:>10}" for t in TRANSPORTS)
              + "".join(f"   {'ratio of ' + t:<22}" for t in OURS).rstrip())
        for size in sizes:
            row = found[name, size]
            text = f"{label_of(name, size):>8}"
            for transport in TRANSPORTS:
                values = row.get(transport)
                text += f"{number(statistics.median(values)) if values else '-':>10}"
            for transport in OURS:
                cell = cells.get((name, size, transport))
                shown = f"{cell.ratio:6.2f}{marks[cell.verdict]} to {cell.peer}" if cell else ""
                text += f"   {shown:<22}"
            print(text.rstrip())


def print_line_ratios(found):
    sizes = sorted(size for metric, size in found if metric == "latency")
    if ("line", 64) not in found or not sizes:
        return
    limit = statistics.median(found["line", 64]["line"])
    row = found["latency", sizes[0]]
    shown = ", ".join(f"{t} {statistics.median(row[t]) / limit:.1f}" for t in TRANSPORTS)
    print(f"\nlatency of {size_text(sizes[0])} in cache lines one way ({number(limit)} us): {shown}")


def where(cell):
    if METRICS[cell.metric].part == "depth":
        return f"{cell.size} deep against {cell.peer}"
    return (f"at {cell.size} B " if cell.size else "") + f"against {cell.peer}"


def print_key_figure(cells):
    bounded = [cell for cell in cells.values() if cell.bound is not None]
    broken = [cell for cell in bounded if cell.verdict == "broken"]
    noise = sum(cell.verdict == "noise" for cell in bounded)
    if not bounded:
        print("no bound applies to what was measured")
        return False
    worst = max(bounded, key=lambda cell: cell.ratio / cell.bound)
    print(f"\n{len(bounded)} bounds, {len(broken)} broken (!), {noise} beyond within the noise (~)")
    print(f"worst ratio {worst.ratio:.2f} {where(worst)} ({worst.metric}, {worst.transport}), "
          f"bound {worst.bound:.2f}")
    return bool(broken)


# --------------------------------------------------------------------------------------------------


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        for line in cpuinfo:
            if line.startswith("model name"):
                model = " ".join(line.split(":", 1)[1].split())
                break
    return f"{model}, {len(os.sched_getaffinity(0))} cores"


def write_chart(path, found, cells, rounds):
    medians = collections.defaultdict(dict)  # (metric, transport) -> size -> median
    for (name, size), row in found.items():
        for transport, values in row.items():
            medians[name, transport][size] = statistics.median(values)
    ratios = collections.defaultdict(dict)
    for (name, size, transport), cell in cells.items():
        ratios[name, transport][size] = cell.ratio
    with open(path, "w", encoding="utf-8") as file:
        file.write(chart.page(medians, ratios, rounds, machine()))
    print(f"compare: wrote {path}", file=sys.stderr)


def metrics_asked(text):
    """Names of METRICS, parts, or beginnings of names before an underscore (depth)."""
    if not text:
        return [name for name in METRICS if METRICS[name].part != "turns"]
    chosen = []
    for word in text.split(","):
        names = [m for m in METRICS
                 if word in (m, METRICS[m].part) or (word == "depth" and m.startswith("depth_"))]
        if not names:
            raise argparse.ArgumentTypeError(
                f"there is no \"{word}\"; there are {', '.join(METRICS)}, and all of a part: "
                f"{', '.join(PARTS)}")
        chosen += names
    return [m for m in METRICS if m in chosen]


def main():
    parser = argparse.ArgumentParser(
        prog="benchmarks/compare", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--check", action="store_true", help="exit status 1 if a bound is broken")
    parser.add_argument("--only", type=metrics_asked, default="", metavar="METRIC,...")
    parser.add_argument("--sizes", default="", metavar="BYTES,...",
                        help="only these of the sizes of the two- and one-sided metrics")
    parser.add_argument("--rounds", type=int, default=0, help="7, or 3 with --quick, when absent")
    parser.add_argument("--median", action="store_true", help="medians of the batches")
    parser.add_argument("--output", metavar="FILE.svg", help="where to draw the picture")
    parser.add_argument("--program", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.rounds = options.rounds or (3 if options.quick else 7)
    metrics = options.only
    if len(os.sched_getaffinity(0)) < 2:
        print("compare: two processor cores are needed", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    try:
        found = rounds_of(options, metrics)
    except Failure as failure:
        print(f"compare: {failure}", file=sys.stderr)
        return 2
    if not found:
        print("compare: nothing has these sizes", file=sys.stderr)
        return 2
    cells = cells_of(found)
    print_table(metrics, found, cells)
    print_line_ratios(found)
    if options.output:
        write_chart(options.output, found, cells, options.rounds)
    broken = print_key_figure(cells)
    return 1 if options.check and broken else 0


if __name__ == "__main__":
    sys.exit(main())
