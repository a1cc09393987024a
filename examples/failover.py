# SPDX-License-Identifier: BSD-3-Clause
"""Draws bandwidth over time, and when cables were pulled, from the output of examples/failover:

    failover.py RECORD PICTURE.svg
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "benchmarks"))
from chart import INK, Linear, Panel, segment, sheet, text  # noqa: E402

RATE, DOWN = "#0b5cad", "#d9822b"


def read(path):
    """Returns [(seconds, rate)] and [(seconds, what, rails)]."""
    rates, events = [], []
    for line in open(path, encoding="utf-8"):
        words = line.split()
        if words and words[0] == "event":
            events.append((float(words[1]), words[2], words[3:]))
        elif len(words) == 2 and words[0][0].isdigit():
            rates.append((float(words[0]), float(words[1])))
    return rates, events


def panel(rates, events):
    shown = Panel("Bandwidth of one rank while cables are pulled", "MB/s")
    last = max(seconds for seconds, _ in rates)
    across, up = Linear([last], high=last), Linear([rate for _, rate in rates])
    shown.y_axis(up)
    shown.x_axis(across, list(range(0, int(last) + 1, 4)), lambda seconds: f"{seconds} s")
    down = {}
    for seconds, what, rails in sorted(events):
        for rail in rails:
            if what == "down":
                down[rail] = seconds
            elif rail in down:
                outage(shown, across, rail, down.pop(rail), seconds)
    for (before, _), (seconds, rate) in zip([(0.0, 0.0)] + rates, rates):
        shown.parts.append(segment(shown.x(across.at(before)), shown.y(up.at(rate)),
                                   shown.x(across.at(seconds)), shown.y(up.at(rate)), RATE, 2))
    return shown


def outage(shown, across, rail, begin, end):
    left, right = shown.x(across.at(begin)), shown.x(across.at(end))
    row = 4 if rail == "a0" else 12
    shown.parts += [
        f'<rect x="{left:.1f}" y="{shown.y(1):.1f}" width="{right - left:.1f}" '
        f'height="{shown.y(0) - shown.y(1):.1f}" fill="{DOWN}" fill-opacity="0.15"/>',
        text((left + right) / 2, shown.y(1) + row, rail, 9, INK, "middle")]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    rates, events = read(sys.argv[1])
    if not rates:
        sys.exit(f"failover.py: {sys.argv[1]} has no rates")
    words = "two rails of 40 Mbit/s between two emulated machines; a level is an average since the last"
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        out.write(sheet("adaptib: a job that goes on", words,
                        [(RATE, "received"), (DOWN, "cable out")], [panel(rates, events)]))


if __name__ == "__main__":
    main()
