# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of panels with curves and bars, as SVG text; and the one of benchmarks/compare, whose metrics
and their names it knows. Measures nothing; a panel without data is left out."""

import math
from xml.sax.saxutils import escape

COLORS = {"mtl": "#0b5cad", "btl": "#12a096", "vader": "#d9822b", "ucx": "#8f4fbf"}
NAMES = {"mtl": "adaptib MTL", "btl": "adaptib BTL", "vader": "ob1 + vader", "ucx": "UCX (shm)"}
INK, SOFT, GRID = "#1f2933", "#66727f", "#e4e8ec"
WIDTH, HEIGHT = 420, 300            # of a panel, with its margins
LEFT, RIGHT, TOP, BOTTOM = 58, 16, 44, 40
COLUMNS = 3
HEAD = 92


def text(x, y, words, size=11, color=INK, anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" '
            f'text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>')


def segment(x1, y1, x2, y2, color=GRID, width=1.0, dash=""):
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
            f'stroke-width="{width}"{dashed}/>')


def size_label(size):
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return f"{size // unit}{name}"
    return str(size)


def short(value):
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


class Log:
    """An axis with equal factors; its ticks are powers of ten, or 1, 2, 5 of them on a short one."""

    def __init__(self, values):
        low, high = min(values), max(values)
        self.low, self.high = low / 1.25, high * 1.25
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        steps = (1,) if self.high / self.low > 300 else (1, 2, 5)
        self.ticks = [s * 10.0 ** d for d in decades for s in steps
                      if self.low <= s * 10.0 ** d <= self.high]

    def at(self, value):
        return math.log(value / self.low) / math.log(self.high / self.low)


class Linear:
    def __init__(self, values, high=None):
        self.high = high or 1.12 * max(values)
        rough = self.high / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough)
        self.ticks = [n * step for n in range(int(self.high / step) + 1)]

    def at(self, value):
        return min(value / self.high, 1.0)


class Panel:
    def __init__(self, title, unit):
        self.parts = [
            f'<rect x="6" y="6" width="{WIDTH - 12}" height="{HEIGHT - 12}" rx="6" fill="#ffffff" '
            f'stroke="{GRID}"/>',
            text(LEFT - 40, 28, title, 13, weight="600"),
            text(WIDTH - RIGHT - 4, 28, unit, 11, SOFT, "end")]

    @staticmethod
    def x(fraction):
        return LEFT + fraction * (WIDTH - LEFT - RIGHT)

    @staticmethod
    def y(fraction):
        return HEIGHT - BOTTOM - fraction * (HEIGHT - TOP - BOTTOM)

    def y_axis(self, axis):
        for tick in axis.ticks:
            y = self.y(axis.at(tick))
            self.parts += [segment(LEFT, y, WIDTH - RIGHT, y),
                           text(LEFT - 6, y + 4, short(tick), 10, SOFT, "end")]

    def x_axis(self, axis, sizes, label):
        last = -99.0
        for size in sizes:
            x = self.x(axis.at(size))
            self.parts.append(segment(x, self.y(0), x, self.y(0) + 4, SOFT))
            if x - last > 25:
                self.parts.append(text(x, self.y(0) + 16, label(size), 10, SOFT, "middle"))
                last = x
        self.parts.append(segment(LEFT, self.y(0), WIDTH - RIGHT, self.y(0), SOFT))

    def curve(self, points, color, dash=""):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" '
                          f'stroke-width="2" stroke-linejoin="round"{dashed}/>')
        self.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{color}"/>'
                       for x, y in points]

    def rule(self, y, words):
        self.parts += [segment(LEFT, y, WIDTH - RIGHT, y, INK, 1.2, "5 3"),
                       text(WIDTH - RIGHT - 2, y - 4, words, 10, INK, "end")]

    def svg(self, column, row):
        return (f'<g transform="translate({column * WIDTH + 10},{row * HEIGHT + HEAD})">'
                + "".join(self.parts) + "</g>")


def curves(title, unit, series, log=True, rule=None, label=size_label, first=1):
    """series: [(color, dash, {size: value})]; rule: (value, words); None without data. A size of 0
    stands where `first` is."""
    series = [s for s in series if s[2]]
    if not series:
        return None
    panel = Panel(title, unit)
    sizes = sorted({size for _, _, values in series for size in values})
    values = [value for _, _, row in series for value in row.values()]
    if rule:
        values = values + [rule[0]]
    across = Log([max(size, first) for size in sizes])
    up = Log(values) if log else Linear(values)
    panel.y_axis(up)

    class Across:
        @staticmethod
        def at(size):
            return across.at(max(size, first))

    panel.x_axis(Across, sizes, label)
    if rule:
        panel.rule(panel.y(up.at(rule[0])), rule[1])
    for color, dash, row in series:
        panel.curve([(panel.x(Across.at(size)), panel.y(up.at(row[size]))) for size in sorted(row)],
                    color, dash)
    return panel


def bars(title, unit, groups):
    """groups: [(label, [(color, value)])]"""
    groups = [(label, row) for label, row in groups if row]
    if not groups:
        return None
    panel = Panel(title, unit)
    values = [value for _, row in groups for _, value in row]
    log = min(values) > 0 and max(values) / min(values) > 20
    up = Log([min(values) / 1.5] + values) if log else Linear(values)
    panel.y_axis(up)
    room = 1 / len(groups)
    for index, (label, row) in enumerate(groups):
        wide = min(0.8 * room / len(row), 0.16)
        start = (index + 0.5) * room - wide * len(row) / 2
        for place, (color, value) in enumerate(row):
            x, y = panel.x(start + place * wide), panel.y(up.at(value))
            across = panel.x(start + (place + 1) * wide) - x - 2
            panel.parts += [
                f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{across:.1f}" '
                f'height="{max(panel.y(0) - y, 1):.1f}" fill="{color}" rx="2"/>',
                text(x + 1 + across / 2, y - 4, short(value), 9 if across > 24 else 7.5, INK,
                     "middle")]
        panel.parts.append(text(panel.x((index + 0.5) * room), panel.y(0) + 16, label, 10, SOFT,
                                "middle"))
    panel.parts.append(segment(LEFT, panel.y(0), WIDTH - RIGHT, panel.y(0), SOFT))
    return panel


def heat(title, unit, width, labels, cells, last):
    """cells: {(column, row): value}, of `width` columns and a row for each of `labels`, the first below. The
    darker, the larger the value's logarithm is. `last`: words at the end of the time axis."""
    if not cells:
        return None
    panel = Panel(title, unit)
    most = math.log1p(max(cells.values()))
    high = panel.y(0) - panel.y(1 / len(labels))
    across = panel.x(1 / width) - panel.x(0)
    shades = {}
    for (column, row), value in sorted(cells.items()):
        dark = max(round(math.log1p(value) / most, 1), 0.1)
        shades.setdefault(dark, []).append(
            f"M{panel.x(column / width):.1f} {panel.y((row + 1) / len(labels)):.1f}"
            f"h{across:.1f}v{high:.1f}h-{across:.1f}z")
    panel.parts += [f'<path class="heat" fill="{INK}" fill-opacity="{dark:.1f}" d="{"".join(dots)}"/>'
                    for dark, dots in sorted(shades.items())]
    step = -(-len(labels) // 16)
    for row in range(0, len(labels), step):
        panel.parts.append(text(LEFT - 6, panel.y((row + 0.5) / len(labels)) + 3, labels[row], 9,
                                SOFT, "end"))
    panel.parts += [segment(LEFT, panel.y(0), WIDTH - RIGHT, panel.y(0), SOFT),
                    segment(LEFT, panel.y(0), LEFT, panel.y(1), SOFT),
                    text(LEFT, panel.y(0) + 16, "0", 10, SOFT, "middle"),
                    text(WIDTH - RIGHT, panel.y(0) + 16, last, 10, SOFT, "end")]
    return panel


def panels(medians, ratios):
    def of(name, scale=1.0):
        return [(COLORS[t], "", {s: scale * v for s, v in medians.get((name, t), {}).items()})
                for t in COLORS]

    def ratio_of(*names):
        dashes = ("", "6 3")
        return [(COLORS[t], dashes[i], ratios.get((n, t), {}))
                for i, n in enumerate(names) for t in ("mtl", "btl")]

    def bar(label, name, size):
        return (label, [(COLORS[t], medians[name, t][size]) for t in COLORS
                        if size in medians.get((name, t), {})])

    def depth_label(depth):
        return f"{depth:,}"

    line = medians.get(("line", "line"), {}).get(64)
    peer = (1.0, "better peer")
    depth = [(COLORS[t], dash, medians.get((name, t), {}))
             for name, dash in (("depth_posted", ""), ("depth_unexpected", "6 3")) for t in COLORS]
    alltoall = sorted({s for t in COLORS for s in medians.get(("alltoall", t), {})})
    return [
        curves("Latency, one way", "us", of("latency"),
               rule=(line, "cache line, one way") if line else None),
        curves("Latency, ours / better peer's", "below 1 is better",
               ratio_of("latency"), log=False, rule=peer),
        bars("8-byte messages, 64 in flight", "million/s", [bar("", "rate", 8)]),
        curves("Bandwidth", "GB/s", of("bandwidth", 1e-3), log=False),
        curves("Bandwidth of both directions", "GB/s", of("bidirectional", 1e-3), log=False),
        curves("Bandwidth, peer's / ours", "both ways dashed; below 1 is better",
               ratio_of("bandwidth", "bidirectional"), log=False, rule=peer),
        curves("MPI_Put and flush", "us", of("put")),
        curves("MPI_Get and flush", "us", of("get")),
        curves("Put, ours / better peer's", "get dashed; below 1 is better",
               ratio_of("put", "get"), log=False, rule=peer),
        bars("MPI_Fetch_and_op and flush", "us",
             [bar("MPI_Win_create", "fetch_and_op", 8),
              bar("MPI_Win_allocate", "fetch_and_op_allocate", 8)]),
        curves("8-byte latency, n queued", "us; posted (unexpected dashed)", depth, label=depth_label,
               first=10),
        bars("8 ranks on all cores", "us",
             [bar("barrier", "barrier", 0)]
             + [bar(f"alltoall {size_label(s)}", "alltoall", s) for s in alltoall]),
    ]


def sheet(title, subtitle, legend, shown):
    """A picture of panels, those without data left out. legend: [(color, name)]"""
    shown = [panel for panel in shown if panel]
    columns = min(COLUMNS, max(len(shown), 2))
    rows = -(-len(shown) // columns)
    width, height = columns * WIDTH + 20, rows * HEIGHT + HEAD + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="Helvetica, Arial, sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#f6f8fa"/>',
        text(22, 36, title, 19, weight="600"),
        text(22, 56, subtitle, 11, SOFT)]
    x = 22
    for color, name in legend:
        parts += [f'<rect x="{x}" y="68" width="14" height="14" rx="3" fill="{color}"/>',
                  text(x + 20, 80, name, 12)]
        x += 40 + 8 * len(name)
    parts += [panel.svg(i % columns, i // columns) for i, panel in enumerate(shown)]
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def page(medians, ratios, rounds, machine):
    """medians: (metric, transport) -> {size: value}; ratios: the same, of adaptib's transports."""
    return sheet("adaptib beside Open MPI's own transports, on one host",
                 f"{machine}; medians of {rounds} alternating rounds",
                 [(COLORS[t], name) for t, name in NAMES.items()], panels(medians, ratios))
