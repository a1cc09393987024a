#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Changes the core at random, one small change (mutant) at a time, and counts which the tests find.

README.md says how. Steps, each of which keeps its result in build/mutation/ (the last: in build/canaries/):

  mutation.py build [--mutants N] [--seed S]   chooses mutants, compiles all of them in at once
  mutation.py reach                            runs each test once: which mutants it comes to
  mutation.py run [--seconds S] [--time T]     runs the tests that come to a mutant, for each mutant
  mutation.py report                           prints the score, and the mutants that live
  mutation.py canaries [--torture SEEDS] [--open]  builds with the canaries, and has torture find
                                               each but those that are open, or these, too
  mutation.py places                           checks that each canary names one place of the core
"""

import argparse
import collections
import concurrent.futures
import json
import mmap
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ADAPTIB_BUILD_DIR", TOP / "build"))
PLACE = BUILD / ("canaries" if "canaries" in sys.argv[1:2] else "mutation")
TREE = PLACE / "tree"
CORE = "opal/mca/common/adaptib"
PROGRAMS = PLACE / "build" / "mutation" / "test"
KINDS = ("unit", "simulation", "conformance", "sim")
TORTURE = "adaptib_sim_torture"
TORTURE_SEEDS = 20  # one test
TORTURE_TESTS = 10
# A mutant may make a test slower without being wrong.
SLOWER = 10
GRACE = 10  # seconds
EQUIVALENT = TOP / "test/mutation/equivalent"
CANARIES = TOP / "test/mutation/canaries"
SCENES = TOP / "simulator/torture/scenes/run"


def keep(name, value):
    (PLACE / name).write_text(json.dumps(value, indent=1))


def kept(name):
    return json.loads((PLACE / name).read_text())


# --------------------------------------------------------------------------------------------------
# build


def choose(sites, count, seed):
    """Sites that do not overlap, in an order that the seed gives."""
    taken = collections.defaultdict(list)
    chosen = []
    for site in random.Random(seed).sample(sites, len(sites)):
        file, start, end = site[:3]
        if all(end <= first or last <= start for first, last in taken[file]):
            taken[file].append((start, end))
            chosen.append(site)
        if len(chosen) == count:
            break
    return chosen


def changed(kind, old, new, number):
    on = f"::adaptib_mutation::on({number})"
    if kind == "left_out":
        return f"if (!{on}) {{ {old} }}"
    if kind in ("order", "statement"):
        return f"if ({on}) {{\n{new}\n}} else {{\n{old}\n}}"
    return f"({on} ? ({new}) : ({old}))"


def read_canaries():
    """The mutants of the file `canaries`, numbered in its order; kind "canary"."""
    text = "".join(line for line in CANARIES.read_text().splitlines(True) if line[0] != "#")
    mutants = []
    for number, block in enumerate(filter(None, re.split(r"\n\n+", text.strip())), 1):
        head, *lines = block.split("\n")
        name, _, file, *is_open = head.split()
        old, new = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+")
        code = (TOP / CORE / file).read_text()
        if code.count(old) != 1:
            sys.exit(f"{CANARIES.name}: {name}: {code.count(old)} places in {file} are like it")
        start = len(code[:code.index(old)].encode())
        statement = re.sub(r"\s*//.*$", "", old)[-1] in ";}"
        mutants.append({"number": number, "file": file, "start": start,
                        "end": start + len(old.encode()), "old": old, "new": new, "name": name,
                        "open": bool(is_open),
                        "kind": "statement" if statement else "canary"})
    return mutants


def write_tree(mutants):
    """Copies the sources, and changes them."""
    subprocess.run(["bash", "-c", '. test/lib/common.sh && copy_sources "$0"', str(TREE)], cwd=TOP,
                   check=True)
    by_file = collections.defaultdict(list)
    for mutant in mutants:
        by_file[mutant["file"]].append(mutant)
    for file, its in by_file.items():
        path = TREE / CORE / file
        text = path.read_bytes()
        for mutant in sorted(its, key=lambda m: -m["start"]):
            text = (text[:mutant["start"]] +
                    changed(mutant["kind"], mutant["old"], mutant["new"], mutant["number"]).encode() +
                    text[mutant["end"]:])
        path.write_bytes(f'#include "{TOP}/test/mutation/mutant.h"\n'.encode() + text)


def compile_tree(kinds=KINDS):
    """Returns the numbers of mutants that do not compile."""
    command = (". test/lib/common.sh && . test/lib/build.sh && build_adaptib mutation " +
               " ".join(f"{kind}-programs" for kind in kinds))
    done = subprocess.run(["bash", "-c", command], cwd=TREE,
                          env={**os.environ, "ADAPTIB_BUILD_DIR": str(PLACE / "build"),
                               "MAKEFLAGS": "-k"}, check=False)
    if done.returncode == 0:
        return []
    bad = set()
    log = (PLACE / "build/logs/build-mutation.log").read_text(errors="replace")
    for file, line in re.findall(rf"(\S*{CORE}/[^:\s]+):(\d+):\d+: error:", log):
        path = TREE / CORE / file.split(f"{CORE}/")[-1]
        source = path.read_text().split("\n")
        near = "\n".join(source[max(0, int(line) - 3):int(line) + 2])
        bad |= set(map(int, re.findall(r"adaptib_mutation::on\((\d+)\)", near)))
    if not bad:
        sys.exit(f"the build fails, and not by a mutant: {PLACE}/build/logs/build-mutation.log")
    return sorted(bad)


def build(options):
    import sites  # needs python3-clang, which only this step does

    core = TOP / CORE
    flags = ["-std=c++20", "-DHAVE_CONFIG_H", f"-I{core}", f"-I{BUILD / 'release' / CORE}"]
    sources = sorted(str(path) for path in core.rglob("*.cc") if "tools" not in path.parts)
    found = sites.find(str(core), sources, flags, options.jobs)
    mutants = []
    for number, (file, start, end, kind, new) in enumerate(
            choose(found, options.mutants, options.seed), 1):
        text = (core / file).read_bytes()
        mutants.append({"number": number, "file": file, "start": start, "end": end, "kind": kind,
                        "line": text[:start].count(b"\n") + 1, "old": text[start:end].decode(),
                        "new": new})
    print(f"{len(found)} places, {len(mutants)} mutants", flush=True)
    while True:
        write_tree(mutants)
        bad = compile_tree()
        if not bad:
            break
        print(f"do not compile: {bad}", flush=True)
        mutants = [mutant for mutant in mutants if mutant["number"] not in bad]
    keep("mutants.json", mutants)
    for of_others in ("reach.json", "outcomes.json"):
        (PLACE / of_others).unlink(missing_ok=True)


# --------------------------------------------------------------------------------------------------
# Tests


def list_tests():
    """Each test is [program, case]."""
    tests = []
    for kind in KINDS[:3]:
        names = subprocess.run(["make", "-s", "-C", PROGRAMS, f"list-{kind}"], check=True,
                               stdout=subprocess.PIPE, text=True).stdout.split()
        for name in names:
            listed = subprocess.run([PROGRAMS / name, "--gtest_list_tests"], check=True,
                                    stdout=subprocess.PIPE, text=True).stdout
            suite = ""
            for line in listed.splitlines():
                word = line.split("#")[0].strip()
                if line[:1] != " ":
                    suite = word
                else:
                    tests.append([name, suite + word])
    return tests + [[TORTURE, f"{i * TORTURE_SEEDS + 1}..{(i + 1) * TORTURE_SEEDS}"]
                    for i in range(TORTURE_TESTS)]


def run_tests(program, cases, number, processor_seconds, reached=None):
    """(passed, processor seconds, what was said)"""
    environment = {**os.environ, "ADAPTIB_MUTANT": str(number)}
    if reached is not None:
        environment["ADAPTIB_MUTANTS_REACHED"] = str(reached)
    if program == TORTURE:
        command = [PROGRAMS / program, "--seeds", cases[0], "--jobs", "1"]
    else:
        command = [PROGRAMS / program, "--gtest_brief=1", "--gtest_fail_fast",
                   "--gtest_filter=" + ":".join(cases)]
    most = int(SLOWER * processor_seconds + GRACE)

    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    before = time.monotonic()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, preexec_fn=limit, start_new_session=True,
                          cwd=PLACE) as process:
        try:
            said = process.communicate(timeout=most * 6)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            said = process.communicate()[0].decode(errors="replace") + "\n(no end)"
    return process.returncode == 0, time.monotonic() - before, said


def reach(options):
    """Runs each test by itself; keeps the mutants that it comes to, and its time."""
    count = max(mutant["number"] for mutant in kept("mutants.json")) + 1

    def one(test):
        file = PLACE / f"reached-{os.getpid()}-{id(test)}"
        file.write_bytes(bytes(count))
        passed, seconds, said = run_tests(test[0], [test[1]], -1, 60, file)
        with open(file, "r+b") as opened, mmap.mmap(opened.fileno(), 0) as memory:
            numbers = [i for i in range(count) if memory[i]]
        file.unlink()
        if not passed:
            print(f"left out, since it fails without a mutant: {test[0]} {test[1]}\n{said[-400:]}",
                  flush=True)
        return {"test": test, "seconds": seconds, "reached": numbers, "passed": passed}

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(one, list_tests()))
    keep("reach.json", [result for result in results if result["passed"]])
    print(f"{len(results)} tests, {sum(not result['passed'] for result in results)} left out")


# --------------------------------------------------------------------------------------------------
# run


def judge(mutant, results, most_seconds):
    """Runs tests that come to the mutant, those first that come to few mutants."""
    its = sorted((result for result in results if mutant["number"] in result["reached"]),
                 key=lambda result: (len(result["reached"]), result["seconds"]))
    if not its:
        return {"outcome": "not reached", "tests": 0}
    batches = collections.OrderedDict()
    seconds = 0
    count = 0
    for result in its:
        if seconds + result["seconds"] > most_seconds and count > 0:
            continue
        seconds += result["seconds"]
        count += 1
        program, case = result["test"]
        key = (program, case if program == TORTURE else count // 40)
        batches.setdefault(key, []).append((case, result["seconds"]))
    for (program, _), cases in batches.items():
        names = [case for case, _ in cases]
        expected = sum(took for _, took in cases)
        passed, _, said = run_tests(program, names, mutant["number"], expected)
        if not passed and run_tests(program, names, 0, expected)[0]:
            failed = re.findall(r"\[  FAILED  \] ([^\s,]+)", said)
            return {"outcome": "found", "by": f"{program} {failed[0] if failed else names[0]}",
                    "tests": count}
    return {"outcome": "lives", "tests": count, "of": len(its)}


def run(options):
    results = kept("reach.json")
    for result in results:
        result["reached"] = set(result["reached"])
    path = PLACE / "outcomes.json"
    outcomes = kept("outcomes.json") if path.exists() and not options.again else {}
    end = time.monotonic() + options.time
    same = equivalents()
    waiting = [mutant for mutant in kept("mutants.json") if str(mutant["number"]) not in outcomes]

    def one(mutant):
        if time.monotonic() < end:
            outcomes[str(mutant["number"])] = (
                {"outcome": "equivalent", "tests": 0} if is_equivalent(mutant, same)
                else judge(mutant, results, options.seconds))

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for i, _ in enumerate(pool.map(one, waiting)):
            if i % 20 == 19:
                keep("outcomes.json", outcomes)
    keep("outcomes.json", outcomes)
    report(options)


# --------------------------------------------------------------------------------------------------
# canaries


def canaries(options):
    """Torture has to find those that are not open, in the seeds and scenes of continuous
    integration."""
    mutants = read_canaries()
    write_tree(mutants)
    bad = compile_tree(("sim",))
    if bad:
        sys.exit(f"do not compile: {bad}")
    failed = 0
    tried = [mutant for mutant in mutants if options.open or not mutant["open"]]
    for mutant in [{"number": 0, "name": "(none)", "open": False}] + tried:
        found, what = False, ""
        for command in ([SCENES, PROGRAMS / TORTURE, str(options.jobs)],
                        [PROGRAMS / TORTURE, "--seeds", options.torture, "--jobs",
                         str(options.jobs)]):
            process = subprocess.run(
                command, env={**os.environ, "ADAPTIB_MUTANT": str(mutant["number"])},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, cwd=PLACE)
            (PLACE / f"canary-{mutant['name']}.log").write_bytes(process.stdout)
            if process.returncode != 0:
                found = True
                what = (re.findall(rb"^(?:program|seed) .* FAILED$|^seed .* failed$",
                                   process.stdout, re.M) or [b"?"])[0].decode()
                break
        good = found == (mutant["number"] > 0)
        failed += not good and not mutant["open"]
        how = "open" if mutant["open"] and not good else "ok" if good else "FAILED"
        print(f"{how:8} {mutant['name']:28} {what}", flush=True)
    print(f"{len(tried) + 1 - failed} as they should, {failed} not")
    sys.exit(failed > 0)


# --------------------------------------------------------------------------------------------------
# report


def equivalents():
    """(file, old, new) of mutants that change nothing: lines "file|old|new|why"; # is a comment"""
    lines = EQUIVALENT.read_text().splitlines()
    return {tuple(line.split(" | ")[:3]) for line in lines if line and line[0] != "#"}


