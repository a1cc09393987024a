# SPDX-License-Identifier: BSD-3-Clause
"""Tables of pages that a check generates: a row is a line that the pattern matches."""

import os

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def lines_of(page):
    with open(os.path.join(TOP, page), encoding="utf-8") as text:
        return text.read().split("\n")


def problems(page, expected, pattern, source):
    """Yields how the rows of the page differ from those that the source (a word for it) gives."""
    shown = [line for line in lines_of(page) if pattern.match(line)]
    for line in expected:
        if line not in shown:
            yield f"{page} lacks: {line}"
    for line in shown:
        if line not in expected:
            yield f"{page} has, and {source} has not: {line}"
    if sorted(shown) == sorted(expected) and shown != expected:
        yield f"{page}: the order differs from that of {source}"


def write(page, expected, pattern, head):
    """Replaces the rows of the page; without any, puts them below the line that ends the head."""
    lines = lines_of(page)
    shown = [number for number, line in enumerate(lines) if pattern.match(line)]
    if shown:
        lines[shown[0]:shown[-1] + 1] = expected
    else:
        below = lines.index(head) + 1
        lines[below:below] = expected
    with open(os.path.join(TOP, page), "w", encoding="utf-8") as text:
        text.write("\n".join(lines))
