#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Clicks through the page of adaptib_report --html in Chromium without a window.

Opens the page of a job of 3 processes, and of one of 1,024, in light and dark colors, 800 and 1,920
pixels wide. Checks that it draws in time, asks the network for nothing, is no wider than the window,
can be read, and that all of its controls do what they say. Writes what it sees to
build/pages/*.png. The environment is that of test/run.
"""

import math
import os
import re
import sys
import tempfile
import time

import browser
import reports
from reports import check

PICTURES = os.path.join(reports.BUILD, "pages")
LONGEST = 3.0  # seconds from opening a page until it is drawn
SIZES = ((800, 1000), (1920, 1080))
CONTRAST = 4.5  # of text, least (WCAG 2.1, 1.4.3)

# Contrast of the text that has least, by the formula of WCAG 2.1; of a bar, 3 is enough.
LEAST_CONTRAST = """(() => {
  const light = color => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(x => x / 255).map(
        x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const page = document.createElement('div');
  page.style.color = 'canvas';
  document.body.append(page);
  const behind = light(getComputedStyle(page).color);
  page.remove();
  let least = 21;
  for (const it of document.querySelectorAll('h1,h2,p,th,td,summary,pre')) {
    const own = light(getComputedStyle(it).color);
    least = Math.min(least, (Math.max(own, behind) + 0.05) / (Math.min(own, behind) + 0.05));
  }
  return least;
})()"""

# Colors that the heat map has, and how many of its cells are empty.
CELLS = """(() => {
  const data = heat.getContext('2d').getImageData(0, 0, heat.width, heat.height).data;
  const colors = new Set();
  let empty = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] === 0) { empty++; } else { colors.add(data.slice(i, i + 3).join()); }
  }
  return [[...colors].sort(), empty, heat.width * heat.height];
})()"""


def inside(begin, length):
    """A coordinate near the middle of a cell. Browsers round those of the mouse down."""
    return max(math.ceil(begin), math.floor(begin + length / 2))


def point_at(window, side, row, column):
    """Moves the mouse over the middle of a cell; returns the text that the page then has below."""
    left, top, width, height = window.script(
        "(() => { heat.scrollIntoView({block: 'center'}); const box = heat.getBoundingClientRect();"
        "return [box.left, box.top, box.width, box.height]; })()")
    window.point(inside(left + column * width / side, width / side),
                 inside(top + row * height / side, height / side))
    window.settle()
    return window.script("document.getElementById('said').textContent")


def look_at(window, name, page, size, dark):
    """Opens the page in one size and choice of colors, and returns the heat map's colors."""
    what = f"{name}, {size[0]} pixels, {'dark' if dark else 'light'}"
    window.look(*size, dark)
    seconds = min(window.open(page) for _ in range(3))  # Other work on the machine delays some.
    check(seconds < LONGEST, f"{what}: drawn after {seconds:.2f} s")
    print(f"{what}: drawn after {seconds:.2f} s, {os.path.getsize(page)} bytes")
    check(not window.complaints(), f"{what}: {window.complaints()}")
    wide = window.script("document.documentElement.scrollWidth")
    check(wide <= size[0], f"{what}: the page is {wide} pixels wide")
    contrast = window.script(LEAST_CONTRAST)
    check(contrast >= CONTRAST, f"{what}: a text has a contrast of {contrast:.1f} only")
    window.picture(os.path.join(PICTURES, what.replace(", ", "-").replace(" ", "-") + ".png"))
    window.script("heat.scrollIntoView({block: 'end'})")
    window.settle()
    window.picture(os.path.join(PICTURES, what.replace(", ", "-").replace(" ", "-") + "-map.png"))
    over_time(window, what)
    colors, empty, cells = window.script(CELLS)
    check(len(colors) >= (2 if cells > 9 else 1) and 0 < cells - empty,
          f"{what}: {len(colors)} colors, {empty} of {cells} cells empty")
    return colors


def over_time(window, what):
    """The bars of rails over time are there and can be seen."""
    window.script("document.querySelector('.time').scrollIntoView()")
    window.settle()
    window.picture(os.path.join(PICTURES, what.replace(", ", "-").replace(" ", "-") + "-time.png"))
    sizes = window.script("[...document.querySelectorAll('.time rect')].map(it => {"
                          "const box = it.getBoundingClientRect(); return box.width; })")
    check(sizes and min(sizes) > 1, f"{what}: bars over time: {sizes[:5]}")


def text_of_details(window):
    """The text of the first process, which a large page unpacks first."""
    for _ in range(100):
        text = window.script("document.querySelector('.details pre').innerText")
        if text:
            break
        time.sleep(0.05)
    return text


def controls(window, side):
    """Points, chooses and clicks on the page that is open."""
    far = 2 if side == 3 else 512  # Nobody else near it sends as much to process 0.
    for sender, receiver in ((0, far), (far, 0)):
        said = point_at(window, side, sender, receiver)
        check(re.fullmatch(rf"process {sender} on \S+ to process {receiver} on \S+: about \d.*B",
                           said), said)
    said = point_at(window, side, side - 1, side - 1)
    check(said.endswith(f"to process {side - 1} on {said.split()[3]}: nothing"), said)
    before = window.script(CELLS)
    layers = window.script("[...layer.options].map(option => option.value)")
    check(layers[0] == "all" and ("rings" in layers) == (side <= 512), f"layers: {layers}")
    if len(layers) > 1:
        window.script("layer.focus()")
        window.press("ArrowDown", 40)
        chosen = window.script("layer.value")
        check(chosen == layers[1] and window.script(CELLS) != before,
              f"the arrow key chooses {layers[1]}, not {chosen}, and another picture is drawn")
    opened = "document.querySelector('.details details').open"
    check(not window.script(opened), "details are closed at first")
    window.click(".details summary")
    check(window.script(opened) and "adaptib report" in text_of_details(window),
          "a click opens the details")
    window.click(".details summary")
    check(not window.script(opened), "another click closes them")
    if side > 3:  # The other job has no incidents.
        window.click(".incidents summary")
        check("rail down" in window.script("document.querySelector('.incidents').innerText"),
              "a click opens the table of incidents")
    check(not window.complaints(), f"{window.complaints()}")


def changes_colors(window):
    """The heat map follows the reader who changes to dark colors while the page is open."""
    before = window.script(CELLS)[0]
    window.look(*SIZES[0], True)
    window.settle()
    check(window.script(CELLS)[0] != before, "the heat map follows a change of colors")


def two_jobs(window, small, large):
    """A page that compares two jobs fits both sizes."""
    page = small + "-large.html"
    check(reports.tool("--html", page, small, large)[0] == 0, "the page is written")
    for dark, size in ((True, SIZES[0]), (False, SIZES[1])):
        window.look(*size, dark)
        window.open(page)
        wide = window.script("document.documentElement.scrollWidth")
        check(wide <= size[0] and not window.complaints(), f"two jobs: {wide}, {window.complaints()}")
        check(window.script("document.querySelectorAll('h1').length") == 2, "two jobs have titles")
        ends = window.script("[...document.querySelectorAll('.both > div')].map("
                             "it => it.querySelector('.axis span:last-child').textContent)")
        check(len(ends) == 2 and ends[0] == ends[1], f"two jobs have one axis: {ends}")
        window.script("document.querySelector('.lanes').scrollIntoView()")
        window.settle()
        window.picture(os.path.join(PICTURES, f"two-jobs-{size[0]}-time.png"))
        window.script("window.scrollTo(0, 0)")
        window.picture(os.path.join(PICTURES, f"two-jobs-{size[0]}.png"))


def broken_page(window, work):
    """The checks find a page that is broken."""
    path = os.path.join(work, "broken.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write("<body><img src='http://127.0.0.1:9/x.png'><p style='width:3000px'>x</p>"
                   "<script>nothing.there()</script>")
    window.look(*SIZES[0], False)
    window.open(path)
    complaints = " ".join(window.complaints())
    check("nothing is not defined" in complaints and "asks for http" in complaints, complaints)
    check(window.script("document.documentElement.scrollWidth") > SIZES[0][0], "a wide page")


def main():
    if browser.find() is None:
        print("there is no Chromium; on Debian: apt-get install chromium")
        return 77
    os.makedirs(PICTURES, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, browser.Browser() as window:
        small, large = os.path.join(work, "small"), os.path.join(work, "large")
        os.mkdir(small)
        status, text = reports.job(3, small, reports.MTL)
        check(status == 0, f"the job failed:\n{text}")
        reports.large_job(os.path.join(small, "rank-0.json"), large)
        for directory, side in ((small, 3), (large, 1024)):
            page = directory + ".html"
            check(reports.tool("--html", page, directory)[0] == 0, "the page is written")
            colors = [look_at(window, f"{side} processes", page, size, dark)
                      for dark in (True, False) for size in SIZES]
            check(colors[0] == colors[1] != colors[2] == colors[3], "dark and light differ")
            controls(window, side)
            changes_colors(window)
        two_jobs(window, small, large)
        broken_page(window, work)
    print("page: " + (f"{reports.failures} failures" if reports.failures else "ok"))
    return 1 if reports.failures else 0


if __name__ == "__main__":
    sys.exit(main())