def one_line(text):
    return re.sub(r"\s+", " ", text)


# A call may read or write anything; a cast may not.
CALL = re.compile(r"\b(?!sizeof\b)\w+\s*\(")
CAST = re.compile(r"\b(static|reinterpret|const)_cast<[^()]*>\s*")
ASSIGNMENT = re.compile(r"(?:(?:\+\+|--)(?P<stepped>[\w.>-]+)|(?P<set>[\w.>-]+) [-+|&]?= .*);")


def target_of(statement):
    """What an assignment without calls assigns; None: it is none."""
    text = CAST.sub("", one_line(statement).strip())
    match = ASSIGNMENT.fullmatch(text)
    if match is None or CALL.search(text):
        return None
    return re.split(r"\.|->", match["stepped"] or match["set"])[-1]


def is_swap(mutant):
    """Returns true for two assignments that change places, of which neither names what the other
    assigns: both orders do the same."""
    if mutant["kind"] != "order":
        return False
    old, new = one_line(mutant["old"]), one_line(mutant["new"])
    for end in (match.end() for match in re.finditer(";", old)):
        first, second = old[:end].strip(), old[end:].strip()
        if new != f"{second} {first}":
            continue
        targets = target_of(first), target_of(second)
        return (None not in targets and not re.search(rf"\b{targets[0]}\b", second)
                and not re.search(rf"\b{targets[1]}\b", first))
    return False


