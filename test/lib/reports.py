#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reports and traces of whole jobs (the parameters `report` and `trace`), and adaptib_report on
what they wrote.

Runs test/mpi's program `pingpong`, which checks its data, under mpirun as a user would; the
environment is that of test/run.
"""

import base64
import json
import lzma
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import zlib

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.environ.get("ADAPTIB_BUILD_DIR") or os.path.join(TOP, "build")
PROGRAM = os.path.join(BUILD, "release", "test", "mpi", "pingpong")
TOOL = os.path.join(TOP, "opal", "mca", "common", "adaptib", "tools", "adaptib_report")
ADVISE = os.path.join(BUILD, "release", "simulator", "adaptib_advise")
ROUTES = os.path.join(TOP, "simulator", "torture", "routes")
LARGEST_PAGE = 5_000_000  # bytes, of 1,024 processes
LONGEST = 8  # seconds of a processor for it, which takes two
LONGEST_SUMMARY = 2  # for their summary, which takes half of one
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
    check_peers(first)
    tools(first, second, work)


def check_peers(directory):
    """The rows on peers are parts of the counters."""
    for rank in range(3):
        with open(os.path.join(directory, f"rank-{rank}.json"), encoding="utf-8") as file:
            data = json.load(file)
        peers = data["peers"]
        check_history(data)
        check({row["rank"] for row in peers} == {0, 1, 2} - {rank}
              and all(row["fabric"] == "shm" for row in peers), f"the peers of {rank}: {peers}")
        for name in ("ring_sent_bytes", "datagram_sent", "rdma_read_bytes"):
            check(sum(row[name] for row in peers) == data["counters"][name]["value"],
                  f"{name} of {rank} is the sum over its peers")


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
    status, _, _ = tool("--html", page, first, second)
    with open(page, encoding="utf-8") as file:
        both = file.read()
    check(status == 0 and both.count("<h2>Carried by</h2>") == 2 and "<td>ring_sent</td>" in both
          and both.count("<h2>Over time</h2>") == 2 and both.count("rail 0 (shm0): at most") == 2,
          "a page that compares two jobs")
    heat_map(content)
    matrix(first, work)
    large(first, work)
    advice(first, work)
    bad_input(first, work)


def heat_map(page):
    numbers = json.loads(re.search(r"<script type=application/json id=map>(.*?)</script>",
                                   page).group(1))
    cells = base64.b64decode(numbers["layers"]["all"])
    check(numbers["side"] == 3 and len(cells) == 9, "a cell for each pair")
    check(all(cells[row * 3 + column] > 0 for row in range(3) for column in range(3)
              if row != column), f"each process has sent to each other one: {list(cells)}")
    check("process 2 on" in numbers["names"][2], f"names: {numbers['names']}")


def matrix(directory, work):
    status, text, complaints = tool(directory)
    pairs = re.findall(r"process \d on \S+ to process \d on \S+ +\d+ +\d+\.\d % by ", text)
    check(len(pairs) == 6, f"the heaviest pairs:\n{text}")
    status, text, complaints = tool("--matrix", "-", directory)
    lines = text.split("\n")
    check(status == 0 and lines[0] == "rank,host" and lines[1].startswith("0,") and not complaints,
          f"hosts:\n{text}{complaints}")
    check(lines[5] == "from,to,messages,bytes,long_messages,long_bytes"
          and re.fullmatch(r"0,1,\d+,\d+,\d+,\d+", lines[6]) and len(lines) == 13, text)
    older = os.path.join(work, "older")
    shutil.copytree(directory, older)
    path = os.path.join(older, "rank-1.json")
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    del data["peers"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(data, file)
    status, text, complaints = tool("--matrix", "-", older)
    check(status == 1 and not text and "without numbers by peer" in complaints, complaints)
    check(tool(older)[0] == 0, "what an earlier version reported is shown")
    without_history(older)


def without_history(directory):
    """The page says what reports of an earlier version lack; a history that is damaged is none."""
    path = os.path.join(directory, "rank-1.json")
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    history = data.pop("history")
    for change, said in (({}, "1 report of an earlier version without numbers over time"),
                         ({"history": [dict(history[0], time_us=[0])]}, "no report of process 1"),
                         ({"history": [{}]}, "no report of process 1")):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(data | change, file)
        status, page, complaints = tool("--html", "-", directory)
        check(status == 0 and said in page, f"{said}: {complaints}")
        status, page, complaints = tool("--html", "-", directory, directory)
        check(status == 0 and page.count(said) == 2, f"two jobs, {said}: {complaints}")


def check_history(data):
    """The samples of each rail add up to its counter, and nothing fails."""
    check(len(data["history"]) == 1, f"a history of each endpoint: {data['history']}")
    history = data["history"][0]
    times, rails = history["time_us"], history["rails"]
    check(2 <= len(times) <= 128 and times == sorted(times), f"times: {times}")
    for row in rails:
        check(len(row["bytes"]) == len(times) and
              sum(row["bytes"]) == data["counters"][f"rail_bytes_{row['rail']}"]["value"],
              f"bytes of {row['name']}: {row}")
    moved = [sum(sum(row["bytes"]) for row in history[name]) for name in ("rails", "paths")]
    check(moved[0] >= moved[1], f"bytes of rails and paths: {moved}")
    check(rails and history["incidents"] == [] and history["incidents_lost"] == 0,
          f"rails without failures: {history}")


def neighbors(rank):
    """Of a process in a grid of 16 x 8 x 8 that is closed in each direction, and its shares."""
    x, y, z = rank // 64, rank // 8 % 8, rank % 8
    for dx, dy, dz, share in ((1, 0, 0, 1), (0, 1, 0, 2), (0, 0, 1, 4)):
        for sign in (-1, 1):
            yield ((x + sign * dx) % 16 * 64 + (y + sign * dy) % 8 * 8 + (z + sign * dz) % 8, share)
    for bit in range(10):
        yield rank ^ 1 << bit, 1 / 64


def large_history(rank, moved):
    """Over 20 s two rails, of which the second fails for a while on a host, and comes back."""
    count = 128
    parts = [moved // count] * count
    broken = rank // 32 == 7
    second = [0 if broken and 38 <= sample < 76 else part // 19 for sample, part in enumerate(parts)]
    peer = {"job": 0, "rank": rank ^ 32}
    incidents = [{"time_us": time, "kind": kind, **more}
                 for time, kind, more in ((6_000_000, "rail down", {"rail": 1}),
                                          (6_000_100, "repair begun", {**peer, "count": 31}),
                                          (6_004_100, "repaired",
                                           {**peer, "lasted_us": 4000, "count": 31}),
                                          (12_000_000 + 1000 * rank, "rail up", {"rail": 1}))]
    return {"endpoint": 0, "started_ns": 1_790_000_000_000_000_000 + 1_000_000 * rank,
            "time_us": [160_000 * sample for sample in range(count)],
            "rails": [{"rail": 0, "name": "mlx5_0:1", "bytes": parts},
                      {"rail": 1, "name": "mlx5_1:1", "bytes": second}],
            "paths": [{"path": 0, "bytes": [part // 2 for part in parts]},
                      {"path": 1, "bytes": [part // 2 for part in parts]},
                      {"path": 2, "bytes": second}],
            "weights": [{"path": 0, "per_mille": [500] * 20 + [950] * 108},
                        {"path": 1, "per_mille": [500] * 20 + [50] * 108}],
            "incidents": incidents if broken else [], "incidents_lost": 2 if rank == 224 else 0}


def large_job(template, directory, endpoints=1):
    """Reports of 1,024 processes on 32 hosts that exchange with neighbors, made from a real one.

    `endpoints`: number of times that each has the text of the real one, with other numbers.
    """
    os.mkdir(directory)
    with open(template, encoding="utf-8") as file:
        data = json.load(file)
    text = data["endpoints"][0]
    numbers = random.Random(1)
    empty = {name: 0 for name in data["peers"][0]}
    host = [f"node{rank // 32:02}" for rank in range(1024)]
    for rank in range(1024):
        peers = {}
        for peer, share in neighbors(rank):
            local = host[peer] == host[rank]
            row = peers.setdefault(peer, dict(empty, job=data["job"], rank=peer, host=host[peer],
                                              fabric="shm" if local else "verbs"))
            row["ring_sent"] += 100
            row["ring_sent_bytes"] += int(100 * 4096 * share)
            row["rdma_read"] += 10
            row["rdma_read_bytes"] += int(10 * 1048576 * share)
        data.update(rank=rank, host=host[rank], peers=[peers[peer] for peer in sorted(peers)])
        data["endpoints"] = [re.sub(r"\b\d+\b", lambda it: str(numbers.randrange(10 ** 12)), text)
                             for _ in range(endpoints)]
        for name in ("ring_sent", "ring_sent_bytes", "rdma_read", "rdma_read_bytes"):
            data["counters"][name]["value"] = sum(row[name] for row in data["peers"])
        moved = data["counters"]["rdma_read_bytes"]["value"]
        for rail, part in ((0, moved - moved // 20), (1, moved // 20)):
            data["counters"][f"rail_bytes_{rail}"]["value"] = part
        data["history"] = [large_history(rank, moved)]
        data["counters"]["paths_failed"]["value"] = data["counters"]["repairs"]["value"] = \
            3 if rank // 32 == 7 else 0
        with open(os.path.join(directory, f"rank-{rank}.json"), "w", encoding="utf-8") as file:
            json.dump(data, file)


def seconds_of_children():
    """Processor time of the programs that have ended: others on the machine do not prolong it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def large(directory, work):
    many, page = os.path.join(work, "many"), os.path.join(work, "many.html")
    large_job(os.path.join(directory, "rank-0.json"), many)
    begin = seconds_of_children()
    status, text, complaints = tool(many)
    seconds = seconds_of_children() - begin
    check(status == 0 and "1024 processes on 32 hosts" in text and seconds < LONGEST_SUMMARY,
          f"a summary after {seconds:.2f} s:\n{text}{complaints}")
    check(re.search(r"rail down +32 +6\.224 s +6\.255 s", text)
          and re.search(r"repaired +992 ", text), f"incidents by kind:\n{text}")
    check("earlier ones that no report has: 2" in text, f"incidents lost:\n{text}")
    begin = seconds_of_children()
    status, _, complaints = tool("--html", page, many)
    seconds = seconds_of_children() - begin
    check(status == 0 and seconds < LONGEST, f"a page after {seconds:.2f} s: {complaints}")
    with open(page, encoding="utf-8") as file:
        content = file.read()
    check("Rail 1 carried 5.0 % of the bytes" in content
          and "failed first after 6.22 s, in process 224 on node07" in content,
          "advice on the weak rail")
    check("rail 1 (mlx5_1:1): at most" in content and "the first 100 of 128" in content
          and "path 2: at most" in content and "repair begun &times; 31" in content
          and "process 192 first" in content
          and "<h2>Learnt weights</h2>" in content, "rails, incidents and weights over time")
    check(os.path.getsize(page) < LARGEST_PAGE, f"a large page has {os.path.getsize(page)} bytes")
    texts = packed_texts(content)
    check(len(texts) == 1024 and all("adaptib report" in text for text in texts),
          f"{len(texts)} packed texts")
    shutil.rmtree(many)
    long_texts(os.path.join(directory, "rank-0.json"), many, page)


