#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Message rate of threads beside that of processes (benchmarks/threads calls it).

Small messages on one host; the program, threads_mpi.c, says what its patterns do. A row of the
table is a configuration, a column a transport:

  mtl, btl  adaptib with one endpoint; mtl/k, btl/k: with k = the threads of a rank
  vader     ob1 over vader
  ucx       pml/ucx over shared memory (Debian's build serves several threads)
  mpich     MPICH, if --mpich: with one virtual interface, since Debian's build has no more

Ranks yield the processor when idle, since there may be more threads than processors; nothing is
bound. The runs of the transports take turns in rounds; shown is the median of the rounds, each of
which is the median of its batches, in million messages a second, and below it the least and the
largest round.

Bounds (--check):
  one busy thread, MPI_THREAD_MULTIPLE   at least 0.95 of the rate of MPI_THREAD_SINGLE
  two threads, a communicator each       mtl/k at least 0.9 of four processes' rate
  two threads, one communicator          mtl and btl at least vader's and ucx's
"""

import argparse
import collections
import os
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

OURS = {"mtl": "--mca pml cm --mca mtl adaptib", "btl": "--mca pml ob1 --mca btl adaptib,self"}
PEERS = {"vader": "--mca pml ob1 --mca btl vader,self",
         "ucx": "--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any"}

Row = collections.namedtuple("Row", "title ranks pattern threads comms hints")
ROWS = {
    "single": Row("1 thread, MPI_THREAD_SINGLE", 2, "pairwise", 0, "one", "none"),
    "multiple": Row("1 thread, MPI_THREAD_MULTIPLE", 2, "pairwise", 1, "one", "none"),
    "one2": Row("2 threads, one communicator", 2, "pairwise", 2, "one", "none"),
    "asserts2": Row("2 threads, one communicator, no wildcards", 2, "pairwise", 2, "one", "asserts"),
    "overtaking2": Row("2 threads, one communicator, overtaking", 2, "pairwise", 2, "one",
                       "overtaking"),
    "each2": Row("2 threads, a communicator each", 2, "pairwise", 2, "each", "none"),
    "processes2": Row("2 pairs of processes", 4, "pairwise", 0, "one", "none"),
    "each4": Row("4 threads, a communicator each", 2, "pairwise", 4, "each", "none"),
    "processes4": Row("4 pairs of processes", 8, "pairwise", 0, "one", "none"),
    "all2": Row("all to all, 2 threads, a communicator each", 2, "all", 2, "each", "none"),
    "all_processes2": Row("all to all of 4 processes", 4, "all", 0, "one", "none"),
}
QUICK = ("single", "multiple", "one2", "each2", "processes2")


def columns_of(row, mpich):
    """transport -> mpirun's arguments"""
    found = {}
    for name, arguments in OURS.items():
        found[name] = arguments
        if row.threads > 1:
            endpoints = f" --mca opal_common_adaptib_endpoints {row.threads}"
            found[name + "/k"] = arguments + endpoints
    found.update(PEERS)
    if mpich:
        found["mpich"] = None
    return found


def run(options, row, arguments):
    """Messages a second; None: the run failed, and why is said."""
    program = [row.pattern, str(row.threads), row.comms, row.hints, str(options.bytes),
               str(options.window), str(options.batches)]
    environment = dict(os.environ, UCX_TLS="shm,self", OMPI_MCA_mpi_yield_when_idle="1")
    if arguments is None:
        command = ["mpirun.mpich", "-np", str(row.ranks), options.mpich_program]
    else:
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(row.ranks)]
        command += arguments.split() + [options.program]
    command = ["timeout", "-k", "10", "100"] + command + program
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    rates = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("rate ")]
    if done.returncode != 0 or len(rates) != 1:
        print(f"threads: {' '.join(command)}: exit status {done.returncode}\n"
              f"{done.stdout[-2000:]}{done.stderr[-2000:]}", file=sys.stderr)
        return None
    return float(rates[0])


def measure(options):
    """(row, transport) -> rates of the rounds"""
    samples = collections.defaultdict(list)
    for round_number in range(options.rounds):
        for name in options.rows:
            columns = list(columns_of(ROWS[name], options.mpich).items())
            turn = round_number % len(columns)
            for transport, arguments in columns[turn:] + columns[:turn]:
                rate = run(options, ROWS[name], arguments)
                if rate is not None:
                    samples[name, transport].append(rate)
    return samples


def show(options, samples):
    names = ["mtl", "mtl/k", "btl", "btl/k", "vader", "ucx"] + (["mpich"] if options.mpich else [])
    print(f"{'million messages a second':44}" + "".join(f"{name:>14}" for name in names))
    for row in options.rows:
        medians = [samples.get((row, name)) for name in names]
        print(f"{ROWS[row].title:44}" + "".join(
            f"{statistics.median(rates) / 1e6:14.3f}" if rates else f"{'':14}"
            for rates in medians))
        print(f"{'':44}" + "".join(
            f"{f'{min(rates) / 1e6:.3g}..{max(rates) / 1e6:.3g}':>14}" if rates else f"{'':14}"
            for rates in medians))


def broken(samples):
    problems = []

    def bound(what, other, least):
        if samples.get(what) and samples.get(other):
            ratio = statistics.median(samples[what]) / statistics.median(samples[other])
            if ratio < least:
                problems.append(f"{ROWS[what[0]].title}, {what[1]}: {ratio:.3f} of "
                                f"{ROWS[other[0]].title}, {other[1]}; bound {least}")

    for ours in OURS:
        bound(("multiple", ours), ("single", ours), 0.95)
        for peer in PEERS:
            bound(("one2", ours), ("one2", peer), 1)
    bound(("each2", "mtl/k"), ("processes2", "mtl"), 0.9)
    return problems


def main():
    parser = argparse.ArgumentParser(prog="threads", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--source", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="five rows, under a minute")
    parser.add_argument("--check", action="store_true",
                        help="exit status 1 if a bound does not hold")
    parser.add_argument("--mpich", action="store_true", help="MPICH, too")
    parser.add_argument("--rows", help=f"of {','.join(ROWS)}")
    parser.add_argument("--rounds", type=int, help="default: 5, quick 1")
    parser.add_argument("--batches", type=int, default=9)
    parser.add_argument("--bytes", type=int, default=8)
    parser.add_argument("--window", type=int, default=256)
    options = parser.parse_args()
    options.rows = options.rows.split(",") if options.rows else QUICK if options.quick else list(ROWS)
    if unknown := [row for row in options.rows if row not in ROWS]:
        parser.error(f"there is no row {', '.join(unknown)}; rows: {', '.join(ROWS)}")
    options.rounds = options.rounds or (1 if options.quick else 5)
    with tempfile.TemporaryDirectory() as folder:
        if options.mpich:
            options.mpich_program = os.path.join(folder, "threads")
            subprocess.run(["mpicc.mpich", "-O2", "-w", "-pthread", options.source, "-o",
                            options.mpich_program], check=True)
        samples = measure(options)
    show(options, samples)
    problems = broken(samples)
    for problem in problems:
        print(f"BROKEN: {problem}")
    best = "mtl/k" if samples.get(("each2", "mtl/k")) else "mtl"
    if samples.get(("each2", best)) and samples.get(("processes2", "mtl")):
        ratio = (statistics.median(samples["each2", best])
                 / statistics.median(samples["processes2", "mtl"]))
        print(f"threads: two threads with a communicator each at {ratio:.3f} of the rate of four "
              "processes, MTL")
    return 1 if options.check and problems else 0


if __name__ == "__main__":
    sys.exit(main())
