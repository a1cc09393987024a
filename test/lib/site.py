#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the pages as packaging/pages copies and builds them:

* in the copy for packages, each link leads to a file of the copy,
* in the site, each link leads to a file of the site and to a place that is in it,
* in Chromium, if there is one, some pages open without an error and ask the network for nothing.
"""

import html.parser
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse

import browser

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PAGES = os.path.join(TOP, "packaging", "pages")
BUILD = os.environ.get("ADAPTIB_BUILD_DIR") or os.path.join(TOP, "build")
SITE = os.path.join(BUILD, "site")
FEWEST_LINKS = 100
LOOKED_AT = ("index.html", "docs/parameters.html", "docs/troubleshooting.html")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
problems = []


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.places |= {attributes[name] for name in ("id", "name") if name in attributes}
        name = {"a": "href", "img": "src", "link": "href", "script": "src"}.get(tag)
        if name and attributes.get(name):
            self.links.append(attributes[name])


def files_below(folder, ending):
    for base, _, names in os.walk(folder):
        for name in names:
            if name.endswith(ending):
                yield os.path.join(base, name)


def read(path):
    with open(path, encoding="utf-8") as text:
        return text.read()


def check_copy(folder):
    subprocess.run([PAGES, folder], check=True)
    links = 0
    for page in files_below(folder, ".md"):
        for target in LINK.findall(read(page)):
            if re.match(r"[a-z]+:", target):
                continue
            links += 1
            if not os.path.exists(os.path.join(os.path.dirname(page), target)):
                problems.append(f"{os.path.relpath(page, folder)}: {target} is not copied")
    if links < FEWEST_LINKS:
        problems.append(f"only {links} links in the copy; are its pages read?")


def check_site(folder):
    pages = {path: Page(read(path)) for path in files_below(folder, ".html")}
    links = 0
    for path, page in pages.items():
        for link in page.links:
            address = urllib.parse.urlsplit(link)
            if address.scheme or address.netloc:
                continue
            links += 1
            target = os.path.normpath(os.path.join(
                os.path.dirname(path), urllib.parse.unquote(address.path))) if address.path else path
            where = f"{os.path.relpath(path, folder)}: {link}"
            if os.path.basename(path) == "404.html":
                continue  # Its links begin at the top of a server.
            if not os.path.isfile(target) and not os.path.isdir(target):
                problems.append(f"{where} leads to no file")
            elif address.fragment and target in pages and \
                    address.fragment not in pages[target].places:
                problems.append(f"{where} leads to no place of that page")
    if links < FEWEST_LINKS:
        problems.append(f"only {links} links in the site; are its pages read?")


def look_at(folder):
    with browser.Browser() as window:
        window.look(1200, 900, False)
        for name in LOOKED_AT:
            window.open(os.path.join(folder, name))
            problems.extend(f"{name}: {text}" for text in window.complaints())
            window.picture(os.path.join(BUILD, "pages", "site-" + os.path.basename(name) + ".png"))


def main():
    os.makedirs(os.path.join(BUILD, "pages"), exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        check_copy(os.path.join(work, "copy"))
    subprocess.run([PAGES, "--site", SITE], check=True)
    check_site(SITE)
    if browser.find() is not None:
        look_at(SITE)
    for problem in problems:
        print(problem)
    print(f"site: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