def packed_texts(page):
    data = re.search("<script type=text/plain id=texts>(.*?)</script>", page).group(1)
    return json.loads(zlib.decompress(base64.b64decode(data)))


def long_texts(template, many, page):
    """Processes of 16 endpoints: the page has the texts that fit, and says how many it lacks."""
    large_job(template, many, 16)
    status, _, complaints = tool("--html", page, many)
    with open(page, encoding="utf-8") as file:
        content = file.read()
    count = len(packed_texts(content))
    check(status == 0 and 0 < count < 1024 and f"those of {1024 - count:,} further" in content
          and content.count("data-text=") == count, f"{count} texts: {complaints}")
    check(os.path.getsize(page) < LARGEST_PAGE, f"with long texts {os.path.getsize(page)} bytes")


def advise(*arguments):
    environment = dict(os.environ, PATH=os.path.dirname(TOOL) + os.pathsep + os.environ["PATH"])
    done = subprocess.run([ADVISE, *arguments], capture_output=True, text=True, check=False,
                          env=environment)
    return done.returncode, done.stdout, done.stderr


def advice(directory, work):
    """adaptib_advise on reports of this host, and on the same with hosts of the topology."""
    files = []
    for name in ("fat_tree_12x12x12.topology", "fat_tree_12x12x12_lmc2_compact.lfts"):
        files.append(os.path.join(work, name))
        with lzma.open(os.path.join(ROUTES, name + ".xz")) as packed, open(files[-1], "wb") as file:
            file.write(packed.read())
    network = ["--topology", files[0], "--routes", files[1]]
    status, text, complaints = advise(*network, directory)
    check(status == 1 and not text and "which is none of its 144 hosts" in complaints, complaints)
    elsewhere = os.path.join(work, "elsewhere")
    os.mkdir(elsewhere)
    for rank in range(3):
        with open(os.path.join(directory, f"rank-{rank}.json"), encoding="utf-8") as file:
            data = json.load(file)
        data["host"] = f"H{20 * rank:03}"
        with open(os.path.join(elsewhere, f"rank-{rank}.json"), "w", encoding="utf-8") as file:
            json.dump(data, file)
    status, text, complaints = advise(*network, elsewhere)
    check(status == 0 and "3 ranks on 3 of 144 hosts" in text and "Policy: " in text
          and "Placement: " in text and "Assumptions\n" in text, f"advice:\n{text}{complaints}")
    status, text, complaints = advise(*network, "--json", elsewhere)
    check(status == 0 and json.loads(text)["schema"] == "adaptib-advice", f"{text}{complaints}")
    status, _, complaints = advise(*network, os.path.join(work, "nowhere"))
    check(status == 1 and "finds no traffic" in complaints, complaints)
    status, _, complaints = advise("--topology", files[1], "--routes", files[1], elsewhere)
    check(status == 1 and "neither a switch" in complaints, complaints)
    check(advise("--topology", files[0])[0] == 2, "wrong arguments")
    check(advise("--help")[0] == 0, "help")


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


