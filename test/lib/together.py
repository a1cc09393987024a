#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# Groups sources that one compilation takes together, so that it reads their headers once:
#   together.py SOURCE_DIRECTORY <objects
#
# Standard input has a line for each program or library: the make variable of its objects, and the
# objects (of sources of this directory). Writes together/NAME.cc, which includes the sources of a
# group, and prints the variables with the groups' objects instead of the sources' own.
#
# A group has sources of one folder. No two of them declare the same name for themselves (in
# namespaces without a name, as static, or as a macro). None mentions another's type or constant,
# itself or in its headers, since it must mean a different one. An object that several programs link,
# and one whose source is elsewhere, stay by themselves. The names are found by the layout that
# clang-format gives, so a clash that is missed is possible; it fails to compile.

import functools
import os
import re
import sys

MOST_LINES = 2500  # of a group; larger ones leave a processor idle at the end

TYPE = re.compile(r"(?:template <.*> )?(?:class|struct|union|enum(?: class)?)\s+(?:alignas\(.*?\)\s+)?(\w+)")
ALIAS = re.compile(r"using (\w+) =")
OTHER = re.compile(r"(?<!:)\b(\w+)\s*[(={;\[]")
NO_NAME = re.compile(r"[\s/})#]|using namespace|(?:TEST|TEST_F|TEST_P|TYPED_TEST|INSTANTIATE_\w+)\(")


def own_names(text):
    """The names that a source declares for itself."""
    names = set(re.findall(r"^#\s*define (\w+)", text, re.M))
    inside = False
    for line in text.splitlines():
        if line == "namespace {":
            inside = True
        elif line == "} // namespace":
            inside = False
        elif (inside or line.startswith("static ")) and line and not NO_NAME.match(line):
            found = TYPE.match(line) or ALIAS.match(line) or OTHER.search(line)
            if found:
                names.add(found[1])
    return names


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@functools.cache
def words_of(directory, path):
    """The words of a file and of the headers of this directory that it includes."""
    text = read(path)
    words = set(re.findall(r"\w+", text))
    for name in re.findall(r'^#include "(.*)"', text, re.M):
        header = os.path.join(directory, name)
        if os.path.exists(header):
            words |= words_of(directory, header)
    return words


class Source:
    def __init__(self, directory, path):
        text = read(path)
        self.path = path
        self.lines = text.count("\n")
        self.names = own_names(text)
        # Types and constants, which begin in these ways.
        self.things = {name for name in self.names if re.match("[A-Z]|k[A-Z]", name)}
        self.words = words_of(directory, path)


class Group:
    def __init__(self):
        self.paths, self.lines = [], 0
        self.names, self.things, self.words = set(), set(), set()

    def takes(self, source):
        if self.names & source.names or self.things & source.words or source.things & self.words:
            return False
        return not self.paths or self.lines + source.lines <= MOST_LINES

    def add(self, source):
        self.paths.append(source.path)
        self.lines += source.lines
        self.names |= source.names
        self.things |= source.things
        self.words |= source.words


def group(directory, paths):
    """Groups the sources of one folder."""
    groups = []
    for path in paths:
        source = Source(directory, path)
        chosen = next((each for each in groups if each.takes(source)), None)
        if chosen is None:
            chosen = Group()
            groups.append(chosen)
        chosen.add(source)
    return groups


def write(path, text):
    """Leaves a file alone that is as it should be, so that nothing is compiled again."""
    if os.path.exists(path) and read(path) == text:
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def together(directory, variable, objects, shared):
    """The objects of one program after its sources have been grouped."""
    folders, result = {}, []
    for name in objects:
        stem, ending = os.path.splitext(name)
        source = os.path.join(directory, stem + ".cc")
        if name in shared or name.startswith("..") or not os.path.exists(source):
            result.append(name)
        else:
            folders.setdefault(os.path.dirname(stem), []).append((source, ending))
    for folder, members in folders.items():
        for number, made in enumerate(group(directory, [source for source, _ in members])):
            stem = f"together/{variable.removesuffix('_OBJECTS')}-{folder.replace('/', '-')}-{number}"
            write(stem + ".cc", "".join(f'#include "{source}"\n' for source in made.paths))
            result.append(stem + members[0][1])
    return result


def main():
    directory = sys.argv[1]
    os.makedirs("together/.deps", exist_ok=True)
    programs = [line.split() for line in sys.stdin if line.strip()]
    seen, shared = set(), set()
    for _, *objects in programs:
        shared |= seen & set(objects)
        seen |= set(objects)
    for variable, *objects in programs:
        print(f"{variable}={' '.join(together(directory, variable, objects, shared))}")


main()
