#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs random MPI programs (mpi_fuzz) over several transports and compares what they did. Called by
test/mpi_fuzz/run and by test/run, whose environment it needs; README.md explains it.

    run [OPTION...] [WAY...]

    WAY               mtl, btl, both, or another one of WAYS in compare.py (mtl btl both)
    --against WAY     the transport that judges (vader; ucx and tcp are others)
    --seconds N       stops after that time (60); with --seeds, after these seeds
    --seeds A..B      these seeds, with each number of ranks
    --ranks N,N...    numbers of ranks, which take turns (2,3,4)
    --steps N         steps of a program (16)
    --threads         programs with steps of several threads, which the judge runs one after the other
    --without N,N...  leaves steps out;  --only KIND,KIND...  all but these kinds
    --show            prints the program in words, and where results differ, even if they do not
    --no-shrink       prints a program that fails as it is
    --canary NAME     makes mpi_fuzz itself do wrong over the first way (canary.c)
    --canaries        checks that every canary is found, over vader

Exit status 0: all results were the same. The last lines say how many programs ran over which way.
"""

import argparse
import collections
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.environ.get("ADAPTIB_BUILD_DIR") or os.path.join(TOP, "build")
PROGRAM = os.environ.get("ADAPTIB_MPI_FUZZ_PROGRAM") or os.path.join(
    BUILD, "release", "test", "mpi_fuzz", "mpi_fuzz")
P = "--mca opal_common_adaptib_"
MTL = "--mca pml cm --mca mtl adaptib --mca btl self --mca osc pt2pt"
BTL = "--mca pml ob1 --mca btl adaptib,self --mca osc ^ucx,sm"
BOTH = "--mca pml cm --mca mtl adaptib --mca btl adaptib,self --mca osc ^ucx,sm"
# Cross-memory attach of btl/vader overruns buffers of truncated messages. As of Open MPI 5 the
# framework smsc does these copies.
NO_SINGLE_COPY = "--mca btl_vader_single_copy_mechanism none"
NO_SINGLE_COPY_5 = "--mca smsc ^cma,knem,xpmem"
VADER = NO_SINGLE_COPY + " --mca pml ob1 --mca btl vader,self"
UCX = ("--mca pml ucx --mca btl self --mca pml_ucx_tls any --mca pml_ucx_devices any "
       "-x UCX_TLS=self,posix,cma -x UCX_WARN_UNUSED_ENV_VARS=n")

# name: arguments of mpirun, what this transport cannot do (`omission` in fuzz.h)
OB1 = "self_cut,no_room_cut,bsend_again"
OB1_BTL = OB1 + ",long_cut,part_windows"
WAYS = {
    "vader": (VADER + " --mca osc pt2pt", OB1),
    "tcp": ("--mca pml ob1 --mca btl tcp,self --mca osc pt2pt", OB1),
    "ucx": (UCX + " --mca osc pt2pt", "waitall_cut,windows,groups"),
    "mtl": (MTL, ""),
    "btl": (BTL, OB1_BTL),
    "both": (BOTH, "part_windows"),
    "mtl_put": (f"{MTL} {P}rendezvous put", ""),
    "mtl_staged": (f"{MTL} {P}long_copies staged", ""),
    "mtl_alone": (f"{MTL} {P}long_copies alone", ""),
    "mtl_copy": (f"{MTL} {P}shm_single_copy none", ""),
    "mtl_limit": (f"{MTL} {P}eager_limit 64", ""),
    "mtl_small_ring": (f"{MTL} {P}ring_bytes 4096 {P}eager_limit 1024", ""),
    "mtl_rails": (f"{MTL} {P}shm_rails 2", ""),
    "mtl_endpoints": (f"{MTL} {P}endpoints 4", ""),
    "mtl_static": (f"{MTL} {P}connect static", ""),
    "mtl_at_once": (f"{MTL} {P}connect_threshold 0", ""),
    "mtl_held": (f"{MTL} {P}unexpected_memory 4096", ""),
    "mtl_no_shortcut": (f"{MTL} --mca mtl_adaptib_shortcut 0", "bsend_again"),
    "btl_staged": (f"{BTL} {P}long_copies staged", OB1_BTL),
    "btl_copy": (f"{BTL} {P}shm_single_copy none", OB1_BTL),
    "btl_rails": (f"{BTL} {P}shm_rails 2", OB1_BTL),
    "btl_endpoints": (f"{BTL} {P}endpoints 4", OB1_BTL),
    "btl_target": (f"{BTL} {P}atomics target", OB1_BTL),
    "both_target": (f"{BOTH} {P}atomics target", "part_windows"),
    "both_direct": (f"{BOTH} {P}small_one_sided direct", "part_windows"),
}
# What Open MPI as of 5 cannot do, over all transports
OMPI_5 = ("part_first,part_again,part_startall,part_layouts,part_counts,part_tags,part_nowhere,"
          "groups_wait")
# name: a kind of step in which it shows
CANARIES = {"byte": "messages", "tag": "messages", "count": "messages", "lost_error": "truncation",
            "order": "wildcards", "put": "windows", "reduction": "collectives", "hang": "messages"}
CANARIES_5 = {"partition": "partitioned", "arrived": "partitioned", "from_group": "sessions"}

BATCH = 40     # programs in one job
PATIENCE = 30  # seconds that a step may take

Job = collections.namedtuple("Job", "seeds status text")
Case = collections.namedtuple("Case", "seed ranks threads")


class Options:
    """Of the program, the same over all ways"""

    def __init__(self, given, omits):
        self.steps = given.steps
        self.only = given.only
        self.omits = omits
        self.without = [int(n) for n in given.without.split(",") if n]
        self.canary = given.canary
        self.patience = PATIENCE

    def words(self):
        words = ["--steps", str(self.steps)]
        for name, value in (("--only", self.only), ("--omit", self.omits),
                            ("--without", ",".join(map(str, self.without)))):
            words += [name, value] if value else []
        return words

    def replaced(self, **changes):
        other = Options.__new__(Options)
        other.__dict__.update(self.__dict__, **changes)
        return other


@functools.cache
def has_pt2pt():
    """Whether Open MPI has osc/pt2pt, by which the judges do one-sided operations: not as of 5"""
    return "mca:osc:pt2pt:version:" in subprocess.run(
        ["ompi_info", "--parsable"], capture_output=True, text=True, check=True).stdout


@functools.cache
def has_mpi_4():
    """Whether Open MPI has partitioned messages and sessions: as of 5"""
    text = subprocess.run(["ompi_info", "--version"], capture_output=True, text=True,
                          check=True).stdout
    return int(re.search(r"Open MPI v(\d+)", text)[1]) >= 5


def arguments_of(way):
    words = WAYS[way][0] if has_pt2pt() else WAYS[way][0].replace("--mca osc pt2pt", "")
    words = words.replace(NO_SINGLE_COPY, NO_SINGLE_COPY_5) if has_mpi_4() else words
    return words.split()


def omits_of(ways):
    words = {word for way in ways for word in WAYS[way][1].split(",") if word}
    words |= set() if has_pt2pt() else {"windows"}
    words |= set(OMPI_5.split(",")) if has_mpi_4() else set()
    return ",".join(sorted(words))


def read_logs(directory, ranks):
    """seed -> lane -> lines of results; and all lines of words"""
    seeds = collections.defaultdict(lambda: collections.defaultdict(list))
    words = []
    for rank in range(ranks):
        path = os.path.join(directory, f"rank.{rank}")
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("#"):
                    words.append((rank, line[2:].rstrip("\n")))
                elif line.endswith("\n") and line.count(" ") >= 2:
                    seed, lane, text = line.rstrip("\n").split(" ", 2)
                    seeds[int(seed)][(rank, lane)].append(text)
    return seeds, words


def run(way, ranks, threads, seeds, options, words=False, canary=None, serial=False):
    """Runs programs in one job. Returns its results, and the lines of words."""
    with tempfile.TemporaryDirectory(prefix="mpi_fuzz-") as directory:
        command = ["timeout", "-k", "5", str(600), "mpirun", "--oversubscribe", "-np", str(ranks),
                   *arguments_of(way), PROGRAM, "--log", directory,
                   "--seeds", f"{seeds[0]}..{seeds[-1]}", *options.words(),
                   "--patience", str(options.patience)]
        command += ["--threads"] if threads else []
        command += ["--words"] if words else []
        command += ["--serial"] if serial else []
        environment = dict(os.environ)
        if canary:
            environment["ADAPTIB_MPI_FUZZ_CANARY"] = canary
        job = subprocess.run(command, capture_output=True, text=True, errors="replace",
                             env=environment, check=False, stdin=subprocess.DEVNULL)
        logs, said = read_logs(directory, ranks)
        return Job(logs, job.returncode, job.stdout + job.stderr), said


def ending_of(job):
    """The most telling lines of a job that failed"""
    telling = [line for line in job.text.splitlines()
               if re.search(r"mpi_fuzz:|FAILED|signal|Signal|adaptib|error|Error|\[ ?\d+\] ", line)]
    return ([f"exit status {job.status}"] + list(dict.fromkeys(telling))[:25])


def differences(ours, theirs, seed):
    """Lines that differ, of one program"""
    found = []
    one, other = ours.get(seed, {}), theirs.get(seed, {})
    for lane in sorted(set(one) | set(other)):
        if one.get(lane) != other.get(lane):
            mine, good = one.get(lane, []), other.get(lane, [])
            place = next((i for i, pair in enumerate(zip(mine, good)) if pair[0] != pair[1]),
                         min(len(mine), len(good)))
            found.append(f"rank {lane[0]}, step {lane[1]}, line {place + 1}:")
            found.append("    got      " + (mine[place] if place < len(mine) else "(nothing)"))
            found.append("    expected " + (good[place] if place < len(good) else "(nothing)"))
    return found


class Comparison:
    def __init__(self, ways, against, options):
        self.ways, self.against, self.options = ways, against, options
        self.done = collections.Counter()
        self.failures = []
        self.judge_failures = []

    def reference(self, ranks, threads, seeds):
        """seed -> results, of all that the judge itself gets through"""
        results = {}
        left = list(seeds)
        worst = len(self.judge_failures) + 3
        while left and len(self.judge_failures) < worst:
            job, _ = run(self.against, ranks, threads, left, self.options, serial=True)
            last = max(job.seeds, default=left[0])
            good = left if job.status == 0 else [seed for seed in left if seed < last]
            results.update({seed: job.seeds[seed] for seed in good})
            if job.status == 0:
                break
            self.judge_failures.append(Case(last, ranks, threads))
            print(f"the judge {self.against} fails itself in seed {last}, {ranks} ranks"
                  f"{', threads' if threads else ''}:", *ending_of(job), sep="\n    ", flush=True)
            left = [seed for seed in left if seed > last]
        return results

    def batch(self, ranks, threads, seeds):
        """Returns (way, case, lines) of programs that fail."""
        expected = self.reference(ranks, threads, seeds)
        found = []
        for way in self.ways:
            left = [seed for seed in seeds if seed in expected]
            while left:
                job, _ = run(way, ranks, threads, left, self.options, canary=self.options.canary)
                last = max(job.seeds, default=left[0])
                for seed in left:
                    if job.status and seed >= last:
                        break
                    self.done[way] += 1
                    lines = differences(job.seeds, expected, seed)
                    if lines and seed in expected:
                        found.append((way, Case(seed, ranks, threads), lines))
                if job.status == 0:
                    break
                if last in expected:
                    self.done[way] += 1
                    found.append((way, Case(last, ranks, threads), ending_of(job)))
                left = [seed for seed in left if seed > last]
        return found


def failing(way, against, case, options, tries):
    """What is wrong with one program over a way; empty: nothing"""
    for _ in range(tries):
        judge, _ = run(against, case.ranks, case.threads, [case.seed], options, serial=True)
        if judge.status:
            return []
        job, _ = run(way, case.ranks, case.threads, [case.seed], options, canary=options.canary)
        lines = ending_of(job) if job.status else []
        if not job.status:
            lines = differences(job.seeds, judge.seeds, case.seed)
        if lines:
            return lines
    return []


def shrink(way, against, case, options, lines, seconds):
    """The options with as many steps left out as can be"""
    end = time.monotonic() + seconds
    options = options.replaced(patience=min(options.patience, 15))
    kept = [step for step in range(1, options.steps + 1) if step not in options.without]
    size = (len(kept) + 1) // 2

    def still_fails(steps, tries):
        without = [step for step in range(1, options.steps + 1) if step not in steps]
        return failing(way, against, case, options.replaced(without=without), tries)

    tries = 1 if still_fails(kept, 1) else 5
    named = {int(step) for line in lines for step in re.findall(r"step (\d+)", line)} & set(kept)
    for step in sorted(named)[:2]:
        if still_fails([step], tries):
            kept = [step]
            break
    while size >= 1 and time.monotonic() < end:
        place, fewer = 0, False
        while place < len(kept) and len(kept) > 1 and time.monotonic() < end:
            rest = kept[:place] + kept[place + size:]
            if rest and still_fails(rest, tries):
                kept, fewer = rest, True
            else:
                place += size
        if size == 1 and not fewer:
            break
        size = max(size // 2, 1) if not fewer or size > 1 else 1
    steps = max(kept)
    return options.replaced(
        steps=steps, without=[step for step in range(1, steps + 1) if step not in kept])


def repeat_command(way, against, case, options):
    words = ["test/mpi_fuzz/run", "--seeds", str(case.seed), "--ranks", str(case.ranks)]
    words += ["--against", against] if against != "vader" else []
    words += ["--threads"] if case.threads else []
    words += ["--steps", str(options.steps)]
    words += ["--only", options.only] if options.only else []
    words += ["--without", ",".join(map(str, options.without))] if options.without else []
    words += ["--canary", options.canary] if options.canary else []
    return " ".join([*words, "--show", way])


def show(way, against, case, options, lines):
    """Prints a program in words, what is wrong, and the command that repeats it."""
    _, words = run(way, case.ranks, case.threads, [case.seed], options, words=True,
                   canary=options.canary)
    print(f"FAILED {way}, seed {case.seed}, {case.ranks} ranks"
          f"{', threads' if case.threads else ''}:" if lines else "The program:")
    for rank in range(case.ranks):
        own = [text.split(" ", 1)[1] for number, text in words if number == rank]
        print(f"  rank {rank} does:", *(own if len(own) < 60 else own[:30] + ["..."] + own[-29:]),
              sep="\n    ")
    if lines:
        print("  wrong:", *lines[:30], sep="\n    ")
        print("  to repeat it:", repeat_command(way, against, case, options), sep="\n    ")
    sys.stdout.flush()


def handle(comparison, found, given):
    for way, case, lines in found:
        comparison.failures.append((way, case))
        options = comparison.options
        if given.shrink and len(comparison.failures) <= 5:
            smaller = shrink(way, comparison.against, case, options, lines, given.shrink_seconds)
            again = failing(way, comparison.against, case, smaller, 3)
            if again:
                options, lines = smaller, again
            else:
                lines = lines + ["(not in each run)"]
        show(way, comparison.against, case, options, lines)


def batches(given):
    """(ranks, threads, seeds) in turn"""
    if given.seeds:
        first, _, last = given.seeds.partition("..")
        seeds = range(int(first), int(last or first) + 1)
        for start in range(0, len(seeds), BATCH):
            for ranks in given.ranks:
                yield ranks, given.threads, list(seeds[start:start + BATCH])
        return
    number, first = 0, given.first
    while True:
        yield (given.ranks[number % len(given.ranks)], given.threads,
               list(range(first, first + BATCH)))
        first += BATCH
        number += 1


def compare(given):
    omits = omits_of(given.ways + [given.against])
    comparison = Comparison(given.ways, given.against, Options(given, omits))
    end = time.monotonic() + given.seconds
    for ranks, threads, seeds in batches(given):
        handle(comparison, comparison.batch(ranks, threads, seeds), given)
        if given.show and not comparison.failures:
            show(given.ways[0], given.against, Case(seeds[0], ranks, threads), comparison.options,
                 [])
        if not given.seeds and time.monotonic() > end:
            break
    ran = ", ".join(f"{comparison.done[way]} over {way}" for way in given.ways)
    print(f"mpi_fuzz: {ran}, against {given.against}: {len(comparison.failures)} differ"
          + (f"; {given.against} failed in {len(comparison.judge_failures)}"
             if comparison.judge_failures else ""))
    return not comparison.failures and sum(comparison.done.values()) > 0


def canaries(given):
    """Whether each canary is found, and in a program of few steps"""
    good = True
    for name, only in (CANARIES | (CANARIES_5 if has_mpi_4() else {})).items():
        options = Options(given, omits_of(["vader"])).replaced(
            canary=name, only=only, patience=5)
        case, lines = None, []
        for seed in range(1, 21):
            case = Case(seed, 2, False)
            lines = failing("vader", "vader", case, options, 1)
            if lines:
                break
        if not lines:
            print(f"FAILED: the canary {name} was not found")
            good = False
            continue
        small = shrink("vader", "vader", case, options, lines, 60)
        steps = small.steps - len(small.without)
        print(f"canary {name}: found in seed {case.seed}, with {steps} steps: {lines[-1].strip()}")
        print("    " + repeat_command("vader", "vader", case, small), flush=True)
        good = good and steps <= 2
    return good


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n", 1)[1], add_help=False)
    parser.add_argument("--against", default="vader", choices=WAYS)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seeds", default="")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--ranks", default="2,3,4",
                        type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--without", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--no-shrink", dest="shrink", action="store_false")
    parser.add_argument("--shrink-seconds", type=float, default=120)
    parser.add_argument("--canary", default="")
    parser.add_argument("--canaries", action="store_true")
    parser.add_argument("ways", nargs="*", metavar="WAY")
    given = parser.parse_args()
    given.ways = given.ways or ["mtl", "btl", "both"]
    for way in given.ways:
        if way not in WAYS:
            parser.error(f"there is no way {way}; the ways are {' '.join(WAYS)}")
    if given.show:
        given.shrink = False
    if not shutil.which("mpirun") or not os.access(PROGRAM, os.X_OK):
        sys.exit(f"{PROGRAM} or mpirun is missing: test/mpi_fuzz/run builds and calls this program")
    sys.exit(0 if (canaries(given) if given.canaries else compare(given)) else 1)


if __name__ == "__main__":
    main()
