#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks what ompi_info shows of the parameters, with the components of the release build:

* every parameter's help text ends with its default and its range, and the default named is the value
  shown; its level is from 1 to 9,
* every shared one is a synonym of opal_common_adaptib_*, and takes its value from either spelling,
* the table of docs/parameters.md says the same of each; --table prints what the table should be, and
  --write puts it there.
"""

import collections
import os
import re
import subprocess
import sys

import tables

COMMAND = ["ompi_info", "--param", "mtl", "adaptib", "--level", "9", "--parsable"]
PAGE = "docs/parameters.md"
SHOWN = re.compile(r"\| `\w+` \|.*\|.*\| \d \|")
LINE = re.compile(r"mca:mtl:adaptib:param:(mtl_adaptib_\w+):(synonym_of:name|\w+):(.*)")


def parameters(**settings):
    """name -> attribute -> text, with parameters set in the environment"""
    environment = dict(os.environ, **{"OMPI_MCA_" + name: text for name, text in settings.items()})
    text = subprocess.run(COMMAND, check=True, capture_output=True, text=True,
                          env=environment).stdout
    found = collections.defaultdict(dict)
    for match in map(LINE.fullmatch, text.splitlines()):
        if match:
            name, key, value = match.groups()
            found[name][key] = value.strip('"')
    return found


def problems_of(name, row):
    said = re.search(r"\(default: (.*), range: (.*)\)$", row["help"])
    if not said:
        yield f"{name}: the help does not end with default and range: {row['help']}"
        return
    if said.group(1) != row["value"] and not (row["type"] == "double" and
                                              float(said.group(1)) == float(row["value"])):
        yield f"{name}: the value is {row['value']}, the help says {row['help']}"
    if not re.fullmatch(r"-?[\d.]+?\.\.-?[\d.]+|[\w:-]+(\|[\w:-]+)+|(\w+\|)+[^ |]+\.\.\.", said.group(2)):
        yield f"{name}: the range is no range: {row['help']}"
    if not 1 <= int(row["level"]) <= 9:
        yield f"{name}: level {row['level']}"
    shared = row.get("synonym_of:name")
    if shared and shared != name.replace("mtl_", "opal_common_", 1):
        yield f"{name}: a synonym of {shared}"


def problems_of_spellings(row_name):
    for name in (row_name, row_name.replace("mtl_", "opal_common_", 1)):
        value = parameters(**{name: "4096"})[row_name]["value"]
        if value != "4096":
            yield f"{name} is set to 4096, and {row_name} is {value}"


def rows(found):
    for name, row in found.items():
        if "synonym_of:name" not in row:
            continue
        text, default, allowed = re.fullmatch(r"(.*) \(default: (.*), range: (.*)\)",
                                              row["help"]).groups()
        unit = re.search(r" Unit: (\w+)$", text)
        text = text[:unit.start()] if unit else text
        allowed = allowed.replace("|", " or ") + (f" {unit.group(1)}" if unit else "")
        short = name.replace("mtl_adaptib_", "")
        yield f"| `{short}` | {default} | {allowed} | {row['level']} | {text} |"


def main():
    found = parameters()
    if not list(rows(found)):
        sys.exit("ompi_info shows no parameter of adaptib: are the components found?")
    if sys.argv[1:] == ["--write"]:
        tables.write(PAGE, list(rows(found)), SHOWN, "|---|---|---|---|---|")
        return 0
    if sys.argv[1:] == ["--table"]:
        print("\n".join(rows(found)))
        return 0
    problems = [text for name, row in found.items() for text in problems_of(name, row)]
    shared = [name for name, row in found.items() if "synonym_of:name" in row]
    if len(shared) < 5:
        problems.append(f"only {len(shared)} shared parameters: {shared}; are the components found?")
    else:
        problems += problems_of_spellings("mtl_adaptib_eager_limit")
        problems += tables.problems(PAGE, list(rows(found)), SHOWN, "ompi_info")
    print("\n".join(problems + [f"{len(found)} parameters, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
