#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the start of a job costs: startup --program FILE [--quick] [--check] (benchmarks/startup calls it).

Real jobs on this host, in rounds in which the transports take turns; medians of the rounds, of latency
the best. The transports: adaptib's MTL with connect = on_demand, partial and static, and ob1 with vader.
Figures: time in MPI_Init and in the first barrier of the slowest rank; resident and pinned memory of a
rank when all that is to be connected is; with 2 ranks, latency of 8 bytes over an established connection.

Bounds (--check):
    MPI_Init takes at most 1.1 times as long on demand as with static, and as with vader 1.25 times
    a rank's resident memory on demand is at most static's with 8 ranks and more; with fewer, where there is hardly
    a difference, at most 1.01 times
    latency on demand is that of static within 1 percent
"""

import argparse
import os
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True

ADAPTIB = ["--mca", "pml", "cm", "--mca", "mtl", "adaptib", "--mca", "opal_common_adaptib_connect"]
TRANSPORTS = {
    "on_demand": ADAPTIB + ["on_demand"],
    "partial": ADAPTIB + ["partial"],
    "static": ADAPTIB + ["static"],
    "vader": ["--mca", "pml", "ob1", "--mca", "btl", "vader,self"],
}
METRICS = (("init", "MPI_Init, ms", 1000), ("first", "first barrier, ms", 1000),
           ("resident", "resident, MiB", 1 / 1024), ("pinned", "pinned, MiB", 1 / 1024),
           ("latency", "latency of 8 B, us", 1))


def run(program, ranks, name):
    command = ["timeout", "-k", "10", "120", "mpirun", "--oversubscribe", "-np", str(ranks)]
    environment = dict(os.environ)
    if ranks <= (os.cpu_count() or 1):  # nobody has to yield
        environment.pop("OMPI_MCA_mpi_yield_when_idle", None)
    done = subprocess.run(command + TRANSPORTS[name] + [program], capture_output=True, text=True,
                          env=environment)
    if done.returncode != 0:
        sys.exit(f"startup: {name} with {ranks} ranks ended with status {done.returncode}:\n"
                 f"{done.stdout}{done.stderr}")
    values = {}
    for line in done.stdout.splitlines():
        metric, value = line.split()
        values[metric] = float(value)
    return values


def measure(program, all_ranks, rounds):
    samples = {}
    for _ in range(rounds):
        for ranks in all_ranks:
            for name in TRANSPORTS:
                for metric, value in run(program, ranks, name).items():
                    samples.setdefault((metric, ranks, name), []).append(value)
    return {key: min(values) if key[0] == "latency" else statistics.median(values)
            for key, values in samples.items()}


def show(figures, all_ranks):
    print(f"{'':22}{'ranks':>6}" + "".join(f"{name:>12}" for name in TRANSPORTS))
    for metric, title, factor in METRICS:
        for ranks in all_ranks:
            values = [figures.get((metric, ranks, name)) for name in TRANSPORTS]
            if None not in values:
                print(f"{title:22}{ranks:6}" + "".join(f"{v * factor:12.4g}" for v in values))


def broken(figures, all_ranks):
    problems = []

    def bound(metric, ranks, name, most):
        ours = figures[metric, ranks, "on_demand"]
        theirs = figures[metric, ranks, name]
        if ours > most * theirs:
            problems.append(f"{metric}, {ranks} ranks: {ours / theirs:.3f} times {name}, "
                            f"bound {most}")

    for ranks in all_ranks:
        bound("init", ranks, "static", 1.1)
        bound("init", ranks, "vader", 1.25)
        bound("resident", ranks, "static", 1 if ranks >= 8 else 1.01)
    bound("latency", 2, "static", 1.01)
    return problems


def main():
    parser = argparse.ArgumentParser(prog="startup", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="2 and 4 ranks, under a minute")
    parser.add_argument("--check", action="store_true",
                        help="exit status 1 if a bound does not hold")
    parser.add_argument("--rounds", type=int, help="default: 9, quick 3")
    arguments = parser.parse_args()
    all_ranks = (2, 4) if arguments.quick else (2, 4, 8, 16)
    figures = measure(arguments.program, all_ranks,
                      arguments.rounds or (3 if arguments.quick else 9))
    show(figures, all_ranks)
    problems = broken(figures, all_ranks)
    for problem in problems:
        print(f"BROKEN: {problem}")
    most = all_ranks[-1]
    print(f"startup, {most} ranks, on demand against static: "
          f"{figures['init', most, 'on_demand'] / figures['init', most, 'static']:.3f} times the time, "
          f"{figures['resident', most, 'on_demand'] / figures['resident', most, 'static']:.3f} times "
          f"the memory; latency {figures['latency', 2, 'on_demand'] / figures['latency', 2, 'static']:.3f}"
          " times")
    return 1 if arguments.check and problems else 0


if __name__ == "__main__":
    sys.exit(main())
