#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reports of whole jobs (the parameter `report`), and adaptib_report on what they wrote.

Runs test/mpi's program `pingpong`, which checks its data, under mpirun as a user would; the
environment is that of test/run.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.environ.get("ADAPTIB_BUILD_DIR") or os.path.join(TOP, "build")
PROGRAM = os.path.join(BUILD, "release", "test", "mpi", "pingpong")
TOOL = os.path.join(TOP, "opal", "mca", "common", "adaptib", "tools", "adaptib_report")
MTL = ["--mca", "pml", "cm", "--mca", "mtl", "adaptib"]
BTL = ["--mca", "pml", "ob1", "--mca", "btl", "adaptib,self"]
failures = 0


def check(condition, what):
    global failures
    if not condition:
        failures += 1
        print(f"FAILED: {what}")


def job(ranks, report, transport, *more):
    command = ["timeout", "-k", "10", "60", "mpirun", "--oversubscribe", "-np", str(ranks),
               *transport, "--mca", "opal_common_adaptib_report", report, *more, PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def tool(*arguments):
    done = subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def summaries():
    for name, transport in (("MTL", MTL), ("BTL", BTL)):
        for more in ([], ["--mca", "opal_common_adaptib_endpoints", "4"]):
            status, text = job(3, "summary", transport, *more)
            check(status == 0, f"{name}: the job failed:\n{text}")
            check(text.count("adaptib summary of the job: 3 processes on 1 host\n") == 1,
                  f"{name}: one summary of all processes:\n{text}")
            sent = re.search(r"messages sent +(\d+) +(\d+) +(\d+)", text)
            check(sent and int(sent.group(1)) > 0, f"{name}: each process has sent something")
            check("no failures" in text, f"{name}: nothing failed:\n{text}")
    status, text = job(2, "none", MTL)
    check(status == 0 and "summary" not in text, f"none is silent:\n{text}")


def refusals():
    status, text = job(2, "/no/such/directory", MTL)
    check(status != 0 and '"/no/such/directory"' in text and "summary" in text,
          f"a directory that is none is refused in plain words:\n{text}")


def directories(work):
    first, second = os.path.join(work, "first"), os.path.join(work, "second")
    for directory, ranks in ((first, 3), (second, 2)):
        os.mkdir(directory)
        status, text = job(ranks, directory, MTL)
        check(status == 0, f"the job with a directory failed:\n{text}")
        check(sorted(os.listdir(directory)) == [f"rank-{rank}.json" for rank in range(ranks)],
              f"a file of each process: {os.listdir(directory)}")
    with open(os.path.join(first, "rank-1.json"), encoding="utf-8") as file:
        data = json.load(file)
    check(data["rank"] == 1 and data["counters"]["ring_sent_bytes"]["unit"] == "bytes",
          "the JSON has rank, counters and units")
    tools(first, second, work)


def tools(first, second, work):
    status, text, complaints = tool(first)
    check(status == 0 and "3 processes on 1 host" in text and "no failures" in text
          and not complaints, f"one page:\n{text}{complaints}")
    status, text, _ = tool(first, second)
    check(status == 0 and re.search(r"ring_sent +\d+ +\d+ +\d", text), f"two jobs:\n{text}")
    status, text, _ = tool("--ranks", first)
    check(status == 0 and text.count("process ") == 3, f"by process:\n{text}")
    page = os.path.join(work, "page.html")
    status, _, _ = tool("--html", page, first)
    with open(page, encoding="utf-8") as file:
        content = file.read()
    check(status == 0 and "<h2>Processes</h2>" in content and "http" not in content,
          "the page is there and needs nothing else")
    status, _, complaints = tool("--html", os.path.join(work, "no", "page.html"), first)
    check(status == 1 and "No such file" in complaints, "a page that cannot be written")
    bad_input(first, work)


def bad_input(good, work):
    bad = os.path.join(work, "bad")
    shutil.copytree(good, bad)
    with open(os.path.join(good, "rank-0.json"), encoding="utf-8") as file:
        text = file.read()
    for name, content in (("rank-0.json", text[:len(text) // 2]), ("rank-3.json", "[1]"),
                          ("rank-4.json", text.replace('"version": 1', '"version": 2')),
                          ("rank-5.json", '{"schema": "adaptib-report", "version": 1}')):
        with open(os.path.join(bad, name), "w", encoding="utf-8") as file:
            file.write(content)
    status, shown, complaints = tool(bad)
    check(status == 0 and "2 processes on 1 host" in shown, f"what can be shown is shown:\n{shown}")
    for part in ("rank-0.json", "rank-3.json: no report of adaptib", "version 2 of the format",
                 "rank-5.json: incomplete", "no report of process 0"):
        check(part in complaints, f"{part} is complained about:\n{complaints}")
    os.mkdir(os.path.join(work, "empty"))
    for directory in (os.path.join(work, "empty"), os.path.join(work, "nowhere")):
        status, _, complaints = tool(directory)
        check(status == 1 and "has no report of a process" in complaints, complaints)
    check(tool()[0] == 2 and tool("--ranks", good, bad)[0] == 2, "wrong arguments")


def main():
    summaries()
    refusals()
    with tempfile.TemporaryDirectory() as work:
        directories(work)
    print("reports: " + (f"{failures} failures" if failures else "ok"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
