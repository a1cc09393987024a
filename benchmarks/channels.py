#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What channel_policy = aqps comes to beside fixed choices (benchmarks/channels calls it).

Real jobs, in rounds in which the policies take turns; medians of the rounds. Patterns of messages of 64 B
(onetoall, alltoone, neighbours, and neighbours that change: channels_mpi.c), with connections for fewer
peers than a rank has (connect_max: 3 of 7 over shared memory, 1 of 3 in the machine of --vm), so that it
matters who gets one. Measured after a period of selection (channel_period = 100 ms; in the machine 1 s of
its time), over rings of a connection or the shared queue: the fixed choices are

  aqps       the busiest get the connections
  on_demand  rc_on_demand: who came first and is not idle
  ring       fixed:rc_ring: the same, from the first message on
  queue      ud: the shared queue for all

Bounds (--check), for each pattern:
    aqps at most 1.03 times the best fixed choice
    aqps at most the worst fixed choice
A bound is broken if the ratio of the medians is beyond it, and those of three quarters of the rounds.
"""

import argparse
import os
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True

POLICIES = {"aqps": "aqps", "on_demand": "rc_on_demand", "ring": "fixed:rc_ring", "queue": "ud"}
FIXED = [name for name in POLICIES if name != "aqps"]
PATTERNS = ("onetoall", "alltoone", "neighbours", "changing")
CLOSE = 1.03


def command_of(options, policy):
    parameters = {"channel_policy": POLICIES[policy], "connect_max": 1 if options.guest else 3,
                  "channel_period": 1000 if options.guest else 100}
    command = ["timeout", "-k", "10", "600", "mpirun", "--oversubscribe", "-np",
               "4" if options.guest else "8", "--mca", "pml", "cm", "--mca", "mtl", "adaptib"]
    if options.guest:
        parameters["fabric"] = "verbs"
    else:
        command += ["--bind-to", "core:overload-allowed", "--map-by", "core"]
    for name, value in parameters.items():
        command += ["--mca", "opal_common_adaptib_" + name, str(value)]
    if options.guest:
        guest = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compare_guest")
        command += [guest, "rank", policy]
    settle, seconds = ("2.2", "0.5") if options.guest else ("0.35", "0.3")
    return command + [options.program, settle, seconds, ",".join(options.patterns)]


def run(options, policy):
    """pattern -> us"""
    command = command_of(options, policy)
    environment = dict(os.environ)
    environment.pop("OMPI_MCA_hwloc_base_binding_policy", None)
    environment.pop("PRTE_MCA_hwloc_default_binding_policy", None)
    environment.pop("PRTE_MCA_bindto", None)
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    values = {line.split()[0]: float(line.split()[1]) for line in done.stdout.splitlines()
              if line.split()[:1] and line.split()[0] in options.patterns}
    if done.returncode != 0 or set(values) != set(options.patterns):
        sys.exit(f"channels: {' '.join(command)}\nended with status {done.returncode}:\n"
                 f"{done.stdout}{done.stderr}")
    return values


def measure(options):
    """(pattern, policy) -> us of the rounds"""
    samples = {}
    names = list(POLICIES)
    for number in range(options.rounds):
        for policy in names[number % len(names):] + names[:number % len(names)]:
            print(f"channels: round {number + 1} of {options.rounds}, {policy}", file=sys.stderr)
            for pattern, value in run(options, policy).items():
                samples.setdefault((pattern, policy), []).append(value)
    return samples


def beyond(ours, theirs, bound):
    if statistics.median(ours) <= bound * statistics.median(theirs):
        return False
    return sum(a > bound * b for a, b in zip(ours, theirs)) >= 0.75 * len(ours)


def main():
    parser = argparse.ArgumentParser(prog="channels", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--guest", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, under a minute")
    parser.add_argument("--check", action="store_true",
                        help="exit status 1 if a bound does not hold")
    parser.add_argument("--rounds", type=int, help="default: 9, quick and --vm 2")
    parser.add_argument("--patterns", type=lambda text: text.split(","), default=PATTERNS,
                        help="PATTERN,...: only these")
    options = parser.parse_args()
    if not set(options.patterns) <= set(PATTERNS):
        parser.error(f"the patterns are {', '.join(PATTERNS)}")
    options.rounds = options.rounds or (2 if options.quick or options.guest else 9)
    samples = measure(options)
    print(f"{'a round of all ranks, us':26}" + "".join(f"{name:>11}" for name in POLICIES)
          + "   aqps to the best and the worst")
    broken = []
    worst = (0, "")
    for pattern in options.patterns:
        medians = {name: statistics.median(samples[pattern, name]) for name in POLICIES}
        best = min(FIXED, key=medians.get)
        last = max(FIXED, key=medians.get)
        ratio = medians["aqps"] / medians[best]
        worst = max(worst, (ratio, pattern))
        print(f"{pattern:26}" + "".join(f"{medians[name]:11.4g}" for name in POLICIES)
              + f"   {ratio:.3f} ({best})  {medians['aqps'] / medians[last]:.3f} ({last})")
        for bound, other in ((CLOSE, best), (1, last)):
            if beyond(samples[pattern, "aqps"], samples[pattern, other], bound):
                broken.append(f"{pattern}: {medians['aqps'] / medians[other]:.3f} times {other}, "
                              f"bound {bound}")
    for problem in broken:
        print(f"BROKEN: {problem}")
    print(f"channels: aqps is at most {worst[0]:.3f} times the best fixed choice ({worst[1]})")
    return 1 if options.check and broken else 0


if __name__ == "__main__":
    sys.exit(main())
