# SPDX-License-Identifier: BSD-3-Clause
"""Finds the places of the core's sources that a mutant can change, by libclang's syntax tree."""

import itertools
import multiprocessing
import os
import re

from clang import cindex
from clang.cindex import CursorKind as Kind, TypeKind

OPERATORS = {"<": ["<="], "<=": ["<"], ">": [">="], ">=": [">"], "==": ["!="], "!=": ["=="],
             "&&": ["||"], "||": ["&&"], "+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"],
             "%": ["/"], "&": ["|"], "|": ["&"], "<<": [">>"], ">>": ["<<"]}
STATEMENTS = {Kind.CALL_EXPR, Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR,
              Kind.UNARY_OPERATOR, Kind.CXX_STATIC_CAST_EXPR}
# What is a constant there stays one, so that a mutant would change nothing.
CONSTANT = {Kind.ENUM_DECL, Kind.STATIC_ASSERT, Kind.CASE_STMT, Kind.TEMPLATE_TYPE_PARAMETER,
            Kind.TEMPLATE_NON_TYPE_PARAMETER, Kind.TYPE_ALIAS_DECL, Kind.TYPE_REF}
NUMBERS = set(range(TypeKind.BOOL.value, TypeKind.LONGDOUBLE.value + 1))


TOGETHER = 12
walked = set()  # the headers that this process has walked


class Unit:
    """The sites of some sources, and of the headers that they include and none before has."""

    def __init__(self, core, paths, flags):
        self.core = core
        self.sites = set()
        self.texts = {}
        self.files = {}  # whether they are the core's
        together = "".join(f'#include "{path}"\n' for path in paths)
        unit = cindex.Index.create().parse("together.cc", flags, [("together.cc", together)])
        errors = [str(d) for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
        if errors:
            raise SyntaxError(errors[0])
        for cursor in unit.cursor.get_children():
            if self.ours(cursor):
                self.walk(cursor, False)
        walked.update(file for file in self.files if self.files[file])

    def ours(self, cursor):
        file = cursor.location.file
        if file is None or file.name in walked:
            return False
        if file.name not in self.files:
            self.files[file.name] = os.path.realpath(file.name).startswith(self.core)
        return self.files[file.name]

    def text(self, file):
        if file not in self.texts:
            with open(file, "rb") as source:
                self.texts[file] = source.read()
        return self.texts[file]

    # What a macro makes has the range of the macro's use, in which no operator or number is found.
    def range_of(self, cursor):
        start, end = cursor.extent.start, cursor.extent.end
        if start.file is None or end.file is None or start.file.name != end.file.name:
            return None
        return start.file.name, start.offset, end.offset

    def add(self, kind, file, start, end, new):
        name = os.path.relpath(os.path.realpath(file), self.core)
        self.sites.add((name, start, end, kind, new))

    # in_function: a statement of a function's body, which runs
    def walk(self, cursor, in_function):
        kind = cursor.kind
        if kind in CONSTANT or (kind == Kind.VAR_DECL and self.is_constant(cursor)):
            return
        if kind == Kind.FIELD_DECL and cursor.is_bitfield():
            return
        children = list(cursor.get_children())
        if kind == Kind.IF_STMT and self.is_constant(cursor):
            children = children[1:]
        elif in_function:
            self.look(cursor, kind, children)
        for child in children:
            self.walk(child, in_function or child.kind == Kind.COMPOUND_STMT)

    @staticmethod
    def is_constant(cursor):
        return any(token.spelling == "constexpr" for token in list(cursor.get_tokens())[:4])

    def look(self, cursor, kind, children):
        if kind == Kind.BINARY_OPERATOR and len(children) == 2:
            self.operator(cursor, children)
        elif kind == Kind.INTEGER_LITERAL:
            self.constant(cursor)
        elif kind in (Kind.IF_STMT, Kind.WHILE_STMT) and children:
            self.condition(cursor, children)
        elif kind == Kind.COMPOUND_STMT:
            self.statements(children)

    def operator(self, cursor, children):
        whole, left, right = map(self.range_of, [cursor] + children)
        if not whole or not left or not right or left[0] != right[0]:
            return
        types = [child.type.get_canonical().kind.value for child in children]
        text = self.text(whole[0])
        sign = text[left[2]:right[1]].decode().strip()
        compared = sign in ("<", "<=", ">", ">=", "==", "!=")
        if not all(t in NUMBERS or (compared and t in (TypeKind.POINTER.value, TypeKind.ENUM.value))
                   for t in types):
            return
        for other in OPERATORS.get(sign, ()):
            parts = [text[left[1]:left[2]].decode(), text[right[1]:right[2]].decode()]
            self.add("operator", *whole, f"{parts[0]} {other} {parts[1]}")

    def constant(self, cursor):
        where = self.range_of(cursor)
        if where is None:
            return
        text = self.text(where[0])
        before = text[:where[1]].rstrip()[-1:]
        old = text[where[1]:where[2]].decode()
        if before not in b"[<" and re.fullmatch(r"[0-9a-fA-FxX']+[uUlL]*", old):
            self.add("constant", *where, f"{old} + 1")

    def condition(self, cursor, children):
        whole = self.range_of(cursor)
        if not whole or self.text(whole[0])[whole[1]:whole[1] + 2] not in (b"if", b"wh"):
            return  # a macro's
        chosen = children[1] if children[0].kind == Kind.DECL_STMT else children[0]
        where = self.range_of(chosen) if chosen.kind.is_expression() else None
        if where is not None:
            old = self.text(where[0])[where[1]:where[2]].decode()
            self.add("condition", *where, f"!static_cast<bool>({old})")

    def statements(self, children):
        ranges = [self.statement(child) for child in children]
        for this, following in zip(ranges, ranges[1:] + [None]):
            if this is None:
                continue
            text = self.text(this[0])
            self.add("left_out", *this, "")
            if following is not None and not text[this[2]:following[1]].strip():
                self.add("order", this[0], this[1], following[2],
                         text[following[1]:following[2]].decode() + " " +
                         text[this[1]:this[2]].decode())

    def statement(self, child):
        where = self.range_of(child) if child.kind in STATEMENTS else None
        if where is None:
            return None
        end = self.text(where[0])[where[2]:where[2] + 1]
        return (where[0], where[1], where[2] + 1) if end == b";" else None


def sites_of(arguments):
    core, paths, flags = arguments
    try:
        return Unit(core, paths, flags).sites
    except SyntaxError:
        if len(paths) == 1:
            raise
        return set().union(*(sites_of((core, [path], flags)) for path in paths))


def find(core, sources, flags, jobs):
    """All sites, each (file, start, end, kind, new text), in a fixed order. Offsets are in bytes.
    Most of the time goes into headers, so sources of a folder are read together if they can be."""
    core = os.path.realpath(core) + "/"
    found = set()
    groups = []
    for _, group in itertools.groupby(sources, os.path.dirname):
        its = list(group)
        groups += [its[i:i + TOGETHER] for i in range(0, len(its), TOGETHER)]
    with multiprocessing.Pool(jobs) as pool:
        for sites in pool.imap_unordered(sites_of, [(core, group, flags) for group in groups]):
            found |= sites
    return sorted(found)
