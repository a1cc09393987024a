#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Long data on one host: the default beside each fixed way, and beside peers at their best settings.
Run by benchmarks/compare --fixed.

Columns:
  default    the MTL (for put and get both components) as it comes
  alone, together, staged    the same with long_copies so: one end copies, by the kernel; both do, a
             part each; both copy all of it through staging memory. What is shorter than 64 KiB does
             not follow long_copies
  ring       the same with eager_limit 64 KiB: what fits goes through the ring, whatever it costs
  fetched    the same with eager_limit 2 KiB: what is longer is announced and fetched
  vader, vader_copied    ob1 over vader, and without single copies
  ucx, ucx_copied        UCX with UCX_TLS=shm,self and with posix,self, which has no single copy

Metrics: latency, bandwidth, bidirectional, put, get as in benchmarks/compare, for sizes from 4 KiB to
64 MiB, each twice the last. Values are medians of the batches, and of the rounds, in which the columns
take turns. Before them a job does everything 200 times (fewer where a message is longer than 4 MiB, in
proportion), for what learns.

Bounds, for each size:
  best fixed   the default's time is at most 1.03 of the best fixed way's
  best peer    and at most 1 / 0.97 of the best peer's, at the better of its settings
  cliff        twice the bytes take at most 2.3 times as long as before, from 4 KiB on (latency, put, get)
A bound is broken (!) if the ratio of the medians is beyond it and so are the ratios of three quarters
of the rounds; beyond it in fewer rounds it is shown as noise (~). --check: exit status 1 if one is broken.
"""

import argparse
import collections
import os
import statistics
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare  # noqa: E402

P = "--mca opal_common_adaptib_"
FIXED = {
    "alone": P + "long_copies alone",
    "together": P + "long_copies together",
    "staged": P + "long_copies staged",
    "ring": P + "eager_limit 65536",
    "fetched": P + "eager_limit 2048",
}
# The second is for Open MPI 5, whose sm (vader) has components for single copies.
VADER_COPIED = " --mca btl_vader_single_copy_mechanism none --mca smsc ^cma,knem,xpmem"


def columns(base):
    ways = {"default": base["mtl"]}
    ways.update({name: f"{base['mtl']} {how}" for name, how in FIXED.items()})
    ways["vader"] = base["vader"]
    ways["vader_copied"] = base["vader"] + VADER_COPIED
    ways["ucx"] = base["ucx"] + " -x UCX_TLS=shm,self"
    ways["ucx_copied"] = base["ucx"] + " -x UCX_TLS=posix,self"
    return ways


PEERS = ("vader", "vader_copied", "ucx", "ucx_copied")
PARTS = {"long_two": columns(compare.TWO_SIDED), "long_one": columns(compare.ONE_SIDED)}
del PARTS["long_one"]["vader_copied"]  # osc/rdma makes no windows over it
METRICS = {"latency": "long_two", "bandwidth": "long_two", "bidirectional": "long_two",
           "put": "long_one", "get": "long_one"}
RATES = ("bandwidth", "bidirectional")
BATCH_US = {False: 3000, True: 1500}


def measure(options, part, way, metrics):
    """(metric, size) -> value: the median of the batches"""
    command = (["mpirun"] + compare.PAIR.split() + PARTS[part][way].split()
               + [options.program, part, str(BATCH_US[options.quick]), "15", ",".join(metrics),
                  options.sizes])
    text = compare.run(command, 300)
    values = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 4 and words[0] in METRICS:
            values[words[0], int(words[1])] = float(words[2])
    if not values:
        raise compare.fail_of(command, "no result", text)
    return values


def rounds_of(options, metrics):
    """(metric, size) -> way -> values of the rounds"""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for number in range(options.rounds):
        for part, ways in PARTS.items():
            chosen = [m for m in metrics if METRICS[m] == part]
            names = list(ways)
            turn = number % len(names)
            for way in (names[turn:] + names[:turn]) if chosen else []:
                print(f"compare: round {number + 1} of {options.rounds}, {part}, {way}",
                      file=sys.stderr)
                for key, value in measure(options, part, way, chosen).items():
                    found[key][way].append(value)
    return found


def best_of(row, names, rate):
    choose = max if rate else min
    return choose((n for n in names if n in row), key=lambda n: statistics.median(row[n]))


def judged(against, name, size, ours, theirs, bound):
    return compare.judged(name, size, "default", against, ours, theirs, name in RATES, bound)


def cells_of(found):
    """All bounds, as compare.Cell; their peer names the bound and who is best."""
    cells = []
    for (name, size), row in sorted(found.items()):
        rate = name in RATES
        for what, names, bound in (("fixed", FIXED, 1.03), ("peer", PEERS, 1 / 0.97)):
            best = best_of(row, names, rate)
            cells.append(judged((what, best), name, size, row["default"], row[best], bound))
        half = found.get((name, size // 2))
        if half and not rate:
            doubled = [2.3 * value for value in half["default"]]
            cells.append(judged(("cliff", ""), name, size, row["default"], doubled, 1.0))
    return cells


def print_tables(found, cells):
    marks = {"ok": " ", "noise": "~", "broken": "!"}
    by_key = collections.defaultdict(dict)
    for cell in cells:
        by_key[cell.metric, cell.size][cell.peer[0]] = cell
    ways = list(PARTS["long_two"])
    for name in METRICS:
        sizes = sorted(size for metric, size in found if metric == name)
        if not sizes:
            continue
        print(f"\n{name} ({'MB/s' if name in RATES else 'us'})")
        print(f"{'':8}" + "".join(f"{way:>13}" for way in ways)
              + "   default to best fixed, peer; cliff")
        for size in sizes:
            row = found[name, size]
            text = f"{compare.size_text(size):>8}" + "".join(
                f"{compare.number(statistics.median(row[way])) if way in row else '-':>13}"
                for way in ways)
            for what, cell in by_key[name, size].items():
                ratio = 2.3 * cell.ratio if what == "cliff" else cell.ratio
                text += f"  {ratio:5.2f}{marks[cell.verdict]} {cell.peer[1]}"
            print(text.rstrip())


def main():
    parser = argparse.ArgumentParser(prog="benchmarks/compare --fixed", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--check", action="store_true", help="exit status 1 if a bound is broken")
    parser.add_argument("--only", default=",".join(METRICS), metavar="METRIC,...")
    parser.add_argument("--sizes", default="", metavar="BYTES,...")
    parser.add_argument("--rounds", type=int, default=0, help="5, or 1 with --quick, when absent")
    parser.add_argument("--program", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    metrics = options.only.split(",")
    if not set(metrics) <= set(METRICS):
        parser.error(f"--only: there are {', '.join(METRICS)}")
    try:
        found = rounds_of(options, metrics)
    except compare.Failure as failure:
        print(f"compare: {failure}", file=sys.stderr)
        return 2
    cells = cells_of(found)
    print_tables(found, cells)
    broken = [cell for cell in cells if cell.verdict == "broken"]
    noise = sum(cell.verdict == "noise" for cell in cells)
    print(f"\n{compare.machine()}; {len(cells)} bounds, {len(broken)} broken (!), "
          f"{noise} beyond within the noise (~)")
    return 1 if options.check and broken else 0


if __name__ == "__main__":
    sys.exit(main())
