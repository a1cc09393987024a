#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Memory of short messages: memory --program FILE [--quick] [--check] (benchmarks/memory calls it).

Real jobs on this host, in rounds in which the transports take turns; medians. Every rank sends 40
messages of 64 bytes to each other one. The transports: adaptib's MTL, its BTL, and ob1 with vader.
Figures: shared memory that this adds, in all and for each directed pair of ranks; address space of the
largest rank and private memory of a rank afterwards; the time that the messages take, ranks yielding.

Bounds (--check), of either component:
    at most 24 KiB of shared memory a directed pair, with 96 ranks at most 250 MiB in all
    at most 2 GiB of address space a rank
"""

import argparse
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True

TRANSPORTS = {
    "mtl": ["--mca", "pml", "cm", "--mca", "mtl", "adaptib"],
    "btl": ["--mca", "pml", "ob1", "--mca", "btl", "adaptib,self"],
    "vader": ["--mca", "pml", "ob1", "--mca", "btl", "vader,self"],
}
METRICS = (("shared", "shared, MiB", 1 / 1024), ("pair", "shared of a pair, KiB", 1),
           ("address", "address space, MiB", 1 / 1024), ("resident", "private, MiB", 1 / 1024),
           ("seconds", "time, s", 1))
BOUNDS = {"pair": 24, "address": 2 * 1024 * 1024}
SHARED_OF_96 = 250 * 1024


def run(program, ranks, name):
    command = ["timeout", "-k", "10", "300", "mpirun", "--oversubscribe", "-np", str(ranks),
               "--mca", "mpi_yield_when_idle", "1"]
    done = subprocess.run(command + TRANSPORTS[name] + [program], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"memory: {name} with {ranks} ranks ended with status {done.returncode}:\n"
                 f"{done.stdout}{done.stderr}")
    values = {}
    for line in done.stdout.splitlines():
        metric, value = line.split()
        values[metric] = float(value)
    values["pair"] = values["shared"] / (ranks * (ranks - 1))
    return values


def measure(program, all_ranks, rounds):
    samples = {}
    for _ in range(rounds):
        for ranks in all_ranks:
            for name in TRANSPORTS:
                for metric, value in run(program, ranks, name).items():
                    samples.setdefault((metric, ranks, name), []).append(value)
    return {key: statistics.median(values) for key, values in samples.items()}


def show(figures, all_ranks):
    print(f"{'':22}{'ranks':>6}" + "".join(f"{name:>10}" for name in TRANSPORTS))
    for metric, title, factor in METRICS:
        for ranks in all_ranks:
            print(f"{title:22}{ranks:6}" + "".join(
                f"{figures[metric, ranks, name] * factor:10.4g}" for name in TRANSPORTS))


def broken(figures, all_ranks):
    problems = []
    for ranks in all_ranks:
        bounds = dict(BOUNDS, **({"shared": SHARED_OF_96} if ranks == 96 else {}))
        for metric, most in bounds.items():
            for name in ("mtl", "btl"):
                value = figures[metric, ranks, name]
                if value > most:
                    problems.append(f"{metric}, {ranks} ranks, {name}: {value:.0f} KiB, "
                                    f"bound {most}")
    return problems


def main():
    parser = argparse.ArgumentParser(prog="memory", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="8 and 16 ranks, under a minute")
    parser.add_argument("--check", action="store_true",
                        help="exit status 1 if a bound does not hold")
    parser.add_argument("--rounds", type=int, help="default: 3, quick 1")
    arguments = parser.parse_args()
    all_ranks = (8, 16) if arguments.quick else (8, 16, 32, 64, 96)
    figures = measure(arguments.program, all_ranks,
                      arguments.rounds or (1 if arguments.quick else 3))
    show(figures, all_ranks)
    problems = broken(figures, all_ranks)
    for problem in problems:
        print(f"BROKEN: {problem}")
    most = all_ranks[-1]
    print(f"memory, {most} ranks: {figures['pair', most, 'mtl']:.1f} and "
          f"{figures['pair', most, 'btl']:.1f} KiB of shared memory a directed pair, vader "
          f"{figures['pair', most, 'vader']:.1f}")
    return 1 if arguments.check and problems else 0


if __name__ == "__main__":
    sys.exit(main())
