#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Processes of one job with different parameters: test/mpi/differing under mpirun, for every
parameter that ompi_info shows, and for random settings of all of them.

    differing.py mtl|btl           what continuous integration runs
    differing.py mtl --alone       each parameter in a job of its own, those of RDMA devices too
    differing.py btl --seeds 1..99 random settings, only these seeds
    differing.py btl --only NAME   jobs of one parameter

A parameter is varied over all its words, or over its least, its usual and its largest value. Where
that cannot be (a path; a value that others bound; gigabytes), VALUES has them. A new parameter is
varied without a change here; one whose values cannot be told fails the test. The environment is
that of test/run.
"""

import argparse
import itertools
import os
import random
import re
import subprocess
import sys
import tempfile
import time

import parameters

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.environ.get("ADAPTIB_BUILD_DIR") or os.path.join(TOP, "build")
PROGRAM = os.path.join(BUILD, "release", "test", "mpi", "differing")
RANKS = 3
SECONDS = 60  # for one job
SEEDS = range(1, 7)
TRANSPORTS = {
    "mtl": ["--mca", "pml", "cm", "--mca", "mtl", "adaptib"],
    "btl": ["--mca", "pml", "ob1"],
}
ONE_SIDED = ["--mca", "btl", "adaptib,self", "--mca", "osc", "rdma"]

VALUES = {
    # Those of check_pairs() in base/parameters.cc: any of them fit together.
    "eager_limit": ["-1", "0", "700", "1900"],
    "ring_bytes": ["4096", "262144", "1048576"],
    "shm_segment_max": ["33554432", "268435456", "1073741824"],
    "bss_batch": ["0", "1", "4"],
    "endpoints": ["1", "4", "0"],
    # More would take gigabytes, or seconds of each job.
    "verbs_ring_bytes": ["4096", "131072", "1048576"],
    "trace_events": ["16", "65536"],
    "shm_memory": ["0", "16777216"],
    "unexpected_memory": ["0", "1", "100000"],
    # Words that stand for devices and paths. {work} is a directory.
    "if_include": ["all"],
    "if_exclude": ["none"],
    "if_standby": ["none"],
    "fabric": ["auto", "shm"],
    "source_map": ["none", "{work}/map"],
    "report": ["none", "summary", "ranks", "{work}"],
    "trace": ["none", "{work}"],
}
# Take effect only over RDMA devices: all in one job here.
OF_DEVICES = {
    "verbs_eager_limit", "paths_per_port", "connect_method", "dc_initiators", "verbs_ring_bytes",
    "ring_in_order", "ring_check", "if_include", "if_exclude", "if_standby", "gid_index",
    "partition", "service_level", "traffic_class", "datagram_buffers", "apm", "answer_timeout",
    "accelerator_memory", "relaxed_ordering",
}


def values_of(name, default, allowed):
    """All values that the test gives a parameter, at least one."""
    if name in VALUES:
        return VALUES[name]
    if "..." in allowed:
        sys.exit(f"FAILED: {name} has the range {allowed}: VALUES needs values of it")
    if "|" in allowed:
        return allowed.split("|")
    least, largest = re.fullmatch(r"(-?[\d.]+?)\.\.(-?[\d.]+)", allowed).groups()
    return list(dict.fromkeys([least, default, largest]))


def table():
    """name -> values"""
    found = {}
    for name, row in parameters.parameters().items():
        if "synonym_of:name" in row:
            default, allowed = re.search(r"\(default: (.*), range: (.*)\)$", row["help"]).groups()
            short = name.replace("mtl_adaptib_", "")
            found[short] = values_of(short, default, allowed)
    for name in itertools.chain(VALUES, OF_DEVICES):
        if name not in found:
            sys.exit(f"FAILED: there is no parameter {name}")
    return found


def in_turn(names, values):
    """Jobs in which each value of these parameters meets another one: lists of (name, values)."""
    rounds = max(1 if len(values[name]) <= RANKS else -(-len(values[name]) // (RANKS - 1))
                 for name in names)
    for first in range(rounds):
        yield [(name, [values[name][(first * (RANKS - 1) + rank) % len(values[name])]
                       for rank in range(RANKS)]) for name in names]


def drawn(seed, values):
    chance = random.Random(seed)
    return [(name, [chance.choice(values[name]) for _ in range(RANKS)])
            for name in sorted(values) if chance.random() < 0.5]


def run(transport, settings, what):
    """Returns whether the job did well."""
    with tempfile.TemporaryDirectory() as work:
        words = [word.format(work=work) for name, given in settings for word in (name, *given)]
        command = ["timeout", "-k", "10", str(SECONDS), "mpirun", "--oversubscribe", "-np",
                   str(RANKS), *TRANSPORTS[transport], *ONE_SIDED, PROGRAM, str(RANKS), *words]
        begin = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        well = done.returncode == 0 and "differing: ok" in done.stdout
        print(f"{'ok' if well else 'FAILED'}: {what}, {time.monotonic() - begin:.1f} s", flush=True)
        if not well:
            print(f"exit status {done.returncode}\n{' '.join(command)}\n{done.stdout}{done.stderr}",
                  flush=True)
        return well


def jobs(options, values):
    """(text, settings) of each job"""
    if options.seeds is None:
        alone = [name for name in values if options.alone or name not in OF_DEVICES]
        groups = [[name] for name in alone] + [[name for name in values if name not in alone]]
        if options.only:
            groups = [[name] for name in options.only]
        for names in filter(None, groups):
            for settings in in_turn(names, values):
                text = " ".join(f"{name}={','.join(given)}" for name, given in settings)
                yield text, settings
    if not options.only:
        for seed in options.seeds or SEEDS:
            yield f"seed {seed}", drawn(seed, values)


def seeds(text):
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("transport", choices=TRANSPORTS)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--seeds", type=seeds)
    parser.add_argument("--only", action="append")
    options = parser.parse_args()
    results = [run(options.transport, settings, text)
               for text, settings in jobs(options, table())]
    print(f"{len(results)} jobs, {results.count(False)} failed")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