def trace_file(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def balanced(events):
    """Whether what begins ends once, afterwards, and the ends of others are not there."""
    open_ones = set()
    for event in events:
        if event["ph"] in "be":
            key = (event["pid"], event["cat"], event["name"], event["id2"]["local"])
            if (event["ph"] == "b") == (key in open_ones):
                return False
            open_ones ^= {key}
    return not open_ones


def traces(work):
    for name, transport, more in (("mtl", MTL, []), ("btl", BTL, []), ("four", MTL, [
            "--mca", "opal_common_adaptib_endpoints", "4"]), ("few", MTL, [
            "--mca", "opal_common_adaptib_trace_events", "100"])):
        directory = os.path.join(work, "trace-" + name)
        os.mkdir(directory)
        status, text = job(3, "none", transport, "--mca", "opal_common_adaptib_trace", directory,
                           *more)
        check(status == 0, f"{name}: the traced job failed:\n{text}")
        check(sorted(os.listdir(directory)) == [f"trace-rank-{rank}.json" for rank in range(3)],
              f"{name}: a file of each process: {os.listdir(directory)}")
        joined = os.path.join(work, name + ".json")
        status, text, complaints = tool("--trace", joined, directory)
        check(status == 0 and "3 processes" in text and not complaints, f"{name}: {text}{complaints}")
        data = trace_file(joined)
        events = [event for event in data["traceEvents"] if event["ph"] != "M"]
        kinds = {event["name"] for event in events}
        times = [event["ts"] for event in events]
        check({event["pid"] for event in events} == {0, 1, 2} and min(times) >= 0
              and max(times) < 60e6, f"{name}: all processes, on one time line")
        if name == "few":
            check(data["otherData"]["events_lost"] > 100 and len(events) <= 300
                  and "earlier ones are lost" in text, f"{name}: the latest are kept:\n{text}")
            continue
        check(data["otherData"]["events_lost"] == 0 and balanced(events),
              f"{name}: what begins ends once")
        kinds = {re.sub(r" of endpoint \d", "", kind) for kind in kinds}  # those that were used
        wanted = {"active message sent", "active message arrived"} if name == "btl" else {
            "message sent", "message arrived", "long send with rank 1"}
        check(wanted | {"connected"} <= kinds, f"{name}: {sorted(kinds)}")
        if name != "btl":
            sent = sum(event["name"] == "message sent" for event in events)
            arrived = sum(event["name"] == "message arrived" for event in events)
            check(sent == arrived > 0, f"{name}: {sent} messages sent, {arrived} arrived")
    status, text = job(2, "none", MTL, "--mca", "opal_common_adaptib_trace", "/no/such/directory")
    check(status != 0 and '"/no/such/directory"' in text, f"no such directory:\n{text}")
    broken_traces(os.path.join(work, "trace-mtl"), work)


def broken_traces(directory, work):
    with open(os.path.join(directory, "trace-rank-0.json"), "r+", encoding="utf-8") as file:
        file.truncate(1000)
    with open(os.path.join(directory, "trace-rank-2.json"), "w", encoding="utf-8") as file:
        file.write("[]")
    status, text, complaints = tool("--trace", os.path.join(work, "left.json"), directory)
    check(status == 0 and "1 process," in text and "trace-rank-0.json" in complaints
          and "trace-rank-2.json: no trace of adaptib" in complaints, f"{text}{complaints}")
    for where in (os.path.join(work, "nowhere"), work):
        status, _, complaints = tool("--trace", os.path.join(work, "left.json"), where)
        check(status == 1 and "has no trace of a process" in complaints, complaints)
    status, _, complaints = tool("--trace", os.path.join(work, "no", "left.json"), directory)
    check(status == 1 and "No such file" in complaints, complaints)


def main():
    summaries()
    refusals()
    with tempfile.TemporaryDirectory() as work:
        directories(work)
        traces(work)
    print("reports: " + (f"{failures} failures" if failures else "ok"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