def is_equivalent(mutant, same):
    """A line of `equivalent` may give more of the mutant's own line, to name one place of several"""
    old, new = one_line(mutant["old"]), one_line(mutant["new"])
    if (mutant["file"], old, new) in same or is_swap(mutant):
        return True
    text = (TREE / CORE / mutant["file"]).read_text()
    before, _, after = text.partition(changed(mutant["kind"], mutant["old"], mutant["new"],
                                              mutant["number"]))
    before, after = before.rpartition("\n")[2], after.partition("\n")[0]
    return any((mutant["file"], before[i:] + old + after[:j], before[i:] + new + after[:j]) in same
               for i in range(len(before) + 1) for j in range(len(after) + 1))


def report(_):
    outcomes = kept("outcomes.json")
    same = equivalents()
    counts = collections.defaultdict(collections.Counter)
    alive = []
    for mutant in kept("mutants.json"):
        outcome = outcomes.get(str(mutant["number"]))
        if outcome is None:
            continue
        what = "equivalent" if is_equivalent(mutant, same) else outcome["outcome"]
        for group in ("all", mutant["kind"], mutant["file"].split("/")[0] + "/"):
            counts[group][what] += 1
        if what in ("lives", "not reached"):
            alive.append((mutant, outcome))
    print(f"{'':12} {'mutants':>8} {'equivalent':>10} {'found':>6} {'lives':>6} {'not reached':>11} "
          f"{'score':>6}")
    for group, row in counts.items():
        counted = sum(row.values()) - row["equivalent"]
        score = row["found"] / counted if counted else 1
        print(f"{group:12} {sum(row.values()):8} {row['equivalent']:10} {row['found']:6} "
              f"{row['lives']:6} {row['not reached']:11} {score:6.2f}")
    print()
    for mutant, outcome in sorted(alive, key=lambda a: (a[0]["file"], a[0]["line"])):
        reached = f"{outcome['tests']} tests" if outcome["tests"] else "not reached"
        print(f"{mutant['file']}:{mutant['line']}: {mutant['kind']} ({mutant['number']}, {reached})\n"
              f"    {one_line(mutant['old'])} | {one_line(mutant['new'])}")


def places(_):
    print(f"{len(read_canaries())} canaries, each in its place")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("build", "reach", "run", "report", "canaries", "places"))
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=60, help="of tests for a mutant, at most")
    parser.add_argument("--time", type=float, default=1e9, help="seconds after which none is begun")
    parser.add_argument("--again", action="store_true", help="runs mutants that have run, too")
    parser.add_argument("--torture", metavar="SEEDS", default="1..2000")
    parser.add_argument("--open", action="store_true", help="tries canaries that are open, too")
    options = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    {"build": build, "reach": reach, "run": run, "report": report,
     "canaries": canaries, "places": places}[options.step](options)


if __name__ == "__main__":
    main()
