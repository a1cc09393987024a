#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What one thread pays for several endpoints in turn (Zambre et al., Evaluating Multiple Endpoints
for MPI with libibverbs), in instructions of 2-byte messages over shared memory, or over reliable
connections of the virtual adapter.

Measured by callgrind, over adaptib_bench_endpoints, which has two processes with 1 to 16 endpoints
each (parameter `endpoints`) in one real process. A window of 64 messages goes over the endpoints in
turn, into posted receives; then the receiver answers with one message. Instructions per message of
the window:
  post       a send, which is complete when it returns
  poll       the sender's passes of progress until the answer has arrived
  completed  both: what the paper calls a completed send
  receive    posting a receive
  arrival    the receiver's passes until the window has arrived; with k endpoints and a window of 64
             a visit of an endpoint finds 64 / k messages, but at most 16
Instructions of a pass of progress that
  single     finds one message, where one receive is posted, on each endpoint in turn
  idle       finds nothing, where nothing is under way
  waiting    finds nothing, with a receive posted on each endpoint
The row `no threads` is a process with one endpoint whose program is not MPI_THREAD_MULTIPLE, so
that calls take no lock; all others take one. Counts differ between runs by less than 1 %, since the
core measures times.

Paper: two hosts, bare verbs, cycles. A post takes 296 cycles with one context (3.1). One context is
fastest (figure 1); with more, the cycles of a completed send grow (figure 2), and so do those spent
in posting and in polling (figure 4); the figures' values are not in the text. Threads are not in
it. Here memory is the network, and instructions are counted, so only the ratios to one endpoint
compare.

With --adapter, messages are posted RDMA writes of one inline request each. The instructions inside
of libibverbs, where the virtual adapter works, are not counted: a real adapter's library takes some
of its own for each call. A post that finds no room counts, and so does the poll after it.

Bounds (--check), against one endpoint with locks:
  completed  at most 1.05 times; with --adapter 1.10, since each endpoint has queues to poll
  idle       at most 3 times
"""

import argparse
import sys
import tempfile

from callgrind import steps_of

COUNTS = (1, 2, 4, 8, 16)
QUICK = (1, 4, 16)
MOST_COMPLETED = 1.05
MOST_COMPLETED_ADAPTER = 1.10
MOST_IDLE = 3.0
COLUMNS = ("post", "poll", "completed", "receive", "arrival", "single", "idle", "waiting")


def count(program, endpoints, threads, adapter, folder):
    """Runs the program; returns instructions by column."""
    arguments = [str(endpoints), "1" if threads else "0"] + (["verbs"] if adapter else [])
    made, steps = steps_of(program, arguments, adapter, folder)
    messages = made["window"] * made["windows"]
    values = {
        "post": steps["post"] / messages,
        "poll": steps["poll_answer"] / messages,
        "receive": steps["receive"] / messages,
        "arrival": steps["poll_window"] / messages,
        "single": steps["poll_single"] / made["singles"],
        "idle": steps["poll_idle"] / made["idle_passes"],
        "waiting": steps["poll_waiting"] / made["idle_passes"],
    }
    values["completed"] = values["post"] + values["poll"]
    return values


def show(name, values, one):
    cells = []
    for column in COLUMNS:
        ratio = "" if one is None else " (%.2f)" % (values[column] / one[column])
        cells.append(("%.0f%s" % (values[column], ratio)).rjust(13))
    print("%-12s%s" % (name, "".join(cells)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--adapter", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    print("%-12s%s" % ("endpoints", "".join(column.rjust(13) for column in COLUMNS)))
    worst = {"completed": 0.0, "idle": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        show("no threads", count(options.program, 1, False, options.adapter, folder), None)
        one = None
        for endpoints in QUICK if options.quick else COUNTS:
            values = count(options.program, endpoints, True, options.adapter, folder)
            one = one or values
            show(str(endpoints), values, one)
            for column in worst:
                worst[column] = max(worst[column], values[column] / one[column])
    print("paper: one context is fastest; a completed send costs more with each further one "
          "(figures 1, 2, 4)")
    bound = MOST_COMPLETED_ADAPTER if options.adapter else MOST_COMPLETED
    good = worst["completed"] <= bound and worst["idle"] <= MOST_IDLE
    print("a completed send over several endpoints costs at most %.3f times that over one "
          "(bound %.2f), an idle pass %.2f times (bound %.1f)" %
          (worst["completed"], bound, worst["idle"], MOST_IDLE))
    if options.check and not good:
        sys.exit(1)


main()
