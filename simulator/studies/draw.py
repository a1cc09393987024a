#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws what a study wrote with --output: draw.py STUDY.json PICTURE.svg (simulator/studies/run calls it)."""

import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks"))
import chart  # noqa: E402

# Colors, by the order in which a study first names its series.
PALETTE = ("#0b5cad", "#d9822b", "#12a096", "#8f4fbf", "#c23030", "#66727f", "#a3a61d", "#2f3b47",
           "#e377c2")


def colors_of(panels):
    names = []
    for panel in panels:
        names += [s["name"] for s in panel["series"] if s["name"] not in names]
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}


def drawn(panel, colors):
    if panel["labels"]:
        groups = [(label, [(colors[s["name"]], value) for s in panel["series"]
                           for at, value in s["points"] if at == i])
                  for i, label in enumerate(panel["labels"])]
        return chart.bars(panel["title"], panel["unit"], groups)
    series = [(colors[s["name"]], "", dict(s["points"])) for s in panel["series"]]
    label = chart.size_label if panel["bytes"] else chart.short
    return chart.curves(panel["title"], panel["unit"], series, log=panel["log"],
                        label=lambda size: label(int(size)))


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        study = json.load(file)
    colors = colors_of(study["panels"])
    legend = [(color, name) for name, color in colors.items()]
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(chart.sheet(study["title"], study["machine"], legend,
                               [drawn(panel, colors) for panel in study["panels"]]))


if __name__ == "__main__":
    main()
