# SPDX-License-Identifier: BSD-3-Clause
"""Draws bandwidth over time, and when cables were pulled, from the output of examples/failover:

    failover.py RECORD PICTURE.svg
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "benchmarks"))
from chart import INK, Linear, Panel, sheet, text  # noqa: E402

RATE, RAILS, DOWN = "#0b5cad", ("#12a096", "#8f4fbf"), "#d9822b"


def read(path):
    """Returns [(seconds, MB/s)], [(seconds, "down" or "up", rails)], and for each rail
    [(seconds, packets/s)]."""
    rates, events, carried, before = [], [], ([], []), None
    for line in open(path, encoding="utf-8"):
        words = line.split()
        if words and words[0] == "event":
            events.append((float(words[1]), words[2], words[3:]))
        elif words and words[0] == "packets":
            now = [float(word) for word in words[1:]]
            if before:
                for rail, row in enumerate(carried):
                    row.append((now[0], (now[rail + 1] - before[rail + 1]) / (now[0] - before[0])))
            before = now
        elif len(words) == 2 and words[0][0].isdigit():
            rates.append((float(words[0]), float(words[1])))
    return rates, events, carried


def panel(title, unit, events, rows):
    """rows: [(color, [(seconds, value)])], each value an average since the one before it"""
    shown = Panel(title, unit)
    last = max(seconds for _, row in rows for seconds, _ in row)
    across, up = Linear([last], high=last), Linear([value for _, row in rows for _, value in row])
    shown.y_axis(up)
    shown.x_axis(across, list(range(0, int(last) + 1, 4)), lambda seconds: f"{seconds} s")
    down = {}
    for seconds, what, rails in sorted(events):
        for rail in rails:
            if what == "down":
                down[rail] = seconds
            elif rail in down:
                outage(shown, across, rail, down.pop(rail), seconds)
    for color, row in rows:
        points = []
        for (before, _), (seconds, value) in zip([(0.0, 0.0)] + row, row):
            points += [(shown.x(across.at(at)), shown.y(up.at(value))) for at in (before, seconds)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        shown.parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')
    return shown


def outage(shown, across, rail, begin, end):
    left, right = shown.x(across.at(begin)), shown.x(across.at(end))
    row = 10 if rail == "a0" else 22
    shown.parts += [
        f'<rect x="{left:.1f}" y="{shown.y(1):.1f}" width="{right - left:.1f}" '
        f'height="{shown.y(0) - shown.y(1):.1f}" fill="{DOWN}" fill-opacity="0.15"/>',
        text((left + right) / 2, shown.y(1) + row, rail, 10, INK, "middle")]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    rates, events, carried = read(sys.argv[1])
    if not rates:
        sys.exit(f"failover.py: {sys.argv[1]} has no rates")
    words = "two rails of 40 Mbit/s between two emulated machines"
    shown = [panel("Received by one rank", "MB/s", events, [(RATE, rates)])]
    if carried[0]:
        shown.append(panel("Sent by its rails", "packets/s", events, list(zip(RAILS, carried))))
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        out.write(sheet("adaptib: a job that goes on", words,
                        [(RATE, "received"), (RAILS[0], "a0"), (RAILS[1], "a1"), (DOWN, "cable out")],
                        shown))


if __name__ == "__main__":
    main()
