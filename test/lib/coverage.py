#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints the page docs/coverage.md from what `llvm-cov export -summary-only` prints (stdin)."""

import collections
import json
import sys

CORE = "opal/mca/common/adaptib/"
HEAD = """# Coverage

Lines and branches of the core that unit tests, conformance tests and torture's first 200 programs run, by file.
`test/run coverage` makes this page; a branch counts twice, once for each way. What MPI programs, models and the virtual
adapter's jobs run besides does not count here.

| file | lines | run | branches | run |
|---|---:|---:|---:|---:|
"""


def row(name, counts):
    cells = []
    for kind in ("lines", "branches"):
        count, covered = counts[kind]
        cells += [str(count), f"{100 * covered / count:.1f} %" if count else ""]
    return f"| {name} | {' | '.join(cells)} |"


def main():
    folders = collections.defaultdict(dict)
    for file in json.load(sys.stdin)["data"][0]["files"]:
        name = file["filename"].split(CORE)[-1]
        if CORE in file["filename"] and "/" in name:
            folders[name.split("/")[0]][name] = {
                kind: (file["summary"][kind]["count"], file["summary"][kind]["covered"])
                for kind in ("lines", "branches")}
    rows = []
    every = []
    for folder, files in sorted(folders.items()):
        rows.append(row(f"**{folder}/**", total(files.values())))
        rows += [row(name, counts) for name, counts in sorted(files.items())]
        every += files.values()
    sys.stdout.write(HEAD + row("**all**", total(every)) + "\n" + "\n".join(rows) + "\n")


def total(counts):
    counts = list(counts)
    return {kind: (sum(c[kind][0] for c in counts), sum(c[kind][1] for c in counts))
            for kind in ("lines", "branches")}


main()
