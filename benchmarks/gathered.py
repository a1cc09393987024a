#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the sender of a small message pays for a copy, and for having the device gather it from the
buffer instead (opal/mca/common/adaptib/memory/README.md), in instructions, over the virtual adapter.

Measured by callgrind, over adaptib_bench_gathered: windows of 8 non-blocking sends from one buffer,
over a ring or as datagrams, with the parameter frequent_buffers off and always. Instructions of a
message:
  send       the call
  passes     a message's part of 32 passes of progress after each window, in which the sender takes
             completions, acknowledgments and credit
  total      both
  handling   total of a gathered message less that of a copied one of the shortest length: request,
             completion, entries of the work request, the use of the buffer
  copied     bytes that the sender copies
The instructions inside of libibverbs, where the virtual adapter works, are not counted. So the table
has neither what an adapter's library takes for two more entries, nor the time of a copy: an
instruction copies up to 32 bytes. Then the instructions of FrequentBuffers::use() alone.

Bounds (--check): a gathered message copies nothing; its handling is between 20 and 80 lookups over a
ring (GatherCosts takes it as 40), at all lengths.
"""

import argparse
import sys
import tempfile

from callgrind import steps_of

SIZES = {"ring": (512, 1024, 2048, 4096, 8192, 16384), "datagrams": (512, 1024, 2048, 3072)}
QUICK = {"ring": (512, 8192), "datagrams": (512, 3072)}
LEAST_LOOKUPS, MOST_LOOKUPS = 20, 80


def message(program, channel, mode, size, folder):
    numbers, steps = steps_of(program, (channel, mode, str(size)), True, folder)
    send = steps["send"] / numbers["messages"]
    passes = steps["passes"] / numbers["messages"]
    return {"send": send, "passes": passes, "total": send + passes, "copied": numbers["copied"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    good = True
    columns = ("send", "passes", "total", "copied")
    print("%-10s%7s%s%10s" % ("channel", "bytes", "".join(
        ("%s %s" % (mode, column)).rjust(14) for mode in ("off", "always") for column in columns),
        "handling"))
    handling = {"ring": [], "datagrams": []}
    with tempfile.TemporaryDirectory() as folder:
        for channel, sizes in (QUICK if options.quick else SIZES).items():
            shortest = None
            for size in sizes:
                off = message(options.program, channel, "off", size, folder)
                always = message(options.program, channel, "always", size, folder)
                shortest = shortest or off
                handling[channel].append(always["total"] - shortest["total"])
                print("%-10s%7d%s%10.0f" % (channel, size, "".join(
                    ("%.0f" % values[column]).rjust(14) for values in (off, always)
                    for column in columns), handling[channel][-1]), flush=True)
                good = good and off["copied"] == size and always["copied"] == 0
        numbers, steps = steps_of(options.program, ("uses",), True, folder)
    calls = {name: instructions / numbers["calls"] for name, instructions in steps.items()}
    for name in ("use_frequent", "use_counted", "use_off", "lookup"):
        print("%-14s%6.0f" % (name, calls[name]))
    lookups = [value / calls["lookup"] for value in handling["ring"]]
    good = good and LEAST_LOOKUPS <= min(lookups) and max(lookups) <= MOST_LOOKUPS
    print("gathered: handling over a ring is %.0f to %.0f lookups (bounds %d and %d), as datagrams "
          "%.0f" % (min(lookups), max(lookups), LEAST_LOOKUPS, MOST_LOOKUPS,
                    max(handling["datagrams"]) / calls["lookup"]))
    if options.check and not good:
        sys.exit(1)


main()
