# SPDX-License-Identifier: BSD-3-Clause
"""Counts instructions of the functions step_* of a benchmark program by callgrind."""

import os
import re
import subprocess
import sys

STEP = re.compile(r"^\s*([\d,]+) .*:step_(\w+)")
# The virtual adapter's functions that adaptib calls: no instruction inside of them is counted.
ADAPTER = ("(anonymous namespace)::poll(ibv_cq*, int, ibv_wc*)", "adaptib::hca::add_queue_calls*")


def steps_of(program, arguments, adapter, folder):
    """Runs the program, over the virtual adapter or not; returns the numbers that it prints, by name,
    and instructions by step. Files go to the folder."""
    counts = os.path.join(folder, "counts")
    outside = ["--toggle-collect=" + name for name in ADAPTER] + ["--collect-atstart=yes"]
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + counts] +
        (outside if adapter else []) + [program] + list(arguments),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        sys.exit("%s %s failed:\n%s" % (program, " ".join(arguments), run.stderr))
    words = run.stdout.split()
    numbers = dict(zip(words[::2], map(int, words[1::2])))
    table = subprocess.run(
        ["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", counts],
        stdout=subprocess.PIPE, text=True, check=True).stdout
    steps = {}
    for line in table.splitlines():
        match = STEP.match(line)
        if match:
            steps.setdefault(match.group(2), int(match.group(1).replace(",", "")))
    return numbers, steps
